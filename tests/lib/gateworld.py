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
from brigtest import Skip, done, eq, ok  # noqa: E402

HERE = os.path.abspath(__file__)
RESOLVER = "9.9.9.9"
RULES = f"version: 1\ndns:\n  resolver: [{RESOLVER}]\n"  # a file that names the resolver
A, B = "93.184.216.34", "93.184.216.35"  # A: what allowed names stand for
C = "93.184.216.40"  # for servers that a test starts itself, see World.start
PRIVATE = "10.20.0.5"

# name -> addresses of each type; a list of lists: one entry per query, the last stays
NAMES = {
    "api.allowed.test": [[A]], "x.allowed.test": [[A]], "a.b.allowed.test": [[A]], "allowed.test": [[A]],
    **{f"{x}.allowed.test": [[C]] for x in ("web", "other", "expired", "wrong", "self")}, "attacker.test": [[C]],
    "git.allowed.test": [[A]], "evil.test": [[B]], "notallowed.test": [[B]], "both.allowed.test": [[A]],
    "flip-root.allowed.test": [[A], ["169.254.169.254"]], "flip-user.allowed.test": [[A], ["169.254.169.254"]],
    "mixed.allowed.test": [["169.254.169.254", A]], "cname.allowed.test": [["=elsewhere.other.test"]],
    "ok.shared.test": [[A]], "bad.shared.test": [[A]], "private.allowed.test": [[PRIVATE]],
    "elsewhere.other.test": [[A]], "dead.allowed.test": [["93.184.216.99"]],
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
    """Questions (each name once: answers are kept for a moment) and connections of the other side, in short."""
    out = [*{f"?{x['query']}" for x in seen if x.get("type") == 1}] + [x["conn"] for x in seen if "conn" in x]
    odd = [f"?{x['query']} type {x['type']}" for x in seen if x.get("type") not in (None, 1, 28)]
    return sorted(out + odd)


def compare(rows, r, recs, seen):
    """What each row says against what was said, recorded and seen; see attempts()."""
    got = dict(x.split("\t", 1) for x in r.out.decode().splitlines())
    for title, expr, says, *_ in rows:
        ok(got.get(title) == str(says), lambda: f"{title}: {expr}: {got.get(title)!r}, want {says!r}; {recs[-3:]}")
    for x in recs:
        ok((x["verdict"] == "allow") == (x["reason"] in ("allowed", "closed")), f"verdict and reason: {x}")
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
                    got = [x for x in self.log if "mark" not in x]
                    self.log.clear()
                    return got
            time.sleep(0.002)
        raise AssertionError("the other side does not answer")

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
def other_side():
    import http.server
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
    for a in (RESOLVER, A, B, C, PRIVATE, "8.8.8.8", "100.64.0.1"):
        sh(f"ip addr add {a}/32 dev lo")
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

    def serve(addr, port, fn):
        s = socket.create_server((addr, port), backlog=1024)

        def one(c):
            say(conn=f"{addr}:{port}")
            try:
                fn(c)
            except OSError:
                pass
            finally:
                c.close()

        def loop():
            while True:
                threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
        threading.Thread(target=loop, daemon=True).start()

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

    def leaves(c):
        """Says one byte, takes some, and resets."""
        c.sendall(b"y")
        for _ in range(12):
            c.recv(1 << 16)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def web(c):
        f = c.makefile("rb")
        line = f.readline().decode("latin1").strip()
        host = ""
        while True:
            h = f.readline().decode("latin1").strip()
            if not h:
                break
            if h.lower().startswith("host:"):
                host = h[5:].strip()
        say(http=line, host=host)
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
        serve(addr, 80, web)
        serve(addr, 8080, web)
        serve(addr, 22, ssh)
        serve(addr, 443, lambda c: web(ctx.wrap_socket(c, server_side=True)))
        serve(addr, 9000, after_end)
        serve(addr, 9001, source)
        serve(addr, 9002, leaves)
    for addr in (RESOLVER, "8.8.8.8"):
        threading.Thread(target=dns, args=(addr,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        say(mark=line.strip())
    os._exit(0)


if __name__ == "__main__":
    other_side()
