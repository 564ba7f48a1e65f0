#!/usr/bin/python3
"""The gate beside other ways to give a sandbox a network: throughput, latency, connections, memory, set-up time; what one
decision takes; and HTTP that the gate reads.

Contenders take turns in shuffled rounds, in namespaces of the script's own (networld.py). Needs root.

  tests/bench/egress.py [--quick | --smoke] [--rounds N] [--only NAME,...] [--weight N] [--json] [--into FILE]

--smoke: everything once and short, to see that it runs; its numbers mean nothing. --into: replace what FILE has below the
heading of this benchmark. Exit status 1 when something could not be measured that is installed."""
import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import networld  # noqa: E402

HEADING = "# Network: the gate beside other ways"
GBIT = 8e-9
# Of one round: how long a stream is read, connections that are timed, round trips, connections for the rate; and beside the
# rounds: idle connections, pairs of starts, batches of decisions.
SIZES = {"full": {"rounds": 12, "seconds": 0.5, "connects": 60, "rtts": 400, "conns": 800, "idle": 2000, "set_ups": 41, "batches": 400},
         "quick": {"rounds": 3, "seconds": 0.3, "connects": 20, "rtts": 100, "conns": 200, "idle": 500, "set_ups": 9, "batches": 100},
         "smoke": {"rounds": 1, "seconds": 0.02, "connects": 2, "rtts": 2, "conns": 16, "idle": 9, "set_ups": 1, "batches": 3}}
RULES = 1000

# key, what it is, unit, factor, command of the load with the size it takes, whether single values are kept (percentiles)
MEASURES = (("down1", "one stream to the sandbox", "Gbit/s", GBIT, ("down", 1, "seconds"), False),
            ("up1", "one stream from the sandbox", "Gbit/s", GBIT, ("up", 1, "seconds"), False),
            ("down8", "eight streams to the sandbox", "Gbit/s", GBIT, ("down", 8, "seconds"), False),
            ("connect", "connect and first byte", "us", 1, ("connect", "connects"), True),
            ("ask", "the same, and its name asked before", "us", 1, ("ask", "connects"), True),
            ("rtt", "a byte there and back", "us", 1, ("rtt", "rtts"), True),
            ("rate", "new connections a second", "/s", 1, ("rate", "conns"), False))
HTTPS = (("tls_down", "one stream to the sandbox", "Gbit/s", GBIT, ("down", "seconds"), False),
         ("tls_request", "a request on an open connection", "us", 1, ("request", "rtts"), True))


class Results:
    def __init__(self):
        self.all, self.mid, self.failed = {}, {}, []  # (measure, contender) -> values; -> the median of each round

    def add(self, key, name, values):
        self.all.setdefault((key, name), []).extend(values)
        self.mid.setdefault((key, name), []).append(statistics.median(values))

    def median(self, key, name):
        return statistics.median(self.all[key, name]) if (key, name) in self.all else None

    def pairs(self, key, a, b, f):
        """The median over the rounds of f(a's, b's)."""
        both = list(zip(self.mid.get((key, a), []), self.mid.get((key, b), [])))
        return statistics.median(f(x, y) for x, y in both) if both else None

    def attempt(self, key, name, f):
        try:
            self.add(key, name, f())
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            self.failed.append(f"{key}, {name}")
            print(f"egress.py: {key}, {name}: {e}", file=sys.stderr, flush=True)


def measure(res, cs, rows, size):
    for n in range(size["rounds"]):
        if sys.stderr.isatty():
            print(f"round {n + 1} of {size['rounds']}", file=sys.stderr)
        for key, _, _, factor, cmd, _ in rows:
            for c in random.sample(cs, len(cs)):
                if key == "ask" and "@" not in c.host:
                    continue
                args = [size.get(x, x) for x in cmd]
                if key in ("connect", "rate"):
                    args[-1] = max(2 if key == "connect" else 8, int(args[-1] * c.few))
                res.attempt(key, c.name, lambda c=c, args=args, factor=factor: [x * factor for x in c.numbers(*args)])


def memory(c, n):
    """KiB of the processes in the middle for each of n idle connections."""
    held = []
    for k in (1, n):
        p = networld.start(c.argv("hold", k), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.stdout.readline() != b"held\n":
            raise RuntimeError(p.stderr.read().decode()[-200:])
        held.append(sum(networld.pss(x) for x in c.between(p)))
        networld.stop(p)
    return [(held[1] - held[0]) / (n - 1)]


def beside(res, cs, size):
    for c in cs:
        n = max(8, int(size["idle"] * c.few))
        if c.name not in ("loopback", "veth"):
            res.attempt("idle", c.name, lambda c=c, n=n: memory(c, n))
    for _ in range(size["set_ups"]):
        for c in random.sample(cs, len(cs)):
            if c.name not in ("loopback", "veth", "least relay"):
                res.attempt("set_up", c.name, lambda c=c: [b - a for a, b in [c.set_up()]])
    for c in cs:
        if isinstance(c, networld.Brig):
            with c.hooks():
                for _ in range(size["set_ups"]):
                    res.attempt("set_up_used", c.name, lambda c=c: [b - a for a, b in [c.set_up()]])
    r = subprocess.run([networld.JUDGE, str(RULES), str(size["batches"])], stdout=subprocess.PIPE, check=True)
    for line in r.stdout.decode().splitlines():
        word, *values = line.split()
        res.add(word, "brig", [float(x) / 1000 for x in values])


BESIDE = (("idle", "memory of an idle connection", "KiB", False), ("set_up", "set-up, added to a start", "ms", True),
          ("set_up_used", "the same, where the kernel has nf_tables' hooks already", "ms", True))
ALONE = (("decide", f"one decision, {RULES} rules of five kinds", "us", True), ("line", "the record of it", "us", True))


def goals(res):
    """(what, "at least" or "at most", limit, measured or None)"""
    return [("one stream to the sandbox, of loopback's", "at least", 0.40, res.pairs("down1", "brig", "loopback", lambda a, b: a / b)),
            ("one stream to the sandbox, of slirp4netns'", "at least", 1.5, res.pairs("down1", "brig", "slirp4netns", lambda a, b: a / b)),
            ("connect and first byte, added to veth's, us", "at most", 250, res.pairs("connect", "brig", "veth", lambda a, b: a - b)),
            ("the same with the name asked before, us", "at most", 250, res.pairs("ask", "brig", "veth", lambda a, b: a - b)),
            (f"one decision, {RULES} rules, us", "at most", 5, res.median("decide", "brig")),
            ("memory of an idle connection, KiB", "at most", 20, res.median("idle", "brig")),
            ("set-up, added to brig run, ms", "at most", 3, res.median("set_up", "brig")),
            ("one stream of HTTPS that is read, Gbit/s", "at least", 1, res.median("tls_down", "TLS, inspected")),
            ("a request on an open connection that is read, added, us", "at most", 1000,
             res.pairs("tls_request", "TLS, inspected", "TLS, veth", lambda a, b: a - b))]


def holds(goal):
    _, how, limit, got = goal
    return None if got is None else got >= limit if how == "at least" else got <= limit


def figure(x, unit):
    return f"{x:.2f}" if unit in ("Gbit/s", "KiB", "ms") or x < 10 else f"{x:.0f}"


def cell(values, unit, spread):
    if not values:
        return "-"
    v = sorted(values)
    if not spread:
        return figure(statistics.median(v), unit)
    return " / ".join(figure(v[min(len(v) - 1, int(len(v) * q))], unit) for q in (0.5, 0.95, 0.99))


def table(res, rows, names):
    out = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for key, what, unit, spread in rows:
        out.append(f"| {what}, {unit}{' (p50 / p95 / p99)' if spread else ''} | " + " | ".join(cell(res.all.get((key, n)), unit, spread) for n in names) + " |")
    return out


def short(rows):
    return [(k, what, unit, spread) for k, what, unit, _, _, spread in rows]


def report(res, cs, tls, absent, where):
    size = where["sizes"]
    out = [HEADING, "", "Written by `make bench-egress`. Client and server are in two namespaces joined by a veth pair with loopback's MTU; what is",
           "compared stands between. Contenders take turns in shuffled rounds; `connect and first byte`: from before connect(2) until a byte of",
           "the server's came back, one at a time; rates: eight processes. `loopback` is the server on 127.0.0.1, `veth` the way without anything between.",
           "A socat pair is one inside and one outside with a Unix socket between, a process for each connection at either end. `least relay`",
           "is one on loopback that accepts, connects and copies, without a sandbox, rules, records or limits: what it adds, any relay adds on",
           "this machine. Memory is what the processes between have (PSS), not the kernel's. Set-up is the whole time a start takes more: of brig",
           "run that of `true` with and without `--allow`, in pairs of either order, where nobody else uses nf_tables and the kernel has to patch its",
           "own text for it (`true` asks the gate nothing, so it has none; whoever asks at once waits for its start, docs/egress.md); of slirp4netns",
           "and socat until they say that they are ready; of pasta that of `true` beside unshare's.", "",
           f"- {where['machine']}", f"- {where['peers']}",
           f"- {size['rounds']} rounds, {size['set_ups']} pairs of starts; load average {where['load_before']:.1f} when it began, {where['load_after']:.1f} at its end"
           + (f"; others used the machine: the benchmark ran in a cgroup with {where['weight']} times a task's share, brig without cgroups of its own"
              if where["weight"] else ""), ""]
    out += [f"- not measured: {a}, it is not installed (package {p})" for a, p in absent.items()]
    out += table(res, [*short(MEASURES), *BESIDE], [c.name for c in cs]) + [""] + table(res, ALONE, ["brig"]) + [""]
    if tls:
        out += ["HTTP over TLS (1.3) and in the clear; client and server are Python programs and have their share of the two processors.", ""]
        out += table(res, short(HTTPS), [c.name for c in tls]) + [""]
    out += ["| goal | | | measured | holds |", "|---|---|---:|---:|---|"]
    for g in goals(res):
        got = "-" if g[3] is None else f"{g[3]:.2f}"
        out.append(f"| {g[0]} | {g[1]} | {g[2]} | {got} | {'not measured' if holds(g) is None else 'yes' if holds(g) else 'no'} |")
    out += ["", "Ratios and differences of goals are medians of those within each round."]
    least = res.pairs("connect", "least relay", "veth", lambda a, b: a - b)
    more = res.pairs("connect", "brig", "least relay", lambda a, b: a - b)
    if least is not None and more is not None:
        out += [f"To a connection the least relay adds {least:.0f} us, and brig {abs(more):.0f} {'more' if more >= 0 else 'less'} than it."]
    return "\n".join(out) + "\n"


def put_into(path, text):
    """The part below our heading, up to the next of its kind, is replaced."""
    with open(path, encoding="utf-8") as f:
        head, _, rest = f.read().partition(f"\n{HEADING}\n")
    at = rest.find("\n# ")
    with open(path, "w", encoding="utf-8") as f:
        f.write(head.rstrip("\n") + "\n\n" + text + (rest[at:] if at >= 0 else ""))


def version(package):
    r = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return f"{package} {r.stdout.decode() or 'of unknown version'}"


def conditions(size, cs, weight):
    with open("/proc/cpuinfo", encoding="ascii") as f:
        cpu = next((x.split(":")[1].strip() for x in f if x.startswith("model name")), platform.machine())
    return {"machine": f"{cpu}, {os.cpu_count()} processors; Linux {platform.release()}; `loopback` and `veth` show what it can do", "sizes": size,
            "peers": ", ".join(version(networld.PEERS[x]) for x in [*(c.name.split()[0] for c in cs), "openssl"] if x in networld.PEERS),
            "weight": weight, "load_before": os.getloadavg()[0]}


def as_json(res, absent, where):
    rows = [{"measure": k, "contender": n, "values": len(v), **{f"p{q}": sorted(v)[min(len(v) - 1, len(v) * q // 100)] for q in (50, 95, 99)}}
            for (k, n), v in res.all.items()]
    return json.dumps({"conditions": where, "rows": rows, "absent": absent, "failed": res.failed,
                       "goals": [{"goal": g[0], "how": g[1], "limit": g[2], "measured": g[3], "holds": holds(g)} for g in goals(res)]}, indent=1)


def run(a, size, d):
    inside = networld.world()
    cs, absent = networld.contenders(d, a.only.split(",") if a.only else None)
    for name, package in absent.items():
        print(f"egress.py: NOT MEASURED: {name} is not installed (package {package})", file=sys.stderr, flush=True)
    where, res, tls = conditions(size, cs, a.weight), Results(), []
    measure(res, cs, MEASURES, size)
    beside(res, cs, size)
    if "openssl" not in absent and (not a.only or "https" in a.only):
        tls = networld.https(d, inside)
        measure(res, tls, HTTPS, size)
    where["load_after"] = os.getloadavg()[0]
    text = report(res, cs, tls, absent, where)
    print(as_json(res, absent, where) if a.json else text, end="\n" if a.json else "", flush=True)
    if a.into:
        put_into(a.into, text)
    return 1 if res.failed else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quick", action="store_true")
    p.add_argument("--smoke", action="store_true")
    p.add_argument("--rounds", type=int)
    p.add_argument("--only", default="", help="loopback,veth,least,brig,slirp4netns,pasta,socat,https")
    p.add_argument("--json", action="store_true")
    p.add_argument("--into")
    p.add_argument("--weight", type=int, default=0, help="on a machine that others use: so many times a task's share of the processors")
    a = p.parse_args()
    size = dict(SIZES["smoke" if a.smoke else "quick" if a.quick else "full"])
    size["rounds"] = a.rounds or size["rounds"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    networld.enter(a.weight)
    d = tempfile.mkdtemp(prefix="egress-bench-")
    try:
        return run(a, size, d)
    finally:
        networld.end()
        shutil.rmtree(d, True)


if __name__ == "__main__":
    sys.exit(main())
