#!/usr/bin/env bash
# Builds the file systems the test servers run in, from Debian's own packages: one per Debian suite, because each suite
# carries one version of each database. A root serves twice, as it stands under chroot, or imported as a container image.
#
#   docker/image.sh root SUITE     builds the root where it is missing, stale or broken, and prints its directory
#   docker/image.sh image SUITE    the same root as a container image; prints its tag
#   docker/image.sh clean          removes every root (not the images)
#
# SUITE is bookworm (Postgres 15, MariaDB 10.11), trixie (Postgres 17, MariaDB 11.8) or sid (Postgres 18, MySQL 9); the
# latter two have pgvector, of which bookworm has none. trixie-postgis is trixie with PostGIS, for the tests that need it.
# Building takes about a minute a suite, as root. Archive, proxy and keys are those this machine's apt already uses; signatures are
# always verified. A root's name carries a digest of what it is made of, so that checkouts of different recipes share a
# cache without pulling each other's servers down.
#
#   CALVE_TEST_CACHE             where roots are kept (default /var/cache/calve-test)
#   CALVE_TEST_DEBIAN_MIRROR     archive to build from, where apt's own sources name none for Debian
#   CALVE_TEST_DOCKER_HOST       engine that the image is for (default: docker's own choice)
set -euo pipefail

cache=${CALVE_TEST_CACHE:-/var/cache/calve-test}
roots=$cache/roots
# Raise when a change to this file should rebuild roots that exist.
recipe=2

say() { printf 'image.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# What each suite is made of, and the programs whose running shows that the root is whole. A variant has the name of its
# Debian suite before the dash.
suite_contents() {
    case $1 in
        bookworm)
            packages=postgresql-15,mariadb-server-core,mariadb-client
            probes="/usr/lib/postgresql/15/bin/postgres /usr/sbin/mariadbd /usr/bin/mariadb /usr/bin/mariadb-binlog"
            ;;
        trixie)
            packages=postgresql-17,postgresql-17-pgvector,mariadb-server-core,mariadb-client
            probes="/usr/lib/postgresql/17/bin/postgres /usr/sbin/mariadbd /usr/bin/mariadb /usr/bin/mariadb-binlog"
            ;;
        trixie-postgis)
            packages=postgresql-17,postgresql-17-pgvector,postgresql-17-postgis-3,mariadb-server-core,mariadb-client
            probes="/usr/lib/postgresql/17/bin/postgres /usr/sbin/mariadbd /usr/bin/mariadb /usr/bin/mariadb-binlog"
            ;;
        sid)
            packages=postgresql-18,postgresql-18-pgvector,mysql-server-core,mysql-client
            probes="/usr/lib/postgresql/18/bin/postgres /usr/sbin/mysqld /usr/bin/mysql /usr/bin/mysqlbinlog"
            ;;
        *) die "no suite named \"$1\"; there are bookworm, trixie, trixie-postgis and sid" ;;
    esac
    stamp="recipe $recipe: $1 $packages"
    key=$(printf '%s' "$stamp" | sha256sum | cut -c1-12)
}

require_tools() {
    [ "$(id -u)" = 0 ] || die "building a root file system takes root; run this as root, or give the tests a server's address (CALVE_TEST_POSTGRES_17=postgres://...)"
    local missing=()
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v gpgv >/dev/null || missing+=(gpgv)
    command -v wget >/dev/null || missing+=(wget)
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
    [ ${#missing[@]} = 0 ] || "$(dirname "$0")/../integration/install.sh" "${missing[@]}"
}

# The archive apt uses for Debian's main releases (not its security or update archives).
debian_mirror() {
    if [ -n "${CALVE_TEST_DEBIAN_MIRROR:-}" ]; then
        printf '%s\n' "$CALVE_TEST_DEBIAN_MIRROR"
        return
    fi
    # Nothing is listed before the first update.
    # The variables are apt's, not the shell's.
    local targets format='$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)'
    targets=$(apt-get indextargets --format "$format" 'Created-By: Packages')
    if [ -z "$targets" ]; then
        apt-get update -q >&2 || true
        targets=$(apt-get indextargets --format "$format" 'Created-By: Packages')
    fi
    local found
    found=$(awk '$1 == "Debian" && $2 == "main" && $3 !~ /-/ && $4 ~ /^(https?|file):/ { print $4; exit }' <<<"$targets")
    [ -n "$found" ] || die "apt's sources name no Debian archive; set CALVE_TEST_DEBIAN_MIRROR to one"
    printf '%s\n' "$found"
}

# debootstrap fetches with wget, which does not know apt's proxy.
use_apt_proxy() {
    local http https
    http=$(apt-config dump Acquire::http::Proxy --format '%v%n' 2>/dev/null | head -n 1)
    https=$(apt-config dump Acquire::https::Proxy --format '%v%n' 2>/dev/null | head -n 1)
    if [ -n "$http" ] && [ "$http" != DIRECT ]; then export http_proxy=${http_proxy:-$http}; fi
    if [ -n "$https" ] && [ "$https" != DIRECT ]; then export https_proxy=${https_proxy:-$https}; fi
}

# The first keyring that verifies the suite's release file. A suite newer than this machine may be signed by keys its
# keyring does not hold yet; a root built before, itself verified, brings newer ones.
verified_keyring() {
    local suite=$1 mirror=$2 release keyring
    release=$(mktemp)
    wget -q -O "$release" "${mirror%/}/dists/$suite/InRelease" || die "cannot fetch ${mirror%/}/dists/$suite/InRelease; is the archive reachable?"
    for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp} "$roots"/{trixie,bookworm}*/usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        if [ -e "$keyring" ] && gpgv --status-fd 1 --keyring "$keyring" "$release" 2>/dev/null | grep -q '^\[GNUPG:\] VALIDSIG'; then
            rm -f "$release"
            printf '%s\n' "$keyring"
            return
        fi
    done
    rm -f "$release"
    die "no keyring here verifies Debian $suite; upgrade debian-archive-keyring, or build the suite before it first (docker/image.sh root trixie)"
}

# Whether a root is whole.
root_is_good() {
    local root=$1 probe
    [ "$(cat "$root/etc/calve-test-root" 2>/dev/null)" = "$stamp" ] || return 1
    for probe in $probes; do
        chroot "$root" "$probe" --version >/dev/null 2>&1 || return 1
    done
}

# A build mounts /proc and /sys inside, and leaves them so when it is interrupted.
unmount_inside() {
    local mount
    awk -v root="$1/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do
        umount "$mount" 2>/dev/null || umount -l "$mount" || die "cannot unmount $mount; unmount it, then run this again"
    done
}

remove_root() {
    [ -e "$1" ] || return 0
    unmount_inside "$1"
    rm -rf --one-file-system "$1"
}

build_root() {
    local suite=$1 root=$2 debian=${1%%-*} mirror keyring building log
    require_tools
    use_apt_proxy
    mirror=$(debian_mirror)
    keyring=$(verified_keyring "$debian" "$mirror")
    building=$root.building log=$root.log
    remove_root "$building"
    say "building Debian $debian with $packages (about a minute)"
    if ! nice debootstrap --variant=minbase --keyring="$keyring" --include="$packages" "$debian" "$building" "$mirror" >"$log" 2>&1; then
        tail -n 20 "$log" "$building/debootstrap/debootstrap.log" >&2 2>/dev/null || true
        remove_root "$building"
        die "debootstrap of $suite failed; the whole output is in $log"
    fi
    # Installing the package makes a cluster that no test uses; the package files were kept for the install only.
    rm -rf "$building"/var/lib/postgresql/*/main "$building"/etc/postgresql/*/main
    # The full server packages would make this user, as the official images do.
    chroot "$building" id -u mysql >/dev/null 2>&1 ||
        chroot "$building" useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin --user-group mysql
    rm -rf "$building"/var/cache/apt/archives/*.deb "$building"/var/lib/apt/lists/* "$building"/usr/share/{doc,man,locale}
    printf '%s\n' "$stamp" >"$building/etc/calve-test-root"
    unmount_inside "$building"
    root_is_good "$building" || die "the root of $suite was built, but $probes does not run in it; see $log"
    remove_root "$root"
    mv "$building" "$root"
}

root() {
    local suite=$1 root
    suite_contents "$suite"
    root=$roots/$suite-$key
    mkdir -p "$roots"
    # One builder a suite; the others wait for its result.
    exec 9>"$root.lock"
    flock 9
    root_is_good "$root" || build_root "$suite" "$root"
    exec 9>&-
    printf '%s\n' "$root"
}

image() {
    local suite=$1 built tag
    suite_contents "$suite"
    tag=calve-test/$suite:$key
    export DOCKER_HOST=${CALVE_TEST_DOCKER_HOST:-${DOCKER_HOST:-}}
    [ -n "$DOCKER_HOST" ] || unset DOCKER_HOST
    mkdir -p "$roots"
    # Two databases of one suite may ask at once.
    exec 8>"$roots/$suite-$key.image.lock"
    flock 8
    if ! docker image inspect "$tag" >/dev/null 2>&1; then
        built=$(root "$suite")
        say "importing Debian $suite as the image $tag"
        # What servers keep under /srv belongs to runs of the root itself.
        tar -C "$built" --one-file-system --exclude='./srv/*' -c . | docker import --change 'ENV LANG=C.UTF-8' - "$tag" >/dev/null
    fi
    printf '%s\n' "$tag"
}

case "${1:-} ${2:-}" in
    "root "?*) root "$2" ;;
    "image "?*) image "$2" ;;
    "clean ")
        for kept in "$roots"/*/; do remove_root "${kept%/}"; done
        ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
