"""What the tests of brigd share: a brigd on a port of its own, and a stand-in for brig-spawn and its keepers.

The stand-in is there for what real ones do not do: answer wrongly, late or not at all, die at a chosen moment, and be five
hundred at once. It speaks the messages of src/wire/spawnd.h and the pieces of src/wire/call.h. What must work with real
sandboxes is in the *.t files that start `brigd --dev`.
"""
import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIGD = os.path.join(os.path.dirname(os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig")))), "brigd")

ASK = struct.Struct("<IIIIQ36s68s68s4x")
TELL = struct.Struct("<IIiIIIi36sQ68s68s256s")
PING, START, KILL, LIST, END, FORGET, EGRESS = range(1, 8)
REPLY, ENTRY, ENDED = 1, 2, 3
STARTING, LIVE, OVER = 1, 2, 3
REQUEST, RESPONSE, BODY, FIN = 1, 2, 3, 4


def cstr(b):
    return b.split(b"\0", 1)[0].decode()


def exactly(s, n):
    out = b""
    while len(out) < n:
        p = s.recv(n - len(out))
        if not p:
            raise EOFError
        out += p
    return out


def piece(kind, data=b""):
    return struct.pack("<BBHI", kind, 0, 0, len(data)) + data


def head(status, **fields):
    words = [str(status)]
    for k, v in fields.items():
        words += [k.replace("_", "-"), str(v)]
    return piece(RESPONSE, b"".join(w.encode() + b"\0" for w in words))


class Call:
    """One call that came to a keeper."""

    def __init__(self, conn):
        self.conn = conn
        kind, n = self.next_head()
        words = exactly(conn, n).split(b"\0")[:-1]
        self.method, self.target = words[0].decode("latin1"), words[1].decode("latin1")
        self.fields = {words[i].decode("latin1"): words[i + 1].decode("latin1") for i in range(2, len(words), 2)}
        assert kind == REQUEST

    def next_head(self):
        kind, _, _, n = struct.unpack("<BBHI", exactly(self.conn, 8))
        return kind, n

    def body(self):
        out = []
        while True:
            kind, n = self.next_head()
            if kind == FIN:
                return b"".join(out)
            out.append(exactly(self.conn, n))

    def answer(self, status, data=b"", **fields):
        self.conn.sendall(head(status, **fields) + (piece(BODY, data) if data else b"") + piece(FIN))

    def json(self, status, value):
        self.answer(status, json.dumps(value).encode(), content_type="application/json")


class Keeper:
    """The keeper of one sandbox that is not there."""

    def __init__(self, world, sid):
        self.world, self.id = world, sid
        self.path = os.path.join(world.box, sid + ".sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(512)
        self.claim, self.timeout, self.paused = None, None, False
        self.conns = set()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.conns.add(conn)
            threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        try:
            call = Call(conn)
            handler = self.world.calls.get(call.target.split("?")[0])
            if handler:
                handler(self, call)
            else:
                self.usual(call)
        except (EOFError, OSError):
            pass
        finally:
            self.conns.discard(conn)
            conn.close()

    def usual(self, call):
        path = call.target.split("?")[0]
        body = call.body()
        if path == "/control/claim":
            if self.claim is not None:
                return call.json(409, {"code": 409, "message": "in use"})
            self.claim = json.loads(body)
            self.timeout = self.claim["timeout_ms"]
            return call.answer(204)
        if path == "/control/timeout":
            self.timeout = json.loads(body)["timeout_ms"]
            return call.answer(204)
        if path in ("/control/pause", "/control/resume"):
            want = path == "/control/pause"
            if not self.world.can_pause:
                return call.json(501, {"code": 501, "message": "this host cannot freeze"})
            if self.paused == want:
                return call.json(409, {"code": 409, "message": "already"})
            self.paused = want
            return call.answer(204)
        if path == "/control/stat":
            return call.json(200, {"state": "running", "cpu_us": 1000, "cpu_count": 2, "mem_used": 10, "mem_total": 20,
                                   "mem_cache": 1, "disk_used": 3, "disk_total": 4})
        if path == "/control/denied":
            return call.json(200, {"denied": self.world.denied.get(self.id, 0)})
        if path == "/control/samples":
            return call.json(200, {"cpu_count": 2, "mem_total": 20, "disk_total": 4, "samples": self.world.samples})
        if path in ("/envd/health", "/control/ready"):
            return call.answer(204)
        # everything else is told back
        return call.json(200, {"id": self.id, "method": call.method, "target": call.target, "fields": call.fields,
                               "body": body.decode("latin1")})

    def end(self):
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
        for c in list(self.conns):
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Spawner:
    """brig-spawn without sandboxes."""

    def __init__(self, path, box):
        self.path, self.box = path, box
        self.keepers, self.ends, self.conns, self.asked = {}, {}, [], []
        self.calls = {}
        self.can_pause = True
        self.refuse = {}  # op -> (errno, err_kind, words)
        self.hold = set()  # ops that are never answered
        self.denied = {}  # by sandbox: what its gate has refused so far
        self.late = False  # an ordered end comes after the answer to the order
        self.samples = [[1700000000000, 500, 10, 1, 3], [1700000010000, 5000500, 11, 1, 3]]  # at, cpu, memory, cache, disk
        self.starting = set()  # of an earlier asker, not there yet
        self.listener = None
        self.up()

    def up(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen(8)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def down(self):
        """It dies; sandboxes and keepers live on."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for c in self.conns:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.conns = []

    def accept(self, listener):
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            self.conns.append(conn)
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def tell(self, conn, kind, seq=0, ret=0, fault=0, value=0, sid="", template="", tenant="", why="", text=b""):
        conn.send(TELL.pack(kind, seq, ret, fault, len(text), value, 0, sid.encode(), 0, template.encode(),
                            tenant.encode(), why.encode()) + text)

    def serve(self, conn):
        while True:
            try:
                p = conn.recv(70000)
            except OSError:
                return
            if not p:
                return
            op, seq, n, egress, timeout, sid, template, tenant = ASK.unpack(p[:ASK.size])
            a = {"op": op, "id": cstr(sid), "template": cstr(template), "tenant": cstr(tenant), "egress": egress,
                 "timeout_ms": timeout, "text": p[ASK.size:ASK.size + n].decode()}
            self.asked.append(a)
            if op in self.hold:
                continue
            try:
                self.answer(conn, seq, op, a)
            except OSError:
                return

    def answer(self, conn, seq, op, a):
        if op in self.refuse:
            ret, fault, why = self.refuse[op]
            return self.tell(conn, REPLY, seq, -ret, fault, why=why)
        if op == PING:
            return self.tell(conn, REPLY, seq, value=1, text=self.box.encode())
        if op == START:
            k = Keeper(self, a["id"])
            k.template, k.tenant, k.egress, k.text = a["template"], a["tenant"], a["egress"], a["text"]
            self.keepers[a["id"]] = k
            return self.tell(conn, REPLY, seq)
        if op == LIST:
            for sid, k in list(self.keepers.items()):
                self.tell(conn, ENTRY, seq, value=LIVE, sid=sid, template=k.template, tenant=k.tenant)
            for sid in list(self.starting):
                self.tell(conn, ENTRY, seq, value=STARTING, sid=sid, template="base", tenant="x")
            for sid in list(self.ends):
                self.tell(conn, ENTRY, seq, value=OVER, sid=sid, template="base", tenant="x")
            return self.tell(conn, REPLY, seq)
        if op == END:
            return self.tell(conn, REPLY, seq, text=self.ends.get(a["id"], b""))
        if op == FORGET:
            self.ends.pop(a["id"], None)
            return self.tell(conn, REPLY, seq)
        if op == KILL and a["id"] in self.starting:
            self.starting.discard(a["id"])
            return self.tell(conn, REPLY, seq)
        if op == KILL:
            if a["id"] not in self.keepers:
                return self.tell(conn, REPLY, seq, -2, 3, why="no such sandbox")
            if self.late:
                self.tell(conn, REPLY, seq)
                return self.end(a["id"], "killed")
            self.end(a["id"], "killed")
            return self.tell(conn, REPLY, seq)
        return self.tell(conn, REPLY, seq)

    def end(self, sid, how):
        """A sandbox ends; how None: its keeper says nothing."""
        k = self.keepers.pop(sid, None)
        if k:
            k.end()
        text = b"" if how is None else json.dumps({"how": how, "memory_peak": 1, "cpu_us": 2, "denied": self.denied.get(sid, 0)}).encode()
        self.ends[sid] = text
        for c in list(self.conns):
            try:
                self.tell(c, ENDED, sid=sid, text=text)
            except OSError:
                pass


class Daemon:
    """A brigd with a configuration of its own and the stand-in behind it; `by`: words that start it, as env(1)."""

    def __init__(self, more="", pool=0, unix=False, by=()):
        self.by = by
        self.dir = tempfile.mkdtemp(prefix="brigd-api-")
        self.box = os.path.join(self.dir, "box")
        os.mkdir(self.box)
        self.state = os.path.join(self.dir, "state")
        self.spawn = Spawner(os.path.join(self.dir, "spawn.sock"), self.box)
        self.config = os.path.join(self.dir, "brigd.yaml")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(f"version: 1\nlisten: {f'unix:{self.dir}/http.sock' if unix else f'127.0.0.1:{self.port}'}\nstate: {self.state}\n"
                    f"spawn: {self.dir}/spawn.sock\n{more}templates:\n  base:\n    pool: {pool}\n    egress: any\n"
                    "  code-interpreter-v1:\n    alias: [code]\n")
        self.p = None
        self.start()
        self.key = self.make_key("--tenant", "acme")
        self.other = self.make_key("--tenant", "rival")

    def start(self):
        self.p = subprocess.Popen([*self.by, BRIGD, "--config", self.config], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.p.stdout.readline().decode()
        if "listening" not in line:
            raise AssertionError(f"brigd did not start: {line!r} {self.p.stderr.read()!r}")
        # it knows its sandboxes when brig-spawn's list is through
        until(lambda: any(a["op"] == LIST for a in self.spawn.asked), 10, "brigd asks for the list")

    def kill9(self):
        self.p.kill()
        self.p.wait()
        self.spawn.asked.clear()

    def make_key(self, *words):
        return subprocess.run([BRIGD, "--config", self.config, "key", "create", *words], check=True,
                              capture_output=True, text=True).stdout.strip()

    def close(self):
        self.p.terminate()
        rc = self.p.wait(timeout=20)
        err = self.p.stderr.read().decode()
        self.spawn.down()
        shutil.rmtree(self.dir, ignore_errors=True)
        if rc != 0:
            raise AssertionError(f"brigd ended with {rc}: {err}")

    def conn(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, method, path, body=None, key=True, headers=None):
        """(status, fields, body), the body decoded when it is JSON."""
        c = self.conn()
        h = dict(headers or {})
        if key:
            h["X-API-KEY"] = self.key if key is True else key
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        c.request(method, path, data, h)
        r = c.getresponse()
        raw = r.read()
        c.close()
        fields = {k.lower(): v for k, v in r.getheaders()}
        if fields.get("content-type", "").startswith("application/json") and raw:
            return r.status, fields, json.loads(raw)
        return r.status, fields, raw

    def create(self, key=True, **fields):
        s, _, b = self.ask("POST", "/v2/sandboxes", {"templateID": "base", **fields}, key=key)
        if s != 201:
            raise AssertionError(f"create: {s} {b!r}")
        return b

    def box_ask(self, box, method, path, body=None, port=49983, token=True, headers=None):
        h = {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": str(port), **(headers or {})}
        if token:
            h["X-Access-Token"] = box["envdAccessToken"] if token is True else token
        return self.ask(method, path, body, key=False, headers=h)

    def rss(self):
        with open(f"/proc/{self.p.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096


# ---- TAP ----
CASES = []


def case(fn):
    CASES.append(fn)
    return fn


def eq(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def ok(cond, what):
    if not cond:
        raise AssertionError(what)


def until(fn, seconds, what):
    end = time.monotonic() + seconds
    while True:
        v = fn()
        if v:
            return v
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def main(daemon=None):
    """Run the cases; then the daemon they used ends."""
    bad = 0
    try:
        for i, fn in enumerate(CASES, 1):
            try:
                fn()
                print(f"ok {i} - {fn.__name__}", flush=True)
            except Exception:  # a failed case is a line, and the next one runs
                bad += 1
                print(f"not ok {i} - {fn.__name__}", flush=True)
                for line in traceback.format_exc().splitlines():
                    print("# " + line)
    finally:
        if daemon is not None:
            daemon.close()
    print(f"1..{len(CASES)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit("a library")
