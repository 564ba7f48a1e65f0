#!/usr/bin/python3
"""OCI images, registries, recipes and EROFS files: what comes in through tools in sandboxes, and what is refused.

The images are made here byte by byte; the registry and its clients are in namespaces of the test's own."""
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok  # noqa: E402

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
BUSYBOX = "/usr/bin/busybox" if os.path.exists("/usr/bin/busybox") else "/bin/busybox"


def image(m, *args, **kw):
    return m.brig("image", *args, **kw)


def layer(*entries):
    """entries: (name, kind, data or target, changes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, what, *more in entries:
            i = tarfile.TarInfo(name)
            i.type, i.mode = kind, 0o755
            for k, v in (more[0] if more else {}).items():
                setattr(i, k, v)
            if kind == tarfile.REGTYPE:
                i.size = len(what)
                t.addfile(i, io.BytesIO(what))
            else:
                i.linkname = what
                t.addfile(i)
    return out.getvalue()


def shell():
    with open(BUSYBOX, "rb") as f:
        return layer(("bin", tarfile.DIRTYPE, ""), ("bin/sh", tarfile.REGTYPE, f.read()), ("etc", tarfile.DIRTYPE, ""),
                     ("etc/gone", tarfile.REGTYPE, b"1"), ("etc/stays", tarfile.REGTYPE, b"2"))


def blob(d, data):
    h = hashlib.sha256(data).hexdigest()
    with open(os.path.join(d, "blobs", "sha256", h), "wb") as f:
        f.write(data)
    return "sha256:" + h


def layout(m, layers, arch=None, config=None, change=None):
    """An OCI layout; change(folder, digests of layers) damages it. Returns the folder and the manifest's digest."""
    d = m.mkdir("oci")
    os.makedirs(os.path.join(d, "blobs", "sha256"))
    packed = [gzip.compress(x, mtime=0) for x in layers]
    digests = [blob(d, x) for x in packed]
    conf = json.dumps({"architecture": arch or ARCH, "os": "linux", "config": config or {},
                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(x).hexdigest() for x in layers]}}).encode()
    man = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                      "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": blob(d, conf), "size": len(conf)},
                      "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": h, "size": len(x)}
                                 for h, x in zip(digests, packed)]}).encode()
    top = blob(d, man)
    with open(os.path.join(d, "oci-layout"), "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')
    with open(os.path.join(d, "index.json"), "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": top,
                                                      "size": len(man), "annotations": {"org.opencontainers.image.ref.name": "t"}}]}, f)
    if change:
        change(d, digests)
    subprocess.run(["chmod", "-R", "a+rX", d], check=True)
    return d, top


def take(m, layers, *args, **kw):
    d, top = layout(m, layers, **kw)
    return image(m, "import", "--disk", "512M", *args, f"oci:{d}:t"), top


def refusal(r, *words):
    eq(r.rc, 125, f"exit {r!r}")
    eq(r.err.count(b"\n"), 1, f"one line {r!r}")
    ok(any(w in r.err.decode().lower() for w in words), f"none of {words!r} is in {r.err!r}")


def tree(m, ref):
    return json.loads(done(image(m, "show", "--json", ref)).out)


@case
def oci_layout(m):
    """Layers, whiteouts, configuration and the manifest's digest; and it runs."""
    r, top = take(m, [shell(), layer(("etc/.wh.gone", tarfile.REGTYPE, b""))], "--name", "oci",
                  config={"User": "1000", "WorkingDir": "/etc", "Env": ["A=b"], "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "exit 3"]})
    done(r)
    info = tree(m, "oci")
    ok(top in json.dumps(info), f"{top} is not in {info}")
    ok('"A=b"' in json.dumps(info), info)
    r = done(m.run("--image", "oci", "--", "/bin/sh", "-c", "test ! -e /etc/gone && read x < /etc/stays; echo $x"))
    eq(r.out, b"2\n", "the second layer")


@case
def docker_archive(m):
    data, conf = shell(), None
    conf = json.dumps({"architecture": ARCH, "os": "linux", "config": {}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}).encode()
    name = hashlib.sha256(conf).hexdigest() + ".json"
    path = os.path.join(m.mkdir("docker"), "a.tar")
    man = json.dumps([{"Config": name, "RepoTags": ["x:y"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as t:
        for n, d in ((name, conf), ("layer.tar", data), ("manifest.json", man)):
            i = tarfile.TarInfo(n)
            i.size = len(d)
            t.addfile(i, io.BytesIO(d))
    os.chmod(path, 0o644)
    done(image(m, "import", "--name", "arch", f"docker-archive:{path}"))
    done(m.run("--image", "arch", "--", "/bin/sh", "-c", "exit 0"))


@case
def damaged(m):
    """A blob that is not its digest, a short one, one that is missing; another machine's; wrong configuration."""
    def path(d, digest):
        return os.path.join(d, "blobs", "sha256", digest[7:])

    def flip(d, digests):
        with open(path(d, digests[0]), "r+b") as f:
            f.seek(100)
            c = f.read(1)
            f.seek(100)
            f.write(bytes([c[0] ^ 1]))
    refusal(take(m, [shell()], change=flip)[0], "digest")
    refusal(take(m, [shell()], change=lambda d, h: os.truncate(path(d, h[0]), 1000))[0], "digest", "eof")
    refusal(take(m, [shell()], change=lambda d, h: os.unlink(path(d, h[0])))[0], "no such file")
    refusal(take(m, [shell()], arch="s390x")[0], "architecture")
    refusal(take(m, [shell()], config={"Env": ["=x"]})[0], "env")
    refusal(take(m, [shell()], config={"WorkingDir": "etc"})[0], "workingdir")


@case
def layers_that_lead_out(m):
    """What two layers do together stays inside: the host's file is as it was, and nothing of it comes along."""
    out = m.mkdir("outside")
    victim = os.path.join(out, "victim")
    with open(victim, "w") as f:
        f.write("mine")
    os.chmod(victim, 0o666)
    for bad in (layer(("../../../../../.." + victim, tarfile.REGTYPE, b"owned")),
                layer(("hard", tarfile.LNKTYPE, "../../../../../.." + victim))):
        r, _ = take(m, [shell(), bad])
        if r.rc != 0:
            refusal(r, ":")
        with open(victim) as f:
            eq(f.read(), "mine", "the host's file")
    take(m, [shell(), layer(("link", tarfile.SYMTYPE, out)), layer(("link/victim", tarfile.REGTYPE, b"owned"))])
    with open(victim) as f:
        eq(f.read(), "mine", "the host's file, through a link of another layer")


@case
def bomb(m):
    """Zeros that unpack to more than the disk: ended by the limit, and nothing of it stays in the store."""
    before = done(image(m, "list", "--json")).out
    zeros = layer(("big", tarfile.REGTYPE, bytes(192 << 20)))
    d, _ = layout(m, [zeros])
    r = image(m, "import", "--memory", "256M", "--disk", "64M", "--name", "bomb", f"oci:{d}:t")
    refusal(r, "no space", "memory")
    eq(done(image(m, "list", "--json")).out, before, "the store")


@case
def erofs(m):
    """One uncompressed file, the same each time, which dump.erofs reads inside a sandbox."""
    done(take(m, [shell()], "--name", "ero")[0])
    one = json.loads(done(image(m, "erofs", "--json", "ero")).out)
    with open(one["erofs"], "rb") as f:
        first = f.read()
    eq(len(first) % 4096, 0, "whole blocks")
    done(image(m, "erofs", "--again", "ero"))
    with open(one["erofs"], "rb") as f:
        ok(f.read() == first, "the second file differs")
    copy = os.path.join(m.mkdir("ero"), "i.erofs")
    with open(copy, "wb") as f:
        f.write(first)
    os.chmod(copy, 0o644)
    r = done(m.run("--file", f"{copy}:/tmp/i.erofs", "--", "sh", "-c", "fsck.erofs /tmp/i.erofs && dump.erofs --path=/etc/stays /tmp/i.erofs"))
    ok(b"Uid: 0" in r.out, r)


@case(modes=("root",))
def recipe(m):
    """A small Debian, twice: the same digest; its user, its package list. Needs the host's Debian mirrors."""
    p = os.path.join(m.mkdir("mini"), "mini.yaml")
    with open(p, "w") as f:
        f.write("suite: bookworm\npackages: [bash]\nuser: someone\nworkdir: /w\ncmd: [bash]\n")
    env = {"BRIG_CACHE": m.mkdir("cache")}
    one = json.loads(done(image(m, "build", "--json", "--name", "mini", p, env=env)).out)
    two = json.loads(done(image(m, "build", "--json", "--name", "mini2", p, env=env)).out)
    eq(two["digest"], one["digest"], "the second build")
    with open(os.path.join(os.path.dirname(tree(m, "mini")["tree"]), "packages")) as f:
        ok("bash=" in f.read(), "bash is among the packages")
    r = done(m.run("--image", "mini", "--", "bash", "-c", "id -un; grep -rl /tmp/root /etc; find /etc /usr -lname '/tmp/root*'"))
    eq(r.out, b"someone\n", "the user, and no trace of where it was built")


@case
def refused_words(m):
    refusal(image(m, "pull", "debian"), "host")
    refusal(image(m, "pull", "foo/bar"), "host")
    refusal(image(m, "pull", "localhost:5000/x"), "localhost")
    refusal(image(m, "build", "--name", "x", "nosuch"), "no recipe")
    p = os.path.join(m.mkdir("rec"), "r.yaml")
    for text, word in (("suite: bookworm\npackages: [bash]\nfoo: 1\n", "foo"), ("suite: bookworm\npackages: ['-o']\n", "packages"),
                       ("suite: 'x y'\npackages: []\n", "suite"), ("packages: []\n", "suite"),
                       ("suite: a\npackages: []\nmirrors: ['file:///x']\n", "mirrors")):
        with open(p, "w") as f:
            f.write(text)
        os.chmod(p, 0o644)
        refusal(image(m, "build", "--name", "x", p), word)


if __name__ == "__main__":
    if not ARCH:
        raise SystemExit("unknown machine")
    sys.exit(main())
