/// <reference lib="esnext.disposable" preserve="true" />
import { BelljarError } from './errors.js';
import type * as models from './generated/models.js';
import { readOnce, streamHeaders } from './reader.js';
import { filePath, toBytes, type Contents } from './text.js';
import { change, TIMES, type Call, type RequestOptions, type Streamed, type Transport } from './transport.js';

/** A change in a watched directory. After `overflowed`, some are missing: list the directory again. */
export type FileEvent = Exclude<models.FileEvent, { type: 'end' }>;

/** The files of a session. Names are relative to its workspace, or below `/tmp`. */
export class Files {
  readonly #transport: Transport;
  readonly #session: string;

  /** @internal */
  constructor(transport: Transport, session: string) {
    this.#transport = transport;
    this.#session = session;
  }

  /** Writes a file, and makes missing directories. */
  async put(name: string, contents: Contents, options: RequestOptions = {}): Promise<void> {
    const headers = { 'Content-Type': 'application/octet-stream' };
    const call = change('PUT', this.#one(name), { body: await toBytes(contents), headers, ...options });
    await this.#transport.send(call);
  }

  /** The contents of a file. */
  async get(name: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return (await this.#transport.send({ method: 'GET', path: this.#one(name), ...options })).body;
  }

  /** The contents of a text file. */
  async getText(name: string, options: RequestOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.get(name, options));
  }

  /** Lists the files of the workspace, or of a directory in it. */
  list(directory = '', options: RequestOptions = {}): Promise<models.FileList> {
    return this.#transport.ask('FileList', this.#get('files', directory, options));
  }

  /** The kind, size, permissions and time of change of a file or directory. Links are not followed. */
  stat(name: string, options: RequestOptions = {}): Promise<models.FileStatusView> {
    return this.#transport.ask('FileStatusView', this.#get('stat', name, options));
  }

  /** Whether there is a file, a directory or a link of this name. */
  async exists(name: string, options: RequestOptions = {}): Promise<boolean> {
    try {
      await this.stat(name, options);
      return true;
    } catch (error) {
      // Also below a file, or behind a link.
      if (error instanceof BelljarError && ['file_not_found', 'not_regular'].includes(error.code)) return false;
      throw error;
    }
  }

  /** Makes a directory and its missing parents. One that exists is no error. */
  async mkdir(name: string, options: RequestOptions = {}): Promise<void> {
    const body: models.MakeDirectory = { path: name };
    const path = `${this.#session}/directories`;
    await this.#transport.send(change('POST', path, { json: ['MakeDirectory', body], ...options }));
  }

  /** Renames a file or directory, and makes missing parents. A file with the new name is replaced. */
  async rename(name: string, to: string, options: RequestOptions = {}): Promise<void> {
    const body: models.RenameFile = { from: name, to };
    await this.#transport.send(change('POST', `${this.#session}/rename`, { json: ['RenameFile', body], ...options }));
  }

  /** Deletes a file or an empty directory; with `recursive`, a directory with its contents. */
  async delete(name: string, options: { recursive?: boolean } & RequestOptions = {}): Promise<void> {
    const { recursive, signal } = options;
    const query = { recursive: recursive ? 'true' : undefined };
    await this.#transport.send(change('DELETE', this.#one(name), { query, signal }));
  }

  /** The workspace, or a directory in it, as a tar archive. */
  async getArchive(directory = '', options: RequestOptions = {}): Promise<Uint8Array> {
    return (await this.#transport.send(this.#get('archive', directory, options))).body;
  }

  /** Unpacks a tar archive into the workspace (`''`), or a directory in it. Files are replaced, others stay. */
  async putArchive(directory: string, archive: Contents, options: RequestOptions = {}): Promise<void> {
    const headers = { 'Content-Type': 'application/x-tar' };
    const query = { path: directory || undefined };
    const call = { body: await toBytes(archive), headers, query, ...options };
    await this.#transport.send(change('PUT', `${this.#session}/archive`, call));
  }

  /** Watches the workspace or a directory for changes, from now on. Directories in it are not watched. */
  async watch(directory = '', options: RequestOptions = {}): Promise<Watch> {
    const call = { ...this.#get('watch', directory, options), headers: streamHeaders, patience: TIMES.silence };
    return new Watch(this.#transport, await this.#transport.open(call));
  }

  #one(name: string): string {
    return `${this.#session}/files/${filePath(name)}`;
  }

  #get(what: string, path: string, options: RequestOptions): Call {
    return { method: 'GET', path: `${this.#session}/${what}`, query: { path: path || undefined }, ...options };
  }
}

/**
 * The changes in a directory, for one `for await` loop. Leaving the loop, or `await using`, ends the watch.
 *
 * The loop ends when the directory is deleted, or the session hibernates or ends. It throws when the connection breaks,
 * since nobody knows what was missed.
 */
export class Watch implements AsyncIterableIterator<FileEvent, void, void>, AsyncDisposable {
  readonly #response: Streamed;
  readonly #events: AsyncGenerator<models.FileEvent, void, void>;

  /** @internal */
  constructor(transport: Transport, response: Streamed) {
    this.#response = response;
    this.#events = readOnce(transport, response, (_, data) => transport.parse<models.FileEvent>('FileEvent', data));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<FileEvent, void>> {
    const { done, value } = await this.#events.next();
    return done || value.type === 'end' ? this.return() : { done: false, value };
  }

  /** Ends the watch. */
  async return(): Promise<IteratorReturnResult<void>> {
    this.#response.close();
    await this.#events.return();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}
