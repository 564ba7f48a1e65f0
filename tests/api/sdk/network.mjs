// What may leave and come: network options, their update, private traffic, host names, figures.
import http from 'node:http'
import { assert, fails, require, run, Sandbox, sdk, test, until } from './lib.mjs'

const { ALL_TRAFFIC } = sdk
const PORT = new URL(process.env.E2B_API_URL).port
const serve = async (s, port) => {
  await s.commands.run(`mkdir -p site && cd site && echo inside > index.html && exec python3 -m http.server ${port} --bind 127.0.0.1`, { background: true })
  await until(async () => (await get(s.sandboxId, port)).status === 200, 'it serves')
}
// undici's fetch does not let one choose the Host, node:http does
const get = (id, port, headers = {}) =>
  new Promise((done, failed) => {
    const q = http.get({ host: '127.0.0.1', port: PORT, path: '/', headers: { host: `${port}-${id}.localhost:${PORT}`, ...headers } }, (r) => {
      let text = ''
      r.on('data', (d) => { text += d })
      r.on('end', () => done({ status: r.statusCode, text }))
    })
    q.on('error', failed)
  })

test('a port by its host name', async () => {
  const s = await Sandbox.create()
  assert.equal(s.getHost(8000), `8000-${s.sandboxId}.localhost:${PORT}`)
  const r = await get(s.sandboxId, 8000)
  assert.deepEqual([r.status, JSON.parse(r.text).message, JSON.parse(r.text).port], [502, 'The sandbox is running but port is not open', 8000])
  await serve(s, 8000)
  assert.equal((await get(s.sandboxId, 8000)).text, 'inside\n')
  await s.kill()
  const gone = await get(s.sandboxId, 8000)
  assert.deepEqual([gone.status, JSON.parse(gone.text)], [502, { sandboxId: s.sandboxId, message: 'The sandbox was not found', code: 502 }])
})

// The least of RFC 6455 that answers: every frame comes back, text as text.
const ECHO = `
import base64, hashlib, http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        key = self.headers.get('sec-websocket-key')
        if self.headers.get('upgrade', '').lower() != 'websocket':
            self.send_response(426); self.send_header('content-length', '0'); self.end_headers(); return
        sum = hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()
        self.send_response(101); self.send_header('upgrade', 'websocket'); self.send_header('connection', 'Upgrade')
        self.send_header('sec-websocket-accept', base64.b64encode(sum).decode()); self.end_headers()
        while True:
            a, b = self.rfile.read(2)
            n = b & 127
            n = int.from_bytes(self.rfile.read(2 if n == 126 else 8), 'big') if n > 125 else n
            mask = self.rfile.read(4)
            data = self.rfile.read(n)
            data = (int.from_bytes(data, 'big') ^ int.from_bytes((mask * (n // 4 + 1))[:n], 'big')).to_bytes(n, 'big')
            head = bytes([a, n]) if n < 126 else bytes([a, 126]) + n.to_bytes(2, 'big') if n < 65536 else bytes([a, 127]) + n.to_bytes(8, 'big')
            self.wfile.write(head + data)
            if a & 15 == 8: break
        self.close_connection = True
    def log_message(self, *a): pass
s = socketserver.ThreadingTCPServer(('127.0.0.1', 8000), H)
print('up', flush=True)
s.serve_forever()
`

test('WebSockets to a port', async () => {
  const { WebSocket } = require('undici')
  const s = await Sandbox.create()
  await s.files.write('echo.py', ECHO)
  const h = await s.commands.run('exec python3 echo.py', { background: true })
  await until(() => h.stdout.includes('up'), 'it serves')
  const open = (port) => {
    const w = new WebSocket(`ws://127.0.0.1:${PORT}/chat`, { headers: { 'e2b-sandbox-id': s.sandboxId, 'e2b-sandbox-port': String(port) } })
    w.binaryType = 'arraybuffer'
    w.got = []
    w.onmessage = (e) => w.got.push(typeof e.data === 'string' ? e.data : Buffer.from(e.data).toString('base64'))
    w.over = new Promise((done) => { w.onclose = done })
    w.ready = new Promise((done, failed) => { w.onopen = done; w.onerror = failed })
    return w
  }
  const many = await Promise.all(Array.from({ length: 5 }, async () => { const w = open(8000); await w.ready; return w }))
  const big = Buffer.alloc(3_000_000, 7)
  for (const [i, w] of many.entries()) {
    w.send(`text ${i} ü`)
    w.send(big)
    w.send('last')
  }
  for (const [i, w] of many.entries()) {
    await until(() => w.got.length === 3, () => `${w.got.length} messages`)
    assert.deepEqual([w.got[0], w.got[1] === big.toString('base64'), w.got[2]], [`text ${i} ü`, true, 'last'])
  }
  many[0].close()
  await many[0].over
  await assert.rejects(open(8001).ready, 'nobody listens there')
  assert.equal((await get(s.sandboxId, 8000)).status, 426, 'the same port without a switch')
  await s.kill()
  await Promise.all(many.map((w) => w.over))
})

test('private traffic needs its token', async () => {
  const s = await Sandbox.create({ network: { allowPublicTraffic: false } })
  assert.ok(s.trafficAccessToken)
  const token = { 'e2b-traffic-access-token': s.trafficAccessToken }
  await s.commands.run('mkdir -p site && cd site && echo private > index.html && exec python3 -m http.server 8000 --bind 127.0.0.1', { background: true })
  await until(async () => (await get(s.sandboxId, 8000, token)).status === 200, 'it serves')
  assert.equal((await get(s.sandboxId, 8000)).status, 403)
  assert.equal((await get(s.sandboxId, 8000, { 'e2b-traffic-access-token': 'x' })).status, 403)
  assert.equal((await s.commands.run('echo the SDK goes on')).stdout, 'the SDK goes on\n')
  await s.kill()
})

test('no internet, and what it says of itself', async () => {
  const s = await Sandbox.create({ allowInternetAccess: false })
  assert.equal((await s.getInfo()).allowInternetAccess, false)
  const e = await fails(s.commands.run('exec 3<>/dev/tcp/1.1.1.1/53'), 'CommandExitError')
  assert.match(e.stderr, /unreachable|refused/i)
  await s.kill()
})

test('rules, and others in their place', async () => {
  const s = await Sandbox.create({ network: { denyOut: [ALL_TRAFFIC], allowOut: ['api.example.org'] } })
  await s.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ['*.example.org'] })
  await Sandbox.updateNetwork(s.sandboxId, { allowInternetAccess: false })
  await s.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ['example.org'] })
  await s.kill()
  const none = await Sandbox.create({ allowInternetAccess: false })
  await none.updateNetwork({ denyOut: [ALL_TRAFFIC] })
  await fails(none.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ['example.org'] }), 'SandboxError', /no gate/)
  await none.kill()
  await fails(s.updateNetwork({ denyOut: [ALL_TRAFFIC] }), 'SandboxNotFoundError')
})

test('what cannot be asked', async () => {
  await fails(Sandbox.create({ network: { allowOut: ['example.org'] } }), 'SandboxError', /ALL_TRAFFIC/)
  await fails(Sandbox.create({ network: { denyOut: ['example.org'] } }), 'SandboxError', /invalid denied CIDR/)
  await fails(Sandbox.create({ network: { rules: { 'a.example.org': [{ transform: { headers: { a: 'b' } } }] } } }), 'SandboxError', /rules/)
})

test('figures', async () => {
  const s = await Sandbox.create()
  await s.commands.run('head -c 1000000 /dev/zero > f')
  const [m] = await s.getMetrics()
  assert.ok(m.timestamp instanceof Date && m.cpuCount >= 1 && m.cpuUsedPct >= 0, JSON.stringify(m))
  assert.ok(m.memUsed > 0 && m.memUsed <= m.memTotal && m.diskUsed >= 1000000 && m.diskUsed <= m.diskTotal, JSON.stringify(m))
  assert.deepEqual(await s.getMetrics({ start: new Date(0), end: new Date(1000) }), [])
  await s.kill()
})

await run()
