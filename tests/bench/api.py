#!/usr/bin/python3
"""brigd's speed and memory: a sandbox with code in it through the unmodified JavaScript SDK and through a lean client, new and from
the pool; programs; files; idle sandboxes and streams. Real sandboxes; needs root.

  tests/bench/api.py [--quick | --smoke] [--only PART,...] [--image IMAGE] [--json] [--into FILE] [--keep FILE]

Parts: warm, cold, sdk, exec, files, memory. --image: what the templates are of, by default 'host'. --smoke: everything once and
small, to see that it runs; its numbers mean nothing. --keep: add the values to those FILE has of earlier runs of other parts, and
report them all. --into: replace what that file has below the heading of this benchmark. Exit status 1 when a part failed."""
import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import apiparts  # noqa: E402
from apiworld import Failed  # noqa: E402

HEADING = "# The API: brigd"
SIZES = {"full": {"crowds": (1, 10, 50), "rounds": {1: 25, 10: 4, 50: 1}, "cold": {1: 5, 10: 1, 50: 1}, "execs": 300, "mib": 1024, "copies": 3, "records": 1000,
                  "live": 200, "streams": 1000},
         "quick": {"crowds": (1, 10), "rounds": {1: 5, 10: 1}, "cold": {1: 2, 10: 1}, "execs": 50, "mib": 128, "copies": 1, "records": 200, "live": 20,
                   "streams": 200},
         "smoke": {"crowds": (1, 2), "rounds": {1: 1, 2: 1}, "cold": {1: 1, 2: 1}, "execs": 3, "mib": 4, "copies": 1, "records": 10, "live": 2, "streams": 8}}


class Results:
    def __init__(self, keep=None):
        self.all, self.failed, self.keep = {}, [], keep
        if keep and os.path.exists(keep):
            with open(keep, encoding="utf-8") as f:
                self.all = json.load(f)

    def put(self, key, values):
        self.all[key] = list(values)

    def save(self):
        if self.keep:
            with open(self.keep, "w", encoding="utf-8") as f:
                json.dump(self.all, f)

    def mid(self, key):
        return statistics.median(self.all[key]) if self.all.get(key) else None

    def ratio(self, a, b):
        return self.mid(a) / self.mid(b) if self.mid(a) is not None and self.mid(b) else None


def at(values, q):
    v = sorted(values)
    return v[min(len(v) - 1, len(v) * q // 100)]


def spread(values):
    return " / ".join(f"{at(values, q):.1f}" for q in (50, 95, 99)) + f" ({len(values)})" if values else "-"


STEPS = (("create", "create"), ("run", '`runCode("1+1")`'), ("both", "both"), ("kill", "kill"))


def crowds(res, who, crowd, words):
    out = [f"| {words}, ms: p50 / p95 / p99 (how many) | " + " | ".join(f"{n} at once" for n in crowd) + " |", "|---|" + "---:|" * len(crowd)]
    for start in ("warm", "cold"):
        for key, what in STEPS:
            row = [res.all.get(f"{who} {start} {key} {n}") for n in crowd]
            if any(row):
                out.append(f"| {start}: {what} | " + " | ".join(spread(v) for v in row) + " |")
    return [*out, ""] if len(out) > 2 else []


ONES = (("exec least", "the least program: `process.Process/Start` of a static one that does nothing, ms"),
        ("exec least floor", "the same program started on the host by posix_spawn, ms"),
        ("exec rested", "the same as in the first line, 20 ms after the last one, ms"), ("exec raw", "a program: `process.Process/Start` of `/bin/true`, ms"), ("exec floor", "the same program started on the host by posix_spawn, ms"),
        ("exec sdk", "`commands.run('true')` of the SDK, a login shell, ms"),
        ("exec shell", "the same shell started on the host, ms"), ("exec health", "`/health` of a sandbox, ms"),
        ("up brigd", "a large file into a sandbox, MiB/s"), ("up plain", "the same bytes over loopback to a file in memory, MiB/s"),
        ("down brigd", "a large file out of a sandbox, MiB/s"), ("down plain", "the same bytes over loopback by sendfile, MiB/s"))
MEMORY = (("memory empty", "brigd with nothing"), ("memory records", "brigd, {records} idle sandboxes in its records"),
          ("memory live", "brigd, {live} live sandboxes"), ("memory streams", "brigd, {streams} idle streams"),
          ("memory keeper", "a keeper (brig-keeper) of an idle sandbox"), ("memory runner", "its runner"), ("memory init", "its brig-init"),
          ("memory python", "the interpreter of a pooled sandbox: brig-interp and python3"))


def goals(res, size):
    """(what, at most, measured or None). Memory counts at the full size only."""
    added = [None if res.mid(x) is None or res.mid(y) is None else res.mid(x) - res.mid(y)
             for x, y in (("exec least", "exec least floor"), ("exec raw", "exec floor"))]
    keys = ("records", "live", "streams")
    full, size = ({k: of[k] for k in keys} for of in (SIZES["full"], size))
    return [("warm create and runCode, p50, ms", 10, res.mid("raw warm both 1")), ("exec round trip of the least program, p50, ms", 2, res.mid("exec least")),
            ("exec round trip of `/bin/true`, p50, ms", 2, res.mid("exec raw")),
            ("exec round trip of the least program, less posix_spawn of it, p50, ms", 2, added[0]),
            ("exec round trip of `/bin/true`, less posix_spawn of it, p50, ms", 2, added[1]),
            *((f"{words.split(',')[0]}, {words.split(', ')[1]}, MiB".format(**full), 30, None if res.mid(k) is None or size != full else res.mid(k) / 1024)
              for k, words in MEMORY[1:4])]


def holds(goal):
    return None if goal[2] is None else goal[2] <= goal[1]


def report(res, where, size):
    out = [HEADING, "", "Written by `make bench-api`. Real sandboxes, real brigd and brig-spawn, on one machine with their clients, which take their share of the",
           "processors. `lean client`: HTTP over sockets, one connection each, timed from before the request is sent until its answer has come: what brigd and",
           "the sandbox take. `SDK`: `@e2b/code-interpreter` as npm has it, in one Node.js process. `warm`: from the pool; `cold`: without one, the interpreter",
           "included. A crowd starts together; the pool is full before.", "", f"- {where['machine']}", f"- image {where['image']}; load average "
           f"{where['load_before']:.1f} when the last part began, {where['load_after']:.1f} at its end", ""]
    out += crowds(res, "raw", where["crowds"], "lean client") + crowds(res, "sdk", where["crowds"], "SDK")
    rows = [f"| {words} | {spread(res.all[k]) if 'ms' in words else f'{res.mid(k):.0f}'} |" for k, words in ONES if res.all.get(k)]
    out += ["| | p50 / p95 / p99, or median |", "|---|---:|", *rows, ""] if rows else []
    rows = [f"| {words.format(**size)} | {res.mid(k):.0f} |" for k, words in MEMORY if res.all.get(k)]
    out += ["| memory (PSS) | KiB |", "|---|---:|", *rows, ""] if rows else []
    out += ["| goal | at most | measured | holds |", "|---|---:|---:|---|"]
    out += [f"| {g[0]} | {g[1]} | {'-' if g[2] is None else f'{g[2]:.2f}'} | {'not measured' if holds(g) is None else 'yes' if holds(g) else 'no'} |"
            for g in goals(res, size)]
    for way, words in (("up", "Upload"), ("down", "Download")):
        r = res.ratio(f"{way} brigd", f"{way} plain")
        if r is not None:
            out += ["", f"{words}: {r:.2f} of plain loopback's rate."]
    return "\n".join(out) + "\n"


def put_into(path, text):
    """The part below our heading, up to the next of its kind, is replaced."""
    with open(path, encoding="utf-8") as f:
        head, _, rest = f.read().partition(f"\n{HEADING}\n")
    at_next = rest.find("\n# ")
    with open(path, "w", encoding="utf-8") as f:
        f.write(head.rstrip("\n") + "\n\n" + text + (rest[at_next:] if at_next >= 0 else ""))


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        cpu = next((x.split(":")[1].strip() for x in f if x.startswith("model name")), platform.machine())
    return f"{cpu}, {os.cpu_count()} processors; Linux {platform.release()}"


def as_json(res, where, size):
    rows = [{"measure": k, "values": len(v), **{f"p{q}": at(v, q) for q in (50, 95, 99)}} for k, v in res.all.items() if v]
    return json.dumps({"conditions": where, "rows": rows, "failed": res.failed,
                       "goals": [{"goal": g[0], "limit": g[1], "measured": g[2], "holds": holds(g)} for g in goals(res, size)]}, indent=1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quick", action="store_true")
    p.add_argument("--smoke", action="store_true")
    p.add_argument("--only", default=",".join(apiparts.PARTS))
    p.add_argument("--image", default="host")
    p.add_argument("--json", action="store_true")
    p.add_argument("--keep")
    p.add_argument("--into")
    p.add_argument("--crowds", help="how many at once, for example 1,10")
    a = p.parse_args()
    size = dict(SIZES["smoke" if a.smoke else "quick" if a.quick else "full"])
    if a.crowds:
        size["crowds"] = tuple(int(x) for x in a.crowds.split(","))
    if os.geteuid() != 0:
        sys.exit("api.py: needs root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    where = {"machine": machine(), "image": a.image, "load_before": os.getloadavg()[0]}
    res = Results(a.keep)
    for name in a.only.split(","):
        try:
            apiparts.PARTS[name](res, size, a.image)
        except (Failed, OSError, subprocess.SubprocessError) as e:
            res.failed.append(name)
            print(f"api.py: {name}: {e}", file=sys.stderr, flush=True)
    res.save()
    where["load_after"] = os.getloadavg()[0]
    where["crowds"] = sorted({int(k.rsplit(" ", 1)[1]) for k in res.all if k.startswith(("raw ", "sdk "))})
    text = report(res, where, size)
    print(as_json(res, where, size) if a.json else text, end="\n" if a.json else "", flush=True)
    if a.into:
        put_into(a.into, text)
    return 1 if res.failed else 0


if __name__ == "__main__":
    sys.exit(main())
