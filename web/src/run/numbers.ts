// The numbers of several answers, side by side: which of them all answers have. Pure.

/** `same`: in all answers. `rounded`: in all, with fewer digits in some. `missing`: not in all, and nowhere another one. */
export type Verdict = 'same' | 'rounded' | 'differs' | 'missing';

export interface ComparedNumber {
  /** The words before it. */
  label: string;
  /** As it stands in each answer. */
  values: (string | null)[];
  verdict: Verdict;
}

interface Found {
  text: string;
  /** Dates have none. */
  value: number | null;
  unit: string;
  decimals: number;
  label: string;
  /** The line it is in with all numbers left out, and its place there. */
  place: string;
}

/** Of an answer: numbers, and characters of a line. Answers are hostile. */
const MOST = 200;
const MOST_LINE = 2000;
const MOST_LABEL = 80;
const NUMBER =
  /(?<![A-Za-z0-9_.])[-−+]?(?:(\d{4}-\d{2}-\d{2})|((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?))(?!\d)( ?%|[A-Za-z]{1,4}(?![A-Za-z]))?/gi;

/** The numbers of a text. Marks of lists and names of files have none. */
function numbersOf(answer: string): Found[] {
  const found: Found[] = [];
  const seen = new Map<string, number>();
  for (const line of answer.split('\n')) {
    if (found.length >= MOST) break;
    const text = line
      .slice(0, MOST_LINE)
      .replace(/`[^`\s]+\.[A-Za-z]\w{0,4}`/g, ' ')
      .replace(/[*`]/g, '')
      .replace(/^\s*(?:\d+[.)]|[-#>|]+)\s+/, '');
    const matches = [...text.matchAll(NUMBER)];
    const template = text.replace(NUMBER, '#').replace(/\s+/g, ' ').trim().toLowerCase();
    let from = 0;
    for (const [at, match] of matches.entries()) {
      const [whole, date, digits, unit] = match;
      const before = text.slice(from, match.index).replace(/^[\s,;.|:()]+|[\s|(:]+$/g, '');
      from = match.index + whole.length;
      const place = `${template} ${at}`;
      const times = seen.get(place) ?? 0;
      seen.set(place, times + 1);
      const plain = (digits ?? '').replaceAll(',', '');
      const sign = /^[-−]/.test(whole) ? -1 : 1;
      found.push({
        text: whole,
        value: date ? null : sign * Number(plain),
        unit: (unit ?? '').trim().toLowerCase(),
        decimals: /e/i.test(plain) ? 0 : (plain.split('.')[1]?.length ?? 0),
        label: (before || text.slice(from).replace(/^[\s|)]+/, '')).slice(-MOST_LABEL).trim(),
        place: `${place} ${times}`,
      });
    }
  }
  return found.slice(0, MOST);
}

/** The numbers of answers, in the order of the first answer that has them. */
export function compareNumbers(answers: string[]): ComparedNumber[] {
  const left = answers.map(numbersOf);
  const rows: (Found | null)[][] = [];
  const take = (lane: number, is: (one: Found) => boolean): Found | null => {
    const at = left[lane]?.findIndex(is) ?? -1;
    return at < 0 ? null : (left[lane]?.splice(at, 1)[0] ?? null);
  };
  const collect = (hasPlaces: boolean): void => {
    for (const lane of left.keys()) {
      for (const one of [...(left[lane] ?? [])]) {
        const others = left.map((_, other) => other).filter((other) => other !== lane);
        const isPaired = (two: Found) => (hasPlaces ? two.place === one.place : matches(one, two) !== null);
        if (hasPlaces && !others.some((other) => left[other]?.some(isPaired))) continue;
        if (!take(lane, (two) => two === one)) continue;
        rows.push(left.map((_, other) => (other === lane ? one : take(other, isPaired))));
      }
    }
  };
  // Those of lines that say the same but for the numbers are compared first, then equal ones anywhere.
  collect(true);
  for (const row of rows) {
    const known = row.find((one) => one !== null);
    for (const [lane, one] of row.entries()) {
      if (one === null && known) row[lane] = take(lane, (two) => matches(known, two) !== null);
    }
  }
  collect(false);
  const all = rows.map((row): ComparedNumber => ({
    label: row.find((one) => one !== null)?.label ?? '',
    values: row.map((one) => one?.text ?? null),
    verdict: verdictOf(row),
  }));
  // What an answer says twice is said once.
  const known = new Set<string>();
  return all.filter(({ values }) => {
    const key = JSON.stringify(values);
    return !known.has(key) && known.add(key);
  });
}

function verdictOf(row: (Found | null)[]): Verdict {
  const there = row.filter((one) => one !== null);
  const [first] = there;
  const compared = there.map((one) => (first ? matches(first, one) : null));
  if (compared.includes(null)) return 'differs';
  if (there.length < row.length) return 'missing';
  return compared.includes('rounded') ? 'rounded' : 'same';
}

/** Whether two numbers are the same, or one is the other with fewer digits. */
function matches(a: Found, b: Found): 'same' | 'rounded' | null {
  if (a.value === null || b.value === null) return a.text === b.text ? 'same' : null;
  if (a.unit !== b.unit) return null;
  if (a.value === b.value) return 'same';
  const [coarse, fine] = a.decimals < b.decimals ? [a, b] : [b, a];
  if (coarse.decimals === fine.decimals) return null;
  // Of few digits, rounding would say little: 4 is not 4.3.
  const isLong = coarse.decimals > 0 || Math.abs(coarse.value ?? 0) >= 100;
  const most = 0.5 * 10 ** -coarse.decimals * (1 + 1e-9);
  return isLong && Math.abs((fine.value ?? 0) - (coarse.value ?? 0)) <= most ? 'rounded' : null;
}
