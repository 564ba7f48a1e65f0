#!/usr/bin/env python3
"""Programs: output, input, exits, errors, users' defaults, terminals."""
import fcntl
import hashlib
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agentlib import *  # noqa: E402,F403


def output(t):
    with Agent() as a:
        s = a.sh("head -c 10485760 /dev/zero | tr '\\0' A")
        t.eq((len(s.out[OUT]), hashlib.sha256(s.out[OUT]).hexdigest()),
             (10485760, "eb6183addde05c2196ce25e6fa34a4baf20f9bf30d33892f452a9a1e88c9a472"), "10 MiB of output")
        t.eq((s.result["how"], s.result["code"]), (EXIT, 0), "and exit 0")
        t.ok(s.eof == {OUT, ERR}, "both channels ended before the result")
        s = a.sh("printf no-newline; printf err >&2; exit 255")
        t.eq((s.out[OUT], s.out[ERR], s.result["code"]), (b"no-newline", b"err", 255), "both streams and exit 255")
        s = a.sh("printf '\\377\\376\\000\\200'")
        t.eq(s.out[OUT], b"\xff\xfe\0\x80", "bytes are not text")
        s = a.sh("kill -SEGV $$")
        t.eq((s.result["how"], s.result["code"]), (SIGNALLED, signal.SIGSEGV), "a signal is not an exit code")
        s = a.sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
        t.ok(s.result["utime"] + s.result["stime"] > 0 and s.result["wall"] > 0 and s.result["maxrss"] > 0,
             "cpu time, wall time and memory are reported", s.result)
        s = a.sh("sleep 30 & echo hi")
        t.eq((s.out[OUT], s.result["code"], s.result["wall"] < 5_000_000), (b"hi\n", 0, True),
             "a background job that holds stdout does not hold up the result")


def stdin(t):
    with Agent() as a:
        s = a.run("wc", "-c", data=b"x" * 1048576)
        t.eq(s.out[OUT].strip(), b"1048576", "1 MiB on stdin")
        s = a.run("head", "-c", "1", data=b"y" * 1048576)
        t.eq((s.out[OUT], s.result["code"], s.broken is not None or s.result is not None), (b"y", 0, True),
             "head -c 1 of 1 MiB")
        s = a.exec("sh", "-c", "exec <&-; echo closed; sleep 5", flags=STDIN)
        s.wait(lambda s: s.broken is not None)
        t.eq(s.broken, 32, "closing stdin is told as EPIPE, without a write")
        s.reset()
        s.wait()
        t.eq(a.run("cat").result["code"], 0, "without stdin cat sees its end at once")
        s = a.run("cat", data=b"")
        t.eq((s.out[OUT], s.result["code"]), (b"", 0), "empty stdin")
        data = os.urandom(3 << 20)
        t.eq(a.run("cat", data=data).out[OUT] == data, True, "3 MiB through cat")


def errors(t):
    with Agent() as a:
        for argv, err, what in [(["/no/such"], 2, "absolute"), (["nosuchprogram"], 2, "by PATH"), ([""], 2, "empty"),
                                (["/etc/passwd"], 13, "not executable"), (["/tmp"], 13, "a folder")]:
            s = a.run(*argv)
            t.eq((s.result["how"], s.result.get("errno")), (ERROR, err), f"{what}: {s.text}")
        s = a.run("true", cwd="/no/such/folder")
        t.ok(s.result.get("errno") == 2 and "working folder" in s.text, "missing working folder", s.result)
        s = a.run("true", "x" * 131071, env=["A=" + "y" * 131069] * 24)
        t.eq(s.result.get("errno"), 7, f"too large: {s.text}")
        s = a.run("true", user="nobodyknows")
        t.ok(s.result["how"] == ERROR and "nobodyknows" in s.text, "unknown user", s.result)
        s = a.run("true", user="12345")
        t.ok(s.result["how"] == ERROR and "newuidmap" in s.text, "an id that is not mapped", s.result)
        s = a.open(EXEC, flags=0)
        s.wait()
        t.eq(s.result["how"], ERROR, "no argument at all")
        s = a.open(63)
        s.wait()
        t.eq(s.result.get("errno"), 38, "an unknown kind is refused, not fatal")
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/x", "w") as f:
                f.write("not a program")
            os.chmod(d + "/x", 0o755)
            t.eq(a.run(d + "/x").result.get("errno"), 8, "ENOEXEC")
            with open(d + "/y", "w") as f:
                f.write("#!/no/interpreter\n")
            os.chmod(d + "/y", 0o755)
            s = a.run(d + "/y")
            t.ok(s.result.get("errno") == 2 and "interpreter" in s.text, "missing interpreter", s.result)
        t.eq(a.sh("exit 3").result["code"], 3, "and the agent still works")


def environment(t):
    with Agent() as a:
        env = a.run("env", env=["A=b=c", "E="]).out[OUT].decode().split("\n")
        for want in ["A=b=c", "E=", "HOME=/root", "USER=root", "LOGNAME=root",
                     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]:
            t.ok(want in env, f"environment has {want}", env)
        t.eq(len([e for e in env if e]), 7, "and nothing else but SHELL")
        env = a.run("env", env=["HOME=/x", "PATH=/usr/bin"]).out[OUT].decode().split("\n")
        t.ok("HOME=/x" in env and "PATH=/usr/bin" in env, "the caller's variables win", env)
        t.eq(a.sh("umask").out[OUT], b"0022\n", "umask")
        t.eq(a.sh("umask", umask=0o77).out[OUT], b"0077\n", "umask as asked")
        t.eq(a.sh("ls /proc/self/fd | wc -l").out[OUT].strip(), b"4", "no descriptor is inherited")
        caps = a.sh("grep -E '^Cap(Inh|Amb)' /proc/self/status").out[OUT].decode().split()
        t.eq(caps[1::2], ["0" * 16] * 2, "no inheritable or ambient capability")
        t.eq(a.sh("cat /proc/self/status | grep -E 'Sig(Blk|Ign)'").out[OUT].split()[1::2],
             [b"0" * 16] * 2, "no signal blocked or ignored")
        with tempfile.TemporaryDirectory() as d:
            deep = d
            fd = os.open(d, os.O_RDONLY)
            while len(deep) < 6000:
                name = "d" * 200
                os.mkdir(name, dir_fd=fd)
                nxt = os.open(name, os.O_RDONLY, dir_fd=fd)
                os.close(fd)
                fd, deep = nxt, deep + "/" + name
            os.close(fd)
            s = a.run("sh", "-c", "echo here > f && cat f", cwd=deep)
            t.eq(s.out[OUT], b"here\n", "a working folder deeper than PATH_MAX")
            a.open(REMOVE, path=d + "/" + "d" * 200, flags=RECURSIVE).wait()
            t.eq(os.listdir(d), [], "and it can be removed")


def descriptors(t):
    with Agent() as a:
        r, w = os.pipe()
        s = a.exec("sh", "-c", "echo out; echo err >&2; cat", flags=FD_STDIO, fds=[w, w])
        os.close(w)
        s.wait()
        got = b""
        while chunk := os.read(r, 4096):
            got += chunk
        os.close(r)
        t.eq((got, s.result["code"]), (b"out\nerr\n", 0), "stdio as descriptors, stdin /dev/null")
        r, w = os.pipe()
        ir, iw = os.pipe()
        s = a.exec("cat", flags=FD_STDIO | STDIN, fds=[ir, w, w])
        os.close(w), os.close(ir)
        os.write(iw, b"through"), os.close(iw)
        s.wait()
        t.eq(os.read(r, 100), b"through", "stdin as a descriptor")
        os.close(r)
        with open(os.devnull) as n:
            s = a.exec("true", flags=FD_LEAF, fds=[n.fileno()])
        s.wait()
        t.ok(s.result["how"] == ERROR and "cgroup" in s.text, "a leaf that is none fails the exec", s.result)


def terminal(t):
    with Agent() as a:
        s = a.exec("python3", "-u", "-c", """
import os, signal, sys
def show(*_):
    z = os.get_terminal_size(0)
    print(z.lines, z.columns)
signal.signal(signal.SIGWINCH, show)
show()
print(os.isatty(0), os.isatty(1), os.isatty(2), os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())
sys.stdin.readline()
""", flags=TTY, rows=24, cols=80)
        s.wait(lambda s: b"True True\r\n" in s.out[OUT])
        t.ok(s.out[OUT].startswith(b"24 80\r\nTrue True True True True"), "a terminal of the size asked for", s.out[OUT])
        s.resize(41, 99)
        s.wait(lambda s: b"41 99" in s.out[OUT])
        t.ok(True, "resize delivers SIGWINCH")
        s.send(b"\n")
        s.wait()
        t.eq((s.result["code"], OUT in s.eof), (0, True), "and the terminal ends with the program")
        s = a.exec("sh", "-c", "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.05; done", flags=TTY)
        s.wait(lambda s: b"ready" in s.out[OUT])
        s.send(b"\x03")
        s.wait()
        t.eq((s.result["code"], b"got" in s.out[OUT]), (7, True), "^C reaches the foreground group")
        s = a.exec("cat", flags=TTY)
        s.send(b"line\n")
        s.end()
        s.wait()
        t.eq(s.result["code"], 0, "the end of input is an end of file to the terminal")
        s = a.exec("bash", "-ic", "true", flags=TTY)
        s.wait()
        t.eq(s.result["code"], 0, "bash -ic true does not hang")
        s = a.exec("sh", "-c", "seq 20000", flags=TTY)
        s.wait()
        t.ok(s.out[OUT].endswith(b"20000\r\n"), "all of a terminal's output comes before the result", s.out[OUT][-50:])


def last_words_on_a_terminal(t):
    """The host reads nothing while a command with a job in the background ends: what it wrote is there when it reads again."""
    with tempfile.TemporaryDirectory() as d, Agent() as a:
        os.chmod(d, 0o777)
        gate = os.path.join(d, "gate")
        os.mkfifo(gate)
        os.chmod(gate, 0o666)
        s = a.exec("sh", "-c", f"sleep 60 & echo up; cat {gate} >/dev/null; seq 600", flags=TTY)
        s.wait(lambda s: b"up" in s.out[OUT])
        full = [a.exec("cat", "/dev/zero", auto=False) for _ in range(4)]
        waiting, since = -1, time.monotonic()
        while time.monotonic() - since < 0.3:  # nothing more comes: the agent's queue is full
            select.select([], [], [], 0.02)
            n = struct.unpack("i", fcntl.ioctl(a.sock, termios.FIONREAD, b"\0" * 4))[0]
            if n != waiting or n == 0:
                waiting, since = n, time.monotonic()
        with open(gate, "wb"):
            pass
        select.select([], [], [], 0.5)  # longer than the agent waits for a terminal's other users
        s.wait()
        t.ok(s.out[OUT].endswith(b"\r\n600\r\n"), "a terminal is read to its end first", s.out[OUT][-50:])
        for f in full:
            f.signal(signal.SIGKILL)
            f.reset()


def signals(t):
    with Agent() as a:
        s = a.exec("sleep", "60")
        s.signal(signal.SIGTERM)
        s.wait()
        t.eq((s.result["how"], s.result["code"]), (SIGNALLED, 15), "a signal sent at once is not lost")
        s = a.exec("sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done")
        s.wait(lambda s: b"ready" in s.out[OUT])
        s.signal(signal.SIGUSR1)
        s.wait()
        t.eq(s.result["code"], 9, "SIGUSR1")
        s = a.exec("sh", "-c", "echo $$")
        s.wait()
        t.eq(int(s.out[OUT]), s.pid, "START carries the command's own pid")


def resets(t):
    with Agent() as a:
        for i in range(300):
            s = a.exec("sleep", "1000")
            stop = time.monotonic() + i % 30 / 10000
            while time.monotonic() < stop:
                pass
            s.reset()
            s.wait()
        settles(t, a, [], processes, "wherever a reset meets a start, nothing of the command stays")
    # the agent, with no descriptor left to look for processes with: a request that is not whole yet holds the last ones
    with Agent(setup="ulimit -n 32;") as a:
        s = a.exec("sleep", "1000")
        s.wait(lambda s: s.pid)
        if (there := fds(a)) is None:
            return
        some, n = [], 32 - len(there)
        while n > 8:
            more = a.exec("sleep", "1000")
            more.wait(lambda s: s.pid)
            some.append(more)
            n = 32 - len(fds(a))
        body = message(kind=EXEC, arg=["true"], flags=FD_STDIO | STDIN)
        a.frame(OPEN, 900, 0, body[:8], MORE | FDS, [0] * n)
        a.ping()
        t.eq(len(fds(a)), 32, "all are taken")
        s.reset()
        for _ in range(50):
            a.ping()
        t.eq(s.result, None, "a reset is not over before it is known that nothing is left")
        for x in some:  # their descriptors go, and the sweep gets them
            x.signal(signal.SIGKILL)
            x.wait()
        s.wait()
        settles(t, a, [], processes, "then nothing is")


def port(t):
    with Agent(setup="ip link set lo up;") as a:
        server = a.exec("python3", "-u", "-c", """
import socket
s = socket.create_server(("127.0.0.1", 4321))
print("up")
c, _ = s.accept()
data = b""
while chunk := c.recv(65536):
    data += chunk
c.sendall(str(len(data)).encode() + b"!" * 500000)
c.close()
""")
        server.wait(lambda s: b"up" in s.out[OUT])
        p = a.open(PORT, port=4321)
        p.send(b"z" * 700000)
        p.end()
        p.wait()
        t.eq((p.out[OUT][:6], len(p.out[OUT]), p.result["how"]), (b"700000", 500006, DONE),
             "a port carries bytes both ways and half-closes")
        server.wait()
        p = a.open(PORT, port=4322)
        p.wait()
        t.eq((p.result["how"], p.result["errno"]), (ERROR, 111), "nobody listens: connection refused")


EXPECT = struct.pack("<II8QQQII", 4, 0, *range(8), 1 << 30, 1000, 0, 0) + bytes(3 * 72)  # of walls that stand nowhere


def ask_measured(a, flags, expect):
    """One command that is measured. Its stream, and what it reports."""
    sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    outside = os.open("/proc/version", os.O_PATH)
    fields = {"expect": expect} if expect is not None else {}
    s = a.exec("sh", "-c", "echo ran", flags=flags | FD_MEASURE, fds=[theirs.fileno(), outside], **fields)
    theirs.close()
    os.close(outside)
    sock.settimeout(60)
    s.wait()
    reports = []
    while report := sock.recv(1 << 16):
        reports.append(report)
    sock.close()
    return s, reports


def measured(t):
    """Where the walls are not as expected nothing runs: in the first command (which borrows PID 1's memory), in later
    ones, and with a guard."""
    with Agent("measure=walls") as a:
        for flags in (SOLE, SOLE, 0, 0):
            s, reports = ask_measured(a, flags, EXPECT)
            t.eq([r[:8] for r in reports], [b"BIRP\x04\0\0\0"], "one report comes")
            t.ok(struct.unpack_from("<I", reports[0], 8)[0] > 0, "the differences are counted")
            t.eq((s.out[OUT], s.result["how"], s.result.get("errno")), (b"", ERROR, 125), f"nothing ran: {s.text}")
        s = a.exec("sh", "-c", "echo ran")
        s.wait()
        t.eq(s.out[OUT], b"ran\n", "one that is not to be measured runs")
    for args, expect in (((), EXPECT), (("measure=net",), None), (("measure=net",), EXPECT[:-1]), (("measure=net",), b"\5" + EXPECT[1:]),
                         (("measure=net",), EXPECT[:5] + b"\xff" + EXPECT[6:]), (("measure=net",), EXPECT[:-72] + b"x" * 72)):
        with Agent(*args) as a:
            s, reports = ask_measured(a, SOLE, expect)
            t.eq((s.out[OUT], s.result["how"], s.result.get("errno"), reports), (b"", ERROR, 22, []), "not asked to measure, or malformed")


main(output, stdin, errors, environment, descriptors, terminal, last_words_on_a_terminal, signals, resets, measured, port)
