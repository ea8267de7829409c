// The choice of an isolation tier. The service under test has one tier, so a second one is added to what it says of
// itself; the requests are answered by the service.
import assert from 'node:assert/strict';

export function isolationCases({ open, accessible }) {
  return {
    async 'isolation: a session chooses among several tiers, and what is not there is refused'() {
      const page = await open();
      await page.getByRole('link', { name: 'Sessions' }).click();
      await page.getByRole('button', { name: 'New session' }).waitFor();
      assert.equal(await page.getByLabel('Isolation').count(), 0, 'one tier is no choice');
      await page.route('**/v1/me', async (route) => {
        const response = await route.fetch();
        const me = await response.json();
        me.isolation.unshift({ ...me.isolation[0], name: 'gvisor' });
        await route.fulfill({ response, json: me });
      });
      await page.reload();
      const asked = [];
      page.on('request', (request) => {
        if (request.method() === 'POST' && /v1\/sessions$/.test(request.url())) asked.push(request.postDataJSON());
      });
      const choice = page.getByLabel('Isolation');
      await choice.waitFor();
      assert.deepEqual(await choice.locator('option').allTextContents(), [
        'gVisor: a kernel of its own, starts in seconds',
        'Full: kernel walls, starts at once',
      ]);
      await accessible(page, 'isolation');
      await page.getByRole('button', { name: 'New session' }).click();
      await page.locator('.notices .notice', { hasText: 'it offers full' }).waitFor();
      page.wrong = page.wrong.filter((text) => !/400/.test(text));
      await choice.selectOption('full');
      await page.getByRole('button', { name: 'New session' }).click();
      await page.getByText(' · full · ').waitFor();
      assert.deepEqual(asked, [{ isolation: 'gvisor' }, { isolation: 'full' }]);
      return page;
    },
  };
}
