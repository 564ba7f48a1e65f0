#!/usr/bin/python3
"""A timeout kills everything within 100 ms of the clock, whatever the sandbox does.

Measured from outside: from the start of brig until brig has ended and nothing of the sandbox lives. The
start itself is allowed for by a run of `true`. A loaded machine can be late by itself, for many seconds on end, so the best
within a minute counts; who is always late fails.
"""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok, until  # noqa: E402
import reap  # noqa: E402

TIMEOUT, MINUTE = 0.6, 60
PY = "/usr/bin/python3"


def overrun(m, argv, opts):
    """Seconds from the clock until brig had ended, and with it (checked) everything inside."""
    t = time.monotonic()
    p = m.popen(m.run_argv("--timeout", f"{int(TIMEOUT * 1000)}ms", *opts, "--", *argv), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
    eq(p.wait(timeout=20), 124, "exit")
    end = time.monotonic() - t
    left = [x for x in reap.descendants() if len(reap.ns_pids(x)) > 1]
    ok(not left, f"left: {[reap.describe(x) for x in left]}")
    return end - TIMEOUT


def on_time(m, argv, opts=()):
    base = min(m.run("--", "true").ms for _ in range(3)) / 1000
    seen, end = [], time.monotonic() + MINUTE
    while len(seen) < 5 or time.monotonic() < end:
        seen.append(round(overrun(m, argv, opts), 3))
        ok(seen[-1] > 0, f"ended early: {seen}")
        if seen[-1] <= 0.1 + base:
            return
    raise AssertionError(f"ended so many seconds after the clock: {seen}; a start takes {base:.3f}")


def limits(m):
    return m.run("--require", "limits", "--", "true").rc == 0


@case
def sleeping(m):
    on_time(m, ["sleep", "60"])


@case
def busy(m):
    on_time(m, ["sh", "-c", "for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done"])


@case
def stopped(m):
    on_time(m, ["sh", "-c", "sleep 60 & kill -STOP $!; sh -c 'kill -STOP $$' & kill -STOP $$"])


@case
def setsid(m):
    on_time(m, ["sh", "-c", "for i in 1 2 3; do setsid sh -c 'sleep 60; :' & done; sleep 60"])


@case
def double_forks(m):
    on_time(m, ["sh", "-c", "for i in 1 2 3; do (setsid sh -c 'sleep 60 & sleep 60 & wait' &); done; sleep 60"])


@case
def ignoring_signals(m):
    on_time(m, [PY, "-c", "import signal, time\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
                "  except (OSError, ValueError): pass\nwhile True: time.sleep(1)"])


@case
def traced_processes(m):
    on_time(m, [PY, "-c", "import ctypes, os, signal, time\nlibc = ctypes.CDLL(None)\npid = os.fork()\n"
                "if pid == 0:\n  libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP)\n"
                "os.waitpid(pid, os.WUNTRACED); time.sleep(60)"])


@case
def many_sleepers(m):
    # small programs: plain Linux itself takes 1 ms to take a Python process apart here
    on_time(m, ["sh", "-c", "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done; wait"])


@case
def fork_bomb_at_its_limit(m):
    probe = m.tool("wall_probe")
    r = done(m.run("--pids", "40", "--file", f"{probe}:p", "--", "./p", "fork", "200"))
    eq(r.out.split()[1], b"11", "the limit (EAGAIN)")
    on_time(m, [PY, "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"], ["--pids", "64"])


@case
def respawning(m):
    on_time(m, ["sh", "-c", "while :; do (setsid sh -c 'sleep 0.01' &) ; done"], ["--pids", "200"])


@case
def writing_without_end(m):
    on_time(m, ["sh", "-c", "yes & yes >&2 & cat /dev/zero"])


@case
def nobody_reads(m):
    """The caller does not take the output: the clock does not care. brig itself leaves the reader a second."""
    t = time.monotonic()
    r, w = os.pipe()
    try:
        p = m.popen(m.run_argv("--timeout", "600ms", "--", "yes"), stdout=w, stderr=subprocess.DEVNULL)
        until(lambda: any(reap.cmdline(x) == b"yes\0" for x in reap.below(p.pid)), 20, "command not up")
        until(lambda: not any(reap.cmdline(x) == b"yes\0" for x in reap.below(p.pid)), 20, "never ends")
        took = time.monotonic() - t
        ok(took >= 0.59, f"the command was gone after {took:.3f} s")
        eq(p.wait(timeout=20), 124, "exit")
        took = time.monotonic() - t
        ok(took >= 0.6, f"took {took:.3f} s")
    finally:
        os.close(r)
        os.close(w)


@case
def full_memory(m):
    if not limits(m):
        return
    on_time(m, [PY, "-c", "import time\nx = bytearray(100 << 20)\nopen('/workspace/f', 'wb').write(x[:50 << 20])\n"
                "while True: x[:] = x"], ["--memory", "256M", "--disk", "64M"])


@case
def brig_itself_stopped(m):
    """The life span is the runner's: it fires while the caller is stopped."""
    p = m.popen(m.run_argv("--timeout", "600ms", "--", "sh", "-c", "setsid sleep 60 & sleep 60"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(b"sleep" in reap.cmdline(x) for x in reap.below(p.pid)), 20, "command not up")
    p.send_signal(signal.SIGSTOP)
    try:
        until(lambda: not any(b"sleep" in reap.cmdline(x) for x in reap.below(p.pid)), 20, "processes outlive the clock")
    finally:
        p.send_signal(signal.SIGCONT)
    eq(p.wait(timeout=20), 124, "exit")


@case
def nothing_is_killed_before_the_clock(m):
    done(m.run("--timeout", "3s", "--", "sh", "-c", "sleep 0.5; exit 6"), rc=6)


sys.exit(main())
