# The scripted provider, a test double for libibverbs.so.1: the whole one, and two that lack the
# newest functions or all of them.
SCRIPTED_SOURCES := $(wildcard testbed/scripted/*.[ch]) testbed/scripted/build.sh
SCRIPTED_BUILD = IBV_SA_SYMBOLS=$(CURDIR)/build/symbols testbed/scripted/build.sh

.PHONY: scripted
scripted: build/scripted/libibverbs.so.1 build/scripted-1.9/libibverbs.so.1 \
	build/scripted-none/libibverbs.so.1

build/scripted/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted
build/scripted-1.9/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted-1.9 IBVERBS_1.9
build/scripted-none/libibverbs.so.1: build/symbols $(SCRIPTED_SOURCES)
	$(SCRIPTED_BUILD) build/scripted-none none
