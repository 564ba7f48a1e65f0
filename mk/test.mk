# Tests, fuzzing, lint, bench and demo.
$(O)/unit/%: $(O)/tests/unit/%.o $(O)/lib.a
	@mkdir -p $(@D)
	$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) -o $@
$(OUT)/tests/%: $(O)/tests/tools/%.o $(O)/lib.a
	@mkdir -p $(@D)
	$(CC) $(LINK) $(LNK) $^ $(LIBS_brig) -o $@
unit: $(UNITS)
	prove -Q -e '' $(UNITS) || prove -v -e '' $(UNITS)
.PHONY: unit
