#!/usr/bin/python3
"""/files of a keeper: downloads with ranges and conditions, uploads of every form."""
import gzip
import hashlib
import json
import os
import struct
import sys
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok  # noqa: E402
from callclient import Keeper, envelope  # noqa: E402

OCTETS = {"content-type": "application/octet-stream"}
FORM = {"content-type": "multipart/form-data; boundary=----b0undary"}


def target(path=None, **query):
    if path is not None:
        query["path"] = path
    return "/envd/files?" + urllib.parse.urlencode(query)


def get(k, path, fields=None, **query):
    return k.ask("GET", target(path, **query), fields=fields)


def put(k, path, data, fields=None, **query):
    status, _, out = k.ask("POST", target(path, **query), data, {**OCTETS, **(fields or {})})
    return status, json.loads(out)


def form(*parts):
    out = b""
    for name, filename, data in parts:
        fn = b'; filename="' + filename.encode() + b'"' if filename is not None else b""
        out += b'------b0undary\r\nContent-Disposition: form-data; name="' + name.encode() + b'"' + fn + b"\r\nContent-Type: text/plain\r\n\r\n" + data + b"\r\n"
    return out + b"------b0undary--\r\n"


def stat(k, path):
    status, o = k.rpc("filesystem.Filesystem/Stat", {"path": path})
    return o["entry"] if status == 200 else o["code"]


@case
def there_and_back(m):
    data = os.urandom(5_000_000)
    with Keeper(m) as k:
        for path, body in {"a.bin": b"\x89PNG\0\xff", "/tmp/new/dirs/e": b"", "~/t x.txt": b"text\n", "big": data, "ü ñ\n'\"": b"odd"}.items():
            status, o = put(k, path, body)
            full = path if path.startswith("/") else "/home/user/" + path.removeprefix("~/")
            eq((status, o), (200, [{"path": full, "name": os.path.basename(full), "type": "file"}]))
            status, f, got = get(k, path)
            eq((status, hashlib.sha256(got).digest(), f["content-length"]), (200, hashlib.sha256(body).digest(), str(len(body))), path)
        e = stat(k, "a.bin")
        eq((e["mode"], e["owner"], e["size"]), (0o644, "user", "6"))
        eq(stat(k, "/tmp/new/dirs")["mode"], 0o755)
        put(k, "big", b"short")
        eq(get(k, "big")[2], b"short", "truncated")
        eq(get(k, "a.bin")[1]["content-disposition"], 'inline; filename="a.bin"')
        eq(get(k, "ü ñ\n'\"")[1]["content-disposition"], "inline; filename*=UTF-8''%C3%BC%20%C3%B1%0A%27%22")


@case
def ranges_and_conditions(m):
    with Keeper(m) as k:
        put(k, "f", b"0123456789")
        whole = get(k, "f")
        date = whole[1]["last-modified"]
        for rng, want in {"bytes=2-4": b"234", "bytes=7-": b"789", "bytes=-3": b"789", "bytes=-99": b"0123456789", "bytes=9-99": b"9"}.items():
            status, f, got = get(k, "f", {"range": rng})
            eq((status, got), (206, want), rng)
        eq(get(k, "f", {"range": "bytes=2-4"})[1]["content-range"], "bytes 2-4/10")
        for rng in ("bytes=10-", "bytes=-0"):
            status, f, got = get(k, "f", {"range": rng})
            eq((status, f["content-range"], got), (416, "bytes */10", b""), rng)
        for rng in ("bytes=0-1,3-4", "lines=1-2", "bytes=5-2", "bytes=x", "bytes=1-2x"):
            eq(get(k, "f", {"range": rng})[0::2], (200, b"0123456789"), rng)
        eq(get(k, "f", {"if-modified-since": date})[0], 304)
        eq(get(k, "f", {"if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"})[0], 200)
        eq(get(k, "f", {"if-unmodified-since": "Thu, 01 Jan 1970 00:00:00 GMT"})[0], 412)
        eq(get(k, "f", {"if-modified-since": "nonsense"})[0], 200)
        eq(get(k, "f", {"range": "bytes=0-0", "if-range": date})[0], 206)
        eq(get(k, "f", {"range": "bytes=0-0", "if-range": "Thu, 01 Jan 1970 00:00:00 GMT"})[0], 200)
        eq(get(k, "f", {"accept-encoding": "identity;q=0, gzip"})[0], 406)


@case
def errors(m):
    def err(r):
        return r[0], json.loads(r[2])
    with Keeper(m) as k:
        eq(err(get(k, "none")), (404, {"code": 404, "message": "path '/home/user/none' does not exist"}))
        eq(err(get(k, "/tmp")), (400, {"code": 400, "message": "path '/tmp' is a directory"}))
        eq(err(get(k, "/dev/zero"))[0], 400)
        eq(err(k.ask("GET", "/envd/files"))[0], 400)
        eq(err(k.ask("GET", "/envd/files?path=%zz"))[0], 400)
        eq(err(get(k, "f", username="nobody-there"))[1], {"code": 401, "message": "invalid username: 'nobody-there'"})
        eq(put(k, "/tmp", b"x")[0], 400)
        eq(put(k, "", b"x")[0], 400)
        eq(put(k, "d/", b"x")[0], 400)
        eq(put(k, "x", b"x", username="nobody-there")[0], 401)
        eq(put(k, "/proc/version", b"x")[0] in (400, 403, 500), True)
        eq(k.ask("POST", target("x"), b"x", {"content-type": "text/plain"})[0], 415)
        eq(k.ask("POST", target("x"), b"x", {"content-type": "multipart/form-data"})[0], 415)
        eq(k.ask("POST", target("x"), b"x", {**OCTETS, "content-encoding": "br"})[0], 415)
    with Keeper(m, disk=32 << 20) as k:
        status, o = put(k, "full", bytes(40 << 20))
        eq((status, o["code"]), (507, 507))
        eq(put(k, "full", b"")[0], 200)
        eq(put(k, "small", b"x")[0], 200, "room again")


@case
def forms(m):
    data = os.urandom(300_000) + b"\r\n------b0undar" + b"x\r\n--" + b"\r" * 1000
    with Keeper(m) as k:
        def post(path, body, fields=None):
            status, _, out = k.ask("POST", target(path) if path else "/envd/files", body, {**FORM, **(fields or {})})
            return status, json.loads(out)
        eq(post("named", form(("file", "other.txt", data))), (200, [{"path": "/home/user/named", "name": "named", "type": "file"}]))
        eq(get(k, "named")[2] == data, True)
        eq(post("bare", form(("file", None, b"x")))[0], 200)
        status, o = post(None, form(("file", "m/a", b"1"), ("ignored", "zz", b"no"), ("file", "/tmp/b", data), ("file", "c", b"")))
        eq((status, [x["path"] for x in o]), (200, ["/home/user/m/a", "/tmp/b", "/home/user/c"]))
        eq((get(k, "m/a")[2], get(k, "/tmp/b")[2] == data, get(k, "c")[2], stat(k, "zz")), (b"1", True, b"", "not_found"))
        eq(post(None, form(("file", "s", b"1"), ("file", "./s", b"2")))[0], 400, "the same twice")
        eq(post("p", form(("file", "s", b"1"), ("file", "t", b"2")))[0], 400)
        for bad in (b"", form(), form(("other", "x", b"")), b"nonsense", form(("file", "x", b"y"))[:-20], form(("file", None, b"x")),
                    b"------b0undary\r\nbad\r\n\r\n", b"------b0undary\r\n" + b"a" * 20000):
            eq(post(None, bad)[0], 400, bad[:60])
        eq(post(None, gzip.compress(form(("file", "z", data))), {"content-encoding": "gzip"})[0], 200)
        eq(get(k, "z")[2] == data, True)


@case
def packed(m):
    data = os.urandom(100_000) * 20 + bytes(3_000_000)
    with Keeper(m) as k:
        gz = {"content-encoding": "gzip"}
        eq(put(k, "z", gzip.compress(data, 1), gz)[0], 200)
        eq(hashlib.sha256(get(k, "z")[2]).digest(), hashlib.sha256(data).digest())
        eq(put(k, "e", gzip.compress(b""), gz)[0], 200)
        eq(get(k, "e")[2], b"")
        for bad in (b"", b"plain", gzip.compress(data)[:-100], b"\x1f\x8b\xff"):
            eq(put(k, "bad", bad, gz)[0], 400, bad[:10])


PACK = b"BRGPACK1"
END = struct.pack("<BBHIIIQQ", 0, 0, 0, 0, 0, 0, 0, 0)


def entry(kind, path, data=b"", target=b"", mode=0o644):
    """As docs/pack.md has it."""
    parts = [data[i:i + 1048576] for i in range(0, len(data), 1048576)] + [b""] if kind == 2 else []
    body = b"".join(struct.pack("<I", len(p)) + p for p in parts)
    return struct.pack("<BBHIIIQQ", kind, 0, mode, len(path), len(target), 0, len(data), 0) + path + target + body


def unpacked(raw):
    """{path: (kind, mode, bytes or target)} of a whole pack stream."""
    eq(raw[:8], PACK)
    at, out = 8, {}
    while True:
        kind, _, mode, n, tn, _, _, _ = struct.unpack_from("<BBHIIIQQ", raw, at)
        at += 32
        if kind == 0:
            eq(len(raw), at, "nothing behind the end")
            return out
        path, target, at = raw[at:at + n], raw[at + n:at + n + tn], at + n + tn
        data = bytearray()
        while kind == 2:
            c, = struct.unpack_from("<I", raw, at)
            at += 4
            if c == 0:
                break
            if c == 0x80000000:
                data += bytes(struct.unpack_from("<Q", raw, at)[0])
                at += 8
            else:
                data += raw[at:at + c]
                at += c
        out[path] = (kind, mode, bytes(data) if kind == 2 else target)


def pack(path, **query):
    return "/envd/files/pack?" + urllib.parse.urlencode({"path": path, **query})


@case
def packs(m):
    """brig's own: a tree in one request, there and back."""
    data = os.urandom(3_000_000)
    tree = {b"": (1, 0o755, b""), b"sub": (1, 0o700, b""), b"sub/big": (2, 0o640, data), b"sub/none": (2, 0o755, b""),
            b"odd\n\xff name": (2, 0o644, b"x"), b"l": (3, 0o777, b"sub/big")}
    stream = PACK + b"".join(entry(k, p, d if k == 2 else b"", d if k == 3 else b"", mode) for p, (k, mode, d) in tree.items()) + END
    with Keeper(m) as k:
        put(k, "old/sub/big", b"replaced")
        put(k, "old/stays", b"merged")
        for to, more in (("new/a/b", {}), ("old", {b"stays": (2, 0o644, b"merged")})):
            eq(k.ask("POST", pack(to), stream)[::2], (204, b""))
            status, f, raw = k.ask("GET", pack(to))
            eq((status, f["content-type"]), (200, "application/x-brig-pack"))
            got = unpacked(raw)
            eq({p: v for p, v in got.items() if p}, {p: v for p, v in {**tree, **more}.items() if p}, to)
        eq(hashlib.sha256(get(k, "new/a/b/l")[2]).digest(), hashlib.sha256(data).digest(), "through the link, as the user may")
        eq(list(unpacked(k.ask("GET", pack("new/a/b/sub/none"))[2]).items()), [(b"", (2, 0o755, b""))], "one file")
        eq(stat(k, "new/a/b/sub/big")["owner"], "user")
        for bad, want in ((b"", 400), (b"BRGPACK2" + stream[8:], 400), (stream[:-32], 400), (stream[:2_000_000], 400), (stream + b"x", 400),
                          (PACK + entry(1, b"") + entry(2, b"../out", b"x") + END, 400), (PACK + entry(1, b"") + entry(3, b"away", target=b"/tmp") + entry(2, b"away/in", b"x") + END, 400),
                          (PACK + entry(1, b"") + entry(3, b"l", target=b"sub") + entry(2, b"l/in", b"x") + END, 400)):
            status, _, out = k.ask("POST", pack("hostile/top"), bad)
            eq(status, want, f"{bad[:60]!r} {out!r}")
            eq((stat(k, "hostile/out"), stat(k, "/tmp/in")), ("not_found", "not_found"))
        eq([k.ask(*w)[0] for w in (("GET", pack("none")), ("GET", "/envd/files/pack"), ("POST", pack("/etc/x"), stream), ("GET", pack("x" * 5000)))], [404, 400, 403, 400])


@case
def metadata(m):
    with Keeper(m) as k:
        status, o = put(k, "f", b"x", {"x-metadata-author": "me & you", "x-metadata-k2": ""})
        want = {"author": "me & you", "k2": ""}
        eq((status, o[0]["metadata"]), (200, want))
        eq(stat(k, "f")["metadata"], want)
        status, o = k.rpc("filesystem.Filesystem/ListDir", {"path": "~"})
        eq([e.get("metadata") for e in o["entries"] if e["name"] == "f"], [want])
        eq(k.rpc("filesystem.Filesystem/Move", {"source": "f", "destination": "g"})[1]["entry"]["metadata"], want)
        put(k, "g", b"y", {"x-metadata-only": "1"})
        eq(stat(k, "g")["metadata"], {"only": "1"})
        put(k, "g", b"z")
        eq("metadata" in stat(k, "g"), False)
        for bad in ({"x-metadata-" + "k" * 247: "v"}, {"x-metadata-a": "v" * 4097}, {"x-metadata-": "v"}, {"x-metadata-a": "\u00fc"}):
            eq(put(k, "h", b"x", bad)[0], 400)


@case
def composed(m):
    parts = [os.urandom(700_000), b"", b"middle", os.urandom(300_001)]
    with Keeper(m) as k:
        def compose(**req):
            status, _, out = k.ask("POST", "/envd/files/compose", json.dumps(req).encode(), {"content-type": "application/json"})
            return status, json.loads(out)
        for i, data in enumerate(parts):
            put(k, f"parts/{i}", data, {"x-metadata-a": "b"})
        put(k, "all", b"what was there")
        names = [f"parts/{i}" for i in range(4)]
        # whatever is wrong, nothing changes
        for req, want in (({"source_paths": names}, 400), ({"source_paths": [], "destination": "all"}, 400), ({"destination": "all"}, 400),
                          ({"source_paths": ["parts/0", 5], "destination": "all"}, 400), ({"source_paths": names, "destination": "all/"}, 400),
                          ({"source_paths": names, "destination": "~/parts/../parts/2"}, 400), ({"source_paths": "x", "destination": "all"}, 400),
                          ({"source_paths": ["parts/x"] * 1025, "destination": "all"}, 400),
                          ({"source_paths": names + ["none"], "destination": "all"}, 404), ({"source_paths": names + ["/tmp"], "destination": "all"}, 400),
                          ({"source_paths": names, "destination": "/tmp"}, 400), ({"source_paths": names, "destination": "parts/0/x"}, 400),
                          ({"source_paths": names, "destination": "all", "username": "nobody-there"}, 401)):
            status, o = compose(**req)
            eq((status, o["code"]), (want, want), f"{req} {o}")
        eq((get(k, "all")[2], [get(k, n)[2] == d for n, d in zip(names, parts)]), (b"what was there", [True] * 4))
        eq(k.ask("GET", "/envd/files/compose")[0], 405)
        eq(compose(source_paths=names, destination="all"), (200, {"path": "/home/user/all", "name": "all", "type": "file"}))
        eq(hashlib.sha256(get(k, "all")[2]).digest(), hashlib.sha256(b"".join(parts)).digest())
        eq(("metadata" in stat(k, "all"), [stat(k, n) for n in names]), (False, ["not_found"] * 4))
        put(k, "one", b"1")
        eq(compose(source_paths=["one", "~/one"], destination="/tmp/new/place")[0], 200)
        eq((get(k, "/tmp/new/place")[2], stat(k, "one")), (b"11", "not_found"), "twice the same")
        # a source that is the destination, by way of a link
        put(k, "d/all", b"first ")
        put(k, "rest", b"second")
        eq(k.ask("POST", "/envd/process.Process/Start", envelope({"process": {"cmd": "sh", "args": ["-c", "ln -s d ~/way; ln -s d/all ~/name"]}}),
                 {"content-type": "application/connect+json"})[0], 200)
        eq(compose(source_paths=["way/all", "rest"], destination="d/all")[0], 200)
        eq((get(k, "d/all")[2], stat(k, "rest")), (b"first second", "not_found"))
        put(k, "rest", b" third")
        eq(compose(source_paths=["d/all", "rest"], destination="name")[0], 200)
        eq((get(k, "d/all")[2], stat(k, "rest")), (b"first second third", "not_found"))
        if m.name == "root":
            put(k, "/root/a", b"r", username="root")
            eq(compose(source_paths=["a"], destination="b", username="root")[1]["path"], "/root/b")
            eq(compose(source_paths=["/root/b"], destination="c")[0], 403)
    with Keeper(m, disk=32 << 20) as k:
        put(k, "big", bytes(20 << 20))
        status, _, out = k.ask("POST", "/envd/files/compose", b'{"source_paths":["big"],"destination":"copy"}')
        eq((status, json.loads(out)["code"], stat(k, "copy"), stat(k, "big")["size"]), (507, 507, "not_found", str(20 << 20)))


@case
def slow_and_gone(m):
    with Keeper(m) as k:
        put(k, "big", bytes(20 << 20))
        def rss():
            with open(f"/proc/{k.p.pid}/status", encoding="ascii") as f:
                return int([x for x in f if x.startswith("VmRSS")][0].split()[1])
        before = rss()
        many = [k.call("GET", target("big")).end().reply() for _ in range(6)]
        k.control("stat")
        ok(rss() - before < 8192, f"{rss() - before} KiB for six unread downloads")
        eq(len(many[0].read()), 20 << 20)
        for c in many:
            c.close()
        # a client that goes in the middle of an upload
        c = k.call("POST", target("part"), OCTETS)
        c.body(b"x" * 500_000)
        c.close()
        eq(put(k, "after", b"y")[0], 200)


sys.exit(main(after_each=nothing_left))
