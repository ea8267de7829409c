// Parts that need no service.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { internal } from './service.mjs';

test('text does nothing to a terminal', async () => {
  const { safe } = await internal('text.js');
  const sent = '\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b]52;c;aGk=\x1b\\ \x9b5n\x08\x7f\ttab\r\nline';
  assert.equal(safe(sent), 'red 5n\ttab\nline');
});

test('names of the service and of TypeScript', async () => {
  const { fromWire, toWire } = await internal('wire.js');
  const event = {
    kind: 'started',
    granted: [{ name: 'my_tool', parameters: { type: 'object', properties: { my_name: {} } } }],
    approvals: { tools: { read_file: 'always' } },
    new_member: { any_name: 1 },
  };
  const converted = fromWire(event, 'RunEvent');
  assert.deepEqual(converted, {
    kind: 'started',
    granted: event.granted,
    approvals: event.approvals,
    newMember: event.new_member,
  });
  // Of two events, the same member is of two kinds.
  const branched = { kind: 'branched', branches: [{ took_ms: 1 }] };
  assert.deepEqual(fromWire(branched, 'RunEvent').branches, [{ tookMs: 1 }]);
  assert.deepEqual(fromWire({ a_b: { memory_bytes: 1 } }, '*LimitsView'), { a_b: { memoryBytes: 1 } });
  const session = { ttlSeconds: 1, limits: { memoryBytes: 2 }, metadata: { aB: '1', a_b: '2' } };
  assert.deepEqual(toWire(session, 'CreateSession'), {
    ttl_seconds: 1,
    limits: { memory_bytes: 2 },
    metadata: session.metadata,
  });
});

test('fields of a newer service', async () => {
  const { Outcome } = await internal('outcome.js');
  const output = { text: 'out', bytes: 3, omittedBytes: 0 };
  const outcome = new Outcome({ status: 'success', stdout: output, stderr: output, ok: false, newer: 1, toString: 2 });
  assert.deepEqual([outcome.ok, outcome.newer, outcome.stdout, typeof outcome.toString], [true, 1, 'out', 'function']);
});

test('the version is that of the package', async () => {
  const { VERSION } = await internal('transport.js');
  const file = new URL('../package.json', import.meta.resolve('belljar'));
  assert.equal(VERSION, JSON.parse(await readFile(file, 'utf8')).version);
});

test('bytes as Base64', async () => {
  const { fromBase64, toBase64 } = await internal('text.js');
  const bytes = Uint8Array.from({ length: 100_003 }, (_, at) => at % 251);
  assert.equal(toBase64(bytes), Buffer.from(bytes).toString('base64'));
  assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
});
