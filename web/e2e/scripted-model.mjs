// A model that says what a test wants: a server with the format of OpenAI, whose replies are chosen by the task.
import { createServer } from 'node:http';

const fence = (thought, code) => `${thought}\n\n\`\`\`python\n${code}\n\`\`\``;
const tool = (name, given) => `\`\`\`${name}\n${JSON.stringify(given)}\n\`\`\``;
const plan = (...states) =>
  tool('recursive_plan_tree_todo', {
    core_goal: 'Find which region sold most, and show it',
    tree_nodes: [
      { task_name: 'Look at the file', status: states[0] },
      {
        task_name: 'Sum by region',
        status: states[1],
        children: [
          { task_name: 'Check for empty rows', status: states[1] },
          { task_name: 'Group and sum', status: states[1] },
        ],
      },
      { task_name: 'Draw the sums', status: states[2] },
    ],
  });

/** What is said to a task that has this word in it, reply after reply. */
const SCRIPTS = {
  region: [
    fence('First I look at the file.', "import pandas as pd\nsales = pd.read_csv('sales.csv')\nprint(len(sales), 'rows')\nsales.head()"),
    plan('completed', 'processing', 'pending'),
    fence(
      'Now the sums by region.',
      "import sys\ntotals = sales.groupby('region')['amount'].sum().sort_values(ascending=False)\nprint('checked', file=sys.stderr)\nprint(totals.to_string())\nprint('all', totals.sum())\ntotals.reset_index()",
    ),
    fence(
      'A plot makes the difference clear.',
      "import matplotlib.pyplot as plt\nplt.style.use('default')\nfig, ax = plt.subplots(figsize=(7, 3.6))\nax.bar(totals.index, totals.values, color=['#1d7a6d', '#5aa79b', '#9ccbc2', '#c8772e'][:len(totals)])\nax.set_ylabel('amount')\nax.spines[['top', 'right']].set_visible(False)\nfig.savefig('sales-by-region.png', dpi=110)\ntotals.to_csv('totals.csv')\nprint('saved')",
    ),
    plan('completed', 'completed', 'completed'),
    'FINAL: **North** sold most: 41873 of 98214 in all.\n\n- North: 41873\n- South: 27150\n\nThe plot is in `sales-by-region.png`.',
  ],
  six: [fence('A small computation.', 'print(6 * 7)'), 'FINAL: It is 42.'],
  slow: [
    fence('This takes a while.', "import time\nfor number in range(600):\n    print('line', number, flush=True)\n    time.sleep(0.1)"),
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
      "from IPython.display import HTML, SVG, display\nprint('\\x1b]52;c;ZXZpbA==\\x07\\x1b[31mred\\x1b[0m')\n" +
        "class Page:\n    def _repr_html_(self): return \"<script>top.document.title='owned'; fetch('http://127.0.0.1:9/x')</script><img src='http://127.0.0.1:9/y' onerror='top.location=1'><b>bold</b>\"\ndisplay(Page())",
    ),
    'FINAL: ![x](http://127.0.0.1:9/z) done 42.',
  ],
};
const OTHER = [fence('I look.', "print('hello', 99)"), 'FINAL: It said 99.'];

export function startModel({ port = 0, delay = 15 } = {}) {
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
      answer(response, reply, stream, delay);
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
