"""DuckDB's Iceberg reader behind the conversation of `serve.py`."""

import pathlib

import canonical
import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from serve import path_of, serve

PLAIN = {
    "boolean": "boolean",
    "float": "float",
    "double": "double",
    "decimal": "decimal",
    "uuid": "uuid",
    "blob": "binary",
    "varchar": "string",
    **{
        name: "integer"
        for name in (
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "ubigint",
            "uinteger",
            "utinyint",
            "usmallint",
        )
    },
}
# Numbers instead of DuckDB's dates and times: what they count from is the epoch, or midnight.
COUNTED = {
    "date": ("date", "datediff('day', DATE '1970-01-01', {})"),
    "time": ("time", "datediff('microsecond', TIME '00:00:00', {})"),
    "timestamp": ("timestamp", "epoch_us({})"),
    "timestamp with time zone": ("timestamptz", "epoch_us({})"),
}


def connect():
    connection = duckdb.connect()
    for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
        # The extension ships inside the package; naming its file keeps DuckDB from looking for it elsewhere.
        base = pathlib.Path(next(iter(package.__path__))) / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"load '{base / name}.duckdb_extension'")
    connection.execute("set timezone = 'UTC'")
    # A file's bytes must come from the disk each time: tests damage, delete and replace them.
    connection.execute("set enable_external_file_cache = false")
    return connection


def plan(kind, expression):
    """(SQL that yields a value without loss, canonical kind) for an expression of a DuckDB type."""
    name = kind.id
    if name in ("list", "array"):
        inner, inner_kind = plan(kind.children[0][1], "x")
        return f"list_transform({expression}, lambda x: {inner})", ("list", inner_kind)
    if name == "map":
        (_, key), (_, value) = kind.children
        parts, kinds = zip(*(plan(part, f"x.{name}") for name, part in (("key", key), ("value", value))), strict=True)
        pairs = f"list_transform(map_entries({expression}), lambda x: {{'key': {parts[0]}, 'value': {parts[1]}}})"
        return pairs, ("map", *kinds)
    if name in COUNTED:
        counted, template = COUNTED[name]
        return template.format(expression), counted
    if name in PLAIN:
        return expression, PLAIN[name]
    raise TypeError(f"no canonical text for DuckDB's type {kind}")


def _pairs(kind, value):
    """What Python gets for a list of structs, as pairs."""
    if value is not None and isinstance(kind, tuple) and kind[0] == "map":
        return [tuple(entry.values()) for entry in value]
    return value


def identifier(name):
    return '"' + name.replace('"', '""') + '"'


def scan(table):
    path = path_of(table["metadata"]).replace("'", "''")
    at = f", snapshot_from_id => {int(table['snapshot_id'])}" if table.get("snapshot_id") is not None else ""
    return f"iceberg_scan('{path}'{at})"


def main():
    connection = connect()

    def query(tables, sql):
        for name, table in tables.items():
            connection.execute(f"create or replace temp view {identifier(name)} as select * from {scan(table)}")
        relation = connection.sql(sql)
        columns, kinds = list(relation.columns), list(relation.types)
        # The outer query names columns by place, since the inner one may repeat names.
        planned = [plan(kind, f"c{at}") for at, kind in enumerate(kinds)]
        names = ", ".join(f"c{at}" for at in range(len(kinds)))
        outer = f"select {', '.join(sql for sql, _ in planned)} from ({sql.rstrip().rstrip(';')}) q({names})"
        rows = connection.execute(outer).fetchall()
        texts = [[canonical.text(kind, _pairs(kind, value)) for (_, kind), value in zip(planned, row, strict=True)] for row in rows]
        for name in tables:
            connection.execute(f"drop view {identifier(name)}")
        return columns, texts

    serve(lambda: f"DuckDB {duckdb.__version__}", query)


main()
