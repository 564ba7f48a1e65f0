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

test('sudo: root and others, without their capabilities', async () => {
  const r = await sh('sudo id -u; sudo -u nobody id -un; sudo -n pwd; sudo sh -c "exit 3"; echo $?; grep CapEff /proc/self/status; sudo grep CapEff /proc/self/status')
  assert.equal(r.stdout, '0\nnobody\n/home/user\n3\nCapEff:\t0000000000000000\nCapEff:\t0000000000000000\n')
  assert.equal((await sh('echo data | sudo tee /root/by-sudo; sudo cat /root/by-sudo')).stdout, 'data\ndata\n')
  const e = await fails(sh('sudo apt-get install -y hello'), 'CommandExitError') // see docs/sudo.md: root_caps
  assert.match(e.stderr, /Permission denied|Read-only file system|are you root/)
  const h = await sh('sudo sleep 100', { background: true })
  await until(async () => (await s.commands.run('pgrep -x sleep || true')).stdout !== '', 'the command')
  await h.kill()
  await until(async () => (await s.commands.run('pgrep -x sleep || true')).stdout === '', 'its end')
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

test('input: text, bytes, nothing, its end', async () => {
  const cat = await sh('cat', { background: true, stdin: true })
  await s.commands.sendStdin(cat.pid, 'żółć ')
  await s.commands.sendStdin(cat.pid, '')
  await s.commands.sendStdin(cat.pid, new Uint8Array([0x61, 0x0a]))
  await s.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'żółć a\n')
  const count = await sh('wc -c', { background: true, stdin: true })
  await s.commands.sendStdin(count.pid, 'x'.repeat(1 << 20))
  await count.closeStdin()
  assert.equal((await count.wait()).stdout, '1048576\n')
  const first = await sh('head -c 1', { background: true, stdin: true })
  await s.commands.sendStdin(first.pid, 'y'.repeat(1 << 20)).catch((e) => assert.match(e.message, /stdin|not found/))
  assert.equal((await first.wait()).stdout, 'y')
  const none = await sh('cat; echo end', { stdin: false })
  assert.equal(none.stdout, 'end\n')
  await fails(s.commands.sendStdin(999_999, 'x'), 'NotFoundError')
})

test('both clients of one process see the same', async () => {
  const h = await sh('read x; echo "$x"; read x; echo "$x"', { background: true, stdin: true })
  const other = await Sandbox.connect(s.sandboxId)
  let seen = ''
  const c = await other.commands.connect(h.pid, { onStdout: (d) => { seen += d } })
  await s.commands.sendStdin(h.pid, 'one\n')
  await until(() => seen === 'one\n', () => seen)
  await c.sendStdin('two\n')
  assert.equal((await h.wait()).stdout, 'one\ntwo\n')
  assert.equal((await c.wait()).stdout, 'one\ntwo\n')
})

test('a handle kills its process, and all it started', async () => {
  const h = await sh("(setsid sleep 611 &); (sh -c 'sleep 612 & sleep 613' &); echo up; sleep 614", { background: true })
  await until(() => h.stdout === 'up\n', 'it runs')
  assert.equal(await h.kill(), true)
  await fails(h.wait(), 'CommandExitError', /signal: killed/)
  const left = async () => (await sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 61[1-4]' | sort -u; true")).stdout
  await until(async () => (await left()) === '', 'the whole tree ended')
})

test('ended by a signal of its own', async () => {
  const e = await fails(sh('kill -TERM $$'), 'CommandExitError', /signal: terminated/)
  assert.equal(e.exitCode, -1)
})

test('output that is no UTF-8 does not end the stream', async () => {
  const r = await sh("printf '\\377\\376ok'")
  assert.ok(r.stdout.endsWith('ok'))
})

test('a program that is not there, an argument that is too long', async () => {
  const e = await fails(sh('no-such-program-at-all'), 'CommandExitError')
  assert.equal(e.exitCode, 127)
  await fails(sh(`true ${'x'.repeat(200_000)}`), 'InvalidArgumentError')
  assert.equal((await sh('echo well')).stdout, 'well\n')
})

test('no time limit at all', async () => {
  assert.equal((await sh('sleep 0.3; echo x', { timeoutMs: 0 })).stdout, 'x\n')
})

test('a script of two MiB, by a file', async () => {
  await s.files.write('/tmp/long.sh', ': '.padEnd(2 << 20, 'x') + '\necho ran\n')
  assert.equal((await sh('bash /tmp/long.sh')).stdout, 'ran\n')
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
