"""Another writer of the same tables: changes one through pyiceberg and the lake's own catalog, as somebody else's job would.

  foreign.py CATALOG.db NAMESPACE TABLE append '[{"id": 1, ..}, ..]'
  foreign.py CATALOG.db NAMESPACE TABLE delete 'id = 5'
  foreign.py CATALOG.db NAMESPACE TABLE rollback SNAPSHOT_ID
  foreign.py CATALOG.db NAMESPACE TABLE tag SNAPSHOT_ID NAME
  foreign.py CATALOG.db NAMESPACE TABLE add-column NAME
  foreign.py CATALOG.db NAMESPACE TABLE add-partition COLUMN

Prints the id of the table's current snapshot afterwards. Runs in the readers' Python environment.
"""

import json
import os
import sys

import pyarrow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType


def rows_as(schema, rows):
    """Rows with the table's own Arrow schema; columns that are not given are NULL."""
    arrow = schema.as_arrow()
    return pyarrow.Table.from_pylist([{name: row.get(name) for name in arrow.names} for row in rows], schema=arrow)


def main(catalog_file, namespace, name, action, *rest):
    catalog = SqlCatalog("calve", uri=f"sqlite:///{os.path.abspath(catalog_file)}")
    table = catalog.load_table((namespace, name))
    match action, rest:
        case "append", [rows]:
            table.append(rows_as(table.schema(), json.loads(rows)))
        case "delete", [rows]:
            table.delete(rows)
        case "rollback", [snapshot]:
            table.manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()
        case "tag", [snapshot, tag]:
            table.manage_snapshots().create_tag(int(snapshot), tag).commit()
        case "add-column", [column]:
            with table.update_schema() as update:
                update.add_column(column, StringType())
        case "add-partition", [column]:
            with table.update_spec() as update:
                update.add_field(column, IdentityTransform(), f"{column}_part")
        case _:
            sys.exit(__doc__)
    print(table.refresh().metadata.current_snapshot_id)


main(*sys.argv[1:])
