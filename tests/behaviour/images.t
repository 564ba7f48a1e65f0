#!/usr/bin/python3
"""The store of images: what comes in, what is refused, and that it stays whole whatever happens meanwhile.

The oracles: the digest as docs/images.md defines it, made here from the files' description, and tarfile's own view of a stream.
"""
import fcntl
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok, until  # noqa: E402
import hostile_tar as ht  # noqa: E402

BUSYBOX = "/usr/bin/busybox"


def image(m, *args, **kw):
    return m.brig("image", *args, **kw)


def take(m, data, *args, state=None):
    """Import a stream from standard input; the parsed --json."""
    r = done(image(m, "import", "--json", *args, "-", stdin=data, env={"BRIG_STATE": state} if state else None))
    return json.loads(r.out)


def fresh(m):
    """A state folder of its own: (path, environment)."""
    p = m.mkdir("state")
    return p, {"BRIG_STATE": p}


def store(state, *parts):
    return os.path.join(state, "images", *parts)


def left_in(state, what):
    p = store(state, what)
    return sorted(os.listdir(p)) if os.path.isdir(p) else []


def refusal(r, words):
    eq(r.rc, 125, f"exit {r!r}")
    eq(r.err.count(b"\n"), 1, f"one line {r!r}")
    ok(words in r.err.decode(), f"{words!r} is not in {r.err!r}")


def digest_of(rows, owners):
    """docs/images.md: rows of (path, type, mode, uid, gid, mtime, data, target)."""
    h = hashlib.sha256()
    for path, kind, mode, uid, gid, mtime, data, target in sorted(rows, key=lambda r: r[0].encode().split(b"/")):
        p, t = path.encode(), target.encode()
        h.update(b"%s %04o %d %d %d %d %s %d:%s %d:%s\n" % (
            kind.encode(), 0o777 if kind == "l" else mode, uid if owners else 0, gid if owners else 0,
            len(data), mtime, hashlib.sha256(data).hexdigest().encode() if kind == "f" else b"-", len(p), p, len(t), t))
    return "sha256:" + h.hexdigest()


PLAIN = [("", "d", 0o755, 0, 0, 1700000000, b"", ""),
         ("bin", "d", 0o755, 0, 0, 1700000000, b"", ""),
         ("bin/tool", "f", 0o755, 0, 0, 1700000000, b"#!/bin/sh\necho tool\n", ""),
         ("bin/hard", "f", 0o755, 0, 0, 1700000000, b"#!/bin/sh\necho tool\n", ""),
         ("bin/link", "l", 0, 0, 0, 1700000000, b"", "tool"),
         ("etc", "d", 0o755, 0, 0, 1700000000, b"", ""),
         ("etc/secret", "f", 0o600, 7, 8, 1700000000, b"s", ""),
         ("etc/" + "n" * 200, "f", 0o644, 0, 0, 1700000000, b"long", ""),
         ("empty", "d", 0o1777, 0, 0, 1700000000, b"", ""),
         ("suid", "f", 0o4755, 0, 0, 1700000000, b"x" * 1000, "")]


@case
def an_image_comes_in(m):
    """Both formats of tar give the digest the documentation defines; files are what they were."""
    state, env = fresh(m)
    want = digest_of(PLAIN, m.uid == 0)
    for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        got = take(m, ht.plain(fmt=fmt), "--name", "a/b:c", state=state)
        eq(got["digest"], want, "digest")
        eq((got["entries"], got["bytes"], got["left_out"]), (10, 1025, 0), "counts")
    show = json.loads(done(image(m, "show", "--json", "a/b:c", env=env)).out)
    eq(show["digest"], want, "shown")
    eq(show["one_owner"], m.uid != 0, "one owner")
    tree = show["tree"]
    eq(os.stat(store(state)).st_mode & 0o777, 0o700, "mode of the store")
    for path, kind, mode, uid, gid, mtime, data, target in PLAIN:
        st = os.lstat(os.path.join(tree, path))
        eq(int(st.st_mtime), mtime, f"time of {path!r}")
        eq((st.st_uid, st.st_gid), (uid, gid) if m.uid == 0 else (m.uid, m.uid), f"owner of {path!r}")
        if kind == "l":
            eq(os.readlink(os.path.join(tree, path)), target, "link")
        else:
            eq(st.st_mode & 0o7777, mode, f"mode of {path!r}")
        if kind == "f":
            with open(os.path.join(tree, path), "rb") as f:
                eq(f.read(), data, f"contents of {path!r}")
    eq(os.stat(tree + "/bin/tool").st_ino, os.stat(tree + "/bin/hard").st_ino, "hard link")
    done(image(m, "verify", "a/b:c", env=env))
    eq(left_in(state, "tmp"), [], "left in tmp")


@case
def what_gnu_tar_writes(m):
    """A folder packed by tar(1) comes out of the store as it went in."""
    state, env = fresh(m)
    src = m.mkdir("src")
    for i in range(300):
        d = os.path.join(src, f"d{i % 7}", "e" * (i % 120 + 1))
        os.makedirs(d, exist_ok=True)
        with open(os.path.join(d, f"f{i}"), "wb") as f:
            f.write(os.urandom(i * 37))
    m.give_tree(src)
    for fmt in ("pax", "gnu"):
        p = m.path("x.tar")
        done(m.native(["tar", f"--format={fmt}", "--numeric-owner", "--sort=name", "-C", src, "-cf", p, "."]))
        done(image(m, "import", "--name", "x", p, env=env))
        tree = json.loads(done(image(m, "show", "--json", "x", env=env)).out)["tree"]
        done(m.native(["diff", "-r", src, tree]))


@case
def implied_folders_do_not_depend_on_the_clock(m):
    """Folders nobody described, the root among them: root's, 0755, at the epoch."""
    state, _ = fresh(m)
    got = take(m, ht.stream(ht.entry("a/b/f", data=b"1")), state=state)
    rows = [("", "d", 0o755, 0, 0, 0, b"", ""), ("a", "d", 0o755, 0, 0, 0, b"", ""), ("a/b", "d", 0o755, 0, 0, 0, b"", ""),
            ("a/b/f", "f", 0o644, 0, 0, 1700000000, b"1", "")]
    eq(got["digest"], digest_of(rows, True), "digest")


@case
def a_folder_described_later(m):
    """Its last description counts, also one that closes it."""
    state, env = fresh(m)
    got = take(m, ht.stream(ht.entry("a/b/f", data=b"1"), ht.entry("a/b", ht.DIR, mode=0o700), ht.entry("a", ht.DIR, mode=0)),
               "--name", "x", state=state)
    rows = [("", "d", 0o755, 0, 0, 0, b"", ""), ("a", "d", 0, 0, 0, 1700000000, b"", ""),
            ("a/b", "d", 0o700, 0, 0, 1700000000, b"", ""), ("a/b/f", "f", 0o644, 0, 0, 1700000000, b"1", "")]
    eq(got["digest"], digest_of(rows, True), "digest")
    done(image(m, "verify", "x", env=env))
    done(image(m, "remove", "x", env=env))
    eq((left_in(state, "sha256"), left_in(state, "tmp")), ([], []), "left")


@case
def devices_and_fifos_are_left_out(m):
    state, _ = fresh(m)
    got = take(m, ht.stream(ht.entry("dev", ht.DIR), ht.entry("dev/null", ht.CHR, devmajor=1, devminor=3),
                            ht.entry("dev/sda", ht.BLK, devmajor=8, devminor=0), ht.entry("p", ht.FIFO)), state=state)
    eq((got["entries"], got["left_out"]), (4, 3), "counts")
    found = [os.path.join(d, n) for d, dirs, files in os.walk(store(state, "sha256")) for n in dirs + files]
    ok(all(os.path.isdir(p) or os.path.isfile(p) for p in found), found)


@case
def hostile_streams_are_refused_whole(m):
    state, env = fresh(m)
    canary = m.put("canary", b"as it was")
    take(m, ht.plain(), "--name", "good", state=state)
    before = sorted(os.listdir("/tmp"))
    rows = list(ht.refused()) + (list(ht.owners_refused()) if m.uid == 0 else [])
    bad = []
    for name, data, words in rows:
        r = image(m, "import", "--name", "bad", "-", stdin=data, env=env)
        if r.rc != 125 or words not in r.err.decode() or r.err.count(b"\n") != 1:
            bad.append((name, r))
        eq((len(left_in(state, "sha256")), left_in(state, "tmp"), left_in(state, "refs")), (1, [], ["good"]), name)
    eq(bad, [], "refusals")
    ok("x" not in set(os.listdir("/tmp")) - set(before), "a stream wrote to /tmp")
    with open(canary, "rb") as f:
        eq(f.read(), b"as it was", "canary")
    done(image(m, "verify", "good", env=env))


@case
def names(m):
    state, env = fresh(m)
    digest = take(m, ht.plain(), state=state)["digest"]
    for good in ("a", "a/b.c-d_e:T.1-x_", "x" * 128):
        done(image(m, "tag", digest, good, env=env))
        done(image(m, "show", good, env=env))
    for bad in ("", "host", "A", "a:", ":a", "a//b", "/a", "../a", "a/..", "a:..", "a:-x", "a b", "a\nb", "x" * 129, "a:" + "t" * 129,
                "sha256:" + "0" * 64):
        refusal(image(m, "tag", digest, bad, env=env), "image name")
    for n in (12, 30, 64):
        done(image(m, "show", "sha256:" + digest[7:7 + n], env=env))
    for none in ("nope", "sha256:" + "0" * 64, "a:other"):
        refusal(image(m, "show", none, env=env), "no image")
    done(image(m, "remove", "a", env=env))  # others keep it
    done(image(m, "show", "x" * 128, env=env))
    done(image(m, "remove", digest, env=env))  # and this takes all
    eq(json.loads(done(image(m, "list", "--json", env=env)).out), [], "list")
    eq((left_in(state, "sha256"), left_in(state, "refs")), ([], []), "left")


@case
def an_image_in_use_stays(m):
    state, env = fresh(m)
    digest = take(m, ht.plain(), "--name", "x", state=state)["digest"]
    fd = os.open(store(state, "sha256", digest[7:]), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # what a run holds
        refusal(image(m, "remove", "x", env=env), f"runs on it (process {os.getpid()})")
        done(image(m, "verify", "x", env=env))
        os.unlink(store(state, "refs", "x", "latest"))
        done(image(m, "gc", env=env))
        eq(left_in(state, "sha256"), [digest[7:]], "images")
    finally:
        os.close(fd)
    eq(json.loads(done(image(m, "gc", "--json", env=env)).out), {"removed": 1}, "gc")
    eq((left_in(state, "sha256"), left_in(state, "tmp")), ([], []), "left")


@case
def a_changed_image_is_noticed(m):
    state, env = fresh(m)
    digest = take(m, ht.plain(), "--name", "x", state=state)["digest"]
    tool = store(state, "sha256", digest[7:], "tree", "bin", "tool")
    st = os.stat(tool)
    with open(tool, "r+b") as f:
        f.write(b"#!/bin/zh")
    os.utime(tool, (st.st_atime, st.st_mtime))
    refusal(image(m, "verify", "x", env=env), "was changed")


@case
def a_damaged_description_harms_nothing_else(m):
    state, env = fresh(m)
    digest = take(m, ht.plain(), "--name", "x", state=state)["digest"]
    take(m, ht.stream(ht.entry("f", data=b"1")), "--name", "y", state=state)
    path = store(state, "sha256", digest[7:], "image.json")
    with open(path, "rb") as f:
        good = f.read()
    j = json.loads(good)
    wrong = [b"", good[:100], b"[]", b"null", good + b"x", good.replace(b'"schema":1', b'"schema":2'),
             json.dumps({**j, "extra": 1}).encode(), json.dumps({**j, "bytes": -1}).encode(), json.dumps({**j, "bytes": "1"}).encode(),
             json.dumps({**j, "digest": "0" * 64}).encode(), json.dumps({**j, "config": None}).encode(), b"\xff" * 50, b"[" * 100000,
             good[:-1] + b',"schema":1}', b" " * 300000]
    for text in wrong:
        with open(path, "wb") as f:
            f.write(text)
        refusal(image(m, "show", "x", env=env), "image.json")
        done(image(m, "show", "y", env=env))
    with open(path, "wb") as f:
        f.write(good)
    done(image(m, "show", "x", env=env))


@case
def builders_side_by_side(m):
    """Several of the same image and of others at once, with a gc between: all come in."""
    state, env = fresh(m)
    same, other = ht.plain(), [ht.stream(ht.entry("f", data=b"%d" % i)) for i in range(4)]
    ps = []
    for i in range(8):
        name = "same" if i % 2 == 0 else f"other{i}"
        data = same if i % 2 == 0 else other[i // 2]
        p = m.popen([m.brig_path, "image", "import", "--name", name, m.put("t.tar", data)], env=env, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
        ps.append(p)
    gc = m.popen([m.brig_path, "image", "gc"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for p in [*ps, gc]:
        _, err = p.communicate(timeout=60)
        eq((p.returncode, err), (0, b""), "a builder")
    eq(len(json.loads(done(image(m, "list", "--json", env=env)).out)), 5, "names")
    eq((len(left_in(state, "sha256")), left_in(state, "tmp")), (5, []), "left")


@case
def killed_at_any_moment(m):
    """The store is as before, or has the image; what is left in tmp goes with the next command."""
    state, env = fresh(m)
    rnd = random.Random(int(os.environ.get("BRIG_SEED", "1")))
    old = take(m, ht.plain(), "--name", "old", state=state)["digest"]
    data = ht.stream(*[ht.entry(f"d{i}/f", data=b"%d" % i * 3000) for i in range(400)])
    path = m.put("t.tar", data)
    for _ in range(int(os.environ.get("BRIG_KILLS", "8"))):
        p = m.popen([m.brig_path, "image", "import", "--name", "new", "-"], env=env, stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cut = rnd.randrange(len(data) + 20000)
        try:
            p.stdin.write(data[:cut])
            p.stdin.flush()
        except BrokenPipeError:
            pass
        if cut >= len(data):
            p.stdin.close()
            for _ in range(rnd.randrange(2000)):
                if p.poll() is not None:
                    break
        p.kill()
        p.wait()
        if not p.stdin.closed:
            try:
                p.stdin.close()
            except BrokenPipeError:
                pass
        done(image(m, "verify", "old", env=env))
        listed = {i["name"] or "-": i["digest"] for i in json.loads(done(image(m, "list", "--json", env=env)).out)}
        eq(listed.pop("old:latest"), old, "old")
        ok(set(listed) <= {"-", "new:latest"}, listed)
    # the killed worker holds what it made until it is gone
    until(lambda: done(image(m, "gc", env=env)) and left_in(state, "tmp") == [], 20, lambda: f"tmp: {left_in(state, 'tmp')}")
    done(image(m, "import", "--name", "new", path, env=env))
    done(image(m, "verify", "new", env=env))
    eq(len(left_in(state, "sha256")), 2, "images")


FULL = """
mount -t tmpfs -o size=4m,mode=755 tmpfs "$1" || exit 99
chown "$2" "$1"; export BRIG_STATE="$1"
run() { setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"; }
uid=$2 brig=$3
run "$brig" image import --name small "$4" || exit 98
run "$brig" image import --name big "$5"; echo "big $?"
find "$1/images/tmp" "$1/images/sha256" -mindepth 1 -maxdepth 1 | wc -l
run "$brig" image verify small && run "$brig" image list --json
run "$brig" image import --name more "$4" || exit 97
"""


@case(modes=("root",))
def a_full_disk(m):
    for uid in (0, 65000):
        small = m.put("small.tar", ht.plain())
        big = m.put("big.tar", ht.stream(*[ht.entry(f"f{i}", data=os.urandom(100000)) for i in range(80)]))
        top = m.mkdir("full")
        os.chmod(m.dir, 0o755)
        r = done(m.exec(["unshare", "-m", "sh", "-c", FULL, "sh", top, str(uid), m.brig_path, small, big]))
        out = r.out.decode().split("\n")
        eq(out[1:3], ["big 125", "1"], f"{r!r}")
        ok("No space left" in r.err.decode(), f"{r!r}")
        ok('"small' in r.out.decode() and '"big' not in r.out.decode(), f"{r!r}")


@case
def the_store_is_the_callers_alone(m):
    state, env = fresh(m)
    take(m, ht.plain(), state=state)
    os.chmod(store(state), 0o777)
    refusal(image(m, "list", env=env), "could be changed by others")


@case
def many_files(m):
    state, env = fresh(m)
    n = 1000000 if os.environ.get("BRIG_SOAK") == "1" else 20000
    r = done(image(m, "import", "--json", "--name", "many", "-", stdin=ht.many(n), env=env, timeout=900))
    eq(json.loads(r.out)["entries"], n + 1, "entries")
    done(image(m, "remove", "many", env=env, timeout=900))
    eq((left_in(state, "sha256"), left_in(state, "tmp")), ([], []), "left")


def caught_removing(m, env, state, name):
    """A remover that stands still in the middle: the image is away, its files are not all gone."""
    for _ in range(10):  # one that was too fast is tried again
        take(m, ht.many(4000), "--name", name, state=state)
        p = m.popen(["nice", "-n", "19", m.brig_path, "image", "remove", name], env=env, stderr=subprocess.PIPE)
        while left_in(state, "tmp") == [] and p.poll() is None:
            pass
        p.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if p.poll() is None and left_in(state, "tmp") != []:
            return p
        p.communicate()
    raise AssertionError("no removal was caught")


@case
def a_removal_cut_short(m):
    """Others use the store while it goes on; kill -9 leaves nothing that gc does not take."""
    state, env = fresh(m)
    digest = take(m, ht.plain(), "--name", "x", state=state)["digest"]
    p = caught_removing(m, env, state, "many")
    try:
        take(m, ht.stream(ht.entry("f", data=b"1")), "--name", "y", state=state)
        done(image(m, "tag", digest, "z", env=env))
        done(image(m, "remove", "y", env=env))
        eq(json.loads(done(image(m, "gc", "--json", env=env)).out), {"removed": 0}, "what a gc beside it takes")
        eq(sorted(i["name"] for i in json.loads(done(image(m, "list", "--json", env=env)).out)), ["x:latest", "z:latest"], "names")
        eq((left_in(state, "sha256"), len(left_in(state, "tmp"))), ([digest[7:]], 1), "while it goes on")
    finally:
        p.kill()
        p.communicate()
    done(image(m, "gc", env=env))
    eq((left_in(state, "sha256"), left_in(state, "tmp")), ([digest[7:]], []), "left")
    done(image(m, "verify", "x", env=env))


@case
def a_command_runs_on_an_image(m):
    """By name; what runs is named by digest, and the image is not removed from under it."""
    if not os.path.exists(BUSYBOX):
        raise Skip("no static busybox on this host")
    state, env = fresh(m)
    with open(BUSYBOX, "rb") as f:
        box = f.read()
    digest = take(m, ht.stream(ht.entry("bin", ht.DIR), ht.entry("bin/busybox", data=box, mode=0o755),
                               ht.entry("bin/sh", ht.SYM, linkname="busybox"), ht.entry("etc", ht.DIR),
                               ht.entry("etc/mark", data=b"of the image\n"), ht.entry("home", ht.DIR), ht.entry("var", ht.DIR)),
                  "--name", "box:1", state=state)["digest"]
    for ref in ("box:1", digest, digest[:19]):
        done(m.run("--image", ref, "--", "/bin/sh", "-c", "read x </etc/mark; echo $x; echo x >/etc/y || echo readonly", env=env),
             out=b"of the image\nreadonly\n")
    r = json.loads(done(m.run("--image", "box:1", "--json", "--", "/bin/sh", "-c", "exit 0", env=env)).out)
    ok(digest in json.dumps(r), r)
    refusal(m.run("--image", "box:2", "--", "/bin/sh", env=env), "no image")
    p = m.popen(m.run_argv("--image", "box:1", "-i", "--", "/bin/sh", "-c", "echo up; read x"), env=env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"up\n", "start")
    refusal(image(m, "remove", "box:1", env=env), "runs on it")
    p.communicate(b"\n", timeout=20)
    eq(p.returncode, 0, "exit")
    until(lambda: image(m, "remove", "box:1", env=env).rc == 0, 20, "removable again")
    eq(left_in(state, "sha256"), [], "left")


if __name__ == "__main__":
    sys.exit(main())
