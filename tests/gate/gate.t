#!/usr/bin/python3
"""The gate at work: what passes, what is counted and limited, who is told, and how it is locked in. Against servers and
a resolver in namespaces of the test's own. What it must refuse is in cases.t."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import Skip, case, done, eq, ok, until  # noqa: E402
from gateworld import A, B  # noqa: E402
from published import proved, way  # noqa: E402

W = gateworld.enter()


def gate(m, script, *opts, **kw):
    return gateworld.gate(W, m, script, *opts, **kw)


@case
def an_allowed_name_is_reached(m):
    r, recs, seen = gate(m, "print(tcp('x.allowed.test', 7))")
    eq(r.out, b"b'hello'\n", f"{recs} {r!r}")
    eq([(x["event"], x["verdict"]) for x in recs], [("connect", "allow"), ("close", "allow")], f"{recs}")
    eq(recs[0]["name"], "x.allowed.test", "record")
    eq(recs[0]["dialed"], A, "record")
    eq((recs[1]["bytes_up"], recs[1]["bytes_down"]), (5, 5), "record")
    eq([x for x in seen if "conn" in x], [{"conn": A + ":7"}], "one connection")


@case
def nothing_without_rules_starts_no_gate(m):
    p = m.popen(m.run_argv("--", "sh", "-c", "cat /etc/resolv.conf; echo up; sleep 60"), stdout=subprocess.PIPE)
    lines = list(iter(p.stdout.readline, b"up\n"))
    ok(any(b"127.0.0.1" in x for x in lines), f"{lines}")
    kids = subprocess.run(["ps", "-o", "comm=", "--ppid", str(p.pid)], stdout=subprocess.PIPE, check=False).stdout.split()
    ok(kids and b"brig-gate" not in kids, f"{kids}")
    p.terminate()
    p.wait(20)
    p.stdout.close()


@case
def ranges_are_for_addresses(m):
    recs, _ = gateworld.attempts(W, m, [
        ("in it", f"tcp('{A}', 7)", b"hello", [("connect", "allowed", A + ":7")], [A + ":7"]),
        ("another port", f"tcp('{A}', 80)", "reset", [("connect", "port", A + ":80")]),
        ("outside", f"tcp('{B}', 7)", "refused", [("packet", "raw_ip", B + ":7")]),
        ("a name for an address that is refused", "tcp('x.allowed.test', 9)", "reset", [("connect", "addr_floor", "x.allowed.test:9")], ["?x.allowed.test"]),
    ], rules=("--allow-cidr", f"{A}/32:7", "--allow", "x.allowed.test:9", "--deny", f"{A}/32:9"))
    eq(recs[0]["dst_kind"], "addr", f"{recs}")


@case
def protocols_are_held_to(m):
    gateworld.attempts(W, m, [
        ("SSH", "tcp('git.allowed.test', 22, b'SSH-2.0-me\\r\\n', 12)", b"SSH-2.0-test", [("connect", "allowed", "git.allowed.test:22")],
         ["?git.allowed.test", A + ":22"]),
        ("not SSH", "tcp('git.allowed.test', 22, b'GET / HTTP/1.1\\r\\n', 4)", "reset", [("connect", "proto_mismatch", "git.allowed.test:22")]),
        ("not PostgreSQL", "tcp('api.allowed.test', 5432, b'GET / HTTP/1.1\\r\\n', 4)", "reset", [("connect", "proto_mismatch", "api.allowed.test:5432")],
         ["?api.allowed.test"]),
    ], rules=("--allow", "git.allowed.test:22", "--allow", "api.allowed.test:5432"))


@case
def much_passes_both_ways(m):
    r, recs, _ = gate(m, "import threading, hashlib, os\n"
                      "s = socket.create_connection(('x.allowed.test', 7), 20); s.settimeout(20); d = os.urandom(1 << 20) * 24\n"
                      "threading.Thread(target=lambda: (s.sendall(d), s.shutdown(1))).start()\n"
                      "h = hashlib.sha256(); n = 0\n"
                      "while True:\n    x = s.recv(1 << 16)\n    if not x: break\n    h.update(x); n += len(x)\n"
                      "print(n == len(d), h.digest() == hashlib.sha256(d).digest())")
    eq(r.out, b"True True\n", f"{r!r} {recs}")
    eq(recs[-1]["bytes_up"], 24 << 20, f"{recs}")


@case
def a_peer_that_leaves_takes_nobody_along(m):
    """Connections dropped in the middle of much data, by the program and by the server: the gate serves on."""
    r, _, _ = gate(m, "def drop(port):\n"
                   "    s = socket.create_connection(('x.allowed.test', port), 20); s.sendall(b'9000000 ' if port == 9001 else b'x'); s.recv(1)\n"
                   "    if port == 9002: word(s.sendall)(bytes(1 << 23))\n"
                   "    s.setsockopt(1, 13, struct.pack('ii', 1, 0)); s.close()\n"
                   "for i in range(20): drip = [threading.Thread(target=drop, args=(p,)) for p in (9001, 9002)]; [t.start() for t in drip]; [t.join() for t in drip]\n"
                   "print(tcp('x.allowed.test', 7))", rules=("--allow", "x.allowed.test:7,9001,9002"))
    eq(r.out, b"b'hello'\n", repr(r))


@case
def half_closed_connections(m):
    r, _, _ = gate(m, "ok = 0\nfor i in range(300):\n    s = socket.create_connection(('x.allowed.test', 9000), 20); s.settimeout(20)\n"
                   "    s.sendall(b'abc'); s.shutdown(1); ok += s.recv(9) == b'3'\nprint(ok)",
                   "--egress", m.put("r", gateworld.RULES + "limits: {conn_rate_per_s: 10000, burst: 10000}\n"),
                   rules=("--allow", "x.allowed.test:9000"))
    eq(r.out, b"300\n", repr(r))


@case
def limits_on_connections(m):
    conf = m.put("r", gateworld.RULES + "limits: {max_conns: 5}\nrules: [{host: x.allowed.test, ports: 7}]\n")
    r, recs, _ = gate(m, "l = []\nfor i in range(8):\n    try:\n        s = socket.create_connection(('x.allowed.test', 7), 9); s.settimeout(9); s.sendall(b'x'); l.append(s); print(s.recv(1))\n"
                      "    except OSError as e: print(e.errno)", "--egress", conf, rules=())
    eq(r.out.split(), [b"b'x'"] * 5 + [b"104"] * 3, f"{recs}")
    bad = [x for x in recs if x["verdict"] == "deny"]
    eq([(x["reason"], x.get("suppressed")) for x in bad], [("max_conns", None), ("max_conns", 2)], f"{recs}")


@case
def limits_on_what_passes(m):
    """Bytes of a rule together, silence, life, the rate of new ones, the time to connect: each ends what it is about, and says so."""
    conf = """rules:
  - {id: down, host: x.allowed.test, ports: 9001, limits: {bytes_down: 100000}}
  - {id: up, host: x.allowed.test, ports: 9000, limits: {bytes_up: 100000}}
  - {id: idle, host: x.allowed.test, ports: 5, limits: {idle_s: 1}}
  - {id: life, host: x.allowed.test, ports: 7, limits: {max_conn_s: 1}}
  - {id: rate, host: api.allowed.test, ports: 7, limits: {conn_rate_per_s: 1, burst: 2}}
  - {id: dead, host: dead.allowed.test, ports: 7, limits: {connect_timeout_ms: 300}}
  - {id: silent, host: git.allowed.test, ports: 443, protocol: tls}
"""
    script = r"""
@word
def all_of(port, ask, more=b''):
    s = socket.create_connection(('x.allowed.test', port), 20); s.settimeout(20); s.sendall(ask); n = 0
    try:
        for _ in range(40 if more else 0): s.sendall(more)
        while d := s.recv(1 << 16): n += len(d)
    except OSError as e: return (n, WORD[e.errno])
    return (n, 'ended')
print(all_of(9001, b'1000000 '))
print(all_of(9000, b'x', bytes(1 << 16))[1])
print(all_of(5, b'x'), all_of(7, b'x'))
said = [tcp('api.allowed.test', 7) for _ in range(12)]
print(said.count(b'hello'), said.count('reset'))
print(tcp('dead.allowed.test', 7))
socket.create_connection(('git.allowed.test', 443), 20).close()
"""
    r, recs, seen = gate(m, script, rules=(), lines=conf)
    out = r.out.decode().splitlines()
    n, how = out[0].strip("()").split(", ")
    ok(int(n) <= 100000 and how == "'reset'", f"{out[0]}: {recs}")  # what was on its way is lost with the reset
    eq(out[1:3], ["reset", "(1, 'reset') (1, 'reset')"], f"{recs}")
    good, bad = map(int, out[3].split())
    ok(good >= 2 and bad >= 1 and good + bad == 12, out[3])
    eq(out[4], "reset", f"{recs}")
    ends = {x["rule_id"]: x for x in recs if x["event"] == "close"}
    eq({k: ends[k]["close_reason"] for k in ("down", "up", "idle", "life", "dead")},
       {"down": "bytes_down", "up": "bytes_up", "idle": "idle", "life": "max_conn_s", "dead": "unreachable"}, f"{recs}")
    eq((ends["down"]["bytes_down"], ends["up"]["bytes_up"]), (100000, 100000), "not a byte more")
    no = [x["reason"] for x in recs if x["verdict"] == "deny" for _ in range(x.get("suppressed", 1))]
    eq(sorted(no), ["conn_rate"] * bad + ["hello_missing"], f"{recs}")
    eq(len([x for x in seen if x.get("conn") == A + ":7"]), good + 1, "those that were permitted")


@case
def a_server_that_refuses_at_once(m):
    """It is near: its answer is there before the gate looks for it."""
    r, recs, _ = gate(m, "print(tcp('closed.allowed.test', 7), tcp('closed1st.allowed.test', 7))",
                      rules=("--allow", "closed.allowed.test:7", "--allow", "closed1st.allowed.test:7"))
    eq(r.out, b"reset b'hello'\n", f"{recs}")
    eq([x["close_reason"] for x in recs if x["event"] == "close" and x["name"].startswith("closed.")], ["unreachable"], f"{recs}")


@case
def who_had_the_socket_is_a_hint(m):
    """Of what is refused: TCP, questions, by another user than the first one too; not of what passes."""
    r, recs, _ = gate(m, f"tcp('x.allowed.test', 7); tcp('x.allowed.test', 8); tcp('evil.test', 7); ask_tcp('8.8.8.8', dotted('evil2.test')); tcp('{B}', 7); print(os.getuid())")
    uid = int(r.out)
    eq(sorted((x["event"], x["reason"], x.get("uid_hint", 0)) for x in recs if "suppressed" not in x),
       sorted([("connect", "allowed", 0), ("close", "closed", 0), ("connect", "port", uid), ("dns", "no_rule", uid), ("dns", "no_rule", uid), ("packet", "raw_ip", 0)]), f"{recs}")
    ok(uid != 0, "not the one that means nothing here")
    ok(all(x["src"].rpartition(":")[0] == "198.18.0.2" for x in recs if x["event"] == "dns" and "suppressed" not in x), f"{recs}")


@case
def rules_may_end_the_sandbox(m):
    conf = m.put("r", gateworld.RULES + "on_deny: {kill_task_after: 3}\n")
    r, recs, _ = gate(m, "for i in range(50): tcp('evil.test', 7)\ntime.sleep(60)", "--egress", conf, rc=125)
    ok(b"egress" in r.err and r.ms < 20000, repr(r))


@case
def rules_may_have_it_told_at_once(m):
    """The caller is told while the program runs, and once; -q says nothing; the record has a mark."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf, log = m.put("r", gateworld.RULES + "on_deny: {alert_after: 2}\nrules: [{host: x.allowed.test, ports: 7}]\n"), m.path("log")
    for quiet in ((), ("-q",)):
        p = m.popen(m.run_argv("--egress", conf, "--egress-log", log, "-i", *quiet, "--", "/usr/bin/python3", "-c", gateworld.INSIDE
                               + f"tcp('{B}', 80); tcp('{B}', 443); sys.stdin.readline()"), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        if not quiet:
            line = p.stderr.readline()
            ok(f"blocked tcp {B}:443: raw_ip".encode() in line and p.poll() is None, f"{line}")
        _, err = p.communicate(b"\n", timeout=20)
        eq((p.returncode, b"at once" in err, err == b""), (0, False, bool(quiet)), f"{err}")
    with open(log, encoding="ascii") as f:
        eq([json.loads(x).get("alert") for x in f], [None, True] * 2, "the second of each run")


@case
def records_are_a_chain(m):
    """What was changed, taken out, added or moved is found, by its line; what was cut off, by the last hash that the run told."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    log, conf = m.path("log"), m.put("r", gateworld.RULES)
    for task in ("job-1", "job-2"):
        r = m.py(gateworld.INSIDE + f"tcp('x.allowed.test', 7); tcp('{B}', 80); tcp('{B}', 443)", "--egress", conf, "--egress-log", log, "--task", task,
                 "--json", "--allow", "*.allowed.test:7")
        out = json.loads(r.out)
        eq((out["task"], out["egress"]["records"], out["egress"]["lost"]), (task, 4, 0), f"{out}")
    with open(log, "rb") as f:
        lines = f.readlines()
    recs = [json.loads(x) for x in lines]
    eq([x["task_id"] for x in recs], ["job-1"] * 4 + ["job-2"] * 4, "whose each is")
    ok(all(x["lifecycle_id"] == x["lineage_id"] == x["sandbox_id"] for x in recs) and len({x["lifecycle_id"] for x in recs}) == 2, "ids")

    def verify(lines, *more):
        return m.brig("egress", "verify", m.put("copy", b"".join(lines)), *more)

    def refused(at, lines, *more):
        r = verify(lines, *more)
        ok(r.rc == 125 and r.out == b"" and (b":%d: " % at if at else b"cut off") in r.err, f"line {at}: {r!r}")
    r = done(verify(lines, out["egress"]["head"]))
    eq(r.out.split()[1::3], [b"4", b"4"], f"{r!r}")
    eq([x["head"] for x in json.loads(done(m.brig("egress", "verify", "--json", log)).out)][1], out["egress"]["head"], "the same hash")
    for at in range(8):
        changed = lines[at].replace(b'"verdict":"', b'"verdict": "')
        if at % 4 != 3:  # the last of a chain: see below
            refused(at + 2, lines[:at] + [changed] + lines[at + 1:])
            refused(at + 1, lines[:at] + lines[at + 1:])
            refused(at + 1, lines[:at] + [lines[at + 1], lines[at]] + lines[at + 2:])
        refused(at + 2, lines[:at + 1] + lines[at:])
        refused(at + 1, lines[:at] + [lines[at][:-1] + b"\0\n"] + lines[at + 1:])
    eq(verify(lines[:-1]).rc, 0, "cut off cannot be seen without the hash")
    refused(0, lines[:-1], out["egress"]["head"])
    refused(0, lines[:-1] + [lines[-1].replace(b'"verdict":"', b'"verdict": "')], out["egress"]["head"])
    refused(9, lines + [b"{}\n"])
    refused(9, lines + [b"x" * 100000])
    eq(verify([lines[0], lines[4], lines[1], lines[5]]).rc, 0, "chains of two sandboxes may be mixed")
    for bad in ("", "a b", "x" * 65, "a\"b", "\x1b[2J"):
        r = m.run("--task", bad, "--", "true")
        ok(r.rc == 125 and b"--task" in r.err and b"\x1b" not in r.err, f"{bad!r}: {r!r}")


@case
@way(19)
def killed_gate_ends_the_sandbox(m):
    """Connections are reset, nothing passes, and the caller is told."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf = m.put("rules", gateworld.RULES)
    W.take()
    p = m.popen(m.run_argv("--egress", conf, "--allow", "*.allowed.test:7", "--", "/usr/bin/python3", "-u", "-c",
                           gateworld.INSIDE + "print(tcp('x.allowed.test', 7))\na = socket.gethostbyname('x.allowed.test')\nc = socket.create_connection((a, 7)); c.settimeout(60)\n"
                           "print('held')\nprint(word(c.recv)(1))\nfor i in range(100): print(tcp(a, 7)); time.sleep(0.1)"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eq((p.stdout.readline(), p.stdout.readline()), (b"b'hello'\n", b"held\n"), "works")
    kids = subprocess.run(["pgrep", "-P", str(p.pid), "brig-gate"], stdout=subprocess.PIPE, check=False).stdout.split()
    eq(len(kids), 1, "one gate")
    W.until(A + ":7", 2)  # inside the second is open before the gate has taken it
    os.kill(int(kids[0]), 9)
    out, err = p.communicate(timeout=20)
    ok(p.returncode == 125 and b"gate" in err, f"{p.returncode} {err}")
    eq((set(out.split()) <= {b"reset", b"refused", b"noname", b"timeout"}, W.take()), (True, []), f"nothing passed: {out}")
    proved(verdict=None, reason="sandbox ended", records=0, upstream=())


@case
def what_a_short_command_tried_is_told(m):
    """All of it, also what still waits when it ends: nothing hides behind much else."""
    for _ in range(3):
        log = m.path("log")
        r = m.run("--allow", "example.com:443", "--egress-log", log, "--", "bash", "-c",
                  "for i in {1..60}; do exec {f}<>/dev/tcp/198.18.1.0/443; done; exec 3<>/dev/tcp/198.18.1.0/444")
        done(r)
        with open(log, encoding="ascii") as f:
            recs = [json.loads(x) for x in f]
        count = {p: sum(x.get("suppressed", 1) for x in recs if x["verdict"] == "deny" and x["dst_port"] == p) for p in (443, 444)}
        eq(count, {443: 60, 444: 1}, f"{recs}")
        os.unlink(log)


@case
def a_gate_that_does_not_start_ends_the_sandbox(m):
    """It is started when it is asked the first thing, by a command that runs already: who asks gets no answer."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    W.take()
    conf = m.put("rules", gateworld.RULES)
    gate = os.path.join(m.bin, "brig-gate")
    os.rename(gate, gate + ".gone")
    try:
        with open(gate, "wb") as f:
            f.write(b"no program")
        os.chmod(gate, 0o755)
        r = m.py(gateworld.INSIDE + "print('runs', flush=True); print(tcp('x.allowed.test', 7), flush=True); time.sleep(60)", "--egress", conf,
                 "--allow", "*.allowed.test:7", timeout=30)
    finally:
        os.rename(gate + ".gone", gate)
    ok(r.rc == 125 and b"gate" in r.err and b"hello" not in r.out, f"{r!r}")
    eq(W.take(), [], "nothing arrived")


@case
def the_gate_is_locked_in(m):
    if W is None:
        raise Skip("namespaces for the servers need root")
    p = m.popen(m.run_argv("--allow", "x.allowed.test:7", "--", "sleep", "60"), stdout=subprocess.PIPE)

    def gate_pid():
        return subprocess.run(["pgrep", "-P", str(p.pid), "brig-gate"], stdout=subprocess.PIPE, check=False).stdout.split()

    def status():
        pids = gate_pid()
        if not pids:
            return None
        with open(f"/proc/{int(pids[0])}/status", encoding="ascii") as f:
            s = dict(x.rstrip("\n").split(":\t", 1) for x in f if ":\t" in x)
        return s if s["Seccomp"] == "2" else None
    s = until(status, 20, "the gate's filter")
    eq((s["CapPrm"].strip("0"), s["CapEff"].strip("0"), s["NoNewPrivs"]), ("", "", "1"), "no privilege")
    ok(s["Uid"].split()[0] != "0", s["Uid"])
    p.terminate()
    p.wait(20)
    p.stdout.close()


@case
def wrong_rules_are_refused(m):
    for word, opt in (("x.test", "--allow"), ("*:443", "--allow"), ("*.com:443", "--allow"), ("a.*.b:1", "--allow"), ("x.test:0", "--allow"),
                      ("x.test:99999", "--allow"), ("x.test:1/foo", "--allow"), ("10.0.0.0/8:1", "--allow"), ("x.test:1", "--allow-cidr"),
                      ("10.0.0.1/8:1", "--allow-cidr"), ("a\nb:1", "--allow")):
        r = m.sh("echo ran", opt, word)
        ok(r.rc == 125 and r.out == b"" and r.err.count(b"\n") == 1, f"{word}: {r!r}")


@case
def the_summary_and_the_object(m):
    r, _, _ = gate(m, f"tcp('evil.test', 7); tcp('{B}', 443)")
    ok(b"blocked" in r.err and b"evil.test" in r.err and f"{B}:443".encode() in r.err, repr(r))
    r, _, _ = gate(m, f"tcp('evil.test', 7); tcp('{B}', 443)", "-q")
    eq(r.err, b"", "quiet")
    r, _, _ = gate(m, f"tcp('x.allowed.test', 7); tcp('{B}', 443)", "--json")
    e = json.loads(r.out)["egress"]
    eq((e["allowed"], e["denied"], e["blocked"][0]["reason"]), (1, 1, "raw_ip"), f"{e}")


sys.exit(gateworld.run(__file__, W))
