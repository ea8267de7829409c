import { blob, usage } from './told-run.mjs';

/** A run of many cells, as the service would tell it. */
export function longRun(count) {
  const events = [
    {
      kind: 'started',
      task: 'A long run',
      model: 'm',
      dialect: 'fenced_code',
      budget: { steps: count },
      context_window: 1,
      max_tokens: 1,
    },
  ];
  const steps = [];
  const manifest = [{ name: 'x', type: 'int', cell: 1 }];
  for (let step = 1; step <= count; step += 1) {
    const code = `import math\nfor number in range(${step}):\n    value = math.sqrt(number) + 1.5  # a comment\nprint(${step})`;
    const output = `${step}\n` + 'a line of output\n'.repeat(step % 12);
    events.push({ kind: 'asked', step, body: blob });
    events.push({
      kind: 'replied',
      step,
      took_ms: 9,
      reply: { text: `Step ${step}.\n\`\`\`python\n${code}\n\`\`\``, finish: 'stop', usage },
    });
    events.push({ kind: 'call_started', step, call: 0 });
    events.push({
      kind: 'call_ended',
      step,
      call: 0,
      result: { text: output, took_ms: 3, cell: { number: step, outcome: blob, output, manifest } },
    });
    const rows = Array.from({ length: 8 }, (_, at) => [at, at * step]);
    const table = {
      columns: [
        { name: 'a', dtype: 'int' },
        { name: 'b', dtype: 'int' },
      ],
      index: rows.map((_, at) => at),
      rows,
      total_rows: 8,
      total_columns: 2,
    };
    const displays =
      step % 3 ? [] : [{ parts: [{ mime: 'application/vnd.belljar.table+json', text: JSON.stringify(table) }] }];
    const outcome = {
      cell: step,
      status: 'success',
      cause: { kind: 'completed' },
      state: { fate: 'kept' },
      exit_code: 0,
      transcript: output,
      displays,
      stdout: { text: output, bytes: 1, omitted_bytes: 0 },
      stderr: { text: '', bytes: 0, omitted_bytes: 0 },
      durations: { total_us: 9, run_us: 9, cpu_us: 9 },
    };
    steps.push({
      number: step,
      thought: `Step ${step}.`,
      understood: true,
      calls: [{ tool: 'python', arguments: { code }, outcome }],
    });
  }
  events.push({ kind: 'ended', reason: { kind: 'answered' }, answer: 'Done.', evidence: [], artifacts: [] });
  const stream = events
    .map((event, at) => `id: ${at + 1}\nevent: ${event.kind}\ndata: ${JSON.stringify({ at: 1e12 + at, ...event })}\n\n`)
    .join('');
  const view = {
    id: 'long',
    task: 'A long run',
    model: 'm',
    tags: [],
    state: 'answered',
    created_at: 1e9,
    events: events.length,
    waits_for: [],
    evidence: [],
    artifacts: [],
  };
  return { view, stream, steps };
}
