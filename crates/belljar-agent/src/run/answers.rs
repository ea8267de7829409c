//! Which answers are accepted, and what a run has when it ends without one.

use std::collections::BTreeMap;

use serde_json::json;

use super::budget::ExitReason;
use super::checks::{self, Answered};
use super::doubt::Doubt;
use super::event::Ending;
use super::evidence::{Evidence, Seen, Sources, evidence};
use super::machine::{AskedAgain, Call, CallState, Effect, Run, Step};
use super::words;
use crate::dialect::{ANSWER, Action};

/// How often an answer is refused because no output shows it.
const MOST_SENT_BACK: usize = 3;

/// How often the same answer is refused.
const INSISTING: usize = 2;

impl Run {
    /// Sends a doubtful answer back. One that is repeated is accepted, as unverified.
    pub(super) fn judge_answer(&mut self) {
        let (Some(start), Some(step)) = (&self.start, self.steps.last()) else {
            return;
        };
        let Some(answer) = answer_of(step) else {
            return;
        };
        let before = self.sent_back.iter().filter(|said| *said == answer.text);
        let insists = before.count() == INSISTING && !self.last_call_failed;
        let last = self.budget.exceeded_by(&self.spent).is_some();
        if insists || last || self.sent_back.len() >= MOST_SENT_BACK {
            return;
        }
        let texts = start.language.prompts();
        let doubts = self.doubts(answer.text);
        let values = doubts.iter().filter_map(|doubt| match doubt {
            Doubt::Unseen { value } | Doubt::WrittenInCode { value } => Some(value.as_str()),
            _ => None,
        });
        let values: Vec<&str> = values.collect();
        let note = if doubts.contains(&Doubt::NothingRun) {
            texts.answer_without_code.to_owned()
        } else if doubts.contains(&Doubt::LastCallFailed) {
            texts.answer_after_failure.to_owned()
        } else if !values.is_empty() {
            words::answer_unseen(&values, &start.task, start.language)
        } else if !doubts.is_empty() && !self.asked_again.contains(&AskedAgain::Doubts) {
            self.asked_again.push(AskedAgain::Doubts);
            words::answer_doubted(&doubts, &start.task, start.language)
        } else if start.review && !self.asked_again.contains(&AskedAgain::Review) {
            self.asked_again.push(AskedAgain::Review);
            texts.review(&start.task)
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

    /// What is doubtful about an answer.
    fn doubts(&self, answer: &str) -> Vec<Doubt> {
        let Some(start) = &self.start else {
            return Vec::new();
        };
        if self.outputs.is_empty() {
            return vec![Doubt::NothingRun];
        }
        let mut doubts = Vec::new();
        if self.last_call_failed && !checks::is_founded_refusal(answer, &self.outputs) {
            doubts.push(Doubt::LastCallFailed);
        }
        let evidence = self.evidence(answer);
        let unfounded = evidence
            .iter()
            .filter(|found| found.is_unfounded() && !found.is_file());
        doubts.extend(unfounded.map(|found| {
            let value = found.value.clone();
            match found.seen {
                Some(Seen::Code { .. }) => Doubt::WrittenInCode { value },
                _ => Doubt::Unseen { value },
            }
        }));
        doubts.extend(checks::doubts(&Answered {
            task: &start.task,
            files: &start.files,
            answer,
            evidence: &evidence,
            sources: &self.outputs,
            exists: &|name| self.has_file(name),
            has_more: start.parent.is_some() || !start.granted.is_empty(),
        }));
        doubts
    }

    fn evidence(&self, answer: &str) -> Vec<Evidence> {
        let start = self.start.as_ref();
        let sources = Sources {
            outputs: &self.outputs,
            task: start.map_or("", |start| &start.task),
            exists: &|name| self.has_file(name),
            has_data: start.is_some_and(|start| !start.files.is_empty()),
        };
        evidence(answer, &sources)
    }

    /// Whether the run was given a file of this name, or made one.
    fn has_file(&self, name: &str) -> bool {
        let given = self.start.iter().flat_map(|start| &start.files);
        let given = given.map(|file| file.name.as_str());
        let made = self.artifacts.keys().map(String::as_str);
        let name = name.trim_start_matches("./");
        let file = name.rsplit('/').next().unwrap_or(name);
        // In a text without spaces the words before it seem to belong to it.
        let is_it = |path: &str| {
            let known = path.rsplit('/').next().unwrap_or(path);
            known == file || !file.is_ascii() && file.ends_with(known)
        };
        given.chain(made).any(is_it)
    }

    /// The answer of the last step, unless it was refused.
    pub(super) fn accepted(&self) -> Option<String> {
        let step = self.steps.last()?;
        let sent_back = step.note.is_some() || step.calls.iter().any(|call| call.tool == ANSWER);
        let answer = answer_of(step).filter(|_| !sent_back)?;
        Some(answer.text.to_owned())
    }

    /// The end of a run with an answer.
    pub(super) fn finish_with(&self, answer: String) -> Effect {
        let doubts = self.doubts(&answer);
        let reason = if doubts.is_empty() {
            ExitReason::Answered
        } else {
            ExitReason::Unverified { doubts }
        };
        Effect::Finish(Box::new(Ending {
            evidence: self.evidence(&answer),
            answer: Some(answer),
            ..self.ending_for(reason)
        }))
    }

    /// The end of a run without an answer: it has the last output of a successful cell. An answer that
    /// was just sent back is still one, unless a person stopped the run.
    pub(super) fn finish(&self, reason: ExitReason) -> Effect {
        let answer = self.steps.last().and_then(answer_of);
        if let Some(answer) = answer.filter(|_| reason != ExitReason::Stopped) {
            return self.finish_with(answer.text.to_owned());
        }
        let calls = self.steps.iter().rev();
        let mut calls = calls.flat_map(|step| step.calls.iter().rev());
        let last_output = calls.find_map(|call| {
            let result = call.result().filter(|result| !result.failed)?;
            let output = result.cell.as_ref()?.output.trim();
            (!output.is_empty()).then(|| output.to_owned())
        });
        Effect::Finish(Box::new(Ending {
            last_output,
            ..self.ending_for(reason)
        }))
    }

    fn ending_for(&self, reason: ExitReason) -> Ending {
        Ending {
            reason,
            answer: None,
            last_output: None,
            evidence: Vec::new(),
            artifacts: self.artifacts.values().cloned().collect(),
            contents: BTreeMap::new(),
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
