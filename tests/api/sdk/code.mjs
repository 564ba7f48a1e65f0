// Code through the unmodified interpreter SDK: results, state, errors, contexts, environment, interrupts, ends.
import { Sandbox, assert, fails, run, test, until } from './lib.mjs'

const { equal, deepEqual, ok } = assert
let box

test('create and run', async () => {
  box = await Sandbox.create({ envs: { GLOBAL: 'g' } })
  const e = await box.runCode('x = 1; x')
  equal(e.text, '1')
  equal(e.executionCount, 1)
  equal((await box.runCode('x += 1; x')).text, '2')
})

test('output as it comes', async () => {
  const out = [], err = [], results = []
  const e = await box.runCode('import sys\nprint("h\u00e9")\nprint("e", file=sys.stderr)\n3', {
    onStdout: (m) => out.push(m.line), onStderr: (m) => err.push(m.line), onResult: (r) => results.push(r.text),
  })
  deepEqual([out, err, results], [['h\u00e9\n'], ['e\n'], ['3']])
  deepEqual(e.logs, { stdout: ['h\u00e9\n'], stderr: ['e\n'] })
})

test('errors are values', async () => {
  const errors = []
  const e = await box.runCode('xyz', { onError: (x) => errors.push(x) })
  equal(e.error.name, 'NameError')
  equal(errors.length, 1)
  ok(e.error.traceback.includes('NameError'))
})

test('a chart and its picture', async () => {
  const e = await box.runCode(
    'import matplotlib.pyplot as plt\nplt.bar(["A", "B"], [1, 2], label="s")\nplt.title("T")\nplt.xlabel("x (cm)")\nplt.show()')
  equal(e.error, undefined)
  const [r] = e.results
  ok(Buffer.from(r.png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
  equal(r.chart.type, 'bar')
  equal(r.chart.title, 'T')
  equal(r.chart.x_unit, 'cm')
  deepEqual(r.chart.elements.map((b) => [b.label, b.value, b.group]), [['A', 1, 's'], ['B', 2, 's']])
  deepEqual(r.extra, {})
})

test('a data frame', async () => {
  const e = await box.runCode('import pandas as pd\npd.DataFrame({"a": [1, 2, 3]})')
  deepEqual(e.results[0].data, { a: [1, 2, 3] })
  ok(e.results[0].html.includes('<table'))
})

test('environment and folder', async () => {
  equal((await box.runCode('import os; os.environ["GLOBAL"]')).text, 'g')
  equal((await box.runCode('os.environ["GLOBAL"]', { envs: { GLOBAL: 'l' } })).text, 'l')
  equal((await box.runCode('os.environ["GLOBAL"]')).text, 'g')
  equal((await box.runCode('os.getcwd()')).text, '/home/user')
  equal((await box.runCode('process.env.GLOBAL + process.cwd()', { language: 'js' })).text, 'g/home/user')
  deepEqual((await box.runCode('echo $GLOBAL; pwd', { language: 'bash' })).logs.stdout.join(''), 'g\n/home/user\n')
})

test('javascript', async () => {
  deepEqual((await box.runCode("\n    import { readFileSync } from 'fs'\n    console.log(typeof readFileSync)\n", { language: 'js' })).logs.stdout,
    ['function\n'])
  equal((await box.runCode("await Promise.resolve('Hello World!')", { language: 'javascript' })).text, 'Hello World!')
})

test('contexts', async () => {
  const list = await box.listCodeContexts()
  deepEqual(list.slice(0, 2).map((c) => c.language), ['python', 'javascript'])
  const c = await box.createCodeContext({ cwd: '/tmp', language: 'python' })
  equal(c.cwd, '/tmp')
  equal((await box.listCodeContexts()).at(-1).id, c.id)
  equal((await box.runCode('x = 10; import os; os.getcwd()', { context: c })).text, '/tmp')
  equal((await box.runCode('x')).text, '2', 'another state')
  await box.restartCodeContext(c)
  equal((await box.runCode('x', { context: c })).error.name, 'NameError')
  await box.removeCodeContext(c)
  await fails(box.runCode('1', { context: c }), 'NotFoundError', /not found/)
  await fails(box.runCode('1', { language: 'klingon' }), 'SandboxError', /500/)
})

test('a client that gives up interrupts its code', async () => {
  let begun
  const started = new Promise((done) => { begun = done })
  const gone = fails(box.runCode('import time; print(1, flush=True); time.sleep(300)', { timeoutMs: 3000, onStdout: begun }), 'TimeoutError')
  await started
  await gone
  equal((await box.runCode('x', { timeoutMs: 20000 })).text, '2')
})

test('the kernel is killed', async () => {
  const e = await box.runCode('import os; os._exit(1)')
  equal(e.error.name, 'ContextDied')
  equal((await box.runCode('1 + 1')).text, '2')
})

test('the sandbox is killed', async () => {
  let begun
  const started = new Promise((done) => { begun = done })
  const gone = fails(box.runCode('print(1, flush=True); import time; time.sleep(300)', { onStdout: begun }), 'TimeoutError')
  await started
  await box.kill()
  await gone
  await until(async () => !(await box.isRunning()), 'the end')
  await fails(box.runCode('1'), 'TimeoutError')
})

await run()
