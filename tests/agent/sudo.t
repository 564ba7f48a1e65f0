#!/usr/bin/env python3
"""`sudo` inside: what a command gets, how it ends, and callers who do not keep to the rules.

The namespace of these tests has one id, so everybody is uid 0; who may is tests/behaviour/sudo.t's. Hostile callers are
Python, written against src/wire/sudo.h by hand.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agentlib import *  # noqa: E402,F403

SUDO = os.environ.get("BRIG_SUDO", os.path.join(ROOT, "build", "brig-sudo"))
CALLER = r'''
import array, os, select, signal, socket, struct, sys, time
def field(nr, v):
    v = struct.pack("<Q", v) if isinstance(v, int) else v
    return struct.pack("<HHI", nr, 0, len(v)) + v
def request(*argv, user=b"root", more=b""):
    return field(1, 1) + field(6, user) + b"".join(field(3, a) for a in argv) + more
def header(n, magic=0x44535242, version=1):
    return struct.pack("<IHHI", magic, version, 0, n)
def call():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect("\0brig-sudo")
    return s
def rights(fds):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
CWD = os.open("/", os.O_PATH)
def ask(body, fds=None, head=None, s=None):
    s = s or call()
    s.sendmsg([head or header(len(body))], rights([0, 1, 2, CWD] if fds is None else fds) if fds != [] else [])
    try:
        s.sendall(body)
    except OSError:
        pass
    return s
def answer(s):
    out = b""
    try:
        while True:
            got = s.recv(4096)
            if not got:
                break
            out += got
    except ConnectionResetError:
        pass
    r = {}
    while out:
        nr, _, n = struct.unpack_from("<HHI", out)
        r[nr] = out[8:8 + n] if nr == 35 else struct.unpack("<Q", out[8:8 + n])[0]
        out = out[8 + n:]
    return r.get(32), r.get(33, r.get(34)), r.get(35, b"").decode()
'''


def agent(*args):
    return Agent("sudo=0", *args)


def caller(a, script, **more):
    s = a.run(sys.executable, "-c", CALLER + script, **more)
    return s.out[OUT].decode() + s.out[ERR].decode()


def commands(t):
    with agent() as a:
        s = a.sh(f"cd /usr; umask 027; {SUDO} sh -c 'pwd; umask; id -u; cat; echo err >&2; exit 7'", flags=0)
        t.eq((s.out[OUT], s.out[ERR], s.result["code"]), (b"/usr\n0027\n0\n", b"err\n", 7), "folder, umask, descriptors, exit code")
        s = a.run(SUDO, "cat", data=b"x" * 300000)
        t.eq(len(s.out[OUT]), 300000, "standard input")
        s = a.run(SUDO, "ls", "-l", "/proc/self/fd")
        t.eq(len([x for x in s.out[OUT].splitlines() if b"->" in x]), 4, "0, 1, 2, and the one ls opens itself")
        s = a.sh(f"{SUDO} sh <&- -c 'read x; echo $?'")
        t.eq(s.out[OUT], b"1\n", "a closed descriptor is /dev/null there")
        s = a.run(SUDO, "sh", "-c", "kill -TERM $$")
        t.eq((s.result["how"], s.result["code"]), (SIGNALLED, 15), "it dies of the command's signal")
        s = a.run(SUDO, "sh", "-c", "kill -SEGV $$")
        t.eq((s.result["how"], s.result["code"]), (SIGNALLED, 11), "of any")
        for argv, text in [(["-u", "nosuch", "id"], "sudo: unknown user nosuch\n"), (["nosuch"], "sudo: nosuch: command not found\n"),
                           (["/no/such"], "sudo: /no/such: command not found\n"), (["/etc/passwd"], "sudo: running '/etc/passwd': Permission denied\n"),
                           (["--no-such", "id"], "sudo: option '--no-such' is not known here\n")]:
            s = a.run(SUDO, *argv)
            t.eq((s.result["code"], s.out[ERR].decode()), (1, text), " ".join(argv))
        s = a.run(SUDO, "-u", "#54321", "id")
        t.ok(s.result["code"] == 1 and b"newuidmap" in s.out[ERR], "an id that is not mapped", s.out[ERR])
        t.eq(a.run(SUDO, "-v").result["code"], 0, "-v")
        t.ok(b"NOPASSWD: ALL" in a.run(SUDO, "-l").out[OUT], "-l")
        big = a.run(SUDO, "sh", "-c", 'echo ${#1} $#', "sh", *["y" * 100000] * 15)
        t.eq(big.out[OUT], b"100000 15\n", "1.5 MB of arguments")
        t.eq(a.run(SUDO, "-i", "pwd", cwd="/usr").out[OUT], b"/root\n", "-i starts at home")
        t.eq(a.run(SUDO, "-s", "echo", "a  b;c").out[OUT], b"a  b;c\n", "-s quotes its words")


def environment(t):
    with agent() as a:
        def env(*argv, **more):
            out = a.run("/usr/bin/env", "-i", "TERM=vt1", "FOO=1", "HOME=/h", "PATH=/x", "LC_ALL=C", "USER=u", "SUDO_USER=mallory", SUDO, *argv, "/usr/bin/env").out[OUT]
            return dict(x.split("=", 1) for x in out.decode().splitlines())
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        base = {"TERM": "vt1", "LC_ALL": "C", "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": env()["SHELL"], "PATH": path,
                "SUDO_COMMAND": "/usr/bin/env", "SUDO_USER": "root", "SUDO_UID": "0", "SUDO_GID": "0"}
        t.eq(env(), base, "reset")
        t.eq(env("-E"), base | {"FOO": "1", "HOME": "/h"}, "-E")
        t.eq(env("-EH"), base | {"FOO": "1"}, "-E -H")
        t.eq(env("--preserve-env=FOO"), base | {"FOO": "1"}, "one name")
        t.eq(env("BAR=2", "PATH=/y:/usr/bin"), base | {"BAR": "2", "PATH": "/y:/usr/bin"}, "assignments")


def signals(t):
    with agent() as a:
        s = a.exec(SUDO, "sh", "-c", "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.01; done")
        s.wait(lambda s: b"ready" in s.out[OUT])
        s.signal(10)
        s.wait()
        t.eq((s.out[OUT], s.result["code"]), (b"ready\ngot\n", 3), "a signal is passed on")
        for sig in (1, 2, 3, 15):
            s = a.exec(SUDO, "sleep", "100")
            settles(t, a, b"sleep\n", lambda a: a.sh("cat /proc/[0-9]*/comm | grep sleep").out[OUT], "it runs")
            s.signal(sig)
            s.wait()
            t.eq((s.result["how"], s.result["code"]), (SIGNALLED, sig), f"{sig} ends both")
        s = a.exec(SUDO, "sh", "-c", "echo ready; while :; do echo tick; sleep 0.01; done")
        s.wait(lambda s: b"tick" in s.out[OUT])
        s.signal(20)
        state = f"grep -h State /proc/{s.pid}/status $(grep -ls 'echo tick' /proc/[0-9]*/cmdline | grep -v self | sed s/cmdline/status/)"
        settles(t, a, True, lambda a: a.sh(state).out[OUT].decode().count("T (stopped)") >= 2, "a stop stops both")
        s.signal(18)
        n = len(s.out[OUT])
        s.wait(lambda s: len(s.out[OUT]) > n + 20)
        s.signal(15)
        s.wait()
        t.eq(s.result["how"], SIGNALLED, "they went on, and ended")
        for how in ("kill -9 $p", "kill -9 $p; kill -CONT $p"):
            s = a.sh(f"""{SUDO} sh -c 'trap "" TERM HUP; setsid sleep 1000 & (sleep 1001 &) ; echo ready; sleep 1002' > /tmp/o.$$ & p=$!
                         until grep -q ready /tmp/o.$$; do sleep 0.01; done; rm /tmp/o.$$; {how}""")
        settles(t, a, [], processes, "a caller that is killed takes all of its own along, also what ignores the news")
        s = a.sh(f"""{SUDO} sh -c 'trap "kill -9 $PPID" HUP; trap "" TERM; echo ready; while :; do sleep 0.01; done' > /tmp/o.$$ & p=$!
                     until grep -q ready /tmp/o.$$; do sleep 0.01; done; rm /tmp/o.$$; kill -9 $p""")
        settles(t, a, [], processes, "also what answers by killing its guard")
        s = a.exec(SUDO, "sh", "-c", "echo ready; sleep 100 & exec sleep 101")
        s.wait(lambda s: b"ready" in s.out[OUT])
        s.reset()
        s.wait()
        settles(t, a, [], processes, "and so does an exec that is ended")
        s = a.run(SUDO, "sh", "-c", "sleep 1000 & echo $!")
        t.eq(a.sh(f"{SUDO} kill {s.out[OUT].decode()}").result["code"], 0, "what is left running in the background lives on")
        settles(t, a, [], processes, "until it ends")


def malformed(t):
    with agent() as a:
        a.ping()
        open_fds = fds(a)
        out = caller(a, r'''
for what, s in [
    ("magic", ask(b"", head=header(0, magic=1))), ("version", ask(b"", head=header(0, version=2))),
    ("length", ask(b"", head=header(2097153))), ("huge", ask(b"", head=header(4294967295))),
    ("empty", ask(b"")), ("garbage", ask(bytes(range(256)) * 4)),
    ("no descriptors", ask(request(b"id"), fds=[])), ("three", ask(request(b"id"), fds=[0, 1, 2])),
    ("five", ask(request(b"id"), fds=[0, 1, 2, CWD, 0])), ("hundred", ask(request(b"id"), fds=[0] * 100)),
    ("253", ask(request(b"id"), fds=[CWD] * 253)),
    ("no user", ask(field(1, 1) + field(3, b"id"))), ("other kind", ask(field(1, 16) + field(6, b"root"))),
    ("a terminal", ask(request(b"id", more=field(2, 1)))), ("a leaf", ask(request(b"id", more=field(2, 8)))),
    ("a folder by name", ask(request(b"id", more=field(5, b"/")))), ("who called", ask(request(b"id", more=field(4, b"SUDO_UID=0")))),
    ("a file as folder", ask(request(b"id"), fds=[0, 1, 2, os.open("/etc/passwd", os.O_PATH)])),
    ("a socket as folder", ask(request(b"id"), fds=[0, 1, 2, socket.socket().fileno()])),
]:
    print(what, answer(s)[:2])
''')
        want = "".join(f"{w} (3, 71)\n" for w in ("magic", "version", "length", "huge", "empty", "garbage", "no descriptors", "three", "five", "hundred", "253",
                                                  "no user", "other kind", "a terminal", "a leaf", "a folder by name", "who called"))
        t.eq(out, want + "a file as folder (3, 20)\na socket as folder (3, 20)\n", "each is refused, none runs")
        out = caller(a, r'''
import random
random.seed(7)
good = header(0) + request(b"true")
for i in range(150):
    raw = bytearray(header(len(request(b"true"))) + request(b"true"))
    for _ in range(random.randrange(1, 4)):
        raw[random.randrange(len(raw))] = random.randrange(256)
    s = ask(b"", head=bytes(raw[:random.randrange(12, len(raw) + 1)]))
    s.shutdown(socket.SHUT_WR)
    if i % 3 == 0:
        answer(s)
    s.close()
for n in range(len(good)):
    s = call()
    s.sendmsg([good[:n] or b""], rights([0, 1, 2, CWD]) if n else [])
    s.close()
print("alive")
''')
        t.eq(out, "alive\n", "damaged requests, and callers that go midway")
        t.eq(a.run(SUDO, "echo", "ok").out[OUT], b"ok\n", "the next is served")
        settles(t, a, [], processes, "no process stays")
        settles(t, a, open_fds, fds, "and no descriptor")


def odd_descriptors(t):
    with agent() as a:
        out = caller(a, r'''
import fcntl
r, w = os.pipe()
mine = call()
odd = {"epoll": select.epoll().fileno(), "memfd": os.memfd_create("x"), "socket": mine.fileno(), "path": os.open("/etc", os.O_PATH),
       "folder": os.open("/etc", os.O_RDONLY), "dgram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).fileno(), "null": os.open("/dev/null", os.O_RDWR)}
for name, fd in odd.items():
    s = ask(request(b"sh", b"-c", b"ls /proc/self/fd | tr '\n' ' ' >&2; exit 5"), fds=[fd, fd, w, CWD])
    print(name, answer(s)[:2], os.read(r, 100).split()[:3])
# the connection itself, as every descriptor of its own request
s = call()
ask(request(b"true"), fds=[s.fileno(), s.fileno(), s.fileno(), CWD], s=s)
print("itself", answer(s)[:2])
# descriptors that come later reach nobody
s = call()
body = request(b"sh", b"-c", b"ls /proc/self/fd | wc -l >&2")
s.sendmsg([header(len(body))], rights([0, 1, w, CWD]))
for b in body:
    s.sendmsg([bytes([b])], rights([0, 1, 2]))
for _ in range(20):
    s.sendmsg([bytes([18])], rights([0, 1, 2]))
print("late", answer(s)[:2], os.read(r, 100).split())
''')
        want = "".join(f"{n} (1, 5) [b'0', b'1', b'2']\n" for n in ("epoll", "memfd", "socket", "path", "folder", "dgram", "null"))
        t.eq(out, want + "itself (1, 0)\nlate (1, 0) [b'4']\n", "of any kind: they become 0, 1 and 2, and nothing else is open")


LOOPBACK = """python3 -c "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH14x', b'lo', 0x49))" &&"""


def lingering(t):
    """Descriptors whose last close(2) waits for an hour: sockets with SO_LINGER, which their peers do not read."""
    with Agent("sudo=0", setup=LOOPBACK) as a:
        s = a.exec(sys.executable, "-c", CALLER + r'''
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
l.bind(("127.0.0.1", 0))
l.listen()
peers = []
def slow():
    c = socket.create_connection(l.getsockname())
    peers.append(l.accept())
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    c.setblocking(False)
    try:
        while True:
            c.send(bytes(4096))
    except BlockingIOError:
        pass
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return c
def give(s):
    """Let go of it before PID 1 does. Where that fails it is us who wait, until the timer ends us."""
    c = slow()
    pid = os.fork()
    if pid == 0:
        os.read(begin, 1)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        s = s or call()
        try:
            s.sendmsg([bytes([18])], rights([c.fileno()]))
        except OSError:
            pass
        os.close(c.detach())
        os._exit(0)
    c.close()
    os.write(go, b"x")
    os.waitpid(pid, 0)
begin, go = os.pipe()
r, w = os.pipe()
s = ask(request(b"sh", b"-c", b"echo; sleep 100"), fds=[0, w, 2, CWD])
os.read(r, 1)
for _ in range(30):
    give(s)
s.sendall(bytes([9]))
print("signals", answer(s)[:2], flush=True)
s = ask(request(b"sh", b"-c", b"echo; sleep 100"), fds=[0, w, 2, CWD])
os.read(r, 1)
s.sendall(bytes([0]))
for _ in range(10):
    give(s)
s.close()
busy = [ask(request(b"sleep", b"100")) for _ in range(32)]
for _ in range(10):
    give(None)
print("refused", flush=True)
''')
        s.wait(lambda s: b"refused" in s.out[OUT] or s.result)
        a.ping()
        s.wait()
        t.eq((s.out[OUT], s.out[ERR]), (b"signals (2, 9)\nrefused\n", b""), "they hold up nobody")
        settles(t, a, [], processes, "and what asked for them ends")
        t.eq(a.run(SUDO, "echo", "ok").out[OUT], b"ok\n", "the next is served")


def floods(t):
    with agent() as a:
        a.ping()
        open_fds = fds(a)
        s = a.exec(sys.executable, "-c", CALLER + r'''
silent = [call() for _ in range(300)]
end = time.monotonic() + 20
while len(told := select.select(silent, [], [], 0)[0]) < 268 and time.monotonic() < end: time.sleep(0.01)
refused = [answer(x)[2] for x in told]
print(len(refused), set(refused), flush=True)
first = select.select([x for x in silent if x.fileno() >= 0], [], [], 20)[0]
done = [answer(x) for x in silent if x not in refused]
print(sum(x[1] == 110 for x in done), flush=True)
''')
        for _ in range(20):
            a.ping()
        t.eq(a.sh("echo still here").out[OUT], b"still here\n", "hundreds that say nothing hold up nobody else")
        s.wait(timeout=60)
        t.eq(s.out[OUT].decode(), "268 {'too many at once'}\n32\n", "32 at once, each only for a time", )
        t.eq(s.out[ERR], b"", "nothing else")
        s = a.exec(sys.executable, "-c", CALLER + r'''
for _ in range(1000):
    s = call()
    s.close()
print("done")
''')
        s.wait(timeout=60)
        t.eq(s.out[OUT], b"done\n", "1000 that hang up at once")
        a.ping()
        settles(t, a, [], processes, "no process stays")
        settles(t, a, open_fds, fds, "and no descriptor")
        t.eq(a.run(SUDO, "echo", "ok").out[OUT], b"ok\n", "the next is served")
        out = caller(a, r'''
s = ask(request(b"sleep", b"0.2"))
s.sendall(bytes([18]) * 200000)
print(answer(s)[:2])
s = ask(request(b"sleep", b"100"))
s.sendall(bytes([0]))
print(answer(s)[:2])
s = ask(request(b"sleep", b"100"))
s.sendall(bytes([65]))
print(answer(s)[:2])
''')
        t.eq(out, "(1, 0)\n(None, None)\n(None, None)\n", "signals without end, and what is none")
        settles(t, a, [], processes, "which ends what runs")


def stopped_caller(t):
    with agent() as a:
        out = a.sh(f"""{SUDO} sh -c 'echo $$ > /tmp/stopped.pid; until [ -e /tmp/stopped.go ]; do sleep 0.01; done; echo end > /tmp/stopped.end' & p=$!
                       until [ -s /tmp/stopped.pid ]; do sleep 0.01; done; kill -STOP $p; touch /tmp/stopped.go
                       until [ -e /tmp/stopped.end ]; do sleep 0.01; done; {SUDO} echo other; kill -CONT $p; wait $p; echo $?
                       rm /tmp/stopped.*""")
        t.eq(out.out[OUT], b"other\n0\n", "a caller that is stopped stops neither what runs for it nor others")


def off(t):
    with Agent() as a:
        s = a.run(SUDO, "id")
        t.ok(s.result["code"] == 1 and b"this sandbox has none" in s.out[ERR], "nobody listens unless told to", s.out[ERR])
        out = caller(a, r'''
l = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
l.bind("\0brig-sudo")
l.listen()
if os.fork() == 0:
    c, _ = l.accept()
    print("got", c.recvmsg(100, 1000)[1], flush=True)
    os._exit(0)
l.close()
''' + f'import subprocess; subprocess.run([{SUDO!r}, "id"])')
        t.ok("not PID 1" in out and "got []" in out, "nobody but PID 1 is handed descriptors", out)
    with agent() as a:
        out = caller(a, r'''
l = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    l.bind("\0brig-sudo")
except OSError as e:
    print(e.errno)
''')
        t.eq(out, "98\n", "PID 1's name is taken")
    for bad in ("sudo=", "sudo=-1", "sudo=4294967295", "sudo=x", "sudo=1x"):
        with Agent(bad) as a:
            t.eq(a.gone(), 125, f"{bad} is refused")


if subprocess.run(["test", "-x", SUDO], check=False).returncode != 0:
    sys.exit(f"{SUDO} is missing: make build/brig-sudo")
main(commands, environment, signals, malformed, odd_descriptors, lingering, floods, stopped_caller, off)
