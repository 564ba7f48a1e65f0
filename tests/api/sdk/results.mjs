// Results of every kind: what a value shows of itself, charts, output, tracebacks, as the interpreter SDK gives them.
import { Sandbox, assert, run, test } from './lib.mjs'

const { equal, deepEqual, ok } = assert
const box = await Sandbox.create({ timeoutMs: 240_000 })
const one = async (code, opts) => {
  const e = await box.runCode(code, opts)
  equal(e.error, undefined, JSON.stringify(e.error))
  return e.results[0]
}
const shows = (body) => `class R:\n${body.split('\n').map((l) => '    ' + l).join('\n')}\nR()`

test('text, and the main result', async () => {
  const e = await box.runCode("from IPython.display import display\ndisplay('shown')\n'v\u00e4lue'")
  deepEqual(e.results.map((r) => [r.text, r.isMainResult]), [['shown', false], ['v\u00e4lue', true]])
  equal(e.text, 'v\u00e4lue')
  equal((await box.runCode('x = 1')).text, undefined)
  equal((await box.runCode('None')).results.length, 0)
  equal((await one('[1, "a", {"b": None}]')).text, "[1, 'a', {'b': None}]")
})

test('html, markdown, latex, svg, javascript', async () => {
  for (const kind of ['html', 'markdown', 'latex', 'svg', 'javascript']) {
    const r = await one(shows(`def _repr_${kind}_(self): return '<b>\u00fc</b>'`))
    equal(r[kind], '<b>\u00fc</b>', kind)
    ok(r.formats().includes(kind))
  }
})

test('png, jpeg, pdf', async () => {
  for (const [kind, mime] of [['png', 'png'], ['jpeg', 'jpeg'], ['pdf', 'pdf']]) {
    const r = await one(shows(`def _repr_${mime}_(self): return b'\\x89bytes\\xff'`))
    ok(Buffer.from(r[kind], 'base64').equals(Buffer.from([0x89, ...Buffer.from('bytes'), 0xff])), kind)
  }
})

test('json', async () => {
  deepEqual((await one(shows("def _repr_json_(self): return {'a': [1, 2.5, None, True, '\u00fc']}"))).json, { a: [1, 2.5, null, true, '\u00fc'] })
  // types the SDK has no name for: it leaves them out, and the rest is there
  equal((await one(shows("def _repr_mimebundle_(self, **k): return {'text/plain': 'p', 'application/x-own': {'k': 1}}"))).text, 'p')
})

test('charts of matplotlib', async () => {
  const chart = async (code) => {
    const r = await one(`import matplotlib.pyplot as plt\n${code}\nplt.show()`)
    ok(Buffer.from(r.png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
    return r.chart
  }
  let c = await chart("plt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.xlabel('t (s)')\nplt.ylabel('y')\nplt.title('T')")
  deepEqual([c.type, c.title, c.x_label, c.x_unit, c.y_label], ['line', 'T', 't (s)', 's', 'y'])
  deepEqual(c.elements.map((e) => [e.label, e.points]), [['l', [[1, 4], [2, 5], [3, 6]]]])
  c = await chart("plt.scatter([1, 2], [3, 4], label='s')")
  deepEqual([c.type, c.elements[0].points], ['scatter', [[1, 3], [2, 4]]])
  c = await chart("plt.bar(['a', 'b'], [1, 2])")
  deepEqual([c.type, c.elements.map((e) => [e.label, e.value])], ['bar', [['a', 1], ['b', 2]]])
  c = await chart("plt.pie([1, 3], labels=['a', 'b'])")
  deepEqual([c.type, c.elements.map((e) => [e.label, Math.round(e.angle)])], ['pie', [['a', 90], ['b', 270]]])
  c = await chart("plt.boxplot([[1, 2, 3, 4, 100]])")
  deepEqual([c.type, c.elements[0].median, c.elements[0].outliers], ['box_and_whisker', 3, [100]])
  c = await chart("f, a = plt.subplots(1, 2)\na[0].plot([1, 2])\na[1].bar(['x'], [1])")
  deepEqual([c.type, c.elements.map((e) => e.type)], ['superchart', ['line', 'bar']])
})

test('data frames', async () => {
  const r = await one("import pandas as pd\npd.DataFrame({'n': [1, 2], 's': ['a', 'b'], 't': pd.to_datetime(['2020-01-02', '2020-01-03'])})")
  deepEqual([r.data.n, r.data.s], [[1, 2], ['a', 'b']])
  ok(r.html.includes('<table') && r.text.includes('2020-01-02'))
})

test('output as it comes, in its order, of both streams', async () => {
  const seen = []
  const e = await box.runCode("import sys, time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.05)\nprint('e', file=sys.stderr)",
    { onStdout: (m) => seen.push([m.line.trim(), Date.now()]) })
  equal(e.logs.stdout.join(''), '0\n1\n2\n')
  equal(e.logs.stderr.join(''), 'e\n')
  deepEqual(seen.map((x) => x[0]).join('').replaceAll('\n', ''), '012')
})

test('a megabyte of output, and characters of four bytes', async () => {
  const e = await box.runCode("print('x' * 1_000_000)\nprint('\\U0001f389' * 50_000)")
  const text = e.logs.stdout.join('')
  equal(text.length, 1_000_001 + 100_001)
  ok(text.endsWith('\ud83c\udf89\n'))
})

test('tracebacks', async () => {
  const { error } = await box.runCode('def f(x):\n    return 1 / x\nf(0)')
  deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  const plain = error.traceback.replace(/\x1b\[[0-9;]*m/g, '')
  ok(plain.includes('return 1 / x') && plain.includes('f(0)'), plain)
  const syntax = (await box.runCode('1 +')).error
  equal(syntax.name, 'SyntaxError')
  equal((await box.runCode('raise SystemExit(3)')).error?.name ?? 'SystemExit', 'SystemExit')
})

test('magics, commands, await', async () => {
  equal((await box.runCode('!echo from the shell')).logs.stdout.join('').trim(), 'from the shell')
  equal((await one('import asyncio\nawait asyncio.sleep(0, 7)')).text, '7')
  equal((await box.runCode('%cd /tmp\nimport os; os.getcwd()')).text, '/tmp')
  await box.runCode('%cd ~')
})

test('javascript and typescript and bash', async () => {
  const js = (code, language = 'js') => box.runCode(code, { language })
  equal((await js('const a = [1, 2, 3]; a.map((x) => x * 2)')).text, '[ 2, 4, 6 ]')
  equal((await js('a.length')).text, '3')
  deepEqual((await js('console.log("o"); console.error("e")')).logs, { stdout: ['o\n'], stderr: ['e\n'] })
  const e = (await js('null.x')).error
  equal(e.name, 'TypeError')
  ok(e.traceback.includes('TypeError'))
  const [major, minor] = (await js('process.versions.node')).text.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 13)) equal((await js('const n: number = 41; n + 1', 'ts')).text, '42')
  else await assert.rejects(js('const n: number = 41; n + 1', 'ts'), /500/)
  const sh = await js('echo out; echo err >&2; exit_code() { return 3; }; exit_code', 'bash')
  deepEqual([sh.logs.stdout, sh.logs.stderr, sh.error.name, sh.error.value], [['out\n'], ['err\n'], 'ExitStatus', '3'])
})

test('languages that are not there say so', async () => {
  for (const language of ['r', 'java', 'ruby'])
    await assert.rejects(box.runCode('1', { language }), /500/)
})

test('the end', async () => equal(await box.kill(), true))

await run()
