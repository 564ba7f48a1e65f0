"""
Copies trees no honest program makes.

group: copies
tries: bring pipes, sockets, setuid and set-group files, files of more names than one, names with new lines and escape sequences
  and folders without end in or out, and links that lead out of their folder
"""
import os
import stat

from brigtest import ok
from scenelib import PY, ran

# argv: where.
TREE = """
import os, socket, sys
os.chdir(sys.argv[1])
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket')
for name, mode in (('setuid', 0o4755), ('setgid', 0o2755)):
    open(name, 'w').close()
    os.chmod(name, mode)
os.mkdir('sticky')
os.chmod('sticky', 0o1777)
os.symlink('../../../../../../../../etc', 'up')
os.symlink('/etc', 'absolute')
open('first', 'w').write('linked')
os.link('first', 'second')
for name in ('new\\nline', '\\033]0;title\\007', '..\\n', '...', ' ', '-rf', 'x' * 255):
    open(name, 'w').write(name)
"""
DEEP = "import os\nos.makedirs('deep'); os.chdir('deep')\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\n"


def special(top):
    """What copying must not have made: {KEY: where}."""
    found = dict.fromkeys(("pipe", "socket", "setuid", "setgid", "sticky", "up", "absolute", "second"), "")
    first = os.stat(os.path.join(top, "first")).st_ino if os.path.exists(os.path.join(top, "first")) else None
    for d, dirs, files in os.walk(os.fsencode(top)):
        for n in dirs + files:
            p = os.path.join(d, n)
            s = os.lstat(p)
            for key, bad in (("pipe", stat.S_ISFIFO(s.st_mode)), ("socket", stat.S_ISSOCK(s.st_mode)),
                             ("setuid", s.st_mode & stat.S_ISUID), ("setgid", s.st_mode & stat.S_ISGID),
                             ("sticky", s.st_mode & stat.S_ISVTX and not stat.S_ISLNK(s.st_mode)),
                             ("up", stat.S_ISLNK(s.st_mode) and n == b"up"), ("absolute", stat.S_ISLNK(s.st_mode) and n == b"absolute"),
                             ("second", n == b"second" and s.st_ino == first)):
                if bad:
                    found[key] = repr(p)
    return found


def control(m):
    src, dst = m.mkdir("src"), m.path("dst")
    ok(m.exec([PY, "-c", TREE, src]).rc == 0, "the tree")
    m.exec(["cp", "-a", src, dst])
    top = m.mkdir("deep")
    ok(m.exec([PY, "-c", DEEP], cwd=top).rc == 0, "the deep one")
    r = m.exec([PY, "-c", "import os\nos.chdir('deep')\nn = 0\nwhile os.path.exists('d'): os.chdir('d'); n += 1\nprint(n)"], cwd=top)
    m.exec(["rm", "-rf", top])
    return {**special(dst), "deep": f"{r.out!r} folders" if r.out == b"1500\n" else "",
            "escapes": "a name is shown as it is" if b"\033" in m.exec(["find", src]).out else ""}


def inside(m):
    dst, src, deep = m.path("dst"), m.mkdir("src"), m.path("deep")
    r = ran(m.py(f"import sys\nsys.argv = ['', 'p']\nimport os\nos.mkdir('p')\n{TREE}", "--out", f"p:{dst}"), "--out")
    ok(r.rc == 0 and os.path.exists(dst), f"out: {r!r}")
    seen = special(dst)
    names = os.listdir(dst)
    ok("new\nline" in names and "..\n" in names and "x" * 255 in names, f"names out: {names}")
    ok(m.exec([PY, "-c", TREE, src]).rc == 0, "the tree")
    q = ran(m.run("--file", f"{src}:p", "--", "sh", "-c", "find p ! -type f ! -type d -print0; find p -perm /7000 -print0; "
                  "[ p/first -ef p/second ] && echo second; true"), "--file")
    if q.out:
        seen["in"] = repr(q)
    d = ran(m.py(DEEP, "--out", f"deep:{deep}"), "deep")
    depth, at = 0, os.path.join(deep, "d")
    while os.path.exists(at):
        depth, at = depth + 1, at + "/d"
    seen["deep"] = f"{depth} folders came: {d!r}" if depth > 1000 else ""
    seen["escapes"] = f"{r!r} {q!r} {d!r}" if any(b"\033" in x.err for x in (r, q, d)) else ""
    return seen
