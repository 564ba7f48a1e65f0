#!/usr/bin/env python3
"""Clients that switch protocols: what is passed on, both ways, the ends, and what is not passed on. The keeper is a stand-in."""
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
import apilib
from apilib import BODY, FIN, case, eq, exactly, head, ok, piece, until

D = apilib.Daemon()
ASK = {"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "k"}
seen = []  # calls that came to a keeper


def pieces(call):
    """(kind, bytes) as they come."""
    while True:
        kind, n = call.next_head()
        yield kind, exactly(call.conn, n)


def echo(_keeper, call):
    """101, and everything back; the word `bye` ends it from here."""
    seen.append(call)
    call.conn.sendall(head(101, upgrade="websocket", connection="upgrade", sec_websocket_accept="a"))
    for kind, data in pieces(call):
        if kind == FIN:
            call.conn.sendall(piece(BODY, b" end") + piece(FIN))
            return
        call.conn.sendall(piece(BODY, data))
        if data.endswith(b"bye"):
            call.conn.sendall(piece(FIN))
            return
        if data.endswith(b"cut"):
            return


def told(_keeper, call):
    seen.append(call)
    call.json(200, {"fields": call.fields})


def unasked(_keeper, call):
    seen.append(call)
    call.conn.sendall(head(101, upgrade="websocket"))


D.spawn.calls.update({"/port/8000/chat": echo, "/port/8000/told": told, "/envd/told": told, "/code/told": told, "/port/8000/101": unasked})
BOX = D.create()


def opened(path, fields=None, port=8000, method="GET"):
    s = socket.create_connection(("127.0.0.1", D.port), timeout=30)
    f = {"Host": "x", "E2b-Sandbox-Id": BOX["sandboxID"], "E2b-Sandbox-Port": str(port), "X-Access-Token": BOX["envdAccessToken"],
         **(ASK if fields is None else fields)}
    s.sendall((f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in f.items()) + "\r\n").encode())
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += some(s, raw)
    top, rest = raw.split(b"\r\n\r\n", 1)
    lines = top.decode().split("\r\n")
    return s, int(lines[0].split()[1]), {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}, rest


def some(s, before=b""):
    """What has come; its end is a failure, told with what came before it."""
    d = s.recv(65536)
    if not d:
        raise EOFError(f"the connection ended after {before[-200:]!r}")
    return d


def to_end(s, got=b""):
    while d := s.recv(1 << 18):
        got += d
    return got


@case
def bytes_go_both_ways():
    s, status, f, rest = opened("/chat")
    eq((status, f["upgrade"], f["connection"].lower(), f["sec-websocket-accept"], rest), (101, "websocket", "upgrade", "a", b""))
    eq({k: seen[-1].fields.get(k) for k in ("upgrade", "sec-websocket-key", "connection")}, {"upgrade": "websocket", "sec-websocket-key": "k", "connection": None})
    for i in range(50):
        s.sendall(b"%d." % i)
        got = b""
        while got != b"%d." % i:
            got += some(s, got)
    data = os.urandom(5 << 20)
    w = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    w.start()
    got = to_end(s)
    w.join()
    eq((len(got), got[:-4] == data, got[-4:]), (len(data) + 4, True, b" end"), "the client's end, then the program's")
    s.close()


@case
def what_came_with_the_head_is_not_lost():
    s = socket.create_connection(("127.0.0.1", D.port), timeout=30)
    s.sendall((f"GET /chat HTTP/1.1\r\nHost: 8000-{BOX['sandboxID']}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").encode() + b"early bye")
    got = to_end(s)
    ok(got.startswith(b"HTTP/1.1 101") and got.endswith(b"\r\n\r\nearly bye"), got)
    s.close()


@case
def ends():
    s, status, _, _ = opened("/chat")
    s.sendall(b"bye")
    eq((status, to_end(s)), (101, b"bye"), "the program's end")
    s, status, _, _ = opened("/chat")
    s.sendall(b"cut")
    eq((status, to_end(s)), (101, b"cut"), "a keeper that goes")
    s, _, _, _ = opened("/chat")
    call = seen[-1]
    s.close()
    until(lambda: call.conn.fileno() < 0, 10, "the keeper learns that the client is gone")
    b = D.create()
    s, status, _, _ = opened("/chat", {**ASK, "E2b-Sandbox-Id": b["sandboxID"]})
    eq((status, D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], to_end(s)), (101, 204, b""), "the sandbox's end")


@case
def both_sides_at_once():
    """The program ends, and the client says something, in one turn of brigd: it is stopped meanwhile, so both wait for it."""
    for word in (b"x", b""):
        s, _, _, _ = opened("/chat")
        call = seen[-1]
        D.p.send_signal(signal.SIGSTOP)
        try:
            call.conn.sendall(piece(FIN))
            if word:
                s.sendall(word)
            else:
                s.shutdown(socket.SHUT_WR)
        finally:
            D.p.send_signal(signal.SIGCONT)
        try:
            eq(to_end(s), b"")
        except ConnectionResetError:
            pass  # what it said was not read
        s.close()
        eq(D.ask("GET", "/health", key=False)[0], 204, "brigd lives")


@case
def who_does_not_read_stops_the_other():
    before = D.rss()
    s, _, _, _ = opened("/chat")
    s.setblocking(False)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += s.send(b"x" * 65536)
    except BlockingIOError:
        pass
    eq(D.ask("GET", "/health", key=False)[0], 204, "others are served")
    ok(sent < 64 << 20, "the client is held up")
    ok(D.rss() - before < 4 << 20, f"{(D.rss() - before) >> 10} KiB more")
    s.setblocking(True)
    s.settimeout(30)
    s.shutdown(socket.SHUT_WR)
    eq(len(to_end(s)), sent + 4)


@case
def what_is_no_switch():
    for fields, why in (({"Upgrade": "websocket"}, "Connection does not name it"), ({"Connection": "upgrade"}, "no protocol"),
                        ({**ASK, "Upgrade": "h2c, websocket"}, "two"), ({**ASK, "Upgrade": "x" * 200}, "long"), ({**ASK, "Upgrade": "a b"}, "no word"),
                        ({**ASK, "Content-Length": "2"}, "a body")):
        s, status, _, rest = opened("/told", fields) if "Content-Length" not in fields else opened_with_body(fields)
        eq(status, 200, why)
        ok("upgrade" not in seen[-1].fields, f"{why}: {seen[-1].fields}")
        s.close()
    for port, path in ((49983, "/told"), (49999, "/told")):
        s, status, _, _ = opened(path, port=port)
        eq(status, 200)
        ok("upgrade" not in seen[-1].fields, f"{port}: {seen[-1].fields}")
        s.close()
    for fields in ({}, {"Upgrade": "websocket"}):
        s, status, _, _ = opened("/101", fields)
        eq(status, 502, "101 for one who did not ask")
        s.close()
    # declined: HTTP goes on, on the same connection
    s, status, _, rest = opened("/told")
    while not rest.endswith(b"0\r\n\r\n"):
        rest += some(s, rest)
    s.sendall(f"GET /told HTTP/1.1\r\nHost: 8000-{BOX['sandboxID']}.localhost\r\n\r\n".encode())
    ok(s.recv(65536).startswith(b"HTTP/1.1 200"), "the next request")
    s.close()


def opened_with_body(fields):
    s = socket.create_connection(("127.0.0.1", D.port), timeout=30)
    f = {"Host": f"8000-{BOX['sandboxID']}.localhost", **fields}
    s.sendall(("GET /told HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in f.items()) + "\r\n").encode() + b"ab")
    return s, int(s.recv(65536).split()[1]), {}, b""


@case
def over_tls():
    with tempfile.TemporaryDirectory(prefix="brigd-tls-") as d:
        cert, key = os.path.join(d, "cert.pem"), os.path.join(d, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                        "/CN=localhost", "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
        t = apilib.Daemon(more=f"tls: {{cert: {cert}, key: {key}}}\n")
        t.spawn.calls["/port/8000/chat"] = echo
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False
        t.conn = lambda: http.client.HTTPSConnection("127.0.0.1", t.port, timeout=20, context=context)
        box = t.create()
        with context.wrap_socket(socket.create_connection(("127.0.0.1", t.port), timeout=30)) as s:
            s.sendall((f"GET /chat HTTP/1.1\r\nHost: 8000-{box['sandboxID']}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").encode())
            got = b""
            while b"\r\n\r\n" not in got:
                got += some(s, got)
            got = got.split(b"\r\n\r\n", 1)[1]
            data = os.urandom(1 << 20)
            for i in range(0, len(data), 65536):  # no more than the buffers hold on its way
                s.sendall(data[i:i + 65536])
                while len(got) < i + 65536:
                    got += some(s, got)
            eq(got == data, True)
            s.sendall(b"bye")
            eq(to_end(s), b"bye")
        t.close()


@case
def many_and_brigds_end():
    """A hundred at once; and brigd stops although some are open (main looks at how it ends)."""
    some = [opened("/chat")[0] for _ in range(100)]
    for i, s in enumerate(some):
        s.sendall(b"%d" % i)
    for i, s in enumerate(some):
        eq(s.recv(10), b"%d" % i)
    for s in some[:90]:
        s.close()
    until(lambda: sum(c.conn.fileno() >= 0 for c in seen) <= 10, 20, "the others are gone")
    many_and_brigds_end.open = some[90:]


if __name__ == "__main__":
    sys.exit(apilib.main(D))
