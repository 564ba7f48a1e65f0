#!/usr/bin/python3
"""brig-spawn with real sandboxes, as root and as an ordinary user: what may be asked of it, and that nothing is lost or
left whoever is killed. BRIG_KILLS: kills at random moments per caller (default 20), BRIG_SEED: where they strike."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apilib import ASK, END, EGRESS, FIN, FORGET, KILL, LIST, LIVE, OVER, PING, REQUEST, START, exactly, piece  # noqa: E402
from brigtest import case, eq, main, ok, until  # noqa: E402
import reap  # noqa: E402
from spawnlib import Asker, Tell  # noqa: E402

TEMPLATE, NONE, NARROW, SET = range(4)
INVALID, DENIED, NOT_FOUND, CONFLICT, LIMITED, UNSUPPORTED = 1, 2, 3, 4, 5, 6
KILLS = int(os.environ.get("BRIG_KILLS", "20"))
SEED = int(os.environ.get("BRIG_SEED", str(random.SystemRandom().randrange(1 << 32))))
print(f"# BRIG_SEED={SEED} BRIG_KILLS={KILLS}")


CONFIG = """version: 1
max_sandboxes: 40
max_timeout: 1h
templates:
  base: {profile: %s, alias: [first]}
  rules: {profile: %s}
  any: {profile: %s, egress: any}
  broken: {profile: /nonexistent/profile.yaml}
  timed: {profile: %s}
  proxied: {profile: %s, egress: any}
  trusting: {profile: %s, egress: any}
"""
PROFILE = "version: 1\nmemory: 128M\ndisk: 16M\n"
PROXY = "  proxy: {address: '10.0.0.5:3128', names: %s}\n"
RULES = PROFILE + "egress:\n  version: 1\n  rules:\n  - {host: example.com, ports: 443}\n"


class World:
    """A brig-spawn of this mode."""

    def __init__(self, m, own=False, extra=""):
        self.m, self.own = m, own
        self.sock_path = m.path("spawn.sock")
        self.profiles = [m.put(f"{n}.yaml", t) for n, t in (("base", PROFILE), ("rules", RULES), ("any", RULES),
                                                            ("timed", PROFILE + "timeout: 5s\n"), ("proxied", RULES + PROXY % "gate"),
                                                            ("trusting", RULES + PROXY % "proxy"))]
        self.config = m.put("brigd.yaml", CONFIG % tuple(self.profiles) + extra)
        self.ask, self.p = None, None
        self.up()

    def up(self):
        argv = [os.path.join(self.m.bin, "brig-spawn"), "--config", self.config]
        if self.own:
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.p = self.m.popen(argv + ["--fd", str(far.fileno())], pass_fds=[far.fileno()], stderr=subprocess.PIPE)
            far.close()
        else:
            self.p = self.m.popen(argv + ["--socket", self.sock_path], stderr=subprocess.PIPE)
            near = self.connect()
        self.ask = Asker(near)
        try:
            self.box = self.ask.do(PING).text
        except (ConnectionResetError, EOFError):
            # a child of the one that was killed still had its socket, for a moment
            ok(not self.own, "its own connection was reset")
            near.close()
            self.ask = Asker(self.connect())
            self.box = self.ask.do(PING).text

    def connect(self):
        def once():
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                s.connect(self.sock_path)
                return s
            except OSError:
                s.close()
                ok(self.p.poll() is None, lambda: f"brig-spawn ended: {self.p.stderr.read()!r}")
                return None
        return until(once, 20, "brig-spawn listens")

    def kill(self):
        """As if by accident; a new one is there when this returns."""
        self.p.kill()
        self.p.wait()
        self.p.stderr.close()
        self.ask.sock.close()
        self.up()

    def call(self, sid, target, body=b"", method="GET", kind="application/json"):
        """One call to a keeper: (status, body), or None when it was cut."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(os.path.join(self.box, sid + ".sock"))
        with s:
            head = method.encode() + b"\0" + target.encode() + b"\0"
            if body:
                head += b"content-type\0%s\0content-length\0%d\0" % (kind.encode(), len(body))
            s.sendall(piece(REQUEST, head) + (piece(3, body) if body else b"") + piece(FIN))
            status, out = None, b""
            while True:
                try:
                    what, _, _, n = struct.unpack("<BBHI", exactly(s, 8))
                    p = exactly(s, n)
                except (EOFError, ConnectionResetError):
                    return None
                if what == 2:
                    status = int(p[:3])
                elif what == 3:
                    out += p
                else:
                    return status, out

    def close(self):
        for sid, t in self.ask.list().items():
            if t.value != OVER:
                self.ask.do(KILL, sid)
                self.ask.wait_end(sid)
            self.ask.do(FORGET, sid)
        # a refused start is told before its keeper has gone, and the files go with that
        until(lambda: all(n.startswith(".") for n in os.listdir(self.box)), 20, "files left")
        self.ask.sock.close()
        self.p.terminate()
        eq(self.p.wait(20), 0, "exit code of brig-spawn")
        self.p.stderr.close()


def new_id(n=[0]):
    n[0] += 1
    return f"i{os.getpid():010d}{n[0]:09d}"


@case
def start_call_end(m):
    w = World(m)
    a, sid = w.ask, new_id()
    t = a.started(sid)
    eq(t.id, sid, "id")
    e = a.list()[sid]
    eq((e.value, e.template, e.tenant, e.pid), (LIVE, "base", "t1", t.pid), "entry")
    status, body = w.call(sid, "/control/stat")
    eq((status, json.loads(body)["state"]), (200, "running"), "stat")
    if os.geteuid() == 0 and m.name == "root":
        uid = os.stat(f"/proc/{t.pid}").st_uid
        ok(0x6f800000 <= uid < 0x6fc00000, f"the keeper's uid is {uid}")
    with open(f"/proc/{t.pid}/status", encoding="ascii") as f:
        st = dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
    eq((st["Seccomp"], st["CapEff"].strip("0"), st["NoNewPrivs"], st["Name"]), ("2", "", "1", "brig-keeper"), "its jail")
    eq((a.do(END, sid).fault, a.do(FORGET, sid).fault), (CONFLICT, CONFLICT), "the end of one that lives")
    eq(a.do(KILL, sid).ret, 0, "KILL")
    eq(json.loads(a.wait_end(sid))["how"], "killed", "how")
    eq(a.list()[sid].value, OVER, "state")
    eq(json.loads(a.do(END, sid).text)["how"], "killed", "END")
    eq(a.do(FORGET, sid).ret, 0, "FORGET")
    eq((a.do(END, sid).fault, a.do(FORGET, sid).fault, a.do(KILL, sid).fault), (NOT_FOUND,) * 3, "of none")
    w.close()


@case
def what_cannot_be_started(m):
    w = World(m)
    a, sid = w.ask, new_id()
    a.started(sid, template="first")
    eq(a.list()[sid].template, "base", "an alias")
    for want, kw in ((CONFLICT, {"sid": sid}), (NOT_FOUND, {"template": "nosuch"}), (INVALID, {"timeout_ms": 3600001}),
                     (NOT_FOUND, {"template": "broken"}), (INVALID, {"template": "timed"}),
                     (DENIED, {"egress": SET, "text": b"version: 1\n"}), (INVALID, {"template": "any", "egress": SET, "text": b"x"}),
                     (DENIED, {"template": "rules", "egress": NARROW, "text": b"version: 1\nrules: [{host: a.b, ports: 1}]\n"}),
                     (DENIED, {"template": "any", "egress": SET, "text":
                               b"version: 1\nrules: [{host: a.b, ports: 443, inject: [{header: x, secret: 'file:/etc/shadow'}]}]\n"}),
                     (DENIED, {"template": "any", "egress": SET, "text": b"version: 1\ndns: {resolver: ['127.0.0.1']}\n"}),
                     (DENIED, {"template": "any", "egress": SET, "text":
                               b"version: 1\nrules: [{host: a.b, ports: 1, allow_addrs: [10.0.0.0/8]}]\n"})):
        other = kw.pop("sid", None) or new_id()
        t = a.reply(a.start(other, **kw))[-1]
        eq(t.fault, want, f"{kw}: {t.why!r}")
        ok(t.ret < 0 and t.why, "a reason")
    eq(list(a.list()), [sid], "what is there")
    w.close()


@case
def malformed(m):
    """Each ends its connection and nothing else."""
    w = World(m)
    good = ASK.pack(START, 1, 0, 0, 0, b"i" * 21, b"base", b"t")
    for p in (b"x", good[:-1], good + b"x", ASK.pack(99, 1, 0, 0, 0, b"", b"", b""), ASK.pack(KILL, 1, 0, 0, 0, b"../x", b"", b""),
              ASK.pack(START, 1, 0, 0, 0, b"i" * 36, b"base", b"t"), ASK.pack(START, 1, 5, NARROW, 0, b"i" * 21, b"base", b"t"),
              ASK.pack(LIST, 1, 0, 0, 0, b"i" * 21, b"", b""), b"\xff" * 300, b"y" * 100000):
        s = w.connect()
        s.send(p)
        eq(s.recv(10), b"", f"answer to {p[:20]!r}")
        s.close()
    conns = [w.connect() for _ in range(15)]
    one_more = w.connect()
    eq(one_more.recv(10), b"", "one connection too many")
    conns[0].send(ASK.pack(PING, 7, 0, 0, 0, b"", b"", b""))
    eq(Tell(conns[0].recv(1000)).seq, 7, "PING")
    for s in conns + [one_more]:
        s.close()
    eq(w.ask.list(), {}, "nothing was started")
    w.close()


@case(modes=("root",))
def another_user(m):
    """Neither brig-spawn nor a sandbox's socket speaks with a uid that is nobody here."""
    w = World(m)
    sid = new_id()
    w.ask.started(sid)
    for d in (m.base, m.dir, m.state):
        os.chmod(d, 0o755)
    os.chmod(w.sock_path, 0o777)
    os.chmod(os.path.join(w.box, sid + ".sock"), 0o777)
    code = ("import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2])); s.settimeout(20)\n"
            "s.connect(sys.argv[1])\n"
            "try: print(s.recv(100))\nexcept ConnectionResetError: print(b'')\n")
    for path, kind in ((w.sock_path, "SOCK_SEQPACKET"), (os.path.join(w.box, sid + ".sock"), "SOCK_STREAM")):
        r = subprocess.run([sys.executable, "-c", code, path, kind], user=54321, group=54321, extra_groups=[],
                           stdout=subprocess.PIPE, check=True, timeout=60)
        eq(r.stdout, b"b''\n", f"a stranger at {path}")
    os.chmod(m.dir, 0o700)
    os.chmod(m.state, 0o700)
    w.close()


@case
def many_at_once(m):
    """Twenty START at once are all answered, LIST meanwhile at once; one more than max_sandboxes is refused."""
    w = World(m, extra="")
    a = w.ask
    ids = [new_id() for _ in range(20)]
    seqs = [a.start(sid) for sid in ids]
    eq(len(a.list()), 20, "entries")
    for seq, sid in zip(seqs, ids):
        eq((a.reply(seq)[-1].ret), 0, sid)
    eq({t.value for t in a.list().values()}, {LIVE}, "states")
    for sid in ids:
        a.ask(KILL, sid)
    for sid in ids:
        eq(json.loads(a.wait_end(sid))["how"], "killed", sid)
    w.close()


@case
def deadlines(m):
    """The life span ends a sandbox whether anybody looks or not; it can be moved."""
    w = World(m)
    a, short, moved, kept = w.ask, new_id(), new_id(), new_id()
    a.started(short, timeout_ms=300)
    a.started(moved)
    a.started(kept, timeout_ms=5000)
    late = time.monotonic() + 5.5
    eq(w.call(moved, "/control/timeout", b'{"timeout_ms":300}', "POST"), (204, b""), "moved")
    eq(w.call(kept, "/control/timeout", b'{"timeout_ms":0}', "POST"), (204, b""), "none")
    w.p.kill()  # nobody looks
    w.p.wait()
    for sid in (short, moved):
        until(lambda sid=sid: os.path.getsize(os.path.join(w.box, sid + ".end")) > 0, 30, "an end is written")
    w.p.stderr.close()
    w.up()
    for sid in (short, moved):
        eq(json.loads(w.ask.do(END, sid).text)["how"], "timeout", "how")
    time.sleep(max(0, late - time.monotonic()))
    eq(w.ask.list()[kept].value, LIVE, "one that has none")
    w.close()


@case
def found_again(m):
    """A new brig-spawn serves what an earlier one started."""
    w = World(m)
    live, dead, over = new_id(), new_id(), new_id()
    pid = w.ask.started(live, tenant="ten.ant").pid
    victim = w.ask.started(dead).pid
    w.ask.started(over)
    w.ask.do(KILL, over)
    w.ask.wait_end(over)
    second = m.exec([os.path.join(m.bin, "brig-spawn"), "--config", w.config, "--socket", m.path("other.sock")])
    ok(second.rc == 1 and b"another brig-spawn" in second.err, f"a second one: {second!r}")
    w.p.kill()
    w.p.wait()
    os.kill(victim, signal.SIGKILL)
    w.p.stderr.close()
    w.up()
    now = w.ask.list()
    eq((now[live].value, now[live].pid, now[live].template, now[live].tenant), (LIVE, pid, "base", "ten.ant"), "entry")
    eq((now[dead].value, now[over].value), (OVER, OVER), "states")
    eq(w.ask.do(END, dead).text, "", "the end of one whose keeper was killed")
    eq(json.loads(w.ask.do(END, over).text)["how"], "killed", "END")
    eq(w.call(live, "/control/stat")[0], 200, "stat")
    eq(json.loads(w.ask.end(live))["how"], "killed", "how")
    w.close()


@case
def its_own(m):
    """With --fd, the end of the connection is the end of brig-spawn and of its sandboxes."""
    w = World(m, own=True)
    a = w.ask
    for _ in range(3):
        a.started(new_id())
    a.start(new_id())
    a.sock.close()
    eq(w.p.wait(60), 0, "exit code")
    w.p.stderr.close()
    for n in os.listdir(w.box):
        if n.endswith(".end"):
            os.unlink(os.path.join(w.box, n))
    eq(sorted(n for n in os.listdir(w.box) if not n.startswith(".")), [], "files left")


@case
def what_may_leave(m):
    """Rules of the template, narrowed and chosen ones, as the gate has them."""
    w = World(m)
    a = w.ask
    deny = b"version: 1\ndeny: [{host: evil.example, ports: 1-65535}]\n"
    chosen = b'{"version": 1, "rules": [{"host": "chosen.example", "ports": 443}, {"cidr": "0.0.0.0/0", "ports": 80, "protocol": "tcp"}]}'
    ids = {}
    for name, kw in (("plain", {"template": "rules"}), ("none", {"template": "rules", "egress": NONE}),
                     ("narrow", {"template": "rules", "egress": NARROW, "text": deny}),
                     ("nothing", {"egress": NARROW, "text": deny}),
                     ("set", {"template": "any", "egress": SET, "text": chosen}), ("proxied", {"template": "proxied", "egress": SET, "text": chosen})):
        ids[name] = new_id()
        a.started(ids[name], **kw)
    show = lambda n: m.brig("egress", "show", ids[n])
    eq(show("none").rc, 125, "none has no gate")
    eq(show("nothing").rc, 125, "nothing cannot become more")
    r = show("plain").out
    ok(b"allow example.com:443" in r and b"deny" not in r, r)
    r = show("narrow").out
    ok(b"allow example.com:443" in r and b"deny evil.example" in r, r)
    r = show("set").out
    ok(b"chosen.example" in r and b"example.com" not in r.replace(b"chosen.example", b"") and b"deny 10.0.0.0/8" in r, r)
    ok(b"proxy" not in r, r)
    r = show("proxied").out
    ok(b"proxy address 10.0.0.5:3128\n" in r and b"chosen.example" in r and b"allow example.com" not in r, f"the operator's proxy, the caller's rules: {r}")
    ok(b"\ndeny 10.0.0.5:3128\n" in r, f"which is not theirs to speak to: {r}")
    for text, fault in ((b'{"version": 1, "proxy": {"address": "10.0.0.6:1"}}', DENIED), (b'{"version": 1, "rules": [{"host": "a.b", "ports": 1, "via": "direct"}]}', DENIED)):
        eq(a.reply(a.start(new_id(), template="proxied", egress=SET, text=text))[-1].fault, fault, f"a caller's {text}")
    t = a.reply(a.start(new_id(), template="trusting", egress=SET, text=chosen))[-1]
    ok(t.fault == INVALID and "names: gate" in t.why, f"{t}")
    script = "import socket\ntry: socket.getaddrinfo('denied.example', 443)\nexcept OSError: pass"
    body = json.dumps({"process": {"cmd": "/usr/bin/python3", "args": ["-c", script]}}).encode()
    status, _ = w.call(ids["plain"], "/envd/process.Process/Start", struct.pack(">BI", 0, len(body)) + body, "POST",
                       "application/connect+json")
    eq(status, 200, "a command")
    records = lambda: [json.loads(x) for x in w.call(ids["plain"], "/control/records")[1].splitlines()]
    until(lambda: [r for r in records() if r.get("name") == "denied.example" and r["verdict"] == "deny"], 20,
          lambda: f"a record: {records()}")
    refused = sum(max(1, r.get("suppressed", 0)) for r in records() if r["verdict"] == "deny" and r["event"] != "policy")
    eq(json.loads(w.call(ids["plain"], "/control/denied")[1]), {"denied": refused}, "counted")
    t = a.do(EGRESS, ids["plain"], egress=NARROW, text=deny)
    eq((t.ret, t.why), (0, ""), "EGRESS")
    ok(b"deny evil.example" in show("plain").out, "other rules")
    eq(a.do(EGRESS, ids["plain"], egress=SET, text=chosen).fault, DENIED, "what the template does not say")
    eq(a.do(EGRESS, ids["plain"], egress=NONE).ret, 0, "nothing from now on")
    r = show("plain")
    ok(r.rc == 0 and b"allow" not in r.out, r)
    eq(a.do(EGRESS, ids["plain"]).ret, 0, "the template's again")
    ok(b"allow example.com:443" in show("plain").out, "the rules are back")
    eq(a.do(EGRESS, ids["none"], egress=NONE).ret, 0, "nothing, where nothing was")
    t = a.do(EGRESS, ids["none"])
    ok(t.fault == UNSUPPORTED and "no gate" in t.why, t)
    eq(a.do(EGRESS, new_id(), egress=NONE).fault, NOT_FOUND, "of none")
    end = json.loads(a.end(ids["plain"]))
    ok((end["how"], end["denied"] >= refused > 0) == ("killed", True), f"the end says it, too: {end}, {refused} before")
    w.close()


@case
def other_address_ranges(m):
    """The kernel's set follows the rules, also where the keeper may not change it (as root it is nobody's root): what the new
    ranges hold comes to the gate, what only the old ones held is refused by the kernel. Nothing of it is permitted."""
    w = World(m)
    a, sid, seen = w.ask, new_id(), 0
    rules = lambda net: json.dumps({"version": 1, "rules": [{"cidr": net, "ports": 81}]}).encode()
    a.started(sid, template="any", egress=SET, text=rules("1.0.0.0/24"))
    hosts = ("1.0.0.1", "1.1.1.1", "8.8.4.4")
    script = "import socket\nfor h in %r:\n    s = socket.socket(); s.settimeout(20)\n    try: s.connect((h, 82)); s.recv(1)\n    except OSError: pass" % (hosts,)
    body = json.dumps({"process": {"cmd": "/usr/bin/python3", "args": ["-c", script]}}).encode()
    for turn, inside in enumerate(hosts):
        if turn > 0:
            t = a.do(EGRESS, sid, egress=SET, text=rules(inside[:-1] + "0/24"))
            eq((t.ret, t.why), (0, ""), "EGRESS")
        eq(w.call(sid, "/envd/process.Process/Start", struct.pack(">BI", 0, len(body)) + body, "POST", "application/connect+json")[0], 200, "a command")
        records = lambda: [json.loads(x) for x in w.call(sid, "/control/records")[1].splitlines()][seen:]
        want = {(h, "connect" if h == inside else "packet", "port" if h == inside else "raw_ip") for h in hosts}
        # equal refusals of a minute are one record: what the turn before was told is not told again
        told = lambda: {(r["orig_dst"], r["event"], r["reason"]) for r in records() if r["event"] in ("connect", "packet")}
        fresh = {x for x in want if turn == 0 or x[0] == inside}
        until(lambda: fresh <= told(), 20, lambda: f"turn {turn}: {fresh - told()} of {records()}")
        ok(told() <= want, f"turn {turn}: {told() - want}")
        seen += len(records())
    w.close()


@case
def killed_at_random(m):
    """brig-spawn, keepers, runners and agents die at random moments of starts, lives and ends: afterwards every sandbox that
    was there is told of once, and nothing is left (nothing_left looks at the end)."""
    rnd = random.Random(SEED)
    w = World(m)
    asked = set()
    for _ in range(KILLS):
        live = [t for t in w.ask.list().values() if t.value == LIVE]
        for _ in range(3):
            if len(live) < 8:
                sid = new_id()
                asked.add(sid)
                w.ask.start(sid)
        if live and rnd.random() < 0.5:
            w.ask.ask(KILL, rnd.choice(live).id)
        time.sleep(rnd.random() * 0.1)  # the moment is the random one
        victim = rnd.choice(("spawn", "keeper", "runner", "agent"))
        if victim == "spawn" or not live:
            w.kill()
            continue
        below = [live[0].pid] + reap.below(live[0].pid)
        pick = {"keeper": lambda p: p == live[0].pid, "runner": lambda p: p != live[0].pid and len(reap.ns_pids(p)) == 1,
                "agent": lambda p: reap.ns_pids(p)[-1:] == [1]}[victim]
        for pid in below:
            if pick(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                break
    w.kill()
    for t in w.ask.list().values():
        ok(t.id in asked, f"{t.id} was never asked for")
        if t.value == LIVE:
            try:
                got = w.call(t.id, "/control/stat")
            except OSError:
                got = None
            if got is None:
                w.ask.wait_end(t.id)  # it was on its way out
            else:
                eq(got[0], 200, "one that lives is served")
    w.close()


if __name__ == "__main__":
    sys.exit(main())
