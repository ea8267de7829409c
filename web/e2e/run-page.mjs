// A run while it prints, what of it is in sight, and what a reader may believe.
import assert from 'node:assert/strict';
import { longRun } from './long-run.mjs';
import { showRun, toldRun } from './told-run.mjs';

const inSight = (locator) =>
  locator.evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  });

export function runPageCases({ open, ask, shot, answered, accessible }) {
  return {
    async 'run page: a cell that prints is followed, read and stopped'() {
      const page = await open();
      await page.setViewportSize({ width: 1360, height: 560 });
      await ask(page, 'Keep printing, please.');
      const newest = page.locator('.live pre');
      await newest.filter({ hasText: 'line 60' }).waitFor();
      // The newest line is the one that is seen.
      const isAtEnd = () =>
        newest.evaluate((box) => [
          box.scrollHeight > box.clientHeight,
          box.scrollTop + box.clientHeight - box.scrollHeight,
        ]);
      const [isLong, distance] = await isAtEnd();
      assert.ok(isLong && Math.abs(distance) < 5, `the newest line is ${distance} away`);
      assert.ok(await inSight(page.getByRole('button', { name: 'Stop' })), 'Stop is out of reach');
      const clock = () => page.locator('aside dl > div', { hasText: /^Code/ }).locator('dd').textContent();
      const before = await clock();
      await page.waitForTimeout(1300);
      assert.notEqual(await clock(), before, 'the clock stands still');
      await shot(page, 'printing');
      // Who scrolls up a little is not taken back.
      await page.mouse.move(20, 400);
      await page.mouse.wheel(0, -60);
      await page.getByRole('button', { name: 'Follow live' }).waitFor();
      const place = await page.evaluate(() => scrollY);
      await page.waitForTimeout(400);
      assert.ok(Math.abs((await page.evaluate(() => scrollY)) - place) < 30, 'it snaps back');
      // The answer comes above, and who reads below is told.
      await page.getByRole('button', { name: 'Go to the answer' }).click();
      assert.ok(await inSight(page.locator('[data-answer]')), 'the answer is out of sight');
      return page;
    },
    async 'run page: who follows is taken to the answer'() {
      const page = await open();
      await page.setViewportSize({ width: 1360, height: 420 });
      await ask(page, 'What is six times seven?');
      await answered(page);
      await page.waitForFunction(() => document.activeElement?.matches('[data-answer]'));
      assert.ok(await inSight(page.getByText('It is 42.').first()), 'the answer is out of sight');
      return page;
    },
    async 'run page: a run is reproduced, and its value is the same'() {
      const page = await open();
      await ask(page, 'What is six times seven?');
      await answered(page);
      await page.getByRole('button', { name: 'Reproduce', exact: true }).click();
      await page.locator('.reproduce tr', { hasText: /^42\s*Identical\s*Cell 1/ }).waitFor();
      await page.getByText('Values: 1 of 1 identical').waitFor();
      await accessible(page);
      await shot(page, 'reproduced');
      return page;
    },
    async 'run page: the digits of an answer are not its number'() {
      const page = await open();
      await ask(page, 'How many million rows are there?');
      // Printed is 48, the answer says 48 million.
      await page.getByText('Unverified', { exact: true }).first().waitFor();
      await page.getByText('No output shows 48.').waitFor();
      await page
        .locator('[data-answer] .nowhere', { hasText: '48' })
        .getByText('No evidence in any output: check it yourself')
        .waitFor({ state: 'attached' });
      assert.equal(await page.getByRole('button', { name: /^48/ }).count(), 0, 'it leads to a line');
      return page;
    },
    async 'run page: edited code shows what it can do, and not what the old code could'() {
      const page = await open();
      await ask(page, 'Please remove a file.', { approvals: 'always' });
      const approval = page.locator('.approval');
      await approval.locator('.findings', { hasText: 'deletes files' }).waitFor();
      await approval.getByText('exactly these bytes').waitFor();
      await page.getByRole('button', { name: 'Reject with feedback' }).waitFor();
      await page.keyboard.press('e');
      await page.locator('.cm-content').click();
      // The service has not looked at it: nothing is said of it.
      await page.route('**/preview', async (route) => {
        await new Promise((resolve) => setTimeout(resolve, 500));
        await route.continue();
      });
      await page.keyboard.press('Control+a');
      await page.keyboard.type('print(open("sales.csv").read())');
      assert.equal(await approval.getByText('deletes files').count(), 0);
      assert.equal(await approval.getByText('exactly these bytes').count(), 0);
      await approval.locator('.findings', { hasText: 'reads files' }).waitFor();
      await approval.getByText('exactly the edited code').waitFor();
      assert.equal(await approval.getByText('deletes files').count(), 0);
      return page;
    },
    async 'run page: tables, tracebacks, drawings and values that nothing shows'() {
      const page = await open();
      const rows = Array.from({ length: 200 }, (_, at) => [at]);
      const table = { columns: [{ name: 'n', dtype: 'int' }], index: null, rows, total_rows: 5000, total_columns: 1 };
      const svg =
        '<svg xmlns="http://www.w3.org/2000/svg" width="500" height="1500"><rect width="500" height="1500" fill="teal"/>' +
        '<rect y="1450" width="500" height="50" fill="red"/></svg>';
      const frames = Array.from({ length: 60 }, (_, at) => `  File "<cell 2>", line ${at}, in deep`).join('\n');
      const traceback = `Traceback (most recent call last):\n${frames}\nValueError: the cause\n`;
      const run = toldRun(
        'shown',
        [
          { text: 'It is 41.', answer: 'It is 41.', note: 'No output shows 41.' },
          { code: 'fail()', exception: { type: 'ValueError', value: 'the cause', repr: '', traceback } },
          {
            code: 'table',
            displays: [{ parts: [{ mime: 'application/vnd.belljar.table+json', text: JSON.stringify(table) }] }],
          },
          { code: 'draw()', displays: [{ parts: [{ mime: 'image/svg+xml', text: svg }] }] },
        ],
        {
          dialect: 'native_tools',
          ending: { answer: 'It is 43.', evidence: [{ value: '43' }], artifacts: [] },
        },
      );
      await showRun(page, run);
      // The reason stands there, for who can't hover too.
      await page.getByText('No evidence in any output: check it yourself').last().waitFor();
      assert.ok(await inSight(page.locator('.unseen-values')));
      // An answer that was sent back is no blank step.
      await page.locator('[data-step="1"]').getByText('Answer sent back to the model').click();
      await page.locator('[data-step="1"]').getByText('It is 41.').waitFor();
      const error = page.locator('[data-step="2"] .traceback');
      await error.scrollIntoViewIfNeeded();
      assert.match(await error.locator('pre').evaluate((pre) => pre.innerText), /ValueError: the cause\s*$/);
      assert.ok(
        await error.locator('pre').evaluate((pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4),
        'the line of the exception is scrolled away',
      );
      await page.getByRole('columnheader', { name: 'n' }).getByRole('button').click();
      await page.getByText('Sorted among the first 200 rows only; the table has 5,000.').waitFor();
      const frame = page.locator('[data-step="4"] iframe');
      await frame.scrollIntoViewIfNeeded();
      const picture = await page.frameLocator('[data-step="4"] iframe').locator('img').boundingBox();
      const around = await frame.boundingBox();
      assert.ok(picture.height <= around.height + 1 && picture.width <= around.width + 1, 'the drawing is cropped');
      assert.ok(Math.abs(around.width / around.height - 1 / 3) < 0.1, `${around.width} x ${around.height}`);
      await shot(page, 'shown');
      await accessible(page, 'shown');
      // The menu closes as one does.
      const menu = page.locator('summary', { hasText: 'Export' });
      await menu.click();
      await page.getByRole('button', { name: 'HTML page (.html)' }).focus();
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('details.menu[open]').count(), 0);
      assert.ok(await menu.evaluate((summary) => summary === document.activeElement));
      return page;
    },
    async 'run page: far steps are searched and printed'() {
      const page = await open();
      const run = longRun(60);
      await showRun(page, { ...run, view: { ...run.view, id: 'long' } });
      await page.locator('[data-step="60"]').waitFor({ state: 'attached' });
      const far = page.locator('[hidden="until-found"]', { hasText: 'range(45)' });
      await far.waitFor({ state: 'attached' });
      assert.equal(await page.locator('[data-step="45"]').count(), 0, 'it is drawn already');
      assert.ok(await page.evaluate(() => find('range(45)')), 'a search does not find it');
      // What a browser does when it has found something.
      await far.evaluate((element) => element.dispatchEvent(new Event('beforematch', { bubbles: true })));
      await page.locator('[data-step="45"]').getByText('range(45)').waitFor();
      await page.waitForFunction(() => {
        const { top } = document.querySelector('[data-step="45"]').getBoundingClientRect();
        return top >= 0 && top < innerHeight;
      });
      await page.evaluate(() => {
        window.print = () => {
          const steps = [...document.querySelectorAll('[data-step]')];
          globalThis.printed = [steps.length, steps.filter((step) => /range\(/.test(step.textContent)).length];
          globalThis.printed.push(document.querySelectorAll('[data-step] table').length);
        };
      });
      await page.keyboard.press('Control+p');
      await page.waitForFunction(() => globalThis.printed);
      assert.deepEqual(await page.evaluate(() => globalThis.printed), [60, 60, 20]);
      return page;
    },
  };
}
