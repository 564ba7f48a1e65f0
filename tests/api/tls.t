#!/usr/bin/env python3
"""brigd with TLS: by curl, by E2B's SDK, and with certificates and keys that are none. The certificate is made here."""
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile

import apilib
from apilib import case, eq, ok

HERE = os.path.dirname(os.path.abspath(__file__))
DIR = tempfile.mkdtemp(prefix="brigd-tls-")


def make(name):
    key, cert = os.path.join(DIR, name + ".key"), os.path.join(DIR, name + ".crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


CERT, KEY = make("ours")
OTHER_CERT, OTHER_KEY = make("other")
D = apilib.Daemon(more=f"tls: {{cert: {CERT}, key: {KEY}}}\n")


def curl(*words):
    r = subprocess.run(["curl", "-sS", "--max-time", "20", *words], capture_output=True, text=True, check=False)
    return r.returncode, r.stdout, r.stderr


def url(path):
    return f"https://localhost:{D.port}{path}"


def echo(_, call):
    """The body back, in pieces."""
    data = call.body()
    call.conn.sendall(apilib.head(200, content_length=len(data)))
    for i in range(0, len(data), 60000):
        call.conn.sendall(apilib.piece(apilib.BODY, data[i:i + 60000]))
    call.conn.sendall(apilib.piece(apilib.FIN))


@case
def curl_with_the_authority_and_without():
    rc, out, err = curl("--cacert", CERT, "-o", "/dev/null", "-w", "%{http_code} %{ssl_verify_result}", url("/health"))
    eq((rc, out), (0, "204 0"), err)
    eq(curl(url("/health"))[0], 60, "an unknown authority")
    eq(curl("--cacert", OTHER_CERT, url("/health"))[0], 60, "another one")
    ok(curl("--cacert", CERT, "--tls-max", "1.1", url("/health"))[0] in (35, 56), "an old protocol")
    rc, out, err = curl("--cacert", CERT, "-H", "X-API-KEY: " + D.key, "-d", '{"templateID":"base"}', url("/v2/sandboxes"))
    b = json.loads(out)
    ok(b["sandboxID"] in D.spawn.keepers, out)
    big = os.path.join(DIR, "big")
    with open(big, "wb") as f:
        f.write(os.urandom(1 << 20) * 8)
    D.spawn.calls["/envd/files"] = echo
    back = os.path.join(DIR, "back")
    rc, _, err = curl("--cacert", CERT, "-H", "E2b-Sandbox-Id: " + b["sandboxID"], "-H", "E2b-Sandbox-Port: 49983", "-H",
                      "X-Access-Token: " + b["envdAccessToken"], "-H", "Transfer-Encoding: chunked", "-T", big, "-X", "POST", "-o", back,
                      url("/files?path=x"))
    D.spawn.calls.clear()
    eq(rc, 0, err)
    with open(big, "rb") as f, open(back, "rb") as g:
        ok(f.read() == g.read(), "8 MiB there and back")


@case
def what_is_no_tls_ends():
    for text in (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 2000, b"\0" * 5000, b"\x80\x2e\x01\x00\x02", b""):
        with socket.create_connection(("127.0.0.1", D.port), timeout=20) as s:
            got = b""
            try:
                s.sendall(text)
                s.shutdown(socket.SHUT_WR)
                while p := s.recv(4096):
                    got += p
            except OSError:  # closed already
                pass
            ok(not got.startswith(b"HTTP/1.1 2"), got[:50])
    # handshakes that never come on, and one that is cut in its middle
    idle = [socket.create_connection(("127.0.0.1", D.port)) for _ in range(100)]
    for i, s in enumerate(idle):
        s.sendall(b"\x16\x03\x01\x02\x00\x01"[:i % 7])
    context = ssl.create_default_context(cafile=CERT)
    with socket.create_connection(("127.0.0.1", D.port), timeout=20) as raw, context.wrap_socket(raw, server_hostname="localhost") as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        ok(s.recv(100).startswith(b"HTTP/1.1 204"), "served all the same")
    for s in idle:
        s.close()


@case
def the_sdk_speaks_it():
    got = subprocess.run([os.path.join(HERE, "sdk", "fetch.sh")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if got.returncode != 0:
        ok(not os.environ.get("BRIG_MUST_RUN"), "the SDKs cannot be fetched")
        print("# the SDKs cannot be fetched")
        return
    folder = got.stdout.strip()
    script = """
const { Sandbox } = require('module').createRequire(process.env.BRIG_SDK + '/x.js')('e2b')
const s = await Sandbox.create('base', { metadata: { a: 'b' } })
const there = await s.isRunning()
const page = await Sandbox.list({ query: { metadata: { a: 'b' } } }).nextItems()
await s.kill()
console.log(JSON.stringify([there, page.length, await s.isRunning()]))
"""
    env = {**os.environ, "BRIG_SDK": folder, "E2B_API_KEY": D.key, "E2B_API_URL": url(""), "E2B_SANDBOX_URL": url("")}
    env.pop("E2B_DEBUG", None)
    run = lambda **more: subprocess.run([os.path.join(folder, "bin", "node"), "-e", "(async () => {" + script + "})().catch(e => { console.error(e); process.exit(1) })"],
                                        env={**env, **more}, capture_output=True, text=True, timeout=100, check=False)
    r = run(NODE_EXTRA_CA_CERTS=CERT)
    eq((r.returncode, r.stdout.strip()), (0, "[true,1,false]"), r.stderr)
    ok(run().returncode != 0, "without the authority")


BRIG = os.path.join(os.path.dirname(apilib.BRIGD), "brig")


def brig(*words, **env):
    """brig's commands over a daemon, without this machine's settings."""
    r = subprocess.run([BRIG, *words], capture_output=True, text=True, timeout=30, check=False,
                       env={"PATH": os.environ["PATH"], "HOME": DIR, "LANG": "C.UTF-8", **env})
    return r.returncode, r.stdout, r.stderr


def a_life(d, *where, **env):
    """What a person does with a daemon, by its commands."""
    env["BRIG_API_KEY"] = d.key
    do = lambda *words: brig(words[0], *where, *words[1:], **env)
    rc, out, err = do("create", "--metadata", "a=b", "base")
    eq(rc, 0, err)
    sid = out.strip()
    ok(sid in d.spawn.keepers, out)
    eq(do("ps", "-q", "--filter", "a=b"), (0, sid + "\n", ""))
    eq(do("timeout", sid, "9m")[0], 0)
    eq(d.spawn.keepers[sid].timeout, 540000)
    ok("created" in do("logs", sid)[1], "its log")
    for word, state in (("pause", "paused"), ("resume", "running")):
        eq(do(word, sid)[0], 0, word)
        eq(do("ps", "-q", "--filter", "a=b", "--state", state), (0, sid + "\n", ""))
    eq(do("kill", sid)[0], 0)
    eq(do("ps", "-q", "--filter", "a=b"), (0, "", ""))


@case
def brigs_commands_over_https():
    a_life(D, "--url", url(""), "--ca", CERT)
    a_life(D, BRIG_URL=url(""), BRIG_CA=CERT)
    before = len(D.spawn.asked)
    for more, says in (((), "certificate"), (("--ca", OTHER_CERT), "certificate"), (("--ca", os.path.join(DIR, "none.crt")), "none.crt"),
                       (("--ca", KEY), KEY)):
        rc, out, err = brig("create", "--url", url(""), *more, "base", BRIG_API_KEY=D.key)
        eq((rc, out), (125, ""), err)
        ok(err.startswith("brig: ") and err.count("\n") == 1 and says in err, f"no {says!r} in {err!r}")
    # this machine's authorities, with ours among them: as a process with mounts of its own sees them
    store = "/etc/ssl/certs/ca-certificates.crt"
    r = subprocess.run(["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", CERT, store,
                        BRIG, "ps", "-q", "--url", url("")], env={"PATH": os.environ["PATH"], "HOME": DIR, "BRIG_API_KEY": D.key},
                       capture_output=True, text=True, timeout=30, check=False)
    eq((r.returncode, r.stderr), (0, ""))
    rc, _, err = brig("ps", "--url", f"https://127.0.0.2:{D.port}", "--ca", CERT, BRIG_API_KEY=D.key)
    eq(rc, 125, err)  # nobody there, or a name that is not in the certificate
    eq(len(D.spawn.asked), before, "no sandbox was started by any of them")


@case
def brigs_commands_over_a_socket():
    d = apilib.Daemon(unix=True)
    try:
        at = f"unix:{d.dir}/http.sock"
        eq(os.stat(at[5:]).st_mode & 0o002, 0, "not everybody may connect")
        a_life(d, "--url", at)
        a_life(d, BRIG_URL=at)
        eq(brig("ps", "--url", at, BRIG_API_KEY="e2b_" + "0" * 64)[0], 125)
    finally:
        d.close()


def check(cert, key, words=2):
    path = os.path.join(DIR, "brigd.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"version: 1\nstate: {DIR}/state\nlisten: 127.0.0.1:0\ntls: {{cert: '{cert}', key: '{key}'}}\ntemplates: {{base: {{}}}}\n")
    uid = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    # the second starts a server if nothing is wrong: then it is not to be called
    return [subprocess.run([os.path.join(DIR, "brigd"), "--config", path, *w], capture_output=True, text=True, timeout=60, check=False, **uid)
            for w in (["--check-config"], [])[:words]]


@case
def what_is_wrong_with_them_is_said():
    os.chmod(DIR, 0o755)
    shutil.copy(apilib.BRIGD, os.path.join(DIR, "brigd"))  # the build may lie where an ordinary user cannot go

    def put(name, text, mode=0o600):
        path = os.path.join(DIR, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        os.chmod(path, mode)
        return path
    with open(CERT, encoding="utf-8") as f:
        cert_text = f.read()
    with open(KEY, encoding="utf-8") as f:
        key_text = f.read()
    with open(OTHER_KEY, encoding="utf-8") as f:
        other_text = f.read()
    cert, key = put("c.crt", cert_text), put("c.key", key_text)
    locked = subprocess.run(["openssl", "pkey", "-aes256", "-passout", "pass:x"], input=key_text, capture_output=True, text=True, check=True).stdout
    os.mkdir(os.path.join(DIR, "state"), 0o700)
    if os.geteuid() == 0:
        os.chown(os.path.join(DIR, "state"), 65534, 65534)
    good = check(cert, key, 1)[0]
    eq((good.returncode, good.stderr), (0, ""), "a good pair")
    cases = [(os.path.join(DIR, "none.crt"), key, "none.crt: No such file"), (cert, os.path.join(DIR, "none.key"), "none.key: No such file"),
             (DIR, key, "Is a directory"), (key, cert, "is not a certificate"), (cert, cert, "is not a private key"),
             (cert, put("other.key.copy", other_text), "is not the certificate's"), (put("empty", ""), key, "is not a certificate"),
             (cert, put("half.key", key_text[:60] + "\n-----END PRIVATE KEY-----\n"), "damaged"),
             (put("half.crt", cert_text[:200] + "\n-----END CERTIFICATE-----\n"), key, "damaged"),
             (cert, put("locked.key", locked), "pass phrase"), (cert, put("open.key", key_text, 0o644), "open to everybody"),
             (cert, put("big.key", key_text + "x" * 70000), "too large")]
    if os.geteuid() == 0:
        cases.append((cert, KEY, "Permission denied"))
    for c, k, word in cases:
        for r in check(c, k):
            ok(r.returncode == 1 and word in r.stderr and r.stderr.startswith("brigd: tls: ") and r.stderr.count("\n") == 1, (word, r))


if __name__ == "__main__":
    try:
        RC = apilib.main()
    finally:
        D.close()
        shutil.rmtree(DIR, ignore_errors=True)
    sys.exit(RC)
