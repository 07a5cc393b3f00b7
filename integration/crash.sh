#!/usr/bin/env bash
# The crash suite: kills, restarts and damages a replication from a real database, and compares the tables with the source
# after each round. Builds what it needs, with the failpoints and the switchable rules that only tests have.
#
#   integration/crash.sh --source postgres --rounds 20 --seed 1
#   integration/crash.sh --source mysql --rounds 20 --seed 1 --set gtid_mode=OFF       # a setting of the server's
#   integration/crash.sh --source mariadb --version 10.11 --rounds 20 --seed 1
#   integration/crash.sh --source postgres --rounds 3 --seed 1 --mutation no-stamp     # must fail
#
# The last line is RESULT rounds=N kills=K lost=L duplicated=D; the exit code is 0 only when nothing was lost or doubled.
# CALVE_BIN and CALVE_CRASH_BIN name binaries that are built already.
set -euo pipefail

cd "$(dirname "$0")/.."
if [ -z "${CALVE_BIN:-}" ] || [ -z "${CALVE_CRASH_BIN:-}" ]; then
    target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    cargo build --quiet -p calve --features failpoints,mutations
    cargo build --quiet -p calve-integration --bin crash
    export CALVE_BIN=${CALVE_BIN:-$target/debug/calve}
    CALVE_CRASH_BIN=${CALVE_CRASH_BIN:-$target/debug/crash}
fi
exec "$CALVE_CRASH_BIN" "$@"
