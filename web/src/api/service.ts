// What the service can do, by name.
import type { Tier } from '../isolation';
import type { Order } from '../text/table';
import { act, ask, askJson, Problem, route } from './client';
import type {
  BudgetGiven,
  CellList,
  CheckpointView,
  ColumnStatistics,
  CommandView,
  CreateRun,
  DecisionAsked,
  EditPreview,
  Example,
  FileView,
  Me,
  NameInfo,
  Notebook,
  Outcome,
  Policy,
  RunPage,
  RunStateWord,
  RunView,
  SessionPage,
  SessionView,
  SharedRun,
  ShareView,
  StepPage,
  TableFilter,
  TableRows,
  TerminalSize,
  Thread,
} from './types';
import { upload } from './upload';

export const login = (key: string) => act('login', { key });
export const logout = () => act('logout');
export const me = () => askJson<Me>('v1/me');

/** The example tasks of demo mode; otherwise none. */
export async function examples(): Promise<Example[]> {
  try {
    return await askJson<Example[]>('v1/demo/examples');
  } catch (error) {
    if (error instanceof Problem && error.status > 0) return [];
    throw error;
  }
}

const page = (limit: number, cursor?: string | null) =>
  `limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`;

/** Which runs of the library are wanted. */
export interface RunQuery {
  text?: string;
  state?: RunStateWord;
  tag?: string;
  /** In seconds since 1970. */
  created_after?: number;
  parent?: string;
}

const also = (query: RunQuery) =>
  Object.entries(query)
    .map(([name, value]) => `&${name}=${encodeURIComponent(String(value))}`)
    .join('');

export const runs = {
  list: (limit = 20, cursor?: string | null, query: RunQuery = {}) =>
    askJson<RunPage>(`v1/runs?${page(limit, cursor)}${also(query)}`),
  create: (run: CreateRun) => act<RunView>('v1/runs', run),
  show: (id: string, signal?: AbortSignal) => askJson<RunView>(route`v1/runs/${id}`, signal ? { signal } : {}),
  update: async (id: string, label: { title?: string; tags?: string[] }) => {
    const response = await ask(route`v1/runs/${id}`, { method: 'PATCH', json: label });
    return (await response.json()) as RunView;
  },
  remove: (id: string) => ask(route`v1/runs/${id}`, { method: 'DELETE' }),
  thread: (id: string) => askJson<Thread>(route`v1/runs/${id}/thread`),
  again: (id: string, task?: string) => act<RunView>(route`v1/runs/${id}/again`, task ? { task } : {}),
  shares: (id: string) => askJson<{ shares: ShareView[] }>(route`v1/runs/${id}/shares`),
  share: (id: string, part: { step?: number; value?: number }) =>
    act<ShareView & { token: string }>(route`v1/runs/${id}/shares`, part),
  revokeShare: (id: string, share: string) => ask(route`v1/runs/${id}/shares/${share}`, { method: 'DELETE' }),
  eventsPath: (id: string) => route`v1/runs/${id}/events`,
  steps: (id: string, after: number, limit: number) =>
    askJson<StepPage>(`${route`v1/runs/${id}/steps`}?after=${after}&limit=${limit}`),
  cancel: (id: string) => act<RunView>(route`v1/runs/${id}/cancel`),
  interrupt: (id: string) => act<{ interrupted: boolean }>(route`v1/runs/${id}/interrupt`),
  resume: (id: string) => act<RunView>(route`v1/runs/${id}/resume`),
  decide: (id: string, approval: string, hash: string, decision: DecisionAsked) =>
    act(route`v1/runs/${id}/approvals/${approval}`, { hash, decision }),
  preview: (id: string, approval: string, code: string) =>
    act<EditPreview>(route`v1/runs/${id}/approvals/${approval}/preview`, { code }),
  reproduce: (id: string, signal: AbortSignal) => ask(route`v1/runs/${id}/reproduce`, { json: {}, signal }),
  budget: (id: string, budget: BudgetGiven) => act(route`v1/runs/${id}/budget`, budget),
  policy: (id: string, approvals: Policy) => act(route`v1/runs/${id}/policy`, { approvals }),
  followUp: (id: string, task: string) => act<RunView>(route`v1/runs/${id}/follow-up`, { task }),
  branch: (id: string, step: number, task?: string) =>
    act<RunView>(route`v1/runs/${id}/branch`, task ? { step, task } : { step }),
  artifact: (id: string, path: string) => ask(route`v1/runs/${id}/artifacts/${path}`),
  artifactPath: (id: string, path: string) => route`v1/runs/${id}/artifacts/${path}`,
  exportPath: (id: string, format: 'ipynb' | 'py' | 'html') => route`v1/runs/${id}/export` + `?format=${format}`,
};

/** What a share link shows. Its token takes the place of a key. */
export const shared = {
  show: (token: string, signal: AbortSignal) =>
    askJson<SharedRun>('v1/shared', { headers: { Authorization: `Bearer ${token}` }, signal }),
  steps: (token: string, after: number, limit: number, signal: AbortSignal) =>
    askJson<StepPage>(`v1/shared/steps?after=${after}&limit=${limit}`, {
      headers: { Authorization: `Bearer ${token}` },
      signal,
    }),
};

export const sessions = {
  list: (limit = 50, cursor?: string | null) => askJson<SessionPage>(`v1/sessions?${page(limit, cursor)}`),
  create: (asked: { environment?: string; isolation?: Tier; ttl_seconds?: number } = {}) =>
    act<SessionView>('v1/sessions', asked),
  show: (id: string, signal?: AbortSignal) => askJson<SessionView>(route`v1/sessions/${id}`, signal ? { signal } : {}),
  end: (id: string) => ask(route`v1/sessions/${id}`, { method: 'DELETE' }),
  /** Runs a cell to its end. */
  run: (id: string, code: string, wall_time_ms: number) =>
    act<Outcome>(route`v1/sessions/${id}/cells`, { code, wall_time_ms }),
  cellsPath: (id: string) => route`v1/sessions/${id}/cells`,
  cells: (id: string) => askJson<CellList>(route`v1/sessions/${id}/cells`),
  cellOutcome: (id: string, cell: number) =>
    askJson<{ outcome?: Outcome; state: string }>(route`v1/sessions/${id}/cells/${cell}`),
  notebook: (id: string) => askJson<Notebook>(route`v1/sessions/${id}/notebook`),
  storeNotebook: (id: string, notebook: Notebook) =>
    askJson<{ revision: number }>(route`v1/sessions/${id}/notebook`, { method: 'PUT', json: notebook }),
  /** `null` is the end of input. */
  answer: (id: string, cell: number, number: number, text: string | null) =>
    ask(route`v1/sessions/${id}/cells/${cell}/input`, {
      json: text === null ? { number, eof: true } : { number, text },
    }),
  interrupt: (id: string) => act<{ interrupted: boolean }>(route`v1/sessions/${id}/interrupt`),
  manifest: async (id: string) => (await askJson<{ names: NameInfo[] }>(route`v1/sessions/${id}/manifest`)).names,
  tableRows: (id: string, name: string, asked: TableAsked & { offset: number; limit: number }, signal: AbortSignal) =>
    askJson<TableRows>(`${route`v1/sessions/${id}/variables/${name}/rows`}?${tableQuery(asked)}`, { signal }),
  columnStatistics: (id: string, name: string, column: number, filters: TableFilter[], signal: AbortSignal) =>
    askJson<ColumnStatistics>(
      `${route`v1/sessions/${id}/variables/${name}/statistics`}?${tableQuery({ column, filters })}`,
      { signal },
    ),
  tableCsvPath: (id: string, name: string, asked: TableAsked) =>
    `${route`v1/sessions/${id}/variables/${name}/csv`}?${tableQuery(asked)}`,
  checkpoints: async (id: string) =>
    (await askJson<{ checkpoints: CheckpointView[] }>(route`v1/sessions/${id}/checkpoints`)).checkpoints,
  checkpoint: (id: string, name: string) => act(route`v1/sessions/${id}/checkpoints`, { name }),
  forget: (id: string, name: string) => ask(route`v1/sessions/${id}/checkpoints/${name}`, { method: 'DELETE' }),
  restore: (id: string, to: { name: string } | { cell: number }) => act(route`v1/sessions/${id}/restore`, to),
  fork: async (id: string) =>
    (await act<{ sessions: SessionView[] }>(route`v1/sessions/${id}/fork`, { count: 1 })).sessions,
  hibernate: (id: string) => act(route`v1/sessions/${id}/hibernate`),
  wake: (id: string) => act(route`v1/sessions/${id}/wake`),
  files: (id: string) => askJson<{ files: FileView[]; truncated: boolean }>(route`v1/sessions/${id}/files`),
  filePath: (id: string, path: string) => route`v1/sessions/${id}/files/${path}`,
  upload,
  remove: (id: string, path: string) => ask(route`v1/sessions/${id}/files/${path}`, { method: 'DELETE' }),
  archivePath: (id: string) => route`v1/sessions/${id}/archive`,
  snapshotPath: (id: string) => route`v1/sessions/${id}/snapshot`,
};

type TableAsked = { order?: Order | null; filters: TableFilter[] };

function tableQuery({ order, filters, ...numbers }: TableAsked & Record<string, unknown>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(numbers)) query.set(name, String(value));
  if (order) query.set('sort', String(order.column));
  if (order?.descending) query.set('descending', 'true');
  if (filters.length > 0) query.set('filters', JSON.stringify(filters));
  return query;
}

/** Bash where the session has one. */
const SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash; exec sh'];

export const terminals = {
  start: (id: string, size: TerminalSize) =>
    act<CommandView>(route`v1/sessions/${id}/commands`, { argv: SHELL, terminal: size }),
  list: async (id: string) => (await askJson<{ commands: CommandView[] }>(route`v1/sessions/${id}/commands`)).commands,
  eventsPath: (id: string, pid: number) => route`v1/sessions/${id}/commands/${pid}/events`,
  // Keys are not sent again, so they need no `Idempotency-Key`: the service keeps a bounded number of these.
  type: (id: string, pid: number, text: string) =>
    ask(route`v1/sessions/${id}/commands/${pid}/input`, { json: { text } }),
  resize: (id: string, pid: number, size: TerminalSize) =>
    ask(route`v1/sessions/${id}/commands/${pid}/resize`, { json: size }),
  kill: (id: string, pid: number) => ask(route`v1/sessions/${id}/commands/${pid}`, { method: 'DELETE' }),
};

/** Saves what the service answers. A link could not send the header that every request has. */
export async function download(path: string, name: string): Promise<void> {
  const response = await ask(path);
  save(await response.blob(), name);
}

export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
