// A service with its embedded page, started for a test or for pictures, and ended with it.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const belljar = process.env.BELLJAR ?? 'belljar';

/** The browser finds this name and all below it on this machine. */
const DOMAIN = 'belljar.test';

/**
 * `model` is the address of the provider; without one it is the demonstration, which needs no key. With `domain`, the
 * service has TLS and that name, with ports of sessions below it. `options` are further ones of `belljar serve`; `steps` are
 * the most that a run may have.
 */
export async function startService({ model, domain = false, options = [], steps = 60 } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'belljar-interface-'));
  writeFileSync(join(directory, 'config.toml'), `[budget]\nsteps = ${steps}\n`);
  const env = { ...process.env, BELLJAR_CONFIG: join(directory, 'config.toml') };
  if (model) env.BELLJAR_BASE_URL = model;
  const data = ['--data', join(directory, 'service')];
  const keyOf = (tenant, ...scopes) =>
    execFileSync(
      belljar,
      ['keys', 'create', ...data, '--tenant', tenant, ...scopes.flatMap((scope) => ['--scope', scope])],
      {
        env,
        stdio: ['ignore', 'pipe', 'ignore'],
        encoding: 'utf8',
      },
    ).trim();
  const keys = model
    ? {
        ours: keyOf('ours', 'runs', 'sessions'),
        theirs: keyOf('theirs', 'runs', 'sessions'),
        admin: keyOf('operators', 'runs', 'sessions', 'admin'),
      }
    : {};
  const names = domain ? certified(directory) : ['--ports-domain', 'localhost'];
  // Whoever opens a demo has its key, so it has no admin API.
  const kind = model ? ['--model', 'llamacpp/local', '--admin', '127.0.0.1:0', ...names] : ['--demo'];
  const child = spawn(
    belljar,
    ['serve', ...data, ...kind, ...options, '--listen', '127.0.0.1:0', '--timeout', '120', '--drain', '1'],
    {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const addresses = new Promise((resolve, reject) => {
    let said = '';
    child.stderr.on('data', (part) => {
      said += part;
      const found = (
        model ? /listening on (https?:\S+)\][^]*admin API at (http:\S+)\]/ : /(?:listening on|open) (http:\S+)\]/
      ).exec(said);
      if (found) resolve(found);
    });
    child.on('error', reject);
    child.on('exit', () => reject(new Error(`the service ended: ${said}`)));
  });
  const [, url, admin] = await addresses;
  return {
    url: `${domain ? url.replace('127.0.0.1', DOMAIN) : url}/`,
    admin: `${admin}/`,
    keys,
    directory,
    async stop() {
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGTERM');
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Options of a service with TLS. Pages of ports are of its site: the worst case, since browsers send them its cookie. */
function certified(directory) {
  const [certificate, key] = ['certificate.pem', 'key.pem'].map((name) => join(directory, name));
  const names = `subjectAltName=DNS:${DOMAIN},DNS:*.${DOMAIN}`;
  const request = `req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=${DOMAIN} -addext ${names}`.split(' ');
  execFileSync('openssl', [...request, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  return ['--tls-certificate', certificate, '--tls-key', key, '--host', DOMAIN, '--ports-domain', DOMAIN];
}

/** The service behind a path, as a proxy has it. */
export async function startProxy(service, prefix) {
  let isDown = false;
  const server = createServer((request, response) => {
    if (isDown) return request.destroy();
    if (!request.url.startsWith(prefix)) return response.writeHead(404).end();
    const target = new URL('/' + request.url.slice(prefix.length), service);
    const passed = send(target, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}${prefix}`,
    breakConnections: () => server.closeAllConnections(),
    /** Nobody answers any more, until it goes up again. */
    goDown: () => ((isDown = true), server.closeAllConnections()),
    goUp: () => (isDown = false),
    close: () => (server.closeAllConnections(), server.close()),
  };
}

export const startBrowser = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', `--host-resolver-rules=MAP ${DOMAIN} 127.0.0.1, MAP *.${DOMAIN} 127.0.0.1`],
  });
