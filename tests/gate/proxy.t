#!/usr/bin/python3
"""The operator's proxy on the way out: what is permitted goes through it, to the address that was judged, and what is not is
never said to it. Nobody inside chooses it; what it answers is believed only as far as it is plain."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import case, done, eq, ok  # noqa: E402
from gateworld import A, B, BELOW, ODD_ANSWERS, PRIVATE, PROXIES, PROXY  # noqa: E402
from published import way  # noqa: E402

W = gateworld.enter()
META, LO = BELOW.index("169.254.169.254"), BELOW.index("127.0.0.1")


def by(kind, more=""):
    """Lines of a file of rules: this proxy."""
    return f"proxy: {{address: '{PROXY}:{PROXIES[kind]}'{more}}}\n"


def through(kind, to, name=None, more=""):
    """What the other side sees of one tunnel to a server of address A: the proxy connected to and asked, the server reached."""
    port = to.rpartition(":")[2]
    return ([f"?{name}"] if name else []) + [f"{PROXY}:{PROXIES[kind]}", f"{kind} CONNECT {to}{more}", f"proxied {A}:{port}"]


DENIED = [
    ("another name", "tcp('evil.test', 7)", "noname", [("dns", "no_rule", "evil.test")]),
    ("a denied name", "tcp('bad.allowed.test', 7)", "noname", [("dns", "deny_rule", "bad.allowed.test")]),
    ("another port", "tcp('x.allowed.test', 9)", "reset", [("connect", "port", "x.allowed.test:9")]),
    ("an address", f"tcp('{B}', 7)", "refused", [("packet", "raw_ip", B + ":7")]),
    ("the proxy itself", f"tcp('{PROXY}', {PROXIES['open']})", "refused", [("packet", "raw_ip", f"{PROXY}:{PROXIES['open']}")]),
    ("another name in SNI", "tcp('api.allowed.test', 443, hello('evil.test'), 1)", "reset", [("connect", "sni_mismatch", "api.allowed.test:443")]),
    ("CONNECT as a request", "tcp('x.allowed.test', 80, b'CONNECT evil.test:443 HTTP/1.1\\r\\nHost: x.allowed.test\\r\\n\\r\\n', 12)", b"HTTP/1.1 400",
     [("request", "http_unparsable", "x.allowed.test:80")]),
]
FLOOR = [(a, f"tcp('below{i}.allowed.test', 7)", "reset", [("connect", "addr_host" if a == "10.99.0.1" else "addr_floor", f"below{i}.allowed.test:7")],
          [f"?below{i}.allowed.test"]) for i, a in enumerate(BELOW)]
RULES = ("--allow", "*.allowed.test:7", "--allow", "x.allowed.test:80/http", "--allow", "api.allowed.test:443/tls", "--allow", "git.allowed.test:22",
         "--deny", "bad.allowed.test:1-65535", "--allow-cidr", f"{A}/32:8080")
FAST = "limits: {conn_rate_per_s: 1000, burst: 1000}\n"


@case
@way(27)
def what_is_permitted_goes_through_it(m):
    """To the address that was judged: what the proxy thinks of names does not matter. SNI and Host keep the name."""
    get = "b'GET / HTTP/1.1\\r\\nHost: x.allowed.test\\r\\n\\r\\n', 12"
    recs, _ = gateworld.attempts(W, m, [
        ("a name", "tcp('x.allowed.test', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], through("open", f"{A}:7", "x.allowed.test")),
        ("TLS", "tcp('api.allowed.test', 443, hello('api.allowed.test'), 1)", b"\x16", [("connect", "allowed", "api.allowed.test:443")],
         through("open", f"{A}:443", "api.allowed.test")),
        ("HTTP", f"tcp('x.allowed.test', 80, {get})", b"HTTP/1.1 200", [("connect", "allowed", "x.allowed.test:80"), ("request", "allowed", "x.allowed.test:80")],
         through("open", f"{A}:80")),
        # this server speaks first: its words may come with the proxy's
        ("SSH", "tcp('git.allowed.test', 22, b'SSH-2.0-me\\r\\n', 12)", b"SSH-2.0-test", [("connect", "allowed", "git.allowed.test:22")],
         through("open", f"{A}:22", "git.allowed.test")),
        ("a permitted address", f"tcp('{A}', 8080, {get})", b"HTTP/1.1 200", [("connect", "allowed", f"{A}:8080")], through("open", f"{A}:8080")),
        ("an inner address", "tcp('private.allowed.test', 5)", b"hello", [("connect", "allowed", "private.allowed.test:5")],
         ["?private.allowed.test", f"{PROXY}:{PROXIES['open']}", f"open CONNECT {PRIVATE}:5", f"proxied {PRIVATE}:5"]),
        ("past it", "tcp('dir.allowed.test', 7)", b"hello", [("connect", "allowed", "dir.allowed.test:7")], ["?dir.allowed.test", A + ":7"]),
    ] + DENIED + FLOOR, rules=(*RULES, "--allow", "private.allowed.test:5@10.20.0.0/16"),
        lines=FAST + by("open") + "rules: [{host: dir.allowed.test, ports: 7, via: direct}]\n")
    for x in recs:
        if x["verdict"] == "allow" and x["event"] in ("connect", "close"):
            eq(x.get("proxy"), None if x.get("name") == "dir.allowed.test" else f"{PROXY}:3128", f"{x}")
        else:
            ok("proxy" not in x, f"{x}")
    eq({x["dialed"] for x in recs if x["event"] == "connect" and x["verdict"] == "allow"}, {A, PRIVATE}, "the judged addresses")


@case
def much_goes_through_both_ways(m):
    r, recs, _ = gateworld.gate(W, m, "import hashlib, os, threading\ns = socket.create_connection(('x.allowed.test', 7), 20); s.settimeout(20); d = os.urandom(1 << 20) * 8\n"
                                "threading.Thread(target=lambda: (s.sendall(d), s.shutdown(1))).start()\nh = hashlib.sha256(); n = 0\n"
                                "while x := s.recv(1 << 16): h.update(x); n += len(x)\nprint(n == len(d), h.digest() == hashlib.sha256(d).digest())", lines=by("open"))
    eq(r.out, b"True True\n", f"{r!r} {recs}")
    eq((recs[-1]["bytes_up"], recs[-1]["bytes_down"]), (8 << 20, 8 << 20), "what the proxy says and is told is not counted")


@case
@way(27)
def nobody_inside_chooses_it(m):
    """Neither the sandbox's variables nor those of brig's caller mean anything, and no request does."""
    other = f"http://{PROXY}:{PROXIES['own names']}"
    m.extra = {n: other for n in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")}
    try:
        gateworld.attempts(W, m, [
            ("with variables", "tcp('x.allowed.test', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], through("open", f"{A}:7", "x.allowed.test")),
            ("curl", f"run('curl', '-sS', '-m', '10', '-x', '{other}', 'http://x.allowed.test/')", "7", [("packet", "raw_ip", other[7:])]),
            ("a request's", "tcp('x.allowed.test', 80, b'GET http://evil.test/ HTTP/1.1\\r\\nHost: x.allowed.test\\r\\nProxy-Authorization: Basic eDp5\\r\\n\\r\\n', 12)",
             b"HTTP/1.1 421", [("request", "host_mismatch", "x.allowed.test:80")])],
            "--env", f"https_proxy={other}", rules=RULES, lines=by("open"))
        # and without one of the rules there is none
        gateworld.attempts(W, m, [("none", "tcp('x.allowed.test', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], ["?x.allowed.test", A + ":7"])])
    finally:
        m.extra = {}


@case
@way(27)
def a_proxy_that_is_trusted_with_names(m):
    """Then the gate asks no resolver and judges names by themselves: what they stand for is the proxy's to know."""
    own = lambda name: [f"{PROXY}:{PROXIES['own names']}", f"own names CONNECT {name}", f"proxied {B}:{name.rpartition(':')[2]}"]
    recs, _ = gateworld.attempts(W, m, [
        ("a name", "tcp('x.allowed.test', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], own("x.allowed.test:7")),
        ("one that only it knows", "tcp('inside.allowed.test', 7)", b"hello", [("connect", "allowed", "inside.allowed.test:7")], own("inside.allowed.test:7")),
        ("a permitted address", f"tcp('{A}', 8080, b'GET / HTTP/1.0\\r\\n\\r\\n', 4)", b"HTTP", [("connect", "allowed", f"{A}:8080")], through("own names", f"{A}:8080")),
        ("past it", "tcp('dir.allowed.test', 7)", b"hello", [("connect", "allowed", "dir.allowed.test:7")], ["?dir.allowed.test", A + ":7"]),
        ("past it, inside", f"tcp('below{META}.allowed.test', 6)", "reset", [("connect", "addr_floor", f"below{META}.allowed.test:6")], [f"?below{META}.allowed.test"]),
    ] + DENIED, rules=RULES, lines=by("own names", ", names: proxy")
        + f"rules: [{{host: dir.allowed.test, ports: 7, via: direct}}, {{host: below{META}.allowed.test, ports: 6, via: direct}}]\n")
    one = next(x for x in recs if x["event"] == "connect" and x.get("name") == "x.allowed.test" and x["verdict"] == "allow")
    ok(one["proxy"] == f"{PROXY}:{PROXIES['own names']}" and "resolved" not in one and "dialed" not in one, f"{one}")


@case
def what_is_no_tunnel_is_none(m):
    """It refuses, closes, says nothing, or something odd: the connection is reset, nothing of it went further, the record says why."""
    for kind, why, n in (("refuses", "proxy_refused", 1), ("closes", "proxy_unreachable", 1), ("silent", "proxy_unreachable", 1), ("odd", "proxy_odd", len(ODD_ANSWERS)),
                         ("password", "proxy_credentials", 1)):
        r, recs, seen = gateworld.gate(W, m, f"print([tcp('x.allowed.test', 7) for _ in range({n})])", lines=by(kind) + "limits: {connect_timeout_ms: 500}\n")
        eq(r.out.decode().strip(), str(["reset"] * n), f"{kind}: {recs}")
        eq([(x["event"], x.get("close_reason")) for x in recs], [("connect", None), ("close", why)] * n, f"{kind}: {recs}")
        eq({(x["bytes_up"], x["bytes_down"]) for x in recs if x["event"] == "close"}, {(0, 0)}, f"{kind}: nothing moved")
        eq([x for x in gateworld.happened(seen) if x[0] != "?"], sorted([f"{PROXY}:{PROXIES[kind]}", f"{kind} CONNECT {A}:7"] * n), kind)
    # nobody listens there
    r, recs, seen = gateworld.gate(W, m, "print(tcp('x.allowed.test', 7))", lines=f"proxy: {{address: '{PROXY}:9'}}\n")
    eq((r.out, recs[-1]["close_reason"], [x for x in seen if "conn" in x]), (b"reset\n", "proxy_unreachable", []), f"{recs}")


@case
def another_address_of_a_name_is_tried(m):
    """A proxy without IPv6 says that it did not get there."""
    r, recs, seen = gateworld.gate(W, m, "print(tcp('v6first.allowed.test', 7))", lines=by("v4 only"))
    eq(r.out, b"b'hello'\n", f"{recs} {seen}")
    asked = [x["proxy"] for x in seen if "proxy" in x]
    ok(asked in ([f"v4 only CONNECT [2606:2800:220:1::7]:7", f"v4 only CONNECT {A}:7"], [f"v4 only CONNECT {A}:7"]), f"{asked}")
    # where another process reads the requests, the end is not told as the refusal of the first address either
    # (read to its end: the kernel resets a connection that is closed with something unread, and then that is what is told)
    r, recs, seen = gateworld.gate(W, m, "s = socket.create_connection(('dead1st.allowed.test', 80), 20); s.settimeout(20)\n"
                                   "s.sendall(b'GET / HTTP/1.1\\r\\nHost: dead1st.allowed.test\\r\\n\\r\\n')\nprint(s.makefile('rb').read())",
                                   rules=("--allow", "dead1st.allowed.test:80/http"), lines=by("v4 only"))
    ok(r.out.startswith(b"b'HTTP/1.1 200") and r.out.endswith(b"ok\\n'\n"), f"{r!r} {recs}")
    eq([(x["close_reason"], x["dialed"]) for x in recs if x["event"] == "close"], [("ended", A)], f"{recs}")
    eq([x["dialed"] for x in recs if x["event"] == "connect"], ["93.184.216.99"], "written before the first was dialled")
    eq([x["proxy"] for x in seen if "proxy" in x], ["v4 only CONNECT 93.184.216.99:80", f"v4 only CONNECT {A}:80"], "both were tried")


@case
def credentials_are_a_secret(m):
    """From where the rules say, to the proxy only: not inside, not in records, not shown."""
    secret = "user:pass"
    code = "dXNlcjpwYXNz"
    want = through("password", f"{A}:7", "x.allowed.test", f" Proxy-Authorization: Basic {code}")
    for ref in (f"file:{m.put('cred', secret + chr(10), 0o600)}", "env:PROXY_CRED", f"cmd:printf %s {secret}"):
        m.extra = {"PROXY_CRED": secret} if ref[:3] == "env" else {}
        try:
            r, recs, seen = gateworld.gate(W, m, "print(tcp('x.allowed.test', 7)); print('leak' if 'PROXY_CRED' in os.environ else 'none')",
                                           lines=by("password", f", credentials: '{ref}'"))
        finally:
            m.extra = {}
        eq(r.out, b"b'hello'\nnone\n", f"{ref}: {recs}")
        eq(gateworld.happened(seen), sorted(want), ref)
        ok("pass" not in json.dumps([{**x, "text": ""} for x in recs]) and code not in json.dumps(recs), f"{recs}")
    # wrong ones are told so, and are not retried
    r, recs, seen = gateworld.gate(W, m, "print(tcp('x.allowed.test', 7))", lines=by("password", f", credentials: 'file:{m.put('cred', 'user:wrong')}'"))
    eq((r.out, recs[-1]["close_reason"], len([x for x in seen if "proxy" in x])), (b"reset\n", "proxy_credentials", 1), f"{recs}")
    # what cannot be had, or is none, refuses the start
    for ref, word in (("file:/nonexistent", b"file:/nonexistent"), ("env:NO_SUCH_VARIABLE", b"env:NO_SUCH_VARIABLE"), (f"file:{m.put('cred', 'nocolon')}", b"USER:PASSWORD"),
                      (f"file:{m.put('cred', 'u:' + 'x' * 2000)}", b"USER:PASSWORD")):
        conf = m.put("rules", gateworld.RULES + by("password", f", credentials: '{ref}'") + "rules: [{host: x.allowed.test, ports: 7}]\n")
        r = m.sh("echo ran", "--egress", conf)
        ok(r.rc == 125 and r.out == b"" and word in r.err and b"nocolon" not in r.err.replace(conf.encode(), b""), f"{ref}: {r!r}")


@case
def new_rules_may_change_it(m):
    """Connections go the way the rules name now, or end. Credentials that cannot be read again stay, for the same reference only."""
    cred = m.put("cred", "user:pass", 0o600)
    allow = "rules: [{host: '*.allowed.test', ports: [7, 9000]}]\n"
    conf = lambda top: m.put("rules", gateworld.RULES + top + allow)
    with_cred = by("password", f", credentials: 'file:{cred}'")
    s = gateworld.Inside(W, m, conf(with_cred), code="keep = []\ndef still(c):\n    c.settimeout(20)\n    try: return c.recv(1)\n    except ConnectionResetError: return 'reset'\n")
    sid = m.brig("egress", "list").out.decode().strip()
    ok(b"pass" not in m.brig("egress", "show", sid).out.replace(b"password", b""), "shown")
    W.take()
    open_one = "keep.append(socket.create_connection(('x.allowed.test', 9000), 20))"
    eq(s.say(open_one), "None", "held")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "through it")
    os.unlink(cred)
    done(m.brig("egress", "set", sid, conf(with_cred)))
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "with the same credentials")
    eq(s.say("(keep[0].sendall(b'abc'), keep[0].shutdown(1), still(keep[0]))[2]"), "b'3'", "and what was open goes on")
    r = m.brig("egress", "set", sid, conf(by("password", ", credentials: 'file:/nonexistent'")))
    ok(r.rc == 125 and b"/nonexistent" in r.err, f"{r!r}")
    W.take()
    eq(s.say(open_one), "None", "held")
    W.until(f"proxied {A}:9000")  # the gate has taken it before its proxy has
    done(m.brig("egress", "set", sid, conf("")))
    eq(s.say("still(keep[1])"), "reset", "it went another way than the rules say now")
    W.take()
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "past it")
    eq([x["conn"] for x in W.take() if "conn" in x], [A + ":7"], "past it")
    recs = s.end()
    eq([x["close_reason"] for x in recs if x["event"] == "close"].count("policy"), 1, f"{recs}")


@case
def wrong_settings_are_refused(m):
    for text, word in (("proxy: {names: gate}", "address"), ("proxy: {address: 'proxy.test:3128'}", "IP:PORT"), ("proxy: {address: '10.0.0.5'}", "proxy"),
                       ("proxy: {address: '10.0.0.5:0'}", "proxy"), ("proxy: {address: '10.0.0.5:1', names: both}", "gate proxy"),
                       ("proxy: {address: '10.0.0.5:1', credentials: secret}", "env:NAME"), ("proxy: {address: '10.0.0.5:1', user: x}", "unknown key"),
                       ("proxy: {address: '10.0.0.5:1', names: proxy}\ndns: {mode: pinned}", "pinned"), ("proxy: '10.0.0.5:1'", "map"),
                       ("rules: [{host: x.allowed.test, ports: 7, via: other}]", "via")):
        r = m.sh("echo ran", "--egress", m.put("rules", f"version: 1\n{text}\n"))
        ok(r.rc == 125 and r.out == b"" and word.encode() in r.err and r.err.count(b"\n") == 1, f"{text}: {r!r}")


sys.exit(gateworld.run(__file__, W))
