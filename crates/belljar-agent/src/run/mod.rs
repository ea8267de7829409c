//! A run: an agent at work on a task.
//!
//! [`Run`] is pure. It is folded from [`RunEvent`]s, and returns what to do next as an [`Effect`];
//! it knows no clock, no network and no session. Whoever performs the effects journals what
//! happened and applies it. So a run resumes after a crash from the end of its journal, and a
//! replay makes the same requests.

mod answers;
mod approval;
mod branches;
mod bridge;
mod budget;
mod call_history;
mod cell_names;
mod checks;
mod constants;
mod context;
mod doubt;
mod event;
mod evidence;
mod gate;
mod machine;
mod number;
mod repetition;
mod risk;
mod timing;
mod tools_text;
mod words;

pub use approval::{
    Approval, Approvals, Decision, DecisionError, Policy, RUN_COMMAND, ShellCommand, ShownSubject,
    Subject,
};
pub use branches::{BRANCH, Branch, Branches, BranchesError};
pub use bridge::{CellCall, CellCallState};
pub use budget::{Budget, BudgetPart, ExitReason, Raise, Spent};
pub use cell_names::{CellNames, cell_names};
pub use doubt::{Computation, Doubt};
pub use event::{
    CallResult, CellResult, EVENT_VERSION, Ending, NotKept, Parent, RunClient, RunEvent, Start,
    TaskFile, ToolAnswer,
};
pub use evidence::{Derivation, DerivationInput, Evidence, Seen, Weakness};
pub use machine::{Call, Effect, Misfit, Run, Step};
pub use risk::{Capability, Finding, Risk, risk};
pub use timing::{RepeatedCall, StepTiming, Timing};

pub(crate) use branches::{branch_failed, check_failed, exception_line, none_accepted};
pub(crate) use context::cut_middle;
pub(crate) use evidence::line_with;
pub(crate) use words::{names, parent as parent_words};
