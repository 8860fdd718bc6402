#!/usr/bin/env bash
# Records fixtures for tests/golden/profiles: profiles whose reports must stay what they are.
# Compiled and run under a path of their own, so that no profile has one of this machine.
# Usage: scripts/golden_profiles.sh CONVOY [FIXTURE]...   (root; every fixture where none is named)
set -eu
cd "$(dirname "$0")/.."
convoy=$(realpath "$1")
shift
work=/tmp/convoy-fixtures
out=$PWD/tests/golden/profiles
rm -rf "$work"
mkdir -p "$work" "$out"
cp -r fixtures/. "$work"
cd "$work"
[ $# -gt 0 ] || set -- */

for name in "$@"; do
	name=${name%/}
	cd "$work/$name"
	file=${name//-/_}
	command=()
	if [ -f "$file.c" ]; then
		omp=
		! grep -q 'pragma omp' "$file.c" || omp=-fopenmp
		if grep -q 'mpi.h' "$file.c"; then
			mpicc -O2 -g "$file.c" -o "$file" && command=(mpirun --allow-run-as-root --oversubscribe -n 4 "./$file")
		else
			gcc -std=gnu11 -O2 -g -pthread $omp "$file.c" -o "$file" -lm && command=("./$file")
		fi
	elif [ -f "$file.rs" ]; then
		rustc -O -g --edition 2021 "$file.rs" -o "$file" && command=("./$file")
	elif [ -f "$file.go" ]; then
		GO111MODULE=off go build -o "$file" "$file.go" && command=("./$file")
	elif [ -f "$file.java" ]; then
		javac -g "$file.java"
		class=$(find . -name '*.class' ! -name '*$*' -printf '%f\n' | head -n1)
		command=(java -XX:+PreserveFramePointer "${class%.class}")
	elif [ -f "$file.py" ]; then
		command=(python3 "$file.py")
	fi
	[ ${#command[@]} -gt 0 ] || { echo "$name: nothing to run"; continue; }
	"$convoy" record -q -o "$out/$name.convoy" -- "${command[@]}" broken >"$work/$name.out" 2>&1 ||
		echo "$name: exit status $?"
done
