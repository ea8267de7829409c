//! Dependencies and storage of runs, and how they start and resume.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use belljar_journal::{
    BlobHash, Blobs, Journal, Membership, Objects, OwnedRun, RunClaim, RunId, RunState, Timestamp,
    failpoint,
};
use belljar_protocol::Walls;
use belljar_sandbox::{Checkpoints, EngineSet, SessionOptions};

use super::session::{RunSession, make_directory};
use super::writer::{Owner, Writer};
use super::{Control, FILE_BYTES, LiveRun, RunError, read_events};
use crate::Provider;
use crate::run::{BRANCH, Run, RunEvent, Start, TaskFile};
use crate::tool::{Evaluator, HostTool};

/// Lines and bytes of a file that the model is shown before it asks.
const HEAD_LINES: usize = 3;
const HEAD_BYTES: usize = 400;

/// Where runs are kept: their journal, the blobs beside it, and a directory for the files of each.
/// Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct RunsDirectory {
    path: PathBuf,
    journal: Journal,
    blobs: Blobs,
    /// There in a cluster.
    owner: Option<Owner>,
}

impl RunsDirectory {
    /// Opens a directory, which is made if it is not there.
    pub async fn open(path: &Path) -> Result<Self, RunError> {
        Self::open_with(path, None).await
    }

    /// The same, with the blobs in an object store.
    pub async fn open_with(path: &Path, objects: Option<Objects>) -> Result<Self, RunError> {
        Ok(Self {
            journal: Journal::open(path).await?,
            blobs: match objects {
                Some(objects) => {
                    Blobs::in_objects(objects, &path.join("spool"), FILE_BYTES).await?
                }
                None => Blobs::open(path, FILE_BYTES).await?,
            },
            path: path.to_owned(),
            owner: None,
        })
    }

    /// The runs of a tenant in a cluster. The directory has what this node has left of them: sessions between cells,
    /// artifacts, and objects on their way.
    pub async fn in_cluster(
        path: &Path,
        membership: Membership,
        tenant: &str,
        objects: Objects,
    ) -> Result<Self, RunError> {
        let blobs = Blobs::in_objects(objects, &path.join("spool"), FILE_BYTES).await?;
        let tenant = tenant.to_owned();
        Ok(Self {
            path: path.to_owned(),
            journal: membership.journal_of(&tenant),
            blobs,
            owner: Some(Owner { membership, tenant }),
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

    /// Whether there are runs in a directory, which is left as it is.
    pub fn exists(path: &Path) -> bool {
        Journal::exists(path)
    }

    /// Whether some process drives a run.
    pub fn is_driven(&self, id: &RunId) -> bool {
        let held = lock(&run_directory(&self.path, id), id);
        matches!(held, Err(RunError::Driven(_)))
    }

    /// Deletes the files of a run that is not driven; the returned lock keeps others from driving
    /// it. Its events are left to the journal's `remove`: a host that dies in between leaves a run
    /// that can be deleted again. Files go first, since that frees space on a full disk. Runs that
    /// continued it have all that they need of it. Blobs that it alone used remain until the next
    /// [`sweep`](Self::sweep).
    pub async fn delete_files(&self, id: &RunId) -> Result<Option<File>, RunError> {
        let directory = run_directory(&self.path, id);
        let held = match lock(&directory, id) {
            // It has left none.
            Err(RunError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(None);
            }
            held => held?,
        };
        let removed = match failpoint::fail("runs.delete_files") {
            Ok(()) => tokio::fs::remove_dir_all(&directory).await,
            failed => failed,
        };
        removed.map_err(|source| RunError::File {
            path: directory,
            source,
        })?;
        Ok(Some(held))
    }

    /// Removes remains of deleted runs: blobs that no event names, and the space of their events. A
    /// blob is written before the event that names it, so no run may be driven or start meanwhile. In a cluster nothing
    /// happens: other nodes may drive some.
    pub async fn sweep(&self) -> Result<(), RunError> {
        if self.owner.is_some() {
            return Ok(());
        }
        let mut named = HashSet::new();
        let mut see = |body: &str| {
            // Any text that could be the hash of one.
            let texts = body.split('"').filter(|text| text.len() == 64);
            named.extend(texts.filter_map(|text| text.parse::<BlobHash>().ok()));
        };
        self.journal.each_body(&mut see).await?;
        self.blobs.keep_only(named).await?;
        Ok(self.journal.compact().await?)
    }

    /// The directory of a run's artifacts.
    pub fn artifacts(&self, id: &RunId) -> PathBuf {
        artifacts_directory(&self.path, id)
    }
}

/// The dependencies of runs.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(super) journal: Journal,
    pub(super) blobs: Blobs,
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
            blobs: directory.blobs,
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

    /// Saves the session of an ended run as a file, so that another run can continue it at once.
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
        let mut live = self.live(id, Run::default(), 0, Some(&start), writer)?;
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
        self.live(id.clone(), run, seq, start.as_ref(), writer)
    }

    fn live(
        &self,
        id: RunId,
        run: Run,
        seq: u64,
        start: Option<&Start>,
        writer: Writer,
    ) -> Result<LiveRun, RunError> {
        let environment = start.and_then(|start| start.environment.as_deref());
        let isolation = start.and_then(|start| start.isolation);
        let isolation = isolation.map(Walls::as_str);
        let engine = self.engines.choose(environment, isolation, None)?.clone();
        let directory = run_directory(&self.directory, &id);
        let lock = hold(&directory, &id)?;
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
        let session = RunSession::new(engine, options, self.blobs.clone(), directory);
        if writer.has_outdated_files() {
            session.keep_snapshot(0);
        }
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

/// The driver of a run locks its directory.
fn lock(directory: &Path, id: &RunId) -> Result<File, RunError> {
    let lock = || {
        let held = File::open(directory).map_err(TryLockError::Error)?;
        held.try_lock()?;
        Ok(held)
    };
    lock().map_err(|error| match error {
        TryLockError::WouldBlock => RunError::Driven(id.clone()),
        TryLockError::Error(source) => RunError::File {
            path: directory.to_owned(),
            source,
        },
    })
}

/// The snapshot of a run's session while it runs.
pub(super) fn run_directory(directory: &Path, id: &RunId) -> PathBuf {
    directory.join("runs").join(id.as_str())
}

/// The directory of a run's artifacts, for an agent whose runs are in this directory.
pub fn artifacts_directory(directory: &Path, id: &RunId) -> PathBuf {
    run_directory(directory, id).join("artifacts")
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
