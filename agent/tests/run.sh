#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Build and run the tests of the agent's unwinder; SEED=n makes other stacks. Usage: run.sh [bench]
# What failed is kept, and the command to run it again is printed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
src=$here/../src
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
CC=${CC:-gcc}
CXX=${CXX:-g++}

agent="cv_arena cv_watch cv_string cv_modules cv_cfi cv_expr cv_unwind cv_unwind_full cv_frames cv_stacks"
cflags="-std=gnu11 -Wall -Wextra -g -I$here/../../abi -I$src"
strict="-Werror -Wvla -Wframe-larger-than=3072"

# agent_objects NAME FLAGS: the files under test
agent_objects() {
	name=$1
	shift
	objects=
	for f in $agent; do
		"$CC" $cflags $strict -O2 -fPIC -fvisibility=hidden "$@" -c "$src/$f.c" -o "$out/$name-$f.o"
		objects="$objects $out/$name-$f.o"
	done
}

if [ "${1:-}" = bench ]; then
	agent_objects bench
	"$CC" $cflags -O2 "$here/unwind_bench.c" $objects -pthread -ldl -o "$out/bench"
	"$out/bench"
	exit
fi

shapes() {
	name=$1
	shift
	"$CC" $cflags -fPIC "$@" -DSHAPES="shapes_$name" -c "$here/shapes.c" -o "$out/shapes_$name.o"
}

shapes o0 -O0
shapes o2 -O2 -fomit-frame-pointer
shapes fp -O2 -fno-omit-frame-pointer
shapes os -Os
shapes o3 -O3 -march=x86-64-v3 -mstackrealign -fno-plt
"$CXX" -std=c++17 -O2 -fPIC -I"$here" -c "$here/shapes_cpp.cc" -o "$out/shapes_cpp.o"

# link OBJECT FLAGS
link() {
	test=$1
	shift
	"$CXX" -rdynamic "$@" "$out"/shapes_*.o "$test" $objects -pthread -ldl
}

agent_objects lib
if objdump -d $objects | grep -q '__tls_get_addr'; then
	echo "run.sh: the agent's code calls __tls_get_addr" >&2
	exit 1
fi
"$CC" $cflags -O2 -fPIC -c "$here/unwind_test.c" -o "$out/test.o"
link "$out/test.o" -pie -o "$out/test-pie"
# with gaps between the segments
link "$out/test.o" -no-pie -Wl,-z,max-page-size=0x200000 -o "$out/test-nopie"
agent_objects old -DCV_TEST_SNAPSHOT
"$CC" $cflags -O2 -fPIC -DCV_TEST_SNAPSHOT -c "$here/unwind_test.c" -o "$out/test-old.o"
link "$out/test-old.o" -pie -o "$out/test-old-glibc"
for n in 0 1; do
	flags="-O$n"
	"$CC" $cflags -fPIC -shared $flags -DSHAPES=shapes_plugin "$here/shapes.c" -o "$out/plugin$n.so"
done

for program in pie nopie old-glibc; do
	for case in plain unknown-stack threads signal signal-stack single-step coroutine fork skip generated stress; do
		run="$out/test-$program $case ${SEED:-1} $out"
		if timeout 60 $run >"$out/log" 2>&1; then
			printf '%-10s' "$program"
			cat "$out/log"
		else
			echo "run.sh: exit status $? of: $run" >&2
			trap - EXIT
			cat "$out/log"
			exit 1
		fi
	done
done
