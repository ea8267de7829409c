// Files of this machine, and requests with a `Host` of their own, for Node.js and Deno.
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import * as http from 'node:http';
import * as https from 'node:https';
import { isIP } from 'node:net';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { Readable } from 'node:stream';
import { BelljarError } from './errors.js';
import type { Run } from './run.js';
import type { Session } from './session.js';
import { pack, unpack, type Entry } from './tar.js';
import { TIMES, type RequestOptions } from './transport.js';

/** Uploads a local file [default: under its own name]. */
export async function putFile(
  session: Session,
  local: string,
  options: { name?: string } & RequestOptions = {},
): Promise<void> {
  await session.files.put(options.name ?? basename(local), await readFile(local), { signal: options.signal });
}

/** Downloads a file of a session to a local one, atomically. */
export async function saveFile(
  session: Session,
  name: string,
  local: string,
  options: RequestOptions = {},
): Promise<void> {
  await replace(local, await session.files.get(name, options));
}

/** Uploads a local directory with all that is in it [default: under its own name]. Files are replaced, others stay. */
export async function uploadDirectory(
  session: Session,
  local: string,
  options: { name?: string } & RequestOptions = {},
): Promise<void> {
  const entries: Entry[] = [];
  for await (const entry of walk(local, '')) entries.push(entry);
  const { name = basename(resolve(local)), signal } = options;
  await session.files.putArchive(name, pack(entries), { signal });
}

/**
 * Downloads a directory with its files and directories into a local one, which is made if it does not exist. Local files
 * are replaced, others stay; a link is replaced, too, and not followed.
 */
export async function downloadDirectory(
  session: Session,
  name: string,
  local: string,
  options: RequestOptions = {},
): Promise<void> {
  await extract(await session.files.getArchive(name, options), local);
}

/** Downloads the artifacts of an ended run into a directory. Returns their paths. */
export async function saveArtifacts(run: Run, directory: string, options: RequestOptions = {}): Promise<string[]> {
  const saved: string[] = [];
  for (const artifact of run.artifacts) {
    const path = destination(directory, artifact.path);
    await mkdir(dirname(path), { recursive: true });
    await replace(path, await run.getArtifact(artifact.path, options));
    saved.push(path);
  }
  return saved;
}

/** A request to a program in a session. */
export interface PortRequest extends RequestOptions {
  /** [default: `GET`] */
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
}

/**
 * Sends a request to a program that listens on a port of the session, and returns its response, whatever its status is.
 * Needs no DNS: the request goes to the address of the service. Redirects are not followed. The response is untrusted.
 */
export async function fetchPort(
  session: Session,
  port: number,
  path = '/',
  options: PortRequest = {},
): Promise<Response> {
  if (!path.startsWith('/')) throw new TypeError(`the path of a request starts with '/', unlike '${path}'`);
  const { method = 'GET', headers, body, signal } = options;
  const view = await session.port(port, { signal });
  const service = new URL(session.address);
  const { request } = service.protocol === 'https:' ? https : http;
  return await new Promise((resolve, reject) => {
    const sent = request(service, {
      // As it is: `//name` is a path here, too, and no host that would get the token.
      path,
      method,
      headers: { ...headers, Host: view.host, 'X-Belljar-Port-Token': view.token },
      // The certificate is that of the service, as for all requests.
      servername: isIP(service.hostname.replace(/[[\]]/g, '')) ? '' : service.hostname,
      timeout: TIMES.silence + 5000,
      signal,
    } as https.RequestOptions);
    sent.on('timeout', () => sent.destroy(new Error('the program sent nothing for too long')));
    sent.on('error', reject);
    sent.on('response', (message) => {
      try {
        resolve(responseOf(message));
      } catch (error) {
        message.destroy();
        reject(error);
      }
    });
    sent.end(body);
  });
}

function responseOf(message: http.IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', rawHeaders: raw } = message;
  const headers = new Headers();
  for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at] ?? '', raw[at + 1] ?? '');
  // These have no body, also where a program sends one.
  const isEmpty = [204, 205, 304].includes(status);
  if (isEmpty) message.resume();
  const body = isEmpty ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
  return new Response(body, { status, statusText, headers });
}

/** @internal Writes the entries of an archive into a directory. */
export async function extract(archive: Uint8Array, local: string): Promise<void> {
  const entries = [...unpack(archive)].map((entry) => ({ ...entry, target: destination(local, entry.path) }));
  await mkdir(local, { recursive: true });
  for (const { target, contents, isExecutable } of entries) {
    await mkdir(contents === undefined ? target : dirname(target), { recursive: true });
    if (contents === undefined) continue;
    await rm(target, { force: true });
    await writeFile(target, contents, { flag: 'wx' });
    if (isExecutable) await chmod(target, (await stat(target)).mode | 0o100);
  }
}

/** Where a file goes. Its path was chosen by code that nobody has read. */
function destination(directory: string, path: string): string {
  const parts = path.split('/');
  if (
    parts.some((part) => ['', '.', '..'].includes(part) || part.includes('\0') || (sep === '\\' && /[\\:]/.test(part)))
  )
    throw new BelljarError('bad_answer', `the service names a file '${path}' outside the directory`);
  return join(directory, ...parts);
}

/** All that is in a directory. A link to a file is that file; one to a directory may lead in a circle. */
async function* walk(directory: string, inside: string): AsyncGenerator<Entry> {
  const found = await readdir(directory, { withFileTypes: true });
  found.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const entry of found) {
    const local = join(directory, entry.name);
    const path = `${inside}${entry.name}`;
    if (entry.isDirectory()) {
      yield { path };
      yield* walk(local, `${path}/`);
      continue;
    }
    const status = await stat(local);
    if (!status.isFile()) throw new TypeError(`${local} is neither a file nor a directory`);
    yield { path, contents: await readFile(local), isExecutable: (status.mode & 0o100) !== 0 };
  }
}

async function replace(path: string, contents: Uint8Array): Promise<void> {
  const scratch = join(dirname(path), `.${basename(path)}-${randomUUID()}`);
  try {
    await writeFile(scratch, contents, { flag: 'wx' });
    await rename(scratch, path);
  } catch (error) {
    await rm(scratch, { force: true });
    throw error;
  }
}
