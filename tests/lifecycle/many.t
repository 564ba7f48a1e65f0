#!/usr/bin/python3
"""Many sandboxes: 100 at once, and long rows that must leak nothing.

BRIG_SOAK=1: rows of 10,000 instead of 300.
"""
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, goes_on, main, nothing_left, ok, until  # noqa: E402
from multi import Multi  # noqa: E402
import reap  # noqa: E402

ROW = 10000 if os.environ.get("BRIG_SOAK") == "1" else 300
STEP = 100
AT_ONCE = 100


@case
def a_hundred_at_once(m):
    ps = []
    for i in range(AT_ONCE):
        ps.append(m.popen(m.run_argv("-i", "--memory", "96M", "--disk", "16M", "--", "sh", "-c",
                                     f"echo {i}; cat > f; cat f; exit {i}"),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    for i, p in enumerate(ps):  # every one is up before the first may end
        eq(p.stdout.readline(), b"%d\n" % i, f"sandbox {i}: {p.poll()}")
    reap.remember(m.state)
    eq(len({tuple(sorted(reap.namespaces(reap.init_of(p.pid)))) for p in ps}), AT_ONCE, "distinct namespaces")
    if m.name == "root":
        bases = set()
        for p in ps:
            with open(f"/proc/{reap.init_of(p.pid)}/uid_map", encoding="ascii") as f:
                bases.add(f.read().split()[1])
        eq(len(bases), AT_ONCE, "distinct ranges of ids")
    for i, p in enumerate(ps):
        out, err = p.communicate(b"data%d" % i, timeout=60)
        eq((p.returncode, out, err), (i, b"data%d" % i, b""), f"sandbox {i}")
    nothing_left(m)


@case
def a_hundred_killed_at_once(m):
    ps = [m.popen(m.run_argv("--", "sh", "-c", "echo up; setsid sleep 600 & sleep 600"), stdout=subprocess.PIPE,
                  stderr=subprocess.DEVNULL) for _ in range(AT_ONCE)]
    for p in ps:
        eq(p.stdout.readline(), b"up\n", f"start {p.poll()}")
    reap.remember(m.state)
    t = time.monotonic()
    for p in ps:
        p.kill()
    for p in ps:
        p.wait()
        p.stdout.close()
    until(lambda: not reap.descendants(), 20, lambda: f"{len(reap.descendants())} processes left")
    print(f"# {m.name}: all gone {1000 * (time.monotonic() - t):.0f} ms after {AT_ONCE} kills")
    done(m.run("--", "true"))
    nothing_left(m)


def host_state(m):
    return {"mounts": sum(1 for _ in open("/proc/self/mountinfo", encoding="utf-8", errors="replace")),
            "records": len(reap.records(m.state)),
            "state files": sum(len(f) for _, _, f in os.walk(m.state)),
            "temporary files": len(os.listdir(m.dir)),
            "processes": len(reap.descendants()),
            "descriptors": len(os.listdir("/proc/self/fd"))}


@case
def a_long_row_of_runs(m):
    for _ in range(5):
        done(m.run("--", "true"))
    nothing_left(m)
    before = host_state(m)
    for i in range(ROW):
        r = m.run("--", "true")
        if r.rc != 0:
            raise AssertionError(f"run {i}: {r!r}")
        if i % 50 == 0:
            goes_on()
            reap.remember(m.state)
            reap.descendants()  # reaps them: thousands of dead ones would be a burden to all who look at /proc
    nothing_left(m)
    eq(host_state(m), before, "what the host holds")


@case
def a_long_row_in_one_process(m):
    """The same through the library, as a daemon will: descriptors and memory of the caller."""
    s = Multi(m)
    first = None
    for _ in range(ROW // STEP):
        goes_on()
        s.send("soak", n=STEP)
        e = s.wait(lambda e: e["ev"] == "soak", 200)
        eq(e["rc"], 0, f"{e}")
        first = first or e
    s.__exit__()
    eq(e["fds_after"], first["fds"], "descriptors")
    ok(e["rss_after"] <= first["rss"] + 512, f"memory {first['rss']} -> {e['rss_after']} KiB")
    nothing_left(m)


@case
def cgroup_folders_do_not_pile_up(m):
    """Counted on the whole host, so that a folder whose name we never saw is found too."""
    before = set(reap.brig_cgroups())
    for _ in range(20):
        done(m.run("--", "true"))
    def new():
        return [c for c in set(reap.brig_cgroups()) - before if os.path.isdir(c)]
    # Sandboxes of others on this machine come and go; ours would stay.
    first = set(new())
    until(lambda: not first & set(new()), 20, lambda: f"left {first & set(new())}")


sys.exit(main())
