#!/usr/bin/env bash
# Fuzzing of what reads bytes of MySQL and MariaDB: libFuzzer with AddressSanitizer, on the stable toolchain there is.
#
#   integration/fuzz.sh                                    every target for 60 seconds, one after the other
#   integration/fuzz.sh --seconds 600 rows transactions    these, for ten minutes each
#   integration/fuzz.sh --minimize rows crash-0123..       the shortest input that fails in the same way
#
# Targets: framing rows documents positions statements transactions (crates/mysql/src/fuzzing.rs says what each promises).
# Inputs found are kept, and begun with the next time, in CALVE_FUZZ_DIR (default target/fuzz-corpus), those that failed in
# its artifacts. Each target ends with a line RESULT target=NAME runs=N crashes=N; the exit code is 0 only when none crashed.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
cd "$repository"

# No input is longer, takes longer, or makes the reader hold or ask for more.
length_max=16384 timeout_s=10 rss_limit_mb=2048 malloc_limit_mb=1024

all_targets=(framing rows documents positions statements transactions)
seconds=60 targets=() minimize=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --minimize) minimize=yes; shift; break ;;
    -*) die "no option \"$1\"" ;;
    *) targets+=("$1"); shift ;;
    esac
done
case $seconds in '' | *[!0-9]*) die "--seconds needs a number, and got \"$seconds\"" ;; esac
[ ${#targets[@]} -gt 0 ] || targets=("${all_targets[@]}")
known() { case " ${all_targets[*]} " in *" $1 "*) ;; *) die "no target \"$1\"; there are ${all_targets[*]}" ;; esac }
for name in "${targets[@]}"; do known "$name"; done

need_toolchain
need c++=g++
case $target in /*) ;; *) target=$repository/$target ;; esac
kept=${CALVE_FUZZ_DIR:-$target/fuzz-corpus}
mkdir -p "$kept/artifacts"
kept=$(cd "$kept" && pwd)
triple=$(rustc -vV | sed -n 's/^host: //p')

# cargo-fuzz of one version, beside what it builds, so that what the machine has of it does not matter.
version=0.13.2 tools=$target/fuzz-tools
if [ "$("$tools/bin/cargo-fuzz" --version 2>/dev/null)" != "cargo-fuzz $version" ]; then
    say "installing cargo-fuzz $version"
    CARGO_TARGET_DIR=$target/fuzz-tools-build cargo install --quiet --locked --version "=$version" --root "$tools" --force cargo-fuzz
    rm -rf "$target/fuzz-tools-build"
fi

# Sanitizers and coverage are unstable options, of the compiler that is there.
export RUSTC_BOOTSTRAP=1
say "building the targets"
"$tools/bin/cargo-fuzz" build --fuzz-dir crates/mysql/fuzz --target-dir "$target/fuzz" >&2
built=$target/fuzz/$triple/release
limits=(-timeout=$timeout_s -rss_limit_mb=$rss_limit_mb -malloc_limit_mb=$malloc_limit_mb)

if [ -n "$minimize" ]; then
    [ $# = 2 ] || die "--minimize needs a target and a file"
    known "$1"
    exec "$built/$1" "${limits[@]}" -minimize_crash=1 -max_total_time="$seconds" -artifact_prefix="$kept/artifacts/$1-" "$2"
fi

# Inputs from captured logs of real servers.
rm -rf "$kept/seeds"
"$built/seeds" "$kept/seeds" >&2

status=0
for name in "${targets[@]}"; do
    corpus=$kept/$name log=$kept/$name.log
    mkdir -p "$corpus"
    dictionary=crates/mysql/fuzz/dictionaries/$name.dict
    options=("${limits[@]}" -max_len=$length_max -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$kept/artifacts/$name-")
    [ ! -e "$dictionary" ] || options+=(-dict="$dictionary")
    say "== $name for $seconds s; inputs are kept in $corpus, the log in $log"
    crashes=0
    # Panics are crashes: what the targets assert is in the log, with the input.
    "$built/$name" "${options[@]}" "$corpus" "$kept/seeds/$name" >"$log" 2>&1 </dev/null || crashes=1
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
    # A fuzzer that never ran has found nothing, and that is no success.
    if [ "${runs:-0}" = 0 ]; then crashes=1; fi
    if [ $crashes != 0 ]; then
        status=1
        grep -aE 'panicked at|ERROR: |SUMMARY: |Test unit written to' -A 2 "$log" | tail -n 20 >&2 || true
    fi
    say "$(grep -aE '^#[0-9]+.*cov: ' "$log" | tail -n 1)"
    printf 'RESULT target=%s runs=%s crashes=%s\n' "$name" "${runs:-0}" "$crashes"
done
exit $status
