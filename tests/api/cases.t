#!/usr/bin/python3
"""The behaviour cases (what a user of any sandbox may expect, see docs/behaviour.md) through the API, with real sandboxes: the
bytes, the ends, the bounds. Each case names its number; what cannot be seen through the API is said in that document."""
import base64
import hashlib
import json
import os
import sys
import threading

sys.dont_write_bytecode = True
import apilib
from apilib import case, eq, ok, until
from devlib import Dev, below, memory_kib, named

D = Dev()
TEN = 10485760
TEN_SUM = "eb6183addde05c2196ce25e6fa34a4baf20f9bf30d33892f452a9a1e88c9a472"
A_TEN = "head -c 10485760 /dev/zero | tr '\\0' A"


def sleepers(b, seconds):
    """How many processes inside sleep for that many seconds."""
    return int(b.run("for f in /proc/[0-9]*/cmdline; do [ \"$(tr '\\0' ' ' < $f)\" = 'sleep %d ' ] && echo x; done 2>/dev/null | wc -l" % seconds)[0])


def send(b, pid, data):
    return b.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(data).decode()}})


@case
def c01_ten_mebibytes_exactly_and_memory_flat():
    b = D.create()
    out, _, end = b.run(A_TEN)
    eq((len(out), hashlib.sha256(out).hexdigest(), end["exitCode"]), (TEN, TEN_SUM, 0))
    # a hundred megabytes that nobody reads: neither brigd nor the keeper takes them in
    keeper = named(below(D.p.pid), "brig-keeper")
    eq(len(keeper), 1)
    watched = [D.p.pid] + keeper
    before = [memory_kib(p) for p in watched]
    unread = [b.start(A_TEN) for _ in range(10)]
    for r in unread:
        r.message()
    eq(b.run("echo others are served")[0], b"others are served\n")
    grown = [memory_kib(p) - x for p, x in zip(watched, before)]
    print(f"# ten unread outputs of 10 MiB: brigd grew by {grown[0]} KiB, the keeper by {grown[1]} KiB")
    ok(grown[0] < 10 * 1024 and grown[1] < 16 * 1024, f"KiB more of brigd, keeper: {grown}")
    for i, r in enumerate(unread):
        if i >= 3:
            r.sock.close()  # a client that goes
            continue
        data = b""
        while (m := r.message())[0] == 0:
            data += base64.b64decode(m[1]["event"].get("data", {}).get("stdout", ""))
        eq(hashlib.sha256(data).hexdigest(), TEN_SUM, "all of it, in the end")
    eq(b.run("echo well")[0], b"well\n")
    b.kill()


@case
def c02_c03_c04_bytes_as_they_are():
    b = D.create()
    for script, want in ((r"printf 'a\n\nb\n\n\nc\n'", b"a\n\nb\n\n\nc\n"), ("printf no-newline", b"no-newline"),
                         (r"printf '\xff\xfe\x00\x80'", b"\xff\xfe\x00\x80")):
        eq(b.run(script)[0], want, script)
        eq(b.run(f"{{ {script}; }} >&2")[1], want, script)
        eq(b.start(f"stty -opost; {script}", pty=(80, 24)).message()[0], 0)
    eq(b.run(r"printf '\x89PNG' > p")[2]["exitCode"], 0)
    eq(b.get("p").body(), b"\x89PNG")
    eq(b.put("q", b"\xff\xfe\x00\x80\x89PNG")[0], 200)
    eq(b.run("cat q")[0], b"\xff\xfe\x00\x80\x89PNG")
    b.kill()


@case
def c05_c06_c07_standard_input():
    b = D.create()
    r = b.start("wc -c", stdin=True)
    pid = r.message()[1]["event"]["start"]["pid"]
    eq(send(b, pid, b"x" * (1 << 20)), (200, {}))
    eq(b.rpc("process.Process/CloseStdin", {"process": {"pid": pid}}), (200, {}))
    eq(base64.b64decode(r.message()[1]["event"]["data"]["stdout"]), b"1048576\n")
    # who reads one byte only: the writer is told, and the sandbox goes on
    r = b.start("head -c 1", stdin=True)
    pid = r.message()[1]["event"]["start"]["pid"]
    status, o = send(b, pid, b"y" * (1 << 20))
    ok(status in (500, 404), f"{status} {o}")
    eq(base64.b64decode(r.message()[1]["event"]["data"]["stdout"]), b"y")
    eq(r.message()[1]["event"]["end"]["status"], "exit status 0")
    # none was asked for: it ends at once
    eq(b.run("cat")[2]["exitCode"], 0)
    eq(b.run("echo usable")[0], b"usable\n")
    b.kill()


@case
def c08_a_timeout_ends_the_tree():
    b = D.create()
    for name, script in {"children": "for i in 1 2; do sleep 871 & done; sleep 871", "setsid": "setsid sleep 871 & sleep 871",
                         "double fork": "(setsid sh -c '(sleep 871 &) ; (sleep 871 &)' &); sleep 871"}.items():
        r = b.start(script + "; true", fields=[("Connect-Timeout-Ms", "500")])
        r.message()
        eq(r.message()[1]["error"]["code"], "deadline_exceeded", name)
        until(lambda: sleepers(b, 871) == 0, 20, f"nothing of '{name}' is left")
    r = b.start("for i in 1 2; do (while :; do :; done)& done; sleep 28", fields=[("Connect-Timeout-Ms", "500")])
    r.message()
    eq(r.message()[1]["error"]["code"], "deadline_exceeded")
    until(lambda: b.run("ps -e -o stat= | grep -c ^R || true")[0] in (b"1\n", b"2\n"), 20, "nothing spins")
    # and a shell that wants job control does not hang
    eq(b.run("bash -ic true 2>/dev/null", fields=[("Connect-Timeout-Ms", "60000")])[2]["exitCode"], 0)
    b.kill()


@case
def c09_a_job_in_the_background_holds_nothing_up():
    b = D.create()
    out, _, end = b.run("sleep 872 & echo hi")
    eq((out, end["exitCode"]), (b"hi\n", 0))
    b.kill()


@case
def c10_ends_can_be_told_apart():
    b = D.create()
    eq(b.run("exit 255")[2], {"exitCode": 255, "exited": True, "status": "exit status 255", "error": "exit status 255"})
    eq(b.run("exec sh -c 'kill -SEGV $$'", cmd="/bin/sh", args=["-c", "kill -SEGV $$"])[2]["status"], "signal: segmentation fault")
    # and the end of the sandbox is no end of the command
    r = b.start("echo up; sleep 600")
    r.message(), r.message()
    eq(b.kill(), 204)
    try:
        ok(False, f"an end was told: {r.message()}")
    except EOFError:
        pass


@case
def c11_c12_what_programs_need_of_each_other():
    b = D.create()
    script = """
import asyncio, concurrent.futures, multiprocessing as mp, os, socket, tempfile, threading
def f(x): return x * x
if __name__ == '__main__':
    a, c = socket.socketpair(); a.send(b'x'); assert c.recv(1) == b'x'
    async def main():
        done = asyncio.get_running_loop().create_future()
        threading.Thread(target=lambda: done.get_loop().call_soon_threadsafe(done.set_result, 1)).start()
        assert await done == 1
    asyncio.run(main())
    for way in ('fork', 'forkserver', 'spawn'):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=mp.get_context(way)) as p:
            assert list(p.map(f, range(4))) == [0, 1, 4, 9], way
    mp.Semaphore(1).acquire()
    s = socket.socket(socket.AF_UNIX); s.bind(os.path.join(tempfile.mkdtemp(), 's')); s.listen()
    t = socket.create_server(('127.0.0.1', 0)); socket.create_connection(t.getsockname()).close()
    print('well')
"""
    eq(b.put("p.py", script.encode())[0], 200)
    out, err, _ = b.run("python3 p.py")
    eq((out, err), (b"well\n", b""))
    b.kill()


@case
def c13_arguments_too_long_scripts_long():
    b = D.create()
    r = b.start("true", args=["-c", "true", "x" * 131072])
    flags, m = r.message()
    eq((flags, m["error"]["code"]), (2, "invalid_argument"))
    eq(b.put("long.sh", b":" + b" x" * (1 << 20) + b"\necho ran\n")[0], 200)
    eq(b.run("bash long.sh")[0], b"ran\n")
    b.kill()


@case
def c14_only_the_hog_dies():
    b = D.create()
    r = b.start("echo up; exec sleep 873")
    r.message(), r.message()
    until(lambda: sleepers(b, 873) == 1, 20, "it sleeps")
    total = b.dev.control("GET", f"/sandboxes/{b.id}/metrics")[1][0]["memTotal"]
    out, _, _ = b.run(f"python3 -c 'b = bytearray({2 * total}); print(len(b))'; echo status $?")
    ok(out in (b"status 137\n", b"status 1\n"), out)  # killed, or the allocation refused: never granted
    eq(sleepers(b, 873), 1, "who was beside it lives")
    eq(b.run("echo well")[0], b"well\n")
    b.kill()


@case
def c15_a_fork_bomb_stops_at_its_limit():
    b, other = D.create(), D.create()
    bomb = b.start("echo up; f() { f | f & }; f 2>/dev/null; sleep 600")
    bomb.message()
    until(lambda: b.dev.control("GET", f"/sandboxes/{b.id}")[0] == 200, 20, "the control API answers")
    eq(other.run("echo others are well")[0], b"others are well\n")
    eq(b.kill(), 204)
    eq(other.run("echo still")[0], b"still\n")
    other.kill()


@case
def c16_a_terminal_changes_its_size():
    b = D.create()
    r = b.start("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done", pty=(80, 24))
    pid = r.message()[1]["event"]["start"]["pid"]
    seen = b""
    while b"ready" not in seen:
        seen += base64.b64decode(r.message()[1]["event"]["data"]["pty"])
    eq(b.rpc("process.Process/Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 99, "rows": 41}}}), (200, {}))
    while b"41 99" not in seen:
        seen += base64.b64decode(r.message()[1]["event"]["data"]["pty"])
    b.kill()


@case
def c17_watching_new_folders():
    b = D.create()
    b.run("mkdir w")
    r = b.stream("filesystem.Filesystem/WatchDir", {"path": "w", "recursive": True})
    r.message()
    b.run("cd w; mkdir -p a/b/c; echo x > a/b/c/f; mv a/b/c/f a/b/c/g; rm a/b/c/g; touch end")
    seen = []
    while ("CREATE", "end") not in seen:
        e = r.message()[1]["filesystem"]
        seen.append((e["type"].removeprefix("EVENT_TYPE_"), e["name"]))
    made = [n for t, n in seen if t == "CREATE"]
    eq((sorted(made), len(made)), (["a", "a/b", "a/b/c", "a/b/c/f", "a/b/c/g", "end"], 6), "each once")
    ok(("REMOVE", "a/b/c/g") in seen and ("RENAME", "a/b/c/f") in seen, seen)
    b.kill()


@case
def c18_long_names_deep_folders():
    b = D.create()
    eq(b.put("n" * 255, b"x")[0], 200)
    status, o = b.put("n" * 256, b"x")
    ok(status == 400 and "long" in o["message"], f"{status} {o}")
    out, err, end = b.run("for i in $(seq 50); do mkdir " + "d" * 100 + " && cd " + "d" * 100 + " || exit; done; echo x > f && cat f; pwd | wc -c")
    ok(out.startswith(b"x\n") and int(out.split()[1]) > 4096, (out, err, end))
    eq(int(b.run("hostname | wc -c")[0]) <= 65, True)
    b.kill()


@case
def c20_links_lead_nowhere_outside():
    b = D.create()
    b.run("ln -s /etc/shadow leak; ln -s /outside/new d; ln -s ../../../../../../etc/shadow up")
    with open("/etc/shadow", "rb") as f:
        secret = f.read().split(b"\n")[0]
    for path in ("leak", "up"):
        r = b.get(path)
        body = r.body()
        ok(r.status in (403, 404) and secret not in body, f"{path}: {r.status} {body[:100]}")
    status, o = b.put("d", b"x")
    ok(status >= 400, f"{status} {o}")
    ok(not os.path.exists("/outside"), "nothing was made outside")
    b.kill()


@case
def c25_nothing_is_reached():
    b = D.create(allow_internet_access=False)
    for where in ("('2001:4860:4860::8888', 53)", "('fd00:ec2::254', 80)", "('::ffff:1.1.1.1', 53)", "('64:ff9b::101:101', 53)", "('1.1.1.1', 53)"):
        out = b.run(f"python3 -c \"import socket; s = socket.socket(socket.AF_INET6 if ':' in {where}[0] else socket.AF_INET); s.settimeout(20); print(s.connect_ex({where}))\"")[0]
        ok(int(out) in (101, 111, 113, 99, 97), f"{where}: {out}")
    eq(b.run("getent hosts name.example.org; echo $?")[0], b"2\n")
    b.kill()


@case
def c29_what_cannot_be_started_is_refused():
    status, o = D.control("POST", "/v2/sandboxes", {"templateID": "base", "network": {"maskRequestHost": "x"}})
    eq((status, o["code"]), (400, 400))
    status, o = D.control("POST", "/v2/sandboxes", {"templateID": "none-of-this-name"})
    eq(status, 404)


@case
def parallel_creates_and_calls():
    """Many at once, as an agent's swarm does: each gets its own answer."""
    out, bad = {}, []

    def one(i):
        try:
            b = D.create(metadata={"i": str(i)})
            out[i] = b.run(f"echo {i}")[0]
            b.kill()
        except Exception as e:  # told below
            bad.append(e)
    some = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for t in some:
        t.start()
    for t in some:
        t.join()
    eq((bad, out), ([], {i: b"%d\n" % i for i in range(12)}))


if __name__ == "__main__":
    sys.exit(apilib.main(D))
