// What a cell prints, while it prints it; several cells at once. BELLJAR_API_KEY=… node streaming.js
import { Belljar, type Session } from 'belljar';

const CODE = `
import time
for step in range(3):
    print("step", step, flush=True)
    time.sleep(0.1)
`;

async function watch(name: string, session: Session): Promise<void> {
  for await (const event of session.stream(CODE)) {
    if (event.type === 'output') process.stdout.write(`${name}: ${event.text}`);
    else if (event.type === 'outcome') console.log(`${name}: ${event.status}`);
  }
}

await using belljar = new Belljar();
const session = await belljar.session();
const [left, right] = await session.fork(2);
await Promise.all([watch('left', left!), watch('right', right!)]);
