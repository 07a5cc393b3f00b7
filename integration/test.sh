#!/usr/bin/env bash
# Everything that says whether calve is right, from formatting to crash rounds on real databases. Needs a Rust toolchain
# and, on a Debian-like machine, root: what else is missing it installs, and it starts the servers it tests against.
#
#   integration/test.sh               all stages, in the order below
#   integration/test.sh unit crash    these only
#
# Stages: fmt clippy docs build servers unit integration crash migrate; and postgis, geometries on a server that has PostGIS,
# which only runs where it is named. Logs go to target/test-logs, and to the terminal when a stage fails.
#
#   CALVE_TEST_POSTGRES_15, _17, _18, _17_POSTGIS; CALVE_TEST_MYSQL_9; CALVE_TEST_MARIADB_10_11, _11_8
#                                      servers to use instead of starting some, as URLs of superusers
#   CALVE_TEST_ENGINE                  docker or chroot, instead of what is found
#   CALVE_TEST_CACHE                   where servers and readers are kept (default /var/cache/calve-test)
#   CRASH_ROUNDS, CRASH_SEED           of the crash stage (default 20 rounds on Postgres, 10 each on MySQL and MariaDB, and a
#                                      random seed)
#   MIGRATE_MINUTES, MIGRATE_SEED      of the migrate stage (default 1 minute each on Postgres, MySQL and MariaDB, and a random
#                                      seed)
set -euo pipefail
source "$(dirname "$0")/lib.sh"
cd "$repository"

default_stages=(fmt clippy docs build servers unit integration crash migrate)
all_stages=("${default_stages[@]}" postgis)
case ${1:-} in -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;; esac
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=("${default_stages[@]}")
for stage in "${stages[@]}"; do
    case " ${all_stages[*]} " in *" $stage "*) ;; *) die "no stage \"$stage\"; there are ${all_stages[*]}" ;; esac
done
wanted() { case " ${stages[*]} " in *" $1 "*) ;; *) return 1 ;; esac }
wanted_any() {
    local one
    for one in "$@"; do wanted "$one" && return; done
    return 1
}

logs=$target/test-logs
mkdir -p "$logs"
export CARGO_TERM_COLOR=never

# One build serves all stages: the workspace with what only tests switch on. Tests run the binary it makes.
build=(--workspace --locked --features calve/failpoints,calve/mutations,calve-postgres/servers,calve-iceberg/servers,calve-mysql/servers)
export CALVE_BIN=${CALVE_BIN:-$target/debug/calve}
export CALVE_CRASH_BIN=${CALVE_CRASH_BIN:-$target/debug/crash}
export CALVE_MIGRATE_BIN=${CALVE_MIGRATE_BIN:-$target/debug/migrate}

passed=0 failed=0
table=""

# Runs a stage with its output in a log, and counts its tests where the runner says how many there were, else itself.
stage() {
    local name=$1 log=$logs/$1.log started=$SECONDS outcome=ok took ok bad
    shift
    say "== $name"
    "$@" >"$log" 2>&1 </dev/null || outcome=FAILED
    took=$((SECONDS - started))
    if [ $outcome != ok ]; then
        say "-- $name failed; the end of $log:"
        tail -n 150 "$log" >&2
    fi
    read -r ok bad < <(count_tests "$log")
    # A runner that failed without counting a failed test (it did not build, it ran none) has failed itself.
    if [ $outcome != ok ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ $outcome = ok ] && [ "$ok" = 0 ]; then ok=1; fi
    passed=$((passed + ok)) failed=$((failed + bad))
    table+=$(printf '%-12s %-7s %4d:%02d  %s' "$name" $outcome $((took / 60)) $((took % 60)) "$ok passed, $bad failed")$'\n'
    [ $outcome = ok ]
}

# "PASSED FAILED" as nextest ("Summary [..] 9 tests run: 8 passed, 1 failed") or cargo test (a line a binary) counted.
count_tests() {
    awk '
        /^ *Summary \[.*tests? run:/ || /^test result:/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed += $(i - 1)
                if ($i ~ /^(failed|timed)/) failed += $(i - 1)
            }
        }
        END { print passed + 0, failed + 0 }
    ' "$1"
}

not_run() {
    say "== $1: not run, since $2 failed"
    failed=$((failed + 1))
    table+=$(printf '%-12s %-7s %7s  %s' "$1" "not run" "" "$2 failed")$'\n'
}

# Where nextest is installed each test is a process of its own; otherwise cargo's own runner does.
run_tests() {
    if command -v cargo-nextest >/dev/null; then
        cargo nextest run "${build[@]}" --no-fail-fast "$@"
    else
        cargo test "${build[@]}" --no-fail-fast "$@"
    fi
}

# Stages of several commands join them with &&: `set -e` does nothing in a function whose failure is looked at.
clippy() {
    # The second time as shipped, without what only tests switch on.
    cargo clippy "${build[@]}" --all-targets -- -D warnings && cargo clippy --workspace --locked -- -D warnings
}

docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc "${build[@]}" --no-deps && cargo test "${build[@]}" --doc
}

# The tests on whole pipelines share servers and readers, so they are one process whatever runner there is; they wait more
# than they work, so there are more of them at a time than processors.
integration() {
    local status=0
    run_tests --test '*' --exclude calve-integration || status=1
    cargo test "${build[@]}" --test all -- --test-threads 6 || status=1
    return $status
}

crash() {
    local seed=${CRASH_SEED:-$RANDOM$RANDOM} status=0
    integration/crash.sh --source postgres --rounds "${CRASH_ROUNDS:-20}" --seed "$seed" || status=1
    integration/crash.sh --source mysql --rounds "${CRASH_ROUNDS:-10}" --seed "$seed" || status=1
    integration/crash.sh --source mariadb --rounds "${CRASH_ROUNDS:-10}" --seed "$seed" || status=1
    return $status
}

# Ignored elsewhere. A name that no test has is no failure to the runner.
postgis() {
    local ran
    cargo test "${build[@]}" --test all -- --test-threads 6 --ignored postgis || return 1
    read -r ran _ < <(count_tests "$logs/postgis.log")
    [ "$ran" -gt 0 ] || { say "no test was run"; return 1; }
}

migrate() {
    local seed=${MIGRATE_SEED:-$RANDOM$RANDOM} source status=0
    for source in postgres mysql mariadb; do
        integration/migrate-soak.sh --source $source --minutes "${MIGRATE_MINUTES:-1}" --seed "$seed" || status=1
    done
    return $status
}

# Servers and readers are fetched and built while the compiler works.
prepare_servers() {
    local status=0
    if wanted_any servers unit integration crash migrate; then nice "$servers" prepare || status=1; fi
    if wanted postgis; then nice "$servers" prepare postgres-17-postgis || status=1; fi
    return $status
}
prepare_readers() {
    ls -d /usr/lib/jvm/java-17-* >/dev/null 2>&1 || [ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null || install_java
    nice integration/readers/setup.sh
}
install_java() {
    if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then install_packages openjdk-17-jre-headless; else install_packages default-jre-headless; fi
}
preparing=()
prepared() {
    local job status=0
    for job in "${preparing[@]}"; do
        wait "$job" || status=1
    done
    preparing=()
    cat "$logs"/prepare-*.log
    return $status
}

finish() {
    local job
    for job in "${preparing[@]}"; do kill "$job" 2>/dev/null || true; done
    # What tests that were killed left running, and the engine if nobody else is in it.
    "$servers" sweep || true
    "$servers" stop-engine 2>/dev/null || true
}

# A function, so that the shell has read all of this before it runs for an hour, whatever happens to the file.
main() {
    need_toolchain
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    # About 11 MB, with what of Perl's it takes.
    if wanted integration; then need pt-online-schema-change=percona-toolkit; fi
    trap finish EXIT
    trap 'exit 130' INT TERM
    "$servers" sweep

    if wanted_any servers unit integration crash migrate postgis; then
        prepare_servers >"$logs/prepare-servers.log" 2>&1 </dev/null &
        preparing+=($!)
        prepare_readers >"$logs/prepare-readers.log" 2>&1 </dev/null &
        preparing+=($!)
    fi

    local started=$SECONDS took built=yes ready=yes stage
    if wanted fmt; then stage fmt cargo fmt --all --check || true; fi
    if wanted clippy; then stage clippy clippy || true; fi
    if wanted docs; then stage docs docs || true; fi
    if wanted_any build unit integration crash migrate postgis; then
        stage build cargo build "${build[@]}" --all-targets || built=no
    fi
    if [ ${#preparing[@]} -gt 0 ]; then stage servers prepared || ready=no; fi
    for stage in unit integration crash migrate postgis; do
        wanted $stage || continue
        if [ $built = no ]; then not_run $stage build; continue; fi
        if [ $ready = no ]; then not_run $stage servers; continue; fi
        case $stage in
            unit) stage unit run_tests --lib --bins || true ;;
            integration | postgis) stage $stage $stage || true ;;
            crash | migrate)
                stage $stage $stage || true
                grep -h '^RESULT' "$logs/$stage.log" >&2 || true
                ;;
        esac
    done

    took=$((SECONDS - started))
    printf '\n%s%-20s %4d:%02d\n' "$table" total $((took / 60)) $((took % 60))
    printf '%d passed, %d failed\n' $passed $failed
    [ $failed = 0 ]
}

main; exit
