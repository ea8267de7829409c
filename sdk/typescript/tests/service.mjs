// A service for all tests, a model that is a script, and a wire to the service that can be cut.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Belljar } from 'belljar';

/** The program under test; `.ci/typescript` says which. */
const program = process.env.BELLJAR_PROGRAM;
if (!program) throw new Error('set BELLJAR_PROGRAM to the program under test');

const python = (code) => `\`\`\`python\n${code}\n\`\`\``;
const SUM =
  "total = sum(int(line) for line in open('sales.csv'))\nopen('total.txt', 'w').write(str(total))\nprint(total)";

/** What a task has in it, and the replies to it. */
const SCRIPT = {
  'And half of it': [python('print(total / 2)'), 'FINAL: Half of it is 2108.5.'],
  'sales in all': [python(SUM), 'FINAL: The sales are 4217 in all.'],
  'six times seven': [python('print(6 * 7)'), 'FINAL: It is 42.'],
  Wait: [python("import time\nprint('waits', flush=True)\ntime.sleep(60)"), 'FINAL: It was interrupted.'],
};

function replyTo(messages) {
  for (const [task, replies] of Object.entries(SCRIPT)) {
    const asked = messages.findIndex((message) => JSON.stringify(message.content).includes(task));
    if (asked < 0) continue;
    // Those before it are of the examples that a model is shown.
    const said = messages.slice(asked).filter((message) => message.role === 'assistant').length;
    return replies[Math.min(said, replies.length - 1)];
  }
  return 'FINAL: It is not known.';
}

const textOf = async (stream) => {
  let text = '';
  for await (const part of stream) text += part;
  return text;
};

/** Listens on a free port. Returns it. */
export async function listen(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

export async function startService() {
  const model = createServer(async (request, response) => {
    const reply = replyTo(JSON.parse(await textOf(request)).messages);
    response.setHeader('Content-Type', 'text/event-stream');
    for (const [delta, finish_reason] of [
      [{ role: 'assistant', content: reply }, null],
      [{}, 'stop'],
    ]) {
      const choices = [{ index: 0, delta, finish_reason }];
      const chunk = { id: '1', object: 'chat.completion.chunk', created: 0, model: 'scripted', choices };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  });
  const port = await listen(model);
  const directory = mkdtempSync(join(tmpdir(), 'belljar-typescript-'));
  const data = join(directory, 'service');
  const child = spawn(
    program,
    ['serve', '--env', 'default', '--listen', '127.0.0.1:0', '--data', data, '--drain', '1']
      .concat(['--tenant-sessions', '24', '--model', 'llamacpp/scripted', '--packages', 'humanize'])
      .concat(['--allow', 'allowed.example', '--mount', '/usr:system', '--ports-domain', 'localhost']),
    { env: { ...process.env, BELLJAR_BASE_URL: `http://127.0.0.1:${port}/v1` }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let key = '';
  child.stdout.on('data', (part) => (key += part));
  const url = await new Promise((resolve, reject) => {
    let said = '';
    child.stderr.on('data', (part) => {
      said += part;
      const found = /listening on (http:[^\]\s]*)/.exec(said);
      if (found) resolve(found[1]);
    });
    child.on('exit', () => reject(new Error(`the service ended: ${said}`)));
  });
  // It was written before, to another pipe.
  while (!key.endsWith('\n')) await once(child.stdout, 'data');
  const other = ['keys', 'create', '--data', data, '--tenant', 'other', '--scope', 'sessions'];
  return {
    url,
    key: key.trim(),
    /** The key of another tenant, for tests that list all sessions. */
    otherKey: execFileSync(program, other, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim(),
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      model.closeAllConnections();
      model.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export const service = await startService();

export const clientOf = (options = {}) => new Belljar({ url: service.url, apiKey: service.key, ...options });

/** A client and a session, which end with the test. */
export async function newSession(t, options) {
  const client = clientOf();
  t.after(() => client.close());
  return { client, session: await client.session(options) };
}

/** Internal modules of the package under test. */
export const internal = (name) => import(new URL(name, import.meta.resolve('belljar')));

export async function collect(iterable) {
  const all = [];
  for await (const one of iterable) all.push(one);
  return all;
}

/**
 * Carries connections to the service. `plan` says, for each by its number from 0, how many bytes of responses it carries
 * before it is cut; `silent` connections stay open then.
 */
export async function startWire(t) {
  const target = new URL(service.url);
  const wire = { connections: 0, plan: () => undefined, silent: false, url: '' };
  const open = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port), target.hostname);
    let left = wire.plan(wire.connections++);
    open.add(near);
    near.on('close', () => open.delete(near));
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
    near.pipe(far);
    far.on('data', (part) => {
      if (left === undefined) return near.write(part);
      near.write(part.subarray(0, left));
      left = Math.max(0, left - part.length);
      if (left === 0 && !wire.silent) near.end(() => near.destroy());
    });
  });
  wire.url = `http://127.0.0.1:${await listen(server)}`;
  /** Has the next request go over a new connection: the client has noticed the end of the others. */
  wire.cut = async () => {
    await Promise.all([...open].map((near) => (near.end(), once(near, 'close'))));
  };
  const clients = [];
  wire.client = (options) => {
    const client = clientOf({ url: wire.url, ...options });
    clients.push(client);
    return client;
  };
  t.after(async () => {
    wire.plan = () => undefined;
    for (const client of clients) await client.close();
    for (const near of open) near.destroy();
    server.close();
  });
  return wire;
}
