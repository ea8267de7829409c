// The terminal of a session: a real shell behind the walls, drawn by xterm.js.
import assert from 'node:assert/strict';
import { startProxy } from './service.mjs';

/** A full-screen program that every session has: it draws its size, also after a resize, until `q`. */
const FULL_SCREEN = `
import curses, sys
def main(screen):
    curses.curs_set(0)
    while True:
        rows, columns = screen.getmaxyx()
        screen.erase()
        screen.addstr(0, 0, f"screen of {rows} x {columns}")
        screen.addstr(rows - 1, 0, "last row")
        screen.refresh()
        if screen.getch() == ord("q"):
            break
curses.wrapper(main)
`;

export function terminalCases({ open, shot, accessible, service }) {
  /** Opens the terminal of a new session. */
  async function start(how) {
    const page = await open(how);
    await page.getByRole('link', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: 'New session' }).click();
    await page.getByRole('tab', { name: 'Terminal' }).click();
    await prompt(page);
    return page;
  }
  const screen = (page) => page.locator('.xterm-rows');
  const shows = (page, text) => screen(page).filter({ hasText: text }).waitFor();
  const lines = (page) => page.locator('.xterm-rows > div').allTextContents();
  const type = async (page, line) => {
    await page.keyboard.type(line);
    await page.keyboard.press('Enter');
  };
  /** The shell waits for a line: the last line that has something ends in `$` or `#`. */
  const prompt = (page) =>
    page.waitForFunction(() => {
      const rows = [...document.querySelectorAll('.xterm-rows > div')].map((row) => row.textContent.trimEnd());
      return /[$#]$/.test(rows.findLast((row) => row !== '') ?? '');
    });
  const sessionOf = (page) => new URL(page.url()).hash.split('/')[2];
  const commandsOf = (page) =>
    page.evaluate(async (id) => {
      const answer = await fetch(`v1/sessions/${id}/commands`, { headers: { 'X-Belljar': '1' } });
      return (await answer.json()).commands;
    }, sessionOf(page));

  return {
    async 'terminal: a line, Ctrl-C, and the end'() {
      const page = await start();
      await type(page, 'echo six times seven is $((6 * 7))');
      await shows(page, 'six times seven is 42');
      // Ctrl-C ends the program, not the shell.
      await type(page, 'sleep 100; echo ended by $?');
      await shows(page, /sleep 100.*\$\?/);
      assert.doesNotMatch(
        (await lines(page)).findLast((row) => row.trim() !== ''),
        /[$#]\s*$/,
      );
      await page.keyboard.press('Control+C');
      await prompt(page);
      await type(page, 'echo still here');
      await shows(page, 'still here');
      // It is the session of the notebook.
      await type(page, 'echo from the shell > note.txt; export kept=1');
      await prompt(page);
      const files = page.getByRole('group', { name: 'Files' });
      await files.getByText('note.txt').waitFor();
      // One that is made without a word is there after a change of the tab.
      await type(page, '(sleep 2; touch later.txt) &');
      await prompt(page);
      await page.waitForTimeout(2500);
      assert.equal(await files.getByText('later.txt').count(), 0);
      await page.getByRole('tab', { name: 'Notebook' }).click();
      await files.getByText('later.txt').waitFor();
      await page.locator('.cm-content').click();
      await page.keyboard.type('open("note.txt").read()');
      await page.keyboard.press('Shift+Enter');
      await page.locator('.cell .below', { hasText: 'from the shell' }).waitFor();
      await page.getByRole('tab', { name: 'Terminal' }).click();
      await accessible(page, 'terminal');
      await shot(page, 'terminal');
      await page.getByRole('textbox', { name: 'Terminal. F6 leaves it.' }).focus();
      await type(page, 'exit 3');
      await page.getByText('The shell exited with code 3.').waitFor();
      await shot(page, 'terminal-ended');
      await page.getByRole('button', { name: 'New terminal' }).click();
      await prompt(page);
      await type(page, 'echo "again $kept."');
      await shows(page, 'again .');
      await page.getByRole('button', { name: 'Kill the shell' }).click();
      await page.getByText('The shell was killed by SIGKILL.').waitFor();
      assert.deepEqual(
        (await commandsOf(page)).map((command) => command.state),
        ['ended', 'ended'],
      );
      return page;
    },
    async 'a cell asks for a line and a password'() {
      const page = await open();
      await page.getByRole('link', { name: 'Sessions' }).click();
      await page.getByRole('button', { name: 'New session' }).click();
      await page.locator('.cm-content').click();
      await page.keyboard.type('import getpass\nname = input("\\x1b[2JName: ")\nprint(name, len(getpass.getpass()))');
      await page.keyboard.press('Shift+Enter');
      await page.getByLabel('Name:').waitFor();
      // An open question outlives a reload.
      await page.reload();
      const name = page.getByLabel('Name:');
      await name.fill('Zoë');
      await accessible(page, 'question');
      await shot(page, 'question');
      await name.press('Enter');
      const password = page.getByLabel('Password:');
      assert.equal(await password.getAttribute('type'), 'password');
      await password.fill('s3cret');
      await page.getByRole('button', { name: 'Answer' }).click();
      await page.locator('.cell .below', { hasText: 'Zoë 6' }).waitFor();
      assert.equal(await password.count(), 0);
      return page;
    },
    async 'terminal: a full-screen program, resized'() {
      const page = await start({ dark: true });
      await type(page, `cat > full.py <<'END'${FULL_SCREEN}END`);
      await prompt(page);
      await type(page, 'clear; python full.py');
      await shows(page, /screen of \d+ x \d+/);
      const first = /screen of (\d+) x (\d+)/.exec(await screen(page).textContent());
      assert.equal((await lines(page)).length, Number(first[1]), 'all rows are drawn');
      await shot(page, 'terminal-full-screen');
      await page.setViewportSize({ width: 1000, height: 600 });
      await page.waitForFunction(
        (before) => {
          const now = /screen of (\d+) x (\d+)/.exec(document.querySelector('.xterm-rows').textContent);
          return now && Number(now[1]) < before[0] && Number(now[2]) < before[1];
        },
        [Number(first[1]), Number(first[2])],
      );
      assert.match((await lines(page)).at(-1), /last row/);
      await page.keyboard.press('q');
      await prompt(page);
      assert.doesNotMatch(await screen(page).textContent(), /last row/);
      // The keyboard can leave: Tab belongs to the shell, F6 to the page.
      await page.keyboard.press('Tab');
      assert.ok(await page.evaluate(() => document.activeElement.classList.contains('xterm-helper-textarea')));
      await page.keyboard.press('F6');
      assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Kill the shell');
      await page.setViewportSize({ width: 390, height: 844 });
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        'it is wider than a phone',
      );
      await shot(page, 'terminal-phone');
      return page;
    },
    async 'terminal: vi writes a file, and follows the size of the page'() {
      const page = await start();
      /** What vi answers on its last row, beside what the page has. */
      const setting = async (name) => {
        await type(page, `:set ${name}?`);
        const row = await page.waitForFunction(
          (name) =>
            new RegExp(`^\\s*${name}=(\\d+)`).exec(
              [...document.querySelectorAll('.xterm-rows > div')].at(-1).textContent,
            ),
          name,
        );
        return Number((await row.jsonValue())[1]);
      };
      const rows = async () => (await lines(page)).length;
      await type(page, 'vi note.txt');
      await shows(page, /~.*~.*note\.txt.*\[New/s);
      await page.keyboard.type('ifrom vi');
      await page.keyboard.press('Escape');
      const before = [await setting('lines'), await setting('columns')];
      assert.equal(before[0], await rows());
      await page.setViewportSize({ width: 1000, height: 600 });
      await page.waitForFunction((before) => document.querySelectorAll('.xterm-rows > div').length < before, before[0]);
      // Its own rows are drawn anew, down to the last but one.
      await page.waitForFunction(() => {
        const shown = [...document.querySelectorAll('.xterm-rows > div')].map((row) => row.textContent.trim());
        return shown[0] === 'from vi' && shown.slice(1, -1).every((row) => row === '~');
      });
      const after = [await setting('lines'), await setting('columns')];
      assert.equal(after[0], await rows());
      assert.ok(after[1] < before[1], `${before} and then ${after}`);
      await shot(page, 'terminal-vi');
      await type(page, ':wq');
      await prompt(page);
      assert.doesNotMatch(await screen(page).textContent(), /~/, 'the screen before vi is back');
      await type(page, 'cat note.txt; echo of $(tput cols) columns');
      await shows(page, new RegExp(`from vi.*of ${after[1]} columns`, 's'));
      return page;
    },
    async 'terminal: reload and a lost connection'() {
      const proxy = await startProxy(service.url, '/some/prefix/');
      const page = await start({ url: proxy.url });
      // A question of a program in old output is not answered a second time, as if somebody had typed.
      await type(page, "place=here; printf '\\033[6n'; read -r -s -d R -t 5; echo $place");
      await shows(page, /\nhere|\$here|here.*here/s);
      await prompt(page);
      const [before] = await commandsOf(page);
      await page.reload();
      await shows(page, 'here');
      await prompt(page);
      await type(page, 'echo still $place');
      await shows(page, 'still here');
      assert.doesNotMatch(await screen(page).textContent(), /\d+;\d+R/, 'an answer was typed');
      // No output is lost, and none comes twice.
      await type(page, 'clear; for i in 1 2 3 4 5 6 7 8 9; do echo tick $i; sleep 0.3; done');
      await shows(page, 'tick 2');
      proxy.breakConnections();
      await page.getByText('Connection lost.', { exact: false }).waitFor();
      await shows(page, 'tick 9');
      await prompt(page);
      const ticks = (await lines(page)).filter((row) => /^tick/.test(row)).map((row) => row.trim());
      assert.deepEqual(
        ticks,
        [1, 2, 3, 4, 5, 6, 7, 8, 9].map((at) => `tick ${at}`),
      );
      assert.deepEqual(
        (await commandsOf(page)).map((command) => [command.pid, command.state]),
        [[before.pid, 'running']],
      );
      proxy.close();
      // The browser reports what broke.
      page.wrong = page.wrong.filter((text) => !/net::ERR_/.test(text));
      return page;
    },
  };
}
