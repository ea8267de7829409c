// What a user's program looks like to the compiler. `@ts-expect-error` says what must not compile.
import { Belljar, BelljarError, type CellEvent, type models, type Outcome, type RunEvent, type Session } from 'belljar';

export async function use(signal: AbortSignal | undefined): Promise<string[]> {
  await using belljar = new Belljar({ url: 'http://127.0.0.1:7878', apiKey: 'bj_key', retries: 1, fetch });
  await using session: Session = await belljar.session({
    limits: { memoryBytes: 1 << 28 },
    checkpoints: 'off',
    metadata: { any_name: 'x' },
    signal,
  });
  const outcome: Outcome = await session.run('1', { signal, onInput: async (prompt) => prompt });
  const lines: string[] = [outcome.stdout, outcome.value ?? ''];
  for await (const event of session.stream('1')) lines.push(textOf(event));
  if (outcome.cause.kind === 'wall_time') lines.push(outcome.cause.limitMs.toFixed());
  const view: models.SessionView = await session.info();
  lines.push(view.limits.memoryBytes.toFixed());
  const { exitCode } = await session.commands.run(['ls'], { signal });
  lines.push(exitCode === null ? 'no exit code' : exitCode.toFixed());
  for await (const event of await belljar.run('task', { approvals: 'never' })) lines.push(answerOf(event));
  // @ts-expect-error: an option that does not exist
  await session.run('1', { wall_time_ms: 1 });
  // @ts-expect-error: a word that does not exist
  await belljar.session({ checkpoints: 'sometimes' });
  return lines;
}

function textOf(event: CellEvent): string {
  switch (event.type) {
    case 'output':
      return event.text;
    case 'display':
      return event.text ?? '';
    case 'outcome':
      return event.throwIfFailed().stdout;
    default:
      return event.type;
  }
}

function answerOf(event: RunEvent): string {
  return event.kind === 'replied' ? event.data.tookMs.toFixed() : event.kind;
}

export const isOver = (error: unknown): boolean => error instanceof BelljarError && error.code === 'run_ended';
