// A session that several pages look at, and its files.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

export function sessionPageCases({ open, ask, answered, download, runOf, service, salesFile }) {
  const start = async (page) => {
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: 'New session' }).click();
    await page.locator('.cm-content').waitFor();
  };
  const type = async (page, code) => {
    await page.locator('.cm-content').click();
    await page.keyboard.type(code);
    await page.keyboard.press('Shift+Enter');
  };
  return {
    async 'session page: a second page has the cells, and its notebook too'() {
      const page = await open();
      await start(page);
      await type(page, 'first = 6 * 7; print("from the first page", first)');
      await page.locator('.below', { hasText: 'from the first page 42' }).waitFor();
      const other = await open();
      await other.goto(page.url());
      const cell = other.locator('article.cell').first();
      await cell.locator('.source', { hasText: 'first = 6 * 7' }).waitFor();
      await cell.locator('.below', { hasText: 'from the first page 42' }).waitFor();
      // And what comes later.
      await type(page, 'print("later", first + 1)');
      await other.locator('.source', { hasText: 'print("later", first + 1)' }).waitFor();
      await other.locator('.below', { hasText: 'later 43' }).waitFor();
      // What the second page still asks for the new cell would wake it again.
      await other.goto('about:blank');
      await page.getByRole('button', { name: 'Hibernate' }).click();
      await page.getByRole('button', { name: 'Wake' }).waitFor();
      await other.goto(page.url());
      await other.locator('.below', { hasText: 'later 43' }).waitFor();
      // No page has woken it by looking.
      await other.getByRole('button', { name: 'Wake' }).waitFor();
      const notebook = JSON.parse(await download(other, other.getByRole('button', { name: 'Notebook (.ipynb)' })));
      assert.deepEqual(
        notebook.cells.map((one) => one.source),
        ['first = 6 * 7; print("from the first page", first)', 'print("later", first + 1)'],
      );
      assert.match(JSON.stringify(notebook.cells[1].outputs), /later 43/);
      assert.deepEqual(other.wrong, []);
      return page;
    },
    async 'session page: a file becomes part of a run, and is not deleted by one click'() {
      const page = await open();
      await start(page);
      const session = page.url();
      await page.locator('input[type=file]').setInputFiles(salesFile);
      await page.getByRole('button', { name: 'Delete sales.csv' }).click();
      // The question was dismissed.
      await page.waitForTimeout(300);
      assert.equal(await page.getByRole('button', { name: 'sales.csv', exact: true }).count(), 1);
      await page.getByRole('button', { name: 'Ask about sales.csv' }).click();
      await page.getByText('48 rows, 3 columns').waitFor();
      await ask(page, 'Which region sold most?');
      await answered(page);
      await page.getByText('41873').first().waitFor();
      await page.goto(session);
      page.once('dialog', (dialog) => dialog.accept());
      await page.getByRole('button', { name: 'Delete sales.csv' }).click();
      await page.getByRole('button', { name: 'Delete sales.csv' }).waitFor({ state: 'detached' });
      return page;
    },
    async 'session page: a large upload continues after a broken connection'() {
      const page = await open();
      await start(page);
      let parts = 0;
      await page.route('**/uploads/*', (route) =>
        route.request().method() === 'PATCH' && ++parts === 2 ? route.abort() : route.continue(),
      );
      const buffer = Buffer.alloc(20_000_000, 'region,amount\nNorth,1\n');
      await page.locator('input[type=file]').setInputFiles({ name: 'large.csv', mimeType: 'text/csv', buffer });
      await page.getByRole('progressbar', { name: 'Uploading large.csv' }).waitFor();
      await page.getByRole('button', { name: 'large.csv', exact: true }).waitFor();
      await page.getByRole('progressbar').waitFor({ state: 'detached' });
      assert.equal(parts, 4);
      const code = 'import hashlib; print(hashlib.sha256(open("large.csv", "rb").read()).hexdigest())';
      await type(page, code);
      const hash = createHash('sha256').update(buffer).digest('hex');
      await page.locator('.below', { hasText: hash }).waitFor();
      // The browser's word for the broken one.
      assert.deepEqual(page.wrong.splice(0), ['Failed to load resource: net::ERR_FAILED']);
      return page;
    },
    async 'session page: a run takes files of more than a request can have'() {
      const page = await open();
      const sessions = () =>
        page.evaluate(async () => {
          const answer = await fetch('v1/sessions?limit=200', { headers: { 'X-Belljar': '1' } });
          return (await answer.json()).sessions.length;
        });
      const before = await sessions();
      const buffer = Buffer.alloc(7_500_000, 'region,amount\nNorth,1\n');
      await ask(page, 'What is six times seven?', { files: { name: 'large.csv', mimeType: 'text/csv', buffer } });
      // No code reads it.
      await page.getByText('Unverified', { exact: true }).first().waitFor();
      const run = await page.evaluate(async (id) => {
        const answer = await fetch(`v1/runs/${id}/events`, { headers: { 'X-Belljar': '1' } });
        return await answer.text();
      }, runOf(page));
      assert.match(run, /"name":"large\.csv"[^}]*"bytes":7500000|"bytes":7500000[^}]*"name":"large\.csv"/);
      // The session that carried it is gone.
      assert.equal(await sessions(), before);
      return page;
    },
  };
}
