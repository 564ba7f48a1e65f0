# The escape suite: one attack per C file of tests/escape, static, so that it runs in any image.
ATTACKS := $(patsubst tests/escape/%.c,$(OUT)/tests/escape/%,$(wildcard tests/escape/*.c))
$(OUT)/tests/escape/%: tests/escape/%.c tests/escape/attack.h
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -static $(WARN) $< -o $@
attacks: $(ATTACKS)
# In the agent's place: every attack in one program, beside a copy of brig as its brig-init.
HOSTILE := $(OUT)/tests/escape/agent/brig-init
$(OUT)/tests/escape/agent/attacks.def: $(wildcard tests/escape/*.c)
	@mkdir -p $(@D)
	$(Q)printf 'ATTACK(%s)\n' $(filter-out victim,$(patsubst tests/escape/%.c,%,$(wildcard tests/escape/*.c))) > $@
$(OUT)/tests/escape/agent/%.o: tests/escape/%.c tests/escape/attack.h
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)gcc -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Dmain=main_$* -Wno-missing-prototypes -c $< -o $@
$(HOSTILE): tests/escape/agent/hostile.c $(OUT)/tests/escape/agent/attacks.def \
		$(patsubst tests/escape/%.c,$(OUT)/tests/escape/agent/%.o,$(filter-out tests/escape/victim.c,$(wildcard tests/escape/*.c)))
	$(call say,LINK,$@)
	$(Q)gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -static $(WARN) -I$(OUT)/tests/escape/agent $< $(filter %.o,$^) -o $@
attacks: $(HOSTILE)
# Writes build/escape.json; `make docs` makes docs/security of it.
escape: programs attacks
	$(call run,$(call suite,escape))
docs: build/gen/gen_seccomp
	tools/gen_seccomp_doc.sh > docs/security/seccomp.md
	tools/gen_escape_matrix.py
.PHONY: attacks escape docs
