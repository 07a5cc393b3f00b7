#!/usr/bin/env bash
# Measures calve beside the limit that the source, the driver or the encoder sets; integration/README.md says what each
# scenario is, what was measured, and where the time goes.
#
#   integration/bench.sh postgres-load                          the scenario's own size; the last line is RESULT ..
#   integration/bench.sh postgres-load --rows 500000 --pairs 1  a small one
#   integration/bench.sh big-transaction --source mysql
#   integration/bench.sh micro                                  decoders, fold and writer by themselves, in rows/s of one core
#
# Scenarios: postgres-load, postgres-stream-insert, -update, -mix; mysql-load, mysql-stream-insert, -update, -mix (also with
# --source mariadb); big-transaction, many-tables, latency. Builds the release profile, ten minutes of two cores the first time.
# CALVE_BIN and CALVE_BENCH_BIN name binaries that are built already. Servers and data go when it ends, however it ends.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
cd "$repository"

case ${1:-} in '' | -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;; esac

# calve is built by itself, as it ships. The rest is chosen together with it, so that their dependencies are the same and are
# built once.
micro() {
    need_toolchain
    cargo test --quiet --release --locked -p calve -p calve-testkit -p calve-postgres -p calve-mysql -p calve-iceberg --lib -- \
        --ignored --nocapture --test-threads 1 speed:: | grep 'rows/s'
}

if [ "$1" = micro ]; then
    micro
    exit
fi

if [ -z "${CALVE_BIN:-}" ] || [ -z "${CALVE_BENCH_BIN:-}" ]; then
    need_toolchain
    cargo build --quiet --release --locked -p calve
    cargo build --quiet --release --locked -p calve -p calve-integration --bin bench
    export CALVE_BIN=${CALVE_BIN:-$target/release/calve}
    CALVE_BENCH_BIN=${CALVE_BENCH_BIN:-$target/release/bench}
fi
case $1 in mysql-stream-mix) need sysbench=sysbench ;; esac

TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/calve-bench.XXXXXX")
export TMPDIR
bench=
finish() {
    [ -z "$bench" ] || { kill "$bench" 2>/dev/null && wait "$bench"; } || true
    "$servers" sweep || true
    rm -rf "$TMPDIR"
}
trap finish EXIT
trap 'exit 130' INT TERM

# In the background, so that a signal is heeded at once.
"$CALVE_BENCH_BIN" "$@" &
bench=$!
status=0
wait "$bench" || status=$?
bench=
exit $status
