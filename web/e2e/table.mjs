// A table of a live session, which its page reads in parts.
import assert from 'node:assert/strict';

const FRAME = [
  'import pandas as pd',
  "sales = pd.DataFrame({'region': [['North', 'South', 'East'][n % 3] for n in range(10_000)], 'amount': range(10_000),",
  "    '<b>note</b>': '<img src=x onerror=\"top.owned=1\">'})",
].join('\n');

export function tableCases({ open, shot, accessible, hoverAll, download }) {
  const type = async (page, code) => {
    await page.locator('.cm-content').click();
    await page.keyboard.insertText(code);
    await page.keyboard.press('Shift+Enter');
  };
  /** A session with a table, and its dialog, opened by the keyboard alone. */
  const start = async (how) => {
    const page = await open(how);
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: 'New session' }).click();
    await page.locator('.cm-content').waitFor();
    await type(page, FRAME);
    const variables = page.locator('summary', { hasText: 'Variables' });
    const button = page.getByRole('button', { name: '10000 × 3: Open sales as a table' });
    await variables.waitFor();
    // On a phone the list is closed.
    if (!(await variables.evaluate((one) => one.parentElement.open))) await variables.press('Enter');
    await button.waitFor();
    await button.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Table sales' });
    await dialog.getByText('Rows 1 to 100 of 10,000').waitFor();
    return { page, dialog, button };
  };
  const first = (dialog) => dialog.locator('tbody tr').first();
  return {
    async 'table: pages, order, filters, statistics and CSV of a whole table, by the keyboard'() {
      const { page, dialog, button } = await start();
      const sizes = [];
      page.on('response', async (response) => {
        if (!response.url().includes('/variables/')) return;
        // An answer that the page no longer waits for has no body.
        const body = await response.body().catch(() => null);
        if (body) sizes.push(body.length);
      });
      assert.equal(await dialog.locator('tbody tr').count(), 100);
      assert.equal(await dialog.locator('img, b').count(), 0);
      assert.equal(await page.evaluate(() => globalThis.owned), undefined);
      await accessible(page, 'table');
      await hoverAll(page, 'table');
      await dialog.getByRole('button', { name: 'Next rows' }).press('Enter');
      await dialog.getByText('Rows 101 to 200 of 10,000').waitFor();
      await dialog.getByRole('columnheader', { name: 'amount' }).getByRole('button').first().press('Enter');
      await dialog.getByText('Rows 1 to 100 of 10,000').waitFor();
      await dialog.getByRole('columnheader', { name: 'amount' }).getByRole('button').first().press('Enter');
      await first(dialog).getByRole('cell', { name: '9999', exact: true }).waitFor();
      const filter = async (column, operator, value) => {
        await dialog.getByLabel('Column').selectOption(column);
        await dialog.getByLabel('Condition').selectOption(operator);
        await dialog.getByLabel('Value').fill(value);
        await dialog.getByLabel('Value').press('Enter');
      };
      await filter('region', 'contains', 'north');
      await dialog.getByText(/Rows 1 to 100 of 3,334\s+· filtered from 10,000/).waitFor();
      await filter('amount', 'less than', '10');
      await dialog.getByText('Rows 1 to 4 of 4').waitFor();
      await dialog.getByRole('button', { name: 'Statistics of amount' }).press('Enter');
      const figures = dialog.getByRole('region', { name: 'Statistics of amount' });
      await figures.getByText('4.5').waitFor();
      await shot(page, 'table');
      const csv = await download(page, dialog.getByRole('button', { name: 'Download as CSV' }));
      assert.deepEqual(
        csv
          .trim()
          .split('\n')
          .map((line) => line.split(',').slice(0, 2).join()),
        ['region,amount', 'North,9', 'North,6', 'North,3', 'North,0'],
      );
      await filter('amount', 'greater than', 'many');
      await dialog.getByRole('alert').getByText('A filter does not fit its column.').waitFor();
      await dialog.getByRole('button', { name: 'Remove filter: amount greater than many' }).press('Enter');
      await dialog.getByText('Rows 1 to 4 of 4').waitFor();
      page.wrong.length = 0; // the refusals of rows and statistics
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'hidden' });
      assert.ok(await button.evaluate((one) => one === document.activeElement), 'the focus is lost');
      // The table was never sent as a whole, and reading is no cell.
      assert.ok(sizes.length > 5, `only ${sizes.length} answers`);
      assert.ok(Math.max(...sizes) < 20_000, `an answer has ${Math.max(...sizes)} bytes`);
      assert.equal(await page.locator('article.cell').count(), 1);
      assert.deepEqual(page.wrong, []);
      return page;
    },
    async 'table: on a phone, in the dark and in Chinese; a value that changes or is gone is said to'() {
      const { page, dialog } = await start({ phone: true, dark: true });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `the page is ${width} wide`);
      const inside = await dialog.evaluate((one) => one.scrollWidth - one.clientWidth);
      assert.ok(inside <= 0, 'the dialog scrolls sideways');
      await shot(page, 'table-phone');
      await accessible(page, 'table on a phone');
      // Other code of the session, while the table is open.
      const other = await page.context().newPage();
      other.setDefaultTimeout(60_000);
      await other.goto(page.url());
      await other.locator('article.cell').first().waitFor();
      await type(other, 'sales = sales.head(7)');
      await dialog.getByText('Rows 1 to 7 of 7').waitFor();
      await type(other, 'del sales');
      await dialog.getByRole('alert').getByText('The variable sales no longer exists.').waitFor();
      page.wrong.length = 0; // the refusal
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: '中文' }).click();
      await type(other, 'square = pd.DataFrame([[1, 2], [3, 4]])');
      // The names are still open, in the other language.
      await page.getByRole('button', { name: '2 × 2: 以表格打开 square' }).click();
      await page.getByText('第 1 至 2 行，共 2 行').waitFor();
      await shot(page, 'table-chinese');
      return page;
    },
  };
}
