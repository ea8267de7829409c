// What a reply says, as far as it can be told before the service has said how it was understood (`v1/runs/{id}/steps`):
// while the model writes, and in the moment after. It is only shown; nothing is decided by it.
import type { Dialect } from '../api/types';

export interface ReadCall {
  tool: string;
  arguments: Record<string, unknown>;
}

export interface ReadReply {
  thought: string;
  calls: ReadCall[];
  answer: string | null;
}

export interface WrittenCall {
  name: string;
  arguments: string;
}

export const PYTHON = 'python';
export const ANSWER = 'answer';

export function readReply(dialect: Dialect | undefined, text: string, written: WrittenCall[]): ReadReply {
  if (written.length > 0) return ofCalls(text, written);
  const clean = text.replace(/<think>[\s\S]*?(<\/think>|$)/g, '');
  switch (dialect) {
    case 'json_action':
      return ofJson(clean);
    case 'tags':
      return ofTags(clean);
    default:
      return ofFences(clean);
  }
}

function ofCalls(text: string, written: WrittenCall[]): ReadReply {
  const read: ReadReply = { thought: text.trim(), calls: [], answer: null };
  for (const call of written) {
    const given = parse(call.arguments) ?? {};
    if (call.name === PYTHON && typeof given['code'] !== 'string') {
      given['code'] = textMember(call.arguments, 'code') ?? '';
    }
    if (call.name === ANSWER) read.answer = String(given['text'] ?? textMember(call.arguments, 'text') ?? '');
    else read.calls.push({ tool: call.name, arguments: given });
  }
  return read;
}

function ofFences(text: string): ReadReply {
  const read: ReadReply = { thought: '', calls: [], answer: null };
  const blocks = /^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n([\s\S]*?)(?:^[ \t]*```[ \t]*$|$(?![\s\S]))/gm;
  const first = blocks.exec(text);
  const final = /^\s*FINAL:/m.exec(text);
  if (final && (!first || final.index < first.index)) {
    read.thought = text.slice(0, final.index).trim();
    read.answer = text.slice(final.index + final[0].length).trim();
    return read;
  }
  read.thought = (first ? text.slice(0, first.index) : text).trim();
  const cells: string[] = [];
  for (let block = first; block; block = blocks.exec(text)) {
    const [label, body] = [block[1] ?? '', (block[2] ?? '').replace(/\n$/, '')];
    if (['', 'python', 'py', 'python3'].includes(label.toLowerCase())) cells.push(body);
    else if (/^[a-z]\w*_\w+$/.test(label)) read.calls.push({ tool: label, arguments: parse(body) ?? {} });
  }
  if (cells.length > 0) read.calls.push({ tool: PYTHON, arguments: { code: cells.join('\n\n') } });
  return read;
}

function ofJson(text: string): ReadReply {
  const whole = parse(text.slice(text.indexOf('{'))) ?? parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1));
  const member = (name: string): string | null => {
    const value = whole ? whole[name] : textMember(text, name);
    return typeof value === 'string' ? value : null;
  };
  const [action, code] = [member('action'), member('code')];
  const read: ReadReply = { thought: member('thought') ?? '', calls: [], answer: null };
  if (action === 'provide_answer') read.answer = member('final_answer');
  else if (code !== null) read.calls.push({ tool: PYTHON, arguments: { code } });
  else if (action && whole && typeof whole['arguments'] === 'object') {
    read.calls.push({ tool: action, arguments: (whole['arguments'] ?? {}) as Record<string, unknown> });
  }
  return read;
}

function ofTags(text: string): ReadReply {
  const inside = (names: string): string | null => {
    const found = new RegExp(`<(?:${names})(?:\\s[^>]*)?>\\n?([\\s\\S]*?)(?:</(?:${names})>|$)`, 'i').exec(text);
    return found ? (found[1] ?? '').replace(/\s+$/, '') : null;
  };
  const code = inside('execution[-_]code|python|code');
  const answer = inside('final[-_]answer|answer');
  const before = text.split(/<(?:execution|final|tool|pip|python|code|answer)/i, 1)[0] ?? '';
  const read: ReadReply = { thought: before.replace(/<\/?\w+>/g, '').trim(), calls: [], answer: null };
  const tool = /<tool\s+name="([^"]+)"\s*>([\s\S]*?)(?:<\/tool>|$)/i.exec(text);
  if (code !== null) read.calls.push({ tool: PYTHON, arguments: { code } });
  else if (tool) read.calls.push({ tool: tool[1] ?? '', arguments: parse(tool[2] ?? '') ?? {} });
  else read.answer = answer;
  return read;
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/** A member of JSON that is not whole yet, as far as it has come. */
function textMember(json: string, name: string): string | null {
  const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`).exec(json);
  if (!found) return null;
  const inside = found[1] ?? '';
  try {
    return JSON.parse(`"${inside}"`) as string;
  } catch {
    return inside;
  }
}
