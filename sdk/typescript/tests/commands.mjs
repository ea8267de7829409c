import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NotFoundError, UnreachableError } from 'belljar';
import { clientOf, collect, newSession, startWire } from './service.mjs';

async function untilIdle(session) {
  const deadline = Date.now() + 20_000;
  while ((await session.commands.list()).some((command) => command.state === 'running')) {
    assert(Date.now() < deadline);
    await sleep(50);
  }
}

test('a command', async (t) => {
  const { commands, files } = (await newSession(t)).session;
  await files.mkdir('below');
  const line = 'pwd; cat; echo $MY_NAME >&2; exit 3';
  const result = await commands.run(line, { directory: 'below', variables: { MY_NAME: 'value' }, input: 'in\n' });
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [3, '/workspace/below\nin\n', 'value\n']);
  assert.deepEqual([result.ok, result.signal, result.timedOut, result.omittedBytes], [false, null, false, 0]);
  assert.equal((await commands.run(['printf', '%s', 'a b'])).stdout, 'a b');
  assert.equal((await commands.run('kill -TERM $$')).signal, 'SIGTERM');
  assert((await commands.run('sleep 60', { timeoutMs: 200 })).timedOut);
  assert.equal((await commands.run('head -c 600000 /dev/zero')).omittedBytes, 600_000 - (512 << 10));
  await assert.rejects(commands.run(['no-such-program']), { code: 'command_not_started' });
});

test('in the background', async (t) => {
  const { client, session } = await newSession(t);
  const command = await session.commands.start('cat; echo end >&2; exit 2');
  await command.send('one ');
  await command.send(new TextEncoder().encode('two'));
  const other = await (await client.attach(session.id)).commands.attach(command.pid);
  let text = '';
  let position = 0;
  for await (const event of other) {
    assert.deepEqual([event.type, event.stream], ['output', 'stdout']);
    text += event.text;
    position = event.next;
    if (text === 'one two') break;
  }
  await command.closeInput();
  const rest = await collect(other.output({ from: position }));
  assert.deepEqual(
    rest.map((event) => [event.stream, event.text]),
    [['stderr', 'end\n']],
  );
  for (const handle of [command, other]) {
    const result = await handle.wait();
    assert.deepEqual([result.exitCode, result.stdout, result.stderr], [2, 'one two', 'end\n']);
  }
  await assert.rejects(command.send('late'), { code: 'command_refused' });
  await assert.rejects(session.commands.attach(1), NotFoundError);
});

test('signals and terminals', async (t) => {
  const { session } = await newSession(t);
  const shell = await session.commands.start(['/bin/sh'], { terminal: { rows: 30, columns: 100 } });
  await shell.send('stty size\n');
  let text = '';
  for await (const event of shell) {
    // A terminal's output comes in any pieces.
    text += event.text;
    if (text.includes('30 100\r\n')) break;
  }
  await shell.resize({ rows: 10, columns: 40 });
  await shell.send('stty size; exit 5\n');
  const result = await shell.wait();
  assert.deepEqual([result.exitCode, result.stdout], [5, '']);
  assert(result.terminal.includes('10 40\r\n'));
  let sleeper = await session.commands.start(['sleep', '1000']);
  await sleeper.signal('SIGINT');
  assert.equal((await sleeper.wait()).signal, 'SIGINT');
  await sleeper.kill();
  sleeper = await session.commands.start(['sleep', '1000']);
  await session.hibernate();
  const lost = await sleeper.wait();
  assert.equal(lost.exitCode, null);
  assert.match(lost.lostBecause, /hibernated/);
});

test('an aborted signal kills the command', async (t) => {
  const { session } = await newSession(t);
  const controller = new AbortController();
  const running = session.commands.run('sleep 1000', { signal: controller.signal });
  while ((await session.commands.list()).length === 0) await sleep(50);
  controller.abort();
  await assert.rejects(running, { name: 'AbortError' });
  await untilIdle(session);
});

test('commands over a cut connection', async (t) => {
  const { session } = await newSession(t);
  const wire = await startWire(t);
  const there = await wire.client().attach(session.id);
  const command = await there.commands.start('for n in $(seq 300); do echo $n; sleep 0.003; done');
  const begun = wire.connections;
  wire.plan = (number) => (number < begun + 3 ? 1300 : undefined);
  await wire.cut();
  const text = (await collect(command)).map((event) => event.text).join('');
  assert.equal(text, Array.from({ length: 300 }, (_, at) => `${at + 1}\n`).join(''));
  assert(wire.connections > begun + 2);
  // What a client waits for is not run again.
  wire.plan = () => 0;
  await wire.cut();
  await assert.rejects(there.commands.run('echo run >> runs'), UnreachableError);
  await untilIdle(session);
  assert.equal(await session.files.getText('runs'), 'run\n');
});
