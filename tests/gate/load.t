#!/usr/bin/python3
"""The gate under load and when things go wrong: as many connections as there are descriptors for, clients that stop in the
middle, readers that do not read, a gate and a reader of records that are stopped."""
import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gateworld  # noqa: E402
import reap  # noqa: E402
from brigtest import Skip, case, eq, main, ok, until  # noqa: E402
from gateworld import C  # noqa: E402

W = gateworld.enter()
MOST, STEP = 10000, 500
LIMITS = "limits: {max_conns: 100000, conn_rate_per_s: 1000000, burst: 1000000}\n"
IDLE_MAX = 20 << 10  # bytes of the gate for a connection that is idle
STUCK_MAX = 48 << 10  # for one that is not read: 16 KiB each way are kept, beside what is idle
ECHO, DEAF, FLOOD = 7, 9100, 9101

# The servers: one says back what it hears, one never reads, one sends all it can and never reads.
SERVER = f"""
import resource, select, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
ep, who, at = select.epoll(), {{}}, {{}}
for port in ({ECHO}, {DEAF}, {FLOOD}):
    s = socket.create_server(({C!r}, port), backlog=4096); s.setblocking(False)
    at[s.fileno()] = (s, port); ep.register(s, select.EPOLLIN)
print(hard, flush=True)
def drop(fd): ep.unregister(fd); who.pop(fd)[0].close()
while True:
    for fd, ev in ep.poll():
        try:
            if fd in at:
                while True:
                    c = at[fd][0].accept()[0]; c.setblocking(False); who[c.fileno()] = (c, at[fd][1])
                    ep.register(c, {{ {ECHO}: select.EPOLLIN, {DEAF}: 0, {FLOOD}: select.EPOLLOUT }}[at[fd][1]])
            elif who[fd][1] == {ECHO}:
                d = who[fd][0].recv(65536)
                if d: who[fd][0].send(d)
                else: drop(fd)
            elif ev & (select.EPOLLHUP | select.EPOLLERR): drop(fd)
            else: who[fd][0].send(bytes(1 << 16))
        except BlockingIOError: pass
        except OSError: drop(fd)
"""

# What a sandbox has beside INSIDE: many connections, each named by its number.
MANY = """
import errno, resource, select
keep, addr = [], {}
def files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
def opened(host, port):
    if host not in addr: addr[host] = socket.gethostbyname(host)
    s = socket.create_connection((addr[host], port), 20); s.setblocking(False)
    return s
def each(socks, byte, seconds=60):
    # One byte each way over each: how many said it back.
    ep, left = select.epoll(), {s.fileno(): s for s in socks}
    good = 0
    for s in socks:
        ep.register(s, select.EPOLLIN)
        if word(s.send)(byte) != 1: left.pop(s.fileno()); ep.unregister(s)  # refused already
    while left:
        ready = ep.poll(seconds)
        if not ready: break
        for fd, _ in ready:
            s = left.pop(fd); ep.unregister(fd)
            try: good += s.recv(9) == byte
            except OSError: pass
    return good
def many(host, port, n):
    # Some at a time, so that what is asked for is answered before more is.
    good = 0
    while n > 0:
        some = [opened(host, port) for _ in range(min(n, 256))]
        good += each(some, b'a'); keep.extend(some); n -= len(some)
    return good
def said(s, byte):
    # One that says this; None when it is refused already, maybe before connect(2) has returned.
    return s if not isinstance(s, str) and word(s.send)(byte) == 1 else None
def outcome(s):
    s.settimeout(40)
    return word(s.recv)(1)
def fill(socks):
    # Send until nobody takes more for a while; how many bytes were taken.
    ep, n, by = select.epoll(), 0, {s.fileno(): s for s in socks}
    for s in socks: ep.register(s, select.EPOLLOUT)
    while True:
        ready = ep.poll(0.5)
        if not ready: return n
        for fd, _ in ready:
            try: n += by[fd].send(bytes(1 << 16))
            except BlockingIOError: pass
"""
_server = []


def server():
    """Descriptors the server may have; it is started once."""
    if W is None:
        raise Skip("namespaces for the servers need root")
    if not _server:
        p = W.start([sys.executable, "-c", SERVER], stdout=-1)
        _server.append(int(p.stdout.readline()))
    return _server[0]


def inside(m, rules, *opts, **kw):
    server()
    return gateworld.Inside(W, m, m.put("rules", gateworld.RULES + rules), *opts, code=MANY, **kw)


def files_of(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        return int(next(x for x in f if x.startswith("Max open files")).split()[3])


def memory(pid):
    """Bytes of the process's own that are in memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(x.split()[1]) << 10 for x in f if x.startswith(("Private_Clean", "Private_Dirty")))


def lines_of(path):
    """A function that says how many lines were written until now; what was counted is not read again."""
    f, n = open(path, "rb"), 0  # pylint: disable=consider-using-with

    def count():
        nonlocal n
        n += f.read().count(b"\n")
        return n
    return count


def bounded(what, n, before, after, most):
    print(f"# {what}: {n} connections, {(after - before) / n / 1024:.1f} KiB of brig-gate each ({before >> 10} -> {after >> 10} KiB)", flush=True)
    ok(after - before <= n * most, f"{what}: {after - before} bytes for {n}")


@case
def as_many_as_there_are_descriptors_for(m):
    s = inside(m, LIMITS + f"rules: [{{host: web.allowed.test, ports: {ECHO}}}]\n")
    gate = s.gate_pid()
    n = min(MOST if m.uid == 0 else 2000, (files_of(gate) - 100) // 2, int(s.say("files()")) - 100, server() - 100)
    eq(s.say(f"many('web.allowed.test', {ECHO}, 8)"), "8", "the first")
    before = memory(gate)
    written = lines_of(s.log)
    for at in range(8, n, STEP):
        k = min(STEP, n - at)
        eq(s.say(f"many('web.allowed.test', {ECHO}, {k})"), str(k), f"after {at}")
        until(lambda at=at, k=k: written() >= at + k, 30, "their records")  # so that the pipe never fills
    bounded("idle", n - 8, before, memory(gate), IDLE_MAX)
    eq(s.say("each(keep, b'z')"), str(n), "all are alive")
    eq(s.say("[c.close() for c in keep].clear()"), "None", "closed")
    recs = s.end()
    eq(len([x for x in recs if x["event"] == "connect" and x["reason"] == "allowed"]), n, "each has its record")
    # their ends come all at once, more than the pipe takes
    eq([(x["bytes_up"], x["bytes_down"]) for x in recs if x["event"] == "close"], [(2, 2)] * n, "and its end")
    eq(([x["seq"] for x in recs], [x for x in recs if "lost" in x]), (list(range(2 * n)), []), "nothing is missing")


@case
def what_is_not_read_is_not_kept(m):
    """Both ways: the sender is stopped, the gate does not grow."""
    n = 40
    s = inside(m, LIMITS + f"rules: [{{host: web.allowed.test, ports: [{ECHO}, {DEAF}, {FLOOD}]}}]\n")
    gate = s.gate_pid()
    eq(s.say(f"many('web.allowed.test', {ECHO}, 8)"), "8", "the first")
    before = memory(gate)
    s.say(f"keep.extend(opened('web.allowed.test', {DEAF}) for _ in range({n}))")
    taken = int(s.say("fill(keep[8:])"))
    ok(taken > n << 16, f"{taken} bytes were taken: more than the gate copies")
    bounded("not read by the server", n, before, memory(gate), STUCK_MAX)
    s.say(f"keep.extend(opened('web.allowed.test', {FLOOD}) for _ in range({n}))")
    eq(s.say(f"each(keep[:8], b'b')"), "8", "others are served")
    held = until(lambda: (lambda a: a if a == memory(gate) else 0)(memory(gate)), 20, "it comes to rest")
    bounded("and by the client", 2 * n, before, held, STUCK_MAX)
    print(f"# {taken >> 10} KiB taken from the writers", flush=True)
    s.end()


@case(modes=("user",))
def without_descriptors_more_wait_or_are_refused(m):
    """The hard limit cannot be raised here: what is open goes on, what is too much is told so, and then there is room again."""
    s = inside(m, LIMITS + f"rules: [{{host: web.allowed.test, ports: {ECHO}}}]\n", prefix=("prlimit", "--nofile=256:256"))
    n = 50
    eq(s.say("files()"), "256", "the limit")
    eq(s.say(f"many('web.allowed.test', {ECHO}, {n})"), str(n), "as many as fit")
    got = int(s.say(f"(keep.extend(opened('web.allowed.test', {ECHO}) for _ in range(150)), each(keep[{n}:], b'a', 2))[1]"))
    ok(0 < got < 150, f"{got} of 150 more")
    eq(s.say(f"each(keep[:{n}], b'b')"), str(n), "what was open goes on")
    s.say("([c.close() for c in keep], keep.clear())")
    # closed ones are noticed one after another
    eq(s.say(f"next(i for i in range(10000) if tcp('web.allowed.test', {ECHO}) == b'hello') >= 0"), "True", "room again")
    recs = s.end()
    bad = {x["reason"] for x in recs if x["verdict"] == "deny"}
    ok(bad <= {"overload"}, f"{bad}")


@case(modes=("user",))
def a_client_that_stops_in_its_first_message(m):
    """One byte and no more: only so many are waited for, others are served meanwhile, and the wait ends."""
    n = 40
    s = inside(m, LIMITS + f"rules:\n  - {{host: web.allowed.test, ports: {ECHO}}}\n"
               f"  - {{host: web.allowed.test, ports: 443, limits: {{max_conns: {n}}}}}\n"
               f"  - {{host: web.allowed.test, ports: 80, limits: {{max_conns: {n}}}}}\n")
    eq(s.say(f"keep.extend(said(word(opened)('web.allowed.test', p), b) for _ in range({n + 10}) for p, b in ((443, b'\\x16'), (80, b'G')))"), "None", "sent")
    eq(s.say(f"(keep.append(opened('web.allowed.test', {ECHO})), each(keep[-1:], b'x'))[1]"), "1", "others are served")
    eq(s.say("{outcome(c) for c in keep[0:-1:2] if c}"), "{'reset'}", "all are ended")
    eq(s.say("{outcome(c) for c in keep[1:-1:2] if c} <= {'reset', b'H'}"), "True", "those that speak HTTP with an answer")
    eq(s.say("each(keep[-1:], b'y')"), "1", "and others not")
    recs = s.end()
    count = {}
    for x in recs:
        if x["event"] == "connect" and x["verdict"] == "deny":
            count[x["reason"], x["dst_port"]] = count.get((x["reason"], x["dst_port"]), 0) + x.get("suppressed", 1)
    want = {("max_conns", 443): 10, ("max_conns", 80): 10, ("hello_timeout", 443): n, ("hello_timeout", 80): n}
    eq({k: v for k, v in count.items() if k in want}, want, "records")


@case(modes=("root",))
def a_gate_that_stands_still(m):
    """Nothing passes, and the end comes all the same: by the clock, and by a signal."""
    for opts, rc in ((("--timeout", "5s"), 124), ((), 143)):
        s = inside(m, f"rules: [{{host: x.allowed.test, ports: 7}}]\n", *opts)
        gate = s.gate_pid()
        eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "works")
        os.kill(gate, signal.SIGSTOP)
        W.take()
        s.tell("(a := socket.create_connection((socket.gethostbyname('x.allowed.test'), 7)), a.sendall(b'x'), a.recv(1))")
        if not opts:
            s.p.terminate()
        s.p.stdin.close()
        eq(s.p.stdout.read(), b"", "nothing came back")
        s.p.stdout.close()
        eq(s.p.wait(30), rc, "its end")
        eq([x for x in W.take() if "conn" in x], [], "nothing reached the other side")
        until(lambda: (reap.stat_of(gate) or "Z")[0] == "Z", 20, "the gate is gone")


@case(modes=("user",))
def nothing_passes_unrecorded(m):
    """Whoever reads the records stands still: when no more fit, no more is permitted."""
    s = inside(m, LIMITS + "rules: [{host: x.allowed.test, ports: 7}, {host: api.allowed.test, ports: 7}]\n")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "works")
    addr = s.say("socket.gethostbyname('x.allowed.test')")
    W.take()
    # a question is not recorded when it is answered: it says outside that the attempts are over
    s.tell(f"(next(i for i in range(20000) if tcp({addr!r}, 7) != b'hello'), [tcp({addr!r}, 7) for _ in range(20)].count('reset'),"
           " socket.gethostbyname('api.allowed.test'))[1]")
    until(lambda: len(W.log) > 0, 20, "begun")
    os.kill(s.p.pid, signal.SIGSTOP)
    until(lambda: any(x.get("query") == "api.allowed.test" for x in list(W.log)), 60, "refused at last")
    os.kill(s.p.pid, signal.SIGCONT)
    eq(s.heard(), "20", "nothing passes any more")
    eq(s.say("tcp('x.allowed.test', 7)"), "b'hello'", "and again, once there is room")
    recs = s.end()
    conns = [x for x in W.take() if "conn" in x]
    allowed = [x for x in recs if x["event"] == "connect" and x["verdict"] == "allow"]
    eq(len(allowed), len(conns) + 1, "what passed was recorded")  # one before take()
    bad = [x for x in recs if x["reason"] == "audit_full"]
    eq(sum(x.get("suppressed", 1) for x in bad), 21, f"each refusal is counted, though none found room at first: {bad}")
    eq(([x["seq"] for x in recs], [x for x in recs if "lost" in x]), (list(range(len(recs))), []), "nothing is missing")


RC = main()
if W is not None:
    W.end()
sys.exit(RC)
