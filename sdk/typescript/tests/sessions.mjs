import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BelljarError, CellFailedError, NotFoundError, SessionBusyError, SessionEndedError } from 'belljar';
import { clientOf, collect, newSession, service } from './service.mjs';

const SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(60)";

test('a cell', async (t) => {
  const { session } = await newSession(t);
  const outcome = await session.run("import sys\nprint('out'); print('err', file=sys.stderr)\n6 * 7");
  assert.deepEqual(
    [outcome.status, outcome.stdout, outcome.stderr, outcome.value],
    ['success', 'out\n', 'err\n', '42'],
  );
  assert.equal(outcome.throwIfFailed(), outcome);
  assert.equal(outcome.cause.kind, 'completed');
  assert.equal(String(outcome), 'out\nerr\n42');
  assert.equal((await session.run('_ = 1')).value, undefined);
  const large = await session.run("print('x' * 3_000_000)");
  assert.equal(large.stdoutOutput.bytes, 3_000_001);
  assert(large.stdoutOutput.omittedBytes > 0);
});

test('an exception and a timeout are outcomes', async (t) => {
  const { session } = await newSession(t);
  const outcome = await session.run("def f():\n    raise KeyError('k')\nf()");
  assert.deepEqual([outcome.ok, outcome.exception.type, outcome.exception.line], [false, 'KeyError', 2]);
  assert.throws(
    () => outcome.throwIfFailed(),
    (error) => error instanceof CellFailedError && error.outcome === outcome && /KeyError: 'k'/.test(error.message),
  );
  const late = await session.run('while True: pass', { wallTimeMs: 300 });
  assert.deepEqual([late.status, late.cause], ['timeout', { kind: 'wall_time', limitMs: 300 }]);
  await assert.rejects(session.run('1', { wallTimeMs: 1e9 }), { code: 'limit_too_high' });
  await session.run('x = 1');
  assert.equal((await session.run('x = 2; 1 / 0', { onFailure: 'restore' })).state.fate, 'restored');
  assert.equal((await session.run('x')).value, '1');
});

test('events as they come', async (t) => {
  const { session } = await newSession(t);
  const told = [];
  const code = 'import time\nfor n in range(3):\n    print(n, flush=True); time.sleep(0.2)\nn';
  const outcome = await session.run(code, { onEvent: (event) => told.push([event.type, Date.now()]) });
  assert.deepEqual(
    told.map(([kind]) => kind),
    ['started', 'output', 'output', 'output', 'display', 'outcome'],
  );
  assert(told.at(-1)[1] - told[1][1] > 300);
  assert.equal(outcome.value, '2');
  const events = session.stream("print('a')\n1");
  const all = await collect(events);
  assert.equal(all.find((event) => event.type === 'output').text, 'a\n');
  assert.equal(all.find((event) => event.type === 'display').text, '1');
  assert.equal(all.at(-1), events.outcome);
  assert.equal(events.cell, events.outcome.cell);
});

test('interrupts and busy sessions', async (t) => {
  const { session } = await newSession(t);
  assert.equal(await session.interrupt(), false);
  const events = session.stream(SLEEP);
  assert.deepEqual([(await events.next()).value.type, (await events.next()).value.type], ['started', 'output']);
  const before = Date.now();
  await assert.rejects(session.run('1', { whenBusy: 'refuse' }), SessionBusyError);
  assert(Date.now() - before < 5000, 'it was tried again, though it was asked not to wait');
  assert.equal(await session.interrupt(), true);
  assert.deepEqual(
    (await collect(events)).map((event) => event.type),
    ['outcome'],
  );
  assert.equal(events.outcome.cause.kind, 'interrupted');
});

test('an aborted signal interrupts the cell', async (t) => {
  const { session } = await newSession(t);
  const controller = new AbortController();
  const reason = new Error('enough');
  const running = session.run(SLEEP, {
    signal: controller.signal,
    onEvent: (event) => event.type === 'output' && controller.abort(reason),
  });
  await assert.rejects(running, reason);
  const before = Date.now();
  assert.equal((await session.run("'next'")).value, "'next'");
  assert(Date.now() - before < 20_000);
  await assert.rejects(session.info({ signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(session.run('1', { signal: AbortSignal.abort(reason) }), reason);
});

test('a loop that is left closes its connection, and the cell keeps running', async (t) => {
  const { session } = await newSession(t);
  for await (const event of session.stream(
    "import time\nprint('x', flush=True)\ntime.sleep(0.5)\nopen('y', 'w').close()",
  ))
    if (event.type === 'output') break;
  assert.equal((await session.run("import os; os.path.exists('y')")).value, 'True');
});

test('checkpoints, forks and snapshots', async (t) => {
  const { client, session } = await newSession(t, { checkpoints: 'every' });
  await session.run('x = 1');
  await session.checkpoint('one / ä');
  await session.run('x = 2');
  assert((await session.checkpoints()).some((one) => one.name === 'one / ä'));
  await session.restore('one / ä');
  assert.equal((await session.run('x')).value, '1');
  const { cells } = await session.info();
  await session.run('x = 3');
  await session.restore({ cell: cells });
  assert.equal((await session.run('x')).value, '1');
  await session.forget('one / ä');
  await assert.rejects(session.restore('one / ä'), { name: 'NotFoundError', code: 'checkpoint_not_found' });
  for (const name of ['..', '.', '']) await assert.rejects(session.forget(name), TypeError);
  const [left, right] = await session.fork(2);
  await left.run("x = 'left'");
  const values = await Promise.all([left, right, session].map(async (one) => (await one.run('x')).value));
  assert.deepEqual(values, ["'left'", '1', '1']);
  await session.run("lock = __import__('_thread').allocate_lock()");
  await session.files.put('file.txt', 'kept');
  const { data, leftOut } = await session.snapshot();
  assert.equal(leftOut, 1);
  const again = await client.sessionFromSnapshot(data);
  assert.equal((await again.run("x, open('file.txt').read()")).value, "(1, 'kept')");
  await assert.rejects(client.sessionFromSnapshot('no snapshot'), { code: 'snapshot_refused' });
});

test('hibernation, names and cells', async (t) => {
  const { session } = await newSession(t);
  await session.run('x = [1, 2]');
  const name = (await session.manifest()).find((one) => one.name === 'x');
  assert.deepEqual([name.type, name.length, name.preview], ['list', 2, '[1, 2]']);
  assert((await session.info()).use.memoryBytes > 1_000_000);
  assert.deepEqual((await session.hibernate()).names, []);
  assert.equal((await session.info()).state, 'hibernated');
  await session.wake();
  assert.equal((await session.info()).state, 'awake');
  assert.equal((await session.run('x')).value, '[1, 2]');
  const kept = await session.cell((await session.info()).cells);
  assert.deepEqual([kept.state, kept.outcome.value], ['done', '[1, 2]']);
});

test('input', async (t) => {
  const { session } = await newSession(t);
  const asked = [];
  const answers = { 'Name: ': 'Zoë', 'Key: ': 's3cret' };
  const onInput = async (prompt, isPassword) => {
    asked.push([prompt, isPassword]);
    return answers[prompt] ?? null;
  };
  const code = "import getpass\nname, key = input('Name: '), getpass.getpass('Key: ')\nprint(name, len(key))";
  assert.equal((await session.run(code, { onInput })).stdout, 'Zoë 6\n');
  assert.deepEqual(asked, [
    ['Name: ', false],
    ['Key: ', true],
  ]);
  assert.equal((await session.run("input('more?')", { onInput })).exception.type, 'EOFError');
  assert.match((await session.run('input()')).exception.value, /does not answer input\(\)/);
  // A client that fails leaves no cell behind that waits.
  const failing = () => Promise.reject(new RangeError('mine'));
  await assert.rejects(session.run('input()', { onInput: failing }), RangeError);
  assert.equal((await session.run('1')).value, '1');
  let question;
  const kinds = [];
  for await (const event of session.stream("input('x')", { answersInput: true })) {
    kinds.push(event.type);
    if (event.type !== 'input_requested') continue;
    question = event;
    await session.answerInput(event, 'y');
  }
  assert.deepEqual(kinds, ['started', 'input_requested', 'input_closed', 'display', 'outcome']);
  await assert.rejects(session.answerInput(question, 'z'), { code: 'no_question' });
});

test('displays', async (t) => {
  const { session } = await newSession(t);
  const outcome = await session.run("import pandas as pd\npd.DataFrame({'a': [1.5, None], 'c': ['x', 'y']})");
  const { columns, rows, totalRows, totalColumns } = outcome.display.table;
  assert.deepEqual([columns.map((one) => one.name), totalRows, totalColumns], [['a', 'c'], 2, 2]);
  assert.equal(rows[0][0], 1.5);
  assert.match(outcome.display.html, /<table/);
  const figure = await session.run('import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()');
  assert.deepEqual([...figure.display.png.subarray(1, 4)], [...Buffer.from('PNG')]);
  assert.deepEqual([figure.display.table, figure.display.data('x/y')], [undefined, undefined]);
  const loud = await session.run("print('\\x1b]0;title\\x07\\x1b[31mred\\x1b[0m')");
  assert(loud.stdout.includes('\x1b'), 'what was written is there as it was written');
  assert.equal(String(loud), 'red');
});

test('who ends sessions', async (t) => {
  const apiKey = service.otherKey;
  const client = clientOf({ apiKey });
  const [mine, kept, forgotten] = await Promise.all([client.session(), client.session(), client.session()]);
  kept.keep();
  const inner = await client.session();
  await inner[Symbol.asyncDispose]();
  await forgotten.close();
  await forgotten.close();
  await assert.rejects(forgotten.run('1'), NotFoundError);
  await client[Symbol.asyncDispose]();
  const other = clientOf({ apiKey });
  assert.deepEqual(
    (await collect(other.sessions())).map((view) => view.id),
    [kept.id],
  );
  await assert.rejects(other.attach(mine.id), NotFoundError);
  const again = await other.attach(kept.id);
  assert.equal((await again.run('1')).value, '1');
  await other.close();
  assert.equal((await again.run('2')).value, '2');
  await again.close();
  assert.deepEqual(await collect(other.sessions()), []);
});

test('pages of sessions', async (t) => {
  let asked = 0;
  const byOne = (url, init) => {
    asked += 1;
    return fetch(String(url).replace('limit=200', 'limit=1'), init);
  };
  const client = clientOf({ apiKey: service.otherKey, fetch: byOne });
  t.after(() => client.close());
  const made = [];
  for (let count = 0; count < 3; count += 1) made.push((await client.session()).id);
  asked = 0;
  assert.deepEqual(
    (await collect(client.sessions())).map((view) => view.id),
    made,
  );
  assert.equal(asked, 3);
});

test('a session that is gone', async (t) => {
  const { session } = await newSession(t, { checkpoints: 'off' });
  const outcome = await session.run('import os\nos._exit(3)');
  assert.deepEqual([outcome.status, outcome.cause.code, outcome.state.fate], ['crashed', 3, 'lost']);
  assert.match(String(outcome), /its session has ended/);
  await assert.rejects(
    session.run('1'),
    (error) => error instanceof SessionEndedError && error instanceof BelljarError,
  );
  await session.close();
});
