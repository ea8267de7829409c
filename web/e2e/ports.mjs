// Ports of sessions in a browser: the page of a program is shown, and can use nothing of the service beside it.
import assert from 'node:assert/strict';
import { startService } from './service.mjs';

/** Starts a session whose program listens, as the page of a logged-in person may; returns the link to its port. */
async function startProgram() {
  const call = async (path, body) => {
    const headers = { 'X-Belljar': '1', 'Content-Type': 'application/json' };
    const answer = await fetch(`v1/sessions${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  const { id } = await call('', {});
  const start = 'echo "<title>Guest</title><h1>Page of a program</h1>" > index.html; exec python -m http.server 8000';
  await call(`/${id}/commands`, { argv: ['sh', '-c', start], background: true });
  return (await call(`/${id}/ports/8000`)).link;
}

/** The sessions of a logged-in person. */
async function sessions() {
  const answer = await fetch('v1/sessions', { headers: { 'X-Belljar': '1' } });
  return (await answer.json()).sessions.map((session) => session.id).sort();
}

/** What the page of a program tries at the service, and what it gets: text, or the name of an error. */
async function attack(home) {
  const ask = (path, how) =>
    fetch(home + path, { credentials: 'include', ...how }).then(
      (answer) => answer.text(),
      (error) => error.name,
    );
  const frame = document.createElement('iframe');
  frame.src = home;
  const loaded = new Promise((resolve) => frame.addEventListener('load', resolve));
  document.body.append(frame);
  await loaded;
  const domain = location.hostname.replace(/^[^.]+\./, '');
  for (const name of ['belljar', '__Host-belljar']) {
    document.cookie = `${name}=planted; path=/; secure; domain=${domain}`;
  }
  return {
    read: await ask('v1/me'),
    marked: await ask('v1/me', { headers: { 'X-Belljar': '1' } }),
    start: await ask('v1/sessions', { mode: 'no-cors', method: 'POST', body: '{}' }),
    logout: await ask('logout', { mode: 'no-cors', method: 'POST' }),
  };
}

/** The same form as a click on a hostile page sends it, in the whole tab. */
function submitLogout(home) {
  const form = Object.assign(document.createElement('form'), { method: 'post', action: `${home}logout` });
  document.body.append(form);
  form.submit();
}

export function portCases({ open, shot, service, model }) {
  async function showAndAttack(page) {
    const home = `${new URL(page.url()).origin}/`;
    const link = await page.evaluate(startProgram);
    const guest = await page.context().newPage();
    // The program starts.
    while ((await guest.goto(link)).status() === 502) await guest.waitForTimeout(200);
    await guest.getByRole('heading', { name: 'Page of a program' }).waitFor();
    assert.doesNotMatch(guest.url(), /belljar_token/);
    await shot(guest, 'port');

    const before = await page.evaluate(sessions);
    assert.deepEqual(await guest.evaluate(attack, home), {
      read: 'TypeError',
      marked: 'TypeError',
      start: 'TypeError',
      logout: 'TypeError',
    });
    assert.equal(guest.frames()[1].url(), 'chrome-error://chromewebdata/', 'it stands in no frame');
    assert.deepEqual(await page.evaluate(sessions), before);
    const [refused] = await Promise.all([guest.waitForResponse(`${home}logout`), guest.evaluate(submitLogout, home)]);
    assert.equal(refused.status(), 403);
    // Who has no cookie of the port sees nothing of it.
    const stranger = await page.context().browser().newContext({ ignoreHTTPSErrors: true });
    const url = link.split('?')[0];
    assert.equal((await (await stranger.newPage()).goto(url)).status(), 401);
    // The person is still logged in, with the same key.
    await page.reload();
    await page.getByRole('heading', { name: 'What do you want to know?' }).waitFor();
    return (await refused.request().allHeaders()).cookie ?? '';
  }

  return {
    async 'port: the page of a program, below localhost'() {
      const page = await open({ url: service.url.replace('127.0.0.1', 'localhost') });
      assert.equal(await showAndAttack(page), '', 'another site: the browser sends no cookie');
      return page;
    },
    async 'port: the page of a program, on the site of the service'() {
      const team = await startService({ model: model.url, domain: true });
      try {
        const page = await open({ url: team.url, key: team.keys.ours });
        const sent = await showAndAttack(page);
        assert.match(sent, /__Host-belljar=bj_/, 'one site: the browser sends the cookie, the service refuses it');
        return page;
      } finally {
        await team.stop();
      }
    },
  };
}
