// The SDK's git helper, against a bare repository inside the sandbox.
import { assert, fails, run, Sandbox, test } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000 })
const g = s.git
const bare = '/home/user/origin.git', work = '/home/user/work', other = '/home/user/other'

test('configuration', async () => {
  await g.configureUser('A Person', 'a@example.org')
  assert.equal(await g.getConfig('user.name'), 'A Person')
  assert.equal(await g.getConfig('user.email'), 'a@example.org')
  await g.setConfig('pull.rebase', 'false')
  assert.equal(await g.getConfig('pull.rebase'), 'false')
  assert.equal(await g.getConfig('no.such'), undefined)
})

test('init, also bare', async () => {
  await g.init(bare, { bare: true, initialBranch: 'main' })
  await g.init(work, { initialBranch: 'main' })
  assert.equal(await s.files.exists(`${work}/.git/HEAD`), true)
  assert.equal(await s.files.exists(`${bare}/HEAD`), true)
})

test('status, add, commit', async () => {
  await s.files.write(`${work}/f`, 'one\n')
  let st = await g.status(work)
  assert.deepEqual([st.hasUntracked, st.untrackedCount, st.hasStaged, st.currentBranch], [true, 1, false, 'main'])
  await g.add(work, { files: ['f'] })
  st = await g.status(work)
  assert.deepEqual([st.hasStaged, st.stagedCount, st.fileStatus.map((x) => x.name)], [true, 1, ['f']])
  assert.match((await g.commit(work, "it's the \"first\"")).stdout, /first/)
  st = await g.status(work)
  assert.deepEqual([st.isClean, st.totalCount], [true, 0])
  await g.commit(work, 'nothing in it', { allowEmpty: true, authorName: 'B', authorEmail: 'b@example.org' })
  assert.equal((await s.commands.run(`git -C ${work} log --format='%an|%s'`)).stdout, "B|nothing in it\nA Person|it's the \"first\"\n")
})

test('remotes, push', async () => {
  assert.equal(await g.remoteGet(work, 'origin'), undefined)
  await g.remoteAdd(work, 'origin', bare)
  assert.equal(await g.remoteGet(work, 'origin'), bare)
  await fails(g.remoteAdd(work, 'origin', bare), 'CommandExitError')
  await g.remoteAdd(work, 'origin', bare, { overwrite: true })
  await g.push(work, { remote: 'origin', branch: 'main', setUpstream: true })
  const st = await g.status(work)
  assert.deepEqual([st.upstream, st.ahead, st.behind], ['origin/main', 0, 0])
})

test('clone from a path', async () => {
  await g.clone(bare, { path: other })
  assert.equal(await s.files.read(`${other}/f`), 'one\n')
  assert.equal((await g.status(other)).upstream, 'origin/main')
  await g.clone(bare, { path: '/home/user/shallow', branch: 'main', depth: 1 })
  await fails(g.clone('/home/user/no-such.git', { path: '/home/user/x' }), 'CommandExitError')
})

test('branches', async () => {
  await g.createBranch(other, 'feature')
  let b = await g.branches(other)
  assert.deepEqual([b.currentBranch, b.branches.includes('main')], ['feature', true])
  await g.checkoutBranch(other, 'main')
  assert.equal((await g.branches(other)).currentBranch, 'main')
  await g.deleteBranch(other, 'feature')
  assert.deepEqual((await g.branches(other)).branches, ['main'])
  await fails(g.deleteBranch(other, 'none'), 'CommandExitError')
})

test('push from one, pull by the other', async () => {
  await s.files.write(`${other}/f`, 'two\n')
  await g.add(other, { all: true })
  await g.commit(other, 'second')
  assert.deepEqual([(await g.status(other)).ahead], [1])
  await g.push(other)
  await g.pull(work)
  assert.equal(await s.files.read(`${work}/f`), 'two\n')
  await fails(g.pull('/home/user/alone').catch(async () => { await g.init('/home/user/alone'); return g.pull('/home/user/alone') }), 'GitUpstreamError')
})

test('reset, restore', async () => {
  await s.files.write(`${work}/f`, 'three\n')
  await g.restore(work, { paths: ['f'] })
  assert.equal(await s.files.read(`${work}/f`), 'two\n')
  await s.files.write(`${work}/f`, 'three\n')
  await g.add(work)
  await g.restore(work, { paths: ['f'], staged: true })
  assert.deepEqual([(await g.status(work)).hasStaged, (await g.status(work)).unstagedCount], [false, 1])
  await g.reset(work, { mode: 'hard', target: 'HEAD' })
  assert.equal((await g.status(work)).isClean, true)
  await g.reset(work, { mode: 'soft', target: 'HEAD~1' })
  assert.equal((await g.status(work)).hasStaged, true)
})

test('a remote that cannot be reached', async () => {
  await fails(g.clone('https://git.example.org/x.git', { path: '/home/user/far' }), 'CommandExitError')
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
