// A service of one isolation tier in Chromium: the page of a session says the tier, and runs a cell there.
//   BELLJAR=path/to/belljar node e2e/tier-page.mjs TIER OPTION…
import { startBrowser, startService } from './service.mjs';

const [tier, ...options] = process.argv.slice(2);
// No run is asked for, so nobody answers at this address.
const service = await startService({ model: 'http://127.0.0.1:9', options });
const browser = await startBrowser();
try {
  const page = await (await browser.newContext({ locale: 'en' })).newPage();
  // Starting a container takes seconds, on a busy machine more.
  page.setDefaultTimeout(120_000);
  await page.goto(service.url);
  await page.getByLabel('API key').fill(service.keys.ours);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('button', { name: 'New session' }).click();
  await page.locator('.cm-content').click();
  await page.getByText(` · ${tier} · `).waitFor();
  await page.keyboard.type('print("product", 6 * 7)');
  await page.keyboard.press('Shift+Enter');
  await page.locator('.below', { hasText: 'product 42' }).waitFor();
  await page.getByText(tier === 'gvisor' ? 'Ran in gVisor' : 'Ran in a container').waitFor();
  console.log(`the page of a session says ${tier}`);
} finally {
  await browser.close();
  await service.stop();
}
