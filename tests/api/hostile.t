#!/usr/bin/env python3
"""Clients that mean harm, while others are served: malformed HTTP, framing that two readers might read differently, JSON that is
none, slow and half-closed ones. Each gets a 4xx or a clean end, nobody else notices, and brigd's memory stays.

With BRIG=build/asan/brig the brigd of that build is asked; its memory is not looked at then."""
import json
import os
import random
import socket
import sys
import threading

import apilib
from apilib import case, eq, ok, until

SEED = int(os.environ.get("BRIG_SEED", random.randrange(1 << 30)))
ROUNDS = int(os.environ.get("BRIG_ROUNDS", "60" if os.environ.get("BRIG_CI") else "200"))
print(f"# BRIG_SEED={SEED} BRIG_ROUNDS={ROUNDS}")
D = apilib.Daemon(more="domain: box.example\n")
with open(apilib.BRIGD, "rb") as _f:
    SANITIZED = b"__asan_init" in _f.read()


WAITS = 0.3  # for the answer to a request that is not whole: brigd waits for the rest of it, as long as nothing else ends it


def raw(text, end=True, seconds=20):
    """Bytes on a fresh connection: what comes back until it is closed, or nothing has come for so long."""
    with socket.create_connection(("127.0.0.1", D.port), timeout=seconds) as s:
        out = b""
        try:
            s.sendall(text if isinstance(text, bytes) else text.encode())
            if end:
                s.shutdown(socket.SHUT_WR)
            while p := s.recv(65536):
                out += p
        except OSError:
            pass
        return out


class Others:
    """A client who does nothing wrong, all the time: each of its requests must be answered."""

    def __enter__(self):
        self.stop, self.n, self.bad = threading.Event(), 0, []
        self.t = threading.Thread(target=self.run, daemon=True)
        self.t.start()
        return self

    def run(self):
        box = D.create()
        while not self.stop.is_set():
            got = (D.ask("GET", f"/sandboxes/{box['sandboxID']}")[0], D.box_ask(box, "GET", "/x")[0],
                   D.ask("GET", "/health", key=False)[0])
            self.n += 1
            if got != (200, 200, 204):
                self.bad.append(got)

    def __exit__(self, *_):
        n = self.n
        until(lambda: self.n > n or self.bad or not self.t.is_alive(), 20, "others are answered")
        self.stop.set()
        self.t.join(20)
        ok(not self.bad and not self.t.is_alive(), f"others saw {self.bad[:3]}")
        ok(D.p.poll() is None, "brigd lives")


def answers(got):
    """Statuses of the answers in it."""
    return [int(x[:3]) for x in got.split(b"HTTP/1.1 ")[1:]]


HEAD = f"Host: x\r\nX-API-KEY: {D.key}\r\n"
CREATE = '{"templateID":"base","timeout":60}'
# "SMUGGLED" is what a second reader would take for a request of its own
SMUGGLED = f"POST /v2/sandboxes HTTP/1.1\r\n{HEAD}Content-Length: {len(CREATE)}\r\n\r\n{CREATE}"


@case
def bodies_with_two_lengths():
    """One whose end could be read in two ways is refused, and what follows is nobody's request."""
    chunked = "0\r\n\r\n" + SMUGGLED
    for fields, body in (("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunked), ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunked),
                         ("Content-Length: 5\r\nContent-Length: 6\r\n", "abcde" + SMUGGLED), ("Content-Length: 5, 6\r\n", "abcde" + SMUGGLED),
                         ("Content-Length: +5\r\n", "abcde" + SMUGGLED), ("Content-Length: 0x5\r\n", "abcde" + SMUGGLED), ("Content-Length:\r\n", SMUGGLED),
                         ("Content-Length: 5 \x0b\r\n", "abcde" + SMUGGLED), ("Content-Length: -0\r\n", SMUGGLED),
                         ("Content-Length: 18446744073709551616\r\n", SMUGGLED), ("Transfer-Encoding: xchunked\r\n", chunked), ("Transfer-Encoding: chunked, identity\r\n", chunked),
                         ("Transfer-Encoding: identity\r\n", chunked), ("Transfer-Encoding: gzip, chunked\r\n", chunked),
                         ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked), ("Transfer-Encoding : chunked\r\n", chunked),
                         ("Transfer-Encoding:\x0bchunked\r\n", chunked), ("Transfer-Encoding: chunked\r\n x\r\n", chunked),
                         ("Transfer-Encoding: \"chunked\"\r\n", chunked)):
        before = len(D.spawn.keepers)
        got = raw(f"PUT /sandboxes HTTP/1.1\r\n{HEAD}{fields}\r\n{body}", seconds=WAITS)
        ok(got == b"" or 400 <= answers(got)[0] < 506, (fields, got[:200]))
        eq(len(D.spawn.keepers), before, f"what follows is no request: {fields!r}: {answers(got)}")
    got = raw(f"PUT /sandboxes HTTP/1.0\r\n{HEAD}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}", seconds=WAITS)
    eq(answers(got), [400], "no chunks in HTTP/1.0")
    eq(raw(f"GET /health HTTP/1.1\r\n{HEAD}Content-Length\x0b: 5\r\n\r\nabcde{SMUGGLED}", seconds=WAITS), b"", "a name that is none")
    for fields in ("Transfer-Encoding: chunked\r\n", f"Content-Length: {len(CREATE)}\r\n"):  # and that such a request would be served
        body = f"{len(CREATE):x}\r\n{CREATE}\r\n0\r\n\r\n" if "chunked" in fields else CREATE
        eq(answers(raw(f"POST /v2/sandboxes HTTP/1.1\r\n{HEAD}Connection: close\r\n{fields}\r\n{body}", end=False)), [201], fields)


@case
def chunks_that_are_none():
    for body in ("5\r\nabcdeX\r\n0\r\n\r\n", "-5\r\nabcde\r\n0\r\n\r\n", "+5\r\nabcde\r\n0\r\n\r\n", "0x5\r\nabcde\r\n0\r\n\r\n", "5 \r\nabcde\r\n0\r\n\r\n" * 50,
                 "fffffffffffffffff\r\n", "ffffffffffffffff\r\nabc", "7fffffffffffffff\r\nabc", "\r\n\r\n", "g\r\n", ";\r\n", "5;" + "x" * 100000 + "\r\nabcde\r\n0\r\n\r\n",
                 "5\r\nab", "0\r\nX: " + "y" * 100000 + "\r\n\r\n", "0\r\n" + "X: y\r\n" * 20000 + "\r\n", "5\nabcde\n0\n\n", "00000000000000000000005\r\nabcde\r\n0\r\n\r\n"):
        for method, path in (("POST", "/v2/sandboxes"), ("POST", "/nothing")):
            before = len(D.spawn.keepers)
            got = raw(f"{method} {path} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}", seconds=WAITS)
            ok(got == b"" or 400 <= answers(got)[0] < 506, (body[:40], got[:100]))
            eq(len(D.spawn.keepers), before, "nothing was made")


@case
def heads_that_are_none():
    k = 1024
    for text in ("GET /health\r\n\r\n", "GET /health http/1.1\r\nHost: x\r\n\r\n",
                 "GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n", "GET health HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
                 "GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n: v\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nA\x00B: c\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n", "\r\n" * 5000 + "x", "GET /" + "a" * 64 * k + " HTTP/1.1\r\nHost: x\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: x\r\nA: " + "b" * 64 * k + "\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 10000 + "\r\n", "A" * 64 * k, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://x/nothing HTTP/1.1\r\nHost: x\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\nContent-Length: 5\r\n\r\n", "GET / HTTP/1.1\r\nHost: " + "9" * 5000 + "-i.x\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: x\r\nCookie: " + "a=b;" * 5000 + "\r\n\r\n", "GET /nothing?" + "a=b&" * 5000 + " HTTP/1.1\r\nHost: x\r\n\r\n"):
        got = raw(text, seconds=WAITS)
        ok(got == b"" or got.startswith(b"HTTP/1.0 4") or 400 <= answers(got)[0] < 506, (text[:60], got[:100]))


@case
def json_that_is_none():
    big = 3 << 20
    for body in (b"[" * big, b'{"a":' * (big // 5), b'{"templateID":"base","templateID":"base"}', b'{"templateID":"\xff"}', b'{"templateID":"\xed\xa0\x80"}',
                 b'{"templateID":"\\ud800"}', b'{"templateID":"base\\u0000x"}', b'{"te\\u0000x":1}', b'{"timeout":1e999,"templateID":"base"}', b'{"timeout":99999999999999999999,"templateID":"base"}',
                 b'{"timeout":1.5,"templateID":"base"}', b'{"timeout":NaN,"templateID":"base"}', b'\xef\xbb\xbf{"templateID":"base"}', b'{"templateID":"base"}x', b'{"templateID":"base",}',
                 b"{'templateID':'base'}", b'{"templateID":"base"/**/}', b'{"templateID":"' + b"a" * big + b'"}', b'{"' + b"a" * big + b'":1}', b"\0", b'{"templateID":"base","metadata":{' +
                 b",".join(b'"%d":"x"' % i for i in range(100000)) + b'}}', "{\"templateID\":\"base\",\"é".encode()[:-1] + b'":1}', ('{"x' + "é" * 64 + '":1}').encode()):
        s, f, r = D.ask("POST", "/v2/sandboxes", body)
        ok(s in (400, 404) and f["content-type"] == "application/json" and r["code"] == s, (body[:40], s, r))
    for path, body in (("/timeout", b'{"timeout":"1"}'), ("/timeout", b'{"timeout":[]}'), ("/connect", b'{"timeout":-1}'), ("/pause", b'{"memory":0}'), ("/resume", b'{"autoPause":{}}'),
                       ("/refreshes", b'{"duration":1e3}'), ("/timeout", b"[]"), ("/timeout", b'{"timeout":9223372036854775808}')):
        b = D.create()
        s, _, r = D.ask("POST", f"/sandboxes/{b['sandboxID']}{path}", body)
        eq((s, r["code"]), (400, 400), (path, body))


@case
def many_requests_in_one_packet():
    one = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    got = raw(one * 200)
    eq(answers(got), [204] * 200)
    mixed = [("GET /nothing", 404), ("GET /health", 204), ("GET /sandboxes", 401), ("PATCH /sandboxes", 405), ("GET /health", 204)]
    got = raw("".join(f"{m} HTTP/1.1\r\nHost: x\r\n\r\n" for m, _ in mixed) * 20)
    eq(answers(got), [s for _, s in mixed] * 20)
    b = D.create()
    to = f"Host: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 8080\r\n"
    got = raw("".join(f"POST /{i} HTTP/1.1\r\n{to}Content-Length: 2\r\n{'Connection: close' if i == 49 else 'X: y'}\r\n\r\n{i:02d}" for i in range(50)), end=False)
    eq((answers(got), [f'"target": "/port/8080/{i}"'.encode() in got and f'"body": "{i:02d}"'.encode() in got for i in range(50)]), ([200] * 50, [True] * 50))


@case
def half_closed_ones():
    b = D.create()
    to = f"Host: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 8080\r\n"
    # a client that has gone looks the same, so what a sandbox would say is not waited for
    ok(raw(f"POST /x HTTP/1.1\r\n{to}Content-Length: 5\r\n\r\nhello")[:12] in (b"", b"HTTP/1.1 200"), "its request was whole")
    eq(answers(raw("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")), [204], "what can be said at once is said")
    for text in (f"POST /x HTTP/1.1\r\n{to}Content-Length: 50\r\n\r\nhello", f"POST /x HTTP/1.1\r\n{to}Transfer-Encoding: chunked\r\n\r\n5\r\nhel", f"POST /x HTTP/1.1\r\n{to}",
                 f"POST /v2/sandboxes HTTP/1.1\r\n{HEAD}Content-Length: 50\r\n\r\n" + '{"templateID":"base"}'):
        before = len(D.spawn.keepers)
        got = raw(text, seconds=WAITS)
        ok(got == b"" or answers(got)[0] >= 400, (text[:40], got[:100]))
        eq(len(D.spawn.keepers), before, "half a body is no body")


@case
def one_that_vanishes_is_probed():
    """The kernel asks after it: the timer of the connection's end here is that of keep-alive (proc_net_tcp.rst: tr 02)."""
    with socket.create_connection(("127.0.0.1", D.port), timeout=20) as s:
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f]
        mine = [r for r in rows if r[1].endswith(f":{D.port:04X}") and r[2].endswith(f":{s.getsockname()[1]:04X}")]
        eq([r[5][:2] for r in mine], ["02"], mine)


@case
def slow_ones_stop_nobody():
    b, socks = D.create(), []
    texts = (b"GET /hea", b"POST /v2/sandboxes HTTP/1.1\r\nHo", f"POST /v2/sandboxes HTTP/1.1\r\n{HEAD}Content-Length: 100\r\n\r\n{{".encode(),
             f"POST /x HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 80\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".encode(), b"")
    with Others():
        for i in range(500):
            s = socket.create_connection(("127.0.0.1", D.port), timeout=20)
            s.sendall(texts[i % len(texts)])
            socks.append(s)
        for _ in range(3):
            for s in socks:
                try:
                    s.sendall(b"a")
                except OSError:
                    pass
    for s in socks:
        s.close()


@case
def switches_of_protocols():
    b = D.create()
    to = f"Host: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 8080\r\n"
    for fields in ("Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n", "Connection: upgrade\r\nUpgrade: \x01\r\n", "Upgrade: websocket\r\n", "Connection: Upgrade\r\n",
                   "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n"):
        got = raw(f"GET /x HTTP/1.1\r\n{to}{fields}\r\n" + "x" * 50, seconds=WAITS)
        ok(got == b"" or (answers(got) or [400])[0] in (101, 200, 400, 426, 501, 502), (fields, got[:200]))


@case
def noise_leaves_no_trace():
    """Good requests with bytes changed, cut out and put in."""
    rnd, b = random.Random(SEED), D.create()
    good = [f"POST /v2/sandboxes HTTP/1.1\r\n{HEAD}Content-Length: 21\r\n\r\n" + '{"templateID":"nope"}', f"GET /v2/sandboxes?metadata=a%3Db&limit=3 HTTP/1.1\r\n{HEAD}\r\n",
            f"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: {b['envdAccessToken']}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "GET /files?path=a&signature=v1_x&signature_expiration=5 HTTP/1.1\r\nHost: x\r\n\r\n"]
    before = None
    with Others():
        for i in range(ROUNDS):
            text = bytearray(rnd.choice(good).encode())
            for _ in range(rnd.randrange(1, 8)):
                at = rnd.randrange(len(text))
                what = rnd.randrange(4)
                if what == 0:
                    text[at] = rnd.randrange(256)
                elif what == 1:
                    del text[at:at + rnd.randrange(1, 20)]
                elif what == 2:
                    text[at:at] = rnd.choice((b"\r\n", b"\0", b"\r\n\r\n", b": ", b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n", b"%00", b"/../", b"\xff" * 9, b"A" * 5000))
                else:
                    text[at:at] = text[:at]
                text = text or bytearray(b"x")
            got = raw(bytes(text), seconds=0.05)
            ok(got == b"" or got.startswith(b"HTTP/1."), (bytes(text)[:80], got[:80]))
            if i == ROUNDS // 3:
                before = D.rss()
    if not SANITIZED:
        grew = D.rss() - before
        ok(grew < 4 << 20, f"memory grew by {grew}")
    for x in D.ask("GET", "/v2/sandboxes")[2]:
        eq(D.ask("DELETE", f"/sandboxes/{x['sandboxID']}")[0], 204, json.dumps(x))


if __name__ == "__main__":
    sys.exit(apilib.main(D))
