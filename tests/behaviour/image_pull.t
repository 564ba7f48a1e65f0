#!/usr/bin/python3
"""Pulling from a registry of this machine: Debian's docker-registry on loopback, with and without TLS and a password."""
import base64
import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok, until  # noqa: E402
import oci_layout as lay  # noqa: E402
import reap  # noqa: E402

USER, PASSWORD = "someone", "correct-horse-7461"
BCRYPT = "$2b$04$5G8z5XD2qP4iNzKBGWteDuuadIePK7bZZ6qGJKEDT103GftY2GBT2"  # of PASSWORD


class Registry:
    """One docker-registry on a free loopback port; tls: with a certificate of a CA of its own; auth: with a password."""

    def __init__(self, m, tls=False, auth=False):
        self.dir = m.mkdir("registry")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        http = f"addr: '127.0.0.1:{self.port}'"
        if tls:
            self.certificate()
            http += f", tls: {{certificate: {self.dir}/c.pem, key: {self.dir}/k.pem}}"
        text = f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.dir}/data}}}}\nhttp: {{{http}}}\n"
        if auth:
            with open(f"{self.dir}/htpasswd", "w") as f:
                f.write(f"{USER}:{BCRYPT}\n")
            text += f"auth: {{htpasswd: {{realm: test, path: {self.dir}/htpasswd}}}}\n"
        with open(f"{self.dir}/c.yml", "w") as f:
            f.write(text)
        self.tls, self.auth = tls, auth
        self.p = subprocess.Popen(["docker-registry", "serve", f"{self.dir}/c.yml"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        reap.spare(self.p.pid)
        until(self.listens, 20, "the registry listens")

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def certificate(self):
        d = self.dir
        subprocess.run(f"cd {d} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout cak.pem -out ca.pem "
                       "-days 30 -subj /CN=test-ca && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem "
                       "-out r.pem -subj /CN=registry -addext subjectAltName=DNS:localhost,DNS:registry.example,IP:127.0.0.1 && "
                       "openssl x509 -req -in r.pem -CA ca.pem -CAkey cak.pem -copy_extensions copy -days 30 -out c.pem",
                       shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.chmod(f"{d}/ca.pem", 0o644)

    def authfile(self, m, password=PASSWORD, host="localhost"):
        token = base64.b64encode(f"{USER}:{password}".encode()).decode()
        return m.put("auth.json", json.dumps({"auths": {f"{host}:{self.port}": {"auth": token}}}).encode(), mode=0o600)

    def push(self, m, name, layers):
        d, _ = lay.layout(m.mkdir("push"), layers)
        auth = ["--dest-creds", f"{USER}:{PASSWORD}"] if self.auth else []
        subprocess.run(["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", *auth, f"oci:{d}:t",
                        f"docker://127.0.0.1:{self.port}/{name}"], check=True, stdout=subprocess.DEVNULL)
        raw = subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", *[a.replace("--dest-", "--") for a in auth],
                              f"docker://127.0.0.1:{self.port}/{name}"], check=True, capture_output=True)
        return "sha256:" + hashlib.sha256(raw.stdout).hexdigest()

    def end(self):
        self.p.kill()
        self.p.wait()


def pull(m, *args, **kw):
    return m.brig("image", "pull", *args, env={"BRIG_STATE": kw["state"]})


def refusal(r, *words):
    eq(r.rc, 125, f"exit {r!r}")
    eq(r.err.count(b"\n"), 1, f"one line {r!r}")
    ok(any(w in r.err.decode() for w in words), f"none of {words!r} is in {r.err!r}")


def stored(state):
    d = os.path.join(state, "images", "sha256")
    return sorted(os.listdir(d)) if os.path.isdir(d) else []


def holds(top, word):
    """Is word in any file below top?"""
    return subprocess.run(["grep", "-rqF", word, top]).returncode == 0


@case
def plain_http_only_when_asked(m):
    state = m.mkdir("state")
    reg = Registry(m)
    try:
        top = reg.push(m, "a/x:t", [lay.layer(("f", lay.FILE, b"1"))])
        reg.push(m, "a/x:u", [lay.layer(("f", lay.FILE, b"2"))])
        at = f"localhost:{reg.port}/a/x"
        refusal(pull(m, f"{at}:t", state=state), "add --local")
        refusal(pull(m, f"127.0.0.1:{reg.port}/a/x:t", state=state), "refused by the gate", "connection refused", "addr_floor")
        refusal(pull(m, "--local", f"{at}:t", state=state), "HTTP response to HTTPS client")
        eq(stored(state), [], "store")
        for host in ("127.0.0.1", "localhost"):
            r = json.loads(done(pull(m, "--json", "--local", "--insecure", "--name", "x", f"{host}:{reg.port}/a/x:t", state=state)).out)
        info = json.loads(done(m.brig("image", "show", "--json", "x", env={"BRIG_STATE": state})).out)
        eq((info["digest"], info["source_digest"], info["source"]), (r["digest"], top, f"docker://127.0.0.1:{reg.port}/a/x:t"), "image")
        # by digest: exactly that one, whatever its tag says now
        reg.push(m, "a/x:t", [lay.layer(("f", lay.FILE, b"3"))])
        for ref in (f"{at}@{top}", f"{at}:t@{top}"):
            eq(json.loads(done(pull(m, "--json", "--local", "--insecure", ref, state=state)).out)["digest"], r["digest"], ref)
        before = stored(state)
        refusal(pull(m, "--local", "--insecure", f"{at}@sha256:{'0' * 64}", state=state), "manifest")
        refusal(pull(m, "--local", "--insecure", f"{at}:none", state=state), "manifest")
        eq(stored(state), before, "store")
    finally:
        reg.end()
    refusal(pull(m, "--local", "--insecure", f"{at}:t", state=state), "does not answer: Connection refused")


@case
def verified_tls_and_a_password(m):
    """The registry's own CA; credentials reach the registry, and stay nowhere."""
    state = m.mkdir("state")
    reg = Registry(m, tls=True, auth=True)
    try:
        reg.push(m, "x:t", [lay.layer(("f", lay.FILE, b"1"))])
        at, ca = f"localhost:{reg.port}/x:t", m.put("ca.pem", open(f"{reg.dir}/ca.pem", "rb").read())
        good, bad = reg.authfile(m), reg.authfile(m, "wrong")
        refusal(pull(m, "--local", "--authfile", good, at, state=state), "certificate")
        refusal(pull(m, "--local", "--ca", ca, at, state=state), "unauthorized", "authentication required")
        refusal(pull(m, "--local", "--ca", ca, "--authfile", bad, at, state=state), "unauthorized", "authentication")
        refusal(pull(m, "--local", "--ca", good, "--authfile", good, at, state=state), "certificate")
        eq(stored(state), [], "store")
        r = done(pull(m, "--local", "--ca", ca, "--authfile", good, "--name", "x", at, state=state))
        shown = done(m.brig("image", "show", "--json", "x", env={"BRIG_STATE": state})).out
        for word in (PASSWORD, base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()):
            ok(word.encode() not in r.out + r.err + shown, "credentials were said")
            ok(not holds(state, word), "credentials are in the store")
    finally:
        reg.end()


@case
def only_the_registry_is_reached(m):
    """--local opens the one address and port: another listener of this machine is not reached by a redirect."""
    state = m.mkdir("state")
    reg = Registry(m)
    other = socket.create_server(("127.0.0.1", 0))
    to = other.getsockname()[1]
    code = ("import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(307)\n"
            f"  s.send_header('Location','http://127.0.0.1:{to}'+s.path)\n  s.send_header('Content-Length','0')\n  s.end_headers()\n"
            " do_HEAD=do_GET\n def log_message(s,*a):\n  pass\nh=http.server.HTTPServer(('127.0.0.1',0),H)\n"
            "print(h.server_port,flush=True)\nh.serve_forever()\n")
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    reap.spare(p.pid)
    try:
        port = int(p.stdout.readline())
        refusal(pull(m, "--local", "--insecure", f"localhost:{port}/x:t", state=state), "refused", "reset")
        other.setblocking(False)
        try:
            other.accept()
            ok(False, "the other listener was reached")
        except BlockingIOError:
            pass
    finally:
        other.close()
        reg.end()
        p.kill()
        p.wait()


class Proxy:
    """A company's proxy: CONNECT to registry.example leads to this machine. What it was asked is kept."""

    def __init__(self, password=None):
        self.listener, self.asked, self.want = socket.create_server(("127.0.0.1", 0)), [], None
        if password:
            self.want = "Proxy-Authorization: Basic " + base64.b64encode(password.encode()).decode()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(c,), daemon=True).start()

    def one(self, c):
        head = b""
        while b"\r\n\r\n" not in head and (d := c.recv(1)):
            head += d
        lines = head.decode("latin1").split("\r\n")
        self.asked.append(lines[0].removesuffix(" HTTP/1.1"))
        host, _, port = lines[0].split(" ")[1].rpartition(":")
        if self.want and self.want not in lines:
            c.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        elif host != "registry.example":
            c.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        else:
            u = socket.create_connection(("127.0.0.1", int(port)), 20)
            c.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=self.both, args=(u, c), daemon=True)
            back.start()
            self.both(c, u)
            back.join()
            u.close()
        c.close()

    @staticmethod
    def both(a, b):
        try:
            while d := a.recv(65536):
                b.sendall(d)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@case
def through_a_proxy(m):
    """It alone knows the registry's name, and is asked for nothing else; its password is nowhere inside."""
    state = m.mkdir("state")
    reg, plain, shut = Registry(m, tls=True), Proxy(), Proxy(f"{USER}:{PASSWORD}")
    try:
        reg.push(m, "x:t", [lay.layer(("f", lay.FILE, b"1"))])
        at, ca = f"registry.example:{reg.port}/x:t", m.put("ca.pem", open(f"{reg.dir}/ca.pem", "rb").read())
        tunnel = f"CONNECT registry.example:{reg.port}"
        refusal(pull(m, "--ca", ca, at, state=state), "no such host", "lookup", "refused", "reset", "resolve")
        done(pull(m, "--ca", ca, "--name", "x", "--proxy", f"http://localhost:{plain.port}/", at, state=state))
        ok(plain.asked and set(plain.asked) == {tunnel}, f"asked {plain.asked}")
        secret = m.put("proxy", f"{USER}:{PASSWORD}\n".encode(), mode=0o600)
        refusal(pull(m, "--ca", ca, "--proxy", f"127.0.0.1:{shut.port}", at, state=state), "reset", "EOF", "refused", "proxy")
        r = done(pull(m, "--ca", ca, "--name", "y", "--proxy", f"127.0.0.1:{shut.port}", "--proxy-credentials", f"file:{secret}", at, state=state))
        ok(PASSWORD.encode() not in r.out + r.err and not holds(state, PASSWORD), "credentials were said")
        ok(set(shut.asked) == {tunnel}, f"asked {shut.asked}")
        refusal(pull(m, "--ca", ca, "--proxy", f"127.0.0.1:{plain.port}", at.replace("registry.", "other."), state=state), "reset", "EOF", "refused", "proxy")
        for args, words in ((["--proxy", "u:p@proxy:3128"], "no credentials"), (["--proxy", "proxy"], "HOST:PORT"), (["--proxy", "http://proxy/"], "HOST:PORT"),
                            (["--proxy", "https://127.0.0.1:1"], "HOST:PORT"), (["--proxy", "nowhere.invalid:1"], "no address"),
                            (["--proxy-credentials", "env:X"], "which --proxy"), (["--proxy", "127.0.0.1:1", "--local"], "one of them"),
                            (["--proxy", "127.0.0.1:1", "--proxy-credentials", "u:p"], "env:NAME"), (["--proxy", "127.0.0.1:99999"], "")):
            refusal(pull(m, *args, at, state=state), words)
    finally:
        for x in (reg, plain, shut):
            x.end()


class Liar(http.server.BaseHTTPRequestHandler):
    """Blobs by their digests; one manifest, whichever is asked for."""
    blobs, manifest = {}, b""

    def do_GET(self):
        kind, data = lay.MANIFEST, self.manifest
        if "/manifests/" not in self.path:
            kind, data = "application/octet-stream", self.blobs.get(self.path.rsplit("/", 1)[1], b"{}")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass


@case
def another_manifest_than_asked_for(m):
    """With @sha256: it is that one or none, also when the registry gives a whole image that is another."""
    state = m.mkdir("state")
    d, top = lay.layout(m.mkdir("lay"), [lay.layer(("f", lay.FILE, b"1"))])
    at = os.path.join(d, "blobs", "sha256")
    for n in os.listdir(at):
        with open(os.path.join(at, n), "rb") as f:
            Liar.blobs["sha256:" + n] = f.read()
    Liar.manifest = Liar.blobs[top]
    srv = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    threading.Thread(target=srv.serve_forever, daemon=True).start()
    try:
        ref = f"127.0.0.1:{srv.server_port}/a/x"
        refusal(pull(m, "--local", "--insecure", "--name", "x", f"{ref}@sha256:{'1' * 64}", state=state), "another manifest")
        for bad in ("@sha512:" + "1" * 128, "@sha256:" + "1" * 63, "@sha256:" + "A" * 64, f"@{top}@{top}"):
            eq(pull(m, "--local", "--insecure", ref + bad, state=state).rc, 125, bad)
        eq(stored(state), [], "store")
        done(pull(m, "--local", "--insecure", "--name", "x", f"{ref}@{top}", state=state))  # else it is whole
    finally:
        srv.shutdown()
        srv.server_close()


@case
def a_rule_nobody_may_write(m):
    """What --local tells the gate is no rule for a sandbox of yours."""
    rules = m.put("rules", b"local 192.0.2.1:80@127.0.0.1\n")
    r = m.run("--egress", rules, "--", "true")
    eq(r.rc, 125, r)


if __name__ == "__main__":
    sys.exit(main())
