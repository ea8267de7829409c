// A notification of the browser when a run that is open in a tab is done or waits. Nobody is asked for the permission
// who has not turned it on.
import { remember, remembered, t } from './i18n/index.svelte';
import { links } from './router.svelte';
import { titleWord, type ShownState } from './run/state';

const KEPT = 'belljar.notify';
const isOffered = (): boolean => 'Notification' in globalThis;
const TOLD: ShownState[] = ['waits', 'answered', 'unverified', 'ended'];

class Bell {
  isOn = $state(isOffered() && remembered(KEPT) === 'on' && Notification.permission === 'granted');

  get isOffered(): boolean {
    return isOffered();
  }

  /** Turns it on or off; whether it is as wanted. */
  async turn(on: boolean): Promise<boolean> {
    this.isOn = on && (await Notification.requestPermission()) === 'granted';
    remember(KEPT, this.isOn ? 'on' : 'off');
    return this.isOn === on;
  }

  /** Says what became of a run, to who looks elsewhere. */
  say(id: string, state: ShownState, title: string): void {
    const word = titleWord(state);
    if (!this.isOn || !word || !TOLD.includes(state) || document.hasFocus()) return;
    try {
      const notification = new Notification(`${t(word)} · Belljar`, { body: title, tag: id });
      notification.onclick = () => {
        window.focus();
        location.hash = links.run(id);
        notification.close();
      };
    } catch {
      // Phones have them in service workers alone.
    }
  }
}

export const bell = new Bell();
