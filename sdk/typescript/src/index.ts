// Client of the Belljar service: live, isolated Python sessions.
export {
  Belljar,
  type BelljarOptions,
  type Isolation,
  type RunOptions,
  type SessionFilter,
  type SessionOptions,
} from './client.js';
export {
  Command,
  Commands,
  type CommandEvent,
  type CommandLine,
  type CommandOptions,
  type CommandResult,
  type StartCommandOptions,
} from './commands.js';
export {
  BelljarError,
  CellFailedError,
  NotFoundError,
  RateLimitedError,
  SessionBusyError,
  SessionEndedError,
  UnauthorizedError,
  UnavailableError,
  UnreachableError,
} from './errors.js';
export { Files, Watch, type FileEvent } from './files.js';
export type * as models from './generated/models.js';
export { approvalText, Display, Outcome, type Table } from './outcome.js';
export { Run, type Budget, type DecisionOptions, type RunEvent, type Share } from './run.js';
export {
  CellEvents,
  Session,
  type CellEvent,
  type CellOptions,
  type InputRequest,
  type RunCellOptions,
  type StreamCellOptions,
} from './session.js';
export type { Contents } from './text.js';
export type { RequestOptions } from './transport.js';
