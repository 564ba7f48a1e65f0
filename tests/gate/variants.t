#!/usr/bin/python3
"""The gate's network where it is not the usual one: a machine behind a TAP interface (a namespace plays it, see
tests/tools/gate_guest.c), by both ways, and kernels that lack a part. The container's second way is tried in cases.t."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402
from gateworld import A, B  # noqa: E402

W = gateworld.enter()

# A guest is root of its own kernel and has no resolver library set up for it: it asks by itself.
GUEST = gateworld.INSIDE + r"""
def sh(cmd): return subprocess.run(cmd, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20).stdout.decode().strip()
def named(host, port, **kw):
    a = ask(dotted(host)).split()
    return tcp(a[2], port, **kw) if len(a) > 2 else 'noname'
def checksum(b):
    b += b'\0' * (len(b) % 2); n = sum(struct.unpack('>%dH' % (len(b) // 2), b)); n = (n >> 16) + (n & 0xffff)
    return ~(n + (n >> 16)) & 0xffff
@word
def spoofed(src, host, port):
    s = socket.socket(); s.settimeout(0.3); s.setsockopt(0, 19, 1); s.bind((src, 0)); s.connect((host, port)); return 'connected'
@word
def midstream(host, port):
    # one segment of a connection that nobody knows; what comes back
    a, b = socket.inet_aton('172.31.255.2'), socket.inet_aton(host)
    head = struct.pack('>HHIIBBHHH', 40000, port, 7, 9, 5 << 4, 0x18, 1000, 0, 0)
    sum_ = checksum(a + b + struct.pack('>BBH', 0, 6, len(head)) + head)
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 6); s.settimeout(10)
    s.sendto(head[:16] + struct.pack('>H', sum_) + head[18:], (host, 0))
    while True:
        p, who = s.recvfrom(2000); t = p[(p[0] & 15) * 4:]
        if who[0] == host and t[2:4] == struct.pack('>H', 40000): return 'reset' if t[13] & 4 else 'flags %x' % t[13]
@word
def ping(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); s.settimeout(10)
    echo = struct.pack('>BBHHH', 8, 0, 0, 77, 1); s.sendto(echo[:2] + struct.pack('>H', checksum(echo)) + echo[4:], (host, 0))
    while True:
        t = s.recvfrom(2000)[0][20:]
        if t[0] != 8: return 'type %d code %d' % (t[0], t[1])
@word
def over_v6(host, port):
    s = socket.socket(socket.AF_INET6); s.settimeout(0.3); s.connect((host, port)); return 'connected'
@word
def other_protocol(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 47); s.settimeout(10); s.setsockopt(0, 11, 1); s.connect((host, 0)); s.send(bytes(20)); return s.recv(9)
"""


def guest(m, way, rows, rules):
    """Like gateworld.attempts, of a guest."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    rules, log = m.put("rules", f"resolver {gateworld.RESOLVER}\n{rules}"), m.path("log")
    W.take()
    script = "for title, try_it in (\n" + "".join(f"  ({t!r}, lambda: {e}),\n" for t, e, *_ in rows) + "): print(title + '\\t' + str(try_it()), flush=True)\n"
    r = done(m.exec([m.tool("gate_guest"), way, rules, log, "/usr/bin/python3", "-c", GUEST + script]))
    with open(log, encoding="ascii") as f:
        recs = [json.loads(x) for x in f]
    gateworld.compare(rows, r, recs, W.take())
    return recs


ROWS = [
    ("an allowed name", "named('x.allowed.test', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], ["?x.allowed.test", A + ":7"]),
    ("much", "len(named('x.allowed.test', 9001, send=b'3000000 ', n=1))", 1, [("connect", "allowed", "x.allowed.test:9001")], ["?x.allowed.test", A + ":9001"]),
    ("another name", "named('evil.test', 7)", "noname", [("dns", "no_rule", "evil.test")]),
    ("another port", "named('x.allowed.test', 443)", "reset", [("connect", "port", "x.allowed.test:443")]),
    ("an inner address", "named('below0.allowed.test', 7)", "reset", [("connect", "addr_floor", "below0.allowed.test:7")], ["?below0.allowed.test"]),
    ("another resolver", "ask(dotted('x.allowed.test'), to='8.8.8.8')", "0 1 198.18.1.0", []),
    ("names over TCP", "ask_tcp('9.9.9.9', dotted('x.allowed.test'))", "0 1 198.18.1.0", []),
    ("an address", f"tcp('{B}', 7)", "refused", [("packet", "raw_ip", B + ":7")]),
    ("a range", f"tcp('{A}', 80, b'GET / HTTP/1.0\\r\\n\\r\\n', 4)", b"HTTP", [("connect", "allowed", A + ":80")], [A + ":80"]),
    ("the gateway", "tcp('172.31.255.1', 7)", "refused", [("packet", "raw_ip", "172.31.255.1:7")]),
    ("the namespace's own address", "tcp('198.18.0.2', 7)", "reset", [("connect", "self", "198.18.0.2:7")]),
    ("UDP", "udp('8.8.8.8', 443)", "unreach", [("packet", "transport", "8.8.8.8:443")]),
    ("ICMP", "ping('8.8.8.8')", "type 3 code 13", [("packet", "transport", "8.8.8.8:0")]),
    ("ICMP to the gateway", "ping('172.31.255.1')", "type 3 code 13", [("packet", "transport", "172.31.255.1:0")]),
    ("GRE", "other_protocol('8.8.8.8')", "unreach", [("packet", "transport", "8.8.8.8:0")]),
    ("a segment of an older life", "midstream('198.18.1.0', 7)", "reset", []),
    ("the same to an address", f"midstream('{B}', 7)", "reset", [("packet", "raw_ip", B + ":7")]),
    ("somebody else's address", "spoofed('10.9.9.9', '198.18.1.0', 7)", "timeout", [("packet", "raw_ip", "198.18.1.0:7")]),
    ("the gateway's address", "spoofed('172.31.255.1', '198.18.1.0', 8)", "timeout", [("packet", "raw_ip", "198.18.1.0:8")]),
    ("a made-up address", "spoofed('198.18.1.0', '198.18.1.1', 8)", "timeout", [("packet", "raw_ip", "198.18.1.1:8")]),
    ("IPv6", "(sh('ip -6 addr add 2001:db8::2/64 dev eth0 nodad; ip -6 route add default dev eth0'), over_v6('2001:db8::1', 7))", ("", "timeout"), []),
    ("the gateway's MAC", "'02:62:72:69:67:01' in sh('ip neigh show 172.31.255.1')", "True", []),
]
RULES = f"allow *.allowed.test:7\nallow x.allowed.test:9001\nrange {A}/32:80\n"


@case(modes=("root",))
def a_guest_behind_tproxy(m):
    guest(m, "tproxy", ROWS, RULES)


@case(modes=("root",))
def a_guest_behind_redirect(m):
    guest(m, "redirect", ROWS, RULES)


@case
def check_says_what_is_missing(m):
    def rows(*before):
        top = json.loads(m.exec([*before, m.brig_path, "check", "--json"]).out)
        return {x["what"]: x for t in top["tiers"] if t["tier"] == "container" for x in t["findings"]}
    have = rows()
    eq((have["gate (--allow)"]["level"], have["gate (--allow)"]["state"]), ("ok", "by nft tproxy"), f"{have}")
    ok(all(have[x]["level"] == "ok" for x in ("nf_tables", "nft reject", "nft log and limit", "nft tproxy", "nft redirect", "IPv6")), f"{have}")
    lacking = rows(sys.executable, os.path.join(os.path.dirname(gateworld.__file__), "lacking.py"), "netfilter")
    eq(lacking["gate (--allow)"]["level"], "note", f"{lacking}")
    ok("nf_tables" in lacking["nf_tables"]["fix"] and "refused" in lacking["gate (--allow)"]["fix"], f"{lacking}")


RC = main()
if W is not None:
    W.end()
sys.exit(RC)
