#!/usr/bin/env python3
"""What goes over TLS: clients that switch protocols, that are slow, silent, greedy or gone, many of them, and brigd's end. The keeper is a stand-in."""
import fcntl
import hashlib
import http.client
import os
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.dont_write_bytecode = True
import apilib
from apilib import BODY, FIN, case, eq, exactly, head, ok, piece, until

DIR = tempfile.mkdtemp(prefix="brigd-tls-")
CERT, KEY = os.path.join(DIR, "cert.pem"), os.path.join(DIR, "key.pem")
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                "-keyout", KEY, "-out", CERT], check=True, stderr=subprocess.DEVNULL)
CONTEXT = ssl.create_default_context(cafile=CERT)
CONTEXT.check_hostname = False
ALL = os.urandom(1 << 20) * 24
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
seen = []  # sizes of the pieces of each call for another protocol
released = threading.Event()


def chat(_keeper, call):
    """101, and everything back, as it came; `bye` ends it from here."""
    sizes = []
    seen.append((call, sizes))
    call.conn.sendall(head(101, upgrade="websocket", connection="upgrade"))
    while True:
        kind, n = call.next_head()
        data = exactly(call.conn, n)
        if kind == FIN:
            call.conn.sendall(piece(BODY, b" end") + piece(FIN))
            return
        sizes.append(n)
        call.conn.sendall(piece(BODY, data))
        if data.endswith(b"bye"):
            call.conn.sendall(piece(FIN))
            return


def digest(_keeper, call):
    data = call.body()
    call.answer(200, hashlib.sha256(data).hexdigest().encode())


def send(call, data):
    call.conn.sendall(head(200, content_length=len(data)))
    for i in range(0, len(data), 60000):
        call.conn.sendall(piece(BODY, data[i:i + 60000]))
    call.conn.sendall(piece(FIN))


def give(data):
    def handler(_keeper, call):
        call.body()
        send(call, data)
    return handler


def hold(_keeper, call):
    """Never answered: its caller is waited for."""
    call.body()
    seen.append((call, []))
    exactly(call.conn, 1)


def late(_keeper, call):
    call.body()
    seen.append((call, []))
    released.wait(30)
    send(call, ALL[:late.size])


def raw(d=None, receive=0):
    d = d or D
    s = socket.socket(socket.AF_UNIX if d.unix else socket.AF_INET)
    s.settimeout(30)
    if receive:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.connect(f"{d.dir}/http.sock" if d.unix else ("127.0.0.1", d.port))
    return s


def secure(d=None, receive=0):
    return CONTEXT.wrap_socket(raw(d, receive))


def daemon(**words):
    d = apilib.Daemon(more=f"tls: {{cert: {CERT}, key: {KEY}}}\n", **words)
    d.unix = words.get("unix", False)

    def conn():
        c = http.client.HTTPSConnection("localhost")
        c.sock = secure(d)
        return c
    d.conn = conn
    d.spawn.calls.update({"/port/8000/chat": chat, "/port/8000/digest": digest, "/port/8000/all": give(ALL), "/port/8000/hold": hold,
                          "/port/8000/some": give(ALL[:1 << 20]), "/port/8000/late": late})
    d.box = d.create()
    return d


D = daemon()


def ask(path, d=D, method="GET", fields=""):
    return f"{method} {path} HTTP/1.1\r\nHost: 8000-{d.box['sandboxID']}.localhost\r\n{fields}\r\n".encode()


def to_head(s):
    got = b""
    while b"\r\n\r\n" not in got:
        p = s.recv(65536)
        if not p:
            raise EOFError(f"the connection ended after {got!r}")
        got += p
    return got.split(b"\r\n\r\n", 1)


def served(s, status=b"204"):
    s.sendall(HEALTH)
    top, _ = to_head(s)
    ok(top.startswith(b"HTTP/1.1 " + status), top)


def length_body(s):
    """The body of an answer with a length, or in chunks."""
    r = http.client.HTTPResponse(s)
    r.begin()
    return r.status, r.read()


class Bare:
    """TLS by hand over a socket: what is sent and what comes can be looked at, and each side can be ended by itself."""

    def __init__(self, d=D):
        self.sock, self.got, self.put, self.records = raw(d), ssl.MemoryBIO(), ssl.MemoryBIO(), []
        self.left = b""
        self.tls = CONTEXT.wrap_bio(self.got, self.put, server_hostname="localhost")
        self.pump(self.tls.do_handshake)

    def flush(self):
        if self.put.pending:
            self.sock.sendall(self.put.read())

    def pump(self, do):
        while True:
            try:
                ret = do()
                self.flush()
                return ret
            except ssl.SSLWantReadError:
                self.flush()
                p = self.sock.recv(65536)
                self.count(p)
                if p:
                    self.got.write(p)
                else:
                    self.got.write_eof()

    def count(self, p):
        self.left += p
        while len(self.left) >= 5 and len(self.left) >= 5 + (n := struct.unpack(">H", self.left[3:5])[0]):
            self.records.append((self.left[0], n))
            self.left = self.left[5 + n:]

    def write(self, data):
        for i in range(0, len(data), 16384):
            self.tls.write(data[i:i + 16384])
            self.flush()

    def read(self):
        """b"" at the other side's end."""
        try:
            return self.pump(lambda: self.tls.read(65536))
        except ssl.SSLZeroReturnError:
            return b""

    def say_end(self):
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()


def switched(b):
    b.write(ask("/chat", fields="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    got = b""
    while b"\r\n\r\n" not in got:
        p = b.read()
        ok(p, f"ended after {got!r}")
        got += p
    ok(got.startswith(b"HTTP/1.1 101"), got)
    return got.split(b"\r\n\r\n", 1)[1]


@case
def another_protocol_moves_in_large_pieces():
    b = Bare()
    got = [switched(b)]
    eq(got, [b""])
    data = ALL[:5 << 20]
    b.records.clear()
    done = 0
    for i in range(0, len(data), 1 << 16):  # no more than the buffers hold on its way
        b.write(data[i:i + (1 << 16)])
        while done < i + (1 << 16):
            p = b.read()
            ok(p, f"ended after {done} bytes")
            got.append(p)
            done += len(p)
    eq(b"".join(got) == data, True, "5 MiB there and back")
    sizes = seen[-1][1]
    eq(sum(sizes), len(data))
    ok(len(sizes) <= len(data) // 2048, f"{len(sizes)} pieces came to the keeper")
    ok(len(b.records) <= len(data) // 2048, f"{len(b.records)} records came back")
    b.write(b"bye")
    eq((b.read(), b.read()), (b"bye", b""), "the program's end is said")
    b.sock.close()


@case
def both_ways_at_once():
    b, data, out, sent, got = Bare(), ALL[:5 << 20], b"", 0, bytearray()
    switched(b)
    b.sock.setblocking(False)
    while len(got) < len(data):
        if not out and sent < len(data):
            b.tls.write(data[sent:sent + 16384])
            sent += 16384
            out = b.put.read()
        r, w, _ = select.select([b.sock], [b.sock] if out else [], [], 30)
        ok(r or w, f"nothing moves after {sent} and {len(got)} bytes")
        if w:
            out = out[b.sock.send(out):]
        if r:
            p = b.sock.recv(1 << 16)
            ok(p, f"ended after {len(got)} bytes")
            b.got.write(p)
            try:
                while p := b.tls.read(1 << 16):
                    got += p
            except ssl.SSLWantReadError:
                pass
    eq(bytes(got) == data, True)
    b.sock.close()


@case
def each_side_ends_by_itself():
    for said in (True, False):
        b = Bare()
        switched(b)
        b.write(b"x" * 100000)
        if said:
            b.say_end()
        else:
            b.sock.shutdown(socket.SHUT_WR)
        got = b""
        while p := b.read():
            got += p
        eq((len(got), got[-4:]), (100004, b" end"), f"close_notify {said}")
        b.sock.close()


@case
def who_vanishes_ends_his_request():
    def reset(s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def polite(s):
        s.settimeout(0)
        try:
            s.unwrap()
        except OSError:
            pass
        s.close()
    for leave in (reset, socket.socket.close, polite):
        for path, fields in (("/hold", ""), ("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), ("/all", "")):
            s, before = secure(), len(seen)
            s.sendall(ask(path, fields=fields))
            if path != "/all":
                until(lambda: len(seen) > before, 20, "the call comes")
                call = seen[-1][0]
            else:
                s.recv(1)
            leave(s)
            if path != "/all":
                until(lambda: call.conn.fileno() < 0, 20, f"{leave.__name__} of {path} ends it inside")
    until(lambda: len(os.listdir(f"/proc/{D.p.pid}/fd")) < 40, 20, "nothing of them is kept")


@case
def what_is_no_tls_ends_cleanly():
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 3000, b"\x16\x03\x01\x00\x04\x09\0\0\0", b"\x80\x2e\x01\x00\x02" + b"\0" * 43,
                 b"\x17\x03\x03\x00\x05hello"):
        with raw() as s:
            s.sendall(text)
            got = b""
            while p := s.recv(4096):  # a reset is a failure
                got += p
            ok(got == b"" or got[0] == 21, f"{got[:20]!r} is no alert")
    for more in (b"\x17\x03\x03\x40\x00" + b"x" * 16384, b"\x16\x03\x03\x00\x04\0\0\0\0", b"\xff" * 100, b"\x17\x03\x03\x00\x00"):
        b = Bare()
        b.write(HEALTH[:10])
        b.sock.sendall(more)
        try:
            while b.sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
        b.sock.close()
    with secure() as s:
        served(s)


@case
def keys_are_changed_and_handshakes_not_repeated():
    def client(*words):
        return subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{D.port}", "-CAfile", CERT, *words], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait(p, word):
        got = b""
        while word not in got:
            c = os.read(p.stdout.fileno(), 4096)
            if not c:
                raise EOFError(got)
            got += c
    p = client("-tls1_3")
    wait(p, b"Verify return code")
    for _ in range(3):
        p.stdin.write(b"K\n")
        p.stdin.flush()
        wait(p, b"KEYUPDATE")
        p.stdin.write(HEALTH)
        p.stdin.flush()
        wait(p, b"HTTP/1.1 204")
    p.kill()
    p.wait()
    p = client("-tls1_2")
    wait(p, b"Verify return code")
    p.stdin.write(b"R\n")
    p.stdin.flush()
    while os.read(p.stdout.fileno(), 4096):  # brigd ends it
        pass
    p.wait()
    with secure() as s:
        served(s)


@case
def small_records_are_granted():
    p = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{D.port}", "-CAfile", CERT, "-quiet", "-tls1_2", "-maxfraglen", "512"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(ask("/some", fields="Connection: close\r\n"))
    p.stdin.flush()
    got = p.stdout.read()
    p.wait()
    eq(got.split(b"\r\n\r\n", 1)[1] == ALL[:1 << 20], True, f"{len(got)} bytes")


@case
def large_bodies_are_exact():
    with secure() as s:
        s.sendall(ask("/digest", method="POST", fields=f"Content-Length: {len(ALL)}\r\n") + ALL)
        eq(length_body(s), (200, hashlib.sha256(ALL).hexdigest().encode()))
        s.sendall(ask("/all"))
        status, body = length_body(s)
        eq((status, len(body), body == ALL), (200, len(ALL), True))
    with secure() as s:
        s.sendall(ask("/all", fields="Connection: close\r\n"))
        status, body = length_body(s)
        eq((status, len(body), body == ALL, s.recv(1)), (200, len(ALL), True, b""))


@case
def who_does_not_read_costs_little():
    with secure() as s:
        served(s)
    before = D.rss()
    some = [secure(receive=65536) for _ in range(6)]
    for s in some:
        s.sendall(ask("/all"))
    talks = secure(receive=4096)
    talks.sendall(ask("/chat", fields="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    to_head(talks)
    talks.setblocking(False)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += talks.send(ALL[:65536])
    except ssl.SSLWantWriteError:
        pass
    ok(sent < 64 << 20, "the client is held up")
    for _ in range(50):
        with secure() as s:
            served(s)
    ok(D.rss() - before < 4 << 20, f"{(D.rss() - before) >> 10} KiB more")
    talks.close()
    for s in some:
        status, body = length_body(s)
        eq((status, body == ALL), (200, True))
        s.close()


@case
def two_hundred_at_once():
    some = [secure() for _ in range(200)]
    for i, s in enumerate(some):
        s.sendall(ask("/digest", method="POST", fields="Content-Length: 4\r\n") + b"%04d" % i)
    for i, s in enumerate(some):
        eq(length_body(s), (200, hashlib.sha256(b"%04d" % i).hexdigest().encode()))
    for s in some:
        s.close()


@case
def more_than_there_are_places_wait():
    """600 descriptors are 86 connections (listen.c)."""
    d = daemon(by=["sh", "-c", 'ulimit -n 600 && exec "$@"', "sh"])
    try:
        quiet = [raw(d) for _ in range(200)]
        waits = raw(d)
        waits.settimeout(0.2)
        try:
            CONTEXT.wrap_socket(waits, do_handshake_on_connect=False).do_handshake()
            ok(False, "there is no bound")
        except (TimeoutError, ssl.SSLError):
            pass
        ok(len(os.listdir(f"/proc/{d.p.pid}/fd")) < 200, "not all of them were taken")
        for s in quiet[:150]:
            s.close()
        with secure(d) as s:
            served(s)
        for s in quiet:
            s.close()
    finally:
        d.close()


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* The clock goes by what a file says. */
int clock_gettime(clockid_t c, struct timespec *t)
{
	static int (*real)(clockid_t, struct timespec *);
	int r;
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	r = real(c, t);
	if (c != CLOCK_REALTIME) {
		FILE *f = fopen(getenv("BRIG_TEST_CLOCK"), "re");
		long more = 0;
		if (f) {
			if (fscanf(f, "%ld", &more) != 1)
				more = 0;
			fclose(f);
		}
		t->tv_sec += more;
	}
	return r;
}
"""


@case
def nobody_keeps_a_place_by_silence():
    """Two minutes pass at once, by a clock_gettime of ours: who has not shaken hands, or does not take what is left for him, goes."""
    lib, clock = os.path.join(DIR, "clock.so"), os.path.join(DIR, "clock")

    def at(seconds):
        with open(clock + ".new", "w", encoding="ascii") as f:
            f.write(str(seconds))
        os.rename(clock + ".new", clock)
    at(0)
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", lib, "-ldl"], input=SHIM, text=True, check=True)
    d = daemon(unix=True, by=["env", f"LD_PRELOAD={lib}", f"BRIG_TEST_CLOCK={clock}"])

    def poke():
        with secure(d) as s:
            served(s)

    def ended(s):
        """brigd has closed the other end."""
        p = select.poll()
        p.register(s, 0)
        return bool(p.poll(0))
    try:
        silent, half, idle = raw(d), raw(d), secure(d)
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        greedy = secure(d)  # does not read: MHD ends it by its own limit, the rest stays with us
        greedy.sendall(ask("/all", d))
        greedy.recv(1)
        talks = secure(d)
        talks.sendall(ask("/chat", d, fields="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
        to_head(talks)
        poke()
        at(60)
        poke()
        half.sendall(b"\0")
        for s in (silent, half):
            s.setblocking(False)
            try:
                ok(s.recv(1), "ended too soon")
            except BlockingIOError:
                pass
            s.settimeout(30)
        at(122)
        poke()
        poke()
        eq((silent.recv(1), half.recv(1), idle.recv(1)), (b"", b"", b""), "they are gone")
        ok(not ended(greedy), "it may take its time to read what is left")
        at(250)
        poke()
        at(400)
        poke()
        talks.sendall(b"bye")
        eq(talks.recv(10), b"bye", "another protocol has no such limit")
        until(lambda: ended(greedy), 20, "the greedy one is gone")
        for s in (silent, half, idle, greedy, talks):
            s.close()
    finally:
        d.close()


@case
def an_answer_under_way_is_finished():
    """brigd stops: what has begun is sent to its end, although the client takes its time and the HTTP server has done its part; others are told."""
    d = daemon(unix=True)

    def unread(s):
        return struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, b"\0\0\0\0"))[0]

    def settled(s):
        before = -1
        while before != (now := unread(s)):
            before = now
            time.sleep(0.3)
        return now
    with secure(d) as s:  # how much its socket holds
        s.sendall(ask("/all", d))
        late.size = settled(s) + 32768  # the rest has room on its way to it
    silent, idle, talks, reads = raw(d), secure(d), secure(d), secure(d)
    served(idle)
    talks.sendall(ask("/chat", d, fields="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    to_head(talks)
    before = len(seen)
    reads.sendall(ask("/late", d))
    until(lambda: len(seen) > before, 20, "the call comes")
    d.p.send_signal(signal.SIGTERM)
    eq((talks.recv(1), silent.recv(1)), (b"", b""), "who has no answer to wait for")
    try:
        raw(d).close()
        ok(False, "a new connection was taken")
    except OSError:
        pass
    released.set()
    settled(reads)
    status, body = length_body(reads)
    eq((status, len(body), body == ALL[:late.size]), (200, late.size, True))
    eq(idle.recv(1), b"")
    d.close()


@case
def its_end_with_open_ones():
    """main looks at how brigd ends."""
    its_end_with_open_ones.open = [raw() for _ in range(5)] + [secure() for _ in range(5)]
    for s in [secure() for _ in range(3)]:
        s.sendall(ask("/chat", fields="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
        to_head(s)
        its_end_with_open_ones.open.append(s)


if __name__ == "__main__":
    try:
        RC = apilib.main(D)
    finally:
        shutil.rmtree(DIR, ignore_errors=True)
    sys.exit(RC)
