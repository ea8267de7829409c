// What happened, in words that say what to do.
import { Problem } from './api/client';
import type { Cause, Doubt, Evidence, ExitReason, Fate } from './api/types';
import { language, t, type Word } from './i18n/index.svelte';
import { bytes, count, duration } from './text/format';
import { oneLine } from './text/plain';
import type { Note } from './text/preview';
import type { Table } from './text/table';

export function problemWords(error: unknown): string {
  if (!(error instanceof Problem)) return t('problem.unknown', { detail: String(error) });
  if (error.code === 'unreachable') return t('problem.unreachable');
  if (error.isMissing) return t('steer.cannot');
  if (error.code === 'approval_changed' || error.code === 'approval_not_found') return t('approval.changed');
  if (error.code === 'run_not_found') return t('run.not_there');
  if (error.code === 'session_not_found' || error.code === 'session_ended') return t('session.gone');
  if (error.status === 429 || error.status === 503) {
    const seconds = error.retryAfter ?? 5;
    return `${error.detail}. ${t('problem.too_much', { seconds })}`;
  }
  return t('problem.unknown', { detail: error.detail });
}

export function causeWords(cause: Cause): string {
  const { locale } = language;
  const word = `cause.${cause.kind}` as Word;
  switch (cause.kind) {
    case 'exit':
      return t(word, { code: cause.code });
    case 'wall_time':
    case 'cpu_time':
      return t(word, { limit: duration(cause.limit_ms, locale) });
    case 'memory':
    case 'output_limit':
      return t(word, { limit: bytes(cause.limit_bytes, locale) });
    case 'signal':
      return t(word, { name: cause.name });
    default:
      return t(word);
  }
}

export function fateWords(fate: Fate): string {
  if (fate.fate !== 'restored') return t(`fate.${fate.fate}`);
  return fate.cell === 0 ? t('fate.restored_start') : t('fate.restored', { cell: fate.cell });
}

/** The state of a run that ended for this reason. */
export function endState(reason: ExitReason): 'answered' | 'unverified' | 'ended' {
  return reason.kind === 'answered' || reason.kind === 'unverified' ? reason.kind : 'ended';
}

export function doubtWords(doubt: Doubt): string {
  if (doubt.kind === 'not_computed') return t(`doubt.${doubt.computation}` as Word);
  // Names and values in it are the model's.
  const parts = Object.entries(doubt).map(([key, part]) => [key, oneLine(part, 120)]);
  return t(`doubt.${doubt.kind}` as Word, Object.fromEntries(parts) as Record<string, string>);
}

export function reasonWords(reason: ExitReason): string {
  if (reason.kind === 'budget') return t('reason.budget', { part: t(`part.${reason.part}` as Word) });
  return t(`reason.${reason.kind}` as Word);
}

/** Where a value of an answer comes from. */
export function evidenceWords({ seen }: Evidence): string {
  if (!seen) return t('run.evidence_none');
  if (seen.kind === 'task') return t('run.evidence_task');
  if (seen.kind === 'file') return t('run.evidence_file');
  if (seen.kind === 'code') return t('run.evidence_code', { cell: seen.cell ?? seen.step });
  const line = oneLine(seen.line, 120) + (seen.rounded ? ` (${t('run.evidence_rounded')})` : '');
  if (seen.weak) {
    const why = t(`weak.${seen.weak}` as Word);
    return t('run.evidence_weak', { why, step: seen.step, cell: seen.cell ?? seen.step, line });
  }
  if (seen.derived) return t('run.evidence_derived', { step: seen.step, cell: seen.cell ?? seen.step, line });
  if (seen.cell === null || seen.cell === undefined) return t('run.evidence_step', { step: seen.step, line });
  return t('run.evidence_in', { step: seen.step, cell: seen.cell, line });
}

/** How many rows a table has. */
export function rowCount({ totalRows, isEstimate }: Table): string {
  const { locale } = language;
  if (!isEstimate) return count(totalRows, locale);
  return t('table.about', { count: count(Number(totalRows.toPrecision(3)), locale) });
}

export function noteWords(note: Note): string {
  if (note.kind === 'ragged') return t('preview.ragged', { ...note });
  return note.kind === 'encoding' ? t('preview.encoding', { encoding: note.encoding }) : t('preview.not_json');
}
