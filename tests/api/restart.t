#!/usr/bin/env python3
"""brigd dies and comes back, and so does brig-spawn: no sandbox is lost, doubled or left over. Also the pool, and the keys."""
import os
import random
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import apilib
from apilib import case, eq, ok, until

KILLS = int(os.environ.get("BRIG_KILLS", "6"))
SEED = int(os.environ.get("BRIG_SEED", random.randrange(1 << 30)))
D = apilib.Daemon()


def rows(table, what="id"):
    with sqlite3.connect(f"file:{D.state}/brigd.db?mode=ro", uri=True) as db:
        return db.execute(f"SELECT {what} FROM {table} ORDER BY 1").fetchall()


def running():
    return sorted(x["sandboxID"] for x in D.ask("GET", "/sandboxes")[2])


def steady():
    """What brigd lists is what lives, and each of them once."""
    until(lambda: sorted(D.spawn.keepers) == running(), 10, "brigd's list is brig-spawn's")
    eq([r[0] for r in rows("live")], running(), "rows")


@case
def running_ones_are_found_again():
    boxes = [D.create(metadata={"n": str(i)}) for i in range(5)]
    paused = D.create()
    D.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {})
    D.kill9()
    D.start()
    for b in boxes:
        d = D.ask("GET", f"/sandboxes/{b['sandboxID']}")[2]
        eq((d["state"], d["envdAccessToken"]), ("running", b["envdAccessToken"]), "the same token")
        eq(D.box_ask(b, "GET", "/x")[0], 200)
    eq(D.ask("GET", f"/sandboxes/{paused['sandboxID']}")[2]["state"], "paused")
    eq(D.box_ask(paused, "GET", "/health")[0], 502)
    eq(D.ask("DELETE", f"/sandboxes/{paused['sandboxID']}")[0], 204)
    steady()


@case
def ends_meanwhile_are_recorded_once():
    timeout, silent, gone = (D.create()["sandboxID"] for _ in range(3))
    D.kill9()
    D.spawn.end(timeout, "timeout")
    D.spawn.end(silent, None)
    D.spawn.end(gone, "exit")
    D.spawn.ends.pop(gone)  # nobody knows any more
    D.start()
    until(lambda: not D.spawn.ends, 10, "ends are read and forgotten")
    until(lambda: not {timeout, silent, gone} & {r[0] for r in rows("live")}, 10, "rows")
    got = dict(rows("ended", "id, how"))
    eq((got[timeout], got[silent], got[gone]), ("timeout", "lost", "lost"))
    for sid in (timeout, silent, gone):
        eq(D.ask("GET", f"/sandboxes/{sid}")[0], 404)
    steady()


@case
def a_create_that_was_cut_leaves_nothing():
    D.spawn.hold.add(apilib.START)
    starts = lambda: [a["id"] for a in D.spawn.asked if a["op"] == apilib.START]
    before = len(starts())
    t = threading.Thread(target=lambda: quiet(lambda: D.ask("POST", "/v2/sandboxes", {"templateID": "base"})))
    t.start()
    until(lambda: [r for r in rows("live", "state") if r[0] == "starting"], 10, "its row")
    until(lambda: len(starts()) > before, 10, "it is asked for")
    D.spawn.hold.clear()
    started = starts()[-1]
    D.kill9()
    t.join()
    k = apilib.Keeper(D.spawn, started)  # it had started all the same
    k.template, k.tenant, k.egress, k.text = "base", "acme", 0, ""
    D.spawn.keepers[started] = k
    D.start()
    until(lambda: started not in D.spawn.keepers, 10, "nobody has its id: it is ended")
    steady()


@case
def one_that_still_starts_is_nobodys_either():
    D.kill9()
    D.spawn.starting.add("i" + "s" * 20)
    D.start()
    until(lambda: not D.spawn.starting, 10, "who asked for it is gone: it is ended")
    steady()


def quiet(fn):
    try:
        return fn()
    except (OSError, ValueError, apilib.http.client.HTTPException, AssertionError):
        return None


@case
def streams_do_not_hold_up_its_end():
    """The first SIGTERM waits for them, ten seconds; a second one does not."""
    b, hold = D.create(), threading.Event()

    def idle(_, call):
        call.conn.sendall(apilib.head(200) + apilib.piece(apilib.BODY, b"x"))
        hold.wait(30)
    D.spawn.calls["/envd/idle"] = idle
    s = socket.create_connection(("127.0.0.1", D.port), timeout=20)
    s.sendall(f"GET /idle HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {b['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
              f"X-Access-Token: {b['envdAccessToken']}\r\n\r\n".encode())
    ok(s.recv(65536).startswith(b"HTTP/1.1 200"), "begun")
    D.p.terminate()
    until(lambda: refused(D.port), 10, "it takes no more")
    D.p.terminate()
    eq((D.p.wait(20), D.p.stderr.read()), (0, b""), "its end")
    while s.recv(65536):
        pass
    s.close()
    hold.set()
    D.spawn.asked.clear()
    D.start()
    steady()


def refused(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


@case
def killed_at_random_moments_under_load():
    print(f"# BRIG_SEED={SEED} BRIG_KILLS={KILLS}")
    rnd, stop = random.Random(SEED), threading.Event()

    def load(seed):
        r = random.Random(seed)
        while not stop.is_set():
            b = quiet(lambda: D.create(timeout=60))
            if b and r.random() < 0.7:
                quiet(lambda: D.box_ask(b, "GET", "/x"))
                quiet(lambda: D.ask("DELETE", f"/sandboxes/{b['sandboxID']}"))
    ts = [threading.Thread(target=load, args=(SEED + i,)) for i in range(4)]
    for t in ts:
        t.start()
    for _ in range(KILLS):
        n = len(D.spawn.asked) + rnd.randrange(1, 25)
        until(lambda n=n: len(D.spawn.asked) >= n, 20, "load")
        D.kill9()
        D.start()
    stop.set()
    for t in ts:
        t.join()
    steady()
    live, ended = {r[0] for r in rows("live")}, [r[0] for r in rows("ended")]
    eq((live & set(ended), len(ended)), (set(), len(set(ended))), "no record twice")
    eq(rows("live", "state"), [("running",)] * len(live), "states")


@case
def brig_spawn_comes_and_goes():
    b, lost = D.create(), D.create()
    D.spawn.down()
    until(lambda: D.ask("POST", "/v2/sandboxes", {"templateID": "base"})[0] == 503, 10, "no start without it")
    eq(D.box_ask(b, "GET", "/x")[0], 200, "sandboxes are served all the same")
    eq(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], 503)
    D.spawn.end(lost["sandboxID"], "timeout")
    eq(D.box_ask(lost, "GET", "/x")[0], 502)
    D.spawn.up()
    until(lambda: D.ask("POST", "/v2/sandboxes", {"templateID": "base"})[0] == 201, 10, "it is found again")
    until(lambda: D.ask("GET", f"/sandboxes/{lost['sandboxID']}")[0] == 404, 10, "what ended meanwhile is known")
    eq(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], 204)
    steady()


@case
def sandboxes_that_end_by_themselves():
    for how in ("timeout", "exit", "lost"):
        sid = D.create()["sandboxID"]
        D.spawn.end(sid, how)
        until(lambda sid=sid: D.ask("GET", f"/sandboxes/{sid}")[0] == 404, 20, how)
        eq(dict(rows("ended", "id, how"))[sid], how)


@case
def keys_are_listed_and_removed_while_it_runs():
    key = D.make_key("--tenant", "gone", "--name", "ci")
    eq(D.ask("GET", "/sandboxes", key=key)[0], 200)
    words = [apilib.BRIGD, "--config", D.config, "key"]
    out = subprocess.run([*words, "list"], capture_output=True, text=True, check=True).stdout
    kid = re.search(r"^(\w+)  gone +ci +read,write  never", out, re.M).group(1)
    ok(key not in out and key[20:] not in out, "the key itself is not shown")
    with open(f"{D.state}/brigd.db", "rb") as f:
        ok(key[20:].encode() not in f.read(), "nor stored")
    subprocess.run([*words, "remove", kid], check=True)
    eq(D.ask("GET", "/sandboxes", key=key)[0], 401)
    eq(subprocess.run([*words, "remove", kid], capture_output=True, check=False).returncode, 1)
    for bad in (["create", "--tenant", "a/b"], ["create", "--scopes", "all"], ["create", "--expires", "x"], ["nothing"], []):
        eq(subprocess.run([*words, *bad], capture_output=True, check=False).returncode, 1, bad)


@case
def files_are_its_own():
    for name in ("secret", "brigd.db"):
        eq(os.stat(f"{D.state}/{name}").st_mode & 0o777, 0o600, name)
    eq(os.stat(D.state).st_mode & 0o777, 0o700)


@case
def the_pool_is_claimed_and_filled():
    p = apilib.Daemon(pool=4)
    try:
        until(lambda: len(p.spawn.keepers) >= 2, 10, "half of it at first")
        eq(p.ask("GET", "/v2/sandboxes", key=p.key)[2], [], "nobody's")
        first = set(p.spawn.keepers)
        b = p.create(envVars={"A": "1"}, timeout=30)
        ok(b["sandboxID"] in first, "one that was ready")
        k = p.spawn.keepers[b["sandboxID"]]
        eq((k.tenant, k.claim["envVars"], k.claim["timeout_ms"]), ("pool", {"A": "1"}, 30000))
        ok(p.create(allow_internet_access=False)["sandboxID"] not in first, "other rules: not of the pool")
        until(lambda: len(p.spawn.keepers) >= 6, 10, "demand makes it larger")
        pooled = set(p.spawn.keepers) - {x["sandboxID"] for x in p.ask("GET", "/v2/sandboxes")[2]}
        p.kill9()
        p.start()
        until(lambda: not pooled & set(p.spawn.keepers), 10, "those of an earlier brigd are ended")
        until(lambda: len(p.spawn.keepers) >= 4, 10, "and new ones started")
    finally:
        p.close()
    eq(len(p.spawn.keepers), 2, "a graceful end leaves those in use")


def ready_of(p, key):
    return int(re.search(rb"^brig_sandboxes_ready (\d+)$", p.ask("GET", "/metrics", key=key)[2], re.M).group(1))


@case
def who_cannot_say_it_is_ready_is_not():
    p, asked = apilib.Daemon(pool=2), []

    def failing(k, call):
        asked.append(k.id)
        call.body()
        call.json(500, {})

    try:
        key = p.make_key("--scopes", "metrics")
        until(lambda: ready_of(p, key) == 1, 10, "half of it at first")
        p.spawn.calls["/control/ready"] = failing
        p.create()
        until(lambda: len(asked) == 2, 20, "two are started")
        eq(ready_of(p, key), 0, "none is ready")
        eq(p.create()["sandboxID"] in asked, True, "but they can be had")
    finally:
        p.close()


@case
def who_is_ready_is_taken_first():
    """/control/ready of two that wait: one answers when it is told to, one never does."""
    p = apilib.Daemon(pool=4)
    go, asked = threading.Event(), []

    def not_yet(k, call):
        asked.append(k.id)
        call.body()
        if len(asked) == 1:
            go.wait(30)
            call.answer(204)
        else:
            call.conn.recv(1)  # until brigd goes away

    ready = lambda: ready_of(p, key)
    try:
        key = p.make_key("--scopes", "metrics")
        until(lambda: ready() == 2, 10, "half of it at first")
        p.spawn.calls["/control/ready"] = not_yet
        taken = [p.create()["sandboxID"] for _ in range(2)]
        until(lambda: asked, 20, "one more is started")
        eq(ready(), 0, "it does not count before its answer")
        ok(len(asked) == 1, "and nothing more is started on two processors" if os.cpu_count() <= 3 else "")
        go.set()
        until(lambda: ready() == 1 and len(asked) > 1, 20, "it is ready, and the next is asked")
        eq(p.create()["sandboxID"], asked[0], "the one that is ready")
        eq(p.create()["sandboxID"], asked[1], "then the one that is not: it is further than a new one")
        ok(not set(taken) & set(asked), "all of them others")
    finally:
        go.set()
        p.close()


@case
def a_claimed_one_that_never_is_ready_holds_nobody_back():
    """Its call hangs on; the pool is filled all the same."""
    p, hung = apilib.Daemon(pool=2), []

    def hang(k, call):
        hung.append(k.id)
        call.body()
        call.conn.recv(1)  # until brigd goes away

    try:
        p.spawn.calls["/control/ready"] = hang
        p.create()
        for n in range(1, 4):
            until(lambda n=n: len(hung) >= n, 20, f"number {n} is started")
            eq(p.create()["sandboxID"], hung[-1])
    finally:
        p.close()


@case
def figures_of_one_from_the_pool_begin_with_its_claim():
    p = apilib.Daemon(pool=2)
    try:
        key = p.make_key("--scopes", "metrics")
        until(lambda: ready_of(p, key) == 1, 10, "one waits")
        now = int(time.time() * 1000)
        # it used five seconds of processor time while it waited, and half of one since
        p.spawn.samples = [[now - 20000, 1000, 10, 1, 3], [now - 10000, 5000000, 11, 1, 3], [now + 10000, 5500000, 12, 1, 3]]
        b = p.create()["sandboxID"]
        for again in (False, True):
            if again:
                p.kill9()
                p.start()
            got = p.ask("GET", f"/sandboxes/{b}/metrics")[2]
            eq([(x["timestampUnix"], x["memUsed"], round(x["cpuUsedPct"], 3)) for x in got], [((now + 10000) // 1000, 12, 2.5)])
        eq(p.ask("GET", f"/sandboxes/metrics?sandbox_ids={b}")[2]["sandboxes"][b]["cpuUsedPct"], 0)
    finally:
        p.close()


@case
def no_more_than_permitted():
    p = apilib.Daemon(more="max_sandboxes: 3\n", pool=2)
    try:
        for _ in range(3):
            p.create()
        s, _, b = p.ask("POST", "/v2/sandboxes", {"templateID": "base"})
        eq((s, b["code"]), (503, 503))
    finally:
        p.close()


@case
def a_tenant_has_no_more_than_it_may():
    """Counted from what lives, also after brigd died, and with those that came from the pool."""
    p = apilib.Daemon(more="tenants: {acme: {max_sandboxes: 2}, '*': {max_memory: 1536M}}\n", pool=2)
    try:
        key = p.make_key("--scopes", "metrics")
        ask = lambda key=p.key: p.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key=key)
        until(lambda: ready_of(p, key) == 1, 10, "one waits")
        mine = [p.create()["sandboxID"] for _ in range(2)]
        for again in (False, True):
            if again:
                p.kill9()
                p.start()
            s, f, b = ask()
            eq((s, b, f["retry-after"]), (429, {"code": 429, "message": "tenant 'acme' has 2 sandboxes alive, as many as it may (max_sandboxes)"}, "1"))
        theirs = []
        while (got := ask(p.other))[0] == 201:
            theirs.append(got[2]["sandboxID"])
        each = p.ask("GET", f"/sandboxes/{theirs[0]}", key=p.other)[2]["memoryMB"]
        eq((got[0], len(theirs), got[2]["message"]), (429, 1536 // each,
           "tenant 'rival' would have sandboxes with more memory than the 1536 MiB it may (max_memory)"))
        with open(f"{p.dir}/wide", "w", encoding="utf-8") as f:
            f.write("version: 1\nmemory: 0\n")
        with open(p.config, "a", encoding="utf-8") as f:
            f.write(f"  wide:\n    profile: {p.dir}/wide\n")
        p.kill9()
        p.start()
        s, _, b = p.ask("POST", "/v2/sandboxes", {"templateID": "wide"}, key=p.other)
        eq((s, b["message"]), (429, "template 'wide' has no memory limit, and tenant 'rival' has one (max_memory)"))
        p.ask("DELETE", f"/sandboxes/{mine[0]}")
        p.ask("POST", f"/sandboxes/{mine[1]}/pause", {})
        eq([ask()[0], ask()[0]], [201, 429], "an end makes room, a pause does not")
    finally:
        p.close()


@case
def configurations_are_checked():
    run = lambda *w: subprocess.run([apilib.BRIGD, *w], capture_output=True, text=True, check=False)
    eq(run("--config", D.config, "--check-config").returncode, 0)
    bad = D.config + ".bad"
    with open(D.config, encoding="utf-8") as f, open(bad, "w", encoding="utf-8") as g:
        g.write(f.read() + "nonsense: 1\n")
    r = run("--config", bad, "--check-config")
    ok(r.returncode == 1 and "nonsense" in r.stderr, r)
    eq(run("--config", "/nonexistent", "--check-config").returncode, 1)
    for words in (["--port", "x"], ["--nothing"], ["--port", "70000"], ["--dev", "--pool", "257"], ["--pool", "-1"]):
        eq(run(*words).returncode, 2, words)
    eq(run("nonsense").returncode, 1)
    ok("usage" in run("--help").stdout and run("--version").stdout.startswith("brigd "), "help")


if __name__ == "__main__":
    sys.exit(apilib.main(D))
