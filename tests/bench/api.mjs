// The unmodified interpreter SDK, timed: reads one JSON command a line, answers each with one line of milliseconds.
//   {"do":"code","n":10}      ten at once: create, runCode("1+1"), kill; of each the four times
//   {"do":"exec","count":50}  commands.run("true"), one after the other in one sandbox
// The environment: BRIG_SDK (folder with node_modules), E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const { Sandbox } = createRequire(process.env.BRIG_SDK + '/x.js')('@e2b/code-interpreter')
const now = () => performance.now()

async function one() {
  const a = now()
  const box = await Sandbox.create()
  const b = now()
  const got = await box.runCode('1+1')
  const c = now()
  if (got.text !== '2') throw new Error(`runCode: ${JSON.stringify(got)}`)
  await box.kill()
  const d = now()
  return { create: b - a, run: c - b, kill: d - c, all: d - a }
}

const work = {
  code: ({ n }) => Promise.all(Array.from({ length: n }, one)),
  exec: async ({ count }) => {
    const box = await Sandbox.create('base')
    const out = []
    for (let i = 0; i < count; i++) {
      const a = now()
      const r = await box.commands.run('true')
      out.push(now() - a)
      if (r.exitCode !== 0) throw new Error(`exit code ${r.exitCode}`)
    }
    await box.kill()
    return out
  },
}

console.log('"ready"')
for await (const line of createInterface({ input: process.stdin })) {
  const c = JSON.parse(line)
  try {
    console.log(JSON.stringify(await work[c.do](c)))
  } catch (e) {
    console.log(JSON.stringify({ error: String(e.stack ?? e) }))
  }
}
