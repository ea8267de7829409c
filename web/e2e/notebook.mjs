// The notebook of a session: cells edited and run again in their place, opened from a file, hostile files.
import assert from 'node:assert/strict';

export function notebookCases({ open, download, shot, fromTop, accessible, hoverAll, service }) {
  const start = async (page) => {
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: 'New session' }).click();
    await page.locator('.cm-content').waitFor();
  };
  const editor = (page) => page.locator('.write .cm-content');
  const type = async (page, code) => {
    await editor(page).click();
    await page.keyboard.type(code);
    await page.keyboard.press('Shift+Enter');
  };
  const cell = (page, name) => page.getByRole('article', { name, exact: true });
  const more = async (page, name, action) => {
    await cell(page, name).locator('summary', { hasText: 'More' }).click();
    await cell(page, name).getByRole('button', { name: action }).click();
  };
  /** What is written replaces all of it. */
  const rewrite = async (page, name, code, key = 'Shift+Enter') => {
    await cell(page, name).getByRole('button', { name: 'Edit', exact: true }).click();
    await cell(page, name).locator('.cm-focused').waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.type(code);
    await page.keyboard.press(key);
  };
  const names = (page) => page.locator('article.cell').evaluateAll((all) => all.map((one) => one.ariaLabel));
  const shows = async (page, expected) => {
    await page.waitForFunction(
      (all) => JSON.stringify([...document.querySelectorAll('article.cell')].map((one) => one.ariaLabel)) === all,
      JSON.stringify(expected),
    );
  };
  const below = (page, name, text) => cell(page, name).locator('.below', { hasText: text });
  const openFile = async (page, contents) => {
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Open a notebook' }).click(),
    ]);
    const buffer = Buffer.from(typeof contents === 'string' ? contents : JSON.stringify(contents));
    await chooser.setFiles({ name: 'file.ipynb', mimeType: 'application/x-ipynb+json', buffer });
  };
  const code = (source, outputs = []) => ({ cell_type: 'code', source, outputs, metadata: {}, execution_count: 7 });
  const text = (source) => ({ cell_type: 'markdown', source, metadata: {} });
  const file = (...cells) => ({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells });

  return {
    async 'notebook: a cell is edited and run again in its place'() {
      const page = await open();
      await start(page);
      await type(page, 'rate = 2');
      await type(page, 'print("price", 21 * rate)');
      await below(page, 'Cell 2', 'price 42').waitFor();
      // Escape throws the edit away; a list of names that is open or about to open takes the first one.
      await rewrite(page, 'Cell 1', 'rate = 1000', 'Escape');
      while ((await cell(page, 'Cell 1').locator('.cm-content').count()) > 0) await page.keyboard.press('Escape');
      await cell(page, 'Cell 1').locator('.source', { hasText: 'rate = 2' }).waitFor();
      await rewrite(page, 'Cell 1', 'rate = 3');
      await shows(page, ['Cell 3', 'Cell 2']);
      await cell(page, 'Cell 3').locator('.source', { hasText: 'rate = 3' }).waitFor();
      await cell(page, 'Cell 2').getByText('rate was changed by cell 3, which ran out of order').waitFor();
      await below(page, 'Cell 2', 'price 42').waitFor();
      await accessible(page, 'notebook');
      await hoverAll(page, 'notebook');
      await fromTop(page);
      await shot(page, 'notebook');
      const other = await open();
      await other.goto(page.url());
      await shows(other, ['Cell 3', 'Cell 2']);
      await cell(page, 'Cell 2').getByRole('button', { name: 'Run again' }).click();
      await below(page, 'Cell 4', 'price 63').waitFor();
      assert.equal(await page.getByText('out of date').count(), 0);
      await shows(page, ['Cell 3', 'Cell 4']);
      // The other page follows, and its changes are here.
      await below(other, 'Cell 4', 'price 63').waitFor();
      await shows(other, ['Cell 3', 'Cell 4']);
      await more(other, 'Cell 3', 'Insert a cell below');
      await cell(other, 'Not run').locator('.cm-focused').waitFor();
      await other.keyboard.type('rate = 5');
      await other.keyboard.press('Shift+Enter');
      await shows(other, ['Cell 3', 'Cell 5', 'Cell 4']);
      await shows(page, ['Cell 3', 'Cell 5', 'Cell 4']);
      await more(page, 'Cell 3', 'Remove from the notebook');
      await shows(other, ['Cell 5', 'Cell 4']);
      // The changed code runs first, then what is below it.
      await more(page, 'Cell 5', 'Run this and all below');
      await below(page, 'Cell 7', 'price 105').waitFor();
      await shows(page, ['Cell 6', 'Cell 7']);
      await page.reload();
      await below(page, 'Cell 7', 'price 105').waitFor();
      await shows(page, ['Cell 6', 'Cell 7']);
      assert.equal(await page.getByText('no longer kept').count(), 0);
      const notebook = JSON.parse(await download(page, page.getByRole('button', { name: 'Notebook (.ipynb)' })));
      assert.deepEqual(
        notebook.cells.map((one) => [one.source, one.execution_count]),
        [
          ['rate = 5', 6],
          ['print("price", 21 * rate)', 7],
        ],
      );
      // All executions are kept.
      const history = await page.evaluate(async (id) => {
        const answer = await fetch(`v1/sessions/${id}/cells`, { headers: { 'X-Belljar': '1' } });
        return (await answer.json()).cells.map((one) => one.code);
      }, new URL(page.url()).hash.split('/')[2]);
      assert.equal(history.length, 7);
      assert.equal(history[0], 'rate = 2');
      assert.deepEqual(other.wrong, []);
      return page;
    },
    async 'notebook: only cells that read a changed name are marked'() {
      const page = await open();
      await start(page);
      await type(page, 'rate = 2');
      await type(page, 'price = 21 * rate');
      await type(page, 'print("other", 7)');
      await type(page, 'print("price", price)');
      await below(page, 'Cell 4', 'price 42').waitFor();
      await rewrite(page, 'Cell 1', 'rate = 3');
      await shows(page, ['Cell 5', 'Cell 2', 'Cell 3', 'Cell 4']);
      const marked = async (...expected) => {
        const all = () => page.locator('article.cell', { hasText: 'out of date' });
        await page.waitForFunction(
          (count) => document.querySelectorAll('article.cell .earlier').length === count,
          expected.length,
        );
        assert.deepEqual(await all().evaluateAll((found) => found.map((one) => one.ariaLabel)), expected);
      };
      // What was computed from it is outdated, too. Another page says the same.
      await marked('Cell 2', 'Cell 4');
      await page.reload();
      await marked('Cell 2', 'Cell 4');
      await cell(page, 'Cell 2').getByRole('button', { name: 'Run again' }).click();
      await shows(page, ['Cell 5', 'Cell 6', 'Cell 3', 'Cell 4']);
      await marked('Cell 4');
      await cell(page, 'Cell 4').getByText('price was changed by cell 6, which ran out of order').waitFor();
      await cell(page, 'Cell 4').getByRole('button', { name: 'Run again' }).click();
      await below(page, 'Cell 7', 'price 63').waitFor();
      await marked();
      // A magic does not say its names: then the order counts.
      await rewrite(page, 'Cell 3', '%time print("other", 8)');
      await shows(page, ['Cell 5', 'Cell 6', 'Cell 8', 'Cell 7']);
      await cell(page, 'Cell 7').getByText('Ran before cell 8 above').waitFor();
      return page;
    },
    async 'notebook: opened from a file, run until the first error, exported as shown'() {
      const page = await open();
      await start(page);
      await openFile(
        page,
        file(
          text('# Report\n\nOf **all** regions.'),
          code(['n = 20\n', 'print("first", n)'], [{ output_type: 'stream', name: 'stdout', text: 'forged 99' }]),
          code('print("second", n / 0)'),
          code('print("third", n)'),
        ),
      );
      await page.getByText('4 cells added to the notebook.', { exact: false }).waitFor();
      await page.getByText('1 output of the file is left out', { exact: false }).waitFor();
      await page.locator('.markdown .heading', { hasText: 'Report' }).waitFor();
      assert.deepEqual(await names(page), ['Not run', 'Not run', 'Not run']);
      assert.equal(await page.getByText('forged 99').count(), 0);
      // Nothing has run, and the page keeps it.
      await page.reload();
      await page.locator('.markdown .heading', { hasText: 'Report' }).waitFor();
      assert.deepEqual(await names(page), ['Not run', 'Not run', 'Not run']);
      assert.equal(await page.getByText('awake').count(), 1);
      await page.getByRole('button', { name: 'Run all' }).click();
      await below(page, 'Cell 1', 'first 20').waitFor();
      await page.getByText('Stopped at cell 2: it did not succeed.').waitFor();
      await shows(page, ['Cell 1', 'Cell 2', 'Not run']);
      await rewrite(page, 'Cell 2', 'print("second", n / 5)');
      await below(page, 'Cell 3', 'second 4').waitFor();
      await accessible(page, 'opened notebook');
      await shot(page, 'notebook-opened');
      await page.getByRole('button', { name: 'Run all' }).click();
      await below(page, 'Cell 6', 'third 20').waitFor();
      const notebook = JSON.parse(await download(page, page.getByRole('button', { name: 'Notebook (.ipynb)' })));
      assert.deepEqual(
        notebook.cells.map((one) => [one.cell_type, one.source, one.execution_count]),
        [
          ['markdown', '# Report\n\nOf **all** regions.', undefined],
          ['code', 'n = 20\nprint("first", n)', 4],
          ['code', 'print("second", n / 5)', 5],
          ['code', 'print("third", n)', 6],
        ],
      );
      assert.match(JSON.stringify(notebook.cells[2].outputs), /second 4/);
      // What was exported can be opened again.
      await openFile(page, notebook);
      await page.getByText('3 outputs of the file are left out', { exact: false }).waitFor();
      await shows(page, ['Cell 4', 'Cell 5', 'Cell 6', 'Not run', 'Not run', 'Not run']);
      return page;
    },
    async 'notebook: opened from the list of sessions, its text edited'() {
      const page = await open();
      await page.getByRole('link', { name: 'Sessions' }).click();
      const before = page.url();
      // A file that cannot be kept makes no session.
      const live = () =>
        page.evaluate(async () => {
          const answer = await fetch('v1/sessions', { headers: { 'X-Belljar': '1' } });
          return (await answer.json()).sessions.length;
        });
      const count = await live();
      await openFile(page, file(code('#'.repeat(1_100_000))));
      await page.getByText('the limit is 1048576', { exact: false }).waitFor();
      page.wrong = page.wrong.filter((words) => !/413/.test(words));
      assert.equal(page.url(), before);
      assert.equal(await live(), count);
      await openFile(page, file(text('# Plan'), code('print(6 * 7)')));
      await page.getByText('2 cells added to the notebook.', { exact: false }).waitFor();
      await page.locator('.markdown .heading', { hasText: 'Plan' }).waitFor();
      assert.deepEqual(await names(page), ['Not run']);
      const written = cell(page, 'Text');
      await written.getByRole('button', { name: 'Edit', exact: true }).click();
      const field = page.locator('textarea');
      await field.fill('# Another plan');
      // Unfinished text outlives a reload.
      await page.reload();
      await field.waitFor();
      assert.equal(await field.inputValue(), '# Another plan');
      await accessible(page, 'text of a notebook');
      await field.press('Escape');
      await page.locator('.markdown .heading', { hasText: /^Plan$/ }).waitFor();
      await written.getByRole('button', { name: 'Edit', exact: true }).click();
      await field.fill('# Another plan\n\nIn **two** steps.');
      await field.press('Shift+Enter');
      await page.locator('.markdown .heading', { hasText: 'Another plan' }).waitFor();
      await more(page, 'Text', 'Insert text below');
      await field.fill('The result:');
      await page.getByRole('button', { name: 'Done' }).click();
      await page.getByText('The result:').waitFor();
      // One without text is not kept.
      await more(page, 'Not run', 'Insert text below');
      await field.press('Escape');
      await field.waitFor({ state: 'detached' });
      await cell(page, 'Not run').getByRole('button', { name: 'Run', exact: true }).click();
      await below(page, 'Cell 1', '42').waitFor();
      await page.reload();
      await below(page, 'Cell 1', '42').waitFor();
      const notebook = JSON.parse(await download(page, page.getByRole('button', { name: 'Notebook (.ipynb)' })));
      assert.deepEqual(
        notebook.cells.map((one) => [one.cell_type, one.source]),
        [
          ['markdown', '# Another plan\n\nIn **two** steps.'],
          ['markdown', 'The result:'],
          ['code', 'print(6 * 7)'],
        ],
      );
      return page;
    },
    async 'notebook: hostile files run nothing, and are refused in plain words'() {
      const page = await open();
      await start(page);
      for (const [contents, words] of [
        ['{"cells": [', 'The file is not valid JSON.'],
        ['{"a": 1}', 'The file is not a Jupyter notebook.'],
        [{ nbformat: 3, worksheets: [] }, 'The file has notebook format 3; only format 4 can be opened.'],
        [file(...Array(1001).fill(code('x'))), 'The notebook has more than 1000 cells.'],
        [' '.repeat(10_000_001), 'The file is larger than 10 MB.'],
        [file({ cell_type: 'raw', source: 'x' }), 'The file has no code and no text.'],
      ]) {
        await openFile(page, contents);
        await page.getByText(words, { exact: false }).waitFor();
        assert.equal(await page.locator('article').count(), 0);
      }
      await openFile(page, file(code('#'.repeat(1_100_000))));
      await page.getByText('the limit is 1048576', { exact: false }).waitFor();
      await page.locator('article').first().waitFor({ state: 'detached' });
      page.wrong = page.wrong.filter((words) => !/413/.test(words));
      const attack = '<img src="x" onerror="document.title=\'owned\'"><script>document.title="owned"</script>';
      const html = { output_type: 'display_data', data: { 'text/html': attack }, metadata: {} };
      await openFile(
        page,
        file(
          text(`${attack}\n\n[link](javascript:document.title='owned') ![](${service.url}x.png)`),
          code(attack, [html]),
        ),
      );
      await page.locator('.markdown', { hasText: '<script>' }).waitFor();
      await page.waitForTimeout(500);
      assert.doesNotMatch(await page.title(), /owned/);
      assert.equal(await page.locator('article :is(img, a, iframe, script)').count(), 0);
      assert.deepEqual(await names(page), ['Not run']);
      return page;
    },
    async 'notebook: on a phone, in the dark, in Chinese, while it hibernates'() {
      const page = await open({ phone: true, dark: true });
      await start(page);
      await type(page, 'first = 1');
      await type(page, 'print("a long line of output", first, list(range(100)))');
      await below(page, 'Cell 2', 'a long line').waitFor();
      await rewrite(page, 'Cell 1', 'first = 2');
      await shows(page, ['Cell 3', 'Cell 2']);
      const panels = () => page.locator('aside details').evaluateAll((all) => all.map((one) => one.open));
      await page.locator('aside summary', { hasText: 'Variables' }).click();
      assert.deepEqual(await panels(), [true, false, false, false]);
      await page.getByRole('button', { name: '中文' }).click();
      await page.locator('aside summary', { hasText: '变量' }).waitFor();
      assert.deepEqual(await panels(), [true, false, false, false], 'the language has closed a panel');
      await page.getByText('first 由未按顺序运行的单元 3 更改：输出可能已过时。').waitFor();
      await cell(page, '单元 2').locator('summary', { hasText: '更多' }).click();
      await cell(page, '单元 2').getByRole('button', { name: '运行此单元及以下全部' }).waitFor();
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `it is ${width} wide`);
      await accessible(page, 'notebook on a phone');
      await shot(page, 'notebook-phone');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: '休眠' }).click();
      await page.getByRole('button', { name: '唤醒' }).waitFor();
      await page.reload();
      await page.getByText('first 由未按顺序运行的单元 3 更改：输出可能已过时。').waitFor();
      await page.getByRole('button', { name: '唤醒' }).waitFor();
      await cell(page, '单元 2').getByRole('button', { name: '再次运行' }).click();
      await below(page, '单元 4', 'a long line').waitFor();
      return page;
    },
  };
}
