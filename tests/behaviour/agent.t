#!/usr/bin/python3
"""Several requests in one living sandbox (stdin-broken event of C06, C04, C15, C16 by protocol, C17, C20)."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok  # noqa: E402
from multi import WATCH, Multi, records  # noqa: E402

MIB = 1 << 20
DONE, EXIT, SIGNAL, ERROR = 0, 1, 2, 3


@case
def many_execs_one_after_the_other(m):
    with Multi(m) as s:
        for i in range(40):
            r, out = s.run(f"echo {i}; exit {i}")
            eq((r["how"], r["code"], out), (EXIT, i, b"%d\n" % i), f"exec {i}")


@case
def many_execs_at_once(m):
    with Multi(m) as s:
        ids = [s.sh(f"read x; echo $x {i}; exit {i}", flags=["STDIN"]) for i in range(30)]
        for i, sid in enumerate(ids):
            s.send("write", id=sid, hex=b"hello\n".hex())
        for i, sid in enumerate(ids):
            eq(s.result(sid)["code"], i, "exit")
            eq(s.out[sid][1], b"hello %d\n" % i, "output")


@case
def c06_stdin_broken_is_an_event(m):
    """1 MiB to `head -c 1`: the first byte, exit 0, the writer is told, the sandbox goes on."""
    with Multi(m) as s:
        sid = s.exec("head", "-c", "1", flags=["STDIN"])
        s.send("fill", id=sid, n=MIB)
        s.wait(lambda e: e["ev"] == "broken" and e["id"] == sid, 5, "stdin broken")
        r = s.result(sid)
        eq((r["how"], r["code"], s.out[sid][1]), (EXIT, 0, b"A"), "head -c 1")
        eq(s.run("echo usable")[1], b"usable\n", "afterwards")


@case
def c05_stdin_of_one_mib(m):
    with Multi(m) as s:
        sid = s.exec("wc", "-c", flags=["STDIN"])
        s.send("fill", id=sid, n=MIB)
        eq((s.result(sid)["code"], s.out[sid][1]), (0, b"1048576\n"), "wc -c")


@case
def a_stalled_reader_blocks_nobody_else(m):
    with Multi(m) as s:
        slow = s.sh("head -c 3000000 /dev/zero", count=True)
        s.send("stall", id=slow)
        for i in range(5):
            eq(s.run(f"head -c 500000 /dev/zero | wc -c")[1], b"500000\n", "beside a stalled stream")
        r, n = s.run("head -c 2000000 /dev/zero", count=True)
        eq(r["out"], 2000000, "bytes beside a stalled stream")
        s.send("resume", id=slow)
        eq(s.result(slow)["out"], 3000000, "bytes of the stalled stream")


@case
def a_stalled_stdin_blocks_nobody_else(m):
    with Multi(m) as s:
        slow = s.sh("sleep 60", flags=["STDIN"])
        s.send("fill", id=slow, n=20 * MIB)
        eq(s.run("echo hi", 3)[1], b"hi\n", "beside a full stdin")
        s.send("reset", id=slow)
        s.result(slow)


@case
def c16_terminal(m):
    with Multi(m) as s:
        prog = ("import os,signal,time\ngot=[]\nsignal.signal(signal.SIGWINCH, lambda *a: got.append(1))\n"
                "print(os.get_terminal_size().lines, os.get_terminal_size().columns, flush=True)\n"
                "while not got: time.sleep(0.01)\nos.system('stty size')")
        sid = s.exec("/usr/bin/python3", "-c", prog, flags=["TTY", "STDIN"], rows=24, cols=80)
        s.output(sid, b"24 80")
        s.send("resize", id=sid, rows=41, cols=99)
        r = s.result(sid)
        eq((r["how"], r["code"]), (EXIT, 0), "exit")
        ok(b"41 99" in s.out[sid][1], f"{s.out[sid]}")


@case
def c16_terminal_hangs_up(m):
    """The end of a terminal's program ends the stream although a background job has it open."""
    with Multi(m) as s:
        sid = s.sh("trap '' HUP; sleep 60 & echo hi", flags=["TTY", "STDIN"])
        r = s.result(sid, 20)
        eq(r["code"], 0, "exit")
        ok(b"hi" in s.out[sid][1], f"{s.out[sid]}")


@case
def signals(m):
    with Multi(m) as s:
        sid = s.sh("trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done")
        s.output(sid, b"up")
        s.send("signal", id=sid, sig=10)
        eq((s.result(sid)["code"], s.out[sid][1]), (5, b"up\ngot\n"), "SIGUSR1")
        sid = s.sh("sleep 60")
        s.wait(lambda e: e["ev"] == "started" and e["id"] == sid, 20)
        s.send("signal", id=sid, sig=15)
        r = s.result(sid)
        eq((r["how"], r["code"]), (SIGNAL, 15), "SIGTERM")


@case
def errors_of_an_exec(m):
    with Multi(m) as s:
        r = s.result(s.exec("/no/such/program"))
        eq((r["how"], r["err"]), (ERROR, 2), "ENOENT")
        r = s.result(s.exec("/etc/passwd"))
        eq((r["how"], r["err"]), (ERROR, 13), "EACCES")
        r = s.result(s.exec("true", cwd="/no/such/folder"))
        eq((r["how"], r["err"]), (ERROR, 2), "ENOENT of the folder")
        r = s.result(s.exec("true", user="nosuchuser"))
        eq(r["how"], ERROR, "unknown user")
        eq(s.run("echo still")[1], b"still\n", "afterwards")


@case
def c13_argument_too_long(m):
    """131,071 bytes and the NUL fit; the kernel refuses more, and the request's own table does too."""
    with Multi(m) as s:
        r, out = s.run("printf %s \"$X\" | wc -c", env=["X=" + "a" * 131069])
        ok(r["how"] == EXIT and out == b"131069\n" or r["how"] == ERROR, f"{r} {out!r}")
        s.send("open", id=400, kind="EXEC", argv=["echo", "a" * 131072])
        e = s.wait(lambda e: e.get("id") == 400 and (e["ev"] == "result" or e["ev"] == "open" and e["rc"] < 0), 20)
        ok(e["ev"] == "open" or e["how"] == ERROR and e["err"] == 7, f"{e}")
        eq(s.run("echo still")[1], b"still\n", "afterwards")
        r = s.result(s.exec("echo", *["a" * 100000] * 30))
        ok(r["how"] == ERROR and r["err"] == 7, f"3 MB of arguments: {r}")


# ---- files ----
@case
def c04_files_are_bytes(m):
    with Multi(m) as s:
        sid = s.open("WRITE", path="/workspace/f", mode=0o640)
        s.send("write", id=sid, hex="89504e47")
        s.send("eof", id=sid)
        eq(s.result(sid)["how"], DONE, "write")
        r, data = s.ask("READ", path="/workspace/f")
        eq((r["how"], data), (DONE, b"\x89PNG"), "read")
        eq(s.run("stat -c '%a %U' /workspace/f; od -An -tx1 /workspace/f")[1], b"640 user\n 89 50 4e 47\n", "inside")
        r, data = s.ask("READ", path="/workspace/f", offset=1, length=2)
        eq(data, b"PN", "range")


@case
def files_large_and_small(m):
    with Multi(m) as s:
        sid = s.open("WRITE", path="/workspace/deep/er/f", mode=0o644, flags=["PARENTS"])
        s.send("fill", id=sid, n=5 * MIB)
        eq(s.result(sid)["how"], DONE, "write")
        eq(s.run("stat -c %s /workspace/deep/er/f")[1], b"5242880\n", "size")
        r, _ = s.ask("READ", path="/workspace/deep/er/f", count=True)
        eq(r["out"], 5 * MIB, "bytes read")
        r, data = s.ask("STAT", path="/workspace/deep/er/f")
        rec = records(data)[0]
        eq((rec["SIZE"], rec["MODE"] & 0o777, rec["UID"]), (5 * MIB, 0o644, 1000), "stat")


@case
def list_move_remove(m):
    with Multi(m) as s:
        s.run("mkdir -p d/e; echo x > d/f; ln -s f d/l; echo y > d/e/g")
        r, data = s.ask("LIST", path="/workspace/d", depth=1)
        eq(sorted(x["NAME"] for x in records(data)), [b"e", b"f", b"l"], "names")
        r, data = s.ask("LIST", path="/workspace/d", depth=9)
        ok(b"e/g" in [x["NAME"] for x in records(data)], f"{records(data)}")
        eq(s.ask("MOVE", path="/workspace/d/f", path2="/workspace/d/e/h")[0]["how"], DONE, "move")
        r = s.ask("REMOVE", path="/workspace/d")[0]
        eq((r["how"], r["err"]), (ERROR, 39), "ENOTEMPTY")
        eq(s.ask("REMOVE", path="/workspace/d", flags=["RECURSIVE"])[0]["how"], DONE, "remove")
        eq(s.run("ls")[1], b"", "left")
        eq(s.ask("MKDIR", path="/workspace/a/b/c", mode=0o750, flags=["PARENTS"])[0]["how"], DONE, "mkdir")
        eq(s.run("stat -c '%a %U' a/b/c")[1], b"750 user\n", "mode")
        r = s.ask("STAT", path="/workspace/none")[0]
        eq((r["how"], r["err"]), (ERROR, 2), "ENOENT")


@case
def files_as_the_sandbox_user(m):
    """File requests have the user's rights, not the agent's."""
    with Multi(m) as s:
        for kind, args in (("WRITE", {"path": "/etc/evil", "mode": 0o644}), ("MKDIR", {"path": "/usr/evil", "mode": 0o755}),
                           ("REMOVE", {"path": "/etc/passwd"}), ("READ", {"path": "/proc/1/environ"}),
                           ("READ", {"path": "/proc/1/mem"}), ("LIST", {"path": "/proc/1/fd", "depth": 1})):
            sid = s.open(kind, **args)
            if kind == "WRITE":
                s.send("eof", id=sid)
            r = s.result(sid)
            eq(r["how"], ERROR, f"{kind} {args}: {r}")


@case
def c20_links_stay_inside(m):
    """Links of the workspace are resolved inside; nothing of the host is read or made."""
    outside = m.mkdir("outside")
    mark = m.put("mark", "HOST-SECRET")
    with Multi(m) as s:
        s.run(f"ln -s /etc/shadow leak; ln -s {outside}/new d; ln -s {mark} mark; ln -s / root; ln -s /proc/self/root pr")
        for path in ("leak", "mark", f"root{mark}", f"pr{mark}", f"../../../..{mark}"):
            r, data = s.ask("READ", path="/workspace/" + path)
            ok(r["how"] == ERROR and b"HOST-SECRET" not in data, f"{path}: {r} {data!r}")
        for path in ("d", "d/x", "leak"):
            sid = s.open("WRITE", path="/workspace/" + path, mode=0o644, flags=["PARENTS"])
            s.send("write", id=sid, hex="78")
            s.send("eof", id=sid)
            s.result(sid)
        eq(os.listdir(outside), [], "made on the host")
        with open("/etc/shadow", "rb") if os.geteuid() == 0 else open("/etc/passwd", "rb") as f:
            ok(f.read(1) != b"x", "the host's file was written")
        sid = s.open("WRITE", path="/workspace/ok", mode=0o644)
        s.send("eof", id=sid)
        eq(s.result(sid)["how"], DONE, "positive control")


@case
def a_file_request_cannot_be_held_up(m):
    """A fifo or a device in the way never hangs a request, nor the others."""
    with Multi(m) as s:
        s.run("mkfifo p")
        sid = s.open("READ", path="/workspace/p")
        eq(s.run("echo hi", 3)[1], b"hi\n", "beside")
        s.send("reset", id=sid)
        s.result(sid, 20)
        r = s.ask("READ", path="/dev/zero", length=10)[0]
        ok(r["how"] in (DONE, ERROR), f"{r}")


def events(s, sid):
    """[(event, name, new name)] of a watch so far."""
    return [(WATCH[r["EVENT"]], r["NAME"].decode(), r.get("TARGET", b"").decode()) for r in records(s.out[sid][1])]


@case
def c17_watch_new_subfolders(m):
    with Multi(m) as s:
        s.run("mkdir -p /workspace/w")
        sid = s.open("WATCH", path="/workspace/w", flags=["RECURSIVE"])
        s.wait(lambda e: e["ev"] == "started" and e["id"] == sid, 5, "watch started")
        s.run("mkdir -p w/a/b/c")
        s.output(sid, b"a/b/c")
        s.run("cd w; echo x > a/b/c/f; mv a/b/c/f a/b/c/g; rm a/b/c/g; rmdir a/b/c; touch zz-end")
        s.output(sid, b"zz-end")
        ev = events(s, sid)
        kinds = {(k, n) for k, n, _ in ev}
        for want in (("create", "a"), ("create", "a/b"), ("create", "a/b/c"), ("create", "a/b/c/f"), ("write", "a/b/c/f"),
                     ("remove", "a/b/c/g"), ("remove", "a/b/c")):
            ok(want in kinds, f"missing {want} in {ev}")
        ok(("rename", "a/b/c/f", "a/b/c/g") in ev, f"no rename in {ev}")
        for kind in ("create", "remove"):
            names = [n for k, n, _ in ev if k == kind]
            eq(len(names), len(set(names)), f"duplicates in {ev}")


@case
def c17_watch_a_burst_of_folders(m):
    """Folders made faster than they can be watched: what is in them is told all the same."""
    with Multi(m) as s:
        s.run("mkdir -p /workspace/w")
        sid = s.open("WATCH", path="/workspace/w", flags=["RECURSIVE"])
        s.wait(lambda e: e["ev"] == "started" and e["id"] == sid, 5, "watch started")
        s.run("cd w; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d$i/e/f && echo x > d$i/e/f/g; done; touch zz-end")
        s.output(sid, b"zz-end")
        ev = events(s, sid)
        kinds = {(k, n) for k, n, _ in ev}
        missing = [f"d{i}/e/f/g" for i in range(1, 10) if ("create", f"d{i}/e/f/g") not in kinds]
        eq(missing, [], f"files not told, of {ev}")
        creates = [(k, n) for k, n, _ in ev if k == "create"]
        eq(len(creates), len(set(creates)), f"duplicates in {ev}")


@case
def metrics(m):
    with Multi(m) as s:
        sid = s.sh("echo up; exec sleep 60")
        s.output(sid, b"up")
        r, data = s.ask("METRICS")
        eq(r["how"], DONE, "metrics")
        values = records(data)[0]["VALUE"]
        eq(len(values), 6, f"{values}")
        ok(1 <= values[2] <= 10 and values[5] > 0, f"{values}")


@case
def ports(m):
    """A port stream reaches a server inside, and nothing else."""
    with Multi(m) as s:
        prog = ("import socket\ns = socket.create_server(('127.0.0.1', 8123)); print('up', flush=True)\n"
                "c = s.accept()[0]; c.sendall(c.recv(100).upper()); c.close()")
        srv = s.exec("/usr/bin/python3", "-c", prog)
        s.output(srv, b"up")
        sid = s.open("PORT", port=8123)
        s.send("write", id=sid, hex=b"hello".hex())
        s.output(sid, b"HELLO")
        s.send("eof", id=sid)
        s.result(sid)
        r = s.ask("PORT", port=1)[0]
        eq((r["how"], r["err"]), (ERROR, 111), "ECONNREFUSED")


@case
def c14_oom_in_one_exec_leaves_the_others(m):
    with Multi(m, memory=200 * MIB, disk=64 * MIB) as s:
        sib = s.sh("echo up; exec sleep 60")
        s.output(sib, b"up")
        s.send("oom")
        e = s.wait(lambda e: e["ev"] == "oom", 20)
        eq((e["rc"], e["id"]), (0, 0), "oom count before")
        if m.name == "user":
            return
        r, _ = s.run("exec /usr/bin/python3 -c 'x = bytearray(400 << 20)'", 20)
        eq((r["how"], r["code"]), (SIGNAL, 9), "the hog")
        s.send("oom")
        eq(s.wait(lambda e: e["ev"] == "oom", 20)["id"], 1, "oom count after")
        eq(s.run("echo lives")[1], b"lives\n", "another exec")
        s.send("signal", id=sib, sig=15)
        eq(s.result(sib)["code"], 15, "the sibling lived")


@case
def c15_control_answers_under_a_fork_bomb(m):
    """The bomb is ended by its leaf as root, by sweeps where there is no leaf."""
    leaf = m.name == "root"
    with Multi(m, pids=60) as s:
        r, out = s.run("/usr/bin/python3 -c 'import os\nn = 0\ntry:\n  while n < 200 and os.fork(): n += 1\n"
                       "except OSError: print(n)\n'")
        ok(out.strip().isdigit() and int(out) < 60, f"no limit holds, so no bomb: {r} {out!r}")
        bomb = s.exec("/usr/bin/python3", "-c", "import os\nprint('up', flush=True)\nwhile True:\n  try: os.fork()\n"
                      "  except OSError: pass", leaf=leaf)
        s.output(bomb, b"up")
        time.sleep(0.5)  # let it fill its limit
        for _ in range(3):
            s.ask("METRICS")
            s.send("oom")
            s.wait(lambda e: e["ev"] == "oom", 20)
        if leaf:
            s.send("leaf_kill", id=bomb)
            e = s.wait(lambda e: e["ev"] == "leaf_kill", 20)
            eq(e["rc"], 0, f"leaf_kill: {e}")
        else:
            s.send("reset", id=bomb)
        s.result(bomb, 20)
        eq(s.run("echo after")[1], b"after\n", "afterwards")


sys.exit(main())
