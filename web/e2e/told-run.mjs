// Runs as the service would tell them, for what a page makes of them.

export const usage = {
  input_tokens: 9,
  output_tokens: 9,
  cached_tokens: 0,
  cache_write_tokens: 0,
  thinking_tokens: 0,
  estimated: false,
};
export const blob = { hash: '0'.repeat(64), bytes: 1, media_type: 'application/json' };

/** A run of these steps: `text`, or `code` with what its cell showed. */
export function toldRun(id, steps, { dialect = 'fenced_code', ending } = {}) {
  const budget = { steps: 100 };
  const events = [
    { kind: 'started', task: `Told: ${id}`, model: 'm', dialect, budget, context_window: 1, max_tokens: 1 },
  ];
  const views = [];
  for (const [at, told] of steps.entries()) {
    const step = at + 1;
    const { text = `Step ${step}.`, code, stdout = '', displays = [], exception, answer, note } = told;
    const written = code === undefined ? text : `${text}\n\`\`\`python\n${code}\n\`\`\``;
    events.push({ kind: 'asked', step, body: blob });
    events.push({ kind: 'replied', step, took_ms: 9, reply: { text: written, finish: 'stop', usage } });
    const view = { number: step, understood: true, calls: [] };
    if (code === undefined) Object.assign(view, { answer, note });
    else {
      view.thought = text;
      const cell = { number: step, outcome: blob, output: stdout };
      events.push({ kind: 'call_started', step, call: 0 });
      events.push({
        kind: 'call_ended',
        step,
        call: 0,
        result: { text: stdout, took_ms: 3, failed: !!exception, cell },
      });
      const outcome = {
        cell: step,
        status: exception ? 'failure' : 'success',
        cause: { kind: exception ? 'exception' : 'completed' },
        state: { fate: 'kept' },
        exit_code: 0,
        transcript: stdout,
        displays,
        exception,
        stdout: { text: stdout, bytes: 1, omitted_bytes: 0 },
        stderr: { text: '', bytes: 0, omitted_bytes: 0 },
        durations: { total_us: 9, run_us: 9, cpu_us: 9 },
      };
      view.calls.push({ tool: 'python', arguments: { code }, outcome });
    }
    views.push(view);
  }
  events.push({
    kind: 'ended',
    reason: { kind: 'answered' },
    answer: 'Done.',
    evidence: [],
    artifacts: [],
    ...ending,
  });
  const stream = events
    .map((event, at) => `id: ${at + 1}\nevent: ${event.kind}\ndata: ${JSON.stringify({ at: 1e12 + at, ...event })}\n\n`)
    .join('');
  const view = {
    id,
    task: `Told: ${id}`,
    model: 'm',
    tags: [],
    state: 'answered',
    created_at: 1e9,
    events: events.length,
    waits_for: [],
    evidence: [],
    artifacts: [],
  };
  return { view, stream, steps: views };
}

/** Has the page hear of it, and shows it. */
export async function showRun(page, { view, stream, steps }) {
  await page.route(`**/v1/runs/${view.id}`, (route) => route.fulfill({ json: view }));
  await page.route(`**/v1/runs/${view.id}/thread`, (route) => route.fulfill({ json: { earlier: [], later: [] } }));
  await page.route(`**/v1/runs/${view.id}/events`, (route) =>
    route.fulfill({ contentType: 'text/event-stream', body: stream }),
  );
  await page.route(`**/v1/runs/${view.id}/steps?*`, (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const after = Number(asked.get('after'));
    return route.fulfill({ json: { steps: steps.slice(after, after + Number(asked.get('limit'))), more: true } });
  });
  await page.evaluate((id) => (location.hash = `#/runs/${id}`), view.id);
}
