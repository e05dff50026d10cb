# libibv_sa: build, check, install. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR  ?= $(PREFIX)/share/man
DOCDIR  ?= $(PREFIX)/share/doc/libibv_sa
CC      ?= cc
CARGO   ?= cargo
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

LINK_FLAGS := -shared -Wl,-soname,libibv_sa.so.1 -Wl,--no-undefined-version -Wl,--gc-sections \
  -Wl,-z,relro,-z,now -Wl,-z,nodelete -Wl,-O1 -Wl,--as-needed
# The unwinder is linked in: libgcc_s would be one more library in every program under the preload.
LINK_LIBS := -static-libgcc -lgcc_eh -lgcc -lpthread -lm -ldl -lc

RUST_SOURCES := $(shell find src crates -name '*.rs') Cargo.toml Cargo.lock build.rs

.PHONY: all setup demo test soak bench install uninstall clean help bindings header

all: build/release/libibv_sa.so.1 build/ibv_sa.pc

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

comma := ,

include testbed/scripted/scripted.mk

build/ibv_sa.pc: ibv_sa.pc.in Cargo.toml
	@mkdir -p build
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	  -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' ibv_sa.pc.in >$@

bindings:
	IBV_SA_GENERATE_DIR=$(CURDIR)/src/abi $(CARGO) build -q --features bindings

header:
	IBV_SA_GENERATE_DIR=$(CURDIR)/include/infiniband $(CARGO) build -q --features header

clean:
	rm -rf build target
