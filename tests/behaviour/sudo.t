#!/usr/bin/python3
"""`sudo` inside: who may, as whom, what the command then is, and where the program lies.

An ordinary user has one id inside, so only commands as oneself are possible; tests/behaviour/subids.t is about those with more. How it
ends and what hostile callers reach is tests/agent/sudo.t's.
"""
import json
import os
import pty
import select
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok, until  # noqa: E402

ON = ("--sudo", "yes")
BUSYBOX = "/bin/busybox"
BINDING = 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\\0brig-sudo")'


def me(m):
    """Options of sudo for who the caller can be inside besides itself."""
    return "" if m.name == "root" else "-u user"


@case(modes=("root",))
def root_and_others(m):
    r = done(m.sh("id -u; sudo id -u; sudo id -G; sudo -u nobody id -un; sudo -u '#5' id -u; sudo sudo -u user id -un; pwd; sudo pwd", *ON))
    eq(r.out.split(), b"1000 0 0 nobody 5 user /workspace /workspace".split(), "ids, and the folder")
    r = done(m.sh("sudo sh -c 'echo $HOME $USER $LOGNAME $SUDO_USER $SUDO_UID $SUDO_GID $SUDO_COMMAND'", *ON))
    eq(r.out, b"/root root root user 1000 1000 /usr/bin/sh -c echo $HOME $USER $LOGNAME $SUDO_USER $SUDO_UID $SUDO_GID $SUDO_COMMAND\n", "environment")
    done(m.sh("cd /home/user && touch f && chmod 600 f && sudo pwd && ! sudo cat /home/user/f", *ON, ), out=b"/home/user\n")
    r = m.sh("sudo -u nosuch id", *ON)
    eq((r.rc, r.err), (1, b"sudo: unknown user nosuch\n"), repr(r))
    done(m.sh("echo data | sudo tee /root/x; sudo cat /root/x; cat /root/x", *ON), rc=1, out=b"data\ndata\n")


@case(modes=("user",))
def one_id(m):
    r = m.sh("sudo id", *ON)
    ok(r.rc == 1 and b"newuidmap" in r.err, f"does not name newuidmap: {r!r}")
    done(m.sh("sudo -u user id -un; sudo -n -u '#1000' id -u", *ON), out=b"user\n1000\n")


@case
def no_more_than_any_command(m):
    """The same walls: what a command of brig's has in its status, but for whose it is."""
    keys = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigBlk", "SigIgn")

    def status(*words):
        r = done(m.run(*ON, "--", *words, "cat", "/proc/self/status"))
        s = dict(x.split(":\t", 1) for x in r.out.decode().splitlines() if ":\t" in x)
        return {k: s[k] for k in keys if k in s}, s["Uid"].split()
    plain, _ = status()
    sudo, uids = status("sudo", *me(m).split())
    eq(sudo, plain, "status")
    eq((sudo["CapEff"], sudo["CapBnd"], sudo["NoNewPrivs"], sudo["Seccomp"]), ("0" * 16, "0" * 16, "1", "2"), "the walls")
    eq(uids, ["0" if m.name == "root" else "1000"] * 4, "ids")
    for what in ("ulimit -a", "cat /proc/self/oom_score_adj", "cat /proc/self/cgroup | wc -l"):
        r = done(m.sh(f"{what}; echo ==; sudo {me(m)} sh -c '{what}'", *ON))
        a, b = r.out.split(b"==\n")
        eq(b, a, what)
    if m.name == "root":
        for cmd in ("chown user /root", "mknod /root/n c 1 3", "mount -t tmpfs x /mnt", "cat /home/user/.x", "kill -STOP 1 && grep stopped /proc/1/status",
                    "readlink /proc/1/fd/3", "chroot / true", "dd if=/proc/1/mem bs=1 count=1"):
            r = m.sh(f"touch ~/.x; chmod 600 ~/.x; sudo {cmd.split('&&', maxsplit=1)[0]} >/dev/null 2>&1 || exit 9; sudo sh -c '{cmd}'", *ON)
            ok(r.rc != 0, f"root could {cmd}: {r!r}")


@case(modes=("root",))
def who_may(m):
    r = done(m.sh("sudo -u nobody sudo -u nobody id; echo $?; sudo -u nobody sudo -l; echo $?", *ON))
    eq((r.out, r.err), (b"1\n1\n", b"sudo: only root and the sandbox's own user may\n" * 2), "who is neither root nor its user may not")
    done(m.run(*ON, "--user", "nobody", "--", "sudo", "id", "-u"), out=b"0\n")
    r = m.sh("sudo -u user sudo id", *ON, "--user", "root")
    eq((r.rc, r.err), (1, b"sudo: only root and the sandbox's own user may\n"), "also when that is root")


@case
def off_unless_asked_for(m):
    for opts in ((), ("--sudo", "no"), ("--root", "overlay")):
        r = m.sh(f"ls /usr/local/bin/sudo 2>/dev/null; /usr/bin/python3 -c '{BINDING}'", *opts)
        ok(r.rc == 1 and r.out == b"" and b"ConnectionRefusedError" in r.err, repr(r))
    p = m.put("p.yaml", "version: 1\nsudo: yes\n")
    done(m.sh(f"sudo {me(m)} id -u", "--profile", p), out=b"0\n" if m.name == "root" else b"1000\n")
    r = m.sh("ls /usr/local/bin/sudo 2>/dev/null", "--profile", p, "--sudo", "no")
    ok(r.rc != 0, repr(r))
    r = m.run("--sudo", "perhaps", "--", "true")
    ok(r.rc == 125 and b"--sudo: 'perhaps' is neither 'yes' nor 'no'" in r.err, repr(r))
    r = m.run("--profile", m.put("q.yaml", "version: 1\nsudo: 1\n"), "--", "true")
    ok(r.rc == 125 and b":2: sudo: '1' is neither" in r.err, repr(r))


@case
def the_program_cannot_be_replaced(m):
    for opts in ((), ("--root", "overlay")):
        r = done(m.sh("command -v sudo; p=$(command -v sudo); rm -f $p; mv $p /tmp/x; echo > $p; ln -sf /bin/true $p; chmod 777 $p; cmp $p /proc/self/exe; "
                      f"sudo {me(m)} sh -c 'rm -f '$p'; mv '$p' /tmp/x; : > '$p'; chmod 777 '$p; sudo -V; stat -c %a $p", *ON, *opts), rc=None)
        lines = r.out.decode().splitlines()
        ok(lines[0].startswith("/usr/") and lines[-2].startswith("sudo of brig ") and lines[-1] == "755", repr(r))


def image(m, name, *sudo):
    if not os.path.exists(BUSYBOX):
        raise Skip("no static busybox on this host")
    img = m.mkdir(name)
    for d in ("bin", "etc", "usr/bin", "usr/local/bin"):
        os.makedirs(os.path.join(img, d))
    with open(BUSYBOX, "rb") as f:
        data = f.read()
    for n in ("sh", "ls", "id", "cat", "test"):
        with open(os.path.join(img, "bin", n), "wb") as f:
            f.write(data)
        os.chmod(os.path.join(img, "bin", n), 0o755)
    for path in (*sudo, "usr/local/bin/own"):
        with open(os.path.join(img, path), "wb") as f:
            f.write(b"#!/bin/sh\necho its own\n")
        os.chmod(os.path.join(img, path), 0o755)
    with open(os.path.join(img, "etc", "passwd"), "w", encoding="ascii") as f:
        f.write("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    m.give_tree(img)
    os.chmod(img, 0o755)
    return img


@case
def other_images(m):
    """Over the image's own, else beside what is there; and nothing of the image is lost."""
    who = ("--user", "user") if m.name == "root" else ()
    for own in ((), ("usr/bin/sudo",), ("usr/local/bin/sudo",)):
        img = image(m, "img" + str(len(own)), *own)
        for root in ("readonly", "overlay"):
            r = done(m.run("--image", img, "--root", root, *ON, *who, "--", "sh", "-c", "sudo sh -c 'echo $0 $1; id -u' a b; own; ls /usr/local/bin"), rc=0)
            lines = r.out.decode().splitlines()
            eq(lines[:3], ["a b", "0", "its own"], repr(r))
            ok("own" in lines[3:] and (own == ("usr/bin/sudo",) or "sudo" in lines[3:]), repr(r))
    img = image(m, "bare")
    for d in ("usr/local/bin/own",):
        os.unlink(os.path.join(img, d))
    os.rmdir(os.path.join(img, "usr/local/bin"))
    r = m.run("--image", img, *ON, "--", "true")
    ok(r.rc == 125 and b"placing 'sudo' in /usr/local/bin of the image" in r.err, repr(r))
    outside = m.mkdir("outside")
    os.symlink(outside, os.path.join(img, "usr/local/bin"))
    for root in ("readonly", "overlay"):
        r = m.run("--image", img, "--root", root, *ON, "--", "true")
        ok(r.rc == 125 and b"placing 'sudo'" in r.err, repr(r))
    eq(os.listdir(outside), [], "nothing was made where the link leads")


@case
def counts_and_ends_with_the_sandbox(m):
    r = m.sh(f"for i in 1 2 3 4 5 6 7 8 9; do sudo {me(m)} sleep 100 & done; sleep 0.5; sudo {me(m)} true; echo $?", *ON, "--pids", "12", timeout=60)
    ok(b"process limit" in r.err or b"Resource" in r.err or b"fork" in r.err, f"the limit was not met: {r!r}")
    # the harness looks for what is left
    done(m.sh(f"sudo {me(m)} sh -c 'sleep 1000 & (setsid sleep 1000 &)'; exit 4", *ON), rc=4)
    r = m.run(*ON, "--timeout", "1s", "--", "sudo", *me(m).split(), "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done")
    eq(r.rc, 124, repr(r))


@case
def on_a_terminal(m):
    """Its standard streams are the caller's terminal; ^C comes by way of sudo."""
    master, slave = pty.openpty()

    def ctty():
        os.setsid()
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    p = m.popen(m.run_argv(*ON, "-it", "--", "sudo", *me(m).split(), "sh", "-c", "test -t 0 && test -t 1 && echo ready; exec sleep 100"), stdin=slave, stdout=slave,
                stderr=slave, preexec_fn=ctty)
    os.close(slave)
    out = b""
    while b"ready" not in out:
        ok(select.select([master], [], [], 60)[0], f"nothing more than {out!r}")
        out += os.read(master, 1000)
    os.write(master, b"\x03")
    eq(p.wait(60), 128 + signal.SIGINT, f"{out!r}")
    os.close(master)


def receipt_of(m, p):
    done(m.brig("receipt", "verify", p))
    with open(p, encoding="ascii") as f:
        return json.loads(f.read().split("\n")[1])


@case
def measured(m):
    """A receipt says that it was asked for, the same walls, and finds nothing that should not be there."""
    p = m.path("receipt")
    for opts in ((), ("--root", "overlay")):
        done(m.run(*ON, *opts, "--receipt", p, "--", "sudo", *me(m).split(), "true"), rc=0)
        eq(receipt_of(m, p)["asked"]["sudo"], True, "asked for")
        os.unlink(p)
    done(m.run("--receipt", p, "--", "true"), rc=0)
    eq(receipt_of(m, p)["asked"]["sudo"], False, "not asked for")


if __name__ == "__main__":
    sys.exit(main())
