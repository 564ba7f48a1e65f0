#!/usr/bin/env python3
"""Fail when a document names a path, make target, brig command or brig option that does not exist.

Looked at: the Markdown files of the tree's top and of docs/ (code spans and code blocks only), and the
man pages. Words with placeholders (<x>, NAME, *) are matched as patterns or left alone; paths below
build/ are results and not checked.
"""
import glob
import os
import re
import subprocess
import sys

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.environ.get("BRIG", "build/brig")
TOPS = sorted(d for d in os.listdir(".") if os.path.isdir(d) and d not in (".git", "build"))
PATH = re.compile(r"(?<![\w/.~$-])((?:%s)/[\w.*<>{},/+-]*)" % "|".join(map(re.escape, TOPS)))
bad = seen = 0


def complain(where, text):
    global bad
    bad += 1
    print(f"{where}: {text}")


def make_targets():
    out = subprocess.run(["make", "-pnrR", "--no-print-directory", "no-such-target"], check=False,
                         capture_output=True, text=True).stdout
    return set(re.findall(r"^([\w-]+):(?!=)", out, re.M))


def brig(*args):
    try:
        run = subprocess.run([BRIG, *args], check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return run.stdout if run.returncode == 0 else ""


def brig_words():
    """{command: its options}, from the program's own help."""
    with open("src/cli/commands.def", encoding="utf-8") as f:
        names = re.findall(r'^COMMAND\(\w+,\s*"([\w-]+)"', f.read(), re.M)
    with open("src/cmd/client_commands.def", encoding="utf-8") as f:
        names += re.findall(r'^CLIENT\(\w+,\s*"([\w-]+)"', f.read(), re.M)
    words = {n: set(re.findall(r"--[a-z][a-z-]*", brig("help", n))) | {"--help"} for n in names}
    with open("src/cli/image_commands.def", encoding="utf-8") as f:
        for sub in re.findall(r'^IMAGE_COMMAND\(\w+,\s*"([\w-]+)"', f.read(), re.M):
            words[f"image {sub}"] = set(re.findall(r"--[a-z][a-z-]*", brig("image", sub, "--help")))
    return words


def chunks(path):
    """(line number, text) of each code span, and each line of a code block."""
    block = False
    with open(path, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            if re.match(r"\s*(```|~~~)", line):
                block = not block
            elif block:
                yield n, line.split("#")[0] if line.lstrip().startswith("#") else line
            else:
                for span in re.findall(r"`([^`]+)`", line):
                    yield n, span


def manual(path):
    """The same of a man page: each line, with its escapes undone."""
    with open(path, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            yield n, re.sub(r"\\f[BIRP]", "", line.replace("\\-", "-"))


def check_path(where, text):
    global seen
    for name in PATH.findall(text):
        name = name.rstrip(".,").rstrip("/")
        if "{" in name or "}" in name:
            start, _, rest = name.partition("{")
            names = [start + alt + rest.partition("}")[2] for alt in rest.partition("}")[0].split(",")]
        else:
            names = [name]
        for one in names:
            seen += 1
            pattern = re.sub(r"<[^>]*>|\b[A-Z]{2,}\b(?!\.md)", "*", one)
            if "<" in pattern:
                continue  # the placeholder has a space in it
            if not glob.glob(pattern):
                complain(where, f"no {one} in the tree")


def check_make(where, text, targets):
    global seen
    for args in re.findall(r"(?:^|[;&|$`(]\s*|\s)make((?:\s+[\w=./-]+)+)", text):
        for word in args.split():
            if "=" in word or word.startswith("-"):
                continue
            seen += 1
            if word not in targets:
                complain(where, f"no make target {word}")


def check_brig(where, text, words):
    global seen
    for line in re.findall(r"(?:^|[\s;&|(/])brig\s+([^|;&#>]*)", text):
        args = line.split()
        if not args or not re.fullmatch(r"[a-z][a-z-]+", args[0]):
            continue
        seen += 1
        if args[0] not in words:
            complain(where, f"brig has no command {args[0]}")
            continue
        command = " ".join(args[:2]) if " ".join(args[:2]) in words else args[0]
        for arg in args[1:]:
            arg = arg.strip("[]().,:'\"")
            if arg == "--" or (args[0] == "run" and re.fullmatch(r"[a-z][\w./-]*", arg)):
                break  # the command to run begins: its options are its own
            option = re.match(r"--[a-z][a-z-]*", arg)
            if option and option.group() not in words[command]:
                complain(where, f"brig {command} has no option {option.group()}")


def main():
    targets = make_targets()
    words = brig_words()
    every = set().union(*words.values())
    for name in DAEMONS:
        run = subprocess.run([os.path.join(os.path.dirname(BRIG), name), "--help"], stdout=subprocess.PIPE, text=True,
                             check=False)
        every |= set(re.findall(r"--[a-z][a-z-]*", run.stdout))
    if len(every) < 10:
        complain(BRIG, "its help names no options: build it first")
    for path in sorted(glob.glob("*.md") + glob.glob("docs/**/*.md", recursive=True)):
        for n, text in chunks(path):
            where = f"{path}:{n}"
            check_path(where, text)
            check_make(where, text, targets)
            check_brig(where, text, words)
            alone = re.fullmatch(r"(--[a-z][a-z-]+)([ =].*)?", text.strip())
            if alone and alone.group(1) not in every | FOREIGN:
                complain(where, f"no brig command has the option {alone.group(1)}")
    for path in sorted(glob.glob("docs/man/*.[1-8]")):
        for n, text in manual(path):
            check_path(f"{path}:{n}", text)
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
                if option not in every | FOREIGN:
                    complain(f"{path}:{n}", f"no brig command has the option {option}")
    print(f"check_docs: {seen} names, {bad} bad")
    return 1 if bad else 0


# Options of other programs that documents name by themselves.
DAEMONS = ("brigd", "brig-spawn")  # programs with options of their own
FOREIGN = {"--cgroup-manager", "--no-install-recommends", "--append", "--keep-log", "--timeout", "--scope"}

if __name__ == "__main__":
    sys.exit(main())
