#!/usr/bin/python3
"""Pulling from a registry through the gate: Debian's docker-registry on a public-looking address in a namespace of the
test's own, and one that sends its client elsewhere."""
import hashlib
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok, until  # noqa: E402
import gateworld  # noqa: E402
import reap  # noqa: E402

W = gateworld.enter()
A, B = gateworld.A, gateworld.B
BUSYBOX = "/usr/bin/busybox" if os.path.exists("/usr/bin/busybox") else "/bin/busybox"
ELSEWHERE = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == '/v2/' else 307)
        self.send_header('Location', 'http://%s:5000' + self.path)
        self.send_header('Content-Length', '0')
        self.end_headers()
    do_HEAD = do_GET
    def log_message(self, *a):
        pass
http.server.HTTPServer(('%s', 5001), H).serve_forever()
""" % (B, A)


def there(argv):
    """Start something on the other side."""
    p = subprocess.Popen(["nsenter", "-t", str(W.p.pid), "-n", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    reap.spare(p.pid)
    return p


def answers(url):
    return subprocess.run(["curl", "-sf", "-o", "/dev/null", "-m", "2", url]).returncode == 0


def pull(m, *args):
    return m.brig("image", "pull", "--insecure", *args)


def refusal(r, word):
    eq(r.rc, 125, f"exit {r!r}")
    eq(r.err.count(b"\n"), 1, f"one line {r!r}")
    ok(word in r.err.decode(), f"{word!r} is not in {r.err!r}")


@case(modes=("root",))
def registry(m):
    d = m.mkdir("registry")
    with open(os.path.join(d, "c.yml"), "w") as f:
        f.write(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {d}/data}}}}\nhttp: {{addr: '0.0.0.0:5000'}}\n")
    servers = [there(["docker-registry", "serve", os.path.join(d, "c.yml")]), there([sys.executable, "-c", ELSEWHERE])]
    try:
        until(lambda: answers(f"http://{A}:5000/v2/") and answers(f"http://{A}:5001/v2/"), 20, "the registries answer")
        top = push(d)
        other = "sha256:" + "0" * 64
        done(pull(m, "--name", "pulled", f"{A}:5000/x:t"))
        done(m.run("--image", "pulled", "--", "/bin/sh", "-c", "exit 0"))
        ok(top in json.dumps(json.loads(done(m.brig("image", "show", "--json", "pulled")).out)), "the manifest's digest")
        done(pull(m, "--name", "pinned", f"docker://{A}:5000/x@{top}"))
        refusal(pull(m, f"{A}:5000/x@{other}"), "manifest unknown")
        refusal(m.brig("image", "pull", f"{A}:5000/x:t"), "HTTP")
        W.take()
        refusal(pull(m, f"{A}:5001/x:t"), "refused by the gate")
        done(pull(m, "--allow", f"{B}:5000", f"{A}:5001/x:t"))
    finally:
        for p in servers:
            p.kill()
            p.wait()


def push(d):
    """A small image made by umoci, put into the registry; its manifest's digest."""
    lay, root = os.path.join(d, "oci"), os.path.join(d, "root")
    os.makedirs(os.path.join(root, "bin"))
    subprocess.run(["cp", BUSYBOX, os.path.join(root, "bin", "sh")], check=True)
    for argv in (["umoci", "init", "--layout", lay], ["umoci", "new", "--image", lay + ":t"],
                 ["umoci", "insert", "--image", lay + ":t", os.path.join(root, "bin"), "/bin"],
                 ["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", f"oci:{lay}:t", f"docker://{A}:5000/x:t"]):
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    raw = subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{A}:5000/x:t"], check=True, capture_output=True)
    return "sha256:" + hashlib.sha256(raw.stdout).hexdigest()


if __name__ == "__main__":
    rc = main()
    if W is not None:
        W.end()
    sys.exit(rc)
