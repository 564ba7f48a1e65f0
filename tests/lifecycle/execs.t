#!/usr/bin/python3
"""Ending one exec of a living sandbox: none of its descendants, all of its siblings."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok, until  # noqa: E402
from multi import Multi  # noqa: E402
import reap  # noqa: E402

TREES = {
    "children": "for i in 1 2 3; do sleep 600 & done; echo up; wait",
    "busy": "for i in 1 2; do (while :; do :; done) & done; echo up; sleep 600",
    "setsid": "setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600; :' & echo up; sleep 600",
    "double_fork": "(setsid sh -c '(sleep 600 &) ; (sleep 600 &)' &) ; (sleep 600 &) ; echo up; sleep 600",
    "stopped": "sleep 600 & kill -STOP $!; sh -c 'kill -STOP $$' & echo up; sleep 600",
    "ignoring": "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 600) & echo up; while :; do sleep 1; done",
    "main_is_dead": "(setsid sleep 600 > /dev/null 2>&1 &); (sleep 600 > /dev/null 2>&1 &) ; echo up",
    "respawning": "(while :; do (setsid sleep 0.01 &); done) > /dev/null 2>&1 & echo up; sleep 600",
}


def processes(s, but=0):
    """Processes inside, without the agent, its guards and the counting shell itself."""
    r, out = s.run("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | head -c 60; echo; done")
    return [x for x in out.decode("utf-8", "replace").splitlines() if "sleep" in x or "while" in x]


def kill_exec(m, leaf, tree):
    with Multi(m) as s:
        sibs = [s.sh("trap 'exit 7' USR1; echo up; while :; do sleep 0.02; done", leaf=leaf),
                s.sh("setsid sleep 601 & echo up; wait", leaf=leaf)]
        for sib in sibs:
            s.output(sib, b"up")
        victim = s.sh(TREES[tree], leaf=leaf)
        s.output(victim, b"up")
        if leaf:
            s.send("leaf_kill", id=victim)
            e = s.wait(lambda e: e["ev"] == "leaf_kill", 20)
            eq(e["rc"], 0, f"leaf_kill: {e}")
        else:
            s.send("reset", id=victim)
        s.result(victim, 20)
        left = [x for x in processes(s) if "600" in x or "while :; do :" in x or "0.01" in x]
        eq(left, [], f"descendants of '{tree}' left")
        ok(any("sleep 601" in x for x in processes(s)), "a sibling's child was killed")
        s.send("signal", id=sibs[0], sig=10)
        eq(s.result(sibs[0])["code"], 7, "the sibling")


def add(tree):
    def with_leaf(m):
        kill_exec(m, True, tree)

    def without_leaf(m):
        kill_exec(m, False, tree)
    with_leaf.__name__ = f"leaf_{tree}"
    without_leaf.__name__ = f"guard_{tree}"
    case(with_leaf, modes=("root",))
    if tree != "main_is_dead":  # without a leaf the stream is the only handle, and it has ended
        case(without_leaf)


for name in TREES:
    add(name)


@case
def a_normal_end_leaves_background_jobs_alone_or_not_at_all(m):
    """C09 in a living sandbox: the exec ends at once, whatever holds its output."""
    with Multi(m) as s:
        r, out = s.run("sleep 603 & echo hi")
        eq((r["code"], out), (0, b"hi\n"), "exec")


@case
def leaves_are_removed(m):
    if m.name == "user":
        return
    with Multi(m) as s:
        s.run("true")
        ids = reap.remember(m.state)

        def mine():
            return sorted(c for c in reap.brig_cgroups() if any(i in c for i in ids))
        before = mine()
        ok(before, "no cgroup of this sandbox found")
        for _ in range(10):
            sid = s.sh("exit 0", leaf=True)
            s.result(sid)
            s.send("leaf_kill", id=sid)
            eq(s.wait(lambda e: e["ev"] == "leaf_kill", 20)["rc"], 0, "leaf_kill of an ended exec")
        eq(mine(), before, "cgroups")


@case
def users_without_cgroups_are_told(m):
    if m.name == "root":
        return
    with Multi(m) as s:
        s.send("open", id=9, kind="EXEC", argv=["true"], leaf=True)
        e = s.wait(lambda e: e["ev"] == "open" and e["id"] == 9, 20)
        ok(e["rc"] == -95 or e["rc"] == 0, f"{e}")


@case
def end_by_kill_and_wait(m):
    with Multi(m) as s:
        for _ in range(3):
            s.sh("trap '' TERM; setsid sleep 600 & while :; do :; done")
        s.send("kill")
        s.send("wait")
        e = s.wait(lambda e: e["ev"] == "end", 20)
        eq((e["rc"], e["killed"], e["lost"], e["timed_out"]), (0, True, False, False), f"{e}")
    until(lambda: not reap.descendants(), 20, "processes left")


@case
def end_by_the_life_span(m):
    t = time.monotonic()
    with Multi(m, timeout_ms=700) as s:
        for _ in range(3):
            s.sh("trap '' TERM; setsid sleep 600 & while :; do :; done")
        s.wait(lambda e: e["ev"] == "session_end", 20)
        took = time.monotonic() - t
        s.send("wait")
        e = s.wait(lambda e: e["ev"] == "end", 20)
        eq((e["rc"], e["timed_out"], e["lost"]), (0, True, False), f"{e}")
        ok(took >= 0.69, f"took {took:.3f} s")


@case
def end_by_shutdown(m):
    with Multi(m) as s:
        s.sh("sleep 600")
        s.open("SHUTDOWN")
        s.wait(lambda e: e["ev"] == "session_end", 20)
        s.send("wait")
        e = s.wait(lambda e: e["ev"] == "end", 20)
        eq((e["rc"], e["timed_out"]), (0, False), f"{e}")


@case
def a_long_row_of_execs_leaks_nothing_inside(m):
    with Multi(m) as s:
        def agent():
            r, out = s.run("ls /proc | grep -c '^[0-9]'")
            return int(out)
        init = until(lambda: reap.init_of(s.p.pid), 20, "no init")

        def held():
            with open(f"/proc/{init}/statm", encoding="ascii") as f:
                pages = int(f.read().split()[1])
            return len(os.listdir(f"/proc/{init}/fd")), pages
        if m.name == "user" and os.geteuid() != 0:
            return
        for _ in range(30):
            s.run("true")
        fds, pages = held()
        procs = agent()
        for i in range(300):
            s.run("echo x; exit 1" if i % 3 else "(sleep 0.01; sleep 0.01) & echo x")
        for sid in range(5):
            s.exec("/no/such/thing")
        # background jobs of the last ones may live for a moment
        until(lambda: held()[0] <= fds and agent() <= procs, 20,
              lambda: f"descriptors of the agent {fds} -> {held()[0]}, processes {procs} -> {agent()}")
        pages2 = held()[1]
        ok(pages2 <= pages + 32, f"pages of the agent {pages} -> {pages2}")


# After every case, so that a folder is found that only one way of ending leaves behind.
sys.exit(main(after_each=nothing_left))
