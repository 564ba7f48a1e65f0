// Watching folders: what happens in them, below them, to them.
import { assert, fails, run, Sandbox, test, until } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000 })
const f = s.files
const watch = async (path, opts = {}) => {
  const w = { seen: [], left: 0 }
  w.h = await f.watchDir(path, (e) => w.seen.push(e), { ...opts, onExit: () => { w.left++ } })
  w.has = (type, name) => until(() => w.seen.find((e) => e.type === type && e.name === name), () => JSON.stringify(w.seen.map((e) => [e.type, e.name])))
  return w
}

test('create, write, chmod, rename, remove', async () => {
  await f.makeDir('w')
  const w = await watch('w')
  await f.write('w/new', 'x')
  await w.has('create', 'new')
  await w.has('write', 'new')
  await s.commands.run('chmod 600 w/new')
  await w.has('chmod', 'new')
  await f.rename('w/new', 'w/other')
  await w.has('rename', 'new')
  await w.has('create', 'other')
  await f.remove('w/other')
  await w.has('remove', 'other')
  await w.h.stop()
})

test('below it only when asked', async () => {
  await f.makeDir('r/old')
  const flat = await watch('r'), deep = await watch('r', { recursive: true })
  await s.commands.run('cd r; mkdir -p a/b/c; echo 1 > a/b/c/f; echo 1 > old/g; mv a/b/c/f a/h; rm a/h; touch end')
  await deep.has('create', 'end')
  await flat.has('create', 'end')
  const made = deep.seen.filter((e) => e.type === 'create').map((e) => e.name).sort()
  assert.deepEqual(made, ['a', 'a/b', 'a/b/c', 'a/b/c/f', 'a/h', 'end', 'old/g'], 'each once')
  assert.deepEqual(flat.seen.filter((e) => e.name.includes('/')), [])
  await Promise.all([flat.h.stop(), deep.h.stop()])
})

test('with the entry', async () => {
  await f.makeDir('e')
  const w = await watch('e', { includeEntry: true })
  await f.write('e/five', '12345')
  const e = await until(() => w.seen.find((x) => x.type === 'write' && x.entry?.size === 5), 'the entry')
  assert.deepEqual([e.entry.name, e.entry.path, e.entry.type, e.entry.owner], ['five', '/home/user/e/five', 'file', 'user'])
  await w.h.stop()
})

test('many events, each of them', async () => {
  await f.makeDir('many')
  const w = await watch('many')
  await s.commands.run('cd many; for i in $(seq 1000); do : > f$i; done; touch end')
  await w.has('create', 'end')
  assert.equal(new Set(w.seen.filter((e) => e.type === 'create').map((e) => e.name)).size, 1001)
  await w.h.stop()
})

test('ends: by a limit of time, with the folder', async () => {
  await f.makeDir('gone')
  const w = await watch('gone', { timeoutMs: 300 })
  await until(() => w.left === 1, 'the limit')
  const v = await watch('gone')
  await f.remove('gone')
  await until(() => v.left === 1, 'the folder went')
})

test('what cannot be watched', async () => {
  await fails(f.watchDir('none', () => {}), 'NotFoundError')
  await f.write('file', 'x')
  await fails(f.watchDir('file', () => {}), 'InvalidArgumentError')
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
