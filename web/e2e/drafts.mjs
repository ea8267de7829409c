// What was typed stays, and what a page says while the service is away.
import assert from 'node:assert/strict';
import { startProxy } from './service.mjs';

export function draftCases({ open, logIn, ask, shot, accessible, service, ours, salesFile }) {
  const task = (page) => page.getByLabel('Task');
  return {
    async 'drafts: a question outlives navigation, a reload and an expired login'() {
      const page = await open();
      await task(page).fill('A long question that nobody wants to type twice');
      await page.locator('input[type=file]').setInputFiles(salesFile);
      await page.getByText('48 rows, 3 columns').waitFor();
      await page.getByRole('link', { name: 'Sessions' }).click();
      await page.getByRole('heading', { name: 'Sessions' }).waitFor();
      await page.getByRole('link', { name: 'Ask' }).click();
      assert.match(await task(page).inputValue(), /type twice$/);
      await page.getByText('48 rows, 3 columns').waitFor();
      await page.context().clearCookies();
      await page.getByRole('button', { name: 'Start the run' }).click();
      await logIn(page, ours);
      await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
      assert.match(await task(page).inputValue(), /type twice$/);
      await page.getByText('48 rows, 3 columns').waitFor();
      await page.reload();
      assert.match(await task(page).inputValue(), /type twice$/);
      // Who logs out leaves nothing to the next person.
      await page.getByRole('button', { name: 'Log out' }).click();
      await logIn(page, ours);
      await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
      assert.equal(await task(page).inputValue(), '');
      page.wrong = page.wrong.filter((text) => !/401/.test(text));
      return page;
    },
    async 'offline: the page says so in sight, says it once, and comes back by itself'() {
      const proxy = await startProxy(service.url, '/some/prefix/');
      const page = await open({ url: proxy.url });
      await page.setViewportSize({ width: 1360, height: 560 });
      await ask(page, 'Something slow, please.');
      await page.getByText(/line 5/).waitFor();
      proxy.goDown();
      const banner = page.getByRole('alert').filter({ hasText: 'Cannot reach the service.' });
      await banner.waitFor();
      const chip = page.locator('.chip').first();
      await chip.filter({ hasText: 'Connection lost' }).waitFor();
      const top = await banner.boundingBox();
      assert.ok(top.y >= 0 && top.y < 120, `the banner is at ${top.y}`);
      assert.equal(await page.getByText('Running', { exact: true }).count(), 0, 'something seems to run');
      for (let at = 0; at < 3; at += 1) await page.getByRole('button', { name: 'Interrupt' }).click();
      await page.locator('.notices .notice').first().waitFor();
      assert.equal(await page.locator('.notices .notice').count(), 1, 'the same is said again and again');
      await shot(page, 'offline');
      await accessible(page, 'offline');
      await page.getByRole('link', { name: 'Sessions' }).click();
      await page.getByText('Not loaded.').waitFor();
      assert.equal(await page.getByText('Loading…').count(), 0);
      proxy.goUp();
      await page
        .getByText(/No sessions yet\.|cells?$/)
        .first()
        .waitFor();
      await banner.waitFor({ state: 'detached' });
      await page.goBack();
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByText('Stopped.').waitFor();
      proxy.close();
      page.wrong = page.wrong.filter((text) => !/net::ERR_|502/.test(text));
      return page;
    },
  };
}
