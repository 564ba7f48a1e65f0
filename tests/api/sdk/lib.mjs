// TAP for the tests of the SDKs. The environment says which SDK: BRIG_SDK (folder with node_modules), BRIG_SDK_NAME
// (a package in it). E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL are brigd's; E2B_OTHER_KEY is another tenant's.
import { createRequire } from 'node:module'
import { strict as assert } from 'node:assert'

const require = createRequire(process.env.BRIG_SDK + '/x.js')
export const sdk = require(process.env.BRIG_SDK_NAME)
export const { Sandbox } = sdk
export { assert, require }

const cases = []
export const test = (name, fn) => cases.push([name, fn])

/** The promise fails with an error of this class name, and words matching the pattern. */
export async function fails(promise, name, pattern = /./) {
  let e
  try {
    await promise
  } catch (caught) {
    e = caught
  }
  assert.ok(e, `no ${name} was thrown`)
  const names = []
  for (let c = e.constructor; c && c.name; c = Object.getPrototypeOf(c)) names.push(c.name)
  assert.ok(names.includes(name), `${names.join(' < ')}: ${e.message}, want ${name}`)
  assert.match(e.message, pattern)
  return e
}

export async function until(fn, what, seconds = 20) {
  for (const end = Date.now() + seconds * 1000; ; ) {
    const v = await fn()
    if (v) return v
    assert.ok(Date.now() < end, `not within ${seconds} s: ${what}`)
    await new Promise((r) => setTimeout(r, 10))
  }
}

/** Every page of a paginator. */
export async function all(p) {
  const out = []
  while (p.hasNext) out.push(...(await p.nextItems()))
  return out
}

export async function run() {
  let bad = 0
  const want = new RegExp(process.env.BRIG_SDK_CASES ?? '')
  for (const [i, [name, fn]] of cases.entries()) {
    if (!want.test(name) && !/^(create|the end)/.test(name)) continue
    try {
      await fn()
      console.log(`ok ${i + 1} - ${name}`)
    } catch (e) {
      bad++
      console.log(`not ok ${i + 1} - ${name}`)
      for (const line of String(e.stack ?? e).split('\n')) console.log('# ' + line)
    }
  }
  console.log(`1..${cases.length}`)
  process.exit(bad ? 1 : 0)
}
