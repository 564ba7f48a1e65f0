#!/usr/bin/python3
"""Who cleans up: brig, the runner, the agent, brig and runner at once killed with SIGKILL at random
moments of start, run and end. Within 1 s (the median: a loaded machine can be late by itself) no process of
the sandbox is left, and with them no namespace (nothing is mounted that would hold one); after the next brig
no cgroup and no record.

BRIG_KILLS: kills per victim and caller (default 200, 80 in CI, whose runs add up: each has a seed of its own). BRIG_SEED: the random seed, printed at the start.
"""
import os
import random
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok, until  # noqa: E402
import reap  # noqa: E402

KILLS = int(os.environ.get("BRIG_KILLS", "80" if os.environ.get("BRIG_CI") else "200"))
SEED = int(os.environ.get("BRIG_SEED", str(random.SystemRandom().randrange(1 << 32))))
BATCH = 20
# A tree that a process group kill would miss.
TREE = "(setsid sleep 600 &) ; sleep 600 & sleep 0.01; exit 3"
print(f"# BRIG_SEED={SEED} BRIG_KILLS={KILLS}")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return [p for p, (_, ppid) in reap.table().items() if ppid == pid]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def runner_of(brig):
    """The runner is brig's child in brig's own PID namespace; None before it exists and after it ended."""
    for pid in children(brig.pid):
        if len(reap.ns_pids(pid)) == 1:
            return pid
    return None


def agent_of(brig):
    """PID 1 of a PID namespace below brig, whoever its parent is."""
    kids = children(brig.pid)
    for pid in kids + [p for k in kids for p in children(k)]:
        ids = reap.ns_pids(pid)
        if len(ids) > 1 and ids[-1] == 1:
            return pid
    return None


def soon(fn, brig):
    """Wait for a victim that does not exist yet; None when the run ended first."""
    while brig.poll() is None:
        v = fn(brig)
        if v:
            return v
    return None


def strike(brig, victim):
    """Kill; True when there was something to kill."""
    if victim == "brig":
        kill(brig.pid)
        return True
    target = soon(agent_of if victim == "agent" else runner_of, brig)
    if target is None:
        return False
    if victim == "both":
        # The order is random: either may be the survivor for a moment.
        for pid in random.sample([brig.pid, target], 2):
            kill(pid)
    else:
        kill(target)
    return True


def gone(brig):
    """Everything but brig itself is dead, and brig has ended too."""
    return brig.poll() is not None and not reap.descendants()


def one(m, victim, longest):
    brig = m.popen(m.run_argv("--", "sh", "-c", TREE), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    delay = random.uniform(0, longest)
    time.sleep(delay)
    hit = strike(brig, victim)
    t = time.monotonic()
    left = lambda: (f"{victim} killed after {delay * 1000:.1f} ms; brig {brig.poll()}; left "
                    f"{[reap.describe(p) for p in reap.descendants()]}")
    until(lambda: gone(brig), 20, left)
    took = time.monotonic() - t
    rc = brig.wait()
    if victim in ("agent", "runner"):
        ok(rc in (3, 125), f"exit {rc} with the {victim} killed after {delay * 1000:.1f} ms")
    return hit, took


def after_next_brig(m):
    """The next brig removes what the dead left: records and cgroups, of this state folder."""
    reap.remember(m.state)
    done(m.run("--", "true"))
    # its own runner goes a moment after it
    until(lambda: not reap.records(m.state), 20, lambda: f"records after the next brig: {reap.records(m.state)}")
    until(lambda: not reap.cgroups(m.state), 20, lambda: f"cgroups after the next brig: {reap.cgroups(m.state)}")
    eq(reap.mounts(m.base), [], "mounts")


def longest_run(m):
    times = []
    for _ in range(5):
        t = time.monotonic()
        done(m.run("--", "sh", "-c", TREE), rc=3)
        times.append(time.monotonic() - t)
    return 1.1 * sorted(times)[2]


def campaign(m, victim):
    random.seed(f"{SEED}-{m.name}-{victim}")
    longest, hits, times = longest_run(m), 0, []
    for i in range(KILLS):
        try:
            hit, took = one(m, victim, longest)
        except AssertionError as e:
            raise AssertionError(f"kill {i}: {e}") from None
        hits += hit
        times.append(took)
        if i % 5 == 0:
            reap.remember(m.state)
        if i % BATCH == BATCH - 1:
            after_next_brig(m)
    after_next_brig(m)
    print(f"# {m.name}: {victim}: {hits} of {KILLS} killed in time within {longest * 1000:.0f} ms, "
          f"slowest clean-up {max(times) * 1000:.0f} ms")
    ok(sorted(times)[len(times) // 2] < 1, f"clean-ups took {sorted(times)}")
    ok(hits >= KILLS // 4, f"only {hits} of {KILLS} kills hit something alive")


@case
def brig_killed(m):
    campaign(m, "brig")


@case
def runner_killed(m):
    campaign(m, "runner")


@case
def agent_killed(m):
    campaign(m, "agent")


@case
def brig_and_runner_killed(m):
    campaign(m, "both")


@case
def a_live_sandbox_is_never_swept(m):
    """The next brig removes what is dead, and only that."""
    p = m.popen(m.run_argv("--", "sh", "-c", "echo up; sleep 0.4; echo still; exit 4"), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "start")
    for _ in range(5):
        done(m.run("--", "true"))
        m.brig("gc")
    eq(p.stdout.readline(), b"still\n", "after the others")
    eq(p.wait(timeout=20), 4, "exit")


@case
def records_of_another_boot_or_garbage_do_no_harm(m):
    """What lies in the state folder is checked before it is believed."""
    done(m.run("--", "true"))
    victim = m.popen(["sleep", "60"])
    mine = m.mkdir("brig")
    for nr, text in enumerate((b"\xff\0\xff" * 1000, b"", b"brig-record 1\nboot=0\nid=x\ncgroup=/sys/fs/cgroup\n",
                               b"brig-record 1\nboot=%s\nid=x\ncgroup=/sys/fs/cgroup\ncgroup=%s\n"
                               b"cgroup=/sys/fs/cgroup/brig/local/../..\n" % (boot_id(), mine.encode()))):
        p = os.path.join(m.state, "live", str(nr))
        with open(p, "wb") as f:
            f.write(text)
        m.give(p)
    done(m.run("--", "echo", "x"), out=b"x\n")
    eq(m.brig("gc").rc, 0, "gc")
    until(lambda: not reap.records(m.state), 20, lambda: f"records: {reap.records(m.state)}")
    ok(victim.poll() is None, "a foreign process was killed")
    ok(os.path.isdir(mine), "a foreign folder was removed")
    victim.kill()
    victim.wait()


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", "rb") as f:
        return f.read().strip()


sys.exit(main())
