// The examples of the package and of its pages, compiled by a user's compiler, as a newcomer would run them; and the
// package in Deno and in a browser. `.ci/typescript` has prepared them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import * as fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { service } from './service.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const variables = { BELLJAR_URL: service.url, BELLJAR_API_KEY: service.key };

/** A working directory of its own. */
async function scratch(t) {
  const directory = await fs.mkdtemp(join(tmpdir(), 'belljar-examples-'));
  t.after(() => fs.rm(directory, { recursive: true }));
  return directory;
}

async function run(program, cwd) {
  const env = { ...process.env, ...variables };
  return (await promisify(execFile)(process.execPath, [program], { cwd, env, timeout: 120_000 })).stdout;
}

const pages = (await fs.readdir(join(root, 'pages'))).filter((name) => name.endsWith('.ts')).sort();

describe('examples', { concurrency: 3 }, () => {
  for (const file of pages) {
    const name = file.slice(0, -3);
    test(`the example ${name}`, async (t) => {
      const printed = await run(join(root, 'built', 'pages', `${name}.js`), await scratch(t));
      assert.equal(printed, await fs.readFile(join(root, 'pages', `${name}.txt`), 'utf8'));
    });
  }

  test('the example ai-sdk', async (t) => {
    const printed = await run(join(root, 'built', 'examples', 'ai-sdk.js'), await scratch(t));
    assert.match(printed, /^\(no output\), ZeroDivisionError: division by zero, .*a figure, 42\n$/);
  });

  test('the example streaming', async (t) => {
    const lines = (await run(join(root, 'built', 'examples', 'streaming.js'), await scratch(t))).split('\n');
    for (const name of ['left', 'right'])
      assert.deepEqual(
        lines.filter((line) => line.startsWith(name)),
        ['step 0', 'step 1', 'step 2', 'success'].map((text) => `${name}: ${text}`),
      );
  });

  test('the example data-analysis', async (t) => {
    const directory = await scratch(t);
    assert.match(await run(join(root, 'built', 'examples', 'data-analysis.js'), directory), /Oslo,8\nRome,5/);
    assert.equal((await fs.readFile(join(directory, 'totals.png'))).toString('latin1', 1, 4), 'PNG');
  });

  test('Deno', async () => {
    const deno = join(root, '..', 'node_modules', '.bin', 'deno');
    const flags = [
      'run',
      '--quiet',
      '--no-config',
      '--node-modules-dir=manual',
      '--allow-env',
      '--allow-net=127.0.0.1',
    ];
    const program = join(root, 'tests', 'consumer', 'smoke.mjs');
    const env = { ...process.env, ...variables, NO_COLOR: '1' };
    const { stdout } = await promisify(execFile)(deno, [...flags, program], { cwd: root, env, timeout: 120_000 });
    assert.equal(stdout, 'ok 42 started,output,outcome NotFoundError\n');
  });

  test('a browser', async (t) => {
    const { chromium } = await import('playwright-core');
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    t.after(() => browser.close());
    const page = await browser.newPage();
    // The modules as a server beside the service has them: the same origin.
    await page.route(`${service.url}/page/**`, async (route) => {
      const path = new URL(route.request().url()).pathname.replace('/page/', '');
      if (path === '') return route.fulfill({ contentType: 'text/html', body: '<title>page</title>' });
      const body = await fs.readFile(fileURLToPath(new URL(path, import.meta.resolve('belljar'))), 'utf8');
      return route.fulfill({ contentType: 'text/javascript', body });
    });
    await page.goto(`${service.url}/page/`);
    const smoke = await fs.readFile(join(root, 'tests', 'consumer', 'smoke.mjs'), 'utf8');
    const body = smoke.replace("import * as package_ from 'belljar';", '').replace('await main(package_);', '');
    const printed = await page.evaluate(
      async ([code, url, apiKey]) => {
        const lines = [];
        const package_ = await import(`${url}/page/index.js`);
        const main = new Function('console', `${code}; return main;`)({ log: (line) => lines.push(line) });
        await main(package_, { url, apiKey });
        return lines;
      },
      [body, service.url, service.key],
    );
    assert.deepEqual(printed, ['ok 42 started,output,outcome NotFoundError']);
  });
});
