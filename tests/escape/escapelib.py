"""What the attacks of this folder are, how one is run, and how its result is judged.

An attack is a C file whose head comment has these rows (a row may go on in the next line, indented):

  group     the group of the matrix it belongs to
  tries     one line for the matrix
  control   where it must succeed: `plain` (an unprivileged process beside the scene), `ns` (root of throw-away
            namespaces), `guest` (root in the virtual machine: what would change a machine, or needs real root)
  shows     words of evidence (stage.py) the control must leave; inside there must be none
  leak      what the caller leaves open: dir canary root pidfd ns socket
  run       more options of `brig run`
  host      NAME=MOST...: what the machine may have less of meanwhile (class Host of stage.py); more is the evidence host-NAME
  tty       yes: on a terminal
  workdir   leak: starts in the leaked folder, `--workdir /proc/self/fd/N`
  only      root or user: callers it applies to, default both
  tiers     tiers it applies to, default all
  brig-refuses  yes: brig itself may refuse to start it (exit 125)
  once      yes: as root only as the image's user; whose limits they are makes no difference
  overlay-is-own  yes: with --root overlay what it changes is the sandbox's own copy, so the evidence alone counts
  no-control    KEY reason; KEY reason: attempts that work nowhere here, with their reason

Evidence from outside decides; the attacker's own words only add to it.

An attack that is more than a program in a sandbox (somebody beside brig while it copies, a reader that does not read) is
a Python file of tests/escape/scenes. Its docstring has the rows group, tries, only and tiers; it has two functions that take a
Mode of brigtest and return {KEY: what was seen}: control, where what is seen must be the damage, and inside, where it must be
"" for each KEY the control had.
"""
import ast
import fcntl
import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILT = os.path.join(ROOT, "build", "tests", "escape")
RESULTS = os.path.join(ROOT, "build", "escape.json")
FIELDS = {"group", "tries", "control", "shows", "leak", "run", "host", "tty", "workdir", "only", "tiers", "brig-refuses",
          "overlay-is-own", "once", "no-control"}
NAMESPACES = ["unshare", "-Urmnpiu", "--fork", "--kill-child", "--mount-proc"]
PY = "/usr/bin/python3"
HOST_RUNS, HOST_SECONDS, HOST_REST = 5, 150, 3


def rows_of(path, head, need):
    """The rows of a head comment or docstring."""
    rows = dict.fromkeys(FIELDS, "")
    key = None
    for line in head.splitlines():
        m = re.match(r"([a-z-]+):\s+(.*)", line)
        if m and (m[1] in FIELDS or key):
            key = m[1]
            if key not in FIELDS:
                raise ValueError(f"{path}: no row '{key}:'")
            rows[key] = m[2].strip()
        elif key and re.match(r"\s{2,}\S", line):
            rows[key] += " " + line.strip()
    for n in need:
        if not rows[n]:
            raise ValueError(f"{path}: the head has no '{n}:'")
    return rows


class Attack:
    def __init__(self, path):
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as f:
            head = f.read().split("*/")[0]
        rows = rows_of(path, re.sub(r"^ \* ?", "", head, flags=re.M), ("group", "tries", "control"))
        if rows["control"] not in ("plain", "ns", "guest"):
            raise ValueError(f"{path}: control: {rows['control']}")
        self.group, self.tries, self.control = rows["group"], rows["tries"], rows["control"]
        self.shows = set(rows["shows"].split())
        self.leak, self.run, self.tty = rows["leak"], rows["run"].split(), rows["tty"] == "yes"
        self.host = rows["host"].split()
        unseen = {"host-" + h.split("=")[0] for h in self.host} - self.shows
        if unseen:
            raise ValueError(f"{path}: shows: has no {' '.join(sorted(unseen))}")
        self.workdir, self.may_refuse = rows["workdir"] == "leak", rows["brig-refuses"] == "yes"
        self.once = rows["once"] == "yes"
        self.overlay_is_own = rows["overlay-is-own"] == "yes"
        self.callers = rows["only"].split() or ["root", "user"]
        self.tiers = rows["tiers"].split()
        self.no_control = dict(x.strip().split(" ", 1) for x in rows["no-control"].split(";") if x.strip())

    def program(self, folder=BUILT):
        return os.path.join(folder, self.name)

    def stage_options(self):
        return ["--leak", self.leak, *(["--tty"] if self.tty else []), *(w for h in self.host for w in ("--host", h))]


class Scene:
    """An attack of tests/escape/scenes."""
    control, no_control = "plain", {}

    def __init__(self, path):
        self.name, self.path = os.path.splitext(os.path.basename(path))[0], path
        with open(path, encoding="utf-8") as f:
            rows = rows_of(path, ast.get_docstring(ast.parse(f.read())) or "", ("group", "tries"))
        self.group, self.tries = rows["group"], rows["tries"]
        self.callers, self.tiers = rows["only"].split() or ["root", "user"], rows["tiers"].split()

    def module(self):
        spec = importlib.util.spec_from_file_location(self.name, self.path)
        m = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(m)
        return m


def scenes():
    return {s.name: s for s in (Scene(p) for p in sorted(glob.glob(os.path.join(HERE, "scenes", "*.py"))))}


def attacks():
    """Every program of the folder, by name. victim.c is the scene's."""
    paths = sorted(glob.glob(os.path.join(HERE, "*.c")))
    return {a.name: a for a in (Attack(p) for p in paths if not p.endswith("/victim.c"))}


def provide(folder):
    """The stage and the programs, where any caller can reach them."""
    for src in [os.path.join(HERE, "stage.py"), *(os.path.join(BUILT, n) for n in ["victim", *attacks()])]:
        if not os.path.exists(src):
            raise AssertionError(f"{src} is missing: make attacks")
        shutil.copy(src, folder)
        os.chmod(os.path.join(folder, os.path.basename(src)), 0o755)


def control_argv(a, folder):
    """The attack without the wall, in its scene."""
    argv = [PY, os.path.join(folder, "stage.py"), *a.stage_options(), *(["--workdir-leak"] if a.workdir else []),
            "--", a.program(folder), "{args}"]
    return NAMESPACES + argv if a.control == "ns" else argv


def inside_argv(a, folder, brig, options):
    """The attack in a sandbox; brig is `brig run` with its tier, options what this variant adds."""
    opts = [*a.run, *options, *(["-it"] if a.tty else []), *(["--workdir", "/proc/self/fd/{leak}"] if a.workdir else [])]
    return [PY, os.path.join(folder, "stage.py"), *a.stage_options(), "--watch", brig[0], "--watch",
            os.path.join(os.path.dirname(brig[0]), "brig-init"), "--", *brig, *opts,
            "--file", f"{a.program(folder)}:/workspace/attack", "--", "/workspace/attack", "{args}"]


class Report:
    """What stage.py printed, taken apart."""

    def __init__(self, text):
        j = json.loads(text)
        self.rc, self.out, self.err, self.evidence = j["rc"], j["out"], j["err"], set(j["evidence"])
        self.got, self.refused, self.ended = {}, {}, False
        for line in self.out.splitlines():
            w = line.rstrip("\r").split(" ", 2)
            if w[0] == "got" and len(w) > 1:
                self.got[w[1]] = w[2] if len(w) > 2 else ""
            elif w[0] == "refused" and len(w) > 2:
                self.refused[w[1]] = w[2]
            elif w == ["end"]:
                self.ended = True

    def __repr__(self):
        return f"rc={self.rc} out={self.out[-1500:]!r} err={self.err[-500:]!r} evidence={sorted(self.evidence)}"


def of_host(words):
    return {w for w in words if w.startswith("host-")}


def settled(a, stage, inside):
    """The report of stage(). What the machine had less of may be its other users' doing: in a sandbox it counts when it
    shows in each of HOST_RUNS runs and of all that fit into HOST_SECONDS, of a control when it shows in one of HOST_RUNS.
    Everything else counts whenever it shows."""
    r = stage()
    runs, end = 1, time.monotonic() + (HOST_SECONDS if inside else 0)
    while runs < HOST_RUNS or time.monotonic() < end:
        if (not of_host(r.evidence)) if inside else of_host(a.shows) <= r.evidence:
            break
        if runs >= HOST_RUNS:
            time.sleep(HOST_REST)  # the others' work may take a while
        runs += 1
        more, host = stage(), of_host(r.evidence)
        host = host & more.evidence if inside else host | of_host(more.evidence)
        r.evidence = (r.evidence | more.evidence) - of_host(r.evidence | more.evidence) | host
        r.got.update(more.got)
        r.ended = r.ended and more.ended
    return r


def judge_control(a, r):
    """What is wrong with a control: everything it tries must work, and be seen from outside."""
    bad = [f"{k}: not possible without the wall either (errno {e})" for k, e in r.refused.items()
           if k not in a.no_control]
    bad += [f"{k}: works here, so its no-control is wrong" for k in r.got if k in a.no_control]
    if a.shows - r.evidence:
        bad.append(f"no evidence of {' '.join(sorted(a.shows - r.evidence))}")
    if not r.ended and "victim-signalled" not in a.shows:
        bad.append("did not come to its end")
    if not r.got:
        bad.append("nothing worked")
    return bad


def judge_inside(a, r, options):
    """What is wrong inside a sandbox: anything that worked, any evidence, an attack that did not run."""
    own = a.overlay_is_own and "overlay" in options
    bad = [] if own else [f"{k} worked: {v}" for k, v in r.got.items()]
    bad += [f"evidence: {w}" for w in sorted(r.evidence)]
    if a.may_refuse and r.rc == 125 and not r.out:
        return bad
    if not r.ended:
        bad.append("the attack did not come to its end")
    elif not r.refused and not own:
        bad.append("the attack tried nothing")
    return bad


def load():
    try:
        with open(RESULTS, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {"attacks": {}}


def record(name, column, **what):
    """One cell of build/escape.json; columns are control, root, user."""
    with open(RESULTS + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test files may run at once
        all_ = load()
        all_["attacks"].setdefault(name, {})[column] = what
        all_["kernel"] = os.uname().release
        with open(RESULTS + ".new", "w", encoding="utf-8") as f:
            json.dump(all_, f, indent=1, sort_keys=True)
        os.replace(RESULTS + ".new", RESULTS)


def can_make_namespaces():
    return subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode == 0
