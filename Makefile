# SPDX-License-Identifier: Apache-2.0 OR MIT
# `make help` lists the targets. Each installs what it needs first (scripts/install).

# A recipe fails with any command of it, on the left of a pipe as well.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
COWLAB := target/release/cowlab
CASPER_TRACE := target/release/casper-trace

# rustup puts cargo here, and only login shells look there.
export PATH := $(PATH):$(HOME)/.cargo/bin

# One profile and one set of features for everything, so that nothing is compiled twice.
CARGO_FLAGS := --release --workspace

.PHONY: help study build test fuzz-short test-long test-slowdown test-casper-long miri test-insert-long test-hostile-long \
	fuzz fuzz-insert fuzz-reader soak deny sbom kernels test-kernel test-kernel-long test-kernel-regions test-study-long \
	test-tend-long test-fleet-long test-debian-kernels history test-architectures test-arm64 test-arm64-mm unit e2e lint man picture docs test-docs bindings event-cost install install-casper install-files dist test-dist clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 12

study: build ## measure this machine and write the report (3 to 6 minutes after the build)
	$(COWLAB) study --quick

build: ## target/release/cowlab, casper-trace, and target/libcasper
	scripts/install build
	$(CARGO) build $(CARGO_FLAGS)
	$(MAKE) -s -C casper/libcasper all reader BUILD=$(CURDIR)/target/libcasper CARGO_BUILD=$(CURDIR)/target/release

# What is installed and compiled comes first: two apt-get at once fail, and cargo locks target/, so that the unit tests
# would wait for the fuzzers to be compiled. The unit tests wait more than they compute, so they run beside others.
test: lint ## everything that a change must pass
	scripts/install build
	scripts/install kernel
	scripts/install test
	$(CARGO) build $(CARGO_FLAGS) --lib --bins --tests --examples
	scripts/fuzz-files 0
	$(MAKE) --jobs=2 --output-sync=target fuzz-short unit e2e
	$(MAKE) test-docs

test-long: test test-study-long test-kernel-long test-casper-long miri test-slowdown test-insert-long test-tend-long \
	test-fleet-long test-hostile-long test-debian-kernels test-architectures test-arm64 test-arm64-mm test-dist soak deny sbom ## the long tests as well (hours)

unit: build
	scripts/install kernel
	env -u MAKEFLAGS -u MFLAGS $(CARGO) test $(CARGO_FLAGS)

fuzz-short:
	scripts/install test
	scripts/fuzz-files 3

kernels: build ## the plain and the patched kernel, unless they are cached (5 minutes each on 2 CPUs)
	scripts/install kernel
	$(COWLAB) kernel build --variant plain,patched

e2e: kernels
	scripts/install redis
	scripts/install footprints
	scripts/install watch
	scripts/install fleet
	scripts/install docs
	scripts/install kernel-test
	+env -u MAKEFLAGS -u MFLAGS scripts/run-tests # with +, its lines are shown as they come

test-kernel: kernels ## of them, the kernels' own tests in a virtual machine
	scripts/install kernel-test
	$(COWLAB) kernel test --quick --variant plain,patched

test-kernel-long: kernels ## all of them, on the kernels debug and traced as well
	scripts/install kernel-test
	scripts/install redis
	$(COWLAB) kernel test --variant plain,patched,debug --guest time_limit_s=1500
	$(COWLAB) kernel build --variant traced
	$(COWLAB) kernel test --variant traced --filter casper
	tests-long/selftests
	for test in kernel_own kernel_patches kernel_bench kernel_ccow redis snapshot; do COWLAB_TEST_LONG=1 scripts/run-tests $$test || exit 1; done
	for test in $(ON_DEBUG); do $(COWLAB) kernel test --filter mm/$$test \
		--stress-s $(STRESS_S) --variant debug --policy next:16 || exit 1; done

# The kernel's own settings; the sizes of regions and the thresholds of document 003.
REGIONS := ccow $(foreach threshold,0 80 100,$(foreach kib,32 64 128 256 512 1024 2048 4096 8192,ccow:$(threshold):$(kib)))

test-kernel-regions: kernels ## the quick selftests under ccow, and with each size of region and each threshold
	scripts/install kernel-test
	tests-long/selftests --quick $(REGIONS)

# Of each stressor: 1200 make an hour of vm, fork and mmap.
STRESS_S ?= 300

# Of the selftests, beside the project's own tests: others need hours there (docs/kernel-tests.md).
ON_DEBUG := cow stress-vm stress-fork stress-mmap

test-study-long: build ## study --quick with all of its rounds, as `make study` runs it
	scripts/install test
	COWLAB_TEST_LONG=1 scripts/run-tests study

test-slowdown: build ## would compare find a slowdown of 10%? (half an hour; see CONTRIBUTING.md)
	scripts/install test
	scripts/test-slowdown

# Of the contract, libcasper's stress: other tests say how little stack, memory or time is needed.
SANITIZED := stored_and_not_stored signal_handlers each_process

test-casper-long: build ## libcasper's contract with 100 million events in each mode, and under sanitizers (minutes)
	COWLAB_TEST_LONG=1 $(CARGO) test --release -p cowlab-recorder --test contract
	for kind in thread address; do CASPER_SANITIZE=$$kind \
		$(CARGO) test --release -p cowlab-recorder --test contract -- $(SANITIZED) || exit 1; done

# Pinned: another nightly may lack Miri, or report other things.
MIRI := nightly-2026-10-30
miri: ## what C is lent of a trace, in Miri: the one crate with unsafe code and no system call in it
	scripts/install miri $(MIRI)
	MIRIFLAGS=-Zmiri-disable-isolation rustup run $(MIRI) cargo miri test --target-dir target/miri -p cowlab-casper-c --test handles

test-insert-long: build ## insert on SQLite, zlib and Lua: same output, callgrind's call counts
	scripts/install test-long
	casper/tests-long/insert

test-tend-long: build ## tend killed at 50 random moments under a Redis and a known pattern (2 minutes)
	scripts/install redis
	COWLAB=$(CURDIR)/target/release/cowlab REPOSITORY=$(CURDIR) tests/tend/kills 50

test-fleet-long: build ## runs of a real Slurm, DuckDB, Spark, 10,000 simulated hosts, two Prometheus servers (20 minutes)
	scripts/install fleet-long
	tests/fleet/long

test-debian-kernels: build ## every verb on Debian's kernels from 5.10 to the newest, in guests (10 minutes)
	scripts/install debian-kernels
	scripts/test-kernels

history: build ## instructions of fork and its parts on each of Debian's kernels; measures what the results lack (5 minutes a kernel)
	scripts/install kernel
	scripts/install debian-kernels
	tests-long/history/history

test-architectures: build ## what the upstream series touches in mm/, cross-built for arm64, powerpc and s390 (15 minutes)
	scripts/install kernel
	scripts/install architectures
	scripts/test-architectures

test-arm64: ## cowlab cross-built for arm64, and every verb in an emulated guest (15 minutes from nothing)
	scripts/install arm64
	scripts/test-arm64

test-arm64-mm: build ## the upstream series on arm64: selftests and random steps in guests (90 minutes)
	scripts/install kernel
	scripts/install arm64
	scripts/test-arm64-mm

docs/metrics.md: FORCE ## the table of parameters and metrics
	$(CARGO) run $(CARGO_FLAGS:--workspace=) -p cowlab-observe --example reference > $@.new
	mv $@.new $@
FORCE:

test-hostile-long: build ## each call of six commands fails in turn; 5,000 changes of each file that others hand us; 10,000 processes
	scripts/install test
	COWLAB_TEST_LONG=1 COWLAB_TEST_LIMIT_S=14400 scripts/run-tests faults
	COWLAB_TEST_LONG=1 COWLAB_TEST_LIMIT_S=14400 scripts/run-tests hostile_files
	COWLAB_TEST_LONG=1 scripts/run-tests kernel_watch
	scripts/watch-soak --minutes 1 --sleepers 10000
	$(MAKE) fuzz

MINUTES ?= 60
soak: build ## watch for MINUTES=60 under a storm of forks and bad scrapers: RSS, CPU, scrapes within bounds
	scripts/watch-soak --minutes $(MINUTES)

SECONDS ?= 60
fuzz: ## fuzz each reader of files and answers of others for SECONDS=60, on all cores
	scripts/install test
	scripts/fuzz-files $(SECONDS)

fuzz-insert: ## fuzz insert on one core for SECONDS=60
	scripts/install test-long
	scripts/fuzz insert -max_total_time=$(SECONDS)

RUNS ?= 100000
fuzz-reader: ## fuzz the reader of traces on one core with RUNS=100000 inputs
	scripts/install test-long
	scripts/fuzz reader -runs=$(RUNS)

deny: ## licences, versions and sources of every library
	scripts/install deny
	PATH=$(CURDIR)/target/tools/bin:$$PATH $(CARGO) deny check bans licenses sources

sbom: ## target/cowlab.cdx.json: the crates that the program is built from (CycloneDX 1.6)
	scripts/install sbom
	scripts/sbom target/cowlab.cdx.json

lint: ## formats, warnings, licence tags, layers, links
	scripts/install test
	$(CARGO) fmt --all --check
	find probes casper/{include,libcasper,examples,tests,tests-long,crates/recorder} examples tests crates/lab/guest crates/observe/bpf -name '*.[ch]' | xargs clang-format --dry-run -Werror
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/with-clippy $(CARGO) build $(CARGO_FLAGS) --all-targets
	scripts/check-spdx
	scripts/check-layers --self-test
	scripts/check-layers
	scripts/check-links

man: build ## man pages in target/man
	mkdir -p target/man
	$(COWLAB) man --output target/man
	$(CASPER_TRACE) man --output target/man

event-cost: build ## an event's and a call's cost with CASPER, beside LTTng-UST and uftrace (2 minutes)
	scripts/install event-cost
	casper/tests-long/event-cost

picture: build ## docs/report.png, from the newest run's report, and docs/watch.svg, a recording
	scripts/install picture
	scripts/picture
	scripts/recording

docs: build ## target/site: all pages as a site that can be searched, without network
	scripts/install site
	scripts/site target/site-source
	MDBOOK_LOG=warn target/tools/bin/mdbook build docs

test-docs: docs ## the site in a browser: phone and desk, light and dark, links, search
	$(CARGO) test $(CARGO_FLAGS) --test site -- --ignored

bindings: ## the records of C in Rust, from their headers
	scripts/install bindings
	scripts/bindings

install: build install-files ## cowlab, casper-trace, libcasper, man pages, completions, units and what cowlab reads, under PREFIX

# Of what is built: scripts/dist has it in folders of its own.
CASPER_BUILD := $(CURDIR)/target/libcasper
CARGO_BUILD := $(CURDIR)/target/release
LIBDIR ?= $(PREFIX)/lib
SHARED := $(DESTDIR)$(PREFIX)/share

# $(call man-and-completions,PROGRAM,NAME)
define man-and-completions
$(1) man --output $(SHARED)/man/man1
chmod 644 $(SHARED)/man/man1/$(2)*.1
$(1) completions bash | install -Dm644 /dev/stdin $(SHARED)/bash-completion/completions/$(2)
$(1) completions zsh | install -Dm644 /dev/stdin $(SHARED)/zsh/site-functions/_$(2)
$(1) completions fish | install -Dm644 /dev/stdin $(SHARED)/fish/vendor_completions.d/$(2).fish
endef

install-casper: ## casper-trace and libcasper alone, of what was built
	install -Dm755 $(CASPER_TRACE) $(DESTDIR)$(PREFIX)/bin/casper-trace
	$(call man-and-completions,$(CASPER_TRACE),casper-trace)
	$(MAKE) -s -C casper/libcasper install install-reader BUILD=$(CASPER_BUILD) \
		CARGO_BUILD=$(CARGO_BUILD) PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR)

install-files: install-casper
	install -Dm755 $(COWLAB) $(DESTDIR)$(PREFIX)/bin/cowlab
	$(call man-and-completions,$(COWLAB),cowlab)
	for unit in dist/systemd/*; do sed 's,/usr/bin/,$(PREFIX)/bin/,' $$unit | \
		install -Dm644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}; done
	install -d $(SHARED)/cowlab
	cp -RL --parents kernel tests/kernel probes/fork_small.c $(SHARED)/cowlab
	cp -R $(filter-out dist/debian dist/systemd,$(wildcard dist/*)) $(SHARED)/cowlab
	find $(SHARED)/cowlab -name __pycache__ -prune -exec rm -r {} +
	chmod -R u=rwX,go=rX $(SHARED)/cowlab

dist: ## target/dist: Debian packages, a tarball for any Linux since 2014, an OCI image, checksums, the SBOM
	scripts/install dist
	scripts/install zig
	scripts/install sbom
	scripts/dist

test-dist: dist ## the packages installed, upgraded and removed in clean roots of Debian 12 and 13; built twice (20 minutes)
	scripts/install test-dist
	scripts/test-dist

clean: ## what was built; runs/ stays
	$(CARGO) clean
