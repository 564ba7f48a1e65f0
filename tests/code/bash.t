#!/usr/bin/env python3
"""The bash kernel, and what brig-interp does for every kernel."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from interp import Interp, case, eq, main  # noqa: E402

K = Interp('bash').ready()


@case
def state():
    eq(K.run('X=5; echo $X').out, '5\n')
    eq(K.run('declare -A m; m[a]=1; f() { local b=2; echo "$b"; }').errors, [])
    eq(K.run('echo $X ${m[a]} $(f)').out, '5 1 2\n')
    eq(K.run('cd /usr; pwd').out, '/usr\n')
    eq(K.run('pwd').out, '/usr\n')


@case
def text():
    code = "echo 'it'\\''s' \"q\" \\\\ # comment\ncat <<X\nhere\tdoc\r\nX\nprintf '%s' '\u00e9 %d \x01'"
    eq(K.run(code).out, "it's q \\\nhere\tdoc\r\n\u00e9 %d \x01", 'quotes, tabs, here documents')
    eq(K.run("printf 'a\\303'; sleep 0.05; printf '\\251\\377\\0x'").out, 'a\u00e9\ufffd\0x', 'bytes')
    eq(K.run("printf '\\303'").out, '\ufffd', 'half a character at the end')
    e = K.run('echo out; echo err >&2')
    eq((e.out, e.err, e.count), ('out\n', 'err\n', [9]))
    eq(len(K.run('head -c 3000000 /dev/zero | tr "\\0" A').out), 3000000)
    eq(K.run('cat').out, '', 'nothing on standard input')


@case
def status():
    eq(K.run('false').errors, [{'type': 'error', 'name': 'ExitStatus', 'value': '1', 'traceback': ''}])
    eq(K.run('echo $?').out, '1\n')
    e = K.run('if')
    eq((e.errors[0]['value'], 'syntax error' in e.err), ('2', True))
    eq(K.run('echo still').out, 'still\n')


@case
def environment():
    eq(K.run('echo "$FOO"; printenv FOO', env={'FOO': "b'a\nr"}).out, "b'a\nr\n" * 2)
    eq(K.run('echo ${FOO:-default}').out, 'default\n')
    K.tell(op='setup', cwd='/', env={'GLOBAL': 'g'})
    eq(K.run('echo $GLOBAL $PWD', env={'GLOBAL': 'l'}).out, 'l /\n')
    eq(K.run('echo $GLOBAL').out, 'g\n')


@case
def interrupts():
    # Not while bash has forked and not yet become the program: then it goes on, as on a terminal.
    for code in ('sh -c "echo 1; exec sleep 100"; echo after', 'echo 1; while :; do :; done; echo after'):
        K.start(code)
        K.until('stdout')
        K.tell(op='interrupt')
        rest = K.until('end_of_execution')
        eq(([e for e in rest if e['type'] == 'stdout'], rest[-1]['type']), ([], 'end_of_execution'), code)
    eq(K.run('echo $X').out, '5\n', 'state is kept')


@case
def a_reader_that_stands_still():
    K.start('while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done')
    K.until('stdout')
    K.tell(op='interrupt')  # its output is full by now or soon; the interrupt gets through
    K.until('end_of_execution')


@case
def the_end():
    e = K.run('echo last; exit 3')
    eq((e.out, e.died[0]['text'], K.event()), ('last\n', 'the bash process has ended with status 3', None))
    K.__exit__()
    with Interp('bash') as k:
        k.ready()
        k.p.stdin.write(b'{"op":"execute"}\n')
        k.p.stdin.flush()
        eq(k.event(), None, 'no command')
    with Interp('bash') as k:
        k.ready()
        e = k.run('printf "%09000000d" 0 >&4; sleep 100')
        eq('signal 9' in e.died[0]['text'], True, 'an endless event')
    with Interp('klingon') as k:
        eq((k.event(), k.p.wait()), (None, 2))


sys.exit(main())
