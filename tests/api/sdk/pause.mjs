// Pause, and going on: processes, files and variables stay; a paused sandbox answers nobody.
import { assert, fails, run, Sandbox, test, until } from './lib.mjs'

let s, ticks, before

test('pause', async () => {
  s = await Sandbox.create({ timeoutMs: 60_000, envs: { KEPT: 'yes' }, metadata: { p: '1' } })
  await s.files.write('kept', 'x')
  ticks = await s.commands.run('i=0; while :; do i=$((i + 1)); echo $i > ticks.new; mv ticks.new ticks; sleep 0.02; done', { background: true })
  await until(() => s.files.exists('ticks'), 'it counts')
  assert.equal(await s.pause(), true)
  assert.equal(await s.pause(), false, 'it is so already')
  assert.equal((await s.getInfo()).state, 'paused')
  assert.equal(await s.isRunning(), false)
})

test('nothing answers meanwhile', async () => {
  await fails(s.commands.run('true'), 'Error')
  await fails(s.files.read('kept'), 'TimeoutError')
})

test('connect goes on where it was', async () => {
  const again = await Sandbox.connect(s.sandboxId, { timeoutMs: 120_000 })
  assert.equal(again.sandboxId, s.sandboxId)
  const i = await again.getInfo()
  assert.equal(i.state, 'running')
  assert.ok(i.endAt - Date.now() > 90_000, 'its life begins anew')
  assert.deepEqual(i.metadata, { p: '1' })
  assert.equal(await again.files.read('kept'), 'x')
  assert.equal((await again.commands.run('echo $KEPT')).stdout, 'yes\n')
  assert.ok((await again.commands.list()).some((p) => p.pid === ticks.pid), 'the process is the same')
  before = Number(await again.files.read('ticks'))
  await until(async () => Number(await again.files.read('ticks')) > before, 'it counts on')
  s = again
})

test('several times over', async () => {
  for (let i = 0; i < 3; i++) {
    assert.equal(await Sandbox.pause(s.sandboxId), true)
    s = await Sandbox.connect(s.sandboxId)
    assert.equal((await s.commands.run('echo well')).stdout, 'well\n')
  }
})

test('at the end of its time, when it was asked for', async () => {
  const t = await Sandbox.create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause' } })
  await t.files.write('f', 'still here')
  await until(async () => (await Sandbox.getInfo(t.sandboxId)).state === 'paused', 'it is paused')
  const u = await Sandbox.connect(t.sandboxId)
  assert.equal(await u.files.read('f'), 'still here')
  await u.kill()
})

test('a request wakes it, when it was asked for', async () => {
  const t = await Sandbox.create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await t.files.write('f', 'awake')
  assert.equal(await t.pause(), true)
  assert.equal(await t.files.read('f'), 'awake')
  assert.equal((await t.getInfo()).state, 'running')
  await t.kill()
})

test('without the processes: refused, since brig keeps them', async () => {
  await fails(s.pause({ keepMemory: false }), 'SandboxError', /with memory only/)
  assert.equal(await s.isRunning(), true)
})

test('a paused one can be killed', async () => {
  assert.equal(await s.pause(), true)
  assert.equal(await s.kill(), true)
  assert.equal(await s.kill(), false)
  await fails(s.pause(), 'SandboxNotFoundError')
  await fails(Sandbox.connect(s.sandboxId), 'SandboxNotFoundError', /Paused sandbox .* not found/)
})

await run()
