#!/usr/bin/env bash
# Shows calve at work on this machine: builds it, starts a database, fills it with a benchmark's tables, replicates them
# while the benchmark changes them for a minute, and has calve verify that every table equals its source. Postgres runs
# pgbench; MySQL and MariaDB run sysbench's oltp_read_write.
#
#   docker/demo.sh [--source postgres|mysql|mariadb] [--version V] [--seconds 60] [--scale 10] [--keep]
#
# Without --source it does so with Postgres, then with MySQL.
#
# --scale is in units of 100,000 rows. Needs a Rust toolchain and, on a Debian-like machine, root (for the database; see
# integration/servers/servers.py). With --keep the lake and the database stay for a look around. CALVE_PROFILE=release
# builds calve optimised; CALVE_BIN names a binary to use as it is.
set -euo pipefail
source "$(dirname "$0")/../integration/lib.sh"

# One kind of database after the other, each by a run of its own.
case " $* " in
    *' --source '* | *' -h '* | *' --help '*) ;;
    *) for each in postgres mysql; do "$0" --source $each "$@"; done; exit ;;
esac

source=postgres version='' seconds=60 scale=10 keep=
while [ $# -gt 0 ]; do
    case $1 in
        --source | --version | --seconds | --scale)
            [ $# -gt 1 ] || die "$1 takes a value"
            declare "${1#--}=$2"
            shift 2
            ;;
        --keep) keep=yes; shift ;;
        -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
        *) die "unknown option \"$1\"; there are --source, --version, --seconds, --scale and --keep" ;;
    esac
done
case $source in
    postgres) version=${version:-17} ;;
    mysql) version=${version:-9} ;;
    mariadb) version=${version:-11.8} ;;
    *) die "no source \"$source\"; there are postgres, mysql and mariadb" ;;
esac

step() { printf '\n== %s\n' "$*"; }

server='' calve_pid=''
out=$(mktemp -d "${TMPDIR:-/tmp}/calve-demo.XXXXXX")
finish() {
    [ -z "$calve_pid" ] || kill "$calve_pid" 2>/dev/null || true
    if [ -n "$keep" ]; then
        printf '\nkept: the lake in %s, the server %s (remove it with %s down %s)\n' "$out/lake" "$server" "$servers" "$server"
        return
    fi
    [ -z "$server" ] || "$servers" down "$server" || true
    "$servers" stop-engine 2>/dev/null || true
    rm -rf "$out"
}
trap finish EXIT
trap 'exit 130' INT TERM

step "building calve"
need_toolchain
calve=$(calve_binary)
printf '%s\n' "$calve"

step "starting $source $version"
owner=(--owner $$)
[ -z "$keep" ] || owner=()
state=$("$servers" up "$source" "$version" --dedicated "${owner[@]}")
server=$(field id <<<"$state")
"$servers" create-database "$server" bench
printf '%s, %s\n' "$server" "$(echo 'select version()' | "$servers" sql "$server")"

# What each source is filled with, and what changes it: `fill`, `load SECONDS`, and the tables to replicate.
if [ "$source" = postgres ]; then
    tables=(public.pgbench_accounts public.pgbench_branches public.pgbench_tellers public.pgbench_history)
    on_bench() { local program=$1; shift; "$servers" "$program" "$server" --user calve --database bench -- "$@"; }
    fill() {
        on_bench pgbench -i -q -s "$scale" 2>&1 | tail -n 1
        on_bench psql -q -c 'alter table pgbench_history add column hid bigserial primary key'
    }
    # pgbench would empty pgbench_history at its start; what is loaded already shall stay.
    load() { on_bench pgbench --no-vacuum -c 4 -j 2 -T "$1" --progress 15 2>&1 | grep -E 'progress|tps =|actually processed'; }
    what="pgbench's tables at scale $scale, with a key for pgbench_history" running=pgbench
else
    need sysbench=sysbench
    tables=(bench.sbtest1 bench.sbtest2 bench.sbtest3 bench.sbtest4)
    on_bench() {
        sysbench oltp_read_write --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$(field port <<<"$state")" \
            --mysql-user=root --mysql-password=root --mysql-db=bench --tables=${#tables[@]} --table-size=$((scale * 25000)) \
            --threads=4 "$@"
    }
    fill() { on_bench prepare | grep -i creating; }
    load() { on_bench --time="$1" --report-interval=15 run | grep -E '^\[|transactions:|queries:'; }
    what="sysbench's tables, ${#tables[@]} of $((scale * 25000)) rows" running="sysbench oltp_read_write"
fi

step "$what"
fill

# In a variable of the environment, where other users of the machine cannot read the password.
CALVE_SOURCE=$("$servers" url "$server" --user calve --database bench)
export CALVE_SOURCE
pipeline=(--into "$out/lake")
for table in "${tables[@]}"; do pipeline+=(--table "$table"); done
printf 'calve run --source %s://... %s\n' "${CALVE_SOURCE%%://*}" "${pipeline[*]}"

step "replicating, with $running running for $seconds s"
"$calve" run "${pipeline[@]}" >"$out/calve.log" 2>&1 </dev/null &
calve_pid=$!
load "$seconds"
kill -0 "$calve_pid" 2>/dev/null || { tail -n 20 "$out/calve.log"; die "calve ended while $running ran"; }

step "stopping calve (SIGTERM), then catching up with what came after its last checkpoint"
kill -TERM "$calve_pid"
code=0
wait "$calve_pid" || code=$?
calve_pid=''
tail -n 5 "$out/calve.log"
[ $code = 0 ] || { tail -n 20 "$out/calve.log"; die "calve ended with exit code $code"; }
"$calve" run --once "${pipeline[@]}" >"$out/once.log" 2>&1 </dev/null || { tail -n 20 "$out/once.log"; die "calve run --once failed"; }
tail -n 2 "$out/once.log"

step "calve status"
"$calve" status "${pipeline[@]}"

step "calve verify"
"$calve" verify "${pipeline[@]}" || die "the lake differs from the source"
printf '\nThe lake equals the source.\n'
