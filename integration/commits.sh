#!/usr/bin/env bash
# What a table looks like, and what a commit to it costs, over tens of thousands of commits: a line every STEP of them.
# About twenty minutes for 20,000.
#
#   integration/commits.sh [COMMITS [STEP]]
set -euo pipefail

cd "$(dirname "$0")/.."
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
cargo build --quiet -p calve --features failpoints,mutations
cargo build --quiet -p calve-integration --bin soak
CALVE_BIN=${CALVE_BIN:-$target/debug/calve} exec "$target/debug/soak" "$@"
