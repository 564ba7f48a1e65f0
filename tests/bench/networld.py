"""Where the network benchmark happens: namespaces of its own and those who are compared.

The script's own namespace and a second one are joined by a veth pair with loopback's MTU: servers and a resolver in the second,
the contenders' outer ends in the first. No packet leaves these two."""
import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.environ.get("BRIG_OUT", os.path.join(ROOT, "build"))
BRIG, LOAD, JUDGE = (os.path.join(OUT, x) for x in ("brig", "tests/net_load", "tests/judge_bench"))
TLS = os.path.join(ROOT, "tests", "bench", "tls_load.py")
SERVER, RESOLVER, NAME, PORT = "93.184.216.34", "9.9.9.9", "load.bench.test", "7000"
SEEN, PASSED, TLS_PORT, HTTP_PORT = "seen.bench.test", "passed.bench.test", "7443", "7080"
ASKED = f"{NAME}@{RESOLVER}"
# Enough ports for thousands of connections a round to one server.
MANY_PORTS = "echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range; echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse"
PEERS = {  # command -> its package
    "slirp4netns": "slirp4netns", "pasta": "passt", "socat": "socat", "openssl": "openssl"}
_kids = []


def sh(cmd):
    subprocess.run(cmd, shell=True, check=True, stdout=subprocess.DEVNULL)


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def start(argv, **kw):
    """A process that lives until end(), with all that it starts."""
    p = subprocess.Popen(argv, start_new_session=True, preexec_fn=dies_with_us, **kw)  # pylint: disable=subprocess-popen-preexec-fn
    _kids.append(p)
    return p


def stop(p):
    if p.poll() is None:
        os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    _kids.remove(p)


def end():
    for p in list(_kids):
        stop(p)


def line_of(p, want=None):
    line = p.stdout.readline().decode().strip()
    if not line or want not in (None, line):
        raise RuntimeError(f"{p.args[0]} said {line!r}, not {want!r}")
    return line


def group_of(weight):
    """A new cgroup with so many times a task's share of the processors: its folder."""
    for top, name, unit in (("/sys/fs/cgroup/cpu", "cpu.shares", 1024), ("/sys/fs/cgroup", "cpu.weight", 100)):
        if os.path.exists(os.path.join(top, "cgroup.procs")):
            group = os.path.join(top, f"egress-bench-{os.getpid()}")
            os.mkdir(group)
            with open(os.path.join(group, name), "w", encoding="ascii") as f:
                f.write(str(weight * unit))
            return group
    raise RuntimeError("no cgroups for processor time")


def enter(weight=0):
    """Runs the script again in namespaces of its own. weight: for a machine that others use, in a cgroup with so many times a
    task's share; brig is shown no cgroups then, so that its sandboxes stay in that one, as the other contenders' clients do."""
    if os.geteuid() != 0:
        sys.exit(f"{os.path.basename(sys.argv[0])}: the namespaces need root")
    if "NETWORLD" in os.environ:
        if os.environ["NETWORLD"]:
            sh(f"echo {os.getpid()} > {os.environ['NETWORLD']}/cgroup.procs; mount -t tmpfs -o ro none /sys/fs/cgroup")
        return
    group = group_of(weight) if weight else ""
    p = start(["unshare", "--net", "--mount", sys.executable, *sys.argv], env={**os.environ, "NETWORLD": group})
    try:
        rc = p.wait()
    finally:
        end()
        for _ in range(100 if group else 0):  # its last processes are on their way out
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.05)
    sys.exit(rc)


def world():
    """The two namespaces, with servers at SERVER and on loopback."""
    sh(f"ip link set lo up; {MANY_PORTS}")
    far = start(["unshare", "--net", "sh", "-c", "ip link set lo up; echo up; exec sleep 1000000"], stdout=subprocess.PIPE)
    line_of(far, "up")
    inside = ["nsenter", "-t", str(far.pid), "--net"]
    sh(f"ip link add v0 mtu 65535 type veth peer name v1 netns {far.pid}; ip addr add 10.99.0.1/24 dev v0; ip link set v0 up; "
       f"ip route add default via 10.99.0.2; {' '.join(inside)} sh -c 'ip addr add 10.99.0.2/24 dev v1; ip link set v1 mtu 65535 up; "
       f"ip addr add {SERVER}/32 dev lo; ip addr add {RESOLVER}/32 dev lo'")
    line_of(start([*inside, LOAD, "serve", SERVER, PORT, RESOLVER], stdout=subprocess.PIPE), "ready")
    line_of(start([LOAD, "serve", "127.0.0.1", PORT], stdout=subprocess.PIPE), "ready")
    return inside


def pss(pid):
    """KiB of memory of a process."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("Pss:"))


def children(pid, name=None):
    r = subprocess.run(["pgrep", "-P", str(pid), *([name] if name else [])], stdout=subprocess.PIPE, check=False)
    return [int(x) for x in r.stdout.split()]


class Contender:
    """How the load's client is run, and where it connects to. few: what a slow one does of what others do."""

    def __init__(self, name, wrap, host, few=1.0):
        self.name, self.wrap, self.host, self.few, self.port = name, wrap, host, few, PORT

    def argv(self, what, *args):
        return [*self.wrap, what, self.host, self.port, *map(str, args)]

    def numbers(self, what, *args):
        r = subprocess.run(self.argv(what, *args), capture_output=True, check=False, timeout=150)
        if r.returncode != 0 or not r.stdout:
            raise RuntimeError(f"{self.name}: {what}: {r.stderr.decode(errors='replace').strip()[-200:]}")
        return [float(x) for x in r.stdout.split()]

    def between(self, _client):
        """The processes in the middle whose memory holds connections; None = there are none."""
        return None

    def set_up(self):
        """(ms without, ms with) it, of a sandbox's start."""
        raise NotImplementedError


def took(argv):
    t = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - t) * 1000


LIMITS = "limits: {max_conns: 100000, conn_rate_per_s: 1000000, burst: 1000000}\n"
BEGIN = f"version: 1\ndns: {{resolver: [{RESOLVER}]}}\n{LIMITS}"


class Brig(Contender):
    def __init__(self, d):
        self.conf = os.path.join(d, "rules.yaml")
        with open(self.conf, "w", encoding="ascii") as f:
            f.write(f"{BEGIN}rules: [{{host: {NAME}, ports: {PORT}, limits: {{max_conns: 100000}}}}]\n")
        super().__init__("brig", [BRIG, "run", "-q", "--pids", "0", "-i", "--egress", self.conf, "-f", LOAD, "--", "/workspace/net_load"], ASKED)

    def between(self, client):
        return children(client.pid, "brig-gate")

    def set_up(self):
        """In either order, each when what the last one left has been removed: that goes on for a while after its end."""
        both = [[BRIG, "run", "-q", *more, "--", "true"] for more in ([], ["--allow", f"{NAME}:{PORT}"])]
        ms = [0.0, 0.0]
        for i in random.sample((0, 1), 2):
            time.sleep(0.1)
            ms[i] = took(both[i])
        return ms

    @contextlib.contextmanager
    def hooks(self):
        """Another sandbox of the kind: the kernel's nf_tables is in use then, as on a host with a firewall."""
        p = start([BRIG, "run", "-q", "--allow", f"{NAME}:{PORT}", "--", "sh", "-c", "echo up; exec sleep 1000"], stdout=subprocess.PIPE)
        line_of(p, "up")
        try:
            yield
        finally:
            p.terminate()
            p.wait()
            _kids.remove(p)


class Least(Contender):
    """The least relay there can be, in the outer namespace, on loopback: what it adds, any relay adds on this machine."""
    PORT = "7001"

    def __init__(self):
        super().__init__("least relay", [LOAD], "127.0.0.1")
        self.port = self.PORT
        self.p = start([LOAD, "relay", "127.0.0.1", self.PORT, SERVER, PORT], stdout=subprocess.PIPE)
        line_of(self.p, "ready")

    def between(self, _client):
        return [self.p.pid]


class Slirp(Contender):
    UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", f"ip link set lo up; {MANY_PORTS}; echo up; exec sleep 1000000"]

    def __init__(self):
        self.box, self.p, _ = self.make()
        super().__init__("slirp4netns", ["nsenter", "-t", str(self.box.pid), "--user", "--net", "--preserve-credentials", LOAD], ASKED)

    def make(self):
        box = start(self.UNSHARE, stdout=subprocess.PIPE)
        line_of(box, "up")
        r, w = os.pipe()
        t = time.perf_counter()
        p = start(["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={w}", str(box.pid), "tap0"], pass_fds=[w],
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(w)
        os.read(r, 1)
        os.close(r)
        return box, p, (time.perf_counter() - t) * 1000

    def between(self, _client):
        return [self.p.pid]

    def set_up(self):
        box, p, ms = self.make()
        stop(p)
        stop(box)
        return 0, ms


class Pasta(Contender):
    def __init__(self, d):
        os.chmod(d, 0o755)  # it gives its rights up
        load = shutil.copy(LOAD, os.path.join(d, "net_load"))
        super().__init__("pasta", ["pasta", "--config-net", "-q", "--mtu", "65520", "--runas", "0", "--", load], ASKED)

    def between(self, client):
        return [client.pid]

    def set_up(self):
        return took(["unshare", "--user", "--map-root-user", "--net", "true"]), took(["pasta", "--config-net", "-q", "--runas", "0", "--", "true"])


class Socat(Contender):
    """One socat inside, one outside, a socket in the file system between them; a process for each connection at each end."""

    def __init__(self, d):
        self.d, self.nr = d, 0
        self.outer, self.inner, self.box, _ = self.make()
        super().__init__("socat pair", ["nsenter", "-t", str(self.box.pid), "--net", LOAD], "127.0.0.1", 0.03)

    def make(self):
        self.nr += 1
        path = os.path.join(self.d, f"s{self.nr}")
        box = start(["unshare", "--net", "sh", "-c", f"ip link set lo up; {MANY_PORTS}; echo up; exec sleep 1000000"], stdout=subprocess.PIPE)
        line_of(box, "up")
        t = time.perf_counter()
        outer = start(["socat", "-d", "-d", f"UNIX-LISTEN:{path},fork,backlog=1024", f"TCP:{SERVER}:{PORT},nodelay"], stderr=subprocess.PIPE)
        inner = start(["nsenter", "-t", str(box.pid), "--net", "socat", "-d", "-d", f"TCP-LISTEN:{PORT},fork,reuseaddr,backlog=1024,nodelay",
                       f"UNIX-CONNECT:{path}"], stderr=subprocess.PIPE)
        for p in (outer, inner):
            while b"listening on" not in p.stderr.readline():
                if p.poll() is not None:
                    raise RuntimeError("socat does not listen")
        ms = (time.perf_counter() - t) * 1000
        for p in (outer, inner):  # what it says of each connection
            subprocess.Popen(["cat"], stdin=p.stderr, stdout=subprocess.DEVNULL)  # pylint: disable=consider-using-with
        return outer, inner, box, ms

    def between(self, _client):
        return children(self.outer.pid) + children(self.inner.pid)

    def set_up(self):
        outer, inner, box, ms = self.make()
        for p in (outer, inner, box):
            stop(p)
        return 0, ms


def contenders(d, only):
    """Those that are here, and {name: package} of those that are not."""
    absent = {c: p for c, p in PEERS.items() if shutil.which(c) is None}
    make = {"loopback": lambda: Contender("loopback", [LOAD], "127.0.0.1"), "veth": lambda: Contender("veth", [LOAD], ASKED),
            "least": Least, "brig": lambda: Brig(d), "slirp4netns": Slirp, "pasta": lambda: Pasta(d), "socat": lambda: Socat(d)}
    return [f() for n, f in make.items() if n not in absent and (not only or n in only)], absent


# ---- HTTP inside TLS, which the gate reads ----

class Https(Contender):
    def __init__(self, name, wrap, host, port=TLS_PORT):
        super().__init__(name, wrap, host)
        self.port = port


def https(d, inside):
    """A server with a certificate of an authority of the benchmark's own, and the ways to it."""
    ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    sh(f"cd {d} && openssl req -x509 {ec} -keyout ca.key -out ca.pem -subj '/CN=bench' 2>/dev/null && "
       f"openssl req {ec} -keyout key -out req -subj /CN=seen 2>/dev/null && printf 'subjectAltName=DNS:{SEEN},DNS:{PASSED}' > ext && "
       "openssl x509 -req -in req -CA ca.pem -CAkey ca.key -days 2 -extfile ext -out cert 2>/dev/null && cat key cert > server.pem")
    conf = os.path.join(d, "https.yaml")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"{BEGIN}rules:\n  - {{host: {PASSED}, ports: {TLS_PORT}, protocol: tls}}\n  - {{host: {SEEN}, ports: {TLS_PORT}, protocol: tls, tls: inspect}}\n"
                f"  - {{host: {SEEN}, ports: {HTTP_PORT}, protocol: http}}\n")
    line_of(start([*inside, "python3", TLS, "serve", SERVER, TLS_PORT, HTTP_PORT, f"{d}/server.pem"], stdout=subprocess.PIPE), "ready")
    os.environ["BRIG_EGRESS_CA"] = f"{d}/ca.pem"
    box = [BRIG, "run", "-q", "--egress", conf, "-f", TLS, "--", "/usr/bin/python3", "/workspace/tls_load.py"]
    return [Https("TLS, veth", ["python3", TLS], SERVER), Https("TLS, passed on", box, PASSED), Https("TLS, inspected", box, SEEN),
            Https("HTTP, veth", ["python3", TLS], SERVER, HTTP_PORT), Https("HTTP, inspected", box, SEEN, HTTP_PORT)]
