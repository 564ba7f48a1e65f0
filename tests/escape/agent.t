#!/usr/bin/python3
"""A hostile program in the agent's place: PID 1 with the agent's capabilities, cgroup leaf and stream to brig.

tests/escape/agent/hostile.c stands as brig-init beside a copy of brig. First it runs every attack of this folder from
there. Then it lies to brig: broken frames, answers that never come, files that lead out of where they are copied to.
brig must end by itself with the right code, keep its memory bounded, change nothing but the destination, show a person
no control byte, and leave nothing. The harness looks for processes, mounts, records and cgroups that stayed.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), HERE]
import brigtest  # noqa: E402
import reap  # noqa: E402
from brigtest import TIER, Skip, case, eq, main, nothing_left, ok  # noqa: E402
import escapelib  # noqa: E402

HOSTILE = os.path.join(escapelib.BUILT, "agent", "brig-init")
MEMORY = 96 << 20  # what brig may have resident whatever comes, bytes
# What PID 1 gets by its place and may: it stays inside. KEY: why.
BY_PLACE = {  # the processes they find are the hostile program's own; its scene shows nothing
    "tracing": {"attach", "vm-read", "mem-read", "mem-write", "pidfd_getfd"},
    "proc_roots": {"fd", "map-files"},
    "proc_exe": {"o-path"},
    "sudo_job": {"trace-init"},
}
# Where the cgroup folders are the caller's own and there is no Landlock it may change its leaf, which is the top of what it
# can name: "../x" is in there too.
OWN_LEAF = {"list-above", "list-top", "make", "make-above", "kill-beside", "join-beside", "clone3-beside", "freeze-above"}
ran = set()


def by_place(m, name):
    own = name == "agent_place" and m.name == "user" and os.environ.get("BRIG_OWN_LEAF")
    return OWN_LEAF if own else BY_PLACE.get(name, ())


def ready(m):
    if getattr(m, "hostile", None):
        return
    escapelib.provide(m.bin)
    m.hostile = os.path.join(m.base, "hostile")
    os.mkdir(m.hostile, 0o755)
    for src, name in ((m.brig_path, "brig"), (HOSTILE, "brig-init"), (os.path.join(m.bin, "brig-sudo"), "brig-sudo")):
        shutil.copy(src, os.path.join(m.hostile, name))
        os.chmod(os.path.join(m.hostile, name), 0o755)


def argv(m, *args):
    ready(m)
    return [os.path.join(m.hostile, "brig"), "run", "--tier", m.tier, *args]


def hostile(m, mode, *opts, words=(), timeout=60, env=None):
    """brig with the hostile agent: the result, and brig's largest resident memory."""
    memory = os.path.join(m.dir, "memory")
    measure = ("import os,resource,subprocess,sys\n"
               "rc=subprocess.call(sys.argv[2:])\n"
               "open(sys.argv[1],'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
               "sys.exit(rc if rc >= 0 else 128 - rc)\n")
    r = m.exec([escapelib.PY, "-c", measure, memory, *argv(m, *opts, "--", mode, *words)], timeout=timeout, env=env)
    with open(memory, encoding="ascii") as f:
        peak = int(f.read()) << 10
    ok(peak < MEMORY, f"{mode}: brig had {peak >> 20} MiB: {r!r}")
    ok(b"\x1b" not in r.err and b"\x07" not in r.err and b"\x9b" not in r.err, f"{mode}: control bytes for a person: {r!r}")
    nothing_left(m)
    return r


# ---- the attacks of this folder, as PID 1 ----
def from_the_place(a):
    def run(m):
        ready(m)
        cmd = [escapelib.PY, os.path.join(m.bin, "stage.py"), *a.stage_options(), "--watch", m.brig_path, "--",
               *argv(m, *a.run, *(["-it"] if a.tty else [])), "--", f"attack:{a.name}", "{args}"]

        def staged():
            r = m.exec(cmd, timeout=120, env={"BRIG_ATTACKS": m.bin})
            eq(r.rc, 0, f"the stage: {r!r}")
            return escapelib.Report(r.out)
        report = escapelib.settled(a, staged, True)
        bad = [x for x in escapelib.judge_inside(a, report, [])
               if x.split(" worked")[0] not in by_place(m, a.name)]
        ran.add((m.name, a.name))
        ok(not bad, "\n".join([*bad, repr(report)]))
        nothing_left(m)
    return run


PLACED = {}
for _name, _a in escapelib.attacks().items():
    # Not those about how brig starts a command, nor the one whose limit is that of a file system.
    if not _a.workdir and not _a.tty and _name != "exhaust_files" and (not _a.tiers or TIER in _a.tiers):
        PLACED[_name] = _a
        brigtest.CASES.append((from_the_place(_a), tuple(_a.callers), f"as_pid_1_{_name}"))


@case
def every_attack_was_run_as_pid_1(m):
    if not os.environ.get("BRIG_CASES"):
        eq(sorted(n for n, a in PLACED.items() if m.name in a.callers and (m.name, n) not in ran), [], "not run")


# ---- the protocol ----
BROKEN = ["garbage", "huge-frame", "hello-again", "open", "signal", "unknown-frame", "unknown-stream", "start-twice", "code",
          "no-how", "long-text", "credit", "data-after-end", "wrong-channel", "die", "hang-up"]


@case
def control_it_can_be_honest(m):
    """Without this every refusal below could be the frame's fault."""
    eq(hostile(m, "honest").rc, 0, "an answer in order")
    out = os.path.join(m.dir, "honest-out")
    r = hostile(m, "pack:fine", "--out", f"/x:{out}")
    eq(r.rc, 0, f"a file in order: {r!r}")
    with open(os.path.join(out, "fine"), encoding="ascii") as f:
        eq(f.read(), "fine", "the file")


@case
def a_lie_about_the_result_is_only_that(m):
    eq(hostile(m, "lie").rc, 7, "exit code")


@case
def broken_protocol_ends_the_sandbox(m):
    for mode in BROKEN:
        for env in ({}, {"BRIG_STDIO": "framed"}):
            t = time.monotonic()
            r = hostile(m, mode, env=env)
            eq(r.rc, 125, f"{mode} {env}: {r!r}")
            ok(r.err, f"{mode}: nothing was said")
            ok(time.monotonic() - t < 20, f"{mode}: took {time.monotonic() - t:.0f} s")


@case
def a_result_that_comes_twice(m):
    """The second one may come after brig has what it needs."""
    ok(hostile(m, "result-twice").rc in (0, 125), "exit code")


@case
def output_past_the_credit(m):
    r = hostile(m, "past-credit", env={"BRIG_STDIO": "framed"})
    eq(r.rc, 125, f"{r!r}")


@case
def pings_without_end(m):
    r = hostile(m, "pings", "--timeout", "3s")
    ok(r.rc in (124, 125), f"{r!r}")


@case
def an_agent_that_never_answers(m):
    for mode in ("silent", "started-only"):
        r = hostile(m, mode, "--timeout", "1s", "--json")
        eq((r.rc, json.loads(r.out)["timed_out"]), (124, True), f"{mode}: {r!r}")


@case
def an_agent_that_stays(m):
    """It ignores signals and has children in sessions of their own."""
    eq(hostile(m, "stay").rc, 0, "exit code")


@case
def a_descriptor_for_brig_is_dropped(m):
    eq(hostile(m, "descriptor").rc, 0, "9 = brig kept it")


@case
def what_is_said_to_a_person_is_escaped(m):
    r = hostile(m, "text")
    ok(r.rc in (125, 127) and b"new line" in r.err, f"{r!r}")
    eq(len(r.err.strip().splitlines()), 1, f"lines: {r!r}")
    r = hostile(m, "text", "--json")
    ok(b"\x1b" not in r.out, f"{r!r}")
    json.loads(r.out)


@case
def cgroups_below_the_leaf_go_too(m):
    """Where the folders are the caller's own it can make some; elsewhere it is refused."""
    for _ in range(3):
        ok(hostile(m, "groups").rc == 0, "exit code")


@case(modes=("root",))
def cgroups_made_below_the_leaf_are_removed(m):
    """The same for certain: what such a PID 1 would make is made from outside, folders without permissions among it."""
    p = m.popen(m.run_argv("--", "sh", "-c", "echo up; exec sleep 1000"), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "the sandbox")
    reap.remember(m.state)
    tops = [d for d in reap.cgroups(m.state) if os.path.exists(os.path.join(d, "cgroup.kill"))]
    if not tops:
        p.send_signal(signal.SIGINT)
        p.wait()
        raise Skip("no cgroup v2 here")
    at = os.path.join(tops[0], "exec-1")
    for i in range(40):
        at = os.path.join(at, f"deep-{i}")
        os.makedirs(os.path.join(at, "beside"))
        os.chmod(os.path.join(at, "beside"), 0)
        os.chmod(at, 0o700 if i % 7 else 0)
    os.makedirs(os.path.join(tops[0], "exec-2", "more"))
    p.send_signal(signal.SIGINT)
    p.wait()
    nothing_left(m)
    ok(not os.path.exists(tops[0]), f"{tops[0]} is still there")


# ---- files on their way out ----
REFUSED = ["root-link", "dotdot", "dotdot-deep", "absolute", "device", "fifo", "setuid", "huge", "more-than-said", "two-roots",
           "nul", "long-path", "noise", "cut", "old-link", "link-up", "link-absolute", "endless-data", "endless-links",
           "endless-holes"]
LEFT_OUT = ["link-file", "link-chain", "escapes", "old-file-link"]


def tree(top):
    """Everything below top and what it is."""
    found = {}
    for d, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(d, n)
            s = os.lstat(p)
            found[p] = (s.st_mode, s.st_uid, s.st_ino, os.readlink(p) if os.path.islink(p) else s.st_size if n in files else 0)
    return found


def copied_out(m, word, disk="64M"):
    """Around the destination are a canary and links from inside it to there; only the destination may change."""
    top = m.mkdir("around")
    canary, dst = os.path.join(top, "canary"), os.path.join(top, "dst")
    with open(canary, "w", encoding="ascii") as f:
        f.write("untouched")
    os.mkdir(dst)
    os.mkdir(os.path.join(top, "beside"))
    os.symlink("../beside", os.path.join(dst, "out"))
    os.symlink("../canary", os.path.join(dst, "canary"))
    m.give_tree(top)
    before = {p: v for p, v in tree(top).items() if not p.startswith(dst + "/")}
    r = hostile(m, f"pack:{word}", "--disk", disk, "--out", f"/x:{dst}", words=[canary], timeout=120)
    after = {p: v for p, v in tree(top).items() if not p.startswith(dst + "/")}
    eq(after, before, f"{word}: what is around the destination ({r!r})")
    with open(canary, encoding="ascii") as f:
        eq(f.read(), "untouched", f"{word}: the canary")
    for name in ("/tmp/brig-escaped", "/etc/escaped"):
        ok(not os.path.lexists(name), f"{word}: {name}")
    for p, (mode, *_) in tree(dst).items():
        ok(not mode & 0o7000 or os.path.islink(p), f"{word}: {p} has mode {mode:o}")
        ok(os.path.islink(p) or os.path.isdir(p) or os.path.isfile(p), f"{word}: {p} is no file")
    size = sum(os.lstat(p).st_blocks * 512 for p in tree(dst))
    ok(size < 80 << 20, f"{word}: {size >> 20} MiB were written")
    shutil.rmtree(top)
    return r


@case
def hostile_files_are_refused(m):
    for word in REFUSED:
        r = copied_out(m, word)
        ok(r.rc == 125 and r.err, f"{word}: {r!r}")


@case
def folders_without_end_stop_at_the_disk_limit(m):
    """A folder holds no byte and takes a block of the host all the same: with 4 MiB there are 1024."""
    r = copied_out(m, "endless-entries", "4M")
    ok(r.rc == 125 and b"more than 1024 folders" in r.err, f"{r!r}")


@case
def links_that_lead_out_are_left_out(m):
    for word in LEFT_OUT:
        copied_out(m, word)


sys.exit(main())
