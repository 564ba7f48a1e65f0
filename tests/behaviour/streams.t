#!/usr/bin/python3
"""Streams, stdin and exit (behaviour cases C01 to C10, C16), over passed pipes and framed channels."""
import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, case_both_stdio, done, eq, main, nothing_left, ok, until  # noqa: E402
import reap  # noqa: E402

TEN_MIB_SHA = "eb6183addde05c2196ce25e6fa34a4baf20f9bf30d33892f452a9a1e88c9a472"
TEN_MIB_CMD = "head -c 10485760 /dev/zero | tr '\\0' A"


def same_as_native(m, argv, **kw):
    """The oracle first: what plain Linux gives is what the sandbox must give."""
    want = m.native(argv, **kw)
    got = m.run("--", *argv, **kw)
    eq((got.rc, got.out, got.err), (want.rc, want.out, want.err), repr(argv))
    return got


@case_both_stdio
def c01_ten_mib_of_output(m):
    r = done(m.sh(TEN_MIB_CMD))
    eq((len(r.out), hashlib.sha256(r.out).hexdigest()), (10485760, TEN_MIB_SHA), "output")
    eq(r.err, b"", "stderr")


@case_both_stdio
def c01_ten_mib_on_stderr(m):
    r = done(m.sh(f"({TEN_MIB_CMD}) >&2"))
    eq((len(r.err), hashlib.sha256(r.err).hexdigest()), (10485760, TEN_MIB_SHA), "stderr")
    eq(r.out, b"", "stdout")


@case_both_stdio
def c01_slow_reader_bounds_memory(m):
    """A reader that does not read: brig holds no more than its buffers, and loses nothing."""
    p = m.popen(m.run_argv("--", "sh", "-c", f"{TEN_MIB_CMD}; echo end >&2"),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = os.read(p.stdout.fileno(), 1)
    rss = 0
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        for pid in [p.pid, *reap.below(p.pid)]:
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    rss = max(rss, *(int(line.split()[1]) for line in f if line.startswith("RssAnon:")), 0)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it ended meanwhile
        time.sleep(0.1)
    out, err = p.communicate(timeout=30)
    eq(p.returncode, 0, "exit")
    eq(hashlib.sha256(first + out).hexdigest(), TEN_MIB_SHA, "output")
    eq(err, b"end\n", "stderr")
    ok(rss < 8192, f"a process grew to {rss} KiB with unread output")


@case_both_stdio
def c01_both_streams_at_once(m):
    script = "(head -c 3000000 /dev/zero | tr '\\0' O) & (head -c 3000000 /dev/zero | tr '\\0' E) >&2; wait"
    r = done(m.sh(script))
    eq((len(r.out), len(r.err)), (3000000, 3000000), "lengths")
    ok(set(r.out) == {ord("O")} and set(r.err) == {ord("E")}, "streams are mixed")


@case_both_stdio
def c02_empty_lines_unchanged(m):
    argv = ["printf", "a\\n\\nb\\n\\n\\nc\\n"]
    done(same_as_native(m, argv), out=b"a\n\nb\n\n\nc\n", err=b"")
    done(m.sh("printf 'a\\n\\nb\\n\\n\\nc\\n' >&2"), out=b"", err=b"a\n\nb\n\n\nc\n")
    r = done(m.run("--json", "--", *argv))
    eq(json.loads(r.out)["stdout"], "a\n\nb\n\n\nc\n", "--json stdout")


@case_both_stdio
def c03_no_newline(m):
    for _ in range(30):
        done(m.run("--", "printf", "no-newline"), out=b"no-newline")


@case_both_stdio
def c03_output_before_exit(m):
    """The last bytes of a program that exits at once are never lost."""
    for n in (1, 4095, 4096, 4097, 65535, 65536, 65537, 300000):
        r = done(m.py(f"import os; d=b'x'*{n}\nwhile d: d=d[os.write(1,d):]\nos._exit(3)"), rc=3)
        eq(len(r.out), n, "bytes")


@case_both_stdio
def c04_bytes_are_not_text(m):
    done(m.run("--", "printf", "\\377\\376\\000\\200"), out=b"\xff\xfe\x00\x80", err=b"")
    done(m.sh("printf '\\211PNG' > /workspace/f; cat /workspace/f; cat /workspace/f >&2"),
         out=b"\x89PNG", err=b"\x89PNG")
    every = bytes(range(256)) * 100
    done(m.run("-i", "--", "cat", stdin=every), out=every)


@case
def c04_json_gives_bytes_as_base64(m):
    import base64
    r = done(m.run("--json", "--", "printf", "\\377\\376\\000\\200"))
    j = json.loads(r.out)
    eq(base64.b64decode(j["stdout_base64"]), b"\xff\xfe\x00\x80", "stdout_base64")
    ok("stdout" not in j, "both forms given")
    eq(j["stdout_bytes"], 4, "stdout_bytes")


@case_both_stdio
def c05_one_mib_on_stdin(m):
    done(m.run("-i", "--", "wc", "-c", stdin=b"x" * 1048576), out=b"1048576\n")
    data = os.urandom(5 * 1048576)
    r = done(m.run("-i", "--", "sha256sum", stdin=data))
    eq(r.out.split()[0].decode(), hashlib.sha256(data).hexdigest(), "sha256 of 5 MiB of stdin")


@case_both_stdio
def c05_stdin_echoed_through(m):
    data = os.urandom(3 * 1048576)
    r = done(m.run("-i", "--", "cat", stdin=data))
    eq(hashlib.sha256(r.out).hexdigest(), hashlib.sha256(data).hexdigest(), "cat of 3 MiB")


@case_both_stdio
def c06_stdin_not_all_read(m):
    data = b"Q" + b"x" * 1048575
    want = m.native(["head", "-c", "1"], stdin=data)
    done(m.run("-i", "--", "head", "-c", "1", stdin=data), rc=want.rc, out=want.out, err=b"")
    done(m.run("-i", "--", "true", stdin=data), out=b"", err=b"")


@case_both_stdio
def c07_no_stdin_is_eof(m):
    """Not asked for: end of file at once, even when the caller holds an open pipe."""
    done(m.run("--", "cat"), out=b"")
    r, w = os.pipe()
    try:
        done(m.run("--", "cat", stdin=None), out=b"")
        p = m.popen(m.run_argv("--", "cat"), stdin=r, stdout=subprocess.PIPE)
        out, _ = p.communicate(timeout=20)
        eq((p.returncode, out), (0, b""), "cat with an open pipe")
    finally:
        os.close(r)
        os.close(w)


@case_both_stdio
def c07_timeout_fires_with_open_stdin(m):
    """-i and a caller that never closes: only the clock ends it."""
    r, w = os.pipe()
    try:
        t = time.monotonic()
        p = m.popen(m.run_argv("-i", "--timeout", "1s", "--", "cat"), stdin=r, stderr=subprocess.DEVNULL)
        eq(p.wait(timeout=20), 124, "exit")
        took = time.monotonic() - t
        ok(took >= 1, f"took {took:.2f} s")
    finally:
        os.close(r)
        os.close(w)


@case_both_stdio
def c07_exit_is_not_delayed_by_open_stdin(m):
    r, w = os.pipe()
    try:
        p = m.popen(m.run_argv("-i", "--", "sh", "-c", "exit 4"), stdin=r)
        eq(p.wait(timeout=20), 4, "exit")
    finally:
        os.close(r)
        os.close(w)


@case_both_stdio
def c09_background_job_holds_stdout(m):
    done(m.sh("sleep 90 & echo hi"), rc=0, out=b"hi\n")
    until(lambda: not reap.descendants(), 20, "the background job lives on")


@case_both_stdio
def c09_background_job_that_writes_on(m):
    r = done(m.sh("(while :; do echo x; sleep 0.01; done) & echo hi; exit 6"), rc=6)
    ok(r.out.startswith(b"hi\n") or b"hi\n" in r.out, f"output {r.out[:50]!r}")


@case
def c10_exit_codes(m):
    for n in (0, 1, 2, 42, 124, 125, 126, 127, 128, 254, 255):
        done(m.sh(f"exit {n}"), rc=n)


@case
def c10_signal_is_told_from_exit(m):
    probe = m.tool("wall_probe")
    r = done(m.run("--json", "--file", f"{probe}:/workspace/p", "--", "/workspace/p", "segv"), rc=139)
    j = json.loads(r.out)
    eq((j["exit"], j["signal"]), (None, 11), "self-SIGSEGV")
    j = json.loads(done(m.run("--json", "--", "sh", "-c", "exit 139"), rc=139).out)
    eq((j["exit"], j["signal"]), (139, None), "exit 139")
    done(m.sh("kill -TERM $$"), rc=143)
    done(m.sh("kill -KILL $$"), rc=137)


@case
def c10_lost_sandbox_is_an_infrastructure_error(m):
    """PID 1 killed from outside: neither an exit nor a signal of the command."""
    p = m.popen(m.run_argv("--json", "--", "sleep", "60"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: any(b"sleep" in reap.cmdline(x) for x in reap.below(p.pid)), 20, "command not up")
    init = reap.init_of(p.pid)
    os.kill(init, signal.SIGKILL)
    out, err = p.communicate(timeout=20)
    eq(p.returncode, 125, f"exit {err!r}")
    j = json.loads(out)
    eq((j["exit"], j["signal"], j["lost"]), (None, None, True), "report")
    ok(err.strip() and err.count(b"\n") == 1, f"one line on stderr: {err!r}")


@case_both_stdio
def closed_stdout_ends_the_writer(m):
    """`brig run ... | head -1`: the writer gets SIGPIPE or EPIPE, the run ends."""
    p = m.popen(m.run_argv("--", "sh", "-c", "yes; exit 0"), stdout=subprocess.PIPE)
    eq(os.read(p.stdout.fileno(), 2), b"y\n", "first line")
    p.stdout.close()
    p.wait(timeout=20)


@case
def output_to_a_file_is_complete(m):
    path = m.put("out", b"")
    with open(path, "wb") as f:
        p = m.popen(m.run_argv("--", "sh", "-c", TEN_MIB_CMD), stdout=f)
        eq(p.wait(timeout=30), 0, "exit")
    with open(path, "rb") as f:
        eq(hashlib.sha256(f.read()).hexdigest(), TEN_MIB_SHA, "file")


@case
def callers_files_are_not_reachable(m):
    """stdout of the sandbox is never the caller's own file: it could be reopened by /proc."""
    path = m.put("secret", b"callers text\n")
    with open(path, "r+b") as f:
        f.seek(0, 2)
        p = m.popen(m.run_argv("--", "sh", "-c", ": > /proc/self/fd/1; : > /dev/stdout; echo x"),
                    stdout=f, stderr=subprocess.DEVNULL)
        p.wait(timeout=20)
    with open(path, "rb") as f:
        ok(f.read().startswith(b"callers text\n"), "the caller's file was cut")


# ---- terminals ----
def terminal(m, argv, script, rows=24, cols=80, seconds=30):
    """Run argv on a terminal. script: [(wait for these bytes, action)]; returns (exit, bytes)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def ctty():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    p = m.popen(argv, stdin=slave, stdout=slave, stderr=slave, preexec_fn=ctty)
    os.close(slave)
    out, at, todo = b"", 0, list(script)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if todo and todo[0][0] in out[at:]:
            at = out.index(todo[0][0], at) + len(todo[0][0])
            todo.pop(0)[1](master, p)
            continue
        if select.select([master], [], [], 0.05)[0]:
            try:
                d = os.read(master, 65536)
            except OSError:
                break
            if not d:
                break
            out += d
        elif p.poll() is not None and not select.select([master], [], [], 0)[0]:
            break  # it ended, and nothing that it wrote before is left
    try:
        rc = p.wait(timeout=max(0.1, end - time.monotonic()))
    finally:
        os.close(master)
    ok(not todo, f"never saw {[t[0] for t in todo]}: {out!r}")
    return rc, out


def size(rows, cols):
    return lambda master, p: fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def keys(data):
    return lambda master, p: os.write(master, data)


@case
def c16_terminal_size_and_resize(m):
    prog = ("import os,signal,sys,time\n"
            "got=[]\n"
            "signal.signal(signal.SIGWINCH, lambda *a: got.append(1))\n"
            "print('is', os.isatty(0), os.isatty(1), os.isatty(2), flush=True)\n"
            "os.system('stty size'); print('ready', flush=True)\n"
            "while not got: time.sleep(0.01)\n"
            "os.system('stty size'); print('bye', flush=True)\n")
    rc, out = terminal(m, m.run_argv("-i", "-t", "--", "/usr/bin/python3", "-c", prog),
                       [(b"ready", size(41, 99))])
    eq(rc, 0, f"exit {out!r}")
    ok(b"is True True True" in out, f"not terminals: {out!r}")
    ok(b"24 80" in out.split(b"ready")[0], f"first size: {out!r}")
    ok(b"41 99" in out.split(b"ready")[1], f"second size: {out!r}")


@case
def c16_terminal_is_one_of_the_sandbox(m):
    """A terminal of its own: with a name in /dev/pts, job control, and the caller's left as it was."""
    rc, out = terminal(m, m.run_argv("-i", "-t", "--", "sh", "-c", "tty; stty -a | head -1; echo end"),
                       [(b"end", lambda *a: None)])
    eq(rc, 0, f"exit {out!r}")
    ok(b"/dev/pts/" in out, f"no name: {out!r}")


@case
def c16_interactive_shell(m):
    rc, out = terminal(m, m.run_argv("-i", "-t", "--", "bash", "--norc", "-i"),
                       [(b"$ ", keys(b"echo $((6*7))x\r")), (b"42x", keys(b"exit 9\r"))])
    eq(rc, 9, f"exit {out!r}")
    ok(b"no job control" not in out, f"no job control: {out!r}")


@case
def c16_control_c_on_the_terminal_reaches_the_program(m):
    # in short sleeps: Python sees a signal that comes just before a sleep only after it
    prog = ("import time\n"
            "try:\n  print('up', flush=True)\n  for _ in range(3000): time.sleep(0.01)\n"
            "except KeyboardInterrupt:\n  print('interrupted', flush=True)")
    rc, out = terminal(m, m.run_argv("-i", "-t", "--", "/usr/bin/python3", "-c", prog),
                       [(b"up", keys(b"\x03"))])
    eq(rc, 0, f"exit {out!r}")
    ok(b"interrupted" in out, f"no SIGINT: {out!r}")


@case
def c16_callers_terminal_is_restored(m):
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    p = m.popen(m.run_argv("-i", "-t", "--", "true"), stdin=slave, stdout=slave, stderr=slave,
                start_new_session=True)
    until(lambda: p.poll() is not None, 20, "still runs")
    eq(termios.tcgetattr(slave), before, "terminal settings")
    os.close(slave)
    os.close(master)


@case
def name_of_the_terminal(m):
    """The caller's, unless it is given."""
    for args, want in (((), b"vt100"), (("-e", "TERM=dumb"), b"dumb")):
        m.extra["TERM"] = "vt100"
        try:
            rc, out = terminal(m, m.run_argv("-t", *args, "--", "sh", "-c", "echo \"<$TERM>\""), [(b">", lambda *a: None)])
        finally:
            del m.extra["TERM"]
        ok(rc == 0 and b"<" + want + b">" in out, f"{args}: {out!r}")


@case
def c08_interactive_bash_does_not_hang(m):
    """`bash -ic true` hung where the runner forced a process group on it."""
    done(m.run("--", "bash", "-ic", "true"), rc=0)
    rc, out = terminal(m, m.run_argv("-i", "-t", "--", "bash", "--norc", "-ic", "true"), [])
    eq(rc, 0, f"exit {out!r}")


# ---- signals ----
@case_both_stdio
def interrupt_is_forwarded(m):
    prog = ("import os,signal,sys,time\n"
            "def h(*a):\n  os.write(1, b'got\\n'); sys.exit(7)\n"
            "signal.signal(signal.SIGINT, h); print('up', flush=True); [time.sleep(0.01) for _ in range(3000)]")
    p = m.popen(m.run_argv("--", "/usr/bin/python3", "-c", prog), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "start")
    p.send_signal(signal.SIGINT)
    eq(p.stdout.readline(), b"got\n", "forwarded")
    eq(p.wait(timeout=20), 7, "exit")


@case
def what_the_caller_ignores_is_not_passed_on(m):
    """As nohup and a shell's & have it. The last signal is one that is not ignored, and is passed on."""
    p = m.popen(["sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh",
                 *m.run_argv("--", "sh", "-c", "trap 'echo got; exit 4' TERM; echo up; while :; do read x < /dev/null; done")],
                stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "start")
    for s in (signal.SIGHUP, signal.SIGINT, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        p.send_signal(s)
    eq((p.wait(timeout=20), p.stdout.read()), (4, b"got\n"), "end")


@case
def second_interrupt_kills(m):
    prog = ("import os,signal,time\nsignal.signal(signal.SIGINT, lambda *a: os.write(1, b'got\\n'))\n"
            "print('up', flush=True)\nwhile True: time.sleep(1)")
    p = m.popen(m.run_argv("--", "/usr/bin/python3", "-c", prog), stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL)
    eq(p.stdout.readline(), b"up\n", "start")
    p.send_signal(signal.SIGINT)
    eq(p.stdout.readline(), b"got\n", "first one forwarded")
    p.send_signal(signal.SIGINT)
    eq(p.wait(timeout=20), 130, "exit")
    until(lambda: not reap.descendants(), 20, "processes left")


@case
def terminate_ends_the_sandbox(m):
    p = m.popen(m.run_argv("--", "sleep", "60"), stderr=subprocess.DEVNULL)
    until(lambda: any(b"sleep" in reap.cmdline(x) for x in reap.below(p.pid)), 20, "command not up")
    p.send_signal(signal.SIGTERM)
    eq(p.wait(timeout=20), 143, "exit")
    nothing_left(m)


@case
def terminate_while_it_starts(m):
    """From the moment there is a record a signal waits until the sandbox can be ended in order."""
    for _ in range(20):
        p = m.popen(m.run_argv("--", "sleep", "60"), stderr=subprocess.DEVNULL)
        while not reap.records(m.state) and p.poll() is None:
            pass
        p.send_signal(signal.SIGTERM)
        eq(p.wait(timeout=20), 143, "exit")
        nothing_left(m)


sys.exit(main())
