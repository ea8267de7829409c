//! The driver: performs what a run wants, and journals what happened before it tells anyone.

mod branches;
mod bridge;
mod cell;
mod control;
mod kept;
mod session;

use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use belljar_journal::{AppendError, Blobs, Journal, NewEvent, RunId, Timestamp};
use belljar_sandbox::{Checkpoints, Engine, SessionOptions};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::dialect::PYTHON;
use crate::run::{
    BRANCH, Call, CallResult, Decision, DecisionError, EVENT_VERSION, Effect, Ending, Misfit, Run,
    RunEvent, Start, TaskFile, cut_middle,
};
use crate::tool::{COMPUTE, Computed, Evaluator, HostTool, PLAN, READ_FILE, ReadFile, read};
use crate::{ModelFault, ModelRequest, Provider, ReplyEvent};

use cell::CellEnd;
pub use control::Control;
use control::Wanted;
use session::{RunSession, make_directory};

/// The largest file that a run starts with, or leaves behind, and the largest value of an event.
pub const FILE_BYTES: u64 = 256 << 20;

/// Lines and bytes of a file that the model is shown before it asks.
const HEAD_LINES: usize = 3;
const HEAD_BYTES: usize = 400;

/// Why a run can't go on. What the model or the code does wrong is a part of the run instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The journal can't be read or written.
    #[error(transparent)]
    Journal(#[from] belljar_journal::Error),
    /// An event could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The journal is not one of a run.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// An event of the journal can't be read.
    #[error("event {seq} of the run can't be read: {source}")]
    Event {
        /// Its number.
        seq: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The run was written by a newer Belljar.
    #[error("the run was written by a newer Belljar (version {version} of its events)")]
    Newer {
        /// The version.
        version: u32,
    },
    /// Another process drives the run.
    #[error("the run `{0}` is being worked on by another process: wait for it, or end it")]
    Driven(RunId),
    /// The run may try alternatives, and a tool of the host has the name of the tool for that.
    #[error("a run with branches can't have a tool of the name `{BRANCH}`")]
    ToolNamedBranch,
    /// A person's decision can't be taken.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// A session can't be had.
    #[error(transparent)]
    Session(#[from] belljar_sandbox::Error),
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What is heard of a run while it goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An event, which is in the journal by now.
    Event(&'a RunEvent, &'a Run),
    /// A part of the model's reply that is on its way.
    Reply(&'a ReplyEvent),
    /// What the cell that runs says.
    Cell(&'a belljar_protocol::Event),
}

/// Whoever wants to hear of a run.
pub type Listener<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Where runs are kept: their journal, the blobs beside it, and a directory for the files of each.
/// Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct RunsDirectory {
    path: PathBuf,
    journal: Journal,
    blobs: Blobs,
}

impl RunsDirectory {
    /// Opens a directory, which is made if it is not there.
    pub async fn open(path: &Path) -> Result<Self, RunError> {
        Ok(Self {
            journal: Journal::open(path).await?,
            blobs: Blobs::open(path, FILE_BYTES).await?,
            path: path.to_owned(),
        })
    }

    /// The events of its runs.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Their large values.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Where the files that a run made are.
    pub fn artifacts(&self, id: &RunId) -> PathBuf {
        artifacts_directory(&self.path, id)
    }
}

/// What runs need.
#[derive(Clone, Debug)]
pub struct Agent {
    journal: Journal,
    blobs: Blobs,
    directory: PathBuf,
    engine: Engine,
    provider: Provider,
    evaluator: Option<Evaluator>,
    session: SessionOptions,
    tools: Vec<HostTool>,
}

impl Agent {
    /// An agent whose runs are kept in this directory.
    pub async fn open(
        directory: &Path,
        engine: Engine,
        provider: Provider,
        evaluator: Option<Evaluator>,
    ) -> Result<Self, RunError> {
        let directory = RunsDirectory::open(directory).await?;
        Ok(Self::new(directory, engine, provider, evaluator))
    }

    /// An agent whose runs are kept in this directory, which others may have open as well.
    pub fn new(
        directory: RunsDirectory,
        engine: Engine,
        provider: Provider,
        evaluator: Option<Evaluator>,
    ) -> Self {
        Self {
            journal: directory.journal,
            blobs: directory.blobs,
            directory: directory.path,
            session: SessionOptions {
                limits: engine.limits().clone(),
                checkpoints: Checkpoints::Every,
                ..SessionOptions::default()
            },
            engine,
            provider,
            evaluator,
            tools: Vec::new(),
        }
    }

    /// Tools that the code of its runs may call. A run that is resumed has those of them that are
    /// the same as when it began.
    #[must_use]
    pub fn tools(mut self, tools: Vec<HostTool>) -> Self {
        self.tools = tools;
        self
    }

    fn tool(&self, name: &str) -> Option<&HostTool> {
        let mut tools = self.tools.iter();
        tools.find(|tool| tool.granted.stub.name == name)
    }

    /// How its sessions are to be; else they have the engine's limits, no network, and a copy after
    /// each cell.
    #[must_use]
    pub fn session_options(mut self, options: SessionOptions) -> Self {
        self.session = options;
        self
    }

    /// Puts a file beside the journal, and looks how it begins.
    pub async fn file(&self, name: &str, contents: Vec<u8>) -> Result<TaskFile, RunError> {
        Ok(TaskFile {
            name: name.to_owned(),
            bytes: contents.len() as u64,
            head: head(&contents),
            contents: self.blobs.put(contents, "application/octet-stream").await?,
        })
    }

    /// Begins a run. Its code may call the agent's tools.
    pub async fn start(&self, start: Start) -> Result<LiveRun, RunError> {
        self.start_as(new_id(), start).await
    }

    /// The same under a name of the caller's, which no other run has.
    pub async fn start_as(&self, id: RunId, mut start: Start) -> Result<LiveRun, RunError> {
        start.granted = self.tools.iter().map(|tool| tool.granted.clone()).collect();
        if let Some(branches) = &start.branches {
            if self.tool(BRANCH).is_some() {
                return Err(RunError::ToolNamedBranch);
            }
            start.granted.push(branches.tool());
        }
        let mut live = self.live(id, Run::default(), 0, Some(&start))?;
        live.record(&[RunEvent::Started(Box::new(start))], &mut |_| ())
            .await?;
        Ok(live)
    }

    /// Goes on with a run from where its journal ends.
    pub async fn resume(&self, id: &RunId) -> Result<LiveRun, RunError> {
        let (events, seq) = read_events(&self.journal, id).await?;
        let run = Run::fold(&events)?;
        let start = run.start().cloned();
        self.live(id.clone(), run, seq, start.as_ref())
    }

    fn live(
        &self,
        id: RunId,
        run: Run,
        seq: u64,
        start: Option<&Start>,
    ) -> Result<LiveRun, RunError> {
        let directory = run_directory(&self.directory, &id);
        let lock = lock(&directory).map_err(|error| match error {
            TryLockError::WouldBlock => RunError::Driven(id.clone()),
            TryLockError::Error(source) => RunError::File {
                path: directory.clone(),
                source,
            },
        })?;
        let mut options = self.session.clone();
        let has_branches = start.is_some_and(|start| start.branches.is_some());
        for granted in start.map(|start| &start.granted).into_iter().flatten() {
            // One that is described otherwise by now is not what the run was given.
            match self.tool(&granted.stub.name) {
                Some(tool) if tool.granted == *granted => options.tools.push(granted.stub.clone()),
                None if has_branches && granted.stub.name == BRANCH => {
                    options.tools.push(granted.stub.clone());
                }
                _ => tracing::warn!(tool = granted.stub.name, "a tool of the run is not there"),
            }
        }
        let (control, decisions) = Control::new();
        let session = RunSession::new(self.engine.clone(), options, self.blobs.clone(), directory);
        Ok(LiveRun {
            session,
            agent: self.clone(),
            id,
            run,
            seq,
            control,
            decisions,
            unattended: false,
            _lock: lock,
        })
    }
}

/// Whoever drives a run holds its directory.
fn lock(directory: &Path) -> Result<File, TryLockError> {
    make_directory(directory).map_err(TryLockError::Error)?;
    let held = File::open(directory).map_err(TryLockError::Error)?;
    held.try_lock()?;
    Ok(held)
}

/// Where the snapshot of a run's session is while it goes on.
fn run_directory(directory: &Path, id: &RunId) -> PathBuf {
    directory.join("runs").join(id.as_str())
}

/// Where the files that a run made are, for an agent whose runs are in this directory.
pub fn artifacts_directory(directory: &Path, id: &RunId) -> PathBuf {
    run_directory(directory, id).join("artifacts")
}

/// All events of a run, and the number of the last.
pub async fn read_events(journal: &Journal, id: &RunId) -> Result<(Vec<RunEvent>, u64), RunError> {
    let (mut events, mut seq) = (Vec::new(), 0);
    loop {
        let page = journal.read(id, seq, 500).await?;
        if page.is_empty() {
            return Ok((events, seq));
        }
        for entry in page {
            if entry.version > EVENT_VERSION {
                let version = entry.version;
                return Err(RunError::Newer { version });
            }
            seq = entry.seq;
            let event = entry
                .decode()
                .map_err(|source| RunError::Event { seq, source })?;
            events.push(event);
        }
    }
}

/// A run that is being driven.
#[derive(Debug)]
pub struct LiveRun {
    agent: Agent,
    id: RunId,
    run: Run,
    seq: u64,
    session: RunSession,
    control: Control,
    decisions: UnboundedReceiver<Wanted>,
    unattended: bool,
    _lock: File,
}

impl LiveRun {
    /// Its name.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// As far as it has come.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// By which it can be interrupted and stopped from elsewhere.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Where the files that it made are, once it has ended.
    pub fn artifacts(&self) -> PathBuf {
        artifacts_directory(&self.agent.directory, &self.id)
    }

    /// Nobody is there who could decide: it ends where it waits for a person, and goes on from there
    /// when it is resumed.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.unattended = true;
        self
    }

    /// Takes a person's decision before it is driven.
    pub async fn decide(
        &mut self,
        approval: &str,
        hash: &str,
        decision: Decision,
    ) -> Result<(), RunError> {
        self.run.check_decision(approval, hash, &decision)?;
        let event = RunEvent::ApprovalDecided {
            approval: approval.to_owned(),
            hash: hash.to_owned(),
            decision,
        };
        self.record(&[event], &mut |_| ()).await
    }

    /// Drives it to its end, or to where it waits for a person and nobody is there.
    pub async fn drive(mut self, listener: Listener<'_>) -> Result<Run, RunError> {
        loop {
            if self.control.is_stopped() && self.run.ending().is_none() {
                self.record(&[RunEvent::Stopped], listener).await?;
                self.control.clear();
            }
            match self.run.effect() {
                Effect::AskModel { step, request } => self.ask(step, &request, listener).await?,
                Effect::Perform { step, calls } => {
                    if self.perform(step, calls, listener).await?.is_break() {
                        return Ok(self.run);
                    }
                }
                Effect::Ask { approvals } => {
                    let asked = approvals.into_iter().map(Box::new);
                    let asked: Vec<_> = asked.map(RunEvent::ApprovalAsked).collect();
                    self.record(&asked, listener).await?;
                }
                Effect::Await if self.unattended => return Ok(self.run),
                Effect::Await => {
                    let control = self.control.clone();
                    tokio::select! {
                        Some(wanted) = self.decisions.recv() => {
                            self.take_decision(None, wanted, listener).await?;
                        }
                        () = control.stopped() => {}
                    }
                }
                Effect::RunAgain { step, call } if self.session.can_go_on(&self.run) => {
                    self.ensure_session(listener).await?;
                    if self.perform_cell(step, call, listener).await?.is_break() {
                        return Ok(self.run);
                    }
                }
                Effect::NoteLost { step, call } | Effect::RunAgain { step, call } => {
                    self.note_lost(step, call, false, listener).await?;
                }
                Effect::RollBack { step, cell } => {
                    let (restored, manifest) = self.session.go_back(cell, &self.run).await?;
                    let event = RunEvent::RolledBack {
                        step,
                        restored,
                        manifest,
                    };
                    self.record(&[event], listener).await?;
                    let cell = self.run.last_cell();
                    self.session.save(cell, self.run.manifest()).await;
                }
                Effect::Finish(ending) => self.finish(*ending, listener).await?,
                Effect::Nothing => {
                    // Also of a host that died when all was done but this.
                    self.session.close().await;
                    return Ok(self.run);
                }
            }
        }
    }

    /// Journals events, takes them in, and only then tells of them.
    async fn record(
        &mut self,
        events: &[RunEvent],
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let mut new = Vec::new();
        for event in events {
            let made = NewEvent::new(event.kind(), EVENT_VERSION, Timestamp::now(), event);
            let seq = self.seq + 1;
            new.push(made.map_err(|source| RunError::Event { seq, source })?);
        }
        self.seq = self.agent.journal.append(&self.id, self.seq, &new).await?;
        for event in events {
            self.run.apply(event)?;
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
        let told = std::sync::Mutex::new(&mut *listener);
        let sent = provider.send(request, |event| {
            if let Ok(mut listener) = told.lock() {
                listener(Progress::Reply(&event));
            }
        });
        let sent = tokio::select! {
            sent = sent => sent,
            () = control.stopped() => return Ok(()),
        };
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
            // The model can be told of it.
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

    /// Performs the calls of a step: cells one after the other, the rest at the same time.
    async fn perform(
        &mut self,
        step: u32,
        calls: Vec<(u32, Call)>,
        listener: Listener<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let (python, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|(_, call)| call.tool == PYTHON);
        let (others, refused): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(_, call)| self.run.may_run(call));
        for (place, _) in refused {
            self.refuse_call(step, place, listener).await?;
        }
        if !others.is_empty() {
            let begun: Vec<RunEvent> = others
                .iter()
                .map(|(place, _)| RunEvent::CallStarted { step, call: *place })
                .collect();
            self.record(&begun, listener).await?;
            if others.iter().any(|(_, call)| call.tool == READ_FILE) {
                self.ensure_session(listener).await?;
            }
            let work = others
                .iter()
                .map(async |(place, call)| (*place, self.other(step, *place, call).await));
            for (place, result) in futures_util::future::join_all(work).await {
                let result = Box::new(result);
                let event = RunEvent::CallEnded {
                    step,
                    call: place,
                    result,
                };
                self.record(&[event], listener).await?;
            }
        }
        for (place, call) in python {
            if self.control.is_stopped() {
                break;
            }
            if !self.run.may_run(&call) {
                self.refuse_call(step, place, listener).await?;
                continue;
            }
            self.ensure_session(listener).await?;
            let begun = RunEvent::CallStarted { step, call: place };
            self.record(&[begun], listener).await?;
            if self.perform_cell(step, place, listener).await?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What is about to be done is not what a person has approved.
    async fn refuse_call(
        &mut self,
        step: u32,
        call: u32,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let result = Box::new(CallResult {
            text: "It was not done: it is not what was approved.".into(),
            failed: true,
            ..CallResult::default()
        });
        let refused = RunEvent::CallEnded { step, call, result };
        self.record(&[refused], listener).await
    }

    /// Runs the cell of a call that was begun. A break: it waits for a person, and nobody is there.
    async fn perform_cell(
        &mut self,
        step: u32,
        place: u32,
        listener: Listener<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let calls = self.run.steps().last().map(|step| &step.calls);
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        let Some(call) = calls.and_then(|calls| calls.get(at)).cloned() else {
            return Ok(ControlFlow::Continue(()));
        };
        let result = match self.run_cell((step, place), &call, listener).await? {
            CellEnd::Result(result) => result,
            CellEnd::Differs => {
                self.note_lost(step, place, true, listener).await?;
                return Ok(ControlFlow::Continue(()));
            }
            CellEnd::Left => return Ok(ControlFlow::Break(())),
        };
        // Before the journal has the result: so there always is a snapshot of what it says.
        if let Some(cell) = &result.cell {
            self.session.save(cell.number, &cell.manifest).await;
        }
        let ended = RunEvent::CallEnded {
            step,
            call: place,
            result,
        };
        self.record(&[ended], listener).await?;
        self.session.keep_snapshot(self.run.last_cell());
        Ok(ControlFlow::Continue(()))
    }

    async fn note_lost(
        &mut self,
        step: u32,
        call: u32,
        differs: bool,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let lost = RunEvent::CallLost {
            step,
            call,
            differs,
        };
        self.record(&[lost], listener).await
    }

    /// Makes sure of a session, and journals where a new one had to be started.
    async fn ensure_session(&mut self, listener: Listener<'_>) -> Result<(), RunError> {
        match self.session.ensure(&self.run, &self.control).await? {
            Some(event) => self.record(&[event], listener).await,
            None => Ok(()),
        }
    }

    /// A call that needs no cell.
    async fn other(&self, step: u32, place: u32, call: &Call) -> CallResult {
        let started = Instant::now();
        let language = self.run.language();
        let result = match call.tool.as_str() {
            PLAN => {
                let mut plan = self.run.plan().clone();
                match plan.call(&call.arguments) {
                    Ok(update) => Ok((update.text(language), None)),
                    Err(fault) => Err(fault.to_string()),
                }
            }
            COMPUTE => self.compute(call).await,
            READ_FILE => match serde_json::from_value::<ReadFile>(call.arguments.clone()) {
                Ok(wanted) => {
                    let contents = self.session.get(&wanted.file_path);
                    read(&wanted, contents.as_deref()).map(|text| (text, None))
                }
                Err(error) => Err(format!("Error: {error}")),
            },
            other => match self.run.direct(call) {
                Some(tool) => self.call_directly(tool, step, place, call).await,
                None => Err(format!("There is no tool `{other}`.")),
            },
        };
        let failed = result.is_err();
        let (mut text, value) = result.unwrap_or_else(|text| (text, None));
        if let Some(start) = self.run.start() {
            cut_middle(&mut text, start.result_bytes(), language);
        }
        CallResult {
            text,
            failed,
            value,
            cell: None,
            took_ms: millis(started),
        }
    }

    async fn compute(&self, call: &Call) -> Result<(String, Option<Value>), String> {
        let Some(evaluator) = &self.agent.evaluator else {
            return Err("There is no tool for expressions here; use `python`.".into());
        };
        let code = call.code().unwrap_or_default();
        let last = self.run.computations().last_result.as_ref();
        let computed = evaluator.evaluate(code, last).await;
        let computed =
            computed.map_err(|error| format!("The expression could not be evaluated: {error}"))?;
        let text = computed.text();
        match computed {
            Computed::Value { value, .. } => Ok((text, value)),
            Computed::Error { .. } => Err(text),
        }
    }

    async fn finish(&mut self, mut ending: Ending, listener: Listener<'_>) -> Result<(), RunError> {
        let directory = self.artifacts();
        let kept = self
            .session
            .keep_artifacts(&directory, &mut ending.artifacts, &self.run);
        kept.await?;
        self.expand_markers(&mut ending).await?;
        self.record(&[RunEvent::Ended(Box::new(ending))], listener)
            .await
    }
}

/// How a file begins, if it is text.
fn head(contents: &[u8]) -> String {
    let start = &contents[..contents.len().min(HEAD_BYTES)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // Cut within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return String::new(),
    };
    if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return String::new();
    }
    text.lines().take(HEAD_LINES).collect::<Vec<_>>().join("\n")
}

/// A name for a run: those of later runs come later in the alphabet.
fn new_id() -> RunId {
    use std::hash::{BuildHasher, RandomState};
    let chance = RandomState::new().hash_one(std::process::id());
    let time = Timestamp::now().0;
    let name = format!("{time:013x}{:04x}", chance & 0xffff);
    match name.parse() {
        Ok(id) => id,
        Err(_) => unreachable!("hexadecimal digits are a name"),
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
