//! The agent: how a model is asked for actions, and what its actions do.

mod dialect;
mod tool;

pub use dialect::{
    ANSWER, Action, Dialect, Mending, PYTHON, Parsed, Problem, RawToolCall, Rendered, ReplyParts,
    Unparsed,
};
pub use tool::{
    COMPUTE, Computations, Computed, Evaluator, PLAN, Plan, PlanChange, PlanFault, PlanStatistics,
    PlanTree, PlanUpdate, Task, TaskStatus, ToolSpec, serve_computation,
};
