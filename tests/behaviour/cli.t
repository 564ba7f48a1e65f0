#!/usr/bin/python3
"""The command line: exit codes, results, scripts, environment, secrets, profiles, bad input."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, nothing_left, ok, until  # noqa: E402
import reap  # noqa: E402

FIELDS = {"exit", "signal", "timed_out", "oom", "oom_kills", "lost", "fault", "cpu_ms", "wall_ms", "memory_peak",
          "stdout_bytes", "stderr_bytes", "weaker"}


def refused(m, args, *words, env=None, prog=None):
    """One line that says what and where, exit 125, nothing on stdout, nothing started."""
    r = m.exec([m.brig_path, *(prog or ["run"]), *args], env=env)
    eq(r.rc, 125, f"{args!r}: {r!r}")
    eq(r.out, b"", f"stdout of {args!r}")
    ok(r.err.endswith(b"\n") and r.err.count(b"\n") == 1, f"{args!r}: not one line: {r.err!r}")
    ok(all(c >= 32 for c in r.err[:-1]), f"{args!r}: control characters: {r.err!r}")
    for w in words:
        ok(w.lower() in r.err.decode("utf-8", "replace").lower(), f"{args!r}: no {w!r} in {r.err!r}")
    nothing_left(m)
    return r


# ---- exit codes ----
@case
def not_found_and_not_executable(m):
    r = done(m.run("--", "no-such-program-xyz"), rc=127, out=b"")
    ok(b"no-such-program-xyz" in r.err, repr(r))
    done(m.run("--", "/no/such/path"), rc=127)
    done(m.run("--", "/etc/passwd"), rc=126)
    done(m.run("--", "/usr"), rc=126)
    src = m.put("bad", b"\x7fNOTELF", 0o755)
    done(m.run("--file", f"{src}:/workspace/bad", "--", "/workspace/bad"), rc=126)
    src = m.put("noint", b"#!/no/such/interpreter\n", 0o755)
    done(m.run("--file", f"{src}:/workspace/noint", "--", "/workspace/noint"), rc=127)


@case
def command_without_dashes(m):
    done(m.run("echo", "-n", "x", "--json"), out=b"x --json")
    done(m.run("--", "echo", "--", "y"), out=b"-- y\n")


@case
def json_has_every_field(m):
    r = done(m.run("--json", "--", "sh", "-c", "echo o; echo e >&2; exit 3"), rc=3, err=b"")
    eq(r.out.count(b"\n"), 1, "lines")
    j = json.loads(r.out)
    ok(FIELDS <= set(j), f"missing {FIELDS - set(j)}")
    eq((j["exit"], j["signal"], j["stdout"], j["stderr"]), (3, None, "o\n", "e\n"), repr(j))
    eq((j["timed_out"], j["oom"], j["lost"], j["fault"], j["oom_kills"]), (False, False, False, None, 0), repr(j))
    eq((j["stdout_bytes"], j["stderr_bytes"]), (2, 2), "bytes")


@case
def json_is_given_when_brig_itself_fails(m):
    r = m.run("--json", "--require", "limits,landlock,idmap,kill", "--image", "/nonexistent", "--", "true")
    eq(r.rc, 125, repr(r))
    if r.out:
        j = json.loads(r.out)
        ok(j["fault"] and j["exit"] is None, repr(j))


@case
def json_keeps_large_output(m):
    r = done(m.run("--json", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"))
    j = json.loads(r.out)
    eq(j["stdout_bytes"], 3000000, "stdout_bytes")
    if not j.get("stdout_truncated"):
        eq(len(j["stdout"]), 3000000, "stdout")


@case
def json_strings_are_valid(m):
    r = done(m.run("--json", "--", "printf", '"\\\\\\001\\t\\303\\251\\342\\202\\254'))
    eq(json.loads(r.out)["stdout"], '"\\\x01\té€', "stdout")


@case
def result_file(m):
    path = m.path("result.json")
    done(m.run("--result-file", path, "--", "sh", "-c", "echo out; exit 9"), rc=9, out=b"out\n")
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    eq((j["exit"], j["signal"]), (9, None), repr(j))
    ok("stdout" not in j or not j["stdout"], repr(j))


@case
def timeout_gives_124(m):
    t = time.monotonic()
    r = done(m.run("--timeout", "300ms", "--", "sleep", "90"), rc=124, out=b"")
    ok(time.monotonic() - t >= 0.3, "ended early")
    ok(b"time" in r.err.lower() and r.err.count(b"\n") == 1, repr(r))
    j = json.loads(m.run("--json", "--timeout", "0.2", "--", "sleep", "90").out)
    eq((j["timed_out"], j["exit"], j["signal"], j["fault"]), (True, None, None, None), repr(j))


@case
def timeout_keeps_what_was_said(m):
    r = done(m.run("--timeout", "500ms", "--", "sh", "-c", "echo before; sleep 10"), rc=124)
    eq(r.out, b"before\n", "stdout")


@case
def workdir_and_user(m):
    done(m.run("--workdir", "/tmp", "--", "pwd"), out=b"/tmp\n")
    r = m.run("--workdir", "/no/such/folder", "--", "pwd")
    ok(r.rc in (125, 126, 127) and b"/no/such/folder" in r.err, repr(r))
    r = m.run("--user", "nosuchuser", "--", "true")
    ok(r.rc in (125, 126) and b"nosuchuser" in r.err, repr(r))
    if m.name == "root":
        done(m.run("--user", "1234:5678", "--", "sh", "-c", "id -u; id -g"), out=b"1234\n5678\n")


# ---- scripts ----
SCRIPTS = [
    ("a.py", "import sys; print('python', sys.argv[1:])", b"python ['x', 'y z']\n"),
    ("a.sh", "echo shell \"$@\"", b"shell x y z\n"),
    ("noext", "#!/usr/bin/python3\nimport sys; print('shebang', sys.argv[1:])", b"shebang ['x', 'y z']\n"),
    ("env.xyz", "#!/usr/bin/env python3\nprint('env')", b"env\n"),
    ("a.pl", "print \"perl @ARGV\\n\";", b"perl x y z\n"),
]


@case
def scripts_pick_their_interpreter(m):
    for name, text, want in SCRIPTS:
        done(m.run(m.put(name, text), "x", "y z"), out=want)
    if os.path.exists("/usr/bin/node"):
        done(m.run(m.put("a.js", "console.log('node', process.argv.slice(2))"), "x"), out=b"node [ 'x' ]\n")


@case
def scripts_may_have_odd_names(m):
    for name in ("a b.py", "-x.py", "é.py", "semi;colon.py", "col:on.py"):
        done(m.run(m.put(name, "print('odd')")), out=b"odd\n")


@case
def a_relative_script(m):
    p = m.put("rel.py", "print('relative')")
    done(m.run("./" + os.path.basename(p), cwd=m.dir), out=b"relative\n")
    done(m.run(os.path.basename(p), cwd=m.dir), out=b"relative\n")


@case
def a_script_after_dashes_is_a_command_inside(m):
    p = m.put("in.py", "print('never')")
    done(m.run("--", p), rc=127)


@case
def a_missing_script_names_itself(m):
    r = m.run("./missing.py")
    ok(r.rc in (125, 127) and b"missing.py" in r.err, repr(r))


@case
def a_script_is_copied_not_shared(m):
    p = m.put("self.py", "import sys\nopen(sys.argv[0], 'w').write('changed')\nprint('ok')")
    m.run(p)
    with open(p, encoding="ascii") as f:
        ok("import sys" in f.read(), "the caller's script was changed")


@case
def standard_input_of_a_script(m):
    done(m.run("-i", m.put("in.py", "import sys; print(len(sys.stdin.read()))"), stdin=b"12345"), out=b"5\n")


# ---- secrets ----
SECRET = "s3cr3t-VALUE-0123456789"


def host_text(m, holders):
    """All the text the host's /proc shows of brig's processes, and everything in the state folder.
    holders are those whose environment has the secret by right: the caller's and the command's."""
    out = b""
    for pid in reap.descendants():
        for name in ("cmdline", "environ", "status", "comm"):
            if name == "environ" and pid in holders:
                continue
            try:
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    out += f.read()
            except OSError:
                pass
    for d, _, files in os.walk(m.state):
        for name in files:
            with open(os.path.join(d, name), "rb") as f:
                out += f.read()
    return out


@case
def secret_environment(m):
    done(m.run("--secret-env", "TOKEN", "--", "sh", "-c", "echo $TOKEN", env={"TOKEN": SECRET}),
         out=SECRET.encode() + b"\n")
    nothing_left(m)  # that run's runner, which has its caller's environment, removes the rest for some milliseconds
    p = m.popen(m.run_argv("-i", "--json", "--secret-env", "TOKEN", "--", "cat"), env={"TOKEN": SECRET},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: any(reap.cmdline(x) == b"cat\0" for x in reap.below(p.pid)), 20, "command not up")
    # the runner, which has its caller's environment, comes a little later than the command
    until(lambda: len([x for x in reap.below(p.pid) if reap.stat_of(x) and reap.stat_of(x)[1] == p.pid]) == 2, 20, "no runner")
    init = reap.init_of(p.pid)
    holders = {p.pid, *[x for x in reap.below(p.pid) if reap.stat_of(x) and reap.stat_of(x)[1] in (p.pid, init)]} - {init}
    seen = host_text(m, holders)
    out, err = p.communicate(b"", timeout=20)
    ok(SECRET.encode() not in seen, "the secret is visible on the host")
    ok(SECRET.encode() not in out + err, f"the secret is in the report: {out!r} {err!r}")


@case
def a_secret_replaces_a_plain_variable(m):
    """Of two with one name a program may take either: there is one only."""
    prof = m.put("p.yaml", "version: 1\nenv:\n  TOKEN: profile\n  A: a\n")
    r = done(m.run("-p", prof, "-e", "TOKEN=plain", "-e", "B=b", "--secret-env", "TOKEN", "--", "env", env={"TOKEN": SECRET}))
    got = sorted(line for line in r.out.decode().split("\n") if line.split("=")[0] in ("TOKEN", "A", "B"))
    eq(got, ["A=a", "B=b", f"TOKEN={SECRET}"], "variables")


@case
def secret_environment_is_not_the_agents(m):
    """PID 1 inside does not hold it where another program could read it."""
    r = m.sh("cat /proc/1/environ /proc/1/cmdline 2>/dev/null; true", "--secret-env", "TOKEN", env={"TOKEN": SECRET})
    ok(SECRET.encode() not in r.out, repr(r))


@case
def secret_values_are_never_shown_in_errors(m):
    r = refused(m, ["--secret-env", f"TOKEN={SECRET}", "--", "true"], "secret-env")
    ok(SECRET.encode() not in r.err, repr(r))
    r = refused(m, ["--env", f"BAD NAME={SECRET}", "--", "true"], "env")
    ok(SECRET.encode() not in r.err, repr(r))
    r = refused(m, ["--env", f"={SECRET}", "--", "true"], "env")
    ok(SECRET.encode() not in r.err, repr(r))
    refused(m, ["--secret-env", "NOT_SET_ANYWHERE", "--", "true"], "NOT_SET_ANYWHERE")


# ---- bad input ----
BAD = [
    ([], "command"),
    (["--"], "command"),
    (["--timeout", "5s"], "command"),
    ([""], "empty"),
    (["--timeuot", "5s", "--", "true"], "--timeuot", "--timeout"),
    (["--memroy=1G", "--", "true"], "--memroy", "--memory"),
    (["--privileged", "--", "true"], "--privileged"),
    (["-X", "--", "true"], "-X"),
    (["-itX", "--", "true"], "-X"),
    (["--\x1b[31m", "--", "true"], "unknown option"),
    (["--" + "x" * 5000, "--", "true"], "unknown option"),
    (["--timeout"], "--timeout"),
    (["--json=1", "--", "true"], "--json"),
    (["--json", "-t", "--", "true"], "--tty"),
    *[(["--timeout", v, "--", "true"], "--timeout") for v in
      ("", "-1s", "+1s", " 1s", "1s ", "1 s", "s", "1x", "1sec", "1S", "0x10s", "1e3", "nan", "inf", "1.s", ".5s", "1..5s",
       "1,5s", "99999999999999999999s", "18446744073709551616ms", "1s1m", "1h1h", "1.5h30m", "400d", "0.0001s", "1\n",
       "1s\x1b[0m", "١s", "--", "forever")],
    *[(["--memory", v, "--", "true"], "--memory") for v in
      ("", "-1", "+1G", "1.5G", "1GB", "1Gib", "1g", "G", "0x100M", " 1G", "1G ", "1G1M", "1e9", "1P", "99999999999T",
       "18446744073709551616", "1M\n")],
    *[(["--memory", v, "--", "true"], "memory") for v in ("1", "64M", "1M", "2000T")],
    *[(["--disk", v, "--", "true"], "disk") for v in ("", "0", "1", "-5M", "5MB", "2T", "x", "1000000T", "1.0M")],
    *[(["--cpus", v, "--", "true"], "cpus") for v in
      ("", "-1", "x", "0.001", "1.2345", "1e1", "100000", "4294967296", ".5", "1.", "0,5", "inf")],
    *[(["--pids", v, "--", "true"], "pids") for v in ("", "-1", "1", "3", "x", "1.5", "99999999999", "4294967296", "1k")],
    *[(["--user", v, "--", "true"], "user") for v in
      ("", "-1", ":", "0:", ":0", "1:2:3", "a b", "root/../x", "x" * 300, "a\nb", "1000:user")],
    *[(["--workdir", v, "--", "true"], "workdir") for v in ("", "relative", "./x", "x" * 5000)],
    *[(["--tier", v, "--", "true"], "tier") for v in ("", "auto", "containr", "CONTAINER", "microvm2", "container ", "none")],
    *[(["--root", v, "--", "true"], "--root") for v in ("", "rw", "ReadOnly", "overlays")],
    *[(["--root-caps", v, "--", "true"], "--root-caps") for v in ("", "all", "file")],
    *[(["--require", v, "--", "true"], "--require") for v in ("", "x", "limits,", ",limits", "limits,x", "limit", "LIMITS")],
    *[(["--env", v, "--", "true"], "env") for v in ("", "A", "=x", "1A=x", "A B=x", "A-B=x", "A\n=x")],
    *[(["--secret-env", v, "--", "true"], "secret-env") for v in ("", "A=B", "NOPE_NOT_SET")],
    *[(["--image", v, "--", "true"], "image") for v in ("", "/no/such/folder", "no-such-folder", "/etc/passwd")],
    *[(["--file", v, "--", "true"], "--file") for v in
      ("", ":", ":/workspace/x", "/etc/hostname:", "/etc/hostname:../x", "/etc/hostname:/a/../../b",
       "/no/such/file:/workspace/x", "/etc/hostname:" + "x" * 5000)],
    *[(["--out", v, "--", "true"], "--out") for v in ("", "x", ":", "x:", ":y", "../x:/tmp/y", "/x:/no/such/folder/y")],
    (["--out-patch", "/no/such/folder/p", "--", "true"], "/no/such/folder"),
    (["--result-file", "/no/such/folder/r", "--", "true"], "/no/such/folder"),
    (["--result-file", "fd:77", "--", "true"], "77"),
    (["--result-file", "fd:x", "--", "true"], "fd:x"),
    (["--profile", "/no/such/profile.yaml", "--", "true"], "/no/such/profile.yaml"),
    (["--profile", "/", "--", "true"], "/"),
    (["--disk", "1G", "--memory", "1G", "--", "true"], "disk", "memory"),
]


@case
def bad_input_is_refused_in_one_line(m):
    bad = []
    for args, *words in BAD:
        try:
            refused(m, args, *words)
        except AssertionError as e:
            bad.append(str(e))
    ok(not bad, f"{len(bad)} of {len(BAD)}:\n" + "\n".join(bad))
    eq(reap.records(m.state), [], "records")


@case
def bad_commands(m):
    for args, *words in ([], "command"), (["rnu"], "rnu", "run"), (["--rnu"], "--rnu"), (["run", "--help=x"], "--help"), \
            (["version", "x"], "x"), (["check", "--nope"], "--nope"):
        r = m.brig(*args)
        ok(r.rc in (2, 125), f"{args!r}: {r!r}")
        for w in words:
            ok(w in r.err.decode(), f"{args!r}: no {w!r}: {r!r}")


@case
def help_and_version(m):
    for args in (["--help"], ["help"], ["help", "run"], ["run", "--help"], ["version"], ["check", "--help"], ["--version"]):
        r = m.brig(*args)
        eq(r.rc, 0, f"{args!r}: {r!r}")
        ok(len(r.out) > 4 and not r.err, f"{args!r}: {r!r}")
    r = m.brig("run", "--help")
    for word in (b"--timeout", b"--memory", b"--secret-env", b"--out-patch", b"--require"):
        ok(word in r.out, f"{word!r} not in the help")
    for shell in ("bash", "zsh", "fish"):
        r = m.brig("completion", shell)
        ok(r.rc == 0 and b"timeout" in r.out, f"{shell}: {r!r}")
    done(m.exec(["bash", "-n"], stdin=m.brig("completion", "bash").out), rc=0)


@case
def check_names_what_is_missing(m):
    r = m.brig("check")
    ok(r.rc in (0, 1) and b"container" in r.out, repr(r))
    if m.name == "user":
        ok(b"newuidmap" in r.out or b"subordinate" in r.out, f"no word about subordinate ids: {r!r}")
        ok(b"delegat" in r.out.lower() or b"cgroup" in r.out.lower(), f"no word about cgroups: {r!r}")


# ---- profiles ----
def profile(m, text):
    return m.put("p.yaml", text)


@case
def profile_settings_are_used(m):
    p = profile(m, "version: 1\nname: t\ntier: container\nmemory: 256M\ndisk: 64M\ntimeout: 300ms\nworkdir: /tmp\n"
                   "env:\n  FROM: profile\n  BOTH: profile\negress: deny-all\n")
    done(m.run("--profile", p, "--env", "BOTH=option", "--timeout", "5s", "--", "sh", "-c", "pwd; echo $FROM $BOTH"),
         out=b"/tmp\nprofile option\n")
    done(m.run("--profile", p, "--", "sleep", "5"), rc=124)


BAD_PROFILES = [
    ("", "version"),
    ("version: 2\n", ":1:", "version"),
    ("version: 1\nmemroy: 1G\n", ":2:", "memroy", "memory"),
    ("version: 1\nmemory: 1X\n", ":2:", "memory"),
    ("version: 1\ntimeout: soon\n", ":2:", "timeout"),
    ("version: 1\nmemory: 1G\nmemory: 2G\n", "memory"),
    ("version: 1\nroot: rw\n", ":2:", "root"),
    ("version: 1\nrequire: [limits, moon]\n", ":2:", "moon"),
    ("version: 1\nenv: [A]\n", ":2:", "env"),
    ("version: 1\nenv:\n  1A: x\n", "env"),
    ("version: 1\ntier: containr\n", "tier", "container"),
    ("version: 1\negress:\n  - allow: example.org\n", ":2:", "egress"),
    ("version: 1\n\tbad\n", ":2:"),
    ("version: 1\nname: &a x\nuser: *a\n", ""),
    ("version: [1]\n", "version"),
    ("- version: 1\n", ""),
    ("version: 1\nimage: relative\n", "image"),
    ("version: 1\ndisk: 2G\nmemory: 1G\n", "disk"),
    ("version: 1\n---\nversion: 1\n", ""),
    ("version: 1\nname: \"" + "x" * 2000000 + "\"\n", ""),
    ("version: 1\nname: \"\x01\"\n", ""),
    ("a: " * 1000 + "\n", ""),
    ("[" * 20000, ""),
]


@case
def bad_profiles_are_refused_with_their_line(m):
    bad = []
    for text, *words in BAD_PROFILES:
        p = profile(m, text)
        words = [os.path.basename(p) + w if w.startswith(":") else w for w in words]
        try:
            refused(m, ["--profile", p, "--", "true"], *words)
        except AssertionError as e:
            bad.append(f"{text[:60]!r}: {e}")
    ok(not bad, f"{len(bad)} of {len(BAD_PROFILES)}:\n" + "\n".join(bad))


# ---- C29 ----
def in_user_namespace(m, prepare, *flags):
    """A host that lacks something, made for real: a user namespace with the caller's own id in it, in
    which `prepare` takes something away before brig starts, without the capabilities made for that."""
    own = own_build(m)
    inner = (f"{prepare}\nexec setpriv --inh-caps=-all --ambient-caps=-all "
             f"\"$0\" run --tier {m.tier} -- sh -c 'echo RAN'")
    return m.exec(["unshare", "-U", f"--map-user={m.uid}", f"--map-group={m.uid}", "--keep-caps", *flags, "sh", "-c", inner,
                   os.path.join(own, "brig")], timeout=20)


def own_build(m):
    """A build that belongs to the caller: root's would be nobody's in a user namespace."""
    own = os.path.join(m.base, "own")
    if not os.path.isdir(own):
        shutil.copytree(m.bin, own)
        m.give_tree(own)
    return own


@case(modes=("user",))
def c29_user_namespace_works_before_anything_is_taken_away(m):
    """Positive control of the next two."""
    done(in_user_namespace(m, ":"), out=b"RAN\n")


@case(modes=("user",))
def c29_no_user_namespaces(m):
    """No user namespaces to be had: named, non-zero, never run weaker."""
    r = in_user_namespace(m, "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; unshare -U true 2>/dev/null && exit 98")
    eq(r.rc, 125, repr(r))
    ok(b"RAN" not in r.out and b"user namespace" in r.err.lower(), repr(r))
    eq(r.err.count(b"\n"), 1, repr(r))


@case(modes=("user",))
def c29_overmounted_proc(m):
    """As inside Docker: /proc has mounts on it, so a new one cannot be mounted from a user namespace."""
    r = in_user_namespace(m, "mount -t tmpfs none /proc/scsi 2>/dev/null || mount -t tmpfs none /proc/fs || exit 99; "
                          "unshare -Urpf --mount-proc true 2>/dev/null && exit 98", "-mpf", "--mount-proc")
    if r.rc in (98, 99):
        raise Skip(f"this host does not refuse it: {r!r}")
    eq(r.rc, 125, repr(r))
    ok(b"RAN" not in r.out and b"/proc" in r.err.lower(), repr(r))
    eq(r.err.count(b"\n"), 1, repr(r))


@case(modes=("root",))
def root_of_a_user_namespace_only(m):
    """Root in a rootless container is nobody special: it runs as an ordinary user does, or it is told why not."""
    own = own_build(m)
    r = m.exec(["unshare", "-Ur", os.path.join(own, "brig"), "run", "--tier", m.tier, "--", "echo", "x"])
    ok(r.rc == 0 and r.out == b"x\n" or r.rc == 125 and b"namespace" in r.err and r.err.count(b"\n") == 1, repr(r))


@case
def c29_other_tiers_are_not_replaced(m):
    for t in ("userkernel", "microvm"):
        r = m.brig("run", "--tier", t, "--", "sh", "-c", "grep -c . /proc/self/status")
        ok(r.rc == 125 or t == m.tier or r.rc == 0 and b"Seccomp" not in r.out, repr(r))


@case
def brig_init_missing(m):
    """Half an installation: said in one line."""
    os.rename(os.path.join(m.bin, "brig-init"), os.path.join(m.bin, "brig-init.away"))
    try:
        r = m.run("--", "true", env={"BRIG_INIT": ""})
        if r.rc != 0:  # an installed one may stand in
            eq(r.rc, 125, repr(r))
            ok(b"brig-init" in r.err and r.err.count(b"\n") == 1, repr(r))
    finally:
        os.rename(os.path.join(m.bin, "brig-init.away"), os.path.join(m.bin, "brig-init"))


@case
def state_folder_not_writable(m):
    r = m.run("--", "echo", "x", env={"BRIG_STATE": "/proc/nowhere"})
    eq(r.rc, 125, repr(r))
    ok(b"/proc/nowhere" in r.err and r.err.count(b"\n") == 1, repr(r))


@case
def few_descriptors_are_a_clean_error(m):
    r = m.exec(["sh", "-c", 'ulimit -n 8; exec "$0" "$@"', *m.run_argv("--", "echo", "x")])
    ok(r.rc == 125 or (r.rc == 0 and r.out == b"x\n"), repr(r))
    ok(r.err.count(b"\n") <= 1, repr(r))


@case
def closed_standard_descriptors(m):
    """A caller may have closed 0, 1 or 2: no descriptor of ours takes their place."""
    r = m.exec(["sh", "-c", 'exec 0<&-; exec "$0" "$@"', *m.run_argv("--", "echo", "x")])
    done(r, out=b"x\n")
    r = m.exec(["sh", "-c", 'exec 1>&-; exec "$0" "$@"', *m.run_argv("--", "echo", "x")])
    ok(r.rc in (0, 1, 125), repr(r))
    r = m.exec(["sh", "-c", 'exec 2>&-; exec "$0" "$@"', *m.run_argv("--", "sh", "-c", "echo x; echo y >&2")])
    ok(r.rc in (0, 125) and r.out in (b"x\n", b""), repr(r))
    r = m.exec(["sh", "-c", 'exec 0<&- 1>&- 2>&-; exec "$0" "$@"', *m.run_argv("--", "true")])
    ok(r.rc in (0, 125), repr(r))


@case
def a_result_that_cannot_be_written_is_no_success(m):
    with open("/dev/full", "wb") as full:
        p = m.popen(m.run_argv("--json", "--", "true"), stdout=full, stderr=subprocess.PIPE)
        ok(b"writing the result" in p.communicate(timeout=20)[1], "said nothing")
        eq(p.returncode, 125, "exit of --json")
        p = m.popen(m.run_argv("--json", "--", "sh", "-c", "exit 3"), stdout=full, stderr=subprocess.DEVNULL)
        eq(p.wait(timeout=20), 3, "the command's own failure")
    eq(m.run("--result-file", "/dev/full", "--", "true").rc, 125, "exit of --result-file")


@case
def a_result_names_what_is_not_utf8(m):
    image = m.mkdir("image")
    odd = os.fsencode(image) + b"/\xff"
    os.mkdir(odd)
    r = m.exec([*m.run_argv("--json", "--image"), odd, "--", "true"])
    eq(json.loads(r.out)["image"], image + "/\\xff", repr(r))


sys.exit(main())
