#!/usr/bin/env bash
# Makes the Python environment of the table readers where it is missing, and prints its directory (bin/python is the
# interpreter, jackson.jar the classes Spark's Iceberg needs). Takes a minute or two the first time: about 900 MB under
# CALVE_TEST_CACHE (default /var/cache/calve-test), nothing in the repository.
#
#   integration/readers/setup.sh
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then cache=/var/cache/calve-test; else cache=${XDG_CACHE_HOME:-$HOME/.cache}/calve-test; fi
cache=${CALVE_TEST_CACHE:-$cache}/readers

say() { printf 'readers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v python3 >/dev/null || die "needs python3; install it (apt-get install python3 python3-venv)"
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
made_from=$(cat "$here/requirements.txt" "$here/shade.py" "$0" | sha256sum | cut -c1-12)
environment=$cache/python$version-$made_from
export here environment

loads() { "$environment/bin/python" -c 'import duckdb, duckdb_extension_iceberg, pyspark, pyiceberg' >/dev/null; }

make() {
    python3 -m venv "$environment"
    nice "$environment/bin/python" -m pip install --quiet --requirement "$here/requirements.txt"
    local spark
    spark=$("$environment/bin/python" -c 'import pyspark; print(pyspark.__path__[0])')
    "$environment/bin/python" "$here/shade.py" "$spark/jars" "$environment/jackson.jar"
    loads
}

# An environment knows its own path, so it is built in place; the mark that it is whole comes last. Its interpreter is a
# link to the machine's, which may be gone since.
if ! { [ -e "$environment/whole" ] && "$environment/bin/python" -c pass 2>/dev/null; }; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if ! { [ -e "$environment/whole" ] && loads 2>/dev/null; }; then
        say "making the readers' Python environment (a minute or two)"
        rm -rf "$environment"
        # In a shell of its own: `set -e` does nothing in a function whose failure is looked at.
        if ! bash -euo pipefail -c "$(declare -f loads make); make" >"$cache/setup.log" 2>&1; then
            tail -n 15 "$cache/setup.log" >&2
            die "that failed; the whole output is in $cache/setup.log (python3 -m venv needs Debian's python3-venv)"
        fi
        touch "$environment/whole"
        # Of requirements past, unless another checkout still uses them.
        find "$cache" -maxdepth 1 -name 'python*' ! -path "$environment" -mtime +7 -exec rm -rf {} +
    fi
    exec 9>&-
fi
printf '%s\n' "$environment"
