#!/usr/bin/env python3
"""Flow control, many streams, killing, and hosts that break the protocol."""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agentlib import *  # noqa: E402,F403


def flow(t):
    with Agent() as a:
        stalled = [a.exec("cat", "/dev/zero", auto=False) for _ in range(20)]
        for s in stalled:
            s.wait(lambda s: len(s.out[OUT]) == WINDOW)
        a.ping()
        s = a.sh("head -c 3000000 /dev/zero; echo done >&2")
        t.eq((len(s.out[OUT]), s.out[ERR]), (3000000, b"done\n"), "20 stalled streams hold up nobody")
        t.eq({len(s.out[OUT]) for s in stalled}, {WINDOW}, "and get no byte past their credit")
        stalled[0].grant(1000)
        stalled[0].wait(lambda s: len(s.out[OUT]) == WINDOW + 1000)
        a.ping()
        t.eq(len(stalled[0].out[OUT]), WINDOW + 1000, "credit is exact")
        slow = a.exec("sleep", "60", flags=STDIN)
        slow.send(b"x" * WINDOW)
        a.ping()
        t.eq(a.sh("echo hi").out[OUT], b"hi\n", "nor does a program that does not read")
        stalled[1].agent.frame(BROKEN, stalled[1].id, OUT, struct.pack("<I", 32))
        stalled[1].wait()
        t.ok(stalled[1].result["code"] in (13, 1), "BROKEN from the host is SIGPIPE for the program", stalled[1].result)
        s = a.exec("sh", "-c", "head -c 600000 /dev/zero", auto=False)
        s.wait(lambda s: len(s.out[OUT]) == WINDOW)
        a.ping()
        t.eq(s.result, None, "the result waits for the output")
        s.grant(1000000)
        s.wait()
        t.eq((len(s.out[OUT]), s.result["code"]), (600000, 0), "and comes after all of it")


def many(t):
    with Agent() as a:
        started = time.monotonic()
        streams = [a.exec("sh", "-c", f"cat; exit {i % 200}", flags=STDIN) for i in range(256)]
        over = a.exec("true")
        over.wait()
        t.eq((over.result["how"], over.result["errno"]), (ERROR, 24), "stream 257 is refused")
        for i, s in enumerate(streams):
            s.send(b"%d" % i)
            s.end()
        for s in streams:
            s.wait(timeout=60)
        t.ok(all(s.out[OUT] == b"%d" % i and s.result["code"] == i % 200 for i, s in enumerate(streams)),
             "256 streams at once")
        t.eq(a.sh("echo again").out[OUT], b"again\n", "and then more")
        left = a.sh("ls /proc | grep -c '^[0-9]'").out[OUT]
        t.ok(int(left) <= 6, "no zombie is left", left)
        fds = len(os.listdir(f"/proc/{pid1(a)}/fd"))
        t.ok(fds <= 12, "no descriptor either", fds)


def count(a, name):
    return int(a.sh(f"cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^{name}$'").out[OUT])


ESCAPE = """
(setsid sleep 1111 &) ; setsid sh -c 'sleep 1111 & sleep 1111' & (sh -c '(sleep 1111 &) & ' &)
(sh -c 'trap "" TERM HUP; kill -STOP $$' &)
while :; do (sleep 1111 &); i=$((i+1)); [ $i -gt 20 ] && break; done
echo ready; sleep 1111
"""

BOMBER = 1_700_000 + os.getpid() % 50_000
LIMITED = """
import os, signal
kids = []
try:
    for _ in range(400):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        kids.append(pid)
except BlockingIOError:
    print("EAGAIN")
for pid in kids:
    os.kill(pid, signal.SIGKILL)
"""
BOMB = "f() { f | f & }; echo ready; while :; do f 2>/dev/null; done"
# the first stays: what a command leaves behind when it ends is no matter of a RESET
COMET = """
import os, signal
if os.fork():
    signal.pause()
os.write(1, b"ready\\n")
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def guard(t):
    with Agent() as a:
        sibling = a.exec("sh", "-c", "sleep 2222 & echo $!; exec sleep 2222")
        sibling.wait(lambda s: s.out[OUT])
        for name, argv in [("setsid, double forks, stopped processes", ["sh", "-c", ESCAPE]),
                           ("a chain of forks", [sys.executable, "-c", COMET])]:
            s = a.exec(*argv)
            s.wait(lambda s: b"ready" in s.out[OUT])
            start = time.monotonic()
            s.reset()
            s.wait()
            took = time.monotonic() - start
            t.eq((s.result["how"], s.result["code"]), (SIGNALLED, 9), f"{name}: killed")
            t.ok(took < 20, f"{name}: in {took:.3f} s")
            rest = a.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null").out[OUT]
            t.ok(rest.count(b"1111") == 0 and rest.count(b"fork()") == 0, f"{name}: nothing is left", bytes(rest))
            t.eq((sibling.result, rest.count(b"sleep 2222")), (None, 2), f"{name}: the sibling lives")
        s = a.exec("sh", "-c", "setsid sleep 6666 & kill -STOP $PPID; echo ready; exec sleep 6666")
        s.wait(lambda s: b"ready" in s.out[OUT])
        s.reset()
        s.wait()
        rest = a.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null").out[OUT]
        t.eq((s.result["code"], rest.count(b"sleep 6666")), (9, 0), "a guard that its program stopped")
        s = a.sh("(sleep 3333 >/dev/null 2>&1 &) ; echo hi")
        t.eq((s.out[OUT], s.result["code"]), (b"hi\n", 0), "background work")
        t.ok(b"sleep 3333" in a.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null").out[OUT],
             "lives on after a normal end")
        s = a.exec("sh", "-c", "setsid sleep 4444 & echo ready; sleep 0.2; kill -KILL $PPID; sleep 4444")
        s.wait()
        rest = a.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null").out[OUT]
        t.eq((s.result["how"], s.result["code"], rest.count(b"sleep 4444")), (SIGNALLED, 9, 0),
             "killing the guard ends the exec and all below it")
        t.eq(rest.count(b"sleep 2222"), 2, "and nobody else")
        s = a.exec("sh", "-c", "setsid sleep 5555 & exec sleep 5555", flags=SOLE)
        s.wait(lambda s: s.pid)
        s.reset()
        s.wait()
        t.eq(s.result["code"], 9, "RESET of a lone exec")


def bomb(t):
    # The process limit is the harness's, by user id; root has none, so never as root. It is seen to
    # hold before anything forks without end.
    wrap = ["setpriv", f"--reuid={BOMBER}", f"--regid={BOMBER}", "--clear-groups"] if os.geteuid() == 0 else []
    with Agent(wrap=[*wrap, "prlimit", "--nproc=200:200"]) as a:
        s = a.run("python3", "-c", LIMITED)
        if not t.eq(bytes(s.out[OUT]), b"EAGAIN\n", "the process limit holds"):
            return
        s = a.exec("sh", "-c", BOMB)
        s.wait(lambda s: b"ready" in s.out[OUT])
        a.ping()
        s.reset()
        s.wait(timeout=60)
        t.eq(s.result["code"], 9, "a fork bomb is swept")
        t.ok(int(a.sh("ls /proc | grep -c '^[0-9]'").out[OUT]) <= 8, "to the last process")


def ends(t):
    a = Agent()
    s = a.exec("sh", "-c", "trap 'echo term; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    s.wait(lambda s: b"ready" in s.out[OUT])
    stubborn = a.exec("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    stubborn.wait(lambda s: b"ready" in s.out[OUT])
    last = a.open(SHUTDOWN)
    last.wait()
    t.eq((s.result["code"], s.out[OUT], last.result["how"]), (3, b"ready\nterm\n", DONE),
         "SHUTDOWN: SIGTERM first, every result before its own")
    t.eq(stubborn.result["code"], 9, "SIGKILL for who does not go")
    t.eq(a.gone(), 0, "and the agent exits 0")
    for name, act in [("end of file", lambda a: a.sock.close()),
                      ("no HELLO", None)]:
        a = Agent(hello=act is not None)
        if act is None:
            a.frame(PING, 0, 0, bytes(8))
            t.eq(a.gone(), 1, f"{name}: the agent exits 1")
            continue
        s = a.exec("sleep", "1000")
        s.wait(lambda s: s.pid)
        act(a)
        t.eq(a.proc.wait(10), 1, f"{name}: the agent exits 1")


def raw(kind, sid, chan=0, payload=b"", flags=0, n=None):
    return struct.pack("<IIBBH", len(payload) if n is None else n, sid, kind, chan, flags) + payload


def broken(t):
    true = message(kind=EXEC, arg=["cat"], flags=STDIN, cwd="/")
    opened = raw(OPEN, 1, 0, true)
    bad = {
        "noise": os.urandom(64) + b"\xff" * 64,
        "unknown type": raw(99, 1),
        "a frame for hosts": raw(RESULT, 1, 0, bytes(8)),
        "too long": raw(DATA, 1, 0, b"", n=65537),
        "stream 0": raw(OPEN, 0, 0, true),
        "stream of a PING": raw(PING, 1, 0, bytes(8)),
        "second HELLO": raw(HELLO, 0, 0, struct.pack("<IHHII", 0x47495242, 1, 1, 1, 0)),
        "request without a kind": raw(OPEN, 1, 0, message(arg=["true"])),
        "request of garbage": raw(OPEN, 1, 0, b"\1\2\3"),
        "result as request": raw(OPEN, 1, 0, message(kind=1, how=1)),
        "stream opened twice": opened + opened,
        "two requests interleaved": raw(OPEN, 1, 0, true[:8], MORE) + raw(OPEN, 2, 0, true),
        "request too large": b"".join(raw(OPEN, 1, 0, bytes(65536), MORE) for _ in range(65)),
        "descriptors that did not come": raw(OPEN, 1, 0, message(kind=EXEC, arg=["true"], flags=FD_STDIO), FDS),
        "descriptors not announced": raw(OPEN, 1, 0, message(kind=EXEC, arg=["true"], flags=FD_STDIO)),
        "DATA past the window": opened + b"".join(raw(DATA, 1, 0, bytes(65536)) for _ in range(40)),
        "DATA after EOF": opened + raw(EOF, 1) + raw(DATA, 1, 0, b"x"),
        "DATA on stdout": opened + raw(DATA, 1, 1, b"x"),
        "too much credit": opened + raw(CREDIT, 1, 1, struct.pack("<I", 1 << 20)),
        "credit wraps": opened + raw(CREDIT, 1, 1, struct.pack("<I", 0xffffffff)),
        "signal 65": opened + raw(SIGNAL, 1, 0, struct.pack("<I", 65)),
    }
    for name, frames in bad.items():
        # a program that never reads, so that the window cannot move
        frames = frames.replace(true, message(kind=EXEC, arg=["sleep", "9999"], flags=STDIN, cwd="/"))
        if name == "two requests interleaved":
            frames = bad[name]
        a = Agent()
        try:
            a.sock.sendall(frames)
        except OSError:
            pass
        t.eq(a.gone(), 1, f"{name}: connection and sandbox end")
    with Agent() as a:
        for kind in (DATA, EOF, CREDIT, SIGNAL, RESIZE, RESET):
            n = {DATA: 1, EOF: 0, RESET: 0}.get(kind, 4)
            a.frame(kind, 77, 0, bytes(n))
        a.ping()
        t.ok(True, "frames for a stream that has ended are dropped")
        a.frame(OPEN, 5, 0, true[:20], MORE)
        a.ping()
        a.streams[5] = s = Stream(a, 5, True)
        a.frame(OPEN, 5, 0, true[20:])
        s.end()
        s.wait()
        t.eq(s.result["code"], 0, "a request in fragments")
    fds = [os.dup(0) for _ in range(9)]
    a = Agent()
    a.frame(PING, 0, 0, bytes(8), fds=fds)
    t.eq(a.gone(), 1, "nine descriptors nobody asked for")
    early = raw(OPEN, 1, 0, message(kind=EXEC, arg=["echo", "early"], cwd="/"))
    with Agent(early=early) as a:
        s = a.streams[1] = Stream(a, 1, True)
        s.wait()
        t.eq(s.out[OUT], b"early\n", "a request sent before the agent started")


main(flow, many, guard, bomb, ends, broken)
