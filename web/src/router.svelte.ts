// Pages by hash: the service need not know them, and the page may stand behind any path.

export type Route =
  | { page: 'ask' }
  | { page: 'library' }
  | { page: 'shared'; token: string }
  | { page: 'run'; id: string; beside: string | null }
  | { page: 'sessions' }
  | { page: 'session'; id: string }
  | { page: 'admin' }
  | { page: 'unknown' };

export function readRoute(hash: string): Route {
  const path = hash.replace(/^#\/?/, '');
  const parts = path.split('/').filter((part) => part !== '');
  const word = (at: number): string => {
    try {
      return decodeURIComponent(parts[at] ?? '');
    } catch {
      return '';
    }
  };
  const [first] = parts;
  if (first === undefined || (first === 'ask' && parts.length === 1)) return { page: 'ask' };
  if (first === 'runs' && parts.length === 1) return { page: 'library' };
  if (first === 'shared' && parts.length === 2) return { page: 'shared', token: word(1) };
  if (first === 'runs' && parts.length === 2) return { page: 'run', id: word(1), beside: null };
  if (first === 'runs' && parts.length === 4 && parts[2] === 'beside') {
    return { page: 'run', id: word(1), beside: word(3) };
  }
  if (first === 'sessions' && parts.length === 1) return { page: 'sessions' };
  if (first === 'sessions' && parts.length === 2) return { page: 'session', id: word(1) };
  if (first === 'admin' && parts.length === 1) return { page: 'admin' };
  return { page: 'unknown' };
}

export const links = {
  ask: '#/',
  library: '#/runs',
  sessions: '#/sessions',
  admin: '#/admin',
  run: (id: string) => `#/runs/${encodeURIComponent(id)}`,
  beside: (id: string, other: string) => `#/runs/${encodeURIComponent(id)}/beside/${encodeURIComponent(other)}`,
  shared: (token: string) => `#/shared/${encodeURIComponent(token)}`,
  session: (id: string) => `#/sessions/${encodeURIComponent(id)}`,
};

class Router {
  route = $state<Route>(readRoute(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.route = readRoute(location.hash)));
  }

  go(hash: string): void {
    location.hash = hash;
  }
}

export const router = new Router();
