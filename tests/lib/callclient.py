"""A sandbox with its keeper (build/tests/keeper), and calls to it as brigd makes them."""
import json
import os
import signal
import socket
import struct
import subprocess

from brigtest import TIER, ok
import reap

REQUEST, RESPONSE, BODY, END = 1, 2, 3, 4
RPC, STREAM = "application/json", "application/connect+json"


def piece(kind, data=b""):
    return struct.pack("<BBHI", kind, 0, 0, len(data)) + data


def head(*words):
    return b"".join((w if isinstance(w, bytes) else w.encode()) + b"\0" for w in words)


def envelope(obj, flags=0):
    data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    return struct.pack(">BI", flags, len(data)) + data


class Cut(Exception):
    """The connection ended without END."""


class Call:
    """One call. The head is sent at once; body() and end() send the rest; reply() reads the head of the answer."""

    def __init__(self, path, method, target, fields=None, seconds=30):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(seconds)
        self.s.connect(path)
        self.raw, self.status, self.fields, self.ended, self.left = b"", None, {}, False, b""
        words = [method, target]
        for k, v in (fields or {}).items():
            words += [k, v]
        self.send(piece(REQUEST, head(*words)))

    def send(self, data):
        try:
            self.s.sendall(data)
        except BrokenPipeError:
            pass  # it was cut: reply() and read() say so

    def body(self, data):
        for i in range(0, len(data), 65536):
            self.send(piece(BODY, data[i:i + 65536]))
        return self

    def end(self):
        self.send(piece(END))
        return self

    def need(self, n):
        while len(self.raw) < n:
            try:
                d = self.s.recv(1 << 18)
            except ConnectionResetError:
                d = b""
            if not d:
                raise Cut(f"after {self.status} {self.raw[:200]!r}")
            self.raw += d

    def next(self):
        """(kind, bytes) of the next piece."""
        self.need(8)
        kind, _, _, n = struct.unpack("<BBHI", self.raw[:8])
        self.need(8 + n)
        data, self.raw = self.raw[8:8 + n], self.raw[8 + n:]
        return kind, data

    def reply(self):
        kind, data = self.next()
        ok(kind == RESPONSE, f"piece {kind} instead of a head")
        words = data.split(b"\0")[:-1]
        self.status = int(words[0])
        names = [w.decode("latin-1") for w in words[1:]]
        self.fields = dict(zip(names[::2], names[1::2]))
        return self

    def some(self):
        """The next bytes of the body; b"" at its end."""
        if self.ended:
            return b""
        kind, data = self.next()
        if kind == END:
            self.ended = True
            return b""
        ok(kind == BODY, f"piece {kind} in a body")
        return data or self.some()

    def read(self):
        out = []
        while d := self.some():
            out.append(d)
        return b"".join(out)

    def message(self):
        """The next envelope of a stream: (flags, object). None at the end of the body."""
        while len(self.left) < 5 or len(self.left) < 5 + struct.unpack(">I", self.left[1:5])[0]:
            d = self.some()
            if not d:
                ok(not self.left, f"half an envelope: {self.left!r}")
                return None
            self.left += d
        flags, n = struct.unpack(">BI", self.left[:5])
        data, self.left = self.left[5:5 + n], self.left[5 + n:]
        return flags, json.loads(data)

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Keeper:
    """with Keeper(m, memory=..., env=[...]) as k: ..."""

    def __init__(self, m, **options):
        self.m, self.path, self.end_path = m, m.path("sock"), m.path("end")
        words = []
        for name, v in {"tier": TIER, **options}.items():
            words += [f"{name}={x}" for x in (v if isinstance(v, list) else [v])]
        self.p = m.popen([m.tool("keeper"), self.path, self.end_path, *words], stdout=subprocess.PIPE)

    def __enter__(self):
        line = self.p.stdout.readline()
        ok(line == b"ready\n", f"keeper: {line!r}")
        reap.remember(self.m.state)
        return self

    def __exit__(self, *exc):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            rc = self.p.wait(timeout=20)
        finally:
            if self.p.poll() is None:
                self.p.kill()
                self.p.wait()
            self.p.stdout.close()
        ok(exc[0] is not None or rc == 0, f"keeper ended with {rc}")

    def how(self):
        self.p.wait(timeout=20)
        with open(self.end_path, encoding="ascii") as f:
            return json.loads(f.read())

    def call(self, method, target, fields=None, seconds=30):
        return Call(self.path, method, target, fields, seconds)

    def ask(self, method, target, body=b"", fields=None, seconds=30):
        """A whole call: (status, fields, bytes)."""
        with self.call(method, target, fields, seconds) as c:
            if body:
                c.body(body)
            c.end().reply()
            return c.status, c.fields, c.read()

    def control(self, op, obj=None):
        method = "GET" if op in ("stat", "wait") else "POST"
        status, _, data = self.ask(method, "/control/" + op, json.dumps(obj).encode() if obj is not None else b"")
        return status, json.loads(data) if data else None

    @staticmethod
    def auth(user):
        import base64
        return {"authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()} if user else {}

    def rpc(self, method, obj, user=None, **more):
        """A unary call: (status, object)."""
        data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        status, _, data = self.ask("POST", "/envd/" + method, data, {"content-type": RPC, **self.auth(user), **more})
        return status, json.loads(data) if data else None

    def stream(self, method, obj, user=None, seconds=30, **more):
        """A server stream: the Call, its head read."""
        c = self.call("POST", "/envd/" + method, {"content-type": STREAM, **self.auth(user), **{k.replace("_", "-"): str(v) for k, v in more.items()}}, seconds)
        c.body(envelope(obj)).end().reply()
        return c
