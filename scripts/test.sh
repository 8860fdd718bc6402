#!/usr/bin/env bash
# All tests, in the order in which a failure tells most: lints, units and goldens, the agent, then live
# programs, hostile ones and real ones.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step lint
scripts/lint.sh
step "build (release, as users run it)"
cargo build --release --locked -p convoy
step "unit and golden tests"
# With what the release was built from, so that all other crates are built once: a third of the time.
CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
	cargo test --release --locked --workspace --exclude convoy-harness --exclude convoy-real-tests
step "agent: unwinder, tables"
agent/tests/run.sh
step "live, robustness, real programs"
export CONVOY_BIN="$PWD/target/release/convoy"
cargo test --locked --release -p convoy-harness -p convoy-real-tests --no-fail-fast
