"""What is left of a sandbox, seen from the host.

The test process is a child subreaper (prctl(2)): when brig and its runner die, what they started
becomes our descendant. So "no process of the sandbox is left" is "we have no descendant that is
not dead", whatever its name, session, process group or namespace.
"""
import ctypes
import os
import signal

PR_SET_CHILD_SUBREAPER = 36
_spared = set()  # processes of the test itself that stay for all its cases
_owned = {}  # pid -> Popen: reaped by their own object


def become_subreaper():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def owned(popen):
    for pid in [p for p, o in _owned.items() if o.returncode is not None]:
        del _owned[pid]
    _owned[popen.pid] = popen


def spare(pid):
    _spared.add(pid)


def stat_of(pid):
    """(state, ppid) or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            s = f.read()
    except OSError:
        return None
    rest = s[s.rindex(b")") + 2:].split()
    return rest[0].decode(), int(rest[1])


def table():
    t = {}
    for n in os.listdir("/proc"):
        if n.isdigit():
            s = stat_of(n)
            if s:
                t[int(n)] = s
    return t


def below(top, tab=None, but=()):
    """Live (not zombie) processes below pid top, nearest first; without those of but and what is below them."""
    tab = tab if tab is not None else table()
    kids = {}
    for pid, (_, ppid) in tab.items():
        kids.setdefault(ppid, []).append(pid)
    out, todo = [], [top]
    while todo:
        for c in kids.get(todo.pop(0), []):
            if c in but:
                continue
            todo.append(c)
            if tab[c][0] not in "ZX":
                out.append(c)
    return out


def descendants(tab=None):
    """Our live descendants; orphans that died are reaped on the way."""
    me = os.getpid()
    tab = tab if tab is not None else table()
    for pid, (state, ppid) in tab.items():
        if ppid == me and state == "Z" and pid not in _owned:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
    return below(me, tab, _spared)


def kill_descendants():
    for _ in range(200):
        left = descendants()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for o in list(_owned.values()):
            o.poll()


def describe(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            cmd = f.read().replace(b"\0", b" ").decode("utf-8", "replace")
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            st = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        return f"{pid} {st.get('Name')} {st.get('State')} ppid={st.get('PPid')} ns={st.get('NSpid')} [{cmd[:80]}]"
    except OSError:
        return f"{pid} (gone)"


def namespaces(pid):
    """The namespaces of a process that are not ours."""
    out = set()
    for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        try:
            v = os.readlink(f"/proc/{pid}/ns/{n}")
            if v != os.readlink(f"/proc/self/ns/{n}"):
                out.add(v)
        except OSError:
            pass
    return out


def mounts(base):
    """Mounts of this mount namespace that name our folders, or hold a namespace."""
    out = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            if base in line or " - nsfs " in line:
                out.append(line.rstrip())
    return out


def records(state):
    """Records of live sandboxes below the state folder."""
    out = []
    for d, _, files in os.walk(os.path.join(state, "live")):
        out += [os.path.join(d, f) for f in files]
    return out


def brig_cgroups():
    """Every cgroup folder below a brig folder, over all hierarchies."""
    out = []
    for d, dirs, _ in os.walk("/sys/fs/cgroup"):
        if "/brig/" in d + "/":
            out += [os.path.join(d, n) for n in dirs]
    return out


def cgroups(state):
    """Cgroups left by sandboxes of this state folder (their ids are remembered by `seen`)."""
    ids = seen.get(state, set())
    return [c for c in brig_cgroups() if any(i in c for i in ids)]


seen = {}


def remember(state):
    """Note the ids of the live sandboxes of a state folder; returns them."""
    ids = set()
    for r in records(state):
        try:
            with open(r, encoding="ascii", errors="replace") as f:
                ids |= {line[3:].strip() for line in f if line.startswith("id=") and len(line) > 8}
        except OSError:
            pass
    seen.setdefault(state, set()).update(ids)
    return ids


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def ns_pids(pid):
    """The process's number in each PID namespace, the outermost first; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith("NSpid:"):
                    return [int(x) for x in line.split()[1:]]
    except OSError:
        pass
    return []


def init_of(top):
    """Host pid of the sandbox's PID 1 below a brig or runner process, None while there is none."""
    for pid in below(top):
        ids = ns_pids(pid)
        if len(ids) > 1 and ids[-1] == 1:
            return pid
    return None
