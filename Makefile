# Whole build. Sources are found by folder: a new .c needs no edit here.
#   make [V=release|debug|asan|tsan|cov] [VERBOSE=1]
#   make test|lint|unit|behaviour|fuzz|bench|demo|install (mk/*.mk)
V  ?= release
CC := gcc
O  := build/obj/$(V)
OUT := $(if $(filter release,$(V)),build,build/$(V))

# Modules linked into each program (folders below src/).
MODS_brig := base sys wire parse core net gate egress tier session receipt image spawn cmd cli
MODS_brig-spawn := base sys wire parse core net gate egress tier session image spawn keep spawnd
LIBS_brig-spawn := -lcyaml -lyaml -ljansson -lsodium -lpsl -lidn2 -lunistring -lz
MODS_brig-init := base sys wire parse guest
MODS_brig-interp := base sys interp
LIBS_brig-interp := -ljansson
MODS_brig-sudo := base wire parse sudo
MODS_brig-gate := base sys parse net gate relay
LIBS_brig-gate := -lcares -lsodium
MODS_brig-inspect := base sys wire parse net gate inspect
LIBS_brig-inspect := -lssl -lcrypto
MODS_brigd := base sys wire parse core daemon api
LIBS_brigd := -lmicrohttpd -lsqlite3 -lgnutls
MODS_brig-client := base sys wire parse session cmd client
LIBS_brig-client := -lcurl
LIBS_brig := -lcyaml -lyaml -ljansson -lsodium -lpsl -lidn2 -lunistring -lz

WARN := -Wall -Wextra -Werror -Wshadow -Wconversion -Wformat=2 -Wvla -Wundef \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wpointer-arith -Wcast-qual -Wwrite-strings -Wswitch-enum \
	-Wimplicit-fallthrough -Wdouble-promotion
HARD := -fstack-protector-strong -fstack-clash-protection -fcf-protection=full \
	-fno-strict-aliasing -fno-delete-null-pointer-checks -fno-common \
	-fvisibility=hidden
LINK := -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code
VERSION := $(shell cat VERSION)
PREFIX ?= /usr/local
LIBEXECDIR ?= $(PREFIX)/lib/brig
CPP  := -std=gnu11 -D_GNU_SOURCE -iquote src -Ibuild/gen -iquote tests -MMD -MP -g \
	-DBRIG_VERSION='"$(VERSION)"'
SBINDIR := $(PREFIX)/sbin
PLACES := -DBRIG_LIBEXECDIR='"$(LIBEXECDIR)"' -DBRIG_SBINDIR='"$(SBINDIR)"' # for those who use it only: another prefix is a small build

ifeq ($(V),release)
  OPT := -O2 -D_FORTIFY_SOURCE=3 -fno-strict-overflow -ftrivial-auto-var-init=zero -fPIE
  LNK := -static-pie
else ifeq ($(V),debug)
  OPT := -Og
else ifeq ($(V),asan) # fuzz targets are linked from its objects too, hence their counters
  CC  := clang
  OPT := -O1 -gline-tables-only -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
  LNK := -fsanitize=address,undefined
else ifeq ($(V),tsan)
  CC  := clang
  OPT := -O1 -fsanitize=thread -fPIE
  LNK := -fsanitize=thread -pie
else ifeq ($(V),cov)
  OPT := -O0 --coverage
  LNK := --coverage
else
  $(error unknown V=$(V): release, debug, asan, tsan, cov)
endif
CFLAGS := $(CPP) $(OPT) $(WARN) $(HARD)
ifeq ($(CC),gcc)
  CFLAGS += -Wno-format-truncation -Wlogical-op -Wduplicated-cond -Wduplicated-branches
endif

# The release build of all programs uses musl: glibc asks the processor some thirty questions before main, and
# each is an exit to the monitor on a virtual machine (1.2 ms of an 11 ms start); and the agent is 100 KB
# of text instead of 800. musl has no fortified functions; src/compat has those that Debian's archives
# of the libraries, made for glibc, call.
ifeq ($(V),release)
  PROG_CC := musl-gcc
  PROG_CFLAGS := $(filter-out -D_FORTIFY_SOURCE=%,$(CFLAGS)) -ffunction-sections \
	-idirafter /usr/include -idirafter /usr/include/$(shell gcc -print-multiarch)
  # gcc's musl wrapper knows no -static-pie: the same by hand
  MUSL := /usr/lib/$(patsubst %-gnu,%-musl,$(shell gcc -print-multiarch))
  PROG_LNK := -static -nostartfiles -Wl,-pie,--no-dynamic-linker,-z,text,--gc-sections \
	$(MUSL)/rcrt1.o $(MUSL)/crti.o
  PROG_END := $(MUSL)/crtn.o
  PROG_LIBS = $(patsubst -l%,/usr/lib/$(shell gcc -print-multiarch)/lib%.a,$(LIBS_$(@F)))
  MODS_brig += compat
  MODS_brig-gate += compat
  MODS_brig-interp += compat
  MODS_brig-spawn += compat
else
  PROG_CC := $(CC)
  PROG_CFLAGS := $(CFLAGS)
  PROG_LNK := $(LNK)
  PROG_LIBS = $(LIBS_$(@F))
endif

LIBSRC := $(filter-out src/bin/% src/compat/%,$(shell find src -name '*.c'))
UNITS  := $(patsubst tests/unit/%.c,$(O)/unit/%,$(shell find tests/unit -name '*_test.c'))
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TOOLS  := $(patsubst tests/tools/%.c,$(OUT)/tests/%,$(wildcard tests/tools/*.c))
GEN    := build/gen/seccomp_filters.h build/gen/image_build_script.h
objs    = $(patsubst %.c,$(O)/%.o,$(foreach m,$(1),$(shell find src/$(m) -name '*.c')))

Q := $(if $(VERBOSE),,@)
say = @$(if $(VERBOSE),:,printf '  %-5s %s\n' $(1) $(2))

all: $(OUT)/brig $(OUT)/brig-spawn $(OUT)/brig-init $(OUT)/brig-gate $(OUT)/brig-interp $(OUT)/brig-sudo $(OUT)/brig-inspect $(OUT)/brigd $(OUT)/brig-client
include $(sort $(wildcard mk/*.mk))

build/layers.ok: tools/layers.txt tools/check_layers.py $(shell find src -name '*.[ch]')
	@mkdir -p $(@D)
	@python3 tools/check_layers.py && touch $@
build/gen/gen_seccomp: tools/gen_seccomp.c src/tier/container/seccomp.def
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)gcc -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -iquote src $< -lseccomp -o $@
build/gen/seccomp_filters.h: build/gen/gen_seccomp
	$(call say,GEN,$@)
	$(Q)build/gen/gen_seccomp > $@.new && mv $@.new $@
# A shell script as a string of C, without its comments.
build/gen/%_script.h: src/cli/%.sh
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed -e '/^[[:space:]]*#/d' -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $< > $@.new && mv $@.new $@
# Stamps that change with the flags and with the set of sources: what depends on them is made anew.
# Two stages of the tests may look at the same moment, so each writes to a file of its own.
stamp = $(shell mkdir -p $(O); new=$(O)/$(1).$$$$; printf '%s\n' '$(subst ','\'',$(2))' > $$new; \
	cmp -s $$new $(O)/$(1) && rm $$new || mv $$new $(O)/$(1))
ifneq ($(MAKECMDGOALS),clean)
  $(call stamp,flags,$(CC) $(CFLAGS))
  $(call stamp,prog-flags,$(PROG_CC) $(PROG_CFLAGS))
  $(call stamp,sources,$(LIBSRC))
  $(call stamp,places,$(PLACES))
endif
$(O)/flags $(O)/prog-flags $(O)/sources $(O)/places: # gone by `make clean all`
	@mkdir -p $(@D) && touch $@
$(O)/%.o: %.c $(O)/flags | $(GEN) build/layers.ok
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) $(MORE) -c $< -o $@
$(O)/prog/%.o: %.c $(O)/prog-flags | $(GEN) build/layers.ok
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(PROG_CC) $(PROG_CFLAGS) $(MORE) -c $< -o $@
placed := $(patsubst %.c,%.o,$(shell grep -rlE "BRIG_(LIBEXEC|SBIN)DIR" --include='*.c' src))
$(addprefix $(O)/,$(placed)) $(addprefix $(O)/prog/,$(placed)): MORE = $(PLACES)
$(addprefix $(O)/,$(placed)) $(addprefix $(O)/prog/,$(placed)): $(O)/places
prog_objs = $(O)/prog/src/bin/$(1).o $(patsubst $(O)/%,$(O)/prog/%,$(call objs,$(MODS_$(1))))
link_prog = $(Q)$(PROG_CC) $(LINK) $(PROG_LNK) $(filter %.o,$^) $(PROG_LIBS) $(PROG_END) -o $@
$(OUT)/brig: $(call prog_objs,brig) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
$(OUT)/brig-init: $(call prog_objs,brig-init) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
	$(Q)! readelf -lW $@ | grep INTERP || [ $(V) != release ] # it must need nothing of the image
$(OUT)/brig-spawn: $(call prog_objs,brig-spawn) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
$(OUT)/brig-gate: $(call prog_objs,brig-gate) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
$(OUT)/brig-interp: $(call prog_objs,brig-interp) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
	$(Q)! readelf -lW $@ | grep INTERP || [ $(V) != release ] # as brig-init
$(OUT)/brig-sudo: $(call prog_objs,brig-sudo) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(link_prog)
	$(Q)! readelf -lW $@ | grep INTERP || [ $(V) != release ] # as brig-init
$(O)/src/interp/kernels.o $(O)/prog/src/interp/kernels.o: $(wildcard src/interp/kernel.* src/interp/*.py)
# With glibc, which Debian's archive of OpenSSL is made for. Warnings of the linker about dlopen are silenced: nothing is
# loaded (no engines, no configuration).
$(OUT)/brig-inspect: $(O)/src/bin/brig-inspect.o $(call objs,$(MODS_brig-inspect)) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) -Wl,--no-warnings -Wl,--gc-sections $(LNK) $(filter %.o,$^) $(LIBS_brig-inspect) -o $@
# An ordinary program of the system's C library: its libraries are shared ones.
$(OUT)/brigd: $(O)/src/bin/brigd.o $(call objs,$(MODS_brigd)) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(patsubst -static-pie,-pie,$(LNK)) $(filter %.o,$^) $(LIBS_brigd) -lcyaml -lyaml -ljansson -lsodium -o $@
# The same: TLS and HTTP are libcurl's.
$(OUT)/brig-client: $(O)/src/bin/brig-client.o $(call objs,$(MODS_brig-client)) $(O)/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(patsubst -static-pie,-pie,$(LNK)) -Wl,--gc-sections -Wl,--as-needed $(filter %.o,$^) $(LIBS_brig-client) -ljansson -lm -o $@
$(O)/lib.a: $(LIBSRC:%.c=$(O)/%.o) $(O)/sources
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $(filter %.o,$^)
clean:
	rm -rf build
.PHONY: all clean
.SECONDARY:
-include $(shell find build -name '*.d' 2>/dev/null)
