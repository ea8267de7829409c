//! Snapshots: a session's variables, files and sources in one file, and a new session from it.
//!
//! The variables are pickled and unpickled by guests behind their walls. The host only copies their
//! bytes, so a hostile snapshot can do no more than the code of a hostile cell.

mod file;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_protocol::{
    GuestFrame, HostFrame, LoadedName, RawFrame, SavedName, SavedNames, encode_frame,
};
use belljar_walls::{SessionCgroup, Writing};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

pub use file::FileLeftOut;

use crate::disk::{DiskAllowance, DiskSpace};
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::guest::{Guest, GuestError};
use crate::handle::SessionHandle;
use crate::lifecycle::AwakeSession;
use crate::limits::Limits;
use crate::options::SessionOptions;
use crate::packages;
use crate::session::Session;

use file::{Header, MAX_HEADER, Writer, header_length};

pub(crate) use file::Reader;

/// Bytes of variables that are sent to a guest at once.
const PART: usize = 8 << 20;

/// Why a snapshot can't be loaded. Its variables were not opened then, and no session is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file is something else.
    #[error("this file is not a snapshot")]
    NotASnapshot,
    /// It has a format that this version does not support.
    #[error("the snapshot has format {0}, which this version of Belljar does not support")]
    Version(u32),
    /// It was changed after it was written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    /// Pickles of code are only good for the same minor version of Python.
    #[error(
        "the snapshot was made by Python {}.{}, but this environment has Python {}.{}\nhint: load it in an environment with the same Python version",
        .snapshot.0, .snapshot.1, .here.0, .here.1
    )]
    Python {
        /// The version that wrote it.
        snapshot: (u8, u8, u8),
        /// The version of the engine's environment.
        here: (u8, u8, u8),
    },
    /// The new session died, or did not answer, while it loaded the variables.
    #[error("the session ended while it loaded the snapshot: {0}")]
    Lost(String),
    /// It could not be read.
    #[error("the snapshot cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What a snapshot contains.
#[derive(Clone, Debug)]
pub struct SnapshotReport {
    /// Size of the file.
    pub bytes: u64,
    /// Every name of the namespace, with a reason if it was not saved.
    pub names: Vec<SavedName>,
    /// The number of files of the workspace in it.
    pub files: usize,
    /// Files that it lacks.
    pub files_left_out: Vec<FileLeftOut>,
    /// The Python package that pickled the variables: `cloudpickle`, or `pickle` in environments
    /// without it, which saves nothing that is defined in cells.
    pub library: String,
    /// The number of threads of the program, which no snapshot holds.
    pub threads: u32,
    /// The number of its child processes.
    pub processes: u32,
}

/// What was loaded from a snapshot.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Every name of the saved namespace, with a reason if it was not loaded.
    pub names: Vec<LoadedName>,
    /// The number of restored files.
    pub files: usize,
    /// Files that the snapshot does not have.
    pub files_left_out: Vec<FileLeftOut>,
    /// The number of cells that had run; the next one has the number after that.
    pub cells: u32,
    /// Packages that are missing here, or have another version.
    pub packages: Vec<String>,
}

impl Session {
    /// Writes a snapshot: the variables, one by one, the sources of the cells, and the workspace's
    /// files. What can't be saved is left out and reported; the session continues unchanged. Waits
    /// for a running cell.
    ///
    /// Pickling a value may run code of its class. A session that does not answer within the time
    /// limit of a cell is ended.
    pub async fn snapshot(&self, to: &Path) -> Result<SnapshotReport, Error> {
        let (lifecycle, to) = (Arc::clone(self.lifecycle()), to.to_owned());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let snapshot = tokio::spawn(async move {
            let (handle, mut guest) = lifecycle.wires().await?;
            handle.check()?;
            let written = write(&handle, &mut guest, to, lifecycle.options.disk.clone()).await;
            // From here on the file is the caller's.
            written.map(|(report, _)| report)
        });
        snapshot.await.map_err(panicked)?
    }
}

/// Writes a snapshot. If only the file fails, the session continues. Also returns its share of a
/// disk allowance.
pub(crate) async fn write(
    handle: &Arc<SessionHandle>,
    guest: &mut Guest,
    to: PathBuf,
    disk: Option<Arc<DiskAllowance>>,
) -> Result<(SnapshotReport, Option<DiskSpace>), Error> {
    let path = to.clone();
    let create = move || Writer::create(&path, disk.as_ref()).map_err(writing);
    let writer = blocking(create).await?;
    let start = writer.written();

    // Written by another thread while the guest makes the next part.
    let (parts, mut arriving) = tokio::sync::mpsc::channel::<Vec<u8>>(2);
    let written = tokio::task::spawn_blocking(move || {
        let mut writer = writer;
        while let Some(part) = arriving.blocking_recv() {
            writer.write(&part).map_err(writing)?;
        }
        Ok::<_, Error>(writer)
    });
    let saved = save(guest, handle, &parts).await;
    drop(parts);
    let written = written.await.map_err(panicked)?;
    let (saved, sources) = saved.map_err(|error| handle.fail(error))?;
    let mut writer = written?;
    let variables = writer.written() - start;

    let cells = guest.cells;
    let layers = guest.layers.clone();
    let handle = Arc::clone(handle);
    // No cell runs while the files are read: the wires are still ours.
    blocking(move || {
        let limit = handle.limits.workspace_bytes;
        let (files, files_left_out) = writer.write_files(&handle.workspace, limit)?;
        let file_bytes = writer.written() - start - variables;
        let environment = handle.warm.environment();
        let header = Header {
            belljar: env!("CARGO_PKG_VERSION").into(),
            python: environment.version(),
            environment: environment.name().into(),
            packages: environment.packages().to_vec(),
            layers,
            cells,
            sources,
            library: saved.library,
            names: saved.names,
            files_left_out,
        };
        let (bytes, space) = writer
            .finish(&header, variables, file_bytes, &to)
            .map_err(writing)?;
        let report = SnapshotReport {
            bytes,
            names: header.names,
            files,
            files_left_out: header.files_left_out,
            library: header.library,
            threads: saved.threads,
            processes: saved.processes,
        };
        Ok((report, space))
    })
    .await
}

impl Engine {
    /// Starts a new session from a snapshot; also returns which of its names were loaded. The file
    /// is checked first; only the new session opens its variables, behind its walls.
    pub async fn load(
        &self,
        snapshot: &Path,
        options: impl Into<SessionOptions>,
    ) -> Result<(Session, LoadReport), Error> {
        let reader = open_snapshot(snapshot.to_owned()).await?;
        let (of, here) = (reader.header.python, self.environment().version());
        if (of.0, of.1) != (here.0, here.1) {
            return Err(SnapshotError::Python { snapshot: of, here }.into());
        }
        let session = self.session_with(options).await?;
        let awake = session.lifecycle().now()?.ok_or(Error::Hibernated)?;
        let report = fill(&awake, reader).await?;
        Ok((session, report))
    }
}

/// Headers of at least this size share a memory limit: whoever wrote the file chose what they hold.
const LARGE_HEADER: u64 = 1 << 20;
/// The limit: one of the longest, or several.
static HEADERS: Semaphore = Semaphore::const_new(64);

/// Opens a snapshot, if it is intact.
pub(crate) async fn open_snapshot(path: PathBuf) -> Result<Reader, Error> {
    let of = path.clone();
    let header = blocking(move || Ok(header_length(&of).map_err(SnapshotError::from)?)).await?;
    let room = match u32::try_from(header.min(MAX_HEADER) / LARGE_HEADER) {
        // It is never closed.
        Ok(large @ 1..) => HEADERS.acquire_many(large).await.ok(),
        _ => None,
    };
    let mut reader = blocking(move || Ok(Reader::open(&path)?)).await?;
    reader.room = room;
    Ok(reader)
}

/// Loads a snapshot into a new session.
pub(crate) async fn fill(awake: &AwakeSession, mut reader: Reader) -> Result<LoadReport, Error> {
    let AwakeSession { handle, guest } = awake;
    let workspace = Arc::clone(handle);
    let (reader, files) = blocking(move || {
        // All that its memory limit allows: it had them before.
        let source = reader.source().map_err(SnapshotError::from)?;
        let restore = |writing: &mut Writing<'_>| reader.restore_files(writing);
        let files = workspace.write_files("the snapshot", 0, Some(&source), restore)?;
        Ok((reader, files))
    })
    .await?;
    let mut guest = guest.lock().await;
    let mut report = LoadReport {
        names: Vec::new(),
        files,
        files_left_out: reader.header.files_left_out.clone(),
        // A lie here must not make the counter overflow.
        cells: reader.header.cells.min(u32::MAX / 2),
        packages: differences(&reader.header, handle.warm.environment()),
    };
    let layers = &reader.header.layers;
    let missing = packages::give_back(handle, &mut guest, layers).await;
    report.packages.extend(missing);
    let saved = reader.header.names.clone();
    let (loaded, why) = open(&mut guest, handle, reader)
        .await
        .map_err(|error| match error {
            Error::Ended(why) => SnapshotError::Lost(why).into(),
            Error::Unresponsive => SnapshotError::Lost("it did not answer in time".into()).into(),
            error => error,
        })?;
    report.names = compare(saved, loaded, why);
    // Tracebacks identify cells by their numbers, so none is used twice.
    guest.cells = report.cells;
    guest.checkpoint_set.state = report.cells;
    Ok(report)
}

fn writing(source: io::Error) -> Error {
    Error::io("writing the snapshot")(source)
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::io("the snapshot's task")(io::Error::other(error))
}

async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(task).await.map_err(panicked)?
}

fn differences(header: &Header, here: &Environment) -> Vec<String> {
    let here: HashMap<&str, &str> = here
        .packages()
        .iter()
        .map(|package| (package.name.as_str(), package.version.as_str()))
        .collect();
    let there = header.packages.iter();
    there
        .filter_map(|package| match here.get(package.name.as_str()) {
            Some(version) if *version == package.version => None,
            Some(version) => Some(format!(
                "{} {} is {version} here",
                package.name, package.version
            )),
            None => Some(format!("{} {} is missing", package.name, package.version)),
        })
        .collect()
}

/// The result for each name of the saved namespace.
fn compare(saved: Vec<SavedName>, loaded: Vec<LoadedName>, why: Option<String>) -> Vec<LoadedName> {
    let mut loaded: HashMap<String, Option<String>> = loaded
        .into_iter()
        .map(|LoadedName { name, why }| (name, why))
        .collect();
    let why = why.unwrap_or_else(|| "it was not found in the snapshot".into());
    saved
        .into_iter()
        .map(|saved| LoadedName {
            why: match (saved.why, loaded.remove(&saved.name)) {
                (Some(why), _) => Some(format!("not saved: {why}")),
                (None, Some(why)) => why,
                (None, None) => Some(why.clone()),
            },
            name: saved.name,
        })
        .collect()
}

/// An exchange that runs user code (of the classes of the saved values), so it has deadlines.
struct Talk<'a> {
    guest: &'a mut Guest,
    cgroup: Option<&'a SessionCgroup>,
    /// How long the guest may do nothing that the host can see.
    silence: Duration,
    deadline: Instant,
}

/// Seconds for one name: a third of a cell's time, 10 by default.
fn name_seconds(limits: &Limits) -> f64 {
    limits.wall_time.as_secs_f64() / 3.0
}

/// Seconds for all names: as for four cells.
fn seconds(limits: &Limits) -> f64 {
    limits.wall_time.as_secs_f64() * 4.0
}

impl<'a> Talk<'a> {
    fn new(guest: &'a mut Guest, handle: &'a SessionHandle) -> Self {
        let limits = &handle.limits;
        Self {
            guest,
            cgroup: handle.cgroup.as_ref(),
            silence: limits.wall_time + limits.grace,
            // As long as ten cells.
            deadline: Instant::now() + limits.wall_time * 10,
        }
    }

    async fn in_time<T>(
        silence: Duration,
        deadline: Instant,
        action: impl Future<Output = Result<T, GuestError>>,
    ) -> Result<T, Error> {
        let patience = silence.min(deadline.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(patience, action).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(GuestError::Gone)) => Err(Error::Ended("its process is gone".into())),
            Ok(Err(GuestError::Protocol(detail))) => Err(broken(&detail)),
            Err(_) => Err(Error::Unresponsive),
        }
    }

    async fn send(&mut self, request: &HostFrame<'_>, blob: &[u8]) -> Result<(), Error> {
        let request = encode_frame(request, blob).map_err(|e| Error::Session(e.to_string()))?;
        let control = &mut self.guest.control;
        let sending = async { Ok(control.write_all(&request).await?) };
        // The guest may be busy with names that it has; only the whole has a limit.
        Self::in_time(Duration::MAX, self.deadline, sending).await
    }

    async fn receive(&mut self) -> Result<(GuestFrame, RawFrame), Error> {
        let receiving = self.guest.answer(self.cgroup);
        match Self::in_time(self.silence, self.deadline, receiving).await? {
            (GuestFrame::Fault { detail }, _) => Err(Error::Session(detail)),
            answer => Ok(answer),
        }
    }
}

fn broken(detail: &str) -> Error {
    Error::Ended(format!("it broke the protocol: {detail}"))
}

/// What was saved, and the sources of the cells.
type Saved = (SavedNames, BTreeMap<String, String>);

/// Makes the guest save its names, and passes on their bytes. The receiver may give up; the guest
/// is still read to its end, since its next answer must belong to another request.
async fn save(
    guest: &mut Guest,
    handle: &SessionHandle,
    parts: &tokio::sync::mpsc::Sender<Vec<u8>>,
) -> Result<Saved, Error> {
    let limits = &handle.limits;
    let mut talk = Talk::new(guest, handle);
    let limit_bytes = limits.memory_bytes;
    let request = HostFrame::Save {
        limit_bytes,
        name_seconds: name_seconds(limits),
        seconds: seconds(limits),
    };
    talk.send(&request, &[]).await?;
    let mut total = 0;
    loop {
        match talk.receive().await? {
            (GuestFrame::SavedPart, frame) => {
                total += frame.blob.len() as u64;
                // The names' headers are small beside their values, which the guest counts.
                if total > limit_bytes + limit_bytes / 2 {
                    return Err(broken("a snapshot over its limit"));
                }
                let _ = parts.send(frame.blob).await;
            }
            (GuestFrame::Saved(saved), frame) => {
                let sources = serde_json::from_slice(&frame.blob)
                    .map_err(|_| broken("sources that can't be read"))?;
                return Ok((saved, sources));
            }
            _ => return Err(broken("an answer to another request")),
        }
    }
}

/// Makes a new guest load the variables.
async fn open(
    guest: &mut Guest,
    handle: &SessionHandle,
    reader: Reader,
) -> Result<(Vec<LoadedName>, Option<String>), Error> {
    let limits = &handle.limits;
    let packages = packages::paths(handle, &guest.layers);
    let mut talk = Talk::new(guest, handle);
    let request = HostFrame::Load {
        packages: &packages,
        sources: &reader.header.sources,
        name_seconds: name_seconds(limits),
        seconds: seconds(limits),
    };
    talk.send(&request, &[]).await?;
    let mut variables = reader.variables(PART).map_err(SnapshotError::from)?;
    loop {
        let (next, part) = blocking(move || {
            let part = variables().map_err(SnapshotError::from)?;
            Ok((variables, part))
        })
        .await?;
        variables = next;
        let last = part.is_empty();
        talk.send(&HostFrame::LoadPart { last }, &part).await?;
        if last {
            break;
        }
    }
    loop {
        match talk.receive().await? {
            (GuestFrame::Loading, _) => {}
            (GuestFrame::Loaded { names, why }, _) => return Ok((names, why)),
            _ => return Err(broken("an answer to another request")),
        }
    }
}
