// Sandboxes come, are listed, and go.
import { all, assert, fails, run, Sandbox, test, until } from './lib.mjs'

const v1 = process.env.BRIG_SDK_NAME === 'e2b-v1'

test('create, info, kill', async () => {
  const s = await Sandbox.create({ timeoutMs: 60_000, metadata: { who: 'me' }, envs: { A: 'b' } })
  assert.match(s.sandboxId, /^i[a-z0-9]{20}$/)
  assert.equal(await s.isRunning(), true)
  const i = await s.getInfo()
  assert.equal(i.sandboxId, s.sandboxId)
  assert.equal(i.state, 'running')
  assert.deepEqual(i.metadata, { who: 'me' })
  assert.ok(i.endAt - i.startedAt > 50_000 && i.endAt - i.startedAt <= 60_000)
  assert.ok(i.cpuCount >= 1 && i.memoryMB > 0)
  assert.equal(await s.kill(), true)
  assert.equal(await s.kill(), false)
  assert.equal(await s.isRunning(), false)
})

test('after kill: the errors the SDK knows', async () => {
  const s = await Sandbox.create()
  await s.kill()
  await fails(s.getInfo(), 'SandboxNotFoundError')
  await fails(Sandbox.connect(s.sandboxId), 'SandboxNotFoundError', /Paused sandbox .* not found/)
  await fails(s.commands.run('true'), 'SandboxNotFoundError')
  await fails(s.files.list('/'), 'TimeoutError')
  await fails(s.files.read('/x'), 'TimeoutError')
  assert.equal(await Sandbox.kill(s.sandboxId), false)
})

test('wrong key, another tenant', async () => {
  const s = await Sandbox.create()
  await fails(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(64) }), 'AuthenticationError')
  const other = { apiKey: process.env.E2B_OTHER_KEY }
  await fails(Sandbox.getInfo(s.sandboxId, other), 'SandboxNotFoundError')
  await fails(Sandbox.connect(s.sandboxId, other), 'SandboxNotFoundError')
  assert.equal(await Sandbox.kill(s.sandboxId, other), false)
  assert.deepEqual(await all(Sandbox.list({ ...other })), [])
  assert.equal(await s.kill(), true)
})

test('unknown template and fields brig cannot honour', async () => {
  await fails(Sandbox.create('no-such-template'), 'Error', /not found/)
  await fails(Sandbox.create({ network: { maskRequestHost: 'x' } }), 'SandboxError', /maskRequestHost/)
})

test('connect to a running sandbox', async () => {
  const s = await Sandbox.create({ timeoutMs: 300_000 })
  const t = await Sandbox.connect(s.sandboxId, { timeoutMs: 10_000 })
  assert.equal(t.sandboxId, s.sandboxId)
  const r = await t.commands.run('echo connected')
  assert.equal(r.stdout, 'connected\n')
  const i = await s.getInfo()
  assert.ok(i.endAt - i.startedAt > 200_000, 'connecting never shortens')
  await s.kill()
})

test('a life span is set anew, both ways', async () => {
  const s = await Sandbox.create({ timeoutMs: 60_000 })
  const left = async () => ((await s.getInfo()).endAt - Date.now()) / 1000
  await s.setTimeout(600_000)
  assert.ok((await left()) > 500, 'longer')
  await s.setTimeout(30_000)
  assert.ok((await left()) <= 31, 'shorter')
  await Sandbox.setTimeout(s.sandboxId, 90_000)
  assert.ok((await left()) > 60)
  await s.kill()
  await fails(s.setTimeout(1000), 'SandboxNotFoundError')
  await fails(Sandbox.setTimeout('i00000000000000000000', 1000), 'SandboxNotFoundError')
})

test('templates by name and by alias, and who they say they are', async () => {
  const s = await Sandbox.create('base')
  assert.match((await s.getInfo()).templateId, /^base$/)
  assert.equal((await s.commands.run('echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID')).stdout, `true ${s.sandboxId} base\n`)
  await s.kill()
})

test('variables of the sandbox are in every command, and nowhere else', async () => {
  const s = await Sandbox.create({ envs: { A: 'a b', EMPTY: '' } })
  assert.equal((await s.commands.run('echo "[$A][${EMPTY-unset}]"')).stdout, '[a b][]\n')
  assert.equal((await s.commands.run('echo "[$A]"', { envs: { A: 'mine' } })).stdout, '[mine]\n')
  assert.equal((await s.commands.run('echo "[$A]"')).stdout, '[a b]\n')
  const t = await Sandbox.create()
  assert.equal((await t.commands.run('echo "[$A]"')).stdout, '[]\n')
  await Promise.all([s.kill(), t.kill()])
})

test('sandboxes end when their time is over', async () => {
  const s = await Sandbox.create({ timeoutMs: 1000 })
  await until(async () => !(await s.isRunning()), 'it ends')
  await until(async () => (await Sandbox.kill(s.sandboxId)) === false, 'it is known to have ended')
})

test('host names', async () => {
  const s = await Sandbox.create()
  assert.match(s.getHost(3000), new RegExp(`^3000-${s.sandboxId}\\.localhost:\\d+$`))
  await s.kill()
})

test('several at once', async () => {
  const boxes = await Promise.all(Array.from({ length: 6 }, () => Sandbox.create()))
  assert.equal(new Set(boxes.map((b) => b.sandboxId)).size, 6)
  const out = await Promise.all(boxes.map((b, i) => b.commands.run(`echo ${i}`)))
  assert.deepEqual(out.map((r) => r.stdout), boxes.map((_, i) => `${i}\n`))
  assert.deepEqual(await Promise.all(boxes.map((b) => b.kill())), boxes.map(() => true))
})

if (v1)
  test('the older paths give the token as well', async () => {
    const s = await Sandbox.create({ secure: true })
    assert.equal((await s.commands.run('echo x')).stdout, 'x\n')
    await s.kill()
  })

await run()
