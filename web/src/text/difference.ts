// The difference of two texts by lines: what a person changed in the code that a model wrote.

export interface DifferenceLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
}

/** Above this many pairs of lines the texts are shown one after the other. */
const MOST_PAIRS = 4_000_000;

export function difference(before: string, after: string): DifferenceLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const same = (text: string): DifferenceLine => ({ kind: 'same', text });
  const [middleA, middleB] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  return [
    ...a.slice(0, start).map(same),
    ...(middleA.length * middleB.length > MOST_PAIRS
      ? [...middleA.map(removed), ...middleB.map(added)]
      : changed(middleA, middleB)),
    ...a.slice(a.length - end).map(same),
  ];
}

const removed = (text: string): DifferenceLine => ({ kind: 'removed', text });
const added = (text: string): DifferenceLine => ({ kind: 'added', text });

/** By the longest common subsequence. */
function changed(a: string[], b: string[]): DifferenceLine[] {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  const at = (row: number, column: number): number => longest[row * width + column] ?? 0;
  for (let row = a.length - 1; row >= 0; row -= 1) {
    for (let column = b.length - 1; column >= 0; column -= 1) {
      longest[row * width + column] =
        a[row] === b[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: DifferenceLine[] = [];
  let [row, column] = [0, 0];
  while (row < a.length || column < b.length) {
    const [left, right] = [a[row], b[column]];
    if (left !== undefined && left === right) {
      lines.push({ kind: 'same', text: left });
      row += 1;
      column += 1;
    } else if (left !== undefined && (right === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(removed(left));
      row += 1;
    } else {
      lines.push(added(right ?? ''));
      column += 1;
    }
  }
  return lines;
}
