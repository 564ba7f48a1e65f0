#!/usr/bin/env python3
"""Sandboxes' traffic through brigd: routing, tokens, streams in both directions, and both sides misbehaving."""
import base64
import hashlib
import http.client
import json
import socket
import sys
import threading
import time
import urllib.parse

import apilib
from apilib import case, eq, ok, until

BLOCKS = 256  # of 64 KiB
D = apilib.Daemon(more="domain: box.example\n")


def raw(text, end=True):
    """Bytes on a fresh connection: what comes back until it is closed."""
    with socket.create_connection(("127.0.0.1", D.port), timeout=20) as s:
        try:
            s.sendall(text if isinstance(text, bytes) else text.encode())
            if end:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        out = b""
        try:
            while p := s.recv(65536):
                out += p
        except OSError:
            pass
        return out


def sign(path, verb, user, token, expires=None):
    text = f"{path}:{verb}:{user}:{token}" + (f":{expires}" if expires is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@case
def headers_choose_sandbox_and_port():
    b = D.create()
    for port, prefix in ((49983, "/envd"), (49999, "/code"), (3000, "/port/3000")):
        s, _, r = D.box_ask(b, "PUT", "/a%2Fb?x=%20y", b"hello", port=port, headers={
            "X-Thing": "t", "Authorization": "Basic dXNlcjo=", "X-API-KEY": "secret", "E2b-Traffic-Access-Token": "q",
            "Keep-Alive": "5", "TE": "x"})
        eq((s, r["method"], r["target"], r["body"], r["id"]), (200, "PUT", prefix + "/a%2Fb?x=%20y", "hello", b["sandboxID"]))
        eq((r["fields"]["x-thing"], r["fields"]["authorization"]), ("t", "Basic dXNlcjo="))
        for gone in ("host", "x-api-key", "x-access-token", "e2b-traffic-access-token", "keep-alive", "te", "connection"):
            ok(gone not in r["fields"], gone)


@case
def host_names_choose_too():
    b = D.create()
    s, _, r = D.ask("GET", "/p", key=False, headers={"Host": f"8080-{b['sandboxID']}.box.example"})
    eq((s, r["target"]), (200, "/port/8080/p"))
    s, _, r = D.ask("GET", "/p", key=False, headers={"Host": "8080-ixyz.box.example"})
    eq((s, r), (502, {"sandboxId": "ixyz", "message": "The sandbox was not found", "code": 502}))
    eq(D.ask("GET", "/sandboxes", headers={"Host": "x-y.example"})[0], 200)


@case
def bad_sandbox_headers():
    sid = D.create()["sandboxID"]
    for h in ({"E2b-Sandbox-Id": sid}, {"E2b-Sandbox-Port": "49983"}, {"E2b-Sandbox-Id": sid, "E2b-Sandbox-Port": "0"},
              {"E2b-Sandbox-Id": sid, "E2b-Sandbox-Port": "65536"}, {"E2b-Sandbox-Id": sid, "E2b-Sandbox-Port": "x"},
              {"E2b-Sandbox-Id": "../x", "E2b-Sandbox-Port": "1"}, {"E2b-Sandbox-Id": sid.upper(), "E2b-Sandbox-Port": "1"},
              {"E2b-Sandbox-Id": "", "E2b-Sandbox-Port": "1"}, {"E2b-Sandbox-Id": "a" * 65, "E2b-Sandbox-Port": "1"}):
        s, _, r = D.ask("GET", "/health", key=False, headers=h)
        eq((s, r["code"]), (400, 400), h)


@case
def tokens_of_sandboxes():
    b, c = D.create(), D.create()
    for token in (False, "x", c["envdAccessToken"], b["envdAccessToken"][:-1]):
        for path in ("/envs", "/process.Process/List", "/files/compose", "/metrics"):
            s, _, r = D.box_ask(b, "POST", path, b"{}", token=token)
            eq((s, r), (401, {"code": 401, "message": "unauthorized access, please provide a valid access token or method "
                                                      "signing if supported"}))
    eq(D.box_ask(b, "GET", "/health", token=False)[0], 204)
    eq(D.box_ask(b, "GET", "/contexts", port=49999, token=False)[0], 200)
    for path in ("/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/in%69t", "/init?x"):
        eq(D.box_ask(b, "POST", path, b"")[0], 404, path)
    # brigd's own calls are behind no path of a client's
    ok(D.box_ask(b, "GET", "/../control/stat")[2]["target"].startswith("/envd/"), "prefix")


@case
def traffic_tokens():
    b = D.create(network={"allowPublicTraffic": False})
    ok(b["trafficAccessToken"] != b["envdAccessToken"], b)
    get = lambda port, h=None: D.box_ask(b, "GET", "/x", port=port, headers=h)
    for port in (3000, 49999):
        s, _, r = get(port)
        eq((s, r["code"], "is missing" in r["message"]), (403, 403, True))
        s, _, r = get(port, {"E2b-Traffic-Access-Token": "x"})
        eq((s, "is invalid" in r["message"]), (403, True))
        eq(get(port, {"E2b-Traffic-Access-Token": b["trafficAccessToken"]})[0], 200)
    eq(get(49983)[0], 200)


@case
def signed_urls_need_no_name():
    b, _ = D.create(), D.create()
    t = b["envdAccessToken"]
    now = int(time.time())
    for user in ("", "user"):
        for path in ("dir/a.txt", "/tmp/ü &=?+.txt"):
            q = {"path": path, "signature": sign(path, "read", user, t), **({"username": user} if user else {})}
            url = "/files?" + urllib.parse.urlencode(q)
            s, _, r = D.ask("GET", url, key=False)
            eq((s, r["id"], r["target"]), (200, b["sandboxID"], "/envd" + url))
            eq(D.ask("POST", url, b"x", key=False)[0], 401, "a signature to read does not write")
    up = sign("a", "write", "", t, now + 60)
    url = "/files?" + urllib.parse.urlencode({"path": "a", "signature": up, "signature_expiration": now + 60})
    s, _, r = D.ask("POST", url, b"data", key=False)
    eq((s, r["body"]), (200, "data"))
    for q, why in (({"path": "a", "signature": sign("a", "read", "", t, now - 5), "signature_expiration": now - 5},
                    "signature is already expired"),
                   ({"path": "b", "signature": sign("a", "read", "", t)}, "invalid signature"),
                   ({"path": "a", "signature": sign("a", "read", "", t), "username": "root"}, "invalid signature"),
                   ({"path": "a", "signature": ""}, "invalid signature")):
        s, _, r = D.ask("GET", "/files?" + urllib.parse.urlencode(q), key=False)
        eq((s, r), (401, {"code": 401, "message": why}))
    s, _, r = D.box_ask(b, "GET", "/files?path=a", token=False)
    eq((s, r), (401, {"code": 401, "message": "missing signature query parameter"}))


@case
def unknown_killed_paused_sandboxes_are_alike():
    dead, paused = D.create(), D.create()
    D.ask("DELETE", f"/sandboxes/{dead['sandboxID']}")
    D.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {})
    fake = {"sandboxID": "i" + "0" * 20, "envdAccessToken": "x"}
    for box in (dead, paused, fake):
        for port, path in ((49983, "/health"), (49983, "/process.Process/Start"), (49999, "/execute"), (80, "/")):
            s, f, r = D.box_ask(box, "POST", path, b"{}", port=port)
            eq((s, f["content-type"], r), (502, "application/json", {
                "sandboxId": box["sandboxID"], "message": "The sandbox was not found", "code": 502}))


@case
def answers_stream_as_they_come():
    go = threading.Event()

    def stream(_, call):
        call.body()
        call.conn.sendall(apilib.head(200, content_type="application/connect+json"))
        call.conn.sendall(apilib.piece(apilib.BODY, b"one"))
        go.wait(10)
        call.conn.sendall(apilib.piece(apilib.BODY, b"two") + apilib.piece(apilib.FIN))
    D.spawn.calls["/envd/stream"] = stream
    b = D.create()
    c = D.conn()
    c.request("POST", "/stream", b"{}", {"E2b-Sandbox-Id": b["sandboxID"], "E2b-Sandbox-Port": "49983",
                                         "X-Access-Token": b["envdAccessToken"]})
    r = c.getresponse()
    eq((r.getheader("Content-Type"), r.getheader("Transfer-Encoding")), ("application/connect+json", "chunked"))
    eq(r.read1(3), b"one", "before the end is there")
    go.set()
    eq(r.read(), b"two")
    # the connection is kept
    c.request("GET", "/health")
    eq(c.getresponse().status, 204)


@case
def big_bodies_both_ways():
    want = hashlib.sha256()
    block = bytes(range(256)) * 256

    def take(_, call):
        h, n = hashlib.sha256(), 0
        while True:
            kind, size = call.next_head()
            if kind == apilib.FIN:
                break
            p = apilib.exactly(call.conn, size)
            h.update(p)
            n += size
        call.json(200, {"sha": h.hexdigest(), "n": n})

    def give(_, call):
        call.body()
        call.conn.sendall(apilib.head(200, content_length=len(block) * BLOCKS))
        for _ in range(BLOCKS):
            call.conn.sendall(apilib.piece(apilib.BODY, block[:40000]) + apilib.piece(apilib.BODY, block[40000:]))
        call.conn.sendall(apilib.piece(apilib.FIN))
    D.spawn.calls.update({"/envd/take": take, "/envd/give": give})
    b = D.create()
    for _ in range(BLOCKS):
        want.update(block)
    before = D.rss()
    for chunked in (True, False):
        c = D.conn()
        h = {"E2b-Sandbox-Id": b["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": b["envdAccessToken"]}
        if not chunked:
            h["Content-Length"] = str(len(block) * BLOCKS)
        c.request("POST", "/take", (block for _ in range(BLOCKS)), h, encode_chunked=chunked)
        r = json.loads(c.getresponse().read())
        eq((r["n"], r["sha"]), (len(block) * BLOCKS, want.hexdigest()))
    s, f, got = D.box_ask(b, "GET", "/give")
    eq((s, f["content-length"], hashlib.sha256(got).hexdigest()), (200, str(len(block) * BLOCKS), want.hexdigest()))
    ok(D.rss() - before < 4 << 20, f"memory grew by {D.rss() - before}")


@case
def a_reader_that_does_not_read_stops_the_sender():
    sent = [0]

    def flood(_, call):
        call.body()
        call.conn.sendall(apilib.head(200))
        call.conn.settimeout(1)
        try:
            while sent[0] < 100 << 20:
                call.conn.sendall(apilib.piece(apilib.BODY, b"x" * 60000))
                sent[0] += 60000
        except TimeoutError:
            pass
    D.spawn.calls["/envd/flood"] = flood
    b = D.create()
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", D.port))
    before = D.rss()
    s.sendall(f"GET /flood HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
              f"X-Access-Token: {b['envdAccessToken']}\r\n\r\n".encode())
    k = D.spawn.keepers[b["sandboxID"]]
    until(lambda: k.conns, 20, "the call came")
    until(lambda: not k.conns, 10, "the sender gave up")
    ok(sent[0] < 20 << 20, f"{sent[0]} bytes went somewhere")
    ok(D.rss() - before < 2 << 20, f"memory grew by {D.rss() - before}")
    s.close()


@case
def a_client_that_goes_is_noticed():
    gone = threading.Event()

    def wait(_, call):
        call.body()
        if call.target.endswith("?begin"):
            call.conn.sendall(apilib.head(200) + apilib.piece(apilib.BODY, b"x"))
        if call.conn.recv(1) == b"":
            gone.set()
    D.spawn.calls["/code/execute"] = wait
    b = D.create()
    for tail in ("", "?begin"):
        gone.clear()
        s = socket.create_connection(("127.0.0.1", D.port))
        s.sendall(f"POST /execute{tail} HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 49999\r\n"
                  "Content-Length: 2\r\n\r\n{}".encode())
        if tail:
            s.recv(1)
        else:
            until(lambda: D.spawn.keepers[b["sandboxID"]].conns, 20, "the call came")
        s.close()
        ok(gone.wait(10), f"the keeper learns of it{tail}")


@case
def a_sandbox_that_is_killed_drops_the_connection():
    def hang(_, call):
        call.body()
        call.conn.sendall(apilib.head(200) + apilib.piece(apilib.BODY, b"x"))
        call.conn.recv(1)
    D.spawn.calls["/envd/hang"] = hang
    b = D.create()
    c = D.conn()
    c.request("GET", "/hang", None, {"E2b-Sandbox-Id": b["sandboxID"], "E2b-Sandbox-Port": "49983",
                                     "X-Access-Token": b["envdAccessToken"]})
    r = c.getresponse()
    eq(r.read1(1), b"x")
    eq(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], 204)
    try:
        rest = r.read()
        ok(False, f"the answer ended as if it were whole: {rest!r}")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    eq(D.box_ask(b, "GET", "/health")[0], 502)


@case
def keepers_that_lie():
    b = D.create()
    for junk in (b"", b"\0" * 8, b"\x09" * 100, apilib.piece(apilib.BODY, b"x"), apilib.piece(apilib.FIN),
                 apilib.piece(apilib.RESPONSE, b"200"), apilib.piece(apilib.RESPONSE, b"abc\0"),
                 apilib.piece(apilib.RESPONSE, b"100\0"), apilib.piece(apilib.RESPONSE, b"200\0X-Up\0v\0"),
                 apilib.piece(apilib.RESPONSE, b"200\0a\0b\r\nSet-Cookie: x\0"), b"\x02\0\0\0\xff\xff\xff\xff",
                 apilib.piece(apilib.REQUEST, b"GET\0/\0")):
        def lie(_, call, junk=junk):
            call.body()
            call.conn.sendall(junk)
        D.spawn.calls["/envd/lie"] = lie
        s, f, r = D.box_ask(b, "GET", "/lie")
        eq((s, r["code"], "set-cookie" in f), (502, 502, False), junk)
    def cut(_, call):
        call.body()
        call.conn.sendall(apilib.head(200, content_length=10) + apilib.piece(apilib.BODY, b"abc"))
    D.spawn.calls["/envd/lie"] = cut
    try:
        D.box_ask(b, "GET", "/lie")
        ok(False, "a short answer passes for a whole one")
    except (http.client.IncompleteRead, ConnectionError):
        pass


@case
def an_early_answer_reaches_a_client_that_still_writes():
    def full(_, call):
        call.next_head()
        call.answer(507, b'{"code":507}', content_type="application/json")
        call.conn.close()
    D.spawn.calls["/envd/full"] = full
    b = D.create()
    s, _, r = D.box_ask(b, "POST", "/full", b"y" * (8 << 20))
    eq((s, r), (507, {"code": 507}))


@case
def browsers_are_let_in():
    b = D.create()
    s, f, _ = D.box_ask(b, "OPTIONS", "/execute", port=49999, token=False, headers={
        "Origin": "http://a", "Access-Control-Request-Method": "POST"})
    eq((s, f["access-control-allow-origin"]), (204, "*"))
    eq(D.box_ask(b, "GET", "/x", headers={"Origin": "http://a"})[1]["access-control-allow-origin"], "*")


@case
def a_client_that_says_no_more_is_let_go():
    """Its end comes together with its request, as nc -N sends it; brigd does not wait for more."""
    for path in ("/health", "/none", "/v2/sandboxes") * 10:
        with socket.create_connection(("127.0.0.1", D.port), timeout=20) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-API-KEY: {D.key}\r\n\r\n".encode())
            s.shutdown(socket.SHUT_WR)
            got = b""
            while p := s.recv(65536):  # else it times out
                got += p
            ok(got.startswith(b"HTTP/1.1 "), got[:300])


@case
def malformed_http():
    # What could still go on is waited for; these are on their way while the others are refused, and are not answered either.
    wait = []
    for text in (b"\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc", b"\0" * 1000):
        wait.append(socket.create_connection(("127.0.0.1", D.port)))
        wait[-1].sendall(text)
    for text in ("GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\nHost x\r\n\r\n",
                 "GET " + "/" * 100000 + " HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 20000 + "\r\n",
                 "POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\nabcde",
                 "POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nabcde",
                 "POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
                 "POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                 "GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n"):
        got = raw(text)
        ok(got == b"" or got.startswith(b"HTTP/1.1 4") or got.startswith(b"HTTP/1.1 505") or got.startswith(b"HTTP/1.0 4"),
           f"{text[:60]!r}: {got[:80]!r}")
    eq(D.ask("GET", "/health", key=False)[0], 204)
    for s in wait:
        s.setblocking(False)
        try:
            got = s.recv(100)
        except (BlockingIOError, ConnectionError):
            got = b""
        ok(got == b"" or got.startswith(b"HTTP/1.1 4"), got)
        s.close()
    eq(D.ask("GET", "/health", key=False)[0], 204)


@case
def heads_that_are_too_much_for_a_call():
    b = D.create()
    many = {f"X-{i}": "v" for i in range(150)}
    s = D.box_ask(b, "GET", "/x", headers=many)
    eq(s[0], 431)
    eq(D.box_ask(b, "GET", "/x", headers={f"X-{i}": "v" for i in range(50)})[0], 200)


@case
def slow_clients_stop_nobody():
    socks = []
    for _ in range(200):
        s = socket.create_connection(("127.0.0.1", D.port))
        s.sendall(b"POST /sandboxes HTTP/1.1\r\nHo")
        socks.append(s)
    eq(D.ask("GET", "/health", key=False)[0], 204)
    for s in socks:
        s.sendall(b"st: x\r\nX-API-KEY: " + D.key.encode() + b"\r\nContent-Length: 100\r\n\r\n{")
    eq(D.ask("GET", "/v2/sandboxes")[0], 200)
    for s in socks:
        s.close()
    until(lambda: D.ask("GET", "/health", key=False)[0] == 204, 20, "served")


@case
def a_thousand_idle_streams():
    hold = threading.Event()

    def idle(_, call):
        call.body()
        call.conn.sendall(apilib.head(200) + apilib.piece(apilib.BODY, b"x"))
        hold.wait(30)
        call.conn.sendall(apilib.piece(apilib.FIN))
    D.spawn.calls["/envd/idle"] = idle
    boxes = [D.create() for _ in range(4)]
    before, socks = D.rss(), []
    for i in range(1000):
        b = boxes[i % 4]
        s = socket.create_connection(("127.0.0.1", D.port), timeout=20)
        s.sendall(f"GET /idle HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
                  f"X-Access-Token: {b['envdAccessToken']}\r\n\r\n".encode())
        socks.append(s)
    for s in socks:
        ok(s.recv(65536).startswith(b"HTTP/1.1 200"), "begun")
    eq(D.ask("GET", "/v2/sandboxes")[0], 200)
    grew = D.rss() - before
    print(f"# 1,000 idle streams: {grew // 1000} bytes each")
    ok(grew < 25 << 20, f"memory grew by {grew}")
    hold.set()
    for s in socks:
        while not s.recv(65536).endswith(b"0\r\n\r\n"):
            pass
        s.close()


if __name__ == "__main__":
    sys.exit(apilib.main(D))
