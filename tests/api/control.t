#!/usr/bin/env python3
"""The control API: every path, every refusal, two tenants."""
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

import apilib
from apilib import case, eq, ok, until

D = apilib.Daemon()


def err(r, status, word=""):
    """A refusal: the status twice, and a message with this word."""
    s, _, b = r
    eq(s, status, f"status of {b!r}")
    eq(b["code"], status, "code")
    ok(word in b["message"], f"{word!r} not in {b!r}")


@case
def create_get_kill():
    b = D.create(metadata={"a": "b"}, envVars={"X": "1"}, timeout=60)
    ok(b["sandboxID"][0] == "i" and len(b["sandboxID"]) == 21 and b["sandboxID"].isalnum(), b)
    for k in ("templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken"):
        ok(b[k], k)
    eq(D.spawn.keepers[b["sandboxID"]].claim["envVars"], {"X": "1"}, "environment of the claim")
    s, _, d = D.ask("GET", f"/sandboxes/{b['sandboxID']}")
    eq(s, 200)
    for k in ("templateID", "sandboxID", "clientID", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state",
              "envdVersion"):
        ok(k in d, k)
    eq((d["state"], d["metadata"]), ("running", {"a": "b"}))
    eq(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], 204)
    err(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}"), 404)
    err(D.ask("GET", f"/sandboxes/{b['sandboxID']}"), 404)
    until(lambda: not D.spawn.ends, 20, "the end is forgotten by brig-spawn")


@case
def v1_create_with_pythons_keys():
    s, _, b = D.ask("POST", "/sandboxes", {
        "templateID": "base", "allow_internet_access": True, "autoPause": False, "autoResume": {"enabled": False},
        "envVars": {}, "metadata": {}, "secure": True, "timeout": 300})
    eq(s, 201)
    ok(b["clientID"] and b["envdAccessToken"], b)
    eq(D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")[0], 204)


@case
def chunked_bodies_are_read():
    c = D.conn()
    c.request("POST", "/v2/sandboxes", iter([b'{"templa', b'teID":"code"}']), {"X-API-KEY": D.key}, encode_chunked=True)
    r = c.getresponse()
    ok(r.status == 201 and b"code-interpreter-v1" in r.read(), r.status)


@case
def what_cannot_be_honoured_is_refused_by_name():
    for field, value, word in (
            ("volumeMounts", [{"name": "v", "path": "/v"}], "volumeMounts"), ("mcp", {"x": {}}, "mcp"),
            ("iam", {"tokens": {}}, "iam"), ("autoPauseMemory", False, "autoPauseMemory"), ("nonsense", 1, "nonsense"),
            ("timeout", 0, "timeout"), ("timeout", -1, "timeout"), ("timeout", 10 ** 9, "timeout"), ("timeout", "5", "timeout"),
            ("metadata", {"a": 1}, "metadata"), ("metadata", [], "metadata"), ("envVars", {"A=B": "x"}, "envVars"),
            ("templateID", 5, "templateID"), ("autoResume", True, "autoResume"),
            ("network", {"maskRequestHost": "x"}, "maskRequestHost"), ("network", {"rules": {"a.b": [{}]}}, "rules"),
            ("network", {"httpsPorts": [1]}, "httpsPorts"), ("network", {"egressProxy": {"address": "a:1"}}, "egressProxy"),
            ("network", {"allowOut": ["example.org"]}, "ALL_TRAFFIC"), ("network", {"allowOut": ["1.1.1.1"]}, "allowOut"),
            ("network", {"denyOut": ["example.org"]}, "invalid denied CIDR example.org"),
            ("network", {"denyOut": "x"}, "denyOut")):
        err(D.ask("POST", "/v2/sandboxes", {"templateID": "base", field: value}), 400, word)
    err(D.ask("POST", "/v2/sandboxes", {}), 400, "templateID")
    err(D.ask("POST", "/v2/sandboxes", {"templateID": "none"}), 404, "none")
    eq(D.create(volumeMounts=None, mcp=None)["templateID"], "base")


@case
def networks_become_rules():
    for network, more, egress, text in (
            ({}, {}, 0, ""), (None, {"allow_internet_access": True}, 0, ""), (None, {"allow_internet_access": False}, 1, ""),
            ({"denyOut": ["0.0.0.0/0"]}, {}, 1, ""),
            ({"denyOut": ["10.1.2.0/24", "2001:db8::1"]}, {}, 2,
             'version: 1\ndeny:\n  - cidr: "10.1.2.0/24"\n    ports: [1-65535]\n  - cidr: "2001:db8::1/128"\n    ports: [1-65535]\n'),
            ({"denyOut": ["0.0.0.0/0"], "allowOut": ["*.example.org", "1.2.3.4"]}, {}, 3,
             'version: 1\nrules:\n  - host: "**.example.org"\n    ports: [1-65535]\n'
             '  - cidr: "1.2.3.4/32"\n    ports: [1-65535]\n')):
        b = D.create(network=network, **more)
        k = D.spawn.keepers[b["sandboxID"]]
        eq((k.egress, k.text), (egress, text), network)
        s = D.ask("PUT", f"/sandboxes/{b['sandboxID']}/network", {**(network or {}), **more})
        eq(s[0], 204, s)
        a = D.spawn.asked[-1]
        eq((a["op"], a["egress"], a["text"]), (apilib.EGRESS, egress, text))


@case
def keys_are_checked():
    for method, path in (("POST", "/sandboxes"), ("GET", "/sandboxes"), ("GET", "/v2/sandboxes"), ("GET", "/sandboxes/ixxxxxxxxxxxxxxxxxxxx"),
                         ("DELETE", "/sandboxes/ix"), ("GET", "/metrics"), ("PUT", "/sandboxes/ix/network"), ("GET", "/volumes")):
        err(D.ask(method, path, key=False), 401)
        for wrong in ("e2b_" + "0" * 64, "x", "e2b_" + D.key[4:20] + "0" * 48, D.key[:-1], D.key + "0"):
            err(D.ask(method, path, key=wrong), 401)
    eq(D.ask("GET", "/health", key=False)[0], 204)
    reader = D.make_key("--tenant", "acme", "--scopes", "read")
    eq(D.ask("GET", "/v2/sandboxes", key=reader)[0], 200)
    err(D.ask("POST", "/sandboxes", {"templateID": "base"}, key=reader), 403)
    err(D.ask("GET", "/metrics"), 403)
    short = D.make_key("--tenant", "acme", "--expires", "1ms")
    err(D.ask("GET", "/sandboxes", key=short), 401)


@case
def unknown_paths_and_methods():
    err(D.ask("GET", "/nothing"), 404)
    err(D.ask("GET", "/v2"), 404)
    err(D.ask("PATCH", "/sandboxes"), 405)
    err(D.ask("GET", "/sandboxes/ix/pause"), 405)
    for path in ("/sandboxes/..%2f..%2fx", "/sandboxes/%00", "/sandboxes/%zz", "/sandboxes/" + "a" * 300):
        err(D.ask("GET", path), 404)
    for method, path in (("POST", "/volumes"), ("GET", "/snapshots"), ("POST", "/v3/templates"), ("GET", "/secrets"),
                         ("GET", "/volumecontent/x/path"), ("POST", "/v2/templates/x/builds/y")):
        err(D.ask(method, path), 400)
    eq(D.ask("GET", "/templates/aliases/code")[2]["templateID"], "code-interpreter-v1")
    err(D.ask("GET", "/templates/aliases/none"), 404)
    err(D.ask("DELETE", "/templates/a%3Ab"), 404)


@case
def every_route_for_every_kind_of_sandbox():
    b, dead, paused = D.create(), D.create(), D.create()
    eq(D.ask("DELETE", f"/sandboxes/{dead['sandboxID']}")[0], 204)
    eq(D.ask("POST", f"/sandboxes/{paused['sandboxID']}/pause", {})[0], 204)
    for method, tail, body in (("GET", "", None), ("POST", "/timeout", {"timeout": 5}), ("POST", "/connect", {"timeout": 5}),
                               ("POST", "/pause", {}), ("POST", "/resume", {}), ("PUT", "/network", {}), ("GET", "/metrics", None),
                               ("GET", "/logs", None), ("POST", "/refreshes", {}), ("POST", "/fork", {}),
                               ("POST", "/snapshots", {}), ("DELETE", "", None)):
        unknown = D.ask(method, "/sandboxes/i00000000000000000000" + tail, body)
        err(unknown, 404)
        for key, sid in ((D.other, b["sandboxID"]), (D.other, paused["sandboxID"]), (True, dead["sandboxID"])):
            r = D.ask(method, f"/sandboxes/{sid}{tail}", body, key=key)
            err(r, 404)
            eq(r[2]["message"].replace(sid, "i00000000000000000000"), unknown[2]["message"], "as one that never was")
    eq(D.ask("GET", "/v2/sandboxes", key=D.other)[2], [])
    for box in (b, paused):
        eq(D.ask("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)


@case
def timeouts_move_and_connect_only_lengthens():
    b = D.create(timeout=100)
    sid, k = b["sandboxID"], D.spawn.keepers[b["sandboxID"]]
    eq(k.timeout, 100000)
    eq(D.ask("POST", f"/sandboxes/{sid}/timeout", {"timeout": 10})[0], 204)
    eq(k.timeout, 10000)
    eq(D.ask("POST", f"/v2/sandboxes/{sid}/connect", {})[0], 200)
    eq(D.ask("POST", f"/sandboxes/{sid}/connect", {"timeout": 5})[0], 200)
    eq(k.timeout, 10000)
    s, _, c = D.ask("POST", f"/sandboxes/{sid}/connect", {"timeout": 300})
    eq((s, k.timeout, c["envdAccessToken"]), (200, 300000, b["envdAccessToken"]))
    err(D.ask("POST", f"/sandboxes/{sid}/connect", {}), 400, "timeout")
    err(D.ask("POST", f"/sandboxes/{sid}/timeout", {"timeout": -1}), 400)
    err(D.ask("POST", f"/sandboxes/{sid}/timeout", {"timeout": 1, "x": 1}), 400, "x")
    err(D.ask("POST", f"/sandboxes/{sid}/timeout", {"timeout": 10 ** 12}), 400)


@case
def pause_and_resume():
    b = D.create()
    sid = b["sandboxID"]
    eq(D.box_ask(b, "GET", "/health")[0], 204)
    eq(D.ask("POST", f"/sandboxes/{sid}/pause", {"memory": True})[0], 204)
    err(D.ask("POST", f"/sandboxes/{sid}/pause", {}), 409)
    err(D.ask("POST", f"/sandboxes/{sid}/pause", {"memory": False}), 400, "memory")
    s, _, r = D.box_ask(b, "GET", "/health")
    eq((s, r["code"], r["sandboxId"], r["message"]), (502, 502, sid, "The sandbox was not found"))
    eq([x["state"] for x in D.ask("GET", "/v2/sandboxes?state=paused")[2]], ["paused"])
    ok(sid not in [x["sandboxID"] for x in D.ask("GET", "/sandboxes")[2]], "the old list has running ones only")
    eq(D.ask("POST", f"/v2/sandboxes/{sid}/connect", {})[0], 201)
    eq(D.box_ask(b, "GET", "/health")[0], 204)
    err(D.ask("POST", f"/sandboxes/{sid}/resume", {}), 409)
    eq(D.ask("POST", f"/sandboxes/{sid}/pause")[0], 204)
    eq(D.ask("POST", f"/sandboxes/{sid}/resume", {"timeout": 50})[0], 201)
    eq(D.spawn.keepers[sid].timeout, 50000)


@case
def auto_resume_by_traffic():
    b = D.create(autoPause=True, autoResume={"enabled": True})
    eq(D.ask("POST", f"/sandboxes/{b['sandboxID']}/pause", {})[0], 204)
    s, _, r = D.box_ask(b, "POST", "/x", b"body")
    eq((s, r["body"]), (200, "body"))
    eq(D.ask("GET", f"/sandboxes/{b['sandboxID']}")[2]["state"], "running")


@case
def a_life_that_ends_in_a_pause():
    b = D.create(autoPause=True, timeout=1)
    k = D.spawn.keepers[b["sandboxID"]]
    ok(k.claim["timeout_ms"] > 1000, "its keeper waits a little longer")
    until(lambda: k.paused, 10, "it is paused when its time is over")
    until(lambda: D.ask("GET", f"/sandboxes/{b['sandboxID']}")[2]["state"] == "paused", 20, "state")
    until(lambda: k.timeout == 0, 20, "a paused one has no end")


@case
def a_host_that_cannot_pause_says_so():
    D.spawn.can_pause = False
    b = D.create()
    err(D.ask("POST", f"/sandboxes/{b['sandboxID']}/pause", {}), 501, "freeze")
    err(D.ask("POST", "/v2/sandboxes", {"templateID": "base", "autoPause": True}), 400, "autoPause")
    D.spawn.can_pause = True


@case
def lists_by_metadata_state_template_and_page():
    for b in D.ask("GET", "/v2/sandboxes")[2]:
        D.ask("DELETE", f"/sandboxes/{b['sandboxID']}")
    ids = [D.create(metadata={"a": "b c&d", "n": str(i)})["sandboxID"] for i in range(5)]
    one = D.ask("POST", "/v2/sandboxes", {"templateID": "code", "metadata": {"a": "b"}})[2]["sandboxID"]
    got = lambda q: [x["sandboxID"] for x in D.ask("GET", "/v2/sandboxes" + q)[2]]
    eq(sorted(got("?metadata=a%3Db%252520c%252526d")), sorted(ids))
    eq(got("?metadata=a%3Db%252520c%252526d%26n%3D3"), [ids[3]])
    eq(got("?metadata=a%3Dx"), [])
    eq(got("?template=code"), [one])
    eq(got("?order=asc"), got("?order=desc")[::-1])
    eq(len(got("")), 6)
    for order in ("asc", "desc"):
        seen, token = [], ""
        while True:
            s, f, page = D.ask("GET", f"/v2/sandboxes?limit=2&order={order}&nextToken={token}")
            eq((s, f["x-total-running"]), (200, "6"))
            seen += [x["sandboxID"] for x in page]
            token = f.get("x-next-token", "")
            if not token:
                break
        eq(seen, got(f"?order={order}"))
    start = D.ask("GET", "/v2/sandboxes?order=asc")[2][2]["startedAt"]
    ok(len(got("?startedAfter=" + urllib.parse.quote(start))) <= 3, "startedAfter")
    for bad in ("state=x", "order=x", "limit=0", "limit=101", "limit=x", "nextToken=x", "startedAfter=x", "metadata=%zz"):
        err(D.ask("GET", "/v2/sandboxes?" + bad), 400, bad.split("=")[0])
    err(D.ask("GET", "/v2/sandboxes?template=none"), 404)


@case
def ended_ones_in_pages():
    ids = [D.create()["sandboxID"] for _ in range(5)]
    for i in ids:
        eq(D.ask("DELETE", f"/sandboxes/{i}")[0], 204)
    s, f, whole = D.ask("GET", "/v2/sandboxes/ended")
    eq((s, "x-next-token" in f, {x["sandboxID"] for x in whole[:5]}), (200, False, set(ids)))
    eq([(x["state"], x["how"], x["templateID"]) for x in whole[:5]], [("ended", "killed", "base")] * 5)
    seen, token = [], ""
    while True:
        s, f, page = D.ask("GET", f"/sandboxes/ended?limit=2&nextToken={token}")
        eq(s, 200)
        seen += page
        token = f.get("x-next-token", "")
        if not token:
            break
    eq(seen, whole)
    s, f, page = D.ask("GET", "/sandboxes/ended?template=none&limit=2")
    ok((s, page) == (200, []) and f["x-next-token"], "a page without any of the template goes on")
    eq(D.ask("GET", "/sandboxes/ended?template=base")[2], [x for x in whole if x["templateID"] == "base"])
    for bad in ("limit=0", "limit=1001", "limit=x", "nextToken=x", "template=" + "x" * 64):
        err(D.ask("GET", "/sandboxes/ended?" + bad), 400, bad.split("=")[0])


@case
def metrics_logs_and_prometheus():
    b = D.create()
    s, _, m = D.ask("GET", f"/sandboxes/{b['sandboxID']}/metrics")
    eq(s, 200)
    for k in ("timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal"):
        ok(k in m[0], k)
    path = f"/sandboxes/{b['sandboxID']}/metrics"
    eq([(x["timestampUnix"], x["memUsed"]) for x in m], [(1700000000, 10), (1700000010, 11)], "oldest first")
    eq((m[1]["timestamp"], round(m[1]["cpuUsedPct"], 3)), ("2023-11-14T22:13:30.000Z", 50.0), "5 s of processor in 10")
    for q, want in (("end=5", []), ("start=1700000001", [1700000010]), ("end=1700000000", [1700000000]),
                    ("start=1700000000&end=1700000010", [1700000000, 1700000010]), ("start=9999999999", [])):
        eq([x["timestampUnix"] for x in D.ask("GET", f"{path}?{q}")[2]], want, q)
    for bad in ("start=x", "end=-1", "start=1x", "end="):
        err(D.ask("GET", f"{path}?{bad}"), 400, bad.split("=")[0])
    # what a keeper may say
    good = D.spawn.samples
    for lie in ([[1, 2]], [5], [["x"] * 5], [[1 << 62] * 5], [[-1] * 5], [[1.5] * 5], [None] * 2000):
        D.spawn.samples = lie + good[:1]
        s, _, m = D.ask("GET", path)
        ok(s == 200 and len(m) <= 2 and all(x["memUsed"] >= 0 for x in m), lie[:2])
    D.spawn.samples = "x"
    err(D.ask("GET", path), 502)
    D.spawn.samples = good
    ids = [b["sandboxID"]] + [D.create()["sandboxID"] for _ in range(5)]
    rival = D.create(key=D.other)["sandboxID"]
    got = D.ask("GET", "/sandboxes/metrics?sandbox_ids=" + ",".join([*ids, rival, ids[0], "", "x", "i" + "0" * 20]))[2]["sandboxes"]
    eq((set(got), got[ids[3]]["memTotal"]), (set(ids), 20))
    eq(D.ask("GET", f"/sandboxes/metrics?sandbox_ids={ids[0]}", key=D.other)[2], {"sandboxes": {}})
    D.spawn.calls["/control/stat"] = lambda k, c: c.conn.close() if k.id == ids[1] else k.usual(c)
    eq(set(D.ask("GET", "/sandboxes/metrics?sandbox_ids=" + ",".join(ids))[2]["sandboxes"]), set(ids) - {ids[1]}, "who answers")
    D.spawn.calls.clear()
    err(D.ask("GET", "/sandboxes/metrics"), 400, "sandbox_ids")
    err(D.ask("GET", "/sandboxes/metrics?sandbox_ids=" + "a," * 100), 400, "sandbox_ids")
    log = D.ask("GET", f"/v2/sandboxes/{b['sandboxID']}/logs")[2]["logs"]
    ok("created" in log[0]["message"] and log[0]["level"] == "info", log)
    key = D.make_key("--scopes", "metrics")
    s, _, text = D.ask("GET", "/metrics", key=key)
    ok(s == 200 and b"brig_created_total" in text and b'brig_create_seconds_bucket{start="cold",le="+Inf"}' in text, text)
    exposition(text.decode())


@case
def what_gates_refused_is_counted_once():
    key = D.make_key("--scopes", "metrics")
    count = lambda: int(re.search(rb"^brig_denied_total (\d+)$", D.ask("GET", "/metrics", key=key)[2], re.M)[1]) - before
    before = 0
    before = count()
    a, b, c = (D.create()["sandboxID"] for _ in range(3))
    said = D.spawn.denied
    said.update({a: 3, b: 4})
    eq((count(), count()), (7, 7), "of all that live")
    said[a] = 5
    eq(count(), 9, "what came since")
    for lie in (-1, "x", None, 2, 1.5, 1 << 70):
        said[a] = lie
        eq(count(), 9, f"{lie} makes no sense")
    said[a] = 6
    D.spawn.calls["/control/denied"] = lambda k, call: call.conn.close() if k.id == b else k.usual(call)
    eq(count(), 10, "one does not answer")
    D.spawn.calls.clear()
    for late in (True, False):
        D.spawn.late = late
        said[a] += 10
        eq(D.ask("DELETE", f"/sandboxes/{a}")[0], 204)
        until(lambda: count() == 20 + 10 * (not late), 20, f"the last ones come with its end, {late}")
        a = c
        said[c] = 0
    D.spawn.late = False
    said[b] += 1
    D.spawn.end(b, "exit")
    until(lambda: count() == 31, 20, "and so does that of one that ends by itself")


def exposition(text):
    """Prometheus' text format: families in one piece, each with HELP and TYPE, no sample twice, histograms that add up."""
    families, samples, family = {}, {}, None
    ok(text.endswith("\n"), "the last line has an end")
    for line in text.splitlines():
        m = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
        if m and m[1] == "HELP":
            family = m[2]
            ok(family not in families, f"{family} is in one piece")
            families[family] = None
        elif m:
            eq((m[2], families[m[2]]), (family, None), "TYPE comes once, after HELP")
            ok(m[3] in ("counter", "gauge", "histogram"), line)
            families[family] = m[3]
        else:
            m = re.fullmatch(r'([a-z_]+)((?:\{(?:[a-z_]+="[^"\\\n]*",?)+\})?) ([0-9.e+-]+)', line)
            ok(m, line)
            kind = families[family]
            names = [family + x for x in ("_bucket", "_sum", "_count")] if kind == "histogram" else [family]
            ok(m[1] in names and (kind == "counter") == family.endswith("_total"), f"{line}: of {family}, a {kind}")
            ok(m[1] + m[2] not in samples and float(m[3]) >= 0, line)
            samples[m[1] + m[2]] = float(m[3])
    for start in ("cold", "warm"):
        row = [v for k, v in samples.items() if k.startswith(f'brig_create_seconds_bucket{{start="{start}"')]
        eq(row, sorted(row))
        eq(samples[f'brig_create_seconds_bucket{{start="{start}",le="+Inf"}}'], samples[f'brig_create_seconds_count{{start="{start}"}}'])
    promtool = shutil.which("promtool")
    if promtool:
        r = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        eq((r.returncode, r.stdout, r.stderr), (0, "", ""))


@case
def starts_that_fail_leave_nothing():
    before = D.ask("GET", "/v2/sandboxes")[1]["x-total-running"]
    D.spawn.refuse[apilib.START] = (95, 6, "this host lacks something")
    err(D.ask("POST", "/v2/sandboxes", {"templateID": "base"}), 400, "lacks something")
    D.spawn.refuse[apilib.START] = (11, 5, "no slot is free")
    err(D.ask("POST", "/v2/sandboxes", {"templateID": "base"}), 503, "no slot")
    D.spawn.refuse.clear()
    D.spawn.calls["/control/claim"] = lambda k, c: c.conn.close()
    err(D.ask("POST", "/v2/sandboxes", {"templateID": "base"}), 503)
    D.spawn.calls.clear()
    eq(D.ask("GET", "/v2/sandboxes")[1]["x-total-running"], before)


@case
def creates_at_once():
    got = []
    ts = [threading.Thread(target=lambda: got.append(D.create()["sandboxID"])) for _ in range(30)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    eq(len(set(got)), 30)


@case
def bodies_that_are_no_json():
    for body in (b"{", b"[]", b"null", b'{"templateID":"base","templateID":"base"}', b"\xff", b'"x"', b"{}x", b"[" * 5000):
        err(D.ask("POST", "/v2/sandboxes", body), 400)
    err(D.ask("POST", "/v2/sandboxes", b" " * (5 << 20)), 413)


if __name__ == "__main__":
    sys.exit(apilib.main(D))
