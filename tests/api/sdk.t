#!/usr/bin/env python3
"""The unmodified SDKs against `brigd --dev` and real sandboxes: each file of tests/api/sdk, for each version."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BRIGD = os.path.join(os.path.dirname(os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig")))), "brigd")
RUNS = [(f, name) for f in ("lifecycle", "commands", "files") for name in ("e2b", "e2b-v1")] + [("code", "@e2b/code-interpreter")]


def skip(why):
    print("not ok 1 - the SDKs # " + why if os.environ.get("BRIG_MUST_RUN") else "ok 1 - the SDKs # SKIP " + why)
    print("1..1")
    sys.exit(1 if os.environ.get("BRIG_MUST_RUN") else 0)


def start(state):
    err = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
    p = subprocess.Popen([BRIGD, "--dev", "--port", "0"], stdout=subprocess.PIPE, stderr=err, text=True,
                         env={**os.environ, "BRIG_STATE": state})
    env = dict(os.environ)
    for _ in range(3):
        m = re.fullmatch(r"export (\w+)=(\S+)\n", p.stdout.readline())
        if not m:
            err.seek(0)
            raise SystemExit(f"brigd did not start: {err.read()!r}")
        env[m.group(1)] = m.group(2)
    env.pop("E2B_DEBUG", None)
    return p, err, env


def main():
    got = subprocess.run([os.path.join(HERE, "sdk", "fetch.sh")], stdout=subprocess.PIPE, text=True, check=False)
    if got.returncode != 0:
        skip("they cannot be fetched")
    folder = got.stdout.strip()
    with tempfile.TemporaryDirectory(prefix="brigd-sdk-") as state:
        p, err, env = start(state)
        env["BRIG_SDK"] = folder
        # the state folder of --dev is beside its sockets: brig-spawn's command line has it
        env["E2B_OTHER_KEY"] = subprocess.run(
            [BRIGD, "--state", dev_state(p.pid), "key", "create", "--tenant", "rival"], stdout=subprocess.PIPE,
            text=True, check=True).stdout.strip()
        n = bad = 0
        want = re.compile(os.environ.get("BRIG_CASES", ""))
        for file, name in RUNS:
            if not want.search(f"{file} {name}"):
                continue
            r = subprocess.run([os.path.join(folder, "bin", "node"), os.path.join(HERE, "sdk", file + ".mjs")],
                               env={**env, "BRIG_SDK_NAME": name}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=240, check=False)
            plan = False
            for line in r.stdout.splitlines():
                m = re.match(r"(not )?ok \d+ - (.*)", line)
                plan = plan or re.fullmatch(r"1\.\.\d+", line)
                if m:
                    n += 1
                    bad += m.group(1) is not None
                    print(f"{m.group(1) or ''}ok {n} - {file}, {name}: {m.group(2)}")
                elif not plan:
                    print(line if line.startswith("#") else "# " + line)
            if not plan:
                n, bad = n + 1, bad + 1
                print(f"not ok {n} - {file}, {name}: comes to its end")
        p.terminate()
        rc = p.wait(timeout=60)
        err.seek(0)
        text = err.read().decode()
        n += 1
        if rc != 0 or text:
            bad += 1
            print(f"not ok {n} - brigd ends well\n# {rc} {text!r}")
        else:
            print(f"ok {n} - brigd ends well")
    print(f"1..{n}")
    return 1 if bad else 0


def dev_state(pid):
    """The throw-away state folder: the one brigd has its database in."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = os.readlink(f"/proc/{pid}/fd/{fd}")
        if path.endswith("/brigd.db"):
            return os.path.dirname(path)
    raise SystemExit("brigd has no database open")


if __name__ == "__main__":
    sys.exit(main())
