#!/usr/bin/python3
"""Processes, IPC and limits (behaviour cases C11 to C15; timeouts of C08)."""
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, done, eq, main, ok, until  # noqa: E402
import reap  # noqa: E402

PY = "/usr/bin/python3"


def oracle(m, argv, **kw):
    want = m.native(argv, **kw)
    eq(want.rc, 0, f"native run of {argv[:2]}: {want!r}")
    got = m.run("--", *argv, **kw)
    eq((got.rc, got.out), (want.rc, want.out), f"{got!r}")
    return got


def limits_hold(m):
    """Does this caller get cgroup limits here? Root must; a user without delegation must be told."""
    r = m.run("--require", "limits", "--", "true")
    if r.rc == 0:
        return True
    eq(m.name, "user", f"root without limits: {r!r}")
    return False


@case
def missing_limits_are_said_and_refused_on_request(m):
    r = m.run("--require", "limits", "--", "true")
    weaker = json.loads(done(m.run("--json", "--", "true")).out)["weaker"]
    if r.rc == 0:
        ok(not any("limit" in str(w) for w in weaker), f"weaker {weaker!r}")
        return
    eq(r.rc, 125, repr(r))
    ok(b"limit" in r.err and r.err.count(b"\n") == 1, f"one line naming it: {r!r}")
    ok(weaker, "nothing said about missing limits")


@case
def c11_socketpair(m):
    oracle(m, [PY, "-c", "import socket\na,b=socket.socketpair(); a.send(b'x'); print(b.recv(1))"])


@case
def c11_asyncio_call_soon_threadsafe(m):
    oracle(m, [PY, "-c", """
import asyncio, threading
async def main():
    loop = asyncio.get_running_loop()
    f = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(f.set_result, 'woken')).start()
    print(await asyncio.wait_for(f, 5))
asyncio.run(main())
"""])


@case
def c12_process_pools(m):
    # Started as a file: forkserver imports the main module.
    prog = """
import concurrent.futures as cf, multiprocessing as mp, sys
def sq(x): return x * x
if __name__ == '__main__':
    for how in ('fork', 'forkserver', 'spawn'):
        with cf.ProcessPoolExecutor(2, mp_context=mp.get_context(how)) as ex:
            print(how, list(ex.map(sq, range(5))))
    s = mp.Semaphore(1)
    s.acquire(); s.release(); print('semaphore')
"""
    src = m.put("pool.py", prog)
    want = m.native([PY, src])
    eq(want.rc, 0, repr(want))
    done(m.run("--file", f"{src}:/workspace/pool.py", "--", PY, "/workspace/pool.py"), out=want.out)


@case
def c12_unix_socket_in_a_temporary_folder(m):
    oracle(m, [PY, "-c", """
import socket, tempfile, os
d = tempfile.mkdtemp(); s = socket.socket(socket.AF_UNIX); s.bind(os.path.join(d, 's')); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect(os.path.join(d, 's')); c.send(b'hi'); print(s.accept()[0].recv(2))
"""])


@case
def c12_tcp_on_loopback(m):
    for host, family in (("127.0.0.1", "AF_INET"), ("::1", "AF_INET6")):
        oracle(m, [PY, "-c", f"""
import socket
s = socket.socket(socket.{family}); s.bind(('{host}', 0)); s.listen()
c = socket.socket(socket.{family}); c.connect(s.getsockname()); c.send(b'hi'); print(s.accept()[0].recv(2))
"""])


@case
def c12_localhost_resolves(m):
    r = done(m.py("import socket; print(socket.gethostbyname('localhost'), socket.gethostname())"))
    eq(r.out.split(), [b"127.0.0.1", b"brig"], "names")


@case
def c12_shared_memory_and_message_queues(m):
    oracle(m, [PY, "-c", """
from multiprocessing import shared_memory, Queue
s = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[5] = 7; print(s.buf[5]); s.close(); s.unlink()
q = Queue(); q.put('q'); print(q.get(timeout=5))
"""])


@case
def c13_argument_too_long_is_a_clean_error(m):
    """131,072 bytes are one too many for execve(2): E2BIG, said in one line, nothing started."""
    arg = "a" * 131071
    done(m.run("--", "sh", "-c", "printf %s \"$1\" | wc -c", "sh", arg), out=b"131071\n")
    # The caller's own execve has the same limit, so the longer one comes through a profile-free path:
    # the script file is read by brig itself.
    r = done(m.run("--", "sh", "-c", "x=$(head -c 131072 /dev/zero | tr '\\0' a); /bin/echo $x"), rc=None)
    ok(r.rc in (2, 126) and b"too long" in r.err.lower(), f"E2BIG inside: {r!r}")


@case
def c13_large_script_runs(m):
    script = "#" + "x" * 2097152 + "\nprint('ran')\n"
    done(m.run(m.put("big.py", script)), out=b"ran\n")
    done(m.run("-i", "--", PY, "-", stdin=script.encode()), out=b"ran\n")


@case
def c13_many_arguments_and_environment(m):
    args = [f"arg{i}" for i in range(5000)]
    r = done(m.run("--", PY, "-c", "import sys; print(len(sys.argv), sys.argv[-1])", *args))
    eq(r.out, b"5001 arg4999\n", "arguments")
    opts = [x for i in range(1000) for x in ("--env", f"V{i}={i}")]
    r = done(m.run(*opts, "--", "sh", "-c", "echo $V0 $V999"))
    eq(r.out, b"0 999\n", "environment")


@case
def c13_empty_and_odd_arguments(m):
    argv = ["printf", "[%s]", "", " ", "a b", "\n", "*", "$X", "--", "-x", "é\x01", "'\""]
    oracle(m, argv)


@case
def c14_memory_hog_alone_dies(m):
    if not limits_hold(m):
        return
    probe = m.tool("wall_probe")
    script = ("/workspace/p hog 400 & hog=$!; sleep 30 & sib=$!; wait $hog; echo hog=$?; "
              "kill -0 $sib && echo sibling lives; exit 5")
    r = done(m.run("--json", "--memory", "200M", "--disk", "64M", "--file", f"{probe}:/workspace/p", "--",
                   "sh", "-c", script), rc=5)
    j = json.loads(r.out)
    ok("hog=137" in j["stdout"] and "sibling lives" in j["stdout"], f"stdout {j!r}")
    eq(j["oom_kills"], 1, "oom_kills")
    # The command itself was not killed.
    eq((j["exit"], j["signal"]), (5, None), "exit")


@case
def c14_command_killed_by_memory_limit(m):
    if not limits_hold(m):
        return
    probe = m.tool("wall_probe")
    r = done(m.run("--json", "--memory", "200M", "--disk", "64M", "--file", f"{probe}:/workspace/p", "--",
                   "/workspace/p", "hog", "400"), rc=137)
    j = json.loads(r.out)
    eq((j["oom"], j["signal"], j["exit"], j["timed_out"], j["lost"]), (True, 9, None, False, False), repr(j))
    ok(150 << 20 < j["memory_peak"] <= 201 << 20, f"memory_peak {j['memory_peak']}")


@case
def c14_no_oom_when_the_memory_is_enough(m):
    j = json.loads(done(m.py("x = bytearray(100 << 20); print('ok')", "--json", "--memory", "300M",
                             "--disk", "64M")).out)
    eq((j["oom"], j["oom_kills"], j["stdout"]), (False, 0, "ok\n"), repr(j))
    if limits_hold(m):
        ok(j["memory_peak"] >= 100 << 20, f"memory_peak {j['memory_peak']}")


@case
def c14_oom_score_is_raised_for_children(m):
    """The command goes before the agent does."""
    r = done(m.sh("cat /proc/self/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'"))
    a, b = r.out.split()
    ok(int(a) > 0 and a == b, f"oom_score_adj {r.out!r}")


@case
def c15_fork_bomb_gets_eagain(m):
    """By the cgroup, or by RLIMIT_NPROC where there is none."""
    probe = m.tool("wall_probe")
    r = done(m.run("--json", "--pids", "40", "--file", f"{probe}:/workspace/p", "--", "/workspace/p", "fork",
                   "200"))
    j = json.loads(r.out)
    made, err = map(int, j["stdout"].split())
    eq(err, 11, "errno (EAGAIN)")
    ok(20 <= made < 40, f"{made} forks under a limit of 40")


@case(modes=("root",))
def c15_processes_are_limited_without_cgroups(m):
    """Root on a host whose cgroups are out of reach: by RLIMIT_NPROC, as the note says."""
    probe = m.tool("wall_probe")
    r = done(m.native(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh",
                       *m.run_argv("--json", "--pids", "40", "--file", f"{probe}:/workspace/p", "--",
                                   "/workspace/p", "fork", "200")]))
    made, err = map(int, json.loads(r.out)["stdout"].split())
    eq(err, 11, "errno (EAGAIN)")
    ok(20 <= made < 41, f"{made} forks under a limit of 40")


@case
def c15_fork_bomb_ends_on_the_clock(m):
    c15_fork_bomb_gets_eagain(m)  # else a bomb would be the host's own trouble
    r = m.run("--json", "--timeout", "1s", "--pids", "64", "--", PY, "-c",
              "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", timeout=20)
    eq(r.rc, 124, repr(r))
    until(lambda: not reap.descendants(), 20, "processes left")


@case
def c15_other_sandboxes_go_on_beside_a_fork_bomb(m):
    c15_fork_bomb_gets_eagain(m)
    p = m.popen(m.run_argv("--timeout", "3s", "--pids", "64", "--", PY, "-c", "import os\nprint('up', flush=True)\n"
                           "while True:\n  try: os.fork()\n  except OSError: pass"),
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    eq(p.stdout.readline(), b"up\n", "start")
    for _ in range(3):
        done(m.run("--", "sh", "-c", "(true) && echo fine"), out=b"fine\n")
    eq(p.wait(timeout=20), 124, "exit")


@case
def cpu_limit_slows(m):
    if not limits_hold(m):
        return
    j = json.loads(done(m.py("import time\nend=time.monotonic()+1.5\nwhile time.monotonic()<end: pass",
                             "--json", "--cpus", "0.2")).out)
    ok(j["cpu_ms"] < 0.5 * j["wall_ms"], f"cpu {j['cpu_ms']} ms of {j['wall_ms']} ms at 0.2 CPUs")


@case
def usage_is_reported(m):
    j = json.loads(done(m.py("import time\nt=time.process_time()\nwhile time.process_time()-t<0.3: pass",
                             "--json")).out)
    ok(250 <= j["cpu_ms"] < 2000, f"cpu_ms {j['cpu_ms']}")
    ok(j["wall_ms"] >= 250, f"wall_ms {j['wall_ms']}")


@case
def usage_of_children_nobody_waits_for(m):
    """Their time is in no parent's account; the cgroup has it, so an ordinary user without one cannot be told."""
    if m.name != "root":
        return
    j = json.loads(done(m.py("import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork() == 0:\n"
                             "  t = time.process_time()\n  while time.process_time() - t < 0.5: pass\n  os._exit(0)\n"
                             "try: os.wait()\nexcept ChildProcessError: pass", "--json")).out)
    ok(j["cpu_ms"] >= 500, f"cpu_ms {j['cpu_ms']}")


# ---- C08: the clock ----
def times_out(m, script, seconds="2s", low=2.0, prog=None):
    t = time.monotonic()
    r = m.run("--json", "--timeout", seconds, "--", *(prog or ["sh", "-c", script]), timeout=25)
    took = time.monotonic() - t
    eq(r.rc, 124, repr(r))
    j = json.loads(r.out)
    eq((j["timed_out"], j["exit"], j["lost"], j["oom"]), (True, None, False, False), repr(j))
    ok(low <= took, f"took {took:.3f} s")
    until(lambda: not reap.descendants(), 20, lambda: f"left: {[reap.describe(p) for p in reap.descendants()]}")


@case
def c08_busy_children(m):
    times_out(m, "for i in 1 2; do (while :; do :; done)& done; sleep 28")


@case
def c08_setsid(m):
    times_out(m, "for i in 1 2; do setsid sh -c 'while :; do :; done' & done; sleep 28", "500ms", 0.5)


@case
def c08_double_fork(m):
    times_out(m, "(setsid sh -c 'sleep 100 & sleep 100 & wait' &) ; (sleep 100 &); sleep 28", "500ms", 0.5)


@case
def c08_stopped_and_ignoring(m):
    times_out(m, "trap '' TERM INT HUP; sh -c 'kill -STOP $$' & sleep 28", "500ms", 0.5)


@case
def c08_vfork_and_traced(m):
    times_out(m, None, "500ms", 0.5, [PY, "-c", """
import ctypes, os, time, signal
libc = ctypes.CDLL(None)
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(100)
os.waitpid(pid, os.WUNTRACED)
time.sleep(100)
"""])


@case
def a_command_shorter_than_its_timeout(m):
    done(m.run("--timeout", "20s", "--", "sh", "-c", "exit 3"), rc=3, ms=19000)


sys.exit(main())
