"""A small Internet in network namespaces of the test's own: a resolver and servers on public-looking addresses,
which say what reached them.

enter() puts the test itself into a namespace (root is needed to make it) and starts the other side in a second one,
joined by a veth pair. Traffic never leaves these two."""
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reap  # noqa: E402

HERE = os.path.abspath(__file__)
RESOLVER = "9.9.9.9"
A, B = "93.184.216.34", "93.184.216.35"  # A: what allowed names stand for
PRIVATE = "10.20.0.5"

# name -> addresses of each type; a list of lists: one entry per query, the last stays
NAMES = {
    "api.allowed.test": [[A]], "x.allowed.test": [[A]], "a.b.allowed.test": [[A]], "allowed.test": [[A]],
    "git.allowed.test": [[A]], "evil.test": [[B]], "notallowed.test": [[B]], "both.allowed.test": [[A]],
    "meta.allowed.test": [["169.254.169.254"]], "lo.allowed.test": [["127.0.0.1"]], "priv.allowed.test": [[PRIVATE]],
    "cgnat.allowed.test": [["100.64.0.1"]], "zero.allowed.test": [["0.0.0.0"]], "multi.allowed.test": [["224.0.0.1"]],
    "synth.allowed.test": [["198.18.1.0"]], "flip.allowed.test": [[A], ["169.254.169.254"]],
    "mixed.allowed.test": [["169.254.169.254", A]], "host.allowed.test": [["10.99.0.1"]],
    "mapped.allowed.test": [["::ffff:169.254.169.254"]], "nat64.allowed.test": [["64:ff9b::a9fe:a9fe"]],
    "sixto4.allowed.test": [["2002:a9fe:a9fe::"]], "teredo.allowed.test": [["2001::1"]],
    "compat.allowed.test": [["::127.0.0.1"]], "cname.allowed.test": [["=elsewhere.other.test"]],
    "elsewhere.other.test": [[A]], "dead.allowed.test": [["93.184.216.99"]],
}


def sh(cmd):
    subprocess.run(cmd, shell=True, check=True, stdout=subprocess.DEVNULL)


def enter():
    """Re-executes the test inside a namespace; returns there with the running World."""
    if os.geteuid() != 0:
        return None
    if os.environ.get("GATEWORLD") != "1":
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], dict(os.environ, GATEWORLD="1"))
    return World()


class World:
    def __init__(self):
        self.log = []
        self.lock = threading.Lock()
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

    def end(self):
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
    for a in (RESOLVER, A, B, PRIVATE, "8.8.8.8", "100.64.0.1"):
        sh(f"ip addr add {a}/32 dev lo")
    counts = {}

    def answer(q):
        at, labels = 12, []
        while q[at]:
            labels.append(q[at + 1:at + 1 + q[at]])
            at += 1 + q[at]
        question = q[12:at + 5]
        qtype = struct.unpack(">H", q[at + 1:at + 3])[0]
        name = b".".join(labels).decode("latin1").lower()
        say(query=name, type=qtype)
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
    for addr in (RESOLVER, "8.8.8.8"):
        threading.Thread(target=dns, args=(addr,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        say(mark=line.strip())
    os._exit(0)


if __name__ == "__main__":
    other_side()
