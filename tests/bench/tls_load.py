"""Both ends of the benchmark's HTTP: one answer as long as somebody reads it, or short ones on one connection.

  tls_load.py serve ADDR TLS-PORT PORT PEM
  tls_load.py down HOST PORT SECONDS     bytes a second; TLS when PORT ends in 443
  tls_load.py request HOST PORT N        microseconds from a request to its answer, N times on one connection"""
import socket
import ssl
import sys
import threading
import time

ENDLESS, WARM_S = 1 << 40, 0.3


def answer(c):
    block, f = bytes(256 << 10), c.makefile("rb")
    while True:
        line = f.readline()
        if not line:
            return
        while f.readline() not in (b"\r\n", b""):
            pass
        if line.startswith(b"GET /short "):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            continue
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ENDLESS)
        while True:
            c.sendall(block)


def serve_one(c, ctx):
    try:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer(ctx.wrap_socket(c, server_side=True) if ctx else c)
    except OSError:
        pass  # the client has had enough
    finally:
        c.close()


def listen(addr, port, ctx):
    s = socket.create_server((addr, int(port)), backlog=64)

    def loop():
        while True:
            threading.Thread(target=serve_one, args=(s.accept()[0], ctx), daemon=True).start()
    return threading.Thread(target=loop)


def serve(addr, tls_port, port, pem):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(pem)
    for t in [listen(addr, tls_port, ctx), listen(addr, port, None)]:
        t.start()
    print("ready", flush=True)


def connect(host, port):
    s = socket.create_connection((host, int(port)), 30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not port.endswith("443"):
        return s
    ctx = ssl.create_default_context()
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE  # who it is, is not what is measured
    return ctx.wrap_socket(s, server_hostname=host)


def down(host, port, seconds):
    s, room = connect(host, port), bytearray(256 << 10)
    s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    begun, n = time.monotonic(), 0
    while time.monotonic() < begun + min(WARM_S, seconds):
        s.recv_into(room)
    begun = now = time.monotonic()
    while now < begun + seconds:
        got = s.recv_into(room)
        if got == 0:
            sys.exit("the answer ended")
        n, now = n + got, time.monotonic()
    print(n / (now - begun))


def request(host, port, times):
    s, ask, took = connect(host, port), f"GET /short HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), []
    for _ in range(times + 1):
        begun, got = time.perf_counter(), b""
        s.sendall(ask)
        while not got.endswith(b"\r\n\r\nok"):
            more = s.recv(65536)
            if not more:
                sys.exit(f"cut off: {got!r}")
            got += more
        took.append((time.perf_counter() - begun) * 1e6)
    print(*took[1:])  # the first has the way to the server in it


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    elif sys.argv[1] == "down":
        down(*sys.argv[2:4], float(sys.argv[4]))
    else:
        request(*sys.argv[2:4], int(sys.argv[4]))
