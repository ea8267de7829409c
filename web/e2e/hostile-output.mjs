// Output that attacks the page, rendered in a browser: section E of the attacks. Nothing may reach the listener that
// stands for the outside, and nothing of a program may run in the page.
import assert from 'node:assert/strict';
import { tricks } from './tricks.mjs';

// eslint-disable-next-line no-control-regex
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

export function hostileCases({ open, ask, shot, fromTop, outside }) {
  // Parts of addresses and escapes are taken for values that no output shows.
  const answered = (page) =>
    page
      .getByText(/^(Answered|Unverified)$/)
      .first()
      .waitFor();
  /** What frames were forbidden is said on the console; that is as it should be. */
  const forbidden = (page) => {
    page.wrong = page.wrong.filter((text) => !/Content Security Policy|sandboxed|Unsafe attempt|Blocked/.test(text));
  };
  return {
    async 'E5: commands to a terminal are taken out'() {
      const page = await open();
      await ask(page, 'Show escapes.');
      await answered(page);
      await page.getByText('harmless line 42').first().waitFor();
      await fromTop(page);
      await shot(page, 'hostile-escapes');
      const text = await page.evaluate(() => document.querySelector('#content').textContent);
      const shown = text.replaceAll(/[\n\t]/g, ' ');
      assert.match(shown, /red link dcs/);
      assert.doesNotMatch(shown, CONTROLS);
      // The code says how it makes them; its output does not have what they carried.
      const output = (await page.locator('.output').allTextContents()).join('\n');
      assert.match(output, /eight bits/);
      assert.doesNotMatch(output, /ZXZpbA|evil\.example|secret/);
      return page;
    },
    async 'E6 and L5: nothing deceives whoever decides'() {
      const page = await open();
      await ask(page, 'Run the tricks.', { approvals: 'always', steps: tricks.length + 1 });
      const approval = page.locator('.approval');
      const rows = approval.locator('[data-line]');
      for (const [at, trick] of tricks.entries()) {
        await page.locator(`[id="approval-${at + 1}.0"]`).waitFor();
        const text = (await rows.allTextContents()).map((row) => row.replace(/\n$/, ''));
        const all = await approval.evaluate((element) => element.innerText);
        // Exactly what the service says.
        const run = await page.evaluate(async () => {
          const path = `v1/runs/${location.hash.split('/')[2]}`;
          return (await fetch(path, { headers: { 'X-Belljar': '1' } })).json();
        });
        const [asked] = run.waits_for;
        const told = asked.shown.rows.map((row) => row.parts.map((part) => part.text).join(''));
        assert.deepEqual(text, told, trick.name);
        for (const character of trick.unseen)
          assert.ok(!all.includes(character), `${trick.name}: ${escape(character)} is there`);
        assert.doesNotMatch(all, CONTROLS, trick.name);
        for (const seen of trick.mended ? [] : trick.seen) {
          const found = text.some((row) => row.includes(seen)) || all.includes(seen);
          assert.ok(found, `${trick.name}: no ${seen} in ${all}`);
        }
        if (trick.in_sight) {
          // Whoever looks at the top of the code sees the end of it, too.
          const end = rows.filter({ hasText: trick.in_sight }).last();
          const box = await approval.locator('.code-box').boundingBox();
          const place = await end.boundingBox();
          assert.ok(
            place && box && place.y + place.height <= box.y + box.height + 1,
            `${trick.name}: it is out of sight`,
          );
          assert.ok(place.x + place.width <= box.x + box.width + 1, `${trick.name}: it is too wide`);
        }
        if (/forty empty|Cyrillic letter in|full-width letters/.test(trick.name))
          await shot(page, `hostile-${trick.name.replaceAll(' ', '-')}`);
        await approval.getByRole('button', { name: 'Reject', exact: true }).click();
      }
      await page.getByText('Run this code', { exact: false }).waitFor({ state: 'detached' });
      return page;
    },
    async 'E7 and E8: HTML, SVG and Markdown stay where they are, and load nothing'() {
      const page = await open();
      await ask(page, 'Show hostile output.');
      await answered(page);
      await page.locator('iframe').nth(1).waitFor();
      const frames = page.locator('iframe');
      for (let at = 0; at < (await frames.count()); at += 1) {
        await frames.nth(at).scrollIntoViewIfNeeded();
        assert.equal(await frames.nth(at).getAttribute('sandbox'), '', 'a frame has rights');
      }
      const before = page.url();
      const hostile = page.frameLocator('iframe').first();
      // A reader clicks on all that there is.
      for (const words of ['send', 'same frame', 'whole page', 'new page', 'bold']) {
        const place = hostile.getByText(words).first();
        await place.click({ timeout: 3000 }).catch(() => {});
      }
      await page.waitForTimeout(1000);
      await fromTop(page);
      await shot(page, 'hostile');
      assert.match(await page.title(), /hostile/);
      assert.equal(page.url(), before);
      assert.equal(await page.evaluate(() => globalThis.owned), undefined);
      assert.equal(await page.locator('#content img:not([src^="data:"]):not([src^="blob:"])').count(), 0);
      assert.equal(await page.locator('#content a[href^="javascript:"]').count(), 0);
      assert.deepEqual(outside.asked, []);
      forbidden(page);
      return page;
    },
    async 'E9: what is too much is left out'() {
      const page = await open();
      await ask(page, 'Show heavy output.');
      await answered(page);
      await page
        .getByText(/too large to show|more displays not shown/)
        .first()
        .waitFor();
      await page.waitForTimeout(500);
      const counts = await page.evaluate(() => ({
        elements: document.querySelectorAll('*').length,
        pictures: document.querySelectorAll('#content img').length,
      }));
      console.log(`        ${counts.elements} elements, ${counts.pictures} pictures`);
      assert.ok(counts.elements < 3000, 'it shows too much');
      assert.equal(counts.pictures, 0);
      await fromTop(page);
      await shot(page, 'hostile-heavy');
      assert.deepEqual(outside.asked, []);
      forbidden(page);
      return page;
    },
  };
}
