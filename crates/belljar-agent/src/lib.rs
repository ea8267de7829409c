//! The agent: a task in, an answer with evidence out.
//!
//! [`Provider`] talks to a language model: one [`ModelRequest`] in, one [`Reply`] out, whatever the
//! model's server speaks. A [`Dialect`] makes [`Action`]s of replies. A [`Run`] is the pure state
//! machine that says what to do next.

mod dialect;
mod driver;
mod export;
mod model;
mod reproduce;
mod run;
mod story;
mod tool;

pub use dialect::{
    ANSWER, Action, Dialect, Mending, PYTHON, Parsed, Problem, RawToolCall, Rendered, ReplyParts,
    Unparsed,
};
pub use driver::{
    Agent, ArtifactFiles, CONTENT_TARGET, Control, FILE_BYTES, ImportedRun, Listener, LiveRun,
    METRIC_TARGET, Progress, RunError, RunsDirectory, Steering, artifacts_directory, read_events,
};
pub use export::{ReportKey, SignatureFault, notebook, page, script, signer_of};
pub use model::{
    ApiKey, Finish, Message, ModelError, ModelFault, ModelName, ModelNameError, ModelRequest, Part,
    Phase, Prices, Profile, Provider, Reply, ReplyEvent, Retries, Timeouts, ToolCall, ToolSpec,
    Usage, WireFormat, estimate_request_tokens, estimate_tokens, http_client, http_client_builder,
    is_loopback,
};
pub use reproduce::{
    Replayed, ReproducedCell, ReproducedFile, ReproducedValue, Reproduction, Verdict, reproduce,
};
pub use run::{
    Approval, Approvals, BRANCH, Branch, Branches, BranchesError, Budget, BudgetPart, Call,
    CallResult, Capability, CellCall, CellCallState, CellNames, CellResult, Computation, Decision,
    DecisionError, Derivation, DerivationInput, Doubt, EVENT_VERSION, Effect, Ending, Evidence,
    ExitReason, Finding, Misfit, NotKept, Parent, Policy, RUN_COMMAND, Raise, RepeatedCall, Risk,
    Run, RunClient, RunEvent, Seen, ShellCommand, ShownSubject, Spent, Start, Step, StepTiming,
    Subject, TaskFile, Timing, ToolAnswer, Weakness, cell_names, risk,
};
pub use tool::{
    COMPUTE, Computations, Computed, Evaluator, Given, GrantedTool, HostTool, Invocation, PLAN,
    Plan, PlanChange, PlanFault, PlanStatistics, PlanTree, PlanUpdate, READ_FILE, Surface, TOOLS,
    Task, TaskStatus, Tool, ToolContext, ToolEffects, ToolOutput, ToolState, command_state,
    command_text, find_tool, serve_computation, tools_on,
};
