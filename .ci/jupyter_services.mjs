// The client package of JupyterLab and VS Code, @jupyterlab/services, in Node against a service with `--jupyter`.
// Run by .ci/jupyter in the directory where the package is installed.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { KernelManager, ServerConnection, SessionManager } = require('@jupyterlab/services');
const url = `${process.env.BELLJAR_URL}/jupyter/`;
const serverSettings = ServerConnection.makeSettings({
  baseUrl: url,
  wsUrl: url.replace('http', 'ws'),
  token: process.env.BELLJAR_API_KEY,
  appendToken: true,
});
const kernels = new KernelManager({ serverSettings });
const sessions = new SessionManager({ serverSettings, kernelManager: kernels });
await sessions.ready;
const options = { path: 'services.ipynb', name: 'services.ipynb', type: 'notebook', kernel: { name: 'python3' } };
const session = await sessions.startNew(options);
const { kernel } = session;
assert.equal((await kernel.info).protocol_version, '5.4');

/** Runs a cell: its reply, and what was published. */
async function run(code, begun = () => {}) {
  const future = kernel.requestExecute({ code });
  const published = [];
  future.onIOPub = ({ header, content }) => {
    published.push({ type: header.msg_type, ...content });
    if (header.msg_type === 'stream') begun();
  };
  const { content } = await future.done;
  const text = published.map((one) => one.text ?? '').join('');
  return { ...content, text, value: published.find((one) => one.type === 'execute_result')?.data['text/plain'] };
}

await run("import pandas as pd\nx = 41; _ = open('a.txt', 'w').write('kept')");
const shown = await run("print('hello')\npd.DataFrame({'a': [1]}).a.sum() + x");
assert.equal(shown.text, 'hello\n');
assert.match(shown.value, /42/);
const completed = await kernel.requestComplete({ code: 'pd.DataFr', cursor_pos: 9 });
assert.ok(completed.content.matches.some((one) => one.endsWith('DataFrame')), completed.content.matches);
const inspected = await kernel.requestInspect({ code: 'zip', cursor_pos: 3, detail_level: 0 });
assert.ok(inspected.content.found);
const incomplete = await kernel.requestIsComplete({ code: 'for x in y:' });
assert.equal(incomplete.content.status, 'incomplete');

const interrupted = await run("print('begun', flush=True)\nimport time\ntime.sleep(600)", () => kernel.interrupt());
assert.equal(interrupted.ename, 'KeyboardInterrupt');

// The interpreter dies. The kernel lives, with its variables.
const states = [];
kernel.statusChanged.connect((_, state) => states.push(state));
const crashed = await run('import ctypes; ctypes.string_at(0)');
assert.equal(crashed.ename, 'Crashed');
assert.match(crashed.text, /^\[belljar\] /);
assert.equal((await run('x + 1')).value, '42');
assert.ok(!states.some((state) => /restarting|dead/.test(state)), states);

await kernel.restart();
const after = await run("'x' in globals(), open('a.txt').read()");
assert.equal(after.value, "(False, 'kept')");
assert.equal(after.execution_count, 1);

await session.setPath('renamed.ipynb');
await session.changeKernel({ name: 'python3' });
await sessions.refreshRunning();
const running = [...sessions.running()];
assert.deepEqual(running.map((one) => one.path), ['renamed.ipynb']);
assert.notEqual(running[0].kernel.id, kernel.id);
await session.shutdown();
await kernels.refreshRunning();
assert.equal([...kernels.running()].length, 0);
console.log('@jupyterlab/services: session, cells, completion, interrupt, crash, restart, another kernel, shutdown');
process.exit(0);
