#!/usr/bin/env python3
"""The process that starts commands in leaves: it is used, nothing of a command differs by it, and what happens to it happens to no
command but the one it has in hand. Needs root and cgroup v2."""
import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agentlib import *  # noqa: E402,F403

TRACE_DETACH, TRACE_SEIZE, TRACE_INTERRUPT, WAIT_ALL = 17, 0x4206, 0x4207, 0x40000000
with open("/proc/mounts", encoding="ascii") as mounts:
    V2 = next(x.split()[1] for x in mounts if x.split()[2] == "cgroup2")


class Leaves:
    """An agent, and a new leaf for each of its commands."""

    def __init__(self, a):
        self.a, self.n = a, 0
        self.dir = os.path.join(V2, f"starter-test-{os.getpid()}")
        os.mkdir(self.dir)

    def exec(self, *argv, flags=0, **more):
        self.n += 1
        self.leaf = os.path.join(self.dir, str(self.n))
        os.mkdir(self.leaf)
        fd = os.open(self.leaf, os.O_PATH)
        s = self.a.exec(*argv, flags=flags | FD_LEAF, fds=[fd], **more)
        os.close(fd)
        return s

    def run(self, *argv, **more):
        s = self.exec(*argv, **more)
        s.wait()
        return s

    def close(self):
        for n in range(1, self.n + 1):
            until(lambda n=n: gone(os.path.join(self.dir, str(n))))
        os.rmdir(self.dir)


def gone(leaf):
    with contextlib.suppress(OSError):
        os.rmdir(leaf)
    return not os.path.exists(leaf)


def until(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end, "never came"
        time.sleep(0.005)


def below(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(x) for x in f.read().split()]
    return []


def starter(a):
    """Its pid here; None: there is none."""
    for pid in below(below(a.proc.pid)[0]):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as f:
            if f.read() == "brig-init\n" and not below(pid):
                return pid
    return None


@contextlib.contextmanager
def scene():
    """Once a command was started by a copy of PID 1 it is there: the first borrows PID 1's memory."""
    with Agent() as a:
        w = Leaves(a)
        w.run("true")
        plain = w.run("cat", "/proc/self/status")
        until(lambda: starter(a) is not None)
        yield a, w, plain
    w.close()


def same(text):
    """What a command is told of itself, without what differs each time."""
    return [x for x in bytes(text).decode().splitlines() if x.split(":")[0] in (
        "Umask", "PPid", "TracerPid", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
        "NoNewPrivs", "Seccomp", "FDSize")]


def used(t):
    with scene() as (a, w, plain):
        first = starter(a)
        s = w.run("cat", "/proc/self/status")
        t.eq(same(s.out[OUT]), same(plain.out[OUT]), "a command it starts is like one that PID 1 starts, and PID 1's child")
        s = w.run("sh", "-c", "echo $$; ls /proc/self/fd | wc -l; exec cat /proc/self/cgroup")
        got = s.out[OUT].decode().split("\n")
        t.eq((int(got[0]), got[1]), (s.pid, "4"), "START has its pid, and no descriptor is left open")
        t.ok(any(x.endswith(f"/{w.n}") for x in got), "it is in its leaf", got)
        s = w.exec("cat", flags=STDIN)
        s.send(b"in")
        s.end()
        s.wait()
        t.eq(s.out[OUT], b"in", "standard input")
        s = w.run("sh", "-c", "tty; stty size", flags=TTY, rows=7, cols=9)
        t.ok(s.out[OUT].startswith(b"/dev/pts/") and s.out[OUT].endswith(b"7 9\r\n"), "a terminal", s.out)
        s = w.run("sh", "-c", "echo $TWO; pwd", env=["TWO=2"], cwd="/usr")
        t.eq(s.out[OUT], b"2\n/usr\n", "environment and folder")
        s = w.run("sh", "-c", "kill -USR1 $$")
        t.eq((s.result["how"], s.result["code"]), (SIGNALLED, signal.SIGUSR1), "its end")
        t.eq(starter(a), first, "it was one process all the time")
        s = w.run("sh", "-c", "echo ${#LONG}", env=["LONG=" + 100000 * "x"])
        t.eq(s.out[OUT], b"100000\n", "one too large for it")


def failures(t):
    with scene() as (a, w, _):
        first = starter(a)
        for _ in range(2):
            s = w.run("/nowhere")
            t.eq((s.result["how"], s.result["errno"]), (ERROR, 2), "a missing program")
        t.eq(starter(a), first, "costs nothing")
        s = w.run("true", cwd="/nowhere")
        t.eq((s.result["how"], s.result["errno"]), (ERROR, 2), "a missing folder")
        s = w.run("true", user="nobody-of-this-name")
        t.ok(s.result["how"] == ERROR and "passwd" in s.text, "a missing user", s.result)
        t.eq(w.run("echo", "on").out[OUT], b"on\n", "and the next command runs")
        until(lambda: starter(a) is not None)
        with open(os.devnull, "rb") as n:
            s = a.exec("true", flags=FD_LEAF, fds=[n.fileno()])
        s.wait()
        t.ok(s.result["how"] == ERROR and "cgroup" in s.text, "a leaf that is none", s.result)


def half_done(t):
    """The first thing it does ends where its memory may have more in it than it knows of."""
    with scene() as (a, w, _):
        first = starter(a)
        s = w.run("true", user="nobody-of-this-name")
        t.eq(s.result["how"], ERROR, "a missing user")
        until(lambda: starter(a) != first)
        t.eq(w.run("echo", "on").out[OUT], b"on\n", "its memory is not lent again")


def memory(t):
    with scene() as (a, w, _):
        def size():
            with open(f"/proc/{starter(a)}/statm", encoding="ascii") as f:
                return int(f.read().split()[1])
        env = [f"V{i}=" + 2000 * "v" for i in range(10)]
        for _ in range(10):
            w.run("true", env=env)
        first, before = starter(a), size()
        for _ in range(150):
            w.run("true", env=env)
        t.ok(starter(a) == first and size() < before + 64, "what commands allocate does not stay", (before, size()))


def killed(t):
    with scene() as (a, w, _):
        for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
            first = starter(a)
            os.kill(first, sig)
            until(lambda first=first: starter(a) != first)
            a.ping()
            t.eq(w.run("echo", "on").out[OUT], b"on\n", f"{sig.name} for it does not stop others")
            until(lambda: starter(a) is not None)
            t.eq(w.run("echo", "on").out[OUT], b"on\n", "and a new one takes its place")
        a.open(SHUTDOWN).wait()


@contextlib.contextmanager
def held(pid):
    """As if it took long: it does not run until the end of this, and does not look stopped."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for what in (TRACE_SEIZE, TRACE_INTERRUPT):
        assert libc.ptrace(what, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(pid, WAIT_ALL)
    yield
    if libc.ptrace(TRACE_DETACH, pid, None, None) != 0:
        os.waitpid(pid, WAIT_ALL)  # it was killed, and its parent learns of it after us


def busy(t):
    with scene() as (a, w, _):
        first = starter(a)
        with held(first):
            late = w.exec("echo", "late")
            t.eq(w.run("echo", "on").out[OUT], b"on\n", "while it has one in hand, others start without it")
            t.ok(late.pid is None and late.result is None, "the one in hand waits")
            late.signal(signal.SIGTERM)
            a.ping()
        late.wait()
        t.eq((late.result["how"], late.result.get("code")), (SIGNALLED, signal.SIGTERM), "a signal from before its start is not lost")
        t.eq(w.run("echo", "on").out[OUT], b"on\n", "it goes on")
        first = starter(a)
        with held(first):
            late = w.exec("echo", "late")
            a.ping()
            late.reset()
            late.wait()
            t.eq((late.result["how"], late.result["errno"], late.out[OUT]), (ERROR, 125, b""), "a reset calls off what it has in hand")
        t.eq(w.run("echo", "on").out[OUT], b"on\n", "and others run")
        until(lambda: starter(a) is not None)
        first = starter(a)
        with held(first):
            late = w.exec("echo", "late")
            a.ping()
            os.kill(first, signal.SIGKILL)
            late.wait()
            t.eq((late.result["how"], late.result["errno"]), (ERROR, 11), "killed, it takes what it has in hand with it")


def called_off(t):
    """A reset of what it has started, of which PID 1 has not heard yet, when it has the next in hand."""
    with scene() as (a, w, _):
        late, sent, fds = w.exec("sleep", "100"), bytearray(), []

        def later(kind, sid=0, chan=0, payload=b"", flags=0, fds_=()):
            sent.extend(struct.pack("<IIBBH", len(payload), sid, kind, chan, flags) + payload)
            fds.extend(os.dup(fd) for fd in fds_)
        a.frame = later
        for _ in range(30):  # a moment's work
            a.open(STAT, path="/")
        s = w.exec("echo", "on")
        late.reset()
        del a.frame
        socket.send_fds(a.sock, [sent], fds)
        os.close(fds[0])
        s.wait()
        late.wait()
        t.eq((s.result["how"], s.out[OUT]), (EXIT, b"on\n"), "takes nothing else along")


main(used, failures, half_done, memory, killed, busy, called_off)
