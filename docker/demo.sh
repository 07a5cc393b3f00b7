#!/usr/bin/env bash
# Shows calve at work on this machine: builds it, starts a Postgres, fills it with pgbench's tables, replicates them while
# pgbench changes them for a minute, and has calve verify that every table equals its source.
#
#   docker/demo.sh [--seconds 60] [--scale 10] [--postgres 17] [--keep]
#
# Needs a Rust toolchain and, on a Debian-like machine, root (for the Postgres; see integration/servers/servers.py). With
# --keep the lake and the database stay for a look around. CALVE_PROFILE=release builds calve optimised.
set -euo pipefail
source "$(dirname "$0")/../integration/lib.sh"

seconds=60 scale=10 postgres=17 keep=
while [ $# -gt 0 ]; do
    case $1 in
        --seconds | --scale | --postgres)
            [ $# -gt 1 ] || die "$1 takes a value"
            declare "${1#--}=$2"
            shift 2
            ;;
        --keep) keep=yes; shift ;;
        -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
        *) die "unknown option \"$1\"; there are --seconds, --scale, --postgres and --keep" ;;
    esac
done

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

step "starting Postgres $postgres"
owner=(--owner $$)
[ -z "$keep" ] || owner=()
server=$("$servers" up postgres "$postgres" --dedicated "${owner[@]}" | field id)
"$servers" create-database "$server" bench
on_bench() { local program=$1; shift; "$servers" "$program" "$server" --user calve --database bench -- "$@"; }
printf '%s, %s\n' "$server" "$(on_bench psql -Atc 'select version()')"

step "pgbench's tables at scale $scale, with a key for pgbench_history"
on_bench pgbench -i -q -s "$scale" 2>&1 | tail -n 1
on_bench psql -q -c 'alter table pgbench_history add column hid bigserial primary key'

# In a variable of the environment, where other users of the machine cannot read the password.
CALVE_SOURCE=$("$servers" url "$server" --user calve --database bench)
export CALVE_SOURCE
pipeline=(--table public.pgbench_accounts --table public.pgbench_branches --table public.pgbench_tellers --table public.pgbench_history --into "$out/lake")
printf 'calve run --source postgres://... %s\n' "${pipeline[*]}"

step "replicating, with pgbench running for $seconds s"
"$calve" run "${pipeline[@]}" >"$out/calve.log" 2>&1 </dev/null &
calve_pid=$!
# pgbench would empty pgbench_history at its start; what is loaded already shall stay.
on_bench pgbench --no-vacuum -c 4 -j 2 -T "$seconds" --progress 15 2>&1 | grep -E 'progress|tps =|actually processed'
kill -0 "$calve_pid" 2>/dev/null || { tail -n 20 "$out/calve.log"; die "calve ended while pgbench ran"; }

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
