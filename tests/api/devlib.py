"""`brigd --dev` with real sandboxes, and a client that sends exactly the bytes it is told to.

SDKs differ in what they put on the wire; a library between would make them alike. So requests are built here by hand."""
import base64
import json
import os
import re
import socket
import struct
import subprocess
import tempfile

from apilib import BRIGD, eq, ok

STREAM = "application/connect+json"


class Reply:
    """The head of an answer; the body as it comes."""

    def __init__(self, sock, head_only=False):
        self.sock, self.raw = sock, b""
        while b"\r\n\r\n" not in self.raw:
            self.more()
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.fields = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
        self.none = head_only or self.status in (204, 304)
        self.ended, self.left = False, b""

    def more(self):
        d = self.sock.recv(1 << 18)
        if not d:
            raise EOFError(f"the connection ended after {self.raw[:200]!r}")
        self.raw += d

    def need(self, n):
        while len(self.raw) < n:
            self.more()
        out, self.raw = self.raw[:n], self.raw[n:]
        return out

    def line(self):
        while b"\r\n" not in self.raw:
            self.more()
        out, self.raw = self.raw.split(b"\r\n", 1)
        return out

    def some(self):
        """The next chunk of a chunked body; b"" at its end."""
        if self.ended:
            return b""
        n = int(self.line(), 16)
        out = self.need(n)
        eq(self.line(), b"", "end of a chunk")
        self.ended = n == 0
        return out

    def body(self):
        if self.none:
            return b""
        if "content-length" in self.fields:
            return self.need(int(self.fields["content-length"]))
        out = []
        while d := self.some():
            out.append(d)
        return b"".join(out)

    def json(self):
        return json.loads(self.body())

    def message(self):
        """The next envelope of a stream: (flags, object)."""
        while len(self.left) < 5 or len(self.left) < 5 + struct.unpack(">I", self.left[1:5])[0]:
            d = self.some()
            ok(d, f"the stream ends with {self.left!r}")
            self.left += d
        flags, n = struct.unpack(">BI", self.left[:5])
        data, self.left = self.left[5:5 + n], self.left[5 + n:]
        return flags, json.loads(data)

    def line_json(self):
        """The next line of NDJSON, None at the end."""
        while b"\n" not in self.left:
            d = self.some()
            if not d:
                eq(self.left, b"")
                return None
            self.left += d
        line, self.left = self.left.split(b"\n", 1)
        return json.loads(line)

    def command(self):
        """A command's stream to its end: (pid, stdout, stderr, end event or error)."""
        flags, m = self.message()
        ok(flags == 0 and "start" in m["event"], f"first {m}")
        pid, out, end = m["event"]["start"]["pid"], {"stdout": b"", "stderr": b"", "pty": b""}, None
        while True:
            flags, m = self.message()
            if flags == 2:
                return pid, out["stdout"], out["stderr"], m.get("error") or end
            e = m["event"]
            for name, v in e.get("data", {}).items():
                out[name] += base64.b64decode(v)
            end = e.get("end", end)


class Dev:
    def __init__(self, state=None):
        self.dir = tempfile.TemporaryDirectory(prefix="brigd-dev-")
        self.err = tempfile.TemporaryFile()
        self.p = subprocess.Popen([BRIGD, "--dev", "--port", "0"], stdout=subprocess.PIPE, stderr=self.err, text=True,
                                  env={**os.environ, "BRIG_STATE": state or self.dir.name})
        said = dict(re.fullmatch(r"export (\w+)=(\S+)\n", self.p.stdout.readline()).groups() for _ in range(3))
        self.key = said["E2B_API_KEY"]
        self.host = said["E2B_API_URL"].removeprefix("http://")
        self.port = int(self.host.rsplit(":", 1)[1])

    def close(self):
        self.p.terminate()
        rc = self.p.wait(timeout=60)
        self.err.seek(0)
        text = self.err.read().decode()
        self.dir.cleanup()
        eq((rc, text), (0, ""), "brigd's end")

    def connect(self, seconds=60):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=seconds)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def send(self, sock, method, target, fields, body=None, length=True):
        """Exactly these fields, Host before them, Content-Length after them if there is a body."""
        head = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", *(f"{k}: {v}" for k, v in fields)]
        if body is not None and length:
            head.append(f"Content-Length: {len(body)}")
        sock.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + (body or b""))

    def ask(self, method, target, fields=(), body=None, sock=None):
        """One request on a connection of its own, or on sock, which stays open."""
        s = sock or self.connect()
        self.send(s, method, target, fields, body)
        return Reply(s, method == "HEAD")

    def control(self, method, target, body=None):
        r = self.ask(method, target, [("X-API-KEY", self.key), ("Content-Type", "application/json")],
                     json.dumps(body).encode() if body is not None else None)
        data = r.body()
        return r.status, json.loads(data) if data else None

    def create(self, template="base", **more):
        status, b = self.control("POST", "/v2/sandboxes", {"templateID": template, **more})
        eq(status, 201, b)
        return Box(self, b)

    def pids(self):
        """brigd, and all that came of it."""
        return [self.p.pid] + below(self.p.pid)


class Box:
    """A sandbox, and calls to it as the SDKs make them."""

    def __init__(self, dev, made):
        self.dev, self.made, self.id, self.token = dev, made, made["sandboxID"], made["envdAccessToken"]

    def to(self, port=49983, user=None, token=True):
        f = [("E2b-Sandbox-Id", self.id), ("E2b-Sandbox-Port", str(port))]
        if token:
            f.append(("X-Access-Token", self.token))
        if user:
            f.append(("Authorization", "Basic " + base64.b64encode(f"{user}:".encode()).decode()))
        return f

    def rpc(self, method, obj, user=None):
        r = self.dev.ask("POST", "/" + method, self.to(user=user) + [("Content-Type", "application/json")], json.dumps(obj).encode())
        return r.status, r.json()

    def stream(self, method, obj, user=None, fields=()):
        r = self.dev.ask("POST", "/" + method, self.to(user=user) + [("Content-Type", STREAM), *fields], envelope(obj))
        eq((r.status, r.fields["content-type"]), (200, STREAM))
        return r

    def start(self, script, user=None, stdin=False, pty=None, fields=(), **process):
        req = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", script], **process}, "stdin": stdin}
        if pty:
            req["pty"] = {"size": {"cols": pty[0], "rows": pty[1]}}
        return self.stream("process.Process/Start", req, user, fields)

    def run(self, script, **kw):
        """(stdout, stderr, end) of a command."""
        return self.start(script, **kw).command()[1:]

    def get(self, path, fields=()):
        return self.dev.ask("GET", "/files?path=" + quote(path), self.to() + list(fields))

    def put(self, path, data):
        r = self.dev.ask("POST", "/files?path=" + quote(path), self.to() + [("Content-Type", "application/octet-stream")], data)
        return r.status, r.json()

    def kill(self):
        return self.dev.control("DELETE", f"/sandboxes/{self.id}")[0]


def envelope(obj, flags=0):
    data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    return struct.pack(">BI", flags, len(data)) + data


def quote(path):
    import urllib.parse
    return urllib.parse.quote(path, safe="")


def below(pid):
    """Every descendant of a process."""
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        try:
            tids = os.listdir(f"/proc/{p}/task")
        except FileNotFoundError:
            continue
        for t in tids:
            try:
                with open(f"/proc/{p}/task/{t}/children", encoding="ascii") as f:
                    kids = [int(x) for x in f.read().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
            out += kids
            todo += kids
    return out


def named(pids, name):
    """Those with this name (comm)."""
    out = []
    for p in pids:
        try:
            with open(f"/proc/{p}/comm", encoding="ascii") as f:
                if f.read().strip() == name:
                    out.append(p)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return out


def memory_kib(pid):
    """What a process has of its own and of files: VmRSS."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1])
