#!/usr/bin/env bash
# The worked example (docs/worked-example-sqlite.md): four threads, each with an in-memory database of its
# own, that should have nothing to wait for. What holds them back, and what is it worth?
set -euo pipefail
cd "$(dirname "$0")/.."

# SQLite is compiled from source, once: that takes a minute.
cargo build --release --locked --manifest-path examples/sqlite/Cargo.toml --target-dir target/examples
program=target/examples/release/sqlite-threads

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say convoy -- $program --seconds 2
target/release/convoy -- $program --seconds 2

say "$program --seconds 2                  # as it is"
$program --seconds 2
say "$program --seconds 2 --no-memstatus   # the fix: without memory statistics"
$program --seconds 2 --no-memstatus
