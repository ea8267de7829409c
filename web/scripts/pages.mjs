// Pictures of every page in each look: light, dark, on a phone, in Chinese. For people to look at, not for the docs.
//   BELLJAR=path/to/belljar node scripts/pages.mjs [LOOK …]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startModel } from '../e2e/scripted-model.mjs';
import { startBrowser, startService } from '../e2e/service.mjs';

const target = process.env.CARGO_TARGET_DIR ?? new URL('../../target', import.meta.url).pathname;
const directory = process.env.SHOTS ?? join(target, 'pages');
mkdirSync(directory, { recursive: true });
const model = await startModel({ delay: 0 });
const service = await startService({ model: model.url });
const browser = await startBrowser();

const sales = join(service.directory, 'sales.csv');
const TOTALS = { North: 41873, South: 27150, East: 18900, West: 10291 };
const rows = Object.entries(TOTALS).flatMap(([region, total]) => {
  const month = Math.floor(total / 12);
  return Array.from({ length: 12 }, (_, at) => `${region},${at + 1},${at < 11 ? month : total - 11 * month}`);
});
writeFileSync(sales, `region,month,amount\n${rows.join('\n')}\n`);

/** How a page is looked at. */
const LOOKS = {
  light: {},
  dark: { colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true },
  chinese: { locale: 'zh-CN' },
  'phone-dark-chinese': { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: 'dark', locale: 'zh-CN' },
};

async function api(path, body) {
  const response = await fetch(`${service.url}v1/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${service.keys.ours}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}
async function logIn(page, key) {
  if (page.url().includes('/shared/')) await page.goto(`${new URL(page.url()).origin}/#/`);
  await page.locator('input[type=password]').fill(key);
  await page.keyboard.press('Enter');
  await page.locator('nav a[href="#/"]').nth(1).or(page.getByRole('tab').first()).first().waitFor();
}
async function open(look, { url = service.url, key = service.keys.ours } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, locale: 'en', ...LOOKS[look] });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(url);
  if (key) await logIn(page, key);
  return page;
}

/** What the pages show: runs with files, a branch, a link, a session with cells, a table and text. */
async function prepare() {
  const page = await open('light');
  const ask = async (task, files, approvals) => {
    await page.goto(`${service.url}#/`);
    if (files) await page.locator('input[type=file]').setInputFiles(files);
    if (approvals) {
      await page.locator('details.options summary').click();
      await page.getByLabel('Ask for approval').selectOption(approvals);
    }
    await page.getByLabel('Task').fill(task);
    await page.getByRole('button', { name: 'Start the run' }).click();
    await page.waitForURL(/#\/runs\//);
    if (!approvals) await page.getByText('Answered', { exact: true }).first().waitFor();
    return new URL(page.url()).hash.split('/')[2];
  };
  const run = await ask('Which region sold most? Show it as a plot.', sales);
  await page.locator('summary', { hasText: 'Actions' }).first().click();
  await page.getByRole('button', { name: 'Share', exact: true }).first().click();
  await page.getByRole('button', { name: 'Create link' }).click();
  const link = await page.getByLabel('Share link').inputValue();
  const other = await ask('Which region sold most? In words, please.', sales);
  const crash = await ask('crash and go on');
  const approval = await ask('Please remove a file.', null, 'always');
  await page.locator('.approval').waitFor();
  await page.context().close();
  const session = (await api('sessions', {})).id;
  for (const code of [
    'import pandas as pd\nrivers = pd.DataFrame({"river": ["Nile", "Amazon", "Yangtze"] * 60, "km": range(6000, 6180)})\nrivers.head()',
    'longest = rivers["km"].max()\nprint("a line of output that is rather long", *range(30))\nlongest',
    '1 / 0',
  ])
    await api(`sessions/${session}/cells`, { code });
  return { run, other, crash, approval, link, session };
}

const PAGES = ({ run, other, crash, approval, link, session }) => ({
  async ask(page) {
    await page.goto(`${service.url}#/`);
    await page.locator('input[type=file]').setInputFiles(sales);
    await page.locator('details.options summary').click();
    await page.locator('td').first().waitFor();
  },
  async run(page) {
    await page.goto(`${service.url}#/runs/${run}`);
    await page.locator('[data-step="1"] table').waitFor();
  },
  async derivation(page) {
    await page.goto(`${service.url}#/runs/${run}`);
    await page.locator('[data-answer] button', { hasText: '98214' }).first().click();
    await page.locator('section.derivation').waitFor();
  },
  async crash(page) {
    await page.goto(`${service.url}#/runs/${crash}`);
    await page.locator('[data-answer]').waitFor();
    await page.locator('[data-step="5"] .below').first().waitFor();
  },
  async approval(page) {
    await page.goto(`${service.url}#/runs/${approval}`);
    await page.locator('.approval .findings').waitFor();
  },
  async library(page) {
    await page.goto(`${service.url}#/runs`);
    await page.locator('.card > li').nth(3).waitFor();
  },
  async compare(page) {
    await page.goto(`${service.url}#/compare/${run},${other}`);
    await page.locator('section tbody tr').first().waitFor();
  },
  async sessions(page) {
    await page.goto(`${service.url}#/sessions`);
    await page.locator('.card li, .card > li').first().waitFor();
  },
  async session(page) {
    await page.goto(`${service.url}#/sessions/${session}`);
    await page.locator('article.cell .below').nth(2).waitFor();
    // What stands beside the cells is folded on a phone.
    for (const part of await page.locator('aside details:not([open]) > summary').all()) await part.click();
  },
  async table(page) {
    await page.goto(`${service.url}#/sessions/${session}`);
    await page.locator('aside details > summary').first().waitFor();
    if (
      !(await page
        .locator('aside details')
        .first()
        .evaluate((one) => one.open))
    )
      await page.locator('aside details > summary').first().click();
    await page.locator('aside button', { hasText: '180' }).first().click();
    await page.locator('dialog[open] td').first().waitFor();
  },
  async terminal(page) {
    await page.goto(`${service.url}#/sessions/${session}`);
    await page.getByRole('tab').nth(1).click();
    await page.locator('.xterm-rows').filter({ hasText: /[$#]/ }).waitFor();
  },
  async shared(page) {
    await page.goto(link);
    await page.locator('[data-answer]').waitFor();
  },
});

try {
  const pages = PAGES(await prepare());
  const wanted = process.argv.slice(2);
  for (const look of Object.keys(LOOKS).filter((one) => wanted.length === 0 || wanted.includes(one))) {
    const take = async (page, name) => {
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.fonts.ready);
      await page.waitForTimeout(500);
      await page.evaluate(() => scrollTo(0, 0));
      const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (width > 0) console.log(`${name}, ${look}: ${width} pixels too wide`);
      await page.screenshot({ path: join(directory, `${name}-${look}.png`), fullPage: name !== 'table' });
    };
    const login = await open(look, { key: null });
    await login.locator('input[type=password]').waitFor();
    await take(login, 'login');
    await pages.shared(login);
    await take(login, 'shared');
    await logIn(login, service.keys.ours);
    for (const [name, show] of Object.entries(pages)) {
      if (name === 'shared') continue;
      await login.goto('about:blank');
      await show(login).catch((error) => {
        console.log(`${name}, ${look}: ${error.message.split('\n')[0]}`);
        process.exitCode = 1;
      });
      await take(login, name);
    }
    await login.context().close();
    const admin = await open(look, { url: service.admin, key: service.keys.admin });
    for (const [at, tab] of (await admin.getByRole('tab').all()).entries()) {
      await tab.click();
      await take(admin, `admin-${at + 1}`);
    }
    await admin.context().close();
  }
} finally {
  await browser.close();
  model.close();
  await service.stop();
}
