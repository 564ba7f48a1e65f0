"""The server that tests of inspected HTTP talk to: TLS with a certificate per name, and the clear. Every connection and every head it
reads goes as one JSON line to a file; what a path does is below. Run: httpserver.py FOLDER ADDRESS, with NAME.pem for each name there."""
import base64
import hashlib
import json
import os
import socket
import ssl
import sys
import threading

TOP, ADDR = sys.argv[1:]
LOG = open(os.path.join(TOP, "seen"), "a", encoding="ascii", buffering=1)


def head_of(f):
    lines = []
    while True:
        line = f.readline()
        if not line:
            return None
        if line == b"\r\n":
            return lines
        lines.append(line.rstrip(b"\r\n").decode("latin1"))


def body_of(f, fields):
    if "content-length" in fields:
        return f.read(int(fields["content-length"]))
    out = b""
    while fields.get("transfer-encoding") == "chunked":
        n = int(f.readline(), 16)
        out += f.read(n)
        f.readline()
        if n == 0:
            break
    return out


def plain(body, *more, status="200 OK"):
    return (f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n" + "".join(x + "\r\n" for x in more) + "\r\n").encode("latin1") + body


def chunks(body, n):
    return b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + n]), body[i:i + n]) for i in range(0, len(body), n)) + b"0\r\nX-Trailer: t\r\n\r\n"


def answer(c, f, path, lines, fields):
    """Bytes to send and whether to go on; c for what is sent by hand."""
    auth = fields.get("authorization", "none")
    what, _, arg = path.partition("?")
    if what.startswith("/repo.git/"):
        full = os.path.join(TOP, what[1:])
        if not os.path.isfile(full):
            return plain(b"", status="404 Not Found")
        with open(full, "rb") as x:
            return plain(x.read())
    if what == "/echo":  # in pieces of one byte
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Auth: " + auth.encode() + b"\r\n\r\n")
        return chunks(("\n".join(lines) + "\n" + base64.b64encode(("x" + auth).encode()).decode()).encode(), 1)
    if what == "/echo-plain":
        return plain(auth.encode())
    if what == "/big":
        n = int(arg)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        block = b"x" * 65536
        while n > 0:
            c.sendall(block[:n])
            n -= len(block)
        return b""
    if what == "/post":
        if fields.get("expect") == "100-continue":
            c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = body_of(f, fields)
        return plain(f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode())
    if what == "/redirect":
        return plain(b"", f"Location: https://{arg}/echo-plain", status="302 Found")
    if what == "/until-close":
        return b"HTTP/1.1 200 OK\r\n\r\nto the end"
    if what == "/cut":
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    if what == "/two-framings":
        return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    if what == "/gzip":
        return plain(b"xx", "Content-Encoding: gzip")
    if what == "/ws":
        key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        c.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                   + base64.b64encode(hashlib.sha1(key.encode()).digest()).decode() + "\r\n\r\n").encode())
        while True:
            d = c.recv(65536)
            if not d:
                return None
            c.sendall(d.upper())
    return plain(b"page " + path.encode("latin1") + b"\n")


CLOSES = ("/until-close", "/cut", "/two-framings")


def one(c, tls):
    c.settimeout(60)
    sni = [""]
    try:
        if tls is not None:
            c = tls.wrap_socket(c, server_side=True)
            sni = [getattr(c, "asked", "")]
        f = c.makefile("rb")
        while True:
            lines = head_of(f)
            if not lines:
                break
            fields = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:])}
            print(json.dumps({"tls": tls is not None, "sni": sni[0], "head": lines}), file=LOG)
            path = lines[0].split(" ")[1]
            out = answer(c, f, path, lines, fields)
            if out is None:
                break
            c.sendall(out)
            if path.partition("?")[0] in CLOSES:
                break
        if tls is not None:
            c.unwrap()
    except (OSError, ValueError):
        pass
    finally:
        c.close()


def contexts():
    made = {}
    for name in os.listdir(TOP):
        if name.endswith(".test.pem"):
            made[name[:-4]] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            made[name[:-4]].load_cert_chain(os.path.join(TOP, name))
    first = made["web.allowed.test"]

    def pick(sock, name, _):
        sock.asked = name
        sock.context = made.get(name, first)
    first.sni_callback = pick
    return first


def serve(port, tls):
    s = socket.create_server((ADDR, port), backlog=128)

    def loop():
        while True:
            c = s.accept()[0]
            print(json.dumps({"conn": port}), file=LOG)
            threading.Thread(target=one, args=(c, tls), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


serve(443, contexts())
serve(80, None)
print("ready", flush=True)
threading.Event().wait()
