//! What the host does for a model.

mod compute;
mod plan;
mod spec;

pub use compute::{COMPUTE, Computations, Computed, Evaluator, serve_computation};
pub use plan::{
    PLAN, Plan, PlanChange, PlanFault, PlanStatistics, PlanTree, PlanUpdate, Task, TaskStatus,
};
pub use spec::ToolSpec;
