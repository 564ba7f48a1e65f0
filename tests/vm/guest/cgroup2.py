#!/usr/bin/python3
"""Limits, OOM, kill and leaks on a cgroup v2 host, as root and as a delegated user.

Argument: a regular expression; only cases whose name matches run. With `lsm=` on the kernel's command line
the same cases run without Landlock.
"""
import ctypes
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from vmlib import (BRIG, CG, DELEGATED, LOGIN, ROOT, SERVICE, SLACK_MS, Stalls, SUBIDS, World, case, eq, main, numbers,  # noqa: E402
                   ok, processes, read, records, until, user_slice)

MIB = 1 << 20
LANDLOCK = "lsm=" not in read("/proc/cmdline").split()
# Small, because emulated memory is slow.
SMALL = ("--memory", "112M", "--disk", "32M")
HOG = "python3 -c 'bytearray(200 << 20)'"


class Live:
    """A sandbox that runs `first`, says "up" and then waits."""

    def __init__(self, caller, *opts, first=":", cmd="exec sleep 1000"):
        self.caller = caller
        before = set(caller.sandboxes())
        self.brig = caller.popen([BRIG, "run", *opts, "--", "sh", "-c", f"{first}\necho up; {cmd}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.brig.stdout.readline()
        if line != b"up\n":
            self.brig.kill()
            raise AssertionError(f"no start: {line!r} {self.brig.communicate()!r}")
        if caller.base:
            new = set(caller.sandboxes()) - before
            eq(len(new), 1, "cgroup folders of one sandbox")
            self.dir = new.pop()
            self.agent = int(read(f"{self.dir}/cgroup.procs").split()[0])

    def runner(self):
        return runner_of(self.brig.pid)

    def end(self):
        self.brig.send_signal(signal.SIGINT)
        out = self.brig.communicate(timeout=20)
        eq(self.brig.returncode, 130, f"exit after SIGINT {out!r}")


def runner_of(brig):
    """The process near brig that is not in the sandbox's PID namespace."""
    ours = os.readlink("/proc/self/ns/pid")
    kids = [int(k) for k in read(f"/proc/{brig}/task/{brig}/children").split()]
    found = [k for k in kids if os.readlink(f"/proc/{k}/ns/pid") == ours]
    eq(len(found), 1, "runners")
    return found[0]


# ---- the machine itself: without this the rest would prove nothing ----
@case(None)
def the_kernel_is_a_stock_cgroup_v2_one():
    ok(re.match(r"6\.1\.", os.uname().release), os.uname().release)
    ok("Debian" in os.uname().version, os.uname().version)
    groups = [m for m in read("/proc/self/mountinfo").splitlines() if " - cgroup" in m]
    eq(len(groups), 1, "cgroup mounts")
    ok(" - cgroup2 " in groups[0] and "nsdelegate" in groups[0], groups[0])
    ok({"cpu", "memory", "pids"} <= set(read(f"{CG}/cgroup.controllers").split()), "controllers")
    ok(os.path.exists(f"{user_slice(0)}/cgroup.kill"), "cgroup.kill")


@case(None)
def landlock_is_there_or_not_as_booted():
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(444, None, 0, 1)  # landlock_create_ruleset, LANDLOCK_CREATE_RULESET_VERSION
    eq(abi, 2 if LANDLOCK else -1, "Landlock ABI")


@case(DELEGATED, SUBIDS)
def the_user_can_make_cgroups_with_controllers(c):
    d = f"{c.base}/probe"
    r = c.exec("sh", "-c", f"mkdir {d} && cat {d}/cgroup.controllers && rmdir {d}")
    eq((r.rc, set(r.out.split())), (0, {"cpu", "memory", "pids"}), repr(r))


@case(LOGIN)
def the_user_can_make_no_cgroup(c):
    for d in (CG, f"{user_slice(c.uid)}", c.leaf):
        r = c.exec("mkdir", f"{d}/probe")
        ok(r.rc == 1 and "ermission denied" in r.err, repr(r))


# ---- limits ----
@case(ROOT, DELEGATED, SUBIDS)
def limits_are_set_as_asked(c):
    s = Live(c, "--memory", "128M", "--disk", "32M", "--pids", "20", "--cpus", "0.5")
    got = {f: read(f"{s.dir}/{f}") for f in
           ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "memory.oom.group", "cgroup.type")}
    s.end()
    eq(got, {"memory.max": str(128 * MIB), "memory.swap.max": "0", "pids.max": "20", "cpu.max": "50000 100000",
             "memory.oom.group": "0", "cgroup.type": "domain"}, "limits")


@case(ROOT, DELEGATED)
def zero_is_no_limit(c):
    s = Live(c, "--memory", "0", "--disk", "32M", "--pids", "0", "--cpus", "0")
    got = {f: read(f"{s.dir}/{f}") for f in ("memory.max", "pids.max", "cpu.max")
           if os.path.exists(f"{s.dir}/{f}")}
    s.end()
    ok(all(v.split()[0] == "max" for v in got.values()), repr(got))


@case(ROOT, DELEGATED)
def every_process_is_below_the_limits(c):
    s = Live(c, first="setsid sleep 1000 & (sleep 1000 &)")
    try:
        want = set(s_processes(s))
        eq(set(cgroup_tree(s.dir)), want, "processes in the sandbox's cgroup")
        leaf = f"{s.dir}/exec-1"
        eq(set(cgroup_tree(leaf)) | {s.agent}, want, "the command's processes in its own leaf")
        eq(read(f"{leaf}/cgroup.controllers"), "", "controllers of the leaf")
        eq(read(f"{s.dir}/cgroup.subtree_control"), "", "controllers handed down")
    finally:
        s.end()


def cgroup_tree(top):
    """Processes in a cgroup and below."""
    return [int(p) for d, _, _ in os.walk(top) for p in read(f"{d}/cgroup.procs").split()]


def s_processes(s):
    """The processes whose PID namespace is the sandbox's."""
    ns = os.readlink(f"/proc/{s.agent}/ns/pid")
    found = []
    for p in processes():
        try:
            if os.readlink(f"/proc/{p}/ns/pid") == ns:
                found.append(p)
        except FileNotFoundError:
            pass
    return found


@case(ROOT, DELEGATED)
def the_sandbox_cannot_see_or_lift_its_limits(c):
    j = c.json("--", "sh", "-c", "cat /proc/self/cgroup; mount -t cgroup2 none /tmp; "
               "ls /sys/fs/cgroup; echo max > /sys/fs/cgroup/memory.max")
    ok("local" not in j["stdout"] and "user.slice" not in j["stdout"], j["stdout"])
    ok(j["rc"] != 0 and "memory" not in j["stdout"], repr(j))


@case(ROOT, DELEGATED)
def limits_are_required_and_given(c):
    j = c.json("--require", "limits,kill", "--", "true")
    eq((j["rc"], [w for w in j["weaker"] if re.search("memory|cpu|process|limit|kill", str(w))]), (0, []), repr(j))


@case(LOGIN)
def without_delegation_limits_are_refused_when_required(c):
    r = c.run("--require", "limits", "--", "true")
    ok(r.rc == 125 and r.err.count("\n") == 1 and "--require" in r.err and "limit" in r.err and "Delegate" in r.err,
       repr(r))


@case(LOGIN)
def without_delegation_it_runs_and_says_so(c):
    j = c.json("--", "echo", "hi")
    eq((j["rc"], j["stdout"]), (0, "hi\n"), repr(j))
    ok(re.search("memory|limit", str(j["weaker"])), repr(j))


@case(SERVICE)
def where_no_controller_can_be_handed_down_it_runs_and_says_so(c):
    j = c.json("--", "echo", "hi")
    eq((j["rc"], j["stdout"]), (0, "hi\n"), repr(j))
    ok(re.search("memory|limit", str(j["weaker"])), repr(j))
    r = c.run("--require", "limits", "--", "true")
    ok(r.rc == 125 and r.err.count("\n") == 1 and "--require" in r.err, repr(r))
    timed_out(c, "setsid sleep 1000 & sleep 1000", "--require", "kill")


@case(LOGIN)
def without_delegation_a_timeout_kills_all(c):
    timed_out(c, "setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000")


@case(ROOT, DELEGATED, LOGIN)
def check_says_what_there_is(c):
    r = c.exec(BRIG, "check")
    eq(r.rc, 0, repr(r))
    text = r.out.lower()
    ok("cgroup" in text, repr(r))
    ok("landlock" in text, repr(r))
    if c is LOGIN:
        ok("delegat" in text, f"no word on delegation: {r.out}")


# ---- memory ----
@case(ROOT, DELEGATED)
def only_the_hog_dies(c):
    j = c.json(*SMALL, "--", "sh", "-c", f"sleep 1000 & s=$!; {HOG}; echo hog=$?; "
               "kill -0 $s && echo sibling lives; exit 5")
    ok("hog=137" in j["stdout"] and "sibling lives" in j["stdout"], repr(j))
    eq((j["rc"], j["exit"], j["signal"], j["oom_kills"], j["lost"]), (5, 5, None, 1, False), repr(j))


@case(ROOT, DELEGATED)
def a_command_killed_by_the_memory_limit_is_told_apart(c):
    j = c.json(*SMALL, "--", "sh", "-c", f"exec {HOG}")
    eq((j["rc"], j["oom"], j["signal"], j["exit"], j["timed_out"], j["lost"]),
       (137, True, 9, None, False, False), repr(j))
    ok(100 * MIB < j["memory_peak"] <= 113 * MIB, f"memory_peak {j['memory_peak']}")
    j = c.json(*SMALL, "--", "sh", "-c", "kill -9 $$")
    eq((j["rc"], j["oom"], j["signal"], j["oom_kills"]), (137, False, 9, 0), repr(j))


@case(ROOT, DELEGATED)
def a_full_disk_is_no_space_and_never_oom(c):
    for place in ("/workspace", "/tmp", "/dev/shm"):
        j = c.json(*SMALL, "--", "sh", "-c", f"dd if=/dev/zero of={place}/f bs=1M count=60 2>&1; "
                   "python3 -c 'print(len(bytearray(50 << 20)))'")
        ok("No space left on device" in j["stdout"], f"{place}: {j!r}")
        ok(f"{50 * MIB}\n" in j["stdout"], f"{place}: {j!r}")
        eq((j["rc"], j["oom"], j["oom_kills"]), (0, False, 0), f"{place}: {j!r}")


@case(ROOT, DELEGATED)
def files_count_against_the_memory_limit(c):
    j = c.json(*SMALL, "--", "dd", "if=/dev/zero", "of=/workspace/f", "bs=1M", "count=25")
    eq(j["rc"], 0, repr(j))
    ok(25 * MIB <= j["memory_peak"] <= 113 * MIB, f"memory_peak {j['memory_peak']}")


# ---- processes ----
@case(ROOT, DELEGATED)
def the_process_limit_gives_eagain(c):
    j = c.json("--pids", "20", "--", "python3", "-c", """
import os, errno, signal
n = 0
try:
    while n < 100:
        p = os.fork()
        if p == 0: signal.pause()
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
""")
    m = re.match(r"EAGAIN (\d+)$", j["stdout"])
    ok(m and 10 <= int(m[1]) < 20, repr(j))


@case(ROOT, DELEGATED)
def cpu_time_is_limited(c):
    j = c.json("--cpus", "0.2", "--timeout", "3s", "--", "sh", "-c", "while :; do :; done")
    ok(j["timed_out"], repr(j))
    # 0.2 of 3 s and one period of slack on each side
    ok(j["cpu_ms"] <= 1000, f"cpu_ms {j['cpu_ms']} of {j['wall_ms']}")


# ---- timeouts ----
def timed_out(c, script, *opts, timeout_ms=1500):
    with Stalls() as stalls:
        j = c.json("--timeout", f"{timeout_ms}ms", *opts, "--", "bash", "-c", script, timeout=60)
    eq((j["rc"], j["timed_out"], j["oom"], j["lost"]), (124, True, False, False), repr(j))
    late = j["wall_ms"] - timeout_ms
    print(f"# {c.name}: {script[:40]!r} ended {late:.0f} ms after its time; the guest stood {stalls.ms:.0f} ms")
    ok(-1 <= late <= 100 + SLACK_MS + stalls.ms, f"late by {late} ms")


@case(ROOT, DELEGATED)
def a_timeout_kills_whatever_hides(c):
    for script in ("for i in 1 2; do (while :; do :; done)& done; sleep 28",
                   "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & sleep 1000",
                   "(setsid sh -c '(sleep 1000 &)' &) ; sleep 1000",
                   "sleep 1000 & kill -STOP $!; kill -STOP $$",
                   "trap '' TERM INT HUP; while :; do sleep 1000; done"):
        w = World()
        timed_out(c, script)
        w.clean()


@case(ROOT, DELEGATED)
def a_timeout_kills_a_fork_bomb(c):
    timed_out(c, "f() { f | f & }; f 2>/dev/null; while :; do f 2>/dev/null; done", "--pids", "60", timeout_ms=3000)


# ---- leaks, and who cleans up ----
@case(ROOT, DELEGATED, LOGIN)
def fifty_in_a_row_leave_nothing(c):
    c.run("--", "true")
    w = World()
    dying = numbers(f"{CG}/cgroup.stat")["nr_descendants"]
    t = time.monotonic()
    r = c.exec("sh", "-c", f"i=0; while [ $i -lt 50 ]; do {BRIG} run -- true || exit 1; i=$((i + 1)); done", timeout=200)
    eq((r.rc, r.out, r.err), (0, "", ""), repr(r))
    print(f"# {c.name}: {(time.monotonic() - t) * 20:.0f} ms each")
    w.clean(seconds=1)
    eq(numbers(f"{CG}/cgroup.stat")["nr_descendants"], dying, "cgroups")
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


@case(ROOT, DELEGATED)
def ten_at_once_leave_nothing(c):
    w = World()
    ps = [c.popen([BRIG, "run", "--", "sh", "-c", "echo $$"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
          for _ in range(10)]
    for p in ps:
        out = p.communicate(timeout=60)[0]
        eq(p.returncode, 0, repr(out))
    w.clean(seconds=1)
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


def killed(c, who, swept=False):
    w = World()
    s = Live(c, first="setsid sleep 1000 & trap '' TERM", cmd="while :; do sleep 1000; done")
    runner = s.runner()
    t = time.monotonic()
    if "agent" in who:
        os.kill(s.agent, signal.SIGKILL)
    if "brig" in who and "runner" in who:  # neither may act on the other's death
        os.kill(s.brig.pid, signal.SIGSTOP)
        os.kill(runner, signal.SIGSTOP)
    if "runner" in who:
        os.kill(runner, signal.SIGKILL)
    if "brig" in who:
        os.kill(s.brig.pid, signal.SIGKILL)
    rc, err = s.brig.wait(timeout=20), s.brig.stderr.read()
    w.clean(cgroups_too=not swept)
    print(f"# {c.name}: {'+'.join(who)} killed: clean after {(time.monotonic() - t) * 1000:.0f} ms")
    if "brig" not in who:
        eq(rc, 125, f"exit code {err!r}")
    return s


@case(ROOT, DELEGATED)
def brig_killed(c):
    killed(c, ("brig",))
    until(lambda: not records(c), lambda: f"records {records(c)}")


@case(ROOT, DELEGATED)
def runner_killed(c):
    killed(c, ("runner",))
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


@case(ROOT, DELEGATED)
def agent_killed(c):
    killed(c, ("agent",))
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


@case(ROOT, DELEGATED)
def brig_and_runner_killed(c):
    """No process or mount stays; the cgroup does until the next brig of the same caller."""
    s = killed(c, ("brig", "runner"), swept=True)
    ok(os.path.isdir(s.dir), "the cgroup should still be there, or this tests nothing")
    eq(len(records(c)), 1, "records")
    eq(c.run("--", "true").rc, 0, "the next brig")
    ok(not os.path.exists(s.dir), "the next brig did not remove the cgroup")
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


@case(LOGIN)
def brig_and_runner_killed_without_delegation(c):
    w = World()
    p = c.popen([BRIG, "run", "--", "sh", "-c", "echo up; setsid sleep 1000 & sleep 1000"], stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "start")
    runner = runner_of(p.pid)
    for sig in (signal.SIGSTOP, signal.SIGKILL):
        os.kill(p.pid, sig)
        os.kill(runner, sig)
    p.wait(timeout=20)
    w.clean()
    c.run("--", "true")
    until(lambda: not records(c), lambda: f"records {[(r, read(r)) for r in records(c)]}")


@case(ROOT)
def sandboxes_of_two_callers_live_side_by_side(c):
    """Ending one leaves the other."""
    a, b = Live(c), Live(DELEGATED)
    b.end()
    ok(os.path.isdir(a.dir) and a.agent in processes(), "root's sandbox is gone")
    a.end()


# ---- the wall, on an older kernel ----
@case(ROOT, DELEGATED, SUBIDS, LOGIN)
def files_belong_to_root_inside(c):
    j = c.json("--", "sh", "-c", "stat -c '%u:%g %n' /usr /usr/bin/env /etc/passwd; id -u")
    lines = j["stdout"].split("\n")
    eq(j["rc"], 0, repr(j))
    if c is ROOT:
        eq(lines[:3], ["0:0 /usr", "0:0 /usr/bin/env", "0:0 /etc/passwd"], repr(j))


@case(ROOT, DELEGATED, SUBIDS, LOGIN)
def ordinary_programs_work(c):
    j = c.json("--", "bash", "-c", "set -e; echo a > x; mkdir d; mv x d/y; cat d/y; awk 'BEGIN { print 6 * 7 }'; "
               "python3 -c 'print(sum(range(10)))'; ls /proc/self/fd | wc -l >/dev/null; echo z | (read v; echo $v)")
    eq((j["rc"], j["stdout"]), (0, "a\n42\n45\nz\n"), repr(j))


@case(ROOT)
def overlay_root_is_writable(c):
    """Files only: without user attributes on tmpfs (Linux < 6.6) no folder of the image can be removed."""
    j = c.json("--root", "overlay", "--user", "root", "--", "sh", "-c", "echo x > /usr/bin/new && cat /usr/bin/new; "
               "rm /usr/bin/env && ls /usr/bin/env; echo y >> /usr/lib/os-release; tail -n1 /usr/lib/os-release; "
               "mv /usr/bin/tac /usr/bin/cat2; ls /usr/bin/cat2")
    eq((j["stdout"], j["rc"]), ("x\ny\n/usr/bin/cat2\n", 0), repr(j))
    ok(os.path.exists("/usr/bin/env"), "the host's file is gone")


@case(ROOT, DELEGATED, LOGIN)
def the_hosts_mounts_are_shared_and_stay_as_they_are(c):
    """As systemd has them. Every case checks that no mount is left; this one that none shows while it runs."""
    ok("shared:" in read("/proc/self/mountinfo").splitlines()[0], "the guest's mounts are not shared")
    before = read("/proc/self/mountinfo")
    for opts in ((), ("--root", "overlay")):
        s = Live(c, *opts)
        during = read("/proc/self/mountinfo")
        s.end()
        eq(during, before, "mounts")


@case(SUBIDS)
def other_users_work_with_subordinate_ids(c):
    j = c.json("--user", "1234:1234", "--", "sh", "-c", "id -u; id -g; touch /tmp/f && stat -c %u /tmp/f")
    eq((j["rc"], j["stdout"]), (0, "1234\n1234\n1234\n"), repr(j))


@case(DELEGATED)
def other_users_are_refused_without(c):
    r = c.run("--user", "1234", "--", "true")
    ok(r.rc == 125 and "newuidmap" in r.err, repr(r))


@case(ROOT, DELEGATED)
def landlock_is_required(c):
    r = c.run("--require", "landlock", "--", "true")
    if LANDLOCK:
        eq(r.rc, 0, repr(r))
    else:
        ok(r.rc == 125 and "landlock" in r.err.lower() and r.err.count("\n") == 1, repr(r))


@case(ROOT, DELEGATED)
def missing_landlock_is_said(c):
    j = c.json("--", "true")
    eq(any("landlock" in str(w).lower() for w in j["weaker"]), not LANDLOCK, repr(j["weaker"]))


if __name__ == "__main__":
    sys.exit(main())
