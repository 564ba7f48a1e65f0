#!/usr/bin/python3
"""/port of a keeper: HTTP to a program inside, honest or not."""
import hashlib
import json
import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok  # noqa: E402
from callclient import Cut, Keeper  # noqa: E402

HONEST = r'''
import hashlib, http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do(self):
        n, body = self.headers.get("content-length"), b""
        if n is not None:
            body = self.rfile.read(int(n))
        elif self.headers.get("transfer-encoding") == "chunked":
            while (size := int(self.rfile.readline(), 16)):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if self.path == "/big":
            out = b"x" * 5000000
        else:
            out = repr((self.command, self.path, self.headers["host"], self.headers["x-a"], self.headers["upgrade"], n, hashlib.sha256(body).hexdigest())).encode()
        self.send_response(201)
        self.send_header("X-Back", "yes")
        if self.path == "/chunks":
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for i in range(0, len(out), 7):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(out[i:i + 7]), out[i:i + 7]))
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/close":
            self.end_headers()
            self.wfile.write(out)
            self.close_connection = True
        else:
            self.send_header("content-length", str(len(out)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(out)
    do_GET = do_POST = do_HEAD = do_DELETE = do
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H)
print("up", flush=True)
server.serve_forever()
'''
RAW = r'''
import socket
s = socket.create_server(("127.0.0.1", 8001)); print("up", flush=True)
for answer in ANSWERS:
    c = s.accept()[0]; c.recv(65536); c.sendall(answer.replace(b"MANY", b"HTTP/1.1 102 P\r\n\r\n" * 4000)); c.shutdown(1)
    while c.recv(65536): pass
    c.close()
'''


def serve(k, script):
    c = k.stream("process.Process/Start", {"process": {"cmd": "/usr/bin/python3", "args": ["-c", script]}, "stdin": False})
    c.message()
    ok("data" in c.message()[1]["event"], "it is up")
    return c


@case
def honest(m):
    with Keeper(m) as k:
        serve(k, HONEST)
        none = hashlib.sha256(b"").hexdigest()
        status, f, out = k.ask("GET", "/port/8000/a?b=%20c", fields={"x-a": "1", "upgrade": "websocket", "connection": "upgrade"})
        eq((status, f.get("x-back"), eval(out) if status == 201 else out), (201, "yes", ("GET", "/a?b=%20c", "localhost:8000", "1", "websocket", None, none)), "a switch that is asked for may be declined")
        eq(eval(k.ask("GET", "/port/8000")[2])[1], "/")
        eq(eval(k.ask("GET", "/port/8000?q")[2])[1], "/?q")
        for path in ("/chunks", "/close", "/plain"):
            eq(eval(k.ask("DELETE", "/port/8000" + path)[2])[0:2], ("DELETE", path))
        status, f, out = k.ask("HEAD", "/port/8000/x")
        eq((status, out, int(f["content-length"]) > 0), (201, b"", True))
        data = os.urandom(1 << 20)
        for fields in ({}, {"content-length": str(len(data))}):
            out = eval(k.ask("POST", "/port/8000/p", data, fields)[2])
            eq((out[5], out[6]), (fields.get("content-length"), hashlib.sha256(data).hexdigest()))
        eq(k.ask("POST", "/port/8000/p", b"12345", {"content-length": "3"})[0], 502)
        eq(k.ask("POST", "/port/8000/p", b"1", {"content-length": "-3"})[0], 400)
        eq(len(k.ask("GET", "/port/8000/big")[2]), 5000000)
        with k.call("GET", "/port/8000/big") as c:  # a client that goes
            c.end().reply()
        eq(k.ask("GET", "/port/8000/")[0], 201)


@case
def closed(m):
    with Keeper(m) as k:
        status, f, out = k.ask("GET", "/port/9/")
        o = json.loads(out)
        eq((status, o["message"], o["port"], o["code"]), (502, "The sandbox is running but port is not open", 9, 502))
        for bad in ("0", "65536", "x", "", "99999999", "80x"):
            eq(k.ask("GET", f"/port/{bad}")[0], 400, bad)


@case
def hostile(m):
    head = b"HTTP/1.1 200 OK\r\n"
    whole = [(head + b"Content-Length: 2\r\n\r\nok", b"ok"), (b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\nend", b"end"),
             (b"MANY" + head + b"\r\nend", b"end"),
             (head + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nT: v\r\n\r\n", b"ok"),
             (head + b"Content-Length: 2\r\n\r\nokMORE", b"ok"), (b"HTTP/1.1 204 No\r\n\r\n", b"")]
    refused = [b"", b"nonsense\r\n\r\n", head, b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
               head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", head + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
               head + b"Bad Name: x\r\n\r\n", head + b"A: " + b"x" * 70000 + b"\r\n\r\n"]
    cut = [head + b"Content-Length: 9\r\n\r\nshort", head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"]
    with Keeper(m) as k:
        serve(k, f"ANSWERS = {[a for a, _ in whole] + refused + cut!r}" + RAW)
        for answer, want in whole:
            status, _, out = k.ask("GET", "/port/8001/")
            eq((status // 100, out), (2, want), answer)
        for answer in refused:
            eq(k.ask("GET", "/port/8001/")[0], 502, answer[:80])
        for answer in cut:
            try:
                ok(False, f"{answer}: {k.ask('GET', '/port/8001/')}")
            except Cut:
                pass


SWITCH = r"""
import socket
s = socket.create_server(("127.0.0.1", 8002)); print("up", flush=True)
while True:
    c = s.accept()[0]; f = c.makefile("rb")
    head = b""
    try:
        while not head.endswith(b"\r\n\r\n"): head += f.readline()
        assert b"\r\nconnection: upgrade\r\nupgrade: echo/1\r\n" in head, head
        c.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: ECHO/1\r\nX-Key: k\r\n\r\nfirst ")
        while d := f.read1(65536):
            c.sendall(d)
            if d.endswith(b"bye"): break
        c.sendall(b" end"); c.shutdown(2)
    except OSError: pass  # the client went
    f.close(); c.close()
"""


@case
def switches(m):
    ask = {"connection": "upgrade", "upgrade": "echo/1"}
    with Keeper(m) as k:
        serve(k, SWITCH)
        with k.call("GET", "/port/8002/x", ask) as c:
            c.reply()
            eq((c.status, c.fields["upgrade"], c.fields["x-key"]), (101, "ECHO/1", "k"))
            got = b""
            for i in range(20):
                c.body(b"%d;" % i)
                while not got.endswith(b"%d;" % i):
                    got += c.some()
            data = os.urandom(3 << 20)
            w = threading.Thread(target=lambda: c.body(data).end())
            w.start()
            rest = c.read()
            w.join()
            eq(got, b"first " + b"".join(b"%d;" % i for i in range(20)))
            eq((len(rest), rest[:-4] == data, rest[-4:]), (len(data) + 4, True, b" end"), "the client's end is the program's")
        with k.call("GET", "/port/8002/x", ask) as c:
            c.reply().body(b"bye")
            eq(c.read(), b"first bye end", "the program's end is the client's")
        with k.call("GET", "/port/8002/x", ask) as c:
            c.reply()  # and goes
        with k.call("GET", "/port/8002/x", ask) as c:  # the body before the answer
            c.body(b"early").end().reply()
            eq(c.read(), b"first early end")
        eq(k.ask("GET", "/port/8002/x", fields={**ask, "content-length": "3"})[0], 502)
        other = b"HTTP/1.1 101 S\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n"
        serve(k, f"ANSWERS = {[other]!r}" + RAW)
        eq(k.ask("GET", "/port/8001/", fields=ask)[0], 502, "another protocol than was asked for")


sys.exit(main(after_each=nothing_left))
