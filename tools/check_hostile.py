#!/usr/bin/env python3
"""Fail when a decoder of foreign bytes has no fuzz target, or a fuzz target has no corpus.

A file of src/wire or src/parse counts as covered when some tests/fuzz/fuzz_*.c includes its header
(include paths are written from src/) or is named after it.
"""
import glob
import os
import re
import sys

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
targets = {}
for path in sorted(glob.glob("tests/fuzz/fuzz_*.c")):
    name = os.path.basename(path)[len("fuzz_"):-len(".c")]
    with open(path, encoding="utf-8") as f:
        targets[name] = set(re.findall(r'#include "([^"]+)"', f.read()))
bad = 0
for path in sorted(glob.glob("src/wire/*.c") + glob.glob("src/parse/*.c")):
    module = path[len("src/"):-len(".c")]
    if os.path.basename(module) not in targets and not any(module + ".h" in i for i in targets.values()):
        print(f"{path}: no tests/fuzz/fuzz_*.c includes {module}.h")
        bad += 1
for name in targets:
    if not any(os.path.isfile(p) for p in glob.glob(f"tests/fuzz/corpus/{name}/*")):
        print(f"tests/fuzz/fuzz_{name}.c: no input in tests/fuzz/corpus/{name}")
        bad += 1
print(f"check_hostile: {len(targets)} fuzz targets, {bad} bad")
sys.exit(bad > 0)
