// Short messages about what was just done.
import { problemWords } from './words';

export interface Notice {
  key: number;
  text: string;
  bad: boolean;
}

class Notices {
  all = $state<Notice[]>([]);
  #next = 0;

  say(text: string, bad = false): void {
    const key = this.#next++;
    // What is said again replaces what was said.
    const others = this.all.filter((notice) => notice.text !== text);
    this.all = [...others.slice(-3), { key, text, bad }];
    setTimeout(() => this.drop(key), bad ? 12_000 : 5_000);
  }

  problem(error: unknown): void {
    this.say(problemWords(error), true);
  }

  drop(key: number): void {
    this.all = this.all.filter((notice) => notice.key !== key);
  }
}

export const notices = new Notices();

/** Does something, and says what went wrong if it does. Whether it went well. */
export async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    notices.problem(error);
    return false;
  }
}
