// Processes: in the foreground and background, with input, signals, limits of time.
import { createHash } from 'node:crypto'
import { assert, fails, run, Sandbox, test, until } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000, envs: { FROM_SANDBOX: 'yes' } })
const sh = (cmd, opts) => s.commands.run(cmd, opts)

test('output, exit code, both streams', async () => {
  const r = await sh("echo out; echo err >&2; printf 'a\\n\\nb\\n'")
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, 'out\na\n\nb\n', 'err\n'])
})

test('exit codes are errors of the SDK', async () => {
  const e = await fails(sh('echo x; exit 3'), 'CommandExitError', /exit status 3/)
  assert.deepEqual([e.exitCode, e.stdout], [3, 'x\n'])
  assert.equal((await fails(sh('exit 255'), 'CommandExitError')).exitCode, 255)
})

test('users, folders, environment', async () => {
  assert.equal((await sh('id -un; pwd')).stdout, 'user\n/home/user\n')
  assert.equal((await sh('id -u', { user: 'root' })).stdout, '0\n')
  assert.equal((await sh('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  assert.equal((await sh('echo $FROM_SANDBOX $A', { envs: { A: 'a b' } })).stdout, 'yes a b\n')
  assert.equal((await sh('echo [$A]')).stdout, '[]\n')
  await fails(sh('true', { cwd: '/no/such' }), 'InvalidArgumentError', /does not exist/)
})

test('text of other scripts, quotes, many lines', async () => {
  const text = 'żółć 日本語 🎉 "q" \'s\' $x `y` \\z'
  assert.equal((await sh('printf %s "$T"', { envs: { T: text } })).stdout, text)
  assert.equal((await sh('seq 1 2000')).stdout, Array.from({ length: 2000 }, (_, i) => `${i + 1}\n`).join(''))
})

test('ten megabytes, exactly', async () => {
  const h = createHash('sha256')
  let n = 0
  const r = await sh("head -c 10485760 /dev/zero | tr '\\0' A", { onStdout: (d) => { h.update(d); n += d.length } })
  assert.equal(n, 10485760)
  assert.equal(r.stdout.length, 10485760)
  assert.equal(h.digest('hex'), 'eb6183addde05c2196ce25e6fa34a4baf20f9bf30d33892f452a9a1e88c9a472')
})

test('output as it comes', async () => {
  let seen = ''
  const h = await sh('echo first; read x; echo "got $x"', { background: true, stdin: true, onStdout: (d) => { seen += d } })
  await until(() => seen === 'first\n', 'the first line')
  await s.commands.sendStdin(h.pid, 'line\n')
  const r = await h.wait()
  assert.equal(r.stdout, 'first\ngot line\n')
})

test('list, connect, kill', async () => {
  const h = await sh('echo $$; sleep 60', { background: true })
  const mine = (await s.commands.list()).find((p) => p.pid === h.pid)
  assert.equal(mine.cmd, '/bin/bash')
  assert.deepEqual(mine.args.slice(0, 2), ['-l', '-c'])
  const c = await s.commands.connect(h.pid)
  assert.equal(await s.commands.kill(h.pid), true)
  const e = await fails(h.wait(), 'CommandExitError', /signal: killed/)
  assert.equal(e.exitCode, -1)
  await fails(c.wait(), 'CommandExitError')
  assert.equal(await s.commands.kill(h.pid), false)
  await fails(s.commands.connect(999_999), 'NotFoundError', /process with pid 999999 not found/)
})

test('a limit of time', async () => {
  await fails(sh('sleep 60', { timeoutMs: 500 }), 'TimeoutError')
  await until(async () => !(await s.commands.list()).some((p) => p.args.includes('sleep 60')), 'it was killed')
})

test('a client that goes leaves its process', async () => {
  const h = await sh('sleep 5; echo done > /tmp/left', { background: true })
  await h.disconnect()
  assert.ok((await s.commands.list()).some((p) => p.pid === h.pid), 'it runs on')
  assert.equal(await s.commands.kill(h.pid), true)
})

test('killed while a command runs', async () => {
  const t = await Sandbox.create({ timeoutMs: 60_000 })
  let begun = false
  const wait = t.commands.run('echo go; sleep 60', { onStdout: () => { begun = true } })
  wait.catch(() => {})
  await until(() => begun, 'it runs')
  await t.kill()
  await fails(wait, 'TimeoutError')
})

test('many at once', async () => {
  const out = await Promise.all(Array.from({ length: 30 }, (_, i) => sh(`echo ${i}`)))
  assert.deepEqual(out.map((r) => r.stdout), out.map((_, i) => `${i}\n`))
})

test('a terminal', async () => {
  let seen = ''
  const t = await s.pty.create({ cols: 80, rows: 24, onData: (d) => { seen += Buffer.from(d).toString() } })
  const type = (x) => s.pty.sendInput(t.pid, Buffer.from(x))
  await type('stty size\n')
  await until(() => seen.includes('24 80'), () => seen)
  await s.pty.resize(t.pid, { cols: 100, rows: 30 })
  await type('stty size; echo $TERM\n')
  await until(() => seen.includes('30 100') && seen.includes('xterm-256color'), () => seen)
  await type('exit 7\n')
  assert.equal((await fails(t.wait(), 'CommandExitError')).exitCode, 7)
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
