#!/usr/bin/python3
"""Writable places, limits of the disk, odd names and sparse files (C18, C19), image host."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402

PY = "/usr/bin/python3"
PLACES = ["/workspace", "/home/user", "/tmp", "/var/tmp", "/run", "/dev/shm"]


@case
def writable_places(m):
    for p in PLACES:
        done(m.sh(f"echo hi > {p}/f && cat {p}/f && mkdir -p {p}/a/b && ln -s f {p}/l && cat {p}/l && "
                  f"mv {p}/f {p}/a/b/g && rm -r {p}/a && ls {p}/a 2>/dev/null || echo gone"), out=b"hi\nhi\ngone\n")


@case
def sticky_and_shared_modes(m):
    r = done(m.sh("stat -c '%a %U' /tmp /var/tmp /dev/shm; stat -c '%U:%G' /workspace /home/user"))
    eq(r.out.split(b"\n")[3:5], [b"user:user", b"user:user"], "owners")
    for line in r.out.split(b"\n")[:3]:
        eq(line.split()[0], b"1777", "mode")


@case
def moves_across_folders_work(m):
    """Landlock without REFER would refuse these."""
    done(m.sh("mkdir a b && echo x > a/f && mv a/f b/g && cat b/g && ln b/g a/h && cat a/h && mv a b/ && cat b/a/h"),
         out=b"x\nx\nx\n")
    done(m.sh("echo y > /tmp/t && mv /tmp/t /workspace/t && cat t"), out=b"y\n")


@case
def programs_can_be_made_and_run(m):
    done(m.sh("printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s && cp /usr/bin/true /tmp/t && /tmp/t && echo t"),
         out=b"ran\nt\n")


def filler(*places):
    return "\n".join([
        "import os, errno",
        "total = 0; why = 0",
        f"for d in {list(places)!r}:",
        "  try:",
        "    with open(d + '/fill', 'wb', buffering=0) as f:",
        "      while True: total += f.write(b'\\1' * 1048576)",
        "  except OSError as e: why = e.errno",
        "print(why, total >> 20)"])


@case
def full_disk_is_enospc_and_never_oom(m):
    for place in PLACES:
        r = done(m.py(filler(place), "--disk", "40M", "--memory", "128M"))
        why, mib = map(int, r.out.split())
        eq(why, 28, f"errno in {place} (ENOSPC)")
        ok(30 <= mib <= 40, f"{mib} MiB fit in {place}")


@case
def the_places_share_one_limit(m):
    r = done(m.py(filler(*PLACES), "--disk", "40M", "--memory", "128M"))
    why, mib = map(int, r.out.split())
    eq(why, 28, "errno")
    ok(30 <= mib <= 40, f"{mib} MiB fit in all places together")


@case
def the_sandbox_goes_on_with_a_full_disk(m):
    done(m.sh("head -c 100000000 /dev/zero > big 2>/dev/null; ls >/dev/null && rm big && echo x > y && cat y; exit 3",
              "--disk", "40M", "--memory", "128M"), rc=3, out=b"x\n")


@case
def disk_must_fit_into_memory(m):
    r = done(m.run("--disk", "100M", "--memory", "128M", "--", "true"), rc=125, out=b"")
    ok(b"disk" in r.err and b"memory" in r.err and r.err.count(b"\n") == 1, repr(r))


@case
def number_of_files_is_limited(m):
    r = done(m.py("import os\nn=0\ntry:\n  while n < 400000: os.close(os.open(f'f{n}', os.O_CREAT|os.O_WRONLY)); n+=1\n"
                  "except OSError as e: print(e.errno, n)", timeout=120))
    errno_, n = map(int, r.out.split())
    eq(errno_, 28, "errno")
    ok(100000 < n <= 200000, f"{n} files")


@case
def c18_deep_working_folder(m):
    prog = ("import os\nname='d'*200\n"
            "for i in range(40): os.mkdir(name); os.chdir(name)\n"
            "open('f','w').write('deep'); print(open('f').read())\n"
            "import subprocess; print(subprocess.run(['cat','f'],capture_output=True).stdout)")
    want = m.native([PY, "-c", prog], cwd=m.mkdir("deep"))
    done(m.py(prog), rc=want.rc, out=want.out)


@case
def c18_long_names(m):
    prog = ("import os\nopen('a'*255,'w').close(); print(len(os.listdir('.')[0]))\n"
            "try: open('a'*256,'w')\nexcept OSError as e: print(e.errno)")
    done(m.native([PY, "-c", prog], cwd=m.mkdir("names")), out=b"255\n36\n")
    done(m.py(prog), out=b"255\n36\n")


@case
def c18_names_of_any_bytes(m):
    done(m.py("import os\nfor b in (b'\\xff\\xfe', b'a\\nb', b' ', b'-rf', '\u00e9'.encode()):\n"
              "  open(os.path.join(b'/workspace', b), 'w').close()\nprint(sorted(os.listdir(b'/workspace')))"),
         out=b"[b' ', b'-rf', b'a\\nb', b'\\xc3\\xa9', b'\\xff\\xfe']\n")


@case
def c19_sparse_file_costs_nothing(m):
    done(m.sh("truncate -s 50G f && stat -c %s f && [ $(stat -c %b f) -lt 2048 ] && echo small && echo x > g && cat g",
              "--disk", "40M", "--memory", "128M"), out=b"53687091200\nsmall\nx\n")


@case
def c19_sparse_file_copied_out(m):
    dst = m.path("sparse")
    done(m.sh("truncate -s 5G f && printf end | dd of=f bs=1 seek=1000000000 conv=notrunc status=none",
              "--out", f"/workspace/f:{dst}", timeout=120))
    st = os.stat(dst)
    eq(st.st_size, 5 << 30, "size")
    ok(st.st_blocks * 512 < 1 << 20, f"{st.st_blocks * 512} bytes allocated")
    with open(dst, "rb") as f:
        f.seek(1000000000)
        eq(f.read(4), b"end\0", "contents")


# ---- image host ----
@case
def host_tools_work(m):
    done(m.sh("echo 'a b' | awk '{print $2}'"), out=b"b\n")
    done(m.run("--", PY, "-c", "import ssl, sqlite3, ctypes, json; print(len(ssl.create_default_context().get_ca_certs()) > 50)"),
         out=b"True\n")


@case
def host_git(m):
    r = done(m.sh("git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && "
                  "git commit -qm one && git log --oneline | wc -l && git status --short"))
    eq(r.out.strip(), b"1", "log")


@case
def host_gcc(m):
    if not os.path.exists("/usr/bin/gcc"):
        raise Skip("no gcc on this host")
    src = m.put("h.c", '#include <stdio.h>\nint main(void) { puts("compiled"); return 3; }\n')
    done(m.sh("gcc -O2 -o h h.c && ./h", "--file", f"{src}:/workspace/h.c"), rc=3, out=b"compiled\n")


@case
def host_node(m):
    if not os.path.exists("/usr/bin/node"):
        raise Skip("no node on this host")
    done(m.run("--", "node", "-e", "require('fs').writeFileSync('f','x'); setTimeout(()=>console.log(6*7, require('os').cpus().length>0), 10)"),
         out=b"42 true\n")


@case
def host_perl_bash_and_friends(m):
    done(m.sh("perl -e 'print 6*7, \"\\n\"'; bash -c 'echo $((6*7))'; seq 3 | sort -r | tr '\\n' ' '; date +%Y >/dev/null; "
              "tar cf - /etc/hosts 2>/dev/null | tar tf -; gzip -c /etc/hosts | zcat | wc -l | grep -q . && echo z"),
         out=b"42\n42\n3 2 1 etc/hosts\nz\n")


@case
def files_belong_to_root_inside(m):
    r = done(m.run("--", "stat", "-c", "%U:%G %n", "/", "/usr", "/usr/bin/env", "/etc", "/etc/passwd", "/usr/lib"))
    bad = [x for x in r.out.decode().splitlines() if not x.startswith("root:root ")]
    if m.name == "root":
        eq(bad, [], "owners")
    else:
        # One id only is mapped: the host's files belong to nobody inside, the made ones (read-only) to the
        # only id there is; and it is said.
        ok(all(x.startswith(("user:user ", "nobody:nogroup ")) for x in r.out.decode().splitlines()), f"{r!r}")
        ok("nobody:nogroup /usr/bin/env" in r.out.decode().splitlines(), f"{r!r}")
        ok(any("nobody" in str(w) or "idmap" in str(w) for w in json.loads(m.run("--json", "--", "true").out)["weaker"]),
           "not said")


@case
def time_zone_and_locale(m):
    want = m.native(["date", "+%Z"]).out
    done(m.run("--", "date", "+%Z"), out=want)
    done(m.py("import sys; print(sys.getfilesystemencoding(), sys.stdout.encoding)"), out=b"utf-8 utf-8\n")


@case
def overlay_root_is_writable_and_gone_afterwards(m):
    if m.name == "user":
        r = m.run("--root", "overlay", "--", "sh", "-c", "touch /tmp/x && echo fine")
        ok(r.rc in (0, 125), repr(r))
        return
    done(m.run("--root", "overlay", "--user", "root", "--", "sh", "-c",
               "echo x > /usr/bin/newtool && cat /usr/bin/newtool && echo y >> /etc/passwd && rm /usr/bin/env && "
               "ls /usr/bin/env 2>/dev/null || echo gone"), out=b"x\ngone\n")
    ok(not os.path.exists("/usr/bin/newtool") and os.path.exists("/usr/bin/env"), "the host was changed")
    done(m.run("--", "ls", "/usr/bin/newtool"), rc=2)


@case
def overlay_counts_against_the_disk(m):
    if m.name == "user":
        return
    r = done(m.py(filler("/usr/lib", "/tmp"), "--root", "overlay", "--user", "root", "--disk", "40M",
                  "--memory", "128M"))
    why, mib = map(int, r.out.split())
    eq(why, 28, "errno")
    ok(30 <= mib <= 40, f"{mib} MiB fit in the overlay and the workspace")


# ---- other images ----
def busybox_image(m, name, passwd):
    """A root folder of the caller's: busybox and nothing else."""
    if not os.path.exists("/bin/busybox"):
        raise Skip("no static busybox on this host")
    img = m.mkdir(name)
    for d in ("bin", "etc", "dev", "proc", "tmp", "workspace"):
        os.mkdir(os.path.join(img, d))
    with open("/bin/busybox", "rb") as f:
        data = f.read()
    for n in ("sh", "ls", "cat", "id", "echo"):
        with open(os.path.join(img, "bin", n), "wb") as f:
            f.write(data)
        os.chmod(os.path.join(img, "bin", n), 0o755)
    with open(os.path.join(img, "etc", "passwd"), "w", encoding="ascii") as f:
        f.write(passwd)
    m.give_tree(img)
    os.chmod(img, 0o755)
    return img


@case
def image_of_a_folder(m):
    img = busybox_image(m, "img", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    r = done(m.run("--image", img, "--", "/bin/sh", "-c", "ls /; cat /etc/passwd; echo x > f; cat f"), rc=0)
    ok(b"user:x:1000" in r.out and r.out.endswith(b"x\n") and b"usr" not in r.out, repr(r))


@case
def image_that_names_host_folders(m):
    """Links and home folders of a hostile image lead nowhere outside of it, not even while it is set up."""
    outside = m.mkdir("outside")
    os.mkdir(os.path.join(outside, "tmp"))
    m.give_tree(outside)
    os.chmod(outside, 0o777)
    os.chmod(os.path.join(outside, "tmp"), 0o711)
    for i, (home, link) in enumerate((("/" + outside + "/made", None), ("/" + outside + "/tmp", None),
                                      ("/workspace/../.." + outside + "/made", None), ("/.brig", None),
                                      ("/proc/x", None), ("/var/tmp/", "var"), ("/home/made/deep", "home"),
                                      ("/root", "root"))):
        img = busybox_image(m, f"img{i}", f"root:x:0:0::{home}:/bin/sh\n")
        if link:
            os.symlink(outside, os.path.join(img, link))
        r = done(m.run("--image", img, "--", "/bin/sh", "-c", "echo x > /workspace/f; cat /workspace/f"), rc=0)
        eq(r.out, b"x\n", f"home {home!r}, link {link!r}")
        eq(os.listdir(outside), ["tmp"], f"home {home!r}, link {link!r} made something")
        eq(os.stat(os.path.join(outside, "tmp")).st_mode & 0o7777, 0o711, f"home {home!r}, link {link!r} changed a mode")


@case
def image_errors(m):
    for img, word in (("/nonexistent/x", b"/nonexistent/x"), ("relative", b"relative"), ("", b"image"),
                      (m.put("file", "x"), b"")):
        r = done(m.run("--image", img, "--", "true"), rc=125, out=b"")
        ok(r.err.count(b"\n") == 1 and word in r.err, f"{img!r}: {r!r}")


sys.exit(main())
