// Serves `dist` as `belljar serve` does, with the same headers, before a service that has no interface of its own: for
// development and for tests of the page alone. Login, `v1/me` and examples are its own, the rest goes to the service.
import { createServer, request as send } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, normalize } from 'node:path';

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; " +
  "connect-src 'self'; frame-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };
const dist = new URL('../dist/', import.meta.url);

/** `keys` has the key of the service by the key that people log in with; `demo` lets everybody in with one. */
export function startPages({ service, port = 0, prefix = '/', key, demo = false, models = ['llamacpp/local'], examples = [] }) {
  const json = (response, status, value) => {
    response.writeHead(status, { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' });
    response.end(value === undefined ? '' : JSON.stringify(value));
  };
  const problem = (response, status, code) =>
    json(response, status, { type: '', title: code, status, code, detail: code, retry: false });
  const server = createServer(async (request, response) => {
    const path = (request.url ?? '/').split('?')[0];
    if (!path.startsWith(prefix)) return problem(response, 404, 'route_not_found');
    const rest = path.slice(prefix.length);
    const known = /(?:^|; )key=([^;]+)/.exec(request.headers.cookie ?? '')?.[1] ?? (demo ? key : undefined);
    if (rest === 'login') {
      let body = '';
      for await (const part of request) body += part;
      const given = JSON.parse(body || '{}').key;
      if (!/^bj_/.test(given ?? '')) return problem(response, 401, 'unauthorized');
      response.setHeader('set-cookie', `key=${given}; HttpOnly; SameSite=Strict; Path=${prefix}`);
      return json(response, 204);
    }
    if (rest === 'logout') {
      response.setHeader('set-cookie', `key=; Max-Age=0; Path=${prefix}`);
      return json(response, 204);
    }
    if (rest.startsWith('v1/')) {
      if (!known || request.headers['x-belljar'] !== '1') return problem(response, 401, 'unauthorized');
      if (rest === 'v1/me') {
        const scopes = ['runs', 'sessions', 'admin'];
        return json(response, 200, { tenant: 'team', scopes, models, demo, version: '0.1.0', budget: { steps: 60, calls: 100 } });
      }
      if (rest === 'v1/demo/examples') return demo ? json(response, 200, examples) : problem(response, 404, 'route_not_found');
      const target = new URL('/' + request.url.slice(prefix.length), service);
      const headers = { ...request.headers, host: target.host, authorization: `Bearer ${known}` };
      delete headers.cookie;
      delete headers.origin;
      const passed = send(target, { method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      passed.on('error', () => problem(response, 502, 'unreachable'));
      response.on('close', () => passed.destroy());
      request.pipe(passed);
      return;
    }
    try {
      const name = rest === '' ? 'index.html' : normalize(rest).replace(/^(\.\.\/)+/, '');
      const file = await readFile(new URL(name, dist));
      response.writeHead(200, {
        'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
      response.end(file);
    } catch {
      problem(response, 404, 'route_not_found');
    }
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => {
      const { port: chosen } = server.address();
      resolve({ url: `http://127.0.0.1:${chosen}${prefix}`, close: () => (server.closeAllConnections(), server.close()) });
    });
  });
}

if (process.argv[1]?.endsWith('page-server.mjs')) {
  const { BELLJAR_SERVICE = 'http://127.0.0.1:7878', BELLJAR_KEY, PORT = '5180', DEMO } = process.env;
  const pages = await startPages({ service: BELLJAR_SERVICE, key: BELLJAR_KEY, demo: DEMO === '1', port: Number(PORT) });
  console.log(`the page is at ${pages.url}`);
}
