#!/usr/bin/env bash
# Puts what a user gets below a directory: scripts/files.sh ROOT PREFIX. The program is CONVOY_BIN,
# or the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$1$2
convoy=${CONVOY_BIN:-target/release/convoy}

install -Dm755 "$convoy" "$to/bin/convoy"
generate() {
	mkdir -p "$2"
	"$convoy" generate "$1" -o "$2" >/dev/null
}
generate man "$to/share/man/man1"
generate fish "$to/share/fish/vendor_completions.d"
generate zsh "$to/share/zsh/vendor-completions"
generate bash "$to/share/bash-completion/completions"
mv "$to/share/bash-completion/completions/convoy.bash" \
	"$to/share/bash-completion/completions/convoy"
