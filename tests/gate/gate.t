#!/usr/bin/python3
"""The gate: what a sandbox may reach and what not, with the one record of each decision, and what reached the other
side. Against servers and a resolver in namespaces of the test's own."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import Skip, case, done, eq, main, ok, until  # noqa: E402
from gateworld import A, B  # noqa: E402

W = gateworld.enter()
RULES = ["--allow", "api.allowed.test:443,7", "--allow", "*.allowed.test:7", "--allow", "api.allowed.test:80"]

TRY = """
import socket, sys, time
def tcp(host, port, send=b'hello', n=5):
    t = time.monotonic()
    try:
        s = socket.create_connection((host, port), 20); s.settimeout(20)
        s.sendall(send); d = s.recv(n)
        return repr(d) if d else 'end'
    except socket.timeout: return 'timeout'
    except socket.gaierror as e: return 'noname'
    except OSError as e: return {104: 'reset', 111: 'refused', 32: 'reset', 113: 'unreach', 13: 'unreach'}.get(e.errno, str(e))
"""


def gate(m, script, *opts, rules=("--allow", "*.allowed.test:7"), rc=0):
    """One run behind the gate: its result, its records, what the other side saw."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf = m.put("rules", f"resolver {gateworld.RESOLVER}\n")
    log = m.path("log")
    W.take()
    r = m.py(TRY + script, "--egress", conf, "--egress-log", log, *rules, *opts)
    if rc is not None:
        done(r, rc)
    with open(log, encoding="ascii") as f:
        recs = [json.loads(x) for x in f]
    eq([x["seq"] for x in recs], list(range(len(recs))), "no record is missing")
    return r, recs, W.take()


def refused(m, script, reason, *, rules=("--allow", "*.allowed.test:7"), says=None, queries=False, event=None):
    """The script is denied: one record with the reason, and nothing arrives."""
    r, recs, seen = gate(m, script, rules=rules)
    bad = [x for x in recs if x["verdict"] == "deny"]
    ok(bad and all(x["reason"] == reason for x in bad), lambda: f"want {reason}: {recs} {r!r}")
    if event:
        eq([x["event"] for x in bad], [event], f"the one record: {recs}")
    ok(not [x for x in seen if "query" not in x], lambda: f"reached: {seen}")
    if not queries:
        eq(seen, [], "no packet and no question")
    if says:
        eq("\n".join(x.strip() for x in r.out.decode().strip().split("\n")), says, f"{recs}")
    return recs


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
    r = done(m.py("print(open('/etc/resolv.conf').read())"))
    ok(b"127.0.0.1" in r.out, repr(r))


@case
def c02_case_and_dot_fold(m):
    r, recs, _ = gate(m, "print(tcp('X.Allowed.Test.', 7))")
    eq(r.out, b"b'hello'\n", f"{recs}")
    eq(recs[0]["name"], "x.allowed.test", "one form")
    refused(m, "print(tcp('X.Allowed.Test.', 7))", "deny_rule", says="noname",
            rules=("--allow", "*.allowed.test:7", "--deny", "x.allowed.test:7"))


DNS = """
import struct
def ask(raw, qtype=1, to='198.18.0.1', more=b'', count=1, cls=1):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.connect((to, 53))
    s.send(b'\\x12\\x34\\x01\\0' + struct.pack('>HHHH', count, 0, 0, 1 if more else 0) + raw + struct.pack('>HH', qtype, cls) + more)
    d = s.recv(2000)
    return d[3] & 15, struct.unpack('>H', d[6:8])[0], '.'.join(map(str, d[-4:])) if d[7] else ''
def name(*labels): return b''.join(bytes([len(x)]) + x for x in labels) + b'\\0'
"""


@case
def c01_c04_bad_names_are_not_looked_up(m):
    refused(m, DNS + "for l in (b'evil.test\\0', b'a.b', b'a b', b'a%41', b'a/b', b'a\\\\b', b'a@b', b'a:b', b'\\xd0\\xb0pi', b'a\\x7f', b'-a'):\n"
            "    print(*ask(name(l, b'allowed', b'test')))", "bad_name", says="\n".join(["3 0"] * 11))
    refused(m, DNS + "print(*ask(name(b'localhost')))\nprint(*ask(name(b'a', b'123')))\nprint(*ask(name(b'a', b'0x7f')))", "bad_name")


@case
def c03_labels_not_suffixes(m):
    refused(m, "for n in ('notallowed.test', 'allowed.test.evil.test', 'xallowed.test', 'allowed.test', 'a.b.allowed.test'):\n"
            "    print(tcp(n, 7))", "no_rule", says="\n".join(["noname"] * 5))
    r, _, _ = gate(m, "print(tcp('a.b.allowed.test', 7), tcp('x.allowed.test', 7))", rules=("--allow", "**.allowed.test:7"))
    eq(r.out, b"b'hello' b'hello'\n", "many labels")


@case
def c05_c06_c07_addresses_below_the_floor(m):
    for n in ("meta", "lo", "priv", "cgnat", "zero", "multi", "synth", "host", "mapped", "nat64", "sixto4", "teredo", "compat"):
        recs = refused(m, f"print(tcp('{n}.allowed.test', 7))", "addr_floor", says="reset", queries=True, event="connect")
        ok(recs[-1]["resolved"], f"the address is recorded: {recs}")


@case
def c06_private_only_where_the_rule_says_so(m):
    r, recs, _ = gate(m, "print(tcp('priv.allowed.test', 7))", rules=("--allow", "priv.allowed.test:7@10.20.0.0/16"))
    eq(r.out, b"b'hello'\n", f"{recs}")
    refused(m, "print(tcp('meta.allowed.test', 7))", "addr_floor", queries=True,
            rules=("--allow", "meta.allowed.test:7@169.254.0.0/16"))


@case
def c08_one_resolution_serves_check_and_dial(m):
    _, recs, seen = gate(m, "print(tcp('x.allowed.test', 7))")
    eq(sorted(x["type"] for x in seen if "query" in x), [1, 28], f"{seen}")
    _, recs, seen = gate(m, "print(tcp('mixed.allowed.test', 7))")
    eq(recs[0]["dialed"], A, f"{recs}")


@case
def c09_shared_addresses_help_nobody(m):
    refused(m, f"tcp('{A}', 7) == 'refused' and print('refused')", "raw_ip", says="refused", event="packet")
    r, recs, seen = gate(m, f"print(tcp('x.allowed.test', 7), tcp('{A}', 7))")
    eq(r.out, b"b'hello' refused\n", f"{recs}")
    eq(len([x for x in seen if "conn" in x]), 1, f"{seen}")


@case
def c10_a_name_in_hosts_is_no_name(m):
    refused(m, f"import ssl\nc = ssl.create_default_context(); c.check_hostname = False\n"
            f"try: c.wrap_socket(socket.create_connection(('{B}', 443), 9), server_hostname='api.allowed.test')\n"
            f"except OSError as e: print(e.errno)", "raw_ip", rules=RULES, says="111", event="packet")


HELLO = """
import ssl
def hello(sni):
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    o = c.wrap_bio(a, b, server_hostname=sni)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return b.read()
def records(h, n):
    body = h[5:]
    return b''.join(b'\\x16\\x03\\x01' + len(body[i:i + n]).to_bytes(2, 'big') + body[i:i + n] for i in range(0, len(body), n))
def drip(host, data):
    s = socket.create_connection((host, 443), 20); s.setsockopt(6, 1, 1); s.settimeout(20)
    try:
        for i in range(0, len(data)): s.sendall(data[i:i + 1])
        return s.recv(1)
    except OSError as e: return e.errno
"""


@case
def c12_split_hellos_are_judged_the_same(m):
    tls = ("--allow", "api.allowed.test:443/tls")
    r, recs, _ = gate(m, HELLO + "h = hello('api.allowed.test')\n"
                      "print(tcp('api.allowed.test', 443, h, 1), tcp('api.allowed.test', 443, records(h, 100), 1), "
                      "tcp('api.allowed.test', 443, records(h, 1), 1), drip('api.allowed.test', h))", rules=tls)
    eq(r.out, b"b'\\x16' b'\\x16' b'\\x16' b'\\x16'\n", f"{recs}")
    for prog in ("h", "records(h, 7)"):
        refused(m, HELLO + f"h = hello('evil.test')\nprint(tcp('api.allowed.test', 443, {prog}, 1))", "sni_mismatch",
                rules=tls, says="reset", event="connect")
    refused(m, HELLO + "h = hello(None)\nprint(tcp('api.allowed.test', 443, h, 1))", "sni_missing", rules=tls, event="connect")
    refused(m, "print(tcp('api.allowed.test', 443, b'\\x16\\x03\\x01\\x40\\0' + b'\\x01\\x01\\0\\0' + bytes(70000), 1))",
            "hello_unparsable", rules=tls, event="connect")
    refused(m, "print(tcp('api.allowed.test', 443, b'GET / HTTP/1.1\\r\\n\\r\\n', 1))", "hello_unparsable", rules=tls, event="connect")


@case
def c14_c15_only_the_listed_port(m):
    for port in (80, 443, 8080, 5432, 65535):
        refused(m, f"print(tcp('x.allowed.test', {port}))", "port", says="reset", event="connect")


@case
def c17_no_way_depends_on_variables(m):
    r, recs, seen = gate(m, "import subprocess\nprint(subprocess.run(['curl', '-sS', '-m', '10', '--noproxy', '*', 'http://evil.test/']).returncode)")
    eq(r.out, b"6\n", f"{recs}")
    eq(seen, [], "nothing")


@case
def c19_empty_rules_deny_all(m):
    conf = m.put("rules", "# nothing\n")
    r = done(m.py(TRY + f"print(tcp('x.allowed.test', 7), tcp('{A}', 7))", "--egress", conf))
    eq(r.out, b"noname refused\n", repr(r))


@case
def c19_without_its_program_nothing_starts(m):
    os.rename(os.path.join(m.bin, "brig-gate"), os.path.join(m.bin, "gone"))
    try:
        r = m.sh("echo ran", "--allow", "x.allowed.test:7")
        ok(r.rc == 125 and b"ran" not in r.out and b"brig-gate" in r.err, repr(r))
    finally:
        os.rename(os.path.join(m.bin, "gone"), os.path.join(m.bin, "brig-gate"))


@case
def c20_dns_carries_nothing_out(m):
    refused(m, DNS + "print(*ask(name(b'x' * 60, b'evil', b'test'), to='8.8.8.8'))\nprint(*ask(name(b'a', b'evil', b'test'), 16, '8.8.8.8'))",
            "no_rule", says="3 0\n3 0")
    refused(m, DNS + "print(*ask(name(b'x' * 40, b'allowed', b'test')))", "dns_label", says="3 0", event="dns")
    refused(m, DNS + "for i in range(70): r = ask(name(b'n%d' % i, b'allowed', b'test'))\nprint(*r)", "dns_budget", says="3 0")
    refused(m, DNS + "print(*ask(name(b'x', b'allowed', b'test'), 252))\nprint(*ask(name(b'x', b'allowed', b'test'), 12))", "dns_type")
    r, recs, seen = gate(m, DNS + "n = name(b'x', b'allowed', b'test')\nfor t in (28, 16, 15, 33, 64, 65, 255): print(*ask(n, t))\n"
                         "print(*ask(n, 1, '8.8.8.8', b'\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\0'))\nprint(*ask(n, 1, count=2))")
    eq([x.strip() for x in r.out.decode().split("\n")[:9]], ["0 0"] * 7 + ["0 1 198.18.1.0", "1 0"], f"{recs}")
    eq((recs, seen), ([], []), "names alone reach nothing")


@case
def c20_dns_over_tcp(m):
    r, recs, seen = gate(m, DNS + "import struct\ns = socket.create_connection(('8.8.8.8', 53), 9)\n"
                         "q = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + name(b'x', b'allowed', b'test') + b'\\0\\1\\0\\1'\n"
                         "s.sendall(struct.pack('>H', len(q)) + q + struct.pack('>H', len(q)) + q)\n"
                         "f = s.makefile('rb')\nfor _ in 'ab': n = struct.unpack('>H', f.read(2))[0]; print(f.read(n)[-4:])")
    eq(r.out, b"b'\\xc6\\x12\\x01\\x00'\n" * 2, f"{recs}")
    eq(seen, [], "nothing")


@case
def c25_c30_no_way_to_the_host(m):
    refused(m, "print(tcp('10.0.2.2', 7), tcp('10.99.0.1', 7), tcp('169.254.169.254', 80))", "raw_ip", says="refused refused refused")
    refused(m, "print(tcp('127.0.0.1', 99), tcp('198.18.0.2', 99))", "self", says="reset reset")
    refused(m, "print(tcp('198.18.77.7', 7))", "no_mapping", says="reset", event="connect")


@case
def c28_a_cname_is_trusted_and_gains_nothing(m):
    r, recs, _ = gate(m, "print(tcp('cname.allowed.test', 7), tcp('elsewhere.other.test', 7))")
    eq(r.out, b"b'hello' noname\n", f"{recs}")
    ok("elsewhere.other.test" in recs[0]["cname_chain"], f"{recs}")


@case
def other_transports_fail_fast(m):
    r, recs, seen = gate(m, "import time\nt = time.monotonic()\n"
                         "for f, a in ((socket.AF_INET, ('8.8.8.8', 443)), (socket.AF_INET6, ('2001:4860:4860::8888', 443))):\n"
                         "    s = socket.socket(f, socket.SOCK_DGRAM); s.settimeout(5)\n"
                         "    try: s.connect(a); s.send(b'x'); s.recv(1)\n    except socket.timeout: print('timeout')\n    except OSError as e: print('err')\n"
                         "try: socket.create_connection(('2001:4860:4860::8888', 443), 5)\nexcept OSError as e: print(e.errno)\n"
                         "print(time.monotonic() - t < 2)")
    eq(r.out, b"err\nerr\n111\nTrue\n", f"{recs}")
    eq(sorted((x["transport"], x["reason"]) for x in recs), [("tcp", "raw_ip"), ("udp", "transport"), ("udp", "transport")], f"{recs}")
    eq(seen, [], "nothing")


@case
def ranges_are_for_addresses(m):
    r, recs, _ = gate(m, f"print(tcp('{A}', 7), tcp('{A}', 80), tcp('{B}', 7))", rules=("--allow-cidr", f"{A}/32:7"))
    eq(r.out, b"b'hello' reset refused\n", f"{recs}")
    eq(recs[0]["dst_kind"], "addr", f"{recs}")
    refused(m, "print(tcp('169.254.169.254', 80))", "addr_floor", rules=("--allow-cidr", "169.254.0.0/16:80"), says="reset")
    refused(m, f"print(tcp('x.allowed.test', 7))", "addr_floor", queries=True,
            rules=("--allow", "*.allowed.test:7", "--deny", f"{A}/32:1-65535"))


@case
def protocols_are_held_to(m):
    web = ("--allow", "api.allowed.test:80/http")
    good = "GET / HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n"
    r, recs, seen = gate(m, f"print(tcp('api.allowed.test', 80, b'{good.format('API.allowed.test:80')}', 4))", rules=web)
    eq(r.out, b"b'HTTP'\n", f"{recs}")
    for req, why in ((good.format("evil.test"), "host_mismatch"), ("GET http://evil.test/ HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n\\r\\n", "http_unparsable"),
                     ("GET / HTTP/1.1\\r\\nHost: api.allowed.test\\r\\nHost: evil.test\\r\\n\\r\\n", "http_unparsable"),
                     ("CONNECT evil.test:443 HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n\\r\\n", "http_unparsable"),
                     ("GET / HTTP/1.1\\nHost: api.allowed.test\\r\\n\\r\\n", "http_unparsable"),
                     ("GET / HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n x\\r\\n\\r\\n", "http_unparsable"),
                     ("GET / HTTP/1.1\\r\\nHost: api.allowed.test\\0evil.test\\r\\n\\r\\n", "http_unparsable")):
        refused(m, f"print(tcp('api.allowed.test', 80, b'{req}', 4))", why, rules=web, says="reset", event="connect")
    ssh = ("--allow", "git.allowed.test:22")
    r, recs, _ = gate(m, "print(tcp('git.allowed.test', 22, b'SSH-2.0-me\\r\\n', 12))", rules=ssh)
    eq(r.out, b"b'SSH-2.0-test'\n", f"{recs}")
    refused(m, "print(tcp('git.allowed.test', 22, b'GET / HTTP/1.1\\r\\n', 4))", "proto_mismatch", rules=ssh, says="reset", event="connect")


@case
def real_clients_need_no_proxy(m):
    r, recs, seen = gate(m, "import subprocess, urllib.request, ssl\n"
                         "print(subprocess.run(['curl', '-sS', '-m', '10', 'http://api.allowed.test/a'], capture_output=True).stdout)\n"
                         "print(subprocess.run(['curl', '-ksS', '-m', '10', 'https://api.allowed.test/b'], capture_output=True).stdout)\n"
                         "print(urllib.request.urlopen('https://api.allowed.test/c', timeout=10, context=ssl._create_unverified_context()).read())\n"
                         "js = \"fetch('http://api.allowed.test/d').then(r => r.text()).then(t => console.log(t.trim()), e => console.log('failed'))\"\n"
                         "print(subprocess.run(['node', '-e', js], capture_output=True).stdout)\n"
                         "print(subprocess.run(['node', '-e', js.replace('api.allowed', 'api.evil')], capture_output=True).stdout)\n"
                         "print(subprocess.run(['git', '-c', 'http.sslVerify=false', 'ls-remote', 'https://api.allowed.test/r'], capture_output=True).returncode)\n"
                         "print(b'resolve host' in subprocess.run(['git', 'ls-remote', 'https://evil.test/r'], capture_output=True).stderr)",
                         rules=RULES)
    eq(r.out, b"b'ok\\n'\nb'ok\\n'\nb'ok\\n'\nb'ok\\n'\nb'failed\\n'\n128\nTrue\n", f"{r!r} {recs}")
    eq([x["http"].split()[1] for x in seen if "http" in x], ["/a", "/b", "/c", "/d", "/r/info/refs?service=git-upload-pack"], f"{seen}")


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
def half_closed_connections(m):
    r, _, _ = gate(m, "ok = 0\nfor i in range(300):\n    s = socket.create_connection(('x.allowed.test', 9000), 20); s.settimeout(20)\n"
                   "    s.sendall(b'abc'); s.shutdown(1); ok += s.recv(9) == b'3'\nprint(ok)",
                   "--egress", m.put("r", f"resolver {gateworld.RESOLVER}\nlimit conn_rate_per_s 10000\nlimit burst 10000\n"),
                   rules=("--allow", "x.allowed.test:9000"))
    eq(r.out, b"300\n", repr(r))


@case
def limits_on_connections(m):
    conf = m.put("r", f"resolver {gateworld.RESOLVER}\nlimit max_conns 5\nallow x.allowed.test:7\n")
    r, recs, _ = gate(m, "l = []\nfor i in range(8):\n    try:\n        s = socket.create_connection(('x.allowed.test', 7), 9); s.settimeout(9); s.sendall(b'x'); l.append(s); print(s.recv(1))\n"
                      "    except OSError as e: print(e.errno)", "--egress", conf, rules=())
    eq(r.out.split(), [b"b'x'"] * 5 + [b"104"] * 3, f"{recs}")
    bad = [x for x in recs if x["verdict"] == "deny"]
    eq([(x["reason"], x.get("suppressed")) for x in bad], [("max_conns", None), ("max_conns", 2)], f"{recs}")


@case
def rules_may_end_the_sandbox(m):
    conf = m.put("r", f"resolver {gateworld.RESOLVER}\nlimit kill_after 3\n")
    r, recs, _ = gate(m, "for i in range(50): tcp('evil.test', 7)\ntime.sleep(60)", "--egress", conf, rc=125)
    ok(b"egress" in r.err and r.ms < 20000, repr(r))


@case
def killed_gate_ends_the_sandbox(m):
    """Connections are reset, nothing passes, and the caller is told."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf = m.put("rules", f"resolver {gateworld.RESOLVER}\n")
    p = m.popen(m.run_argv("--egress", conf, "--allow", "*.allowed.test:7", "--", "/usr/bin/python3", "-u", "-c",
                           TRY + "print(tcp('x.allowed.test', 7)); time.sleep(60)"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eq(p.stdout.readline(), b"b'hello'\n", "works")
    kids = subprocess.run(["pgrep", "-P", str(p.pid), "brig-gate"], stdout=subprocess.PIPE, check=False).stdout.split()
    eq(len(kids), 1, "one gate")
    os.kill(int(kids[0]), 9)
    _, err = p.communicate(timeout=20)
    ok(p.returncode == 125 and b"gate" in err, f"{p.returncode} {err}")


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
    s = until(status, 10, "the gate's filter")
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


RC = main()
if W is not None:
    W.end()
sys.exit(RC)
