// Numbers as people read them, in the language of the page.

export function bytes(count: number | null | undefined, locale: string): string {
  if (count === null || count === undefined) return '';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toLocaleString(locale, { maximumFractionDigits: digits })} ${units[unit]}`;
}

export function duration(ms: number, locale: string): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toLocaleString(locale, { maximumFractionDigits: 1 })} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function count(value: number, locale: string): string {
  return value.toLocaleString(locale);
}

export function compact(value: number, locale: string): string {
  return value.toLocaleString(locale, { notation: value >= 10_000 ? 'compact' : 'standard', maximumFractionDigits: 1 });
}

export function money(value: number, locale: string): string {
  return value.toLocaleString(locale, { maximumFractionDigits: value < 0.1 ? 4 : 2, minimumFractionDigits: 2 });
}

export function percent(share: number, locale: string): string {
  return share.toLocaleString(locale, { style: 'percent', maximumFractionDigits: 0 });
}

/** When something was, from seconds since 1970. */
export function ago(seconds: number, locale: string, now = Date.now()): string {
  const gone = Math.max(0, now / 1000 - seconds);
  const format = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' });
  if (gone < 45) return format.format(-Math.round(gone), 'second');
  if (gone < 3600) return format.format(-Math.round(gone / 60), 'minute');
  if (gone < 86_400) return format.format(-Math.round(gone / 3600), 'hour');
  if (gone < 30 * 86_400) return format.format(-Math.round(gone / 86_400), 'day');
  return new Date(seconds * 1000).toLocaleDateString(locale);
}

/** Rows and columns, or a length. */
export function shape(name: { shape?: number[] | null; length?: number | null }): string {
  if (name.shape) return name.shape.join(' × ');
  return name.length === null || name.length === undefined ? '' : String(name.length);
}
