#!/usr/bin/python3
"""What E2B's Python SDKs send (httpx, connect-python, pyqwest; synchronous and asynchronous; the code interpreter's), byte for
byte as they frame it, against brigd and real sandboxes; and that every answer has the fields their models require."""
import base64
import gzip
import hashlib
import json
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
import apilib
from apilib import case, eq, ok, until
from devlib import Dev, STREAM, envelope

D = Dev()

INFO = [("lang", "python"), ("lang_version", "3.11.2"), ("package_version", "2.34.0"), ("publisher", "e2b"), ("sdk_runtime", "python"),
        ("system", "Linux")]
# httpx's own, in its order
HTTPX = [("Accept", "*/*"), ("Accept-Encoding", "gzip, deflate"), ("Connection", "keep-alive")]
CONTROL = HTTPX + [("User-Agent", "e2b-python-sdk/2.34.0"), ("X-API-KEY", D.key)] + INFO
SANDBOX = ("templateID", "sandboxID", "clientID", "envdVersion")
DETAIL = SANDBOX + ("startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state")
ENTRY = ("name", "type", "path", "mode", "permissions", "owner", "group", "modifiedTime")


def has(o, names, what=""):
    """Python's models raise KeyError for what is missing."""
    for n in names:
        ok(n in o, f"{what} {n} is missing in {o}")
    return o


def compact(o):
    return json.dumps(o, separators=(",", ":")).encode()


def indented(o):
    return json.dumps(o, indent=2).encode()


def api(method, target, body=None, sock=None):
    """A call of the control API as httpx makes it."""
    fields = CONTROL + ([("Content-Type", "application/json")] if body is not None else [])
    r = D.ask(method, target, fields, compact(body) if body is not None else None, sock)
    data = r.body()
    out = json.loads(data) if data else None
    if r.status >= 400:
        has(out, ("code", "message"), f"{method} {target}")
        eq(out["code"], r.status)
    return r.status, out, r.fields


class Python:
    """A sandbox as the SDK's Sandbox holds it."""

    def __init__(self, **more):
        status, o, _ = api("POST", "/sandboxes", {
            "templateID": "base", "allow_internet_access": True, "autoPause": False, "autoResume": {"enabled": False},
            "envVars": {}, "metadata": {}, "secure": True, "timeout": 300, **more})
        eq(status, 201, o)
        self.made = has(o, SANDBOX + ("envdAccessToken",), "create")
        self.id, self.token = o["sandboxID"], o["envdAccessToken"]

    def headers(self, port=49983, user=None):
        f = [("E2b-Sandbox-Id", self.id), ("E2b-Sandbox-Port", str(port)), ("User-Agent", "e2b-python-sdk/2.34.0"),
             ("X-Access-Token", self.token)]
        return f + ([("Authorization", "Basic " + base64.b64encode(f"{user}:".encode()).decode())] if user else [])

    def unary(self, method, obj, more=(), user=None, new=False):
        """connect-python's unary call. new: as from 2.35 (pyqwest, lower-case names, a limit of time)."""
        fields = self.headers(user=user) + [("connect-protocol-version", "1"), ("content-encoding", "identity"),
                                            ("content-type", "application/json"), *more]
        if new:
            fields = [(k.lower(), v) for k, v in fields] + [("connect-timeout-ms", "60000"), ("accept-encoding", "identity")]
        r = D.ask("POST", "/" + method, fields, compact(obj) if new else indented(obj))
        ok(r.fields["content-type"].startswith("application/json"), r.fields)
        o = r.json()
        if r.status != 200:
            has(o, ("code", "message"), method)
            ok(isinstance(o["code"], str), o)
        return r.status, o

    def stream(self, method, obj, ms=60000, ping=50, user=None, new=False):
        fields = self.headers(user=user) + [("connect-protocol-version", "1"), ("connect-content-encoding", "identity"),
                                            ("content-type", STREAM)]
        if ms:
            fields.append(("connect-timeout-ms", str(ms)))
        if ping:
            fields.append(("keepalive-ping-interval", str(ping)))
        if new:
            fields = [(k.lower(), v) for k, v in fields] + [("connect-accept-encoding", "identity")]
        r = D.ask("POST", "/" + method, fields, envelope(compact(obj) if new else indented(obj)))
        # connect-python compares without taking parameters off
        eq((r.status, r.fields["content-type"]), (200, STREAM))
        return r

    def start(self, cmd, **kw):
        return self.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", cmd]}, "stdin": kw.pop("stdin", False)}, **kw)

    def run(self, cmd, **kw):
        return self.start(cmd, **kw).command()[1:]

    def form(self, parts, query="", more=()):
        """httpx's multipart: (filename, type, bytes)."""
        mark = hashlib.sha1(repr(parts).encode()).hexdigest()[:32]
        body = b"".join(b'--%s\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\nContent-Type: %s\r\n\r\n%s\r\n'
                        % (mark.encode(), n.encode(), t.encode(), d) for n, t, d in parts) + f"--{mark}--\r\n".encode()
        r = D.ask("POST", "/files" + query, HTTPX + self.headers() + [("Content-Type", f"multipart/form-data; boundary={mark}"), *more], body)
        return r.status, r.json()

    def read(self, path, **query):
        r = D.ask("GET", "/files?" + urllib.parse.urlencode({"path": path, **query}), HTTPX + self.headers())
        return r.status, r.body(), r.fields

    def kill(self):
        return api("DELETE", f"/sandboxes/{self.id}")[0]


@case
def lives_of_sandboxes():
    with D.connect() as s:  # httpx keeps its connection
        p = Python()
        eq(api("GET", "/health", sock=s)[0], 204)
        status, o, _ = api("GET", f"/sandboxes/{p.id}", sock=s)
        eq(status, 200)
        has(o, DETAIL, "info")
        eq((o["state"], o["templateID"]), ("running", "base"))
        eq(api("POST", f"/sandboxes/{p.id}/timeout", {"timeout": 600}, sock=s)[0], 204)
        status, o, _ = api("POST", f"/sandboxes/{p.id}/connect", {"timeout": 300}, sock=s)
        ok(status in (200, 201), status)
        has(o, SANDBOX, "connect")
        eq(api("POST", f"/sandboxes/{p.id}/pause", {"memory": True}, sock=s)[0], 204)
        eq(api("POST", f"/sandboxes/{p.id}/pause", {"memory": True}, sock=s)[0], 409)
        eq(api("GET", f"/sandboxes/{p.id}", sock=s)[1]["state"], "paused")
        eq(D.ask("GET", "/health", p.headers()).status, 502, "a paused one is not running")
        status, o, _ = api("POST", f"/sandboxes/{p.id}/connect", {"timeout": 300}, sock=s)
        eq(status, 201, "resumed")
        has(o, SANDBOX, "connect")
        eq(api("POST", f"/sandboxes/{p.id}/pause", {}, sock=s)[0], 204)
        status, o, _ = api("POST", f"/sandboxes/{p.id}/resume", {"timeout": 60, "autoPause": False}, sock=s)
        eq(status, 201)
        has(o, SANDBOX, "resume")
        eq(api("POST", f"/sandboxes/{p.id}/resume", {"timeout": 60}, sock=s)[0], 409)
        # no body, no Content-Length
        eq([p.kill(), p.kill()], [204, 404])
        for method, path, body in (("GET", "", None), ("POST", "/timeout", {"timeout": 1}), ("POST", "/connect", {"timeout": 1}),
                                   ("POST", "/pause", {"memory": True}), ("GET", "/metrics", None)):
            eq(api(method, f"/sandboxes/{p.id}{path}", body, sock=s)[0], 404, path)


@case
def lists_with_pages():
    some = [Python(metadata={"a": "b c&d", "n": str(i)}) for i in range(3)]
    q = "/v2/sandboxes?metadata=a%3Db%252520c%252526d"
    status, o, f = api("GET", q)
    eq((status, [x["sandboxID"] for x in o]), (200, [p.id for p in reversed(some)]))
    for x in o:
        has(x, DETAIL, "list")
    ok(not f.get("x-next-token"), f)
    seen, token = [], None
    while True:
        status, o, f = api("GET", q + "&limit=2" + (f"&nextToken={urllib.parse.quote(token)}" if token else ""))
        eq(status, 200)
        seen.append([x["sandboxID"] for x in o])
        token = f.get("x-next-token")
        if not token:
            break
    eq(seen, [[some[2].id, some[1].id], [some[0].id]])
    eq(api("GET", "/v2/sandboxes?state=paused&metadata=a%3Db%252520c%252526d")[1], [])
    eq(api("GET", "/v2/sandboxes?limit=0")[0], 400)
    for p in some:
        p.kill()


@case
def processes():
    p = Python(envVars={"FROM": "sandbox"})
    out, err, end = p.run("echo $FROM; echo e >&2; exit 3")
    eq((out, err, end["exitCode"], end["error"]), (b"sandbox\n", b"e\n", 3, "exit status 3"))
    r = p.start("echo up; sleep 600")
    pid = r.message()[1]["event"]["start"]["pid"]
    eq(r.message()[1]["event"]["data"]["stdout"], base64.b64encode(b"up\n").decode())
    status, o = p.unary("process.Process/List", {})
    eq((status, [(has(x, ("config", "pid"), "list")["pid"], x["config"]["cmd"]) for x in o["processes"]]), (200, [(pid, "/bin/bash")]))
    has(o["processes"][0]["config"], ("cmd", "args"), "config")
    late = p.stream("process.Process/Connect", {"process": {"pid": pid}})
    eq(late.message()[1]["event"]["start"]["pid"], pid)
    eq(p.unary("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}), (200, {}))
    for x in (r, late):
        e = x.message()[1]["event"]["end"]
        eq((e.get("exitCode"), e.get("exited", False), e["status"], e["error"]), (-1, False, "signal: killed", "signal: killed"))
        eq(x.message(), (2, {}))
    eq(p.unary("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})[1]["code"], "not_found")
    c = p.stream("process.Process/Connect", {"process": {"pid": 999999}})
    eq(c.message(), (2, {"error": {"code": "not_found", "message": "process with pid 999999 not found"}}))
    c = p.start("true", user="nobodythere")
    eq(c.message()[1]["error"]["code"], "unauthenticated")
    p.kill()


@case
def stdin_and_limits():
    p = Python()
    r = p.start("cat", stdin=True)
    pid = r.message()[1]["event"]["start"]["pid"]
    eq(p.unary("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"abc").decode()}}), (200, {}))
    # padding left out, as protobuf's JSON may
    eq(p.unary("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "ZA"}}, new=True), (200, {}))
    eq(p.unary("process.Process/CloseStdin", {"process": {"pid": pid}}), (200, {}))
    flags, m = r.message()
    got = base64.b64decode(m["event"]["data"]["stdout"])
    while len(got) < 4:
        got += base64.b64decode(r.message()[1]["event"]["data"]["stdout"])
    eq(got, b"abcd")
    eq(r.message()[1]["event"]["end"]["status"], "exit status 0")
    r = p.start("sleep 600", ms=300)
    r.message()
    eq(r.message()[1]["error"]["code"], "deadline_exceeded")
    r = p.start("sleep 2.2", ms=0, ping=1)
    kinds = [next(iter(r.message()[1]["event"])) for _ in range(3)]
    eq(kinds, ["start", "keepalive", "keepalive"], "the start event first, then pings in the silence")
    # a terminal
    r = p.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-i", "-l"], "envs": {"TERM": "xterm-256color"}},
                                           "pty": {"size": {"cols": 80, "rows": 24}}})
    pid = r.message()[1]["event"]["start"]["pid"]
    eq(p.unary("process.Process/Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 99, "rows": 41}}}), (200, {}))
    eq(p.unary("process.Process/SendInput", {"process": {"pid": pid}, "input": {"pty": base64.b64encode(b"stty size; exit 5\n").decode()}}), (200, {}))
    seen, end = b"", None
    while end is None:
        e = r.message()[1]["event"]
        seen += base64.b64decode(e.get("data", {}).get("pty", ""))
        end = e.get("end")
    ok(b"41 99" in seen and end["exitCode"] == 5, (seen, end))
    p.kill()


@case
def files_there_and_back():
    p = Python()
    eq(p.form([("pd/x.txt", "text/plain", "żółć".encode())], "?path=pd%2Fx.txt"),
       (200, [{"path": "/home/user/pd/x.txt", "name": "x.txt", "type": "file"}]))
    status, data, f = p.read("pd/x.txt")
    eq((status, data, f.get("content-encoding", "identity"), f["content-length"]), (200, "żółć".encode(), "identity", "8"))
    status, o = p.form([("m/a", "application/octet-stream", b"\x00\xff"), ("m/b.txt", "text/plain", b"")])
    eq((status, [has(x, ("path", "name", "type"), "upload")["path"] for x in o]), (200, ["/home/user/m/a", "/home/user/m/b.txt"]))
    eq((p.read("m/a")[1], p.read("m/b.txt")[:2]), (b"\x00\xff", (200, b"")), "an empty file is 200 with nothing")
    octets = HTTPX + p.headers() + [("Content-Type", "application/octet-stream")]
    r = D.ask("POST", "/files?path=raw", octets, b"raw")
    eq((r.status, r.json()[0]["path"]), (200, "/home/user/raw"))
    r = D.ask("POST", "/files?path=packed", octets + [("Content-Encoding", "gzip")], gzip.compress(b"p" * 100000))
    eq(r.status, 200)
    eq(p.read("packed")[1], b"p" * 100000)
    # by an iterator: chunked
    with D.connect() as s:
        D.send(s, "POST", "/files?path=chunked", octets + [("Transfer-Encoding", "chunked")])
        for part in (b"one", b"x" * 70000):
            s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        s.sendall(b"0\r\n\r\n")
        eq(apireply(s)[0], 200)
    eq(len(p.read("chunked")[1]), 70003)
    status, o = p.form([("f", "text/plain", b"x")], "?path=f", [("X-Metadata-Author", "me")])
    eq((status, o[0]["metadata"]), (200, {"author": "me"}))
    eq(p.read("f", username="root")[0], 404, "~ of another user")
    for path, want in (("none", 404), ("/etc", 400)):
        status, data, _ = p.read(path)
        has(json.loads(data), ("code", "message"), path)
        eq(status, want)
    p.kill()


def apireply(s):
    from devlib import Reply
    r = Reply(s)
    return r.status, r.body()


@case
def folders():
    p = Python()
    F = "filesystem.Filesystem/"
    p.form([("d/f", "text/plain", b"12345")], "?path=d%2Ff")
    p.form([("d/none", "text/plain", b"")], "?path=d%2Fnone")
    for new in (False, True):
        status, o = p.unary(F + "Stat", {"path": "d/f"}, new=new)
        eq(status, 200)
        has(o["entry"], ENTRY + ("size",), "stat")
        eq((o["entry"]["type"], int(o["entry"]["size"]), o["entry"]["owner"]), ("FILE_TYPE_FILE", 5, "user"))
        status, o = p.unary(F + "ListDir", {"path": "d", "depth": 1}, new=new)
        eq([has(e, ("name", "type", "path"), "entry")["name"] for e in o["entries"]], ["f", "none"])
    eq(int(o["entries"][1].get("size", 0)), 0)
    eq(p.unary(F + "ListDir", {"path": "none", "depth": 1})[1]["code"], "not_found")
    status, o = p.unary(F + "MakeDir", {"path": "new/dir"})
    has(o["entry"], ENTRY, "made")
    eq(p.unary(F + "MakeDir", {"path": "new/dir"})[1]["code"], "already_exists")
    eq(p.unary(F + "MakeDir", {"path": "new/dir"})[0], 409)
    status, o = p.unary(F + "Move", {"source": "d/f", "destination": "e/g"})
    has(o["entry"], ENTRY, "moved")
    eq(o["entry"]["path"], "/home/user/e/g")
    eq(p.unary(F + "Remove", {"path": "e"}), (200, {}))
    eq(p.unary(F + "Stat", {"path": "e"})[1]["code"], "not_found")
    # names of protobuf's own are read as well
    status, o = p.unary(F + "CreateWatcher", {"path": "new", "include_entry": True})
    eq((status, p.unary(F + "RemoveWatcher", {"watcher_id": o["watcherId"]})), (200, (200, {})))
    p.kill()


@case
def watching():
    p = Python()
    F = "filesystem.Filesystem/"
    p.unary(F + "MakeDir", {"path": "w"})
    # the synchronous client polls
    status, o = p.unary(F + "CreateWatcher", {"path": "w", "recursive": False}, [("keepalive-ping-interval", "50")])
    wid = {"watcherId": has(o, ("watcherId",), "watcher")["watcherId"]}
    # the asynchronous one has a stream; its request has no key `recursive`
    r = p.stream(F + "WatchDir", {"path": "w"})
    eq(r.message(), (0, {"start": {}}))
    p.form([("w/f", "text/plain", b"x")], "?path=w%2Ff")
    flags, m = r.message()
    eq((has(m["filesystem"], ("name", "type"), "event")["name"], m["filesystem"]["type"]), ("f", "EVENT_TYPE_CREATE"))
    seen = []

    def polled():
        status, o = p.unary(F + "GetWatcherEvents", wid)
        seen.extend((e["type"], e["name"]) for e in has(o, ("events",), "events")["events"])
        return ("EVENT_TYPE_WRITE", "f") in seen
    until(polled, 20, lambda: seen)
    eq(seen[0], ("EVENT_TYPE_CREATE", "f"))
    eq(p.unary(F + "RemoveWatcher", wid), (200, {}))
    eq(p.unary(F + "GetWatcherEvents", wid)[1]["code"], "not_found")
    p.kill()


@case
def signed_urls():
    p = Python()

    def url(path, verb, user="", at=None):
        text = f"{path}:{verb}:{user}:{p.token}" + (f":{at}" if at is not None else "")
        sig = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        return "/files?" + urllib.parse.urlencode({"path": path, "signature": sig, **({"username": user} if user else {}),
                                                   **({"signature_expiration": at} if at is not None else {})})
    later = int(time.time()) + 600
    plain = HTTPX + [("User-Agent", "python-httpx/0.27.0")]
    r = D.ask("POST", url("s/x", "write", "user", later), plain + [("Content-Type", "application/octet-stream")], b"signed")
    eq((r.status, r.json()[0]["path"]), (200, "/home/user/s/x"))
    eq(D.ask("GET", url("s/x", "read"), plain).body(), b"signed")
    eq(D.ask("GET", url("s/x", "read", "user", later), plain).body(), b"signed")
    r = D.ask("GET", url("s/x", "read", "", later - 1200), plain)
    eq((r.status, r.body()), (401, b'{"code":401,"message":"signature is already expired"}'))
    r = D.ask("GET", url("s/x", "write"), plain)
    eq((r.status, r.json()["message"]), (401, "invalid signature"))
    r = D.ask("GET", "/files?path=s%2Fx", plain + [("E2b-Sandbox-Id", p.id), ("E2b-Sandbox-Port", "49983")])
    eq((r.status, r.json()["message"]), (401, "missing signature query parameter"))
    p.kill()


@case
def code():
    p = Python(templateID="code-interpreter-v1")

    def http(method, target, body=None, port=49999):
        f = HTTPX + [("User-Agent", "python-httpx/0.27.0"), ("E2b-Sandbox-Id", p.id), ("E2b-Sandbox-Port", str(port))]
        if target == "/execute":
            f.append(("X-Access-Token", p.token))
        return D.ask(method, target, f + ([("Content-Type", "application/json")] if body is not None else []),
                     compact(body) if body is not None else None)

    def run(code, **more):
        r = http("POST", "/execute", {"code": code, "context_id": None, "language": None, "env_vars": None, **more})
        eq(r.status, 200)
        out = []
        while (e := r.line_json()) is not None:
            out.append(has(e, ("type",), "event"))
        return out
    out = run("print(1)\n'é'")
    eq([e["type"] for e in out], ["number_of_executions", "stdout", "result", "end_of_execution"])
    has(out[0], ("execution_count",)), has(out[1], ("text", "timestamp")), has(out[2], ("text", "is_main_result"))
    eq((out[1]["text"], out[2]["text"]), ("1\n", "é"))
    e = [e for e in run("1/0") if e["type"] == "error"][0]
    has(e, ("name", "value", "traceback"))
    eq(run("import os; print(os.environ['X'])", env_vars={"X": "mine"})[1]["text"], "mine\n")
    extra = [e for e in run("class R:\n  def _repr_mimebundle_(self, **k): return {'text/plain': 'p', 'application/x-own': {'k': 1}}\nR()") if e["type"] == "result"]
    eq((extra[0]["text"], extra[0]["extra"]), ("p", {"application/x-own": {"k": 1}}))
    c = has(http("POST", "/contexts", {"language": "python", "cwd": "/tmp"}).json(), ("id", "language", "cwd"), "context")
    eq(run("import os; os.getcwd()", context_id=c["id"])[1]["text"], "/tmp")
    eq([has(x, ("id", "language", "cwd"))["language"] for x in http("GET", "/contexts").json()][:2], ["python", "javascript"])
    eq(http("POST", f"/contexts/{c['id']}/restart", {}).body(), b"null")
    eq(http("DELETE", f"/contexts/{c['id']}").status, 200)
    r = http("POST", "/execute", {"code": "1", "context_id": c["id"], "language": None, "env_vars": None})
    eq((r.status, r.body()), (404, f"Context {c['id']} not found".encode()))
    eq(http("GET", "/health").body(), b"OK")
    p.kill()


@case
def metrics_and_network():
    p = Python()
    status, o, _ = api("GET", f"/sandboxes/{p.id}/metrics")
    eq(status, 200)
    has(o[0], ("timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal"), "metric")
    eq(api("PUT", f"/sandboxes/{p.id}/network", {"denyOut": ["0.0.0.0/0"]})[0], 204)
    eq(api("POST", f"/sandboxes/{p.id}/refreshes", {"duration": 60})[0], 204)
    status, o, _ = api("GET", f"/v2/sandboxes/{p.id}/logs")
    has(o["logs"][0], ("timestamp", "message", "level", "fields"), "log")
    p.kill()


@case
def many_requests_on_one_connection():
    """Keep-alive: what one answer leaves unread must not become the next one's."""
    p = Python()
    p.form([("f", "text/plain", b"x" * 100000)], "?path=f")
    with D.connect() as s:
        for i in range(30):
            eq(len(D.ask("GET", "/files?path=f", HTTPX + p.headers(), sock=s).body()), 100000)
            r = D.ask("POST", "/process.Process/List", p.headers() + [("content-type", "application/json")], b"{}", sock=s)
            eq((r.status, r.json()), (200, {"processes": []}), i)
            eq(D.ask("GET", "/nothing", CONTROL, sock=s).json()["code"], 404)
            r = D.ask("POST", "/process.Process/Start", p.headers() + [("content-type", STREAM)],
                      envelope({"process": {"cmd": "/bin/echo", "args": [str(i)]}, "stdin": False}), sock=s)
            eq(r.command()[1], b"%d\n" % i)
            eq(r.some(), b"", "the end of the chunks")
    p.kill()


if __name__ == "__main__":
    sys.exit(apilib.main(D))
