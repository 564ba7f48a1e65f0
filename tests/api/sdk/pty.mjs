// Terminals: input, size, environment, coming back, ends.
import { assert, fails, run, Sandbox, test, until } from './lib.mjs'

const s = await Sandbox.create({ timeoutMs: 240_000 })
const open = async (opts) => {
  const t = { text: '' }
  t.h = await s.pty.create({ cols: 80, rows: 24, ...opts, onData: (d) => { t.text += Buffer.from(d).toString() } })
  t.type = (x) => s.pty.sendInput(t.h.pid, Buffer.from(x))
  t.sees = (x) => until(() => t.text.includes(x), () => JSON.stringify(t.text))
  return t
}

test('create, type, read, end', async () => {
  const t = await open()
  await t.type('stty size; tty; echo $TERM $LANG\n')
  await t.sees('24 80')
  await t.sees('/dev/pts/')
  await t.sees('xterm-256color C.UTF-8')
  await t.type('exit 7\n')
  assert.equal((await fails(t.h.wait(), 'CommandExitError')).exitCode, 7)
})

test('resize', async () => {
  const t = await open()
  await t.type("trap 'echo size $(stty size)' WINCH; echo rea''dy\n")
  await t.sees('ready')
  await s.pty.resize(t.h.pid, { cols: 99, rows: 41 })
  await t.type('\n')
  await t.sees('size 41 99')
  await t.h.kill()
})

test('environment, user and folder', async () => {
  const t = await open({ envs: { MINE: 'here I am' }, cwd: '/tmp', user: 'root' })
  await t.type('echo "$MINE|$(pwd)|$(id -u)"\n')
  await t.sees('here I am|/tmp|0')
  await t.h.kill()
})

test('a client comes back', async () => {
  const t = await open()
  await t.type('X=kept; echo fi""rst\n')
  await t.sees('first')
  await t.h.disconnect()
  let text = ''
  const again = await s.pty.connect(t.h.pid, { onData: (d) => { text += Buffer.from(d).toString() } })
  await t.type('echo "sec""ond $X"\n')
  await until(() => text.includes('second kept'), () => text)
  assert.equal(await again.kill(), true)
  await fails(again.wait(), 'CommandExitError', /killed/)
})

test('interrupt by the terminal', async () => {
  const t = await open()
  await t.type('sleep 600; echo "after=$?"\n')
  await t.sees('sleep 600')
  await until(async () => (await s.commands.run("cat /proc/[0-9]*/comm | grep -cx sleep || true")).stdout === '1\n', 'it sleeps')
  await t.type('\x03')
  await t.type('echo st""ill $?\n')
  await t.sees('still 130')
  await t.h.kill()
})

test('kill, and what is unknown', async () => {
  const t = await open()
  assert.equal(await s.pty.kill(t.h.pid), true)
  await fails(t.h.wait(), 'CommandExitError')
  assert.equal(await s.pty.kill(t.h.pid), false)
  await fails(s.pty.resize(999_999, { cols: 1, rows: 1 }), 'NotFoundError')
  await fails(s.pty.sendInput(999_999, Buffer.from('x')), 'NotFoundError')
})

test('the end', async () => assert.equal(await s.kill(), true))

await run()
