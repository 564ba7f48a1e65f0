# Installing and removing. PREFIX, DESTDIR, LIBEXECDIR and SYSCONFDIR as usual; PREFIX and LIBEXECDIR
# are compiled in (brig finds brig-init next to itself, else in LIBEXECDIR), so give them to `make`
# and `make install` alike.
SYSCONFDIR ?= /etc
D := $(DESTDIR)
SHARE := $(PREFIX)/share

# AppArmor below version 4 would refuse the profile at every reload, and needs none.
apparmor = $(if $(wildcard $(D)$(SYSCONFDIR)/apparmor.d/abi/4.0),$(wildcard dist/apparmor/*))

# systemd units say where the programs are, so they are made for LIBEXECDIR.
UNITFILES = $(patsubst dist/systemd/%,$(O)/systemd/%,$(wildcard dist/systemd/*.service))
$(O)/systemd/%.service: dist/systemd/%.service $(O)/places
	@mkdir -p $(@D)
	$(Q)sed 's|@LIBEXECDIR@|$(LIBEXECDIR)|g;s|@PREFIX@|$(PREFIX)|g' $< > $@

# source:destination:mode of every installed file; what is not in the tree is not in the list.
installed = $(foreach f,$(wildcard docs/man/*.[1-8]),$(f):$(SHARE)/man/man$(subst .,,$(suffix $(f)))/$(notdir $(f)):644) \
	$(foreach f,$(wildcard dist/completions/brig.bash),$(f):$(SHARE)/bash-completion/completions/brig:644) \
	$(foreach f,$(wildcard dist/completions/_brig),$(f):$(SHARE)/zsh/site-functions/_brig:644) \
	$(foreach f,$(wildcard dist/completions/brig.fish),$(f):$(SHARE)/fish/vendor_completions.d/brig.fish:644) \
	$(foreach f,$(wildcard dist/profiles/*.yaml),$(f):$(SHARE)/brig/profiles/$(notdir $(f)):644) \
	$(foreach f,$(wildcard dist/recipes/*.yaml),$(f):$(SHARE)/brig/recipes/$(notdir $(f)):644) \
	$(foreach f,$(apparmor),$(f):$(SYSCONFDIR)/apparmor.d/$(notdir $(f)):644) \
	$(foreach f,$(UNITFILES),$(f):$(PREFIX)/lib/systemd/system/$(notdir $(f)):644) \
	$(OUT)/brig:$(PREFIX)/bin/brig:755 $(OUT)/brigd:$(SBINDIR)/brigd:755 \
	$(OUT)/brig-spawn:$(LIBEXECDIR)/brig-spawn:755 $(OUT)/brig-client:$(LIBEXECDIR)/brig-client:755 \
	$(OUT)/brig-init:$(LIBEXECDIR)/brig-init:755 $(OUT)/brig-gate:$(LIBEXECDIR)/brig-gate:755 \
	$(OUT)/brig-inspect:$(LIBEXECDIR)/brig-inspect:755 $(OUT)/brig-interp:$(LIBEXECDIR)/brig-interp:755 \
	$(OUT)/brig-sudo:$(LIBEXECDIR)/brig-sudo:755

install: all $(UNITFILES)
	@set -e; for f in $(installed); do \
		src=$${f%%:*}; f=$${f#*:}; \
		install -D -m "$${f##*:}" "$$src" "$(D)$${f%:*}"; \
		echo "  INSTALL $(D)$${f%:*}"; \
	done
uninstall:
	@set -e; for f in $(installed); do f=$${f#*:}; rm -f "$(D)$${f%:*}"; done
	@rmdir -p --ignore-fail-on-non-empty $(D)$(LIBEXECDIR) $(D)$(SHARE)/brig/profiles $(D)$(SHARE)/brig/recipes 2>/dev/null || true
.PHONY: install uninstall
