// Makes the pictures of README and docs from the demonstration, into docs/images.
//   BELLJAR=path/to/belljar node scripts/screenshots.mjs
import { mkdirSync, statSync } from 'node:fs';
import { startBrowser, startService } from '../e2e/service.mjs';

const MOST_BYTES = 200_000;
const images = new URL('../../docs/images/', import.meta.url).pathname;
mkdirSync(images, { recursive: true });
const service = await startService();
const browser = await startBrowser();

async function open(colorScheme) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 780 }, colorScheme, locale: 'en' });
  const page = await context.newPage();
  await page.goto(service.url);
  await page.getByRole('heading', { name: 'Examples', exact: true }).waitFor();
  return page;
}
async function picture(page, name) {
  // The pointer rests nowhere, pictures are decoded, and fonts are there.
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.fonts.ready);
  await page.waitForTimeout(500);
  const path = `${images}${name}.png`;
  await page.screenshot({ path });
  const { size } = statSync(path);
  console.log(`${String(size).padStart(8)}  ${name}.png`);
  if (size > MOST_BYTES) process.exitCode = 1;
}
async function example(page, title) {
  await page.getByRole('button', { name: title }).click();
  await page.waitForURL(/#\/runs\//);
}

async function runs() {
  for (const scheme of ['light', 'dark']) {
    const page = await open(scheme);
    if (scheme === 'light') await picture(page, 'ask');
    await example(page, 'A sales table, with a chart');
    await page.getByText('Answered', { exact: true }).first().waitFor();
    await page.getByRole('img').first().waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    await picture(page, `run-${scheme}`);
  }
}
async function approval() {
  const page = await open('light');
  await example(page, 'A cell that needs approval');
  await page.getByRole('heading', { name: /Run this code/ }).waitFor();
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\nprint(kept.to_string())');
  await page.locator('.added').first().waitFor();
  await page.locator('.approval').scrollIntoViewIfNeeded();
  await picture(page, 'approval');
}
async function newSession() {
  const page = await open('light');
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('button', { name: 'New session' }).click();
  return page;
}
async function session() {
  const page = await newSession();
  for (const code of [
    'import pandas as pd\nrivers = pd.DataFrame({"river": ["Nile", "Amazon", "Yangtze"], "km": [6650, 6400, 6300]})\nrivers',
    'longest = rivers["km"].max()\nlongest / rivers["km"].mean()',
  ]) {
    await page.locator('.cm-content').click();
    await page.keyboard.type(code);
    await page.keyboard.press('Shift+Enter');
    await page
      .locator('.cell .below')
      .nth(code.startsWith('import') ? 0 : 1)
      .waitFor();
  }
  await page.getByRole('rowheader', { name: 'longest' }).waitFor();
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, 'session');
}
async function terminal() {
  const page = await newSession();
  await page.getByRole('tab', { name: 'Terminal' }).click();
  const screen = page.locator('.xterm-rows');
  for (const [line, shown] of [
    ["printf 'Amazon 6400\\nNile 6650\\nYangtze 6300\\n' > rivers.txt", /rivers\.txt.*[$#]/s],
    ['sort -k2 -n rivers.txt', /Yangtze.*Amazon.*Nile/s],
    ['python -c "print(sum(int(line.split()[1]) for line in open(\'rivers.txt\')))"', /19350/],
  ]) {
    await screen.filter({ hasText: /[$#]/ }).waitFor();
    await page.keyboard.type(line);
    await page.keyboard.press('Enter');
    await screen.filter({ hasText: shown }).waitFor();
  }
  await picture(page, 'terminal');
}

/** All, or those whose names are given. */
const pictures = { runs, approval, session, terminal };
const wanted = process.argv.slice(2);
try {
  for (const [name, make] of Object.entries(pictures)) if (wanted.length === 0 || wanted.includes(name)) await make();
} finally {
  await browser.close();
  await service.stop();
}
