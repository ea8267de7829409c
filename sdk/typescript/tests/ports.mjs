// Ports of sessions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fetchPort } from 'belljar/node';
import { newSession, service } from './service.mjs';

const SERVER = `
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('content-length', 0)))
        status = int(self.headers.get('x-status', 418))
        self.send_response(status, 'Teapot')
        self.send_header('Location', '/elsewhere')
        self.send_header('Set-Cookie', 'a=1')
        self.send_header('Set-Cookie', 'b=2')
        self.end_headers()
        if status != 204:
            self.wfile.write(self.path.encode() + b' ' + body + b' ' + str(self.headers.get('x-own')).encode())
    def log_message(self, *args): pass
server = http.server.HTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
`;

test('a port is reached', async (t) => {
  const { session } = await newSession(t);
  assert.equal((await fetchPort(session, 8000)).status, 502, 'nothing listens yet');
  (await session.run(SERVER)).throwIfFailed();
  const post = (path, more) => fetchPort(session, 8000, path, { method: 'POST', ...more });
  const answer = await post('/a?b=1', { body: 'text', headers: { 'X-Own': '1' } });
  assert.deepEqual([answer.status, answer.statusText], [418, 'Teapot']);
  assert.equal(await answer.text(), '/a?b=1 text 1');
  assert.deepEqual(answer.headers.getSetCookie(), ['a=1', 'b=2']);
  // No path leads elsewhere, with the token, and no redirect is followed. Python's server makes one slash of two.
  const bytes = await post('//other.example/x', { body: new Uint8Array([195, 164]), headers: { 'X-Status': '302' } });
  assert.deepEqual([bytes.status, await bytes.text()], [302, '/other.example/x ä None']);
  const empty = await post('/', { headers: { 'X-Status': '204' } });
  assert.deepEqual([empty.status, await empty.text()], [204, '']);
  await assert.rejects(fetchPort(session, 8000, 'a'), TypeError);

  const port = await session.port(8000);
  assert.equal(port.host, `8000-${session.id}.localhost:${new URL(service.url).port}`);
  assert.equal(port.url, `http://${port.host}/`);
  assert.ok(port.link.startsWith(`${port.url}?`));
  assert.ok(Date.now() / 1000 < port.linkEndsAt && port.linkEndsAt < port.tokenEndsAt);
});

test('a port that is not offered, and a request that is cancelled', async (t) => {
  const { session } = await newSession(t);
  await assert.rejects(session.port(80), { code: 'port_not_offered' });
  await session.run("import socket\nlistener = socket.create_server(('127.0.0.1', 8000))");
  const signal = AbortSignal.timeout(500);
  await assert.rejects(fetchPort(session, 8000, '/', { signal }), { name: /AbortError|TimeoutError/ });
});
