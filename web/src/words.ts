// What happened, in words that say what to do.
import { Problem } from './api/client';
import type { Cause, ExitReason, Fate } from './api/types';
import { language, t, type Word } from './i18n/index.svelte';
import { bytes, duration } from './text/format';

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

export function reasonWords(reason: ExitReason): string {
  if (reason.kind === 'budget') return t('reason.budget', { part: t(`part.${reason.part}` as Word) });
  return t(`reason.${reason.kind}` as Word);
}
