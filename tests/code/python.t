#!/usr/bin/env python3
"""The python kernel: values, output, errors, the notebook's ways, rich results, interrupts."""
import base64
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from interp import Interp, case, eq, main  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
K = Interp('python', MPLCONFIGDIR=FOLDER.name, HOME=FOLDER.name).ready()


@case
def values_and_state():
    eq(K.run('x = 1; x').text, '1')
    e = K.run('x += 1\nx')
    eq((e.text, e.count, e.out, e.errors), ('2', [2], '', []))
    eq(K.run("'quoted'").text, 'quoted', 'quotes of a string are not shown')
    eq(K.run('None').results, [])
    eq(K.run('_').results[0]['text'], 'quoted')


@case
def output():
    e = K.run('import sys\nprint("h\\u00e9", 1)\nprint("err", file=sys.stderr)')
    eq((e.out, e.err), ('h\u00e9 1\n', 'err\n'))
    eq(len([x for x in e.events if x['type'] == 'stdout']), 1, 'one print, one event')
    eq(K.run('for i in range(20000): print(i)').out, ''.join(f'{i}\n' for i in range(20000)))
    eq(K.run('import os\n_ = os.system("echo sub; echo sub2 >&2")').out, 'sub\n', "a child's output")
    eq(K.run('_ = os.write(1, b"a\\xffb\\xc3"); _ = os.write(1, b"\\xa9")').out, 'a\ufffdb\u00e9', 'bytes')
    eq(K.run('print("\\ud800")').out, '\\ud800\n', 'half a pair')
    e = K.run('print("first"); "second"')
    eq([x['type'] for x in e.events], ['number_of_executions', 'stdout', 'result', 'end_of_execution'], 'in order')


@case
def notebook():
    eq(K.run('!echo $((1+1))').out.strip(), '2')
    eq(K.run('%cd -q /\n%pwd').text, '/')
    eq(K.run('import asyncio\nawait asyncio.sleep(0)\n"awaited"').text, 'awaited')
    eq(K.run('get_ipython().__class__.__name__').text, 'ZMQInteractiveShell')
    eq(K.run('    y = 5\n    y').text, '5', 'indented as a whole')
    e = K.run('input()')
    eq(e.errors[0]['name'], 'StdinNotImplementedError')
    eq(K.run('import time; t = asyncio.get_running_loop().create_task(asyncio.sleep(0, 7))').errors, [])
    eq(K.run('await t').text, '7', 'a task lives on')


@case
def errors():
    e = K.run('1/0').errors[0]
    eq((e['name'], e['value'], 'ZeroDivisionError' in e['traceback']), ('ZeroDivisionError', 'division by zero', True))
    eq(K.run('(').errors[0]['name'], 'SyntaxError')
    eq(K.run('import sys; sys.exit(3)').errors[0]['name'], 'SystemExit')
    eq(K.run('raise KeyboardInterrupt').errors[0]['name'], 'KeyboardInterrupt')
    eq(K.run('1').text, '1')


@case
def environment():
    eq(K.run('import os; os.environ["FOO"]', env={'FOO': 'bar'}).text, 'bar')
    eq(K.run('os.environ.get("FOO", "none")').text, 'none')
    K.tell(op='setup', cwd='/usr', env={'GLOBAL': 'g'})
    eq(K.run('os.getcwd() + os.environ["GLOBAL"]').text, '/usrg')
    eq(K.run('os.environ["GLOBAL"]', env={'GLOBAL': 'l'}).text, 'l')
    eq(K.run('os.environ["GLOBAL"]').text, 'g')


@case
def rich():
    e = K.run('from IPython.display import *\ndisplay(HTML("<b>x</b>")); display(Markdown("*m*")); display(SVG("<svg/>"))\n'
              'display(JSON({"a": float("nan"), "b": 2**80, "c": [1]})); display({"application/x-foo": 1}, raw=True); 5')
    r = e.results
    eq([x['is_main_result'] for x in r], [False] * 5 + [True])
    eq((r[0]['html'], r[1]['markdown'], 'svg' in r[2]), ('<b>x</b>', '*m*', True))
    eq(r[3]['json'], {'a': None, 'b': str(2**80), 'c': [1]})
    eq(r[4]['extra'], {'application/x-foo': 1})
    e = K.run('class T:\n  def _repr_latex_(self): return "$x$"\nT()')
    eq(e.results[0]['latex'], '$x$')
    e = K.run('display(HTML("x" * (9 << 20))); 1')
    eq((len(e.results), 'html' in e.results[0], 'larger than 8 MiB' in e.err), (2, False, True), 'too large')
    e = K.run('import pandas as pd\npd.DataFrame({"a": range(300000)})')
    eq((len(e.results), 'data' in e.results[0], 'html' in e.results[0]), (1, False, True), 'too many values')


@case
def frames():
    r = K.run('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", None], "t": pd.to_datetime(["2024-01-02", None])})').results[0]
    eq(r['data'], {'a': [1, 2], 'b': ['x', None], 't': ['2024-01-02T00:00:00', None]})
    eq(('html' in r, 'text' in r), (True, True))


@case
def pictures():
    for code in ('m.save(f)', 'm.show()', 'm'):
        f = os.path.join(FOLDER.name, 'x.png')
        r = K.run(f'from PIL import Image\nf = {f!r}\nm = Image.new("RGB", (4, 4))\n{code}').results
        eq((len(r), base64.b64decode(r[0]['png'])[:4]), (1, b'\x89PNG'), code)


PLOT = 'import matplotlib.pyplot as plt, datetime\nplt.close("all")\n'


def chart(code):
    e = K.run(PLOT + code + '\nplt.show()')
    eq((e.errors, len(e.results), base64.b64decode(e.results[0]['png'])[:4]), ([], 1, b'\x89PNG'))
    return e.results[0].get('chart')


@case
def charts():
    c = chart('plt.bar(["A", "B"], [100, 200], label="Sold"); plt.title("T"); plt.xlabel("Who"); plt.ylabel("n (pcs)")')
    eq(c, {'type': 'bar', 'title': 'T', 'x_label': 'Who', 'x_unit': None, 'y_label': 'n (pcs)', 'y_unit': 'pcs',
           'elements': [{'label': 'A', 'group': 'Sold', 'value': 100}, {'label': 'B', 'group': 'Sold', 'value': 200}]})
    c = chart('plt.plot([datetime.date(2023, 9, d) for d in (1, 2, 3)], [1, 2, 3], label="l"); plt.xlabel("Time (s)")')
    eq((c['type'], c['x_scale'], c['y_scale'], c['x_unit'], c['title']), ('line', 'datetime', 'linear', 's', None))
    eq(c['elements'][0]['points'][0], ['2023-09-01T00:00:00+00:00', 1])
    eq((c['elements'][0]['label'], all(isinstance(t, str) for t in c['x_ticks'] + c['x_tick_labels'])), ('l', True))
    c = chart('plt.plot([1, 2], ["A", "B"])')
    eq((c['y_scale'], c['elements'][0]['points']), ('categorical', [[1, 'A'], [2, 'B']]))
    c = chart('plt.plot([1, 2], [1, 100]); plt.yscale("log"); plt.grid(True)')
    eq((c['y_scale'], len(c['elements'])), ('log', 1))
    c = chart('plt.scatter([1, 2], [3, 4], label="a"); plt.scatter([1, 2, 3], [3, 4, 5], label="b")')
    eq((c['type'], [len(x['points']) for x in c['elements']], c['elements'][1]['label']), ('scatter', [2, 3], 'b'))
    c = chart('plt.pie([90, 10], labels=["No", "Yes"], autopct="%1.1f%%", startangle=90); plt.title("Q")')
    eq(c, {'type': 'pie', 'title': 'Q', 'elements': [{'label': 'No', 'angle': 324, 'radius': 1},
                                                     {'label': 'Yes', 'angle': 36, 'radius': 1}]})
    for more in ('', ', patch_artist=True'):
        c = chart('d = {"A": [85, 90, 78, 92, 88], "B": [95, 89, 76, 91, 84, 87], "C": [75, 82, 88, 79, 86]}\n'
                  f'plt.boxplot(list(d.values()), labels=list(d){more}); plt.ylabel("Score")')
        eq(c['type'], 'box_and_whisker')
        eq([[b[k] for k in ('label', 'min', 'first_quartile', 'median', 'third_quartile', 'max', 'outliers')]
            for b in c['elements']],
           [['A', 78, 85, 88, 90, 92, []], ['B', 84, 84.75, 88, 90.5, 95, [76]], ['C', 75, 79, 82, 86, 88, []]])
    c = chart('f, a = plt.subplots(1, 2); f.suptitle("S"); a[0].plot([1, 2]); a[1].scatter([1], [2])')
    eq((c['type'], c['title'], [x['type'] for x in c['elements']]), ('superchart', 'S', ['line', 'scatter']))
    c = chart('f, a = plt.subplots(); a.add_artist(plt.Circle((0, 0), 1)); plt.title("U")')
    eq(c, {'type': 'unknown', 'title': 'U', 'elements': []})
    eq(chart('plt.subplots()'), None, 'a blank figure')


@case
def interrupts():
    for code in ('import time; time.sleep(100)', 'while True: pass', 'import asyncio\nawait asyncio.sleep(100)',
                 'import subprocess; subprocess.run(["sleep", "100"])'):
        K.start('print(1, flush=True)\n' + code)
        K.until('stdout')
        K.tell(op='interrupt')
        eq([e['type'] for e in K.until('end_of_execution')][-2:], ['error', 'end_of_execution'], code)
        K.tell(op='interrupt')  # harmless now
    eq(K.run('x').text, '2', 'state is kept')


@case
def the_end():
    e = K.run('print("last")\nimport os; os._exit(4)')
    eq((e.died[0]['text'], K.event()), ('the python process has ended with status 4', None))
    K.__exit__()
    with Interp('python', PYTHONPATH='/nonexistent', PATH='/usr/bin:/bin') as k:
        k.ready()
        e = k.run('import os, signal; os.kill(os.getpid(), signal.SIGKILL)')
        eq('signal 9' in e.died[0]['text'], True)
    with Interp('python', PATH='/nonexistent') as k:
        eq(k.event(), {'type': 'failed', 'text': 'python3 is not in the image; Debian package python3-ipykernel has it'})
    os.makedirs(FOLDER.name + '/ipykernel', exist_ok=True)
    with open(FOLDER.name + '/ipykernel/__init__.py', 'w', encoding='ascii') as f:
        f.write('raise ImportError("none")\n')
    with Interp('python', PYTHONPATH=FOLDER.name) as k:
        e = k.event()
        eq((e['type'], 'Debian package python3-ipykernel' in e['text']), ('failed', True))


sys.exit(main())
