#!/usr/bin/python3
"""Copying in and out: files, folders, links, exclusion, patches (C20 for copies)."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402


def tree(m, files, name="src"):
    """files: {path: text | ('link', target) | None for a folder}"""
    top = m.mkdir(name)
    for path, what in files.items():
        p = os.path.join(top, path)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        if what is None:
            os.makedirs(p, exist_ok=True)
        elif isinstance(what, tuple):
            os.symlink(what[1], p)
        else:
            with open(p, "wb") as f:
                f.write(what if isinstance(what, bytes) else what.encode())
    m.give_tree(top)
    return top


def listing(top):
    """{relative path: contents, link target or None}"""
    out = {}
    for d, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(d, n)
            rel = os.path.relpath(p, top)
            if os.path.islink(p):
                out[rel] = ("link", os.readlink(p))
            elif os.path.isdir(p):
                out[rel] = None
            else:
                with open(p, "rb") as f:
                    out[rel] = f.read()
    return out


@case
def file_in(m):
    data = os.urandom(300000)
    p = m.put("f.bin", data)
    r = done(m.run("--file", f"{p}:/workspace/sub/dir/g", "--", "cat", "/workspace/sub/dir/g"))
    eq(r.out, data, "contents")
    done(m.run("--file", f"{p}:name", "--", "stat", "-c", "%s %U", "/workspace/name"), out=b"300000 user\n")
    done(m.run("--file", p, "--", "stat", "-c", "%s", "/workspace/" + os.path.basename(p)), out=b"300000\n")


@case
def modes_are_kept(m):
    a, b = m.put("x", "#!/bin/sh\necho ran\n", 0o755), m.put("y", "y", 0o640)
    done(m.run("--file", f"{a}:x", "--file", f"{b}:y", "--", "sh", "-c", "./x; stat -c %a y"), out=b"ran\n640\n")
    s = m.put("s", "#!/bin/sh\n", 0o755)
    os.chmod(s, 0o6755)
    r = m.run("--file", f"{s}:s", "--", "stat", "-c", "%a", "s")
    ok(r.rc == 125 or r.out == b"755\n", f"setuid bits: {r!r}")


@case
def folder_in_and_out(m):
    files = {"a": "1", "d/b": b"\x00\xff" * 1000, "d/e/c": "", "empty": None, "l": ("link", "d/b"), "é x": "odd",
             "big": os.urandom(3000000)}
    src = tree(m, files)
    dst = m.path("back")
    done(m.run("--file", f"{src}:/workspace/p", "--out", f"/workspace/p:{dst}", "--", "sh", "-c",
               "cat p/l | wc -c"), out=b"2000\n")
    eq(listing(dst), listing(src), "tree")


@case
def many_files(m):
    src = tree(m, {f"d{i % 17}/f{i}": str(i) for i in range(2000)})
    dst = m.path("back")
    done(m.run("--file", f"{src}:p", "--out", f"p:{dst}", "--", "sh", "-c", "find p -type f | wc -l"), out=b"2000\n")
    eq(listing(dst), listing(src), "tree")


@case
def outputs_are_the_callers(m):
    dst = m.path("o")
    done(m.sh("mkdir o; echo x > o/f; chmod 6777 o/f; chmod 777 o", "--out", f"o:{dst}"))
    st = os.stat(os.path.join(dst, "f"))
    eq((st.st_uid, st.st_gid, st.st_mode & 0o7000), (m.uid, m.uid, 0), "owner and special bits")


@case
def out_of_a_failed_command(m):
    """The command's own failure does not lose its files, and its exit code stays."""
    dst = m.path("o")
    done(m.sh("echo partial > r; exit 7", "--out", f"r:{dst}"), rc=7)
    with open(dst, "rb") as f:
        eq(f.read(), b"partial\n", "contents")


@case
def missing_output_is_said(m):
    r = m.sh("exit 0", "--out", f"nothing:{m.path('o')}")
    eq(r.rc, 125, repr(r))
    ok(b"nothing" in r.err and r.err.count(b"\n") == 1, repr(r))


@case
def existing_destinations(m):
    """An existing file is not followed when it is a link."""
    victim = m.put("victim", "precious")
    link = m.path("link")
    os.symlink(victim, link)
    m.sh("echo evil > r", "--out", f"r:{link}")
    with open(victim, "rb") as f:
        eq(f.read(), b"precious", "a link at the destination was followed")


@case
def c20_links_are_never_followed_out(m):
    """Links the sandbox made point into the host's tree: copied as links or refused, never read."""
    mark = m.put("mark", "HOST-SECRET")
    outside = m.mkdir("outside")
    dst = m.path("o")
    r = m.sh(f"mkdir w; ln -s {mark} w/leak; ln -s {outside} w/d; ln -s /etc/shadow w/shadow; "
             "ln -s ../../../../../../etc w/up", "--out", f"w:{dst}")
    ok(r.rc in (0, 125), repr(r))
    for p, v in listing(dst).items():
        ok(v is None or isinstance(v, tuple) or b"HOST-SECRET" not in v, f"{p} was read through")
    eq(os.listdir(outside), [], "written through a link")
    # The output itself is a link.
    dst = m.path("o2")
    r = m.sh(f"ln -s {mark} leak", "--out", f"leak:{dst}")
    ok(not os.path.lexists(dst) or os.path.islink(dst) or b"HOST-SECRET" not in open(dst, "rb").read(), "read through")
    dst = m.path("o3")
    r = m.sh("ln -s /etc/passwd leak", "--out", f"leak:{dst}")
    if r.rc == 0 and not os.path.islink(dst):
        with open(dst, "rb") as f:
            ok(b"1000" in f.read(), "the host's passwd was read")


@case
def c20_links_in_the_way_in(m):
    """A folder copied in holds links out of it: they arrive as links, and dangle inside."""
    mark = m.put("mark", "HOST-SECRET")
    src = tree(m, {"l": ("link", mark), "up": ("link", "../../../etc/hostname"), "abs": ("link", "/etc/passwd")})
    r = m.run("--file", f"{src}:p", "--", "sh", "-c", "readlink p/l; cat p/l; cat p/up; readlink p/abs")
    if r.rc == 125:
        ok(r.err.count(b"\n") == 1, repr(r))
        return
    ok(b"HOST-SECRET" not in r.out, f"link was followed: {r!r}")


@case
def special_files_are_refused_or_left_out(m):
    src = m.mkdir("special")
    os.mkfifo(os.path.join(src, "pipe"))
    m.give_tree(src)
    r = m.run("--file", f"{src}:p", "--", "ls", "p", timeout=10)
    ok(r.rc in (0, 125) and b"pipe" not in r.out, repr(r))
    r = m.run("--file", f"{src}/pipe:p", "--", "true", timeout=10)
    ok(r.rc == 125 and r.err.count(b"\n") == 1, repr(r))
    r = m.run("--file", "/dev/zero:p", "--", "true", timeout=10)
    ok(r.rc == 125 and r.err.count(b"\n") == 1, repr(r))
    dst = m.path("o")
    r = m.sh("mkdir o; mkfifo o/pipe; echo x > o/f", "--out", f"o:{dst}", timeout=10)
    ok(r.rc in (0, 125) and (r.rc == 125 or set(listing(dst)) == {"f"}), f"{r!r} {os.path.lexists(dst)}")


@case
def too_large_is_refused_before_the_start(m):
    p = m.path("large")
    with open(p, "wb") as f:
        f.truncate(200 << 20)
        f.seek(0)
        f.write(b"x")
    m.give(p)
    data = m.put("full", b"x" * (60 << 20))
    r = m.run("--disk", "50M", "--file", f"{data}:f", "--", "echo", "RAN")
    eq(r.rc, 125, repr(r))
    ok(b"RAN" not in r.out and r.err.count(b"\n") == 1, repr(r))


@case
def output_larger_than_announced_is_bounded(m):
    """A file that grows while it is copied out ends."""
    dst = m.path("o")
    r = m.sh("(while :; do head -c 100000 /dev/zero >> g; done) & sleep 0.2", "--out", f"g:{dst}", timeout=30)
    ok(r.rc in (0, 125), repr(r))


@case
def exclude_in_and_out(m):
    src = tree(m, {"a.py": "1", "b.log": "2", "d/c.log": "3", "d/e.py": "4", "node_modules/x/y": "5"})
    dst = m.path("o")
    done(m.run("--file", f"{src}:p", "--exclude", "*.log", "--exclude", "node_modules", "--out", f"p:{dst}", "--",
               "sh", "-c", "find p -type f | sort; echo z > p/new.log; echo z > p/new.py"), out=b"p/a.py\np/d/e.py\n")
    eq({k for k, v in listing(dst).items() if v is not None}, {"a.py", "d/e.py", "new.py"}, "files out")


@case
def gitignore(m):
    src = tree(m, {".gitignore": "*.o\n/build/\n!keep.o\n# c\n\nsecret.txt\n", "a.c": "1", "a.o": "2", "keep.o": "3",
                   "build/x": "4", "sub/build/y": "5", "sub/secret.txt": "6", "sub/.gitignore": "*.tmp\n", "sub/q.tmp": "7",
                   "q.tmp": "8"})
    r = done(m.run("--file", f"{src}:p", "--gitignore", "--", "sh", "-c", "cd p && find . -type f | sort"))
    want = {"./.gitignore", "./a.c", "./keep.o", "./sub/build/y", "./sub/.gitignore", "./q.tmp"}
    eq(set(r.out.decode().split()), want, "files")
    r = done(m.run("--file", f"{src}:p", "--", "sh", "-c", "cd p && find . -type f | wc -l"), out=b"10\n")


@case
def gitignore_agrees_with_git(m):
    """The oracle: what git itself would ignore."""
    files = {p: "x" for p in ("a", "b.o", "doc/a.txt", "doc/b/c.txt", "foo/bar", "foo/baz", "x/foo/bar", "t1", "t2", "t[1]",
                              "sp ace", "deep/a/b/c/z.log", "deep/z.log", "lib/keep", "lib/drop")}
    files[".gitignore"] = "*.o\ndoc/**/*.txt\n/foo/*\n!/foo/baz\nt[0-9]\nsp\\ ace\n**/b/**\nlib/*\n!lib/keep\n"
    src = tree(m, files)
    subprocess.run(["git", "init", "-q", src], check=True)
    out = subprocess.run(["git", "-C", src, "-c", f"safe.directory={src}", "ls-files", "-co", "--exclude-standard", "-z"],
                         check=True, capture_output=True).stdout
    want = {x.decode() for x in out.split(b"\0") if x}
    m.give_tree(src)
    r = done(m.run("--file", f"{src}:p", "--gitignore", "--exclude", ".git", "--", "sh", "-c",
                   "cd p && find . -type f -printf '%P\\0'"))
    eq({x.decode() for x in r.out.split(b"\0") if x}, want, "files")


@case
def patch_of_the_changes(m):
    src = tree(m, {"keep": "same\n", "edit.txt": "one\ntwo\nthree\n", "gone": "bye\n", "d/x": "x\n", "bin": bytes(range(256)) * 4})
    patch = m.path("p.patch")
    done(m.run("--file", f"{src}:/workspace/p", "--out-patch", patch, "--", "sh", "-c",
               "cd p && sed -i s/two/TWO/ edit.txt && rm gone && echo new > d/new && chmod +x keep && "
               "printf '\\001\\002' >> bin && printf 'no newline' > nonl"))
    copy = m.path("copy")
    subprocess.run(["cp", "-a", src, copy], check=True)
    subprocess.run(["git", "init", "-q", copy], check=True)
    with open(patch, "rb") as f:
        text = f.read()
    r = subprocess.run(["git", "-C", copy, "-c", f"safe.directory={copy}", "apply", "--whitespace=nowarn", "-"],
                       input=text, capture_output=True, check=False)
    if r.returncode != 0:  # the patch may name the folder
        r = subprocess.run(["git", "-C", copy, "-c", f"safe.directory={copy}", "apply", "--whitespace=nowarn", "-p2", "-"],
                           input=text, capture_output=True, check=False)
    eq(r.returncode, 0, f"git apply: {r.stderr!r}\n{text[:800]!r}")
    got = {k: v for k, v in listing(copy).items() if not k.startswith(".git")}
    eq(got["edit.txt"], b"one\nTWO\nthree\n", "edit.txt")
    ok("gone" not in got, "gone is still there")
    eq(got["d/new"], b"new\n", "d/new")
    eq(got["nonl"], b"no newline", "nonl")
    eq(got["bin"], bytes(range(256)) * 4 + b"\x01\x02", "bin")
    ok(os.stat(os.path.join(copy, "keep")).st_mode & 0o100, "mode of keep")


@case
def patch_without_changes_is_empty(m):
    src = tree(m, {"a": "1\n"})
    patch = m.path("p.patch")
    done(m.run("--file", f"{src}:p", "--out-patch", patch, "--", "true"))
    eq(os.path.getsize(patch), 0, "size")


@case
def patch_with_hostile_names(m):
    """A patch cannot be made to name a path outside the folder."""
    src = tree(m, {"a": "1\n"})
    patch = m.path("p.patch")
    r = m.run("--file", f"{src}:p", "--out-patch", patch, "--", "sh", "-c",
              "cd p; printf x > \"$(printf 'b\\n+++ ../../evil')\"; ln -s /etc/passwd l; mkdir -p ..; echo y > a")
    ok(r.rc in (0, 125), repr(r))
    if r.rc == 0:
        with open(patch, "rb") as f:
            for line in f.read().split(b"\n"):
                if line.startswith((b"+++ ", b"--- ")):
                    ok(b".." not in line.split(b"\t")[0] or b"\\n" in line, f"line {line!r}")


@case
def no_live_mount_of_host_files(m):
    src = tree(m, {"a": "1"})
    r = done(m.run("--file", f"{src}:p", "--", "sh", "-c", "echo changed > p/a; echo x > p/new; cat /proc/self/mountinfo"))
    eq(listing(src), {"a": b"1"}, "the caller's folder")
    ok(src.encode() not in r.out, "mounted")


sys.exit(main())
