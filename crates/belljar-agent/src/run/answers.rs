//! Which answers are accepted, and the best answer when a run has to end.

use serde_json::json;

use super::budget::ExitReason;
use super::event::{Ending, Start};
use super::evidence::{Source, evidence, unseen};
use super::machine::{Call, CallState, Effect, Run, Step};
use super::words;
use crate::dialect::{ANSWER, Action};

/// How often an answer is refused because no output shows it.
const MOST_SENT_BACK: usize = 3;

/// Extensions of files that tasks ask for.
const MADE: [&str; 12] = [
    "png", "jpg", "svg", "pdf", "csv", "tsv", "json", "xlsx", "parquet", "html", "md", "txt",
];

/// How often the same answer is refused.
const INSISTING: usize = 2;

impl Run {
    /// Refuses an answer whose values were seen nowhere.
    pub(super) fn judge_answer(&mut self) {
        let (Some(start), Some(step)) = (&self.start, self.steps.last()) else {
            return;
        };
        let Some(answer) = answer_of(step) else {
            return;
        };
        // Who insists is believed, unless the code has failed since.
        let before = self.sent_back.iter().filter(|said| *said == answer.text);
        let insists = before.count() == INSISTING && !self.last_call_failed;
        let last = self.budget.steps <= self.spent.steps;
        if insists || last || self.sent_back.len() >= MOST_SENT_BACK {
            return;
        }
        let found = evidence(answer.text, &self.sources(), &start.task);
        let unseen = unseen(&found);
        let note = if self.outputs.is_empty() {
            words::answer_without_code(start.language)
        } else if self.last_call_failed {
            words::answer_after_failure(start.language)
        } else if !unseen.is_empty() {
            words::answer_unseen(&unseen, &start.task, start.language)
        } else if let (Some(file), None) = (self.missing_file(start), &self.asked_for_file) {
            let note = words::no_such_file(&file, start.language);
            self.asked_for_file = Some(file);
            note
        } else if start.review && !self.reviewed {
            self.reviewed = true;
            words::review(&start.task, start.language)
        } else {
            return;
        };
        self.sent_back.push(answer.text.to_owned());
        let call_id = answer.call_id.map(str::to_owned);
        let arguments = json!({ "text": answer.text });
        if let Some(step) = self.steps.last_mut() {
            match call_id {
                // A tool call of the provider's gets its one result.
                Some(_) => step.calls.push(Call {
                    tool: ANSWER.into(),
                    arguments,
                    call_id,
                    approved: None,
                    state: CallState::refused(note),
                }),
                None => step.note = Some(note),
            }
        }
    }

    /// A missing file that the task names.
    fn missing_file(&self, start: &Start) -> Option<String> {
        let ends = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;:，。；：、（）《》".contains(c);
        let names = start
            .task
            .split(ends)
            .map(|name| name.trim_end_matches('.'));
        let made = |name: &str| {
            let file = name.rsplit('/').next().unwrap_or(name);
            let mut paths = self.artifacts.keys().map(String::as_str);
            paths.any(|path| path == file || path.ends_with(&format!("/{file}")))
                || start.files.iter().any(|given| given.name == file)
        };
        let mut files = names.filter(|name| {
            let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
            extension.is_some_and(|(_, extension)| MADE.contains(&extension))
        });
        files.find(|name| !made(name)).map(str::to_owned)
    }

    /// The answer of the last step, unless it was refused.
    pub(super) fn accepted(&self) -> Option<String> {
        let step = self.steps.last()?;
        let sent_back = step.note.is_some() || step.calls.iter().any(|call| call.tool == ANSWER);
        let answer = answer_of(step).filter(|_| !sent_back)?;
        Some(answer.text.to_owned())
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let sources = self.outputs.iter().map(|(step, cell, text)| Source {
            step: *step,
            cell: *cell,
            text,
        });
        sources.collect()
    }

    pub(super) fn finish(&self, reason: ExitReason) -> Effect {
        Effect::Finish(Box::new(self.ending_with(reason, self.best_answer())))
    }

    /// The best answer when the run has to end: a refused answer, or the last output of a
    /// successful cell.
    fn best_answer(&self) -> Option<String> {
        if let Some(answer) = self.steps.last().and_then(answer_of) {
            return Some(answer.text.to_owned());
        }
        let output = self
            .steps
            .iter()
            .rev()
            .flat_map(|step| step.calls.iter().rev())
            .find_map(|call| {
                let result = call.result().filter(|result| !result.failed)?;
                let output = result.cell.as_ref()?.output.trim();
                (!output.is_empty()).then(|| output.to_owned())
            });
        output.or_else(|| self.sent_back.last().cloned())
    }

    pub(super) fn ending_with(&self, reason: ExitReason, answer: Option<String>) -> Ending {
        let task = self.start.as_ref().map_or("", |start| &start.task);
        let evidence = answer
            .as_deref()
            .map(|text| evidence(text, &self.sources(), task));
        Ending {
            reason,
            evidence: evidence.unwrap_or_default(),
            answer,
            artifacts: self.artifacts.values().cloned().collect(),
            not_kept: Vec::new(),
            not_kept_more: 0,
        }
    }
}

/// An answer that the model gave.
pub(super) struct ModelAnswer<'a> {
    text: &'a str,
    /// The provider's id, if it was a tool call.
    call_id: Option<&'a str>,
}

pub(super) fn answer_of(step: &Step) -> Option<ModelAnswer<'_>> {
    step.actions.iter().find_map(|action| match action {
        Action::Answer { text, call_id } => Some(ModelAnswer {
            text,
            call_id: call_id.as_deref(),
        }),
        Action::Tool { .. } | Action::Refused { .. } => None,
    })
}
