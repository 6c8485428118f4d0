# Piste. `make help` lists what there is.

VERSION := 0.1.0
SONAME := libpiste.so.0
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build
CC ?= cc
CXX ?= c++
CARGO ?= cargo
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow
RUNTIME_CFLAGS := -std=gnu11 $(WARNINGS) -fPIC -Iinclude
PRELOAD_HELPERS := libc libc-callers pthread dl functions

RUNTIME_SOURCES := $(wildcard runtime/*.c)
RUNTIME_OBJECTS := $(RUNTIME_SOURCES:runtime/%.c=$(BUILD)/objects/%.o)
HEADERS := $(wildcard include/piste/*.h include/piste/abi/*.h)

.PHONY: help
help: ## Lists the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

.PHONY: build
build: library programs ## Builds everything into build/, laid out as it is installed

# ---- What the build and the tests need beyond a compiler and cargo ----

.PHONY: packages
packages:
	@tools/install-packages

# ---- libpiste, in C ----

.PHONY: library
library: $(BUILD)/lib/$(SONAME) $(BUILD)/lib/libpiste.a $(BUILD)/lib/pkgconfig/piste.pc $(BUILD)/include/piste/tracepoint.h \
	$(PRELOAD_HELPERS:%=$(BUILD)/lib/piste/libpiste-%.so)

$(BUILD)/objects/%.o: runtime/%.c $(wildcard runtime/*.h) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(RUNTIME_CFLAGS) $(CFLAGS) -c $< -o $@

$(BUILD)/lib/$(SONAME): $(RUNTIME_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) -Wl,-z,nodelete -Wl,-z,defs -o $@ $^ -lpthread
	ln -sf $(SONAME) $(BUILD)/lib/libpiste.so

$(BUILD)/lib/libpiste.a: $(RUNTIME_OBJECTS)
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcs $@ $^

# Relative to itself, so that the build tree and every PREFIX work alike.
$(BUILD)/lib/pkgconfig/piste.pc: Makefile
	@mkdir -p $(@D)
	printf '%s\n' 'prefix=$${pcfiledir}/../..' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: piste' \
		'Description: Tracepoints for C and C++ programs' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
		'Libs: -L$${libdir} -lpiste' 'Libs.private: -lpthread' > $@

$(BUILD)/include/piste/tracepoint.h: $(HEADERS)
	@mkdir -p $(BUILD)/include
	rm -rf $(BUILD)/include/piste
	cp -r include/piste $(BUILD)/include/

$(BUILD)/lib/piste/libpiste-dl.so: runtime/preload/dl_search.c runtime/preload/dl_objects.c

HELPER_NEEDS := $(wildcard runtime/*.h runtime/preload/*.h) $(HEADERS) $(BUILD)/lib/$(SONAME)
define build-helper
@mkdir -p $(@D)
$(CC) $(RUNTIME_CFLAGS) $(HELPER_CFLAGS) $(CFLAGS) -fno-instrument-functions -shared $(LDFLAGS) -Wl,-z,nodelete -Wl,-z,defs \
	-Wl,-rpath,'$$ORIGIN/..' -o $@ $(filter %.c,$^) -L$(BUILD)/lib -lpiste -ldl -lpthread
endef

$(BUILD)/lib/piste/libpiste-libc-callers.so: HELPER_CFLAGS := -DWITH_CALLERS
$(BUILD)/lib/piste/libpiste-libc-callers.so: runtime/preload/libc.c $(HELPER_NEEDS)
	$(build-helper)

$(BUILD)/lib/piste/libpiste-%.so: runtime/preload/%.c $(HELPER_NEEDS)
	$(build-helper)

# ---- piste, pisted and piste-query, in Rust ----

.PHONY: programs
programs: tracer query

.PHONY: tracer
tracer:
	$(CARGO) build --release --locked -p piste -p pisted
	@mkdir -p $(BUILD)/bin
	install -m 755 target/release/piste target/release/pisted $(BUILD)/bin/
	@$(BUILD)/bin/piste man $(BUILD)/share/man/man1
	@mkdir -p $(BUILD)/share/bash-completion/completions $(BUILD)/share/zsh/site-functions $(BUILD)/share/fish/vendor_completions.d
	@$(BUILD)/bin/piste completions bash > $(BUILD)/share/bash-completion/completions/piste
	@$(BUILD)/bin/piste completions zsh > $(BUILD)/share/zsh/site-functions/_piste
	@$(BUILD)/bin/piste completions fish > $(BUILD)/share/fish/vendor_completions.d/piste.fish

.PHONY: query
query: ## Builds what `piste query` and `piste export --format parquet` need (part of build)
	$(CARGO) build --profile query --locked -p piste-query
	@mkdir -p $(BUILD)/bin
	install -m 755 target/query/piste-query $(BUILD)/bin/

.PHONY: install
install: build ## Installs to PREFIX (default /usr/local): programs, library, headers, piste.pc, man pages, completions
	mkdir -p $(DESTDIR)$(PREFIX)
	cp -a $(BUILD)/bin $(BUILD)/lib $(BUILD)/include $(BUILD)/share $(DESTDIR)$(PREFIX)/

# ---- What people run ----

.PHONY: demo
demo: ## Records two programs with the kernel; shows one system call on its way, and why the other program is slow
	@tools/install-packages demo
	@echo "Building libpiste, the library of traced programs: a few seconds"
	@$(MAKE) --silent library
	@echo "Building piste and pisted: two to four minutes the first time"
	@$(MAKE) --silent tracer
	@tools/demo

.PHONY: test
test: packages build ## Runs every test
	@tools/test

.PHONY: check
check: packages ## Formats, lints and checks the architecture, without changing anything
	@tools/check

.PHONY: bench
bench: packages build ## Measures against the floor, LTTng-UST, perf and strace; results in out/bench.json
	@bench/run

.PHONY: bench-hostile
bench-hostile: packages build ## Measures under attack and in trouble, against bars and a plain CPU hog; results in out/bench-hostile.json
	@bench/run --hostile

.PHONY: bench-overhead
bench-overhead: packages build ## Measures what tracing the whole system adds to real jobs: about half an hour
	@bench/overhead

.PHONY: pictures
pictures: packages build ## Makes the pictures of the documentation anew
	@tools/pictures

.PHONY: clean
clean: ## Removes what was built
	rm -rf $(BUILD) out
	$(CARGO) clean
