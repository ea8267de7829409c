// Pages by hash: the service need not know them, and the page may stand behind any path.
import { MOST_LANES } from './run/lanes';

export type Route =
  | { page: 'ask' }
  | { page: 'library' }
  | { page: 'shared'; token: string }
  | { page: 'run'; id: string }
  | { page: 'compare'; ids: string[] }
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
  if (first === 'runs' && parts.length === 2) return { page: 'run', id: word(1) };
  // As it was before more than two could be compared.
  if (first === 'runs' && parts.length === 4 && parts[2] === 'beside') return compared([word(1), word(3)]);
  if (first === 'compare' && parts.length === 2) return compared(word(1).split(','));
  if (first === 'sessions' && parts.length === 1) return { page: 'sessions' };
  if (first === 'sessions' && parts.length === 2) return { page: 'session', id: word(1) };
  if (first === 'admin' && parts.length === 1) return { page: 'admin' };
  return { page: 'unknown' };
}

function compared(given: string[]): Route {
  const ids = [...new Set(given.filter((id) => id !== ''))];
  return ids.length < 2 || ids.length > MOST_LANES ? { page: 'unknown' } : { page: 'compare', ids };
}

export const links = {
  ask: '#/',
  library: '#/runs',
  sessions: '#/sessions',
  admin: '#/admin',
  run: (id: string) => `#/runs/${encodeURIComponent(id)}`,
  compare: (ids: string[]) => `#/compare/${ids.map(encodeURIComponent).join(',')}`,
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
