// Lists of sandboxes: by metadata, state, template and time, with pages.
import { all, assert, run, Sandbox, test } from './lib.mjs'

const mine = { run: `${process.pid}-${Date.now()}`, a: 'b c&d=e%' }
const boxes = []
const ids = (l) => l.map((x) => x.sandboxId)

test('create some', async () => {
  for (let i = 0; i < 5; i++) boxes.push(await Sandbox.create({ metadata: { ...mine, n: String(i) } }))
})

test('what a list says', async () => {
  const [x] = await all(Sandbox.list({ query: { metadata: { ...mine, n: '2' } } }))
  assert.equal(x.sandboxId, boxes[2].sandboxId)
  assert.deepEqual(x.metadata, { ...mine, n: '2' })
  assert.deepEqual([x.state, x.templateId, x.startedAt < x.endAt], ['running', 'base', true])
})

test('by metadata, all of it', async () => {
  const find = async (metadata) => ids(await all(Sandbox.list({ query: { metadata } })))
  assert.deepEqual(await find(mine), ids(boxes).reverse(), 'the newest first')
  assert.deepEqual(await find({ ...mine, n: '1' }), [boxes[1].sandboxId])
  assert.deepEqual(await find({ ...mine, n: '9' }), [])
  assert.deepEqual(await find({ ...mine, other: '' }), [])
})

test('with pages', async () => {
  const p = Sandbox.list({ query: { metadata: mine }, limit: 2 })
  const pages = []
  while (p.hasNext) pages.push(ids(await p.nextItems()))
  assert.deepEqual(pages.map((x) => x.length), [2, 2, 1])
  assert.deepEqual(pages.flat(), ids(boxes).reverse())
})

test('by state, paused ones as well', async () => {
  assert.equal(await boxes[0].pause(), true)
  const find = async (state) => ids(await all(Sandbox.list({ query: { metadata: mine, state } })))
  assert.deepEqual(await find(['paused']), [boxes[0].sandboxId])
  assert.deepEqual(await find(['running']), ids(boxes.slice(1)).reverse())
  assert.deepEqual((await find(['running', 'paused'])).sort(), ids(boxes).sort())
  assert.deepEqual((await find(undefined)).sort(), ids(boxes).sort())
  assert.equal((await Sandbox.getInfo(boxes[0].sandboxId)).state, 'paused')
})

test('ended ones are not listed', async () => {
  assert.deepEqual(await Promise.all(boxes.map((b) => b.kill())), boxes.map(() => true))
  assert.deepEqual(await all(Sandbox.list({ query: { metadata: mine } })), [])
})

await run()
