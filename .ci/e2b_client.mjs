// The npm packages of E2B's SDK against the service of the environment's variables: what differs from Python on the
// wire. Every method is in e2b_client.py. Run in a directory with the packages.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const { Sandbox } = require("@e2b/code-interpreter");

const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { from: "node" } });
try {
  const out = [];
  const execution = await sandbox.runCode("print('out')\n6 * 7", { onStdout: (message) => out.push(message.line) });
  assert.equal(execution.text, "42");
  assert.deepEqual(out, ["out\n"]);
  const failed = await sandbox.runCode("1 / 0");
  assert.equal(failed.error.name, "ZeroDivisionError");

  await sandbox.files.write("a.txt", "text é");
  assert.equal(await sandbox.files.read("/home/user/a.txt"), "text é");
  await sandbox.files.write([
    { path: "d/one", data: "1" },
    { path: "/home/user/d/two", data: "2" },
  ]);
  assert.deepEqual((await sandbox.files.list("d")).map((entry) => entry.name).sort(), ["one", "two"]);
  assert.equal(await sandbox.files.exists("nothing"), false);
  await assert.rejects(sandbox.files.read("nothing"), /does not exist/);

  let changed;
  const seen = new Promise((resolve) => (changed = resolve));
  const watch = await sandbox.files.watchDir("d", (event) => changed(event.name));
  await sandbox.files.write("d/new", "1");
  assert.equal(await seen, "new");
  await watch.stop();

  const result = await sandbox.commands.run("echo $A; echo err >&2", { envs: { A: "b" } });
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ["b\n", "err\n", 0]);
  await assert.rejects(sandbox.commands.run("exit 3"), (error) => error.exitCode === 3);
  await assert.rejects(sandbox.commands.run("sleep 30", { timeoutMs: 1000 }), { name: "TimeoutError" });
  const handle = await sandbox.commands.run("cat", { background: true, stdin: true });
  await sandbox.commands.sendStdin(handle.pid, "typed\n");
  await sandbox.commands.closeStdin(handle.pid);
  assert.equal((await handle.wait()).stdout, "typed\n");

  const url = await sandbox.downloadUrl("a.txt");
  assert.equal(await (await fetch(url)).text(), "text é");
  const context = await sandbox.createCodeContext();
  await sandbox.runCode("of = 'another'", { context });
  assert.equal((await sandbox.runCode("of", { context })).text, "another");
  await sandbox.removeCodeContext(context);
  assert.equal((await sandbox.listCodeContexts()).length, 1);
  await assert.rejects(sandbox.createCodeContext({ language: "r" }), /501/);
  await sandbox.pause();
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal((await again.runCode("_ = 1\n'awake'")).text, "awake");
} finally {
  await sandbox.kill();
}
assert.equal(await sandbox.isRunning(), false);
