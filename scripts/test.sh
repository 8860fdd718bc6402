#!/usr/bin/env bash
# All tests, in the order in which a failure tells most: lints, units and goldens, the agent, then
# live programs, hostile ones and real ones. What fails does not hide what comes after it.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
step() { printf '\n== %s\n' "$*"; }
check() {
	local name=$1
	shift
	step "$name"
	"$@" || failed+=("$name")
}

# They share the release's build of other people's crates, which saves a third of the time.
units() {
	CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
		cargo test --release --locked --workspace --no-fail-fast \
		--exclude convoy-harness --exclude convoy-real-tests
}

step lint
scripts/lint.sh
step "build (release, as users run it)"
cargo build --release --locked -p convoy
check "unit and golden tests" units
check "agent: unwinder, tables" agent/tests/run.sh
export CONVOY_BIN="$PWD/target/release/convoy"
check "live, robustness, real programs" \
	cargo test --locked --release -p convoy-harness -p convoy-real-tests --no-fail-fast

if ((${#failed[@]})); then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
