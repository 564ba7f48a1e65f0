#!/usr/bin/env python3
"""Two tenants: neither sees, lists, changes, signals or reads what is the other's, on any path. The rows of src/api/routes.def and
src/keep/routes.def are read here, so a path without its row in the tables below fails the first case."""
import os
import re
import subprocess
import sys
import time

import apilib
from apilib import ROOT, case, eq, ok, until

D = apilib.Daemon()
UNKNOWN = "i" + "0" * 20
ONLY_KEYED = "no sandbox in the path"


def rows_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return re.findall(r'^ROUTE\("([^"]*)",\s*"([^"]*)",\s*(\w+)', f.read(), re.M)


# the control API: method and path -> (query, body, status of one's own, status of one's own while it is paused)
CONTROL = {
    "GET /health": ("", None, 204, ONLY_KEYED),
    "GET /metrics": ("", None, 200, ONLY_KEYED),
    "POST /sandboxes": ("", {"templateID": "base"}, 201, ONLY_KEYED),
    "GET /sandboxes": ("", None, 200, ONLY_KEYED),
    "GET /sandboxes/ended": ("", None, 200, ONLY_KEYED),
    "GET /sandboxes/metrics": ("?sandbox_ids=" + UNKNOWN, None, 200, ONLY_KEYED),
    "GET /sandboxes/{id}": ("", None, 200, 200),
    "POST /sandboxes/{id}/timeout": ("", {"timeout": 77}, 204, 204),
    "POST /sandboxes/{id}/connect": ("", {"timeout": 77}, 200, 201),
    "POST /sandboxes/{id}/pause": ("", {}, 204, 409),
    "POST /sandboxes/{id}/resume": ("", {}, 409, 201),
    "POST /sandboxes/{id}/refreshes": ("", {"duration": 3000}, 204, 204),
    "PUT /sandboxes/{id}/network": ("", {"denyOut": ["0.0.0.0/0"]}, 204, 204),
    "GET /sandboxes/{id}/metrics": ("", None, 200, 200),
    "GET /sandboxes/{id}/logs": ("", None, 200, 200),
    "POST /sandboxes/{id}/fork": ("", {}, 400, 400),
    "POST /sandboxes/{id}/snapshots": ("", {}, 400, 400),
    "DELETE /sandboxes/{id}": ("", None, 204, 204),
    "GET /snapshots": ("", None, 400, ONLY_KEYED),
    "DELETE /templates/{id}": ("", None, 404, ONLY_KEYED),
    "GET /templates/aliases/{id}": ("", None, 404, ONLY_KEYED),
    "* /templates": ("", None, 400, ONLY_KEYED),
    "* /v3/templates": ("", None, 400, ONLY_KEYED),
    "* /templates/*": ("", None, 400, ONLY_KEYED),
    "* /volumes": ("", None, 400, ONLY_KEYED),
    "* /volumes/*": ("", None, 400, ONLY_KEYED),
    "* /volumecontent/*": ("", None, 400, ONLY_KEYED),
    "* /secrets": ("", None, 400, ONLY_KEYED),
    "* /secrets/*": ("", None, 400, ONLY_KEYED),
}
# a keeper's calls: what a client writes, by the row's first folder
OPEN = {"/envd/health"}  # of envd, without a token
SCOPES = {"SCOPE_READ": "write,metrics", "SCOPE_WRITE": "read,metrics", "SCOPE_METRICS": "read,write"}
ROUTES = rows_of("src/api/routes.def")
KEEPER = rows_of("src/keep/routes.def")


def asked(method, path, sid, key, query="", body=None):
    """The whole answer, but for the time, as if its sandbox were UNKNOWN."""
    path = path.replace("{id}", sid).replace("*", "x")
    s, f, b = D.ask("GET" if method == "*" else method, path + query, body, key=key)
    f.pop("date", None)
    return s, str(sorted(f.items())).replace(sid, UNKNOWN), str(b).replace(sid, UNKNOWN)


def every():
    """Rows that need a key, each with the prefix and without."""
    for method, path, scope in ROUTES:
        query, body, own, paused = CONTROL[f"{method} {path}"]
        for v in ("", "/v2"):
            if scope != "0":
                yield method, v + path, scope, query, body, own, paused


def state(box):
    """What a stranger must not have changed."""
    k = D.spawn.keepers.get(box["sandboxID"])
    return k is not None and (k.timeout, k.paused, k.claim, sorted(b["sandboxID"] for b in D.ask("GET", "/v2/sandboxes")[2]),
                              [a for a in D.spawn.asked if a["id"] == box["sandboxID"]])


@case
def every_path_is_in_the_tables():
    eq(sorted(CONTROL), sorted(f"{m} {p}" for m, p, _ in ROUTES), "rows of src/api/routes.def")
    eq({p.split("/")[1] for _, p, _ in KEEPER}, {"control", "envd", "code", "port"}, "folders of src/keep/routes.def")
    ok(len(KEEPER) > 30 and OPEN <= {p for _, p, _ in KEEPER}, KEEPER)


@case
def without_a_good_key_nothing_is_said():
    b = D.create()
    old = D.make_key("--tenant", "acme", "--expires", "1ms")
    removed = D.make_key("--tenant", "acme", "--name", "gone")
    listed = subprocess.run([apilib.BRIGD, "--config", D.config, "key", "list"], capture_output=True, text=True, check=True).stdout
    subprocess.run([apilib.BRIGD, "--config", D.config, "key", "remove", re.search(r"^(\w+) .* gone ", listed, re.M).group(1)], check=True)
    wrong = ("e2b_" + "0" * 64, D.key[:20] + "0" * 48, D.key[:-1] + ("0" if D.key[-1] != "0" else "1"), D.key[:-1], D.key + "0",
             old, removed, "\xe9")
    before = state(b)
    for method, path, _, query, body, _, _ in every():
        answers = {asked(method, path, sid, key, query, body) for sid in (b["sandboxID"], UNKNOWN) for key in wrong}
        eq(len(answers), 1, f"{method} {path} with a wrong key: {answers}")
        eq(answers.pop()[0], 401, f"{method} {path} with a wrong key")
        answers = {asked(method, path, sid, False, query, body) for sid in (b["sandboxID"], UNKNOWN)}
        eq((len(answers), answers.pop()[0]), (1, 401), f"{method} {path} without a key")
    eq(state(b), before, "the sandbox")
    eq(D.ask("GET", "/health", key="x")[0], 204)


@case
def without_the_scope_nothing_is_said():
    b, keys = D.create(), {s: D.make_key("--tenant", "acme", "--scopes", words) for s, words in SCOPES.items()}
    before = state(b)
    for method, path, scope, query, body, _, _ in every():
        answers = {asked(method, path, sid, keys[scope], query, body) for sid in (b["sandboxID"], UNKNOWN)}
        eq((len(answers), answers.pop()[0]), (1, 403), f"{method} {path} without {scope}")
    eq(state(b), before, "the sandbox")


@case
def anothers_is_as_one_that_never_was():
    b, paused, dead = D.create(metadata={"a": "b"}), D.create(), D.create()
    eq(D.ask("DELETE", f"/sandboxes/{dead['sandboxID']}")[0], 204)
    eq(D.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {})[0], 204)
    before = [state(x) for x in (b, paused)]
    for method, path, scope, query, body, _, _ in every():
        if "/sandboxes/{id}" not in path or scope == "SCOPE_METRICS":
            continue
        want = asked(method, path, UNKNOWN, D.key, query, body)
        eq(want[0], 404, f"{method} {path} of none")
        eq(asked(method, path, UNKNOWN, D.other, query, body), want, "for whoever asks")
        for key, box, what in ((D.other, b, "another's"), (D.other, paused, "another's that is paused"),
                               (D.other, dead, "another's that has ended"), (D.key, dead, "one's own that has ended")):
            eq(asked(method, path, box["sandboxID"], key, query, body), want, f"{method} {path} of {what}")
    eq([state(x) for x in (b, paused)], before, "they are as they were")


@case
def ones_own_running_and_paused():
    for method, path, scope, query, body, own, paused in every():
        if scope == "SCOPE_METRICS":
            eq(asked(method, path, UNKNOWN, D.make_key("--scopes", "metrics"), query, body)[0], own, path)
            continue
        b = D.create()
        eq(asked(method, path, b["sandboxID"], D.key, query, body)[0], own, f"{method} {path}")
        if paused is ONLY_KEYED:
            continue
        b = D.create()
        eq(D.ask("POST", f"/sandboxes/{b['sandboxID']}/pause", {})[0], 204)
        eq(asked(method, path, b["sandboxID"], D.key, query, body)[0], paused, f"{method} {path} while it is paused")


@case
def lists_hold_ones_own():
    mine, theirs = D.create(metadata={"k": "v"}), D.ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"k": "v"}}, key=D.other)[2]
    ids = lambda key, q: {x["sandboxID"] for x in D.ask("GET", q, key=key)[2]}
    for q in ("/sandboxes", "/v2/sandboxes", "/v2/sandboxes?metadata=k%3Dv", "/sandboxes?metadata=k%3Dv", "/v2/sandboxes?template=base"):
        got = ids(D.other, q)
        ok(theirs["sandboxID"] in got and mine["sandboxID"] not in got, (q, got))
    # a page's token that names another's sandbox leads to nothing of his
    at = int(time.time() * 1000) + 3600000
    for order in ("asc", "desc"):
        for sid in (mine["sandboxID"], UNKNOWN):
            got = ids(D.other, f"/v2/sandboxes?order={order}&nextToken={at}-{sid}")
            ok(mine["sandboxID"] not in got, got)
    eq(D.ask("GET", "/v2/sandboxes", key=D.other)[1]["x-total-running"], str(len(ids(D.other, "/sandboxes"))), "the total")
    both = f"/sandboxes/metrics?sandbox_ids={mine['sandboxID']},{theirs['sandboxID']},{UNKNOWN}"
    eq(set(D.ask("GET", both, key=D.other)[2]["sandboxes"]), {theirs["sandboxID"]}, "figures")


def client_path(path):
    """What a client writes for a keeper's row: the port and the path."""
    _, first, rest = path.split("/", 2) if path.count("/") > 1 else (*path.split("/"), "")
    return {"envd": 49983, "code": 49999, "port": 8080}[first], "/" + rest.replace("*", "x")


def traffic(method, box, port, path, headers):
    s, f, b = D.ask("POST" if method == "*" else method, path, None if method == "GET" else b"{}", key=False,
                    headers={"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": str(port), **headers})
    f.pop("date", None)
    return s, str(sorted(f.items())).replace(box["sandboxID"], UNKNOWN), str(b).replace(box["sandboxID"], UNKNOWN)


@case
def sandboxes_serve_who_has_their_token():
    mine, theirs = D.create(network={"allowPublicTraffic": False}), D.create(key=D.other, network={"allowPublicTraffic": False})
    public = D.create()
    wrong = ({}, {"X-Access-Token": "x"}, {"X-Access-Token": theirs["envdAccessToken"]}, {"X-API-KEY": D.key}, {"X-API-KEY": D.other},
             {"X-Access-Token": mine["trafficAccessToken"]}, {"E2b-Traffic-Access-Token": theirs["trafficAccessToken"]},
             {"E2b-Traffic-Access-Token": mine["envdAccessToken"]}, {"X-Access-Token": D.key}, {"Authorization": "Bearer " + D.key},
             {"X-Access-Token": mine["envdAccessToken"][:-1]}, {"X-Access-Token": mine["envdAccessToken"] + "0"})
    for method, path, _ in KEEPER:
        if path.startswith("/control"):
            continue
        port, target = client_path(path)
        for h in wrong:
            got = traffic(method, mine, port, target, h)
            want = (204 if path in OPEN else 401) if port == 49983 else 403
            eq(got[0], want, f"{method} {path} with {h}")
            ok(want == 204 or ("unauthorized" in got[2] or "signature" in got[2] or "traffic access token" in got[2]), got)
        good = {"X-Access-Token": mine["envdAccessToken"]} if port == 49983 else {"E2b-Traffic-Access-Token": mine["trafficAccessToken"]}
        ok(traffic(method, mine, port, target, good)[0] in (200, 204), f"{method} {path} with its token")
        if port != 49983:
            eq(traffic(method, public, port, target, {})[0], 200, "open to whoever knows its id")
        # a host's name is the other way to say which
        host = {"Host": f"{port}-{mine['sandboxID']}.localhost"}
        s, _, _ = D.ask(method.replace("*", "GET"), target, None, key=False, headers={**host, "X-Access-Token": theirs["envdAccessToken"]})
        eq(s, (204 if path in OPEN else 401) if port == 49983 else 403, f"{method} {path} by name")


@case
def gone_ones_serve_nobody():
    dead, paused = D.create(), D.create()
    D.ask("DELETE", f"/sandboxes/{dead['sandboxID']}")
    D.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {})
    none = {"sandboxID": UNKNOWN}
    for method, path, _ in KEEPER:
        if path.startswith("/control"):
            continue
        port, target = client_path(path)
        want = traffic(method, none, port, target, {})
        eq(want[0], 502, f"{method} {path} of none")
        for box in (dead, paused):
            for h in ({}, {"X-Access-Token": box["envdAccessToken"]}, {"X-Access-Token": "x"}):
                eq(traffic(method, box, port, target, h), want, f"{method} {path}")


@case
def a_keepers_own_calls_have_no_path_for_clients():
    b = D.create()
    before = (D.spawn.keepers[b["sandboxID"]].timeout, D.spawn.keepers[b["sandboxID"]].paused)
    for method, path, _ in KEEPER:
        if not path.startswith("/control"):
            continue
        for port, prefix in ((49983, "/envd/"), (49999, "/code/"), (80, "/port/80/")):
            for target in (path, "/.." + path, "/../.." + path, "/%2e%2e" + path, "//" + path, "/%2F.." + path, "/x/../.." + path):
                s, _, r = D.box_ask(b, method, target, b'{"timeout_ms":1}' if method == "POST" else None, port=port)
                ok(s == 400 or r["target"].startswith(prefix), (port, target, s, r))
    eq((D.spawn.keepers[b["sandboxID"]].timeout, D.spawn.keepers[b["sandboxID"]].paused), before, "nothing was done")
    until(lambda: D.ask("GET", f"/sandboxes/{b['sandboxID']}")[0] == 200, 20, "it lives")


@case
def names_that_are_none():
    for sid in ("..", "%2e%2e", "%00", "a%00b", "%ff", "%c3%28", "x" * 64, "x" * 65, "x" * 20000, "I" + "0" * 20, UNKNOWN + "%20", UNKNOWN + "%0d%0a",
                "%2f", "i%2fpause", "'", "%27%20OR%201=1", "*", "{id}"):
        s, f, r = D.ask("GET", "/sandboxes/" + sid.encode().decode("latin1"))
        eq((s, f["content-type"], r["code"]), (404, "application/json", 404), sid)
        s, _, r = D.ask("GET", "/health", key=False, headers={"E2b-Sandbox-Id": sid.encode("latin1", "replace").decode("latin1"), "E2b-Sandbox-Port": "1"})
        ok(s in (400, 502), (sid, s, r))


if __name__ == "__main__":
    sys.exit(apilib.main(D))
