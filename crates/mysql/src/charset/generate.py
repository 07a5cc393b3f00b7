#!/usr/bin/env python3
"""Makes tables.bin and generated.rs: what the servers themselves make of the bytes of each character set.

Each argument is a command that runs the SQL on its standard input in some database and prints rows, values separated by
tabs, such as "mysql -NB db". Give one per server, MySQL first; where two servers read the same bytes differently, this stops.

tables.bin, deflated, holds for each set in the order of generated.rs, as little-endian 16-bit code points with 0 for bytes
that are no character: 256 single bytes, 0xFFFF for the first of several; for sets of two bytes and more the second bytes 0x40
to 0xFE of the first bytes 0x81 to 0xFE; for sets of three bytes the second and third bytes 0xA1 to 0xFE after 0x8F.
"""

import pathlib
import shlex
import struct
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).parent
# Unicode in its own forms, bytes, and what is decoded in another way.
OTHERWISE = ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32", "binary", "ascii", "gb18030"]
LEAD, QUESTION = 0xFFFF, 0x3F
FIRST, SECOND, THIRD = range(0x81, 0xFF), range(0x40, 0xFF), range(0xA1, 0xFF)


def sql(server, text):
    done = subprocess.run(shlex.split(server), input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{server}: {done.stderr.decode()[:2000]}")
    return [line.split("\t") for line in done.stdout.decode().split("\n") if line]


def characters(server, name, sequences):
    """The code point of each sequence that is one character."""
    values = ",".join(f"(X'{sequence.hex()}')" for sequence in sequences)
    rows = sql(
        server,
        f"SET NAMES utf8mb4; CREATE TEMPORARY TABLE b (b VARBINARY(4) PRIMARY KEY); INSERT INTO b VALUES {values};"
        f"SELECT HEX(b), HEX(CONVERT(CONVERT(b USING {name}) USING utf32)) FROM b;",
    )
    found = {}
    for source, target in (row[:2] for row in rows):
        point = int(target, 16) if len(target) == 8 else QUESTION
        if point != QUESTION or source == "3F":
            assert point < LEAD and (point > 0 or source == "00"), (name, source, target)
            found[bytes.fromhex(source)] = point
    return found


def table(servers, name, length):
    sequences = [bytes([a]) for a in range(256)]
    if length > 1:
        sequences += [bytes([a, b]) for a in FIRST for b in SECOND]
    if length > 2:
        sequences += [bytes([0x8F, a, b]) for a in THIRD for b in THIRD]
    found = None
    for server in servers:
        answer = characters(server, name, sequences)
        if found not in (None, answer):
            differing = [key.hex() for key in sequences if found.get(key) != answer.get(key)]
            sys.exit(f"{name}: the servers differ over {differing[:20]}")
        found = answer
    leads = {key[0] for key in found if len(key) > 1}
    singles = [LEAD if a in leads else found.get(bytes([a]), 0) for a in range(256)]
    assert not any(bytes([a]) in found for a in leads), name
    rest = [found.get(sequence, 0) for sequence in sequences[256:]]
    return struct.pack(f"<{256 + len(rest)}H", *singles, *rest)


def collations(servers):
    found = {}
    for server in servers:
        rows = sql(server, "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL")
        columns = sql(
            server,
            "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'ID'",
        )
        if columns[0][0] != "0":
            rows += sql(server, "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY")
        for number, name in (row[:2] for row in rows):
            known = found.setdefault(int(number), name)
            assert known == name, f"collation {number} is of {known} and of {name}"
    runs = []
    for number in sorted(found):
        if runs and runs[-1][1] == number - 1 and runs[-1][2] == found[number]:
            runs[-1][1] = number
        else:
            runs.append([number, number, found[number]])
    return runs


def main(servers):
    listed = {}
    for server in servers:
        for name, length in (row[:2] for row in sql(server, "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS")):
            listed[name] = int(length)
    names = sorted(set(listed) - set(OTHERWISE))
    packed = b"".join(table(servers, name, listed[name]) for name in names)
    (HERE / "tables.bin").write_bytes(zlib.compress(packed, 9))
    versions = ", ".join(sql(server, "SELECT VERSION()")[0][0].split("-0+")[0] for server in servers)
    lines = [
        "//! Made by generate.py; the servers were:",
        f"//! {versions}.",
        "",
        "use super::tables::Shape;",
        "",
        "/// The sets in `tables.bin`, in its order.",
        "#[rustfmt::skip]",
        "pub(super) const SETS: &[(&str, Shape)] = &[",
        *(f'    ("{name}", Shape::{["Single", "Double", "Triple"][listed[name] - 1]}),' for name in names),
        "];",
        "",
        "/// Bytes of `tables.bin` when inflated.",
        f"pub(super) const TABLE_BYTES: usize = {len(packed):_};",
        "",
        "/// Numbers of collations, first and last of a run, and the character set that they are of.",
        "#[rustfmt::skip]",
        "pub(super) const COLLATIONS: &[(u16, u16, &str)] = &[",
        *(f'    ({first}, {last}, "{name}"),' for first, last, name in collations(servers)),
        "];",
        "",
    ]
    (HERE / "generated.rs").write_text("\n".join(lines))


main(sys.argv[1:])
