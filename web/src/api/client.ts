// Requests to the service, relative to where the page is: it may stand behind any path.
import type { ProblemBody } from './types';

/** A refusal or a fault, as the service tells it; `code` is stable. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly retry: boolean = false,
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
    this.name = 'Problem';
  }

  /** Whether this service does not have what was asked for: an older one, or one without a part. */
  get isMissing(): boolean {
    return this.code === 'route_not_found' || this.status === 405;
  }
}

export function address(path: string): string {
  return new URL(path, document.baseURI).toString();
}

/** A path's parts, each made safe. A path of a workspace keeps its slashes. */
export function route(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return strings.reduce((whole, text, at) => {
    const part = parts[at - 1];
    const safe = String(part).split('/').map(encodeURIComponent).join('/');
    return whole + safe + text;
  });
}

export interface Asked {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** What happens when the service says that nobody is logged in. */
let whenLoggedOut = (): void => {};
export function onLoggedOut(act: () => void): void {
  whenLoggedOut = act;
}

/** What happens when the service answers, or can't be reached. */
let whenHeard = (_isReached: boolean): void => {};
export function onHeard(act: (isReached: boolean) => void): void {
  whenHeard = act;
}

/** Sends a request; what is not a success is thrown as a problem. */
export async function ask(path: string, asked: Asked = {}): Promise<Response> {
  const headers: Record<string, string> = { 'X-Belljar': '1', ...asked.headers };
  let body = asked.body;
  if (asked.json !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(asked.json);
  }
  const method = asked.method ?? (body === undefined ? 'GET' : 'POST');
  let response: Response;
  try {
    response = await fetch(address(path), {
      method,
      headers,
      body: body ?? null,
      signal: asked.signal ?? null,
      credentials: 'same-origin',
    });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    whenHeard(false);
    throw new Problem(0, 'unreachable', String(error), true);
  }
  whenHeard(true);
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) whenLoggedOut();
  throw problem;
}

async function problemOf(response: Response): Promise<Problem> {
  const after = Number(response.headers.get('Retry-After'));
  const retryAfter = after > 0 ? after : null;
  try {
    const told = (await response.json()) as ProblemBody;
    return new Problem(response.status, told.code, told.detail, told.retry, retryAfter);
  } catch {
    const code = response.status === 404 ? 'route_not_found' : 'unknown';
    return new Problem(response.status, code, response.statusText, response.status >= 500, retryAfter);
  }
}

export async function askJson<T>(path: string, asked: Asked = {}): Promise<T> {
  const response = await ask(path, asked);
  return (await response.json()) as T;
}

/** A request that changes something. It may be sent again: the same key does it once. */
export async function act<T = void>(path: string, json: unknown = {}): Promise<T> {
  const headers = { 'Idempotency-Key': crypto.randomUUID?.() ?? fallbackKey() };
  const response = await ask(path, { method: 'POST', json, headers });
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

// `randomUUID` is there in secure contexts alone; a service in a home network may have none.
function fallbackKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join('-');
}
