#!/usr/bin/python3
"""Rules replaced while a sandbox runs: at once for everything, or not at all; who may, and what is left of a broken try."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import case, eq, ok, until  # noqa: E402
from gateworld import A, B  # noqa: E402
from published import proved, way  # noqa: E402

W = gateworld.enter()
HEAD = f"version: 1\ndns: {{resolver: [{gateworld.RESOLVER}]}}\nlimits: {{conn_rate_per_s: 10000, burst: 10000}}\nrules:\n"


def rules(m, *rows):
    return m.put("rules", HEAD + "".join(f"  - {{{r}}}\n" for r in rows))


class Inside(gateworld.Inside):
    def __init__(self, m, *rows):
        super().__init__(W, m, rules(m, *rows), code="keep = {}\ndef still(c):\n    c.settimeout(20)\n    try: return c.recv(1)\n"
                         "    except ConnectionResetError: return 'reset'\n")
        self.id = m.brig("egress", "list").out.decode().strip()
        ok(len(self.id) == 20, f"one sandbox has a door: {self.id!r}")

    def set(self, *rows):
        r = self.m.brig("egress", "set", "--json", self.id, rules(self.m, *rows))
        eq(r.rc, 0, repr(r))
        return json.loads(r.out)["policy_gen"]

    def raw(self, text, kind=2, user=None):
        """The answer of the door to a text that brig itself would refuse: errno and words."""
        code = (f"import socket, struct\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.settimeout(20)\n"
                f"s.connect({os.path.join(self.m.state, 'egress', self.id)!r})\ntry: s.send(struct.pack('II', {kind}, {len(text)}) + {text!r})\n"
                f"except BrokenPipeError: pass\nd = s.recv(1 << 18)\nprint(struct.unpack('I', d[:4])[0], d[16:].decode())")
        kw = {"user": user, "group": user, "extra_groups": []} if user else self.m.ids()
        return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, **kw)


X7 = "host: '*.allowed.test', ports: 7"
OPEN = "keep.setdefault({0}, socket.create_connection(({1!r}, {2}), 20)) and 1"


@case
@way(18)
def new_rules_hold_for_everything_at_once(m):
    if W is not None:
        W.take()
    s = Inside(m, X7, f"cidr: {A}/32, ports: 7")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "permitted at first")
    eq(s.say(OPEN.format(1, "x.allowed.test", 7)), "1", "held")
    eq(s.say(OPEN.format(2, A, 7)), "1", "held")
    seen = W.until(A + ":7", 3)  # inside they are open before the gate has taken them
    eq(s.set("host: api.allowed.test, ports: 7", f"cidr: {B}/32, ports: 7"), 2, "the generation")
    for k in (1, 2):
        eq(s.say(f"still(keep[{k}])"), "reset", "what is permitted no more is closed")
    eq(s.say("tcp('x.allowed.test', 7)"), "noname", "the name is gone")
    eq(s.say("tcp('api.allowed.test', 7)"), "b'hello'", "another came")
    eq(s.say(f"tcp({B!r}, 7)"), "b'hello'", "the kernel leads the new range")
    eq(s.say(f"tcp({A!r}, 7)"), "refused", "and not the old one")
    recs = s.end()
    eq([(x["event"], x["verdict"], x["reason"]) for x in recs if x["event"] == "policy"], [("policy", "allow", "replaced")], f"{recs}")
    eq(len([x for x in recs if x.get("close_reason") == "policy"]), 2, f"the two that were held: {recs}")
    eq({x["policy_gen"] for x in recs}, {1, 2}, "generations")
    gateworld.prove(recs, seen + W.take(), verdict="deny", reason={"no_rule", "raw_ip"}, records=2,
                    upstream=["?x.allowed.test", "?api.allowed.test", *[A + ":7"] * 4, B + ":7"])


@case
def what_is_permitted_still_goes_on(m):
    s = Inside(m, "host: x.allowed.test, ports: 9001")
    n = 24 << 20
    eq(s.say(f"keep.setdefault(1, socket.create_connection(('x.allowed.test', 9001), 20)).sendall(b'{n} ')"), "None", "asked for")
    # a socket with a timeout does not block, and MSG_WAITALL then means nothing
    eq(s.say("(keep[1].settimeout(None), len(keep[1].recv(1 << 16, socket.MSG_WAITALL)))[1]"), str(1 << 16), "begun")
    eq(s.set("id: other, host: x.allowed.test, ports: 9001-9002, protocol: tcp"), 2, "in the middle")
    rest = n - (1 << 16)
    eq(s.say(f"sum(iter(lambda: len(keep[1].recv(1 << 20)), 0))"), str(rest), "all of it")
    s.say("keep.clear()")
    until(lambda: any(x["event"] == "close" and x["close_reason"] == "ended" for x in s.records()), 20, lambda: s.records())
    s.end()


@case
@way(18)
def broken_rules_leave_the_old_ones(m):
    if W is not None:
        W.take()
    s = Inside(m, X7)
    before = m.brig("egress", "show", s.id).out
    bad = m.put("bad", HEAD + "  - {host: x.test, prots: 7}\n")
    r = m.brig("egress", "set", s.id, bad)
    ok(r.rc == 125 and b"prots" in r.err, repr(r))
    for text in (b"nonsense", b"allow x.test:99999", b"allow *.com\0:1", b"dns pool4 10.0.0.0/8\nallow x.test:1",
                 b"proxy address 10.0.0.5:3128\nproxy credentials env:NO_SUCH_VARIABLE\nnonsense"):
        r = s.raw(text)
        ok(r.stdout.startswith(b"22 "), f"{text}: {r}")
    ok(s.raw(b"allow x.test:1\nlocal 203.0.113.9:80@127.0.0.1").stdout.startswith(b"1 "), "a rule of brig's own tools")
    ok(s.raw(b"x", kind=9).stdout.startswith(b"71 "), "an unknown question")
    eq(m.brig("egress", "show", s.id).out, before, "the rules in force")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "go on")
    recs = s.end()
    bad = [x for x in recs if x["event"] == "policy"]
    ok(bad and all((x["verdict"], x["reason"], x["policy_gen"]) == ("deny", "policy_invalid", 1) for x in bad), f"{recs}")
    gateworld.prove(recs, W.take(), verdict="deny", reason="policy_invalid", records=4,  # the zero byte and `local` are refused at the door
                    upstream=["?x.allowed.test", A + ":7"])


@case
def many_at_once_are_taken_one_by_one(m):
    s = Inside(m, X7)
    files = [rules(m, X7, f"host: n{i}.test, ports: 1") for i in range(8)]
    ps = [m.popen([m.brig_path, "egress", "set", "--json", s.id, f], stdout=subprocess.PIPE) for f in files]
    gens = sorted(json.loads(p.communicate(timeout=30)[0])["policy_gen"] for p in ps)
    eq(gens, list(range(2, 10)), "each has its own generation")
    shown = json.loads(m.brig("egress", "show", "--json", s.id).out)
    ok(shown["policy_gen"] == 9 and shown["rules"].count("allow n") == 1, f"one of them whole: {shown}")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "and it works")
    s.end()


@case
def others_may_not(m):
    s = Inside(m, X7)
    other = 4242
    ok(b"PermissionError" in s.raw(b"allow x.test:1", user=other).stderr, "the folder is closed")
    d = os.path.join(m.state, "egress")
    for p, mode in ((m.base, 0o755), (m.state, 0o711), (d, 0o711), (os.path.join(d, s.id), 0o666)):
        os.chmod(p, mode)
    r = s.raw(b"allow x.test:1", user=other)
    ok(r.stdout.startswith(b"1 "), f"and who knocks is asked: {r}")
    os.chmod(d, 0o700)
    if m.uid:  # root may do what the user may
        r = subprocess.run([m.brig_path, "egress", "show", s.id], env=m.env(), capture_output=True, check=False)
        ok(r.returncode == 0 and b"allowed.test" in r.stdout, f"{r}")
    r = m.brig("egress", "show", "0" * 20)
    ok(r.rc == 125 and b"no sandbox" in r.err, repr(r))
    s.end()
    eq((m.brig("egress", "list").out, os.listdir(d)), (b"", []), "the door goes with the sandbox")


@case
def a_door_whose_brig_was_killed_is_removed(m):
    s = Inside(m, X7)
    s.p.kill()
    s.p.wait(20)
    ok(os.listdir(os.path.join(m.state, "egress")), "left behind")
    eq(m.brig("egress", "list").out, b"", "nobody answers")
    eq(os.listdir(os.path.join(m.state, "egress")), [], "removed")
    s.p.stdin.close()
    s.p.stdout.close()


sys.exit(gateworld.run(__file__, W))
