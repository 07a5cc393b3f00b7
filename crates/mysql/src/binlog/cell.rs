//! How the cells of one column are read: how long each is in a row, and what becomes of its bytes.

use calve_core::ColumnBuffer;

use super::decimal::Layout;
use super::print::{self, Printed};
use super::table_map::{Shape, code};
use super::value::{CellError, Labels, malformed};
use super::wire::{Malformed, Reader, uint_le};
use super::{decimal, geometry, json, temporal, value};
use crate::charset::Charset;

/// How long a cell is (`Field::pack`, `calc_field_size`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Fixed(usize),
    /// As many bytes as a little-endian number of this many bytes says.
    Prefixed(usize),
}

impl Length {
    /// None for a type that no row of this code can hold.
    pub(super) fn of(shape: Shape) -> Option<Self> {
        let modifier = usize::from(shape.modifier);
        let fraction = |whole: usize| (modifier <= 6).then(|| Self::Fixed(whole + modifier.div_ceil(2)));
        Some(match shape.code {
            code::TINY | code::YEAR => Self::Fixed(1),
            code::SHORT => Self::Fixed(2),
            code::INT24 | code::DATE | code::NEWDATE | code::TIME => Self::Fixed(3),
            code::LONG | code::TIMESTAMP => Self::Fixed(4),
            code::LONGLONG | code::DATETIME => Self::Fixed(8),
            code::FLOAT if modifier == 4 => Self::Fixed(4),
            code::DOUBLE if modifier == 8 => Self::Fixed(8),
            code::TIME2 => fraction(3)?,
            code::TIMESTAMP2 => fraction(4)?,
            code::DATETIME2 => fraction(5)?,
            code::NEWDECIMAL => {
                let [precision, scale] = shape.modifier.to_be_bytes();
                Self::Fixed(Layout::new(precision, scale)?.bytes())
            }
            code::BIT if (1..=64).contains(&modifier) => Self::Fixed(modifier.div_ceil(8)),
            code::ENUM if (1..=2).contains(&modifier) => Self::Fixed(modifier),
            code::SET if matches!(modifier, 1..=4 | 8) => Self::Fixed(modifier),
            code::STRING | code::VAR_STRING | code::VARCHAR | code::VARCHAR_COMPRESSED => {
                Self::Prefixed(if modifier > 255 { 2 } else { 1 })
            }
            code::BLOB | code::BLOB_COMPRESSED | code::JSON | code::GEOMETRY | code::VECTOR
                if (1..=4).contains(&modifier) =>
            {
                Self::Prefixed(modifier)
            }
            _ => return None,
        })
    }

    pub(super) fn take<'a>(self, reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Fixed(bytes) => reader.take(bytes),
            Self::Prefixed(bytes) => {
                let length = reader.uint(bytes)?;
                reader.take_u64(length)
            }
        }
    }
}

/// Memory that values are put together in, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    text: Vec<u8>,
    inflated: Vec<u8>,
}

/// What becomes of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Up to `int` in the lake, or `long`.
    Int {
        unsigned: bool,
        long: bool,
    },
    UnsignedLong,
    /// `BIGINT UNSIGNED` where a long is wanted.
    UnsignedAsLong,
    /// `TINYINT(1)` where it is wanted as a boolean.
    Flag,
    Float {
        /// Whether zero has a sign. MariaDB stores one that a number too small for the type leaves behind, and gives it to nobody who
        /// reads the column; no DOUBLE of it has one.
        signed_zero: bool,
    },
    Double,
    /// `FLOAT` where a double is wanted.
    FloatAsDouble {
        signed_zero: bool,
    },
    Decimal(Layout),
    /// As a decimal of other digits than its own.
    DecimalAs {
        layout: Layout,
        precision: u8,
        scale: u8,
    },
    /// Kept as the server prints it.
    Printed(Printed),
    DecimalText {
        layout: Layout,
        zerofill: bool,
    },
    Bit,
    Bits(u16),
    Year,
    Date,
    Time(u16),
    Datetime(u16),
    Instant(u16),
    OldTime,
    OldDatetime,
    OldInstant,
    Text {
        charset: Charset,
        /// Of a CHAR.
        pad_spaces: bool,
        compressed: bool,
    },
    Bytes {
        compressed: bool,
    },
    /// `BINARY(n)`.
    Padded(usize),
    Label(Labels),
    Labels(Labels),
    Json,
    Geometry,
    Vector,
    Uuid,
    /// As text.
    UuidText,
    Inet4,
    Inet6,
}

impl Kind {
    /// Appends a cell. On an error nothing was.
    pub(super) fn push(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Int { unsigned: false, long } => value::push_signed(value::signed_le(bytes), *long, out),
            // Four bytes at most.
            Self::Int { unsigned: true, long } => value::push_signed(uint_le(bytes).cast_signed(), *long, out),
            Self::UnsignedLong => {
                value::push_unsigned_long(uint_le(bytes), out);
                Ok(())
            }
            Self::UnsignedAsLong => value::push_unsigned_as_long(uint_le(bytes), out),
            Self::Flag => value::push_flag(value::signed_le(bytes), out),
            Self::Float { signed_zero } => {
                out.push_f32(float(bytes, *signed_zero)?);
                Ok(())
            }
            Self::Double => {
                out.push_f64(f64::from_le_bytes(array(bytes, "a DOUBLE of 8 bytes")?));
                Ok(())
            }
            Self::FloatAsDouble { signed_zero } => {
                out.push_f64(float(bytes, *signed_zero)?.into());
                Ok(())
            }
            Self::Decimal(layout) => decimal::push_decimal(bytes, *layout, out),
            Self::DecimalAs { layout, precision, scale } => {
                scratch.text.clear();
                decimal::write_text(bytes, *layout, false, &mut scratch.text)?;
                decimal::push_decimal_of_text(&scratch.text, *precision, *scale, out)
            }
            Self::Printed(printed) => push_printed(*printed, bytes, out),
            Self::DecimalText { layout, zerofill } => {
                decimal::push_decimal_text(bytes, *layout, *zerofill, &mut scratch.text, out)
            }
            Self::Bit => value::push_bit(bytes, out),
            Self::Bits(bits) => value::push_bits(bytes, *bits, out),
            Self::Year => {
                let [year] = array(bytes, "a YEAR of 1 byte")?;
                value::push_year(year, out);
                Ok(())
            }
            Self::Date => temporal::push_date(temporal::read_date(bytes), out),
            Self::Time(decimals) => temporal::push_time(temporal::read_time(bytes, *decimals)?, out),
            Self::Datetime(decimals) => {
                let (date, time) = temporal::read_datetime(bytes, *decimals)?;
                temporal::push_datetime(date, time, out)
            }
            Self::Instant(decimals) => {
                let (seconds, microsecond) = temporal::read_instant(bytes, *decimals)?;
                temporal::push_instant(seconds, microsecond, out)
            }
            Self::OldTime => temporal::push_time(temporal::read_old_time(bytes), out),
            Self::OldDatetime => {
                let (date, time) = temporal::read_old_datetime(bytes)?;
                temporal::push_datetime(date, time, out)
            }
            Self::OldInstant => temporal::push_instant(temporal::read_old_instant(bytes), 0, out),
            Self::Text { charset, pad_spaces, compressed } => {
                let bytes = inflated(bytes, *compressed, &mut scratch.inflated)?;
                value::push_text(bytes, *charset, *pad_spaces, &mut scratch.text, out)
            }
            Self::Bytes { compressed } => Ok(out.push_bytes(inflated(bytes, *compressed, &mut scratch.inflated)?)?),
            Self::Padded(length) => value::push_padded(bytes, *length, &mut scratch.text, out),
            Self::Label(labels) => value::push_label(uint_le(bytes), labels, out),
            Self::Labels(labels) => value::push_labels(uint_le(bytes), labels, &mut scratch.text, out),
            Self::Json => json::push_json(bytes, &mut scratch.text, out),
            Self::Geometry => geometry::push_geometry(bytes, &mut scratch.text, out),
            Self::Vector => value::push_vector(bytes, out),
            Self::Uuid => value::push_uuid(bytes, out),
            Self::UuidText => value::push_uuid_as_text(bytes, out),
            Self::Inet4 => value::push_inet4(bytes, out),
            Self::Inet6 => value::push_inet6(bytes, out),
        }
    }

    /// The value nearest to a cell that cannot be held, as the number that its type counts it by. None where none is.
    #[cold]
    pub(super) fn nearest(&self, bytes: &[u8]) -> Option<i128> {
        match self {
            Self::Flag => Some((value::signed_le(bytes) > 0).into()),
            Self::UnsignedAsLong => Some(i64::MAX.into()),
            Self::DecimalAs { layout, precision, scale } => {
                let mut text = Vec::new();
                decimal::write_text(bytes, *layout, false, &mut text).ok()?;
                decimal::nearest_of_text(&text, *precision, *scale)
            }
            Self::Date => temporal::nearest_day(temporal::read_date(bytes)),
            Self::Time(decimals) => Some(temporal::nearest_time(temporal::read_time(bytes, *decimals).ok()?)),
            Self::OldTime => Some(temporal::nearest_time(temporal::read_old_time(bytes))),
            Self::Datetime(decimals) => {
                let (date, time) = temporal::read_datetime(bytes, *decimals).ok()?;
                temporal::nearest_datetime(date, time)
            }
            Self::OldDatetime => {
                let (date, time) = temporal::read_old_datetime(bytes).ok()?;
                temporal::nearest_datetime(date, time)
            }
            _ => None,
        }
    }

    /// Appends a document that the log has as changes of the one before.
    pub(super) fn push_json_diff(
        before: &[u8],
        diff: &[u8],
        scratch: &mut Scratch,
        out: &mut ColumnBuffer,
    ) -> Result<(), CellError> {
        super::json_diff::push_changed(before, diff, &mut scratch.text, out)
    }
}

fn float(bytes: &[u8], signed_zero: bool) -> Result<f32, CellError> {
    let value = f32::from_le_bytes(array(bytes, "a FLOAT of 4 bytes")?);
    // Of two zeros the sum is the one without a sign.
    Ok(if signed_zero { value } else { value + 0.0 })
}

fn push_printed(printed: Printed, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    match printed {
        Printed::Number { width, unsigned: true } => print::push_number(uint_le(bytes).into(), width, out),
        Printed::Number { width, unsigned: false } => print::push_number(value::signed_le(bytes).into(), width, out),
        Printed::Year => {
            let [year] = array(bytes, "a YEAR of 1 byte")?;
            print::push_year(value::year(year).into(), out)
        }
        Printed::Date => print::push_date(temporal::read_date(bytes), out),
        Printed::Time(digits) => print::push_time(temporal::read_time(bytes, digits)?, digits, out),
        Printed::Datetime(digits) => {
            let (date, time) = temporal::read_datetime(bytes, digits)?;
            print::push_datetime(date, time, digits, out)
        }
        Printed::Instant(digits) => {
            let (seconds, microsecond) = temporal::read_instant(bytes, digits)?;
            print::push_instant(seconds, microsecond, digits, out)
        }
    }
}

fn array<const N: usize>(bytes: &[u8], expected: &'static str) -> Result<[u8; N], CellError> {
    bytes.try_into().map_err(|_| malformed(expected))
}

fn inflated<'a>(bytes: &'a [u8], compressed: bool, into: &'a mut Vec<u8>) -> Result<&'a [u8], CellError> {
    if !compressed {
        return Ok(bytes);
    }
    value::decompress(bytes, into)?;
    Ok(into)
}
