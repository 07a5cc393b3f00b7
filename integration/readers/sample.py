"""Writes a small Iceberg table through pyiceberg, for the readers' own tests: every type calve writes, ordinary values
in the first snapshot, the hard ones in the second.

  python sample.py DIRECTORY      makes DIRECTORY/catalog.db with the table public.kinds
"""

import decimal
import pathlib
import sys
import uuid

import pyarrow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

TYPES = [
    ("id", LongType()),
    ("flag", BooleanType()),
    ("small", IntegerType()),
    ("real", FloatType()),
    ("double", DoubleType()),
    ("amount", DecimalType(20, 4)),
    ("day", DateType()),
    ("at", TimestampType()),
    ("instant", TimestamptzType()),
    ("uid", UUIDType()),
    ("raw", BinaryType()),
    ("note", StringType()),
    ("marks", ListType(100, IntegerType(), element_required=False)),
]

# Days and microseconds as Iceberg stores them.
DAY = 86_400_000_000
ORDINARY = [
    (1, True, 7, 0.1, 1e15, "1.5", 19_782, 19_782 * DAY + 120_000, -1, b"\x12" * 16, b"\x00\xff", 'é"\n', [1, None]),
    (2,) + (None,) * 12,
]
HARD = [
    # 0001-01-01 BC, and the first instant Postgres has.
    (
        3,
        False,
        -(2**31),
        float("nan"),
        float("-inf"),
        "-9999999999999999.9999",
        -719_528,
        -719_528 * DAY,
        -210_866_803_200_000_000,
        b"\x00" * 16,
        b"",
        "",
        [],
    ),
    # Beyond the years Python knows; the smallest and the largest.
    (
        4,
        True,
        2**31 - 1,
        3.4028235e38,
        5e-324,
        "0.0001",
        2_932_897,
        2_932_897 * DAY,
        9_223_371_331_199_999_999,
        b"\xff" * 16,
        b"\x00",
        "\\N",
        [0],
    ),
]


def rows(schema, values):
    columns = []
    for at, field in enumerate(schema):
        items = [row[at] for row in values]
        if pyarrow.types.is_decimal(field.type):
            items = [
                None if item is None else decimal.Decimal(item).quantize(decimal.Decimal("0.0001")) for item in items
            ]
        if field.name == "uid":
            items = [None if item is None else uuid.UUID(bytes=item).bytes for item in items]
        # Numbers become dates and times in Arrow, past the range of Python's own.
        if pyarrow.types.is_date(field.type):
            columns.append(pyarrow.array(items, pyarrow.int32()).cast(field.type))
        elif pyarrow.types.is_timestamp(field.type):
            columns.append(pyarrow.array(items, pyarrow.int64()).cast(pyarrow.timestamp("us", field.type.tz)))
        else:
            columns.append(pyarrow.array(items, field.type))
    return pyarrow.Table.from_arrays(columns, schema=schema)


def main(directory):
    directory = pathlib.Path(directory).resolve()
    catalog = SqlCatalog("calve", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
    catalog.create_namespace("public")
    fields = [NestedField(number, name, kind, required=name == "id") for number, (name, kind) in enumerate(TYPES, 1)]
    # Without bounds where pyiceberg would make them of Python's dates.
    uncounted = {f"write.metadata.metrics.column.{name}": "counts" for name in ("day", "at", "instant")}
    table = catalog.create_table("public.kinds", Schema(*fields), properties=uncounted)
    schema = table.schema().as_arrow()
    table.append(rows(schema, ORDINARY))
    table.append(rows(schema, HARD))


main(sys.argv[1])
