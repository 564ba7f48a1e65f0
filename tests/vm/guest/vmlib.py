"""Checks inside the test guest: who calls brig, from which cgroup, and what is left afterwards.

The guest is ours alone, so "nothing is left" needs no names: the set of user-space processes, mounts
and cgroup folders must be what it was. Times come from brig's own result where it gives them, so a
slow start under emulation costs nothing. Bounds on ends get SLACK_MS on top, and what a clock that ran
beside (Stalls) saw the whole guest stand still: its CPUs are threads of a machine with other work.
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback

CG = "/sys/fs/cgroup"
BRIG = "/brig/build/brig"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SLACK_MS = 1000  # emulated; the 100 ms bound is tested on hardware
END_S = 30       # bound of everything that must happen by itself
CASES = []


class Caller:
    def __init__(self, name, user, uid, leaf, base):
        self.name, self.user, self.uid = name, user, uid
        self.leaf = leaf  # cgroup the caller's shell would be in
        self.base = base  # cgroup below which brig may work; None = nothing was delegated
        self.home = "/root" if uid == 0 else f"/home/{user}"
        self.state = ["/var/lib/brig", "/run/brig"] if uid == 0 else [f"{self.home}/.local/state/brig",
                                                                    f"/run/user/{uid}/brig"]

    def enter(self):
        """Between fork and exec: become this caller."""
        with open(f"{self.leaf}/cgroup.procs", "w", encoding="ascii") as f:
            f.write("0")
        os.setgroups([])
        os.setgid(self.uid)
        os.setuid(self.uid)

    def popen(self, argv, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        env = {"PATH": PATH, "HOME": self.home, "USER": self.user, "LOGNAME": self.user,
               "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": f"/run/user/{self.uid}"}
        return subprocess.Popen(argv, env=env, cwd=self.home, preexec_fn=self.enter, **kw)

    def exec(self, *argv, timeout=60):
        p = self.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"{argv!r} still ran after {timeout} s; {out[:300]!r} {err[:300]!r}") from None
        return Result(p.returncode, out, err)

    def run(self, *args, **kw):
        return self.exec(BRIG, "run", *args, **kw)

    def json(self, *args, **kw):
        """brig run --json; the object, with what the program itself returned as rc."""
        r = self.run("--json", *args, **kw)
        try:
            j = json.loads(r.out)
        except ValueError:
            raise AssertionError(f"no JSON: {r!r}") from None
        j["rc"] = r.rc
        return j

    def sandboxes(self):
        """Folders of this caller's sandboxes."""
        top = f"{self.base}/brig/local"
        try:
            return [f"{top}/{n}" for n in os.listdir(top) if os.path.isdir(f"{top}/{n}")]
        except FileNotFoundError:
            return []


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out.decode(errors="replace"), err.decode(errors="replace")

    def __repr__(self):
        return f"rc={self.rc} out={self.out[:500]!r} err={self.err[:1200]!r}"


def user_slice(uid):
    return f"{CG}/user.slice/user-{uid}.slice"


def delegated(name, user, uid):
    s = f"{user_slice(uid)}/user@{uid}.service"
    return Caller(name, user, uid, f"{s}/app.slice/run.scope", s)


ROOT = Caller("root", "root", 0, f"{user_slice(0)}/session-1.scope", CG)
DELEGATED = delegated("delegated user", "tester", 1000)
SUBIDS = delegated("delegated user with subordinate ids", "subber", 1001)
# A service with User= and Delegate=yes: its own process is in the folder that was delegated, so no
# controller can be handed down from there (cgroups(7), no internal processes).
SERVICE = Caller("user's service with delegation", "tester", 1000, f"{CG}/system.slice/job.service",
                 f"{CG}/system.slice/job.service")
LOGIN = Caller("user without delegation", "tester", 1000, f"{user_slice(1000)}/session-2.scope", None)


def case(*callers):
    def mark(fn):
        for c in callers:
            CASES.append((fn, c))
        return fn
    return mark


def eq(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def ok(cond, what):
    if not cond:
        raise AssertionError(what)


def until(fn, what, seconds=END_S):
    """Poll until fn gives something true; the bound is a failure, not a wait."""
    end = time.monotonic() + seconds
    while True:
        v = fn()
        if v:
            return v
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read().strip()


def numbers(path):
    """A flat keyed cgroup file."""
    return {k: int(v) for k, v in (line.split() for line in read(path).splitlines())}


def processes():
    """User-space processes that are not dead: pid -> command line."""
    found = {}
    for n in os.listdir("/proc"):
        if not n.isdigit():
            continue
        try:
            rest = read(f"/proc/{n}/stat").rsplit(")", 1)[1].split()
            if rest[0] in "ZX" or int(rest[6]) & 0x00200000:  # PF_KTHREAD
                continue
            found[int(n)] = read(f"/proc/{n}/cmdline").replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def cgroups():
    """All folders but the two that stay once made."""
    return {d for d, _, _ in os.walk(CG) if not re.search(r"/brig(/local)?$", d)}


class World:
    """What must be the same before and after."""

    def __init__(self):
        self.procs = set(processes())
        self.mounts = read("/proc/self/mountinfo")
        self.cgroups = cgroups()

    def left(self, cgroups_too=True):
        out = []
        p = {k: v for k, v in processes().items() if k not in self.procs}
        if p:
            out.append(f"processes {p}")
        if read("/proc/self/mountinfo") != self.mounts:
            out.append("mounts changed: " + "\n".join(
                sorted(set(read("/proc/self/mountinfo").splitlines()) - set(self.mounts.splitlines()))))
        if cgroups_too and cgroups() - self.cgroups:
            out.append(f"cgroups {sorted(cgroups() - self.cgroups)}")
        return out

    def clean(self, cgroups_too=True, seconds=END_S):
        until(lambda: not self.left(cgroups_too), lambda: "; ".join(self.left(cgroups_too)), seconds)


class Stalls:
    """How long a thread that only sleeps was kept from running, in ms, while the body ran."""

    def __enter__(self):
        self.ms, self.stop = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        last = time.monotonic()
        while not self.stop.wait(0.01):
            now = time.monotonic()
            self.ms += max(0, (now - last) * 1000 - 50)
            last = now

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def records(caller):
    """Records of sandboxes in the caller's state folders."""
    return [os.path.join(d, f) for top in caller.state for d, _, files in os.walk(top) for f in files
            if re.search(r"^boot=", read(os.path.join(d, f)), re.M)]


def report(nr, good, name, note=""):
    print(f"{'ok' if good else 'not ok'} {nr} - {name}")
    for line in note.splitlines():
        print("# " + line)
    sys.stdout.flush()


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    nr = failed = 0
    for fn, caller in CASES:
        name = f"{caller.name}: {fn.__name__.replace('_', ' ')}" if caller else fn.__name__.replace("_", " ")
        if not re.search(only, name):
            continue
        nr += 1
        t = time.monotonic()
        world = World()
        try:
            if caller:
                fn(caller)
                world.clean()
            else:
                fn()
            report(nr, True, name, f"{time.monotonic() - t:.1f} s")
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            tb = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.endswith("vmlib.py")]
            kind = "" if isinstance(e, AssertionError) else type(e).__name__ + ": "
            report(nr, False, name, f"line {tb[-1].lineno if tb else '?'}: {kind}{e}")
            # The next case starts clean, or all after the first would fail.
            for d in cgroups() - world.cgroups:
                try:
                    with open(f"{d}/cgroup.kill", "w", encoding="ascii") as f:
                        f.write("1")
                except OSError:
                    pass
            for pid in set(processes()) - world.procs:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            if caller and os.access(BRIG, os.X_OK):
                caller.exec(BRIG, "gc")
    print(f"1..{nr}")
    return 1 if failed else 0
