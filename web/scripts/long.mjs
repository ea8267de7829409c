// What a long run costs a browser: frame times while it is scrolled, and the heap while it is followed for long. Not a part
// of CI, since both need time, and the first a quiet machine.
//   BELLJAR=path/to/belljar node scripts/long.mjs [scroll [PASSES]] [heap [MINUTES]]
import { readFileSync } from 'node:fs';
import { longRun } from '../e2e/long-run.mjs';
import { startModel } from '../e2e/scripted-model.mjs';
import { startBrowser, startService } from '../e2e/service.mjs';
import { showRun } from '../e2e/told-run.mjs';

const STEPS = 2000;

/** CPU time since the machine started, in ticks: all of it, and what was not idle. */
function machine() {
  const ticks = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].trim().split(/\s+/).slice(1, 9).map(Number);
  const all = ticks.reduce((sum, one) => sum + one, 0);
  return { all, busy: all - ticks[3] - ticks[4] };
}
/** The share of the machine's CPU time that was in use, from then until now. */
function busySince(before) {
  const now = machine();
  return Math.round((100 * (now.busy - before.busy)) / Math.max(1, now.all - before.all));
}

async function open(browser, service) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, locale: 'en' });
  const page = await context.newPage();
  page.setDefaultTimeout(180_000);
  await page.goto(service.url);
  await page.getByLabel('API key').fill(service.keys.ours);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
  return page;
}

/** Scrolls by so many pixels in each frame; milliseconds between frames. */
const frames = (page, { from, by, count }) =>
  page.evaluate(
    async ({ from, by, count }) => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      scrollTo(0, document.documentElement.scrollHeight * from);
      for (let at = 0; at < 60; at += 1) await frame();
      const step = by ?? (document.documentElement.scrollHeight - scrollY) / count;
      const took = [];
      let before = await frame();
      for (let at = 0; at < count; at += 1) {
        scrollBy(0, step);
        const now = await frame();
        took.push(now - before);
        before = now;
      }
      return took;
    },
    { from, by, count },
  );
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(1);

async function scroll(browser, service, passes) {
  const ways = {
    'a wheel, 120 px a frame': [0.05, 0.3, 0.55, 0.8].map((from) => ({ from, by: 120, count: 300 })),
    'the whole run in 300 frames': [{ from: 0, count: 300 }],
  };
  console.log(`scrolling a run of ${STEPS} steps: ms between frames`);
  for (let pass = 1; pass <= passes; pass += 1) {
    for (const [name, parts] of Object.entries(ways)) {
      const page = await open(browser, service);
      await showRun(page, longRun(STEPS));
      await page.locator(`[data-step="${STEPS}"]`).waitFor({ state: 'attached' });
      await page.waitForTimeout(1000);
      const before = machine();
      const took = [];
      for (const part of parts) took.push(...(await frames(page, part)));
      const sorted = took.sort((a, b) => a - b);
      const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => quantile(sorted, share));
      console.log(
        `  ${pass}  ${name}: p50 ${p50}, p95 ${p95}, p99 ${p99}, longest ${sorted.at(-1).toFixed(1)}; ` +
          `${sorted.length} frames; ${busySince(before)} % of the CPUs in use`,
      );
      await page.context().close();
    }
  }
}

/** A run that never ends by itself, as its page shows it. */
async function startRun(page, { isFollowed }) {
  await page.getByLabel('Task').fill('Watch this for long.');
  await page.getByRole('button', { name: 'Start the run' }).click();
  await page.waitForURL(/#\/runs\//);
  await page.locator('[data-step="2"]').waitFor({ state: 'attached' });
  if (isFollowed) return;
  // Who reads the beginning stays there.
  await page.mouse.wheel(0, -100_000);
  await page.evaluate(() => scrollTo(0, 0));
}
const CELL =
  "import time, pandas as pd\nfor number in range(400):\n    print(number, 'a line of output that says nothing', flush=True)\n" +
  "    time.sleep(0.05)\npd.DataFrame({'n': range(50)})";
/** A cell of a notebook that is run again whenever it has ended, until `isOver`. */
async function startCells(page, isOver) {
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('button', { name: 'New session' }).click();
  await page.locator('.cm-content').click();
  await page.keyboard.insertText(CELL);
  await page.keyboard.press('Shift+Enter');
  const again = page.getByRole('button', { name: 'Run again' });
  const loop = async () => {
    while (!isOver()) await again.click({ timeout: 0 });
  };
  return loop();
}

async function heap(browser, service, minutes) {
  let over = false;
  const pages = {};
  for (const name of ['run, followed', 'run, its beginning read', 'notebook']) {
    const page = await open(browser, service);
    pages[name] = { page, profiler: await page.context().newCDPSession(page), sizes: [] };
  }
  await startRun(pages['run, followed'].page, { isFollowed: true });
  await startRun(pages['run, its beginning read'].page, { isFollowed: false });
  let failed = null;
  startCells(pages.notebook.page, () => over).catch((error) => over || (failed = error));
  console.log('JS heap after garbage collection [kB], and nodes of the document, each minute of live events');
  const before = machine();
  const start = Date.now();
  for (let minute = 1; minute <= minutes && !failed; minute += 1) {
    await new Promise((resolve) => setTimeout(resolve, start + minute * 60_000 - Date.now()));
    const seen = [];
    for (const [name, { page, profiler, sizes }] of Object.entries(pages)) {
      await profiler.send('HeapProfiler.collectGarbage');
      const { usedSize } = await profiler.send('Runtime.getHeapUsage');
      const { nodes } = await profiler.send('Memory.getDOMCounters');
      sizes.push(usedSize / 1000);
      const known = await page.evaluate(() => Number([...document.querySelectorAll('[data-end]')].at(-1)?.dataset.end));
      seen.push(`${name}: ${Math.round(usedSize / 1000)}, ${nodes} nodes${known ? `, ${known} steps` : ''}`);
    }
    console.log(`  ${String(minute).padStart(3)}  ${seen.join(';  ')}`);
  }
  over = true;
  for (const [name, { sizes }] of Object.entries(pages)) {
    // The first fifth fills what is bounded.
    const rest = sizes.slice(Math.floor(sizes.length / 5));
    const middle = (rest.length - 1) / 2;
    const mean = rest.reduce((sum, one) => sum + one, 0) / rest.length;
    const slope =
      rest.reduce((sum, one, at) => sum + (at - middle) * (one - mean), 0) /
      rest.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
    console.log(`  ${name}: ${slope.toFixed(1)} kB a minute after the first fifth, mean ${Math.round(mean)} kB`);
  }
  console.log(`  ${busySince(before)} % of the CPUs in use`);
  if (failed) throw failed;
}

const number = (word, otherwise) => {
  const at = process.argv.indexOf(word);
  return at < 0 ? null : Number(process.argv[at + 1]) || otherwise;
};
const isAll = process.argv.length === 2;
const [passes, minutes] = [isAll ? 3 : number('scroll', 3), isAll ? 30 : number('heap', 30)];
const model = await startModel();
const service = await startService({ model: model.url, steps: 2000 });
const browser = await startBrowser();
try {
  if (passes) await scroll(browser, service, passes);
  if (minutes) await heap(browser, service, minutes);
} finally {
  await browser.close();
  model.close();
  await service.stop();
}
