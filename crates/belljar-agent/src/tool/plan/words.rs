//! The plan in words, for the model.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::tree::{Place, walk};
use super::{PlanChange, PlanTree, PlanUpdate, TaskStatus};

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
