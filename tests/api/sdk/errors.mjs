// Refusals by a daemon with small limits: every exception the SDK has for them.
// Templates: base; small (8 MiB of disk, 12 processes). At most three sandboxes.
import { assert, fails, run, Sandbox, sdk, test } from './lib.mjs'

let s

test('create one', async () => {
  s = await Sandbox.create('small')
})

test('a full disk is NotEnoughSpaceError', async () => {
  await fails(s.files.write('f', new Blob([new Uint8Array(20 << 20)])), 'NotEnoughSpaceError')
  await s.files.remove('f')
  await s.files.write('f', 'room again')
})

test('too many processes are RateLimitError', async () => {
  const hold = []
  const e = await fails((async () => {
    for (let i = 0; i < 20; i++) hold.push(await s.commands.run('exec sleep 600', { background: true }))
  })(), 'RateLimitError', /limit/)
  assert.ok(hold.length >= 5, `after ${hold.length}: ${e.message}`)
  assert.deepEqual(await Promise.all(hold.map((h) => h.kill())), hold.map(() => true))
  assert.equal((await s.commands.run('echo again')).stdout, 'again\n')
})

test('no room for a sandbox is ServiceBusyError', async () => {
  const more = [await Sandbox.create(), await Sandbox.create()]
  await fails(Sandbox.create({ retries: 0 }), sdk.ServiceBusyError ? 'ServiceBusyError' : 'SandboxError', /permitted/)
  assert.deepEqual(await Promise.all(more.map((x) => x.kill())), [true, true])
})

test('a life longer than permitted', async () => {
  const e = await fails(Sandbox.create({ timeoutMs: 7_200_000 }), 'SandboxError', /at most 3600 seconds/)
  assert.equal(e.statusCode ?? 400, 400)
  await fails(s.setTimeout(7_200_000), 'SandboxError', /3600/)
})

test('templates: unknown, another name', async () => {
  await fails(Sandbox.create('nowhere'), 'Error', /template 'nowhere' not found/)
  const t = await Sandbox.create('first')
  assert.equal((await t.getInfo()).templateId, 'base')
  await t.kill()
})

test('users that are not there', async () => {
  await fails(s.files.read('f', { user: 'nobodyhere' }), 'AuthenticationError', /nobodyhere/)
  await fails(s.files.list('.', { user: 'nobodyhere' }), 'AuthenticationError', /invalid username/)
  await fails(s.commands.run('true', { user: 'nobodyhere' }), 'AuthenticationError', /invalid username/)
})

test('a key without the scope, without any, expired', async () => {
  await fails(Sandbox.create({ apiKey: process.env.E2B_READ_KEY }), 'SandboxError', /403|permit/)
  assert.equal((await Sandbox.getInfo(s.sandboxId, { apiKey: process.env.E2B_READ_KEY })).sandboxId, s.sandboxId)
  await fails(Sandbox.getInfo(s.sandboxId, { apiKey: 'e2b_00' }), 'AuthenticationError')
})

test('a request that takes longer than the client waits', async () => {
  await fails(s.commands.run('sleep 30', { timeoutMs: 300 }), 'TimeoutError')
  assert.equal((await s.commands.run('echo well')).stdout, 'well\n')
})

test('what brig does not have', async () => {
  await fails(s.createSnapshot(), 'SandboxError', /snapshot/)
  await fails(Sandbox.create({ mcp: { x: {} } }), 'Error')
  if (sdk.Volume) await fails(sdk.Volume.create('v'), 'Error', /volumes/)
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
