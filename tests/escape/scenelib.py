"""What the scenes share: somebody who exchanges files while they are copied, and a copier without care as control.

A control goes on until the damage is done (a bound is its failure), the inside gets the same pairs of names for a number
of runs.
"""
import os
import secrets
import subprocess
import threading

from brigtest import eq, ok

PY = "/usr/bin/python3"
PAIRS = 4
RUNS = 3  # of brig for each KEY

# argv: pairs of names, exchanged in turn for ever. "up" when it begins.
RACER = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
names = [n.encode() for n in sys.argv[1:]]
pairs = list(zip(names[::2], names[1::2]))
print('up', flush=True)
while os.getppid() != 1:
    for a, b in pairs:
        libc.syscall(316, -100, a, -100, b, 2)
"""

# Copies a tree as one does who looks first and opens then, until the outside was read or written. argv: source,
# destination, folder outside, bytes of the canary in it.
CARELESS = r"""
import os, stat, sys, time
src, dst, outside, mark = sys.argv[1:]
read = False
def copy(src, dst):
    global read
    for n in os.listdir(src):
        a, b = os.path.join(src, n), os.path.join(dst, n)
        try:
            s = os.lstat(a)
            if stat.S_ISDIR(s.st_mode):
                if not os.path.lexists(b): os.mkdir(b)
                if stat.S_ISDIR(os.lstat(b).st_mode): copy(a, b)
            elif stat.S_ISREG(s.st_mode):
                if os.path.lexists(b) and not stat.S_ISREG(os.lstat(b).st_mode): continue
                with open(a, 'rb') as f, open(b, 'wb') as g:
                    data = f.read(1 << 20)
                    g.write(data)
                    read = read or mark.encode() in data
        except OSError:
            pass
end = time.monotonic() + 30
while time.monotonic() < end and not read:
    copy(src, dst)
    if os.listdir(outside) != ['canary'] or open(outside + '/canary').read() != mark: break
"""


class Race:
    """with Race(m, pairs): ... while a process of the caller exchanges each pair, or does what another script says."""

    def __init__(self, m, pairs, script=RACER):
        self.m, self.names, self.script = m, [n for pair in pairs for n in pair], script

    def __enter__(self):
        self.p = self.m.popen([PY, "-c", self.script, *self.names], stdout=subprocess.PIPE)
        eq(self.p.stdout.readline(), b"up\n", "the racer")
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()


class Watched:
    """with Watched(m) as w: ... while a thread asks for the canary; w.seen is all that ever changed of it."""

    def __init__(self, m):
        self.out, self.seen, self.over = Outside(m), "", threading.Event()
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        while True:
            last = self.over.wait(0.1)
            self.seen = self.seen or self.out.changed()
            if last:
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Outside:
    """A folder that must be neither read nor written, with a file whose bytes nothing else has."""

    def __init__(self, m):
        self.m, self.mark = m, "outside-" + secrets.token_hex(12)
        self.dir = m.mkdir("outside")
        self.file = os.path.join(self.dir, "canary")
        with open(self.file, "w", encoding="ascii") as f:
            f.write(self.mark)
        m.give_tree(self.dir)
        self.before = self.state()

    def state(self):
        return {n: self.file_state(os.path.join(self.dir, n)) for n in os.listdir(self.dir)}

    @staticmethod
    def file_state(path):
        try:
            s = os.lstat(path)
            with open(path, "rb") as f:
                return s.st_mode, s.st_ctime_ns, f.read()
        except OSError as e:
            return e.errno

    def changed(self):
        now = self.state()
        return "" if now == self.before else f"outside has {sorted(now)}"

    def read_into(self, top):
        """Where below top are the file's bytes?"""
        for d, _, files in os.walk(top):
            for n in files:
                p = os.path.join(d, n)
                try:
                    if not os.path.islink(p) and os.path.isfile(p):
                        with open(p, "rb") as f:
                            if self.mark.encode() in f.read(1 << 20):
                                return f"{p} has the canary's bytes"
                except FileNotFoundError:
                    pass  # its folder was exchanged just now; it has another name
        return ""


def swapped(m, top, kind, target):
    """PAIRS of names in top to exchange: each an honest folder or file, and what takes its place."""
    pairs = []
    for i in range(PAIRS):
        a, b = os.path.join(top, f"a{i}"), os.path.join(top, f"b{i}")
        if kind == "file":
            with open(a, "w", encoding="ascii") as f:
                f.write("honest")
        else:
            os.mkdir(a)
            with open(os.path.join(a, "canary"), "w", encoding="ascii") as f:
                f.write("honest")
        if target == "fifo":
            os.mkfifo(b)
        else:
            os.symlink(target, b)
        pairs.append((a, b))
    m.give_tree(top)
    return pairs


def careless(m, out, src, dst):
    """The control: a copy without care, until it has read or written the outside."""
    m.exec([PY, "-c", CARELESS, src, dst, out.dir, out.mark])
    return out.read_into(dst) or out.changed()


def ran(r, what):
    """brig ended by itself, in order or refusing in one line."""
    ok(r.rc in (0, 125) and b"lost" not in r.err, f"{what}: {r!r}")
    return r
