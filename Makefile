# immure: `make help` lists the targets.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR    ?=
CC         ?= cc
PKG_CONFIG ?= pkg-config
# What runs the target's programs while it is built, where this machine does not: qemu-aarch64-static -L ROOT
EMULATOR   ?=
SAN        ?=
HOOKS      ?=
BUILD      ?= build$(if $(SAN),-san)$(if $(HOOKS),-hooks)
V          ?= 0
Q          := $(if $(filter 1,$(V)),,@)
say         = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' $(1) $(2);)

VERSION := $(shell sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -n 1)
# Told by --version and /metrics: the repository's, or what an archive of it remembers; empty where neither is there.
COMMIT  ?= $(shell { if [ -e .git ]; then git rev-parse HEAD; else cat config/deploy/commit; fi; } 2>/dev/null | grep -oE '^[0-9a-f]{12}')
PKGS    := libnl-3.0 libseccomp libprotobuf-c libcjson nettle

CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -Werror
HARDEN   := -fPIE -fstack-protector-strong -fno-strict-aliasing $(if $(SAN),,-D_FORTIFY_SOURCE=2) \
            $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),-fcf-protection)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# What a server must never have: a front that attacks its own warden, for tests/fort.
CPPFLAGS_HOOKS := $(if $(HOOKS),-DIMMURE_HOOKS)
SRC_hooks := server/front/misbehave.c server/kit/die_here.c
# The same sources are the same bytes, whatever the names of their directory and of BUILD (tests/deploy/test_reproducible.py).
PATHS    := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(BUILD)/gen=gen
CPPFLAGS_ALL = $(PATHS) -D_GNU_SOURCE $(CPPFLAGS_HOOKS) -DIMMURE_VERSION='"$(or $(VERSION),0)"' -I. -I$(BUILD)/gen $(PKG_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL   = -std=c17 $(WARN) $(HARDEN) $(SANFLAGS) $(CFLAGS)
LDFLAGS_ALL  = -pie -Wl,-z,relro,-z,now,-z,noexecstack $(SANFLAGS) $(LDFLAGS)
PKG_CFLAGS  := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
# Every shared library costs each `immure run` some 40 microseconds: those that come as archives too are linked in. (cJSON does not.)
STATIC      ?= nl-3 seccomp protobuf-c nettle
archive      = $(if $(findstring /,$(shell $(CC) -print-file-name=lib$(1).a)),-l:lib$(1).a,-l$(1))
PKG_LIBS    := $(foreach l,$(patsubst -l%,%,$(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)),\
                 $(if $(filter $(STATIC),$(l)),$(call archive,$(l)),$(if $(filter -%,$(l)),$(l),-l$(l))))

# What only the front is linked with (server/bridge/callback.c, server/doors/content_type.c), and tests of it.
FRONT_LIBS  := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs libcurl libmagic 2>/dev/null)

# Layers, lowest first. A layer's archive may use those before it.
LAYERS := base jail config policy server
SRC_base   := $(wildcard jail/base/*.c)
SRC_jail   := $(wildcard jail/*.c jail/plan/*.c jail/resources/*.c jail/child/*.c)
SRC_config := $(wildcard config/*.c config/*/*.c)
SRC_policy := $(filter-out policy/embed/%,$(wildcard policy/*.c policy/*/*.c))
SRC_server := $(filter-out server/front/main.c $(if $(HOOKS),,$(SRC_hooks)),$(wildcard server/*/*.c))
PROTO      := $(wildcard config/*/*.proto)
GEN        := $(PROTO:%.proto=$(BUILD)/gen/%.pb-c.c)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
OBJ_config := $(call obj,$(SRC_config)) $(GEN:%.c=%.o)
$(foreach l,base jail policy server,$(eval OBJ_$(l) := $(call obj,$(SRC_$(l)))))
LIBS := $(foreach l,$(LAYERS),$(BUILD)/lib$(l).a)

# What the tests of a layer link with.
LINK_jail/base := base
LINK_jail      := jail base
LINK_config    := config base
LINK_policy    := policy config jail base
LINK_server    := server policy config jail base
UNIT_SRC := $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT_SRC))
FRONT    := $(BUILD)/immure-front
TOOLS    := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(wildcard tests/tools/*.c))
FUZZ     := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCH    := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/*.c))

# What makes the interpreters of the host warm, where the headers of any of them are; not under the sanitizers, whose address
# space no RLIMIT_AS has room for. CPython's headers do not bear our warnings.
PYTHON_H    ?= $(lastword $(wildcard /usr/include/python3.*/Python.h))
SRC_python  := $(wildcard jail/runtime/python/*.c)
pic          = $(patsubst %.c,$(BUILD)/pic/%.o,$(1))
OBJ_python  := $(call pic,$(SRC_python))
PYTHON      := $(if $(SAN),,$(if $(PYTHON_H),$(BUILD)/immure-python.so))
$(OBJ_python): PKG_CFLAGS += -isystem $(dir $(PYTHON_H))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: faults soak storm all check unit unit-programs tools gen lint format bench fuzz fuzz-programs fuzz-corpus install uninstall \
  dist sbom clean help FORCE

all: $(BUILD)/immure $(FRONT) $(PYTHON)

help:
	@echo 'make              build $(BUILD)/immure, $(FRONT)'
	@echo 'make check        unit, golden, jail and API tests'
	@echo 'make unit         the unit tests alone'
	@echo 'make fuzz T=300   every fuzz target for T seconds, JOBS at a time (clang); fails on a finding'
	@echo 'make fuzz-corpus  the fuzz targets on what is in tests/fuzz/corpus'
	@echo 'make lint         clang-tidy, cppcheck, include rules, shellcheck'
	@echo 'make format       clang-format in place'
	@echo 'make bench        compare with bare python, bwrap, unshare, crun; report in $(BUILD)/bench'
	@echo '                  BENCH_FLAGS="--against DIRECTORY": with another build of immure, taking turns'
	@echo 'make faults       let every system call of set-up and start fail, one at a time'
	@echo 'make soak N=2000  so many jobs through one server; what it holds before and after'
	@echo 'make storm N=40   end so many processes of a server under load with SIGKILL'
	@echo 'make install      to DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)'
	@echo 'make uninstall    the reverse'
	@echo 'make sbom         $(BUILD)/sbom: what of other packages the compiler and the linker have opened (SPDX, CycloneDX)'
	@echo 'make dist         $(BUILD)/dist: the commit as an archive, and its checksum; scripts/package makes Debian packages'
	@echo 'make clean        remove $(BUILD)'
	@echo 'Variables: V=1 CC= AR= PKG_CONFIG= EMULATOR= CFLAGS= LDFLAGS= BUILD= SAN=address,undefined; STATIC= links no library in; HOOKS=1 (for tests/fort)'

$(BUILD)/gen/%.pb-c.c: %.proto
	$(call say,PROTOC,$<)mkdir -p $(BUILD)/gen && protoc-c --proto_path=. --c_out=$(BUILD)/gen $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(call say,CC,$<)$(CC) $(CPPFLAGS_ALL) -std=c17 $(HARDEN) $(SANFLAGS) $(CFLAGS) -c -o $@ $<

gen: $(GEN)

# Another commit is another program, in these two objects.
NAMES_COMMIT := $(call obj,server/main.c server/front/figures.c)
$(NAMES_COMMIT): CPPFLAGS_HOOKS += -DIMMURE_COMMIT='"$(or $(COMMIT),unknown)"'
$(NAMES_COMMIT): $(BUILD)/gen/commit-$(or $(COMMIT),unknown)
$(BUILD)/gen/commit-%:
	@mkdir -p $(@D) && rm -f $(BUILD)/gen/commit-* && touch $@

$(BUILD)/obj/%.o: %.c | $(GEN)
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MD -MP -c -o $@ $<

# The shipped configuration is part of the binary (config/shipped.c includes the files as they are).
$(BUILD)/obj/config/shipped.o: $(wildcard config/*.textproto config/policies/*.textproto config/policies/parts/*.textproto \
  jail/runtime/*/prelude/*)
$(BUILD)/obj/server/front/openapi.o: server/front/openapi.json
$(BUILD)/obj/server/front/console.o: $(wildcard server/console/*)

# The prelude as code, which saves each interpreter's start the compiling. It says which version can run it. Where that version is
# not at hand, it is empty, and jobs compile the text (immure.pth).
PRELUDE    := jail/runtime/python/prelude/immure-prelude
COMPILE_PY := import py_compile, sys; py_compile.compile(*sys.argv[1:], True, 0, py_compile.PycInvalidationMode.UNCHECKED_HASH)
$(BUILD)/gen/$(PRELUDE).pyc: $(PRELUDE).py
	$(call say,PYC,$<)mkdir -p $(@D) && if [ -x /usr/bin/python3 ]; then \
	  /usr/bin/python3 -I -c '$(COMPILE_PY)' $< $@ /usr/local/lib/immure/$(<F); else : >$@; fi
$(BUILD)/obj/config/shipped.o: $(BUILD)/gen/$(PRELUDE).pyc

define layer_rule
$(BUILD)/lib$(1).a: $(OBJ_$(1))
	$$(call say,AR,$$@)rm -f $$@ && $$(AR) qcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l))))

# The shipped policies, read and compiled by the program's own code while it is built (policy/embed/embed.c says why).
EMBEDDED := $(BUILD)/gen/policy/embedded_policies
$(BUILD)/policy-embed: $(call obj,$(wildcard policy/embed/*.c)) $(foreach l,$(LINK_policy),$(BUILD)/lib$(l).a)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)
$(EMBEDDED).c: $(BUILD)/policy-embed
	$(call say,EMBED,$@)mkdir -p $(@D) && $(EMULATOR) $< >$@

# What the linker opens is told by a file, too (scripts/sbom).
OPENED = -Wl,--dependency-file=$@.d
$(BUILD)/immure: $(BUILD)/obj/server/main.o $(EMBEDDED).o $(LIBS)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(OPENED) -o $@ $(filter %.o,$^) $(BUILD)/libserver.a $(BUILD)/libpolicy.a $(BUILD)/libconfig.a \
	  $(BUILD)/libjail.a $(BUILD)/libbase.a $(PKG_LIBS)

$(FRONT): $(BUILD)/obj/server/front/main.o $(LIBS)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(OPENED) -o $@ $(filter %.o,$^) $(BUILD)/libserver.a $(BUILD)/libpolicy.a $(BUILD)/libconfig.a \
	  $(BUILD)/libjail.a $(BUILD)/libbase.a $(PKG_LIBS) $(FRONT_LIBS)

define unit_rule
$(BUILD)/tests/unit/$(1)/%: $(BUILD)/obj/tests/unit/$(1)/%.o $(foreach l,$(LINK_$(1)),$(BUILD)/lib$(l).a)
	$$(call say,LD,$$@)mkdir -p $$(@D) && $$(CC) $$(LDFLAGS_ALL) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $$(PKG_LIBS) -lcmocka $$(FRONT_LIBS)
endef
$(foreach l,jail/base $(filter-out base,$(LAYERS)),$(eval $(call unit_rule,$(l))))

# Holds the embedded policies to what their texts say.
$(BUILD)/tests/unit/policy/test_embedded: $(EMBEDDED).o

# The program with numbers that let the fault tests see at once what is not given back, and wait little; and whose
# self-test does not come between them.
FAULTS     := -DOUTER_UIDS=4 -DRESTART_DELAY_NS=10000000ull -DBACKOFF_FREE=1000000u -DAGAIN_NS=10000000ull -DDOUBT_PAUSE_NS=NS_PER_S*100000
FAULTS_OBJ := $(patsubst %,$(BUILD)/faults/server/%.o,warden/warden warden/state warden/selftest kit/backoff run/warm_template)
$(BUILD)/faults/%.o: %.c | $(GEN)
	$(call say,CC,$< $(FAULTS))mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(FAULTS) $(CFLAGS_ALL) -MD -MP -c -o $@ $<
$(BUILD)/tests/faults/immure: $(FAULTS_OBJ) $(BUILD)/obj/server/main.o $(EMBEDDED).o $(LIBS)
	$(call say,LD,$@)mkdir -p $(@D) && ln -sf ../../immure-front ../../immure-python.so $(@D)/ && $(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) \
	  $(BUILD)/libserver.a $(BUILD)/libpolicy.a $(BUILD)/libconfig.a $(BUILD)/libjail.a $(BUILD)/libbase.a $(PKG_LIBS)

$(BUILD)/tests/tools/%: $(BUILD)/obj/tests/tools/%.o $(LIBS)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(BUILD)/libserver.a $(BUILD)/libpolicy.a \
	  $(BUILD)/libconfig.a $(BUILD)/libjail.a $(BUILD)/libbase.a $(PKG_LIBS)

$(BUILD)/pic/%.o: %.c | $(GEN)
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fPIC -fvisibility=hidden -MD -MP -c -o $@ $<

$(BUILD)/pic/jail/runtime/python/scripts.o: $(wildcard jail/runtime/python/*.py jail/runtime/python/rehearsal/*.py)

$(BUILD)/libzygote.a: $(call pic,jail/zygote.c $(wildcard jail/child/*.c jail/plan/*.c jail/base/*.c))
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $^

# Whoever loads it has CPython's functions.
LDFLAGS_SO = $(filter-out -pie,$(LDFLAGS_ALL)) -shared
$(BUILD)/immure-python.so: $(OBJ_python) $(BUILD)/libzygote.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_SO) $(OPENED) -o $@ $^

# The same in no jail at all, to be held against the interpreter itself.
$(BUILD)/tests/warm/immure-python.so: $(OBJ_python) $(call pic,tests/warm/zygote_standin.c) $(BUILD)/libzygote.a
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LDFLAGS_SO) -o $@ $^

# The schema that the text format's and JSON's tests read into.
EVERYTHING := $(BUILD)/gen/tests/config/everything.pb-c
gen: $(EVERYTHING).c
EVERYTHING_USERS := tests/tools/textproto2bin $(addprefix tests/unit/config/format/test_,textformat jsonformat bind) \
  $(addprefix tests/fuzz/fuzz_,text json_format)
$(EVERYTHING_USERS:%=$(BUILD)/obj/%.o): | $(EVERYTHING).c
$(addprefix $(BUILD)/,$(subst fuzz_,,$(EVERYTHING_USERS))): $(EVERYTHING).o

tools: $(TOOLS) $(BENCH) $(BUILD)/tests/faults/immure $(FRONT) $(if $(PYTHON),$(BUILD)/tests/warm/immure-python.so)

unit-programs: $(UNIT)

unit: $(UNIT)
	$(Q)scripts/run-unit $(if $(JUNIT),--junit $(JUNIT)) $(UNIT)

check: all tools unit fuzz-corpus
	$(Q)scripts/run-pytest BUILD=$(BUILD)

# Fuzz targets: with libFuzzer where SAN says so (make fuzz), else with a main() that runs them on files.
FUZZ_ENGINE := $(if $(findstring fuzzer-no-link,$(SAN)),,$(BUILD)/obj/tests/fuzz/replay.o)
FUZZ_SHARED := $(call obj,$(filter-out tests/fuzz/fuzz_%.c tests/fuzz/replay.c tests/fuzz/seeds.c,$(wildcard tests/fuzz/*.c)))
FUZZ_SEEDS  := $(BUILD)/tests/fuzz-seeds
FUZZ_LINK = mkdir -p $(@D) && $(CC) $(subst fuzzer-no-link,$(1),$(LDFLAGS_ALL)) -o $@ $(filter %.o,$^) \
  $(BUILD)/libserver.a $(BUILD)/libpolicy.a $(BUILD)/libconfig.a $(BUILD)/libjail.a $(BUILD)/libbase.a $(PKG_LIBS) $(FRONT_LIBS)
$(FUZZ): $(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(FUZZ_SHARED) $(FUZZ_ENGINE) $(EMBEDDED).o $(LIBS)
	$(call say,LD,$@)$(call FUZZ_LINK,fuzzer)
$(FUZZ_SEEDS): $(BUILD)/obj/tests/fuzz/seeds.o $(EMBEDDED).o $(LIBS)
	$(call say,LD,$@)$(call FUZZ_LINK,fuzzer-no-link)

fuzz-programs: $(FUZZ) $(FUZZ_SEEDS)

fuzz-corpus: fuzz-programs
	$(Q)scripts/fuzz --replay $(if $(JUNIT),--junit $(JUNIT)) $(FUZZ)

# T seconds for each target; JOBS of them at a time.
T    ?= 300
JOBS ?= 2
fuzz:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)-fuzz CC=clang SAN=address,undefined,fuzzer-no-link fuzz-programs
	$(Q)scripts/fuzz --seconds $(T) --jobs $(JOBS) $(FUZZ:$(BUILD)/%=$(BUILD)-fuzz/%)

# Every system call of the set-up path with every error; `scripts/run-pytest tests/faults` takes a part of it.
faults: all tools
	$(Q)IMMURE_TEST_FAULTS=all scripts/run-pytest BUILD=$(BUILD) tests/faults

# N: jobs for a soak, kills for a storm.
soak: all
	$(Q)BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/soak/soak.py $(N)

storm: all
	$(Q)BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/storm/storm.py $(N)

lint:
	$(Q)scripts/lint $(BUILD)

format:
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i

$(BENCH): $(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) -o $@ $<

# It is timed with its own start, which no dynamic linker is to make longer. A sanitizer does not go with that.
$(BUILD)/tests/bench/floor: private LDFLAGS += $(if $(SAN),,-no-pie -static)

# BENCH_FLAGS=--full measures longer, --quick hardly.
bench: all $(BENCH)
	$(Q)scripts/bench $(BENCH_FLAGS) $(BUILD)

# What is installed: DIRECTORY|MODE|FILES, below DESTDIR. Nothing outside PREFIX: the administrator's own files are his.
BINDIR   := $(PREFIX)/bin
SHAREDIR := $(PREFIX)/share/immure
MAN1     := $(wildcard config/deploy/man/*.1)
MAN5     := $(wildcard config/deploy/man/*.5)
SERVICE  := $(BUILD)/deploy/immure.service
SYSUSERS := $(BUILD)/deploy/immure.conf
SOCKET   := config/deploy/systemd/immure.socket
ZSHDIR   ?= $(PREFIX)/share/zsh/site-functions
COMPLETE := $(addprefix $(BUILD)/deploy/completions/,immure _immure immure.fish)

$(SERVICE): config/deploy/systemd/immure.service FORCE
	$(Q)mkdir -p $(@D) && sed 's|@PREFIX@|$(PREFIX)|g; s|@SYSCONFDIR@|$(SYSCONFDIR)|g' $< >$@
$(SYSUSERS): config/deploy/systemd/immure.sysusers
	$(Q)mkdir -p $(@D) && cp $< $@
FORCE:

$(BUILD)/deploy/completions/immure: SHELL_NAME := bash
$(BUILD)/deploy/completions/_immure: SHELL_NAME := zsh
$(BUILD)/deploy/completions/immure.fish: SHELL_NAME := fish
$(COMPLETE): $(BUILD)/immure
	$(Q)mkdir -p $(@D) && $(EMULATOR) $< completions $(SHELL_NAME) >$@

define INSTALLED
$(BINDIR)|755|$(BUILD)/immure
$(PREFIX)/libexec/immure|755|$(FRONT) $(PYTHON)
$(if $(MAN1),$(PREFIX)/share/man/man1|644|$(MAN1))
$(if $(MAN5),$(PREFIX)/share/man/man5|644|$(MAN5))
$(SHAREDIR)|644|$(wildcard config/*.textproto) config/server/server.proto config/policy/policy.proto config/policy/policy_test.proto
$(SHAREDIR)/policies|644|$(wildcard config/policies/*.textproto)
$(SHAREDIR)/policies/parts|644|$(wildcard config/policies/parts/*.textproto)
$(SHAREDIR)/grafana|644|$(wildcard config/deploy/grafana/*.json)
$(SHAREDIR)/prometheus|644|$(wildcard config/deploy/prometheus/*.yml)
$(SHAREDIR)/kubernetes|644|$(wildcard config/deploy/kubernetes/*.yaml)
$(SHAREDIR)/container|644|config/deploy/container/seccomp.json
$(SHAREDIR)/apparmor|644|config/deploy/apparmor/immure
$(PREFIX)/lib/systemd/system|644|$(SERVICE) $(SOCKET)
$(PREFIX)/lib/sysusers.d|644|$(SYSUSERS)
$(PREFIX)/share/bash-completion/completions|644|$(BUILD)/deploy/completions/immure
$(ZSHDIR)|644|$(BUILD)/deploy/completions/_immure
$(PREFIX)/share/fish/vendor_completions.d|644|$(BUILD)/deploy/completions/immure.fish
endef
export INSTALLED

install: all $(SERVICE) $(SYSUSERS) $(COMPLETE)
	$(Q)printf '%s\n' "$$INSTALLED" | grep . | while IFS='|' read -r directory mode files; do \
	  install -d "$(DESTDIR)$$directory" && install -m "$$mode" $$files "$(DESTDIR)$$directory/" || exit 1; done

uninstall:
	$(Q)printf '%s\n' "$$INSTALLED" | grep . | while IFS='|' read -r directory mode files; do \
	  for file in $$files; do rm -f "$(DESTDIR)$$directory/$${file##*/}"; done; done
	$(Q)if [ -d "$(DESTDIR)$(SHAREDIR)" ]; then find "$(DESTDIR)$(SHAREDIR)" -depth -type d -empty -delete; fi

sbom: all
	$(Q)VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$( \
	  { if [ -e .git ]; then git log -1 --format=%ct; else sed -n 2p config/deploy/commit; fi; } | grep -x '[0-9]*')} scripts/sbom $(BUILD)

# The same bytes whoever makes it: of what is committed alone, in git's order, with the commit's time and nobody's name.
DIST := immure-$(VERSION).tar.gz
dist:
	$(Q)mkdir -p $(BUILD)/dist && git -c tar.umask=022 archive --format=tar --prefix=immure-$(VERSION)/ -o $(BUILD)/dist/.tar HEAD && \
	  gzip -9 --no-name <$(BUILD)/dist/.tar >$(BUILD)/dist/$(DIST) && rm $(BUILD)/dist/.tar && \
	  cd $(BUILD)/dist && sha256sum $(DIST) >SHA256SUMS

clean:
	$(Q)rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/faults $(BUILD)/pic -name '*.d' 2>/dev/null)
