//! Runs the cells of a run in a new session.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use belljar_journal::Blobs;
use belljar_protocol::{CallId, Event, Fate, Outcome, ToolError};
use belljar_sandbox::{Cell, Engine, Error, Session, SessionOptions};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::driver::{RunError, install, output_of, result_of};
use crate::run::{Call, CellCall, CellCallState, Start, cut_middle, exception_line};
use crate::story::{Story, Told, repeatable};
use crate::tool::{ToolContext, ToolState, find_tool};

/// The hash of a file's contents.
pub(super) type Digest = [u8; 32];

/// What a cell, or a call of another tool, showed.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Of images and the exception.
    rest: Vec<Digest>,
}

impl Shown {
    pub(super) fn of_text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            rest: Vec::new(),
        }
    }

    pub(super) fn of_outcome(outcome: &Outcome) -> Self {
        let parts = outcome.displays.iter().flat_map(|shown| &shown.parts);
        let images = parts.filter(|part| part.mime.starts_with("image/"));
        let images = images.map(|part| Sha256::digest(&part.data).into());
        let exception = outcome.exception.iter().map(exception_line);
        let exception = exception.map(|line| Sha256::digest(line).into());
        Self {
            text: output_of(outcome),
            rest: images.chain(exception).collect(),
        }
    }
}

/// What came of one replay.
pub(super) struct Replay {
    /// For each part of the story; nothing for what was not run.
    pub(super) shown: Vec<Option<Shown>>,
    /// The artifacts of the run that exist at the end.
    pub(super) files: BTreeMap<String, Digest>,
}

pub(super) struct Replayer<'a> {
    pub(super) story: &'a Story,
    pub(super) start: &'a Start,
    pub(super) blobs: &'a Blobs,
    pub(super) engine: &'a Engine,
    pub(super) options: SessionOptions,
}

impl Replayer<'_> {
    pub(super) async fn replay(
        &self,
        done: &mut (dyn FnMut(Option<&Outcome>) + Send),
    ) -> Result<Replay, RunError> {
        let mut session = self.begin().await?;
        let mut shown = Vec::new();
        for part in &self.story.parts {
            let mut outcome_now = None;
            shown.push(match &part.told {
                Told::Thought(_) => None,
                Told::Anew => {
                    session = self.fresh().await?;
                    None
                }
                Told::Cell {
                    call,
                    made,
                    outcome,
                    ..
                } => match outcome {
                    Some(recorded) if repeatable(recorded) => {
                        let ran = self.run_cell(&session, call, made).await?;
                        match ran {
                            Ran::Outcome(outcome) => {
                                if outcome.state == Fate::Lost {
                                    session = self.fresh().await?;
                                }
                                let shown = Shown::of_outcome(&outcome);
                                outcome_now = Some(outcome);
                                Some(shown)
                            }
                            Ran::Not(words) => Some(Shown::of_text(&words)),
                        }
                    }
                    _ => None,
                },
                Told::Other { call, .. } => self.call_tool(&session, call).await,
            });
            done(outcome_now.as_deref());
        }
        let artifacts = self.story.run.ending().map(|ending| &ending.artifacts);
        let mut files = BTreeMap::new();
        for artifact in artifacts.into_iter().flatten() {
            // One that is not there is missing in the list.
            let digest = session.open(&artifact.path).map(digest_of);
            if let Ok(Ok(digest)) = digest {
                files.insert(artifact.path.clone(), digest);
            }
        }
        session.close().await?;
        Ok(Replay { shown, files })
    }

    /// A session as the run's first cell had it.
    async fn begin(&self) -> Result<Session, RunError> {
        let session = self.fresh().await?;
        let Some(parent) = &self.start.parent else {
            return Ok(session);
        };
        let Some(code) = &parent.code else {
            return Err(RunError::ParentCode(parent.run.clone()));
        };
        let json = self.blobs.get(code).await?;
        let code = serde_json::from_slice(&json);
        let code: Vec<String> = code.map_err(|source| RunError::Event { seq: 1, source })?;
        for cell in &code {
            session.run(cell.as_str()).await?;
        }
        Ok(session)
    }

    /// A new session with the files of the task.
    async fn fresh(&self) -> Result<Session, RunError> {
        let session = self.engine.session_with(self.options.clone()).await?;
        for file in &self.start.files {
            let contents = self.blobs.get_file(&file.contents).await?;
            session.put_file(&file.name, &contents)?;
        }
        Ok(session)
    }

    /// Runs a cell; its calls get the answers that they got in the run.
    async fn run_cell(
        &self,
        session: &Session,
        call: &Call,
        made: &[CellCall],
    ) -> Result<Ran, RunError> {
        if let Err(words) = install(session, call).await {
            return Ok(Ran::Not(words));
        }
        let mut unclaimed: Vec<&CellCall> = made.iter().collect();
        let mut events = session.run(Cell {
            answers: true,
            ..Cell::from(call.code().unwrap_or_default())
        });
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Called {
                    call,
                    tool,
                    arguments,
                }) => {
                    let made = (tool.as_str(), &arguments);
                    self.answer(session, call, made, &mut unclaimed).await?;
                }
                Ok(Event::Outcome(outcome)) => return Ok(Ran::Outcome(outcome)),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Ended("its cell had no outcome".into()).into())
    }

    async fn answer(
        &self,
        session: &Session,
        call: CallId,
        (tool, arguments): (&str, &Map<String, Value>),
        unclaimed: &mut Vec<&CellCall>,
    ) -> Result<(), RunError> {
        let is_it = |made: &&CellCall| made.tool == tool && made.arguments == *arguments;
        let recorded = unclaimed.iter().position(is_it);
        let recorded = recorded.map(|at| &unclaimed.remove(at).state);
        let result = match recorded {
            Some(CellCallState::Answered(answer)) => {
                result_of(answer, self.blobs, self.start.language).await?
            }
            _ => Err(ToolError(
                "the recorded run has no answer to this call".into(),
            )),
        };
        // An error: the code no longer waits for it.
        let _ = session.answer(call, result).await;
        Ok(())
    }

    /// Calls a tool that works in the session. Others are not called again: their effects may be
    /// outside of it.
    async fn call_tool(&self, session: &Session, call: &Call) -> Option<Shown> {
        let tool = find_tool(&call.tool).filter(|tool| tool.needs_session())?;
        let context = ToolContext {
            state: &ToolState::default(),
            language: self.start.language,
            session: Some(session),
            evaluator: None,
            limit: self.options.limits.wall_time,
        };
        let output = tool.perform(&call.arguments, context).await;
        let mut text = output.map_or_else(|words| words, |output| output.text);
        cut_middle(&mut text, self.start.result_bytes(), self.start.language);
        Some(Shown::of_text(&text))
    }
}

/// What came of a cell.
enum Ran {
    Outcome(Box<Outcome>),
    /// Its packages could not be installed, for this reason.
    Not(String),
}

/// The hash of what can be read.
pub(super) fn digest_of(mut file: File) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            bytes => hash.update(&piece[..bytes]),
        }
    }
}
