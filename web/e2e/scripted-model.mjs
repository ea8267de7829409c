// A model that says what a test wants: a server with the format of OpenAI, whose replies are chosen by the task.
import { createServer } from 'node:http';

const fence = (thought, code) => `${thought}\n\n\`\`\`python\n${code}\n\`\`\``;
/** What is said to a task that has this word in it, reply after reply. */
const SCRIPTS = {
  region: [
    fence('First I look at the file.', "import pandas as pd\nsales = pd.read_csv('sales.csv')\nprint(len(sales), 'rows')\nsales.head()"),
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
  six: [fence('A small computation.', 'print(6 * 7)'), 'FINAL: It is 42.'],
  slow: [
    fence('This takes a while.', "import time\nfor number in range(1000):\n    print('line', number, flush=True)\n    time.sleep(0.1)"),
    fence('It was interrupted; I print less.', "print('short', 12345)"),
    'FINAL: The number is 12345.',
  ],
  crash: [
    fence('I keep a value.', 'kept = 4217\nprint(kept)'),
    fence('Now something dangerous.', 'import ctypes\nctypes.string_at(0)'),
    fence('The state was restored, so the value is still there.', "print('still', kept)"),
    fence('One with an error.', 'print(missing_name + 1)'),
    fence('And one with an exception.', "{}['absent']"),
    'FINAL: The value is still 4217.',
  ],
  hostile: [
    fence(
      'Output that attacks the page.',
      "print('\\x1b]52;c;ZXZpbA==\\x07\\x1b[31mred\\x1b[0m', 42)\n" +
        'class Page:\n' +
        '    def _repr_html_(self):\n' +
        "        return \"<script>top.document.title='owned'; fetch('http://127.0.0.1:OUTSIDE/x')</script><img src='http://127.0.0.1:OUTSIDE/y' onerror='top.location=1'><p onclick='alert(1)'>bold <b>move</b></p><form action='http://127.0.0.1:OUTSIDE/f'><button>send</button></form>\"\n" +
        'class Drawing:\n' +
        '    def _repr_svg_(self):\n' +
        "        return \"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 60' onload='top.document.title=1'><script>top.document.title='owned'</script><image href='http://127.0.0.1:OUTSIDE/s'/><rect width='200' height='60' rx='8' fill='teal'/></svg>\"\n" +
        'display(Page())\n' +
        'display(Drawing())',
    ),
    'FINAL: ![x](http://127.0.0.1:OUTSIDE/z) done 42.',
  ],
};
const OTHER = [fence('I look.', "print('hello', 99)"), 'FINAL: It said 99.'];

/** `outside` is the port of whoever stands for the world that hostile output wants to reach. */
export function startModel({ port = 0, delay = 15, outside = 9 } = {}) {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      const { messages = [], stream } = JSON.parse(body || '{}');
      // Before the task there may be examples of how a model is to write; after it come its own turns.
      const words = [...Object.keys(SCRIPTS), 'cells'];
      const task = messages.findIndex(
        (message) => message.role === 'user' && words.some((one) => JSON.stringify(message.content).includes(one)),
      );
      const asked = JSON.stringify(messages[task]?.content ?? '');
      const word = Object.keys(SCRIPTS).find((one) => asked.includes(one));
      const many = /make (\d+) cells/.exec(asked);
      const turns = messages.slice(task + 1).filter((message) => message.role === 'assistant').length;
      const script = SCRIPTS[word] ?? OTHER;
      const reply = many
        ? turns < Number(many[1])
          ? fence(`Step ${turns + 1}.`, `value_${turns} = ${turns}\nprint('value', value_${turns})\nfor line in range(3):\n    print('line', line)`)
          : 'FINAL: Done.'
        : (script[turns] ?? script.at(-1));
      answer(response, reply.replaceAll('OUTSIDE', String(outside)), stream, delay);
    });
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve({ port: server.address().port, close: () => server.close() }));
  });
}

async function answer(response, text, stream, delay) {
  const usage = { prompt_tokens: 900, completion_tokens: Math.ceil(text.length / 4), total_tokens: 0 };
  if (!stream) {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content: text }, finish_reason: 'stop' }], usage }));
    return;
  }
  response.setHeader('content-type', 'text/event-stream');
  const say = (value) => response.write(`data: ${JSON.stringify({ id: 'one', object: 'chat.completion.chunk', model: 'scripted', ...value })}\n\n`);
  for (let at = 0; at < text.length; at += 9) {
    say({ choices: [{ index: 0, delta: { content: text.slice(at, at + 9) } }] });
    if (delay) await new Promise((resolve) => setTimeout(resolve, delay));
  }
  say({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  say({ choices: [], usage });
  response.end('data: [DONE]\n\n');
}

if (process.argv[1]?.endsWith('scripted-model.mjs')) {
  const model = await startModel({ port: Number(process.argv[2] ?? 8080), delay: Number(process.argv[3] ?? 15) });
  console.log(`a scripted model listens on http://127.0.0.1:${model.port}/v1`);
}
