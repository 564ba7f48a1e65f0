#!/usr/bin/python3
"""Under load, brigd, brig-spawn, keepers, runners and agents are killed at random moments. After each kill a model of what
was promised is set against what is there: a sandbox that was given to somebody lives, or has ended and is recorded once;
nothing else is there, as process, cgroup, record, file or mount.

BRIG_KILLS: kills per kind of caller (default 15, with BRIG_SOAK=1 200), BRIG_SEED: where they strike."""
import os
import random
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from brigtest import case, eq, goes_on, main, ok, until  # noqa: E402
from apilib import LIVE, OVER  # noqa: E402
from realworld import CUT, RealWorld  # noqa: E402
import reap  # noqa: E402

KILLS = int(os.environ.get("BRIG_KILLS", "200" if os.environ.get("BRIG_SOAK") else "15"))
SEED = int(os.environ.get("BRIG_SEED", str(random.SystemRandom().randrange(1 << 32))))
CLIENTS, BOXES, LONG_S = 4, 3, 3600
# how often each is struck; "down" leaves brigd away while a life span ends
VICTIMS = {"brigd": 4, "spawn": 4, "keeper": 3, "runner": 3, "agent": 3, "brigd spawn": 2, "keeper runner": 2, "spawn keeper": 1,
           "spawn keeper runner": 2, "down": 2}
print(f"# BRIG_SEED={SEED} BRIG_KILLS={KILLS}")


class Box:
    """What a client was promised."""

    def __init__(self, tenant, answer, seq, earliest, latest):
        self.tenant, self.answer, self.id, self.seq = tenant, answer, answer["sandboxID"], seq
        self.earliest, self.latest = earliest, latest  # of the end of its life span
        self.killed = None  # True: that was confirmed; "asked": nobody knows
        self.hit = False  # a process of its own was killed
        self.files = {}

    def may_be_gone(self):
        return self.killed or self.hit or time.time() >= self.earliest

    def must_be_gone(self):
        return self.killed is True or time.time() > self.latest + 5


class Load:
    """Clients who create, use and end sandboxes, until they are told to pause."""

    def __init__(self, w, seed):
        self.w, self.cond = w, threading.Condition()
        self.active, self.paused, self.stop = 0, False, False
        self.kills = 0  # one more before a kill, and one more when those who serve are back
        self.boxes, self.unanswered, self.failures, self.seq = {}, {}, [], 0
        self.done = {}
        self.threads = [threading.Thread(target=self.client, args=(random.Random(seed + i), tenant), daemon=True)
                        for i, tenant in zip(range(CLIENTS), ("acme", "rival") * CLIENTS)]
        for t in self.threads:
            t.start()

    def client(self, rnd, tenant):
        mine = []
        while True:
            with self.cond:
                self.cond.wait_for(lambda: not self.paused)
                if self.stop:
                    return
                self.active += 1
            try:
                self.step(rnd, tenant, mine)
            except Exception as e:  # pylint: disable=broad-except
                self.failures.append(f"{type(e).__name__}: {e}")
            with self.cond:
                self.active -= 1
                self.cond.notify_all()

    def pause(self):
        with self.cond:
            self.paused = True
            ok(self.cond.wait_for(lambda: self.active == 0, 200), "a request hangs")
        ok(not self.failures, lambda: f"clients saw: {self.failures[:5]}")

    def go_on(self):
        with self.cond:
            self.paused = False
            self.cond.notify_all()

    def end(self):
        self.stop = True
        self.go_on()
        for t in self.threads:
            t.join(200)

    def count(self, what):
        with self.cond:
            self.done[what] = self.done.get(what, 0) + 1

    # ---- what a client does ----

    def step(self, rnd, tenant, mine):
        mine[:] = [b for b in mine if not b.may_be_gone()]
        if len(mine) < BOXES:
            self.create(tenant, rnd.choice(("base", "base", "warm")), rnd.choice((1, LONG_S, LONG_S)), mine)
            return
        box = rnd.choice(mine)
        rnd.choice((self.execute, self.execute, self.transfer, self.look, self.kill))(rnd, box)

    def create(self, tenant, template, seconds, mine):
        with self.cond:
            self.seq += 1
            seq = str(self.seq)
            self.unanswered[seq] = tenant
        begun = time.time()
        try:
            s, _, b = self.w.api(tenant, "POST", "/v2/sandboxes", {"templateID": template, "timeout": seconds,
                                                                  "metadata": {"seq": seq}})
        except (ConnectionRefusedError, FileNotFoundError):
            with self.cond:  # nobody heard it
                del self.unanswered[seq]
                self.cond.wait(0.02)
            return None
        except CUT:
            return None
        if s == 201:
            box = Box(tenant, b, seq, begun + seconds, time.time() + seconds)
            with self.cond:
                self.boxes[box.id] = box
            mine.append(box)
            self.count("create")
        elif s != 503:
            raise AssertionError(f"create: {s} {b}")
        with self.cond:  # refused: there is none
            del self.unanswered[seq]
        return box if s == 201 else None

    def calm(self, kills, box=None):
        """Nothing has happened that could excuse a failure."""
        return self.kills == kills and kills % 2 == 0 and not (box and box.may_be_gone())

    def execute(self, rnd, box):
        word, kills = f"{rnd.randrange(1 << 40):x}", self.kills
        try:
            s, out, end = self.w.run(box.answer, "/bin/sh", "-c", f"echo {word}; exit 3")
        except CUT as e:
            if self.calm(kills, box):
                raise AssertionError(f"exec in {box.id} was cut: {e!r}") from e
            return
        if end is None and not self.calm(kills, box):
            return
        got = (s, out, (end or {}).get("exitCode"))
        if got != (200, word.encode() + b"\n", 3):
            raise AssertionError(f"exec in {box.id}: {got} {end}")
        self.count("exec")

    def transfer(self, rnd, box):
        name, data, kills = f"/tmp/{rnd.randrange(4)}", rnd.randbytes(rnd.choice((10, 300000))), self.kills
        try:
            s, _, b = self.w.in_box(box.answer, "POST", f"/files?path={name}", data, Content_Type="application/octet-stream")
            if s == 200:
                box.files[name] = data
                s, _, b = self.w.in_box(box.answer, "GET", f"/files?path={name}")
        except CUT as e:
            box.files.pop(name, None)
            if self.calm(kills, box):
                raise AssertionError(f"a file of {box.id} was cut: {e!r}") from e
            return
        if s != 200:
            box.files.pop(name, None)
        if (s, b) != (200, data) and (s == 200 or self.calm(kills, box)):
            raise AssertionError(f"a file of {box.id}: {s}, {len(b)} bytes for {len(data)} {b[:100]!r}")
        self.count("file")

    def look(self, rnd, box):
        """It is shown and listed, and not to the other tenant."""
        kills, other = self.kills, "rival" if box.tenant == "acme" else "acme"
        try:
            s = self.w.api(box.tenant, "GET", f"/sandboxes/{box.id}")[0]
            t = self.w.api(other, rnd.choice(("GET", "DELETE")), f"/sandboxes/{box.id}")[0]
        except CUT as e:
            if self.calm(kills):
                raise AssertionError(f"brigd cut a request: {e!r}") from e
            return
        eq(t, 404, "to the other tenant")
        if s != 200 and not box.may_be_gone():
            raise AssertionError(f"{box.id} was given and is not there: {s}")
        self.count("look")

    def kill(self, rnd, box):
        kills = self.kills
        box.killed = "asked"
        try:
            s, _, b = self.w.api(box.tenant, "DELETE", f"/sandboxes/{box.id}")
        except CUT as e:
            if self.calm(kills):
                raise AssertionError(f"brigd cut a kill: {e!r}") from e
            return
        if s == 204:
            box.killed = True
            self.count("kill")
        elif s not in (404, 503):
            raise AssertionError(f"kill of {box.id}: {s} {b}")


def wrong(w, load):
    """None, or the first thing that is not as it must be. Some need a moment: it is asked again."""
    listed, entries = w.listed(), w.entries()
    live = {i for i, t in entries.items() if t.value == LIVE}
    for i, t in entries.items():
        if t.value == OVER:
            return f"{i} is over and not forgotten"
        if t.value != LIVE:
            return f"{i} is starting"
    pooled = live - set(listed)
    if not set(listed) <= live:
        return f"listed, and there is none: {set(listed) - live}"
    if len(pooled) > w.pool or any(entries[i].tenant != "pool" for i in pooled):
        return f"sandboxes of nobody: {[(i, entries[i].tenant) for i in pooled]}"
    # brigd's store
    rows = w.rows("SELECT id, state FROM live")
    if sorted(rows) != sorted((i, "running") for i in listed):
        return f"rows {rows} for {sorted(listed)}"
    ended = dict(w.rows("SELECT id, how FROM ended"))
    if set(ended) & set(listed):
        return f"ended and listed: {set(ended) & set(listed)}"
    twice = w.rows("SELECT id FROM log WHERE message LIKE 'ended%' GROUP BY id HAVING count(*) != 1")
    if twice:
        return f"ended more than once: {twice}"
    told = {r[0] for r in w.rows("SELECT id FROM log WHERE message LIKE 'ended%'")}
    if told != set(ended):
        return f"ends without a line, or lines without an end: {told ^ set(ended)}"
    # the promises
    for box in list(load.boxes.values()):
        if box.id in listed:
            tenant, e = listed[box.id]
            if (tenant, e["metadata"]["seq"]) != (box.tenant, box.seq):
                return f"{box.id} is {tenant}'s, {e['metadata']}"
            if box.must_be_gone():
                return f"{box.id} lives: killed {box.killed}, {time.time() - box.latest:.0f} s over its time"
        elif not box.may_be_gone():
            return f"{box.id} is lost: {ended.get(box.id)}"
        elif box.id not in ended:
            return f"{box.id} has no record"
        elif not (ended[box.id] in ("killed", "timeout") or box.hit):
            return f"{box.id} ended by '{ended[box.id]}'"
    seqs = [e["metadata"]["seq"] for i, (_, e) in listed.items() if i not in load.boxes]
    if len(seqs) != len(set(seqs)) or not set(seqs) <= set(load.unanswered):
        return f"sandboxes nobody asked for: {seqs}"
    strangers = set(ended) - set(load.boxes)
    if len(strangers) + len(seqs) > len(load.unanswered):
        return f"{len(strangers)} ends and {len(seqs)} sandboxes of {len(load.unanswered)} creates that had no answer"
    # what the host has
    want = {f"{i}.{k}" for i in live for k in ("box", "sock", "end")}
    if w.files() != want:
        return f"files: {w.files() ^ want}"
    if w.record_ids() != live:
        return f"records: {w.record_ids() ^ live}"
    left = w.cgroup_ids() - live
    if left:
        return f"cgroups: {left}"
    n = w.processes()
    if (n.get("brig-keeper", 0), n.get("brig-runner", 0), n.get("init", 0)) != (len(live),) * 3 or set(n) > {
            "brigd", "brig-spawn", "brig-keeper", "brig-runner", "init", "inside"}:
        return f"processes for {len(live)} sandboxes: {n}"
    if reap.mounts(w.m.base):
        return f"mounts: {reap.mounts(w.m.base)}"
    return None


def served(w, load):
    """Those that live answer, with the files they were given."""
    listed = w.listed()
    for box in list(load.boxes.values()):
        if box.id not in listed or box.may_be_gone():
            continue
        try:
            got = {"health": w.in_box(box.answer, "GET", "/health")[0]}
            for name in box.files:
                s, _, b = w.in_box(box.answer, "GET", f"/files?path={name}")
                got[name] = b if s == 200 else s
        except CUT as e:
            got = repr(e)
        if not box.may_be_gone():  # its life span may have ended meanwhile
            ok(got == {"health": 204, **box.files}, f"{box.id} does not answer as it should: {got!r:.300}")


def strike(w, load, rnd):
    """Kill somebody; everybody who serves is back when this returns. Returns who it was."""
    victim = rnd.choice([v for v, n in VICTIMS.items() for _ in range(n)])
    words = victim.split()
    box = rnd.choice([t for t in w.entries().values() if t.value == LIVE] or [None])
    pids = []
    if box is not None and set(words) & {"keeper", "runner", "agent"}:
        below = reap.below(box.pid)
        pids = {"keeper": [box.pid], "runner": [p for p in below if len(reap.ns_pids(p)) == 1],
                "agent": [p for p in below if reap.ns_pids(p)[-1:] == [1] and len(reap.ns_pids(p)) > 1]}
        pids = [p for word in words for p in pids.get(word, [])]
        if box.id in load.boxes:
            load.boxes[box.id].hit = True
        else:
            victim += " of nobody's"
            hit_later.add(box.id)
    doomed = None
    if victim == "down":
        doomed = load.create("acme", "base", 1, [])
    load.kills += 1
    rnd.shuffle(words)
    for word in words:
        if word in ("brigd", "down"):
            w.kill_brigd()
        elif word == "spawn":
            w.kill_spawn()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if doomed is not None:
        until(lambda: doomed.id + ".sock" not in w.files(), 60, "its life span ends while brigd is down")
    for word in words:
        if word == "spawn":
            w.start_spawn()
    for word in words:
        if word in ("brigd", "down"):
            w.start_brigd()
    load.kills += 1
    return victim


hit_later = set()  # struck when no client had them yet: from the pool, or their create was not answered


@case
def killed_at_random_moments(m):
    rnd, w = random.Random(SEED), RealWorld(m)
    load, struck = Load(w, SEED), {}
    try:
        for i in range(KILLS):
            goes_on()
            time.sleep(rnd.random() * rnd.choice((0.02, 0.3)))  # the moment is the random one
            who = strike(w, load, rnd)
            struck[who] = struck.get(who, 0) + 1
            load.pause()
            for i in hit_later & set(load.boxes):
                load.boxes[i].hit = True
            until(lambda: wrong(w, load) is None, 60, lambda who=who, i=i: f"after kill {i} ({who}): {wrong(w, load)}; {w.complaints()}")
            served(w, load)
            load.go_on()
    finally:
        load.end()
    for i, (tenant, _) in w.listed().items():
        ok(w.api(tenant, "DELETE", f"/sandboxes/{i}")[0] in (204, 404), "the last ones are ended")
    print(f"# struck: {struck}; clients: {load.done}; {len(load.unanswered)} creates had no answer; "
          f"{len(w.rows('SELECT id FROM ended'))} ends")
    w.close()


if __name__ == "__main__":
    sys.exit(main())
