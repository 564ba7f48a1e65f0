"""A brigd and a brig-spawn of their own with real sandboxes, for tests that kill them: no stand-in anywhere.

As root, brigd runs as an ordinary user of its own and brig-spawn as root, as they are installed; as an ordinary user both are
his. brigd listens on a unix socket, so that it can come back to the same place whatever else this host does."""
import base64
import http.client
import json
import os
import re
import shutil
import socket
import sqlite3
import struct
import subprocess

import reap
from apilib import BRIGD, FORGET, OVER
from brigtest import USER_ID, eq, ok, until
from spawnlib import Asker

PROFILE = "version: 1\nmemory: 128M\ndisk: 16M\n"
CONFIG = """version: 1
listen: unix:{dir}/http.sock
state: {dir}/state
spawn: {dir}/spawn.sock
user: "{uid}"
max_sandboxes: 40
max_timeout: 1h
templates:
  base: {{profile: {dir}/base.yaml}}
  warm: {{profile: {dir}/base.yaml, pool: {pool}}}
"""
# what a client sees of a server that was killed
CUT = (OSError, EOFError, http.client.HTTPException)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("brigd", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class RealWorld:
    def __init__(self, m, pool=2, tenants=("acme", "rival")):
        self.m, self.pool = m, pool
        self.uid = m.uid or USER_ID
        self.dir = os.path.join(m.base, "world")
        self.box = os.path.join(self.dir, "box")
        for d, mode, uid in ((self.dir, 0o755, m.uid), (self.box, 0o711, m.uid), (os.path.join(self.dir, "state"), 0o700, self.uid)):
            os.mkdir(d)
            os.chmod(d, mode)
            os.chown(d, uid, uid)
        if self.uid != m.uid:
            os.chmod(self.dir, 0o777)  # brigd makes its socket there
        for name, text in (("base.yaml", PROFILE), ("brigd.yaml", CONFIG.format(dir=self.dir, uid=self.uid, pool=pool))):
            with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
                f.write(text)
        self.config = os.path.join(self.dir, "brigd.yaml")
        self.brigd_path = os.path.join(m.bin, "brigd")
        if not os.path.exists(self.brigd_path):
            shutil.copy(BRIGD, self.brigd_path)
            os.chmod(self.brigd_path, 0o755)
        self.brigd = self.spawn = self.ask = None
        self.said = open(os.path.join(m.base, "said"), "w+b")  # what both complain of
        self.start_spawn()
        self.start_brigd()
        self.keys = {t: self.make_key("--tenant", t) for t in tenants}

    # ---- processes ----

    def popen(self, argv, uid, **kw):
        ids = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
        p = subprocess.Popen(argv, env=self.m.env(), cwd="/", stdin=subprocess.DEVNULL, stderr=self.said, **ids, **kw)
        reap.owned(p)
        return p

    def complaints(self):
        with open(self.said.name, "rb") as f:
            return f.read()[-3000:].decode(errors="replace")

    def start_spawn(self):
        self.spawn = self.popen([os.path.join(self.m.bin, "brig-spawn"), "--config", self.config, "--box", self.box], self.m.uid)

        def once():
            ok(self.spawn.poll() is None, lambda: f"brig-spawn ended: {self.complaints()}")
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                s.connect(os.path.join(self.dir, "spawn.sock"))
                a = Asker(s)
                a.list()
                return a
            except CUT:  # not yet, or a child of the one that was killed still had its socket
                s.close()
                return None
        self.ask = until(once, 30, "brig-spawn answers")

    def kill_spawn(self):
        self.spawn.kill()
        self.spawn.wait()
        self.ask.sock.close()

    def start_brigd(self):
        self.brigd = self.popen([self.brigd_path, "--config", self.config], self.uid, stdout=subprocess.PIPE)
        line = self.brigd.stdout.readline()
        ok(b"listening" in line, lambda: f"brigd did not start: {line!r} {self.complaints()}")

    def kill_brigd(self):
        self.brigd.kill()
        self.brigd.wait()
        self.brigd.stdout.close()

    def make_key(self, *words):
        p = self.popen([self.brigd_path, "--config", self.config, "key", "create", *words], self.uid, stdout=subprocess.PIPE)
        out = p.communicate(timeout=60)[0].decode().strip()
        eq(p.returncode, 0, f"key create: {self.complaints()}")
        return out

    def close(self):
        self.brigd.terminate()
        eq(self.brigd.wait(60), 0, f"exit code of brigd: {self.complaints()}")
        self.brigd.stdout.close()
        until(lambda: all(t.value == OVER for t in self.entries().values()), 60, lambda: f"sandboxes left: {self.entries()}")
        for i in self.entries():  # those of the pool, which the next brigd would forget
            eq(self.ask.do(FORGET, i).ret, 0, "FORGET")
        eq(self.files(), set(), "files left")
        self.ask.sock.close()
        self.spawn.terminate()
        eq(self.spawn.wait(60), 0, f"exit code of brig-spawn: {self.complaints()}")
        self.said.close()

    # ---- HTTP ----

    def http(self, method, path, body=None, headers=None, timeout=60):
        c = UnixConnection(os.path.join(self.dir, "http.sock"), timeout)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def api(self, tenant, method, path, body=None):
        s, h, b = self.http(method, path, None if body is None else json.dumps(body), {"X-API-KEY": self.keys[tenant]})
        return s, h, json.loads(b) if b else None

    def in_box(self, box, method, path, body=None, port=49983, **headers):
        return self.http(method, path, body, {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": str(port),
                                              "X-Access-Token": box["envdAccessToken"],
                                              **{k.replace("_", "-"): v for k, v in headers.items()}})

    def run(self, box, *argv):
        """A command: (status, stdout, end) with end None when the stream was cut or refused."""
        body = json.dumps({"process": {"cmd": argv[0], "args": list(argv[1:])}, "stdin": False}).encode()
        s, _, b = self.in_box(box, "POST", "/process.Process/Start", struct.pack(">BI", 0, len(body)) + body,
                              Content_Type="application/connect+json", Connect_Protocol_Version="1")
        out, end = b"", None
        while s == 200 and len(b) >= 5:
            n = struct.unpack(">I", b[1:5])[0]
            e = json.loads(b[5:5 + n]).get("event", {})
            out += base64.b64decode(e.get("data", {}).get("stdout", ""))
            end = e.get("end", end)
            b = b[5 + n:]
        return s, out, end

    def listed(self):
        """What brigd says lives: id -> (tenant, entry)."""
        out = {}
        for tenant in self.keys:
            token = ""
            while True:
                s, h, page = self.api(tenant, "GET", f"/v2/sandboxes?limit=7&nextToken={token}")
                eq(s, 200, "list")
                for e in page:
                    ok(e["sandboxID"] not in out, lambda e=e: f"{e['sandboxID']} is listed twice")
                    out[e["sandboxID"]] = (tenant, e)
                token = h.get("X-Next-Token", "")
                if not token:
                    break
        return out

    # ---- what is there ----

    def entries(self):
        """What brig-spawn says, without those that were forgotten."""
        return self.ask.list()

    def rows(self, statement):
        """Of brigd's store, read beside it."""
        with sqlite3.connect(f"file:{self.dir}/state/brigd.db?mode=ro", uri=True, timeout=30) as db:
            return db.execute(statement).fetchall()

    def files(self):
        return {n for n in os.listdir(self.box) if not n.startswith(".")}

    def processes(self):
        """Names of all processes below us, sandboxes' own as `inside`, with how many."""
        out = {}
        for pid in reap.descendants():
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                    name = f.read().strip()
            except OSError:
                continue
            ids = reap.ns_pids(pid)
            if len(ids) > 1:
                name = "init" if ids[-1] == 1 else "inside"
            out[name] = out.get(name, 0) + 1
        return out

    def record_ids(self):
        return reap.remember(self.m.state)

    def cgroup_ids(self):
        """Ids of cgroup folders that are of sandboxes of ours, now or ever."""
        ours = reap.seen.get(self.m.state, set())
        return {i for c in reap.brig_cgroups() for i in re.findall(r"i[0-9a-z]{20}", c) if i in ours}
