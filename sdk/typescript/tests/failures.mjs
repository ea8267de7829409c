// Connections that break, requests that are repeated, problems.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import net from 'node:net';
import { describe, test } from 'node:test';
import {
  Belljar,
  BelljarError,
  NotFoundError,
  RateLimitedError,
  UnauthorizedError,
  UnavailableError,
  UnreachableError,
} from 'belljar';
import { clientOf, collect, internal, listen, service, startWire } from './service.mjs';

const { Attempts, TIMES } = await internal('transport.js');
const COUNT = 'import time\nfor n in range(200):\n    print(n, flush=True)\n    time.sleep(0.005)\nn';
const COUNTED = Array.from({ length: 200 }, (_, at) => `${at}\n`).join('');

describe('streams that are cut', { concurrency: true }, () => {
  for (const first of [0, 40, 700, 1500, 3000])
    test(`a stream that is cut after ${first} bytes continues`, async (t) => {
      const wire = await startWire(t);
      const client = wire.client();
      const session = await client.session();
      const begun = wire.connections;
      // Less often than is tried again.
      wire.plan = (number) => (number === begun ? first : number < begun + 3 ? 1300 : undefined);
      await wire.cut();
      const events = session.stream(COUNT);
      const all = await collect(events);
      const kinds = all.map((event) => event.type);
      assert.equal(all.map((event) => (event.type === 'output' ? event.text : '')).join(''), COUNTED);
      assert.deepEqual([kinds[0], kinds.at(-1)], ['started', 'outcome']);
      assert.equal(kinds.filter((kind) => kind === 'started' || kind === 'outcome').length, 2);
      assert.deepEqual([events.outcome.cell, events.outcome.value], [1, '199']);
      assert(wire.connections > begun + 2);
      assert.equal((await session.info()).cells, 1);
    });
});

test('silence is noticed', async (t) => {
  const { silence } = TIMES;
  TIMES.silence = 1000;
  t.after(() => (TIMES.silence = silence));
  const wire = await startWire(t);
  const client = wire.client();
  const session = await client.session();
  const begun = wire.connections;
  wire.silent = true;
  wire.plan = (number) => (number === begun ? 1000 : undefined);
  await wire.cut();
  assert.equal((await session.run(COUNT)).stdout, COUNTED);
  assert(wire.connections > begun + 1);
});

test('a repeated request has one effect', async (t) => {
  const apiKey = service.otherKey;
  const direct = clientOf({ apiKey });
  const wire = await startWire(t);
  const client = wire.client({ apiKey });
  wire.plan = (number) => (number < 2 ? 0 : undefined);
  const session = await client.session();
  assert.equal(wire.connections, 3);
  assert.deepEqual(
    (await collect(direct.sessions())).map((view) => view.id),
    [session.id],
  );
  await wire.cut();
  const begun = wire.connections;
  wire.plan = (number) => (number < begun + 2 ? 0 : undefined);
  await session.run("runs = 1 + globals().get('runs', 0)");
  assert.equal(wire.connections, begun + 3);
  assert.equal((await (await direct.attach(session.id)).run('runs')).value, '1');
});

test('events that are gone leave the outcome', async (t) => {
  const code = `
import time
class Big:
    def __repr__(self): return "x" * 900_000
for _ in range(9): display(Big())
time.sleep(1)
"end"
`;
  const wire = await startWire(t);
  const client = wire.client();
  const session = await client.session();
  const begun = wire.connections;
  wire.plan = (number) => (number === begun ? 500 : undefined);
  await wire.cut();
  let first = true;
  const onEvent = async () => {
    if (first) await new Promise((resolve) => setTimeout(resolve, 1500));
    first = false;
  };
  assert.equal((await session.run(code, { onEvent })).value, "'end'");
});

test('nobody there, no key, a wrong URL', async () => {
  const unused = net.createServer();
  const url = `http://127.0.0.1:${await listen(unused)}`;
  await new Promise((resolve) => unused.close(resolve));
  const before = Date.now();
  await assert.rejects(new Belljar({ url, apiKey: 'bj_key' }).session(), (error) => {
    for (const hint of [url, 'belljar serve', 'BELLJAR_URL']) assert(error.message.includes(hint));
    return error instanceof UnreachableError;
  });
  assert(Date.now() - before < 5000);
  assert.throws(() => new Belljar(), { name: 'UnauthorizedError', message: /BELLJAR_API_KEY/ });
  assert.throws(() => new Belljar({ url: '127.0.0.1:7878', apiKey: 'bj_key' }), /http/);
});

test('variables of the environment', async (t) => {
  t.after(() => {
    delete process.env.BELLJAR_URL;
    delete process.env.BELLJAR_API_KEY;
  });
  process.env.BELLJAR_URL = `${service.url}/`;
  process.env.BELLJAR_API_KEY = service.key;
  const client = new Belljar();
  assert.equal(client.url, service.url);
  await collect(client.sessions());
  const { inspect } = await import('node:util');
  assert(!inspect(client, { depth: 9, showHidden: true }).includes(service.key));
});

test('problems', async () => {
  await assert.rejects(clientOf({ apiKey: 'bj_00000000_wrong' }).session(), (error) => {
    assert.deepEqual([error.code, error.status, error.retry], ['unauthorized', 401, false]);
    return error instanceof UnauthorizedError;
  });
  await assert.rejects(clientOf().attach('nobody'), (error) => {
    assert.deepEqual([error.code, error.remedy], ['session_not_found', `${service.url}/errors/session_not_found`]);
    for (const word of [error.title, error.detail, error.code, error.remedy])
      assert(word && error.message.includes(word));
    assert(error.requestId);
    assert.equal(String(error).split(':')[0], 'NotFoundError');
    return error instanceof NotFoundError && error instanceof BelljarError;
  });
});

/** A client of a server that gives these responses, the last one again and again; and the keys that it was sent. */
async function answering(t, ...responses) {
  const keys = [];
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key']);
    const [status, headers, body] = responses.length > 1 ? responses.shift() : responses[0];
    request.resume().on('end', () => response.writeHead(status, headers).end(body));
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  t.after(() => (server.closeAllConnections(), server.close()));
  const ask = async () => (await new Belljar({ url, apiKey: 'bj_key', retries: 2 }).session()).id;
  return { ask, keys };
}

const problem = (code, status, retry) =>
  JSON.stringify({ type: `/errors/${code}`, title: 't', status, code, detail: 'd', retry });
const done = [200, {}, '{"id": "one", "limits": {}}'];

test('what is tried again', async (t) => {
  const full = [503, { 'Retry-After': '1' }, problem('service_full', 503, true)];
  let { ask, keys } = await answering(t, full, done);
  const before = Date.now();
  assert.equal(await ask(), 'one');
  assert(Date.now() - before >= 1000);
  assert(keys.length === 2 && keys[0] === keys[1] && keys[0].length === 32);

  ({ ask, keys } = await answering(t, [400, {}, problem('bad_request', 400, false)]));
  await assert.rejects(ask(), { code: 'bad_request', retry: false });
  assert.equal(keys.length, 1);

  // A proxy that lost the service for a moment, and one for good.
  ({ ask, keys } = await answering(t, [502, {}, '<html>Bad Gateway</html>'], done));
  assert.equal(await ask(), 'one');
  ({ ask, keys } = await answering(t, [504, {}, '<html>']));
  await assert.rejects(ask(), (error) => error instanceof UnavailableError && error.code === 'no_service');
  assert.equal(keys.length, 3);

  // Too long to wait in silence.
  ({ ask, keys } = await answering(t, [429, { 'Retry-After': '3600' }, problem('too_many_sessions', 429, true)]));
  await assert.rejects(ask(), (error) => error instanceof RateLimitedError && error.retryAfter === 3600);
  assert.equal(keys.length, 1);

  // The key is for one address.
  ({ ask, keys } = await answering(t, [307, { Location: 'http://127.0.0.1:9/' }, '']));
  await assert.rejects(ask(), { code: 'no_service', status: 307 });

  ({ ask, keys } = await answering(t, [200, {}, 'hello']));
  await assert.rejects(ask(), { code: 'bad_answer' });
});

test('pauses grow, and a restart is waited for', () => {
  const unreachable = new UnreachableError('unreachable', '', { retry: true });
  let attempts = new Attempts(6);
  for (const least of [250, 500, 1000, 2000, 4000, 8000]) {
    const pause = attempts.wait(unreachable);
    assert(least <= pause && pause <= 1.5 * least);
  }
  assert.throws(() => attempts.wait(unreachable), UnreachableError);

  const draining = new UnavailableError('draining', '', { retry: true, retryAfter: 5 });
  attempts = new Attempts(1);
  let waited = 0;
  for (const error of [draining, unreachable, draining, unreachable]) waited += attempts.wait(error);
  assert.throws(() => {
    for (;;) waited += attempts.wait(unreachable);
  }, UnreachableError);
  assert(120_000 < waited && waited < 150_000);
  // Who wants no retries gets none.
  assert.throws(() => new Attempts(0).wait(draining), UnavailableError);
});
