#!/usr/bin/python3
"""Images from OCI layouts, through tools in sandboxes; and EROFS files of images."""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok  # noqa: E402


def layer(*entries):
    """entries: (name, bytes) or (name, type, link)."""
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w:") as t:
        for name, *rest in entries:
            i = tarfile.TarInfo(name)
            if isinstance(rest[0], bytes):
                i.size = len(rest[0])
                t.addfile(i, io.BytesIO(rest[0]))
            else:
                i.type, i.linkname = rest
                t.addfile(i)
    return b.getvalue()


def layout(m, layers, arch="amd64", **config):
    """An OCI layout: (its folder, the manifest's digest)."""
    d = m.mkdir("oci")
    os.makedirs(d + "/blobs/sha256")

    def put(kind, data):
        h = hashlib.sha256(data).hexdigest()
        with open(f"{d}/blobs/sha256/{h}", "wb") as f:
            f.write(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + h, "size": len(data)}
    rows = [put("layer.v1.tar+gzip", gzip.compress(x, mtime=0)) for x in layers]
    ids = ["sha256:" + hashlib.sha256(x).hexdigest() for x in layers]
    c = put("config.v1+json", json.dumps({"architecture": arch, "os": "linux", "config": config,
                                          "rootfs": {"type": "layers", "diff_ids": ids}}).encode())
    top = put("manifest.v1+json", json.dumps({"schemaVersion": 2, "config": c, "layers": rows}).encode())
    for name, v in (("index.json", {"schemaVersion": 2, "manifests": [top]}), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(f"{d}/{name}", "w", encoding="ascii") as f:
            json.dump(v, f)
    m.give_tree(d)
    return d, top["digest"], rows


def take(m, d):
    return m.brig("image", "import", "--json", "--name", "src", "oci:" + d)


@case
def layers_whiteouts_and_configuration(m):
    d, digest, _ = layout(m, [layer(("etc/a", b"1"), ("etc/b", b"2")), layer(("etc/.wh.a", b""), ("etc/c", b"3"))],
                          User="1000", Env=["A=b"], Entrypoint=["x"], Cmd=["y"], WorkingDir="/etc")
    done(take(m, d))
    j = json.loads(done(m.brig("image", "show", "--json", "src")).out)
    eq(sorted(os.listdir(j["tree"] + "/etc")), ["b", "c"], "files")
    eq([j["source_digest"], j["user"], j["env"], j["cmd"], j["workdir"]], [digest, "1000", ["A=b"], ["x", "y"], "/etc"], "what it says")
    path = json.loads(done(m.brig("image", "erofs", "--json", "src")).out)["erofs"]
    first = open(path, "rb").read()
    eq([len(first) % 4096, first[1024:1028]], [0, bytes.fromhex("e2e1f5e0")], "superblock")
    done(m.brig("image", "erofs", "src"))
    eq(open(path, "rb").read() == first, True, "the same file again")


@case
def what_is_refused(m):
    good = layer(("a", os.urandom(1000)))
    d, _, rows = layout(m, [good])
    blob = f"{d}/blobs/sha256/{rows[0]['digest'][7:]}"
    data = open(blob, "rb").read()
    for bad in (data[:-1] + bytes([data[-1] ^ 1]), data[:100]):
        with open(blob, "wb") as f:
            f.write(bad)
        r = take(m, d)
        eq([r.rc, r.err.count(b"\n"), r.out], [125, 1, b""], f"a damaged blob {r!r}")
    r = take(m, layout(m, [good], arch="s390x")[0])
    eq([r.rc, b"s390x" in r.err], [125, True], f"architecture {r!r}")


@case
def nothing_leaves_the_tree(m):
    out = m.path("out")
    d = layout(m, [layer(("l", tarfile.SYMTYPE, os.path.dirname(out))), layer(("l/" + os.path.basename(out), b"x"))])[0]
    take(m, d)
    ok(not os.path.exists(out), "a link of one layer led the next one out")


if __name__ == "__main__":
    main()
