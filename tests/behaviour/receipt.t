#!/usr/bin/python3
"""Receipts: what they say against what this test finds by itself, starts they stop, files that are none."""
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok, until  # noqa: E402


def load(path):
    with open(path, encoding="ascii") as f:
        head, payload, rest = f.read().split("\n")
    eq(rest, "", "bytes after the payload")
    return head.split(" "), payload, json.loads(payload)


def verify(m, path, *opts):
    return m.brig("receipt", "verify", *opts, path)


def key_of(m):
    return done(m.brig("receipt", "key")).out.decode().strip()


@case
def says_what_the_sandbox_itself_says(m):
    p = m.path("r")
    script = ("for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done; cat /proc/self/status; "
              "cat /proc/self/uid_map; uname -r; cat /proc/sys/kernel/hostname; wc -l < /proc/self/mountinfo")
    r = done(m.sh(script, "--receipt", p, "--memory", "256M", "--pids", "40"))
    head, payload, j = load(p)
    text = r.out.decode()
    cmd = j["measured"]["command"]
    status = dict(re.findall(r"^(\w+):\t(.*)$", text, re.M))
    caps = {"inheritable": "CapInh", "permitted": "CapPrm", "effective": "CapEff", "bounding": "CapBnd", "ambient": "CapAmb"}
    for mine, theirs in caps.items():
        eq(int(cmd["capabilities"][mine], 16), int(status[theirs], 16), theirs)
    eq([cmd["uid"][0], cmd["gid"][0]], [int(status["Uid"].split()[0]), int(status["Gid"].split()[0])], "ids")
    eq([int(cmd["no_new_privs"]), cmd["seccomp_mode"]], [int(status["NoNewPrivs"]), int(status["Seccomp"])], "filter")
    lines = text.splitlines()
    eq([l.split(":")[0] for l in lines[:7]], ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"], "namespaces")
    eq(set(j["measured"]["pid1"]["namespaces"].items()), set(cmd["namespaces"].items()), "one set of namespaces")
    for name, ino in cmd["namespaces"].items():
        host = os.stat(f"/proc/self/ns/{name}").st_ino
        eq(ino == host, name == "time", f"{name} namespace is the host's")
    one = j["measured"]["uid_map"]
    eq([str(v) for v in one[0]], lines[-4].split() if len(one) == 1 else [str(v) for v in one[0]], "uid map")
    eq([j["measured"]["kernel"]["release"], j["measured"]["kernel"]["node"]], lines[-3:-1], "kernel and name")
    eq(len(j["measured"]["mounts"]), int(lines[-1]), "mounts")
    eq(j["measured"]["kernel"]["release"], os.uname().release, "the host's kernel")
    eq([j["enforced"], j["differences"], j["schema"], j["tier"]], [True, [], 1, m.tier], "conclusion")
    eq([j["asked"]["memory"], j["asked"]["pids"]], [256 << 20, 40], "what was asked for")
    eq(payload, json.dumps(j, sort_keys=True, separators=(",", ":"), ensure_ascii=False), "canonical form")
    eq([head[0], head[1], head[2], j["host"]["key"]], ["brig-receipt", "1", key_of(m), key_of(m)], "head")


@case
def names_the_command_by_its_hash_and_no_secret(m):
    p = m.path("r")
    argv = ["sh", "-c", "true", "a b", ""]
    done(m.run("--receipt", p, "--env", "PASS=open-sesame", "--secret-env", "TOKEN", "--", *argv, env={"TOKEN": "hush-hush"}))
    _, payload, j = load(p)
    eq(j["command"], {"sha256": hashlib.sha256(b"".join(a.encode() + b"\0" for a in argv)).hexdigest(), "words": 5}, "command")
    eq(j["asked"]["env"], ["LANG", "PASS"], "names of variables")
    ok("sesame" not in payload and "hush" not in payload and "TOKEN" not in payload, "a value is in it")


@case
def limits_are_those_of_the_cgroups(m):
    p = m.path("r")
    r = done(m.run("--json", "--receipt", p, "--memory", "200M", "--cpus", "0.5", "--pids", "33", "--", "true"))
    _, _, j = load(p)
    got, gaps = j["measured"]["cgroup_by_host"], {g["wall"] for g in j["not_enforced"]}
    for wall, key, want in (("memory limit", "memory", 200 << 20), ("cpu limit", "cpu_milli", 500), ("process limit", "pids", 33)):
        eq(got[key], None if wall in gaps else want, wall)
    eq({w["what"] for w in json.loads(r.out)["weaker"]}, gaps, "what --json calls weaker")
    if "process limit" in gaps:
        eq(j["measured"]["resource_limits"]["nproc"], [33, 33], "the process limit by rlimit")
    if m.name == "root":
        ok("idmap" not in gaps, "root has ids of its own")


@case
def verifies_offline_with_the_public_key_alone(m):
    p, pub = m.path("r"), m.path("pub")
    done(m.run("--receipt", p, "--", "true"))
    with open(pub, "w", encoding="ascii") as f:
        f.write(key_of(m) + "\n")
    for opts in ((), ("--key", key_of(m)), ("--key", pub)):
        ok(done(verify(m, p, *opts)).out.startswith(b"genuine: signed by " + key_of(m).encode()), "verify")
    j = json.loads(done(verify(m, p, "--json")).out)
    eq([j["genuine"], j["enforced"], j["key"], j["receipt"]], [True, True, key_of(m), load(p)[2]], "--json")
    other = {"BRIG_STATE": m.path("other")}
    r = done(m.brig("receipt", "verify", p, env=other), rc=125, out=b"")
    ok(b"no signing key" in r.err and not os.path.exists(other["BRIG_STATE"]), f"verifying makes no key: {r}")
    os.mkdir(other["BRIG_STATE"], 0o700)
    m.give(other["BRIG_STATE"])
    done(m.brig("receipt", "key", env=other))
    r = done(m.brig("receipt", "verify", p, env=other), rc=1)
    ok(b"another key" in r.err, r)
    done(m.brig("receipt", "verify", "--key", key_of(m), p, env=other))


@case
def openssl_agrees(m):
    if not shutil.which("openssl"):
        raise Skip("no openssl")
    p = m.path("r")
    done(m.run("--receipt", p, "--", "true"))
    head, payload, _ = load(p)
    der, msg, sig = m.path("der"), m.path("msg"), m.path("sig")
    for path, data in ((der, bytes.fromhex("302a300506032b6570032100" + head[2])), (sig, bytes.fromhex(head[3])),
                       (msg, b"brig-receipt-v1\0" + payload.encode())):
        with open(path, "wb") as f:
            f.write(data)
    argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", der, "-rawin", "-in", msg, "-sigfile", sig]
    eq(subprocess.run(argv, capture_output=True, check=False).returncode, 0, "openssl")
    with open(msg, "ab") as f:
        f.write(b" ")
    ok(subprocess.run(argv, capture_output=True, check=False).returncode != 0, "openssl takes a changed one")


@case
def damaged_files_are_refused_whole(m):
    p, p2, bad = m.path("r"), m.path("r2"), m.path("bad")
    done(m.run("--receipt", p, "--", "true"))
    done(m.run("--receipt", p2, "--", "false"), rc=1)
    with open(p, "rb") as f, open(p2, "rb") as f2:
        good, good2 = f.read(), f2.read()
    (line, payload), (line2, payload2) = good.split(b"\n")[:2], good2.split(b"\n")[:2]
    key, other = line.split()[2], b"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    for what, data, reason in (
            ("cut", good[:-1], "cut short"), ("cut more", good[:100], "cut short"), ("empty", b"", "not a receipt"),
            ("half", good[:len(good) // 2] + b"\n", "the signature does not fit"),
            ("longer", good + b"\n", "something follows"), ("two in one", good + good2, "something follows"),
            ("edited", good.replace(b'"enforced":true', b'"enforced":null'), "the signature does not fit"),
            ("re-spelt", line + b"\n" + json.dumps(json.loads(payload)).encode() + b"\n", "the signature does not fit"),
            ("of another's payload", line + b"\n" + payload2 + b"\n", "the signature does not fit"),
            ("of another's signature", line2 + b"\n" + payload + b"\n", "the signature does not fit"),
            ("of another key", good.replace(key, other, 1), "it names another key"),
            ("renamed throughout", good.replace(key, other), "it names another key"),
            ("in capitals", good.replace(key, key.upper(), 1), "its first line is malformed"),
            ("with line ends of another system", good.replace(b"\n", b"\r\n"), "its first line is malformed"),
            ("the payload alone", payload + b"\n", "not a receipt"), ("text", b"hello\n", "not a receipt"),
            ("newer", good.replace(b"receipt 1", b"receipt 2", 1), "a format this version of brig does not know"),
            ("huge", good + b"x" * (1 << 20), "larger than any receipt")):
        with open(bad, "wb") as f:
            f.write(data)
        r = done(verify(m, bad), rc=1, out=b"")
        ok(r.err.startswith(b"brig: ") and reason.encode() in r.err, f"{what}: {r}")
        j = json.loads(done(verify(m, bad, "--json"), rc=1).out)
        ok(j["genuine"] is False and reason in j["reason"], f"{what}: {j}")
    for argv in (["verify"], ["verify", "/nonexistent"], ["what"], [], ["key", "x"], ["verify", "--key", "00", p]):
        done(m.brig("receipt", *argv), rc=125, out=b"")


@case
def two_at_once_make_one_key(m):
    env = {"BRIG_STATE": m.path("fresh")}
    os.mkdir(env["BRIG_STATE"], 0o700)
    m.give(env["BRIG_STATE"])
    runs = [m.popen([m.brig_path, "receipt", "key"], env=env, stdout=subprocess.PIPE) for _ in range(12)]
    eq(len({p.communicate(timeout=60)[0] for p in runs}), 1, "keys made")
    keys = os.path.join(env["BRIG_STATE"], "keys")
    eq(os.listdir(keys), ["receipt.key"], "files")
    st = os.stat(os.path.join(keys, "receipt.key"))
    eq((stat.S_IMODE(st.st_mode), st.st_size, st.st_uid), (0o600, 32, m.uid), "the key's file")


@case
def a_key_others_may_know_is_not_used(m):
    state, p = m.path("keys"), m.path("r")
    env = {"BRIG_STATE": state}
    os.mkdir(state, 0o700)
    m.give(state)
    done(m.brig("receipt", "key", env=env))
    path = os.path.join(state, "keys", "receipt.key")

    def refused(word):
        r = done(m.run("--receipt", p, "--", "echo", "ran", env=env), rc=125, out=b"")
        ok(word in r.err and not os.path.exists(p), r)
    os.chmod(path, 0o640)
    refused(b"mode is 640")
    os.chmod(path, 0o600)
    done(m.run("--receipt", p, "--", "true", env=env))
    os.unlink(p)
    os.truncate(path, 31)
    refused(b"31 bytes")
    os.rename(path, path + ".x")
    os.symlink(path + ".x", path)
    refused(b"link")
    os.chmod(os.path.dirname(path), 0o777)
    refused(b"writable by nobody else")
    if os.geteuid() == 0:
        os.chmod(os.path.dirname(path), 0o700)
        os.unlink(path)
        with open(path, "wb") as f:
            f.write(b"x" * 32)
        os.chmod(path, 0o600)
        os.chown(path, 4242, 4242)
        refused(b"belongs to somebody else" if m.name == "root" else b"denied")


@case
def what_cannot_be_written_stops_the_start(m):
    d = m.mkdir("d")
    for p in (os.path.join(d, "no", "r"), d, "/proc/r"):
        r = done(m.run("--receipt", p, "--", "echo", "ran"), rc=125, out=b"")
        ok(b"--receipt" in r.err, r)
    eq(os.listdir(d), [], "left behind")


@case
def an_old_file_is_replaced_and_never_half(m):
    p, other = m.put("r", "old"), m.put("other", "keep")
    r = done(m.run("--receipt", p, "--require", "nonsense", "--", "true"), rc=125)
    done(m.run("--receipt", p, "--user", "nobody-of-this-name", "--", "echo", "ran"), rc=125, out=b"")
    with open(p, encoding="ascii") as f:
        eq(f.read(), "old", f"after a start that failed {r}")
    done(m.run("--receipt", p, "--", "true"))
    done(verify(m, p))
    os.unlink(p)
    os.symlink(other, p)
    done(m.run("--receipt", p, "--", "true"))
    ok(not os.path.islink(p), "the link is replaced")
    with open(other, encoding="ascii") as f:
        eq(f.read(), "keep", "what the link pointed to")
    eq([n for n in os.listdir(m.dir) if n.endswith(".new")], [], "left behind")


@case(modes=("root",))  # makes a file system
def a_disk_without_room_stops_the_start(m):
    d = m.mkdir("d")
    # room for a usual receipt, but not for every one that it could become
    r = m.exec(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"', "sh", d,
                *m.run_argv("--receipt", os.path.join(d, "r"), "--", "echo", "ran")])
    done(r, rc=125, out=b"")
    ok(b"--receipt" in r.err and b"No space left" in r.err, r)


@case
def a_file_that_cannot_be_written_whole_stops_the_start(m):
    d = m.mkdir("d")
    p = os.path.join(d, "r")
    with open(p, "w", encoding="ascii") as f:
        f.write("old")
    m.give(p)
    # at most 1 KiB, by a limit that is an error to whoever ignores its signal
    limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 2; exec "$@"', "sh", *m.run_argv("--receipt", p, "--", "echo", "ran")]
    r = done(m.exec(limited), rc=125, out=b"")
    ok(b"--receipt" in r.err and b"File too large" in r.err, r)
    with open(p, encoding="ascii") as f:
        eq(f.read(), "old", "what was there")
    eq(os.listdir(d), ["r"], "left behind")


@case
def nothing_is_tried_that_a_gate_would_answer(m):
    p = m.path("r")
    r = done(m.run("--json", "--receipt", p, "--allow", "example.com:443", "--", "true"))
    _, _, j = load(p)
    eq(set(j["measured"]["network"]["errno"].values()), {None}, "tried")
    eq([j["enforced"], j["measured"]["network"]["interfaces"]], [True, ["lo"]], "conclusion")
    saw = json.loads(r.out)["egress"]
    eq({k: saw[k] for k in ("allowed", "denied", "blocked")}, {"allowed": 0, "denied": 0, "blocked": []}, "what the gate saw")
    done(m.run("--receipt", p, "--", "true"))
    ok(None not in load(p)[2]["measured"]["network"]["errno"].values(), "without a gate all is tried")


@case
def comes_before_the_command_and_with_every_setting(m):
    p, src = m.path("r"), m.put("in.txt", "data")
    for opts in (("--root", "overlay"), ("--root", "overlay", "--root-caps", "files"), ("--file", f"{src}:in.txt"),
                 ("--timeout", "20s"), ("--workdir", "/tmp"), ("--json", "--result-file", m.path("res"))):
        r = done(m.run("--receipt", p, *opts, "--", "sh", "-c", "cat in.txt 2>/dev/null; exit 3"), rc=3)
        if "--json" not in opts:
            eq(r.out, b"data" if "--file" in opts else b"", opts)
        done(verify(m, p))
    done(m.run("--receipt", p, "--", "true", env={"BRIG_STDIO": "framed"}))
    done(verify(m, p))
    if m.name == "root":
        for user in ("0", "1234:55", "root"):
            done(m.run("--receipt", p, "--user", user, "--", "true"))
            eq(load(p)[2]["measured"]["command"]["uid"][0], int(user.split(":")[0]) if user != "root" else 0, user)
        done(m.run("--receipt", p, "--root", "overlay", "--root-caps", "files", "--user", "0", "--", "true"))
        eq(int(load(p)[2]["measured"]["command"]["capabilities"]["effective"], 16), 0xdb, "root-caps files")


def lying(m, nr):
    """A copy of brig whose agent tells lie nr."""
    d = m.path("lying")
    os.mkdir(d, 0o755)
    shutil.copy(m.brig_path, d)
    with open(m.tool("lying_init"), "rb") as f:
        image = f.read()
    eq(image.count(b"lie=00"), 1, "the mark in lying_init")
    with open(os.path.join(d, "brig-init"), "wb") as f:
        f.write(image.replace(b"lie=00", f"lie={nr:02}".encode()))
    os.chmod(os.path.join(d, "brig-init"), 0o755)
    return [os.path.join(d, "brig"), "run", "--tier", m.tier]


@case
def a_difference_stops_the_start(m):
    p = m.path("r")
    done(m.exec([*lying(m, 0), "--receipt", p, "--", "true"]), rc=42)  # the command was asked for
    done(verify(m, p))
    for nr, words in ((1, b"effective capabilities of the command: asked for none, measured 0x200000"),
                      (2, b"no_new_privs of the command: asked for set, measured not set"),
                      (3, b"seccomp of PID 1: asked for a filter, measured mode 0"),
                      (4, b"mount by the command: asked for refused, EPERM, measured let through"),
                      (5, b"net namespace of PID 1: asked for its own"), (6, b"/proc/kallsyms: asked for covered"),
                      (7, b"tcp 192.0.2.1:80: asked for unreachable"), (8, b"network interfaces: asked for lo, measured eth0"),
                      (9, b"nosuid"), (10, b"user id map: asked for one, measured none"), (11, b"kernel: asked for "),
                      (12, b"resource limit core"), (13, b"inode limit: asked for 200000, measured none")):
        r = done(m.exec([*lying(m, nr), "--receipt", p, "--", "true"]), rc=125, out=b"")
        ok(words in r.err and b"its agent did not notice, and it was ended" in r.err, f"lie {nr}: {r}")
        _, _, j = load(p)
        eq([j["enforced"], bool(j["differences"])], [False, True], f"lie {nr}: the receipt")
        r = done(verify(m, p), rc=1)
        ok(b"NOT as asked for" in r.out, r)


@case
def a_report_that_is_none_stops_the_start(m):
    p = m.path("r")
    for nr in (20, 21, 22, 23, 24):
        r = done(m.exec([*lying(m, nr), "--receipt", p, "--", "true"]), rc=125, out=b"")
        ok(b"malformed" in r.err and not os.path.exists(p), f"lie {nr}: {r}")
    r = done(m.exec([*lying(m, 27), "--receipt", p, "--", "true"]), rc=125, out=b"")
    ok(b"in another way" in r.err and not os.path.exists(p), f"a difference nobody else finds: {r}")
    r = done(m.exec([*lying(m, 25), "--receipt", p, "--", "true"]), rc=125, out=b"")
    ok(b"could not be measured: the command ended first" in r.err and not os.path.exists(p), r)
    r = done(m.exec([*lying(m, 0), "--", "true"]), rc=43)  # nothing is measured where nobody asks


def opened(pid, d):
    """Does process pid have a file in folder d open?"""
    at = f"/proc/{pid}/fd"
    for n in os.listdir(at):
        try:
            if os.readlink(os.path.join(at, n)).startswith(d + "/"):
                return True
        except FileNotFoundError:
            pass
    return False


@case
def a_kill_leaves_no_file(m):
    """While brig waits for a report: its file is open by then."""
    d = m.mkdir("d")
    argv = [*lying(m, 26), "--receipt", os.path.join(d, "r"), "--", "true"]
    for sig, rc in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        brig = m.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda b=brig: opened(b.pid, d), 60, "brig to open the file")
        brig.send_signal(sig)
        eq(brig.wait(timeout=60), rc, f"after {sig.name}")
        eq(os.listdir(d), [], f"left behind by {sig.name}")
    done(m.run("--", "true"))  # finds the record of the one that was killed before it had a runner


if __name__ == "__main__":
    sys.exit(main())
