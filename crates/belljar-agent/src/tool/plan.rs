//! The plan: a tree of tasks that a model keeps (PLN-1, PLN-2).
//!
//! The model sends the whole tree each time. [`Plan::update`] checks it, gives ids to tasks, says
//! what changed since the last time, and what can be done next; [`PlanUpdate::text`] is what the
//! model gets back. A task without an id keeps the one that its name had, so that leaving ids out
//! does not make every task new.

pub(super) mod tool;
mod tree;
mod words;

use std::collections::BTreeMap;

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use tree::{changes, check, give_ids, ready, statistics, walk};

/// The tool's name.
pub const PLAN: &str = "recursive_plan_tree_todo";
/// Levels of tasks that are read. Deeper trees are refused: they would be walked by recursion.
const DEPTH: usize = 64;

/// Where a task stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being done.
    Processing,
    /// Done.
    Completed,
    /// Tried without success.
    Failed,
    /// To be tried again.
    Retry,
    /// Will not be done.
    Skipped,
}

impl TaskStatus {
    /// All of them, in the order of statistics.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Processing,
        Self::Completed,
        Self::Failed,
        Self::Retry,
        Self::Skipped,
    ];

    fn symbol(self) -> &'static str {
        match self {
            Self::Pending => "⏳",
            Self::Processing => "➡️",
            Self::Completed => "✅",
            Self::Failed => "❌",
            Self::Retry => "♻️",
            Self::Skipped => "➖",
        }
    }

    fn word(self, language: Language) -> &'static str {
        let texts = language.prompts();
        match self {
            Self::Pending => texts.task_pending,
            Self::Processing => texts.task_processing,
            Self::Completed => texts.task_completed,
            Self::Failed => texts.task_failed,
            Self::Retry => texts.task_retry,
            Self::Skipped => texts.task_skipped,
        }
    }
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Stays the same for the life of the task. May be left out: the name finds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Unique in the tree; dependencies name it.
    pub task_name: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it stands.
    #[serde(default)]
    pub status: TaskStatus,
    /// What came of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Names of tasks that must be finished first.
    #[serde(
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub dependencies: Vec<String>,
    /// What is worth looking into.
    #[serde(
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub research_directions: Vec<String>,
    /// Parts of it.
    #[serde(
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub children: Vec<Task>,
}

/// A tree of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTree {
    /// What all of it is for.
    pub core_goal: String,
    /// The tasks at the root.
    #[serde(default, deserialize_with = "or_empty")]
    pub tree_nodes: Vec<Task>,
    /// What the model wants to do next, in its own form.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub next_action: Map<String, Value>,
    /// Where things are said.
    #[serde(
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub references: Vec<String>,
}

/// `null` is an empty list.
fn or_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Why a tree was not taken. The plan stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlanFault {
    /// The arguments are not a tree.
    #[error("the plan can't be read: {reason}")]
    Shape {
        /// Which field, and what was expected.
        reason: String,
    },
    /// A task has no name.
    #[error("a task has no `task_name`; every task needs one")]
    NoName,
    /// Two tasks have one name.
    #[error("two tasks are named `{name}`; names must be unique, because dependencies use them")]
    SameName {
        /// The name.
        name: String,
    },
    /// Two tasks have one id.
    #[error("two tasks have the id `{id}`; ids must be unique")]
    SameId {
        /// The id.
        id: String,
    },
    /// A dependency is not in the tree.
    #[error("`{task}` depends on `{dependency}`, which is no task of the plan")]
    NoSuchTask {
        /// Who depends.
        task: String,
        /// On what.
        dependency: String,
    },
    /// Tasks wait for each other.
    #[error("these tasks wait for each other: {}", names.join(" → "))]
    Cycle {
        /// Around the circle; the first is the last again.
        names: Vec<String>,
    },
    /// The tree is too deep.
    #[error("the plan is more than {DEPTH} levels deep")]
    TooDeep,
}

/// One difference between two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlanChange {
    /// A task is new.
    Added {
        /// Its name.
        name: String,
    },
    /// A task is gone.
    Removed {
        /// Its name.
        name: String,
    },
    /// A task stands elsewhere.
    Status {
        /// Its name.
        name: String,
        /// Before.
        from: TaskStatus,
        /// Now.
        to: TaskStatus,
    },
    /// A task has another parent; none is the root.
    Moved {
        /// Its name.
        name: String,
        /// The parent before.
        from: Option<String>,
        /// The parent now.
        to: Option<String>,
    },
}

/// How many tasks stand where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStatistics {
    /// By status; all six are there.
    pub by_status: BTreeMap<TaskStatus, usize>,
    /// All tasks.
    pub total: usize,
}

impl PlanStatistics {
    /// Hundredths of all tasks that have this status; 0 of none.
    pub fn percent(&self, status: TaskStatus) -> usize {
        let count = self.by_status.get(&status).copied().unwrap_or(0);
        (count * 100 + self.total / 2)
            .checked_div(self.total)
            .unwrap_or(0)
    }
}

/// What an update did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanUpdate {
    /// There was no plan before.
    pub first: bool,
    /// The tree with all its ids.
    pub tree: PlanTree,
    /// What changed, in the order of the tree; removed tasks in the order of the old one.
    pub changes: Vec<PlanChange>,
    /// Counts.
    pub statistics: PlanStatistics,
    /// Names of tasks that can be done now, in the order of the tree.
    pub ready: Vec<String>,
}

/// The plan of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// As it was last sent.
    pub tree: Option<PlanTree>,
    /// The number of the next task that gets an id.
    next_id: u32,
}

impl Plan {
    /// Takes the arguments of a call. Unknown members are left out.
    pub fn call(&mut self, arguments: &Value) -> Result<PlanUpdate, PlanFault> {
        let tree = ["recursive_plan_tree", "current_plan_tree"]
            .iter()
            .find_map(|key| arguments.get(key))
            .unwrap_or(arguments);
        // Sent as text, as small models do with nested objects.
        let parsed = tree.as_str().map(serde_json::from_str::<Value>);
        let parsed = match parsed {
            Some(Ok(value)) => value,
            _ => tree.clone(),
        };
        let tree = serde_json::from_value(parsed).map_err(|fault| PlanFault::Shape {
            reason: fault.to_string(),
        })?;
        self.update(tree)
    }

    /// Takes a new tree, if it is sound.
    pub fn update(&mut self, mut tree: PlanTree) -> Result<PlanUpdate, PlanFault> {
        check(&tree)?;
        let old = self.tree.as_ref().map(walk).unwrap_or_default();
        let mut next_id = self.next_id;
        give_ids(&mut tree, &old, &mut next_id)?;
        let new = walk(&tree);
        let update = PlanUpdate {
            first: self.tree.is_none(),
            changes: changes(&old, &new),
            statistics: statistics(&new),
            ready: ready(&new),
            tree: tree.clone(),
        };
        drop((old, new));
        self.tree = Some(tree);
        self.next_id = next_id;
        Ok(update)
    }
}
