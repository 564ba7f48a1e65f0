// The image code-interpreter-v1 itself: its user, its programs, its libraries. Run by tests/recipes/sdk.t.
import { Sandbox, assert, run, test } from './lib.mjs'

const { equal, deepEqual, ok } = assert
const box = await Sandbox.create({ timeoutMs: 240_000 })
const sh = async (cmd, opts) => (await box.commands.run(cmd, opts)).stdout

test('it is the image, not the host', async () => {
  equal((await box.getInfo()).templateId, 'code-interpreter-v1')
  equal(await sh('test -f /etc/matplotlibrc && ! test -L /etc/matplotlibrc && test -d /etc/apt && echo image'), 'image\n')
})

test('its user', async () => {
  equal(await sh('id -u; id -un; id -gn; echo $HOME $SHELL; cd; pwd'), '1000\nuser\nuser\n/home/user /bin/bash\n/home/user\n')
  equal(await sh('getent passwd user | cut -d: -f6,7'), '/home/user:/bin/bash\n')
  equal(await sh('touch ~/mine && stat -c %U:%G ~/mine'), 'user:user\n')
  equal(await sh('id -u', { user: 'root' }), '0\n')
})

test('its programs', async () => {
  for (const p of ['bash', 'git', 'curl', 'node', 'python3', 'pip', 'make', 'less', 'file', 'unzip', 'patch'])
    ok((await sh(`command -v ${p}`)).endsWith(`/${p}\n`), p)
})

test('its libraries, in a kernel of IPython', async () => {
  const e = await box.runCode(`import numpy, scipy, pandas, matplotlib, sympy, IPython
type(get_ipython()).__mro__[1].__name__, float(numpy.linalg.det(numpy.eye(3))), str(sympy.sqrt(8))`)
  equal(e.error, undefined, JSON.stringify(e.error))
  ok(e.text.includes("1.0, '2*sqrt(2)'") && e.text.includes('InteractiveShell'), e.text)
})

test('latex of sympy, png of PIL', async () => {
  const e = await box.runCode("import sympy\nsympy.init_printing()\nsympy.Integral(sympy.Symbol('x'))")
  ok(e.results.some((r) => r.latex?.includes('int')), JSON.stringify(e.results))
  const p = await box.runCode("from PIL import Image\nImage.new('RGB', (4, 4), 'red')")
  ok(Buffer.from(p.results[0].png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
})

test('nothing in it gains rights', async () => {
  equal(await sh('find / -xdev -perm /6000 -type f 2>/dev/null | head -1'), '')
})

test('the end', async () => equal(await box.kill(), true))

await run()
