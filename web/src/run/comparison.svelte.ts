// Runs that are compared: each is followed, and so are the runs that they continue, as far as their steps are needed.
import { runs } from '../api/service';
import { segmentsOf, stepsOfLane, type Lineage, type Segment } from './lanes';
import { LiveRun } from './live.svelte';

/** Further back, a lane begins with what is known. */
const MOST_PARENTS = 12;

export class Comparison {
  readonly lanes: LiveRun[];
  /** Nothing as long as it is not known what the runs continue. */
  segments = $state.raw<Segment[][] | null>(null);
  #others = $state.raw<ReadonlyMap<string, LiveRun>>(new Map());
  readonly #abort = new AbortController();

  constructor(ids: string[]) {
    this.lanes = ids.map((id) => new LiveRun(id));
    void this.#find(ids);
  }

  /** A run of one of the lanes, or one that they continue. */
  run(id: string): LiveRun | undefined {
    return this.lanes.find((lane) => lane.id === id) ?? this.#others.get(id);
  }

  readonly steps = $derived.by(() =>
    (this.segments ?? []).map((segments) => stepsOfLane(segments, (id) => this.run(id)?.run.steps ?? [])),
  );

  leave(): void {
    this.#abort.abort();
    for (const live of [...this.lanes, ...this.#others.values()]) live.leave();
  }

  async #find(ids: string[]): Promise<void> {
    const lineages = await Promise.all(ids.map((id) => this.#lineage(id)));
    if (this.#abort.signal.aborted) return;
    const segments = segmentsOf(lineages);
    const needed = new Set(segments.flat().map(({ run }) => run));
    this.#others = new Map([...needed].filter((id) => !ids.includes(id)).map((id) => [id, new LiveRun(id)]));
    this.segments = segments;
  }

  async #lineage(id: string): Promise<Lineage> {
    const lineage: Lineage = { id, parents: [] };
    try {
      let view = await runs.show(id, this.#abort.signal);
      while (view.parent && lineage.parents.length < MOST_PARENTS) {
        const { parent } = view;
        view = await runs.show(parent.id, this.#abort.signal);
        lineage.parents.push(parent);
      }
    } catch {
      // A parent that was deleted is no part of it. What is wrong with the run itself, its lane says.
    }
    return lineage;
  }
}
