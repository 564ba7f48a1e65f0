# The escape suite: one attack per C file of tests/escape, static, so that it runs in any image.
ATTACKS := $(patsubst tests/escape/%.c,$(OUT)/tests/escape/%,$(wildcard tests/escape/*.c))
$(OUT)/tests/escape/%: tests/escape/%.c tests/escape/attack.h
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -static $(WARN) $< -o $@
attacks: $(ATTACKS)
# Writes build/escape.json; `make docs` makes docs/security of it.
escape: programs attacks
	$(call run,$(call suite,escape))
docs: build/gen/gen_seccomp
	tools/gen_seccomp_doc.sh > docs/security/seccomp.md
	tools/gen_escape_matrix.py
.PHONY: attacks escape docs
