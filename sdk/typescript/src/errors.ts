import type { Outcome } from './outcome.js';
import { safe } from './text.js';

/** What is known about a problem beside its code and detail. */
export interface ProblemFields {
  title?: string;
  status?: number;
  retry?: boolean;
  retryAfter?: number;
  remedy?: string;
  requestId?: string;
  cause?: unknown;
}

/**
 * The service refused a request, failed, or is unreachable.
 *
 * `code` never changes its meaning, and docs/errors.md has a section for each.
 */
export class BelljarError extends Error {
  /** Stable code of the problem. */
  readonly code: string;
  /** Cause of this problem. */
  readonly detail: string;
  /** Meaning of the code. */
  readonly title: string;
  /** HTTP status of the response, if there was one. */
  readonly status: number | undefined;
  /** Whether the same request may succeed later. The client has already retried it. */
  readonly retry: boolean;
  /** Seconds to wait before a retry. */
  readonly retryAfter: number | undefined;
  /** Address of the section about this code, on the service itself. */
  readonly remedy: string | undefined;
  /** Id of the request in the log of the service. */
  readonly requestId: string | undefined;

  constructor(code: string, detail: string, fields: ProblemFields = {}) {
    const { title = '', status, retry = false, retryAfter, remedy, requestId, cause } = fields;
    const text = title === '' ? detail : `${title}: ${detail}`;
    super(`${text} [${code}${remedy === undefined ? '' : `, ${remedy}`}]`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.detail = detail;
    this.title = title;
    this.status = status;
    this.retry = retry;
    this.retryAfter = retryAfter;
    this.remedy = remedy;
    this.requestId = requestId;
  }

  static {
    this.prototype.name = 'BelljarError';
  }
}

/** No response, or the connection broke and reconnecting failed. */
export class UnreachableError extends BelljarError {
  static {
    this.prototype.name = 'UnreachableError';
  }
}

/** The key is missing, wrong or revoked, or lacks a scope. */
export class UnauthorizedError extends BelljarError {
  static {
    this.prototype.name = 'UnauthorizedError';
  }
}

/** No such session, cell, checkpoint, run or file. */
export class NotFoundError extends BelljarError {
  static {
    this.prototype.name = 'NotFoundError';
  }
}

/** The session's processes are gone. Start a new one. */
export class SessionEndedError extends BelljarError {
  static {
    this.prototype.name = 'SessionEndedError';
  }
}

/** Another cell is running, and the request asked not to wait. */
export class SessionBusyError extends BelljarError {
  static {
    this.prototype.name = 'SessionBusyError';
  }
}

/** The tenant has reached a limit or a quota. */
export class RateLimitedError extends BelljarError {
  static {
    this.prototype.name = 'RateLimitedError';
  }
}

/** The service is at its limit, short of memory, or shutting down. */
export class UnavailableError extends BelljarError {
  static {
    this.prototype.name = 'UnavailableError';
  }
}

/** A cell failed. Thrown by `Outcome.throwIfFailed`. */
export class CellFailedError extends Error {
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super(failureText(outcome));
    this.outcome = outcome;
  }

  static {
    this.prototype.name = 'CellFailedError';
  }
}

/** Why a cell failed: its traceback, or its cause. */
export function failureText(outcome: Outcome): string {
  const traceback = outcome.exception?.traceback.trimEnd() ?? '';
  if (outcome.status === 'failure' && traceback !== '') return safe(traceback);
  // What came out of the code then is where it was when it was stopped.
  const lost = outcome.state.fate === 'lost' ? '; its session has ended' : '';
  return safe(`cell ${outcome.cell}: ${outcome.status} (${outcome.cause.kind})${lost}\n${traceback}`.trimEnd());
}

type Kind = typeof BelljarError;
const BY_CODE: Readonly<Record<string, Kind>> = {
  // Nothing is wrong with the key.
  path_denied: BelljarError,
  unreachable: UnreachableError,
  session_ended: SessionEndedError,
  session_busy: SessionBusyError,
};
const BY_STATUS: Readonly<Record<number, Kind>> = {
  401: UnauthorizedError,
  403: UnauthorizedError,
  404: NotFoundError,
  429: RateLimitedError,
  502: UnavailableError,
  503: UnavailableError,
  504: UnavailableError,
  507: UnavailableError,
};

/** The error for a problem. */
export function errorFor(code: string, detail: string, fields: ProblemFields = {}): BelljarError {
  const kind = (Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : BY_STATUS[fields.status ?? 0]) ?? BelljarError;
  return new kind(code, detail, fields);
}
