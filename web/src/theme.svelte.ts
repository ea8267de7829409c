import { remember, remembered } from './i18n/index.svelte';

export type Theme = 'system' | 'light' | 'dark';
const KEPT = 'belljar.theme';

class Themes {
  chosen = $state<Theme>('system');

  constructor() {
    const kept = remembered(KEPT);
    this.choose(kept === 'light' || kept === 'dark' ? kept : 'system');
  }

  choose(theme: Theme): void {
    this.chosen = theme;
    if (theme === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
    remember(KEPT, theme);
  }
}

export const themes = new Themes();
