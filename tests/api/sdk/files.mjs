// Files: all ways to write and read them, folders, watching, signed URLs.
import { assert, fails, run, Sandbox, test, until } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000 })
const f = s.files

test('write and read, in every form', async () => {
  const w = await f.write('a/b/c.txt', 'hello')
  assert.deepEqual([w.name, w.path, w.type], ['c.txt', '/home/user/a/b/c.txt', 'file'])
  assert.equal(await f.read('a/b/c.txt'), 'hello')
  assert.equal(Buffer.from(await f.read('/home/user/a/b/c.txt', { format: 'bytes' })).toString(), 'hello')
  assert.equal(await (await f.read('a/b/c.txt', { format: 'blob' })).text(), 'hello')
  assert.equal(await new Response(await f.read('a/b/c.txt', { format: 'stream' })).text(), 'hello')
  await f.write('a/b/c.txt', '')
  assert.equal(await f.read('a/b/c.txt'), '')
  const bytes = Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 7) & 255)
  await f.write('bin', bytes.buffer)
  assert.ok(Buffer.from(await f.read('bin', { format: 'bytes' })).equals(Buffer.from(bytes)))
})

test('several at once, odd names', async () => {
  const names = ['x 1', 'ü日本', "q'", 'p%41', 'a&b=c', '-n']
  const out = await f.write(names.map((n) => ({ path: `odd/${n}`, data: n })))
  assert.deepEqual(out.map((o) => o.name), names)
  for (const n of names) assert.equal(await f.read(`odd/${n}`), n)
  assert.deepEqual((await f.list('odd')).map((e) => e.name).sort(), [...names].sort())
})

test('folders', async () => {
  assert.equal(await f.makeDir('d/e'), true)
  assert.equal(await f.makeDir('d/e'), false)
  await f.write('d/e/f', 'x')
  const deep = await f.list('d', { depth: 2 })
  assert.deepEqual(deep.map((e) => [e.path, e.type]), [['/home/user/d/e', 'dir'], ['/home/user/d/e/f', 'file']])
  const i = await f.getInfo('d/e/f')
  assert.deepEqual([i.name, i.size, i.owner, i.group, i.mode], ['f', 1, 'user', 'user', 0o644])
  assert.equal(await f.exists('d/e/f'), true)
  await f.rename('d/e/f', 'd/g/h')
  assert.equal(await f.exists('d/e/f'), false)
  assert.equal(await f.read('d/g/h'), 'x')
  await f.remove('d')
  assert.equal(await f.exists('d'), false)
  await f.remove('d')
})

test('errors', async () => {
  await fails(f.read('/no/such'), 'FileNotFoundError', /path '\/no\/such' does not exist/)
  await fails(f.list('/no/such'), 'NotFoundError')
  await fails(f.list('/etc/passwd'), 'InvalidArgumentError')
  await fails(f.read('/etc'), 'InvalidArgumentError')
  await fails(f.read('x', { user: 'nobodyhere' }), 'AuthenticationError')
})

test('signed URLs', async () => {
  const up = await s.uploadUrl('signed.txt')
  const form = new FormData()
  form.append('file', new Blob(['by form']), 'signed.txt')
  assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
  const down = await s.downloadUrl('signed.txt')
  assert.equal(await (await fetch(down)).text(), 'by form')
  const late = await s.downloadUrl('signed.txt', { useSignatureExpiration: -10 })
  const r = await fetch(late)
  assert.deepEqual([r.status, await r.json()], [401, { code: 401, message: 'signature is already expired' }])
  assert.equal((await fetch(down.replace('signed.txt', 'other.txt'))).status, 401)
})

test('watching', async () => {
  await f.makeDir('w')
  const seen = []
  const h = await f.watchDir('w', (e) => seen.push(`${e.type} ${e.name}`))
  await f.write('w/new', 'x')
  await until(() => seen.some((e) => e === 'create new'), () => seen.join())
  await f.remove('w/new')
  await until(() => seen.some((e) => e === 'remove new'), () => seen.join())
  await h.stop()
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
