#!/usr/bin/python3
"""brig bench: every contender has a row with numbers or a reason; wrong options are refused."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, nothing_left, ok  # noqa: E402

QUICK = ["--samples", "2", "--idle", "0"]


def bench(m, *args):
    return m.exec([m.brig_path, "bench", *args], timeout=120)


@case
def numbers_of_brig_and_plain(m):
    rows = f"plain_{m.name},brig_{m.name}"
    r = done(bench(m, *QUICK, "--only", "true,pipe,file,memory,burst", "--burst", "3", "--rows", rows, "--json"), err=b"")
    d = json.loads(r.out)
    eq([c["id"] for c in d["contenders"]], rows.split(","), "rows")
    for c in d["contenders"]:
        eq(c["failure"], "", c["id"])
        for w in ("true", "pipe", "file"):
            t = c["times"][w]
            eq(t["samples"], 2, f"{c['id']} {w}")
            ok(0 < t["min_ns"] <= t["median_ns"] <= t["p95_ns"], repr(t))
        eq(c["burst"]["failed"], 0, f"{c['id']} at once")
    ok(d["contenders"][1]["pss"]["command"] > 0, "memory of brig")
    ok(d["machine"]["cores"] >= 1 and d["machine"]["kernel"].startswith("Linux "), "machine")
    nothing_left(m)


@case
def a_goal_without_its_peer_is_not_measured(m):
    d = json.loads(done(bench(m, *QUICK, "--only", "true", "--rows", f"brig_{m.name}", "--json")).out)
    ok(d["goals"] and not any(g["known"] or g["holds"] for g in d["goals"]), repr(d["goals"]))


@case
def a_row_that_cannot_run_says_why(m):
    """What needs root says so to an ordinary user; root measures it."""
    d = json.loads(done(bench(m, *QUICK, "--only", "true", "--rows", "plain_root", "--json")).out)
    c = d["contenders"][0]
    if m.name == "root":
        eq((c["failure"], c["times"]["true"]["samples"]), ("", 2), "root")
    else:
        eq((c["failure"], c["times"]), ("needs root", {}), "user")


@case
def tables(m):
    for fmt in ([], ["--markdown"]):
        r = done(bench(m, *QUICK, "--only", "true", "--rows", f"plain_{m.name},brig_{m.name}", *fmt), err=b"")
        for word in (b"brig run -- /usr/bin/true", b"not measured", b"median ms"):
            ok(word in r.out, f"{word!r} in {r.out!r}")
        ok(m.base.encode() not in r.out, "a path of this machine in the output")


@case
def an_interrupted_run_removes_its_folder(m):
    tmp = os.path.join(m.dir, "benchtmp")
    os.mkdir(tmp)
    m.give(tmp)
    argv = [m.brig_path, "bench", "--samples", "10000", "--only", "true", "--rows", f"plain_{m.name}"]
    script = """t=$1; shift; TMPDIR=$t "$@" & p=$!
        until ls $t/brig-bench.*/out/err* >/dev/null 2>&1; do :; done; kill -TERM $p; wait $p; echo $?"""
    r = done(m.exec(["sh", "-c", script, "sh", tmp, *argv], timeout=60))
    eq((r.out, os.listdir(tmp)), (b"143\n", []), repr(r))
    nothing_left(m)


@case
def wrong_options(m):
    for args, word in ((["--samples", "0"], b"--samples"), (["--samples", "x"], b"--samples"),
                       (["--samples", "99999999999999999999"], b"--samples"), (["--idle", "-1"], b"--idle"),
                       (["--burst", "1001"], b"--burst"), (["--only", "true,nothing"], b"--only"),
                       (["--rows", "brig_nobody"], b"--rows"), (["--rows", "x" * 5000], b"--rows"),
                       (["operand"], b"operand"), (["--sample", "3"], b"--samples")):
        r = done(bench(m, *args), rc=125, out=b"")
        ok(word in r.err and r.err.count(b"\n") == 1, repr(r))


sys.exit(main())
