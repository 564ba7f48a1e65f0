#!/usr/bin/python3
"""The benchmark of the gate runs, has every row for everybody who is installed, and says who is not. Its numbers are not looked at."""
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from brigtest import case, eq, main, ok  # noqa: E402

SCRIPT = os.path.join(HERE, "..", "bench", "egress.py")
EACH = {"down1", "up1", "down8", "connect", "rtt", "rate"}
BETWEEN = {"idle", "set_up"}
PEERS = {"slirp4netns": ("slirp4netns", {"ask"}), "pasta": ("pasta", {"ask"}), "socat": ("socat pair", set())}
HTTPS = ("TLS, veth", "TLS, passed on", "TLS, inspected", "HTTP, veth", "HTTP, inspected")


@case(modes=("root",))
def every_row_is_there(_m):
    r = subprocess.run([SCRIPT, "--smoke", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=170, check=False)
    eq(r.returncode, 0, f"exit status: {r.stderr.decode()}")
    out = json.loads(r.stdout)
    want = {("loopback", x) for x in EACH} | {("veth", x) for x in EACH | {"ask"}}
    want |= {("brig", x) for x in EACH | BETWEEN | {"ask", "decide", "line", "set_up_used"}} | {("least relay", x) for x in EACH | {"idle"}}
    for command, (name, more) in PEERS.items():
        if shutil.which(command):
            want |= {(name, x) for x in EACH | BETWEEN | more}
        ok((command in out["absent"]) == (shutil.which(command) is None), f"{command}: {out['absent']}")
        ok(shutil.which(command) or f"NOT MEASURED: {command} ".encode() in r.stderr, f"{command} is missing and it is not said")
    if shutil.which("openssl"):
        want |= {(x, y) for x in HTTPS for y in ("tls_down", "tls_request")}
    eq({(x["contender"], x["measure"]) for x in out["rows"]}, want, "rows")
    ok(all(x["values"] > 0 for x in out["rows"]), "each has values")
    eq([x["measured"] is None for x in out["goals"]], [shutil.which("slirp4netns") is None if "slirp" in x["goal"] else False for x in out["goals"]],
       "goals that could be measured are")


@case(modes=("root",))
def its_part_of_a_document_is_replaced(m):
    """Of a run without anybody, twice: what stands before it stays, and it is there once."""
    doc = m.put("doc.md", "# Others\n\ntext\n")
    for _ in range(2):
        subprocess.run([SCRIPT, "--smoke", "--only", "loopback,veth", "--into", doc], stdout=subprocess.DEVNULL, timeout=100, check=True)
    with open(doc, encoding="utf-8") as f:
        text = f.read()
    ok(text.startswith("# Others\n\ntext\n\n# Network"), text[:100])
    eq(text.count("# Network"), 1, "once")


sys.exit(main())
