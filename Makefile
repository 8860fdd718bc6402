# The one list of commands. `make help` prints it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
CARGO ?= cargo
CONVOY := target/release/convoy

.PHONY: help setup setup-test build demo test lint fmt golden bless bench whatif install deb
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: # what building needs
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test

build: setup ## build target/release/convoy, one file with the agent inside
	$(CARGO) build --release --locked -p convoy

demo: build ## find out why four independent SQLite threads do not scale
	@scripts/demo.sh

test: setup-test ## install what is missing and run all tests
	@scripts/test.sh

lint: setup-test ## formatting, clippy, agent with two compilers, file sizes, architecture
	@scripts/lint.sh

fmt: ## format the Rust code
	$(CARGO) fmt --all

golden: setup-test ## run the golden tests only
	$(CARGO) test --locked -p convoy-report -p convoy-analysis -p convoy-compare -p convoy-model -p convoy-profile

bless: setup-test ## accept the present output as the golden one
	CONVOY_BLESS=1 $(CARGO) test --locked -p convoy-report -p convoy-analysis -p convoy-compare

bench: build setup-test ## overhead beside the bare program and peers; probes, experiments, gains beside the truth
	bench/run
	bench/live
	bench/causal
	bench/gains

whatif: build setup-test ## what fixes save, measured and as convoy replay predicts it
	bench/whatif truth
	bench/whatif predict

install: build ## install below $(DESTDIR)$(PREFIX) (default /usr/local), with man pages
	@scripts/files.sh "$(DESTDIR)" "$(or $(PREFIX),/usr/local)"

deb: build ## build a Debian package in build/
	@scripts/deb.sh
