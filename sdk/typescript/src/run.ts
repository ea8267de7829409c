import type * as models from './generated/models.js';
import { endedTooEarly, read, readOnce, streamHeaders } from './reader.js';
import { filePath, part } from './text.js';
import { change, TIMES, type RequestOptions, type Transport } from './transport.js';

/** One fact about a run, from its journal. `number` counts from 1 without gaps. */
export type RunEvent = {
  [Kind in models.RunEvent['kind']]: {
    number: number;
    kind: Kind;
    data: Extract<models.RunEvent, { kind: Kind }>;
  };
}[models.RunEvent['kind']];

/** Budget of a run, at most the service's maximum. */
export type Budget = models.BudgetAsked;

/** A new share link. */
export interface Share {
  /** It is revoked by this id. */
  id: string;
  /** Address of its page, which needs no key. The service does not show it again. */
  link: string;
}

/** A decision about an approval [default: the first of `waitsFor`]. */
export interface DecisionOptions extends RequestOptions {
  approval?: models.Approval;
}

/** A run. `view` is its last known state: `state`, `spent` and the rest. Iterating over it yields its events. */
export class Run implements AsyncIterable<RunEvent> {
  readonly id: string;
  readonly #transport: Transport;
  readonly #path: string;
  #view: models.RunView;

  /** @internal */
  constructor(transport: Transport, view: models.RunView) {
    this.id = view.id;
    this.#transport = transport;
    this.#path = `/v1/runs/${part(view.id)}`;
    this.#view = view;
  }

  /** The last known state of the run. */
  get view(): models.RunView {
    return this.#view;
  }

  /** The answer, or the best one so far, after the end of the run. */
  get answer(): string | undefined {
    return this.#view.answer ?? undefined;
  }

  /** Pending approvals. */
  get waitsFor(): models.Approval[] {
    return this.#view.waitsFor ?? [];
  }

  /** Files that the run made, after its end; `getArtifact` downloads them. */
  get artifacts(): models.Artifact[] {
    return this.#view.artifacts ?? [];
  }

  [Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, void> {
    return this.events();
  }

  /**
   * The events of the run after a number, to its end.
   *
   * After a broken connection, the client reconnects and continues after the last event. `view` is updated when the run
   * needs approval and when it has ended.
   */
  async *events(options: { after?: number } & RequestOptions = {}): AsyncGenerator<RunEvent, void, void> {
    const { after = 0, signal } = options;
    let ended = false;
    const events = read<RunEvent>(this.#transport, {
      after,
      call: (again) => again(`${this.#path}/events`),
      event: (kind, data, number) => {
        ended = kind === 'ended';
        return { number, kind, data: this.#transport.parse('RunEvent', data) } as RunEvent;
      },
      ended: () => ended,
      isWhole: async (last) => {
        const { reason, events } = await this.refresh({ signal });
        return reason != null && last >= events;
      },
      signal,
    });
    for await (const event of events) {
      if (event.kind === 'approval_asked' || event.kind === 'ended') await this.refresh({ signal });
      yield event;
    }
  }

  /**
   * Waits for the end of the run. Returns its answer, reason, evidence and artifacts. A run that needs approval waits
   * until somebody decides.
   */
  async result(options: RequestOptions = {}): Promise<models.RunView> {
    for await (const _ of this.events({ ...options, after: this.#view.events }));
    return this.#view;
  }

  /** The current state of the run. */
  async refresh(options: RequestOptions = {}): Promise<models.RunView> {
    this.#view = await this.#transport.ask('RunView', { method: 'GET', path: this.#path, ...options });
    return this.#view;
  }

  /** Approves. `restOfRun` also approves similar requests from now on. */
  async approve(options: { restOfRun?: boolean } & DecisionOptions = {}): Promise<void> {
    await this.#decide({ kind: 'accept', restOfRun: options.restOfRun ?? false }, options);
  }

  /** Runs this code instead. */
  async edit(code: string, options: DecisionOptions = {}): Promise<void> {
    await this.#decide({ kind: 'edit', code }, options);
  }

  /** Rejects, with optional feedback for the model. */
  async reject(options: { feedback?: string } & DecisionOptions = {}): Promise<void> {
    const { feedback } = options;
    await this.#decide(feedback === undefined ? { kind: 'reject' } : { kind: 'feedback', text: feedback }, options);
  }

  async #decide(decision: models.DecisionAsked, { approval, signal }: DecisionOptions): Promise<void> {
    if (approval === undefined && this.waitsFor.length === 0) await this.refresh({ signal });
    const decided = approval ?? this.waitsFor[0];
    if (decided === undefined) throw new TypeError('the run waits for nobody');
    // The decision is for exactly what was shown.
    const body: models.Decide = { hash: decided.hash, decision };
    const path = `${this.#path}/approvals/${part(decided.id)}`;
    await this.#transport.send(change('POST', path, { json: ['Decide', body], signal }));
    await this.refresh({ signal });
  }

  /** Cancels the run, with the best answer so far. */
  async cancel(options: RequestOptions = {}): Promise<void> {
    await this.#change('cancel', 'Nothing', {}, options);
  }

  /** Interrupts the running cell, like Ctrl-C; the model sees this and continues. False if none is running. */
  async interrupt(options: RequestOptions = {}): Promise<boolean> {
    const call = change('POST', `${this.#path}/interrupt`, { json: ['Nothing', {}], ...options });
    return (await this.#transport.ask<models.Interrupted>('Interrupted', call)).interrupted;
  }

  /** Resumes an interrupted run. */
  async resume(options: RequestOptions = {}): Promise<void> {
    await this.#change('resume', 'Nothing', {}, options);
  }

  /** Deletes the ended run with its files. Runs that continue it stay unchanged. */
  async delete(options: RequestOptions = {}): Promise<void> {
    // The run may take long: no request waits for its end.
    await this.#transport.send(change('DELETE', this.#path, { final: ['run_not_ended'], ...options }));
  }

  /** Raises the budget. */
  async raiseBudget(budget: Budget, options: RequestOptions = {}): Promise<void> {
    await this.#change('budget', 'BudgetAsked', budget, options);
  }

  /** Sets the approval policy for the rest of the run. */
  async setPolicy(approvals: models.PolicyAsked, options: RequestOptions = {}): Promise<void> {
    const body: models.SetPolicy = { approvals };
    await this.#change('policy', 'SetPolicy', body, options);
  }

  /** Starts a follow-up: a run that continues from the end of this one. */
  followUp(task: string, options: RequestOptions = {}): Promise<Run> {
    const body: models.FollowUp = { task };
    return this.#continue('follow-up', 'FollowUp', body, options);
  }

  /** Starts a branch: a run that continues after a step of this one [default: with the same task]. */
  branch(step: number, options: { task?: string } & RequestOptions = {}): Promise<Run> {
    const { task, signal } = options;
    const body: models.BranchFrom = { step, task };
    return this.#continue('branch', 'BranchFrom', body, { signal });
  }

  /** The contents of an artifact. */
  async getArtifact(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
    const call = { method: 'GET', path: `${this.#path}/artifacts/${filePath(path)}`, ...options };
    return (await this.#transport.send(call)).body;
  }

  /** The run as notebook, script or HTML page. */
  async export(format: 'ipynb' | 'py' | 'html', options: RequestOptions = {}): Promise<string> {
    const call = { method: 'GET', path: `${this.#path}/export`, query: { format }, ...options };
    return new TextDecoder().decode((await this.#transport.send(call)).body);
  }

  /**
   * Runs the code of the ended run again, twice, and compares its values and files. It takes about twice as long as the
   * code took.
   */
  async reproduce(options: RequestOptions = {}): Promise<models.Reproduction> {
    const response = await this.#transport.open({
      method: 'POST',
      path: `${this.#path}/reproduce`,
      json: ['Nothing', {}],
      headers: streamHeaders,
      patience: TIMES.silence,
      once: true,
      ...options,
    });
    for await (const { kind, data } of readOnce(this.#transport, response, (kind, data) => ({ kind, data }))) {
      if (kind === 'problem') throw this.#transport.problem(JSON.parse(data));
      if (kind === 'reproduction') return this.#transport.parse('Reproduction', data);
    }
    throw this.#transport.unreachable(endedTooEarly());
  }

  /**
   * Makes a link that shows the run without a key, until it is revoked: all of it, one step, or one value of the answer
   * with how it was computed. `value` is as in `view.evidence`.
   */
  async share(options: { step?: number; value?: string } & RequestOptions = {}): Promise<Share> {
    const { step, value, signal } = options;
    const body: models.CreateShare = { step };
    if (value !== undefined) {
      const { evidence } = await this.refresh({ signal });
      body.value = evidence.findIndex((one) => one.value === value) + 1;
      if (body.value === 0) throw new TypeError(`the answer has no value '${value}'`);
    }
    const call = change('POST', `${this.#path}/shares`, { json: ['CreateShare', body], signal });
    const { id, token } = await this.#transport.ask<models.CreatedShare>('CreatedShare', call);
    return { id, link: `${this.#transport.url}/#/shared/${token}` };
  }

  /** The share links of the run, oldest first. */
  async shares(options: RequestOptions = {}): Promise<models.ShareView[]> {
    const call = { method: 'GET', path: `${this.#path}/shares`, ...options };
    return (await this.#transport.ask<models.ShareList>('ShareList', call)).shares;
  }

  /** Revokes a share link: it shows nothing from then on. */
  async revokeShare(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.send(change('DELETE', `${this.#path}/shares/${part(id)}`, options));
  }

  async #change(what: string, schema: string, body: object, options: RequestOptions): Promise<void> {
    const call = change('POST', `${this.#path}/${what}`, { json: [schema, body], ...options });
    this.#view = await this.#transport.ask('RunView', call);
  }

  async #continue(how: string, schema: string, body: object, options: RequestOptions): Promise<Run> {
    const call = change('POST', `${this.#path}/${how}`, { json: [schema, body], ...options });
    return new Run(this.#transport, await this.#transport.ask('RunView', call));
  }
}
