"""
Is refused more often than anybody can read.

group: exhaustion
tries: fill the log of --egress-log: a record for each of many names, addresses and ports that are asked for
"""
import os

from brigtest import done, ok
from scenelib import PY

TIMES = 8000
# argv: what, where. Prints how often it tried.
FLOOD = """
import os, socket, sys
what, times = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if what == 'names':
    s.connect(([l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver')][0], 53))
kept = []
for n in range(times):
    try:
        if what == 'names':
            name = b'a%d' % n
            s.send(os.urandom(2) + b'\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(name)]) + name + b'\\x04evil\\x04test\\0\\0\\1\\0\\1')
        elif what == 'addresses':
            s.sendto(b'x', (f'10.0.{n >> 8 & 255}.{n & 255}', 9))
        else:
            c = socket.socket()
            c.setblocking(False)
            kept = kept[-100:] + [c]
            c.connect(('10.0.0.1', n + 1))
    except OSError:
        pass
print(times)
"""


def control(m):
    """A log with a line for each."""
    r = m.exec([PY, "-c", "import socket,sys\na = socket.socket(type=socket.SOCK_DGRAM)\na.bind(('127.0.0.1', 0))\n"
                f"s = socket.socket(type=socket.SOCK_DGRAM)\nfor n in range({TIMES}):\n"
                "  s.sendto(b'%d' % n, a.getsockname())\n  print('refused', a.recv(64))"])
    lines = r.out.count(b"\n")
    return {k: f"{lines} lines" if lines == TIMES else "" for k in ("names", "addresses", "ports")}


def inside(m):
    seen = {}
    for what in ("names", "addresses", "ports"):
        log = m.path("log")
        r = done(m.run("-q", "--allow", "api.test:443", "--egress-log", log, "--", PY, "-c", FLOOD, what, str(TIMES)),
                 out=b"%d\n" % TIMES)
        with open(log, "rb") as f:
            lines = f.read().count(b"\n")
        ok(lines, f"{what}: nothing was refused: {r!r}")
        print(f"# {m.name}: {what}: {lines} records of {TIMES}")
        seen[what] = f"{lines} records, {os.path.getsize(log)} bytes" if lines > TIMES // 2 else ""
    return seen
