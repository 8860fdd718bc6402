#!/usr/bin/env bash
# Builds a Debian package: scripts/deb.sh [DIRECTORY], which is build/ by default. The program is
# CONVOY_BIN, or the release build. Prints the package's file.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build}
convoy=${CONVOY_BIN:-target/release/convoy}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

scripts/files.sh "$root" /usr
find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
docs=$root/usr/share/doc/convoy
install -Dm644 -t "$docs" README.md LICENSE-* docs/*.md
{
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n'
	printf 'Files: *\nCopyright: the Convoy authors\nLicense: Apache-2.0 or MIT\n'
} >"$docs/copyright"

version=$("$convoy" --version | cut -d ' ' -f 2)
commit=$("$convoy" --version | sed -n 's/.*(\(.*\))/+git\1/p')
arch=$(dpkg --print-architecture)
# The newest version of a symbol of the C library that the program asks for.
libc=$(objdump -T "$convoy" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d _ -f 2)
mkdir -p "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<EOF
Package: convoy
Version: $version$commit
Architecture: $arch
Maintainer: the Convoy authors <convoy@localhost>
Section: devel
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: libc6 (>= $libc), libgcc-s1
Description: says what serializes a multithreaded program
 Finds the lock, barrier, queue, thread group or line that keeps a program
 from running in parallel, why, what fixing it would buy, and what to do.
 Needs no recompilation, and works on running processes.
EOF
mkdir -p "$out"
file=$out/convoy_$version${commit}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
