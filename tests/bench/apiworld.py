"""Where the benchmark of the API happens: a brigd of its own, lean clients that speak HTTP/1.1 over sockets, and what is beside it.

A client keeps its connection, as the SDKs' do, and reads answers of known length or in chunks. It does nothing else: what it
sees is brigd's time and some ten microseconds of its own."""
import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.environ.get("BRIG_OUT", os.path.join(ROOT, "build"))
BRIGD = os.path.join(OUT, "brigd")
TEMPLATE = "code-interpreter-v1"
ENVD, CODE = 49983, 49999


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


class Failed(Exception):
    pass


class Client:
    """One connection."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.room = b"", memoryview(bytearray(1 << 18))  # a new one for each read is mapped and given back

    def close(self):
        self.sock.close()

    def more(self):
        n = self.sock.recv_into(self.room)
        if n == 0:
            raise Failed("the connection was closed")
        self.data += self.room[:n]

    def send(self, method, path, fields, body=None):
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        if body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        self.sock.sendall(head.encode() + b"\r\n" + (body or b""))

    def head(self):
        while (end := self.data.find(b"\r\n\r\n")) < 0:
            self.more()
        lines, self.data = self.data[:end].decode("latin1").split("\r\n"), self.data[end + 4:]
        fields = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
        return int(lines[0].split()[1]), fields

    def body(self, fields):
        if "content-length" in fields:
            n = int(fields["content-length"])
            while len(self.data) < n:
                self.more()
            out, self.data = self.data[:n], self.data[n:]
            return out
        if fields.get("transfer-encoding") != "chunked":
            return b""
        out = []
        while True:
            while (at := self.data.find(b"\r\n")) < 0:
                self.more()
            n = int(self.data[:at], 16)
            while len(self.data) < at + n + 4:
                self.more()
            out.append(self.data[at + 2:at + 2 + n])
            self.data = self.data[at + n + 4:]
            if n == 0:
                return b"".join(out)

    def ask(self, method, path, fields, body=None, want=(200, 201, 204)):
        self.send(method, path, fields, body)
        status, got = self.head()
        text = self.body(got)
        if status not in want:
            raise Failed(f"{method} {path}: {status} {text[:300]!r}")
        return text


class Box:
    """One sandbox and a connection of its own."""

    def __init__(self, d):
        self.d, self.c = d, Client(d.port)

    def create(self, template=TEMPLATE):
        made = json.loads(self.c.ask("POST", "/v2/sandboxes", self.d.keyed, json.dumps({"templateID": template, "timeout": 900}).encode()))
        self.id, self.token = made["sandboxID"], made.get("envdAccessToken", "")

    def at(self, port, **more):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": port, "X-Access-Token": self.token, **more}

    def run_code(self, code="1+1", want='"text":"2"'):
        out = self.c.ask("POST", "/execute", self.at(CODE, **{"Content-Type": "application/json"}), json.dumps({"code": code}).encode())
        if want not in out.decode():
            raise Failed(f"runCode: {out[:300]!r}")

    def exec(self, cmd, *args):
        """process.Process/Start, all of its answer."""
        body = json.dumps({"process": {"cmd": cmd, "args": args}, "stdin": False}).encode()
        out = self.c.ask("POST", "/process.Process/Start", self.at(ENVD, **{
            "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1", "Authorization": "Basic " + base64.b64encode(b"user:").decode()}),
            b"\0" + struct.pack(">I", len(body)) + body)
        if b'"exited":true' not in out:
            raise Failed(f"Start: {out[:300]!r}")

    def kill(self):
        self.c.ask("DELETE", f"/sandboxes/{self.id}", self.d.keyed)

    def close(self):
        self.c.close()


PROFILE = "version: 1\nmemory: 4G\ndisk: 2G\n"
CONFIG = """version: 1
listen: 127.0.0.1:{port}
state: {dir}/state
spawn: {dir}/spawn.sock
max_sandboxes: 1200
templates:
  base: {{image: {image}, pool: {bases}}}
  code-interpreter-v1: {{image: {image}, code: true, pool: {pool}}}
  large: {{image: {image}, profile: {dir}/large.yaml}}
"""


class Daemon:
    """A brig-spawn and a brigd. All of it ends with this process: brig-spawn and its sandboxes by the end of a socket."""

    def __init__(self, image, pool=0, bases=0):
        self.dir = tempfile.mkdtemp(prefix="api-bench-")
        self.err = open(os.path.join(self.dir, "err"), "w+b")  # pylint: disable=consider-using-with
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        config = os.path.join(self.dir, "brigd.yaml")
        for name, text in (("large.yaml", PROFILE), ("brigd.yaml", CONFIG.format(port=self.port, dir=self.dir, image=image, pool=pool, bases=bases))):
            with open(os.path.join(self.dir, name), "w", encoding="ascii") as f:
                f.write(text)
        self.hold, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.spawn = subprocess.Popen([os.path.join(OUT, "brig-spawn"), "--config", config, "--fd", str(far.fileno()), "--socket", f"{self.dir}/spawn.sock",
                                       "--box", f"{self.dir}/box"], pass_fds=[far.fileno()], stderr=self.err)
        far.close()
        self.p = subprocess.Popen([BRIGD, "--config", config], stdout=subprocess.PIPE, stderr=self.err, text=True,
                                  preexec_fn=dies_with_us)  # pylint: disable=subprocess-popen-preexec-fn
        if "listening" not in self.p.stdout.readline():
            raise Failed(f"brigd did not start: {self.said()}")
        key = subprocess.run([BRIGD, "--config", config, "key", "create", "--scopes", "read,write,metrics"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.strip()
        self.keyed = {"X-API-KEY": key}
        self.env = {"E2B_API_KEY": key, "E2B_API_URL": f"http://127.0.0.1:{self.port}", "E2B_SANDBOX_URL": f"http://127.0.0.1:{self.port}"}
        self.until(lambda m: m["brig_spawn_connected"] == 1, "brig-spawn is there", 30)

    def said(self):
        self.err.seek(0)
        return self.err.read().decode()

    def metrics(self):
        """name{labels} -> value"""
        c, out = Client(self.port), {}
        for line in c.ask("GET", "/metrics", self.keyed).decode().splitlines():
            if not line.startswith("#"):
                name, v = line.rsplit(" ", 1)
                out[name] = float(v)
        c.close()
        return out

    def until(self, fn, what, seconds=300):
        end = time.monotonic() + seconds
        while not fn(self.metrics()):
            if time.monotonic() > end:
                raise Failed(f"not within {seconds} s: {what}: {self.said()}")
            time.sleep(0.05)

    def pooled(self, n):
        self.until(lambda m: m["brig_sandboxes_ready"] >= n, f"{n} wait in the pool")

    def close(self):
        self.p.terminate()
        rc = self.p.wait(timeout=60)
        self.hold.close()
        self.spawn.wait(timeout=120)
        said = self.said()
        self.err.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        if rc != 0:
            raise Failed(f"brigd ended with {rc}: {said}")


def pss(pid):
    """KiB of memory of a process."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit("a library")
