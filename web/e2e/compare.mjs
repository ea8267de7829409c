// Runs side by side: lanes, differences of code, numbers that hold, and branches of one step.
import assert from 'node:assert/strict';

export function compareCases({ open, ask, answered, shot, accessible, hoverAll, runOf, service, salesFile }) {
  const lane = (page, letter) => page.getByRole('region', { name: `Run ${letter}`, exact: true });
  const compare = (page, ...ids) => page.goto(`${service.url}#/compare/${ids.join()}`);
  /** The cells of a row of the numbers, by the words before it. */
  const numbers = (page, label) =>
    page
      .getByRole('region', { name: 'Numbers of the answers' })
      .locator('tbody tr', { hasText: label })
      .locator('td')
      .allTextContents();
  const ran = async (page, task, how) => {
    await page.goto(`${service.url}#/`);
    await ask(page, task, how);
    await answered(page);
    return runOf(page);
  };
  return {
    async 'compare: two runs of the library, with differences and numbers that hold'() {
      const page = await open();
      await ran(page, 'Add up the squares of the list.');
      await ran(page, 'Add up the cubes of the list.');
      await page.getByRole('link', { name: 'Runs', exact: true }).click();
      await page.getByRole('searchbox').fill('of the list');
      await page.waitForFunction(() => document.querySelectorAll('.card > li').length === 2);
      // By the keyboard alone.
      await page.getByLabel('Compare: Add up the squares').focus();
      await page.keyboard.press('Space');
      await page.getByText('Select at least two.').waitFor();
      await page.getByLabel('Compare: Add up the cubes').focus();
      await page.keyboard.press('Space');
      await page.getByText('2 runs selected').waitFor();
      await accessible(page, 'library, chosen');
      await hoverAll(page, 'library, chosen');
      await shot(page, 'library-chosen');
      await page.getByRole('link', { name: 'Compare', exact: true }).focus();
      await page.keyboard.press('Enter');
      await page.waitForURL(/#\/compare\/[^,]+,[^,]+$/);
      await lane(page, 'A').getByText('squares').first().waitFor();
      await lane(page, 'B').getByText('cubes').first().waitFor();
      await page.getByText('1 of 2 numbers hold in all answers.').waitFor();
      assert.deepEqual(await numbers(page, 'count'), ['count', '3', '3', 'Same']);
      assert.deepEqual(await numbers(page, 'total'), ['total', '14', '36', 'Differs']);
      const second = page.locator('[data-row="1"] .lane').nth(1);
      await second.getByText('Other code and output than A').waitFor();
      assert.match(await second.locator('.removed').first().textContent(), /n \*\* 2/);
      assert.match(await second.locator('.added').first().textContent(), /n \*\* 3/);
      await page.getByRole('rowheader', { name: 'total' }).waitFor();
      assert.equal(await page.getByRole('rowheader', { name: 'numbers' }).count(), 0, 'it is the same in both');
      await accessible(page, 'comparison');
      await hoverAll(page, 'comparison');
      await page.evaluate(() => scrollTo(0, 0));
      await shot(page, 'compare');
      await page.emulateMedia({ colorScheme: 'dark' });
      await shot(page, 'compare-dark');
      await page.emulateMedia({ colorScheme: 'light' });
      const row = () => page.evaluate(() => document.activeElement?.dataset.row);
      await page.evaluate(() => document.activeElement?.blur());
      await page.keyboard.press('j');
      assert.equal(await row(), '1');
      await page.keyboard.press('j');
      assert.equal(await row(), '2');
      await page.keyboard.press('k');
      assert.equal(await row(), '1');
      await page.setViewportSize({ width: 390, height: 844 });
      await page.evaluate(() => scrollTo(0, 0));
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `a comparison is ${width} wide`);
      await shot(page, 'compare-phone');
      // The second lane comes by scrolling sideways, and what is of all lanes stays.
      const lanes = page.getByRole('group', { name: '2 runs side by side' });
      await lanes.evaluate((element) => (element.scrollLeft = element.scrollWidth));
      await page.waitForFunction(() => document.querySelectorAll('.lane')[1].getBoundingClientRect().right <= 391);
      const { x } = await page.getByRole('heading', { name: 'Numbers of the answers' }).boundingBox();
      assert.ok(x >= 0, `the numbers are at ${x}`);
      await page.getByRole('button', { name: '中文' }).click();
      await page.getByRole('heading', { name: '运行比较' }).waitFor();
      await page.getByText('2 个数字中有 1 个在所有答案中一致。').waitFor();
      await shot(page, 'compare-phone-chinese');
      await accessible(page, 'comparison on a phone');
      return page;
    },
    async 'compare: a step is run three ways, and one of them is continued'() {
      const page = await open();
      const first = await ran(page, 'What is six times seven?');
      await page.locator('[data-step="1"]').hover();
      await page.getByRole('button', { name: 'Branch from here' }).first().click();
      await page.getByLabel('Number of branches').selectOption('3');
      await page.getByLabel('What branch 1 does differently').fill('And thrice that?');
      await page.getByLabel('What branch 2 does differently').fill('And the double?');
      await accessible(page, 'branches');
      await shot(page, 'branch-ways');
      await page.getByRole('button', { name: 'Start 3 branches' }).click();
      await page.waitForURL(/#\/compare\/([^,]+,){3}[^,]+$/);
      await lane(page, 'A').getByText('It is 42.').waitFor();
      await lane(page, 'B').getByText('Thrice it is 126.').waitFor();
      await lane(page, 'C').getByText('The double is 84.').waitFor();
      await lane(page, 'D').getByText('It is 42.').waitFor();
      // The first step is that of all of them.
      const shared = page.locator('details.shared');
      await shared.getByText('1 step at the start, the same in all runs').click();
      await shared.getByText('product = 6 * 7').waitFor();
      await page.getByRole('heading', { name: 'Cost after step 1' }).waitFor();
      await page.locator('[data-row="2"]').getByText("'thrice', 3 * product").waitFor();
      assert.equal(await page.locator('[data-row="1"]').count(), 0);
      await accessible(page, 'branches side by side');
      await hoverAll(page, 'branches side by side');
      await page.evaluate(() => scrollTo(0, 0));
      await shot(page, 'compare-branches');
      await page.getByRole('link', { name: 'Remove run C from the comparison' }).click();
      await page.getByRole('link', { name: 'Remove run B from the comparison' }).click();
      await page.getByText('1 of 1 number holds in all answers.').waitFor();
      assert.deepEqual(await numbers(page, 'It is'), ['It is', '42', '42', 'Same']);
      await page.getByRole('link', { name: 'Continue with run B' }).click();
      await page.waitForURL((url) => url.hash.startsWith('#/runs/') && !url.hash.includes(first));
      await page.getByLabel('Ask a follow-up').waitFor();
      await page.goto(`${service.url}#/runs/${first}`);
      await page.getByRole('link', { name: 'Compare 4 runs' }).click();
      await lane(page, 'D').waitFor();
      return page;
    },
    async 'compare: equal steps stand once, with their tables and plots'() {
      const page = await open();
      const runs = [];
      for (let at = 0; at < 2; at += 1) runs.push(await ran(page, 'Which region sold most?', { files: salesFile }));
      await compare(page, ...runs);
      await page.getByText('All steps are the same.').waitFor();
      const shared = page.locator('details.shared');
      await shared.locator('summary').first().click();
      await shared.getByRole('columnheader', { name: 'amount' }).first().waitFor();
      await shared.locator('[data-step="3"]').scrollIntoViewIfNeeded();
      await shared
        .getByRole('img', { name: /Image from/ })
        .first()
        .waitFor();
      await shot(page, 'compare-shared');
      return page;
    },
    async 'compare: a lane is decided where it stands, and what cannot be shown says so'() {
      const page = await open();
      const other = await ran(page, 'What is six times seven?');
      await page.goto(`${service.url}#/`);
      await ask(page, 'Please remove a file.', { approvals: 'always' });
      await page.locator('.approval').waitFor();
      await compare(page, other, runOf(page));
      await lane(page, 'B').getByRole('button', { name: 'Reject', exact: true }).click();
      await page.locator('.approval').waitFor({ state: 'detached' });
      await compare(page, other, 'no-such-run');
      await lane(page, 'B').getByText('No such run').waitFor();
      await lane(page, 'A').getByText('It is 42.').waitFor();
      page.wrong = page.wrong.filter((text) => !/404/.test(text));
      return page;
    },
  };
}
