#!/usr/bin/python3
"""The published ways round gates like this one, each tried in a sandbox: what the program is told, the one record with its
reason, and what reached the other side (nothing, where it is refused).

Which case tries which way is said by @way, and all are listed in tests/lib/published.py: those
inside TLS and HTTP are tried in inspect.t, rules that change in reload.t, a proxy in proxy.t."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
import reap  # noqa: E402
from brigtest import Skip, case, done, eq, ok, until  # noqa: E402
from gateworld import A, B, BELOW, PRIVATE  # noqa: E402
from published import proved, way  # noqa: E402

W = gateworld.enter()
WILD = ("--allow", "*.allowed.test:7")
REACHED = ["?x.allowed.test", A + ":7"]
ODD = [bytes([c]) for c in (*range(0x21), 0x7f, 0x80, 0xff, *b"%/\\@:#?[]*")]


def attempts(m, rows, *opts, rules=WILD, **kw):
    return gateworld.attempts(W, m, rows, *opts, rules=rules, **kw)


def bad_name(title, label):
    return (title, f"ask(name({label!r}, b'allowed', b'test'))", "3 0", [("dns", "bad_name", None)])


def both_ways(fn):
    """A case that must come out the same by tproxy and, tried as an ordinary user, by redirect (src/net/net.h)."""
    def redirected(m):
        m.extra = {"BRIG_NET_WAY": "redirect"}
        try:
            fn(m)
        finally:
            m.extra = {}
    redirected.__name__ = fn.__name__ + "_redirected"
    case(fn)
    case(modes=("user",))(redirected)


@case
@way(1, 4)
def odd_bytes_in_names(m):
    rows = [bad_name(f"byte {c[0]:#x}", b"a" + c + b"b") for c in ODD]
    rows += [bad_name("evil.test before a NUL", b"evil.test\0"), bad_name("a dot inside a label", b"x.y"),
             bad_name("Cyrillic a", "\u0430pi".encode()), bad_name("ideographic full stop", "x\u3002y".encode()),
             bad_name("zero width space", "x\u200by".encode()), bad_name("latin1", b"\xe4pi"), bad_name("first hyphen", b"-x"),
             bad_name("empty xn--", b"xn--")]
    rows += [("one label", "ask(name(b'localhost'))", "3 0", [("dns", "bad_name", "localhost")]),
             ("a number as last label", "ask(name(b'a', b'123'))", "3 0", [("dns", "bad_name", "a.123")]),
             ("a hex number as last label", "ask(name(b'a', b'0x7f'))", "3 0", [("dns", "bad_name", "a.0x7f")]),
             ("the port in the name", "ask(name(b'x', b'allowed', b'test:7'))", "3 0", [("dns", "bad_name", "x.allowed.test:7")]),
             ("an empty label", "ask(b'\\x01x\\0\\x07allowed\\x04test\\0')", "3 0", [("dns", "bad_name", "x")])]
    recs, _ = attempts(m, rows, lines="  denied_qps: 1000\n")
    eq(len(recs), len(rows), "one record each")


@case
@way(2)
def spelling_does_not_matter(m):
    attempts(m, [
        ("capitals and a dot", "tcp('X.Allowed.TEST.', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], REACHED),
        ("two dots", "tcp('x.allowed.test..', 7)", "noname", []),
        ("a refused name in capitals", "tcp('BAD.Allowed.Test.', 7)", "noname", [("dns", "deny_rule", "bad.allowed.test")]),
        ("a name refused at one port, in capitals", "tcp('HALF.Allowed.Test.', 7)", "reset", [("connect", "deny_rule", "half.allowed.test:7")]),
    ], rules=("--allow", "*.allowed.test:7,8", "--deny", "bad.allowed.test:7-8", "--deny", "half.allowed.test:7"))


@case
@way(3)
def labels_not_suffixes(m):
    attempts(m, [(n, f"tcp('{n}', 7)", "noname", [("dns", "no_rule", n)]) for n in
                 ("notallowed.test", "allowed.test.evil.test", "xallowed.test", "allowed.test", "a.b.allowed.test", "evil.test",
                  "xn--llowed-9na.test", "a.deep.allowed.test.evil.test")]
             + [("many labels where asked for", "tcp('a.b.many.test', 7)", "reset", [("connect", "unresolved", "a.b.many.test:7")], ["?a.b.many.test"])],
             rules=(*WILD, "--allow", "**.many.test:7"))


@case
@way(5, 6, 7)
def addresses_below_the_floor(m):
    recs, _ = attempts(m, [(a, f"tcp('below{i}.allowed.test', 7)", "reset", [("connect", "addr_host" if a == "10.99.0.1" else "addr_floor", f"below{i}.allowed.test:7")],
                            [f"?below{i}.allowed.test"]) for i, a in enumerate(BELOW)], lines="limits: {conn_rate_per_s: 1000, burst: 1000}\n")
    eq(len([x for x in recs if x.get("resolved")]), len(BELOW), "the addresses are recorded")


@case
@way(6)
def private_only_where_the_rule_says_so(m):
    meta, lo = BELOW.index("169.254.169.254"), BELOW.index("127.0.0.1")
    attempts(m, [
        ("private", "tcp('private.allowed.test', 7)", b"hello", [("connect", "allowed", "private.allowed.test:7")],
         ["?private.allowed.test", PRIVATE + ":7"]),
        ("metadata", f"tcp('below{meta}.allowed.test', 7)", "reset", [("connect", "addr_floor", f"below{meta}.allowed.test:7")], [f"?below{meta}.allowed.test"]),
        ("loopback", f"tcp('below{lo}.allowed.test', 7)", "reset", [("connect", "addr_floor", f"below{lo}.allowed.test:7")], [f"?below{lo}.allowed.test"]),
        ("by address", "tcp('169.254.169.254', 80)", "reset", [("connect", "addr_floor", "169.254.169.254:80")]),
        ("a range of everything", f"tcp('{PRIVATE}', 4443)", "reset", [("connect", "addr_floor", PRIVATE + ":4443")]),
    ], rules=("--allow", "private.allowed.test:7@10.20.0.0/16", "--allow", f"below{meta}.allowed.test:7@169.254.0.0/16",
              "--allow", f"below{lo}.allowed.test:7@127.0.0.0/8", "--allow-cidr", "169.254.0.0/16:80", "--allow-cidr", "0.0.0.0/0:4443"))


@case
@way(8)
def one_answer_serves_check_and_connection(m):
    """A name that is good when it is asked for the first time and an inner address from then on: no connection goes anywhere but
    to an address of the answer that was judged for it, whenever the change comes."""
    flip = f"flip-{m.name}.allowed.test"
    script = (f"end = time.monotonic() + 30\nwhile tcp('{flip}', 7) == b'hello' and time.monotonic() < end: time.sleep(0.05)\n"
              f"print(tcp('{flip}', 7), tcp('mixed.allowed.test', 7))\n")
    r, recs, seen = gateworld.gate(W, m, script, rules=WILD, lines="limits: {conn_rate_per_s: 1000}\n")
    eq(r.out, b"reset b'hello'\n", f"{recs}")
    conns = [x for x in recs if x["event"] == "connect" for _ in range(x.get("suppressed", 1))]
    good = [x for x in conns if x["verdict"] == "allow"]
    bad = [x for x in conns if x["verdict"] == "deny"]
    eq({x["dialed"] for x in good}, {A}, "only what was judged")
    ok({x["reason"] for x in bad} == {"addr_floor"} and len(bad) >= 2, f"{recs}")
    eq([x["conn"] for x in seen if "conn" in x], [A + ":7"] * len(good), "one connection for each that was allowed")
    gateworld.prove(recs, seen, verdict="deny", reason="addr_floor", records=len(bad), upstream=[f"?{flip}", "?mixed.allowed.test"] + [A + ":7"] * len(good))
    ok(len([x for x in seen if x.get("query") == flip]) <= 2 * (1 + len(bad)), f"no more questions than decisions: {seen}")


@both_ways
@way(9)
def shared_addresses_help_nobody(m):
    attempts(m, [
        ("its own name", "tcp('ok.shared.test', 7)", b"hello", [("connect", "allowed", "ok.shared.test:7")], ["?ok.shared.test", A + ":7"]),
        ("the other name", "tcp('bad.shared.test', 7)", "noname", [("dns", "no_rule", "bad.shared.test")]),
        ("the address", f"tcp('{A}', 7)", "refused", [("packet", "raw_ip", A + ":7")]),
        ("the other's made-up address", "tcp('198.18.1.1', 7)", "reset", [("connect", "no_mapping", "198.18.1.1:7")]),
    ], rules=("--allow", "ok.shared.test:7"))


@case
@way(10)
def a_claimed_name_is_no_name(m):
    get = "b'GET / HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n\\r\\n'"
    attempts(m, [
        ("SNI", f"tcp('{B}', 443, hello('api.allowed.test'))", "refused", [("packet", "raw_ip", B + ":443")]),
        ("Host", f"tcp('{B}', 80, {get})", "refused", [("packet", "raw_ip", B + ":80")]),
        ("a file of names", f"run('curl', '-sS', '-m', '10', '--resolve', 'api.allowed.test:80:{B}', 'http://api.allowed.test/')", "7",
         [("packet", "raw_ip", B + ":80")]),
        ("SNI on a range's other port", f"tcp('{A}', 443, hello('api.allowed.test'))", "reset", [("connect", "port", A + ":443")]),
    ], rules=("--allow", "api.allowed.test:443,80", "--allow-cidr", f"{A}/32:8443"))


@case
@way(12)
def split_hellos_are_judged_the_same(m):
    good = ("connect", "allowed", "api.allowed.test:443")
    seen = ["?api.allowed.test", A + ":443"]
    host = "'api.allowed.test', 443"
    rows = [(t, f"tcp({host}, {e}, 1)" if e[0] != "!" else f"drip('api.allowed.test', {e[1:]})", b"\x16", [good], seen) for t, e in (
        ("whole", "hello('api.allowed.test')"), ("records of 100 bytes", "records(hello('api.allowed.test'), 100)"),
        ("records of 1 byte", "records(hello('api.allowed.test'), 1)"), ("segments of 1 byte", "!hello('api.allowed.test')"),
        ("records of 1 byte in segments of 1 byte", "!records(hello('api.allowed.test'), 1)"),
        ("over 16 KiB", "with_extension(hello('api.allowed.test'), 0x7777, bytes(20000))"), ("capitals", "hello('API.Allowed.Test')"))]
    for why, cases in (("sni_mismatch", (("evil", "hello('evil.test')"), ("evil in records of 7 bytes", "records(hello('evil.test'), 7)"),
                                         ("evil over 16 KiB", "with_extension(hello('evil.test'), 0x7777, bytes(20000))"),
                                         ("another allowed name", "hello('x.allowed.test')"), ("longer", "hello('api.allowed.test.evil.test')"))),
                       ("sni_missing", (("none", "hello(None)"), ("none in records of 1 byte", "records(hello(None), 1)"))),
                       ("ech", (("ECH", "with_extension(hello('api.allowed.test'), 0xfe0d, bytes(200))"),)),
                       ("hello_unparsable", (("too long", "b'\\x16\\x03\\x01\\x40\\0' + b'\\x01\\x01\\0\\0' + bytes(70000)"),
                                             ("not TLS", "b'GET / HTTP/1.1\\r\\n\\r\\n'"), ("SSLv2", "b'\\x80\\x2e\\x01\\0\\2' + bytes(43)"),
                                             ("alert first", "b'\\x15\\x03\\x01\\0\\2\\1\\0' + hello('api.allowed.test')"),
                                             ("SNI twice", "with_extension(hello('api.allowed.test'), 0, b'\\0\\x0c\\0\\0\\x09evil.test')")))):
        rows += [(t, f"tcp({host}, {e}, 1)", "reset", [("connect", why, "api.allowed.test:443")]) for t, e in cases]
    attempts(m, rows, rules=("--allow", "api.allowed.test:443/tls", "--allow", "x.allowed.test:443/tls"))


@case
@way(1)
def odd_bytes_in_hellos(m):
    rows = []
    for c in (b"\0", b" ", b"\x7f", b"\xff", b"/", b":", b"@", b"%"):
        for t, sni in (("before", f"hello('evilQapi.allowed.test').replace(b'evilQ', b'evil{c.hex()}'.replace(b'{c.hex()}', bytes.fromhex('{c.hex()}')))"),
                       ("after", f"hello('api.allowed.testQevil').replace(b'testQ', b'test' + bytes.fromhex('{c.hex()}'))")):
            rows.append((f"{c!r} {t}", f"tcp('api.allowed.test', 443, {sni}, 1)", "reset", None))
    reasons = set()
    script = "for e in (\n" + "".join(f"  lambda: {r[1]},\n" for r in rows) + "): print(e())\n"
    r, recs, seen = gateworld.gate(W, m, script, rules=("--allow", "api.allowed.test:443/tls"))
    eq(r.out.split(), [b"reset"] * len(rows), f"{recs}")
    reasons = {x["reason"] for x in recs}
    ok(sum(x.get("suppressed", 1) for x in recs) == len(rows) and reasons <= {"sni_mismatch", "bad_name", "hello_unparsable"}, f"{recs}")
    gateworld.prove(recs, seen, verdict="deny", reason={"sni_mismatch", "bad_name", "hello_unparsable"}, records=len(rows), upstream=["?api.allowed.test"])


@case
@way(1)
def odd_bytes_in_heads(m):
    get = "GET / HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n"
    rows = [("good", f"tcp('api.allowed.test', 80, b'{get.format('API.allowed.test.:80')}', 4)", b"HTTP",
             [("connect", "allowed", "api.allowed.test:80"), ("request", "allowed", "api.allowed.test:80")], ["?api.allowed.test", A + ":80"])]
    for why, heads in (("host_mismatch", (get.format("evil.test"), get.format("api.allowed.test:8080"), get.format("xapi.allowed.test"),
                                          get.format("api.allowed.test.evil.test"),
                                          "GET http://evil.test/ HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n\\r\\n")),
                       ("http_unparsable", ("GET / HTTP/1.1\\r\\nHost: api.allowed.test\\r\\nHost: evil.test\\r\\n\\r\\n",
                                            "CONNECT evil.test:443 HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n\\r\\n",
                                            "GET / HTTP/1.1\\nHost: api.allowed.test\\r\\n\\r\\n",
                                            "GET / HTTP/1.1\\r\\nHost: api.allowed.test\\r\\n x\\r\\n\\r\\n",
                                            get.format("api.allowed.test\\0evil.test"), get.format("evil.test\\0.allowed.test")))):
        rows += [(h, f"tcp('api.allowed.test', 80, b'{h}', 12)", b"HTTP/1.1 421" if why == "host_mismatch" else b"HTTP/1.1 400",
                  [("request", why, "api.allowed.test:80")]) for h in heads]
    attempts(m, rows, rules=("--allow", "api.allowed.test:80/http"))
    odd = [get.format("evil.test" + f"\\x{c[0]:02x}" + ".allowed.test") for c in ODD if c not in (b"\r", b"\n", b"\t", b" ", b"*")]
    r, recs, seen = gateworld.gate(W, m, f"for h in {odd!r}: print(tcp('api.allowed.test', 80, h.encode('latin1').decode('unicode_escape').encode('latin1'), 4))\n",
                                   rules=("--allow", "api.allowed.test:80/http"), lines="limits: {conn_rate_per_s: 1000, burst: 1000}\n")
    eq(set(r.out.split()), {b"b'HTTP'"}, f"{recs}")
    ok({(x["verdict"], x["http"]["status"]) for x in recs if "http" in x} <= {("deny", 400), ("deny", 421)}, f"{recs}")
    ok({x["reason"] for x in recs} <= {"host_mismatch", "http_unparsable", "bad_name"} and sum(x.get("suppressed", 1) for x in recs) == len(odd), f"{recs}")
    gateworld.prove(recs, seen, verdict="deny", reason={"host_mismatch", "http_unparsable", "bad_name"}, records=len(odd), upstream=["?api.allowed.test"])


@case
@way(11)
def another_name_inside_opaque_tls_is_told(m):
    """It passes, since what is inside is not seen; the record says that it may. Where TLS ends at the gate it is refused: inspect.t."""
    recs, seen = attempts(m, [
        ("Host", "run('curl', '-sSk', '-m', '20', '-H', 'Host: evil.test', 'https://api.allowed.test/')", "0", [("connect", "allowed", "api.allowed.test:443")],
         ["?api.allowed.test", A + ":443"]),
        ("SNI", "tcp('api.allowed.test', 443, hello('evil.test'), 1)", "reset", [("connect", "sni_mismatch", "api.allowed.test:443")])],
        rules=("--allow", "api.allowed.test:443/tls"))
    eq([x["host"] for x in seen if "http" in x], ["evil.test"], "what the server was asked for")
    eq([x.get("fronting_possible") for x in recs if x["event"] == "connect"], [True, None], f"{recs}")


@case
@way(14)
def one_host_by_every_way(m):
    rows = [(f"name, port {p}", f"tcp('evil.test', {p})", "noname", [("dns", "no_rule", "evil.test")]) for p in (80, 443, 7)]
    rows += [(f"address, port {p}", f"tcp('{B}', {p})", "refused", [("packet", "raw_ip", f"{B}:{p}")]) for p in (80, 443, 7, 1080, 3128)]
    rows += [("by name over TCP", "ask_tcp('8.8.8.8', dotted('evil.test'))", "3 0", [("dns", "no_rule", "evil.test")]),
             ("curl", "run('curl', '-sS', '-m', '10', 'http://evil.test/')", "6", [("dns", "no_rule", "evil.test")]),
             ("a refused name by every port", "[tcp('no.allowed.test', p) for p in (80, 443, 7)]", ["noname"] * 3,
              [("dns", "deny_rule", "no.allowed.test")]),
             ("IPv6", "tcp('2606:2800:220:1::1', 443)", "refused", [("packet", "raw_ip", "[2606:2800:220:1::1]:443")])]
    attempts(m, rows, rules=("--allow", "*.allowed.test:80,443,7", "--deny", "no.allowed.test:1-65535"))


@both_ways
@way(15)
def every_port_is_watched(m):
    ports = (1, 22, 25, 80, 98, 99, 100, 443, 853, 3000, 5432, 8080, 8443, 15001, 65535)
    attempts(m, [(f"name, {p}", f"tcp('x.allowed.test', {p})", "reset", [("connect", "port", f"x.allowed.test:{p}")]) for p in ports]
             + [(f"address, {p}", f"tcp('{A}', {p}) in ('refused', 'reset')", "True", [("connect" if p == 99 and not m.extra else "packet", "raw_ip", f"{A}:{p}")])
                for p in ports])


@both_ways
@way(24, 25, 30)
def no_way_to_the_host(m):
    rows = [(a, f"tcp('{a}', {p})", "refused", [("packet", "raw_ip", f"{a}:{p}" if ":" not in a else f"[{a}]:{p}")]) for a, p in
            (("10.0.2.2", 7), ("10.0.2.3", 53000), ("10.99.0.1", 7), ("172.17.0.1", 7), ("192.168.65.2", 7), ("169.254.169.254", 80),
             ("fd00:ec2::254", 80), ("100.100.100.200", 80), ("0.0.0.1", 7))]
    rows += [(n, f"tcp('{n}', 7)", "noname", [("dns", "no_rule", n)]) for n in
             ("host.docker.internal", "gateway.docker.internal", "host.containers.internal", "metadata.google.internal")]
    rows += [(f"listener at {a}", f"tcp('{a}', 99)", "reset", [("connect", "self", f"{a}:99" if ":" not in a else f"[{a}]:99")])
             for a in ("127.0.0.1", "127.9.9.9", "198.18.0.2", "::1", "fd00:5b:ffff::2")]
    rows += [("a made-up address of nobody's", "tcp('198.18.77.7', 7)", "reset", [("connect", "no_mapping", "198.18.77.7:7")]),
             ("the name server's other ports", "tcp('198.18.0.1', 7)", "reset", [("connect", "no_mapping", "198.18.0.1:7")]),
             ("loopback is the sandbox's own", "tcp('127.0.0.1', 7)", "refused", [])]
    attempts(m, rows)


@case
@way(17)
def variables_and_proxies_do_not_matter(m):
    ask = ("dns", "no_rule", "evil.test")
    attempts(m, [
        ("none", "run('curl', '-sS', '-m', '10', '--noproxy', '*', 'http://evil.test/')", "6", [ask]),
        ("a proxy of its own", f"run('curl', '-sS', '-m', '10', '-x', 'http://{B}:8080', 'http://api.allowed.test/')", "7", [("packet", "raw_ip", B + ":8080")]),
        ("an environment without anything", "run('/usr/bin/curl', '-sS', '-m', '10', 'http://evil.test/', env={})", "6", [ask]),
        ("another name server", "ask(dotted('evil.test'), to='8.8.8.8')", "3 0", [ask]),
        ("allowed by another name server", "ask(dotted('api.allowed.test'), to='9.9.9.9').split()[:2]", ["0", "1"], []),
        ("allowed, with a proxy that is not asked", "run('curl', '-sS', '-m', '10', '--noproxy', '*', 'http://api.allowed.test/')", "0",
         [("connect", "allowed", "api.allowed.test:80"), ("request", "allowed", "api.allowed.test:80")], ["?api.allowed.test", A + ":80"]),
    ], "--env", f"http_proxy=http://{B}:8080", rules=("--allow", "api.allowed.test:80"))


@case
@way(19)
def empty_rules_deny_all(m):
    attempts(m, [("name", "tcp('x.allowed.test', 7)", "noname", [("dns", "no_rule", "x.allowed.test")]),
                 ("address", f"tcp('{A}', 7)", "refused", [("packet", "raw_ip", A + ":7")])], rules=())


def without(*calls):
    """Like a kernel that lacks something: for argv and all it starts, a call with these first arguments fails."""
    return [sys.executable, os.path.join(os.path.dirname(gateworld.__file__), "lacking.py"), *calls]


@case
@way(19)
def what_is_missing_refuses_the_start(m):
    if W is None:
        raise Skip("namespaces for the servers need root")
    W.take()
    conf = m.put("rules", "version: 1\nrules: [{host: x.allowed.test, ports: 7}]\n")
    want = m.run_argv("--egress", conf, "--", "sh", "-c", "echo ran")

    def refused(argv, *words):
        r = m.exec(argv)
        ok(r.rc == 125 and b"ran" not in r.out and all(w in r.err for w in words) and r.err.count(b"\n") <= 2, f"{argv}: {r!r}")
    done(m.exec(want), 0, b"ran\n")
    refused(m.run_argv("--egress", conf + ".gone", "--", "sh", "-c", "echo ran"), b"gone")
    refused(m.run_argv("--egress", m.put("broken", "allow x.allowed.test\n"), "--", "sh", "-c", "echo ran"), b"1")
    refused([*without("netfilter"), *want], b"nf_tables")
    refused(["unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"", "sh", *want])
    os.rename(os.path.join(m.bin, "brig-gate"), os.path.join(m.bin, "gone"))
    try:
        refused(want, b"brig-gate")
    finally:
        os.rename(os.path.join(m.bin, "gone"), os.path.join(m.bin, "brig-gate"))
    eq(W.take(), [], "nothing arrived")
    proved(verdict=None, reason="not started", records=0, upstream=())


@both_ways
@way(20)
def names_carry_nothing_out(m):
    no, label = "no_rule", "b'x' * 60, b'evil', b'test'"
    long = "x" * 60 + ".evil.test"
    n = "dotted('x.allowed.test')"
    rows = [("data in a label", f"ask(name({label}), to='8.8.8.8')", "3 0", [("dns", no, long)]),
            ("the same over TCP, twice", f"ask_tcp('8.8.8.8', name({label}), {n})", "3 0, 0 1 198.18.1.0", [("dns", no, long)]),
            ("its text", "ask(dotted('t.evil.test'), 16, '8.8.8.8')", "3 0", [("dns", no, "t.evil.test")]),
            ("NULL", "ask(dotted('n.evil.test'), 10, '8.8.8.8')", "3 0", [("dns", no, "n.evil.test")]),
            ("a long label below a wildcard", "ask(name(b'x' * 40, b'allowed', b'test'))", "3 0", [("dns", "dns_label", "x" * 40 + ".allowed.test")]),
            ("a transfer", "ask(dotted('y.allowed.test'), 252)", "3 0", [("dns", "dns_type", "y.allowed.test")]),
            ("a name of an address", "ask(dotted('34.216.184.93.in-addr.arpa'), 12)", "3 0", [("dns", "dns_type", "34.216.184.93.in-addr.arpa")]),
            ("an address by IPv6", "udp('2001:4860:4860::8888', 53, socket.AF_INET6)", "unreach", [("packet", "transport", "[2001:4860:4860::8888]:53")]),
            ("over TLS", "tcp('8.8.8.8', 853)", "refused", [("packet", "raw_ip", "8.8.8.8:853")]),
            ("over HTTPS", "tcp('dns.google', 443)", "noname", [("dns", no, "dns.google")]),
            ("multicast", "unconnected('224.0.0.251', 5353, 0.2)", "timeout", [("packet", "transport", "224.0.0.251:5353")])]
    rows += [(f"type {t}", f"ask({n}, {t})", "0 0", []) for t in (28, 16, 15, 33, 10, 64, 65, 255)]
    rows += [("options are dropped", f"ask({n}, 1, '8.8.8.8', b'\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\x0c\\xfd\\xe9\\0\\x08leakleak')", "0 1 198.18.1.0", []),
             ("two questions", f"ask({n}, 1, count=2)", "1 0", []),
             ("letter case", "tcp('X.aLLowed.tEst', 7)", b"hello", [("connect", "allowed", "x.allowed.test:7")], REACHED),
             ("many names", "[ask(name(b'n%d' % i, b'many', b'test'))[:3] for i in range(70)].count('3 0')", 6, [("dns", "dns_budget", f"n{i}.many.test") for i in range(64, 70)])]
    attempts(m, rows, rules=(*WILD, "--allow", "*.many.test:7"))


@both_ways
@way(23)
def other_calls_that_connect(m):
    attempts(m, [
        ("sendto with FASTOPEN", f"fastopen('{A}', 7)", "refused", [("packet", "raw_ip", A + ":7")]),
        ("the same to a made-up address", "fastopen('198.18.9.9', 7)", "reset", [("connect", "no_mapping", "198.18.9.9:7")]),
        ("sendmsg with FASTOPEN", f"fastmsg('{A}', 7)", "refused", [("packet", "raw_ip", A + ":7")]),
        ("sendmmsg", "mmsg('8.8.8.8', 444)", "unreach", [("packet", "transport", "8.8.8.8:444")]),
        ("io_uring", "(ctypes.CDLL(None, use_errno=True).syscall(425, 8, 0), ctypes.get_errno() in (1, 38))", (-1, True), []),
        ("UDP", "udp('8.8.8.8', 443)", "unreach", [("packet", "transport", "8.8.8.8:443")]),
        ("UDP without connect", "unconnected('8.8.8.8', 123)", "unreach", [("packet", "transport", "8.8.8.8:123")]),
        ("UDP over IPv6", "udp('2001:4860:4860::8888', 443, socket.AF_INET6)", "unreach", [("packet", "transport", "[2001:4860:4860::8888]:443")]),
        ("UDP to a made-up address", "udp('198.18.1.0', 443)", "unreach", [("packet", "transport", "198.18.1.0:443")]),
        ("TCP over IPv6", "tcp('2001:4860:4860::8888', 443)", "refused", [("packet", "raw_ip", "[2001:4860:4860::8888]:443")]),
        ("mapped", f"tcp('::ffff:{A}', 7)", "refused", [("packet", "raw_ip", A + ":7")]),
    ])


@both_ways
def names_with_ipv6_addresses(m):
    """Where the rules want it, a name has a made-up address of each kind, and both lead to the same decision."""
    attempts(m, [
        ("address", "ask(dotted('x.allowed.test'), 28)[:3]", "0 1", []),
        ("connection", "tcp(next(a[4][0] for a in socket.getaddrinfo('x.allowed.test', 7, socket.AF_INET6, socket.SOCK_STREAM)), 7)", b"hello",
         [("connect", "allowed", "x.allowed.test:7")], REACHED),
        ("another port", "tcp(next(a[4][0] for a in socket.getaddrinfo('x.allowed.test', 7, socket.AF_INET6, socket.SOCK_STREAM)), 8)", "reset",
         [("connect", "port", "x.allowed.test:8")]),
        ("nobody's", "tcp('fd00:5b::7777:7777', 7)", "reset", [("connect", "no_mapping", "[fd00:5b::7777:7777]:7")]),
        ("a real one", "tcp('2001:4860:4860::8888', 7)", "refused", [("packet", "raw_ip", "[2001:4860:4860::8888]:7")]),
    ], lines="  aaaa: synthetic\n")


@both_ways
def pinned_names(m):
    """Names are answered with real addresses, which then stand for the names they were answered for, and for nothing else."""
    look = "[socket.gethostbyname(h) for h in ('api.allowed.test', 'x.allowed.test', 'git.allowed.test')]"
    get = "b'GET / HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n', 12"
    asked = ["?api.allowed.test", "?x.allowed.test", "?git.allowed.test"]
    meta = BELOW.index("169.254.169.254")
    recs, _ = attempts(m, [
        ("before it was asked for", f"tcp('{A}', 443, hello('api.allowed.test'))", "reset", [("connect", "raw_ip", A + ":443")]),
        ("answers", look, str([A] * 3), [], asked),
        ("the one with this port", f"tcp('{A}', 22, b'SSH-2.0-me\\r\\n', 12)", b"SSH-2.0-test", [("connect", "allowed", "git.allowed.test:22")], [A + ":22"]),
        ("SNI tells", f"tcp('{A}', 443, hello('x.allowed.test'), 1)", b"\x16", [("connect", "allowed", "x.allowed.test:443")], [A + ":443"]),
        ("in pieces", f"drip('{A}', hello('api.allowed.test'))", b"\x16", [("connect", "allowed", "api.allowed.test:443")], [A + ":443"]),
        ("Host tells", f"tcp('{A}', 80, {get.format('x.allowed.test')})", b"HTTP/1.1 200",
         [("connect", "allowed", "x.allowed.test:80"), ("request", "allowed", "x.allowed.test:80")], [A + ":80"]),
        ("none of them", f"tcp('{A}', 443, hello('evil.test'))", "reset", [("connect", "pin_ambiguous", None)]),
        ("none of them by Host", f"tcp('{A}', 80, {get.format('evil.test')})", "reset", [("connect", "pin_ambiguous", None)]),
        ("a protocol that does not tell", f"tcp('{A}', 7)", "reset", [("connect", "pin_ambiguous", None)]),
        ("a port of none", f"tcp('{A}', 9)", "reset", [("connect", "port", None)]),
        ("another address", f"tcp('{B}', 443, hello('api.allowed.test'))", "reset", [("connect", "raw_ip", B + ":443")]),
        ("a denied name", "tcp('evil.test', 443)", "noname", [("dns", "no_rule", "evil.test")]),
        ("an inner address", f"ask(dotted('below{meta}.allowed.test'))", "3 0", [("dns", "addr_floor", f"below{meta}.allowed.test")], [f"?below{meta}.allowed.test"]),
        ("many names", "[ask(name(b'n%d' % i, b'many', b'test'))[:3] for i in range(3)]", ["3 0"] * 3,
         [("dns", "unresolved", "n0.many.test"), ("dns", "unresolved", "n1.many.test"), ("dns", "dns_budget", "n2.many.test")], ["?n0.many.test", "?n1.many.test"]),
        ("no IPv6", "ask(dotted('api.allowed.test'), 28)", "0 0", []),
    ], rules=("--allow", "git.allowed.test:22"), lines="  mode: pinned\nrules:\n  - {host: api.allowed.test, ports: 443}\n"
        "  - {host: '*.allowed.test', ports: 443, protocol: tls}\n  - {host: x.allowed.test, ports: 80}\n  - {host: x.allowed.test, ports: 7}\n"
        "  - {host: api.allowed.test, ports: 80}\n  - {host: api.allowed.test, ports: 7}\n  - {host: '*.many.test', ports: 7, max_names: 2}\n")
    eq({x["name_source"] for x in recs if "name_source" in x}, {"pin", "none"}, f"{recs}")


@case
@way(31)
def no_other_families(m):
    names = {"VSOCK": (40, 1), "ALG": (38, 5), "TIPC": (30, 5), "RDS": (21, 5), "SMC": (43, 1), "XDP": (44, 3), "PACKET": (17, 3, 768), "KCM": (41, 5),
             "BLUETOOTH": (31, 3, 1), "CAN": (29, 3, 1), "QIPCRTR": (42, 2), "MCTP": (45, 2), "NETLINK_NETFILTER": (16, 3, 12), "NETLINK_XFRM": (16, 3, 6),
             "raw": (2, 3, 1), "raw 6": (10, 3, 58), "SCTP": (2, 1, 132), "MPTCP": (2, 1, 262), "ping": (2, 2, 1)}
    attempts(m, [(n, f"family{a}" if len(a) > 1 else f"family({a[0]})", "unreach" if n == "ping" else "perm", []) for n, a in names.items()])


@case
@way(28)
def an_alias_is_trusted_and_gains_nothing(m):
    recs, _ = attempts(m, [
        ("alias", "tcp('cname.allowed.test', 7)", b"hello", [("connect", "allowed", "cname.allowed.test:7")], ["?cname.allowed.test", A + ":7"]),
        ("what it stands for", "tcp('elsewhere.other.test', 7)", "noname", [("dns", "no_rule", "elsewhere.other.test")])])
    ok("elsewhere.other.test" in recs[0]["cname_chain"], f"{recs}")


def talk(m, rules, script):
    """A sandbox that does what is written to it, line by line."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf, log = m.put("rules", gateworld.RULES), m.path("log")
    p = m.popen(m.run_argv("--egress", conf, "--egress-log", log, "-i", *rules, "--", "/usr/bin/python3", "-u", "-c", gateworld.INSIDE + script),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def do(line):
        p.stdin.write(line.encode() + b"\n")
        p.stdin.flush()
        said = p.stdout.readline().decode().strip()
        ok(said, lambda: f"{line}: {p.communicate(timeout=20)}")
        return said
    return p, do, log


def so_far(log):
    with open(log, encoding="ascii") as f:
        return [gateworld.json.loads(x) for x in f if x.endswith("\n")]


LOOP = "for line in sys.stdin: print(eval(line))\n"


@case
@way(29)
def sandboxes_are_told_apart_by_their_listener(m):
    p, first, log1 = talk(m, ("--allow", "x.allowed.test:7"), LOOP)
    q, second, log2 = talk(m, ("--allow", "api.allowed.test:80"), LOOP)
    eq(first("socket.gethostbyname('x.allowed.test')"), "198.18.1.0", "made-up address")
    eq(second("socket.gethostbyname('api.allowed.test')"), "198.18.1.0", "the same in the other sandbox")
    W.take()
    eq((first("tcp('198.18.1.0', 7)"), second("tcp('198.18.1.0', 7)")), ("b'hello'", "reset"), "same address, own rules")
    p.communicate(timeout=20)
    eq(second("tcp('198.18.1.0', 7)"), "reset", "after the first has ended")
    q.communicate(timeout=20)
    eq([x["conn"] for x in W.take() if "conn" in x], [A + ":7"], "one connection")
    for log, want in ((log1, ["allowed"]), (log2, ["port", "port"])):
        with open(log, encoding="ascii") as f:
            recs = [x for x in map(gateworld.json.loads, f) if x["event"] == "connect"]
        eq(([x["reason"] for x in recs for _ in range(x.get("suppressed", 1))], len({x["sandbox_id"] for x in recs})), (want, 1), f"{recs}")
        proved(verdict="deny" if "port" in want else "allow", reason=want[0], records=len(want), upstream=[A + ":7"] * (want == ["allowed"]))


@both_ways
@way(16)
def root_of_the_namespace_gains_nothing(m):
    p, do, log = talk(m, WILD, "print(os.getpid())\n" + LOOP)
    p.stdout.readline()
    eq(do("tcp('x.allowed.test', 7)"), "b'hello'", "works")
    W.take()

    def inside():
        """The command, as it is seen from here."""
        return [x for x in reap.below(p.pid) if reap.cmdline(x).startswith(b"/usr/bin/python3\0-u")]
    pid = until(inside, 20, "the command's process")[0]

    def as_root(cmd):
        return subprocess.run(["nsenter", "-t", str(pid), "-n", "sh", "-c", cmd],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=20)
    rules = as_root("nft list ruleset").stdout
    ok(b"table inet gate" in rules and (b" redirect to " if m.extra else b" tproxy ") in rules, f"sees its rules: {rules}")
    # what only its root can send: nothing answers, and each is reported
    ping = ("python3 - <<'E'\nimport socket\nfor f, p, a, echo in ((2, 1, '8.8.8.8', b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0'), (10, 58, '2001:4860:4860::8888', b'\\x80\\0' + bytes(6))):\n"
            "    s = socket.socket(f, 3, p); s.settimeout(0.3); s.connect((a, 0)); s.send(echo)\n"
            "    try: print(a, s.recv(99).hex())\n    except OSError as e: print('none')\nE")
    eq(as_root(ping).stdout.split(), [b"none"] * 2, "echo")
    until(lambda: [x["transport"] for x in so_far(log) if x["event"] == "packet"] == ["icmp"] * 2, 20, lambda: f"reports: {so_far(log)}")
    for what in ("nft flush ruleset", "nft flush ruleset; ip route flush table main; ip -6 route flush table main",
                 "ip link add veth0 type veth peer name veth1; ip addr add 93.184.216.1/24 dev veth0; ip link set veth0 up; "
                 "ip link set veth1 up; ip route add default dev veth0",
                 "ip rule add pref 1 lookup main; ip rule del pref 0; ip link set lo down"):
        r = as_root(what)
        eq(r.returncode, 0, f"{what}: {r.stdout}")
        said = do(f"[word(lambda: socket.create_connection(a, 0.2) and 'connected')() for a in (('{A}', 7), ('{B}', 443), ('10.99.0.1', 7), ('8.8.8.8', 53))]")
        ok(said[0] == "[" and "connected" not in said, f"{what}: {said}")
    p.communicate(timeout=20)
    eq(W.take(), [], "nothing arrived")
    # what it could still send was refused and reported; without rules, addresses or routes there is nothing to report
    eq([x["reason"] for x in so_far(log) if x["verdict"] == "deny"], ["transport"] * 2, "records")
    proved(verdict="deny", reason="transport", records=2, upstream=())


sys.exit(gateworld.run(__file__, W))
