#!/usr/bin/python3
"""What the wall looks like from inside."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from brigtest import Skip, case, done, eq, main, ok  # noqa: E402

EPERM, ENOSYS = 1, 38
PY = "/usr/bin/python3"


def status_of(m, *opts):
    r = done(m.run(*opts, "--", "cat", "/proc/self/status"))
    return dict(line.split(":\t", 1) for line in r.out.decode().splitlines() if ":\t" in line)


def probe(m, *args, opts=()):
    p = m.tool("wall_probe")
    r = done(m.run(*opts, "--file", f"{p}:/workspace/wall_probe", "--", "/workspace/wall_probe", *args))
    return dict(line.split(" ", 1) for line in r.out.decode().splitlines()) if not args else r.out


@case
def capabilities_are_all_empty(m):
    s = status_of(m)
    for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        eq(s[k], "0" * 16, k)
    eq(s["NoNewPrivs"], "1", "NoNewPrivs")
    eq(s["Seccomp"], "2", "Seccomp")


@case
def root_inside_has_no_capabilities_either(m):
    """As root: uid 0 of the sandbox is nobody special. A user without ids cannot have it at all."""
    r = m.run("--user", "root", "--", "cat", "/proc/self/status")
    if m.name == "user":
        eq(r.rc, 125, repr(r))
        ok(b"newuidmap" in r.err, f"does not name newuidmap: {r!r}")
        return
    s = status_of(m, "--user", "root")
    eq(s["Uid"].split()[0], "0", "uid")
    for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        eq(s[k], "0" * 16, k)
    done(m.run("--user", "0:0", "--", "id", "-u"), out=b"0\n")


@case
def default_user(m):
    r = done(m.sh("id -u; id -g; id -un; id -G; echo $HOME; pwd; whoami"))
    eq(r.out.split(b"\n"), [b"1000", b"1000", b"user", b"1000", b"/home/user", b"/workspace", b"user", b""], "ids")


@case
def setuid_programs_do_nothing(m):
    r = m.sh("exec su -c id root </dev/null", timeout=20)
    ok(r.rc != 0 and b"uid=0" not in r.out, repr(r))
    r = done(m.sh("find / -xdev -perm /6000 -type f 2>/dev/null | head -3; ls -l /usr/bin/su; "
                  "grep ' / \\| /usr ' /proc/self/mountinfo"))
    for line in r.out.decode().splitlines():
        f = line.split()
        if len(f) > 6 and f[4] in ("/", "/usr"):
            ok("nosuid" in f[5], f"mount without nosuid: {line}")


@case
def id_map_is_not_the_hosts(m):
    r = done(m.run("--", "cat", "/proc/self/uid_map", "/proc/self/gid_map"))
    for line in r.out.decode().splitlines():
        inside, outside, count = map(int, line.split())
        if m.name == "root":
            ok(outside >= 65536, f"host ids in the map: {line!r}")
            eq(count, 65536, "range")
        else:
            eq((inside, outside, count), (1000, m.uid, 1), "map")


@case
def every_namespace_is_its_own(m):
    host = {n: os.readlink(f"/proc/self/ns/{n}") for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}
    r = done(m.sh("for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done"))
    for line in r.out.decode().split():
        ok(line not in host.values(), f"{line} is the host's")
    eq(len(r.out.split()), 7, "namespaces")


@case
def processes_of_the_host_are_not_visible(m):
    r = done(m.sh("ls /proc | grep '^[0-9]' | sort -n"))
    pids = [int(x) for x in r.out.split()]
    eq(pids[0], 1, "first pid")
    ok(len(pids) <= 8, f"pids {pids}")


@case
def the_agent_is_closed(m):
    """PID 1's memory, descriptors and executable give nothing away."""
    r = m.sh("for f in mem environ maps auxv syscall stack io; do cat /proc/1/$f >/tmp/o 2>/dev/null; [ -s /tmp/o ] && echo $f; done; "
             "for f in fd fdinfo task/1/fd map_files root cwd; do ls /proc/1/$f/ 2>/dev/null && echo $f; done; "
             "for f in exe cwd root ns/pid; do readlink /proc/1/$f; done; kill -9 1; echo end")
    eq(r.out, b"end\n", "what could be read of PID 1")


@case
def open_descriptors_are_exactly_0_1_2(m):
    eq(probe(m, "fds"), b"0\n1\n2\n", "descriptors")
    # Whatever the caller holds open is not inherited.
    r, w = os.pipe()
    try:
        p = m.tool("wall_probe")
        got = m.run("--file", f"{p}:/workspace/p", "--", "/workspace/p", "fds", pass_fds=(r, w))
        done(got, out=b"0\n1\n2\n")
    finally:
        os.close(r)
        os.close(w)


@case
def environment_is_made_not_inherited(m):
    r = done(m.run("--", "env", "-0", env={"LEAK_ME": "secret", "LD_LIBRARY_PATH": "/x", "TERM": "caller"}))
    env = dict(x.split("=", 1) for x in r.out.decode().split("\0") if x)
    eq(env.get("HOME"), "/home/user", "HOME")
    eq(env.get("USER"), "user", "USER")
    ok("/usr/bin" in env["PATH"].split(":"), f"PATH {env['PATH']}")
    extra = set(env) - {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "PWD", "TMPDIR",
                        "XDG_RUNTIME_DIR", "TZ"}
    eq(extra, set(), "other variables")
    ok("caller" not in env.values() and "secret" not in env.values(), repr(env))


@case
def environment_options(m):
    done(m.run("--env", "A=1", "--env", "B=x=y z", "--env", "E=", "--", "sh", "-c", 'echo "$A|$B|$E|"'),
         out=b"1|x=y z||\n")
    done(m.run("--env", "PATH=/nowhere:/usr/bin:/bin", "--", "sh", "-c", "echo $PATH"),
         out=b"/nowhere:/usr/bin:/bin\n")


@case
def hostname(m):
    done(m.sh("hostname; uname -n; cat /proc/sys/kernel/hostname; cat /etc/hostname 2>/dev/null || echo brig"),
         out=b"brig\nbrig\nbrig\nbrig\n")


@case
def identity_files_are_made_up(m):
    r = done(m.run("--", "cat", "/etc/passwd"))
    names = {x.split(":")[0] for x in r.out.decode().split("\n") if x}
    ok({"root", "user"} <= names, f"names {names}")
    with open("/etc/passwd", encoding="utf-8") as f:
        host = {x.split(":")[0] for x in f}
    ok(not (names & host) - {"root", "nobody", "daemon", "bin", "user"}, f"host accounts: {names & host}")
    r = done(m.sh("cat /etc/shadow /etc/gshadow /etc/machine-id /etc/ssh/* 2>/dev/null; ls -a /etc"))
    for bad in (b"shadow\n", b"sudoers", b"crontab", b"fstab"):
        ok(bad not in r.out, f"{bad!r} in /etc: {r.out!r}")


@case
def host_folders_are_not_there(m):
    r = done(m.sh("ls -a / ; echo =; ls -a /home /root /var /run /mnt /opt /srv /boot /usr/local /usr/src "
                  "/var/log /var/lib 2>/dev/null; true"))
    top = set(r.out.split(b"=")[0].split()) - {b".", b".."}
    allowed = {b"bin", b"sbin", b"lib", b"lib32", b"lib64", b"libx32", b"usr", b"etc", b"dev", b"proc", b"sys",
               b"tmp", b"var", b"run", b"home", b"root", b"workspace", b".brig", b"opt", b"srv", b"mnt", b"media", b"boot"}
    ok(not top - allowed, f"folders {top - allowed}")
    for path in ("/usr/local", "/usr/src", "/opt", "/srv", "/boot", "/mnt", "/root", "/var/lib", "/var/log"):
        r = m.run("--", "find", path, "-xdev", "-mindepth", "1", "!", "-type", "d")
        eq(r.out, b"", f"files below {path}")


@case
def marker_files_of_the_host_are_unreachable(m):
    """A file the caller can read on the host has no path inside, not by a link and not by /proc."""
    mark = m.put("marker", b"HOST-MARKER")
    r = m.sh(f"cat {mark}; ln -s {mark} l; cat l; cat /proc/1/root{mark}; cat /proc/self/root{mark}; "
             f"for p in /proc/[0-9]*; do cat $p/root{mark} $p/cwd/../../../..{mark}; done; true")
    ok(b"HOST-MARKER" not in r.out, repr(r))


@case
def only_loopback(m):
    r = done(m.py("import socket\nprint(socket.if_nameindex())"))
    eq(r.out, b"[(1, 'lo')]\n", "interfaces")
    r = done(m.sh("cat /proc/net/route /proc/net/ipv6_route /proc/net/dev"))
    lines = r.out.decode().splitlines()
    ok(not [x for x in lines if ":" in x and "face" not in x and "packets" not in x and "lo:" not in x],
       f"other devices: {lines}")


@case
def proc_is_masked(m):
    """Kernel files that tell or change something of the host: empty, absent or refused."""
    r = m.sh("for f in kcore keys key-users kallsyms timer_list sysrq-trigger kmsg sched_debug latency_stats "
             "scsi interrupts.x acpi/x; do [ -e /proc/$f ] && head -c 64 /proc/$f 2>/dev/null | od -c | head -1; "
             "done; true")
    eq(r.out.replace(b"0000000\n", b""), b"", "readable")
    r = m.sh("for f in sys/kernel/hostname sys/vm/overcommit_memory sys/kernel/shmmax sys/net/ipv4/ip_forward "
             "sysrq-trigger irq/default_smp_affinity sys/kernel/core_pattern sys/fs/mqueue/msg_max; do "
             "(echo 1 > /proc/$f) 2>/dev/null && echo $f; done; true")
    eq(r.out, b"", "writable")
    if m.name == "root":
        r = m.run("--user", "root", "--", "sh", "-c",
                  "for f in /proc/sys/kernel/shmmax /proc/sys/kernel/msgmax /proc/sys/fs/mqueue/msg_max "
                  "/proc/sys/kernel/sem /proc/sysrq-trigger; do (cat $f > /tmp/v; cat /tmp/v > $f) 2>/dev/null "
                  "&& [ -s /tmp/v ] && echo $f; done; true")
        eq(r.out, b"", "writable by uid 0 inside")


@case
def sys_is_almost_not_there(m):
    r = done(m.sh("ls /sys 2>/dev/null; ls /sys/class /sys/fs/cgroup /sys/kernel /sys/block /sys/firmware 2>/dev/null; "
                  "true"))
    ok(set(r.out.split()) <= {b"devices", b"fs", b"cgroup", b"class", b"kernel"}, f"/sys: {r.out!r}")
    want = os.sysconf("SC_NPROCESSORS_CONF")
    done(m.py("import os; print(os.sysconf('SC_NPROCESSORS_CONF'), os.cpu_count() > 0)"), out=b"%d True\n" % want)
    done(m.sh("nproc >/dev/null; lscpu >/dev/null"))


@case
def mounts_are_read_only_but_the_writable_places(m):
    r = done(m.run("--", "cat", "/proc/self/mountinfo"))
    writable = {"/workspace", "/home/user", "/home", "/tmp", "/var/tmp", "/run", "/root", "/dev/shm"}
    for line in r.out.decode().splitlines():
        f = line.split()
        point, opts = f[4], f[5].split(",")
        fstype = f[f.index("-") + 1]
        if point.startswith("/dev") or fstype in ("devpts", "mqueue"):
            ok("nosuid" in opts, f"nosuid missing: {line}")
            continue
        if point == "/proc" or (point.startswith("/proc/") and fstype == "devtmpfs"):
            continue  # /dev/null over what is masked
        if point in writable:
            ok("nosuid" in opts and "nodev" in opts, f"nosuid,nodev missing: {line}")
        else:
            ok("ro" in opts, f"writable mount: {line}")
    text = r.out.decode()
    ok(m.base not in text and "/var/lib/brig" not in text, f"host paths: {text}")


@case
def root_filesystem_is_not_writable(m):
    users = ["user"] + (["root"] if m.name == "root" else [])
    for u in users:
        r = m.run("--user", u, "--", "sh", "-c",
                  "for d in / /usr /usr/bin /usr/lib /etc /var /bin /lib /dev /proc /sys /home; do "
                  "[ -d $d ] && (: > $d/xx) 2>/dev/null && echo $d; done; "
                  "(echo x >> /etc/passwd) 2>/dev/null && echo passwd; "
                  "(echo x >> /usr/bin/env) 2>/dev/null && echo env; true")
        eq(r.out, b"", f"writable by {u}")


@case
def devices_are_few(m):
    r = done(m.sh("cd /dev && find . ! -type d | sort | tr '\\n' ' '"))
    names = set(r.out.decode().split())
    allowed = {"./null", "./zero", "./full", "./random", "./urandom", "./tty", "./ptmx", "./pts/ptmx", "./fd", "./stdin",
               "./stdout", "./stderr", "./console", "./core"}
    ok(names <= allowed, f"devices {names - allowed}")
    ok({"./null", "./zero", "./full", "./random", "./urandom", "./ptmx", "./fd", "./stdin", "./stdout",
        "./stderr"} <= names, f"missing in {names}")
    done(m.sh("echo x > /dev/null && head -c 3 /dev/zero | od -An -tx1 && [ $(head -c 8 /dev/urandom | wc -c) = 8 ] "
              "&& echo fine; echo y > /dev/full"), rc=None)
    r = m.sh("echo y > /dev/full; echo $?")
    ok(b"0\n" != r.out, "/dev/full took a byte")


EXPECT = {
    EPERM: """io_uring_setup io_uring_enter io_uring_register bpf perf_event_open keyctl add_key request_key
        userfaultfd mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount mount_setattr
        unshare_user unshare_mnt unshare_net clone_user setns init_module finit_module delete_module kexec_load
        reboot swapon open_by_handle_at settimeofday clock_settime iopl ioperm acct quotactl syslog chroot
        sethostname mknod_null af_inet_raw af_packet af_vsock af_alg pair_vsock pair_tipc
        af_inet_mptcp af_inet_sctp af_inet6_udplite
        af_netlink_netfilter af_netlink_audit af_netlink_uevent""",
    ENOSYS: "clone3 unknown_470 unknown_600 unknown_100000",
    0: """getpid mkfifo memfd_create close_range pair_unix af_unix af_inet_stream af_inet_dgram
        af_inet6_stream af_netlink_route ptrace_traceme jit""",
}


@case
def no_pressure_triggers(m):
    """A trigger is work for the host's kernel that no limit counts."""
    script = "cat /proc/pressure/memory >/dev/null && echo some 1000000 2000000 > /proc/pressure/memory"
    if m.native(["sh", "-c", script]).rc != 0:
        raise Skip("this kernel takes no triggers from this user")
    ok(m.sh(script).rc != 0, "a trigger was taken")
    done(m.sh("cat /proc/pressure/memory | grep -c total="))


@case
def system_calls_answer_as_documented(m):
    t = probe(m)
    bad = [f"{n}={t.get(n)} want {want}" for want, names in EXPECT.items() for n in names.split()
           if t.get(n) != str(want)]
    # Calls that reach the kernel: bad descriptors and pointers, so EBADF, EFAULT, EINVAL or ESRCH.
    bad += [f"{n}={t.get(n)} did not reach the kernel" for n in ("fchmodat2", "openat2", "pidfd_open", "rseq")
            if t.get(n) not in ("3", "9", "14", "22")]
    # Nobody becomes root; where 0 has no host id at all the kernel says EINVAL.
    bad += [f"{n}={t.get(n)} want EPERM" for n in ("setuid_0", "setgid_0")
            if t.get(n) != "1" and (m.name, t.get(n)) != ("user", "22")]
    # Other instruction sets: an errno or death, never an answer.
    bad += [f"{n}={t.get(n)} was let through" for n in ("i386_getpid", "x32_getpid", "x32_execve")
            if t.get(n) in (None, "0", "14")]
    ok(not bad, "; ".join(bad))


@case
def probe_sees_the_difference_natively(m):
    """Positive control: on plain Linux the same probe is let through."""
    r = m.native([m.tool("wall_probe")])
    t = dict(line.split(" ", 1) for line in r.out.decode().splitlines())
    eq(t["clone3"], "14", "clone3 natively")
    eq(t["unshare_user"], "0", "unshare natively")
    ok(t["io_uring_enter"] == "9" and t["af_vsock"] == "0" and t["pair_vsock"] != "1", f"{t}")


@case
def terminal_input_cannot_be_faked(m):
    t = probe(m)
    ok(t["tiocsti"] not in ("0",), f"TIOCSTI answers {t['tiocsti']}")

AGENT_CLONE3 = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
at = 0x627269670000  # src/wire/agent_abi.h
assert libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3, 0x100022, -1, ctypes.c_long(0)) == at
for flags in (0, 0x10000000, 0x20000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
    ctypes.memmove(at, struct.pack("8Q", flags, 0, 0, 0, 17, 0, 0, 0), 64)
    pid = libc.syscall(435, ctypes.c_void_p(at), 64)
    if pid == 0:
        os._exit(0)
    print(hex(flags), "made" if pid > 0 else ctypes.get_errno())
"""


@case
def the_agents_way_into_clone3_makes_no_namespace(m):
    """The filter knows the agent's clone3 by an address anybody may use: behind it stand the limit of zero
    user namespaces (ENOSPC) and the missing capabilities (EPERM)."""
    r = done(m.run("--", PY, "-c", AGENT_CLONE3))
    got = dict(line.split() for line in r.out.decode().splitlines())
    eq(got.pop("0x0"), "made", "a plain clone")
    eq(got.pop("0x10000000"), "28", "a user namespace")
    eq(sorted(set(got.values())), ["1"], f"the other namespaces: {got}")


@case
def signals_the_caller_ignores_work_inside(m):
    """A shell's background jobs ignore SIGINT and SIGQUIT, nohup ignores SIGHUP: not the sandbox's business."""
    argv = m.run_argv("--", "grep", "^SigIgn", "/proc/self/status")
    r = done(m.exec(["sh", "-c", "trap '' HUP INT QUIT TERM USR1; exec \"$@\"", "sh", *argv]))
    eq(r.out, b"SigIgn:\t0000000000000000\n", "ignored signals")


@case
def threads_and_fork_work_without_clone3(m):
    done(m.py("import threading, os\nt=threading.Thread(target=lambda: print('t')); t.start(); t.join()\n"
              "print(os.waitpid(os.fork() or os._exit(3), 0)[1] >> 8)"), out=b"t\n3\n")


@case
def debuggers_work_inside(m):
    if not os.path.exists("/usr/bin/strace"):
        raise Skip("no strace on this host")
    r = done(m.sh("strace -f -e trace=write -o /tmp/t sh -c 'echo hi' && grep -c 'write(1' /tmp/t"))
    eq(r.out, b"hi\n1\n", "strace")
    if not os.path.exists("/usr/bin/gdb"):
        raise Skip("no gdb on this host")
    src = m.put("a.c", "int f(int x) { return x + 1; }\nint main(void) { return f(41); }\n")
    r = done(m.sh("gcc -g -o a a.c && gdb -q -batch -ex 'break f' -ex run -ex 'print x' ./a", "--file",
                  f"{src}:/workspace/a.c", timeout=120))
    ok(b"$1 = 41" in r.out, f"gdb: {r!r}")


@case
def nested_namespaces_are_refused(m):
    done(m.run("--", "unshare", "-U", "true"), rc=1)
    r = m.run("--", "unshare", "-Ur", "id")
    ok(r.rc != 0 and (b"not permitted" in r.err or b"denied" in r.err), repr(r))
    if os.path.exists("/usr/bin/bwrap"):
        ok(m.run("--", "bwrap", "--ro-bind", "/", "/", "true").rc != 0, "nested bubblewrap ran")


@case
def priorities_and_limits_cannot_be_raised(m):
    r = m.sh("nice -n -5 true; renice -n -5 -p $$; echo $?")
    eq(r.out, b"1\n", repr(r))
    r = done(m.sh("ulimit -c; cat /proc/self/limits | grep -i 'core file'"))
    ok(r.out.startswith(b"0\n"), f"core dumps: {r!r}")


@case
def core_files_and_crashes_leave_nothing_on_the_host(m):
    before = set(os.listdir(m.dir))
    p = m.tool("wall_probe")
    done(m.run("--file", f"{p}:/workspace/p", "--", "/workspace/p", "segv"), rc=139)
    eq(set(os.listdir(m.dir)), before, "files")


@case
def signals_cannot_leave(m):
    """kill -1 and kill of any host pid number end or reach nothing outside."""
    victim = m.popen(["sleep", "60"])
    m.sh(f"kill -9 {victim.pid}; kill -9 -1", timeout=10)
    ok(victim.poll() is None, "a host process was killed")
    victim.kill()
    victim.wait()


@case
def session_and_terminal_are_new(m):
    r = done(m.py("import os\nprint(os.getsid(0) > 0, os.getpgrp() > 0)\n"
                  "try:\n  os.open('/dev/tty', os.O_RDWR); print('tty')\nexcept OSError as e: print(e.errno)"))
    eq(r.out.split(b"\n")[0], b"True True", "session")
    ok(b"tty" not in r.out, "reached a terminal")


@case
def required_walls(m):
    r = m.run("--require", "landlock", "--", "true")
    eq(r.rc, 0, f"landlock: {r!r}")
    r = m.run("--require", "idmap", "--", "true")
    if m.name == "root":
        eq(r.rc, 0, f"idmap: {r!r}")
    else:
        eq(r.rc, 125, f"idmap of a user without subordinate ids: {r!r}")
        ok(b"idmap" in r.err, repr(r))
    j = json.loads(done(m.run("--json", "--", "true")).out)
    ok(isinstance(j["weaker"], list), repr(j))
    if m.name == "root":
        eq([w for w in j["weaker"] if "landlock" in str(w).lower()], [], "weaker")


sys.exit(main())
