#!/usr/bin/python3
"""Network under deny-all: loopback only, everything else fails fast (fail-fast parts of C24, C25)."""
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402

TRY = """
import socket, sys, time
t = time.monotonic()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for fam, addr in {addrs!r}:
        s = socket.socket(getattr(socket, fam), kind); s.settimeout(20)
        try:
            s.connect(addr)
            if kind == socket.SOCK_DGRAM: s.send(b'x')
            print('connected', addr)
        except OSError as e: print(type(e).__name__, e.errno)
print('took', time.monotonic() - t)
"""


@case
def c25_addresses_fail_fast(m):
    addrs = [("AF_INET6", ("2001:4860:4860::8888", 53)), ("AF_INET6", ("fe80::1", 80)), ("AF_INET6", ("fd00:ec2::254", 80)),
             ("AF_INET6", ("::ffff:1.1.1.1", 80)), ("AF_INET6", ("64:ff9b::101:101", 80)), ("AF_INET", ("8.8.8.8", 53)),
             ("AF_INET", ("169.254.169.254", 80)), ("AF_INET", ("10.0.0.1", 80)), ("AF_INET", ("192.168.1.1", 80)),
             ("AF_INET", ("255.255.255.255", 80)), ("AF_INET6", ("ff02::1", 80))]
    r = done(m.py(TRY.format(addrs=addrs)))
    lines = r.out.decode().splitlines()
    ok(not [x for x in lines if x.startswith("connected")], f"{lines}")
    ok(not [x for x in lines if "imeout" in x], f"{lines}")
    ok(float(lines[-1].split()[1]) < 4, lines[-1])


@case
def c24_names_fail_fast(m):
    r = done(m.py("import socket, time\nt = time.monotonic()\n"
                  "for n in ('example.org', 'nbswy3dp.evil.test', 'x' * 60 + '.evil.test'):\n"
                  "  try: print('resolved', socket.getaddrinfo(n, 80))\n"
                  "  except OSError as e: print('no', e.errno)\nprint('took', time.monotonic() - t)"))
    lines = r.out.decode().splitlines()
    ok(all(x.startswith("no") for x in lines[:-1]), f"{lines}")
    ok(float(lines[-1].split()[1]) < 3, lines[-1])


@case
def c24_curl_fails_fast(m):
    if not os.path.exists("/usr/bin/curl"):
        raise Skip("no curl on this host")
    r = m.run("--", "curl", "-sS", "-m", "20", "http://nbswy3dp.evil.test/")
    ok(r.rc in (6, 7) and r.ms < 19000, repr(r))


@case
def a_listener_of_the_host_is_not_reached(m):
    """Positive control: the same address answers outside."""
    s = socket.create_server(("127.0.0.1", 0))
    port = s.getsockname()[1]
    socket.create_connection(("127.0.0.1", port), 5).close()
    s.accept()[0].close()
    hit = []

    def accept():
        try:
            s.accept()
            hit.append(1)
        except OSError:
            pass
    t = threading.Thread(target=accept, daemon=True)
    t.start()
    r = done(m.py(f"import socket\nfor a in ('127.0.0.1', 'localhost'):\n"
                  f"  try: socket.create_connection((a, {port}), 5); print('reached')\n"
                  f"  except OSError as e: print(e.errno)"))
    eq(r.out, b"111\n111\n", "ECONNREFUSED")
    s.close()
    ok(not hit, "the host's listener was reached")


@case
def abstract_sockets_of_the_host_are_not_reached(m):
    s = socket.socket(socket.AF_UNIX)
    name = f"\0brigtest-{os.getpid()}-{m.name}"
    s.bind(name)
    s.listen()
    c = socket.socket(socket.AF_UNIX)
    c.connect(name)
    r = done(m.py(f"import socket\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect({name!r}); print('reached')\n"
                  "except OSError as e: print(e.errno)"))
    eq(r.out, b"111\n", "ECONNREFUSED")


@case
def loopback_works_both_ways(m):
    done(m.py("import socket, threading\n"
              "s = socket.create_server(('127.0.0.1', 0)); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "u.bind(('127.0.0.1', 0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              "v.sendto(b'udp', u.getsockname()); print(u.recv(9))\n"
              "threading.Thread(target=lambda: s.accept()[0].sendall(b'x' * 3000000)).start()\n"
              "c = socket.create_connection(s.getsockname()); n = 0\n"
              "while n < 3000000: n += len(c.recv(65536))\nprint(n)"), out=b"b'udp'\n3000000\n")


@case
def loopback_is_the_sandboxs_own(m):
    """Two sandboxes can bind the same port."""
    prog = "import socket,time\ns = socket.create_server(('127.0.0.1', 8080)); print('bound', flush=True); time.sleep({})"
    import subprocess
    p = m.popen(m.run_argv("--", "/usr/bin/python3", "-c", prog.format(30)), stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"bound\n", "first")
    done(m.py(prog.format(0)), out=b"bound\n")
    p.kill()
    p.wait()


@case
def netlink_can_be_read_but_not_used(m):
    r = m.sh("ip link add d0 type dummy 2>&1; ip addr add 10.9.9.9/8 dev lo 2>&1; ip route add default dev lo 2>&1; "
             "ip -o link | wc -l")
    if b"not found" in r.out:
        raise Skip("no ip command on this host")
    eq(r.out.strip().split(b"\n")[-1], b"1", repr(r))
    ok(r.out.count(b"ermitted") >= 3, repr(r))


sys.exit(main())
