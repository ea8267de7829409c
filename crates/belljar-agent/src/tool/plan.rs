//! The plan: a tree of tasks that a model keeps (PLN-1, PLN-2).
//!
//! The model sends the whole tree each time. [`Plan::update`] checks it, gives ids to tasks, says
//! what changed since the last time, and what can be done next; [`PlanUpdate::text`] is what the
//! model gets back. A task without an id keeps the one that its name had, so that leaving ids out
//! does not make every task new.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ToolSpec;

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
        match (self, language) {
            (Self::Pending, Language::English) => "pending",
            (Self::Processing, Language::English) => "processing",
            (Self::Completed, Language::English) => "completed",
            (Self::Failed, Language::English) => "failed",
            (Self::Retry, Language::English) => "retry",
            (Self::Skipped, Language::English) => "skipped",
            (Self::Pending, Language::Chinese) => "待执行",
            (Self::Processing, Language::Chinese) => "正在执行",
            (Self::Completed, Language::Chinese) => "执行成功",
            (Self::Failed, Language::Chinese) => "执行失败",
            (Self::Retry, Language::Chinese) => "重试",
            (Self::Skipped, Language::Chinese) => "已跳过",
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
    /// What a model is told of the tool.
    pub fn spec(language: Language) -> ToolSpec {
        let english = language == Language::English;
        let description = if english {
            "Keep your plan: call it first, before other tools, and again whenever a task's status \
             changes or tasks are added. Send the whole tree each time. You get back what changed, \
             the plan as a checklist, statistics, and the tasks that are ready. Rather add tasks and \
             change their status than remove them. Dependencies are names of tasks."
        } else {
            "必须调用作为计划推理过程的思考与记录，然后再调用其他工具；任务状态变化或新增任务时再次调用。每次发送完整的计划树。\
             返回变更总结、Markdown 清单、状态统计和可执行的任务。宜增加任务、修改状态，不要删除任务节点。依赖用任务名称表示。"
        };
        let purpose = if english {
            "Why this tool is called now."
        } else {
            "工具调用的目的，即调用该工具的具体场景或问题。"
        };
        let mut tree = schemars::schema_for!(PlanTree).to_value();
        let definitions = tree.as_object_mut().and_then(|tree| {
            tree.remove("$schema");
            tree.remove("$defs")
        });
        ToolSpec {
            name: PLAN.into(),
            description: description.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool_call_purpose": { "type": "string", "description": purpose },
                    "recursive_plan_tree": tree,
                },
                "required": ["tool_call_purpose", "recursive_plan_tree"],
                "$defs": definitions,
            }),
        }
    }

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

/// A task and where it stands in its tree.
struct Place<'a> {
    task: &'a Task,
    parent: Option<&'a Task>,
    level: usize,
}

/// All tasks, parents before their children.
fn walk(tree: &PlanTree) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    let mut waiting: Vec<Place<'_>> = Vec::new();
    let place = |task, parent, level| Place {
        task,
        parent,
        level,
    };
    waiting.extend(
        tree.tree_nodes
            .iter()
            .rev()
            .map(|task| place(task, None, 0)),
    );
    while let Some(next) = waiting.pop() {
        let children = next.task.children.iter().rev();
        waiting.extend(children.map(|child| place(child, Some(next.task), next.level + 1)));
        places.push(next);
    }
    places
}

fn check(tree: &PlanTree) -> Result<(), PlanFault> {
    let places = walk(tree);
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    for Place { task, level, .. } in &places {
        if *level >= DEPTH {
            return Err(PlanFault::TooDeep);
        }
        if task.task_name.trim().is_empty() {
            return Err(PlanFault::NoName);
        }
        if !names.insert(&task.task_name) {
            return Err(PlanFault::SameName {
                name: task.task_name.clone(),
            });
        }
        if !task.task_id.is_empty() && !ids.insert(&task.task_id) {
            return Err(PlanFault::SameId {
                id: task.task_id.clone(),
            });
        }
    }
    for Place { task, .. } in &places {
        for dependency in &task.dependencies {
            if !names.contains(dependency) {
                return Err(PlanFault::NoSuchTask {
                    task: task.task_name.clone(),
                    dependency: dependency.clone(),
                });
            }
        }
    }
    match cycle(&places) {
        Some(names) => Err(PlanFault::Cycle { names }),
        None => Ok(()),
    }
}

/// A circle of tasks that wait for each other. A task waits for its dependencies and for its
/// children; so a child that depends on its own parent is a circle too.
fn cycle(places: &[Place<'_>]) -> Option<Vec<String>> {
    let number: HashMap<&str, usize> = (0..)
        .zip(places)
        .map(|(index, place)| (place.task.task_name.as_str(), index))
        .collect();
    let waits_for = |index: usize| -> Vec<usize> {
        let task = places[index].task;
        let children = task.children.iter().map(|child| &child.task_name);
        let names = task.dependencies.iter().chain(children);
        names
            .filter_map(|name| number.get(name.as_str()).copied())
            .collect()
    };
    let mut done = vec![false; places.len()];
    for start in 0..places.len() {
        // The path from `start`, and what each task on it still has to look at.
        let mut path = vec![(start, waits_for(start))];
        let mut on_path = BTreeSet::from([start]);
        while let Some((here, rest)) = path.last_mut() {
            let here = *here;
            match rest.pop() {
                Some(next) if on_path.contains(&next) => {
                    let from = path.iter().position(|(index, _)| *index == next)?;
                    let mut names: Vec<String> = path[from..]
                        .iter()
                        .map(|(index, _)| places[*index].task.task_name.clone())
                        .collect();
                    names.push(places[next].task.task_name.clone());
                    return Some(names);
                }
                Some(next) if done[next] => {}
                Some(next) => {
                    on_path.insert(next);
                    path.push((next, waits_for(next)));
                }
                None => {
                    done[here] = true;
                    on_path.remove(&here);
                    path.pop();
                }
            }
        }
    }
    None
}

/// Tasks without an id get the one that their name had, else a new one.
fn give_ids(tree: &mut PlanTree, old: &[Place<'_>], next_id: &mut u32) -> Result<(), PlanFault> {
    let before: HashMap<&str, &str> = old
        .iter()
        .map(|place| (place.task.task_name.as_str(), place.task.task_id.as_str()))
        .collect();
    let mut taken: HashSet<String> = walk(tree)
        .iter()
        .map(|place| place.task.task_id.clone())
        .collect();
    let known: HashSet<&str> = old
        .iter()
        .map(|place| place.task.task_id.as_str())
        .collect();
    let mut tasks: Vec<&mut Task> = tree.tree_nodes.iter_mut().rev().collect();
    while let Some(task) = tasks.pop() {
        if task.task_id.is_empty() {
            task.task_id = match before.get(task.task_name.as_str()) {
                Some(id) => (*id).to_owned(),
                None => loop {
                    *next_id += 1;
                    let id = format!("TASK-{next_id}");
                    if !taken.contains(&id) && !known.contains(id.as_str()) {
                        break id;
                    }
                },
            };
            if !taken.insert(task.task_id.clone()) {
                return Err(PlanFault::SameId {
                    id: task.task_id.clone(),
                });
            }
        }
        tasks.extend(task.children.iter_mut().rev());
    }
    Ok(())
}

fn changes(old: &[Place<'_>], new: &[Place<'_>]) -> Vec<PlanChange> {
    fn by_id<'a>(places: &'a [Place<'a>]) -> HashMap<&'a str, &'a Place<'a>> {
        let id = |place: &'a Place<'a>| (place.task.task_id.as_str(), place);
        places.iter().map(id).collect()
    }
    let parent_name = |place: &Place<'_>| place.parent.map(|parent| parent.task_name.clone());
    let parent_id = |place: &Place<'_>| place.parent.map(|parent| parent.task_id.clone());
    let (before, now) = (by_id(old), by_id(new));
    let mut changes = Vec::new();
    for place in new {
        let name = place.task.task_name.clone();
        let Some(was) = before.get(place.task.task_id.as_str()) else {
            changes.push(PlanChange::Added { name });
            continue;
        };
        if was.task.status != place.task.status {
            changes.push(PlanChange::Status {
                name: name.clone(),
                from: was.task.status,
                to: place.task.status,
            });
        }
        // By id: a parent that got another name is the same parent.
        if parent_id(was) != parent_id(place) {
            changes.push(PlanChange::Moved {
                name,
                from: parent_name(was),
                to: parent_name(place),
            });
        }
    }
    let gone = old
        .iter()
        .filter(|place| !now.contains_key(place.task.task_id.as_str()));
    changes.extend(gone.map(|place| PlanChange::Removed {
        name: place.task.task_name.clone(),
    }));
    changes
}

fn statistics(places: &[Place<'_>]) -> PlanStatistics {
    let mut by_status: BTreeMap<TaskStatus, usize> = TaskStatus::ALL
        .into_iter()
        .map(|status| (status, 0))
        .collect();
    for place in places {
        *by_status.entry(place.task.status).or_default() += 1;
    }
    PlanStatistics {
        by_status,
        total: places.len(),
    }
}

/// Tasks to be done whose dependencies, and those of all tasks that they are part of, are
/// finished, and that have no unfinished part themselves. A skipped dependency holds nobody up; a
/// failed one does.
fn ready(places: &[Place<'_>]) -> Vec<String> {
    let finished = |status| matches!(status, TaskStatus::Completed | TaskStatus::Skipped);
    let status: HashMap<&str, TaskStatus> = places
        .iter()
        .map(|place| (place.task.task_name.as_str(), place.task.status))
        .collect();
    let free = |task: &Task| {
        let of = |name: &String| status.get(name.as_str()).copied().unwrap_or_default();
        task.dependencies.iter().all(|name| finished(of(name)))
    };
    // Parents come first, so theirs is known.
    let mut open: HashMap<&str, bool> = HashMap::new();
    let mut ready = Vec::new();
    for Place { task, parent, .. } in places {
        let above = parent.is_none_or(|parent| open[parent.task_name.as_str()]);
        let here = above && free(task) && !finished(task.status);
        open.insert(&task.task_name, here);
        let waits = matches!(task.status, TaskStatus::Pending | TaskStatus::Retry);
        let parts_done = task.children.iter().all(|child| finished(child.status));
        if here && waits && parts_done {
            ready.push(task.task_name.clone());
        }
    }
    ready
}

impl PlanUpdate {
    /// What the model gets back: what changed, the checklist, the statistics, what is ready.
    pub fn text(&self, language: Language) -> String {
        let english = language == Language::English;
        let mut out = String::new();
        let heading = |out: &mut String, words: [&str; 2]| {
            let _ = writeln!(out, "### {}", words[usize::from(!english)]);
        };
        heading(&mut out, ["Changes", "变更总结"]);
        let _ = writeln!(out, "{}", self.summary(language));
        heading(&mut out, ["Checklist", "Markdown 清单"]);
        out.push_str(&self.tree.checklist(language));
        heading(&mut out, ["Statistics", "状态统计"]);
        let statistics = &self.statistics;
        let counts: Vec<String> = statistics
            .by_status
            .iter()
            .map(|(status, count)| format!("{} {count}", status.word(language)))
            .collect();
        let done = statistics.percent(TaskStatus::Completed);
        let (total, counts) = (
            statistics.total,
            counts.join(if english { ", " } else { "，" }),
        );
        let _ = if english {
            writeln!(out, "{total} tasks: {counts}; {done} % completed")
        } else {
            writeln!(out, "共 {total} 项：{counts}；完成率 {done}%")
        };
        heading(&mut out, ["Ready to be done", "可执行的任务"]);
        let ready = match (&self.ready[..], english) {
            ([], true) => "none".into(),
            ([], false) => "无".into(),
            (names, true) => names.join(", "),
            (names, false) => names.join("、"),
        };
        let _ = writeln!(out, "{ready}");
        out
    }

    /// What changed, a line for each kind.
    pub fn summary(&self, language: Language) -> String {
        let english = language == Language::English;
        let root = if english { "root" } else { "根节点" };
        let comma = if english { ", " } else { "，" };
        let mut lines = Vec::new();
        if self.first {
            let line = ["✅ The plan was made", "✅ 首次创建计划树"];
            lines.push(line[usize::from(!english)].to_owned());
        }
        let mut line = |label: [&str; 2], items: Vec<String>| {
            if !items.is_empty() {
                let label = label[usize::from(!english)];
                lines.push(format!("{label}{}", items.join(comma)));
            }
        };
        let items = |pick: &dyn Fn(&PlanChange) -> Option<String>| -> Vec<String> {
            self.changes.iter().filter_map(pick).collect()
        };
        line(
            ["🆕 Added: ", "🆕 新增任务："],
            items(&|change| match change {
                PlanChange::Added { name } => Some(name.clone()),
                _ => None,
            }),
        );
        line(
            ["🗑️ Removed: ", "🗑️ 删除任务："],
            items(&|change| match change {
                PlanChange::Removed { name } => Some(name.clone()),
                _ => None,
            }),
        );
        line(
            ["🔄 Status: ", "🔄 状态变更："],
            items(&|change| match change {
                PlanChange::Status { name, from, to } => {
                    let (from, to) = (from.word(language), to.word(language));
                    Some(if english {
                        format!("{name} ({from} → {to})")
                    } else {
                        format!("{name}（{from} → {to}）")
                    })
                }
                _ => None,
            }),
        );
        line(
            ["📌 Moved: ", "📌 层级调整："],
            items(&|change| match change {
                PlanChange::Moved { name, from, to } => {
                    let from = from.as_deref().unwrap_or(root);
                    let to = to.as_deref().unwrap_or(root);
                    Some(if english {
                        format!("{name} (parent: {from} → {to})")
                    } else {
                        format!("{name}（父任务：{from} → {to}）")
                    })
                }
                _ => None,
            }),
        );
        if lines.is_empty() {
            let none = ["ℹ️ Nothing changed in the plan", "ℹ️ 计划树无明显变更"];
            lines.push(none[usize::from(!english)].to_owned());
        }
        lines.join("\n")
    }
}

impl PlanTree {
    /// The plan as a Markdown checklist.
    pub fn checklist(&self, language: Language) -> String {
        let english = language == Language::English;
        let mut out = String::new();
        for Place { task, level, .. } in walk(self) {
            let indent = "  ".repeat(level);
            let (symbol, name, id) = (task.status.symbol(), &task.task_name, &task.task_id);
            let _ = if english {
                write!(out, "{indent}- [{symbol}] **{name}** (ID: {id})")
            } else {
                write!(out, "{indent}- [{symbol}] **{name}**（ID：{id}）")
            };
            if let TaskStatus::Failed | TaskStatus::Retry | TaskStatus::Skipped = task.status {
                let label = if english { "status: " } else { "状态：" };
                let _ = write!(out, " | {label}{}", task.status.word(language));
            }
            out.push('\n');
            let more = [
                (["about: ", "说明："], &task.description),
                (["result: ", "结果："], &task.output),
            ];
            for (label, text) in more.into_iter().filter(|(_, text)| !text.is_empty()) {
                let label = label[usize::from(!english)];
                // A line break would end the quotation.
                let text = text.replace('\n', &format!("\n{indent}  > "));
                let _ = writeln!(out, "{indent}  > {label}{text}");
            }
        }
        out
    }
}
