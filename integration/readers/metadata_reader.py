"""pyiceberg's view of a table's metadata: schema, properties, snapshots, and one snapshot's files with their bounds.

It reads no rows: pyiceberg refuses tables with equality deletes.
"""

import importlib.metadata

from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable
from serve import serve

CONTENT = {0: "data", 1: "position deletes", 2: "equality deletes"}


def bounds(schema, encoded):
    """Column bounds by name, each as its value's text (bytes in hex, dates and times as the numbers stored).

    Columns that the table had when the file was written, and has no more, are left out.
    """
    present = set(schema.field_ids)
    found = {}
    for field_id, value in (encoded or {}).items():
        if field_id not in present:
            continue
        decoded = from_bytes(schema.find_type(field_id), value)
        found[schema.find_column_name(field_id)] = decoded.hex() if isinstance(decoded, bytes) else str(decoded)
    return found


def files_of(table, snapshot):
    """The live files of a snapshot, in the order of its manifests."""
    found = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            found.append(
                {
                    "content": CONTENT[int(file.content)],
                    "path": file.file_path,
                    "manifest": manifest.manifest_path,
                    "sequence_number": entry.sequence_number,
                    "snapshot_id": entry.snapshot_id,
                    "spec_id": manifest.partition_spec_id,
                    "records": file.record_count,
                    "bytes": file.file_size_in_bytes,
                    "equality_ids": list(file.equality_ids or []),
                    "lower": bounds(table.schema(), file.lower_bounds),
                    "upper": bounds(table.schema(), file.upper_bounds),
                }
            )
    return found


def snapshot_of(snapshot):
    summary = snapshot.summary
    return {
        "id": snapshot.snapshot_id,
        "parent": snapshot.parent_snapshot_id,
        "sequence_number": snapshot.sequence_number,
        "timestamp_ms": snapshot.timestamp_ms,
        "manifest_list": snapshot.manifest_list,
        "operation": summary.operation.value if summary else None,
        "summary": dict(summary.additional_properties) if summary else {},
    }


def describe(asked):
    table = StaticTable.from_metadata(asked["metadata"])
    metadata = table.metadata
    wanted = asked.get("snapshot_id")
    snapshot = table.current_snapshot() if wanted is None else table.snapshot_by_id(int(wanted))
    if wanted is not None and snapshot is None:
        raise LookupError(f"no snapshot {wanted} in {asked['metadata']}")
    schema = table.schema()
    return {
        "uuid": str(metadata.table_uuid),
        "format_version": metadata.format_version,
        "location": metadata.location,
        "last_sequence_number": metadata.last_sequence_number,
        "properties": dict(metadata.properties),
        "columns": [
            {"id": field.field_id, "name": field.name, "type": str(field.field_type), "required": field.required}
            for field in schema.fields
        ],
        "identifier_field_ids": list(schema.identifier_field_ids),
        "refs": {
            name: {"snapshot_id": ref.snapshot_id, "type": ref.snapshot_ref_type.value}
            for name, ref in metadata.refs.items()
        },
        "current_snapshot_id": metadata.current_snapshot_id,
        "snapshots": [snapshot_of(each) for each in metadata.snapshots],
        "metadata_log": [entry.metadata_file for entry in metadata.metadata_log],
        "manifests": len(snapshot.manifests(table.io)) if snapshot else 0,
        "files": files_of(table, snapshot) if snapshot else [],
    }


def query(_tables, _sql):
    raise NotImplementedError("this reader describes metadata; ask DuckDB or Spark for rows")


serve(lambda: f"pyiceberg {importlib.metadata.version('pyiceberg')}", query, describe)
