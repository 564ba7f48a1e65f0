"""brig-interp by itself: commands in, events out."""
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, 'build', 'brig-interp')
PATH = '/usr/local/bin:/usr/bin:/bin'


class Interp:
    def __init__(self, language, command=None, **env):
        base = {'PATH': PATH, 'HOME': os.environ.get('HOME', '/tmp'), 'MPLCONFIGDIR': '/tmp', 'LANG': 'C.UTF-8'}
        self.p = subprocess.Popen(command or [PROGRAM, language], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**base, **env})
        self.raw = b''

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.p.stdin.close()
        self.p.stdout.read()
        self.p.stdout.close()
        self.p.wait()

    def tell(self, **command):
        self.p.stdin.write(json.dumps(command).encode() + b'\n')
        self.p.stdin.flush()

    def event(self):
        """The next event; None at the end. Every line must be JSON in ASCII."""
        line = self.p.stdout.readline()
        if not line:
            return None
        assert line.endswith(b'\n') and re.fullmatch(rb'[\x20-\x7e]+\n', line), line[:200]
        return json.loads(line)

    def ready(self):
        e = self.event()
        assert e == {'type': 'ready'}, e
        return self

    def until(self, *types):
        """Events up to and with the first of these types."""
        seen = []
        while True:
            e = self.event()
            assert e is not None, seen
            seen.append(e)
            if e['type'] in types:
                return seen

    def start(self, code, **more):
        self.tell(op='execute', code=code, **more)

    def run(self, code, **more):
        self.start(code, **more)
        return Execution(self.until('end_of_execution', 'died'))


class Execution:
    def __init__(self, events):
        self.events = events
        of = lambda t: [e for e in events if e['type'] == t]
        self.count = [e['execution_count'] for e in of('number_of_executions')]
        self.out = ''.join(e['text'] for e in of('stdout'))
        self.err = ''.join(e['text'] for e in of('stderr'))
        self.results = of('result')
        self.errors = of('error')
        self.died = of('died')

    @property
    def text(self):
        main = [r for r in self.results if r['is_main_result']]
        return main[0].get('text') if main else None


CASES = []


def case(f):
    CASES.append(f)
    return f


def eq(got, want, what=''):
    assert got == want, f'{what}: got {got!r}, want {want!r}'


def main():
    """Every case on a kernel of its own would start one each: they share what the file makes."""
    import signal
    import sys
    import traceback
    bad = 0

    def too_long(*_):
        raise AssertionError('took more than 120 s')

    signal.signal(signal.SIGALRM, too_long)
    for n, f in enumerate(CASES, 1):
        signal.alarm(120)
        try:
            f()
            print(f'ok {n} - {f.__name__}', flush=True)
        except Exception:  # pylint: disable=broad-except
            bad = 1
            print(f'not ok {n} - {f.__name__}', flush=True)
            for line in traceback.format_exc().splitlines():
                print('# ' + line, flush=True)
        signal.alarm(0)
    print(f'1..{len(CASES)}')
    return bad
