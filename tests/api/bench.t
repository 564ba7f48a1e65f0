#!/usr/bin/python3
"""The benchmark of the API runs, has every row, and finds its place in a document. Its numbers are not looked at."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from brigtest import case, eq, main, ok  # noqa: E402

SCRIPT = os.path.join(HERE, "..", "bench", "api.py")
STEPS = ("create", "run", "both", "kill")
ROWS = {*(f"raw {start} {step} {n}" for start in ("warm", "cold") for step in STEPS for n in (1, 2)),
        *(f"exec {x}" for x in ("least", "least floor", "rested", "raw", "floor", "shell", "health", "sdk")), *(f"{way} {x}" for way in ("up", "down") for x in ("brigd", "plain")),
        *(f"memory {x}" for x in ("empty", "records", "live", "streams", "keeper", "runner", "init", "python"))}
SDK = {f"sdk {start} {step} {n}" for start in ("warm", "cold") for step in STEPS for n in (1, 2)}


@case(modes=("root",))
def every_row_is_there(_m):
    """Part after part, kept, and then all of them into a document that has others' parts around it."""
    with tempfile.TemporaryDirectory(prefix="api-bench-test-") as d:
        doc, kept = os.path.join(d, "doc.md"), os.path.join(d, "kept")
        with open(doc, "w", encoding="utf-8") as f:
            f.write("# Before\n\ntext\n\n# The API: brigd\n\nreplaced\n\n# Network\n\nother\n")
        for only in ("warm,cold", "sdk,exec,files,memory"):
            r = subprocess.run([SCRIPT, "--smoke", "--json", "--only", only, "--keep", kept, "--into", doc], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=230, check=False)
            eq(r.returncode, 0, f"exit status: {r.stderr.decode()}")
        out = json.loads(r.stdout)
        eq({x["measure"] for x in out["rows"]}, ROWS | SDK, "rows")
        ok(all(x["values"] > 0 and x["p50"] > 0 for x in out["rows"]), "each has values")
        ok(all((g["measured"] is None) == g["goal"].startswith("brigd, ") for g in out["goals"]), "memory counts at its own size only")
        with open(doc, encoding="utf-8") as f:
            text = f.read()
        ok(text.startswith("# Before\n\ntext\n\n# The API: brigd\n\nWritten") and text.endswith("\n\n# Network\n\nother\n") and "replaced" not in text, text)


sys.exit(main())
