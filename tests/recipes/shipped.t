#!/usr/bin/python3
"""The shipped recipes, each built twice from nothing, and what agents do with them. Some minutes and 200 MiB of
packages, so it is no part of `./test`: `make image-test`. BRIG_TEST_RECIPES: only these, with commas.

TIME lines are for docs/images.md."""
import hashlib
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import brigtest  # noqa: E402
from brigtest import ROOT, case, done, eq, main, ok  # noqa: E402

brigtest.CASE_SECONDS = 3 * 3600
ONLY = [r for r in os.environ.get("BRIG_TEST_RECIPES", "").split(",") if r]

SHELL = """set -e
test "$(id -u):$(id -un):$(pwd):$HOME" = 1000:user:/workspace:/home/user
git init -q r && cd r && git config user.email a@b && git config user.name a
echo 1 > f && git add f && git commit -qm one && test "$(git log --format=%s)" = one
curl --version | grep -q https && ls /etc/ssl/certs/ca-certificates.crt > /dev/null
! curl -s --max-time 5 http://192.0.2.1/
printf 'a:\\n\\techo made\\n' > Makefile && make -s | grep -qx made
python3 -c 'import ssl, sqlite3, json, lzma, bz2, zlib; assert ssl.create_default_context().get_ca_certs()'
test -z "$(find / -xdev -perm /6000 -type f 2>/dev/null)"
! touch /usr/x 2>/dev/null
echo well
"""
PYTHON = """
import io, sys, numpy as np, scipy.linalg, pandas as pd, sympy, matplotlib
import matplotlib.pyplot as plt
a = np.random.default_rng(1).random((300, 300))
assert np.allclose(scipy.linalg.inv(a) @ a, np.eye(300))
df = pd.DataFrame({'g': list('abab'), 'v': range(4)})
assert df.groupby('g').v.sum().to_dict() == {'a': 2, 'b': 4}
x = sympy.Symbol('x')
assert sympy.integrate(sympy.cos(x), x) == sympy.sin(x)
assert matplotlib.get_backend().lower() == 'agg'
plt.plot([1, 2, 3]); plt.title('t'); out = io.BytesIO(); plt.savefig(out, format='png')
assert out.getvalue()[:8] == b'\\x89PNG\\r\\n\\x1a\\n' and len(out.getvalue()) > 2000
print('well')
"""
KERNEL = """
from jupyter_client.manager import start_new_kernel
km, kc = start_new_kernel(kernel_name='python3')
said = []
kc.execute_interactive('print(6 * 7)', timeout=120, output_hook=lambda m: said.append(m['content'].get('text')))
km.shutdown_kernel(now=True)
assert '42\\n' in said, said
print('well')
"""
NODE = "const c = require('crypto'); if (c.createHash('sha256').update('').digest('hex').slice(0, 4) !== 'e3b0') process.exit(1); console.log('well')"


def digest_of_one_owner(top):
    """The digest of docs/images.md with every owner 0: what an ordinary user's store has."""
    h = hashlib.sha256()

    def record(path, rel):
        st = os.lstat(path)
        kind, size, content, target = "d", 0, "-", b""
        if os.path.islink(path):
            kind, target = "l", os.fsencode(os.readlink(path))
        elif not os.path.isdir(path):
            kind, size = "f", st.st_size
            with open(path, "rb") as f:
                content = hashlib.sha256(f.read()).hexdigest()
        mode = 0o777 if kind == "l" else st.st_mode & 0o7777
        head = f"{kind} {mode:04o} 0 0 {size} {int(st.st_mtime)} {content} {len(rel)}:".encode()
        h.update(head + rel + f" {len(target)}:".encode() + target + b"\n")
        if kind == "d":
            for name in sorted(os.listdir(os.fsencode(path))):
                record(os.path.join(os.fsencode(path), name), rel + b"/" + name if rel else name)
    record(os.fsencode(top), b"")
    return h.hexdigest()


def build(m, recipe, tag, **env):
    path = os.path.join(ROOT, "dist", "recipes", recipe + ".yaml")
    t = time.monotonic()
    r = done(m.brig("image", "build", "--json", "--name", f"{recipe}:{tag}", m.put(f"{recipe}.yaml", open(path, "rb").read()),
                    env=env, timeout=3 * 3600))
    j = json.loads(r.out)
    print(f"# TIME {m.name} {recipe} {tag}: {time.monotonic() - t:.0f} s, {j['bytes'] >> 20} MiB, {j['entries']} entries, {j['digest']}")
    return j["digest"]


def twice(m, recipe):
    """Another cache, another time zone, another home; once more with what the cache has."""
    if ONLY and recipe not in ONLY:
        return None
    one = build(m, recipe, "a", BRIG_CACHE=m.mkdir("cache"))
    cache = m.mkdir("cache")
    eq(build(m, recipe, "b", BRIG_CACHE=cache, TZ="Asia/Tokyo", HOME=m.mkdir("home")), one, "the second build")
    done(m.brig("image", "remove", f"{recipe}:b"))
    if m.name == "root":
        top = json.loads(done(m.brig("image", "show", "--json", f"{recipe}:a")).out)["tree"]
        packed = subprocess.run(["du", "-sk", top], stdout=subprocess.PIPE, check=True).stdout.split()[0]
        print(f"# TIME {recipe}: {int(packed) >> 10} MiB on disk; one owner: {digest_of_one_owner(top)}")
    return f"{recipe}:a"


def inside(m, ref, *argv, **kw):
    r = m.run("--image", ref, "--memory", "2G", "--disk", "512M", "--timeout", "600", "--", *argv, timeout=700, **kw)
    eq((r.rc, r.out), (0, b"well\n"), f"{argv[0]}: {r!r}")


@case
def base(m):
    ref = twice(m, "base")
    if ref:
        inside(m, ref, "bash", "-c", SHELL)


@case
def code_interpreter_v1(m):
    ref = twice(m, "code-interpreter-v1")
    if not ref:
        return
    inside(m, ref, "bash", "-c", SHELL)
    inside(m, ref, "python3", "-c", PYTHON)
    inside(m, ref, "python3", "-c", KERNEL)
    inside(m, ref, "node", "-e", NODE)
    # a wheel made here by hand, installed as an agent's user would, and found by the next program
    r = done(m.run("--image", ref, "--memory", "2G", "--", "bash", "-c", WHEEL, timeout=700))
    ok(r.out.endswith(b"well\n"), r)


WHEEL = """set -e
python3 - <<'END'
import zipfile
z = zipfile.ZipFile('/tmp/made_here-1-py3-none-any.whl', 'w')
z.writestr('made_here.py', 'def main(): print("well")\\n')
d = 'made_here-1.dist-info/'
z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: made-here\\nVersion: 1\\n')
z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr(d + 'entry_points.txt', '[console_scripts]\\nmade-here = made_here:main\\n')
z.writestr(d + 'RECORD', 'made_here.py,,\\n' + ''.join(d + n + ',,\\n' for n in ('METADATA', 'WHEEL', 'entry_points.txt', 'RECORD')))
z.close()
END
pip install -q --no-index /tmp/made_here-1-py3-none-any.whl
python3 -m venv /tmp/v && /tmp/v/bin/pip install -q --no-index /tmp/made_here-1-py3-none-any.whl && /tmp/v/bin/made-here | grep -qx well
made-here
"""

if __name__ == "__main__":
    sys.exit(main())
