"""The conversation every reader holds: one JSON request a line on standard input, one JSON answer a line on output.

  {"tables": {"t": TABLE, ..}, "sql": "select .. from t"}   -> {"columns": [..], "rows": [[text or null, ..], ..]}
  {"locate": {"catalog": "lake/catalog.db", "namespace": "public", "table": "orders"}}   -> {"metadata": ".."}
  {"describe": TABLE}   -> {"described": {..}}    (metadata_reader.py only)

TABLE is {"metadata": "<path or file: URI of a .metadata.json>"}, with "snapshot_id" for another snapshot than the
current one. What goes wrong is answered as {"error": ".."}; the reader lives on. The first line says that it is ready.
"""

import contextlib
import json
import os
import sqlite3
import sys
import urllib.parse


def locate(catalog, namespace, table):
    """Where the catalog says that a table's current metadata lies. Never writes, and waits for a writer to finish."""
    # A read-only connection may not make the files that go with a write-ahead log; they are there while calve runs.
    uri = f"file:{urllib.parse.quote(os.path.abspath(catalog))}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
        found = connection.execute(
            "select metadata_location from iceberg_tables where table_namespace = ? and table_name = ?",
            (namespace, table),
        ).fetchall()
    if len(found) != 1:
        raise LookupError(f"{len(found)} tables {namespace}.{table} in {catalog}")
    return found[0][0]


def _said(error):
    """An error's message, without the stack that Java appends to its own."""
    lines = str(error).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("\tat ", "\t... "))).strip()


def serve(version, query, describe=None):
    """Answers requests until the input ends. `query(tables, sql)` returns (columns, rows), `describe(table)` JSON."""
    # Libraries print where they like; only answers may reach the caller.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value, ensure_ascii=False) + "\n")
        answers.flush()

    answer({"ready": version()})
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if "locate" in request:
                answer({"metadata": locate(**request["locate"])})
            elif "describe" in request and describe:
                answer({"described": describe(request["describe"])})
            else:
                columns, rows = query(request["tables"], request["sql"])
                answer({"columns": columns, "rows": rows})
        except Exception as error:  # whatever a reader stumbles over is the answer to this one request
            answer({"error": f"{type(error).__name__}: {_said(error)}"})


def path_of(metadata):
    """A local path from a path or a file: URI."""
    return urllib.parse.unquote(urllib.parse.urlsplit(metadata).path) if metadata.startswith("file:") else metadata
