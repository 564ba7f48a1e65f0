# The python kernel: IPython as in a notebook, whose messages leave by descriptor 4 instead of by sockets. Commands
# come on descriptor 3. What is here: the loop, the streams, results and errors, interrupts.

import asyncio
import builtins
import contextlib
import io
import json
import os
import signal
import sys
import threading
import time

COMMANDS, EVENTS = 3, 4
LINE_MAX = 8 * 1024 * 1024  # the other side ends a kernel that writes a longer one
VALUES_MAX = 200000  # nor takes one with more values
FLUSH_EVERY = 0.01  # seconds that printed text may wait for more
FLUSH_AT = 16 * 1024  # bytes

FIELDS = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg',
    'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex',
    'application/json': 'json', 'application/javascript': 'javascript', 'e2b/data': 'data', 'e2b/chart': 'chart',
}


def plain(value):
    """What JSON can carry everywhere: no NaN, no integer above 64 bits, no half of a surrogate pair."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')
    if isinstance(value, int):
        return int(value) if -2**63 <= value < 2**63 else str(int(value))
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    if isinstance(value, dict):
        return {plain(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        import base64
        return base64.b64encode(value).decode()
    if hasattr(value, 'tolist'):  # numpy
        return plain(value.tolist())
    return plain(str(value))


def values(v):
    """At least the brackets and commas it is written with."""
    if isinstance(v, dict):
        return 1 + sum(1 + values(x) for x in v.values())
    return 1 + sum(1 + values(x) for x in v) if isinstance(v, list) else 0


def send(event):
    event = plain(event)
    line = (json.dumps(event, allow_nan=False, separators=(',', ':')) + '\n').encode()
    if len(line) > LINE_MAX or (len(line) > VALUES_MAX and values(event) > VALUES_MAX):
        return False
    sent = 0
    while sent < len(line):  # an interrupt must not leave half a line
        sent += os.write(EVENTS, line[sent:])
    return True


class Stream(io.TextIOBase):
    """Standard output or error: gathers what is printed for a moment, so that a loop of prints is not a loop of
    system calls."""

    encoding = 'utf-8'
    errors = 'backslashreplace'

    def __init__(self, fd, name):
        self.name = name
        self._fd = fd
        self._parts = []
        self._size = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._thread = None
        self._pid = os.getpid()
        self.buffer = io.FileIO(fd, 'w', closefd=False)

    def fileno(self):
        return self._fd

    def writable(self):
        return True

    def isatty(self):
        return False

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f'write() argument must be str, not {type(text).__name__}')
        with self._lock:
            self._parts.append(text)
            self._size += len(text)
            if self._size >= FLUSH_AT or os.getpid() != self._pid:  # a child has no thread
                self.flush()
            elif not self._wake.is_set():
                if self._thread is None:
                    self._thread = threading.Thread(target=self._flusher, daemon=True, name='brig-flush')
                    self._thread.start()
                self._wake.set()
        return len(text)

    def _flusher(self):
        while True:
            self._wake.wait()
            time.sleep(FLUSH_EVERY)
            with contextlib.suppress(Exception):
                self.flush()

    def flush(self):
        with self._lock:
            self._wake.clear()
            data = memoryview(''.join(self._parts).encode('utf-8', 'backslashreplace'))
            self._parts.clear()
            self._size = 0
            while data:
                data = data[os.write(self._fd, data):]


def flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def result(data, main):
    flush()
    event = {'type': 'result', 'is_main_result': main, 'extra': {}}
    for mime, value in data.items():
        if mime in FIELDS:
            event[FIELDS[mime]] = value
        else:
            event['extra'][mime] = value
    text = event.get('text')
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in '\'"':
        event['text'] = text[1:-1]
    while not send(event):  # leave out the largest until it fits
        sizes = {k: len(json.dumps(plain(v))) + 40 * values(plain(v)) for k, v in event.items() if k not in ('type', 'is_main_result')}
        largest = max(sizes, key=sizes.get)
        event[largest] = {} if largest == 'extra' else None
        sys.stderr.write(f'[{largest} of this result is larger than {LINE_MAX // 2**20} MiB or {VALUES_MAX} values and left out]\n')
        if largest != 'extra':
            del event[largest]
        flush()


def missing(text):
    send({'type': 'failed', 'text': text})
    os._exit(1)


def make_shell():
    try:
        from ipykernel.zmqshell import ZMQInteractiveShell
    except ImportError as e:
        missing(f'python3 has no ipykernel ({e}); Debian package python3-ipykernel has it')
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.error import StdinNotImplementedError
    from traitlets import Any, Type

    class Hook(DisplayHook):
        session = pub_socket = parent_header = topic = Any(None, allow_none=True)

        def set_parent(self, parent):
            self.parent_header = parent

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            self.data = format_dict

        def finish_displayhook(self):
            data, self.data = getattr(self, 'data', None), None
            if data:
                result(data, True)

    class Publisher(DisplayPublisher):
        session = pub_socket = parent_header = topic = Any(None, allow_none=True)

        def set_parent(self, parent):
            self.parent_header = parent

        def publish(self, data, metadata=None, *, transient=None, update=False, **kwargs):
            if not update:
                result(data, False)

        def clear_output(self, wait=False):
            flush()

    class Shell(ZMQInteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def _showtraceback(self, etype, evalue, stb):
            flush()
            self._last_traceback = stb
            send({'type': 'error', 'name': str(etype.__name__), 'value': str(evalue),
                  'traceback': self.InteractiveTB.stb2text(stb)})

        def init_history(self):
            self.config.HistoryManager.enabled = False
            super().init_history()

        def ask_exit(self):
            self.leave = True

    # Other libraries look at these names to see that they are in a notebook.
    Shell.__name__ = Shell.__qualname__ = 'ZMQInteractiveShell'

    def no_input(prompt=''):
        raise StdinNotImplementedError('raw_input was called, but this frontend does not support input requests.')

    shell = Shell.instance(user_ns={})
    shell.leave = False
    shell.config.setdefault('IPKernelApp', {})
    builtins.input = no_input
    shell.enable_gui = lambda gui=None: None
    return shell


def teach(shell):
    """Data frames and figures as data, pictures as pictures. Nothing is imported before the code does."""
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    def teach_one(mime, method, module, name, convert):
        class Formatter(BaseFormatter):
            format_type = Unicode(mime)
            print_method = ObjectName(method)
            _return_type = dict

            # Not by a table of types: the inline backend takes figures out of every one of them.
            def __call__(self, obj):
                if any(c.__module__ == module and c.__name__ == name for c in type(obj).__mro__):
                    return convert(obj)
                return super().__call__(obj)

        shell.display_formatter.formatters[mime] = Formatter(parent=shell.display_formatter)

    teach_one('e2b/data', '_repr_e2b_data_', 'pandas.core.frame', 'DataFrame', frame_data)
    teach_one('e2b/chart', '_repr_e2b_chart_', 'matplotlib.figure', 'Figure', figure_chart)
    sys.meta_path.insert(0, PictureHook())


def frame_data(frame):
    def cell(v):
        if hasattr(v, 'isoformat'):
            return v.isoformat() if v == v else None  # not a time
        return v

    return {str(name): [cell(v) for v in frame.iloc[:, i].tolist()] for i, name in enumerate(frame.columns)}


class PictureHook:
    """When PIL is imported: show() and save() of a picture display it."""

    def find_spec(self, name, path=None, target=None):
        if name != 'PIL.Image':
            return None
        sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                show_pictures(module)

            spec.loader.exec_module = exec_module
        return spec


def show_pictures(module):
    from IPython.display import display
    save = module.Image.save
    inside = threading.local()

    def save_and_show(self, fp, *args, **kwargs):
        save(self, fp, *args, **kwargs)
        if isinstance(fp, (str, os.PathLike)) and not getattr(inside, 'busy', False):
            inside.busy = True
            try:
                display(self)
            finally:
                inside.busy = False

    def show(self, *args, **kwargs):
        display(self)

    module.Image.save = save_and_show
    module.Image.show = show


class Interrupts:
    """SIGINT stops the code that runs: by an exception, or, while it awaits something, by cancelling that."""

    def __init__(self):
        self.busy = False
        self.task = None
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, number, frame):
        if not self.busy:
            return
        if self.task is not None and asyncio.current_task() is None:  # nothing runs that could be raised in
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)
        else:
            raise KeyboardInterrupt


class Kernel:
    def __init__(self, shell):
        self.shell = shell
        self.interrupts = Interrupts()
        self.partial = bytearray()
        self.queue = asyncio.Queue()

    def readable(self):
        data = os.read(COMMANDS, 1 << 20)
        if not data:
            os._exit(0)
        self.partial += data
        *lines, rest = self.partial.split(b'\n')
        self.partial = bytearray(rest)
        for line in lines:
            self.queue.put_nowait(json.loads(line))

    async def serve(self):
        loop = asyncio.get_running_loop()
        loop.add_reader(COMMANDS, self.readable)
        loop.set_exception_handler(self.lost_exception)
        self.warm_up()
        send({'type': 'ready'})
        while True:
            command = await self.queue.get()
            if command['op'] == 'setup':
                os.environ.update(command.get('env') or {})
                if command.get('cwd'):
                    with contextlib.suppress(OSError):
                        os.chdir(command['cwd'])
            elif command['op'] == 'execute':
                await self.execute(command['code'], command.get('env') or {})
                if self.shell.leave:
                    os._exit(0)

    def warm_up(self):
        """What the first execution would wait for: modules loaded when they are first wanted, and caches. It leaves no trace."""
        shell = self.shell
        with contextlib.suppress(Exception):
            shell.should_run_async('1', transformed_cell=shell.transform_cell('1'))
            shell.run_cell('1', store_history=False, silent=True)
            shell.display_formatter.format(1)
            json.dumps(plain({'text': '1'}))

    @staticmethod
    def lost_exception(loop, context):
        if not isinstance(context.get('exception'), KeyboardInterrupt):
            loop.default_exception_handler(context)

    async def execute(self, code, env):
        before = {name: os.environ.get(name) for name in env}
        os.environ.update(env)
        try:
            await self.run(code)
        except BaseException as e:  # an interrupt in the moment between code and kernel
            self.interrupts.busy = False
            send({'type': 'error', 'name': type(e).__name__, 'value': str(e), 'traceback': ''})
        self.interrupts.busy = False
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        flush()
        send({'type': 'end_of_execution'})

    async def run(self, code):
        # As ipykernel does: code that awaits nothing runs outside the loop's reach.
        shell = self.shell
        cell = shell.transform_cell(code)
        self.interrupts.busy = True
        if not shell.should_run_async(code, transformed_cell=cell):
            shell.run_cell(code, store_history=True)
            return
        task = asyncio.ensure_future(shell.run_cell_async(code, store_history=True, transformed_cell=cell))
        self.interrupts.task = task
        try:
            await task
        except asyncio.CancelledError:
            send({'type': 'error', 'name': 'KeyboardInterrupt', 'value': '', 'traceback': 'KeyboardInterrupt'})
        finally:
            self.interrupts.busy = False
            self.interrupts.task = None
            shell.events.trigger('post_execute')


def main():
    for fd in (COMMANDS, EVENTS):
        os.set_inheritable(fd, False)
    os.close(5)
    os.set_blocking(COMMANDS, True)
    sys.path[0] = ''
    sys.argv = ['']
    sys.stdout, sys.stderr = Stream(1, '<stdout>'), Stream(2, '<stderr>')
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    if os.environ.get('MPLBACKEND', 'agg').lower() == 'agg':
        os.environ['MPLBACKEND'] = 'module://matplotlib_inline.backend_inline'
    shell = make_shell()
    teach(shell)
    asyncio.run(Kernel(shell).serve())


main()
