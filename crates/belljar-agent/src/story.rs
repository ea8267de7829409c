//! What happened in a run, as it is exported and run again.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_journal::Blobs;
use belljar_protocol::{Cause, Outcome, Status};
use serde_json::Value;

use crate::dialect::PYTHON;
use crate::driver::RunError;
use crate::run::{Call, CallResult, CellCall, ExitReason, Run, RunEvent, TaskFile};

/// A larger file is not put into a notebook or a script.
const FILE_BYTES: u64 = 8 << 20;

/// What a script begins with if its run started with files.
const FILES: &str = "\
# The files that the run started with. Missing ones are written, existing ones are not replaced.
def _file(name, contents, size=0):
    import base64, pathlib
    path = pathlib.Path(name)
    if contents is None:
        if not path.exists():
            raise FileNotFoundError(f\"copy {name} ({size} bytes) to this directory: it is too large to be part of this\")
        return
    contents = base64.b64decode(contents)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
    elif path.read_bytes() != contents:
        raise FileExistsError(f\"{name} has other contents than in the run: move it, or use an empty directory\")";

/// Whether a cell can be run again to the same end: not one that was stopped, or that took its
/// process with it.
pub(crate) fn repeatable(outcome: &Outcome) -> bool {
    matches!(outcome.status, Status::Success | Status::Failure)
        && outcome.cause != Cause::Interrupted
}

/// What happened in a run, without what was taken back.
pub(crate) struct Story {
    pub(crate) run: Run,
    pub(crate) parts: Vec<Part>,
    /// The files that it started with; those that are too large without their contents.
    pub(crate) files: Vec<(TaskFile, Option<Vec<u8>>)>,
}

pub(crate) struct Part {
    pub(crate) step: u32,
    pub(crate) told: Told,
}

pub(crate) enum Told {
    Thought(String),
    /// A new session without the variables of the one before.
    Anew,
    Cell {
        code: String,
        call: Box<Call>,
        result: Box<CallResult>,
        /// The calls that its code made.
        made: Vec<CellCall>,
        /// Nothing for a cell that never came to one.
        outcome: Option<Box<Outcome>>,
    },
    /// A call of another tool.
    Other {
        call: Box<Call>,
        text: String,
    },
}

impl Story {
    pub(crate) async fn from_events(events: &[RunEvent], blobs: &Blobs) -> Result<Self, RunError> {
        let mut run = Run::default();
        let mut parts = Vec::new();
        let mut sessions = 0;
        for event in events {
            let made = match event {
                RunEvent::CallEnded { .. } => run.cell_calls().to_vec(),
                _ => Vec::new(),
            };
            run.apply(event)?;
            let (step, told) = match event {
                RunEvent::Replied { step, .. } => match run.steps().last() {
                    Some(last) => match &last.thought {
                        Some(thought) => (*step, Told::Thought(thought.clone())),
                        None => continue,
                    },
                    None => continue,
                },
                RunEvent::SessionStarted { cells, .. } => {
                    sessions += 1;
                    let step = run.steps().last().map_or(0, |step| step.number);
                    if *cells > 0 || sessions == 1 {
                        continue;
                    }
                    (step, Told::Anew)
                }
                RunEvent::CallEnded { step, call, result } => {
                    let call = usize::try_from(*call).ok();
                    let calls = run.steps().last().map(|step| &step.calls);
                    let Some(call) = calls.zip(call).and_then(|(calls, at)| calls.get(at)) else {
                        continue;
                    };
                    let told = match call.code().filter(|_| call.tool == PYTHON) {
                        Some(code) => Told::Cell {
                            code: code.to_owned(),
                            call: Box::new(call.clone()),
                            outcome: outcome(result, blobs).await?,
                            result: result.clone(),
                            made,
                        },
                        None => Told::Other {
                            call: Box::new(call.clone()),
                            text: result.text.clone(),
                        },
                    };
                    (*step, told)
                }
                RunEvent::RolledBack { step, restored, .. } => {
                    // Where the variables were not taken back, what made them belongs to the story.
                    if *restored {
                        parts.retain(|part: &Part| part.step < *step);
                    }
                    continue;
                }
                _ => continue,
            };
            parts.push(Part { step, told });
        }
        let mut files = Vec::new();
        for file in run.start().map_or(&[][..], |start| &start.files) {
            let contents = match file.bytes {
                0..=FILE_BYTES => Some(blobs.get(&file.contents).await?),
                _ => None,
            };
            files.push((file.clone(), contents));
        }
        Ok(Self { run, parts, files })
    }

    pub(crate) fn task(&self) -> &str {
        self.run.start().map_or("", |start| &start.task)
    }

    /// How it ended: a heading that says what the text below it is, the text, and lines on what is
    /// known of it.
    pub(crate) fn end(&self) -> Option<(String, &str, Vec<String>)> {
        let ending = self.run.ending()?;
        let language = self.run.language();
        let texts = &language.texts().run;
        let doubts = ending.reason.doubts().iter();
        let doubts = doubts.map(|doubt| texts.unverified(&doubt.text(language)));
        let evidence = ending.evidence.iter().map(|found| found.text(language));
        let lines = doubts.chain(evidence).collect();
        Some(match (&ending.reason, &ending.answer) {
            (ExitReason::Answered, Some(answer)) => (texts.heading_answer.into(), answer, lines),
            (ExitReason::Unverified { .. }, Some(answer)) => {
                (texts.heading_unverified.into(), answer, lines)
            }
            (reason, _) => {
                let heading = texts.heading_not_answered(&reason.text(language));
                let output = ending.last_output.as_deref();
                let label = output.map(|_| format!("{}:", texts.heading_last_output));
                (
                    heading,
                    output.unwrap_or_default(),
                    label.into_iter().collect(),
                )
            }
        })
    }

    /// Python that finds the files that the run started with, and leaves no name behind. A missing one is
    /// written; one with other contents is somebody's own, and stays.
    pub(crate) fn writing_files(&self) -> Option<String> {
        let mut code = FILES.to_owned();
        for (file, contents) in &self.files {
            let name = python_text(&file.name);
            let _ = match contents {
                Some(contents) => write!(code, "\n_file({name}, \"{}\")", BASE64.encode(contents)),
                None => write!(code, "\n_file({name}, None, {})", file.bytes),
            };
        }
        code.push_str("\ndel _file");
        (!self.files.is_empty()).then_some(code)
    }
}

async fn outcome(result: &CallResult, blobs: &Blobs) -> Result<Option<Box<Outcome>>, RunError> {
    let Some(cell) = &result.cell else {
        return Ok(None);
    };
    let bytes = blobs.get(&cell.outcome).await?;
    let outcome = serde_json::from_slice(&bytes);
    outcome
        .map(Some)
        .map_err(|source| RunError::Event { seq: 0, source })
}

/// A call of another tool, in one line.
pub(crate) fn asked(call: &Call) -> String {
    format!("{} {}", call.tool, call.arguments)
}

/// A text as Python writes it: JSON's escapes are also Python's.
pub(crate) fn python_text(text: &str) -> String {
    Value::from(text).to_string()
}
