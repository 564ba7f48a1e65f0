#!/usr/bin/python3
"""OCI images, registries and EROFS files: what comes in through tools in sandboxes, and what is refused.

The images are made here byte by byte; the registry and its clients are in namespaces of the test's own."""
import gzip
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok  # noqa: E402
import oci_layout as lay  # noqa: E402

BUSYBOX = "/usr/bin/busybox" if os.path.exists("/usr/bin/busybox") else "/bin/busybox"


def image(m, *args, **kw):
    return m.brig("image", *args, **kw)


def shell():
    with open(BUSYBOX, "rb") as f:
        return lay.layer(("bin", lay.DIR, ""), ("bin/sh", lay.FILE, f.read()), ("etc", lay.DIR, ""), ("etc/gone", lay.FILE, b"1"),
                         ("etc/stays", lay.FILE, b"2"))


def take(m, layers, *args, **kw):
    d, top = lay.layout(m.mkdir("oci"), layers, **kw)
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
    r, top = take(m, [shell(), lay.layer(("etc/.wh.gone", lay.FILE, b""))], "--name", "oci",
                  config={"User": "1000", "WorkingDir": "/etc", "Env": ["A=b"], "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "exit 3"]})
    done(r)
    info = tree(m, "oci")
    ok(top in json.dumps(info), f"{top} is not in {info}")
    ok('"A=b"' in json.dumps(info), info)
    r = done(m.run("--image", "oci", "--", "/bin/sh", "-c", "test ! -e /etc/gone && read x < /etc/stays; echo $x"))
    eq(r.out, b"2\n", "the second layer")


@case
def a_file_of_every_kind(m):
    """What it is, is seen from what is in it: the same image comes out of each."""
    d, _ = lay.layout(m.mkdir("oci"), [shell()])
    top = m.mkdir("kinds")
    want = json.loads(done(image(m, "import", "--json", "--name", "kind", d)).out)["digest"]
    docker = lay.docker_archive(os.path.join(top, "docker.tar"), [shell()])
    with open(os.path.join(top, "plain"), "wb") as f:
        f.write(shell())
    subprocess.run(["tar", "-C", d, "-cf", os.path.join(top, "oci.tar"), "."], check=True)
    subprocess.run(f"cd {top}; gzip -k docker.tar; xz -k oci.tar; zstd -qk plain; chmod 644 *", shell=True, check=True)
    for name in ("oci.tar", "docker.tar.gz", "oci.tar.xz", "plain.zst"):
        r = json.loads(done(image(m, "import", "--json", os.path.join(top, name))).out)
        eq(r["digest"], want, name)
    done(image(m, "import", f"docker-archive:{docker}"))
    done(m.run("--image", "kind", "--", "/bin/sh", "-c", "exit 0"))
    refusal(image(m, "import", m.put("text", b"hello\n" * 1000)), "neither a tar file")
    refusal(image(m, "import", m.put("empty", b"")), "neither a tar file")
    refusal(image(m, "import", m.put("bz", b"BZh9" + bytes(1000))), "only gzip, zstd and xz")
    refusal(image(m, "import", top), "no oci layout")
    refusal(image(m, "import", os.path.join(top, "none")), "no such file")
    refusal(image(m, "import", m.put("cut.gz", gzip.compress(shell())[:5000])), "unexpected end of file")


@case
def erofs(m):
    """One uncompressed file, the same each time, which dump.erofs reads inside a sandbox."""
    done(take(m, [shell()], "--name", "ero")[0])
    one = json.loads(done(image(m, "erofs", "--json", "ero")).out)
    with open(one["erofs"], "rb") as f:
        first = f.read()
    eq(len(first) % 4096, 0, "whole blocks")
    done(image(m, "erofs", "ero"))
    st = os.stat(one["erofs"])
    done(image(m, "erofs", "--again", "ero"))
    ok(os.stat(one["erofs"]).st_ino != st.st_ino, "made new")
    with open(one["erofs"], "rb") as f:
        ok(f.read() == first, "the second file differs")
    copy = os.path.join(m.mkdir("ero"), "i.erofs")
    with open(copy, "wb") as f:
        f.write(first)
    os.chmod(copy, 0o644)
    r = done(m.run("--file", f"{copy}:/tmp/i.erofs", "--", "sh", "-c", "fsck.erofs /tmp/i.erofs && dump.erofs --path=/etc/stays /tmp/i.erofs"))
    ok(b"Uid: 0" in r.out, r)
    eq([i["erofs"] for i in json.loads(done(image(m, "list", "--json")).out) if i["name"] == "ero:latest"], [len(first)], "listed")
    done(image(m, "verify", "ero"))
    with open(one["erofs"], "r+b") as f:
        f.seek(-1, 2)
        f.write(b"x")
    refusal(image(m, "verify", "ero"), "erofs file was changed")
    done(image(m, "erofs", "--again", "ero"))
    done(image(m, "verify", "ero"))
    done(image(m, "remove", one["digest"]))
    ok(not os.path.exists(one["erofs"]), "the file goes with its image")


@case
def refused_words(m):
    refusal(image(m, "pull", "debian"), "host")
    refusal(image(m, "pull", "foo/bar"), "host")
    refusal(image(m, "pull", "localhost:5000/x"), "localhost")


if __name__ == "__main__":
    if not lay.ARCH:
        raise SystemExit("unknown machine")
    sys.exit(main())
