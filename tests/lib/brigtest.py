"""TAP harness of the black-box suites.

A suite is a file of functions marked @case. Each runs once per mode: as root and as an ordinary
user without subordinate ids when the suite was started as root, only as that user otherwise.
A case gets its Mode, runs the program and compares bytes; it fails by an exception.

Parameters come by environment:
  BRIG           the program (default build/brig of this checkout)
  BRIG_TIER      tier every run asks for (default container)
  BRIG_TEST_USER root or user: only that mode
  BRIG_MUST_RUN  a skipped case counts as failed
  BRIG_CASES     regular expression: only cases whose name matches

The test process is a child subreaper, so whatever a run leaves behind becomes its descendant
(reap.py) and is found without knowing any name.
"""
import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import reap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig")))
TIER = os.environ.get("BRIG_TIER", "container")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# An id of its own per test process, so that processes of this suite are told by their owner too.
USER_ID = 1100000 + os.getpid() % 50000
# Whoever started us may ignore signals, as a shell does for its background jobs; brig would keep to that.
for _sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(_sig, signal.default_int_handler if _sig == signal.SIGINT else signal.SIG_DFL)

CASE_SECONDS = 240
CASES = []


class Skip(Exception):
    pass


class Result:
    """One finished run: rc (negative = signal, as subprocess has it), out, err, ms."""

    def __init__(self, rc, out, err, ms):
        self.rc, self.out, self.err, self.ms = rc, out, err, ms

    def __repr__(self):
        return f"rc={self.rc} ms={self.ms:.0f} out={self.out[:400]!r} err={self.err[:1200]!r}"


class Mode:
    """One kind of caller, with folders of its own."""

    def __init__(self, name):
        self.name = name
        self.uid = 0 if name == "root" else (USER_ID if os.geteuid() == 0 else os.geteuid())
        self.base = tempfile.mkdtemp(prefix=f"brigtest-{name}-")
        os.chmod(self.base, 0o755)
        self.dir = os.path.join(self.base, "t")
        self.state = os.path.join(self.base, "state")
        self.home = os.path.join(self.base, "home")
        self.bin = os.path.join(self.base, "bin")
        for d in (self.dir, self.state, self.home):
            os.mkdir(d, 0o700)
            self.give(d)
        # The build may lie where the ordinary user cannot go.
        os.mkdir(self.bin, 0o755)
        for n in ("brig", "brig-init", "brig-gate", "brig-inspect", "brig-spawn", "brig-client", "brig-sudo"):
            src = os.path.join(os.path.dirname(BRIG), n)
            if os.path.exists(src):
                shutil.copy(src, os.path.join(self.bin, n))
                os.chmod(os.path.join(self.bin, n), 0o755)
        self.brig_path = os.path.join(self.bin, "brig")
        self.tier = TIER
        self.extra = {}  # environment of every run of the current case
        self.seq = 0

    def give(self, path):
        if os.geteuid() == 0 and self.uid:
            os.chown(path, self.uid, self.uid)

    def tool(self, name):
        """A program of tests/tools, where both callers can reach it."""
        src = os.path.join(os.path.dirname(BRIG), "tests", name)
        if not os.path.exists(src):
            raise AssertionError(f"{src} is missing: make {os.path.relpath(src, ROOT)}")
        dst = os.path.join(self.bin, name)
        if not os.path.exists(dst):
            shutil.copy(src, dst)
            os.chmod(dst, 0o755)
        return dst

    def path(self, name=None):
        """A fresh path in the caller's folder."""
        self.seq += 1
        return os.path.join(self.dir, f"{self.seq}-{name or 'x'}")

    def put(self, name, data, mode=0o644):
        p = self.path(name)
        with open(p, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        os.chmod(p, mode)
        self.give(p)
        return p

    def mkdir(self, name=None):
        p = self.path(name)
        os.mkdir(p)
        self.give(p)
        return p

    def give_tree(self, top):
        for d, dirs, files in os.walk(top):
            self.give(d)
            for n in dirs + files:
                if os.geteuid() == 0 and self.uid:
                    os.lchown(os.path.join(d, n), self.uid, self.uid)

    def env(self, extra=None):
        e = {"PATH": PATH, "HOME": self.home, "BRIG_STATE": self.state, "LANG": "C.UTF-8",
             "XDG_STATE_HOME": os.path.join(self.home, "state"), "TMPDIR": self.dir}
        for k in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LLVM_PROFILE_FILE"):
            if k in os.environ:
                e[k] = os.environ[k]
        e.update(self.extra)
        e.update(extra or {})
        return e

    def ids(self):
        if os.geteuid() == 0 and self.uid:
            return {"user": self.uid, "group": self.uid, "extra_groups": []}
        return {}

    def popen(self, argv, env=None, **kw):
        """Any program as this caller."""
        kw.setdefault("cwd", self.dir)
        kw.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.Popen(argv, env=self.env(env), **self.ids(), **kw)
        reap.owned(p)
        return p

    def exec(self, argv, stdin=None, timeout=200, env=None, **kw):
        """Run a program as this caller to its end."""
        if stdin is not None:
            kw["stdin"] = subprocess.PIPE
        t = time.monotonic()
        p = self.popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        try:
            out, err = p.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"{argv!r} still ran after {timeout} s; "
                                 f"out={out[:300]!r} err={err[:300]!r}") from None
        return Result(p.returncode, out, err, (time.monotonic() - t) * 1000)

    def brig(self, *args, **kw):
        return self.exec([self.brig_path, *args], **kw)

    def run_argv(self, *args):
        return [self.brig_path, "run", "--tier", self.tier, *args]

    def run(self, *args, **kw):
        """brig run with this tier; args are options and the command."""
        return self.exec(self.run_argv(*args), **kw)

    def sh(self, script, *opts, **kw):
        """brig run of a shell script."""
        return self.run(*opts, "--", "sh", "-c", script, **kw)

    def py(self, script, *opts, **kw):
        return self.run(*opts, "--", "/usr/bin/python3", "-c", script, **kw)

    def native(self, argv, **kw):
        """The oracle: the same program on plain Linux."""
        return self.exec(argv, **kw)


def case(fn=None, *, modes=("root", "user")):
    """Mark a test. Its name is the function's."""
    def mark(f):
        CASES.append((f, modes, f.__name__))
        return f
    return mark(fn) if fn else mark


def case_both_stdio(fn):
    """A case that must come out the same over passed pipes and over framed channels."""
    def framed(m):
        m.extra = {"BRIG_STDIO": "framed"}
        try:
            fn(m)
        finally:
            m.extra = {}
    CASES.append((fn, ("root", "user"), fn.__name__))
    CASES.append((framed, ("root", "user"), fn.__name__ + "_framed"))
    return fn


# ---- assertions: the message carries what was seen ----
def eq(got, want, what=""):
    if got != want:
        cut = lambda v: (repr(v)[:600] + "...") if len(repr(v)) > 600 else repr(v)
        raise AssertionError(f"{what}: got {cut(got)}, want {cut(want)}")


def ok(cond, what):
    if not cond:
        raise AssertionError(what() if callable(what) else str(what))


def done(r, rc=0, out=None, err=None, ms=None):
    """The usual check of a run."""
    if rc is not None and r.rc != rc:
        raise AssertionError(f"exit {r.rc}, want {rc}: {r!r}")
    if out is not None and r.out != out:
        raise AssertionError(f"stdout differs from {out[:200]!r}: {r!r}")
    if err is not None and r.err != err:
        raise AssertionError(f"stderr differs from {err[:200]!r}: {r!r}")
    if ms is not None and r.ms > ms:
        raise AssertionError(f"took {r.ms:.0f} ms, at most {ms}: {r!r}")
    return r


def until(fn, seconds, what):
    """Poll fn until it gives something true; the bound is a failure, not a wait."""
    end = time.monotonic() + seconds
    while True:
        v = fn()
        if v:
            return v
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def modes():
    want = os.environ.get("BRIG_TEST_USER")
    have = ["root", "user"] if os.geteuid() == 0 else ["user"]
    if want:
        if want not in have:
            raise SystemExit(f"BRIG_TEST_USER={want}: not possible here")
        have = [want]
    return have


def nothing_left(m, seconds=20):
    """No process, no mount, no record, no cgroup of this mode's sandboxes is left."""
    for what, left in (("processes", lambda: [reap.describe(p) for p in reap.descendants()]),
                       ("mounts", lambda: reap.mounts(m.base)), ("records", lambda: reap.records(m.state)),
                       ("cgroups", lambda: reap.cgroups(m.state))):
        until(lambda left=left: not left(), seconds, lambda what=what, left=left: f"{what} left: {left()}")


def _report(nr, good, name, note, skipped=False):
    print(f"{'ok' if good else 'not ok'} {nr} - {name}{' # SKIP ' + note if skipped else ''}")
    if note and not skipped:
        for line in note.splitlines():
            print("# " + line)
    sys.stdout.flush()


def goes_on():
    """A long case has come on: CASE_SECONDS for its next step."""
    signal.alarm(CASE_SECONDS)


def _too_long(*_):
    raise AssertionError(f"no end, and no step, for {CASE_SECONDS} s")


def main(after_each=None):
    """Run every case in every mode. after_each(mode) may add a check to each case."""
    reap.become_subreaper()
    os.umask(0o022)
    signal.signal(signal.SIGALRM, _too_long)
    only = os.environ.get("BRIG_CASES")
    nr = failed = 0
    for name in modes():
        m = Mode(name)
        atexit.register(shutil.rmtree, m.base, True)
        todo = [c for c in CASES if name in c[1] and (not only or re.search(only, c[2]))]
        if not only:
            todo.append((nothing_left, (name,), "nothing_left"))
        for fn, _, cname in todo:
            nr += 1
            full = f"{name}: {cname}"
            t = time.monotonic()
            goes_on()  # a hang is a failure, not the end of the suite
            try:
                fn(m)
                if after_each:
                    after_each(m)
                took = time.monotonic() - t
                _report(nr, True, full, f"took {took:.1f} s" if took > 3 else "")
            except Skip as e:
                bad = bool(os.environ.get("BRIG_MUST_RUN"))
                failed += bad
                if bad:
                    _report(nr, False, full, f"skipped although BRIG_MUST_RUN is set: {e}")
                else:
                    _report(nr, True, full, str(e), skipped=True)
            except Exception as e:  # pylint: disable=broad-except
                failed += 1
                tb = traceback.extract_tb(e.__traceback__)
                here = [f for f in tb if f.filename.endswith(".t")]
                at = f"{os.path.basename(here[-1].filename)}:{here[-1].lineno}: " if here else ""
                kind = "" if isinstance(e, AssertionError) else type(e).__name__ + ": "
                _report(nr, False, full, f"{at}{kind}{e}")
                reap.kill_descendants()
            finally:
                signal.alarm(0)
    print(f"1..{nr}")
    return 1 if failed else 0
