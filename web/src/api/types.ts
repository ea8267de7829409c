// The words of the API, from the documents of the service, and what the documents don't have yet.
import type { components } from './generated/openapi';

type Schemas = components['schemas'];

export type Approval = Schemas['Approval'];
export type Artifact = Schemas['Artifact'];
export type ColumnStatistics = Schemas['ColumnStatistics'];
export type TableFilter = Schemas['TableFilter'];
export type TableRows = Schemas['TableRows'];
export type Branch = Schemas['Branch'];
export type Budget = Schemas['Budget'];
export type CallResult = Schemas['CallResult'];
export type Capability = Schemas['Capability'];
export type CellResult = Schemas['CellResult'];
export type Decision = Schemas['Decision'];
export type Dialect = Schemas['Dialect'];
export type Doubt = Schemas['Doubt'];
export type Ending = Schemas['Ending'];
export type Evidence = Schemas['Evidence'];
export type ExitReason = Schemas['ExitReason'];
export type NameInfo = Schemas['NameInfo'];
export type Policy = Schemas['Policy'];
export type Reply = Schemas['Reply'];
export type Reproduction = Schemas['Reproduction'];
export type RunEvent = Schemas['RunEvent'];
export type EditPreview = Schemas['EditPreview'];
export type ShownRow = Schemas['ShownRow'];
export type ShownSubject = Schemas['ShownSubject'];
export type Start = Schemas['Start'];
export type ToolAnswer = Schemas['ToolAnswer'];
export type Outcome = Schemas['Outcome'];
export type Output = Schemas['Output'];
export type Display = Schemas['Display'];
export type DisplayData = Schemas['DisplayData'];
export type Cause = Schemas['Cause'];
export type Fate = Schemas['Fate'];
export type CellEvent = Schemas['Event'];
export type CommandEvent = Schemas['CommandEvent'];
export type CommandView = Schemas['CommandView'];
export type ProblemBody = Schemas['Problem'];
export type CreateRun = Schemas['CreateRun'];
export type FileGiven = Schemas['FileGiven'];
export type RunBrief = Schemas['RunBrief'];
export type RunView = Schemas['RunView'];
export type RunPage = Schemas['RunPage'];
export type RunStateWord = Schemas['RunState'];
export type ShareView = Schemas['ShareView'];
export type SharedRun = Schemas['SharedRun'];
export type Thread = Schemas['Thread'];
export type Turn = Schemas['Turn'];
export type SessionView = Schemas['SessionView'];
export type SessionPage = Schemas['SessionPage'];
export type CellView = Schemas['CellView'];
export type CellList = Schemas['CellList'];
export type Notebook = Schemas['Notebook'];
export type NotebookCell = Schemas['NotebookCell'];
export type CheckpointView = Schemas['CheckpointView'];
export type FileView = Schemas['FileView'];
export type StepView = Schemas['StepView'];
export type StepPage = Schemas['StepPage'];
export type TerminalSize = Schemas['TerminalSizeAsked'];
export type Me = Schemas['Me'];
export type DecisionAsked = Schemas['DecisionAsked'];

/** What the service gives to a run at most. */
export interface BudgetGiven {
  steps?: number | null;
  tokens?: number | null;
  money?: number | null;
  seconds?: number | null;
  calls?: number | null;
}

/** An example task of demo mode. */
export interface Example {
  id: string;
  title: Record<string, string>;
  task: Record<string, string>;
  files: { name: string; contents: string }[];
}

/** What is heard of a reply while the model writes it. */
export type ReplyPart =
  | { type: 'text'; delta: string }
  | { type: 'thinking'; delta: string }
  | { type: 'tool_call'; index: number; name: string }
  | { type: 'tool_arguments'; index: number; delta: string }
  | { type: 'retrying'; after_ms: number; why: string };
