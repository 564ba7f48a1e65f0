#!/usr/bin/env python3
"""The javascript kernel: values, imports, await, output, errors, interrupts."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from interp import Interp, case, eq, main  # noqa: E402

K = Interp('javascript').ready()
FOLDER = tempfile.TemporaryDirectory()


@case
def values_and_state():
    eq(K.run('let x = 1; x').text, '1')
    eq(K.run('let x = 2; x + 1').text, '3', 'declared again')
    eq(K.run('const y = 1; x').text + K.run('const y = 3; y').text, '23')
    eq(K.run('"text"').text, 'text')
    eq(K.run('undefined').results, [])
    eq(K.run('({ a: [1, null] })').text, '{ a: [ 1, null ] }')
    eq([K.run(c).text for c in ('null', '10n', 'NaN', '-0', 'true', 'Symbol("s")')],
       ['null', '10n', 'NaN', '-0', 'true', 'Symbol(s)'])
    eq(K.run('function f() { return 5 }\nclass C {}').errors, [])
    eq(K.run('f() + (new C() instanceof C)').text, '6')


@case
def awaiting():
    eq(K.run("await Promise.resolve('Hello World!')").text, 'Hello World!')
    eq(K.run('setTimeout(() => console.log("later"), 5); await new Promise((r) => setTimeout(r, 40))').out, 'later\n')


@case
def imports():
    e = K.run("\n    import { readFileSync } from 'fs'\n    console.log(typeof readFileSync)\n    ")
    eq((e.out, e.errors), ('function\n', []))
    eq(K.run('import fs, { statSync as s } from "node:fs"; import * as p from "path"; import "os"\n'
             '[typeof fs.readFileSync, typeof s, p.sep]').text, "[ 'function', 'function', '/' ]")
    eq(K.run('const u = await import("url"); typeof u.URL').text, 'function')
    eq(K.run('typeof require("path").join').text, 'function')
    eq(K.run('// import a from "b"\nconst t = `import ${1 + `${2}`} from`, r = /import (x)/, q = "import z from \'w\'"; t + r.source + q').text,
       'import 12 fromimport (x)import z from \'w\'', 'words in text are no imports')
    with open(FOLDER.name + '/mine.mjs', 'w', encoding='ascii') as f:
        f.write('export default 7; export const a = 8;')
    K.tell(op='setup', cwd=FOLDER.name)
    eq(K.run('import d, { a } from "./mine.mjs"; d + a').text, '15')
    eq(K.run('import "no-such-module"').errors[0]['value'].startswith("Cannot find package 'no-such-module'"), True)
    eq(K.run('process.cwd()').text, FOLDER.name)


@case
def output():
    e = K.run('console.log("h\u00e9\U0001f600", { a: 1 }); console.error("err")')
    eq((e.out, e.err), ('h\u00e9\U0001f600 { a: 1 }\n', 'err\n'))
    eq(K.run('require("child_process").execSync("echo sub", { stdio: "inherit" }); 0').out, 'sub\n')
    eq(len(K.run('for (let i = 0; i < 20000; i++) console.log(i)').out), 108890)
    eq(K.run('Promise.reject(new Error("lost")); 5').text, '5')
    eq(K.run('await new Promise((r) => setTimeout(r, 1)); "\\ud800"').text in ('\ufffd', '\ud800'), True)


@case
def errors():
    e = K.run('function thrower() { throw new TypeError("no") }\nthrower()').errors[0]
    eq((e['name'], e['value'], e['traceback'].split('\n')[0]), ('TypeError', 'no', 'TypeError: no'))
    eq(('thrower' in e['traceback'], 'inspector' in e['traceback']), (True, False), e['traceback'])
    eq(K.run('x +').errors[0]['name'], 'SyntaxError')
    eq(K.run('throw "text"').errors[0]['value'], 'text')
    eq(K.run('await Promise.reject(new RangeError("r"))').errors[0]['name'], 'RangeError')


@case
def environment():
    eq(K.run('process.env.FOO', env={'FOO': 'bar'}).text, 'bar')
    eq(K.run('process.env.FOO || "default"').text, 'default')


@case
def display():
    e = K.run('({ [Symbol.for("Jupyter.display")]: () => ({ "text/html": "<b>x</b>", "a/b": 1 }) })')
    eq((e.results[0]['html'], e.results[0]['extra']), ('<b>x</b>', {'a/b': 1}))


@case
def interrupts():
    # a child is interrupted with its parent, so it must be there: it says so itself
    for code in ('console.log(1); while (true) {}', 'console.log(1); await new Promise(() => {})',
                 'require("child_process").execSync("echo 1; sleep 100", { stdio: "inherit" })',
                 'console.log(1); await 0; while (true) {}'):
        K.start(code)
        K.until('stdout')
        K.tell(op='interrupt')
        eq([e['type'] for e in K.until('end_of_execution')], ['error', 'end_of_execution'], code)
    eq(K.run('x').text, '2', 'state is kept')


@case
def the_end():
    e = K.run('console.log("last"); process.exit(3)')
    eq((e.out, e.died[0]['text'], K.event()), ('last\n', 'the javascript process has ended with status 3', None))
    K.__exit__()
    with Interp('javascript', PATH='/nonexistent') as k:
        eq(k.event(), {'type': 'failed', 'text': 'node is not in the image; Debian package nodejs has it'})


@case
def typescript():
    with Interp('typescript') as k:
        e = k.event()
        if e['type'] == 'failed':
            eq('typescript needs node 22.13 or later' in e['text'], True, e)
        else:
            eq(k.run('const message: string = "Hello"; console.log(message)').out, 'Hello\n')


sys.exit(main())
