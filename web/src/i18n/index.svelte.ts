// The words of the page, in the language of the reader.
import { en, type Word, type Words } from './en';
import { zh } from './zh';

export type { Word } from './en';
export type LanguageCode = 'en' | 'zh';

const ALL: Record<LanguageCode, Words> = { en, zh };
const KEPT = 'belljar.language';

function first(): LanguageCode {
  const kept = remembered(KEPT);
  if (kept === 'en' || kept === 'zh') return kept;
  return navigator.language?.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

/** What the browser remembers; nothing where it may not remember anything. */
export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It is chosen again the next time.
  }
}

class Language {
  code = $state<LanguageCode>(first());

  /** For numbers and dates. */
  get locale(): string {
    return this.code === 'zh' ? 'zh-CN' : 'en';
  }

  choose(code: LanguageCode): void {
    this.code = code;
    document.documentElement.lang = code;
    remember(KEPT, code);
  }
}

export const language = new Language();

/** A word, with what belongs into it: `{count}`, and `{count:cell|cells}` for one and for more. */
export function t(word: Word, given: Record<string, string | number> = {}): string {
  const place = /\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g;
  return ALL[language.code][word].replace(place, (whole, name: string, one?: string, more?: string) => {
    if (one === undefined) return String(given[name] ?? whole);
    return String(given[name]) === '1' ? one : (more ?? '');
  });
}
