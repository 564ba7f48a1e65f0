#!/usr/bin/env python3
"""brig's commands over the daemon, against `brigd --dev` and real sandboxes; and against servers that are no brigd."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import urllib.request

import apilib
from apilib import case, eq, ok, until

BRIG = os.path.join(os.path.dirname(apilib.BRIGD), "brig")
MIB = 1024 * 1024


def skip(why):
    print("not ok 1 - brigd --dev # " + why if os.environ.get("BRIG_MUST_RUN") else "ok 1 - brigd --dev # SKIP " + why)
    print("1..1")
    sys.exit(1 if os.environ.get("BRIG_MUST_RUN") else 0)


class Dev:
    """brigd --dev with a second tenant's key."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="brig-cli-")
        self.err = open(os.path.join(self.dir, "err"), "w+b")  # pylint: disable=consider-using-with
        self.p = subprocess.Popen([apilib.BRIGD, "--dev", "--port", "0"], stdout=subprocess.PIPE, stderr=self.err, text=True,
                                  env={**os.environ, "BRIG_STATE": os.path.join(self.dir, "state")})
        got = dict(re.findall(r"export (\w+)=(\S+)", "".join(self.p.stdout.readline() for _ in range(3))))
        if "E2B_SANDBOX_URL" not in got:
            self.err.seek(0)
            skip(f"brigd does not start: {self.err.read()!r}")
        self.key, self.url = got["E2B_API_KEY"], got["E2B_API_URL"]
        self.home = os.path.join(self.dir, "home")
        os.mkdir(self.home)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C.UTF-8", "BRIG_URL": self.url, "BRIG_API_KEY": self.key,
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
        self.state = next(os.path.dirname(os.readlink(f"/proc/{self.p.pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{self.p.pid}/fd")
                          if os.readlink(f"/proc/{self.p.pid}/fd/{fd}").endswith("/brigd.db"))
        self.other = self.brig("key", "create", "--state", self.state, "--tenant", "rival").stdout.decode().strip()
        self.box = self.brig("create", "--timeout", "20m", "--metadata", "for=all").stdout.decode().strip()

    def samples(self):
        """Figures of D.box over time, oldest first."""
        q = urllib.request.Request(f"{self.url}/sandboxes/{self.box}/metrics", headers={"X-API-KEY": self.key})
        with urllib.request.urlopen(q, timeout=20) as r:
            return json.load(r)

    def brig(self, *args, rc=0, env=None, stdin=b"", **kw):
        r = subprocess.run([BRIG, *args], input=stdin, env={**self.env, **(env or {})}, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=30, check=False, cwd=kw.pop("cwd", self.dir), **kw)
        if rc is not None and r.returncode != rc:
            raise AssertionError(f"brig {args!r}: exit {r.returncode}, want {rc}: {r.stdout[:500]!r} {r.stderr[:800]!r}")
        return r

    def out(self, *args, **kw):
        return self.brig(*args, **kw).stdout.decode()

    def fails(self, *args, says=(), **kw):
        """Exit 125 and one line that says so."""
        r = self.brig(*args, rc=125, **kw)
        text = r.stderr.decode()
        ok(text.startswith("brig: ") and text.count("\n") == 1, text)
        for w in says:
            ok(w in text, f"no {w!r} in {text!r}")
        return text

    def sh(self, script, *opts, **kw):
        return self.brig("exec", *opts, self.box, "--", "sh", "-c", script, **kw)

    def popen(self, *args, **kw):
        return subprocess.Popen([BRIG, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def path(self, name):
        return os.path.join(self.dir, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def get(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def close(self):
        self.p.terminate()
        rc = self.p.wait(timeout=60)
        self.err.seek(0)
        text = self.err.read()
        self.err.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        return rc, text


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a suite under nohup(1) has it ignored, and brig's commands then do as well
D = Dev()


class Fake:
    """A server that answers as it is told: {path prefix: (status, body)}."""

    def __init__(self, answers):
        outer = self
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do(self):
                n = int(self.headers.get("Content-Length") or 0)
                outer.seen.append((self.command, self.path, dict(self.headers), self.rfile.read(n)))
                status, body = next((v for k, v in answers.items() if self.path.startswith(k)), (404, b"{}"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(body)
            do_GET = do_POST = do_DELETE = do

            def log_message(self, *_):
                pass
        self.s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.s.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.s.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.shutdown()
        self.s.server_close()


def envelope(*messages):
    return b"".join(struct.pack(">BI", 2 if m.startswith("!") else 0, len(m.lstrip("!"))) + m.lstrip("!").encode() for m in messages)


# ---- create, ps, kill ----
@case
def create_list_kill():
    sid = D.out("create", "base", "--timeout", "10m", "--env", "A=b c", "-m", "x=1 &=%", "--metadata", "y=ü").strip()
    ok(re.fullmatch(r"i[a-z0-9]{20}", sid), sid)
    rows = D.out("ps").splitlines()
    eq(rows[0].split(), ["ID", "TEMPLATE", "TIER", "STATE", "AGE", "LEFT", "CPUS", "MEMORY"])
    row = next(r for r in rows if r.startswith(sid)).split()
    eq((row[1], row[2], row[3]), ("base", "container", "running"))
    ok(re.fullmatch(r"\d+s", row[4]) and re.fullmatch(r"[89]m|10m", row[5]), row)
    got = {b["sandboxID"]: b for b in json.loads(D.out("ps", "--json"))}
    eq(got[sid]["metadata"], {"x": "1 &=%", "y": "ü"})
    eq(D.out("ps", "-q", "--filter", "x=1 &=%", "--filter", "y=ü").split(), [sid])
    eq(D.out("ps", "-q", "--filter", "x=2"), "")
    eq(D.out("ps", "-q", "--state", "paused"), "")
    eq(sorted(D.out("ps", "-q", "--template", "base").split()), sorted(got))
    eq(D.out("exec", sid, "sh", "-c", "echo $A"), "b c\n")
    D.brig("kill", sid)
    ok(sid not in D.out("ps"), "it is gone")
    D.fails("exec", sid, "true", says=[sid, "no sandbox"])
    made = json.loads(D.out("create", "--json"))
    ok(made["envdAccessToken"] and made["sandboxID"], made)
    D.brig("kill", made["sandboxID"][:12])


@case
def ended_ones_are_listed():
    long, short, other = D.out("create").strip(), D.out("create", "--timeout", "1s").strip(), D.out("create", env={"BRIG_API_KEY": D.other}).strip()
    until(lambda: short not in D.out("ps", "-q"), 20, "its time is over")
    D.brig("kill", long)
    D.brig("kill", other, env={"BRIG_API_KEY": D.other})
    rows = [r.split() for r in D.out("ps", "--all").splitlines()]
    eq(rows[0], ["ID", "TEMPLATE", "TIER", "STATE", "AGE", "LEFT", "CPUS", "MEMORY", "ENDED"])
    ids = [r[0] for r in rows[1:]]
    ok(D.box in ids[:ids.index(long)] and ids.index(long) < ids.index(short) and other not in ids, rows)
    eq(rows[1 + ids.index(D.box)][8], "-")
    for sid, how in ((long, "killed"), (short, "timeout")):
        row = rows[1 + ids.index(sid)]
        ok(row[1] == "base" and row[3:8] == [how, row[4], "-", "-", "-"] and re.fullmatch(r"\d+s", row[4]) and re.fullmatch(r"\d+s", row[8]), row)
    got = {b["sandboxID"]: b for b in json.loads(D.out("ps", "--all", "--json"))}
    ok(got[D.box]["state"] == "running" and got[long]["how"] == "killed", got)
    ok(got[short]["state"] == "ended" and got[short]["startedAt"] < got[short]["endedAt"] and got[short]["result"]["wall_us"] > 0, got[short])
    eq(D.out("ps", "-q", "--all").split(), ids)
    eq(D.out("ps", "-q", "--all", "--template", "base").split(), ids)
    ok(long not in D.out("ps", "-q"), "only by --all")
    for args in (["--state", "running"], ["--filter", "x=1"]):
        D.fails("ps", "--all", *args, says=["--all", args[0]])


@case
def watch_shows_what_changes():
    with D.popen("ps", "--watch", "--json") as p:
        one = json.loads(p.stdout.readline())
        ok(any(b["sandboxID"] == D.box for b in one), one)
        sid = D.out("create").strip()
        until(lambda: any(b["sandboxID"] == sid for b in json.loads(p.stdout.readline())), 20, "the new one is shown")
        p.send_signal(signal.SIGINT)
        eq(p.wait(timeout=20), 0)
    D.brig("kill", sid)


@case
def kill_all_is_the_keys_own():
    sids = [D.out("create", env={"BRIG_API_KEY": D.other}).strip() for _ in range(2)]
    eq(sorted(D.out("ps", "-q", env={"BRIG_API_KEY": D.other}).split()), sorted(sids))
    D.brig("kill", "--all", env={"BRIG_API_KEY": D.other})
    eq(D.out("ps", "-q", env={"BRIG_API_KEY": D.other}), "")
    ok(D.box in D.out("ps", "-q"), "the other tenant's stays")
    D.fails("kill", "--all", "x", says=["--all"])


# ---- whom it talks to ----
@case
def keys():
    sid = D.box
    wrong = {"BRIG_API_KEY": "e2b_" + "0" * 64}
    for args in (["ps"], ["create"], ["kill", sid], ["exec", sid, "true"], ["logs", sid], ["top", sid], ["cp", sid + ":/etc/passwd", "-"]):
        D.fails(*args, env=wrong, says=["does not accept this key", "brig key create"])
    for args in (["exec", sid, "true"], ["cp", sid + ":/etc/passwd", "-"], ["logs", sid], ["pause", sid], ["timeout", sid, "1m"],
                 ["port", sid, "80"], ["kill", sid], ["top", sid], ["resume", sid]):
        D.fails(*args, env={"BRIG_API_KEY": D.other}, says=["no sandbox", sid])
    D.fails("ps", env={"BRIG_API_KEY": "", "E2B_API_KEY": ""}, says=["no key", "--key-file"])
    eq(D.out("ps", "-q", env={"BRIG_API_KEY": "", "E2B_API_KEY": D.key, "BRIG_URL": "", "E2B_API_URL": D.url}).split(), [sid])
    key = D.put("key", D.key.encode() + b"\n")
    os.chmod(key, 0o644)
    D.fails("ps", "--key-file", key, says=["chmod 600"])
    os.chmod(key, 0o600)
    eq(D.out("ps", "-q", "--key-file", key, env=wrong).split(), [sid])
    os.makedirs(os.path.join(D.home, ".config", "brig"))
    os.rename(key, os.path.join(D.home, ".config", "brig", "key"))
    eq(D.out("ps", "-q", env={"BRIG_API_KEY": ""}).split(), [sid])
    shutil.rmtree(os.path.join(D.home, ".config"))


@case
def keys_are_made_listed_revoked():
    key = D.out("key", "create", "--state", D.state, "--tenant", "third", "--name", "n", "--scopes", "read").strip()
    eq(D.out("ps", env={"BRIG_API_KEY": key}).splitlines()[1:], [])
    D.fails("create", env={"BRIG_API_KEY": key}, says=["does not permit"])
    rows = json.loads(D.out("key", "list", "--state", D.state, "--json"))
    mine = [r for r in rows if r["tenant"] == "third"]
    eq([(r["name"], r["scopes"], r["expires"]) for r in mine], [("n", ["read"], None)])
    for name in (b"\xff", b"\x1b[2J", b"x" * 64):
        r = D.brig("key", "create", "--state", D.state, "--name", name, rc=1)
        ok(b"name of a key" in r.stderr and not r.stdout, r)
    ok(key not in json.dumps(rows), "a key is shown once")
    ok("third" in D.out("key", "list", "--state", D.state), "for people too")
    D.brig("key", "revoke", "--state", D.state, mine[0]["id"])
    D.fails("ps", env={"BRIG_API_KEY": key}, says=["does not accept this key"])
    D.brig("key", "revoke", "--state", D.state, mine[0]["id"], rc=1)
    D.fails("key", "remove", "x", says=["revoke"])


@case
def ids_are_found_by_their_beginning():
    eq(D.out("exec", D.box[:8], "echo", "x"), "x\n")
    sid = D.out("create").strip()
    D.fails("exec", "i", "true", says=["2 sandboxes begin with 'i'"])
    near = ("z" if sid[5] != "z" else "y").join((sid[:5], sid[6:]))
    D.fails("kill", near, says=["no sandbox", "did you mean", sid])
    D.fails("exec", "zzz", "true", says=["no sandbox 'zzz'"])
    D.fails("exec", "../x", "true", says=["no sandbox"])
    r = D.brig("kill", "zzz", sid, rc=125)
    ok(r.stderr.decode().count("\n") == 1 and sid not in D.out("ps", "-q"), "the others are still ended")


@case
def daemons_that_are_not_there():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        for args in (["ps"], ["exec", D.box, "true"], ["cp", "/etc/passwd", D.box + ":x"]):
            D.fails(*args, env={"BRIG_URL": f"http://127.0.0.1:{s.getsockname()[1]}"}, says=["no daemon answers", "brigd --dev", "--url"])
    D.fails("ps", "--url", f"unix:{D.dir}/none.sock", says=["no daemon answers"])
    D.fails("ps", "--url", "http://brig.example", says=["--plain"])
    D.fails("ps", "--url", D.url.replace("http:", "https:"), says=["brig: "])
    for status, body, words in ((200, b"<html>", "no brigd"), (200, b'{"a":1}', "no brigd"), (302, b"", "302"), (200, b'[{"sandboxID":"A/B"}]', "no sandbox"),
                                (500, b'{"message":"\\u001b[2J' + b"x" * 900 + b'"}', "\\x1b[2J"), (503, b"[" * 100000, "503")):
        with Fake({"/": (status, body)}) as f:
            text = D.fails("ps", env={"BRIG_URL": f.url}, says=[words])
            ok("\x1b" not in text and len(text) < 700, text)


@case
def hostile_words_are_quoted():
    evil = "\x1b]0;x\x07\n\u202e"
    row = {"sandboxID": "iabc", "templateID": evil, "state": evil, "startedAt": evil, "endAt": 5, "cpuCount": "x", "memoryMB": -1}
    info = {**row, "envdAccessToken": "t"}
    line = {"timestamp": evil, "level": evil, "message": evil * 50}
    with Fake({"/v2/sandboxes?": (200, json.dumps([row]).encode()), "/v2/sandboxes/iabc/logs": (200, json.dumps({"logs": [line]}).encode()),
               "/v2/sandboxes/iabc": (200, json.dumps(info).encode()), "/sandboxes/metrics?": (200, json.dumps({"sandboxes": {"iabc": {"cpuUsedPct": 1e300, "x": evil}}}).encode()),
               "/process.Process/Start": (200, envelope('{"event":{"start":{"pid":1}}}', "!" + json.dumps({"error": {"code": evil, "message": evil}})))}) as f:
        for args, rc in ((["ps"], 0), (["ps", "--json"], 0), (["logs", "iabc"], 0), (["logs", "iabc", "--json"], 0), (["top", "iabc"], 0), (["exec", "iabc", "x"], 125)):
            r = D.brig(*args, rc=rc, env={"BRIG_URL": f.url})
            ok(all(c in b"\n" or 32 <= c < 127 for c in r.stdout + r.stderr), f"{args}: {r.stdout!r} {r.stderr!r}")
        # the key is for the control API only, the sandbox's token for the sandbox only
        for _, path, head, _ in f.seen:
            eq(("X-API-KEY" in head, "X-Access-Token" in head), (False, True) if path.startswith("/process") else (True, False), path)
    for token in ("a\r\nX-Evil: 1", "x" * 600):
        with Fake({"/v2/sandboxes?": (200, json.dumps([row]).encode()), "/v2/sandboxes/iabc": (200, json.dumps({**info, "envdAccessToken": token}).encode())}) as f:
            D.fails("exec", "iabc", "true", env={"BRIG_URL": f.url}, says=["not what brigd says"])


# ---- exec ----
@case
def exec_streams_and_status():
    r = D.sh("echo out; echo err >&2; exit 7", rc=7)
    eq((r.stdout, r.stderr), (b"out\n", b"err\n"))
    eq(D.sh("kill -9 $$", rc=137).stderr, b"")
    D.sh("kill -SEGV $$", rc=139)
    r = D.brig("exec", D.box, "/no/such/program", rc=127)
    ok(b"No such file" in r.stderr, r.stderr)
    D.brig("exec", D.box, "/etc", rc=126)
    eq(D.out("exec", D.box, "--cwd", "/tmp", "-e", "A=1", "--env", "B=x=y", "--", "sh", "-c", "pwd; echo $A $B"), "/tmp\n1 x=y\n")
    eq(D.out("exec", "-u", "root", D.box, "id", "-u"), "0\n")
    D.fails("exec", "-u", "nobody-here", D.box, "true", says=["nobody-here"])
    D.brig("exec", D.box, "--timeout", "300ms", "sleep", "600", rc=124)
    D.fails("exec", D.box, says=["brig exec ID"])
    eq(D.brig("exec", D.box, "--", "cat", stdin=b"not forwarded without -i").stdout, b"")


@case
def exact_bytes_both_ways():
    data = os.urandom(10 * MIB)
    r = D.brig("exec", "-i", D.box, "cat", stdin=data)
    ok(r.stdout == data, f"{len(r.stdout)} bytes came back")
    eq(D.brig("exec", "-i", D.box, "wc", "-c", stdin=data).stdout.split(), [b"%d" % len(data)])
    eq(D.brig("exec", "-i", D.box, "cat").stdout, b"")
    eq(D.brig("exec", "-i", D.box, "--", "sh", "-c", "exec <&-; exit 3", rc=3, stdin=data).stdout, b"")
    r = D.sh("head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero")
    eq((len(r.stdout), len(r.stderr)), (3000000, 3000000))


@case
def a_reader_that_does_not_read():
    with D.popen("exec", D.box, "--", "sh", "-c", "head -c 10485760 /dev/zero; echo all >/tmp/went-on") as p:
        first = p.stdout.read(1)
        time_to_fill = until(lambda: len(select.select([p.stdout], [], [], 0)[0]) == 1, 20, "something waits")
        with open(f"/proc/{p.pid}/statm", encoding="ascii") as f:
            rss = int(f.read().split()[1]) * 4096
        ok(time_to_fill and rss < 64 * MIB, f"{rss} bytes of memory")
        rest = p.stdout.read()
        eq((len(first) + len(rest), p.wait(timeout=30)), (10 * MIB, 0))
    with D.popen("exec", D.box, "--", "sh", "-c", "echo $$ >/tmp/yes.pid; exec yes") as p:
        p.stdout.read(100)
        p.stdout.close()
        eq(p.wait(timeout=30), 128 + signal.SIGPIPE)
    until(lambda: D.sh("kill -0 $(cat /tmp/yes.pid)", rc=None).returncode != 0, 20, "the writer has ended")


def pending(pid, sig):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
    return any(m >> (sig - 1) & 1 for m in masks)


@case
def signals_are_passed_on():
    for sig, rc in ((signal.SIGTERM, 5), (signal.SIGINT, 6), (signal.SIGHUP, 7), (signal.SIGQUIT, 8)):
        script = "trap 'exit 5' TERM; trap 'exit 6' INT; trap 'exit 7' HUP; trap 'exit 8' QUIT; echo ready; while :; do sleep 0.05; done"
        with D.popen("exec", D.box, "--", "sh", "-c", script) as p:
            eq(p.stdout.readline(), b"ready\n")
            p.send_signal(sig)
            try:
                eq(p.wait(timeout=30), rc, sig)
            finally:
                p.kill()
    with D.popen("exec", D.box, "--", "sh", "-c", "trap '' INT; echo $$; while :; do sleep 0.05; done") as p:
        pid = p.stdout.readline().strip().decode()
        p.send_signal(signal.SIGINT)
        until(lambda: not pending(p.pid, signal.SIGINT), 20, "it is taken: two at once are one signal")
        p.send_signal(signal.SIGINT)
        eq(p.wait(timeout=30), 128 + signal.SIGINT)
    until(lambda: D.sh(f"kill -0 {pid}", rc=None).returncode != 0, 20, "it was ended inside too")


@case
def a_terminal():
    main, sub = pty.openpty()
    fcntl.ioctl(sub, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(sub)
    p = subprocess.Popen([BRIG, "exec", "-it", D.box, "--", "sh", "-c", "stty size; until stty size | grep '41 111'; do sleep 0.02; done; read x; echo got=$x; exec cat"],
                         env=D.env, stdin=sub, stdout=sub, stderr=sub, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    seen = b""

    def wait_for(what):
        nonlocal seen

        def more():
            nonlocal seen
            if select.select([main], [], [], 0.1)[0]:
                seen += os.read(main, 65536)
            return what in seen
        until(more, 20, f"{what!r} is seen; so far {seen!r}")
    wait_for(b"30 100")
    ok(termios.tcgetattr(sub)[3] & termios.ICANON == 0, "raw while it runs")
    fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 111, 0, 0))
    os.kill(p.pid, signal.SIGWINCH)
    wait_for(b"41 111")
    os.write(main, b"hello\r")
    wait_for(b"got=hello")
    os.write(main, b"\x03")  # Ctrl-C is the terminal's inside
    eq(p.wait(timeout=30), 128 + signal.SIGINT)
    eq(termios.tcgetattr(sub), before, "the terminal is as it was")
    os.close(main)
    os.close(sub)
    D.fails("exec", "-it", D.box, "true", says=["no terminal"])
    eq(D.brig("exec", "-t", D.box, "--", "sh", "-c", "test -t 1 && echo yes").stdout, b"yes\r\n")


@case
def the_end_of_a_sandbox_is_told():
    sid = D.out("create").strip()
    with D.popen("exec", sid, "--", "sh", "-c", "echo on; sleep 600") as p:
        eq(p.stdout.readline(), b"on\n")
        D.brig("kill", sid)
        eq(p.wait(timeout=30), 125)
        ok(sid.encode() in p.stderr.read(), "it names the sandbox")


@case
def a_daemon_that_lies_to_exec():
    start = '{"event":{"start":{"pid":1}}}'
    info = json.dumps({"sandboxID": "iabc", "envdAccessToken": "t", "state": "running"}).encode()
    for body in (b"", b"x" * 100, envelope(start), envelope(start, start), envelope('{"event":{"data":{"stdout":"YQ=="}}}'), b"\0\x7f\xff\xff\xff",
                 envelope(start, '{"event":{"data":{"pty":"YQ=="}}}'), envelope("!{}"), envelope(start, "!{}")):
        with Fake({"/v2/sandboxes?": (200, b'[{"sandboxID":"iabc"}]'), "/v2/sandboxes/iabc": (200, info), "/process": (200, body)}) as f:
            D.fails("exec", "iabc", "true", env={"BRIG_URL": f.url}, says=["iabc"])


# ---- cp ----
def tree(top):
    """{path: (mode, kind and contents)} of a folder."""
    out = {}
    for d, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(d, n)
            st = os.lstat(p)
            if os.path.islink(p):
                what = ("link", os.readlink(p))
            elif os.path.isdir(p):
                what = ("dir",)
            else:
                with open(p, "rb") as f:
                    what = ("file", f.read(), st.st_mtime_ns)
            out[os.path.relpath(p, top)] = (None if what[0] == "link" else st.st_mode & 0o777, what)
    return out


@case
def folders_there_and_back():
    top = D.path("src")
    os.makedirs(os.path.join(top, "sub", "deep"))
    for name, data in (("a.txt", b"a"), ("sub/b \n\x01ü", b"b" * 70000), ("sub/deep/empty", b"")):
        with open(os.path.join(top, name), "wb") as f:
            f.write(data)
    os.chmod(os.path.join(top, "a.txt"), 0o755)
    os.symlink("../a.txt", os.path.join(top, "sub", "link"))
    D.brig("cp", top, f"{D.box}:/tmp/")
    eq(D.sh("cat /tmp/src/sub/link; stat -c %a /tmp/src/a.txt").stdout, b"a755\n")
    D.brig("cp", f"{D.box}:/tmp/src", D.path("back"))
    eq(tree(D.path("back")), tree(top))
    os.mkdir(D.path("into"))
    D.brig("cp", f"{D.box}:/tmp/src", D.path("into"))
    D.brig("cp", f"{D.box}:/tmp/src/.", D.path("into"))
    eq(sorted(os.listdir(D.path("into"))), ["a.txt", "src", "sub"])
    D.brig("cp", top + "/.", f"{D.box}:contents")
    eq(D.sh("ls ~/contents").stdout, b"a.txt\nsub\n")


@case
def files_and_standard_streams():
    data = os.urandom(10 * MIB)
    src = D.put("big", data)
    for args in (["cp", src, f"{D.box}:/tmp/big"], ["cp", src, f"{D.box}:/tmp"]):
        r = D.brig(*args)
        eq((r.stdout, r.stderr), (b"", b""), "no progress without a terminal")
    D.brig("cp", f"{D.box}:/tmp/big", D.path("big.back"))
    ok(D.get("big.back") == data, "the same bytes")
    ok(D.brig("cp", f"{D.box}:/tmp/big", "-").stdout == data, "to standard output")
    D.brig("cp", "-", f"{D.box}:made/new/file", stdin=data)
    ok(D.brig("cp", f"{D.box}:made/new/file", "-").stdout == data, "from standard input")
    D.brig("cp", "-", f"{D.box}:empty", stdin=b"")
    eq(D.brig("cp", f"{D.box}:empty", "-").stdout, b"")
    D.put("a:b", b"colon")
    D.brig("cp", "./a:b", f"{D.box}:/tmp/colon", cwd=D.dir)
    D.fails("cp", f"{D.box}:/tmp/none", D.path("x"), says=["/tmp/none"])
    D.fails("cp", D.path("none"), f"{D.box}:x", says=["No such file"])
    D.fails("cp", f"{D.box}:/tmp/big", D.path("no/such/folder/x"), says=["folder"])
    D.fails("cp", f"{D.box}:a", f"{D.box}:b", says=["must be here"])
    D.fails("cp", "a", "b", says=["ID:PATH"])
    D.fails("cp", f"{D.box}:/tmp/..", D.dir, says=["no name"])
    D.fails("cp", f"{D.box}:/tmp/big", D.path("small"), "--max-size", "1M", says=["1048576"])
    D.fails("cp", f"{D.box}:/tmp/big", "-", "--max-size", "1M", says=["1048576"])
    ok(not os.path.exists(D.path("small")), "half a file never shows")
    D.fails("cp", src, f"{D.box}:/etc/x", says=["/etc"])
    D.fails("cp", f"{D.box}:/tmp/big", "-", "--user", "nobody-here", says=["nobody-here"])


@case
def progress_is_for_terminals():
    main, sub = pty.openpty()
    with subprocess.Popen([BRIG, "cp", "-", f"{D.box}:/tmp/slow"], env=D.env, stdin=subprocess.PIPE, stderr=sub) as p:
        p.stdin.write(b"x" * MIB)
        p.stdin.flush()
        seen = b""
        while b" MiB" not in seen:  # the input does not end before it is shown
            ok(select.select([main], [], [], 20)[0], f"a line of progress; {seen!r}")
            seen += os.read(main, 65536)
        p.stdin.close()
        eq(p.wait(timeout=30), 0)
    while select.select([main], [], [], 0)[0]:
        seen += os.read(main, 65536)
    ok(seen.startswith(b"\rbrig: copying in: "), seen)
    ok(seen.endswith(b"\r"), "the line is erased")
    os.close(main)
    os.close(sub)


PACK = b"BRGPACK1"


def pack_entry(kind, path, size=0, target=b"", mode=0o644):
    return struct.pack("<BBHIIIQQ", kind, 0, mode, len(path), len(target), 0, size, 0) + path + target


@case
def hostile_trees_stay_in_their_folder():
    end = pack_entry(0, b"", mode=0)
    file = lambda path, data=b"evil": pack_entry(2, path, len(data)) + struct.pack("<I", len(data)) + data + struct.pack("<I", 0)
    root = pack_entry(1, b"", mode=0o755)
    link = lambda path, target: pack_entry(3, path, target=target, mode=0o777)
    info = json.dumps({"sandboxID": "iabc", "envdAccessToken": "t", "state": "running"}).encode()
    top = D.path("jail")
    os.mkdir(top)
    for n, (body, fine) in enumerate((
            (PACK + root + file(b"../evil") + end, False), (PACK + root + file(b"/evil") + end, False),
            (PACK + root + link(b"l", b"..") + file(b"l/evil") + end, False), (PACK + root + link(b"l", b"/") + end, True),
            (PACK + root + file(b"a/../../evil") + end, False), (PACK + file(b"") + file(b"") + end, False),
            (PACK + root + file(b"a"), False), (b"<html>", False), (b"", False),
            (PACK + root + link(b"l", b"sub") + pack_entry(1, b"sub", mode=0o755) + file(b"l/evil") + end, False))):
        before = tree(top)
        dst = os.path.join(top, "dst")
        with Fake({"/v2/sandboxes?": (200, b'[{"sandboxID":"iabc"}]'), "/v2/sandboxes/iabc": (200, info), "/files/pack": (200, body)}) as f:
            r = D.brig("cp", "iabc:/x", dst, rc=None, env={"BRIG_URL": f.url})
        eq((r.returncode == 0), fine, f"{n}: {r.stderr!r}")
        shutil.rmtree(dst, ignore_errors=True)
        if os.path.exists(dst):
            os.unlink(dst)
        eq(tree(top), before, f"{n}: only the destination changed")
    ok(not any("evil" in n for n in os.listdir(D.dir)), os.listdir(D.dir))


# ---- the others ----
@case
def pause_resume_timeout_logs():
    sid = D.out("create", "--timeout", "5m").strip()
    r = D.brig("pause", sid, rc=None)
    if r.returncode == 0:
        D.fails("pause", sid, says=["paused already"])
        for args in (["exec", sid, "true"], ["cp", sid + ":/etc/passwd", "-"], ["port", sid, "80"]):
            D.fails(*args, says=["is paused", "brig resume"])
        row = next(x for x in D.out("ps").splitlines() if x.startswith(sid)).split()
        eq((row[3], row[5]), ("paused", "-"))
        eq(D.out("ps", "-q", "--state", "paused").split(), [sid])
        D.brig("resume", sid, "--timeout", "3m")
        D.fails("resume", sid, says=["not paused"])
        D.brig("exec", sid, "true")
    else:
        ok(b"501" in r.stderr, r.stderr)  # this host cannot freeze, and says so
    D.brig("timeout", sid, "1h")
    ok(re.search(rf"{sid} .*(59m|60m|1h)", D.out("ps")), D.out("ps"))
    for bad in ("x", "0", "100d", "500ms"):
        D.fails("timeout", sid, bad)
    ok("created" in D.out("logs", sid), "what happened is told")
    eq(json.loads(D.out("logs", sid, "--json").splitlines()[0])["level"], "info")
    with D.popen("logs", "-f", sid) as p:
        ok(b"created" in p.stdout.readline(), "from the beginning")
        D.brig("kill", sid)
        eq(p.wait(timeout=30), 0, "it ends with the sandbox")
    D.fails("logs", sid, says=["no sandbox"])


@case
def what_sandboxes_use():
    until(lambda: len(D.samples()) > 1, 30, "there is a history, of which the newest is wanted")
    before = D.samples()[-1]["timestampUnix"]
    rows = D.out("top", "--once").splitlines()
    eq(rows[0].split(), ["ID", "CPU", "CPUS", "MEMORY", "OF", "DISK", "OF"])
    ok(any(re.match(rf"{D.box}  [\d.]+%", r) for r in rows), rows)
    one = json.loads(D.out("top", D.box[:10], "--once", "--json"))
    eq((len(one), one[0]["sandboxID"]), (1, D.box))
    ok(one[0]["memUsed"] > 0 and one[0]["timestampUnix"] >= before, one)
    with Fake({"/v2/sandboxes?": (200, json.dumps([{"sandboxID": f"i{n}"} for n in range(250)]).encode()), "/sandboxes/metrics?": (200, b'{"sandboxes":{"i7":{},"i249":{}}}')}) as f:
        eq([r.split()[0] for r in D.out("top", "--once", env={"BRIG_URL": f.url}).splitlines()], ["ID"] + ["i7"] + ["i249"])
        eq([len(path.split("=")[1].split(",")) for _, path, _, _ in f.seen if "sandbox_ids" in path], [100, 100, 50])


@case
def ports():
    url = D.out("port", D.box, "8000").strip()
    eq(url, f"http://8000-{D.box}.localhost:{D.url.rsplit(':', 1)[1]}")
    eq(json.loads(D.out("port", D.box, "8000", "--json")), {"url": url, "sandboxID": D.box, "port": 8000})
    for bad in ("0", "65536", "x", "-1"):
        D.fails("port", "--", D.box, bad)
    server = D.popen("exec", D.box, "--", "/usr/bin/python3", "-c", """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
s = http.server.HTTPServer(('127.0.0.1', 8000), H)
print('up', flush=True)
s.serve_forever()
""")
    eq(server.stdout.readline(), b"up\n")
    with D.popen("port", D.box, "8000", "--forward", "0") as p:
        at = p.stdout.readline().decode().strip()
        ok(re.fullmatch(r"http://127\.0\.0\.1:\d+", at), at)
        host, port = at[7:].split(":")
        data = os.urandom(MIB)
        for _ in range(3):
            c = apilib.http.client.HTTPConnection(host, int(port), timeout=20)
            c.request("POST", "/x", data, {"E2b-Sandbox-Id": "other", "Connection": "keep-alive"})
            r = c.getresponse()
            eq((r.status, r.getheader("Connection")), (200, "close"))
            ok(r.read() == data, "the same bytes")
            c.close()
        with socket.create_connection((host, int(port)), timeout=20) as s:
            s.sendall(b"nonsense\r\n\r\n")
            ok(s.recv(100).startswith(b"HTTP/1.1 400"), "what is no HTTP is refused")
        D.fails("port", D.box, "8000", "--forward", port, says=["--forward", "in use"])
        p.send_signal(signal.SIGTERM)
        eq(p.wait(timeout=20), 0)
    server.send_signal(signal.SIGTERM)
    eq(server.wait(timeout=20), 128 + signal.SIGTERM)
    server.stdout.close()
    server.stderr.close()


def to_end(s):
    got = b""
    while d := s.recv(65536):
        got += d
    return got


@case
def another_protocol_through_a_forwarded_port():
    """Both ways at once, more than any buffer holds; and when the program declines, what was said on is nobody's request."""
    server = D.popen("exec", D.box, "--", "/usr/bin/python3", "-c", """
import socket
s = socket.create_server(('127.0.0.1', 8001))
print('up', flush=True)
while True:
    c, head = s.accept()[0], b''
    while not head.endswith(b'\\r\\n\\r\\n'):
        head += c.recv(1)
    if head.startswith(b'GET /no'):
        c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nno')
    else:
        c.sendall(b'HTTP/1.1 101 S\\r\\nUpgrade: echo\\r\\nConnection: upgrade\\r\\n\\r\\n')
        while d := c.recv(65536):
            c.sendall(d)
    c.close()
""")
    eq(server.stdout.readline(), b"up\n")
    ask = "GET {} HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
    with D.popen("port", D.box, "8001", "--forward", "0") as p:
        at = ("127.0.0.1", int(p.stdout.readline().decode().strip().rsplit(":", 1)[1]))
        with socket.create_connection(at, timeout=60) as s:
            data = os.urandom(24 * MIB)
            w = threading.Thread(target=s.sendall, args=(ask.format("/").encode() + data,))
            w.start()
            got = bytearray()
            while b"\r\n\r\n" not in got or len(got) < len(data) + got.index(b"\r\n\r\n") + 4:
                got += s.recv(1 << 18) or exit("it ended")
            w.join()
            ok(got.startswith(b"HTTP/1.1 101 ") and got.endswith(data), "the same bytes")
        with socket.create_connection(at, timeout=60) as s:
            s.sendall((ask.format("/no") + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n").encode())
            got = to_end(s)
            ok(got.startswith(b"HTTP/1.1 200 ") and got.endswith(b"\r\n\r\nno") and got.count(b"HTTP/1.1") == 1, got)
        p.send_signal(signal.SIGTERM)
        eq(p.wait(timeout=20), 0)
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=20)


@case
def words_that_are_wrong():
    for args, words in ((["create", "none"], ["template", "none"]), (["create", "a", "b"], ["one template"]), (["create", "--timeout", "x"], ["--timeout"]),
                        (["create", "--timeout", "9999d"], ["brig: "]), (["create", "--env", "X"], ["NAME=VALUE"]), (["create", "--on-timeout", "x"], ["kill or pause"]),
                        (["create", "--no-network", "--allow", "a.b"], ["--no-network"]), (["ps", "x"], ["no operands"]), (["ps", "--sate"], ["--state"]),
                        (["kill"], ["--all"]), (["exec", "x", "--tmeout", "1"], ["--timeout"]), (["timeout", "x"], ["10m"]), (["key"], ["create, list"]), (["kill", D.box, "--help"], ["brig help kill"])):
        D.fails(*args, says=words)
    D.brig("exec", D.box, "true")
    for name in ("create", "ps", "exec", "cp", "logs", "kill", "pause", "resume", "timeout", "port", "top", "key"):
        eq(D.out(name, "--help"), D.out("help", name), name)


def main():
    rc = apilib.main()
    code, text = D.close()
    if code != 0 or text:
        print(f"# brigd ended with {code}: {text!r}")
        return 1
    return rc


if __name__ == "__main__":
    sys.exit(main())
