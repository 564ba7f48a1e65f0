#!/usr/bin/python3
"""Recipes: what an image built of Debian packages holds, and which recipes, archives and packages are refused.

Needs Debian's mirror (only apt on the host reaches it); the false mirrors are this file's own, on loopback."""
import glob
import hashlib
import http.server
import json
import os
import stat
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import brigtest  # noqa: E402
import reap  # noqa: E402
from brigtest import USER_ID, case, done, eq, main, nothing_left, ok, until  # noqa: E402


brigtest.CASE_SECONDS = 900  # half a minute of work, which a busy machine makes long


def image(m, *args, **kw):
    return m.brig("image", *args, **kw)


def refusal(r, *words):
    eq(r.rc, 125, f"exit {r!r}")
    eq(r.err.count(b"\n"), 1, f"one line {r!r}")
    ok(any(w.lower() in r.err.decode().lower() for w in words), f"none of {words!r} is in {r.err!r}")


def tree(m, ref):
    return json.loads(done(image(m, "show", "--json", ref)).out)


def walk(top):
    """What the digest is made of, without the owners."""
    seen = {}
    for d, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(d, n)
            st = os.lstat(p)
            what = b""
            if stat.S_ISLNK(st.st_mode):
                what = os.readlink(p)
            elif stat.S_ISREG(st.st_mode):
                with open(p, "rb") as f:
                    what = hashlib.sha256(f.read()).digest()
            seen[os.path.relpath(p, top)] = (st.st_mode, int(st.st_mtime), what)
    return seen


MINI = "suite: bookworm\npackages: [bash]\nuser: someone\nworkdir: /w\nenv: [A=b]\ncmd: [bash]\n"
SECRET = "brigtest-must-not-be-inside"


@case(modes=("root",))
def recipe(m):
    """A small Debian, by two callers at once who share nothing: the same bytes but for the owners. What is in it."""
    p = m.put("mini.yaml", MINI)
    other = m.mkdir("other")
    os.chmod(m.dir, 0o755)
    os.chown(other, USER_ID, USER_ID)
    argv = [m.brig_path, "image", "build", "--json", "--name", "mini", p]
    env = {"PATH": "/usr/bin:/bin", "HOME": other, "BRIG_STATE": other + "/state", "BRIG_CACHE": other + "/cache",
           "TZ": "Asia/Tokyo", "http_proxy": "", "MY_TOKEN": SECRET}
    two = subprocess.Popen(argv, env=env, cwd=other, user=USER_ID, group=USER_ID, extra_groups=[], umask=0o077,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reap.owned(two)
    one = image(m, "build", "--json", "--erofs", "--name", "mini", p, env={"MY_TOKEN": SECRET}, timeout=800)
    out, err = two.communicate(timeout=800)
    done(one)
    eq((two.returncode, err), (0, b""), "the ordinary user's build")
    info = tree(m, "mini")
    ok(info["erofs"], "its EROFS file")
    top, digest = info["tree"], json.loads(out)["digest"][7:]
    mine, theirs = walk(top), walk(f"{other}/state/images/sha256/{digest}/tree")
    eq([n for n in sorted(set(mine) | set(theirs)) if mine.get(n) != theirs.get(n)], [], "what differs")

    eq((info["user"], info["workdir"], info["env"], info["cmd"]), ("someone", "/w", ["A=b"], ["bash"]), "its settings")
    with open(os.path.join(os.path.dirname(top), "packages")) as f:
        ok("bash=" in f.read(), "bash is among the packages")
    for name, (mode, _, _) in mine.items():
        kind = stat.S_IFMT(mode)
        ok(kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK), f"{name} is a device, a pipe or a socket")
        ok(kind != stat.S_IFREG or mode & 0o6000 == 0, f"{name} is setuid")
    for gone in ("etc/resolv.conf", "etc/hostname", "root/.ssh", "etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap",
                 "var/cache/ldconfig/aux-cache"):
        ok(gone not in mine, f"{gone} is there")
    for empty in ("dev", "run", "tmp", "var/lib/apt", "var/cache/apt"):
        eq(os.listdir(os.path.join(top, empty)), [], empty)
    eq(mine["etc/machine-id"][2], hashlib.sha256(b"").digest(), "the machine id")
    found = subprocess.run(["grep", "-rlaE", f"{SECRET}|/tmp/root|/tmp/debs|{m.base}", top], stdout=subprocess.PIPE, check=False)
    eq(found.stdout, b"", "files with something of the builder's")

    r = done(m.run("--image", "mini", "--", "bash", "-c", "id -un; id -u; pwd; echo $HOME $A; touch ~/x && ls ~; "
                   "[ ! -w /usr ] && ldconfig -p | grep -c libc.so.6; dpkg-query -W -f '${Status}\\n' bash"))
    eq(r.out, b"someone\n1000\n/w\n/home/someone b\nx\n1\ninstall ok installed\n", "what runs on it")


@case(modes=("root",))
def recipe_cut_short(m):
    """kill -9 while the packages are installed, too small a disk, a full cache: the store is as it was, nothing is left."""
    p = m.put("mini.yaml", MINI)
    live = os.path.join(m.state, "live")
    before = done(image(m, "list", "--json")).out
    b = m.popen([m.brig_path, "image", "build", "--name", "cut", p], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tmp = os.path.join(m.state, "images", "tmp")
    until(lambda: os.path.isdir(tmp) and os.listdir(tmp) and os.path.isdir(live) and os.listdir(live), 400, "the sandbox")
    b.kill()
    b.communicate()
    until(lambda: not reap.descendants(), 60, lambda: [reap.describe(p) for p in reap.descendants()])
    done(m.brig("gc"))
    nothing_left(m)
    eq(done(image(m, "list", "--json")).out, before, "the store after kill -9")
    refusal(image(m, "build", "--disk", "24M", "--name", "cut", p, timeout=800), "no space", "free space")
    eq(done(image(m, "list", "--json")).out, before, "the store after a small disk")
    eq([n for n in os.listdir(os.path.join(m.home, ".cache/brig/recipes")) if n.startswith("get-")], [], "of dead builders")
    full = m.mkdir("full")
    r = m.exec(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m none "$BRIG_CACHE" && exec "$0" "$@"', m.brig_path,
                "image", "build", "--name", "cut", p], env={"BRIG_CACHE": full})
    refusal(r, "disk of the cache is full")
    eq(done(image(m, "list", "--json")).out, before, "the store after a full cache")


class Mirror(http.server.BaseHTTPRequestHandler):
    files = {}

    def do_GET(self):
        data = self.files.get(self.path)
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass


@case(modes=("root",))
def recipe_sources(m):
    """Only a signed archive is taken, and what is wrong with another is said with the line of the recipe."""
    lists = glob.glob(os.path.join(m.home, ".cache/brig/recipes/apt-*/state/lists/*_dists_bookworm_InRelease"))
    eq(len(lists), 1, "what Debian signed, from the build before")
    with open(lists[0], "rb") as f:
        signed = f.read()
    Mirror.files = {"/good/dists/bookworm/InRelease": signed,
                    "/bad/dists/bookworm/InRelease": signed.replace(b"Suite: ", b"Suite:  ", 1),
                    "/plain/dists/bookworm/Release": signed[signed.index(b"Origin:"):signed.index(b"-----BEGIN PGP SIG")]}
    srv = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=srv.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{srv.server_port}"

    def build(mirror, more="", *args, env=None):
        p = m.put("s.yaml", f"suite: bookworm\npackages: [bash]\nmirrors: ['{mirror}']\n{more}")
        return image(m, "build", "--name", "x", *args, p, env={"no_proxy": "*", **(env or {})})
    refusal(build(at + "/none"), ":1: the mirror has no such suite", "s.yaml:3: the archive is not signed",
            "s.yaml: the archive is not signed")
    refusal(build(at + "/plain"), "not signed")
    refusal(build(at + "/bad"), "the archive's signature is wrong")
    refusal(build(at + "/good", "keyring: /usr/share/keyrings/debian-archive-removed-keys.gpg\n"), "s.yaml:4: the archive is signed by a key")
    refusal(build(at + "/good", "keyring: /nonexistent\n"), "s.yaml:4: keyring: /nonexistent")
    refusal(build(at + "/good"), "s.yaml:3: the mirror lacks a file")
    refusal(build("http://x.invalid/d", "", "--mirror", at + "/bad bookworm main"), "the archive's signature is wrong")
    srv.shutdown()
    srv.server_close()
    refusal(build(at + "/good"), "s.yaml:3: the mirror cannot be reached")
    refusal(m.exec(["unshare", "-n", m.brig_path, "image", "build", "--name", "x", m.put("n.yaml", MINI)]), "no network")
    p = m.put("u.yaml", "suite: bookworm\npackages:\n- bash\n- nosuchthing\n- bash=1.0\n")
    refusal(image(m, "build", "--name", "x", p), "u.yaml:4: packages: no package 'nosuchthing' in bookworm")
    pins = m.put("pins", "bash=0.1\n")
    p = m.put("v.yaml", "suite: bookworm\npackages: [bash]\n")
    refusal(image(m, "build", "--name", "x", "--versions", pins, p), "v.yaml:2: packages: 'bash' has no version '0.1'")


@case
def recipe_refused(m):
    """Before anything is asked of the network, with file and line."""
    refusal(image(m, "build", "--name", "x", "nosuch"), "no recipe")
    for text, word in (("suite: bookworm\npackages: [bash]\npackage: 1\n", "r.yaml:3: unknown key 'package': did you mean 'packages'?"),
                       ("suite: bookworm\npackages:\n- bash\n- '-o'\n", "r.yaml:4: packages: '-o' cannot stand here"),
                       ("suite: bookworm\npackages: ['bash;id']\n", "r.yaml:2: packages: 'bash;id'"),
                       ("suite: bookworm\npackages: [../x]\n", "r.yaml:2: packages: '../x'"),
                       ("suite: 'x y'\npackages: []\n", "r.yaml:1: suite: 'x y'"), ("packages: []\n", "r.yaml:1: suite is missing"),
                       ("suite: aa\npackages: []\nmirrors: ['file:///x']\n", "r.yaml:3: mirrors: 'file:///x'"),
                       ("suite: aa\npackages: []\nuser: \"a:0\"\n", "r.yaml:3: user: 'a:0'"),
                       ("suite: &a [*a]\npackages: []\n", "r.yaml:1: anchors"), ("suite: [\n", "r.yaml:"), ("", "r.yaml:1: the file is empty")):
        r = image(m, "build", "--name", "x", m.put("r.yaml", text))
        refusal(r, word.lower())
    refusal(image(m, "build", "--name", "x", "--versions", m.put("list", "bash=1\nbash\n"), m.put("r.yaml", MINI)), "list:2: 'bash' is not name=version")
    refusal(image(m, "build", "--name", "x", "--versions", "nosuch", m.put("r.yaml", MINI)), "no image 'nosuch'")
    refusal(image(m, "build", "--name", "x", "--mirror", "ftp://x", m.put("r.yaml", MINI)), "--mirror 'ftp://x'")
    refusal(image(m, "build", "--name", "x", m.put("r.yaml", "#" * 70000)), "larger than 64 kib")
    refusal(image(m, "build", m.put("r.yaml", MINI)), "--name is needed")


if __name__ == "__main__":
    sys.exit(main())
