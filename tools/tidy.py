#!/usr/bin/env python3
"""clang-tidy over every C file of src, one TAP test per file; any finding fails.

A file that passed is not looked at again until it, a header below src, .clang-tidy or clang-tidy
itself changes: build/tidy/<path> holds the hash of all that. Two processes at a time, each with some files, for one
starts as long as it reads a file; only where there is a finding is each file looked at by itself.
TIDY_NOTES=1 shows the path to each finding. TIDY_DEEP=1 lets the analyzer take as many steps as it likes: the third
it has otherwise takes a quarter of the time, and has found all that was found so far.
"""
import concurrent.futures
import glob
import hashlib
import itertools
import os
import re
import subprocess
import sys

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-iquote", "src", "-Ibuild/gen", "-iquote", "tests",
         '-DBRIG_VERSION="0"', '-DBRIG_LIBEXECDIR="/"', '-DBRIG_SBINDIR="/"']
BATCH = 8
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
if not os.environ.get("TIDY_DEEP"):
    FLAGS += ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000"]
COMMON = subprocess.check_output(["clang-tidy", "--version"])
with open(".clang-tidy", "rb") as config, open(__file__, "rb") as me:
    COMMON += config.read() + me.read() + repr(FLAGS).encode()


def closure(path, seen):
    """All of our files that path includes, itself first. System headers change with the tool."""
    if path in seen or not os.path.exists(path):
        return seen
    with open(path, encoding="utf-8") as f:
        seen[path] = f.read()
    for inc in INCLUDE.findall(seen[path]):
        for top in ("src", "build/gen", "tests"):
            closure(os.path.join(top, inc), seen)
    return seen


def digest_of(path):
    digest = hashlib.sha256(COMMON)
    for name, text in sorted(closure(path, {}).items()):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


def passed_before(stamp, digest):
    try:
        with open(stamp, encoding="ascii") as f:
            return f.read() == digest
    except FileNotFoundError:
        return False


def tidy(paths):
    """What is wrong with one of them, or nothing."""
    run = subprocess.run(["clang-tidy", "--quiet", *paths, "--", *FLAGS], check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return (run.stdout or f"clang-tidy: exit {run.returncode}") if run.returncode != 0 else ""


def check(paths):
    """The findings of each file, in order."""
    new = {}
    for path in paths:
        stamp, digest = os.path.join("build/tidy", path), digest_of(path)
        if not passed_before(stamp, digest):
            new[path] = stamp, digest
    findings = dict.fromkeys(new, "")
    if new and tidy(new):
        findings = {path: tidy([path]) for path in new}
    for path, (stamp, digest) in new.items():
        if not findings[path]:
            os.makedirs(os.path.dirname(stamp), exist_ok=True)
            with open(stamp, "w", encoding="ascii") as f:
                f.write(digest)
    return [findings.get(path, "") for path in paths]


def short(text):
    """The findings with their source lines; the paths that lead to them only when asked for."""
    if os.environ.get("TIDY_NOTES"):
        return text.splitlines()
    out, keep = [], False
    for line in text.splitlines():
        if re.match(r"\S+:\d+:\d+: ", line):
            keep = ": note: " not in line
        if keep or not re.match(r"\s|\S+:\d+:\d+: |\d+ warnings? generated", line):
            out.append(line)
    return out


def main():
    files = sys.argv[1:] or sorted(glob.glob("src/**/*.c", recursive=True))
    failed = 0
    print(f"1..{len(files)}")
    batches = [files[i:i + BATCH] for i in range(0, len(files), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = itertools.chain.from_iterable(pool.map(check, batches))
        for n, (path, findings) in enumerate(zip(files, results), 1):
            print(f"{'not ' if findings else ''}ok {n} - {path}")
            if findings:
                failed += 1
                print("".join(f"# {line}\n" for line in short(findings)), end="")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
