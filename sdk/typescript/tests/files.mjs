import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { BelljarError, NotFoundError, UnauthorizedError } from 'belljar';
import { downloadDirectory, putFile, saveFile, uploadDirectory } from 'belljar/node';
import { internal, newSession } from './service.mjs';

async function scratch(t) {
  const directory = await fs.mkdtemp(join(tmpdir(), 'belljar-files-'));
  t.after(() => fs.rm(directory, { recursive: true }));
  return directory;
}

test('files', async (t) => {
  const { session } = await newSession(t);
  const { files } = session;
  const large = randomBytes(3 << 20);
  await files.put('data ä.bin', large);
  await files.put('a/b/c.bin', new Blob([large]));
  await files.put('empty', '');
  assert(large.equals(await files.get('data ä.bin')) && large.equals(await files.get('a/b/c.bin')));
  assert.equal(await files.getText('empty'), '');
  assert.deepEqual(
    (await files.list('a')).files.map((one) => [one.path, one.kind]),
    [
      ['a/b', 'directory'],
      ['a/b/c.bin', 'file'],
    ],
  );
  await files.mkdir('d/e');
  await files.mkdir('d/e');
  await files.put('d/e/f', '123');
  const status = await files.stat('d/e/f');
  assert.deepEqual([status.kind, status.size, status.mode], ['file', 3, 0o644]);
  assert.deepEqual(
    [await files.exists('d'), await files.exists('none'), await files.exists('d/e/f/g')],
    [true, false, false],
  );
  await files.rename('d/e/f', 'new/name');
  assert.equal(await files.getText('new/name'), '123');
  await assert.rejects(files.rename('d/e/f', 'x'), NotFoundError);
  await assert.rejects(files.mkdir('new/name'), { code: 'file_exists' });
  await assert.rejects(files.delete('d'), { code: 'file_refused' });
  await files.delete('d', { recursive: true });
  await files.delete('empty');
  await assert.rejects(files.get('empty'), NotFoundError);
});

test('paths lead nowhere else', async (t) => {
  const { client, session } = await newSession(t);
  const { files } = session;
  const acts = [(path) => files.get(path), (path) => files.delete(path), (path) => files.put(path, 'x')];
  for (const act of acts) {
    for (const path of ['../cells', 'a/../../cells', '', 'a//b', '.', 'a/.'])
      await assert.rejects(act(path), TypeError);
    await assert.rejects(
      act('/etc/passwd'),
      (error) => error.code === 'path_denied' && !(error instanceof UnauthorizedError),
    );
  }
  await assert.rejects(client.attach('../sessions'), NotFoundError);
  await files.put('/tmp/d/x', '1');
  assert.equal((await session.run("open('/tmp/d/x').read()")).value, "'1'");
  assert.equal(await files.getText('/tmp/d/x'), '1');
});

test('local files and directories', async (t) => {
  const { session } = await newSession(t);
  const local = await scratch(t);
  const project = join(local, 'project');
  const long = 'l'.repeat(150);
  await fs.mkdir(join(project, 'deep', long), { recursive: true });
  await fs.mkdir(join(project, 'empty'));
  await fs.writeFile(join(project, 'deep', long, '名'), 'text');
  await fs.writeFile(join(project, 'run.sh'), '#!/bin/sh\necho ran\n', { mode: 0o755 });
  await fs.symlink(join(project, 'run.sh'), join(project, 'linked'));
  await uploadDirectory(session, project);
  const ran = await session.commands.run('project/run.sh; project/linked; ls project');
  assert.equal(ran.stdout, 'ran\nran\ndeep\nempty\nlinked\nrun.sh\n');
  await session.run("import os; os.symlink('/etc', 'project/etc'); os.mkfifo('project/pipe')");
  const out = join(local, 'out');
  await fs.mkdir(out);
  await fs.symlink('elsewhere', join(out, 'run.sh'));
  await fs.writeFile(join(out, 'mine'), 'mine');
  await downloadDirectory(session, 'project', out);
  const names = (await fs.readdir(out, { recursive: true })).sort();
  assert.deepEqual(names, ['deep', `deep/${long}`, `deep/${long}/名`, 'empty', 'linked', 'mine', 'run.sh']);
  assert.equal(await fs.readFile(join(out, 'deep', long, '名'), 'utf8'), 'text');
  const status = await fs.lstat(join(out, 'run.sh'));
  assert(status.isFile() && (status.mode & 0o100) !== 0);
  await uploadDirectory(session, project, { name: '/tmp/there' });
  assert(await session.files.exists(`/tmp/there/deep/${long}/名`));
  await fs.symlink(project, join(project, 'circle'));
  await assert.rejects(uploadDirectory(session, project), /circle/);

  await putFile(session, join(project, 'run.sh'), { name: 'again.sh' });
  await saveFile(session, 'again.sh', join(local, 'back'));
  assert.equal(await fs.readFile(join(local, 'back'), 'utf8'), '#!/bin/sh\necho ran\n');
  await assert.rejects(saveFile(session, 'nothing', join(local, 'never')), NotFoundError);
  assert(!(await fs.readdir(local)).some((name) => name.includes('never')));
});

test('an archive leads nowhere else', async (t) => {
  const { pack, unpack } = await internal('tar.js');
  const { extract } = await internal('node.js');
  const local = await scratch(t);
  const refused = (error) => error instanceof BelljarError && error.code === 'bad_answer';
  for (const path of ['/etc/x', '../x', 'a/../../x', '.', 'a//b'])
    await assert.rejects(extract(pack([{ path, contents: new Uint8Array(1) }]), join(local, 'to')), refused);
  const link = pack([{ path: 'link', contents: new Uint8Array() }]);
  const other = link.slice();
  // A link instead of a file, with the sum that belongs to it.
  other[156] = '2'.charCodeAt(0);
  other[153] += 2;
  await assert.rejects(extract(other, join(local, 'to')), refused);
  const damaged = link.slice();
  damaged[0] += 1;
  for (const archive of [damaged, pack([{ path: 'a', contents: new Uint8Array(600) }]).slice(0, 700)])
    assert.throws(() => [...unpack(archive)], refused);
  assert.deepEqual(await fs.readdir(local), []);
});

test('changes as they happen', async (t) => {
  const { session } = await newSession(t);
  await session.files.mkdir('d');
  const watch = await session.files.watch('d');
  await session.run("_ = open('d/a', 'w').write('1')");
  const [first, second] = [(await watch.next()).value, (await watch.next()).value];
  assert.deepEqual(
    [first, second],
    [
      { type: 'created', name: 'a' },
      { type: 'written', name: 'a' },
    ],
  );
  await session.files.delete('d', { recursive: true });
  const rest = [];
  for await (const change of watch) rest.push(change.type);
  assert.deepEqual(rest, ['deleted']);
  await assert.rejects(session.files.watch('d'), NotFoundError);
  const other = await session.files.watch();
  await other[Symbol.asyncDispose]();
  assert.deepEqual(await other.next(), { done: true, value: undefined });
});
