# libibv_sa: build, check, install. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR  ?= $(PREFIX)/share/man
DOCDIR  ?= $(PREFIX)/share/doc/libibv_sa
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR  ?= $(PREFIX)/share/zsh/site-functions
FISHCOMPDIR ?= $(PREFIX)/share/fish/vendor_completions.d
UNITDIR ?= $(PREFIX)/lib/systemd/system
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
CC      ?= cc
CARGO   ?= cargo
DESTDIR ?=
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

LINK_FLAGS := -shared -Wl,-soname,libibv_sa.so.1 -Wl,-z,defs -Wl,--no-undefined-version -Wl,--gc-sections \
  -Wl,-z,relro,-z,now -Wl,-z,nodelete -Wl,-O1 -Wl,--as-needed
# The unwinder is linked in: libgcc_s would be one more library in every program under the preload.
LINK_LIBS := -static-libgcc -lgcc_eh -lgcc -lc

MAN1 := $(wildcard man/*.1)
MAN3 := $(wildcard man/*.3)
# Functions that share a page: NAME=PAGE.
MAN3_LINKS := ibv_sa_destroy_event_channel=ibv_sa_create_event_channel ibv_sa_ack_event=ibv_sa_get_event \
  ibv_sa_register_inform_info_ex=ibv_sa_register_inform_info ibv_sa_free_id=ibv_sa_register_inform_info \
  ibv_sa_notice_lid=ibv_sa_notice_trap ibv_sa_notice_gid=ibv_sa_notice_trap ibv_sa_notice_issuer=ibv_sa_notice_trap \
  ibv_sa_trap_str=ibv_sa_event_str ibv_sa_status_str=ibv_sa_event_str

RUST_SOURCES := $(shell find src crates -name '*.rs') Cargo.toml Cargo.lock build.rs

.PHONY: all setup demo test test-style test-unit test-host test-kernel test-fuzz soak fuzz bench install uninstall clean \
  help bindings header setup-build setup-test setup-kernel flavours force

## make            build build/release/libibv_sa.so.1 and build/release/ibv-sa
all: setup-build build/release/libibv_sa.so.1 build/release/ibv-sa

## make setup      install all Debian packages that any target needs (root), or list them
setup:
	tools/setup.sh build test kernel fuzz
setup-build:
	@tools/setup.sh build
setup-test:
	@tools/setup.sh build test
setup-kernel:
	@tools/setup.sh build kernel

## make demo       programs under the shim, one that hangs among them, on a real kernel with Soft-RoCE in a small VM; and
##                 programs that get notices of an OpenSM on a simulated fabric
demo:
	@tools/setup.sh build kernel fabric
	@$(MAKE) --no-print-directory build/release/libibv_sa.so.1 build/release/ibv-sa
	@testbed/vm/demo.sh
	@testbed/sa/demo.sh

## make test       every kind of check, counts scaled down
test:
	@tools/setup.sh build test kernel
	@tools/run-tests.sh test-style test-unit test-host test-kernel

## make soak       every check with full counts; the result goes to docs/soak.md
soak:
	@tools/setup.sh build test kernel fuzz
	@SOAK=1 tools/run-tests.sh --record docs/soak.md test-style test-unit test-host test-kernel test-fuzz

##   test-style    formatting, lints, docs, licences, scripts, generated files
test-style:
	tools/style.sh

##   test-unit     Rust tests of the crates, the daemon's with OpenSM on a simulated fabric; and all interleavings of the
##                 ledger's shared structures (loom)
test-unit:
	$(CARGO) test -q --workspace --exclude ibv-sa-tests
	RUSTFLAGS="--cfg loom" $(CARGO) test -q -p ibv-sa-ledger --release --lib --target-dir target/loom

##   test-host     C programs under the shim on this host, with the scripted provider; SA notices end to end
test-host: flavours scripted build/release/ibv-sa build/release/ibv-sa-bench
	$(CARGO) test -p ibv-sa-tests
	testbed/sa/demo.sh >build/demo-sa.txt || { cat build/demo-sa.txt; exit 1; }
	@echo "ok: the demo's notices came"
	benches/run.sh --rounds 2 >build/bench.txt
	benches/notices.sh --rounds 1 >>build/bench.txt
	@echo "ok: the bench runs (its figures need a quiet machine: make bench)"

##   test-kernel   unmodified programs on a real kernel, for each tested rdma-core; a kernel's events and the daemon
test-kernel: build/release/libibv_sa.so.1 build/release/ibv-sa
	testbed/vm/check.sh $(if $(SOAK),--soak)
	testbed/vm/daemon.sh $(if $(SOAK),--version 44 --version 56 --version 65)
	testbed/vm/demo.sh >build/demo.txt || { cat build/demo.txt; exit 1; }
	@echo "ok: the demo's counts agree"

##   test-fuzz     each fuzz target for a minute; only in make soak
test-fuzz:
	tools/fuzz.sh --seconds 60

flavours: build/release/libibv_sa.so.1 build/debug/libibv_sa.so.1 build/panic/libibv_sa.so.1

## make fuzz       fuzz targets: what strangers may send. SECONDS=60 for each; TARGET=mad, client_message, server_message,
##                 session or policy for one alone; INPUT=FILE runs that file again
fuzz:
	@tools/setup.sh build fuzz
	@tools/fuzz.sh --seconds $(or $(call given,SECONDS),60) $(if $(call given,INPUT),--input $(INPUT)) $(call given,TARGET)
# Not what the environment happens to have under such names; bash has SECONDS itself.
given = $(if $(filter command,$(origin $(1))),$($(1)))

## make bench      measure: calls, side by side with and without the shim; and notices through the daemon
bench: setup-test
	@$(MAKE) --no-print-directory build/release/libibv_sa.so.1 build/release/ibv-sa \
	  build/release/ibv-sa-bench
	@benches/run.sh
	@benches/notices.sh

## make install    into $(DESTDIR)$(PREFIX); also BINDIR, LIBDIR, INCLUDEDIR, MANDIR, DOCDIR, and BASHCOMPDIR,
##                 ZSHCOMPDIR, FISHCOMPDIR for the shells' completions, UNITDIR and TMPFILESDIR for systemd
install: build/release/libibv_sa.so.1 build/release/ibv-sa
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/infiniband \
	  $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man3 $(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(MANDIR)/man7 \
	  $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(DOCDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(TMPFILESDIR) \
	  $(DESTDIR)$(BASHCOMPDIR) $(DESTDIR)$(ZSHCOMPDIR) $(DESTDIR)$(FISHCOMPDIR)
	install -m 755 build/release/ibv-sa $(DESTDIR)$(BINDIR)/ibv-sa
	install -m 755 build/release/libibv_sa.so.1 $(DESTDIR)$(LIBDIR)/libibv_sa.so.1
	ln -sf libibv_sa.so.1 $(DESTDIR)$(LIBDIR)/libibv_sa.so
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	  -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' ibv_sa.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/ibv_sa.pc
	install -m 644 include/infiniband/ibv_sa.h $(DESTDIR)$(INCLUDEDIR)/infiniband/ibv_sa.h
	install -m 644 $(MAN1) $(DESTDIR)$(MANDIR)/man1
	install -m 644 $(MAN3) $(DESTDIR)$(MANDIR)/man3
	for link in $(MAN3_LINKS); do ln -sf "$${link#*=}.3" "$(DESTDIR)$(MANDIR)/man3/$${link%=*}.3"; done
	install -m 644 man/ibv-sa-policy.5 $(DESTDIR)$(MANDIR)/man5/ibv-sa-policy.5
	install -m 644 man/ibv_sa.7 $(DESTDIR)$(MANDIR)/man7/ibv_sa.7
	install -m 644 man/ibv-sa-daemon.8 $(DESTDIR)$(MANDIR)/man8/ibv-sa-daemon.8
	install -m 644 systemd/ibv-sa.socket $(DESTDIR)$(UNITDIR)/ibv-sa.socket
	sed 's|@BINDIR@|$(BINDIR)|' systemd/ibv-sa.service.in | \
	  install -m 644 /dev/stdin $(DESTDIR)$(UNITDIR)/ibv-sa.service
	install -m 644 systemd/ibv-sa.conf $(DESTDIR)$(TMPFILESDIR)/ibv-sa.conf
	build/release/ibv-sa completion bash | install -m 644 /dev/stdin $(DESTDIR)$(BASHCOMPDIR)/ibv-sa
	build/release/ibv-sa completion zsh | install -m 644 /dev/stdin $(DESTDIR)$(ZSHCOMPDIR)/_ibv-sa
	build/release/ibv-sa completion fish | install -m 644 /dev/stdin $(DESTDIR)$(FISHCOMPDIR)/ibv-sa.fish
	install -m 644 LICENSE-MIT LICENSE-APACHE THIRD-PARTY-NOTICES.md docs/report-schema.json docs/policy.toml \
	  docs/operators.md \
	  $(DESTDIR)$(DOCDIR)

## make uninstall  removes what install put there
uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/libibv_sa.so.1 $(DESTDIR)$(LIBDIR)/libibv_sa.so $(DESTDIR)$(LIBDIR)/pkgconfig/ibv_sa.pc \
	  $(DESTDIR)$(INCLUDEDIR)/infiniband/ibv_sa.h $(DESTDIR)$(MANDIR)/man7/ibv_sa.7 $(DESTDIR)$(BINDIR)/ibv-sa \
	  $(DESTDIR)$(MANDIR)/man5/ibv-sa-policy.5 $(DESTDIR)$(MANDIR)/man8/ibv-sa-daemon.8 \
	  $(patsubst man/%,$(DESTDIR)$(MANDIR)/man1/%,$(MAN1)) \
	  $(DESTDIR)$(UNITDIR)/ibv-sa.socket $(DESTDIR)$(UNITDIR)/ibv-sa.service \
	  $(DESTDIR)$(TMPFILESDIR)/ibv-sa.conf $(DESTDIR)$(BASHCOMPDIR)/ibv-sa \
	  $(DESTDIR)$(ZSHCOMPDIR)/_ibv-sa $(DESTDIR)$(FISHCOMPDIR)/ibv-sa.fish
	rm -f $(patsubst man/%,$(DESTDIR)$(MANDIR)/man3/%,$(MAN3))
	for link in $(MAN3_LINKS); do rm -f "$(DESTDIR)$(MANDIR)/man3/$${link%=*}.3"; done
	rm -rf $(DESTDIR)$(DOCDIR)

## make bindings   regenerate src/abi/verbs.rs;  make header: include/infiniband/ibv_sa.h
bindings:
	IBV_SA_GENERATE_DIR=$(CURDIR)/src/abi $(CARGO) build -q --features bindings
header:
	IBV_SA_GENERATE_DIR=$(CURDIR)/include/infiniband $(CARGO) build -q --features header

## make clean      removes everything that was built, images of the VM too
clean:
	rm -rf build target

help:
	@sed -n 's/^## //p' Makefile

build/symbols: $(wildcard crates/symbols/src/*.rs) src/abi/table.rs
	@mkdir -p build
	$(CARGO) build -q -p ibv-sa-symbols
	cp target/debug/ibv-sa-symbols $@

build/libibv_sa.map: build/symbols
	build/symbols map >$@

# link FLAVOUR-DIRECTORY,ARCHIVE,EXTRA-FLAGS
define link
	@mkdir -p $(1)
	$(CC) -o $(1)/libibv_sa.so.1 $(LINK_FLAGS) -Wl,--version-script=build/libibv_sa.map $(3) \
	  -Wl,--whole-archive $(2) -Wl,--no-whole-archive $(LINK_LIBS)
	ln -sf libibv_sa.so.1 $(1)/libibv_sa.so
endef

build/release/libibv_sa.so.1: build/libibv_sa.map $(RUST_SOURCES)
	$(CARGO) build -q --release
	$(call link,build/release,target/release/libibv_sa.a,-Wl$(comma)-s)

build/debug/libibv_sa.so.1: build/libibv_sa.map $(RUST_SOURCES)
	$(CARGO) build -q
	$(call link,build/debug,target/debug/libibv_sa.a,)

# Test flavour: all bookkeeping panics.
build/panic/libibv_sa.so.1: build/libibv_sa.map $(RUST_SOURCES)
	$(CARGO) build -q --features panic-probe --target-dir target/panic
	$(call link,build/panic,target/panic/debug/libibv_sa.a,)

# The command knows where the library will be. It is made again when that changes.
build/release/ibv-sa: $(RUST_SOURCES) build/libdir
	@mkdir -p build/release
	IBV_SA_LIBDIR=$(LIBDIR) $(CARGO) build -q --release -p ibv-sa-cli
	strip -o $@ target/release/ibv-sa

build/release/ibv-sa-bench: $(RUST_SOURCES)
	@mkdir -p build/release
	$(CARGO) build -q --release -p ibv-sa-bench
	cp target/release/ibv-sa-bench $@

build/libdir: force
	@mkdir -p build
	@echo '$(LIBDIR)' | cmp -s - $@ || echo '$(LIBDIR)' >$@
force:

comma := ,

include testbed/scripted/scripted.mk
