# Piste. `make help` lists what there is.

VERSION := 0.1.0
SONAME := libpiste.so.0
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
BUILD := build
CC ?= cc
CXX ?= c++
CARGO ?= cargo
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow
RUNTIME_CFLAGS := -std=gnu11 $(WARNINGS) -fPIC -Iinclude
LIBRARY_FINDERS := pkgconfig/piste.pc cmake/piste/piste-config.cmake cmake/piste/piste-config-version.cmake
PRELOAD_HELPERS := libc libc-callers pthread dl functions

RUNTIME_SOURCES := $(wildcard runtime/*.c)
RUNTIME_OBJECTS := $(RUNTIME_SOURCES:runtime/%.c=$(BUILD)/objects/%.o)
HEADERS := $(wildcard include/piste/*.h include/piste/abi/*.h)

.PHONY: help
help: ## Lists the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# Several builds of cargo at once: each ends with a few large crates, one after the other, and leaves CPUs idle meanwhile. Their profiles differ,
# so they share no folder. Cargo counts its own jobs.
AT_ONCE = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j3)
RUN_CARGO = MAKEFLAGS= $(CARGO)
PARTS := library programs manual

.PHONY: build
build: ## Builds everything into build/, laid out as it is installed
	@$(AT_ONCE) $(PARTS)

# ---- What the build and the tests need beyond a compiler and cargo ----

.PHONY: packages
packages:
	@tools/install-packages

# ---- libpiste, in C ----

.PHONY: library
library: $(BUILD)/lib/$(SONAME) $(BUILD)/lib/libpiste.a $(LIBRARY_FINDERS:%=$(BUILD)/lib/%) $(BUILD)/include/piste/tracepoint.h \
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

# fill UP: what the templates of packaging/ have between @s. UP leads from the folder of the library to the one that was installed to: these
# files find everything from their own places, so that the build tree and every PREFIX work alike.
fill = sed -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' -e 's|@BINDIR@|$(PREFIX)/bin|g' -e 's|@UP@|$(1)|g'

$(BUILD)/lib/pkgconfig/%: packaging/%.in Makefile
	@mkdir -p $(@D)
	$(call fill,..) $< > $@

$(BUILD)/lib/cmake/piste/%: packaging/%.in Makefile
	@mkdir -p $(@D)
	$(call fill,..) $< > $@

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

# ---- The viewer, in TypeScript: `piste web` serves it ----

# Without Node.js, everything else is built, and `piste web` says what is missing.
VIEWER_SOURCES := $(wildcard viewer/src/*) viewer/build.mjs viewer/package.json
.PHONY: viewer no-viewer
viewer: $(if $(shell command -v npm),viewer/dist/viewer.js,no-viewer)

no-viewer:
	@echo "without Node.js (20 or newer, with npm), piste is built without the viewer of \`piste web\`"

viewer/node_modules/.package-lock.json: viewer/package-lock.json
	@cd viewer && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: check-viewer
check-viewer: viewer/node_modules/.package-lock.json
	@cd viewer && npm run --silent check

viewer/dist/viewer.js: $(VIEWER_SOURCES) viewer/node_modules/.package-lock.json
	@cd viewer && node build.mjs

.PHONY: tracer
tracer: viewer
	$(RUN_CARGO) build --release --locked -p piste -p pisted
	@mkdir -p $(BUILD)/bin
	install -m 755 target/release/piste target/release/pisted $(BUILD)/bin/
	@$(BUILD)/bin/piste man $(BUILD)/share/man/man1
	@mkdir -p $(BUILD)/share/bash-completion/completions $(BUILD)/share/zsh/site-functions $(BUILD)/share/fish/vendor_completions.d
	@$(BUILD)/bin/piste completions bash > $(BUILD)/share/bash-completion/completions/piste
	@$(BUILD)/bin/piste completions zsh > $(BUILD)/share/zsh/site-functions/_piste
	@$(BUILD)/bin/piste completions fish > $(BUILD)/share/fish/vendor_completions.d/piste.fish

.PHONY: query
query: ## Builds what `piste query` and `piste export --format parquet` need (part of build)
	$(RUN_CARGO) build --profile query --locked -p piste-query
	@mkdir -p $(BUILD)/bin
	install -m 755 target/query/piste-query $(BUILD)/bin/

# ---- Documentation; `make tracer` makes the man pages of the commands ----

.PHONY: manual
manual:
	@tools/man-pages $(VERSION) $(BUILD)/share/man
	@rm -rf $(BUILD)/share/doc/piste
	@mkdir -p $(BUILD)/share/doc/piste
	@cp -R README.md ARCHITECTURE.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs examples $(BUILD)/share/doc/piste/

# ---- Installing, and packages ----

.PHONY: install
install: build ## Installs to PREFIX (default /usr/local): programs, library, headers, docs, man pages, completions, a unit for systemd
	@$(MAKE) --no-print-directory install-built

# The helpers are where piste looks for them, beside its own folder, wherever the library is.
UP = $(shell realpath -m --relative-to=$(LIBDIR) $(PREFIX))
COPY := cp -R --no-dereference --preserve=mode,timestamps
.PHONY: install-built
install-built:
	mkdir -p $(addprefix $(DESTDIR),$(PREFIX)/lib/piste $(PREFIX)/lib/systemd/system $(LIBDIR)/pkgconfig $(LIBDIR)/cmake/piste)
	$(COPY) $(BUILD)/bin $(BUILD)/include $(BUILD)/share $(DESTDIR)$(PREFIX)/
	$(COPY) $(BUILD)/lib/libpiste.* $(DESTDIR)$(LIBDIR)/
	$(COPY) $(PRELOAD_HELPERS:%=$(BUILD)/lib/piste/libpiste-%.so) $(DESTDIR)$(PREFIX)/lib/piste/
	for file in $(LIBRARY_FINDERS); do $(call fill,$(UP)) packaging/$${file##*/}.in > $(DESTDIR)$(LIBDIR)/$$file; done
	$(call fill) packaging/pisted.service.in > $(DESTDIR)$(PREFIX)/lib/systemd/system/pisted.service

.PHONY: deb
deb: packages build ## Builds the Debian packages piste, libpiste0, libpiste-dev and piste-query: build/packages/*.deb
	@tools/deb

.PHONY: wheel
wheel: packages library tracer manual ## Builds a wheel, for `pip install`, with everything but piste-query: build/packages/*.whl
	@tools/wheel

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
test: packages ## Runs every test
	@$(AT_ONCE) $(PARTS) tests
	@tools/test

.PHONY: test-steadiness
test-steadiness: packages ## Runs the tests that depend on time or the machine 20 times, while every CPU is busy; goes on where it was interrupted
	@$(AT_ONCE) $(PARTS) tests
	@tools/test --strict --hog --repeat 20 --stages tools/steadiness-stages.toml --logs out/steadiness

# As the stages of tools/test-stages.toml run them. The programs take longest to build, in crates that wait for each other, so the rest is built
# with the CPU time that they leave.
.PHONY: tests tests-workspace tests-query tests-loom
tests: tests-workspace tests-query tests-loom

tests-workspace tests-loom: CARGO := nice -n 10 $(CARGO)

tests-workspace:
	$(RUN_CARGO) test --locked --workspace --exclude piste-query --exclude piste-sql --no-run

tests-query: query
	$(RUN_CARGO) test --locked --profile query -p piste-query --no-run

tests-loom:
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-target}/loom" $(RUN_CARGO) test --locked -p piste-ring --test loom --profile loom --no-run

CHECKS ?=
KERNELS ?=

.PHONY: test-kernels
test-kernels: ## Tests Piste on five kernels of Debian, in QEMU; KERNELS='6.1 6.1-rt' and CHECKS='kprobe text' choose
	@tools/install-packages kernels
	@$(MAKE) --silent library tracer
	@tests/kernels/run --kernels '$(KERNELS)' --checks '$(CHECKS)'

.PHONY: lab-lttng
lab-lttng: ## Records one load with LTTng's kernel modules and with Piste, in QEMU, and compares counts and sizes
	@tools/install-packages lab-lttng
	@$(MAKE) --silent library tracer
	@tests/kernels/beside-lttng

.PHONY: lab-peers
lab-peers: ## Runs piste bench with the tracers that need kernel modules, in QEMU; its timings are meaningless
	@tools/install-packages lab-peers
	@$(MAKE) --silent library tracer
	@tests/kernels/peers

.PHONY: check
check: packages ## Formats, lints and checks the architecture, without changing anything
	@tools/check

.PHONY: bench
bench: packages build ## Measures against the floor, LTTng-UST, perf and strace; results in out/bench.json
	@bench/run

.PHONY: bench-hostile
bench-hostile: packages build ## Measures under attack and in trouble, against bars and a plain CPU hog; results in out/bench-hostile.json
	@bench/run --hostile

.PHONY: bench-viewer
bench-viewer: packages library tracer ## Measures the viewer in chromium, and making its index, against bars; results in out/bench-viewer.json
	$(RUN_CARGO) build --release --locked -p piste-suite --bin make-trace
	@bench/run --viewer

.PHONY: bench-overhead
bench-overhead: build ## Measures what tracing the whole system adds to real jobs: about half an hour
	@tools/install-packages bench-overhead
	@bench/overhead

.PHONY: pictures
pictures: packages build ## Makes the pictures of the documentation anew
	@tools/pictures

.PHONY: clean
clean: ## Removes what was built
	rm -rf $(BUILD) out
	$(CARGO) clean
