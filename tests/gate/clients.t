#!/usr/bin/python3
"""Programs that people use, unchanged and without any proxy variable: each reaches an allowed host behind the gate, and on
a refused one ends at once and says why. Against real servers with a CA of their own: HTTPS with git behind it, sshd, PostgreSQL."""
import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
from brigtest import case, eq, main, ok, until  # noqa: E402
from gateworld import B, C  # noqa: E402

W = gateworld.enter()
TOP = tempfile.mkdtemp(prefix="clients-")
PG = "/usr/lib/postgresql/15/bin"

# git's own server program behind HTTPS; everything else is one page
HTTPS = r"""
import http.server, os, ssl, subprocess, sys
top, host = sys.argv[1:]
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        path, _, query = self.path.partition('?')
        path = path.rstrip('/') if path.startswith('/simple') else path
        body = b'page of ' + self.headers['Host'].encode() + b'\n'
        head = [('Content-Type', 'text/plain')]
        if os.path.isfile(top + '/index' + path):
            with open(top + '/index' + path, 'rb') as f: body = f.read()
            head = [('Content-Type', 'text/html' if b'<a ' in body[:9] else 'application/octet-stream')]
        elif path.startswith('/git/'):
            out = subprocess.run(['git', 'http-backend'], input=self.rfile.read(int(self.headers.get('Content-Length', 0))), stdout=subprocess.PIPE, env={
                'PATH': os.environ['PATH'], 'GIT_PROJECT_ROOT': top, 'GIT_HTTP_EXPORT_ALL': '1', 'PATH_INFO': path[4:], 'QUERY_STRING': query,
                'REQUEST_METHOD': self.command, 'CONTENT_TYPE': self.headers.get('Content-Type', ''), 'HOME': top,
                'HTTP_CONTENT_ENCODING': self.headers.get('Content-Encoding', ''), 'GIT_PROTOCOL': self.headers.get('Git-Protocol', '')}).stdout
            text, _, body = out.partition(b'\r\n\r\n')
            head = [tuple(x.decode().split(': ', 1)) for x in text.split(b'\r\n')]
        self.send_response(200)
        for k, v in head: self.send_header(k, v)
        self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer((host, 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(top + '/web.pem')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
print('ready', flush=True)
s.serve_forever()
"""


def sh(cmd, **kw):
    subprocess.run(cmd, shell=True, check=True, cwd=TOP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)


def text(name):
    with open(os.path.join(TOP, name), encoding="ascii") as f:
        return f.read()


def serve():
    os.chmod(TOP, 0o755)
    ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30"
    sh(f"openssl req -x509 {ec} -keyout ca.key -out ca.pem -subj '/CN=a CA of the test'; openssl req {ec} -keyout web.key -out web.csr -subj /CN=web.allowed.test; "
       "printf 'subjectAltName=DNS:web.allowed.test' > ext; openssl x509 -req -in web.csr -CA ca.pem -CAkey ca.key -days 30 -extfile ext -out web.crt; cat web.key web.crt > web.pem")
    sh("git init -q -b main w && cd w && echo cloned > file && git add file && git -c user.name=t -c user.email=t@t commit -qm m && git clone -q --bare . ../repo.git")
    # an index of one package for pip
    os.makedirs(os.path.join(TOP, "index", "simple"))
    with zipfile.ZipFile(os.path.join(TOP, "index", "tiny-1-py3-none-any.whl"), "w") as z:
        for name, body in (("tiny.py", "fetched"), ("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n"),
                           ("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
                           ("tiny-1.dist-info/RECORD", "tiny.py,,\ntiny-1.dist-info/METADATA,,\ntiny-1.dist-info/WHEEL,,\ntiny-1.dist-info/RECORD,,\n")):
            z.writestr(name, body)
    sh("printf '<a href=\"/tiny-1-py3-none-any.whl\">tiny-1-py3-none-any.whl</a>' > index/simple/tiny")
    # a registry of one package for npm
    os.makedirs(os.path.join(TOP, "index", "npm"))
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as t:
        for name, body in (("package.json", b'{"name": "tiny", "version": "1.0.0"}'), ("index.js", b"fetched by npm")):
            one = tarfile.TarInfo("package/" + name)
            one.size = len(body)
            t.addfile(one, io.BytesIO(body))
    with open(os.path.join(TOP, "index", "npm", "tiny-1.0.0.tgz"), "wb") as f:
        f.write(tar.getvalue())
    dist = {"tarball": "https://web.allowed.test/npm/tiny-1.0.0.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tar.getvalue()).digest()).decode()}
    with open(os.path.join(TOP, "index", "npm", "tiny"), "w", encoding="ascii") as f:
        json.dump({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "tiny", "version": "1.0.0", "dist": dist}}}, f)
    sh("ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key && mkdir -p /run/sshd")
    with open(os.path.join(TOP, "sshd_config"), "w", encoding="ascii") as f:
        f.write(f"ListenAddress {C}:2222\nHostKey {TOP}/host\nAuthorizedKeysFile {TOP}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
                "PasswordAuthentication no\nPermitRootLogin prohibit-password\n")
    web = W.start([sys.executable, "-c", HTTPS, TOP, C], stdout=subprocess.PIPE)
    W.start(["/usr/sbin/sshd", "-D", "-f", os.path.join(TOP, "sshd_config")], stderr=subprocess.DEVNULL)
    os.mkdir(os.path.join(TOP, "pg"))
    os.chown(os.path.join(TOP, "pg"), 65534, 65534)
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    subprocess.run([*drop, f"{PG}/initdb", "-N", "-A", "trust", "-U", "tester", "-D", f"{TOP}/pg/d"], check=True, stdout=subprocess.DEVNULL, cwd="/")
    with open(f"{TOP}/pg/d/pg_hba.conf", "a", encoding="ascii") as f:
        f.write("host all all 0.0.0.0/0 trust\n")
    pg = W.start([*drop, f"{PG}/postgres", "-D", f"{TOP}/pg/d", "-h", C, "-k", "", "-F"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    eq(web.stdout.readline(), b"ready\n", "the HTTPS server")
    while b"ready to accept" not in (line := pg.stderr.readline()):
        ok(line, "PostgreSQL did not start")
    probe = "import socket, sys\nsys.exit(socket.socket().connect_ex((sys.argv[1], 2222)))"
    until(lambda: subprocess.run(["nsenter", "-t", str(W.p.pid), "-n", sys.executable, "-c", probe, C], check=False).returncode == 0, 20, "sshd")


CLIENTS = r"""
import asyncio, json, urllib.request
def put(name, text):
    with open(name, 'w') as f: f.write(text)
    os.chmod(name, 0o600); return name
CA = put('/tmp/ca.pem', files['ca.pem'])
KEY = put('/tmp/key', files['key'])
env = {'PATH': os.environ['PATH'], 'HOME': '/tmp', 'CURL_CA_BUNDLE': CA, 'GIT_SSL_CAINFO': CA, 'REQUESTS_CA_BUNDLE': CA, 'SSL_CERT_FILE': CA, 'NODE_EXTRA_CA_CERTS': CA,
       'PIP_CERT': CA, 'GIT_TERMINAL_PROMPT': '0', 'PGCONNECT_TIMEOUT': '20',
       'GIT_SSH_COMMAND': 'ssh -i ' + KEY + ' -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'}
os.environ.update(env)
def cmd(*argv, read=None):
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=40, cwd='/tmp')
    return r.returncode, (open(read).read() if read and r.returncode == 0 else r.stdout.decode()).strip()
def urllib_(host):
    try: return 0, urllib.request.urlopen('https://%s/' % host, timeout=20).read().decode().strip()
    except OSError as e: return 1, str(e)
def requests_(host):
    import requests
    try: return 0, requests.get('https://%s/' % host, timeout=20).text.strip()
    except requests.RequestException as e: return 1, str(e)
async def raw(host):
    r, w = await asyncio.wait_for(asyncio.open_connection(host, 443, ssl=ssl.create_default_context()), 20)
    w.write(b'GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' % host.encode())
    return (await r.read()).decode().split('\r\n\r\n', 1)[1].strip()
def asyncio_(host):
    try: return 0, asyncio.run(raw(host))
    except OSError as e: return 1, str(e)
def node(host):
    return cmd('node', '-e', "fetch('https://%s/').then(r => r.text()).then(t => console.log(t), e => { console.log(e.cause ? e.cause.code : e); process.exit(1) })" % host)
ALL = {'curl': lambda h: cmd('curl', '-sS', '-m', '20', 'https://%s/' % h), 'urllib': urllib_, 'requests': requests_, 'asyncio': asyncio_, 'Node fetch': node,
       'git over https': lambda h: cmd('git', 'clone', '-q', 'https://%s/git/repo.git' % h, '/tmp/1' + h, read='/tmp/1' + h + '/file'),
       'git over ssh': lambda h: cmd('git', 'clone', '-q', 'ssh://root@%s:2222%s/repo.git' % (h, top), '/tmp/2' + h, read='/tmp/2' + h + '/file'),
       'pip': lambda h: cmd('/usr/bin/python3', '-m', 'pip', '--retries', '1', 'install', '--no-cache-dir', '--disable-pip-version-check', '-i',
                            'https://%s/simple/' % h, '--target', '/tmp/3' + h, 'tiny', read='/tmp/3' + h + '/tiny.py'),
       'npm': lambda h: cmd('npm', 'install', '--prefix', '/tmp/4' + h, '--cache', '/tmp/npm', '--registry', 'https://%s/npm/' % h, '--fetch-retries', '0', '--no-audit',
                            '--no-fund', '--no-update-notifier', 'tiny', read='/tmp/4' + h + '/node_modules/tiny/index.js'),
       'psql': lambda h: cmd(pg + '/psql', '-h', h, '-U', 'tester', '-d', 'postgres', '-Atc', 'select 6 * 7')}
print(json.dumps({c + ' ' + h: f(h) for c, f in ALL.items() for h in hosts}))
"""
PAGE = "page of web.allowed.test"
# client: what it says of an allowed host, of a name that is refused, of an address that is refused
WANT = {
    "curl": (PAGE, "Could not resolve host", "port 443"),
    "urllib": (PAGE, "Name or service not known", "Connection refused"),
    "requests": (PAGE, "Name or service not known", "Connection refused"),
    "asyncio": (PAGE, "Name or service not known", "Connect call failed"),
    "Node fetch": (PAGE, "ENOTFOUND", "ECONNREFUSED"),
    "git over https": ("cloned", "Could not resolve host", "port 443"),
    "git over ssh": ("cloned", "Could not resolve hostname", "Connection refused"),
    "pip": ("fetched", "Name or service not known", "Connection refused"),
    "npm": ("fetched by npm", "ENOTFOUND", "ECONNREFUSED"),
    "psql": ("42", "could not translate host name", "Connection refused"),
}


@case
def clients_need_no_proxy_and_fail_clearly(m):
    hosts = ["web.allowed.test", "web.evil.test", B]
    given = f"hosts, top, pg, files = {hosts!r}, {TOP!r}, {PG!r}, {({n: text(n) for n in ('ca.pem', 'key')})!r}\n"
    r, recs, seen = gateworld.gate(W, m, given + CLIENTS, rules=("--allow", "web.allowed.test:443,5432", "--allow", "web.allowed.test:2222/ssh"), timeout=120)
    got = json.loads(r.out)
    for client, want in WANT.items():
        for host, word in zip(hosts, want):
            rc, said = got[f"{client} {host}"]
            ok((rc == 0) == (host == hosts[0]) and (said == word if rc == 0 else word in said), f"{client}, {host}: {rc} {said!r}")
    eq({gateworld.where(x) for x in recs if x["event"] == "connect"}, {f"web.allowed.test:{p}" for p in (443, 2222, 5432)}, "what was allowed")
    ok(all(x["verdict"] == "allow" for x in recs if x["event"] == "connect"), f"{recs}")
    eq({(x["event"], x["reason"], gateworld.where(x)) for x in recs if x["verdict"] == "deny"},
       {("dns", "no_rule", "web.evil.test"), *(("packet", "raw_ip", f"{B}:{p}") for p in (443, 2222, 5432))}, "what was refused")
    eq({x["query"] for x in seen if "query" in x}, {"web.allowed.test"}, "questions")
    eq([x for x in seen if "conn" in x], [], "nobody else was reached")


if W is not None:
    serve()
RC = main()
if W is not None:
    W.end()
subprocess.run(["rm", "-rf", TOP], check=False)
sys.exit(RC)
