// The values of an answer, each with the place where it was seen.
import type { Evidence } from '../api/types';

export interface EvidencePiece {
  text: string;
  evidence: Evidence | null;
}

/** Text in pieces: those that are values of the answer have their evidence. */
export function withEvidence(text: string, evidence: Evidence[]): EvidencePiece[] {
  const values = new Map<string, Evidence>();
  for (const one of evidence) if (one.value !== '' && !values.has(one.value)) values.set(one.value, one);
  if (values.size === 0) return [{ text, evidence: null }];
  const longestFirst = [...values.keys()].sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(longestFirst.join('|'), 'gu');
  const pieces: EvidencePiece[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const value = match[0];
    // A value is not a part of a longer number.
    const isPart = /[\d]/.test(value[0] ?? '') && /[\d.]$/.test(text.slice(0, match.index));
    const goesOn = /\d$/.test(value) && /^\d/.test(text.slice(match.index + value.length));
    if (isPart || goesOn) continue;
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), evidence: null });
    pieces.push({ text: value, evidence: values.get(value) ?? null });
    from = match.index + value.length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), evidence: null });
  return pieces;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
