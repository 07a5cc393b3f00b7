"""One text for one value, whichever reader read it: the text Postgres gives for `value::text`.
(Lists stay lists, of such texts; maps become lists of their pairs of key and value.)

Readers hand over numbers that lose nothing on the way (days, microseconds, bytes, decimals), never text or dates of
their own making: Python's dates end at the years 1 and 9999, and each engine formats differently. The kind says what
the number means. Where Postgres would consult a setting it is DateStyle ISO, TimeZone UTC, bytea_output hex.
"""

import contextlib
import datetime
import struct

DAY_US = 86_400_000_000


def text(kind, value):
    """The canonical text of a value, None for NULL. `kind` is a word of KINDS, a function, ("list", kind), or ("map", kind, kind)
    where the value is a list of pairs."""
    if value is None:
        return None
    if callable(kind):
        return kind(value)
    if isinstance(kind, tuple) and kind[0] == "map":
        return [[text(part, item) for part, item in zip(kind[1:], pair, strict=True)] for pair in value]
    if isinstance(kind, tuple):
        return [text(kind[1], item) for item in value]
    return KINDS[kind](value)


def decimal(scale):
    """The kind of decimals whose reader may hand them over with another scale than the column has."""
    return lambda value: format(value, f".{scale}f")


def _boolean(value):
    return "true" if value else "false"


def _float(value):
    return _shortest(value, 6, _digits_of_float)


def _double(value):
    return _shortest(value, 15, repr)


def _digits_of_float(value):
    """The shortest decimal that is this 32-bit number again."""
    for precision in range(1, 10):
        shown = f"{value:.{precision - 1}e}"
        # Rounded up, the greatest numbers are none of 32 bits any more.
        with contextlib.suppress(OverflowError):
            if struct.pack("<f", float(shown)) == struct.pack("<f", value):
                return shown
    return repr(value)


def _shortest(value, fixed_below, digits_of):
    """Postgres's notation: plain up to an exponent of 6 (float) or 15 (double), scientific beyond."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shown = digits_of(value)
    sign = "-" if shown.startswith("-") else ""
    mantissa, _, exponent = shown.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The place of the first digit, as in d.ddd * 10^exponent.
    first = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0"
    if first < -4 or first >= fixed_below:
        rest = "." + digits[1:] if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if first < 0 else '+'}{abs(first):02d}"
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{digits}"
    if len(digits) <= first + 1:
        return sign + digits + "0" * (first + 1 - len(digits))
    return f"{sign}{digits[: first + 1]}.{digits[first + 1 :]}"


def _civil(days):
    """(year, month, day) of a count of days since 1970-01-01, for any year (proleptic Gregorian, year 0 is 1 BC)."""
    # 400 years are a whole number of days; shift by them into the range Python's dates have.
    cycles, within = divmod(days + 719_162, 146_097)
    date = datetime.date.fromordinal(within + 1)
    return date.year + 400 * cycles, date.month, date.day


def _date_parts(days):
    year, month, day = _civil(days)
    if year <= 0:
        return f"{1 - year:04d}-{month:02d}-{day:02d}", " BC"
    return f"{year:04d}-{month:02d}-{day:02d}", ""


def _clock(microseconds):
    seconds, fraction = divmod(microseconds, 1_000_000)
    shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return shown + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _date(days):
    return "".join(_date_parts(days))


def _timestamp(microseconds, zone=""):
    days, within = divmod(microseconds, DAY_US)
    date, era = _date_parts(days)
    return f"{date} {_clock(within)}{zone}{era}"


def _timestamptz(microseconds):
    return _timestamp(microseconds, "+00")


def _binary(value):
    return "\\x" + bytes(value).hex()


KINDS = {
    "boolean": _boolean,
    "integer": str,
    "float": _float,
    "double": _double,
    "decimal": lambda value: format(value, "f"),
    "date": _date,
    "time": _clock,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "uuid": lambda value: str(value).lower(),
    "binary": _binary,
    "string": str,
}
