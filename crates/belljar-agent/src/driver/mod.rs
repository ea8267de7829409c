//! The driver: performs the effects of a run, and journals what happened before it notifies anyone.

mod agent;
mod artifacts;
mod branches;
mod bridge;
mod cell;
mod control;
mod directory;
mod error;
mod import;
mod kept;
mod parent;
mod perform;
mod saved;
mod session;
mod trace;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use belljar_journal::{AppendError, Entry, Journal, NewEvent, RunId, RunState, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::Instrument as _;

use crate::run::{Decision, EVENT_VERSION, Effect, Ending, Run, RunEvent, cut_middle};
use crate::{ModelFault, ModelRequest, ReplyEvent};

pub use agent::Agent;
use artifacts::sync_artifacts;
pub(crate) use bridge::result_of;
pub(crate) use cell::install;
use control::ControlRequest;
pub use control::{Control, Steering};
pub use directory::{ArtifactFiles, FILE_BYTES, RunsDirectory, artifacts_directory};
pub use error::RunError;
pub use import::ImportedRun;
use session::RunSession;
pub(crate) use session::output_of;
pub use trace::{CONTENT_TARGET, METRIC_TARGET};
use writer::Writer;

/// How much is kept of the answer of a run whose last event is too large.
const MOST_LAST_ANSWER: usize = 256 << 10;

/// What an observer of a run receives.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Calls are about to start; their events are being written to the journal.
    Starts,
    /// An event, which is in the journal by now.
    Event(&'a RunEvent, &'a Run),
    /// A part of the model's reply, while it arrives.
    Reply(&'a ReplyEvent),
    /// An event of the running cell.
    Cell(&'a belljar_protocol::Event),
}

/// An observer of a run.
pub type Listener<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// All events of a run, and the number of the last.
pub async fn read_events(journal: &Journal, id: &RunId) -> Result<(Vec<RunEvent>, u64), RunError> {
    let (mut events, mut seq) = (Vec::new(), 0);
    loop {
        let page = journal.read(id, seq, 500).await?;
        if page.is_empty() {
            return Ok((events, seq));
        }
        for entry in page {
            seq = entry.seq;
            events.push(decode_event(&entry)?);
        }
    }
}

fn decode_event(entry: &Entry) -> Result<RunEvent, RunError> {
    let (version, seq) = (entry.version, entry.seq);
    if version > EVENT_VERSION {
        return Err(RunError::Newer { version });
    }
    let event = entry.decode();
    event.map_err(|source| RunError::Event { seq, source })
}

/// A run that is being driven.
#[derive(Debug)]
pub struct LiveRun {
    agent: Agent,
    id: RunId,
    run: Run,
    seq: u64,
    writer: Writer,
    session: RunSession,
    control: Control,
    decisions: UnboundedReceiver<ControlRequest>,
    unattended: bool,
    /// Of its directory. A run of a cluster has an owner instead.
    _lock: Option<File>,
}

impl LiveRun {
    /// Its id.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Its current state.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Its control: for interrupting and stopping it from elsewhere.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Its artifacts, once it has ended.
    pub fn artifact_files(&self) -> ArtifactFiles {
        ArtifactFiles {
            blobs: self.agent.blobs.clone(),
            directory: self.artifacts(),
        }
    }

    /// The directory of its artifacts, once it has ended, if they are not in an object store.
    pub fn artifacts(&self) -> PathBuf {
        artifacts_directory(&self.agent.directory, &self.id)
    }

    /// Nobody is there to decide: it stops where it waits for a person, and continues from there
    /// when it is resumed.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.unattended = true;
        self
    }

    /// Applies a person's decision before it is driven.
    pub async fn decide(
        &mut self,
        approval: &str,
        hash: &str,
        decision: Decision,
    ) -> Result<(), RunError> {
        let (approval, hash) = (approval.to_owned(), hash.to_owned());
        self.record_decision(approval, hash, decision, &mut |_| ())
            .await
            .map(drop)
    }

    /// Changes something for the rest of the run before it is driven.
    pub async fn steer(&mut self, steering: Steering) -> Result<(), RunError> {
        self.record(&[steering.into()], &mut |_| ()).await
    }

    /// Requests the end with the best answer so far, before it is driven.
    pub async fn stop(&mut self) -> Result<(), RunError> {
        self.record(&[RunEvent::Stopped], &mut |_| ()).await
    }

    /// Journals a decision, if it is valid; returns the number of its call.
    async fn record_decision(
        &mut self,
        approval: String,
        hash: String,
        decision: Decision,
        listener: Listener<'_>,
    ) -> Result<Option<u32>, RunError> {
        let asked = self.run.check_decision(&approval, &hash, &decision)?;
        let number = asked.call_number();
        let event = RunEvent::ApprovalDecided {
            approval,
            hash,
            decision,
        };
        self.record(&[event], listener).await?;
        Ok(number)
    }

    /// Drives it to its end, or to where it waits for a person and nobody is there.
    pub async fn drive(mut self, listener: Listener<'_>) -> Result<Run, RunError> {
        let span = trace::invoke_agent(&self);
        let driven = Box::pin(self.go_on(listener));
        let driven = driven.instrument(span.clone()).await;
        trace::driven(&span, &self.run, &driven);
        if driven.is_ok() {
            let state = match self.run.ending() {
                Some(_) => RunState::Ended,
                None => RunState::Waits,
            };
            self.writer.give_up(state).await;
        }
        driven.map(|()| self.run)
    }

    async fn go_on(&mut self, listener: Listener<'_>) -> Result<(), RunError> {
        loop {
            if self.control.is_stopped() && self.run.ending().is_none() {
                self.record(&[RunEvent::Stopped], listener).await?;
                self.control.clear();
            }
            match self.run.effect() {
                Effect::AskModel { step, request } => self.ask(step, &request, listener).await?,
                Effect::Perform { step, calls } => {
                    if self.perform(step, calls, listener).await?.is_break() {
                        return Ok(());
                    }
                }
                Effect::Ask { approvals } => {
                    let asked = approvals.into_iter().map(Box::new);
                    let asked: Vec<_> = asked.map(RunEvent::ApprovalAsked).collect();
                    self.record(&asked, listener).await?;
                }
                Effect::Await if self.unattended => return Ok(()),
                Effect::Await => {
                    let control = self.control.clone();
                    tokio::select! {
                        Some(wanted) = self.decisions.recv() => {
                            self.take_decision(None, wanted, listener).await?;
                        }
                        () = control.stopped() => {}
                    }
                }
                Effect::RunAgain { step, call } => {
                    if !self.may_run_again(step, call).await? {
                        self.note_lost(step, call, false, listener).await?;
                        continue;
                    }
                    self.ensure_session(listener).await?;
                    if self.perform_cell(step, call, listener).await?.is_break() {
                        return Ok(());
                    }
                }
                Effect::NoteLost { step, call } => {
                    self.note_lost(step, call, false, listener).await?;
                }
                Effect::RollBack { step, cell } => {
                    let (restored, manifest) = self.session.go_back(cell, &self.run).await?;
                    let cell = self.run.last_cell();
                    let session = self.session.save_before(cell, &manifest).await;
                    let event = RunEvent::RolledBack {
                        step,
                        restored,
                        manifest,
                        session,
                    };
                    self.record(&[event], listener).await?;
                    self.session.save_after(&self.run).await;
                }
                Effect::Finish(ending) => self.finish(*ending, listener).await?,
                Effect::Nothing => {
                    // Also if a host died when all was done but this.
                    let kept = self.agent.keeps_sessions.then_some(&self.run);
                    self.session.close(kept).await;
                    return Ok(());
                }
            }
        }
    }

    /// Whether a cell that a host which died had begun can be run again. In a session without a network nothing of
    /// its first run is left, so that the second is the same use of an approval; elsewhere the approval is used up.
    async fn may_run_again(&self, step: u32, call: u32) -> Result<bool, RunError> {
        let used_up = self.session.reaches_out() && self.run.is_for_one_use(step, call);
        Ok(!used_up && self.session.can_go_on(&self.run).await?)
    }

    /// Journals events, applies them, and only then notifies observers.
    async fn record(
        &mut self,
        events: &[RunEvent],
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        // Whoever reads the journal may know of a call before this process does.
        if matches!(events.first(), Some(RunEvent::CallStarted { .. })) {
            listener(Progress::Starts);
        }
        let mut new = Vec::new();
        for event in events {
            let made = NewEvent::new(event.kind(), EVENT_VERSION, Timestamp::now(), event);
            let seq = self.seq + 1;
            new.push(made.map_err(|source| RunError::Event { seq, source })?);
        }
        self.seq = self.writer.append(&self.id, self.seq, &new).await?;
        for event in events {
            self.run.apply(event)?;
            trace::tell(event);
            listener(Progress::Event(event, &self.run));
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        step: u32,
        request: &ModelRequest,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let provider = self.agent.provider.clone();
        let body = provider.body(request).to_string();
        let body = self
            .agent
            .blobs
            .put(body.into_bytes(), "application/json")
            .await?;
        self.record(&[RunEvent::Asked { step, body }], listener)
            .await?;
        let started = Instant::now();
        let control = self.control.clone();
        let (tell, mut told) = unbounded_channel();
        let span = trace::chat(self, step, request);
        let sent = provider.send(request, move |event| {
            // The requester is notified.
            let _ = tell.send(event);
        });
        let sent = sent.instrument(span.clone());
        tokio::pin!(sent);
        let left = self.run.budget().time_left(&self.run.spent());
        let time_up = tokio::time::sleep(left.unwrap_or_default());
        tokio::pin!(time_up);
        let sent = loop {
            tokio::select! {
                biased;
                Some(event) = told.recv() => listener(Progress::Reply(&event)),
                sent = &mut sent => break sent,
                // A person need not wait for the model.
                Some(wanted) = self.decisions.recv() => {
                    self.take_decision(None, wanted, listener).await?;
                }
                () = control.stopped() => return Ok(()),
                // Nothing can be done with a reply.
                () = &mut time_up, if left.is_some() => {
                    let event = RunEvent::Replied {
                        step,
                        took_ms: millis(started),
                        cost: None,
                        reply: Box::default(),
                    };
                    return self.record(&[event], listener).await;
                }
            }
        };
        while let Ok(event) = told.try_recv() {
            listener(Progress::Reply(&event));
        }
        trace::replied(&span, &provider, request, started.elapsed(), &sent);
        let event = match sent {
            Ok(reply) => RunEvent::Replied {
                step,
                took_ms: millis(started),
                cost: provider
                    .profile()
                    .prices
                    .map(|prices| prices.cost(&reply.usage)),
                reply: Box::new(reply),
            },
            // The model can get a message about it.
            Err(error) if matches!(error.fault, ModelFault::Empty) => RunEvent::Replied {
                step,
                took_ms: millis(started),
                cost: None,
                reply: Box::default(),
            },
            Err(error) => RunEvent::ModelFailed {
                step,
                error: error.to_string(),
            },
        };
        self.record(&[event], listener).await
    }

    /// Ends it. Only the journal can prevent that, and the object store of a cluster: what can't be kept is noted.
    async fn finish(&mut self, mut ending: Ending, listener: Listener<'_>) -> Result<(), RunError> {
        let in_cluster = self.agent.owner.is_some();
        let directory = if in_cluster {
            self.agent.spool().join(self.id.as_str())
        } else {
            self.artifacts()
        };
        let kept = self
            .session
            .keep_artifacts(&directory, &mut ending, &self.run);
        kept.await?;
        self.expand_markers(&mut ending).await;
        if in_cluster {
            let _ = std::fs::remove_dir_all(directory);
        } else {
            sync_artifacts(directory, &mut ending).await;
        }
        let ended = RunEvent::Ended(Box::new(ending.clone()));
        match self.record(&[ended], listener).await {
            Err(RunError::Append(AppendError::EventTooLarge { .. })) => {
                ending.not_kept_more += (ending.artifacts.len() + ending.not_kept.len()) as u64;
                let texts = ending.answer.iter_mut().chain(&mut ending.last_output);
                texts.for_each(|text| cut_middle(text, MOST_LAST_ANSWER, self.run.language()));
                let small = Ending {
                    evidence: Vec::new(),
                    artifacts: Vec::new(),
                    contents: BTreeMap::new(),
                    not_kept: Vec::new(),
                    ..ending
                };
                self.record(&[RunEvent::Ended(Box::new(small))], listener)
                    .await
            }
            recorded => recorded,
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
