# The scripted provider, a test double for libibverbs.so.1: the whole one, two that lack the newest
# functions or all of them, and one that finds accesses to freed memory.
SCRIPTED_SOURCES := $(wildcard testbed/scripted/*.[ch]) testbed/scripted/build.sh
SCRIPTED_BUILD = IBV_SA_SYMBOLS=$(CURDIR)/build/symbols testbed/scripted/build.sh

.PHONY: scripted
scripted: build/scripted/libibverbs.so.1 build/scripted-1.9/libibverbs.so.1 \
	build/scripted-none/libibverbs.so.1 build/scripted-asan/libibverbs.so.1

build/scripted/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted
build/scripted-1.9/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted-1.9 IBVERBS_1.9
build/scripted-none/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted-none none
build/scripted-asan/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	CFLAGS=-fsanitize=address $(SCRIPTED_BUILD) build/scripted-asan
