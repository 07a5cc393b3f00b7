# shellcheck shell=bash
# Shell functions that the test, crash and demo scripts share. Sourced, with `set -euo pipefail` in force:
#
#   source "$(dirname "$0")/lib.sh"

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=$repository/integration/servers/servers.py
target=${CARGO_TARGET_DIR:-$repository/target}

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# Installs what the scripts run and this machine lacks. Takes pairs COMMAND=PACKAGE; does nothing where all are there.
need() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

install_packages() { "$repository/integration/install.sh" "$@"; }

# What building takes: a Rust toolchain, which is not ours to install, and a C compiler for sqlite and ring.
need_toolchain() {
    command -v cargo >/dev/null || PATH=$HOME/.cargo/bin:$PATH
    command -v cargo >/dev/null || die "needs a Rust toolchain, $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$repository/Cargo.toml") or newer: https://rustup.rs"
    need cc=gcc python3=python3 openssl=openssl flock=util-linux
    # The compiler without the C library's headers is no compiler.
    echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1 || install_packages libc6-dev
}

# Builds the calve binary and prints its path. Through the whole workspace's features, so that the tests and the scripts
# share one build. CALVE_PROFILE=release builds that profile; CALVE_BIN names a binary to use as it is.
calve_binary() {
    if [ -n "${CALVE_BIN:-}" ]; then
        [ -x "$CALVE_BIN" ] || die "CALVE_BIN is \"$CALVE_BIN\", which is no program"
        printf '%s\n' "$CALVE_BIN"
        return
    fi
    local profile=${CALVE_PROFILE:-dev} directory
    directory=$profile
    [ "$profile" != dev ] || directory=debug
    (cd "$repository" && cargo build --quiet --locked --profile "$profile" --bin calve) >&2 || die "calve does not build"
    printf '%s\n' "$target/$directory/calve"
}

# A field of the JSON that servers.py prints.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
