//! The plan in words, for the model.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::tree::{Place, walk};
use super::{PlanChange, PlanTree, PlanUpdate, TaskStatus};

impl PlanUpdate {
    /// What the model gets back: what changed, the checklist, the statistics, what is ready.
    pub fn text(&self, language: Language) -> String {
        let texts = language.prompts();
        let statistics = &self.statistics;
        let counts = statistics.by_status.iter();
        let counts = counts.map(|(status, count)| format!("{} {count}", status.word(language)));
        let counts = texts.plan_counts(
            statistics.total,
            &counts.collect::<Vec<_>>(),
            statistics.percent(TaskStatus::Completed),
        );
        let ready = match &self.ready[..] {
            [] => texts.plan_none_ready.to_owned(),
            names => texts.plan_names_ready(names),
        };
        // The checklist ends its lines itself.
        format!(
            "### {}\n{}\n### {}\n{}### {}\n{counts}\n### {}\n{ready}\n",
            texts.plan_changes,
            self.summary(language),
            texts.plan_checklist,
            self.tree.checklist(language),
            texts.plan_statistics,
            texts.plan_ready,
        )
    }

    /// What changed, a line for each kind.
    pub fn summary(&self, language: Language) -> String {
        let texts = language.prompts();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let (mut status, mut moved) = (Vec::new(), Vec::new());
        for change in &self.changes {
            match change {
                PlanChange::Added { name } => added.push(name.clone()),
                PlanChange::Removed { name } => removed.push(name.clone()),
                PlanChange::Status { name, from, to } => {
                    let (from, to) = (from.word(language), to.word(language));
                    status.push(texts.plan_status_change(name, from, to));
                }
                PlanChange::Moved { name, from, to } => {
                    let from = from.as_deref().unwrap_or(texts.plan_root);
                    let to = to.as_deref().unwrap_or(texts.plan_root);
                    moved.push(texts.plan_move(name, from, to));
                }
            }
        }
        let mut lines = Vec::new();
        if self.first {
            lines.push(texts.plan_made.to_owned());
        }
        if !added.is_empty() {
            lines.push(texts.plan_added(&added));
        }
        if !removed.is_empty() {
            lines.push(texts.plan_removed(&removed));
        }
        if !status.is_empty() {
            lines.push(texts.plan_status(&status));
        }
        if !moved.is_empty() {
            lines.push(texts.plan_moved(&moved));
        }
        if lines.is_empty() {
            lines.push(texts.plan_unchanged.to_owned());
        }
        lines.join("\n")
    }
}

impl PlanTree {
    /// The plan as a Markdown checklist.
    pub fn checklist(&self, language: Language) -> String {
        let texts = language.prompts();
        let mut out = String::new();
        for Place { task, level, .. } in walk(self) {
            let indent = "  ".repeat(level);
            let symbol = task.status.symbol();
            let line = texts.plan_task(&task.task_name, &task.task_id);
            let _ = write!(out, "{indent}- [{symbol}] {line}");
            if let TaskStatus::Failed | TaskStatus::Retry | TaskStatus::Skipped = task.status {
                out.push_str(&texts.plan_task_status(task.status.word(language)));
            }
            out.push('\n');
            // A line break would end the quotation.
            let quotable = |text: &str| text.replace('\n', &format!("\n{indent}  > "));
            if !task.description.is_empty() {
                let about = texts.plan_task_about(&quotable(&task.description));
                let _ = writeln!(out, "{indent}  > {about}");
            }
            if !task.output.is_empty() {
                let result = texts.plan_task_result(&quotable(&task.output));
                let _ = writeln!(out, "{indent}  > {result}");
            }
        }
        out
    }
}
