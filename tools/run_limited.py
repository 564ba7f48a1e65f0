#!/usr/bin/env python3
"""Run one test file that must come to an end: tools/run_limited.py SECONDS CMD [ARG...]

A test that hangs would hang all: prove reads until the last writer of its output is gone. After SECONDS one failed
test is printed, with what every process of it was doing, and then they are ended: all that came of CMD, and whoever
else writes to this output. The exit status is CMD's; 1 after the limit.
"""
import os
import re
import signal
import stat
import subprocess
import sys
import time


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode("utf-8", "replace")
    except OSError:
        return ""


def processes():
    """{pid: (parent, state)} of now."""
    out = {}
    for pid in (int(x) for x in os.listdir("/proc") if x.isdigit()):
        words = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if words:
            out[pid] = (int(words[1]), words[0])
    return out


def below(pid, table):
    out = [pid]
    for p in out:  # grows
        out += [k for k, (parent, _) in table.items() if parent == p]
    return out[1:]


def writes_to(pid, what):
    """Whether one of its descriptors is this file, open for writing."""
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for fd in fds:
        try:
            st = os.stat(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        flags = re.search(r"^flags:\s*([0-7]+)", read(f"/proc/{pid}/fdinfo/{fd}"), re.M)
        if (st.st_dev, st.st_ino) == what and flags and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
            return True
    return False


def ours(me, above):
    """Who must end: what came of the command, and who writes to our output when it is a pipe, but for us and those above us."""
    table, out = processes(), os.fstat(1)
    pids = below(me, table)
    if stat.S_ISFIFO(out.st_mode):
        pids += [p for p in table if p not in pids and p not in above and writes_to(p, (out.st_dev, out.st_ino))]
    return [p for p in pids if table[p][1] != "Z"]


def ancestors(pid):
    table, out = processes(), []
    while pid > 0:
        out.append(pid)
        pid = table[pid][0] if pid in table else 0
    return out


def tell(pids):
    for pid in pids:
        command = read(f"/proc/{pid}/cmdline").replace("\0", " ").strip() or read(f"/proc/{pid}/comm").strip()
        print(f"# {pid} {processes().get(pid, ('', '?'))[1]} {read(f'/proc/{pid}/wchan')} {command[:200]!r}")
        for line in read(f"/proc/{pid}/stack").splitlines()[:6]:
            print(f"#     {line}")


def end(me, above):
    for _ in range(50):  # what forks meanwhile is found by the next look
        left = ours(me, above)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.1)
    print(f"# still there: {ours(me, above)}", flush=True)


def main(limit, argv):
    me, above = os.getpid(), ancestors(os.getpid())
    p = subprocess.Popen(argv, env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    try:
        rc = p.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"not ok - {argv[-1]}: no end within {limit:g} s", flush=True)
        tell(ours(me, above))
        sys.stdout.flush()
        p.send_signal(signal.SIGABRT)  # Python says where it was
        time.sleep(1)
        end(me, above)
        return 1
    return rc if rc >= 0 else 128 - rc


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: tools/run_limited.py SECONDS CMD [ARG...]")
    signal.signal(signal.SIGINT, lambda *_: None)  # is the command's: we end when it does. Not ignored, which it would inherit
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
