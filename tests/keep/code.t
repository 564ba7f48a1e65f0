#!/usr/bin/python3
"""Code through a keeper: contexts, events, environment, interrupts, deaths, clients that go or do not read."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import BRIG, case, eq, main, ok, until  # noqa: E402
from callclient import Cut, Keeper  # noqa: E402


def keeper(m, **more):
    return Keeper(m, interp=os.path.join(os.path.dirname(BRIG), "brig-interp"), **more)


def start(k, code, **more):
    c = k.call("POST", "/code/execute", {"content-type": "application/json"}, seconds=60)
    c.body(json.dumps({"code": code, **more}).encode()).end()
    c.text = b""
    return c


def event(c):
    """The next event; None at the end. Every line is whole, in ASCII and not empty."""
    while b"\n" not in c.text:
        d = c.some()
        if not d:
            eq(c.text, b"")
            return None
        c.text += d
    line, c.text = c.text.split(b"\n", 1)
    ok(line and all(0x20 <= b < 0x7f for b in line), f"line {line[:100]!r}")
    return json.loads(line)


def rest(c):
    out = []
    while (e := event(c)) is not None:
        out.append(e)
    return out


def run(k, code, **more):
    """(events, what was printed, text of the result, errors)"""
    with start(k, code, **more) as c:
        c.reply()
        eq(c.status, 200, c.status)
        eq(c.fields["content-type"], "application/x-ndjson")
        events = rest(c)
    text = [e.get("text") for e in events if e["type"] == "result" and e["is_main_result"]]
    return (events, "".join(e["text"] for e in events if e["type"] == "stdout"), text[0] if text else None,
            [e for e in events if e["type"] == "error"])


def refused(k, status, **req):
    got = k.ask("POST", "/code/execute", json.dumps(req).encode())
    eq(got[0], status, got[2])
    return got[2].decode()


@case(modes=("root",))
def python(m):
    with keeper(m, env="FROM_SPEC=1") as k:
        eq(k.ask("GET", "/code/health")[::2], (200, b"OK"))
        k.control("claim", {"envVars": {"GLOBAL": "g"}})
        events, out, text, errors = run(k, "print('h\u00e9')\nx = 1; x")
        eq((out, text, errors), ("h\u00e9\n", "1", []))
        eq((events[0], events[-1]), ({"type": "number_of_executions", "execution_count": 1}, {"type": "end_of_execution"}))
        eq([e["timestamp"][-1] for e in events if e["type"] == "stdout"], ["Z"])
        eq(run(k, "x + 1", context_id=None, language="python", env_vars=None)[2], "2")
        eq(run(k, "import os; os.getcwd() + os.environ['GLOBAL'] + os.environ['FROM_SPEC']")[2], "/home/userg1")
        eq(run(k, "os.environ['GLOBAL'] + os.environ['NEW']", env_vars={"GLOBAL": "l", "NEW": "n"})[2], "ln")
        eq(run(k, "os.environ['GLOBAL'] + os.environ.get('NEW', '-')")[2], "g-")
        eq(run(k, "1/0")[3][0]["name"], "ZeroDivisionError")
        r = [e for e in run(k, "import pandas\npandas.DataFrame({'a': [1, 2]})")[0] if e["type"] == "result"][0]
        eq(r["data"], {"a": [1, 2]})
        # one after the other, in the order they came
        a = start(k, "import time; time.sleep(0.2); order = ['a']")
        k.control("stat")
        b = start(k, "order.append('b'); order")
        eq([e.get("text") for e in rest(b.reply()) if e["type"] == "result"], ["['a', 'b']"])
        rest(a.reply())
        a.close(), b.close()
        # a client that goes: its code is interrupted, the next runs, state is kept
        with start(k, "print(1, flush=True)\nwhile True: pass") as c:
            c.reply()
            until(lambda: event(c)["type"] == "stdout", 30, "output")
        eq(run(k, "x")[2], "1")
        # silence
        with start(k, "time.sleep(5.5)") as c:
            eq([e["type"] for e in rest(c.reply())], ["number_of_executions", "keepalive", "end_of_execution"])
        # the kernel dies
        with start(k, "os._exit(3)") as c:
            last = rest(c.reply())
        eq([e["type"] for e in last[-2:]], ["error", "unexpected_end_of_execution"])
        ok("status 3" in last[-2]["value"], last)
        eq(run(k, "'x' in globals()")[2], "False", "a new one")


@case(modes=("root",))
def ready_for_a_pool(m):
    """The answer comes when python is up and warm, or at once where there is none; nothing else was started."""
    with keeper(m) as k:
        eq(k.ask("GET", "/control/ready", seconds=60)[0], 204)
        eq(k.ask("GET", "/control/ready")[0], 204, "again")
        names = run(k, "cat /proc/[0-9]*/comm", language="bash")[1].split()
        ok("python3" in names and "node" not in names, names)
        events = run(k, "len(Out)")[0]
        eq((events[0]["execution_count"], [e["text"] for e in events if e["type"] == "result"]), (1, ["0"]), "without a trace")
    with Keeper(m) as k:
        eq(k.ask("GET", "/control/ready")[0], 204, "without an interpreter")


@case(modes=("root",))
def contexts(m):
    with keeper(m) as k:
        listed = json.loads(k.ask("GET", "/code/contexts")[2])
        eq([(c["language"], c["cwd"]) for c in listed], [("python", "/home/user"), ("javascript", "/home/user")])
        status, _, body = k.ask("POST", "/code/contexts", b'{"language":"bash","cwd":"/tmp"}')
        made = json.loads(body)
        eq((status, made["language"], made["cwd"]), (200, "bash", "/tmp"))
        eq(json.loads(k.ask("GET", "/code/contexts")[2])[-1], made)
        eq(run(k, "X=1; pwd", context_id=made["id"])[1], "/tmp\n")
        eq(run(k, "echo $X", context_id=made["id"])[1], "1\n")
        eq(run(k, "echo ${X:-none}; pwd", language="bash")[1], "none\n/home/user\n", "another of the same language")
        eq(k.ask("POST", f"/code/contexts/{made['id']}/restart")[::2], (200, b"null"))
        eq(run(k, "echo ${X:-none}", context_id=made["id"])[1], "none\n")
        with start(k, "echo begun; sleep 100", context_id=made["id"]) as c:
            c.reply()
            until(lambda: event(c)["type"] == "stdout", 30, "output")
            eq(k.ask("DELETE", f"/code/contexts/{made['id']}")[0], 200)
            eq([e["type"] for e in rest(c)][-1], "unexpected_end_of_execution")
        eq(refused(k, 404, code="1", context_id=made["id"]), f"Context {made['id']} not found")
        eq(k.ask("DELETE", f"/code/contexts/{made['id']}")[0], 404)
        eq(k.ask("POST", f"/code/contexts/{made['id']}/restart")[0], 404)
        eq(k.ask("POST", "/code/contexts/x/y")[0], 404)
        refused(k, 400, code="1", context_id=listed[0]["id"], language="python")
        refused(k, 400, code=1)
        refused(k, 400, code="1", env_vars={"A=B": "1"})
        refused(k, 400, code="1", env_vars=["A"])
        ok("klingon is not served" in refused(k, 500, code="1", language="klingon"), "names the language")
        eq(k.ask("POST", "/code/contexts", b'{"language":"r"}')[0], 500)
        eq(k.ask("POST", "/code/contexts", b'{"cwd":"relative"}')[0], 400)
        eq(k.ask("POST", "/code/contexts", b'{"cwd":"/tmp","cwd":"/"}')[0], 400)
        for _ in range(61):
            eq(k.ask("POST", "/code/contexts", b'{"language":"typescript","cwd":"/nonexistent"}')[0], 200)
        eq(k.ask("POST", "/code/contexts", b'{"language":"typescript"}')[0], 500, "too many")


@case(modes=("root",))
def javascript(m):
    with keeper(m) as k:
        eq(run(k, "import { sep } from 'path'\nconst x = await Promise.resolve(sep); x", language="js")[2], "/")
        eq(run(k, "console.log(x, process.cwd())", language="javascript")[1], "/ /home/user\n")


@case(modes=("root",))
def hostile(m):
    """What shares the sandbox with a kernel can say what it likes in its name."""
    with keeper(m) as k:
        def says(line, more=""):
            return run(k, f"printf '%b\\n' '{line}' >&4{more}; sleep 100", language="bash")
        for bad in ("no json", "{}", "[]", '{"type":"ready","x":1}', '{"type":"stdout"}', '{"type":"stdout","text":1}',
                    '{"type":"stdout","text":"a","text":"b"}', '{"type":"keepalive"}', '{"type":"stdout","text":"\\\\xff"}',
                    '{"type":"result","is_main_result":true,"extra":[]}', '{"type":"number_of_executions","execution_count":-1}',
                    ""):
            events = says(bad)[0]
            eq([e["type"] for e in events[-2:]], ["error", "unexpected_end_of_execution"], bad)
        # forged events are events: they are the context's own word
        eq(run(k, """printf '{"type":"stdout","text":"\\\\u0007"}\\n' >&4""", language="bash")[1], "\x07")
        events = run(k, "head -c 9000000 /dev/zero | tr '\\0' x >&4; sleep 100", language="bash")[0]
        eq(events[-1]["type"], "unexpected_end_of_execution", "an endless line")
        events = run(k, """(printf '{"type":"result","is_main_result":true,"extra":{"a":['; yes 1, | head -n 300000; echo '1]}}') | tr -d '\\n' >&4; echo >&4; sleep 100""",
                     language="bash")[0]
        eq(events[-1]["type"], "unexpected_end_of_execution", "too many values")
        # a program in the place of brig-interp
        run(k, "printf '#!/bin/sh\\nwhile :; do echo garbage; done\\n' > /run/new; chmod +x /run/new; mv /run/new /run/brig-interp", language="bash")
        status, _, body = k.ask("POST", "/code/contexts", b'{"language":"bash"}')
        refused(k, 500, code="1", context_id=json.loads(body)["id"])
        eq(run(k, "echo $?", language="bash")[1], "0\n", "others go on")


@case(modes=("root",))
def slow_clients(m):
    with keeper(m) as k:
        with start(k, "yes 0123456789 | head -c 20000000", language="bash") as c:
            c.reply()
            eq(run(k, "echo other", context_id=json.loads(k.ask("POST", "/code/contexts", b'{"language":"bash"}')[2])["id"])[1],
               "other\n", "others are not held up")
            eq(sum(len(e["text"]) for e in rest(c) if e["type"] == "stdout"), 20000000)
        with start(k, "while :; do echo 0123456789; done", language="bash") as c:
            c.reply()  # and goes without reading
        eq(run(k, "echo next", language="bash")[1], "next\n")
        with start(k, "print(1, flush=True); import time; time.sleep(100)") as c:
            c.reply()
            until(lambda: event(c)["type"] == "stdout", 30, "output")
            k.p.terminate()
            try:
                rest(c)
                ok(False, "the end of the sandbox is a cut")
            except Cut:
                pass
        k.how()


@case(modes=("root",))
def without(m):
    with Keeper(m) as k:
        eq(refused(k, 501, code="1"), "The template of this sandbox has no code interpreter")
        eq(k.ask("GET", "/code/contexts")[0], 501)
        eq(k.ask("GET", "/code/health")[0], 501)


sys.exit(main())
