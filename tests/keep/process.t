#!/usr/bin/python3
"""process.Process of a keeper: every method, its errors, and what happens to streams and trees."""
import base64
import hashlib
import os
import signal
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok, until  # noqa: E402
from callclient import STREAM, Cut, Keeper, envelope  # noqa: E402

P = "process.Process/"


def start(k, script, user=None, seconds=30, pty=None, stdin=False, tag=None, fields=None, **process):
    req = {"process": {"cmd": "/bin/bash", "args": ["-c", script], **process}, "stdin": stdin}
    if pty:
        req["pty"] = {"size": {"cols": pty[0], "rows": pty[1]}}
    if tag:
        req["tag"] = tag
    return k.stream(P + "Start", req, user, seconds, **(fields or {}))


def first(c):
    flags, m = c.message()
    ok(flags == 0 and "start" in m.get("event", {}), f"first message {flags} {m}")
    return m["event"]["start"]["pid"]


def rest(c):
    """(stdout, stderr, pty, end event or error, keepalives) up to the end of the stream."""
    out, alive, end = {"stdout": b"", "stderr": b"", "pty": b""}, 0, None
    while (m := c.message()) is not None:
        flags, o = m
        if flags == 2:
            ok(c.message() is None, "something after the end")
            return out["stdout"], out["stderr"], out["pty"], o.get("error") or end, alive
        ok(end is None, f"{o} after the end event")
        e = o["event"]
        if "data" in e:
            for name, v in e["data"].items():
                out[name] += base64.b64decode(v)
        elif "keepalive" in e:
            alive += 1
        else:
            end = e["end"]
    raise AssertionError(f"no end envelope; {out} {end}")


def run(k, script, user=None, **more):
    with start(k, script, user, **more) as c:
        eq((c.status, c.fields["content-type"]), (200, STREAM))
        first(c)
        return rest(c)


def b64(data):
    return base64.b64encode(data).decode()


@case
def ends(m):
    with Keeper(m) as k:
        eq(run(k, "echo out; echo err >&2")[:4], (b"out\n", b"err\n", b"", {"exitCode": 0, "exited": True, "status": "exit status 0"}))
        eq(run(k, "exit 3")[3], {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"})
        eq(run(k, "exit 255")[3]["exitCode"], 255)
        eq(run(k, "kill -SEGV $$")[3], {"exitCode": -1, "exited": False, "status": "signal: segmentation fault",
                                       "error": "signal: segmentation fault"})
        eq(run(k, r"printf '\xff\xfe\x00\x80'; printf 'a\n\nb\n\n\nc\n'")[0], b"\xff\xfe\0\x80a\n\nb\n\n\nc\n")
        eq(run(k, "printf no-newline")[0], b"no-newline")
        eq(run(k, "sleep 600 & echo hi", seconds=10)[0], b"hi\n", "a background job holds nothing up")
        eq(run(k, "cat", seconds=10)[3]["exitCode"], 0, "no stdin")


@case(modes=("root",))
def leaves_do_not_stay(m):
    """The cgroup of a program goes when it has ended; some are there for the next."""
    with Keeper(m) as k:
        sid = run(k, "echo $E2B_SANDBOX_ID")[0].decode().strip()
        leaves = lambda: [os.path.basename(x) for x, _, _ in os.walk("/sys/fs/cgroup") if f"/{sid}/exec-" in x]
        ran = set()
        for n in range(1, 12):
            out = run(k, "echo $(< /proc/self/cgroup)")[0].decode()
            own = [x.rsplit("/", 1)[1] for x in out.split() if "/exec-" in x]
            ok((own and own[0] not in ran) or not leaves(), f"{n}: {out}")
            ran.update(own)
        until(lambda: len(leaves()) <= 4 and not ran & set(leaves()), 10, lambda: f"leaves: {leaves()}, ran in {ran}")


@case
def environment(m):
    with Keeper(m, env=["A=spec", "B=spec", "C=spec"]) as k:
        eq(k.control("claim", {"envVars": {"B": "claim", "C": "claim"}})[0], 204)
        out = run(k, "env -0", envs={"C": "own", "D": "a=b\nc"})[0]
        env = dict(x.split(b"=", 1) for x in out.split(b"\0") if x)
        for name, v in {b"A": b"spec", b"B": b"claim", b"C": b"own", b"D": b"a=b\nc", b"E2B_SANDBOX": b"true",
                        b"E2B_TEMPLATE_ID": b"base", b"USER": b"user", b"HOME": b"/home/user", b"LOGNAME": b"user"}.items():
            eq(env.get(name), v, name)
        ok(env[b"PATH"] and env[b"E2B_SANDBOX_ID"], env)
        eq(run(k, "echo $C")[0], b"claim\n", "the variables of one command are its own")


@case
def users_and_folders(m):
    with Keeper(m) as k:
        eq(run(k, "id -un; pwd")[0], b"user\n/home/user\n")
        eq(run(k, "pwd", cwd="/tmp")[0], b"/tmp\n")
        run(k, "mkdir -p sub/deep")
        for cwd, want in {"sub": "/home/user/sub", "~/sub/deep": "/home/user/sub/deep", "~": "/home/user", "sub/../sub/./": "/home/user/sub"}.items():
            eq(run(k, "pwd", cwd=cwd)[0].decode(), want + "\n", cwd)
        with start(k, "pwd", cwd="/no/such") as c:
            eq(c.message(), (2, {"error": {"code": "invalid_argument", "message": "cwd '/no/such' does not exist"}}))
        for user in ("nobody-there", "a b", "x" * 250):
            with start(k, "id", user) as c:
                eq(c.message(), (2, {"error": {"code": "unauthenticated", "message": f"invalid username: '{user}'"}}))
        for _ in range(40):  # the start is told first, however soon it fails
            with k.stream(P + "Start", {"process": {"cmd": "/no/such/program"}}) as c:
                first(c)
                eq(rest(c)[3]["code"], "invalid_argument")
        if m.name == "root":
            eq(run(k, "id -u; pwd", "root")[0], b"0\n/root\n")
            run(k, "echo extra:x:1234:1234::/tmp:/bin/sh >> /etc/passwd || true", "root")


@case
def list_connect_signal(m):
    with Keeper(m) as k:
        with start(k, "trap 'echo term; exit 9' TERM; echo up; while :; do sleep 0.05; done", tag="t1", cwd="/tmp") as c:
            pid = first(c)
            eq(base64.b64decode(c.message()[1]["event"]["data"]["stdout"]), b"up\n")
            status, o = k.rpc(P + "List", {})
            eq((status, len(o["processes"])), (200, 1))
            p = o["processes"][0]
            eq((p["pid"], p["tag"], p["config"]["cmd"], p["config"]["cwd"], p["config"]["args"][0]), (pid, "t1", "/bin/bash", "/tmp", "-c"))
            with k.stream(P + "Connect", {"process": {"tag": "t1"}}) as late:
                eq(first(late), pid)
                eq(k.rpc(P + "SendSignal", {"process": {"pid": str(pid)}, "signal": "SIGNAL_SIGTERM"}), (200, {}))
                for x in (c, late):
                    got = rest(x)
                    eq((got[0], got[3]["exitCode"]), (b"term\n", 9))
        eq(k.rpc(P + "List", {})[1], {"processes": []})
        with k.stream(P + "Connect", {"process": {"pid": pid}}) as c:
            eq(first(c), pid)
            eq(rest(c)[3]["exitCode"], 9, "an end that came before")
        for method in ("SendSignal", "SendInput", "CloseStdin", "Update"):
            req = {"process": {"pid": 999999}, "signal": "SIGNAL_SIGKILL", "input": {"stdin": ""}}
            eq(k.rpc(P + method, req), (404, {"code": "not_found", "message": "process with pid 999999 not found"}), method)
            eq(k.rpc(P + method, {"process": {}, "signal": 9})[0], 400, method)
        with k.stream(P + "Connect", {"process": {"tag": "none"}}) as c:
            eq(c.message(), (2, {"error": {"code": "not_found", "message": "process with tag 'none' not found"}}))


TREES = {
    "children": "for i in 1 2 3; do sleep 600 & done; echo up; wait",
    "busy": "for i in 1 2; do (while :; do :; done) & done; echo up; sleep 600",
    "setsid": "setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600; :' & echo up; sleep 600",
    "double_fork": "(setsid sh -c '(sleep 600 &) ; (sleep 600 &)' &) ; (sleep 600 &) ; echo up; sleep 600",
}


def sleepers(k):
    return run(k, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | head -c 60; echo; done | grep -c 'sleep 600\\|while :' || true")[0]


@case
def kill_is_for_the_tree(m):
    with Keeper(m) as k:
        for name, script in TREES.items():
            with start(k, script) as c:
                pid = first(c)
                c.message()
                eq(k.rpc(P + "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}), (200, {}), name)
                eq(rest(c)[3], {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}, name)
            until(lambda: sleepers(k) in (b"1\n", b"2\n"), 20, lambda: f"{name}: {sleepers(k)}")  # grep and its shell


@case
def timeout_kills_the_tree(m):
    with Keeper(m) as k:
        with start(k, TREES["double_fork"], fields={"connect_timeout_ms": 500}) as c:
            first(c)
            eq(rest(c)[3]["code"], "deadline_exceeded")
        until(lambda: sleepers(k) in (b"1\n", b"2\n"), 20, lambda: f"{sleepers(k)}")
        # a client that goes does not stop the clock
        with start(k, "sleep 600", fields={"connect_timeout_ms": 500}) as c:
            pid = first(c)
        with k.stream(P + "Connect", {"process": {"pid": pid}}) as c:
            first(c)
            eq(rest(c)[3]["status"], "signal: killed")


@case
def keepalive_after_start(m):
    with Keeper(m) as k:
        eq(run(k, "sleep 2.5", fields={"keepalive_ping_interval": 1})[4] >= 2, True)


@case
def stdin(m):
    data = os.urandom(1 << 20)
    with Keeper(m) as k:
        def send(pid, method="SendInput", **more):
            return k.rpc(P + method, {"process": {"pid": pid}, **more})
        with start(k, "wc -c; sleep 600", stdin=True) as c:
            pid = first(c)
            eq(send(pid, input={"stdin": b64(data)}), (200, {}))
            eq(send(pid, input={"stdin": ""}), (200, {}))
            eq(send(pid, "CloseStdin"), (200, {}))
            eq(base64.b64decode(c.message()[1]["event"]["data"]["stdout"]).strip(), b"1048576")
            eq(send(pid, "CloseStdin")[0], 200, "again")
            send(pid, "SendSignal", signal=9)
        with start(k, "cat; sleep 0.2", stdin=True) as c:
            pid = first(c)
            eq(send(pid, input={"pty": b64(b"x")})[0], 500)
            eq(send(pid, input={"stdin": "%%%"})[0], 400)
            eq(send(pid, input={})[0], 400)
            eq(send(pid, input={"stdin": b64(b"\xff\0x")}), (200, {}))
            send(pid, "CloseStdin")
            eq(rest(c)[0], b"\xff\0x")
        with start(k, "exec 0<&-; echo closed; sleep 60", stdin=True) as c:
            pid = first(c)
            c.message()
            until(lambda: send(pid, input={"stdin": b64(b"x")})[0] == 500, 20, "a closed stdin is told")
            send(pid, "SendSignal", signal=9)
        with start(k, "sleep 60") as c:
            pid = first(c)
            eq(send(pid, input={"stdin": b64(b"x")})[0], 500, "never asked for")
        # a writer that is held up by a program that does not read
        with start(k, "sleep 600", stdin=True) as c:
            pid = first(c)
            got = []
            w = threading.Thread(target=lambda: got.append(send(pid, input={"stdin": b64(data)})))
            w.start()
            send(pid, "SendSignal", signal="SIGNAL_SIGKILL")
            w.join(20)
            ok(got and got[0][0] in (500, 404), got)


@case
def stream_input(m):
    with Keeper(m) as k:
        with start(k, "sha256sum", stdin=True) as c:
            pid = first(c)
            with k.call("POST", "/envd/" + P + "StreamInput", {"content-type": STREAM}) as w:
                w.body(envelope({"start": {"process": {"pid": pid}}}) + envelope({"keepalive": {}}))
                for i in range(20):
                    w.body(envelope({"data": {"input": {"stdin": b64(bytes([65 + i]) * 70000)}}}))
                w.end().reply()
                eq((w.message(), w.message(), w.message()), ((0, {}), (2, {}), None))
            k.rpc(P + "CloseStdin", {"process": {"pid": pid}})
            want = hashlib.sha256(b"".join(bytes([65 + i]) * 70000 for i in range(20))).hexdigest()
            eq(rest(c)[0].split()[0].decode(), want)
        for bad in (envelope({"data": {"input": {"stdin": ""}}}), b"\x01\0\0\0\0", b"\0\xff\xff\xff\xff", envelope(b"{"),
                    envelope({"start": {"process": {"pid": 1}}})[:-3]):
            with k.call("POST", "/envd/" + P + "StreamInput", {"content-type": STREAM}) as w:
                w.body(bad).end().reply()
                eq((w.status, w.message()[1]["error"]["code"]), (200, "invalid_argument"), bad)


@case
def pty(m):
    with Keeper(m) as k:
        with start(k, "stty size; read x; stty size; echo got-$x; tty", pty=(80, 24)) as c:
            pid = first(c)
            eq(k.rpc(P + "CloseStdin", {"process": {"pid": pid}})[0], 500)
            eq(k.rpc(P + "SendInput", {"process": {"pid": pid}, "input": {"stdin": b64(b"x")}})[0], 500)
            eq(k.rpc(P + "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 99, "rows": 41}}}), (200, {}))
            eq(k.rpc(P + "SendInput", {"process": {"pid": pid}, "input": {"pty": b64(b"hello\n")}}), (200, {}))
            got = rest(c)
            ok(b"41 99" in got[2] and b"got-hello" in got[2] and b"/dev/pts/" in got[2], got)
            eq((got[0], got[3]["exitCode"]), (b"", 0))
        with start(k, "sleep 600") as c:
            pid = first(c)
            eq(k.rpc(P + "Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 9, "rows": 4}}})[0], 500)


@case
def client_gone(m):
    with Keeper(m) as k:
        with start(k, "for i in $(seq 40); do head -c 100000 /dev/zero; sleep 0.01; done; echo done > /tmp/flag") as c:
            first(c)
        until(lambda: run(k, "cat /tmp/flag 2>/dev/null")[0] == b"done\n", 20, "it went on and was not held up")


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int([x for x in f if x.startswith("VmRSS")][0].split()[1])


@case
def unread_output(m):
    with Keeper(m) as k:
        run(k, "true")
        before = rss_kib(k.p.pid)
        script = "head -c 10485760 /dev/zero | tr '\\0' A"
        many = [start(k, script) for _ in range(3)]
        # others are served meanwhile
        eq(run(k, "echo hi")[0], b"hi\n")
        grown = rss_kib(k.p.pid) - before
        ok(grown < 16 * 1024, f"grew by {grown} KiB for three unread outputs")
        for c in many:
            first(c)
            out = rest(c)[0]
            eq((len(out), hashlib.sha256(out).hexdigest()),
               (10485760, "eb6183addde05c2196ce25e6fa34a4baf20f9bf30d33892f452a9a1e88c9a472"))
            c.close()


@case
def killed_sandbox_cuts(m):
    with Keeper(m) as k:
        with start(k, "sleep 600") as c:
            first(c)
            k.p.send_signal(signal.SIGTERM)
            try:
                ok(False, f"got {c.message()}")
            except Cut:
                pass
        eq(k.how()["how"], "killed")


@case
def malformed(m):
    with Keeper(m) as k:
        for body in (b"", b"\0", b"\0\0\0\0\5{}", envelope(b"[]"), envelope(b"{"), envelope({}) * 2, b"\x01\0\0\0\2{}",
                     b"\0\xff\xff\xff\xff{}", envelope({"process": {"cmd": 5}}), envelope({"process": {"cmd": "x", "args": [1]}}),
                     envelope({"process": {"cmd": "x", "envs": {"A=": "1"}}}), envelope(b'{"process":{"cmd":"a","cmd":"b"}}'),
                     envelope({"process": {"cmd": "x"}, "pty": {}}), envelope({"process": {"cmd": "x", "cwd": "/" + "y" * 5000}}),
                     envelope(b"[" * 100000), envelope(b'{"a":"\xff"}')):
            with k.call("POST", "/envd/" + P + "Start", {"content-type": STREAM}) as c:
                c.body(body).end().reply()
                flags, o = c.message()
                eq((c.status, flags, o["error"]["code"]), (200, 2, "invalid_argument"), body[:40])
        for body in (b"[]", b"{", b"\xff", b'{"a":1,"a":2}'):
            status, o = k.rpc(P + "List", body)
            eq((status, o["code"]), (400, "invalid_argument"), body)
        eq(k.rpc(P + "List", b"")[0], 200, "nothing is an empty message")
        eq(k.ask("POST", "/envd/" + P + "List", b"{}", {"content-type": "text/plain"})[0], 415)
        eq(k.ask("POST", "/envd/" + P + "Start", envelope({}), {"content-type": "application/json"})[0], 415)
        eq(k.ask("GET", "/envd/" + P + "List")[0], 405)
        eq(k.rpc(P + "Nothing", {})[0], 404)
        big = b'{"a":"' + b"x" * (5 << 20) + b'"}'
        eq(k.rpc(P + "List", big)[1]["code"], "resource_exhausted")
        with start(k, "true", args=["-c", "x" * 140000]) as c:
            eq(c.message()[1]["error"]["code"], "invalid_argument", "an argument over the kernel's limit")


@case
def many_at_once(m):
    with Keeper(m) as k:
        cs = [start(k, f"sleep 0.3; echo {i}") for i in range(60)]
        for i, c in enumerate(cs):
            first(c)
            eq(rest(c)[0], b"%d\n" % i)
            c.close()
        for i in range(40):
            eq(run(k, "exit 1")[3]["exitCode"], 1)


@case(modes=("root",))
def those_that_ended_make_room(m):
    """More than 1024 within half a minute, of which the newest are still known, and one that lives is."""
    with Keeper(m) as k, start(k, "sleep 600") as living:
        lives, last = first(living), None
        for _ in range(1100):
            with k.stream(P + "Start", {"process": {"cmd": "/bin/true"}, "stdin": False}, None, 30) as c:
                last = first(c)
                ok(rest(c)[3]["exited"], "ended")
        for pid in (lives, last):
            with k.stream(P + "Connect", {"process": {"pid": pid}}, None, 30) as c:
                eq(first(c), pid)


sys.exit(main(after_each=nothing_left))
