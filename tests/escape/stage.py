#!/usr/bin/python3
"""The scene of an attack, and what became of it.

    stage.py [--leak WORDS] [--tty] [--watch FILE]... [--workdir-leak] [--host NAME=MOST]... -- CMD...

Builds what a hostile program must not reach, runs CMD with `{args}` replaced by where those things are,
and prints one JSON object: what CMD said and the evidence found outside of it. CMD is the attack itself
(the control) or `brig run` of it; the scene is the same, made by the same caller. Nothing here knows
which it is. The evidence are words:

  canary-read     the canary file's bytes, or the name's, in what CMD printed   canary-changed  bytes, mode, owner or existence
  secret-read     the victim's memory, likewise                    victim-changed  its memory
  env-read        a variable of this process's environment         victim-signalled a signal was caught, or it died
  socket          somebody connected or sent to the host's sockets  file-made       a new name in the scene's folder
  exe-changed     a watched file                                   tty-input       bytes faked as typed on the terminal
  key-read        a key of this user's keyring                     image-changed   anything of the image folder
  many-processes  CMD had more than MANY below it, threads counted
  host-NAME       --host: the machine had more than MOST less of it while CMD ran than before (class Host)

All but what CMD said is looked at again and again while CMD runs, and once more after it: what an attack undoes is seen too.

In the guest, as root, and in throw-away namespaces this script is run by itself around the attack.
"""
import ctypes
import hashlib
import json
import os
import pty
import secrets
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MANY = 85  # of a limit of 60 and what brig itself has
LIMIT = 60  # seconds an attack may take
KEYCTL_UNLINK, KEY_USER_KEYRING = 9, -4
ADD_KEY, KEYCTL = 248, 250
libc = ctypes.CDLL(None, use_errno=True)


def digest(path):
    try:
        s = os.stat(path)
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest(), stat.S_IMODE(s.st_mode), s.st_uid, s.st_nlink
    except OSError as e:
        return e.errno


def marks(path):
    """What every change of a file leaves, also one that was undone: nobody can set st_ctime."""
    try:
        s = os.lstat(path)
        return s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode, s.st_uid, s.st_nlink
    except OSError as e:
        return e.errno


def tasks_below(top):
    """Processes and threads that come from top, by the kernel's own lists: looking at all of /proc can take seconds."""
    todo, found = [top], 0
    while todo:
        pid = todo.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # gone meanwhile
        found += len(tasks)
        for t in tasks:
            try:
                with open(f"/proc/{pid}/task/{t}/children", encoding="ascii") as f:
                    todo += f.read().split()
            except OSError:
                pass
    return found - 1


class Sockets:
    """A path and an abstract UNIX socket, TCP and UDP on loopback. Whoever connects or sends is counted; over UNIX
    sockets they get the canary's descriptor, over UDP an answer."""

    def __init__(self, folder, canary):
        self.path = os.path.join(folder, "sock")
        self.abstract = "brig-escape-" + secrets.token_hex(8)
        self.canary = canary
        self.seen = 0
        self.listening = []
        for address in (self.path, "\0" + self.abstract):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.bind(address)
            s.listen(16)
            self.listening.append(s)
        tcp, self.udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(16)
        self.port = tcp.getsockname()[1]
        self.udp.bind(("127.0.0.1", self.port))
        self.listening += [tcp, self.udp]

    def serve(self, wait):
        ready, _, _ = select.select(self.listening, [], [], wait)
        for s in ready:
            self.seen += 1
            if s is self.udp:
                s.sendto(b"?", s.recvfrom(64)[1])
                continue
            c, _ = s.accept()
            if c.family != socket.AF_UNIX:
                c.close()
                continue
            with open(self.canary, "rb") as f, c:
                try:
                    socket.send_fds(c, [b"canary"], [f.fileno()])
                except OSError:
                    pass


class SharedObjects:
    """Memory and queues by name and number, as the caller's programs may have them (sysvipc(7), mq_overview(7))."""

    IPC_CREAT, IPC_EXCL, IPC_RMID, O_CREAT = 0o1000, 0o2000, 0, 0o100

    def __init__(self, mark):
        self.name = "brig-escape-" + secrets.token_hex(8)
        self.key = secrets.randbelow(1 << 30) + 1
        libc.shmat.restype = ctypes.c_void_p
        self.shm = libc.shmget(self.key, ctypes.c_size_t(4096), self.IPC_CREAT | self.IPC_EXCL | 0o600)
        at = libc.shmat(self.shm, None, 0)
        ctypes.memmove(at, mark.encode(), len(mark))
        libc.shmdt(ctypes.c_void_p(at))
        self.msg = libc.msgget(self.key, self.IPC_CREAT | self.IPC_EXCL | 0o600)
        self.mq = libc.mq_open(f"/{self.name}".encode(), self.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600, None)
        with open(f"/dev/shm/{self.name}", "w", encoding="ascii") as f:
            f.write(mark)
        os.chmod(f"/dev/shm/{self.name}", 0o600)

    def close(self):
        libc.shmctl(self.shm, self.IPC_RMID, None)
        libc.msgctl(self.msg, self.IPC_RMID, None)
        libc.mq_unlink(f"/{self.name}".encode())
        if self.mq >= 0:
            os.close(self.mq)
        os.unlink(f"/dev/shm/{self.name}")


class Host:
    """What the machine has left, by its kernel's own count and not by that of any limit: memory in MiB, tasks (processes
    and threads), and MiB (disk) and names in the file systems everybody writes that nobody fills by the way. Others use
    the same machine: what is missing once may be theirs, what is missing in each of some runs is not (escapelib.settled)."""

    SHARED = ("/dev/shm", "/run")

    def __init__(self, most):
        self.most = most
        self.before = self.now()
        self.worst = dict.fromkeys(self.before, 0)

    def now(self):
        left = {}
        if "memory" in self.most:
            with open("/proc/meminfo", encoding="ascii") as f:
                left["memory"] = int(next(x for x in f if x.startswith("MemAvailable:")).split()[1]) >> 10
        if "tasks" in self.most:
            with open("/proc/loadavg", encoding="ascii") as f:
                left["tasks"] = -int(f.read().split()[3].split("/")[1])
        if "disk" in self.most or "names" in self.most:
            there = {v.f_fsid: v for v in map(os.statvfs, filter(os.path.isdir, self.SHARED))}.values()
            left["disk"] = sum(v.f_bfree * v.f_frsize for v in there) >> 20
            left["names"] = sum(v.f_ffree for v in there)
        return {k: v for k, v in left.items() if k in self.most}

    def look(self):
        for k, v in self.now().items():
            self.worst[k] = max(self.worst[k], self.before[k] - v)

    def evidence(self):
        return {f"host-{k}" for k, v in self.worst.items() if v > self.most[k]}


class Scene:
    def __init__(self, watched):
        self.folder = tempfile.mkdtemp(prefix="scene-")
        self.canary = os.path.join(self.folder, "canary")
        self.mark, self.secret, self.env, self.key = (f"{w}-{secrets.token_hex(12)}"
                                                      for w in ("canary", "secret", "environ", "key"))
        fd = os.open(self.canary, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, self.mark.encode())
        os.close(fd)
        self.runtime = os.path.join(self.folder, "runtime")
        shutil.copy(os.path.join(os.environ.get("BRIG_ATTACKS", os.path.join(HERE, "..", "..", "build", "tests", "escape")),
                                 "victim"), self.runtime)
        os.chmod(self.runtime, 0o755)
        self.image = self.make_image()
        self.victim = subprocess.Popen([self.runtime, self.secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       start_new_session=True)
        self.address = self.victim.stdout.readline().decode().strip()
        self.sockets = Sockets(self.folder, self.canary)
        self.shared = SharedObjects(self.mark)
        self.serial = libc.syscall(ADD_KEY, b"user", b"brig-escape", self.key.encode(),
                                   ctypes.c_size_t(len(self.key)), KEY_USER_KEYRING)
        self.watched = {p: digest(p) for p in [*watched, self.runtime, self.canary]}
        self.image_before = self.image_state()
        self.names = set(os.listdir(self.folder))
        self.marks_before = self.marks_now()
        self.asked, self.words = False, set()

    def make_image(self):
        """A root file system all of whose files its owner, and so the attack, could change but for the mounts."""
        top = os.path.join(self.folder, "image")
        for d in ("", "bin", "usr", "usr/bin", "usr/open", "etc", "tmp", "proc", "dev"):
            os.mkdir(os.path.join(top, d))
            os.chmod(os.path.join(top, d), 0o777)
        for name in ("usr/open/file", "usr/bin/tool", "etc/file"):
            with open(os.path.join(top, name), "w", encoding="ascii") as f:
                f.write("of the image\n")
            os.chmod(os.path.join(top, name), 0o777)
        return top

    def image_state(self):
        """Names, bytes, modes and times of all of the image."""
        state = []
        for d, _, files in sorted(os.walk(self.image)):
            for p in [d, *(os.path.join(d, f) for f in sorted(files))]:
                s = os.lstat(p)
                state.append((p, digest(p), s.st_mtime_ns, stat.S_IMODE(s.st_mode), os.listxattr(p, follow_symlinks=False)))
        return state

    def leaks(self, words):
        """Descriptors the attack's parent forgot to close."""
        fds = []
        for w in words:
            if w == "dir":
                fds.append(os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY))
            elif w == "canary":
                fds.append(os.open(self.canary, os.O_RDWR))
            elif w == "root":
                fds.append(os.open("/", os.O_RDONLY | os.O_DIRECTORY))
            elif w == "pidfd":
                fds.append(os.pidfd_open(self.victim.pid))
            elif w == "ns":
                fds += [os.open(f"/proc/self/ns/{n}", os.O_RDONLY) for n in ("mnt", "net", "ipc", "uts", "pid", "user")]
            elif w == "socket":
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.connect(self.sockets.path)
                self.sockets.serve(5)
                self.sockets.seen = 0  # that was us
                fds.append(s.detach())
            else:
                raise SystemExit(f"stage.py: no leak '{w}'")
        return fds

    def args(self, fds):
        return [f"canary={self.canary}", f"dir={self.folder}", f"victim={self.victim.pid}", f"secret={self.address}",
                f"sock={self.sockets.path}", f"abstract={self.sockets.abstract}", f"key={self.serial}",
                f"shm={self.shared.shm}", f"ipc={self.shared.name}", f"port={self.sockets.port}", f"msgkey={self.shared.key}",
                f"image={self.image}", "fds=" + ",".join(map(str, fds))]

    def victim_words(self, wait):
        """The victim's answer, when it comes within so many seconds; a debugger may hold it up while CMD runs. With a wait the
        answer is one to a question of now: one of an earlier look may have been there since before the attack."""
        earlier = self.victim_answer(wait) if wait and self.asked else set()
        return earlier | self.victim_answer(wait)

    def victim_answer(self, wait):
        try:
            if not self.asked:
                self.victim.stdin.write(b"?\n")
                self.victim.stdin.flush()
                self.asked = True
            if not select.select([self.victim.stdout], [], [], wait)[0]:
                return {"victim-signalled"} if wait else set()
            self.asked = False
            memory, caught = self.victim.stdout.readline().decode("latin-1").rsplit(" ", 1)
        except (OSError, ValueError):
            return {"victim-signalled"}
        return ({"victim-changed"} if memory != self.secret else set()) | \
               ({"victim-signalled"} if int(caught) else set())

    def marks_now(self):
        """{path: (the word for it, its marks)} of all that must stay as it is."""
        now = {p: ("canary-changed" if p == self.canary else "exe-changed", marks(p)) for p in self.watched}
        for d, _, files in os.walk(self.image):
            now.update((p, ("image-changed", marks(p))) for p in [d, *(os.path.join(d, f) for f in files)])
        return now

    def look(self, wait=0):
        """What can be seen from outside at this moment; kept."""
        now = self.marks_now()
        self.words |= self.victim_words(wait)
        self.words |= {(now.get(p) or self.marks_before[p])[0] for p in {*now, *self.marks_before} if now.get(p) != self.marks_before.get(p)}
        if set(os.listdir(self.folder)) - self.names:
            self.words.add("file-made")
        return self.words

    def evidence(self, said):
        while True:  # whatever connected and was not yet counted
            before = self.sockets.seen
            self.sockets.serve(0)
            if self.sockets.seen == before:
                break
        words = {w for w, text in (("canary-read", self.mark), ("secret-read", self.secret), ("env-read", self.env),
                                   ("key-read", self.key)) if text.encode() in said}
        words |= self.look(10)
        if self.sockets.seen:
            words.add("socket")
        for p, before in self.watched.items():
            if digest(p) != before:
                words.add("canary-changed" if p == self.canary else "exe-changed")
        if self.image_state() != self.image_before:
            words.add("image-changed")
        return sorted(words)

    def close(self):
        if self.serial >= 0:
            libc.syscall(KEYCTL, KEYCTL_UNLINK, self.serial, KEY_USER_KEYRING)
        self.shared.close()
        if self.victim.poll() is None:
            self.victim.kill()
        self.victim.wait()
        shutil.rmtree(self.folder, True)


class Looks:
    """What is looked at from outside while CMD runs, each as often as it costs little."""

    HOST, SCENE = 0.02, 0.2  # seconds between

    def __init__(self, scene, host):
        self.scene, self.host, self.most = scene, host, 0
        self.next = 0.0

    def wait(self):
        return self.HOST if self.host.most else self.SCENE

    def look(self, pid):
        self.host.look()
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.SCENE
        self.most = max(self.most, tasks_below(pid))
        self.scene.look()


def perform(scene, looks, argv, fds, workdir, tty):
    """CMD to its end, serving the sockets meanwhile: (exit, stdout, stderr, faked input)."""
    master = slave = None
    kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if tty:
        master, slave = pty.openpty()
        mode = termios.tcgetattr(slave)
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        kw = {"stdin": slave, "stdout": slave, "stderr": subprocess.PIPE,
              "preexec_fn": lambda: termios_ctty(slave)}
    p = subprocess.Popen(argv, env={**os.environ, "BRIG_ESCAPE_ENV": scene.env}, pass_fds=fds, cwd=workdir,
                         start_new_session=True, **kw)
    streams = {(master if tty else p.stdout.fileno()): b"", p.stderr.fileno(): b""}
    order, open_ = list(streams), set(streams)
    over = os.pidfd_open(p.pid)
    waited = 0.0  # counted while CMD says nothing
    while open_:
        ready, _, _ = select.select([*open_, over, *scene.sockets.listening], [], [], looks.wait())
        waited += 0 if ready else looks.wait()
        looks.look(p.pid)
        if waited >= LIMIT:
            p.kill()
            p.wait()
            raise SystemExit(f"stage.py: {argv[0]} still ran after {LIMIT} s; it said {streams[order[0]][-300:]!r}")
        if over in ready and not open_ & set(ready):
            break
        for fd in open_ & set(ready):
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            streams[fd] += data
            if not data:
                open_.discard(fd)
        scene.sockets.serve(0)
    os.close(over)
    rc = p.wait()
    faked = b""
    if tty:
        os.set_blocking(slave, False)
        try:
            faked = os.read(slave, 4096)
        except OSError:
            pass
    return rc, streams[order[0]], streams[order[1]], faked


def termios_ctty(fd):
    import fcntl  # pylint: disable=import-outside-toplevel
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def main(args):
    leak, watched, tty, workdir_leak, most = [], [], False, False, {}
    while args and args[0] != "--":
        word = args.pop(0)
        if word == "--leak":
            leak = [w for w in args.pop(0).split(",") if w]
        elif word == "--watch":
            watched.append(args.pop(0))
        elif word == "--tty":
            tty = True
        elif word == "--workdir-leak":
            workdir_leak = True
        elif word == "--host":
            name, _, number = args.pop(0).partition("=")
            most[name] = int(number)
        else:
            raise SystemExit(f"stage.py: unknown option {word}")
    scene = Scene(watched)
    try:
        fds = scene.leaks(leak)
        argv = []
        for a in args[1:]:
            argv += scene.args(fds) if a == "{args}" else [a.replace("{leak}", str(fds[0]) if fds else "").replace("{image}", scene.image)]
        looks = Looks(scene, Host(most))
        rc, out, err, faked = perform(scene, looks, argv, fds, f"/proc/self/fd/{fds[0]}" if workdir_leak else None, tty)
        words = [*scene.evidence(out + err), *sorted(looks.host.evidence())]
        if looks.most > MANY:
            words.append("many-processes")
        if faked:
            words.append("tty-input")
        print(json.dumps({"rc": rc, "out": out.decode("latin-1"), "err": err.decode("latin-1"), "evidence": words}))
    finally:
        scene.close()


if __name__ == "__main__":
    main(sys.argv[1:])
