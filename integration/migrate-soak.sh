#!/usr/bin/env bash
# Random migrations: rows and definitions of tables change at random on a real database while calve is killed, away and back;
# again and again the tables are compared with the source. Builds what it needs.
#
#   integration/migrate-soak.sh --source postgres --seed 1 --minutes 5
#   integration/migrate-soak.sh --source mysql --seed 1 --minutes 5
#   integration/migrate-soak.sh --source mariadb --version 10.11 --seed 1 --minutes 5
#
# The last line is RESULT ddl=N rows=N mismatches=N; the exit code is 0 only when all rows were equal.
# CALVE_BIN and CALVE_MIGRATE_BIN name binaries that are built already.
set -euo pipefail

cd "$(dirname "$0")/.."
if [ -z "${CALVE_BIN:-}" ] || [ -z "${CALVE_MIGRATE_BIN:-}" ]; then
    target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    cargo build --quiet -p calve --features failpoints,mutations
    cargo build --quiet -p calve-integration --bin migrate
    export CALVE_BIN=${CALVE_BIN:-$target/debug/calve}
    CALVE_MIGRATE_BIN=${CALVE_MIGRATE_BIN:-$target/debug/migrate}
fi
exec "$CALVE_MIGRATE_BIN" "$@"
