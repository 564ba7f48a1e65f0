# Tests, fuzzing, lint and the demo. Each stage can be run alone; tools/run_tests.py runs them all.
# Tests are found by folder: a new one needs no edit here.
#
#   V=asan unit          any variant
#   T=tests/behaviour/x.t  only these files (behaviour, agent-test, kill-test, vm-test, lint)
#   FUZZ_SECONDS=300     per fuzz target
#   TEST_SECONDS=100     after which a test file that has no end is ended, and has failed
# PERL5LIB is for the harness; make's own variables must not reach a test.
PROVE := env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PERL5LIB=tools prove --harness TapTotals --timer \
	--failures --comments
TEST_SECONDS ?= 900

# Debian's archives of brigd's and brig-client's libraries are not made for static programs.
# Replaying needs no static program at all.
$(O)/unit/daemon/% $(O)/unit/api/% $(O)/unit/client/% $(O)/replay/%: LNK := $(patsubst -static-pie,-pie,$(LNK))
$(O)/unit/%: $(O)/tests/unit/%.o $(O)/lib.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) $(LIBS_brigd) $(LIBS_brig-client) -lm -o $@
$(OUT)/tests/%: $(O)/tests/tools/%.o $(O)/lib.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) $(LIBS_brigd) $(LIBS_brig-client) -lm -o $@
# One fuzz target is one file: linked with libFuzzer (V=asan), and with a driver that only replays
# the committed corpus (every variant).
$(O)/fuzz/%: LNK += -fsanitize=fuzzer
$(O)/fuzz/%: $(O)/tests/fuzz/fuzz_%.o $(O)/lib.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) $(LIBS_brigd) $(LIBS_brig-client) -lm -o $@
$(O)/replay/%: $(O)/tests/fuzz/fuzz_%.o $(O)/tests/fuzz/replay.o $(O)/lib.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) $(LIBS_brigd) $(LIBS_brig-client) -lm -o $@

# Without a test file a stage has proved nothing, so that is an error.
run = @$(if $(strip $(1)),$(PROVE) --exec 'tools/run_limited.py $(TEST_SECONDS)$(3)' $(2) $(1),echo 'no test found for $@' >&2; exit 1)
suite = $(or $(T),$(sort $(wildcard tests/$(1)/*.t)))
programs: all $(TOOLS)
# All that more than one stage would build: they may then run at once.
built: programs attacks $(UNITS) $(FUZZERS:%=$(O)/replay/%) $(LIBSRC:%.c=$(O)/%.o)

unit: $(UNITS)
	$(call run,$(sort $(UNITS)),-j2)
replay: $(FUZZERS:%=$(O)/replay/%)
	$(call run,$(sort $^),-j2)
agent-test: programs
	$(call run,$(call suite,agent) $(if $(T),,$(sort $(wildcard tests/code/*.t))))
behaviour: programs
	$(call run,$(call suite,behaviour) $(if $(T),,$(sort $(wildcard tests/gate/*.t tests/keep/*.t))))
kill-test: programs
	$(call run,$(call suite,lifecycle))
# brigd by HTTP: raw requests, and the SDKs it is made for.
api-test: programs
	$(call run,$(call suite,api))
vm-test: programs attacks
	$(call run,$(call suite,vm))
# Minutes and packages by the hundred, so no part of `make test`.
image-test: TEST_SECONDS = 7200
image-test: programs
	$(call run,$(call suite,recipes),--verbose)
lint: programs $(LIBSRC:%.c=$(O)/%.o)
	$(call run,$(call suite,lint))

# 30 s per target, two at a time, but no more than 2.5 min for all: a look for what broke; campaigns are run by hand.
FUZZ_SECONDS ?= $(shell n=$(words $(FUZZERS)); s=$$((300 / (n ? n : 1))); echo $$((s < 30 ? s : 30)))
ifeq ($(V),asan)
fuzz: $(FUZZERS:%=$(O)/fuzz/%)
	$(call run,$(sort $^),-j2, tools/fuzz_one.sh $(FUZZ_SECONDS))
else
fuzz:
	@+$(MAKE) --no-print-directory V=asan fuzz
endif

test:
	@+env -u MAKEFLAGS -u MAKELEVEL tools/run_tests.py
# The peers are installed first; BENCH='--samples 101' changes the run.
bench: all
	./setup bench
	$(OUT)/brig bench --markdown $(BENCH) > build/benchmarks.md
	@echo >> build/benchmarks.md; sed -n '/^# Network/,$$p' docs/benchmarks.md >> build/benchmarks.md # the others' parts stay
	@mkdir -p docs && mv build/benchmarks.md docs/benchmarks.md
# The gate beside slirp4netns, pasta and socat, in namespaces (root). BENCH='--quick' is a short run.
bench-egress: programs
	./setup bench
	tests/bench/egress.py --into docs/benchmarks.md $(BENCH)
# brigd through the SDK and a lean client, in real sandboxes (root). BENCH='--quick --only warm,exec' is a part.
bench-api: programs
	tests/bench/api.py --into docs/benchmarks.md $(BENCH)
demo: all
	@examples/tour.sh
# Only files named by hand: the tree as a whole is not machine-formatted.
format:
	clang-format -i $(or $(F),$(error name the files: make format F="a.c b.h"))
cov:
	@+$(MAKE) --no-print-directory V=cov unit
	tools/coverage.sh
.PHONY: programs built unit replay agent-test behaviour kill-test api-test vm-test image-test lint fuzz test bench bench-api bench-egress demo format cov
