"""Drives build/tests/multi_exec: one sandbox, several streams, events as dictionaries."""
import json
import os
import re
import select
import subprocess
import time

from brigtest import ROOT, TIER, ok
import reap


def field_numbers():
    """Numbers of the message fields, from the table the program is built from."""
    with open(os.path.join(ROOT, "src", "wire", "request_fields.def"), encoding="ascii") as f:
        return {int(nr): (name, kind) for name, nr, kind in re.findall(r"^FIELD\((\w+),\s*(\d+),\s*(\w+)", f.read(), re.M)}


FIELDS = field_numbers()
WATCH = {1: "create", 2: "write", 3: "remove", 4: "rename", 5: "chmod", 6: "overflow"}


def records(data):
    """Decode the records of a channel: u32 length, then {u16 number, u16 0, u32 length, bytes}."""
    out = []
    while len(data) >= 4:
        n = int.from_bytes(data[:4], "little")
        if len(data) < 4 + n:
            break
        body, data, rec = data[4:4 + n], data[4 + n:], {}
        while body:
            nr, size = int.from_bytes(body[:2], "little"), int.from_bytes(body[4:8], "little")
            name, kind = FIELDS[nr]
            v = body[8:8 + size]
            v = int.from_bytes(v, "little") if kind == "U64" else v
            if name == "VALUE":
                rec.setdefault(name, []).append(v)
            else:
                rec[name] = v
            body = body[8 + size:]
        out.append(rec)
    return out


class Multi:
    """with Multi(mode, **start options) as s: ..."""

    def __init__(self, m, **start):
        self.start, self.state = start, m.state
        self.p = m.popen([m.tool("multi_exec")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.raw = b""
        self.events = []
        self.out = {}  # id -> {chan: bytes}
        self.next = 2  # leaf 1 was made with the sandbox

    def __enter__(self):
        self.send("start", tier=TIER, **self.start)
        e = self.wait(lambda e: e["ev"] == "start", 10)
        ok(e["rc"] == 0, f"start: {e}")
        reap.remember(self.state)  # so that nothing_left knows its cgroup folders
        return self

    def __exit__(self, *exc):
        self.p.stdin.close()
        try:
            self.p.wait(timeout=20)
        finally:
            self.p.stdout.close()
            if self.p.poll() is None:
                self.p.kill()
                self.p.wait()

    def send(self, op, **args):
        self.p.stdin.write(json.dumps({"op": op, **args}).encode() + b"\n")
        self.p.stdin.flush()

    def pump(self, seconds):
        """Take in events for at most so long; True when something came."""
        if not select.select([self.p.stdout], [], [], max(0, seconds))[0]:
            return False
        d = os.read(self.p.stdout.fileno(), 1 << 20)
        ok(d, f"multi_exec ended: {self.p.poll()}")
        self.raw += d
        *lines, self.raw = self.raw.split(b"\n")
        for line in lines:
            e = json.loads(line)
            if e["ev"] == "data":
                chans = self.out.setdefault(e["id"], {0: b"", 1: b"", 2: b""})
                chans[e["chan"]] += bytes.fromhex(e["hex"])
            else:
                self.events.append(e)
        return True

    def wait(self, match, seconds, what=""):
        """The first event that matches, taken out of the list."""
        end = time.monotonic() + seconds
        while True:
            for i, e in enumerate(self.events):
                if match(e):
                    return self.events.pop(i)
            left = end - time.monotonic()
            ok(left > 0, lambda: f"no event {what} in {seconds} s; have {self.events[-12:]} out={ {k: v[1][-200:] for k, v in self.out.items()} }")
            self.pump(left)

    def output(self, sid, wanted, seconds=20, chan=1):
        """Wait until the output of a stream has these bytes."""
        end = time.monotonic() + seconds
        while wanted not in self.out.get(sid, {}).get(chan, b""):
            left = end - time.monotonic()
            ok(left > 0, lambda: f"stream {sid} did not say {wanted!r}: {self.out.get(sid)} {self.events[-8:]}")
            self.pump(left)

    def open(self, kind, **args):
        sid = self.next
        self.next += 1
        self.send("open", id=sid, kind=kind, **args)
        e = self.wait(lambda e: e["ev"] == "open" and e["id"] == sid, 20, "open")
        ok(e["rc"] == 0, f"open {kind} {args}: {e}")
        return sid

    def exec(self, *argv, **args):
        return self.open("EXEC", argv=list(argv), **args)

    def sh(self, script, **args):
        return self.exec("/bin/sh", "-c", script, **args)

    def result(self, sid, seconds=20):
        return self.wait(lambda e: e["ev"] == "result" and e["id"] == sid, seconds, f"result of {sid}")

    def run(self, script, seconds=20, **args):
        """A command to its end: (result, stdout)."""
        sid = self.sh(script, **args)
        r = self.result(sid, seconds)
        return r, self.out.get(sid, {1: b""})[1]

    def ask(self, kind, seconds=20, **args):
        """A file or session request to its end: (result, records or bytes)."""
        sid = self.open(kind, **args)
        r = self.result(sid, seconds)
        return r, self.out.get(sid, {1: b""})[1]
