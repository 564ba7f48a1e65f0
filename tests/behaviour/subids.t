#!/usr/bin/python3
"""An ordinary user with subordinate ids (newuidmap): a range of ids of its own, root inside, other users.

Needs root to set the scene: a mount namespace whose /etc/passwd, /etc/subuid and /etc/subgid name the user.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402
import brigtest  # noqa: E402
import oci_layout as lay  # noqa: E402

SUB = 3000000000 - 3000000000 % 65536
SCENE = """
for f in passwd subuid subgid; do mount --bind "$1/$f" /etc/$f || exit 99; done
uid=$2; shift 2
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
"""


def brig(m, *args, ids=True):
    return command(m, "run", "--tier", m.tier, *args, ids=ids)


def command(m, *args, ids=True):
    if not os.path.exists("/usr/bin/newuidmap"):
        raise Skip("no newuidmap on this host")
    etc = os.path.join(m.base, "etc")
    if not os.path.isdir(etc):
        os.mkdir(etc, 0o755)
        with open("/etc/passwd", encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(etc, "passwd"), "w", encoding="utf-8") as f:
            f.write(text + f"brigtest:x:{brigtest.USER_ID}:{brigtest.USER_ID}::{m.home}:/bin/sh\n")
    for name in ("subuid", "subgid"):
        with open(os.path.join(etc, name), "w", encoding="ascii") as f:
            f.write(f"brigtest:{SUB}:65536\n" if ids else "")
    os.chown(m.home, brigtest.USER_ID, brigtest.USER_ID)
    return m.exec(["unshare", "-m", "sh", "-c", SCENE, "sh", etc, str(brigtest.USER_ID), m.brig_path, *args], env={"BRIG_STATE": os.path.join(m.home, "state")}, cwd="/")


def id_map(text):
    return [tuple(map(int, x.split())) for x in text.splitlines()]


@case(modes=("root",))
def default_user_needs_no_range(m):
    """The image's user is the caller: newuidmap is not even started for it."""
    r = done(brig(m, "--", "sh", "-c", "id -un; touch f; stat -c %U f; cat /proc/self/uid_map"))
    lines = r.out.decode().split("\n", 2)
    eq(lines[:2], ["user", "user"], "names")
    eq(id_map(lines[2]), [(1000, brigtest.USER_ID, 1)], "map")


@case(modes=("root",))
def sudo_takes_the_range(m):
    for user in ((), ("--user", "root")):
        done(brig(m, "--sudo", "yes", *user, "--", "sh", "-c", "sudo id -un; sudo -u user id -un; sudo -u nobody id -un"), out=b"root\nuser\nnobody\n")
    r = brig(m, "--sudo", "yes", "--", "sudo", "id", ids=False)
    ok(r.rc == 1 and b"newuidmap" in r.err, repr(r))
    done(brig(m, "--sudo", "yes", "--", "sudo", "-u", "user", "id", "-un", ids=False), out=b"user\n")


@case(modes=("root",))
def another_user_has_the_range(m):
    rows = id_map(done(brig(m, "--user", "root", "--", "cat", "/proc/self/uid_map")).out.decode())
    ok(sum(c for _, _, c in rows) >= 65536 - 1, f"map {rows}")
    ok(all(SUB <= o < SUB + 65536 or o == brigtest.USER_ID for _, o, _ in rows), f"map {rows}")


@case(modes=("root",))
def root_and_other_users(m):
    done(brig(m, "--user", "root", "--", "sh", "-c", "id -u; touch /workspace/f; stat -c %U /workspace/f; grep CapEff /proc/self/status"),
         out=b"0\nroot\nCapEff:\t0000000000000000\n")
    done(brig(m, "--user", "4321:4322", "--", "sh", "-c", "id -u; id -g"), out=b"4321\n4322\n")


@case(modes=("root",))
def nothing_is_owned_by_a_stranger_afterwards(m):
    dst = os.path.join(m.home, "out")
    done(brig(m, "--user", "root", "--out", f"o:{dst}", "--", "sh", "-c", "mkdir o; echo x > o/f"))
    eq(os.stat(os.path.join(dst, "f")).st_uid, brigtest.USER_ID, "owner of the output")


@case(modes=("root",))
def an_empty_range_is_the_other_mode(m):
    """The same user without a line in /etc/subuid: told, not guessed."""
    done(brig(m, "--", "id", "-u", ids=False), out=b"1000\n")
    r = done(brig(m, "--user", "root", "--", "true", ids=False), rc=125)
    ok(b"newuidmap" in r.err or b"subuid" in r.err, repr(r))


@case(modes=("root",))
def what_is_weaker_is_said(m):
    r = done(brig(m, "--json", "--", "true"))
    ok(isinstance(json.loads(r.out)["weaker"], list), repr(r))


@case(modes=("root",))
def images_of_a_user_with_ids(m):
    """An OCI layout and a tar come in, the same tree twice; whose its files are, for the image's user, root and another."""
    with open("/usr/bin/busybox", "rb") as f:
        raw = lay.layer(("bin", lay.DIR, ""), ("bin/sh", lay.FILE, f.read()), ("bin/stat", lay.HARD, "bin/sh"),
                        ("bin/id", lay.HARD, "bin/sh"), ("bin/touch", lay.HARD, "bin/sh"), ("etc", lay.DIR, ""), ("etc/theirs", lay.FILE, b"1", {"uid": 7, "gid": 8}))
    d, _ = lay.layout(os.path.join(m.home, "oci"), [raw])
    with open(os.path.join(m.home, "x.tar"), "wb") as f:
        f.write(raw)
    digests = set()
    for what, name in ((f"oci:{d}:t", "oci"), (os.path.join(m.home, "x.tar"), "tar")):
        digests.add(json.loads(done(command(m, "image", "import", "--json", "--disk", "256M", "--name", name, what)).out)["digest"])
        info = json.loads(done(command(m, "image", "show", "--json", name)).out)
        eq(info["one_owner"], True, name)
        top = info["tree"]
        owners = {os.lstat(os.path.join(at, n)).st_uid for at, dirs, files in os.walk(top) for n in dirs + files}
        eq(owners, {brigtest.USER_ID}, "owners in the store")
        for user, ids, want in (("1000", True, 1000), ("root", True, 0), ("4321:4322", True, 4321), (None, False, 0)):
            r = brig(m, "--image", name, *(["--user", user] if user else []), "--", "/bin/sh", "-c",
                     "id -u; stat -c %u:%g /bin/sh /etc/theirs; touch /workspace/f /etc/f 2>&1; stat -c %u /workspace/f", ids=ids)
            eq(done(r).out.decode().split("\n"), [str(want), "0:0", "0:0", "touch: /etc/f: Read-only file system", str(want), ""],
               f"{name} as {user}")
    eq(len(digests), 1, "digests")


# Only root can set the scene; for anybody else the file has nothing to say.
if os.geteuid() != 0:
    print("1..0 # SKIP needs root to name a user with subordinate ids")
    sys.exit(0)
os.environ["BRIG_TEST_USER"] = "root"
@case(modes=("root",))
def a_failed_set_up_says_why(m):
    """Its first process has a memory of its own here: the reason has to come by the socket."""
    img = os.path.join(m.home, "img")
    os.makedirs(os.path.join(img, "a:b"))
    r = done(brig(m, "--image", img, "--user", "1234", "--root", "overlay", "--", "true"), rc=125)
    ok(b"a:b" in r.err and b"died" not in r.err, repr(r))


sys.exit(main())
