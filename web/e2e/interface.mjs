// The page that `belljar serve` has in it, in Chromium, with real sessions and a scripted model. Screenshots go to SHOTS.
//   BELLJAR=path/to/belljar node e2e/interface.mjs [word of a case …]
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { adminPageCases } from './admin-page.mjs';
import { compareCases } from './compare.mjs';
import { draftCases } from './drafts.mjs';
import { hostileCases } from './hostile-output.mjs';
import { hoverAll } from './hover.mjs';
import { isolationCases } from './isolation.mjs';
import { libraryCases } from './library.mjs';
import { longRun } from './long-run.mjs';
import { notebookCases } from './notebook.mjs';
import { portCases } from './ports.mjs';
import { previewCases } from './preview.mjs';
import { runPageCases } from './run-page.mjs';
import { startModel } from './scripted-model.mjs';
import { startBrowser, startProxy, startService } from './service.mjs';
import { sessionPageCases } from './session-page.mjs';
import { tableCases } from './table.mjs';
import { terminalCases } from './terminal.mjs';
import { showRun } from './told-run.mjs';

const target = process.env.CARGO_TARGET_DIR ?? new URL('../../target', import.meta.url).pathname;
const shots = process.env.SHOTS ?? join(target, 'interface');
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const wanted = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

/** Whoever asks here was made to by hostile output: it stands for the outside. */
const outside = { asked: [] };
const listener = createServer((request, response) => (outside.asked.push(request.url), response.end()));
await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
outside.url = `http://127.0.0.1:${listener.address().port}`;
const model = await startModel({ delay: 4, outside: outside.url });
const service = await startService({ model: model.url });
const { ours, theirs } = service.keys;
const browser = await startBrowser();

const sales = ['region,month,amount'];
for (const [name, total] of [
  ['North', 41873],
  ['South', 27150],
  ['East', 18900],
  ['West', 10291],
]) {
  const month = Math.floor(total / 12);
  for (let at = 1; at <= 12; at += 1) sales.push(`${name},${at},${at < 12 ? month : total - 11 * month}`);
}
const salesFile = join(service.directory, 'sales.csv');
writeFileSync(salesFile, sales.join('\n') + '\n');

/** A page that notes what is wrong: errors, and requests to anybody but the service. */
async function visit({ url = service.url, phone = false, dark = false } = {}) {
  const context = await browser.newContext({
    viewport: phone ? { width: 390, height: 844 } : { width: 1360, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    locale: 'en',
    acceptDownloads: true,
    // Only a service of ours has TLS here, with a certificate of its own.
    ignoreHTTPSErrors: url.startsWith('https:'),
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && page.wrong.push(message.text()));
  // Chromium may tell of a request that the policy of its page stops before anything is sent: that one is as it should be.
  const asked = (request) => {
    const { protocol, host } = new URL(request.url());
    const isStopped = /csp/i.test(request.failure()?.errorText ?? '');
    if (protocol.startsWith('http') && host !== new URL(url).host && !isStopped)
      page.wrong.push(`asked ${request.url()}`);
  };
  page.on('requestfinished', asked);
  page.on('requestfailed', asked);
  await page.goto(url);
  await page.getByLabel('API key').waitFor();
  return page;
}
async function logIn(page, key) {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
}
async function open({ key = ours, ...how } = {}) {
  const page = await visit(how);
  await logIn(page, key);
  await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
  // The first request, without a key, is refused: that is no fault.
  page.wrong.length = 0;
  return page;
}
async function ask(page, task, { approvals, files, steps } = {}) {
  if (approvals || steps) await page.locator('details.options summary').click();
  if (approvals) await page.getByLabel('Ask for approval').selectOption(approvals);
  if (steps) await page.getByLabel('Steps').fill(String(steps));
  if (files) await page.locator('input[type=file]').setInputFiles(files);
  await page.getByLabel('Task').fill(task);
  await page.getByRole('button', { name: 'Start the run' }).click();
  await page.waitForURL(/#\/runs\//);
}
const runOf = (page) => new URL(page.url()).hash.split('/')[2];
const answered = (page) => page.getByText('Answered', { exact: true }).first().waitFor();
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
const fromTop = (page) => page.evaluate(() => scrollTo(0, 0));
async function accessible(page, where) {
  await page.evaluate(axe);
  const look = () => page.evaluate(() => globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
  for (const scheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme: scheme });
    // Colours change with a transition.
    await page.waitForTimeout(300);
    const { violations } = await look();
    const serious = violations.filter((one) => ['serious', 'critical'].includes(one.impact));
    assert.deepEqual(
      serious.map((one) => `${where}, ${scheme}: ${one.id} ${one.nodes.map((node) => node.target).join(' ')}`),
      [],
    );
  }
}
async function download(page, button) {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  return readFileSync(await file.path(), 'utf8');
}

/** Shows a run and scrolls through it; the CPU time of each task of the page's main thread in ms, longest first. */
async function scrollThrough(page, run) {
  // CPU time, not that of the clock: others may use the machine too.
  await browser.startTracing(page, {
    categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
  });
  await showRun(page, run);
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
  // Not in the whole page: to search the text of all steps is a task of the test, not of the page.
  await page.locator('[data-step="2000"] .source', { hasText: 'print(2000)' }).waitFor();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const main = traceEvents.filter(
    (one) => one.ph === 'M' && one.name === 'thread_name' && one.args.name === 'CrRendererMain',
  );
  const isMain = (one) => main.some((thread) => thread.pid === one.pid && thread.tid === one.tid);
  return traceEvents
    .filter((one) => one.name === 'RunTask' && one.tdur > 0 && isMain(one))
    .map((one) => one.tdur / 1000)
    .sort((a, b) => b - a);
}

const CASES = {
  async 'first paint and size'() {
    const paints = [];
    let page;
    for (let at = 0; at < 3; at += 1) {
      page = await visit();
      paints.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
      if (at < 2) await page.context().close();
    }
    const scripts = await page.evaluate(() =>
      performance
        .getEntriesByType('resource')
        .filter((one) => one.name.endsWith('.js'))
        .map((one) => one.encodedBodySize),
    );
    const bytes = scripts.reduce((sum, one) => sum + one, 0);
    console.log(`        first paint after ${paints.map(Math.round).join(', ')} ms; ${bytes} bytes of scripts`);
    assert.ok(Math.min(...paints) < 1000, 'it paints late');
    assert.ok(bytes > 0 && bytes < 250_000, 'its scripts are large, or not compressed');
    page.wrong.length = 0;
    return page;
  },
  async 'a full run with plot and table'() {
    const page = await open();
    await accessible(page, 'ask');
    await page.locator('details.options summary').click();
    await hoverAll(page, 'ask');
    await page.locator('details.options summary').click();
    await fromTop(page);
    await shot(page, 'ask');
    await ask(page, 'Which region sold most? Show it as a plot.', { files: salesFile });
    await answered(page);
    await page.getByRole('columnheader', { name: 'amount' }).first().waitFor();
    await page
      .getByRole('img', { name: /Image from/ })
      .first()
      .waitFor();
    await page.getByRole('button', { name: /^98214\. Computed by cell 2, step 2/ }).click();
    await page.locator('section.derivation code', { hasText: 'sales.csv' }).first().waitFor();
    await accessible(page, 'derivation');
    await page.getByRole('button', { name: 'Show step 2' }).click();
    await page.locator('mark', { hasText: 'all 98214' }).waitFor();
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    await page.locator('section.derivation').waitFor({ state: 'detached' });
    await accessible(page, 'run');
    await hoverAll(page, 'run');
    await fromTop(page);
    await shot(page, 'run');
    // What is not drawn, far from the eye, is not in `innerText`.
    assert.match(await page.evaluate(() => document.querySelector('[data-step="4"]').innerText), /Answered\./);
    await page.screenshot({ path: join(shots, 'run-whole.png'), fullPage: true });
    return page;
  },
  async 'file upload and artifact download'() {
    const page = await open();
    await page.locator('input[type=file]').setInputFiles(salesFile);
    await page.getByText('48 rows, 3 columns').waitFor();
    await shot(page, 'upload');
    await ask(page, 'Which region sold most?');
    await answered(page);
    const totals = page.getByRole('button', { name: 'Download: totals.csv' });
    assert.match(await download(page, totals), /North,41873/);
    await page.locator('summary', { hasText: 'Export' }).click();
    assert.match(await download(page, page.getByRole('button', { name: 'Notebook (.ipynb)' })), /"nbformat"/);
    await page.locator('summary', { hasText: 'Export' }).click();
    const exported = await download(page, page.getByRole('button', { name: 'HTML page (.html)' }));
    assert.match(exported, /<strong>North<\/strong> sold most/);
    assert.match(exported, /<a href="#step-2" title="[^"]*">98214<\/a>/);
    assert.match(exported, /<h2 id="step-2">[^]*<code>all 98214<\/code>/);
    await totals.scrollIntoViewIfNeeded();
    await shot(page, 'artifacts');
    return page;
  },
  async 'approval with edit'() {
    const page = await open();
    await ask(page, 'What is six times seven?', { approvals: 'always' });
    await page.getByRole('heading', { name: /Run this code/ }).waitFor();
    await accessible(page, 'approval');
    await hoverAll(page, 'approval');
    await shot(page, 'approval');
    await page.keyboard.press('e');
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('\nprint("by a person")');
    await page.locator('.added', { hasText: 'by a person' }).waitFor();
    await accessible(page, 'editor');
    await shot(page, 'approval-edited');
    await page.getByRole('button', { name: 'Run the edited code' }).click();
    await answered(page);
    await page.locator('.output', { hasText: 'by a person' }).waitFor();
    // The journal has it: a page that is loaded anew shows it too.
    await page.reload();
    await page.getByText('Edited by a person before execution').waitFor();
    await page.getByRole('button', { name: 'Show the difference' }).click();
    await page.locator('.added', { hasText: 'by a person' }).waitFor();
    await shot(page, 'approval-recorded');
    return page;
  },
  async interrupt() {
    const page = await open();
    await ask(page, 'Something slow, please.');
    await page.getByText(/line 5/).waitFor();
    await shot(page, 'running');
    await page.getByRole('button', { name: 'Interrupt' }).click();
    await page.getByText('Interrupted.', { exact: true }).waitFor();
    await answered(page);
    await fromTop(page);
    await shot(page, 'interrupted');
    return page;
  },
  async 'crash of a cell and restored state'() {
    const page = await open();
    await ask(page, 'crash and go on');
    await answered(page);
    await page.getByText('The process was killed by SIGSEGV.').waitFor();
    await page.getByText('Variables restored to the checkpoint after cell 1.').scrollIntoViewIfNeeded();
    await accessible(page, 'crash');
    await shot(page, 'crash');
    return page;
  },
  async 'reload in mid-run'() {
    const page = await open();
    await ask(page, 'Something slow, please.');
    await page.getByText(/line 5/).waitFor();
    await page.reload();
    await page.getByText('This takes a while.').waitFor();
    // Also what was printed before.
    await page
      .getByText(/line 1\s+line 2/)
      .first()
      .waitFor();
    await page
      .getByText(/line \d\d/)
      .first()
      .waitFor();
    await shot(page, 'reloaded');
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped.').waitFor();
    return page;
  },
  async 'branch from a step, side by side'() {
    const page = await open();
    await ask(page, 'What is six times seven?');
    await answered(page);
    const parent = runOf(page);
    await page.locator('[data-step="1"]').hover();
    await page.getByRole('button', { name: 'Branch from here' }).first().click();
    await page.getByLabel('What to do differently').fill('And thrice that?');
    await shot(page, 'branch');
    await page.getByRole('button', { name: 'Start the branch' }).click();
    await page.waitForURL(/#\/compare\//);
    await page.getByText('It is 42.').first().waitFor();
    await page.getByText('Thrice it is 126.').first().waitFor();
    await accessible(page, 'side by side');
    await shot(page, 'side-by-side');
    await page.goto(`${service.url}#/runs/${parent}`);
    await page.getByRole('link', { name: 'Step 1: And thrice that?' }).waitFor();
    await shot(page, 'branches');
    return page;
  },
  async 'follow-up'() {
    const page = await open();
    await ask(page, 'What is six times seven?');
    await answered(page);
    const first = runOf(page);
    await page.getByLabel('Ask a follow-up').fill('And the double?');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.waitForURL((url) => !url.hash.includes(first));
    await page.getByText('The double is 84.').first().waitFor();
    await shot(page, 'follow-up');
    return page;
  },
  async 'raise the budget, and be asked from now on'() {
    const page = await open();
    await ask(page, 'Something slow, please.', { steps: 10 });
    await page.getByText(/line 5/).waitFor();
    await page.getByRole('button', { name: 'Raise the budget' }).click();
    const steps = page.getByRole('dialog').getByLabel('Steps');
    await steps.fill('5');
    await page.getByRole('button', { name: 'Raise', exact: true }).click();
    await page.getByText('Steps: not raised. The budget is 10 already: enter more.').waitFor();
    assert.equal(await page.getByText('Budget raised.').count(), 0);
    await steps.fill('30');
    await accessible(page, 'budget');
    await shot(page, 'budget');
    await page.getByRole('button', { name: 'Raise', exact: true }).click();
    await page.getByText('Budget raised.').waitFor();
    await page
      .getByText(/\/ 30|of 30/)
      .first()
      .waitFor();
    await page.getByLabel('Approvals').selectOption('always');
    await page.getByText('From now on: Always').waitFor();
    await page.getByRole('button', { name: 'Interrupt' }).click();
    await page.getByRole('heading', { name: /Run this code/ }).waitFor();
    await shot(page, 'steered');
    await page.keyboard.press('a');
    await answered(page);
    return page;
  },
  async 'login: a wrong key is refused, one can log out'() {
    const page = await visit();
    await logIn(page, 'not a key');
    await page.getByText('Unknown or revoked key.', { exact: false }).waitFor();
    await accessible(page, 'login');
    await hoverAll(page, 'login');
    await shot(page, 'login');
    await logIn(page, ours);
    await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
    assert.equal(await page.evaluate(() => document.cookie), '', 'scripts can read the key');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('API key').waitFor();
    await page.reload();
    await page.getByLabel('API key').waitFor();
    page.wrong.length = 0;
    return page;
  },
  async "another tenant's run is refused"() {
    const page = await open();
    await ask(page, 'What is six times seven?');
    await answered(page);
    const other = await open({ key: theirs });
    assert.equal(await other.getByText('What is six times seven?').count(), 0);
    await other.goto(`${service.url}#/runs/${runOf(page)}`);
    await other.getByText('No such run, or it belongs to another tenant.').waitFor();
    await accessible(other, 'refused');
    await shot(other, 'refused');
    return page;
  },
  async 'a session by hand, as a notebook'() {
    const page = await open();
    await page.getByRole('link', { name: 'Sessions' }).click();
    await accessible(page, 'sessions');
    await hoverAll(page, 'sessions');
    await page.getByRole('button', { name: 'New session' }).click();
    const type = async (code) => {
      await page.locator('.cm-content').click();
      await page.keyboard.type(code);
      await page.keyboard.press('Shift+Enter');
    };
    await type('import pandas as pd\ntable = pd.DataFrame({"n": [3, 1, 2]})\ntable');
    await page.getByRole('rowheader', { name: 'table' }).waitFor();
    const valueOf = (name) => {
      const header = page.getByRole('rowheader', { name, exact: true });
      return page.locator('tbody', { has: header }).locator('.value').textContent();
    };
    assert.equal(await valueOf('table'), "'n'");
    const meter = page.getByRole('meter', { name: 'Memory' });
    const memory = async () => Number(await meter.getAttribute('aria-valuenow'));
    const before = await memory();
    assert.ok(before > 1e6 && before < 150e6, `${before} bytes of memory`);
    // While the cell runs, and after it.
    await type('x, b = 41, bytearray(200_000_000)\nwhile True: pass');
    const stop = page.getByRole('button', { name: 'Interrupt' });
    await page.waitForFunction(
      (least) => Number(document.querySelector('[role=meter]')?.ariaValueNow) > least,
      before + 190e6,
    );
    await page.getByText(/CPU ([5-9]|\d{2,3})%/).waitFor();
    assert.ok(await stop.isVisible(), 'it still runs');
    await stop.click();
    await page.getByRole('rowheader', { name: 'x', exact: true }).waitFor();
    assert.equal(await valueOf('x'), '41');
    // Nobody looks: nothing is asked.
    let asked = 0;
    page.on('request', () => (asked += 1));
    const looks = (hidden) =>
      page.evaluate((value) => Object.defineProperty(document, 'hidden', { value, configurable: true }), hidden);
    await looks(true);
    await page.waitForTimeout(500);
    asked = 0;
    await page.waitForTimeout(4500);
    assert.equal(asked, 0);
    await Promise.all([page.waitForRequest(/v1\/sessions\/[^/]+$/), looks(false)]);
    await page.locator('input[type=file]').setInputFiles(salesFile);
    assert.match(await download(page, page.getByRole('button', { name: 'sales.csv', exact: true })), /North,1,/);
    await page.getByLabel('Name of the checkpoint').fill('before');
    await page.getByRole('button', { name: 'Save checkpoint' }).click();
    await page.getByText('before', { exact: true }).waitFor();
    await type('1/0');
    await page.getByText('Ended with an exception.').waitFor();
    await accessible(page, 'session');
    await hoverAll(page, 'session');
    await fromTop(page);
    await shot(page, 'session');
    const notebook = JSON.parse(await download(page, page.getByRole('button', { name: 'Notebook (.ipynb)' })));
    assert.equal(notebook.cells.length, 3);
    await page.setViewportSize({ width: 390, height: 844 });
    await fromTop(page);
    assert.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      'it is wider than a phone',
    );
    await shot(page, 'session-phone');
    await page.setViewportSize({ width: 1360, height: 900 });
    await page.reload();
    await page.getByText('ZeroDivisionError').first().waitFor();
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.getByText('3 cells').first().waitFor();
    await shot(page, 'sessions');
    return page;
  },
  async 'behind a path of a proxy'() {
    const proxy = await startProxy(service.url, '/some/prefix/');
    const page = await open({ url: proxy.url });
    await ask(page, 'What is six times seven?');
    await answered(page);
    const [cookie] = await page.context().cookies();
    assert.equal(cookie.path, '/some/prefix');
    await shot(page, 'prefix');
    proxy.close();
    return page;
  },
  async 'two thousand cells scroll without freezing'() {
    // A page that freezes does so each time. One long task in one pass of three is the machine: its kernel may take
    // 100 ms to free memory, which counts as CPU time of the page.
    for (let pass = 1; ; pass += 1) {
      const page = await open();
      const tasks = await scrollThrough(page, longRun(2000));
      const longest = tasks.slice(0, 5).map(Math.round);
      console.log(`        longest of ${tasks.length} tasks: ${longest.join(', ')} ms of CPU time`);
      assert.ok(tasks.length > 100, 'the trace is empty');
      // What was given up far from the eye is there again, with its table.
      await fromTop(page);
      await page.locator('[data-step="3"] table').waitFor();
      if (longest[0] <= 100) {
        await shot(page, 'long');
        return page;
      }
      assert.ok(pass < 3, 'it freezes');
      await page.context().close();
    }
  },
  async 'on a phone, in the dark, in Chinese'() {
    const page = await open({ phone: true, dark: true });
    const fits = async (where) => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `${where} is ${width} wide`);
    };
    await ask(page, 'Which region sold most?', { files: salesFile });
    await answered(page);
    await fromTop(page);
    await page.waitForTimeout(500);
    await fits('a run');
    await page.screenshot({ path: join(shots, 'phone-run.png'), fullPage: true });
    await page.getByRole('button', { name: '中文' }).click();
    await page.goto(`${service.url}#/`);
    await page.getByRole('heading', { name: '你想知道什么？' }).waitFor();
    await shot(page, 'phone');
    await fits('ask');
    await accessible(page, 'phone');
    return page;
  },
  ...runPageCases({ open, ask, shot, answered, accessible }),
  ...libraryCases({ browser, open, ask, answered, shot, accessible, hoverAll, runOf, service, salesFile }),
  ...previewCases({ open, shot, accessible, hoverAll, service, salesFile }),
  ...compareCases({ open, ask, answered, shot, accessible, hoverAll, runOf, service, salesFile }),
  ...adminPageCases({ open, visit, logIn, ask, shot, shots, accessible, hoverAll, service, keys: service.keys }),
  ...isolationCases({ open, accessible }),
  ...sessionPageCases({ open, ask, answered, download, runOf, service, salesFile }),
  ...notebookCases({ open, download, shot, fromTop, accessible, hoverAll, service }),
  ...draftCases({ open, logIn, ask, shot, accessible, service, ours, salesFile }),
  ...tableCases({ open, shot, accessible, hoverAll, download }),
  ...terminalCases({ open, shot, accessible, service }),
  ...portCases({ open, shot, service, model }),
  ...hostileCases({ open, ask, shot, fromTop, outside }),
};

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
    await context
      ?.pages()[0]
      ?.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, '-')}.png`) })
      .catch(() => {});
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
model.close();
listener.close();
await service.stop();
process.exit(failed > 0 ? 1 : 0);
