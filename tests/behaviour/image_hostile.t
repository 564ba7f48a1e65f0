#!/usr/bin/python3
"""Hostile OCI layouts and docker archives: refused whole, with a reason and an unchanged store; or taken with the dangerous part
neutralised, which is then looked at. Each row is one attack."""
import gzip
import io
import json
import os
import stat
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok  # noqa: E402
import oci_layout as lay  # noqa: E402
from oci_layout import DIR, FILE, HARD, SYM, layer  # noqa: E402

CHR, BLK, FIFO = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
BASE = layer(("etc", DIR, ""), ("etc/stays", FILE, b"stays"), ("etc/gone", FILE, b"gone"), ("d", DIR, ""), ("d/a", FILE, b"a"))
LIMITS = ("--memory", "256M", "--disk", "64M", "--max-size", "16M", "--max-entries", "5000")


class Scene:
    """A store with one good image, and a folder outside it that must stay as it is."""

    def __init__(self, m):
        self.m, self.state, self.out = m, m.mkdir("state"), m.mkdir("outside")
        self.env = {"BRIG_STATE": self.state}
        self.victim = os.path.join(self.out, "victim")
        with open(self.victim, "w") as f:
            f.write("mine")
        os.chmod(self.victim, 0o666)
        os.chmod(self.out, 0o777)
        self.up = "../" * 20 + self.victim[1:]
        done(self.imp(m.put("good.tar", lay.layer(("f", FILE, b"1"))), "--name", "good"))
        self.before = self.look()

    def imp(self, what, *args):
        return self.m.brig("image", "import", *LIMITS, *args, what, env=self.env)

    def look(self):
        """What the store holds, and what is outside."""
        images = os.path.join(self.state, "images")
        found = sorted(os.path.relpath(os.path.join(d, n), images) for d, ds, fs in os.walk(images) if "/tree" not in d for n in ds + fs)
        with open(self.victim) as f:
            return found, f.read(), stat.S_IMODE(os.stat(self.victim).st_mode), sorted(os.listdir(self.out))

    def tree(self, ref="bad"):
        return json.loads(done(self.m.brig("image", "show", "--json", ref, env=self.env)).out)["tree"]

    def layout(self, *layers, **kw):
        return lay.layout(self.m.mkdir("oci"), layers, **kw)[0]

    def refused(self, what, *words):
        """Refused in one line that has one of the words; nothing changed anywhere."""
        r = self.imp(what, "--name", "bad")
        text = r.err.decode("ascii")
        if r.rc != 125 or text.count("\n") != 1 or not any(w in text.lower() for w in words):
            return f"{words}: {r!r}"
        return "" if self.look() == self.before else f"the store changed: {self.look()}"

    def taken(self, what, check):
        """Taken; check looks at the tree; and then it is removed again."""
        r = self.imp(what, "--name", "bad")
        if r.rc != 0:
            return f"not taken: {r!r}"
        tree = self.tree()
        bad = check(tree)
        special = [p for d, ds, fs in os.walk(tree) for p in (os.path.join(d, n) for n in ds + fs)
                   if not stat.S_IFMT(os.lstat(p).st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)]
        done(self.m.brig("image", "verify", "bad", env=self.env))
        done(self.m.brig("image", "remove", "bad", env=self.env))
        return bad or (f"special files: {special}" if special else "") or ("" if self.look() == self.before else f"changed: {self.look()}")


def all_good(rows):
    eq([(name, bad) for name, bad in rows if bad], [], "attacks")


def exists(tree, *names):
    """Of these names, what is wrong: a name beginning with - must not be there."""
    return ", ".join(n for n in names if os.path.lexists(os.path.join(tree, n.lstrip("-"))) == n.startswith("-"))


def inside(m, s, words=("is", "not", "exist", "no such", "invalid", "file", "beneath", "escape", "operation", "link", "path")):
    """Attacks on paths: whatever the tools make of them, nothing outside changes and nothing of it comes along."""
    bads = {
        "dotdot": layer((s.up, FILE, b"owned")),
        "absolute": layer((s.victim, FILE, b"owned")),
        "hard link out": layer(("h", HARD, s.up)),
        "symbolic link to a host folder, then through it": layer(("l", SYM, s.out), ("l/victim", FILE, b"owned"), ("l/new", FILE, b"owned"), ("l", DIR, "", {"mode": 0o700})),
        "link over a folder of another layer": layer(("d", SYM, s.out), ("d/victim", FILE, b"owned")),
        "hard link through a link": layer(("l", SYM, s.out), ("h", HARD, "l/victim")),
    }
    for name, bad in bads.items():
        r = s.imp(s.layout(BASE, bad), "--name", "bad")
        wrong = ""
        if r.rc == 0:
            tree = s.tree()
            links = [p for d, ds, fs in os.walk(tree) for p in (os.path.join(d, n) for n in fs) if os.path.isfile(p) and not os.path.islink(p)]
            for p in links:
                with open(p, "rb") as f:
                    wrong = wrong or (f"{p} is the host's file" if f.read() == b"mine" else "")
            done(m.brig("image", "remove", "bad", env=s.env))
        elif r.rc != 125 or r.err.count(b"\n") != 1 or not any(w in r.err.decode().lower() for w in words):
            wrong = f"{r!r}"
        yield name, wrong or ("" if s.look() == s.before else f"changed: {s.look()}")


@case
def paths(m):
    s = Scene(m)
    all_good(inside(m, s))


@case
def whiteouts(m):
    """They take away what lower layers brought, and nothing else."""
    s = Scene(m)

    def either(*layers):
        """Refused or taken: what it is about stays."""
        what = s.layout(BASE, *layers)
        return s.refused(what, ":") and s.taken(what, lambda t: exists(t, "etc/stays", "d/a"))
    up = "../" * 20 + s.out[1:]
    good = layer(("etc/.wh.gone", FILE, b""), (".wh.none", FILE, b""), ("d/.wh..wh..opq", FILE, b""), ("d/b", FILE, b"b"), (".wh.e", FILE, b""))
    all_good([
        ("a file, a folder, opaque, and of nothing", s.taken(s.layout(BASE, layer(("e", DIR, ""), ("e/x", FILE, b"")), good), lambda t: exists(
            t, "-etc/gone", "etc/stays", "-d/a", "d/b", "-e", "-etc/.wh.gone", "-d/.wh..wh..opq", "-.wh.none"))),
        ("of dotdot", either(layer(("d/.wh...", FILE, b"")))),
        ("of a host file", either(layer((up + "/.wh.victim", FILE, b"")))),
        ("through a link", either(layer(("l", SYM, s.out)), layer(("l/.wh.victim", FILE, b""), ("l/.wh..wh..opq", FILE, b"")))),
    ])


@case
def files(m):
    """Device nodes, setuid, owners, extended attributes: what stays of them is what docs/images.md says."""
    s = Scene(m)
    root = m.uid == 0
    caps = {"pax_headers": {"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00", "SCHILY.xattr.user.x": "1"}}

    def nodes(t):
        return exists(t, "etc/stays") or ("a device" if any(
            os.path.lexists(f"{t}/{n}") and not stat.S_ISREG(os.lstat(f"{t}/{n}").st_mode) for n in ("null", "sda", "p")) else "")

    def setuid(t):
        st = os.stat(f"{t}/su")
        return "" if (stat.S_IMODE(st.st_mode), st.st_uid) == (0o4755, 0 if root else m.uid) and \
            os.stat(os.path.dirname(os.path.dirname(os.path.dirname(t)))).st_mode & 0o77 == 0 else f"{st}"

    def owner(t):
        st = os.stat(f"{t}/o")
        return "" if (st.st_uid, st.st_gid) == ((7, 65535) if root else (m.uid, m.uid)) else f"{st}"

    def plain(t):
        left = os.listxattr(f"{t}/x")
        return f"{left}" if left else ""
    huge = layer(("o", FILE, b"", {"uid": 1 << 31, "gid": 5}))
    neg = layer(("o", FILE, b"", {"uid": -1}))
    both = layer(("null", CHR, "", {"devmajor": 1, "devminor": 3}), ("sda", BLK, "", {"devmajor": 8, "devminor": 0}), ("p", FIFO, ""),
                 ("su", FILE, b"x", {"mode": 0o4755}), ("o", FILE, b"", {"uid": 7, "gid": 65535}))
    all_good([
        ("device nodes, fifos, setuid, owners", s.taken(s.layout(BASE, both), lambda t: nodes(t) or setuid(t) or owner(t))),
        ("an owner no sandbox has", s.refused(s.layout(huge), "65535", "invalid argument", "owner", "chown") if root
         else s.taken(s.layout(huge), lambda t: "" if os.stat(f"{t}/o").st_uid == m.uid else "owner")),
        ("a negative owner", s.refused(s.layout(neg), "65535", "invalid", "owner", "chown", "number") and
         s.taken(s.layout(neg), lambda t: "" if os.stat(f"{t}/o").st_uid in (0, m.uid) else "owner")),
        ("file capabilities and attributes", s.refused(s.layout(layer(("x", FILE, b"x", caps))), "attr", "not supported", "permitted") and
         s.taken(s.layout(layer(("x", FILE, b"x", caps))), plain)),
    ])


@case(modes=("user",))
def sizes(m):
    """Bombs of bytes and of entries, and lengths that lie."""
    s = Scene(m)
    zeros = layer(("z", FILE, bytes(66 << 20)))
    over = layer(("z", FILE, bytes(20 << 20)))
    many = io.BytesIO()
    with tarfile.open(fileobj=many, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for i in range(6000):
            t.addfile(tarfile.TarInfo(f"f{i}"))
    lied, cut, more = bytearray(layer(("f", FILE, b"x" * 100))), layer(("f", FILE, b"x" * 5000))[:1500], layer(("f", FILE, b"1"))
    lied[124:136] = b"77777777777\0"
    lied[148:156] = b" " * 8
    lied[148:156] = b"%06o\0 " % sum(lied[:512])

    def descriptor(d, ls):
        ls[0]["size"] += 1
        d.finish(d.manifest(d.config([more]), ls))

    def sized(lie):
        d = lay.Layout(m.mkdir("oci"))
        return d.finish(d.manifest(d.config([more]), [{**d.layer(more), "size": lie}]))
    pack = gzip.compress(zeros)
    all_good([
        ("more than the room", s.refused(s.layout(zeros), "no space left", "memory")),
        ("more than --max-size", s.refused(s.layout(over), "more than 16777216 bytes")),
        ("more than --max-entries", s.refused(s.layout(many.getvalue()), "more than 5000 entries")),
        ("the same as a packed tar file", s.refused(m.put("z.tar.gz", pack), "more than 16777216 bytes")),
        ("the same as a tar file", s.refused(m.put("z.tar", over), "more than 16777216 bytes")),
        ("a header that promises more", s.refused(s.layout(bytes(lied)), "eof", "cut off", "unexpected")),
        ("a layer that is cut", s.refused(s.layout(cut), "eof", "cut off", "unexpected")),
        ("a blob longer than it says", s.refused(sized(3), "size", "digest", "eof")),
        ("a blob shorter than it says", s.refused(sized(1 << 40), "size", "digest", "eof", "space")),
        ("a length nobody knows", s.taken(sized(-1), lambda t: exists(t, "f"))),
    ])


@case(modes=("root",))
def digests(m):
    """Nothing that is not what its digest says: layer, what it unpacks to, configuration, manifest, and the list of them."""
    s = Scene(m)

    def flip(d, what):
        with open(d.path(what), "r+b") as f:
            f.seek(20)
            c = f.read(1)
            f.seek(20)
            f.write(bytes([c[0] ^ 1]))

    def built(fn):
        d = lay.Layout(m.mkdir("oci"))
        l, c = d.layer(BASE), d.config([BASE])
        return fn(d, l, c)

    def manifest(d, l, c):
        top = d.manifest(c, [l])
        out = d.finish(top)
        with open(d.path(top), "ab") as f:
            f.write(b" ")
        return out

    def config(d, l, c):
        flip(d, c)
        return d.finish(d.manifest(c, [l]))

    def listed(d, l, c):
        idx = d.blob(json.dumps(d.index([{**d.manifest(c, [l]), "platform": {"architecture": lay.ARCH, "os": "linux"}}])).encode(), lay.INDEX)
        out = d.finish(idx)
        with open(d.path(idx), "ab") as f:
            f.write(b" ")
        return out
    wrong = ("digest", "hash", "match", "eof", "invalid", "verif", "corrupt")
    all_good([
        ("a layer", s.refused(s.layout(BASE, change=lambda d, ls: flip(d, ls[0])), *wrong)),
        ("what a layer unpacks to", s.refused(built(lambda d, l, c: d.finish(d.manifest(d.config([BASE], diff_ids=["sha256:" + "0" * 64]), [l]))),
                                              *wrong)),
        ("the configuration", s.refused(built(config), *wrong)),
        ("the manifest", s.refused(built(manifest), *wrong)),
        ("the list of manifests", s.refused(built(listed), *wrong)),
    ])


@case(modes=("user",))
def structure(m):
    """Parts that are missing, foreign, or turn in circles."""
    s = Scene(m)

    def built(fn):
        d = lay.Layout(m.mkdir("oci"))
        return fn(d, d.layer(BASE), d.config([BASE]))

    def nested(depth):
        d = lay.Layout(m.mkdir("oci"))
        top = {**d.manifest(d.config([BASE]), [d.layer(BASE)]), "platform": {"architecture": lay.ARCH, "os": "linux"}}
        for _ in range(depth):
            top = d.blob(json.dumps(d.index([top])).encode(), lay.INDEX)
        return d.finish(top)

    def circle(d, l, c):
        top = {"mediaType": lay.INDEX, "digest": "sha256:" + "a" * 64, "size": 300}
        with open(d.path(top), "w") as f:
            json.dump(d.index([top]), f)
        return d.finish(top)

    def write(d, name, text):
        with open(os.path.join(d, name), "w") as f:
            f.write(text)
        return d
    gone = ("no such file", "not found", "missing")
    strange = ("unsupported", "unknown", "media", "mime", "type", "invalid", "digest", "eof")
    d = s.layout(BASE)
    rows = [
        ("no layer", s.refused(s.layout(BASE, change=lambda d, ls: os.unlink(d.path(ls[0]))), *gone)),
        ("no configuration", s.refused(built(lambda d, l, c: (os.unlink(d.path(c)), d.finish(d.manifest(c, [l])))[1]), *gone)),
        ("a circle of lists", s.refused(built(circle), "digest", "match", "no image", "circle", "nested", "platform")),
        ("lists in lists", s.refused(nested(300), "no image", "nested", "unexpected", "unsupported", "unknown", "platform", "manifest")),
        ("a foreign kind of layer", s.refused(built(lambda d, l, c: d.finish(d.manifest(c, [{**l, "mediaType": "application/x-evil"}]))), *strange)),
        ("a layer to be fetched elsewhere", s.refused(built(lambda d, l, c: (os.unlink(d.path(l)), d.finish(d.manifest(c, [
            {**l, "mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "urls": ["http://127.0.0.1:1/x"]}])))[1]),
            "dial", "refused", "no such file", *strange)),
        ("a manifest as a layer", s.refused(built(lambda d, l, c: d.finish(d.manifest(c, [d.manifest(c, [l])]))), *strange, "gzip", "header")),
        ("a digest that is a path", s.refused(built(lambda d, l, c: d.finish(d.manifest(c, [{**l, "digest": "sha256:../../../../etc/passwd"}]))), *strange)),
        ("a digest of another kind", s.refused(built(lambda d, l, c: d.finish(d.manifest(c, [{**l, "digest": "md5:" + "0" * 32}]))), *strange,
                                               *gone)),
        ("fewer layers than the configuration names", s.taken(built(lambda d, l, c: d.finish(d.manifest(
            d.config([BASE, BASE]), [l]))), lambda t: exists(t, "etc/stays"))),
        ("more layers than the configuration names", s.refused(built(lambda d, l, c: d.finish(d.manifest(c, [l, d.layer(layer(("x", FILE, b"")))]))),
                                                               "the tool broke: ")),
        ("an index that is none", s.refused(write(s.layout(BASE), "index.json", "[1]"), "json", "unmarshal", "invalid")),
        ("an empty index", s.refused(write(s.layout(BASE), "index.json", '{"schemaVersion":2,"manifests":[]}'), "choose an image", "no ")),
        ("an index of brackets", s.refused(write(s.layout(BASE), "index.json", "[" * 100000), "json", "depth", "unmarshal", "unexpected")),
        ("another machine's", s.refused(s.layout(BASE, arch="s390x"), "architecture")),
        ("a variable without a name", s.refused(s.layout(BASE, config={"Env": ["=x"]}), "env")),
        ("a configuration of another type", s.refused(s.layout(BASE, config={"Env": {"A": "b"}}), "env", "unmarshal", "config")),
    ]
    # a blob that is a link to the host's file: what it holds is not what its digest says
    l = os.path.join(d, "blobs", "sha256", sorted(os.listdir(os.path.join(d, "blobs", "sha256")))[0])
    os.unlink(l)
    os.symlink(s.victim, l)
    rows.append(("a blob that is a link out", s.refused(d, *gone, "digest", "invalid", "eof", "unmarshal", "json")))
    all_good(rows)


@case(modes=("root",))
def docker_archives(m):
    s = Scene(m)

    def arch(change, *layers):
        return lay.docker_archive(os.path.join(m.mkdir("docker"), "a.tar"), layers or [BASE], change)

    def put(name, data):
        return lambda files: files.__setitem__(name, data)

    def config(files, **kw):
        name = next(n for n in files if n.endswith(".json") and n != "manifest.json")
        files[name] = json.dumps({**json.loads(files[name]), **kw}).encode()
    words = ("digest", "match", "invalid", "not found", "no such", "unmarshal", "json", "manifest", "layer", "eof", "config")
    all_good([
        ("good", s.taken(arch(None), lambda t: exists(t, "etc/stays"))),
        ("no layer", s.refused(arch(lambda f: f.pop("l0/layer.tar")), *words)),
        ("another layer than the configuration says", s.refused(arch(put("l0/layer.tar", layer(("x", FILE, b"evil")))), *words)),
        ("no configuration", s.refused(arch(lambda f: [f.pop(n) for n in list(f) if n.endswith(".json") and n != "manifest.json"]), *words)),
        ("a list that is none", s.refused(arch(put("manifest.json", b"{}")), *words)),
        ("a list without images", s.refused(arch(put("manifest.json", b"[]")), *words)),
        ("a layer that is a path", s.refused(arch(put("manifest.json", json.dumps(
            [{"Config": "x.json", "RepoTags": [], "Layers": ["../../../../etc/passwd"]}]).encode())), *words)),
        ("another machine's", s.refused(arch(lambda f: config(f, architecture="s390x")), "architecture", *words)),
    ])


if __name__ == "__main__":
    sys.exit(main())
