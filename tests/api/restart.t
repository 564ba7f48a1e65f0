#!/usr/bin/env python3
"""brigd dies and comes back, and so does brig-spawn: no sandbox is lost, doubled or left over. Also the pool, and the keys."""
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading

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
    t = threading.Thread(target=lambda: quiet(lambda: D.ask("POST", "/v2/sandboxes", {"templateID": "base"})))
    t.start()
    until(lambda: [r for r in rows("live", "state") if r[0] == "starting"], 10, "its row")
    D.spawn.hold.clear()
    started = [a for a in D.spawn.asked if a["op"] == apilib.START][-1]["id"]
    D.kill9()
    t.join()
    k = apilib.Keeper(D.spawn, started)  # it had started all the same
    k.template, k.tenant, k.egress, k.text = "base", "acme", 0, ""
    D.spawn.keepers[started] = k
    D.start()
    until(lambda: started not in D.spawn.keepers, 10, "nobody has its id: it is ended")
    steady()


def quiet(fn):
    try:
        return fn()
    except (OSError, ValueError, apilib.http.client.HTTPException, AssertionError):
        return None


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
        until(lambda sid=sid: D.ask("GET", f"/sandboxes/{sid}")[0] == 404, 5, how)
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
def configurations_are_checked():
    run = lambda *w: subprocess.run([apilib.BRIGD, *w], capture_output=True, text=True, check=False)
    eq(run("--config", D.config, "--check-config").returncode, 0)
    bad = D.config + ".bad"
    with open(D.config, encoding="utf-8") as f, open(bad, "w", encoding="utf-8") as g:
        g.write(f.read() + "nonsense: 1\n")
    r = run("--config", bad, "--check-config")
    ok(r.returncode == 1 and "nonsense" in r.stderr, r)
    eq(run("--config", "/nonexistent", "--check-config").returncode, 1)
    for words in (["--port", "x"], ["--nothing"], ["--port", "70000"]):
        eq(run(*words).returncode, 2, words)
    eq(run("nonsense").returncode, 1)
    ok("usage" in run("--help").stdout and run("--version").stdout.startswith("brigd "), "help")


if __name__ == "__main__":
    try:
        RC = apilib.main()
    finally:
        D.close()
    sys.exit(RC)
