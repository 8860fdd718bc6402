#!/usr/bin/env bash
# What a machine can say about style and structure.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
# With the profile of what is built next, whose build scripts and macros serve both.
cargo clippy --release --locked --workspace --all-targets -q -- -D warnings
# The translator as the agent gets it.
cargo clippy --release --locked -p convoy-translate --lib --no-default-features --features agent -q -- -D warnings

# The agent must compile without a warning, with either compiler where both are there.
for cc in gcc clang; do
	command -v $cc >/dev/null || continue
	for f in agent/src/*.c; do
		$cc -std=gnu11 -D_GNU_SOURCE -O2 -fPIC -fexceptions -Wall -Wextra -Werror -Wvla -Iabi -Iagent/src \
			-fsyntax-only "$f"
	done
	for f in agent/src/*.c agent/src/tracing/*.c; do
		$cc -std=gnu11 -D_GNU_SOURCE -DCV_TRACING -O2 -fPIC -fexceptions -Wall -Wextra -Werror -Wvla -Iabi -Iagent/src \
			-fsyntax-only "$f"
	done
	for f in agent/src/*.c agent/src/events/*.c; do
		$cc -std=gnu11 -D_GNU_SOURCE -DCV_EVENTS -O2 -fPIC -fexceptions -Wall -Wextra -Werror -Wvla -Iabi -Iagent/src \
			-fsyntax-only "$f"
	done
	for f in agent/src/*.c agent/src/causal/*.c; do
		$cc -std=gnu11 -D_GNU_SOURCE -DCV_EXPERIMENTS -O2 -fPIC -fexceptions -Wall -Wextra -Werror -Wvla -Iabi \
			-Iagent/src -fsyntax-only "$f"
	done
done

# Arrows point down only (ARCHITECTURE.md): no pure crate may reach for the system, no room for
# another room.
pure=(abi causal investigate live probes profile trace sched spinloop model sections analysis diagnose
	report html export compare serve)
bad=$(grep -REn --include=*.rs 'std::(env|process|time::(Instant|SystemTime))|println!|eprintln!' \
	"${pure[@]/#/crates/}" | grep -E '^crates/[^/]+/src/' || true)
[ -z "$bad" ] || { echo "lint: a pure crate reaches for the system:"; echo "$bad"; exit 1; }
for crate in "${pure[@]}" unwind symbols cli; do
	grep -qs 'forbid(unsafe_code)' crates/$crate/src/{lib,main}.rs ||
		{ echo "lint: crates/$crate must forbid unsafe code"; exit 1; }
done

# Looking for examples in comments takes seconds a crate: where there are none cargo is told so.
for crate in $(grep -l '^doctest = false' crates/*/Cargo.toml | xargs -n1 dirname); do
	find "$crate/src" -name '*.rs' -exec awk '
		FNR == 1 { inside = 0 }
		/^[ \t]*\/\/[\/!] ```/ {
			inside = !inside
			if (inside && $2 ~ /^```(rust|no_run|should_panic|compile_fail|edition.*)?$/) found = 1
		}
		END { exit found }' {} + ||
		{ echo "lint: $crate has examples in comments and doctest = false in Cargo.toml"; exit 1; }
done

# A file is one idea.
long=$(find . -name target -prune -o -name .git -prune -o -type f \( -name '*.rs' -o -name '*.[ch]' -o -name '*.py' -o -name '*.sh' \) -print0 |
	xargs -0 wc -l | awk '$1 > 800 && $2 != "total" { print "  " $2 ": " $1 }')
[ -z "$long" ] || { echo "lint: files over 800 lines:"; echo "$long"; exit 1; }
