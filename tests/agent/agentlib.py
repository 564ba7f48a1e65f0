"""Speaks the agent protocol to a brig-init in a user and pid namespace of its own. Test code only.

Written against docs/protocol.md by hand and not with the product's own codec, so that both can be wrong
only in different ways.
"""
import os
import select
import socket
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INIT = os.environ.get("BRIG_INIT", os.path.join(ROOT, "build", "brig-init"))

HELLO, OPEN, DATA, EOF, CREDIT, BROKEN, SIGNAL, RESIZE, START, RESULT, RESET, PING, PONG = range(1, 14)
IN, OUT, ERR = range(3)
MORE, FDS = 1, 2
(EXEC, STAT, LIST, READ, WRITE, MKDIR, MOVE, REMOVE, WATCH, PACK_IN, PACK_OUT, METRICS, PORT, CLOCK_SET,
 RESEED, SHUTDOWN) = range(1, 17)
(TTY, STDIN, FD_STDIO, FD_LEAF, NOFOLLOW, PARENTS, APPEND, RECURSIVE, _, _, SOLE,
 FD_MEASURE) = (1 << i for i in range(12))
DONE, EXIT, SIGNALLED, ERROR = range(4)
WINDOW = 256 * 1024
FIELDS = {"kind": 1, "flags": 2, "arg": 3, "env": 4, "cwd": 5, "user": 6, "rows": 7, "cols": 8, "path": 9,
          "path2": 10, "mode": 11, "offset": 12, "length": 13, "depth": 14, "port": 15, "nsec": 16, "entropy": 17,
          "umask": 18, "xattrs": 19, "xattr": 20, "expect": 21, "how": 32, "code": 33, "errno": 34, "text": 35, "utime": 36, "stime": 37, "maxrss": 38,
          "wall": 39, "name": 48, "type": 49, "size": 50, "uid": 51, "gid": 52, "mtime": 53, "target": 54,
          "event": 55, "value": 56, "owner": 57, "blocks": 58, "group": 59,
          "real": 60, "real_type": 61, "real_mode": 62}
NAMES = {v: k for k, v in FIELDS.items()}
BYTES = {"arg", "env", "cwd", "user", "path", "path2", "text", "name", "target", "owner", "entropy", "xattrs", "xattr", "group", "real"}


def message(**fields):
    out = b""
    for key, value in fields.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, str):
                one = os.fsencode(one)
            raw = one if isinstance(one, bytes) else struct.pack("<Q", one)
            out += struct.pack("<HHI", FIELDS[key], 0, len(raw)) + raw
    return out


def parse(raw):
    out = {}
    while raw:
        nr, zero, n = struct.unpack_from("<HHI", raw)
        assert zero == 0
        key = NAMES[nr]
        body = raw[8:8 + n]
        value = body if key in BYTES else struct.unpack("<Q", body)[0]
        if key in ("value", "xattr"):
            out.setdefault(key, []).append(value)
        else:
            assert key not in out, key
            out[key] = value
        raw = raw[8 + n:]
    return out


def records(raw):
    out = []
    raw = bytes(raw)
    while raw:
        n, = struct.unpack_from("<I", raw)
        out.append(parse(raw[4:4 + n]))
        raw = raw[4 + n:]
    return out


class Stream:
    def __init__(self, agent, sid, auto):
        self.agent, self.id, self.auto = agent, sid, auto
        self.out = {OUT: bytearray(), ERR: bytearray()}
        self.eof = set()
        self.credit = WINDOW
        self.pid = self.result = self.broken = None
        self.after_result = False

    def wait(self, what=None, timeout=20):
        """Until the result (or `what(self)`) is there."""
        self.agent.pump(lambda: self.result is not None if what is None else what(self), timeout)
        return self.result

    def send(self, data):
        """Write all of data as credit allows; stops when the reader is gone."""
        data = memoryview(data)
        while len(data) and self.broken is None and self.result is None:
            if not self.credit:
                self.wait(lambda s: s.credit or s.broken is not None or s.result is not None)
                continue
            piece = data[:min(self.credit, 65536)]
            self.agent.frame(DATA, self.id, IN, bytes(piece))
            self.credit -= len(piece)
            data = data[len(piece):]

    def end(self):
        self.agent.frame(EOF, self.id, IN)

    def grant(self, n, chan=OUT):
        self.agent.frame(CREDIT, self.id, chan, struct.pack("<I", n))

    def signal(self, sig):
        self.agent.frame(SIGNAL, self.id, 0, struct.pack("<I", sig))

    def resize(self, rows, cols):
        self.agent.frame(RESIZE, self.id, 0, struct.pack("<HH", rows, cols))

    def reset(self):
        self.agent.frame(RESET, self.id)

    @property
    def text(self):
        return self.result.get("text", b"").decode()


class Gone(Exception):
    pass


class Agent:
    def __init__(self, *args, hello=True, early=b"", setup="", wrap=()):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.buf, self.streams, self.next, self.pongs, self.greeted = bytearray(), {}, 1, [], False
        if hello:
            self.frame(HELLO, 0, 0, struct.pack("<IHHII", 0x47495242, 1, 1, 1, 0))
        self.sock.sendall(early)
        inner = f'{setup} exec "$0" "$@"'
        self.proc = subprocess.Popen(
            [*wrap, "unshare", "-Urpnf", "--mount-proc", "--kill-child", "sh", "-c", inner, INIT,
             f"stream={theirs.fileno()}", *args],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def frame(self, kind, sid=0, chan=0, payload=b"", flags=0, fds=()):
        raw = struct.pack("<IIBBH", len(payload), sid, kind, chan, flags) + payload
        if fds:
            n = socket.send_fds(self.sock, [raw], fds)
            raw = raw[n:]
        while raw:  # never wait for room alone: the agent may be waiting for us to read
            _, w, _ = select.select([self.sock], [self.sock], [])
            if w:
                try:
                    raw = raw[self.sock.send(raw, socket.MSG_DONTWAIT):]
                    continue
                except BlockingIOError:
                    pass
                except OSError as e:
                    raise Gone() from e
            self.step()

    def open(self, kind, fds=(), auto=True, sid=None, **fields):
        sid = sid or self.next
        self.next = max(self.next, sid) + 1
        raw = message(kind=kind, **fields)
        s = self.streams[sid] = Stream(self, sid, auto)
        pieces = [raw[i:i + 65536] for i in range(0, len(raw), 65536)] or [b""]
        for i, piece in enumerate(pieces):
            flags = (MORE if i + 1 < len(pieces) else 0) | (FDS if fds and i == 0 else 0)
            self.frame(OPEN, sid, 0, piece, flags, fds if i == 0 else ())
        return s

    def exec(self, *argv, flags=0, fds=(), auto=True, cwd="/", **more):
        return self.open(EXEC, fds=fds, auto=auto, flags=flags, arg=list(argv), cwd=cwd, **more)

    def run(self, *argv, data=None, **more):
        s = self.exec(*argv, flags=more.pop("flags", 0) | (STDIN if data is not None else 0), **more)
        if data is not None:
            s.send(data)
            s.end()
        s.wait()
        return s

    def sh(self, script, **more):
        return self.run("sh", "-c", script, **more)

    def step(self, timeout=0.0):
        if not select.select([self.sock], [], [], timeout)[0]:
            return
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            raise Gone()
        self.buf += data
        while len(self.buf) >= 12:
            n, sid, kind, chan, flags = struct.unpack_from("<IIBBH", self.buf)
            assert n <= 65536 and flags == 0, (n, flags)
            if len(self.buf) < 12 + n:
                break
            payload = bytes(self.buf[12:12 + n])
            del self.buf[:12 + n]
            self.on_frame(sid, kind, chan, payload)

    def on_frame(self, sid, kind, chan, payload):
        if kind == HELLO:
            assert not self.greeted and struct.unpack_from("<IHH", payload) == (0x47495242, 1, 1)
            self.greeted = True
            return
        assert self.greeted
        if kind == PONG:
            self.pongs.append(payload)
            return
        s = self.streams[sid]
        assert s.result is None, "frame after RESULT"
        if kind == DATA:
            assert chan not in s.eof
            s.out[chan] += payload
            if s.auto:
                s.grant(len(payload), chan)
        elif kind == EOF:
            s.eof.add(chan)
        elif kind == CREDIT:
            s.credit += struct.unpack("<I", payload)[0]
        elif kind == BROKEN:
            s.broken = struct.unpack("<I", payload)[0]
        elif kind == START:
            s.pid = struct.unpack("<I", payload)[0]
        elif kind == RESULT:
            s.result = parse(payload)
        else:
            raise AssertionError(f"frame type {kind}")

    def pump(self, until, timeout=20):
        stop = time.monotonic() + timeout
        while not until():
            left = stop - time.monotonic()
            assert left > 0, "timed out"
            self.step(left)

    def ping(self):
        token = os.urandom(8)
        self.frame(PING, 0, 0, token)
        self.pump(lambda: token in self.pongs)

    def gone(self, timeout=10):
        """Wait for the end of the connection and of the namespace; the agent's exit status."""
        try:
            self.pump(lambda: False, timeout)
        except Gone:
            pass
        return self.proc.wait(timeout)

    def close(self):
        self.sock.close()
        try:
            self.proc.wait(10)
        finally:
            if self.proc.poll() is None:
                self.proc.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def pid1(a):
    """brig-init as seen from here: the child of unshare."""
    with open(f"/proc/{a.proc.pid}/task/{a.proc.pid}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def fds(a):
    """What PID 1 has open, by kind; None where only root may look."""
    at = f"/proc/{pid1(a)}/fd"
    try:
        return sorted(os.readlink(f"{at}/{fd}").split(":")[0] for fd in os.listdir(at))
    except PermissionError:
        return None
    except FileNotFoundError:  # closed while we looked
        return fds(a)


def processes(a):
    """The children of PID 1."""
    with open(f"/proc/{pid1(a)}/task/{pid1(a)}/children", encoding="ascii") as f:
        return f.read().split()


def settles(t, a, want, get, what):
    """get(a) becomes want: children are ended and reaped in turns of the loop."""
    stop = time.monotonic() + 15
    while (now := get(a)) != want and time.monotonic() < stop:
        a.ping()
    t.eq(now, want, what)


class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def ok(self, good, name, detail=""):
        self.n += 1
        self.bad += not good
        print(f"{'' if good else 'not '}ok {self.n} - {name}", flush=True)
        if not good and detail != "":
            print("# " + repr(detail)[:1000].replace("\n", "\n# "), flush=True)
        return good

    def eq(self, got, want, name):
        return self.ok(got == want, name, (got, want))

    def case(self, fn):
        try:
            fn(self)
        except Exception as e:  # a test that breaks is a test that fails
            import traceback
            self.ok(False, fn.__name__, traceback.format_exc() or e)

    def end(self):
        print(f"1..{self.n}", flush=True)
        sys.exit(1 if self.bad else 0)


def main(*cases):
    tap = Tap()
    for fn in cases:
        tap.case(fn)
    tap.end()
