#!/usr/bin/python3
"""HTTP that the gate reads: TLS that ends there, requests decided one by one, secrets put in on the way. Against a TLS server
with certificates of an authority of the test's own; every check also looks at what that server was sent."""
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import gateworld  # noqa: E402
from brigtest import Skip, case, done, eq, ok, until  # noqa: E402
from gateworld import C  # noqa: E402
from published import proved, way  # noqa: E402

W = gateworld.enter()
TOP = tempfile.mkdtemp(prefix="inspect-")
TOKEN = "sek-" + secrets.token_hex(16)
MARK = "PLACEHOLDER_" + "TOKEN"


def sh(cmd):
    subprocess.run(cmd, shell=True, check=True, cwd=TOP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def serve():
    os.chmod(TOP, 0o755)
    ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30"
    sh(f"openssl req -x509 {ec} -keyout ca.key -out ca.pem -subj '/CN=a CA of the test'")
    for name, san, how in (("web", "web", "-days 30"), ("other", "other", "-days 30"), ("expired", "expired", "-days 0"), ("wrong", "elsewhere", "-days 30")):
        sh(f"openssl req {ec} -keyout k -out r -subj /CN={name}; printf 'subjectAltName=DNS:{san}.allowed.test' > e; "
           f"openssl x509 -req -in r -CA ca.pem -CAkey ca.key {how} -extfile e -out c; cat k c > {name}.allowed.test.pem")
    sh(f"openssl req -x509 {ec} -keyout k -out c -subj /CN=self -addext subjectAltName=DNS:self.allowed.test; cat k c > self.allowed.test.pem")
    sh("git init -q -b main w && cd w && echo cloned > file && git add file && git -c user.name=t -c user.email=t@t commit -qm m && "
       "git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info")
    p = W.start([sys.executable, os.path.join(HERE, "..", "lib", "httpserver.py"), TOP, C], stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"ready\n", "the server")


if W is not None:
    serve()
AT = [0]
OTHER = []   # what the other side saw of the last run
CONNS = [0]  # made to the server before the last call of upstream()


def upstream():
    """The heads that reached the server since the last call."""
    with open(os.path.join(TOP, "seen"), "rb") as f:
        f.seek(AT[0])
        out = [json.loads(x) for x in f]
        AT[0] = f.tell()
    CONNS[0] = len([x for x in out if "conn" in x])
    return [x for x in out if "conn" not in x]


def rule(host, *, port=443, inject=None, **http):
    """A rule of the file; http: methods, paths, max_body_bytes, upgrade, raw_paths."""
    lines = [f"  - id: {host.split('.')[0]}", f"    host: {host}", f"    ports: [{port}]"]
    lines += ["    protocol: http"] if port == 80 else ["    protocol: tls", "    tls: inspect"]
    if http:
        lines += ["    http:"]
    for k, v in http.items():
        lines += [f"      {k}: {json.dumps(v)}"]
    if inject:
        lines += ["    inject:"] + [("      - " if i == 0 else "        ") + f"{k}: {json.dumps(v)}" for i, (k, v) in enumerate(inject.items())]
    return "\n".join(lines) + "\n"


AUTH = {"header": "authorization", "format": "Bearer {secret}", "secret": "env:TEST_TOKEN", "placeholder": MARK}

# Inside: send bytes over TLS (or not) and read to the end; status and code of each answer
CLIENT = r"""
import base64, http.client, json, os, re, socket, ssl, subprocess, sys
def connect(host='web.allowed.test', sni=None, port=443):
    s = socket.create_connection((host, port), 20); s.settimeout(20)
    return ssl.create_default_context().wrap_socket(s, server_hostname=sni or host) if port == 443 else s
def raw(data, **kw):
    out = b''
    try:
        s = connect(**kw); s.sendall(data)
        while True:
            d = s.recv(65536)
            if not d: return out
            out += d
    except ssl.SSLError as e: return out + b'!' + type(e).__name__.encode()
    except OSError as e: return out + b'!' + str(e.errno).encode()
def get(path, *more, host='web.allowed.test', method='GET', body=b''):
    return '\r\n'.join((f'{method} {path} HTTP/1.1', f'Host: {host}', *more, '', '')).encode('latin1') + body
def said(out):  # "200", or "403 code"
    got = []
    for part in re.split(rb'(?=HTTP/1\.1 \d\d\d )', out):
        m = re.match(rb'HTTP/1\.1 (\d\d\d)', part)
        if m:
            code = re.search(rb'"code":"(\w+)"', part)
            got.append(m[1].decode() + (' ' + code[1].decode() if code else ''))
    return ', '.join(got) or (out[-20:].decode('latin1') if out else 'nothing')
"""


def inspect(m, script, *rules, rc=0, env=None, opts=(), argv=None, top=""):
    """One run: its result, its records, the heads the server got."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    conf = m.put("rules.yaml", f"version: 1\ndns:\n  resolver: [{gateworld.RESOLVER}]\n{top}rules:\n" + "".join(rules))
    log = m.path("log")
    upstream()
    W.take()
    env = {"TEST_TOKEN": TOKEN, "BRIG_EGRESS_CA": os.path.join(TOP, "ca.pem"), **(env or {})}
    r = m.run("--egress", conf, "--egress-log", log, *opts, "--", *(argv or ("/usr/bin/python3", "-c", CLIENT + script)), env=env)
    if rc is not None:
        done(r, rc)
    ok(TOKEN.encode() not in r.out + r.err, "the secret came out")
    with open(log, encoding="ascii") as f:
        text = f.read()
    ok(TOKEN not in text, "the secret was logged")
    recs = [json.loads(x) for x in text.splitlines()]
    eq([x["seq"] for x in recs], list(range(len(recs))), "no record is missing")
    OTHER[:] = W.take()
    return r, recs, upstream()


def table(m, rows, *rules, conns=None, resets=(), unsaid=(), others=(), **kw):
    """rows: (title, expression of bytes to send [, options of raw], what is said, lines that reach the server). Every code that is said is the
    reason of one refusal's record, but those `unsaid`; resets: reasons of those that are only reset. conns: how many connections reach the
    server; as a rule those of the rows with lines. others: what else may be connected to."""
    script = "".join(f"print({t!r}, said(raw({e})), sep='\\t')\n" for t, e, *_ in rows)
    r, recs, seen = inspect(m, script, *rules, **kw)
    got = dict(x.split("\t", 1) for x in r.out.decode().splitlines())
    for t, e, want, *_ in rows:
        ok(got.get(t) == want, lambda: f"{t}: {e}: {got.get(t)!r}, want {want!r}; {recs[-4:]}")
    eq(len(got), len(rows), "titles are told apart")
    eq([x["head"][0] for x in seen], [y for row in rows for y in row[3:]], "what reached the server")
    eq(CONNS[0], len([row for row in rows if row[3:]]) if conns is None else conns, "connections made to the server")
    if CONNS[0] == 0:
        gateworld.only_packets(OTHER, ["?", *others])
    codes = lambda want: [x.split(" ")[1] for x in want.split(", ") if " " in x]
    eq(denied(recs), sorted([x for _, _, want, *_ in rows for x in codes(want) if x not in unsaid] + list(resets)), f"one record of each refusal: {recs}")
    for _, _, want, *lines in rows:
        reasons = codes(want) or (["reset"] if want[0] == "!" else ["allowed"])
        proved(verdict="allow" if reasons == ["allowed"] else "deny", reason=reasons, records=len(reasons), upstream=lines)
    return recs, seen


def requests(recs):
    return [(x["verdict"], x["reason"], x["http"]["method"], x["http"]["path"], x["http"].get("status")) for x in recs if x["event"] == "request" and "http" in x]


def denied(recs):
    """The reasons of all refusals, those only counted too."""
    return sorted(x["reason"] for x in recs if x["verdict"] == "deny" for _ in range(x.get("suppressed", 1)))


@case
def programs_get_through(m):
    script = r"""
out = lambda *a: print(subprocess.run(a, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode().strip().split('\n')[-1])
out('curl', '-sS', 'https://web.allowed.test/curl')
import urllib.request
print(urllib.request.urlopen('https://web.allowed.test/urllib').read().decode().strip())
out('node', '-e', "fetch('https://web.allowed.test/node').then(r => r.text()).then(t => console.log(t.trim()))")
os.environ['HOME'] = '/tmp'
out('git', 'clone', '-q', 'https://web.allowed.test/repo.git', '/tmp/c')
print(open('/tmp/c/file').read().strip())
c = http.client.HTTPSConnection('web.allowed.test')
for i in range(50):
    c.request('GET', f'/n{i}'); a = c.getresponse().read()
print(a.decode().strip())
"""
    r, recs, seen = inspect(m, script, rule("web.allowed.test", inject=AUTH))
    eq(r.out.decode().split("\n")[:-1], ["page /curl", "page /urllib", "page /node", "", "cloned", "page /n49"], f"{r!r}")
    ok(all(x["sni"] == "web.allowed.test" and f"authorization: Bearer {TOKEN}" in x["head"] for x in seen), f"{seen}")
    eq(len([x for x in requests(recs) if x[3].startswith("/n") and x[:2] == ("allow", "allowed") and x[4] == 200]), 51, f"{recs}")
    one = [x for x in recs if x["event"] == "request"][0]
    eq((one["inject"], one["http"]["host"], one["rule_id"]), ([{"header": "authorization", "secret_ref": "env:TEST_TOKEN"}], "web.allowed.test", "web"), "record")
    eq([x["event"] for x in recs if x["event"] in ("connect", "close")].count("connect"), [x["event"] for x in recs].count("close"), "each has its end")


@case
@way(11, 13, 26)
def requests_are_decided_one_by_one(m):
    rows = [
        ("good", "get('/repos/acme/x?q=..%2f', 'Connection: close')", "200", "GET /repos/acme/x?q=..%2f HTTP/1.1"),
        ("unreserved is decoded", "get('/r%65pos/%61cme/y', 'Connection: close')", "200", "GET /r%65pos/%61cme/y HTTP/1.1"),
        ("method", "get('/repos/acme/x', method='DELETE')", "403 method"),
        ("path", "get('/repos/evil/x')", "403 path"),
        ("dots", "get('/repos/acme/../evil/x')", "403 path_odd"),
        ("coded dots", "get('/repos/acme/%2e%2E/evil')", "403 path_odd"),
        ("two slashes", "get('/repos/acme//x')", "403 path_odd"),
        ("coded slash", "get('/repos/acme%2fx')", "403 path_odd"),
        ("coded backslash", "get('/repos/acme%5cx')", "403 path_odd"),
        ("coded zero", "get('/repos/acme/x%00')", "403 path_odd"),
        ("large", "get('/repos/acme/x', 'Content-Length: 2001', method='POST')", "413 body_size"),
        ("pipelined", "get('/repos/acme/1') + get('/repos/evil/2') + get('/repos/acme/3')", "200, 403 path", "GET /repos/acme/1 HTTP/1.1"),
        ("fronting", "get('/repos/acme/x', host='evil.test')", "421 authority_mismatch"),
        ("fronting by a port", "get('/repos/acme/x', host='web.allowed.test:444')", "421 authority_mismatch"),
        ("fronting by the target", "get('https://evil.test/repos/acme/x')", "421 authority_mismatch"),
        ("another scheme", "get('http://web.allowed.test/repos/acme/x')", "421 authority_mismatch"),
        ("absolute", "get('https://web.allowed.test/repos/acme/abs', 'Connection: close', host='WEB.allowed.test.:443')", "200", "GET /repos/acme/abs HTTP/1.1"),
        ("h2c", "get('/repos/acme/x', 'Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'HTTP2-Settings: AA')", "403 upgrade"),
        ("websocket, not listed", "get('/repos/acme/x', 'Upgrade: websocket', 'Connection: Upgrade')", "403 upgrade"),
        ("other name in SNI", "get('/repos/acme/x'), sni='other.allowed.test'", "!104"),
    ]
    recs, seen = table(m, rows, rule("web.allowed.test", methods=["GET", "POST"], paths=["/repos/acme/**"], max_body_bytes=2000), resets=["sni_mismatch"])
    ok(all(x["head"][1] == "Host: web.allowed.test" for x in seen), f"{seen}")
    eq(denied(recs), sorted(["method", "path", "path", "upgrade", "upgrade", "body_size", "sni_mismatch"] + ["path_odd"] * 6 + ["authority_mismatch"] * 4), f"{recs}")
    eq([x["reason"] for x in recs if x["verdict"] == "deny" and x["event"] == "connect"], ["sni_mismatch"], "one that says another name")
    eq(len([x for x in recs if x["event"] == "connect" and x["verdict"] == "allow"]), 4, "only permitted requests had a connection made")


@case
def only_http1_and_one_name(m):
    """What insists on HTTP/2 is told so by TLS (RFC 7301 3.2), and a connection that stays open leads to no other name, allowed or not."""
    script = ("def offers(*names):\n    c = ssl.create_default_context(); c.set_alpn_protocols(names)\n"
              "    try: return c.wrap_socket(socket.create_connection(('web.allowed.test', 443), 20), server_hostname='web.allowed.test').selected_alpn_protocol()\n"
              "    except ssl.SSLError as e: return 'told' if 'no application protocol' in str(e) else str(e)\n"
              "print(offers('h2'), offers('h2', 'http/1.1'), offers('http/1.1'))\n"
              "print(said(raw(get('/a') + get('/b', host='other.allowed.test'))), said(raw(get('/c') + get('/d', host='evil.test'))), sep='; ')\n")
    r, recs, seen = inspect(m, script, rule("web.allowed.test"), rule("other.allowed.test"))
    eq(r.out.decode().splitlines(), ["told http/1.1 http/1.1", "200, 421 authority_mismatch; 200, 421 authority_mismatch"], f"{recs}")
    eq([(x["event"], x["alpn"]) for x in recs if x["reason"] == "client_tls"], [("connect", "h2")], f"{recs}")
    eq([x["head"][0] for x in seen], ["GET /a HTTP/1.1", "GET /c HTTP/1.1"], "nothing else reached the server")


@case
@way(26)
def ambiguous_framing_is_refused(m):
    post = "get('/x', {}, method='POST', body=b'0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\nHost: web.allowed.test\\r\\n\\r\\n')"
    rows = [(x, post.format(x), "400 http_unparsable") for x in (
        "'Content-Length: 5', 'Transfer-Encoding: chunked'", "'Content-Length: 5', 'Content-Length: 6'", "'Content-Length: 5, 5'", "'Content-Length: +5'",
        "'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'", "'Transfer-Encoding: identity, chunked'", "'Transfer-Encoding : chunked'",
        "'Transfer-Encoding: chunked\\n'", "'Transfer-Encoding:\\x0bchunked'", "'X: y\\x00'", "'X: y\\n Transfer-Encoding: chunked'", "' X: y'", "'Host: evil.test'",
        "'Expect: 200-maybe'")]
    rows += [("bare lines", r"b'GET / HTTP/1.1\nHost: web.allowed.test\n\n'", "400 http_unparsable"),
             ("no host", r"b'GET / HTTP/1.1\r\n\r\n'", "400 http_unparsable"),
             ("CONNECT", "get('evil.test:443', method='CONNECT')", "400 http_unparsable"),
             ("too much", "get('/', 'X: ' + 'y' * 70000)", "431 http_unparsable"),
             ("too many", "get('/', *['X: y'] * 101)", "431 http_unparsable"),
             ("HTTP/2", r"b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'", "400 http_unparsable")]
    for name, body in (("size", "b'5;\\x01\\r\\nhello\\r\\n0\\r\\n\\r\\n'"), ("extension", "b'5;' + b'x' * 300 + b'\\r\\nhello\\r\\n0\\r\\n\\r\\n'"), ("bare", "b'5\\nhello\\n0\\n\\n'"),
                       ("negative", "b'-5\\r\\nhello\\r\\n0\\r\\n\\r\\n'")):
        rows.append((f"chunk {name}", f"get('/post', 'Transfer-Encoding: chunked', method='POST', body={body})", "400 http_unparsable"))
    recs, _ = table(m, rows, rule("web.allowed.test"))
    eq(denied(recs), ["http_unparsable"] * len(rows), f"{recs}")
    eq([x["event"] for x in recs if x["verdict"] == "allow"], [], "nobody was connected to for them")


@case
def what_comes_later_is_judged_when_it_comes(m):
    """The head has gone on when the client is told to go on with the body: what is wrong with that is refused all the same."""
    script = ("def later(body, *more, host='web.allowed.test'):\n"
              "    s = connect(host); s.sendall(get('/post', 'Expect: 100-continue', *more, host=host, method='POST')); f = s.makefile('rb')\n"
              "    assert f.readline().startswith(b'HTTP/1.1 100') and f.readline() == b'\\r\\n'\n"
              "    s.sendall(body); return said(f.read())\n"
              "print(later(b'-5\\r\\nhello\\r\\n', 'Transfer-Encoding: chunked'), later(b'5\\r\\nhello\\r\\n' * 500, 'Transfer-Encoding: chunked'),\n"
              "      later(('PLACEHOLDER_' + 'TOKEN').encode() * 9, 'Content-Length: 153', host='other.allowed.test'), sep=', ')\n")
    r, recs, seen = inspect(m, script, rule("web.allowed.test", inject=AUTH, max_body_bytes=2000), rule("other.allowed.test"))
    eq(r.out, b"400 http_unparsable, 413 body_size, 403 secret_placeholder_misuse\n", f"{recs}")
    eq(denied(recs), ["body_size", "http_unparsable", "secret_placeholder_misuse"], f"{recs}")
    eq([x["head"][0] for x in seen], ["POST /post HTTP/1.1"] * 3, "the heads")


@case
def bodies_both_ways(m):
    script = r"""
import hashlib
out = lambda *a, **k: print(subprocess.run(a, stdout=subprocess.PIPE, **k).stdout.decode().strip())
body = os.urandom(300000)
print(hashlib.sha256(body).hexdigest())
c = http.client.HTTPSConnection('web.allowed.test')
c.request('POST', '/post', body); print(c.getresponse().read().decode())
c.request('POST', '/post', iter([body[:5], body[5:70000], body[70000:]]), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'}); print(c.getresponse().read().decode())
open('/tmp/b', 'wb').write(body)
out('curl', '-sS', '-H', 'Expect: 100-continue', '--data-binary', '@/tmp/b', 'https://web.allowed.test/post')
out('curl', '-sS', '-o', '/dev/null', '-w', '%{size_download}', 'https://web.allowed.test/big?30000000')
out('curl', '-sS', 'https://web.allowed.test/until-close')
out('curl', '-sS', '-0', 'https://web.allowed.test/ten')
out('curl', '-sS', '-I', 'https://web.allowed.test/head')
print(said(raw(get('/cut'))), said(raw(get('/two-framings'))))
"""
    r, recs, seen = inspect(m, script, rule("web.allowed.test"))
    out = r.out.decode().replace("\r", "").split("\n")
    eq(out[1:4], [f"300000 {out[0]}"] * 3, f"{r!r}")
    eq(out[4:7], ["30000000", "to the end", "page /ten"], f"{r!r}")
    ok(out[7] == "HTTP/1.1 200 OK" and out[-2].endswith("502 upstream_error") and out[-2].startswith("200"), f"{out}")
    ok(any(x["head"][1:] and "Expect: 100-continue" in x["head"] for x in seen), "passed on")
    ok([x for x in recs if x["event"] == "close" and x["bytes_down"] > 30000000], f"{recs}")


@case
@way(22)
def secrets_go_to_the_server_only(m):
    script = r"""
pattern = re.compile(b'se' + b'k-[0-9a-f]{32}')
print(said(raw(get('/echo', 'Connection: close', 'Authorization: mine', 'Accept-Encoding: gzip', 'Range: bytes=0-9'))))
a = raw(get('/echo', 'Authorization: Bearer ' + os.environ['PLACEHOLDER_' + 'TOKEN'], 'Connection: close'))
b = raw(get('/echo-plain', 'Connection: close'))
print(a.count(b'*' * 36), b.endswith(b'Bearer ' + b'*' * 36), b'mine' in a)
found = [bool(pattern.search(a + b)), bool(pattern.search(base64.b64decode(re.sub(rb'[^A-Za-z0-9+/]', b'', a.split(b'\r\n')[-2] or b'AAAA') + b'==')))]
found.append(any(pattern.search(open(f, 'rb').read()) for f in ('/proc/self/environ', '/proc/1/environ', '/run/brig-ca.pem', '/etc/ssl/certs/ca-certificates.crt') if os.access(f, os.R_OK)))
mem = open('/proc/self/mem', 'rb')
for line in open('/proc/self/maps'):
    span, perm = line.split()[:2]
    a, z = (int(x, 16) for x in span.split('-'))
    if perm[0] == 'r' and 'v' not in line.split()[-1][:2]:
        mem.seek(a)
        try: found.append(bool(pattern.search(mem.read(z - a))))
        except OSError: pass
print(any(found), len(found) > 10)
print(subprocess.run(('curl', '-sSL', 'https://web.allowed.test/redirect?other.allowed.test'), stdout=subprocess.PIPE).stdout.decode())
print(said(raw(get('/gzip'))))
"""
    r, recs, seen = inspect(m, script, rule("web.allowed.test", inject=AUTH), rule("other.allowed.test"))
    eq(r.out.decode().split("\n")[:-1], ["200", "2 True False", "False True", "none", "502 upstream_error"], f"{r!r} {recs}")
    for x in seen:
        auth = [y for y in x["head"] if y.lower().startswith("authorization")]
        eq(auth, [f"authorization: Bearer {TOKEN}"] if x["sni"] == "web.allowed.test" else [], f"{x}")
        ok(not [y for y in x["head"] if y.lower().startswith(("range", "accept-encoding: g"))], f"what is searched must be readable: {x}")
    eq([x["sni"] for x in seen].count("other.allowed.test"), 1, "the redirect was followed")
    allowed = [x for x in requests(recs) if x[0] == "allow"]
    eq(len(allowed), len(seen) - 1, "each has its record; of one the answer was refused")
    proved(verdict="allow", reason="allowed", records=len(allowed), upstream=[x["head"][0] for x in seen])


@case
def basic_credentials(m):
    how = {"header": "authorization", "format": "Basic x-access-token:{secret}", "secret": "cmd:printf %s \"$TEST_TOKEN\""}
    r, _, seen = inspect(m, "print(said(raw(get('/echo-plain', 'Connection: close'))), raw(get('/echo-plain', 'Connection: close'))[-30:])", rule("web.allowed.test", inject=how))
    import base64
    eq(seen[0]["head"][-1], "authorization: Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode(), "encoded")
    ok(b"*" * 30 in r.out, repr(r))
    own = {**AUTH, "format": "token {secret}", "strip_client_value": False}
    script = r"""
code = lambda s: base64.b64encode(s.encode()).decode()
for a in ('Bearer ' + os.environ['PLACEHOLDER_TOKEN'], 'Basic ' + code('me:' + os.environ['PLACEHOLDER_TOKEN']), 'Bearer mine'):
    raw(get('/x', 'Authorization: ' + a, 'Connection: close'))
raw(get('/x', 'Connection: close'))
"""
    _, _, seen = inspect(m, script, rule("web.allowed.test", inject=own))
    eq([x["head"][-1] for x in seen], [f"authorization: Bearer {TOKEN}", "authorization: Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode(),
                                       "authorization: Bearer mine", f"authorization: token {TOKEN}"], f"{seen}")


@case
@way(22)
def placeholders_elsewhere(m):
    mark = "'PLACEHOLDER_' + 'TOKEN'"
    b64 = f"base64.b64encode(('user:' + {mark}).encode()).decode()"
    to = "host='other.allowed.test'"
    rows = [
        ("header", f"get('/', 'X-Token: ' + {mark}, {to}), {to}", "403 secret_placeholder_misuse"),
        ("coded", f"get('/', 'Authorization: Basic ' + {b64}, {to}), {to}", "403 secret_placeholder_misuse"),
        ("target", f"get('/?t=' + {mark}, {to}), {to}", "403 secret_placeholder_misuse"),
        ("body", f"get('/post', 'Content-Length: 37', {to}, method='POST', body=b'a' * 20 + ({mark}).encode()), {to}", "403 secret_placeholder_misuse"),
        ("chunks", f"get('/post', 'Transfer-Encoding: chunked', {to}, method='POST', body=b''.join(b'1\\r\\n%c\\r\\n' % c for c in ({mark}).encode()) + b'0\\r\\n\\r\\n'), {to}",
         "403 secret_placeholder_misuse"),
        ("in the clear", f"get('/', 'X-Token: ' + {mark}, host='attacker.test'), host='attacker.test', port=80", "403 secret_placeholder_misuse"),
        ("for the host, in the clear", f"get('/', 'X-Token: ' + {mark}), port=80", "403 secret_placeholder_misuse"),
        ("where it belongs", f"get('/', 'Authorization: Bearer ' + {mark}, 'Connection: close')", "200", "GET / HTTP/1.1"),
    ]
    recs, seen = table(m, rows, rule("web.allowed.test", inject=AUTH), rule("other.allowed.test"), rule("attacker.test", port=80), rule("web.allowed.test", port=80).replace("id: web", "id: clear"))
    bad = [x for x in recs if x["verdict"] == "deny"]
    ok(len(denied(recs)) == 7 and {(x["reason"], x["severity"]) for x in bad} == {("secret_placeholder_misuse", "high")}, f"{bad}")
    ok(all(TOKEN not in str(x) for x in seen if x["sni"] != "web.allowed.test"), f"{seen}")


@case
@way(13, 21)
def the_clear_gets_no_secret(m):
    rows = [("another's name", "get('/'), host='attacker.test', port=80", "421 host_mismatch"),
            ("own name", "get('/', 'Connection: close', host='attacker.test'), host='attacker.test', port=80", "200", "GET / HTTP/1.1"),
            ("the host in the clear", "get('/', 'Connection: close'), port=80", "200", "GET / HTTP/1.1"),
            ("pipelined to another name", "get('/1', host='attacker.test') + get('/2'), host='attacker.test', port=80", "200, 421 host_mismatch", "GET /1 HTTP/1.1"),
            ("the host's name at an address", f"get('/'), host='{C}', port=80", "!111")]
    recs, seen = table(m, rows, rule("web.allowed.test", inject=AUTH), rule("attacker.test", port=80), rule("web.allowed.test", port=80).replace("id: web", "id: clear"),
                       resets=["raw_ip"])
    ok(TOKEN not in str(seen), f"{seen}")


@case
def in_the_clear_where_the_operator_names_the_network(m):
    """plaintext_inject: to the private address that the rule names; the same rule without it sends none."""
    mine = rule("private.allowed.test", port=80, inject=AUTH) + "    allow_addrs: [10.20.0.0/16]\n"
    ask = "print(said(raw(get('/', 'Authorization: mine', 'Connection: close', host='private.allowed.test'), host='private.allowed.test', port=80)))"
    r, recs, _ = inspect(m, ask, mine + "    plaintext_inject: true\n")
    eq(r.out, b"200\n", f"{recs}")
    eq([x["auth"] for x in OTHER if "http" in x], [f"Bearer {TOKEN}"], "the secret")
    eq([x["inject"] for x in recs if x["event"] == "request"], [[{"header": "authorization", "secret_ref": "env:TEST_TOKEN"}]], f"{recs}")
    for wrong in (mine, mine.replace("    allow_addrs: [10.20.0.0/16]\n", "    plaintext_inject: true\n")):
        r = m.run("--egress", m.put("rules.yaml", "version: 1\nrules:\n" + wrong), "--", "echo", "ran", env={"TEST_TOKEN": TOKEN})
        ok(r.rc == 125 and r.out == b"" and b"allow_addrs" in r.err, f"{r!r}")


@case
def servers_must_prove_their_name(m):
    rows = [(x, f"get('/', host='{x}.allowed.test'), host='{x}.allowed.test'", "502 upstream_cert") for x in ("expired", "wrong", "self")]
    recs, _ = table(m, rows, rule("*.allowed.test", inject=AUTH).replace("id: *", "id: any").replace("host: *.allowed.test", "host: \"*.allowed.test\""), conns=3)
    eq([(x["reason"], x["severity"]) for x in recs if x["event"] == "request"], [("upstream_cert", "high")] * 3, f"{recs}")
    r, _, seen = inspect(m, "print(said(raw(get('/'))))", rule("web.allowed.test"), env={"BRIG_EGRESS_CA": ""})
    eq((r.out, seen), (b"502 upstream_cert\n", []), "an authority that nobody named")


@case
@way(26)
def websockets_where_listed(m):
    script = r"""
s = connect()
s.sendall(get('/ws', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='))
f = s.makefile('rb')
while (line := f.readline()) != b'\r\n': print(line.decode().strip())
s.sendall(b'hello'); print(f.read(5))
s.sendall(b'again'); print(f.read(5))
s.unwrap()
"""
    r, recs, _ = inspect(m, script, rule("web.allowed.test", upgrade=["websocket"], paths=["/ws"]))
    out = r.out.decode().split("\n")
    ok(out[0].startswith("HTTP/1.1 101") and "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in out and out[-3:] == ["b'HELLO'", "b'AGAIN'", ""], f"{r!r}")
    eq(requests(recs), [("allow", "allowed", "GET", "/ws", 101)], f"{recs}")
    proved(verdict="allow", reason="allowed", records=1, upstream=["GET /ws HTTP/1.1"])


@case
def through_the_operators_proxy(m):
    """The server's certificate is for the name, the tunnel for the address; what is refused is not said to the proxy."""
    for kind, rows, asked, why in (
            ("open", [("good", "get('/a', 'Connection: close')", "200", "GET /a HTTP/1.1"), ("method", "get('/b', method='DELETE')", "403 method"),
                      ("fronting", "get('/c', host='evil.test')", "421 authority_mismatch")], [f"open CONNECT {C}:443"], "ended"),
            ("refuses", [("refused", "get('/a')", "502 proxy_refused")], [f"refuses CONNECT {C}:443"], "proxy_refused"),
            ("odd", [("odd", "get('/a')", "502 proxy_odd")], [f"odd CONNECT {C}:443"], "proxy_odd")):
        recs, seen = table(m, rows, rule("web.allowed.test", inject=AUTH, methods=["GET"]),
                           conns=len([x for x in rows if x[3:]]), unsaid=("proxy_refused", "proxy_odd"),
                           others=[f"{gateworld.PROXY}:{gateworld.PROXIES[kind]}"], top=f"proxy: {{address: '{gateworld.PROXY}:{gateworld.PROXIES[kind]}'}}\n")
        eq([x["proxy"] for x in OTHER if "proxy" in x], asked, kind)
        eq([x["sni"] for x in seen], ["web.allowed.test"] * len(seen), "the name stays")
        eq([(x["close_reason"], x["proxy"]) for x in recs if x["event"] == "close"], [(why, f"{gateworld.PROXY}:{gateworld.PROXIES[kind]}")], f"{recs}")


def held_sockets(pid):
    """Descriptor -> inode."""
    links = {int(x): os.readlink(f"/proc/{pid}/fd/{x}") for x in os.listdir(f"/proc/{pid}/fd")}
    return {fd: int(to[8:-1]) for fd, to in links.items() if to.startswith("socket:[")}, [fd for fd, to in links.items() if "eventpoll" in to]


@case
def what_was_handed_over_is_not_watched(m):
    """epoll(7) tells of a socket as long as anybody holds it: the gate would be told of one whose connection it has forgotten."""
    conf = m.put("rules.yaml", gateworld.RULES + "rules: [{host: x.allowed.test, ports: 9000, protocol: http}]\n")
    s = gateworld.Inside(W, m, conf, code="keep = []\n")
    gate = s.gate_pid()
    eq(s.say("keep.append(socket.create_connection(('x.allowed.test', 9000), 20))"), "None", "connected")
    eq(s.say("keep[0].sendall(b'GET / HTTP/1.1\\r\\nHost: x.allowed.test\\r\\n\\r\\n')"), "None", "asked; the server says nothing yet")

    def elsewhere():
        with open(f"/proc/{gate}/net/tcp", encoding="ascii") as f:
            up = [int(x.split()[9]) for x in f if x.split()[2].endswith(":2328") and x.split()[3] == "01"]
        return len(up) == 1 and up[0] not in held_sockets(gate)[0].values()
    until(elsewhere, 20, "the server's socket is handed over")
    held, polls = held_sockets(gate)
    eq(len(polls), 1, "one epoll")
    with open(f"/proc/{gate}/fdinfo/{polls[0]}", encoding="ascii") as f:
        watched = {int(x.split()[1]): int(x.split("ino:")[1].split()[0], 16) for x in f if x.startswith("tfd:")}
    eq([fd for fd, inode in watched.items() if fd in held and held[fd] != inode], [], "descriptors that are another socket's now")
    eq([fd for fd in watched if not os.path.exists(f"/proc/{gate}/fd/{fd}")], [], "descriptors that are closed")
    s.end()


@case
def rates_of_requests(m):
    conf = rule("web.allowed.test") + "    limits: {requests_per_min: 3}\n"
    conf = conf.replace("limits: {requests_per_min: 3}", "limits:\n      requests_per_min: 3")
    recs, _ = table(m, [("many", "b''.join(get(f'/{i}') for i in range(5))", "200, 200, 200, 429 request_rate", *(f"GET /{i} HTTP/1.1" for i in range(3)))], conf)
    eq([x[1] for x in requests(recs)], ["allowed"] * 3 + ["request_rate"], f"{recs}")


@case
def wrong_settings_refuse_the_start(m):
    if W is None:
        raise Skip("namespaces for the servers need root")
    for inject, env, word in ((AUTH, {"TEST_TOKEN": ""}, b"env:TEST_TOKEN"), ({**AUTH, "secret": "file:/nonexistent"}, {}, b"file:/nonexistent"),
                              ({**AUTH, "secret": "cmd:exit 1"}, {}, b"cmd:exit 1"), (AUTH, {"BRIG_EGRESS_CA": "/nonexistent"}, b"/nonexistent")):
        conf = m.put("rules.yaml", "version: 1\nrules:\n" + rule("web.allowed.test", inject=inject))
        r = m.run("--egress", conf, "--", "echo", "ran", env={"TEST_TOKEN": TOKEN, **env})
        ok(r.rc != 0 and r.out == b"" and word in r.err and TOKEN.encode() not in r.err, f"{word}: {r!r}")


def worker(m, script):
    conf = m.put("rules.yaml", "version: 1\nrules:\n" + rule("web.allowed.test", inject=AUTH))
    p = m.popen(m.run_argv("--egress", conf, "--", "sh", "-c", script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"TEST_TOKEN": TOKEN})
    eq(p.stdout.readline(), b"up\n", "started")
    pids = subprocess.run(["pgrep", "-P", str(p.pid), "brig-inspect"], stdout=subprocess.PIPE, check=False).stdout.split()
    eq(len(pids), 1, "one process")
    return p, int(pids[0])


@case
def the_process_is_locked_in(m):
    if W is None:
        raise Skip("namespaces for the servers need root")
    p, pid = worker(m, "echo up; sleep 60")
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        s = dict(x.rstrip("\n").split(":\t", 1) for x in f if ":\t" in x)
    eq((s["CapPrm"].strip("0"), s["CapEff"].strip("0"), s["NoNewPrivs"], s["Seccomp"]), ("", "", "1", "2"), "no privilege")
    ok(s["Uid"].split()[0] != "0", s["Uid"])
    os.kill(pid, 9)
    _, err = p.communicate(timeout=20)
    ok(p.returncode == 125 and b"brig-inspect" in err, f"{p.returncode} {err}")


@case
def nothing_is_started_without_such_a_rule(m):
    if W is None:
        raise Skip("namespaces for the servers need root")
    r = m.sh("echo $SSL_CERT_FILE; ls /run", "--allow", "web.allowed.test:443")
    eq(r.out, b"\n", f"{r!r}")
    r = m.sh("echo $SSL_CERT_FILE; ls /run", "--allow", "web.allowed.test:80")
    eq(r.out, b"\n", f"{r!r}")


RC = gateworld.run(__file__, W)
if W is not None:
    subprocess.run(["rm", "-rf", TOP], check=True)
sys.exit(RC)
