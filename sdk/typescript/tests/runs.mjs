import assert from 'node:assert/strict';
import * as fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { approvalText, NotFoundError } from 'belljar';
import { saveArtifacts } from 'belljar/node';
import { clientOf, collect, startWire } from './service.mjs';

const files = { 'sales.csv': '4000\n217\n' };
const SUM = 'What are the sales in all?';
const PRODUCT = 'What is six times seven?';

async function until(run, kind) {
  for await (const event of run) if (event.kind === kind) return event;
}

test('a run from its file to its files', async (t) => {
  const client = clientOf();
  const local = await fs.mkdtemp(join(tmpdir(), 'belljar-runs-'));
  t.after(() => fs.rm(local, { recursive: true }));
  const run = await client.run(SUM, { files, budget: { steps: 5 } });
  assert.equal(run.answer, undefined);
  const events = await collect(run);
  assert.deepEqual(
    events.map((event) => event.number),
    events.map((_, at) => at + 1),
  );
  assert.deepEqual([events[0].kind, events.at(-1).kind], ['started', 'ended']);
  assert.deepEqual([run.answer, run.view.state], ['The sales are 4217 in all.', 'answered']);
  assert.equal(run.view.budget.steps, 5);
  assert.equal((await collect(run.events({ after: 3 })))[0].number, 4);
  assert.deepEqual(await collect(run.events({ after: events.length })), []);
  // Names of the service are those of TypeScript, at any depth.
  const replied = events.find((event) => event.kind === 'replied');
  assert(replied.data.tookMs >= 0 && 'usage' in replied.data.reply);

  assert.deepEqual(await saveArtifacts(run, join(local, 'made')), [join(local, 'made', 'total.txt')]);
  assert.equal(await fs.readFile(join(local, 'made', 'total.txt'), 'utf8'), '4217');
  assert.match(await run.export('py'), /total = sum\(/);
  const { values, files: made } = await run.reproduce();
  assert.deepEqual(
    [...values, ...made].map((one) => one.verdict),
    ['identical', 'identical'],
  );
  const whole = await run.share();
  const part = await run.share({ value: '4217' });
  assert.deepEqual(
    (await run.shares()).map((share) => [share.id, share.value ?? undefined]).toSorted(),
    [
      [whole.id, undefined],
      [part.id, 1],
    ].toSorted(),
  );
  const [address, token] = part.link.split('/#/shared/');
  const asked = () => fetch(`${address}/v1/shared`, { headers: { Authorization: `Bearer ${token}` } });
  assert.equal((await (await asked()).json()).value, '4217');
  await run.revokeShare(part.id);
  assert.equal((await asked()).status, 404);
  await assert.rejects(run.share({ value: '9' }), TypeError);
  const found = await client.attachRun(run.id);
  assert.equal((await found.result()).answer, run.answer);
  assert((await collect(client.runs())).some((brief) => brief.id === run.id));
  const half = await run.followUp('And half of it?');
  assert.equal((await half.result()).answer, 'Half of it is 2108.5.');
  assert.equal(half.view.parent.id, run.id);
  const other = await run.branch(1);
  assert.equal((await other.result()).state, 'answered');
  await assert.rejects(run.cancel(), { code: 'run_ended' });
  await assert.rejects(client.attachRun('nothing'), NotFoundError);
});

test('a person decides', async () => {
  const client = clientOf();
  const run = await client.run(PRODUCT, { approvals: 'always' });
  const asked = [];
  for await (const event of run) {
    if (event.kind !== 'approval_asked') continue;
    asked.push([run.waitsFor[0].subject.code, approvalText(run.waitsFor[0])]);
    await run.approve();
    assert.deepEqual(run.waitsFor, []);
  }
  assert.deepEqual([asked, run.answer], [[['print(6 * 7)', '   1 │ print(6 * 7)']], 'It is 42.']);
  await assert.rejects(run.approve(), TypeError);

  const edited = await client.run(PRODUCT, { approvals: 'always' });
  await until(edited, 'approval_asked');
  await edited.edit('print(42)');
  assert.equal((await edited.result()).answer, 'It is 42.');

  const refused = await client.run(PRODUCT, { approvals: 'always', budget: { steps: 2 } });
  await until(refused, 'approval_asked');
  await refused.raiseBudget({ steps: 4 });
  await refused.setPolicy('never');
  assert.deepEqual([refused.view.budget.steps, refused.view.approvals, refused.view.state], [4, 'never', 'waits']);
  await refused.reject({ feedback: 'Not this way.' });
  const decided = await until(refused, 'approval_decided');
  assert.match(JSON.stringify(decided.data), /Not this way\./);
  await refused.result();
});

test('a run is interrupted, cancelled and deleted', async () => {
  const client = clientOf();
  const run = await client.run('Wait.');
  await until(run, 'call_started');
  while (!(await run.interrupt()));
  assert.match(JSON.stringify((await until(run, 'call_ended')).data), /interrupt/i);
  await run.result();

  const waiting = await client.run(PRODUCT, { approvals: 'always' });
  await until(waiting, 'approval_asked');
  await waiting.resume();
  assert.equal(waiting.view.state, 'waits');
  await assert.rejects(waiting.delete(), { code: 'run_not_ended' });
  await waiting.cancel();
  assert.equal((await waiting.result()).reason.kind, 'stopped');
  await waiting.delete();
  await assert.rejects(waiting.refresh(), NotFoundError);
});

test('the events of a run over a cut connection', async (t) => {
  const run = await clientOf().run(SUM, { files });
  await run.result();
  const wire = await startWire(t);
  // Each connection is cut after some of it: the first in the middle of an event.
  wire.plan = (number) => (number % 2 === 0 ? 2500 : undefined);
  const there = await wire.client().attachRun(run.id);
  const kinds = (events) => events.map((event) => event.kind);
  assert.deepEqual(kinds(await collect(there)), kinds(await collect(run)));
  assert(wire.connections > 1, 'none was cut');
});
