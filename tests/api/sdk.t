#!/usr/bin/env python3
"""The unmodified SDKs against brigd and real sandboxes: each file of tests/api/sdk, for two versions of each SDK.

What they were seen to do is docs/sdk-matrix.md, which must be what this run saw: `make sdk-matrix` writes it anew.
BRIG_SDK_STATE is a state folder whose images are used, and adds what is said of the image itself (tests/recipes/sdk.t). BRIG_CASES picks files (`BRIG_CASES='git e2b$'`), BRIG_SDK_CASES cases of a file."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.dirname(os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig"))))
MATRIX = os.path.join(ROOT, "docs", "sdk-matrix.md")

CORE, CODE = ("e2b", "e2b-v1"), ("@e2b/code-interpreter", "code-interpreter-older")
# file, what it is about, packages
FILES = [("lifecycle", "Sandboxes", CORE), ("lists", "Lists", CORE), ("pause", "Pause and resume", CORE),
         ("commands", "Commands", CORE), ("pty", "Terminals", CORE), ("files", "Files", CORE), ("watch", "Watching", CORE),
         ("signed", "Signed URLs", CORE), ("git", "The git helper", CORE), ("network", "Network, ports, figures", CORE),
         ("errors", "Refusals and their exceptions", CORE), ("code", "Code and contexts", CODE), ("results", "Results of code", CODE)]
IMAGE = ("image", "The image", CODE)
SMALL = """version: 1
listen: 127.0.0.1:0
state: {dir}/state
spawn: {dir}/spawn.sock
max_sandboxes: 3
max_timeout: 1h
templates:
  base: {{alias: [first], image: host}}
  small: {{profile: {dir}/small.yaml, image: host}}
"""


def skip(why):
    print("not ok 1 - the SDKs # " + why if os.environ.get("BRIG_MUST_RUN") else "ok 1 - the SDKs # SKIP " + why)
    print("1..1")
    sys.exit(1 if os.environ.get("BRIG_MUST_RUN") else 0)


class Server:
    """brigd, and what its clients' environment is."""

    def __init__(self, argv, env, lines):
        self.err = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self.p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.err, text=True, env=env)
        self.said = [self.p.stdout.readline() for _ in range(lines)]
        self.env = {k: v for k, v in os.environ.items() if k != "E2B_DEBUG"}

    def failed(self):
        self.err.seek(0)
        return SystemExit(f"brigd did not start: {self.said} {self.err.read()!r}")

    def end(self):
        """What is wrong with its end."""
        self.p.terminate()
        rc = self.p.wait(timeout=60)
        self.err.seek(0)
        text = self.err.read().decode()
        return f"{rc} {text!r}" if rc != 0 or text else ""


def key(state, *words):
    return subprocess.run([os.path.join(BUILD, "brigd"), "--state", state, "key", "create", *words], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()


def dev(folder):
    """`brigd --dev`."""
    s = Server([os.path.join(BUILD, "brigd"), "--dev", "--port", "0"], {**os.environ, "BRIG_STATE": folder}, 3)
    for line in s.said:
        m = re.fullmatch(r"export (\w+)=(\S+)\n", line)
        if not m:
            raise s.failed()
        s.env[m.group(1)] = m.group(2)
    s.env["E2B_OTHER_KEY"] = key(dev_state(s.p.pid), "--tenant", "rival")
    return s


def dev_state(pid):
    """The throw-away state folder: the one brigd has its database in."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = os.readlink(f"/proc/{pid}/fd/{fd}")
        if path.endswith("/brigd.db"):
            return os.path.dirname(path)
    raise SystemExit("brigd has no database open")


def small(folder):
    """A brigd with little to give, its brig-spawn beside it."""
    config = os.path.join(folder, "brigd.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(SMALL.format(dir=folder))
    with open(os.path.join(folder, "small.yaml"), "w", encoding="utf-8") as f:
        f.write("version: 1\ndisk: 8M\npids: 12\nmemory: 128M\n")
    env = {**os.environ, "BRIG_STATE": folder}
    spawn = subprocess.Popen([os.path.join(BUILD, "brig-spawn"), "--config", config, "--box", os.path.join(folder, "box")], env=env)
    s = Server([os.path.join(BUILD, "brigd"), "--config", config], env, 1)
    s.spawn = spawn
    m = re.search(r"listening on (\S+)", s.said[0])
    if not m:
        raise s.failed()
    state = os.path.join(folder, "state")
    s.env.update(E2B_API_KEY=key(state), E2B_API_URL=f"http://{m.group(1)}", E2B_SANDBOX_URL=f"http://{m.group(1)}",
                 E2B_READ_KEY=key(state, "--scopes", "read"))
    return s


class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def line(self, good, words, more=""):
        self.n += 1
        self.bad += not good
        print(f"{'' if good else 'not '}ok {self.n} - {words}", flush=True)
        for x in more.splitlines():
            print("# " + x)


def node(folder, env, file, name):
    """What one file said for one version, and how long it took."""
    begun = time.monotonic()
    r = subprocess.run([os.path.join(folder, "bin", "node"), os.path.join(HERE, "sdk", file + ".mjs")],
                       env={**env, "BRIG_SDK": folder, "BRIG_SDK_NAME": name}, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
    return r.stdout, time.monotonic() - begun


def run(tap, folder, env, file, names):
    """One file for every version, at the same time: {(file, name): {case: it passed}}."""
    out = {}
    with concurrent.futures.ThreadPoolExecutor(1 if file == "errors" else len(names)) as pool:
        for name, (text, seconds) in zip(names, pool.map(lambda n: node(folder, env, file, n), names)):
            print(f"# {file}, {name}: {seconds:.1f} s")
            out[file, name] = told(tap, file, name, text)
    return out


def told(tap, file, name, text):
    seen, plan = {}, False
    for line in text.splitlines():
        m = re.match(r"(not )?ok \d+ - (.*)", line)
        plan = plan or re.fullmatch(r"1\.\.\d+", line)
        if m:
            seen[m.group(2)] = m.group(1) is None
            tap.line(m.group(1) is None, f"{file}, {name}: {m.group(2)}")
        elif not plan:
            print(line if line.startswith("#") else "# " + line)
    if not plan:
        tap.line(False, f"{file}, {name}: comes to its end")
    return seen


def version(folder, name):
    """npm's name of the package and its version, and of the core an interpreter is built on."""
    def read(*path):
        with open(os.path.join(folder, "node_modules", *path, "package.json"), encoding="utf-8") as f:
            return json.load(f)
    p = read(name)
    own = os.path.join(name, "node_modules", "e2b")
    core = ""
    if "e2b" in p.get("dependencies", {}):
        core = " (on e2b " + read(own if os.path.isdir(os.path.join(folder, "node_modules", own)) else "e2b")["version"] + ")"
    return f"{p['name']} {p['version']}{core}"


def table(folder, seen):
    """docs/sdk-matrix.md."""
    out = ["# What the SDKs do against brigd", "",
           "E2B's npm packages, unmodified, against `brigd` and real sandboxes of the container tier. Written by `make sdk-matrix` from what",
           "`tests/api/sdk.t` saw; that test fails when this file says anything else.", ""]
    for file, title, names in FILES:
        out += [f"## {title}", "", "| `tests/api/sdk/" + file + ".mjs` | " + " | ".join(version(folder, n) for n in names) + " |",
                "|---|" + "---|" * len(names)]
        cases = list(dict.fromkeys(c for n in names for c in seen[file, n]))
        for c in cases:
            words = [{True: "yes", False: "**no**", None: "-"}[seen[file, n].get(c)] for n in names]
            out.append("| " + c.replace("|", "\\|") + " | " + " | ".join(words) + " |")
        out.append("")
    return "\n".join(out)


def main():
    got = subprocess.run([os.path.join(HERE, "sdk", "fetch.sh")], stdout=subprocess.PIPE, text=True, check=False)
    if got.returncode != 0:
        skip("they cannot be fetched")
    folder, tap, seen = got.stdout.strip(), Tap(), {}
    want = re.compile(os.environ.get("BRIG_CASES", ""))
    with tempfile.TemporaryDirectory(prefix="brigd-sdk-") as one, tempfile.TemporaryDirectory(prefix="brigd-sdk-") as two:
        servers = {"dev": dev(os.environ.get("BRIG_SDK_STATE") or one), "small": small(two)}
        for file, _, names in FILES + ([IMAGE] if os.environ.get("BRIG_SDK_STATE") else []):
            names = [n for n in names if want.search(f"{file} {n}")]
            if names:
                seen |= run(tap, folder, servers["small" if file == "errors" else "dev"].env, file, names)
        for name, s in servers.items():
            wrong = s.end()
            tap.line(not wrong, f"brigd ends well ({name})", wrong)
        servers["small"].spawn.terminate()
        tap.line(servers["small"].spawn.wait(timeout=30) == 0, "brig-spawn ends well")
    if len(seen) == sum(len(names) for _, _, names in FILES):
        text = table(folder, seen)
        if os.environ.get("BRIG_SDK_MATRIX"):
            with open(MATRIX, "w", encoding="utf-8") as f:
                f.write(text)
        with open(MATRIX, encoding="utf-8") as f:
            tap.line(f.read() == text, "docs/sdk-matrix.md says what was seen", "make sdk-matrix writes it anew")
    print(f"1..{tap.n}")
    return 1 if tap.bad else 0


if __name__ == "__main__":
    sys.exit(main())
