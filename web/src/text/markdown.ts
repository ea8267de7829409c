// The little of Markdown that answers and thoughts use, as a tree that is shown as text: no HTML, no links, no images,
// so that nothing that a model writes can load or run anything (attack E8).

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'math'; text: string }
  | { kind: 'strong' | 'emphasis'; inside: Inline[] };

export type Block =
  | { kind: 'paragraph' | 'quote'; inside: Inline[] }
  | { kind: 'heading'; level: number; inside: Inline[] }
  | { kind: 'list'; ordered: boolean; start: number; items: Inline[][] }
  | { kind: 'code'; language: string; text: string }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'math'; text: string }
  | { kind: 'rule' };

export function readMarkdown(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const close = (): void => {
    if (paragraph.length > 0) blocks.push({ kind: 'paragraph', inside: readInline(paragraph.join('\n')) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)#*$/.exec(line);
    const item = /^\s{0,6}(?:([-*+])|(\d{1,4})[.)])\s+(.*)$/.exec(line);
    if (fence) {
      close();
      const inside: string[] = [];
      for (at += 1; at < lines.length && !lines[at]?.trim().startsWith(fence[1] ?? ''); at += 1) {
        inside.push(lines[at] ?? '');
      }
      blocks.push({ kind: 'code', language: fence[2] ?? '', text: inside.join('\n') });
    } else if (/^\s*(?:\$\$|\\\[)/.test(line)) {
      close();
      const end = line.trim().startsWith('$$') ? '$$' : '\\]';
      let text = line.trim().slice(2);
      while (!text.trimEnd().endsWith(end) && at + 1 < lines.length) text += `\n${lines[(at += 1)]}`;
      blocks.push({
        kind: 'math',
        text: text
          .trimEnd()
          .replace(/(?:\$\$|\\\])$/, '')
          .trim(),
      });
    } else if (heading) {
      close();
      blocks.push({ kind: 'heading', level: heading[1]?.length ?? 1, inside: readInline(heading[2] ?? '') });
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      close();
      blocks.push({ kind: 'rule' });
    } else if (
      line.includes('|') &&
      /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? '') &&
      (lines[at + 1] ?? '').includes('|')
    ) {
      close();
      const head = tableRow(line);
      const rows: Inline[][][] = [];
      for (at += 2; at < lines.length && (lines[at] ?? '').includes('|'); at += 1) rows.push(tableRow(lines[at] ?? ''));
      at -= 1;
      blocks.push({ kind: 'table', head, rows });
    } else if (item) {
      close();
      const ordered = item[2] !== undefined;
      const last = blocks.at(-1);
      const inside = readInline(item[3] ?? '');
      if (last?.kind === 'list' && last.ordered === ordered && lines[at - 1]?.trim() !== '') last.items.push(inside);
      else blocks.push({ kind: 'list', ordered, start: Number(item[2] ?? 1), items: [inside] });
    } else if (line.startsWith('>')) {
      close();
      blocks.push({ kind: 'quote', inside: readInline(line.replace(/^>\s?/, '')) });
    } else if (line.trim() === '') {
      close();
    } else {
      paragraph.push(line);
    }
  }
  close();
  return blocks;
}

function tableRow(line: string): Inline[][] {
  const inside = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inside.split('|').map((cell) => readInline(cell.trim()));
}

/** Whether text between two `$` is a formula: amounts of money are not. */
function isFormula(text: string): boolean {
  return /[\\^_{}=<>]/.test(text) || /^[A-Za-z]$/.test(text);
}

export function readInline(text: string): Inline[] {
  const parts: Inline[] = [];
  const pattern =
    /`([^`\n]+)`|\*\*([^*\n]+(?:\*[^*\n]+)*)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])|\\\(([^\n]+?)\\\)|(?<![\w$\\])\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?![\w$])/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const [whole, code, strong, underlined, emphasis, formula, between] = match;
    if (between !== undefined && !isFormula(between)) continue;
    if (match.index > from) parts.push({ kind: 'text', text: text.slice(from, match.index) });
    if (code !== undefined) parts.push({ kind: 'code', text: code });
    else if (formula !== undefined || between !== undefined)
      parts.push({ kind: 'math', text: (formula ?? between ?? '').trim() });
    else if (emphasis !== undefined) parts.push({ kind: 'emphasis', inside: readInline(emphasis) });
    else parts.push({ kind: 'strong', inside: readInline(strong ?? underlined ?? '') });
    from = match.index + whole.length;
  }
  if (from < text.length) parts.push({ kind: 'text', text: text.slice(from) });
  return parts;
}
