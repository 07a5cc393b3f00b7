#!/usr/bin/env bash
# Installs Debian packages for the test scripts, one caller at a time: they run side by side, and apt has one lock.
#
#   integration/install.sh PACKAGE...
set -euo pipefail

die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

command -v apt-get >/dev/null || die "needs $*; install them, there is no apt-get here to do it with"
[ "$(id -u)" = 0 ] || die "needs $*; install them (apt-get install $*), or run this as root"
exec 9>/run/lock/calve-test-install
flock 9
printf 'installing %s\n' "$*" >&2
log=$(mktemp)
# The lists may be days old, and what they name gone from the archive.
if ! {
    apt-get update -q &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"
} >"$log" 2>&1 9>&-; then
    tail -n 20 "$log" >&2
    die "cannot install $*; the whole output is in $log"
fi
rm -f "$log"
