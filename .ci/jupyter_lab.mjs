// JupyterLab in Chromium, with a service of ours as its gateway: a cell, an interrupt, a crash, a restart.
// Run by .ci/jupyter in the directory where playwright-core is installed. The argument is the address of JupyterLab.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const { chromium } = createRequire(`${process.cwd()}/`)('playwright-core');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(60_000);
await page.goto(`${process.argv[2]}/tree/lab.ipynb?reset`);
const cells = page.locator('.jp-Notebook .jp-CodeCell');
await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor();

/** Runs a cell of the notebook by its keys. */
async function run(index) {
  const cell = cells.nth(index);
  const prompt = () => cell.locator('.jp-InputPrompt').textContent();
  const before = await prompt();
  for (let attempt = 0; attempt < 6; attempt += 1) {
    // Before its kernel is connected, JupyterLab asks which one to use.
    if ((await page.locator('.jp-Dialog').count()) > 0) await page.keyboard.press('Escape');
    // A click finds the cell again if JupyterLab draws it anew meanwhile; other actions fail then.
    await cell.locator('.cm-content').click();
    await page.keyboard.press('Control+Enter');
    // If it is drawn anew between the two, the keys go nowhere. Else its prompt changes at once.
    for (let wait = 0; wait < 50; wait += 1) {
      if ((await prompt()) !== before) return cell;
      await page.waitForTimeout(100);
    }
  }
  throw new Error(`cell ${index} did not begin`);
}
/** Waits for the text of a cell's outputs. */
async function shows(cell, text) {
  await cell.locator('.jp-OutputArea-output', { hasText: text }).first().waitFor();
}
/** Waits until a cell has ended as so many before it. */
async function ended(cell, count) {
  await cell.locator('.jp-InputPrompt', { hasText: `[${count}]` }).waitFor();
}

const first = await run(0);
await shows(first, 'sum 42');
await ended(first, 1);
assert.ok((await first.locator('.jp-OutputArea-output table').count()) > 0, 'no table');

const sleeping = await run(1);
await shows(sleeping, 'begun');
await page.keyboard.press('Escape');
await page.keyboard.press('i');
await page.keyboard.press('i');
await shows(sleeping, 'KeyboardInterrupt');

const crashed = await run(2);
await shows(crashed, 'SIGSEGV');
await shows(crashed, '[belljar]');
const after = await run(3);
await shows(after, '42');
await ended(after, 4);

await page.keyboard.press('Escape');
await page.keyboard.press('0');
await page.keyboard.press('0');
await page.locator('.jp-Dialog button', { hasText: 'Restart' }).click();
await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor();
await shows(await run(3), 'NameError');
await shows(await run(0), 'sum 42');
await ended(cells.nth(0), 2);
await browser.close();
console.log('JupyterLab: a cell, an interrupt, a crash, a restart');
