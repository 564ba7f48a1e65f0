#!/usr/bin/python3
"""What brig says to a person at a terminal, and to nobody else: limits that do not hold, long copies."""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok, until  # noqa: E402

BIG = 100 << 20


class Terminal:
    """A run whose standard error is a terminal; with -t all three are."""

    def __init__(self, m, *args):
        self.master, slave = pty.openpty()
        std = {"stdin": slave, "stdout": slave} if "-t" in args else {"stdout": subprocess.PIPE}
        self.p = m.popen(m.run_argv(*args), stderr=slave, **std)
        os.close(slave)
        self.err = b""

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.err += os.read(self.master, 65536)
            except OSError:
                return False
        return True

    def wait_for(self, what, seconds=20):
        end = time.monotonic() + seconds
        while what not in self.err:
            ok(time.monotonic() < end and self.read(0.1), f"never said {what!r}: {self.err!r}")

    def init(self):
        """Process id of the sandbox's agent, 0 = not there yet."""
        with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children", encoding="ascii") as f:
            for pid in f.read().split():
                try:
                    with open(f"/proc/{pid}/comm", encoding="ascii") as c:
                        if c.read() == "brig-init\n":
                            return int(pid)
                except OSError:
                    pass
        return 0

    def end(self):
        out = self.p.stdout.read() if self.p.stdout else b""
        rc = self.p.wait(timeout=30)
        while self.read(0):
            pass
        os.close(self.master)
        return rc, out, self.err


def shown(err):
    """The lines a terminal shows after these bytes."""
    lines = []
    for line in err.replace(b"\r\n", b"\n").split(b"\n"):
        cells = b""
        for part in line.split(b"\r"):
            cells = part + cells[len(part):]
        lines.append(cells.rstrip())
    return lines


@case
def long_copy_in_shows_how_far_it_is(m):
    src = m.put("big", b"")
    with open(src, "wb") as f:
        f.write(os.urandom(1 << 20) * (BIG >> 20))
    t = Terminal(m, "-f", f"{src}:big", "--", "stat", "-c", "%s", "big")
    until(lambda: t.init() != 0, 20, "no agent")
    pid = t.init()
    os.kill(pid, signal.SIGSTOP)
    try:
        t.wait_for(b"brig: copying in: ")
    finally:
        os.kill(pid, signal.SIGCONT)
    rc, out, err = t.end()
    eq((rc, out), (0, b"%d\n" % BIG), f"result, {err!r}")
    ok(b"MiB" in err, f"no amount: {err!r}")
    ok(not any(b"copying" in line for line in shown(err)), f"not erased: {err!r}")


@case
def long_copy_out_shows_how_far_it_is(m):
    dst = m.mkdir("dst")
    m.give(dst)
    t = Terminal(m, "-o", f"big:{dst}", "--", "sh", "-c", f"head -c {BIG} /dev/zero > big; printf half >&2")
    until(lambda: os.listdir(dst), 20, "no copy")
    pid = t.init()
    os.kill(pid, signal.SIGSTOP)
    try:
        t.wait_for(b"brig: copying out: ")
    finally:
        os.kill(pid, signal.SIGCONT)
    rc, _, err = t.end()
    eq((rc, os.stat(os.path.join(dst, "big")).st_size), (0, BIG), f"result, {err!r}")
    ok(not any(b"copying" in line for line in shown(err)), f"not erased: {err!r}")
    ok(b"half" in shown(err), f"the command's unfinished line was overwritten: {err!r}")


@case
def control_c_is_brigs_while_it_copies_out(m):
    dst = m.mkdir("dst")
    m.give(dst)
    t = Terminal(m, "-i", "-t", "-o", f"big:{dst}", "--", "sh", "-c", f"head -c {BIG} /dev/zero > big")
    until(lambda: os.listdir(dst), 20, "no copy")
    pid = t.init()
    os.kill(pid, signal.SIGSTOP)
    ok(termios.tcgetattr(t.master)[3] & termios.ISIG, "the terminal is still raw")
    os.kill(pid, signal.SIGCONT)
    eq(t.end()[0], 0, "exit")


@case
def a_short_copy_says_nothing(m):
    t = Terminal(m, "-q", "-f", m.put("f", "x") + ":f", "-o", f"f:{m.path('g')}", "--", "true")
    eq(t.end(), (0, b"", b""), "quiet run")


@case(modes=("user",))
def limits_that_do_not_hold_are_named_once_on_a_terminal(m):
    """An ordinary user without delegated cgroups: which limits, and where to read on."""
    weaker = {w["what"] for w in json.loads(m.run("--json", "--cpus", "1", "--", "true").out)["weaker"]}
    if not weaker >= {"memory limit", "cpu limit", "process limit"}:
        raise Skip("cgroups are delegated to this user")
    rc, _, err = Terminal(m, "--cpus", "1", "--", "true").end()
    eq(rc, 0, f"exit, {err!r}")
    lines = [line for line in shown(err) if line]
    eq(len(lines), 1, f"lines, {err!r}")
    ok(lines[0].startswith(b"brig: note: ") and b"memory, cpus, pids" in lines[0] and b"brig check" in lines[0],
       f"words: {lines!r}")
    rc, _, err = Terminal(m, "--memory", "0", "--", "true").end()
    ok(b"pids" in err and b"memory" not in err and b"cpus" not in err, f"limits nobody asked for: {err!r}")
    eq(Terminal(m, "-q", "--", "true").end(), (0, b"", b""), "quiet")
    done(m.run("--", "true"), err=b"")
    err = Terminal(m, "-v", "--", "true").end()[2]
    ok(b"not limited as asked" not in err and b"memory is not limited" in err, f"verbose: {err!r}")


@case(modes=("root",))
def nothing_is_noted_where_limits_hold(m):
    eq(Terminal(m, "--cpus", "1", "--", "true").end(), (0, b"", b""), "root")


sys.exit(main())
