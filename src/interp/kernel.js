// The javascript kernel. Code is evaluated by V8's inspector in its REPL mode: one lasting scope, let and const can be
// declared again, await works at the top. A thread beside it reads commands (descriptor 3), because the first thread may
// be in an endless loop when the command to interrupt it comes. Events go to descriptor 4.
'use strict';
(require, language) => {
  const fs = require('fs');
  const util = require('util');
  const path = require('path');
  const inspector = require('inspector');
  const { pathToFileURL } = require('url');
  const { createRequire, stripTypeScriptTypes } = require('module');
  const { Worker } = require('worker_threads');
  const EVENTS = 4;
  const LINE_MAX = 8 * 1024 * 1024;
  const FIELDS = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png',
    'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json',
    'application/javascript': 'javascript', 'e2b/data': 'data', 'e2b/chart': 'chart',
  };

  function send(event) {
    const ascii = (s) => s.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
    const whole = (k, v) => (typeof v === 'string' && v.isWellFormed && !v.isWellFormed() ? v.toWellFormed() : v);
    const line = Buffer.from(ascii(JSON.stringify(event, whole)) + '\n', 'latin1');
    if (line.length > LINE_MAX) return false;
    for (let n = 0; n < line.length;) n += fs.writeSync(EVENTS, line, n);
    return true;
  }

  if (language === 'typescript' && !stripTypeScriptTypes) {
    send({ type: 'failed', text: `typescript needs node 22.13 or later, which can take types out; this is ${process.version}` });
    process.exit(1);
  }

  const session = new inspector.Session();
  session.connect();
  const post = (method, params) => new Promise((done) => session.post(method, params, (e, r) => done(e ? { lost: e } : r)));

  // What code sees beside the language: the folder it works in is where modules are looked for.
  const here = () => createRequire(path.join(process.cwd(), 'code'));
  globalThis.require = Object.assign((name) => here()(name), { resolve: (name) => here().resolve(name) });
  globalThis.__brigImport = (name) => {
    name = String(name);
    if (/^\.{0,2}\//.test(name)) return globalThis.__brigLoad(pathToFileURL(path.resolve(name)).href);
    let found;
    try {
      found = here().resolve(name);
    } catch {
      return globalThis.__brigLoad(name);
    }
    return globalThis.__brigLoad(path.isAbsolute(found) ? pathToFileURL(found).href : found);
  };
  let taken;
  globalThis.__brigTake = (v) => { taken = v; };
  for (const name of ['__brigImport', '__brigTake', '__brigLoad'])
    Object.defineProperty(globalThis, name, { enumerable: false });

  // import declarations and import() of a cell, which the inspector does not know, as calls of __brigImport. A scan by
  // tokens: strings, templates, comments and regular expressions are passed over.
  function imports(code) {
    if (!/\bimport\b/.test(code)) return code;
    const token = /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|`|[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*|[{}()[\];,]|\d[\w.]*|\s+|[^]/g;
    const declaration = /import\s*(?:((?:[^'"`;()]|\s)*?)\s*from\s*)?(['"])((?:(?!\2)[^\\\n]|\\.)*)\2(?:\s*(?:with|assert)\s*\{[^}]*\})?[ \t]*;?/y;
    const expression = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y;
    const templates = []; // depth of braces at each ${
    let out = '', depth = 0, last = '', m;
    const template = (i) => {
      for (; i < code.length; i++) {
        if (code[i] === '\\') i++;
        else if (code[i] === '`') return i + 1;
        else if (code[i] === '$' && code[i + 1] === '{') {
          templates.push(depth++);
          return i + 2;
        }
      }
      return i;
    };
    while (token.lastIndex < code.length && (m = token.exec(code)) !== null) {
      const t = m[0], at = m.index;
      let end = token.lastIndex;
      if (/^\s|^\/[/*]/.test(t)) {
        out += t;
        continue;
      }
      if (t === '`') end = template(end);
      else if (t === '/' && (last === '' || /^(?:[({[,;=:!&|?+\-*%<>~^]|return|typeof|case|in|of|await|void|yield|delete)$/.test(last))) {
        expression.lastIndex = at;
        if (expression.test(code)) end = expression.lastIndex;
      } else if (t === 'import' && last !== '.') {
        declaration.lastIndex = at;
        const d = depth === 0 && declaration.exec(code);
        if (d) {
          out += bindings(d[1], d[3], d[2]);
          token.lastIndex = declaration.lastIndex;
          last = ';';
          continue;
        }
        if (/^import\s*\(/.test(code.slice(at))) {
          out += '__brigImport';
          last = t;
          continue;
        }
      } else if (/[{([]/.test(t)) depth++;
      else if (/[)\]}]/.test(t)) {
        depth--;
        if (t === '}' && templates.at(-1) === depth) {
          templates.pop();
          end = template(end);
        }
      }
      out += code.slice(at, end);
      token.lastIndex = end;
      last = t;
    }
    return out;
  }
  function bindings(names, from, quote) {
    const load = `await __brigImport(${quote}${from}${quote})`;
    if (names === undefined) return `${load};`;
    const parts = [];
    const braces = /\{([^}]*)\}/.exec(names);
    const rest = names.replace(/\{[^}]*\}/, '').split(',').map((s) => s.trim()).filter(Boolean);
    let whole = '__brigModule';
    for (const r of rest) {
      const star = /^\*\s*as\s+(\S+)$/.exec(r);
      if (star) whole = star[1];
      else parts.push(`default: ${r}`);
    }
    if (braces) parts.push(...braces[1].split(',').map((s) => s.trim().replace(/\s+as\s+/, ': ')).filter(Boolean));
    if (whole === '__brigModule') return `const {${parts.join(', ')}} = ${load};`;
    return `const ${whole} = ${load};` + (parts.length ? ` const {${parts.join(', ')}} = ${whole};` : '');
  }

  async function value(remote) {
    if (remote.type === 'undefined') return undefined;
    if (remote.objectId === undefined) {
      if (remote.unserializableValue === undefined) return remote.value;
      return remote.type === 'bigint' ? BigInt(remote.unserializableValue.slice(0, -1)) : Number(remote.unserializableValue);
    }
    await post('Runtime.callFunctionOn', {
      functionDeclaration: 'function (v) { __brigTake(v); }', objectId: globalObject, arguments: [{ objectId: remote.objectId }],
    });
    const v = taken;
    taken = undefined;
    return v;
  }

  async function show(v) {
    if (v === undefined) return;
    let data = {};
    const display = v !== null && typeof v === 'object' && v[Symbol.for('Jupyter.display')];
    if (typeof display === 'function') data = await display.call(v);
    else data = { 'text/plain': typeof v === 'string' ? v : util.inspect(v) };
    const event = { type: 'result', is_main_result: true, extra: {} };
    for (const [mime, d] of Object.entries(data)) {
      if (FIELDS[mime]) event[FIELDS[mime]] = d;
      else event.extra[mime] = d;
    }
    if (!send(event)) process.stderr.write(`[the result is larger than ${LINE_MAX >> 20} MiB and left out]\n`);
  }

  // The frames of the kernel itself are nobody's business.
  function error(details) {
    const e = details.exception || {};
    const lines = String(e.description || e.value || details.text).split('\n');
    const cut = lines.findIndex((l) => /^ +at (?:Session\.post |.*node:inspector)/.test(l));
    const trace = (cut < 0 ? lines : lines.slice(0, cut)).join('\n');
    const first = /^(?:([\w$.]+)(?: \[\w+\])?: )?([^]*)/.exec(trace.split(/\n +at /)[0]);
    send({ type: 'error', name: e.className || first[1] || 'Uncaught', value: first[2], traceback: trace });
  }

  // What is running, null = nothing. An interrupt may cut any function of this thread off, also those here; so the
  // end of an execution is made of steps that can be taken again.
  let current = null;
  const queue = [];
  const state = new Int32Array(new SharedArrayBuffer(4)); // number of what is running, 0 = nothing; for the reader
  function end(run, report) {
    if (run !== current) return;
    if (!run.reported) {
      run.reported = true;
      if (report) report();
    }
    for (const [k, v] of run.before) {
      if (v === undefined) delete process.env[k];
      else process.env[k] = v;
    }
    if (!run.ended) {
      run.ended = true;
      send({ type: 'end_of_execution' });
    }
    Atomics.store(state, 0, 0);
    current = null;
    next();
  }
  const lost = () => send({ type: 'error', name: 'Interrupted', value: 'execution was interrupted', traceback: '' });
  let number = 0;
  function next() {
    if (current !== null || queue.length === 0) return;
    const { code, env = {} } = queue.shift();
    const run = { before: Object.keys(env).map((k) => [k, process.env[k]]), reported: false, ended: false };
    current = run;
    Atomics.store(state, 0, ++number);
    Object.assign(process.env, env);
    execute(code).then((report) => end(run, report), (e) => end(run, () => send({
      type: 'error', name: e.name || 'Error', value: String(e.message || e), traceback: String(e.stack || ''),
    })));
  }
  async function execute(code) {
    if (language === 'typescript') code = stripTypeScriptTypes(code);
    const r = await post('Runtime.evaluate', { expression: imports(code), replMode: true, awaitPromise: true, objectGroup: 'code' });
    let report;
    if (r.lost) report = lost;
    else if (r.exceptionDetails) report = () => error(r.exceptionDetails);
    else await show(await value(r.result));
    await post('Runtime.releaseObjectGroup', { objectGroup: 'code' });
    for (const s of [process.stdout, process.stderr])
      if (s.writableLength > 0) await new Promise((done) => s.write('', done));
    return report;
  }

  let globalObject;
  process.on('exit', () => session.disconnect());
  process.on('SIGINT', () => {});
  process.on('uncaughtException', (e) => process.stderr.write('Uncaught ' + util.inspect(e) + '\n'));
  process.on('unhandledRejection', (e) => process.stderr.write('Uncaught (in promise) ' + util.inspect(e) + '\n'));

  // A thread that answers is in no loop and is told; one that does not is cut off, then told.
  const reader = new Worker(`
    const { Socket } = require('net'), { parentPort, workerData } = require('worker_threads'), { Session } = require('inspector');
    const interrupt = (running) => {
      if (running === 0 || Atomics.load(workerData, 0) !== running) return;
      const session = new Session(); // one that stays would keep the process from its end
      session.connectToMainThread();
      session.post('Runtime.terminateExecution', () => {
        session.disconnect();
        parentPort.postMessage({ op: 'interrupt' });
      });
    };
    let part = '';
    const input = new Socket({ fd: 3, readable: true, writable: false }); // not fs: a read there would outlast the end
    input.setEncoding('utf8');
    input.on('data', (data) => {
      const lines = (part + data).split('\\n');
      part = lines.pop();
      for (const command of lines.map((l) => JSON.parse(l))) {
        if (command.op === 'interrupt') setTimeout(interrupt, 50, Atomics.load(workerData, 0));
        parentPort.postMessage(command);
      }
    });
    input.on('end', () => process.exit(0));
  `, { eval: true, stdin: false, workerData: state });
  reader.on('error', () => process.exit(1));
  reader.on('message', (command) => {
    if (command.op === 'interrupt') {
      if (current !== null) end(current, lost);
    } else if (command.op === 'setup') {
      Object.assign(process.env, command.env || {});
      try {
        if (command.cwd) process.chdir(command.cwd);
      } catch {
        // it stays where it is
      }
    } else if (command.op === 'execute') {
      queue.push(command);
      next();
    }
  });
  post('Runtime.evaluate', { expression: 'globalThis' }).then((r) => {
    globalObject = r.result.objectId;
    send({ type: 'ready' });
  });
};
