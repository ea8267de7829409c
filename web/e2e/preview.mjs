// What is shown of files before a question is sent.
import assert from 'node:assert/strict';

/** Files that pandas wrote, in a session. */
async function written(service, code, names) {
  const headers = { authorization: `Bearer ${service.keys.ours}` };
  const call = async (path, body) => {
    const response = await fetch(`${service.url}v1/sessions${path}`, {
      headers: { ...headers, 'content-type': 'application/json' },
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    });
    assert.ok(response.ok, `${path}: ${response.status}`);
    return response;
  };
  const { id } = await (await call('', {})).json();
  const outcome = await (await call(`/${id}/cells`, { code })).json();
  assert.equal(outcome.status, 'success', JSON.stringify(outcome.exception));
  const files = [];
  for (const name of names) {
    files.push({ name, mimeType: '', buffer: Buffer.from(await (await call(`/${id}/files/${name}`)).arrayBuffer()) });
  }
  await fetch(`${service.url}v1/sessions/${id}`, { method: 'DELETE', headers });
  return files;
}

export function previewCases({ open, shot, accessible, hoverAll, service, salesFile }) {
  const choose = (page, files) => page.locator('input[type=file]').setInputFiles(files);
  const text = (name, contents) => ({ name, mimeType: '', buffer: Buffer.from(contents) });
  const fits = async (page, where) => {
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${where} is ${width} wide`);
  };
  return {
    async 'preview: rows, names and types of a file before the question is sent'() {
      const page = await open();
      await page.getByLabel('Task').fill('Which region sold most?');
      await choose(page, salesFile);
      await page.getByText('48 rows, 3 columns').waitFor();
      await page.getByRole('columnheader', { name: 'amount integer' }).waitFor();
      await page.getByRole('columnheader', { name: 'region text' }).waitFor();
      await accessible(page, 'preview');
      await hoverAll(page, 'preview');
      await shot(page, 'preview');
      // Its controls are none of the form.
      await page.getByRole('columnheader', { name: 'amount' }).getByRole('button').click();
      await page.getByRole('button', { name: 'Show more' }).first().click();
      await page.getByText('20 of 48 rows').waitFor();
      assert.ok(!page.url().includes('/runs/'), 'it has started a run');
      await page.setViewportSize({ width: 390, height: 844 });
      await fits(page, 'a preview');
      await shot(page, 'preview-phone');
      await page.getByRole('button', { name: '中文' }).click();
      await page.getByRole('columnheader', { name: 'amount 整数' }).waitFor();
      await page.getByText('48 行，3 列').waitFor();
      return page;
    },
    async 'preview: what is odd or hostile in a file is said, and shown as text'() {
      const page = await open();
      await choose(page, [
        text('records.json', '[{"id": 12345678901234567890, "tags": ["a"]}, {"id": 2, "ok": true}]'),
        text('broken.json', '{"id": '),
        Object.assign(text('western.csv', ''), { buffer: Buffer.from('name,n\nCaf\u00e9,1\n', 'latin1') }),
        text('ragged.csv', 'a,b\n1,2\n3,4,5\n'),
        text('hostile.csv', '<img src=x onerror="top.owned=1">,b\n=cmd(),"<script>top.owned=2</script>"\n'),
        text('large.csv', `a,b\n${'1,2\n'.repeat(500_000)}`),
        text('binary.dat', '\0\0\0'),
        text('empty.csv', ''),
      ]);
      const show = async (name, ...said) => {
        const item = page.locator('li', { has: page.locator('summary', { hasText: name }) });
        // The first one was alone for a moment, and is open.
        if (!(await item.locator('details').evaluate((details) => details.open))) await item.locator('summary').click();
        for (const words of said) await item.getByText(words).first().waitFor();
        return item;
      };
      await show('records.json', '2 rows, 3 columns', '12345678901234567890', '["a"]', 'boolean');
      await show('broken.json', 'This is not valid JSON.');
      await show('western.csv', 'Not UTF-8: read as Windows-1252.', 'Café');
      await show('ragged.csv', 'Row 3 has 3 values, the header has 2.');
      const hostile = await show('hostile.csv', '<script>top.owned=2</script>');
      assert.equal(await hostile.locator('img, script').count(), 0);
      await show('large.csv', 'about 500,000 rows, 2 columns');
      await show('binary.dat', 'No preview: this is not a text file.');
      await show('empty.csv', 'This file is empty.');
      assert.equal(await page.evaluate(() => globalThis.owned), undefined);
      await accessible(page, 'odd previews');
      return page;
    },
    async 'preview: a workbook and a Parquet file are read in a session, which ends'() {
      const code =
        "import pandas as pd\nframe = pd.DataFrame({'city': ['Oslo', 'Rome'] * 500, 'n': range(1000), 'x': [0.5] * 1000})\n" +
        "frame.to_parquet('cities.parquet')\nframe.to_excel('cities.xlsx', index=False)";
      const files = await written(service, code, ['cities.parquet', 'cities.xlsx']);
      const page = await open();
      const asked = [];
      page.on('request', (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
      for (const file of files) {
        await choose(page, file);
        const button = page.getByRole('button', { name: 'Show a preview' });
        await button.waitFor();
        assert.ok(!asked.some((one) => one.startsWith('POST')), 'it was sent before somebody asked for it');
        await button.click();
        await page.getByText('1,000 rows, 3 columns').waitFor();
        await page.getByRole('columnheader', { name: 'city text' }).waitFor();
        await page.getByRole('columnheader', { name: 'n integer' }).waitFor();
        await page.getByRole('columnheader', { name: 'x number' }).waitFor();
        await page.getByRole('cell', { name: 'Oslo' }).first().waitFor();
        assert.ok(
          asked.some((one) => one.startsWith('DELETE')),
          'its session was not ended',
        );
        await shot(page, file.name.replace('cities.', 'preview-'));
        await page.getByRole('button', { name: `Remove ${file.name}` }).click();
        asked.length = 0;
      }
      await choose(page, text('cities.xlsx', 'This is no workbook.'));
      await page.getByRole('button', { name: 'Show a preview' }).click();
      await page.getByText(/Cannot read this file\. .*zip/).waitFor();
      await accessible(page, 'preview in a session');
      return page;
    },
  };
}
