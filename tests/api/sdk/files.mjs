// Files: all ways to write and read them, folders, what is said of them.
import { createHash, randomBytes } from 'node:crypto'
import { assert, fails, run, Sandbox, test } from './lib.mjs'

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

test('as octet stream, packed, as a stream of its own', async () => {
  const text = 'line\n'.repeat(200_000)
  await f.write('o', text, { useOctetStream: true })
  assert.equal(await f.read('o'), text)
  await f.write('z', text, { gzip: true })
  assert.equal(await f.read('z'), text)
  const stream = new ReadableStream({
    start(c) {
      for (let i = 0; i < 100; i++) c.enqueue(new TextEncoder().encode(`${i}\n`))
      c.close()
    },
  })
  await f.write('s', stream)
  assert.equal(await f.read('s'), Array.from({ length: 100 }, (_, i) => `${i}\n`).join(''))
  await f.write('b', new Blob(['blob']))
  assert.equal(await f.read('b'), 'blob')
})

test('32 MiB there and back, exactly', async () => {
  const bytes = randomBytes(32 << 20)
  await f.write('big', new Blob([bytes]), { useOctetStream: true })
  const sum = createHash('sha256').update(bytes).digest('hex')
  assert.equal((await s.commands.run('sha256sum < big')).stdout.split(' ')[0], sum)
  const h = createHash('sha256')
  for await (const d of await f.read('big', { format: 'stream' })) h.update(d)
  assert.equal(h.digest('hex'), sum)
  await f.remove('big')
})

test('five hundred files', async () => {
  await f.write(Array.from({ length: 500 }, (_, i) => ({ path: `many/${i % 10}/${i}`, data: `${i}` })))
  const entries = await f.list('many', { depth: 2 })
  assert.equal(entries.filter((e) => e.type === 'file').length, 500)
  assert.equal(entries.filter((e) => e.type === 'dir').length, 10)
  const read = await Promise.all(Array.from({ length: 50 }, (_, i) => f.read(`many/${i % 10}/${i}`)))
  assert.deepEqual(read, Array.from({ length: 50 }, (_, i) => `${i}`))
})

test('every byte, and what is no text', async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  await f.write('bytes', bytes.buffer)
  assert.ok(Buffer.from(await f.read('bytes', { format: 'bytes' })).equals(Buffer.from(bytes)))
  assert.equal((await s.commands.run('od -An -tx1 bytes | head -1')).stdout, ' 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n')
})

test('metadata of files', async () => {
  const w = await f.write('meta', 'x', { metadata: { author: 'me & you', K2: 'v' } })
  assert.deepEqual(w.metadata, { author: 'me & you', k2: 'v' })
  assert.deepEqual((await f.getInfo('meta')).metadata, { author: 'me & you', k2: 'v' })
  assert.deepEqual((await f.list('.')).find((e) => e.name === 'meta').metadata, { author: 'me & you', k2: 'v' })
  assert.deepEqual((await f.rename('meta', 'meta2')).metadata, { author: 'me & you', k2: 'v' })
  await f.write('meta2', 'y')
  assert.equal((await f.getInfo('meta2')).metadata, undefined)
  await fails(f.write('meta3', 'x', { metadata: { a: 'ü' } }), 'InvalidArgumentError')
})

test('links, permissions, owners, times', async () => {
  await s.commands.run("mkdir -p k; echo 12345 > k/f; chmod 640 k/f; ln -s f k/l; ln -s nowhere k/dead; touch -d '2001-02-03 04:05:06 UTC' k/f")
  const i = await f.getInfo('k/l')
  assert.deepEqual([i.type, i.symlinkTarget, i.permissions], ['file', '/home/user/k/f', 'Lrwxrwxrwx'])
  const e = await f.getInfo('k/f')
  assert.deepEqual([e.mode, e.permissions, e.owner, e.group, e.size], [0o640, '-rw-r-----', 'user', 'user', 6])
  assert.equal(e.modifiedTime.toISOString(), '2001-02-03T04:05:06.000Z')
  assert.deepEqual((await f.list('k')).map((x) => x.name), ['f', 'l'], 'what points nowhere has no type, and is left out by the SDK')
  const d = await f.getInfo('k')
  assert.deepEqual([d.type, d.size > 0], ['dir', true])
})

test('an empty file, and zero values in general', async () => {
  await f.write('empty', '')
  const i = await f.getInfo('empty')
  assert.deepEqual([i.size, i.type], [0, 'file'])
  await s.commands.run('chmod 0 empty')
  assert.equal((await f.getInfo('empty')).mode, 0)
  assert.deepEqual(await f.list('k/../many/0/..', { depth: 1 }).then((l) => l.length), 10)
  await f.makeDir('nothing')
  assert.deepEqual(await f.list('nothing'), [])
})

test('as another user', async () => {
  await f.write('/root/secret', 'of root', { user: 'root' })
  assert.equal(await f.read('/root/secret', { user: 'root' }), 'of root')
  assert.equal((await f.getInfo('/root/secret', { user: 'root' })).owner, 'root')
  await fails(f.read('/root/secret'), 'SandboxError')
  assert.equal(await f.exists('/root/secret', { user: 'root' }), true)
})

test('what is in the way', async () => {
  await f.write('file', 'x')
  await fails(f.write('file/below', 'x'), 'SandboxError')
  await fails(f.makeDir('file'), 'InvalidArgumentError')
  await fails(f.write('k', 'x'), 'InvalidArgumentError', /directory/)
  await fails(f.rename('none', 'x'), 'FileNotFoundError')
  await fails(f.getInfo('none'), 'FileNotFoundError')
  assert.equal(await f.exists('none'), false)
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
