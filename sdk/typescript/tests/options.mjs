// The options of sessions, as docs/options.md lists them for the SDK.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf, collect, newSession, service } from './service.mjs';

test('limits', async (t) => {
  const limits = { memoryBytes: 256 << 20, milliCpus: 200, processes: 16, workspaceBytes: 1 << 20 };
  const { session } = await newSession(t, { limits });
  const view = await session.info();
  for (const [name, value] of Object.entries(limits)) assert.equal(view.limits[name], value);
  const full = await session.run("with open('big', 'wb') as file: file.write(bytes(4 << 20))");
  assert.equal(full.exception.type, 'OSError');
});

test('packages and network', async (t) => {
  const { client, session } = await newSession(t, { packages: ['humanize'], allow: ['allowed.example'] });
  const view = await session.info();
  assert.deepEqual([view.packages, view.allow], [{ policy: 'allow', allow: ['humanize'] }, ['allowed.example']]);
  const none = await client.session({ packages: [] });
  assert.equal((await none.info()).packages.policy, 'deny');
  await assert.rejects(none.run('# requires: humanize\nimport humanize'), { code: 'package_not_allowed' });
  const missing = await none.run('import yaml');
  assert.deepEqual(
    [missing.remedy.option, missing.remedy.setBy, missing.remedy.value],
    ['packages', 'service', 'pyyaml'],
  );
  await assert.rejects(client.session({ allow: ['pypi.org'] }), { code: 'network_not_allowed' });
});

test('isolation', async (t) => {
  const { client, session } = await newSession(t, { isolation: 'full' });
  assert.equal((await session.info()).isolation, 'full');
  await assert.rejects(client.session({ isolation: 'gvisor' }), { code: 'isolation_not_offered' });
  await assert.rejects(client.run('x', { isolation: 'gvisor' }), { code: 'isolation_not_offered' });
  const { data } = await session.snapshot();
  await assert.rejects(client.sessionFromSnapshot(data, { isolation: 'gvisor' }), { code: 'isolation_not_offered' });
});

test('environment and directories of the host', async (t) => {
  const { client, session } = await newSession(t, { environment: 'default', mounts: ['system'] });
  const view = await session.info();
  assert.deepEqual([view.environment, view.mounts], ['default', ['system']]);
  assert.equal((await session.run("import os; os.listdir('/data')")).value, "['system']");
  await assert.rejects(client.session({ environment: 'math' }), { code: 'environment_not_offered' });
  await assert.rejects(client.run('x', { environment: 'math' }), { code: 'environment_not_offered' });
  await assert.rejects(client.session({ mounts: ['other'] }), { code: 'mount_not_offered' });
});

test('variables and secrets', async (t) => {
  const look =
    "import os; print(os.environ.get('MY_PLACE'), os.environ.get('A_TOKEN'), len(os.environ.get('A_TOKEN', '')))";
  const { client, session } = await newSession(t, {
    variables: { MY_PLACE: 'north' },
    secrets: { A_TOKEN: 'tok-0123456789' },
  });
  const view = await session.info();
  assert.deepEqual([view.variables, view.secrets], [['MY_PLACE'], ['A_TOKEN']]);
  assert.equal((await session.run(look)).stdout, 'north [secret A_TOKEN] 14\n');
  assert.match((await session.run(look, { variables: { MY_PLACE: 'south' } })).stdout, /^south /);
  const [without] = await session.fork();
  assert.equal((await without.run(look)).stdout, 'north None 0\n');
  const [granted] = await session.fork(1, { secrets: ['A_TOKEN'] });
  assert.equal((await granted.run(look)).stdout, 'north [secret A_TOKEN] 14\n');
  await assert.rejects(client.session({ variables: { LD_PRELOAD: 'x' } }), { code: 'variable_refused' });
});

test('namespaces', async (t) => {
  const { session } = await newSession(t);
  await session.run("x = 'main'");
  const made = await session.createNamespace('other', { directory: '/tmp' });
  assert.deepEqual([made.name, made.directory], ['other', '/tmp']);
  const outcome = await session.run('import os; x = os.getcwd(); display(x); x', { namespace: 'other' });
  assert.deepEqual(
    outcome.displays.map((one) => Boolean(one.value)),
    [false, true],
  );
  assert.deepEqual([outcome.value, (await session.run('x')).value], ["'/tmp'", "'main'"]);
  assert.equal((await session.run('display(1)')).value, undefined);
  assert.deepEqual(
    (await session.namespaces()).map((one) => one.name),
    ['main', 'other'],
  );
  assert.equal((await session.manifest({ namespace: 'other' })).length, 2);
  await session.restartNamespace('other');
  assert.deepEqual(await session.manifest({ namespace: 'other' }), []);
  await session.deleteNamespace('other');
  await assert.rejects(session.run('1', { namespace: 'other' }), { code: 'namespace_not_found' });
});

test('labels and leases', async (t) => {
  const client = clientOf({ apiKey: service.otherKey });
  t.after(() => client.close());
  // Names of a user's own are not changed.
  const session = await client.session({ name: 'report', metadata: { my_team: 'number_7' }, ttlSeconds: 600 });
  let view = await session.info();
  assert.deepEqual([view.name, view.metadata], ['report', { my_team: 'number_7' }]);
  const found = await collect(client.sessions({ name: 'report', metadata: ['my_team', 'number_7'] }));
  assert.deepEqual(
    found.map((one) => one.id),
    [session.id],
  );
  assert.deepEqual(await collect(client.sessions({ metadata: ['my_team', '8'] })), []);
  view = await session.extend(900, { then: 'sleep' });
  assert.deepEqual([view.lease.then, view.expiresAt], ['sleep', undefined]);
  view = await session.extend(1200);
  assert.equal(view.lease.endsAt, view.expiresAt);
  view = await session.update({ name: '', metadata: {}, ttlSeconds: 0 });
  assert.deepEqual([view.name, view.metadata ?? {}, view.expiresAt], [undefined, {}, undefined]);
});
