"""OCI layouts and docker archives, made byte by byte, so that any part of them can lie."""
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
DIR, FILE, SYM, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
OCI = "application/vnd.oci.image."
MANIFEST, INDEX, CONFIG = OCI + "manifest.v1+json", OCI + "index.v1+json", OCI + "config.v1+json"
LAYER_GZ, LAYER = OCI + "layer.v1.tar+gzip", OCI + "layer.v1.tar"


def layer(*entries):
    """entries: (name, kind, data or target[, fields of TarInfo])."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, what, *more in entries:
            i = tarfile.TarInfo(name)
            i.type, i.mode = kind, 0o755
            for k, v in (more[0] if more else {}).items():
                setattr(i, k, v)
            if kind == FILE:
                i.size = len(what)
                t.addfile(i, io.BytesIO(what))
            else:
                i.linkname = what
                t.addfile(i)
    return out.getvalue()


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """A folder with blobs. Each method adds one and returns its descriptor; keywords change the descriptor."""

    def __init__(self, folder):
        self.dir = folder
        os.makedirs(os.path.join(folder, "blobs", "sha256"))
        with open(os.path.join(folder, "oci-layout"), "w") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')

    def path(self, descriptor):
        return os.path.join(self.dir, "blobs", "sha256", descriptor["digest"][7:])

    def blob(self, data, kind, **kw):
        d = {"mediaType": kind, "digest": sha(data), "size": len(data)}
        with open(self.path(d), "wb") as f:
            f.write(data)
        return {**d, **kw}

    def layer(self, raw, **kw):
        return self.blob(gzip.compress(raw, mtime=0), LAYER_GZ, **kw)

    def config(self, raws, arch=None, config=None, diff_ids=None, **kw):
        conf = {"architecture": arch or ARCH, "os": "linux", "config": config or {},
                "rootfs": {"type": "layers", "diff_ids": diff_ids or [sha(x) for x in raws]}}
        return self.blob(json.dumps(conf).encode(), CONFIG, **kw)

    def manifest(self, config, layers, **kw):
        return self.blob(json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}).encode(),
                         MANIFEST, **kw)

    def index(self, manifests):
        return {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}

    def finish(self, *tops, tag="t"):
        note = {"annotations": {"org.opencontainers.image.ref.name": tag}}
        with open(os.path.join(self.dir, "index.json"), "w") as f:
            json.dump(self.index([{**t, **note} for t in tops]), f)
        subprocess.run(["chmod", "-R", "a+rX", self.dir], check=True)
        return self.dir


def layout(folder, layers, arch=None, config=None, change=None):
    """A whole one; change(layout, descriptors of layers) damages it. Returns the folder and the manifest's digest."""
    lay = Layout(folder)
    ls = [lay.layer(x) for x in layers]
    top = lay.manifest(lay.config(layers, arch, config), ls)
    if change:
        change(lay, ls)
    return lay.finish(top), top["digest"]


def docker_archive(path, layers, change=None, arch=None):
    """What docker save writes. change(dict of name -> bytes) damages it."""
    conf = json.dumps({"architecture": arch or ARCH, "os": "linux", "config": {},
                       "rootfs": {"type": "layers", "diff_ids": [sha(x) for x in layers]}}).encode()
    name = hashlib.sha256(conf).hexdigest() + ".json"
    files = {f"l{i}/layer.tar": x for i, x in enumerate(layers)}
    files[name] = conf
    files["manifest.json"] = json.dumps([{"Config": name, "RepoTags": ["x:y"], "Layers": [f"l{i}/layer.tar" for i in range(len(layers))]}]).encode()
    if change:
        change(files)
    with tarfile.open(path, "w") as t:
        for n, data in files.items():
            i = tarfile.TarInfo(n)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
    os.chmod(path, 0o644)
    return path
