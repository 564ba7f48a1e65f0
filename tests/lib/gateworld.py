"""A small Internet in network namespaces of the test's own: a resolver and servers on public-looking addresses,
which say what reached them.

enter() puts the test itself into a namespace (root is needed to make it) and starts the other side in a second one,
joined by a veth pair. Traffic never leaves these two.

attempts() runs many attempts in one sandbox and compares what each said, the records, and what reached the other
side, with what its row says."""
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reap  # noqa: E402
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402
from published import all_proved, proved  # noqa: E402

HERE = os.path.abspath(__file__)
RESOLVER = "9.9.9.9"
RULES = f"version: 1\ndns:\n  resolver: [{RESOLVER}]\n"  # a file that names the resolver
A, B = "93.184.216.34", "93.184.216.35"  # A: what allowed names stand for
C = "93.184.216.40"  # for servers that a test starts itself, see World.start
PRIVATE = "10.20.0.5"
PROXY = "10.30.0.9"  # of the company's: PROXIES says what each port does
PROXIES = {"open": 3128, "password": 3129, "refuses": 3130, "odd": 3131, "closes": 3132, "silent": 3133, "own names": 3134, "v4 only": 3135}
# What is no tunnel, one a connection, again and again
ODD_ANSWERS = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
               b"HTTP/1.1 200 OK\nX: y\n\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
               b"HTTP/2 200\r\n\r\n", b"hello\r\n", b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\tfolded: y\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 9000]

# name -> addresses of each type; a list of lists: one entry per query, the last stays
NAMES = {
    "api.allowed.test": [[A]], "x.allowed.test": [[A]], "a.b.allowed.test": [[A]], "allowed.test": [[A]],
    **{f"{x}.allowed.test": [[C]] for x in ("web", "other", "expired", "wrong", "self")}, "attacker.test": [[C]],
    "git.allowed.test": [[A]], "evil.test": [[B]], "notallowed.test": [[B]], "both.allowed.test": [[A]], "dir.allowed.test": [[A]],
    "flip-root.allowed.test": [[A], ["169.254.169.254"]], "flip-user.allowed.test": [[A], ["169.254.169.254"]],
    "mixed.allowed.test": [["169.254.169.254", A]], "cname.allowed.test": [["=elsewhere.other.test"]],
    "ok.shared.test": [[A]], "bad.shared.test": [[A]], "private.allowed.test": [[PRIVATE]],
    "v6first.allowed.test": [["2606:2800:220:1::7", A]], "elsewhere.other.test": [[A]], "dead.allowed.test": [["93.184.216.99"]],
    "dead1st.allowed.test": [["93.184.216.99", A]], "closed.allowed.test": [[C]], "closed1st.allowed.test": [[C, A]],
}
# what no name may stand for, unless a rule names the range of a private one
BELOW = ["169.254.169.254", "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.20.0.5", "172.16.0.1", "192.168.1.1",
         "100.64.0.1", "192.0.0.8", "198.18.1.0", "198.19.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
         "10.99.0.1", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::127.0.0.1", "::a9fe:a9fe",
         "::ffff:169.254.169.254", "::ffff:127.0.0.1", "::ffff:0:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1",
         "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::", "2002:7f00:1::1", "2001::1",
         "2001:0:4136:e378:8000:63bf:5601:5601", "2a00:1450:4001:800:0:5efe:a9fe:a9fe", "2a00:1450:4001:800:200:5efe:7f00:1"]
NAMES.update({f"below{i}.allowed.test": [[a]] for i, a in enumerate(BELOW)})


def sh(cmd):
    subprocess.run(cmd, shell=True, check=True, stdout=subprocess.DEVNULL)


def enter():
    """Re-executes the test inside a namespace; returns there with the running World."""
    if os.geteuid() != 0:
        return None
    if os.environ.get("GATEWORLD") != "1":
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], dict(os.environ, GATEWORLD="1"))
    return World()


# What an attempt has inside: each returns a word or bytes, never raises.
INSIDE = r"""
import ctypes, os, socket, ssl, struct, subprocess, sys, threading, time
WORD = {104: 'reset', 32: 'reset', 111: 'refused', 113: 'unreach', 13: 'unreach', 101: 'unreach', 1: 'perm'}
def word(f):
    def g(*a, **k):
        try: return f(*a, **k)
        except socket.timeout: return 'timeout'
        except (socket.gaierror, UnicodeError): return 'noname'
        except OSError as e: return WORD.get(e.errno, str(e))
    return g
@word
def tcp(host, port, send=b'hello', n=5):
    s = socket.create_connection((host, port), 20); s.settimeout(20)
    s.sendall(send); d = s.recv(n)
    return d or 'end'
@word
def udp(host, port, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(10); s.connect((host, port)); s.send(b'x')
    return s.recv(9)
@word
def unconnected(host, port, seconds=10):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(seconds); s.setsockopt(0, 11, 1)  # IP_RECVERR
    s.sendto(b'x', (host, port)); return s.recv(9)
@word
def fastopen(host, port):
    s = socket.socket(); s.sendto(b'hello', 0x20000000, (host, port)); s.settimeout(20)
    return s.recv(5)
@word
def fastmsg(host, port):
    s = socket.socket(); s.sendmsg([b'hello'], [], 0x20000000, (host, port)); s.settimeout(20)
    return s.recv(5)
@word
def mmsg(host, port):
    # struct mmsghdr of one datagram, sent by the call for many
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.setsockopt(0, 11, 1)  # IP_RECVERR
    to = ctypes.create_string_buffer(struct.pack('=HH', 2, socket.htons(port)) + socket.inet_aton(host) + bytes(8), 16)
    data = ctypes.create_string_buffer(b'x', 1); iov = (ctypes.c_void_p * 2)(ctypes.addressof(data), 1)
    vec = ctypes.create_string_buffer(struct.pack('@PIPNPNiI', ctypes.addressof(to), 16, ctypes.addressof(iov), 1, 0, 0, 0, 0), 64)
    if ctypes.CDLL(None, use_errno=True).sendmmsg(s.fileno(), vec, 1, 0) < 0: raise OSError(ctypes.get_errno(), 'sendmmsg')
    return s.recv(9)
@word
def family(*a):
    socket.socket(*a).close()
    return 'made'
def name(*labels): return b''.join(bytes([len(x)]) + x for x in labels) + b'\0'
def dotted(s): return name(*s.encode().split(b'.'))
def read_answer(d): return '%d %d %s' % (d[3] & 15, struct.unpack('>H', d[6:8])[0], '.'.join(map(str, d[-4:])) if d[7] else '')
def question(raw, qtype=1, more=b'', count=1, cls=1):
    return (b'\x12\x34\x01\0' + struct.pack('>HHHH', count, 0, 0, 1 if more else 0) + raw + struct.pack('>HH', qtype, cls) + more)
@word
def ask(raw, qtype=1, to='198.18.0.1', more=b'', count=1, cls=1):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.connect((to, 53))
    s.send(question(raw, qtype, more, count, cls))
    return read_answer(s.recv(2000)).strip()
@word
def ask_tcp(to, *raws):
    s = socket.create_connection((to, 53), 10); s.settimeout(10)
    s.sendall(b''.join(struct.pack('>H', len(question(r))) + question(r) for r in raws))
    f = s.makefile('rb'); return ', '.join(read_answer(f.read(struct.unpack('>H', f.read(2))[0])).strip() for _ in raws)
def hello(sni):
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    o = c.wrap_bio(a, b, server_hostname=sni)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return b.read()
def records(h, n):
    body = h[5:]
    return b''.join(b'\x16\x03\x01' + len(body[i:i + n]).to_bytes(2, 'big') + body[i:i + n] for i in range(0, len(body), n))
def with_extension(h, kind, data):
    # the handshake message of one record, with one extension more, as records of 16 KiB
    m = bytearray(h[9:]); at = 34; at += 1 + m[at]; at += 2 + int.from_bytes(m[at:at + 2], 'big'); at += 1 + m[at]
    ext = bytes(m[at + 2:]) + struct.pack('>HH', kind, len(data)) + data
    m = bytes(m[:at]) + struct.pack('>H', len(ext)) + ext
    return records(b'\x16\x03\x01\0\0' + b'\x01' + len(m).to_bytes(3, 'big') + m, 16384)
@word
def drip(host, data):
    s = socket.create_connection((host, 443), 20); s.setsockopt(6, 1, 1); s.settimeout(20)
    for i in range(0, len(data)): s.sendall(data[i:i + 1])
    return s.recv(1)
@word
def run(*argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, **kw).returncode
"""


def gate(w, m, script, *opts, rules=("--allow", "*.allowed.test:7"), rc=0, lines="", timeout=60):
    """One run behind the gate: its result, its records, what the other side saw. lines: more of the rules' file, after gateworld.RULES."""
    if w is None:
        raise Skip("namespaces for the servers need root")
    conf = m.put("rules", f"{RULES}{lines}")
    log = m.path("log")
    w.take()
    r = m.py(INSIDE + script, "--egress", conf, "--egress-log", log, *rules, *opts, timeout=timeout)
    if rc is not None:
        done(r, rc)
    with open(log, encoding="ascii") as f:
        recs = [json.loads(x) for x in f]
    eq([x["seq"] for x in recs], list(range(len(recs))), "no record is missing")
    return r, recs, w.take()


def where(rec):
    if rec["event"] == "dns":
        return rec.get("name", "").lower()
    host = rec.get("name", rec.get("orig_dst"))
    return f"[{host}]:{rec['dst_port']}" if ":" in host else f"{host}:{rec['dst_port']}"


def happened(seen):
    """Questions (each name once: answers are kept for a moment), connections of the other side, and what its proxies were
    asked, in short."""
    out = [*{f"?{x['query']}" for x in seen if x.get("type") in (1, 28)}] + [x["conn"] for x in seen if "conn" in x] + [x["proxy"] for x in seen if "proxy" in x]
    odd = [f"?{x['query']} type {x['type']}" for x in seen if x.get("type") not in (None, 1, 28)]
    return sorted(out + odd)


def only_packets(seen, want):
    """Nothing else was even tried: each packet that began something came for a question or a connection that is wanted."""
    may = {f"udp {RESOLVER}:53" if x[0] == "?" else f"tcp {x}" for x in want}
    eq({p for x in seen for p in x.get("packets", ())} - may, set(), "packets that reached the other side")


def compare(rows, r, recs, seen):
    """What each row says against what was said, recorded and seen; see attempts()."""
    got = dict(x.split("\t", 1) for x in r.out.decode().splitlines())
    eq(len({row[0] for row in rows}), len(rows), "titles are told apart")
    for title, expr, says, *_ in rows:
        ok(got.get(title) == str(says), lambda: f"{title}: {expr}: {got.get(title)!r}, want {says!r}; {recs[-3:]}")
    for x in recs:
        ok((x["verdict"] == "allow") == (x["reason"] in ("allowed", "closed")), f"verdict and reason: {x}")
    # what is told again within the window is counted, so of each refusal there is one line that counts nothing
    lines = [(x["event"], x["reason"], x.get("transport"), where(x)) for x in recs if x["verdict"] == "deny" and "suppressed" not in x]
    eq([x for x in set(lines) if lines.count(x) > 1], [], "each refusal is written once")
    have = [(x["event"], x["reason"], where(x)) for x in recs if x["event"] != "close" for _ in range(x.get("suppressed", 1))]
    names = {x for x in have if x[0] == "dns"}
    have = [x for x in have if x[0] != "dns"] + list(names)
    for exact in (True, False):
        for title, expr, _, want, *_ in rows:
            for rec in want:
                if (rec[2] is not None) != exact:
                    continue
                one = next((x for x in have if x[:2] == rec[:2] and rec[2] in (None, x[2])), None)
                if one is None and exact and rec[0] == "dns" and rec in names:
                    continue  # of an earlier row
                ok(one is not None, lambda: f"{title}: {expr}: no record {rec} among {have}")
                have.remove(one)
    eq(have, [], "records of nothing that was tried")
    want = [x for row in rows for x in (row[4] if len(row) > 4 else ())]
    eq(happened(seen), sorted([x for x in want if x[0] != "?"] + [*{x for x in want if x[0] == "?"}]), "what reached the other side")
    only_packets(seen, want)
    for row in rows:
        reasons = [x[1] for x in row[3]]
        verdict = None if not reasons else "allow" if reasons == ["allowed"] * len(reasons) else "deny"
        proved(verdict=verdict, reason=reasons or row[2], records=len(reasons), upstream=row[4] if len(row) > 4 else ())


def prove(recs, seen, *, verdict, reason, records, upstream):
    """For what is tried otherwise than by attempts(): what was recorded and what the other side saw, compared with this. reason:
    one, or a set of those there may be; records: how many of these verdicts; upstream: as happened() has it."""
    words = reason if isinstance(reason, set) else {reason}
    of = [x for x in recs if x["verdict"] == verdict and x["event"] not in ("close", "dns") for _ in range(x.get("suppressed", 1))]
    of += {(x["reason"], where(x)): x for x in recs if x["verdict"] == verdict and x["event"] == "dns"}.values()  # A and AAAA of a name are one
    ok({x["reason"] for x in of} <= words, f"{verdict}: {[x['reason'] for x in of]}, want {words}")
    eq(len(of), records, f"records: {verdict} {words}: {recs}")
    eq(happened(seen), sorted(upstream), "what reached the other side")
    only_packets(seen, upstream)
    proved(verdict=verdict, reason=reason, records=records, upstream=upstream)


def attempts(w, m, rows, *opts, **kw):
    """Each row: (title, expression, what it gives, records, what reaches the other side).
    A record is (event, reason, where), where None = anything; it is a denial unless its reason is "allowed". Records of the
    lookups of one name count as one, and one of n repeats as n. Nothing else may have been recorded or have happened."""
    script = "for title, try_it in (\n" + "".join(f"  ({t!r}, lambda: {e}),\n" for t, e, *_ in rows) + "):\n    print(title + '\\t' + str(try_it()), flush=True)\n"
    r, recs, seen = gate(w, m, script, *opts, **kw)
    compare(rows, r, recs, seen)
    return recs, seen


class Inside:
    """A sandbox behind the gate that evaluates what it is told, line by line. code: more of what it has, after INSIDE."""

    def __init__(self, w, m, rules, *opts, code="", prefix=()):
        if w is None:
            raise Skip("namespaces for the servers need root")
        self.m, self.log = m, m.path("log")
        loop = "for line in sys.stdin: print(eval(line), flush=True)\n"
        self.p = m.popen([*prefix, *m.run_argv("-i", "--egress", rules, "--egress-log", self.log, *opts, "--", "/usr/bin/python3",
                                               "-u", "-c", INSIDE + code + loop)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.say("1")

    def tell(self, expr):
        self.p.stdin.write(expr.encode() + b"\n")
        self.p.stdin.flush()

    def heard(self):
        return self.p.stdout.readline().decode().strip()

    def say(self, expr):
        self.tell(expr)
        return self.heard()

    def gate_pid(self):
        pids = subprocess.run(["pgrep", "-P", str(self.p.pid), "brig-gate"], stdout=subprocess.PIPE, check=False).stdout.split()
        eq(len(pids), 1, "one gate")
        return int(pids[0])

    def records(self):
        with open(self.log, encoding="ascii") as f:
            return [json.loads(x) for x in f]

    def end(self, rc=0):
        self.p.stdin.close()
        eq(self.p.stdout.read(), b"", "nothing more was said")
        self.p.stdout.close()
        eq(self.p.wait(30), rc, "the sandbox ends as it would have")
        return self.records()


class World:
    def __init__(self):
        self.log = []
        self.lock = threading.Lock()
        self.servers = []
        sh("ip link set lo up")
        self.p = subprocess.Popen(["unshare", "--net", sys.executable, HERE], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        reap.spare(self.p.pid)
        assert self.p.stdout.readline() == "born\n"
        sh(f"ip link add v0 type veth peer name v1 netns {self.p.pid}")
        sh("ip addr add 10.99.0.1/24 dev v0; ip link set v0 up; ip route add default via 10.99.0.2")
        self.p.stdin.write("go\n")
        self.p.stdin.flush()
        while self.p.stdout.readline() != "ready\n":
            pass
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            with self.lock:
                self.log.append(json.loads(line))

    def take(self):
        """What has reached the other side since the last call: the marker's question is the last of it."""
        mark = f"mark{time.monotonic_ns()}"
        self.p.stdin.write(mark + "\n")
        self.p.stdin.flush()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with self.lock:
                if {"mark": mark} in self.log:
                    got = [x for x in self.log if "mark" not in x and x.get("packets") != []]
                    self.log.clear()
                    return got
            time.sleep(0.002)
        raise AssertionError("the other side does not answer")

    def until(self, conn, count=1):
        """Waits until the other side has said so often that this connection reached it; what it said until then."""
        end, seen = time.monotonic() + 20, []
        while [x.get("conn") for x in seen].count(conn) < count:
            ok(time.monotonic() < end, f"not {count} times at the other side: {conn}")
            seen += self.take()
        return seen

    def start(self, argv, **kw):
        """A server on the other side; it ends with end()."""
        p = subprocess.Popen(["nsenter", "-t", str(self.p.pid), "-n", *argv], stdin=subprocess.DEVNULL, **kw)
        reap.spare(p.pid)
        self.servers.append(p)
        return p

    def end(self):
        for p in self.servers:
            p.terminate()
        for p in self.servers:
            p.wait(20)
        self.p.stdin.close()
        self.p.wait(10)


# ---- the other side ----
def open_tap(interface):
    """A copy of each packet that begins something: SYN, UDP, and what else there is of IPv4; TCP and UDP of IPv6. The kernel keeps
    them until they are asked for, so that none is told too late."""
    import ctypes
    import socket
    import struct
    # jt and jf are counted from the next instruction (filter.txt of the kernel); a packet begins with its IP header here
    prog = [(0x30, 0, 0, 0), (0x54, 0, 0, 0xf0), (0x15, 0, 6, 0x40),  # version 4?
            (0x30, 0, 0, 9), (0x15, 0, 8, 6),                          # TCP?
            (0xb1, 0, 0, 0), (0x50, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 4, 5, 2),  # SYN without ACK
            (0x30, 0, 0, 6), (0x15, 2, 0, 6), (0x15, 1, 0, 17), (0x06, 0, 0, 0),     # version 6
            (0x06, 0, 0, 128), (0x06, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *x) for x in prog))
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(3))  # ETH_P_ALL
    s.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", len(prog), ctypes.addressof(code)))  # SO_ATTACH_FILTER
    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    s.bind((interface, 0))
    return s


def arrived(tap):
    """Where the packets since the last call went."""
    import socket
    import struct
    out = set()
    while True:
        try:
            p, who = tap.recvfrom(128)
        except BlockingIOError:
            return out
        if who[2] == 4:  # PACKET_OUTGOING
            continue
        six = p[0] >> 4 == 6
        kind, at = (p[6], 40) if six else (p[9], (p[0] & 15) * 4)
        to = f"[{socket.inet_ntop(socket.AF_INET6, p[24:40])}]" if six else socket.inet_ntoa(p[16:20])
        if kind in (6, 17):
            out.add(f"{'tcp' if kind == 6 else 'udp'} {to}:{struct.unpack('>H', p[at + 2:at + 4])[0]}")
        elif kind != 1 or p[at] == 8:  # of ICMP only what asks
            out.add(f"protocol {kind} {to}")


def other_side():
    import selectors
    import socket
    import ssl
    import struct
    import tempfile
    lock = threading.Lock()

    def say(**kw):
        with lock:
            sys.stdout.write(json.dumps(kw) + "\n")
            sys.stdout.flush()
    sys.stdout.write("born\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sh("ip link set lo up; ip addr add 10.99.0.2/24 dev v1; ip link set v1 up")
    for a in (RESOLVER, A, B, C, PRIVATE, PROXY, "8.8.8.8", "100.64.0.1"):
        sh(f"ip addr add {a}/32 dev lo")
    tap = open_tap("v1")
    counts = {}

    def answer(q):
        at, labels = 12, []
        while q[at]:
            labels.append(q[at + 1:at + 1 + q[at]])
            at += 1 + q[at]
        question = q[12:at + 5]
        qtype = struct.unpack(">H", q[at + 1:at + 3])[0]
        name = b".".join(labels).decode("latin1")
        say(query=name, type=qtype)
        name = name.lower()
        if name not in NAMES:
            return q[:2] + b"\x81\x83" + struct.pack(">HHHH", 1, 0, 0, 0) + question
        turns = NAMES[name]
        k = counts[name, qtype] = counts.get((name, qtype), 0) + 1
        rrs = []
        for a in turns[min(k, len(turns)) - 1]:
            if a.startswith("="):
                to = b"".join(bytes([len(x)]) + x.encode() for x in a[1:].split(".")) + b"\0"
                rrs.append(b"\xc0\x0c" + struct.pack(">HHIH", 5, 1, 0, len(to)) + to)
                for x in NAMES[a[1:]][0]:
                    if qtype == 1:
                        rrs.append(to + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(x))
            elif ":" in a and qtype == 28:
                rrs.append(b"\xc0\x0c" + struct.pack(">HHIH", 28, 1, 0, 16) + socket.inet_pton(socket.AF_INET6, a))
            elif ":" not in a and qtype == 1:
                rrs.append(b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(a))
        return q[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, len(rrs), 0, 0) + question + b"".join(rrs)

    def dns(addr):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((addr, 53))
        while True:
            q, peer = s.recvfrom(4096)
            s.sendto(answer(q), peer)

    listeners = selectors.DefaultSelector()

    def serve(addr, port, fn):
        s = socket.create_server((addr, port), backlog=1024)
        s.setblocking(False)
        listeners.register(s, selectors.EVENT_READ, (f"{addr}:{port}", fn))

    def one(c, fn):
        try:
            fn(c)
        except OSError:
            pass
        finally:
            c.close()

    def accept_all(s, where, fn):
        """All connections that are there, also those that were reset since; each is said before it is served."""
        while True:
            try:
                c, peer = s.accept()
            except BlockingIOError:
                return
            c.setblocking(True)
            say(conn=("" if peer[0] == "10.99.0.1" else "proxied ") + where)  # whoever is not of brig's side is a proxy of ours
            threading.Thread(target=one, args=(c, fn), daemon=True).start()

    def echo(c):
        while True:
            d = c.recv(65536)
            if not d:
                return
            c.sendall(d)

    def after_end(c):
        """Answers only when the other has ended its half."""
        n = 0
        while True:
            d = c.recv(65536)
            if not d:
                break
            n += len(d)
        c.sendall(b"%d" % n)

    def source(c):
        n = int(c.recv(64).split()[0])
        while n > 0:
            c.sendall(b"x" * min(n, 1 << 20))
            n -= 1 << 20

    odd = iter(ODD_ANSWERS * 1000)

    def proxy(kind):
        """CONNECT as a company's proxy has it. What it was asked is said, with the credentials."""
        def both(a, b):
            try:
                while d := a.recv(65536):
                    b.sendall(d)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def fn(c):
            head = b""
            while b"\r\n\r\n" not in head and (d := c.recv(1)):
                head += d
            lines = head.decode("latin1").split("\r\n")
            say(proxy=" ".join([kind, lines[0].removesuffix(" HTTP/1.1")] + [x for x in lines[1:] if x and not x.startswith("Host: ")]))
            where, _, port = lines[0].split(" ")[1].rpartition(":")
            if kind == "password" and "Proxy-Authorization: Basic dXNlcjpwYXNz" not in lines:
                c.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\n\r\n")
            elif kind == "refuses":
                c.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n")
            elif kind == "odd":
                c.sendall(next(odd))
                c.recv(9)
            elif kind == "closes":
                pass
            elif kind == "silent":
                c.recv(9)
            elif kind == "v4 only" and ("[" in where or where == "93.184.216.99"):
                c.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            else:
                if where[0] not in "0123456789[":
                    where = B if kind == "own names" else NAMES[where][0][0]
                u = socket.create_connection((where.strip("[]"), int(port)), 20, source_address=(PROXY, 0))
                c.sendall(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n" if kind != "own names" else b"HTTP/1.0 200 OK\r\n\r\n")
                back = threading.Thread(target=both, args=(u, c), daemon=True)
                back.start()
                both(c, u)
                back.join()
                u.close()
        return fn

    def leaves(c):
        """Says one byte, takes some, and resets."""
        c.sendall(b"y")
        for _ in range(12):
            c.recv(1 << 16)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def web(c):
        f = c.makefile("rb")
        line = f.readline().decode("latin1").strip()
        host = auth = ""
        while True:
            h = f.readline().decode("latin1").strip()
            if not h:
                break
            if h.lower().startswith("host:"):
                host = h[5:].strip()
            if h.lower().startswith("authorization:"):
                auth = h[14:].strip()
        say(http=line, host=host, auth=auth)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")

    def ssh(c):
        c.sendall(b"SSH-2.0-test\r\n")
        c.sendall(b"got " + c.recv(100))
    d = tempfile.mkdtemp()
    sh(f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {d}/k -out {d}/c -days 30 "
       f"-subj /CN=api.allowed.test -addext subjectAltName=DNS:api.allowed.test,DNS:*.allowed.test 2>/dev/null")
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(f"{d}/c", f"{d}/k")
    for addr in (A, B, PRIVATE, "8.8.8.8", "100.64.0.1", "10.99.0.2"):
        serve(addr, 7, echo)
        serve(addr, 5, echo)
        serve(addr, 80, web)
        serve(addr, 8080, web)
        serve(addr, 22, ssh)
        serve(addr, 443, lambda c: web(ctx.wrap_socket(c, server_side=True)))
        serve(addr, 9000, after_end)
        serve(addr, 9001, source)
        serve(addr, 9002, leaves)
    for kind, port in PROXIES.items():
        serve(PROXY, port, proxy(kind))
    for addr in (RESOLVER, "8.8.8.8"):
        threading.Thread(target=dns, args=(addr,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    servers = list(listeners.get_map().values())
    listeners.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in listeners.select():
            if key.data:
                accept_all(key.fileobj, *key.data)
                continue
            mark = os.read(0, 4096).decode().strip()
            if not mark:
                os._exit(0)
            for k in servers:  # what came before it is told before it
                accept_all(k.fileobj, *k.data)
            say(packets=sorted(arrived(tap)))
            say(mark=mark)


if __name__ == "__main__":
    other_side()


def run(path, world):
    """The cases of a file, the last of which is that each published way it is marked with was proved; then the servers' end."""
    @case
    def every_published_way_of_this_file_was_proved(m):  # pylint: disable=unused-variable
        if world is None:
            raise Skip("namespaces for the servers need root")
        all_proved(path, m)

    try:
        return main()
    finally:
        if world is not None:
            world.end()
