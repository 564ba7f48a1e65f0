"""Tar streams for the image tests: a small root filesystem, and streams that must be refused.

refused() yields (name, bytes, words of the refusal); what tarfile would not write is patched into its blocks.
"""
import io
import tarfile

DIR, FILE, SYM, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
CHR, BLK, FIFO = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
END = bytes(1024)


def entry(name, kind=FILE, data=b"", fmt=tarfile.PAX_FORMAT, **kw):
    """The blocks of one entry. kw: fields of TarInfo."""
    i = tarfile.TarInfo(name)
    i.type = kind
    i.mode = 0o755 if kind == DIR else 0o644
    i.mtime = 1700000000
    for k, v in kw.items():
        setattr(i, k, v)
    if kind == FILE:
        i.size = len(data)
    pad = bytes(-len(data) % 512)
    return i.tobuf(fmt) + (data + pad if kind == FILE else b"")


def checksum(block):
    """The block with a right checksum."""
    b = bytearray(block)
    b[148:156] = b" " * 8
    b[148:156] = b"%06o\0 " % sum(b)
    return bytes(b)


def patch(block, at, data):
    """One 512 byte header with bytes replaced and its checksum made right again."""
    b = bytearray(block)
    b[at:at + len(data)] = data
    return checksum(b[:512]) + bytes(b[512:])


def pax(records, kind=b"x"):
    """An extended header as it is given."""
    h = patch(entry("pax", fmt=tarfile.USTAR_FORMAT), 124, b"%011o\0" % len(records))
    return patch(h, 156, kind) + records + bytes(-len(records) % 512)


def rec(key, value):
    body = key + b"=" + value + b"\n"
    n = len(body) + 3
    while len(b"%d " % n) + len(body) != n:
        n = len(b"%d " % n) + len(body)
    return b"%d " % n + body


def stream(*entries):
    return b"".join(entries) + END


def plain(**kw):
    """Every kind of entry an image may hold."""
    fmt = kw.get("fmt", tarfile.PAX_FORMAT)
    return stream(
        entry("./", DIR, fmt=fmt),
        entry("./bin", DIR, fmt=fmt),
        entry("./bin/tool", FILE, b"#!/bin/sh\necho tool\n", mode=0o755, fmt=fmt),
        entry("./bin/link", SYM, linkname="tool", fmt=fmt),
        entry("./bin/hard", HARD, linkname="./bin/tool", fmt=fmt),
        entry("./etc", DIR, fmt=fmt),
        entry("./etc/secret", FILE, b"s", mode=0o600, uid=7, gid=8, fmt=fmt),
        entry("./etc/" + "n" * 200, FILE, b"long", fmt=fmt) if fmt != tarfile.USTAR_FORMAT else b"",
        entry("./empty", DIR, mode=0o1777, fmt=fmt),
        entry("./suid", FILE, b"x" * 1000, mode=0o4755, fmt=fmt))


def refused():
    f = entry("f", data=b"12345")
    u = entry("f", data=b"12345", fmt=tarfile.USTAR_FORMAT)
    yield "nothing", b"", "cut off"
    yield "only zeros", END, "holds nothing"
    yield "no tar", b"hello\n" * 1000, "checksum"
    yield "absolute path", stream(entry("/etc/x")), "absolute"
    yield "dotdot", stream(entry("../x")), "'..'"
    yield "dotdot inside", stream(entry("d", DIR), entry("d/../../x")), "'..'"
    yield "empty path", stream(patch(u, 0, bytes(100))), "empty path"
    yield "empty component", stream(entry("d//x")), "empty path component"
    yield "NUL in a path", stream(pax(rec(b"path", b"a\0b")), u), "NUL"
    yield "long component", stream(entry("d/" + "n" * 256)), "longer than 255"
    yield "long path", stream(pax(rec(b"path", b"/".join([b"n" * 200] * 21)[:4096])), u), "too long"
    yield "deep path", stream(entry("/".join("d" * 129))), "128 components"
    yield "through a link", stream(entry("l", SYM, linkname="/tmp"), entry("l/x")), "no folder"
    yield "through a link inside", stream(entry("d", DIR), entry("l", SYM, linkname="d"), entry("l/x")), "no folder"
    yield "through a file", stream(entry("f"), entry("f/x")), "no folder"
    yield "folder over a link", stream(entry("l", SYM, linkname="/tmp"), entry("l", DIR)), "there already"
    yield "folder over a file", stream(entry("f"), entry("f", DIR)), "there already"
    yield "file over a folder", stream(entry("d", DIR), entry("d")), "same name twice"
    yield "file twice", stream(f, f), "same name twice"
    yield "file over a link", stream(entry("l", SYM, linkname="/tmp/x"), entry("l")), "same name twice"
    yield "hard link out", stream(entry("h", HARD, linkname="../x")), "'..'"
    yield "hard link to an absolute path", stream(entry("h", HARD, linkname="/etc/passwd")), "absolute"
    yield "hard link to a later file", stream(entry("h", HARD, linkname="f"), f), "did not come before"
    yield "hard link to itself", stream(entry("h", HARD, linkname="h")), "did not come before"
    yield "hard link to a folder", stream(entry("d", DIR), entry("h", HARD, linkname="d")), "no file"
    yield "hard link through a link", stream(entry("l", SYM, linkname="/etc"), entry("h", HARD, linkname="l/passwd")), \
        "did not come before"
    yield "link without a target", stream(entry("l", SYM, linkname="")), "without a target"
    yield "unknown type", stream(patch(u, 156, b"Q")), "unknown type"
    yield "sparse", stream(patch(u, 156, b"S")), "sparse"
    yield "sparse in pax", stream(pax(rec(b"GNU.sparse.major", b"1")), u), "sparse"
    yield "a global path", stream(pax(rec(b"path", b"x"), b"g"), u), "global header"
    yield "checksum", stream(bytes([u[0] ^ 1]) + u[1:]), "checksum"
    yield "a size too large", stream(patch(u, 124, b"\x80\0\0\0\x10" + bytes(7))), "more than"
    yield "a size of 2^63", stream(patch(u, 124, b"\x80\0\0\0\x80" + bytes(7))), "range"
    yield "a negative size", stream(patch(u, 124, b"\xff" * 12)), "number"
    yield "no number", stream(patch(u, 124, b"0000000008x\0")), "number"
    yield "an owner too large", stream(patch(u, 108, b"\x80\0\0\1\0\0\0\0")), "owner"
    yield "a folder with contents", stream(patch(entry("d", DIR), 124, b"00000000001\0")), "contents"
    yield "cut in a header", u[:300], "cut off"
    yield "cut in contents", entry("f", data=b"x" * 5000)[:2000], "cut off"
    yield "cut after contents", u, "cut off"
    yield "bytes after the end", stream(f) + u, "after the end"
    yield "a lying record", stream(pax(b"99 path=x\n"), u), "wrong form"
    yield "a record twice", stream(pax(rec(b"path", b"a") + rec(b"path", b"b")), u), "twice"
    yield "an extended header and nothing", stream(pax(rec(b"path", b"a"))), "without an entry"
    yield "an extended header too long", stream(patch(pax(rec(b"path", b"a"))[:512], 124, b"00000300000\0")), "64 KiB"


def owners_refused():
    yield "an id no sandbox has", stream(entry("f", uid=65536)), "65535"
    yield "a group no sandbox has", stream(entry("f", gid=3000000)), "65535"


def many(n, name="f"):
    """n empty files in one folder."""
    out = io.BytesIO()
    out.write(entry("many", DIR))
    base = bytearray(entry(f"many/{name}0000000", fmt=tarfile.USTAR_FORMAT))
    at = 5 + len(name)
    fixed = sum(base[:148]) + 8 * 32 + sum(base[156:512]) - sum(base[at:at + 7])
    for i in range(n):
        digits = b"%07d" % i
        base[at:at + 7] = digits
        base[148:156] = b"%06o\0 " % (fixed + sum(digits))
        out.write(base)
    out.write(END)
    return out.getvalue()
