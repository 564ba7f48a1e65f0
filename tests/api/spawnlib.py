"""The messages of brig-spawn (src/wire/spawnd.h), for tests that speak with a real one."""
import struct

from apilib import ASK, ENDED, LIST, REPLY, START, KILL, FORGET, cstr
from brigtest import eq, ok

TELL = struct.Struct("<IIiIIIi36sQ68s68s256s")


class Tell:
    def __init__(self, p):
        (self.kind, self.seq, self.ret, self.fault, n, self.value, self.pid, sid, self.time_ms, template, tenant,
         why) = TELL.unpack(p[:TELL.size])
        self.id, self.template, self.tenant, self.why = cstr(sid), cstr(template), cstr(tenant), cstr(why)
        self.text = p[TELL.size:].decode()
        eq(len(p) - TELL.size, n, "size of a tell")

    def __repr__(self):
        return repr(vars(self))


class Asker:
    """A connection to brig-spawn."""

    def __init__(self, sock):
        self.sock, self.seq, self.heard, self.ended = sock, 0, {}, {}

    def ask(self, op, sid="", template="", tenant="", timeout_ms=0, egress=0, text=b""):
        self.seq += 1
        self.sock.send(ASK.pack(op, self.seq, len(text), egress, timeout_ms, sid.encode(), template.encode(),
                                tenant.encode()) + text)
        return self.seq

    def take(self, seconds=60):
        self.sock.settimeout(seconds)
        p = self.sock.recv(1 << 17)
        if not p:
            raise EOFError
        t = Tell(p)
        if t.kind == ENDED:
            ok(t.id not in self.ended, f"{t.id} ended twice")
            self.ended[t.id] = t.text
        else:
            self.heard.setdefault(t.seq, []).append(t)

    def reply(self, seq):
        """The answer; of a LIST the entries too."""
        while not (self.heard.get(seq) and self.heard[seq][-1].kind == REPLY):
            self.take()
        return self.heard.pop(seq)

    def do(self, op, *a, **kw):
        return self.reply(self.ask(op, *a, **kw))[-1]

    def start(self, sid, **kw):
        kw = {"template": "base", "tenant": "t1", "timeout_ms": 600000, **kw}
        return self.ask(START, sid, **kw)

    def started(self, sid, **kw):
        t = self.reply(self.start(sid, **kw))[-1]
        eq((t.ret, t.why), (0, ""), f"START {sid}")
        return t

    def list(self):
        entries = self.reply(self.ask(LIST))[:-1]
        eq(len({t.id for t in entries}), len(entries), "ids in a list")
        return {t.id: t for t in entries}

    def wait_end(self, sid):
        while sid not in self.ended:
            self.take()
        return self.ended[sid]

    def end(self, sid):
        """End it and forget it."""
        eq(self.do(KILL, sid).ret, 0, "KILL")
        text = self.wait_end(sid)
        eq(self.do(FORGET, sid).ret, 0, "FORGET")
        return text
