// The page in Chromium, against a real service with real sessions and the scripted model. Screenshots go to SHOTS.
//   BELLJAR=path/to/belljar node e2e/interface.mjs [word of a case …]
import assert from 'node:assert/strict';
import { spawn, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { startPages } from './page-server.mjs';
import { startModel } from './scripted-model.mjs';

const belljar = process.env.BELLJAR ?? 'belljar';
const shots = process.env.SHOTS ?? '../target/screenshots';
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const wanted = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

const directory = mkdtempSync(join(tmpdir(), 'belljar-interface-'));
// Whoever asks here was made to by hostile output: it stands for the outside.
let outside = 0;
const listener = createServer((_, response) => ((outside += 1), response.end()));
await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
const model = await startModel({ delay: 4, outside: listener.address().port });
writeFileSync(join(directory, 'config.toml'), '[budget]\nsteps = 60\n');
const environment = {
  ...process.env,
  BELLJAR_CONFIG: join(directory, 'config.toml'),
  BELLJAR_BASE_URL: `http://127.0.0.1:${model.port}/v1`,
};
const keyOf = (tenant) =>
  execFileSync(belljar, ['keys', 'create', '--data', join(directory, 'service'), '--tenant', tenant, '--scope', 'runs', '--scope', 'sessions'], {
    env: environment,
    stdio: ['ignore', 'pipe', 'ignore'],
    encoding: 'utf8',
  }).trim();
const [ours, theirs] = [keyOf('ours'), keyOf('theirs')];
const serve = spawn(belljar, ['serve', '--data', join(directory, 'service'), '--env', process.env.ENVIRONMENT ?? 'default', '--listen', '127.0.0.1:0', '--timeout', '120', '--model', 'llamacpp/local'], { env: environment });
const service = await new Promise((resolve, reject) => {
  let said = '';
  serve.stderr.on('data', (part) => {
    said += part;
    const found = /listening on (http:\/\/[\d.:]+)/.exec(said);
    if (found) resolve(found[1]);
  });
  serve.on('exit', () => reject(new Error(`the service ended: ${said}`)));
});
const pages = await startPages({ service, prefix: '/some/prefix/' });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });

const sales = ['region,month,amount'];
for (const [name, total] of [['North', 41873], ['South', 27150], ['East', 18900], ['West', 10291]]) {
  const month = Math.floor(total / 12);
  for (let at = 1; at <= 12; at += 1) sales.push(`${name},${at},${at < 12 ? month : total - 11 * month}`);
}
const salesFile = join(directory, 'sales.csv');
writeFileSync(salesFile, sales.join('\n') + '\n');

async function open({ key = ours, phone = false, dark = false } = {}) {
  const context = await browser.newContext({
    viewport: phone ? { width: 390, height: 844 } : { width: 1360, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    locale: 'en',
    acceptDownloads: true,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && page.wrong.push(message.text()));
  page.on('request', (request) => {
    const { protocol, host } = new URL(request.url());
    if (protocol.startsWith('http') && host !== new URL(pages.url).host) page.wrong.push(`asked ${request.url()}`);
  });
  await page.goto(pages.url);
  await page.getByLabel('Key').fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
  // The first request, without a key, is refused: that is no fault.
  page.wrong.length = 0;
  return page;
}
async function ask(page, task, { approvals, files } = {}) {
  if (approvals) {
    await page.locator('details.options summary').click();
    await page.getByLabel('Ask me before code runs').selectOption(approvals);
  }
  if (files) await page.locator('input[type=file]').setInputFiles(files);
  await page.getByLabel('Task').fill(task);
  await page.getByRole('button', { name: 'Start the run' }).click();
  await page.waitForURL(/#\/runs\//);
}
const answered = (page) => page.getByText('Answered', { exact: true }).first().waitFor();
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
  const serious = violations.filter((one) => ['serious', 'critical'].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${where}: ${one.id} ${one.nodes.map((node) => node.target).join(' ')}`), []);
}

const CASES = {
  async 'a full run with plot and table'() {
    const page = await open();
    await accessible(page, 'ask');
    await ask(page, 'Which region sold most? Show it as a plot.', { files: salesFile });
    await answered(page);
    await page.getByRole('columnheader', { name: 'amount' }).first().waitFor();
    await page.getByRole('img', { name: /Image made by/ }).first().waitFor();
    await page.getByRole('button', { name: /^98214\. Seen in step 2/ }).click();
    await page.locator('mark', { hasText: 'all 98214' }).waitFor();
    await accessible(page, 'run');
    await page.evaluate(() => scrollTo(0, 0));
    await shot(page, 'run');
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download: totals.csv' }).click()]);
    assert.match(readFileSync(await file.path(), 'utf8'), /North,41873/);
    return page;
  },
  async 'approval with edit'() {
    const page = await open();
    await ask(page, 'What is six times seven?', { approvals: 'always' });
    await page.getByRole('heading', { name: /May this run/ }).waitFor();
    await accessible(page, 'approval');
    await shot(page, 'approval');
    await page.keyboard.press('e');
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('\nprint("by a person")');
    await page.locator('.added', { hasText: 'by a person' }).waitFor();
    await shot(page, 'approval-edited');
    await page.getByRole('button', { name: 'Run the changed code' }).click();
    await answered(page);
    await page.getByText('Changed by a person before it ran').waitFor();
    await page.locator('.output', { hasText: 'by a person' }).waitFor();
    return page;
  },
  async 'a wrong key is refused'() {
    const context = await browser.newContext({ locale: 'en' });
    const page = await context.newPage();
    page.wrong = [];
    await page.goto(pages.url);
    await page.getByLabel('Key').fill('not a key');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('The service does not know this key.', { exact: false }).waitFor();
    await accessible(page, 'login');
    await shot(page, 'login');
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    console.log(`        first paint after ${Math.round(paint)} ms`);
    return page;
  },
  async 'two runs side by side'() {
    const page = await open();
    const hashes = [];
    for (const task of ['What is six times seven?', 'crash and go on']) {
      await page.goto(`${pages.url}#/`);
      await ask(page, task);
      await answered(page);
      hashes.push(new URL(page.url()).hash.split('/').at(-1));
    }
    await page.goto(`${pages.url}#/runs/${hashes[0]}/beside/${hashes[1]}`);
    await page.getByText('It is 42.').first().waitFor();
    await page.getByText('The value is still 4217.').first().waitFor();
    await shot(page, 'beside');
    return page;
  },
  async interrupt() {
    const page = await open();
    await ask(page, 'Something slow, please.');
    await page.getByText(/line 5/).waitFor();
    await shot(page, 'running');
    await page.getByRole('button', { name: 'Interrupt' }).click();
    await page.getByText('It was interrupted.', { exact: true }).waitFor();
    await answered(page);
    return page;
  },
  async 'crash of a cell and restored state'() {
    const page = await open();
    await ask(page, 'crash and go on');
    await answered(page);
    await page.getByText('Its process was ended by SIGSEGV.').waitFor();
    await page.getByText('Variables are back as they were after cell 1.').waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await shot(page, 'crash');
    return page;
  },
  async 'reload in mid-run'() {
    const page = await open();
    await ask(page, 'Something slow, please.');
    await page.getByText(/line 5/).waitFor();
    await page.reload();
    await page.getByText('This takes a while.').waitFor();
    await page.getByText(/line \d\d/).first().waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('It was stopped.').waitFor();
    return page;
  },
  async 'hostile output stays in its frame'() {
    const page = await open();
    await ask(page, 'Show hostile output.');
    await answered(page);
    await page.locator('iframe').nth(1).waitFor();
    await page.waitForTimeout(1000);
    await page.evaluate(() => scrollTo(0, 0));
    await shot(page, 'hostile');
    assert.match(await page.title(), /hostile/);
    assert.equal(outside, 0);
    // What the frame was forbidden is said on the console.
    page.wrong = page.wrong.filter((text) => !/Content Security Policy|sandboxed/.test(text));
    return page;
  },
  async "another tenant's run is refused"() {
    const page = await open();
    await ask(page, 'What is six times seven?');
    await answered(page);
    const hash = new URL(page.url()).hash;
    const other = await open({ key: theirs });
    await other.goto(pages.url + hash);
    await other.getByText('There is no such run, or it is not yours.').waitFor();
    return page;
  },
  async 'a session by hand'() {
    const page = await open();
    await page.getByRole('link', { name: 'Sessions' }).click();
    await accessible(page, 'sessions');
    await page.getByRole('button', { name: 'New session' }).click();
    await page.locator('.cm-content').click();
    await page.keyboard.type('import pandas as pd\ntable = pd.DataFrame({"n": [3, 1, 2]})\ntable');
    await page.keyboard.press('Shift+Enter');
    await page.getByRole('rowheader', { name: 'table' }).waitFor();
    await page.locator('input[type=file]').setInputFiles(salesFile);
    await page.getByRole('button', { name: 'sales.csv', exact: true }).waitFor();
    await page.locator('.cm-content').click();
    await page.keyboard.type('1/0');
    await page.keyboard.press('Shift+Enter');
    await page.getByText('It ended with an exception.').waitFor();
    await accessible(page, 'session');
    await shot(page, 'session');
    await page.reload();
    await page.getByText('ZeroDivisionError').first().waitFor();
    return page;
  },
  async 'two thousand cells scroll without freezing'() {
    const page = await open();
    const run = longRun(2000);
    await page.route('**/v1/runs/long', (route) => route.fulfill({ json: run.view }));
    await page.route('**/v1/runs/long/events', (route) => route.fulfill({ contentType: 'text/event-stream', body: run.stream }));
    await page.route('**/v1/runs/long/steps?*', (route) => {
      const asked = new URL(route.request().url()).searchParams;
      const after = Number(asked.get('after'));
      return route.fulfill({ json: { steps: run.steps.slice(after, after + Number(asked.get('limit'))), more: true } });
    });
    // Time of the processor, not of the clock: others may use the machine too.
    await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'] });
    await page.evaluate(() => (location.hash = '#/runs/long'));
    await page.locator('[data-step="2000"]').waitFor({ state: 'attached' });
    await page.waitForTimeout(500);
    await page.evaluate(async () => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const height = document.documentElement.scrollHeight;
      for (let at = 0; at < 300; at += 1) {
        scrollTo(0, (height * at) / 300);
        await frame();
      }
      for (const place of [0.9, 0.1, 0.5, 1]) {
        scrollTo(0, document.documentElement.scrollHeight * place);
        for (let at = 0; at < 20; at += 1) await frame();
      }
    });
    await page.getByText('print(2000)').waitFor();
    const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
    const main = traceEvents.filter((one) => one.ph === 'M' && one.name === 'thread_name' && one.args.name === 'CrRendererMain');
    const isMain = (one) => main.some((thread) => thread.pid === one.pid && thread.tid === one.tid);
    const tasks = traceEvents.filter((one) => one.name === 'RunTask' && one.tdur > 0 && isMain(one)).map((one) => one.tdur / 1000);
    const longest = tasks.sort((a, b) => b - a).slice(0, 5).map(Math.round);
    console.log(`        longest of ${tasks.length} tasks: ${longest.join(', ')} ms of processor time`);
    assert.ok(tasks.length > 100 && (longest[0] ?? Infinity) <= 100, 'it freezes');
    await shot(page, 'long');
    return page;
  },
  async 'on a phone, in the dark, in Chinese'() {
    const page = await open({ phone: true, dark: true });
    await page.getByRole('button', { name: '中文' }).click();
    await page.getByRole('heading', { name: '你想知道什么？' }).waitFor();
    await accessible(page, 'phone');
    await shot(page, 'phone');
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `it is ${width} wide`);
    return page;
  },
};

/** A run of many cells, as the service would tell it. */
function longRun(count) {
  const usage = { input_tokens: 9, output_tokens: 9, cached_tokens: 0, cache_write_tokens: 0, thinking_tokens: 0, estimated: false };
  const events = [{ kind: 'started', task: 'A long run', model: 'm', dialect: 'fenced_code', budget: { steps: count }, context_window: 1, max_tokens: 1 }];
  const steps = [];
  const blob = { hash: '0'.repeat(64), bytes: 1, media_type: 'application/json' };
  const manifest = [{ name: 'x', type: 'int', cell: 1 }];
  for (let step = 1; step <= count; step += 1) {
    const code = `import math\nfor number in range(${step}):\n    value = math.sqrt(number) + 1.5  # a comment\nprint(${step})`;
    const output = `${step}\n` + 'a line of output\n'.repeat(step % 12);
    events.push({ kind: 'asked', step, body: blob });
    events.push({ kind: 'replied', step, took_ms: 9, reply: { text: `Step ${step}.\n\`\`\`python\n${code}\n\`\`\``, finish: 'stop', usage } });
    events.push({ kind: 'call_started', step, call: 0 });
    events.push({ kind: 'call_ended', step, call: 0, result: { text: output, took_ms: 3, cell: { number: step, outcome: blob, output, manifest } } });
    const rows = Array.from({ length: 8 }, (_, at) => [at, at * step]);
    const table = { columns: [{ name: 'a', dtype: 'int' }, { name: 'b', dtype: 'int' }], index: rows.map((_, at) => at), rows, total_rows: 8, total_columns: 2 };
    const displays = step % 3 ? [] : [{ parts: [{ mime: 'application/vnd.belljar.table+json', text: JSON.stringify(table) }] }];
    const outcome = {
      cell: step, status: 'success', cause: { kind: 'completed' }, state: { fate: 'kept' }, exit_code: 0, transcript: output, displays,
      stdout: { text: output, bytes: 1, omitted_bytes: 0 }, stderr: { text: '', bytes: 0, omitted_bytes: 0 }, durations: { total_us: 9, run_us: 9, cpu_us: 9 },
    };
    steps.push({ number: step, thought: `Step ${step}.`, understood: true, calls: [{ tool: 'python', arguments: { code }, outcome }] });
  }
  events.push({ kind: 'ended', reason: { kind: 'answered' }, answer: 'Done.', evidence: [], artifacts: [] });
  const stream = events.map((event, at) => `id: ${at + 1}\nevent: ${event.kind}\ndata: ${JSON.stringify({ at: 1e12 + at, ...event })}\n\n`).join('');
  const view = { id: 'long', task: 'A long run', model: 'm', state: 'answered', created_at: 1e9, events: events.length, waits_for: [], evidence: [], artifacts: [] };
  return { view, stream, steps };
}

let failed = 0;
for (const [name, run] of Object.entries(CASES)) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) continue;
  const began = Date.now();
  try {
    const page = await run();
    assert.deepEqual(page.wrong, []);
    console.log(`ok      ${name} (${Date.now() - began} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
    const [context] = browser.contexts().slice(-1);
    await context?.pages()[0]?.screenshot({ path: join(shots, 'failed.png') });
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
pages.close();
model.close();
listener.close();
serve.kill('SIGTERM');
await new Promise((resolve) => serve.on('exit', resolve));
rmSync(directory, { recursive: true, force: true });
process.exit(failed > 0 ? 1 : 0);
