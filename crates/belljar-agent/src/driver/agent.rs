//! Dependencies and storage of runs, and how they start and resume.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use belljar_journal::{Blobs, Journal, OwnedRun, RunClaim, RunId, RunState, Timestamp, failpoint};
use belljar_protocol::Walls;
use belljar_sandbox::{Checkpoints, Engine, EngineSet, Environment, SessionOptions};

use super::directory::{RunsDirectory, blobs_below, lock, run_directory, sessions_below, spool_in};
use super::saved::{SavedSessions, make_directory, path_of};
use super::session::RunSession;
use super::writer::{Owner, Writer};
use super::{Control, LiveRun, RunError, read_events};
use crate::Provider;
use crate::run::{BRANCH, Run, RunEvent, Start, TaskFile};
use crate::tool::{Evaluator, HostTool};

/// Lines and bytes of a file that the model is shown before it asks.
const HEAD_LINES: usize = 3;
const HEAD_BYTES: usize = 400;

/// How long it may take from the first file of a run in a cluster to the beginning of the run.
const MOST_BEGINNING: Duration = Duration::from_hours(1);

/// The dependencies of runs.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(super) journal: Journal,
    /// Those of all runs.
    root: Blobs,
    /// Those of its run, if it is [for one](Self::for_run).
    pub(super) blobs: Blobs,
    /// When its run wrote its first one at the earliest.
    since: Option<Moment>,
    pub(super) directory: PathBuf,
    pub(super) owner: Option<Owner>,
    pub(super) engines: EngineSet,
    pub(super) provider: Provider,
    pub(super) evaluator: Option<Evaluator>,
    pub(super) session: SessionOptions,
    pub(super) tools: Vec<HostTool>,
    pub(super) keeps_sessions: bool,
}

impl Agent {
    /// An agent whose runs are kept in this directory. A run chooses one of the engines by environment and isolation.
    pub async fn open(
        directory: &Path,
        engines: impl Into<EngineSet>,
        provider: Provider,
        evaluator: Option<Evaluator>,
    ) -> Result<Self, RunError> {
        let directory = RunsDirectory::open(directory).await?;
        Ok(Self::new(directory, engines, provider, evaluator))
    }

    /// An agent whose runs are kept in this directory, which others may have open as well.
    pub fn new(
        directory: RunsDirectory,
        engines: impl Into<EngineSet>,
        provider: Provider,
        evaluator: Option<Evaluator>,
    ) -> Self {
        let engines = engines.into();
        Self {
            journal: directory.journal,
            root: directory.blobs.clone(),
            blobs: directory.blobs,
            since: None,
            directory: directory.path,
            owner: directory.owner,
            session: SessionOptions {
                limits: engines.first().limits().clone(),
                checkpoints: Checkpoints::Every,
                ..SessionOptions::default()
            },
            engines,
            provider,
            evaluator,
            tools: Vec::new(),
            keeps_sessions: false,
        }
    }

    /// For a run that is about to start with this id, or has. In a cluster, its files belong to it, so this comes before
    /// [`file`](Self::file).
    #[must_use]
    pub fn for_run(&self, id: &RunId) -> Self {
        let mut agent = self.clone();
        if self.owner.is_some() {
            agent.blobs = blobs_below(&self.root, id);
            agent.since = self.since.or_else(|| Some(Moment::now()));
        }
        agent
    }

    /// Files of another run, for the one that this agent [is for](Self::for_run): in a cluster, each has its own.
    pub async fn copy_files(&self, from: &RunId, files: &[TaskFile]) -> Result<(), RunError> {
        if self.owner.is_none() {
            return Ok(());
        }
        let from = blobs_below(&self.root, from);
        for file in files {
            let contents = from.get_file(&file.contents).await?;
            let media_type = file.contents.media_type.as_str();
            self.blobs.put_file(&path_of(&contents), media_type).await?;
        }
        Ok(())
    }

    /// Where the sessions of a run of a cluster are.
    pub(super) fn sessions_of(&self, id: &RunId) -> Blobs {
        sessions_below(&self.root, id)
    }

    /// Where files on their way to an object store are.
    pub(super) fn spool(&self) -> PathBuf {
        spool_in(&self.directory)
    }

    /// Saves the session of an ended run, so that another run can continue it at once.
    #[must_use]
    pub fn keep_sessions(mut self) -> Self {
        self.keeps_sessions = true;
        self
    }

    /// Tools that the code of its runs may call. A resumed run has those that are the same as at
    /// its start.
    #[must_use]
    pub fn tools(mut self, tools: Vec<HostTool>) -> Self {
        self.tools = tools;
        self
    }

    pub(super) fn tool(&self, name: &str) -> Option<&HostTool> {
        let mut tools = self.tools.iter();
        tools.find(|tool| tool.granted.stub.name == name)
    }

    /// Options of its sessions; by default they have the engine's limits, no network, and a
    /// checkpoint after each cell.
    #[must_use]
    pub fn session_options(mut self, options: SessionOptions) -> Self {
        self.session = options;
        self
    }

    /// Puts a file beside the journal, and reads its beginning.
    pub async fn file(&self, name: &str, contents: Vec<u8>) -> Result<TaskFile, RunError> {
        Ok(TaskFile {
            name: name.to_owned(),
            bytes: contents.len() as u64,
            head: head(&contents),
            contents: self.blobs.put(contents, "application/octet-stream").await?,
        })
    }

    /// Puts a file of this machine beside the journal, of any size, and reads its beginning.
    pub async fn file_at(&self, name: &str, path: &Path) -> Result<TaskFile, RunError> {
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut start))
            .map_err(|source| RunError::File {
                path: path.to_owned(),
                source,
            })?;
        let media_type = "application/octet-stream";
        let contents = self.blobs.put_file(path, media_type).await?;
        Ok(TaskFile {
            name: name.to_owned(),
            bytes: contents.bytes,
            head: head(&start),
            contents,
        })
    }

    /// An id for a run: ids of later runs sort later.
    pub fn new_run_id() -> RunId {
        use std::hash::{BuildHasher, RandomState};
        let chance = RandomState::new().hash_one(std::process::id());
        let time = Timestamp::now().0;
        let name = format!("{time:013x}{:04x}", chance & 0xffff);
        match name.parse() {
            Ok(id) => id,
            Err(_) => unreachable!("hexadecimal digits are a name"),
        }
    }

    /// Starts a run. Its code may call the agent's tools.
    pub async fn start(&self, start: Start) -> Result<LiveRun, RunError> {
        self.start_as(Self::new_run_id(), start).await
    }

    /// Starts a run that continues another one from its end; see [`start_from`](Self::start_from).
    pub async fn start_after(&self, parent: &RunId, start: Start) -> Result<LiveRun, RunError> {
        self.start_from(Self::new_run_id(), start, parent, None)
            .await
    }

    /// Starts a run with an id of the caller's, which no other run has.
    pub async fn start_as(&self, id: RunId, mut start: Start) -> Result<LiveRun, RunError> {
        start.prompts = Some(start.language.prompts_version());
        start.versions = versions(self.engine(Some(&start))?.environment());
        start.granted = self.tools.iter().map(|tool| tool.granted.clone()).collect();
        if let Some(branches) = &start.branches {
            if self.tool(BRANCH).is_some() {
                return Err(RunError::ToolNamedBranch);
            }
            start.granted.push(branches.tool());
        }
        let writer = match &self.owner {
            None => Writer::Journal(self.journal.clone()),
            Some(owner) => Writer::New(owner.membership.node(), owner.tenant.clone()),
        };
        let agent = self.for_run(&id);
        agent.check_beginning(&start).await?;
        let mut live = agent.live(id, Run::default(), 0, Some(&start), writer)?;
        let started = RunEvent::Started(Box::new(start));
        if let Err(error) = live.record(&[started], &mut |_| ()).await {
            // Nothing is left of a run that did not start.
            let storage = error.storage_fault().is_some();
            if storage && matches!(self.journal.last_seq(live.id()).await, Ok(0)) {
                let _ = std::fs::remove_dir_all(run_directory(&self.directory, live.id()));
            }
            return Err(error);
        }
        Ok(live)
    }

    /// In a cluster, what a run has written before it began is removed two days later if it did not begin.
    async fn check_beginning(&self, start: &Start) -> Result<(), RunError> {
        let Some(since) = &self.since else {
            return Ok(());
        };
        for file in &start.files {
            if !self.blobs.contains(file.contents.hash).await? {
                return Err(belljar_journal::Error::UnknownBlob(file.contents.hash).into());
            }
        }
        if since.elapsed() > MOST_BEGINNING {
            return Err(RunError::BegunTooLate);
        }
        Ok(())
    }

    /// Resumes a run from the end of its journal. In a cluster, it is claimed first.
    pub async fn resume(&self, id: &RunId) -> Result<LiveRun, RunError> {
        let Some(owner) = &self.owner else {
            return self
                .resume_by(id, Writer::Journal(self.journal.clone()))
                .await;
        };
        match owner.membership.node().claim_run(id).await? {
            RunClaim::Owned(claimed) => Box::pin(self.resume_owned(claimed)).await,
            RunClaim::Elsewhere(node) => Err(RunError::Elsewhere {
                run: id.clone(),
                node,
            }),
            // One that is over has just ended.
            RunClaim::Here | RunClaim::Over => Err(RunError::Driven(id.clone())),
        }
    }

    /// Resumes a run of a cluster that this node has claimed. One that can't be driven is given up as stuck, unless the
    /// reason is not in the run.
    pub async fn resume_owned(&self, owned: OwnedRun) -> Result<LiveRun, RunError> {
        let (id, node) = (owned.id().clone(), owned.node().clone());
        let resumed = self.resume_by(&id, Writer::Owned(Box::new(owned))).await;
        if let Err(error) = &resumed
            && error.storage_fault().is_none()
            && !error.is_of_owner()
        {
            node.release(&id, RunState::Stuck).await?;
        }
        resumed
    }

    async fn resume_by(&self, id: &RunId, writer: Writer) -> Result<LiveRun, RunError> {
        let (events, seq) = read_events(&self.journal, id).await?;
        let run = Run::fold(&events)?;
        let start = run.start().cloned();
        let agent = self.for_run(id);
        agent.live(id.clone(), run, seq, start.as_ref(), writer)
    }

    /// The engine of its sessions.
    fn engine(&self, start: Option<&Start>) -> Result<&Engine, RunError> {
        let environment = start.and_then(|start| start.environment.as_deref());
        let isolation = start.and_then(|start| start.isolation);
        let isolation = isolation.map(Walls::as_str);
        Ok(self.engines.choose(environment, isolation, None)?)
    }

    fn live(
        &self,
        id: RunId,
        run: Run,
        seq: u64,
        start: Option<&Start>,
        writer: Writer,
    ) -> Result<LiveRun, RunError> {
        let engine = self.engine(start)?.clone();
        let (saved, lock) = if self.owner.is_some() {
            let saved = SavedSessions::in_objects(self.sessions_of(&id), self.spool(), &run);
            (saved, None)
        } else {
            let directory = run_directory(&self.directory, &id);
            let lock = hold(&directory, &id)?;
            (SavedSessions::Files(directory), Some(lock))
        };
        let mut options = self.session.clone();
        if !engine.makes_checkpoints() {
            options.checkpoints = Checkpoints::Off;
        }
        let has_branches = start.is_some_and(|start| start.branches.is_some());
        for granted in start.map(|start| &start.granted).into_iter().flatten() {
            // A tool whose definition has changed is not what the run was granted.
            match self.tool(&granted.stub.name) {
                Some(tool) if tool.granted == *granted => options.tools.push(granted.stub.clone()),
                None if has_branches && granted.stub.name == BRANCH => {
                    options.tools.push(granted.stub.clone());
                }
                _ => tracing::warn!(
                    tool = granted.stub.name,
                    "a tool of the run is missing or has changed"
                ),
            }
        }
        let (control, decisions) = Control::new();
        let session = RunSession::new(engine, options, self.blobs.clone(), saved);
        Ok(LiveRun {
            writer,
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

/// A moment, by both clocks: one stands still while the machine is suspended, the other may be set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// The longer of both.
    fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed().unwrap_or_default();
        self.monotonic.elapsed().max(wall)
    }
}

/// Makes the directory of a run, and locks it.
fn hold(directory: &Path, id: &RunId) -> Result<File, RunError> {
    let ready = failpoint::fail("runs.directory");
    let made = ready.and_then(|()| make_directory(directory));
    made.map_err(|source| RunError::File {
        path: directory.to_owned(),
        source,
    })?;
    lock(directory, id)
}

/// Python and the packages of an environment.
fn versions(environment: &Environment) -> Vec<String> {
    let (major, minor, micro) = environment.version();
    let packages = environment.packages().iter();
    let packages = packages.map(|package| format!("{} {}", package.name, package.version));
    let python = format!("CPython {major}.{minor}.{micro}");
    std::iter::once(python).chain(packages).collect()
}

/// The beginning of a file, if it is text.
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
