// What admins see and do, at their address alone.
import assert from 'node:assert/strict';
import { join } from 'node:path';

export function adminPageCases({ open, visit, logIn, ask, shot, shots, accessible, hoverAll, service, keys }) {
  const enter = async (how = {}) => {
    const page = await visit({ url: service.admin, ...how });
    await logIn(page, keys.admin);
    await page.getByRole('heading', { name: 'Admin' }).waitFor();
    page.wrong.length = 0;
    return page;
  };
  const tab = (page, name) => page.getByRole('tab', { name, exact: true }).click();
  return {
    async 'the admin page, at its address alone'() {
      const elsewhere = await open({ key: keys.admin });
      await elsewhere.getByRole('link', { name: 'Admin' }).click();
      await elsewhere.getByText('only at the admin address', { exact: false }).waitFor();
      await shot(elsewhere, 'admin-elsewhere');
      assert.deepEqual(elsewhere.wrong, []);
      const page = await enter();
      await page.getByRole('heading', { name: 'operators' }).waitFor();
      await page.getByRole('heading', { name: 'theirs' }).waitFor();
      await accessible(page, 'admin tenants');
      await hoverAll(page, 'admin tenants');
      await page.screenshot({ path: join(shots, 'admin.png'), fullPage: true });
      await tab(page, 'Audit log');
      await page.getByRole('cell', { name: 'key_created' }).first().waitFor();
      await accessible(page, 'admin audit');
      await shot(page, 'admin-audit');
      await tab(page, 'Service');
      await page.getByText('accepts work').waitFor();
      await page.getByText('unauthorized').waitFor();
      await accessible(page, 'admin service');
      await shot(page, 'admin-service');
      // On a phone, and in the dark.
      await page.setViewportSize({ width: 390, height: 844 });
      for (const name of ['Tenants', 'Keys', 'Live', 'Audit log', 'Service']) {
        await tab(page, name);
        await page.waitForTimeout(300);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= 390, `${name} is ${width} wide`);
        await shot(page, `admin-phone-${name.replace(' ', '-').toLowerCase()}`);
      }
      await page.setViewportSize({ width: 1360, height: 900 });
      await page.emulateMedia({ colorScheme: 'dark' });
      await tab(page, 'Tenants');
      await page.getByRole('heading', { name: 'theirs' }).waitFor();
      await shot(page, 'admin-dark');
      return page;
    },
    async 'the admin page: a tenant, its key and its limits'() {
      const page = await enter();
      await page.getByRole('button', { name: 'New tenant' }).click();
      const dialog = page.locator('dialog[open]');
      await dialog.getByLabel('Tenant').fill('team-9');
      await dialog.getByLabel('Runs').uncheck();
      await dialog.getByLabel('Expires after days').fill('30');
      await accessible(page, 'admin key');
      await shot(page, 'admin-key');
      await dialog.getByRole('button', { name: 'Create key' }).click();
      const key = await dialog.getByLabel('API key').inputValue();
      assert.match(key, /^bj_[0-9a-f]{8}_[0-9a-f]{64}$/);
      const me = async () =>
        (await fetch(`${service.url}v1/me`, { headers: { authorization: `Bearer ${key}` } })).json();
      assert.deepEqual([(await me()).tenant, (await me()).scopes], ['team-9', ['sessions']]);
      await dialog.getByRole('button', { name: 'Close' }).last().click();
      assert.ok(!(await page.content()).includes(key), 'the key is still in the page');
      // By the keyboard alone.
      await page.getByRole('button', { name: 'Set limits of team-9' }).focus();
      await page.keyboard.press('Enter');
      await dialog.getByLabel('Sessions', { exact: true }).fill('3');
      await dialog.getByLabel('Memory [MB]').fill('512');
      await dialog.getByLabel('Cost per day', { exact: false }).fill('2.5');
      await dialog.getByLabel('Least isolation').selectOption('full');
      await accessible(page, 'admin limits');
      await shot(page, 'admin-limits');
      await page.keyboard.press('Enter');
      await page.getByText('Limits of team-9 set.').waitFor();
      const tenant = page.locator('li', { has: page.getByRole('heading', { name: 'team-9' }) });
      await tenant.getByText('/ 512 MB').waitFor();
      await tenant.getByText('/ 2.50').waitFor();
      await tenant.getByText('isolation: at least full').waitFor();
      // An empty field removes a quota.
      await page.getByRole('button', { name: 'Set limits of team-9' }).click();
      assert.equal(await dialog.getByLabel('Memory [MB]').inputValue(), '512');
      await dialog.getByLabel('Memory [MB]').fill('');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await tenant.getByText('/ 512 MB').waitFor({ state: 'detached' });
      await tab(page, 'Keys');
      const row = page.locator('tr', { hasText: 'team-9' });
      await row.waitFor();
      await accessible(page, 'admin keys');
      await shot(page, 'admin-keys');
      page.once('dialog', (asked) => void asked.accept());
      await row.getByRole('button', { name: /^Revoke key/ }).click();
      await row.waitFor({ state: 'detached' });
      assert.equal((await me()).code, 'unauthorized');
      await page.getByLabel('Show revoked and expired keys').check();
      await row.getByText('revoked', { exact: false }).waitFor();
      await tab(page, 'Audit log');
      await page.locator('tr', { hasText: 'key_revoked' }).first().waitFor();
      return page;
    },
    async 'the admin page: live runs are cancelled, and sessions ended'() {
      const user = await open();
      await ask(user, 'Please remove a file.', { approvals: 'always' });
      await user.locator('.approval').waitFor();
      const session = await fetch(`${service.url}v1/sessions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys.theirs}`, 'content-type': 'application/json' },
        body: '{}',
      });
      const { id } = await session.json();
      const page = await enter();
      await tab(page, 'Live');
      await page.getByRole('button', { name: `End session ${id.slice(-8)}` }).waitFor();
      const cancel = page.getByRole('button', { name: /^Cancel run/ });
      await cancel.first().waitFor();
      await accessible(page, 'admin live');
      await hoverAll(page, 'admin live');
      await shot(page, 'admin-live');
      page.on('dialog', (asked) => void asked.accept());
      await page.getByRole('button', { name: `End session ${id.slice(-8)}` }).click();
      await page.getByRole('button', { name: `End session ${id.slice(-8)}` }).waitFor({ state: 'detached' });
      const before = await cancel.count();
      await cancel.first().click();
      await page.getByText('The run is ending.').waitFor();
      await page.getByRole('button', { name: 'Reload' }).click();
      await page.waitForFunction(
        (count) => document.querySelectorAll('[aria-label^="Cancel run"]').length < count,
        before,
      );
      await tab(page, 'Audit log');
      await page.getByRole('cell', { name: 'run_cancelled' }).waitFor();
      await page.getByRole('cell', { name: 'session_ended' }).waitFor();
      return page;
    },
  };
}
