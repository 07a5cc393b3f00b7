#!/usr/bin/env python3
"""Makes the captures: for each NAME.sql a binary log file of a real server, and what the server itself says of the tables.

    make.py mysql-9.7 SERVER [NAME ..]

SERVER is a running test server of integration/servers (`servers.py up mysql 9 --name SERVER`). Comments at the head of
a script say how: `-- global: option=value, ..` is set for the script and put back afterwards; binlog_row_metadata is the server's default unless a script sets it.

NAME.tsv holds, for every table of database `cap`, its columns as information_schema describes them and its rows as SELECT
shows them at the end: lines of `table`, `column` and `row`, fields separated by tabs, with \\t, \\n, \\\\ and \\N as in
LOAD DATA. Numbers, dates and text are the server's own text; bytes are hex digits; geometries are EWKB made from ST_SRID
and the stored bytes.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = os.environ.get("CALVE_SERVERS", HERE.parents[4] / "integration" / "servers" / "servers.py")


class Server:
    def __init__(self, name):
        self.name = name
        self.mariadb = b"MariaDB" in self.query("SELECT VERSION()")[0][0]

    def run(self, sql, *options):
        command = [SERVERS, "mysql", self.name, "--", "--default-character-set=utf8mb4", "--batch", *options]
        done = subprocess.run(command, input=sql.encode(), capture_output=True)
        if done.returncode:
            sys.exit(f"{done.stderr.decode()}")
        return done.stdout

    def query(self, sql):
        """Rows of fields; every field is asked for in hex, so that nothing is lost on the way."""
        lines = self.run(sql, "--skip-column-names").splitlines()
        return [line.split(b"\t") for line in lines]

    def hexed(self, expressions, rest):
        sql = "SET time_zone = '+00:00'; SELECT " + ", ".join(f"HEX({e})" for e in expressions) + " " + rest
        return [[None if f == b"NULL" else bytes.fromhex(f.decode()) for f in row] for row in self.query(sql)]

    def binlog(self):
        return self.query("SHOW MASTER STATUS" if self.mariadb else "SHOW BINARY LOG STATUS")[0][0].decode()


def text(expression):
    return f"CONVERT({expression} USING utf8mb4)"


def shown(column, kind):
    """An expression whose text says exactly what the column holds."""
    name = "`" + column.replace("`", "``") + "`"
    if kind == "float":
        # As a double it is printed with all its digits.
        return f"CAST({name} + 0e0 AS CHAR)"
    if kind == "bit":
        return f"CAST({name} + 0 AS CHAR)"
    if kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        return f"CAST(HEX({name}) AS CHAR)"
    if kind in GEOMETRIES:
        return name
    return text(name)


GEOMETRIES = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
}


def ewkb(stored):
    srid, wkb = int.from_bytes(stored[:4], "little"), stored[4:]
    if srid:
        order = "little" if wkb[0] else "big"
        kind = int.from_bytes(wkb[1:5], order) | 0x20000000
        wkb = wkb[:1] + kind.to_bytes(4, order) + srid.to_bytes(4, order) + wkb[5:]
    return wkb.hex().upper().encode()


def field(value):
    if value is None:
        return b"\\N"
    return value.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n")


def describe(server):
    """Lines about every table of database cap."""
    columns = server.hexed(
        [text(c) for c in ("TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "COLUMN_TYPE", "CHARACTER_SET_NAME", "IS_NULLABLE")],
        "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'cap' ORDER BY TABLE_NAME, ORDINAL_POSITION",
    )
    keys = server.hexed(
        [text("TABLE_NAME"), text("COLUMN_NAME"), text("SEQ_IN_INDEX")],
        "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'cap' AND INDEX_NAME = 'PRIMARY'",
    )
    place = {(table, column): number for table, column, number in keys}
    lines = []
    for table in sorted({row[0] for row in columns}):
        lines.append([b"table", table])
        mine = [row[1:] for row in columns if row[0] == table]
        for name, _, full, charset, nullable in mine:
            lines.append([b"column", name, full, charset, nullable, place.get((table, name))])
        kinds = [row[1].decode().lower() for row in mine]
        expressions = [shown(row[0].decode(), kind) for row, kind in zip(mine, kinds)]
        key = sorted((int(n), c) for (t, c), n in place.items() if t == table)
        order = ", ".join(f"`{c.decode()}`" for _, c in key)
        rows = server.hexed(expressions, f"FROM cap.`{table.decode()}`" + (f" ORDER BY {order}" if order else ""))
        for row in rows:
            row = [ewkb(v) if v is not None and k in GEOMETRIES else v for v, k in zip(row, kinds)]
            lines.append([b"row", *row])
    return b"".join(b"\t".join(field(f) for f in line) + b"\n" for line in lines)


def capture(server, directory, name):
    script = (directory / f"{name}.sql").read_text()
    options = {"binlog_row_metadata": "NO_LOG" if server.mariadb else "MINIMAL"}
    for line in re.findall(r"^-- global: (.*)$", script, re.M):
        options.update(pair.split("=") for pair in line.split(", "))
    before = {option: server.query(f"SELECT @@GLOBAL.{option}")[0][0].decode() for option in options}
    for option, value in options.items():
        server.run(f"SET GLOBAL {option} = {value}")
    try:
        server.run("DROP DATABASE IF EXISTS cap")
        server.run("FLUSH BINARY LOGS")
        file = server.binlog()
        server.run(script)
        lines = describe(server)
        server.run("FLUSH BINARY LOGS")
    finally:
        for option, value in before.items():
            server.run(f"SET GLOBAL {option} = {value if value.isdigit() else repr(value)}")
    info = json.loads(subprocess.run([SERVERS, "info", server.name], capture_output=True, check=True).stdout)
    (directory / f"{name}.binlog").write_bytes((pathlib.Path(info["data"]) / file).read_bytes())
    (directory / f"{name}.tsv").write_bytes(lines)
    print(f"{directory.name}/{name}: {(directory / f'{name}.binlog').stat().st_size} bytes")


def main():
    directory, server, *names = sys.argv[1:]
    directory = HERE / directory
    for name in names or sorted(path.stem for path in directory.glob("*.sql")):
        capture(Server(server), directory, name)


main()
