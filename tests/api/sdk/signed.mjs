// Signed URLs: uploads and downloads without a key, for whom, for how long.
import { assert, run, Sandbox, test } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000 })
const refused = async (r, message) => assert.deepEqual([r.status, await r.json()], [401, { code: 401, message }])
const form = (text, name) => {
  const d = new FormData()
  d.append('file', new Blob([text]), name)
  return { method: 'POST', body: d }
}

test('up and down', async () => {
  assert.equal((await fetch(await s.uploadUrl('a/signed.txt'), form('by form', 'signed.txt'))).status, 200)
  assert.equal(await s.files.read('a/signed.txt'), 'by form')
  assert.equal(await (await fetch(await s.downloadUrl('a/signed.txt'))).text(), 'by form')
  const raw = { method: 'POST', body: 'octets', headers: { 'content-type': 'application/octet-stream' } }
  assert.equal((await fetch(await s.uploadUrl('a/raw'), raw)).status, 200)
  assert.equal(await s.files.read('a/raw'), 'octets')
})

test('ranges of a download', async () => {
  await s.files.write('digits', '0123456789')
  const r = await fetch(await s.downloadUrl('digits'), { headers: { range: 'bytes=2-4' } })
  assert.deepEqual([r.status, await r.text(), r.headers.get('content-range')], [206, '234', 'bytes 2-4/10'])
})

test('with an end, before and after it', async () => {
  const later = { useSignatureExpiration: 600 }
  assert.equal((await fetch(await s.uploadUrl('t', later), form('x', 't'))).status, 200)
  assert.equal(await (await fetch(await s.downloadUrl('t', later))).text(), 'x')
  const over = { useSignatureExpiration: -10 }
  await refused(await fetch(await s.downloadUrl('t', over)), 'signature is already expired')
  await refused(await fetch(await s.uploadUrl('t', over), form('y', 't')), 'signature is already expired')
  assert.equal(await s.files.read('t'), 'x')
})

test('of a user', async () => {
  await s.files.write('/root/r', 'of root', { user: 'root' })
  assert.equal(await (await fetch(await s.downloadUrl('/root/r', { user: 'root' }))).text(), 'of root')
  assert.equal((await fetch(await s.downloadUrl('/root/r'))).status, 403)
})

test('what was not signed', async () => {
  const down = await s.downloadUrl('t')
  await refused(await fetch(down.replace('path=t', 'path=other')), 'invalid signature')
  await refused(await fetch(down, form('z', 't')), 'invalid signature')
  await refused(await fetch(`${down}&username=root`), 'invalid signature')
  await refused(await fetch(down.replace(/signature=[^&]*/, 'signature=v1_x')), 'invalid signature')
  assert.equal(await s.files.read('t'), 'x')
})

test('of a sandbox that has ended', async () => {
  const down = await s.downloadUrl('t')
  assert.equal(await s.kill(), true)
  await refused(await fetch(down), 'invalid signature')
})

await run()
