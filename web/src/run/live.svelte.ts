// A run that the page looks at: its journal is followed, and what is near the eye is asked for in full.
import { Problem } from '../api/client';
import * as service from '../api/service';
import { follow, type Connection, type StreamEvent } from '../api/stream';
import type { RunView } from '../api/types';
import { fold, withoutOutcomes, withSteps } from './fold';
import { emptyRun, type RunModel } from './model';

// Few at a time: what arrives at once is drawn at once.
const PAGE = 8;
/** The most steps that are held in full while they are not drawn: whoever scrolls back waits for none of the last ones. */
const MOST_FAR = 30;

export class LiveRun {
  run = $state.raw<RunModel>(emptyRun());
  view = $state.raw<RunView | null>(null);
  connection = $state<Connection>('connecting');
  problem = $state.raw<Problem | null>(null);

  readonly #abort = new AbortController();
  #heard: StreamEvent[] = [];
  #scheduled = false;
  /** Steps that were asked for, so that none is asked for twice. */
  readonly #asked = new Set<number>();
  #wanted = new Set<number>();
  /** Steps that are known in full and not drawn any more, the oldest first. */
  readonly #far = new Set<number>();
  #asking: Promise<void> | null = null;
  #stepsMissing = false;

  constructor(readonly id: string) {
    void this.#follow();
    void this.look();
  }

  /** The run as the service shows it: what the journal does not have, such as whether somebody is at it. */
  async look(): Promise<void> {
    try {
      this.view = await service.runs.show(this.id, this.#abort.signal);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.problem = error;
    }
  }

  leave(): void {
    this.#abort.abort();
  }

  /** A step comes near the eye. */
  want(step: number): void {
    this.#far.delete(step);
    if (this.#stepsMissing || this.#asked.has(step)) return;
    this.#wanted.add(step);
    if (!this.#asking) void this.#askForSteps();
  }

  /** These steps are not drawn any more. Of what is far from the eye for long, the outcomes go. */
  leaveSteps(first: number, end: number): void {
    for (let step = first; step <= end; step += 1) if (this.#asked.has(step)) this.#far.add(step);
    const gone = [...this.#far].slice(0, Math.max(0, this.#far.size - MOST_FAR));
    if (gone.length === 0) return;
    for (const step of gone) {
      this.#far.delete(step);
      this.#asked.delete(step);
    }
    this.run = withoutOutcomes(this.run, gone);
  }

  /** Asks again for a step, because more of it is known now. */
  refresh(step: number): void {
    this.#asked.delete(step);
    this.want(step);
  }

  /** Asks for all steps that were not asked for. */
  async all(): Promise<void> {
    for (const step of this.run.steps) {
      if (!this.#asked.has(step.number)) this.#wanted.add(step.number);
    }
    if (this.#asking) await this.#asking;
    if (this.#wanted.size > 0 && !this.#stepsMissing) await this.#askForSteps();
  }

  async #follow(): Promise<void> {
    await follow(service.runs.eventsPath(this.id), {
      after: 0,
      signal: this.#abort.signal,
      isLast: (event) => event.event === 'ended',
      onConnection: (connection) => (this.connection = connection),
      onProblem: (problem) => (this.problem = problem),
      onEvent: (event) => {
        this.#heard.push(event);
        this.#schedule();
      },
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // In a tab that nobody sees there are no frames.
    if (document.hidden) setTimeout(() => this.#flush(), 250);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    // A long journal is folded in parts, so that the page stays alive.
    const heard = this.#heard.splice(0, 200);
    if (this.#heard.length > 0) this.#schedule();
    if (heard.length === 0 || this.#abort.signal.aborted) return;
    this.run = fold(this.run, heard);
    for (const event of heard) {
      if (['replied', 'call_ended', 'approval_decided', 'asked'].includes(event.event)) {
        const { step } = JSON.parse(event.data) as { step?: number };
        // What a step is known to have changes with these; `asked` ends the step before.
        const changed = event.event === 'asked' ? (step ?? 1) - 1 : step;
        if (changed && this.#asked.has(changed)) this.refresh(changed);
      }
      if (event.event === 'ended' || event.event === 'approval_asked') void this.look();
    }
  }

  #askForSteps(): Promise<void> {
    this.#asking ??= this.#askInTurn().finally(() => (this.#asking = null));
    return this.#asking;
  }

  async #askInTurn(): Promise<void> {
    while (this.#wanted.size > 0 && !this.#abort.signal.aborted) {
      const first = Math.min(...this.#wanted);
      let limit = 1;
      while (limit < PAGE && this.#wanted.has(first + limit)) limit += 1;
      for (let step = first; step < first + limit; step += 1) {
        this.#wanted.delete(step);
        this.#asked.add(step);
      }
      try {
        const page = await service.runs.steps(this.id, first - 1, limit);
        this.run = withSteps(this.run, page.steps);
      } catch (error) {
        if (error instanceof Problem && error.isMissing) {
          this.#stepsMissing = true;
          break;
        }
        for (let step = first; step < first + limit; step += 1) this.#asked.delete(step);
        if (!(error instanceof Problem) || !error.retry) break;
        await new Promise((resolve) => setTimeout(resolve, 1000 * (error.retryAfter ?? 1)));
      }
    }
  }
}
