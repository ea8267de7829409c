// Runs found again, named, shared, started again, and as one conversation.
import assert from 'node:assert/strict';

const chips = '.card > li';

export function libraryCases({ browser, open, ask, answered, shot, accessible, hoverAll, runOf, service, salesFile }) {
  const fits = async (page, where) => {
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${where} is ${width} wide`);
  };
  const act = async (page, name) => {
    await page.locator('summary', { hasText: 'Actions' }).first().click();
    await page.getByRole('button', { name, exact: true }).first().click();
  };
  return {
    async 'library: a run is found, named, tagged and deleted'() {
      const page = await open();
      await ask(page, 'What is six times seven? Zebra.');
      await answered(page);
      await page.getByRole('link', { name: 'Runs', exact: true }).click();
      await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
      await page.getByRole('searchbox').fill('zebra SEVEN');
      await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, chips);
      await page.getByRole('searchbox').fill('no such words');
      await page.getByText('No run matches these filters.').waitFor();
      await page.getByRole('searchbox').fill('zebra');
      await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, chips);
      // By the keyboard alone.
      await page.locator('summary', { hasText: 'Actions' }).focus();
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.getByRole('textbox', { name: 'Title', exact: true }).fill('Zebra count');
      await page.getByRole('textbox', { name: 'Tags' }).fill('animals, 2026');
      await page.keyboard.press('Enter');
      await page.locator(chips).getByText('Zebra count').waitFor();
      await page.getByRole('button', { name: 'animals', exact: true }).click();
      await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, chips);
      assert.equal(await page.getByLabel('Tag', { exact: true }).inputValue(), 'animals');
      await page.getByLabel('State').selectOption('Unverified');
      await page.getByText('No run matches these filters.').waitFor();
      await page.getByLabel('State').selectOption('Answered');
      await page.getByLabel('Time').selectOption('Last 24 hours');
      await page.locator(chips).getByText('Zebra count').waitFor();
      await accessible(page, 'library');
      await hoverAll(page, 'library');
      await page.evaluate(() => scrollTo(0, 0));
      await shot(page, 'library');
      await page.emulateMedia({ colorScheme: 'dark' });
      await shot(page, 'library-dark');
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 390, height: 844 });
      await fits(page, 'the library');
      await shot(page, 'library-phone');
      await page.setViewportSize({ width: 1360, height: 900 });
      // The page of the run has its name.
      await page.locator(chips).getByText('Zebra count').click();
      await page.getByRole('heading', { name: 'Zebra count' }).waitFor();
      await page.waitForFunction(() => document.title.startsWith('Done · Zebra count'));
      await page.goBack();
      await page.getByRole('searchbox').fill('zebra');
      await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, chips);
      page.once('dialog', (dialog) => void dialog.dismiss());
      await act(page, 'Delete');
      await page.locator(chips).getByText('Zebra count').waitFor();
      const asked = new Promise((resolve) => {
        page.once('dialog', (dialog) => (resolve(dialog.message()), void dialog.accept()));
      });
      await act(page, 'Delete');
      assert.match(await asked, /Delete “Zebra count”\?.*cannot be undone/);
      await page.getByText('No run matches these filters.').waitFor();
      return page;
    },
    async 'library: a share link shows a run without a key, and nothing once it is revoked'() {
      const page = await open();
      await ask(page, 'Which region sold most? Show it as a plot.', { files: salesFile });
      await answered(page);
      await act(page, 'Share');
      const dialog = page.locator('dialog[open]');
      await dialog.getByRole('button', { name: 'Create link' }).click();
      const link = await dialog.getByLabel('Share link').inputValue();
      assert.ok(link.startsWith(`${service.url}#/shared/bjs_`), link);
      await accessible(page, 'share');
      await shot(page, 'share');
      await dialog.getByLabel('What the link shows').selectOption('Only step 2, and the task');
      await dialog.getByRole('button', { name: 'Create link' }).click();
      await dialog.locator('li').nth(1).waitFor();
      const step = await dialog.getByLabel('Share link').inputValue();

      // Somebody else, without a key; nothing is asked for but what the link shows.
      const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, locale: 'en' });
      const other = await context.newPage();
      const [wrong, asked] = [[], []];
      other.on('pageerror', (error) => wrong.push(String(error)));
      other.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
      other.on('request', (request) => asked.push(new URL(request.url()).pathname));
      await other.goto(link);
      await other.getByRole('heading', { name: 'Which region sold most? Show it as a plot.' }).waitFor();
      await other.getByText('Shared run, read-only').waitFor();
      await other
        .getByRole('img', { name: /Image from/ })
        .first()
        .waitFor();
      assert.equal(await other.getByLabel('API key').count(), 0);
      // The answer leads to the line that shows its value, as for the owner.
      await other.getByRole('button', { name: /^98214\. Computed by cell 2, step 2/ }).click();
      await other.getByRole('button', { name: 'Show step 2' }).click();
      await other.locator('mark', { hasText: 'all 98214' }).waitFor();
      for (const name of ['Actions', 'Branch from here', 'Ask', 'Reproduce']) {
        assert.equal(await other.getByRole('button', { name, exact: true }).count(), 0, name);
      }
      await accessible(other, 'shared');
      await other.evaluate(() => scrollTo(0, 0));
      await shot(other, 'shared');
      await other.emulateMedia({ colorScheme: 'dark' });
      await shot(other, 'shared-dark');
      await other.emulateMedia({ colorScheme: 'light' });
      await other.setViewportSize({ width: 390, height: 844 });
      await fits(other, 'a shared run');
      await shot(other, 'shared-phone');
      await other.setViewportSize({ width: 1360, height: 900 });
      const api = asked.filter((path) => path.startsWith('/v1'));
      assert.ok(
        api.every((path) => path.startsWith('/v1/shared')),
        api.join(' '),
      );
      await other.goto(step);
      await other.getByText('Shared step 2, read-only').waitFor();
      await other.locator('[data-step="2"]').waitFor();
      assert.equal(await other.locator('[data-step]').count(), 1);
      assert.equal(await other.locator('[data-answer]').count(), 0);
      assert.deepEqual(wrong, []);

      // One value with its proof, from where the owner looks at it.
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: /^98214\. Computed by cell 2, step 2/ }).click();
      await page.locator('.derivation').getByRole('button', { name: 'Share', exact: true }).click();
      await dialog.getByRole('button', { name: 'Create link' }).click();
      const value = await dialog.getByLabel('Share link').inputValue();
      await dialog.locator('li', { hasText: 'Only the value 98214, and how it was computed' }).waitFor();
      await accessible(page, 'share-value');
      await other.goto(value);
      await other.getByText('Shared value 98214, read-only').waitFor();
      await other.getByRole('heading', { name: 'How 98214 was computed' }).waitFor();
      await other.locator('[data-step="2"]').waitFor();
      assert.equal(await other.locator('[data-step]').count(), 1);
      await accessible(other, 'shared-value');
      await shot(other, 'shared-value');
      await dialog.locator('li', { hasText: 'Only the value 98214' }).getByRole('button', { name: 'Revoke' }).click();
      await page.waitForFunction(() => document.querySelectorAll('dialog[open] li').length === 2);
      await other.goto(value);
      await other.reload();
      await other.getByText('This link shows nothing').waitFor();

      await dialog.getByRole('button', { name: 'Revoke' }).first().click();
      await page.waitForFunction(() => document.querySelectorAll('dialog[open] li').length === 1);
      await other.goto(link);
      await other.getByText('This link shows nothing').waitFor();
      await shot(other, 'shared-revoked');
      return page;
    },
    async 'thread: a run and its follow-ups are one conversation'() {
      const page = await open();
      await ask(page, 'What is six times seven?');
      await answered(page);
      const first = runOf(page);
      const next = async (task) => {
        await page.getByLabel('Ask a follow-up').fill(task);
        const before = page.url();
        await page.getByRole('button', { name: 'Ask', exact: true }).click();
        await page.waitForURL((url) => url.toString() !== before);
        await answered(page);
      };
      await next('And what is six times seven, again?');
      await next('And what is six times seven, at last?');
      const turns = page.locator('[data-turn]');
      await page.waitForFunction(() => document.querySelectorAll('[data-turn]').length === 2);
      assert.deepEqual(await turns.evaluateAll((all) => all.map((one) => one.open)), [false, true]);
      await turns.nth(1).getByText('It is 42.').waitFor();
      await turns.first().locator('summary').press('Enter');
      await turns.first().getByText('It is 42.').waitFor();
      await accessible(page, 'thread');
      await page.evaluate(() => scrollTo(0, 0));
      await shot(page, 'thread');
      await page.emulateMedia({ colorScheme: 'dark' });
      await shot(page, 'thread-dark');
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 390, height: 844 });
      await fits(page, 'a thread');
      await shot(page, 'thread-phone');
      await page.setViewportSize({ width: 1360, height: 900 });
      // The first turn has the others below it.
      await turns.first().getByRole('link', { name: 'Open this run' }).click();
      await page.waitForURL((url) => url.hash.includes(first));
      await page.waitForFunction(() => document.querySelectorAll('[data-turn]').length === 2);
      await page.getByRole('region', { name: 'Later in this conversation' }).waitFor();
      return page;
    },
    async 'thread: again, with the same task and with another, from the same files'() {
      const page = await open();
      await ask(page, 'Which region sold most?', { files: salesFile });
      await answered(page);
      const first = page.url();
      await act(page, 'Run again');
      await page.waitForURL((url) => url.toString() !== first);
      await answered(page);
      await page.getByText('sales.csv').first().waitFor();
      const second = page.url();
      await act(page, 'Edit the task and run again');
      const dialog = page.locator('dialog[open]');
      assert.equal(await dialog.getByLabel('Task').inputValue(), 'Which region sold most?');
      await dialog.getByLabel('Task').fill('Which region sold most? Show it as a plot.');
      await dialog.getByRole('button', { name: 'Start the run' }).click();
      await page.waitForURL((url) => url.toString() !== second);
      await answered(page);
      await page.getByRole('heading', { name: 'Which region sold most? Show it as a plot.' }).waitFor();
      return page;
    },
    async 'thread: answer, code and table are copied'() {
      const page = await open();
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await ask(page, 'Which region sold most? Show it as a plot.', { files: salesFile });
      await answered(page);
      const copied = () => page.evaluate(() => navigator.clipboard.readText());
      await page.getByRole('button', { name: 'Copy the answer' }).click();
      assert.match(await copied(), /98214/);
      await page.getByRole('button', { name: 'Copy the code' }).first().click();
      assert.match(await copied(), /import|read_csv|open/);
      await page
        .getByRole('button', { name: /^Copy the table/ })
        .first()
        .click();
      assert.match(await copied(), /amount\n.*\t\d+/);
      return page;
    },
    async 'thread: titles say the state, and who looks elsewhere is notified'() {
      const page = await open();
      await page.evaluate(() => {
        globalThis.told = [];
        globalThis.asked = 0;
        document.hasFocus = () => false;
        globalThis.Notification = class {
          static permission = 'default';
          static async requestPermission() {
            globalThis.asked += 1;
            return 'granted';
          }
          constructor(title, { body }) {
            globalThis.told.push(`${title}: ${body}`);
          }
          close() {}
        };
      });
      await ask(page, 'Please remove a file.', { approvals: 'always' });
      await page.locator('.approval').waitFor();
      assert.match(await page.title(), /^Waiting · Please remove a file\./);
      // It waits, and nobody has asked to hear of it.
      assert.deepEqual(await page.evaluate(() => [globalThis.asked, globalThis.told.length]), [0, 0]);
      await act(page, 'Notify me when it waits or is done');
      await page.getByText('The browser notifies you while the page of a run is open.').waitFor();
      await page.getByRole('button', { name: 'Reject', exact: true }).click();
      await page.waitForFunction(() => globalThis.told.length > 0);
      assert.match(await page.evaluate(() => globalThis.told[0]), /^(Waiting|Done|Ended) · Belljar: Please remove/);
      return page;
    },
  };
}
