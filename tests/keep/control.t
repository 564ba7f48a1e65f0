#!/usr/bin/python3
"""brigd's own calls to a keeper, its pieces and heads, and the sandbox's end."""
import json
import os
import signal
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import case, eq, main, nothing_left, ok  # noqa: E402
from callclient import BODY, END, REQUEST, RESPONSE, Cut, Keeper, head, piece  # noqa: E402


@case
def stat_and_health(m):
    with Keeper(m) as k:
        status, stat = k.control("stat")
        eq((status, stat["state"], stat["claimed"]), (200, "running", False))
        ok(stat["disk_total"] > 0 and stat["cpu_count"] > 0 and stat["mem_total"] > 0, stat)
        metrics = json.loads(k.ask("GET", "/envd/metrics")[2])
        eq(sorted(metrics), sorted("ts cpu_count cpu_used_pct mem_total mem_used mem_cache mem_total_mib mem_used_mib disk_used disk_total".split()))
        eq(k.ask("GET", "/envd/health")[1]["access-control-allow-origin"], "*")
        status, f, _ = k.ask("OPTIONS", "/envd/files", fields={"access-control-request-headers": "x-access-token"})
        eq((status, f["access-control-allow-headers"]), (204, "x-access-token"))
        eq(k.ask("GET", "/envd/health")[0], 204)
        eq(k.ask("POST", "/envd/health")[0], 405)
        eq(k.ask("GET", "/envd/init")[0], 404)
        eq(k.ask("GET", "/")[0], 404)


@case
def claimed_once(m):
    with Keeper(m) as k:
        eq(k.control("claim", {"envVars": {"A": 1}})[0], 400, "values are strings")
        eq(k.control("claim", {"envVars": {"A=B": "1"}})[0], 400, "names have no =")
        eq(k.control("claim", {"envVars": {"A": "1"}, "templateID": "x", "metadata": {}})[0], 204)
        eq(k.control("claim", {})[0], 409)
        eq(json.loads(k.ask("GET", "/envd/envs")[2]), {"A": "1"})


@case
def deadline(m):
    with Keeper(m) as k:
        for bad in ({}, {"timeout_ms": -1}, {"timeout_ms": "1"}, {"timeout_ms": 1 << 62}):
            eq(k.control("timeout", bad)[0], 400, bad)
        eq(k.control("claim", {"timeout_ms": 3600000})[0], 204)
        ok(k.control("stat")[1]["deadline_ms"] > 0, "told")
        eq(k.control("timeout", {"timeout_ms": 300})[0], 204)
        eq(k.how()["how"], "timeout")


@case
def paused(m):
    with Keeper(m) as k:
        status = k.control("pause")[0]
        if status == 501:
            eq(k.control("stat")[1]["state"], "running")
            return
        eq(status, 204)
        eq((k.control("pause")[0], k.control("stat")[1]["state"]), (409, "paused"))
        eq((k.ask("GET", "/envd/health")[0], k.rpc("process.Process/List", {})[0]), (502, 502))
        eq((k.control("resume")[0], k.control("resume")[0]), (204, 409))
        eq(k.ask("GET", "/envd/health")[0], 204)


@case
def wait_tells_the_end(m):
    with Keeper(m) as k:
        with k.call("GET", "/control/wait") as c, k.call("POST", "/control/claim") as other:
            c.end()
            k.control("stat")  # the wait was taken in
            k.p.send_signal(signal.SIGTERM)
            c.reply()
            eq((c.status, c.fields["content-type"]), (200, "application/json"))
            said = c.read()
            try:
                other.reply()
                ok(False, "the other call was answered")
            except Cut:
                pass
        eq(k.how()["how"], "killed")
        with open(k.end_path, "rb") as f:
            eq(f.read(), said + b"\n")


@case
def life_span(m):
    with Keeper(m, timeout_ms=300) as k:
        eq(k.how()["how"], "timeout")


@case
def broken_pieces(m):
    bad = [b"\xff" * 64, piece(BODY, b"x"), piece(END), piece(RESPONSE, head("200")), piece(REQUEST, head("GET")),
           piece(REQUEST, head("get", "/")), piece(REQUEST, b"GET\0/control/stat"), b"\x01\0\0\0\xff\xff\xff\xff",
           piece(REQUEST, head("GET", "/x", "Name", "v"))]
    with Keeper(m) as k:
        for data in bad:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(10)
                s.connect(k.path)
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                got = b""
                try:
                    while d := s.recv(65536):
                        got += d
                except ConnectionResetError:
                    pass
                ok(b"200" not in got[:16], f"{data[:40]!r} got {got[:80]!r}")
        eq(k.control("stat")[0], 200)


sys.exit(main(after_each=nothing_left))
