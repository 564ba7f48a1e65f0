"""The parts of the benchmark of the API: each fills in rows of the results. Their units are milliseconds, MiB/s and KiB."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

from apiworld import ENVD, ROOT, Box, Client, Daemon, Failed, pss

MIB = 1 << 20
SDK = os.path.join(ROOT, "tests", "api", "sdk", "fetch.sh")


@contextlib.contextmanager
def daemon(*words, **more):
    d = Daemon(*words, **more)
    try:
        yield d
    finally:
        d.close()


def timed(fn, n):
    out = []
    for _ in range(n):
        a = time.perf_counter()
        fn()
        out.append((time.perf_counter() - a) * 1e3)
    return out


# ---- a sandbox with code in it ----

def life(d, gate, out, errors):
    try:
        b = Box(d)
        gate.wait()
        t = [time.perf_counter()]
        for step in (b.create, b.run_code, b.kill):
            step()
            t.append(time.perf_counter())
        b.close()
        out.append([(y - x) * 1e3 for x, y in zip(t, t[1:])])
    except (Failed, OSError, threading.BrokenBarrierError) as e:
        errors.append(e)


def crowd(d, n):
    """n clients at once: [create, run, kill] of each."""
    gate, out, errors = threading.Barrier(n), [], []
    threads = [threading.Thread(target=life, args=(d, gate, out, errors)) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise Failed(str(errors[0]))
    return out


def put_lives(res, who, start, n, lives):
    for i, key in enumerate(("create", "run", "kill")):
        res.put(f"{who} {start} {key} {n}", [x[i] for x in lives])
    res.put(f"{who} {start} both {n}", [x[0] + x[1] for x in lives])


def grow(d, n):
    """The pool is as large as it may be once somebody took one."""
    b = Box(d)
    b.create()
    b.kill()
    b.close()
    d.pooled(n)


def warm(res, size, image):
    for n in size["crowds"]:
        with daemon(image, pool=max(n, 2)) as d:
            lives = []
            grow(d, max(n, 2))
            for _ in range(size["rounds"][n]):
                d.pooled(max(n, 2))
                lives += crowd(d, n)
            if d.metrics()["brig_created_warm_total"] < len(lives):
                raise Failed("not all of them were of the pool")
            put_lives(res, "raw", "warm", n, lives)


def cold(res, size, image):
    with daemon(image) as d:
        for n in size["crowds"]:
            put_lives(res, "raw", "cold", n, [x for _ in range(size["cold"][n]) for x in crowd(d, n)])


class Sdk:
    """api.mjs."""

    def __init__(self, d):
        folder = subprocess.run([SDK], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.p = subprocess.Popen([os.path.join(folder, "bin", "node"), os.path.join(ROOT, "tests", "bench", "api.mjs")], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env={**os.environ, **d.env, "BRIG_SDK": folder})
        self.answer()

    def answer(self):
        line = self.p.stdout.readline()
        r = json.loads(line) if line else {"error": "it ended"}
        if isinstance(r, dict):
            raise Failed(f"the SDK: {r['error']}")
        return r

    def do(self, **command):
        self.p.stdin.write(json.dumps(command) + "\n")
        self.p.stdin.flush()
        return self.answer()

    def close(self):
        self.p.stdin.close()
        self.p.wait(timeout=30)


def sdk(res, size, image):
    for start, counts in (("warm", size["rounds"]), ("cold", size["cold"])):
        for n in size["crowds"]:
            pool = max(n, 2) if start == "warm" else 0
            with daemon(image, pool=pool) as d:
                if pool:
                    grow(d, pool)
                s = Sdk(d)
                s.do(do="exec", count=1)  # the first call of all loads its modules
                lives = []
                for _ in range(counts[n]):
                    d.pooled(pool)
                    lives += [[x["create"], x["run"], x["kill"]] for x in s.do(do="code", n=n)]
                s.close()
                put_lives(res, "sdk", start, n, lives)


# ---- programs ----

def spawn(*argv):
    os.waitpid(os.posix_spawn(argv[0], argv, {"PATH": "/usr/bin:/bin", "HOME": "/"}), 0)


NOTHING = "/tmp/nothing"  # in the sandbox


def nothing(b, d):
    """A static program that does nothing, here and in the sandbox: its path here."""
    here = os.path.join(d.dir, "nothing")
    subprocess.run(["cc", "-O2", "-static", "-nostdlib", "-fno-stack-protector", "-o", here, os.path.join(ROOT, "tests", "bench", "nothing.c")], check=True)
    with open(here, "rb") as f:
        b.c.ask("POST", f"/files?path={NOTHING}&username=user", b.at(ENVD, **{"Content-Type": "application/octet-stream"}), f.read())
    b.exec("/bin/chmod", "755", NOTHING)
    return here


def rested(fn, seconds=0.02):
    """As somebody who thinks in between: everything on the way has gone to sleep."""
    time.sleep(seconds)
    return timed(fn, 1)


def execs(res, size, image):
    n = size["execs"]
    with daemon(image) as d:
        b = Box(d)
        b.create("base")
        here = nothing(b, d)
        steps = {"exec least": lambda: b.exec(NOTHING), "exec least floor": lambda: spawn(here),
                 "exec raw": lambda: b.exec("/bin/true"), "exec floor": lambda: spawn("/bin/true"), "exec shell": lambda: spawn("/bin/bash", "-l", "-c", "true"),
                 "exec health": lambda: b.c.ask("GET", "/health", b.at(ENVD))}
        out = {k: [] for k in steps}
        for f in steps.values():
            timed(f, 3)
        for _ in range(max(1, n // 20)):  # in turns
            for k, f in steps.items():
                out[k] += timed(f, min(n, 20))
        for k, v in out.items():
            res.put(k, v)
        res.put("exec rested", [x for _ in range(max(1, n // 4)) for x in rested(steps["exec least"])])
        b.kill()
        s = Sdk(d)
        s.do(do="exec", count=3)
        res.put("exec sdk", s.do(do="exec", count=n))
        s.close()


# ---- files ----

def upload(b, mib):
    """MiB/s of one POST to a file."""
    piece = os.urandom(MIB)
    b.c.sock.sendall(("POST /files?path=/tmp/large&username=user HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
                      f"Content-Length: {mib * MIB}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in b.at(ENVD).items()) + "\r\n").encode())
    a = time.perf_counter()
    for _ in range(mib):
        b.c.sock.sendall(piece)
    status, fields = b.c.head()
    b.c.body(fields)
    if status != 200:
        raise Failed(f"upload: {status}")
    return mib / (time.perf_counter() - a)


def take(sock, n):
    buf = bytearray(MIB)
    while n > 0:
        got = sock.recv_into(buf, min(MIB, n))
        if got == 0:
            raise Failed("it ended early")
        n -= got


def download(b, mib):
    a = time.perf_counter()
    b.c.send("GET", "/files?path=/tmp/large&username=user", b.at(ENVD))
    status, fields = b.c.head()
    if status != 200 or int(fields["content-length"]) != mib * MIB:
        raise Failed(f"download: {status} {fields}")
    take(b.c.sock, mib * MIB - len(b.c.data))
    b.c.data = b""
    return mib / (time.perf_counter() - a)


PLAIN = """import os, socket, sys
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1); print(s.getsockname()[1], flush=True)
f = os.memfd_create("large"); buf = bytearray(1 << 18); left = int(sys.argv[1])
c, _ = s.accept()
while left:
    n = c.recv_into(buf, min(left, len(buf))); os.write(f, memoryview(buf)[:n]); left -= n
c.sendall(b"."); c.recv(1)
at = 0
while at < int(sys.argv[1]):
    at += os.sendfile(c.fileno(), f, at, 1 << 20)
c.recv(1)
"""


def plain(mib):
    """A server that does nothing but that: (up, down) in MiB/s."""
    p = subprocess.Popen([sys.executable, "-c", PLAIN, str(mib * MIB)], stdout=subprocess.PIPE, text=True)
    piece = os.urandom(MIB)
    with socket.create_connection(("127.0.0.1", int(p.stdout.readline()))) as c:
        a = time.perf_counter()
        for _ in range(mib):
            c.sendall(piece)
        c.recv(1)
        up = mib / (time.perf_counter() - a)
        a = time.perf_counter()
        c.sendall(b".")
        take(c, mib * MIB)
        down = mib / (time.perf_counter() - a)
    p.wait(timeout=30)
    return up, down


def files(res, size, image):
    up, down, pair, mib = [], [], [], size["mib"]
    with daemon(image) as d:
        b = Box(d)
        b.create("large")
        for _ in range(size["copies"]):
            pair.append(plain(mib))
            up.append(upload(b, mib))
            down.append(download(b, mib))
        b.kill()
    res.put("up brigd", up)
    res.put("down brigd", down)
    res.put("up plain", [x for x, _ in pair])
    res.put("down plain", [y for _, y in pair])


# ---- memory ----

def below(pid):
    """pid -> name of all that descend from it."""
    out = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            for c in f.read().split():
                with open(f"/proc/{c}/comm", encoding="ascii") as g:
                    out[int(c)] = g.read().strip()
                out.update(below(int(c)))
    return out


def hold(b, n):
    """n viewers of one program that says nothing: their connections."""
    body = json.dumps({"process": {"cmd": "/bin/sleep", "args": ["600"]}, "stdin": False}).encode()
    fields = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
    frame = lambda p: b"\0" + len(p).to_bytes(4, "big") + p
    held, pid = [], None
    for i in range(n):
        c = Client(b.d.port)
        path = "Start" if i == 0 else "Connect"
        c.send("POST", f"/process.Process/{path}", b.at(ENVD, **fields), frame(body if i == 0 else json.dumps({"process": {"pid": pid}}).encode()))
        status, _ = c.head()
        while b'"pid"' not in c.data:
            c.more()
        if status != 200:
            raise Failed(f"{path}: {status}")
        if i == 0:
            pid = json.loads(c.data[c.data.index(b"{"):c.data.index(b"}}}") + 3])["event"]["start"]["pid"]
        held.append(c)
    return held


def memory(res, size, image):
    with daemon(image, pool=1) as d:
        d.pooled(1)
        res.put("memory empty", [pss(d.p.pid)])
        mine = below(d.spawn.pid)
        for key, name in (("keeper", "brig-keeper"), ("runner", "brig-runner"), ("init", "brig-init")):
            res.put(f"memory {key}", [pss(p) for p, x in mine.items() if x == name])
        res.put("memory python", [sum(pss(p) for p, x in mine.items() if x in ("brig-interp", "python3"))])
    with daemon(image) as d:
        boxes = []
        for _ in range(size["live"]):
            b = Box(d)
            b.create("base")
            b.exec("/bin/true")
            b.close()
            boxes.append(b)
        res.put("memory live", [pss(d.p.pid)])
        held = []
        for b in boxes[:4]:  # a keeper takes 512 calls
            held += hold(b, size["streams"] // 4)
        res.put("memory streams", [pss(d.p.pid)])
        for c in held:
            c.close()
        for _ in range(size["records"] - size["live"]):
            b = Box(d)
            b.create("base")
            b.close()
        res.put("memory records", [pss(d.p.pid)])


PARTS = {"warm": warm, "cold": cold, "sdk": sdk, "exec": execs, "files": files, "memory": memory}
