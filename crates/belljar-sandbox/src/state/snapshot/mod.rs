//! Snapshots: a session's variables, files and sources in one file, and a new session from it.
//!
//! The variables are pickled and unpickled by guests behind their walls. The host only copies their
//! bytes, so a hostile snapshot can do no more than the code of a hostile cell.

mod checksum;
mod error;
mod file;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_protocol::{
    GuestFrame, GuestVariables, HostFrame, LoadedName, RawFrame, SavedName, SavedNames,
    encode_frame, encode_head,
};
use rustix::fs::Advice;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::Semaphore;

pub use error::SnapshotError;
pub use file::FileLeftOut;

use crate::backend::meter::Meter;
use crate::backend::workspace::FilesWriting;
use crate::disk::{DiskAllowance, DiskSpace};
use crate::environment::Environment;
use crate::error::Error;
use crate::limits::Limits;
use crate::lock::lock;
use crate::session::guest::Guest;
use crate::session::guest_error::{GuestError, ProtocolError};
use crate::session::handle::{AwakeSession, SessionHandle};
use crate::session::namespace_list::Namespaces;
use crate::session::packages;
use crate::variables::StreamScrubber;

use file::{Header, MAX_HEADER, Writer, header_length};

pub(crate) use file::Reader;

/// Bytes of variables that are sent to a guest at once.
const PART: u64 = 8 << 20;

/// The most packages that a refusal names.
const MAX_DIFFERENCES: usize = 10;

/// What a snapshot contains.
#[derive(Clone, Debug)]
pub struct SnapshotReport {
    /// Size of the file.
    pub bytes: u64,
    /// Every name of the namespaces, with a reason if it was not saved.
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

impl SnapshotReport {
    fn new(header: Header, bytes: u64) -> Self {
        Self {
            bytes,
            names: header.names,
            files: header.files,
            files_left_out: header.files_left_out,
            library: header.library,
            threads: header.threads,
            processes: header.processes,
        }
    }
}

/// What was loaded from a snapshot.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Every name of the saved namespaces, with a reason if it was not loaded.
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

/// Writes a snapshot. If only the file fails, the session continues. Also returns its share of a
/// disk allowance. `within` shortens the time for the names; the rest of them is left out.
pub(crate) async fn write(
    handle: &Arc<SessionHandle>,
    guest: &mut Guest,
    to: PathBuf,
    disk: Option<Arc<DiskAllowance>>,
    within: Option<Duration>,
) -> Result<(SnapshotReport, Option<DiskSpace>), Error> {
    let path = to.clone();
    let create = move || Writer::create(&path, disk.as_ref()).map_err(writing);
    let writer = blocking(create).await?;
    let start = writer.written();

    // Written by another thread while the guest makes the next part.
    let (parts, mut arriving) = tokio::sync::mpsc::channel::<Vec<u8>>(2);
    let (unused, memory) = std::sync::mpsc::channel();
    let written = tokio::task::spawn_blocking(move || {
        let mut writer = writer;
        while let Some(part) = arriving.blocking_recv() {
            writer.write(&part).map_err(writing)?;
            let _ = unused.send(part);
        }
        Ok::<_, Error>(writer)
    });
    let saved = save(guest, handle, &parts, memory, within).await;
    guest.reuse(Vec::new());
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
        let (files, files_left_out) = writer.write_files(handle.workspace.files(), limit)?;
        let file_bytes = writer.written() - start - variables;
        let environment = handle.backend.environment();
        let header = Header {
            belljar: env!("CARGO_PKG_VERSION").into(),
            python: environment.version(),
            environment: environment.name().into(),
            packages: environment.packages().to_vec(),
            layers,
            cells,
            namespaces: lock(&handle.namespaces).to_saved(),
            sources,
            library: saved.library,
            names: saved.names,
            files,
            files_left_out,
            threads: saved.threads,
            processes: saved.processes,
        };
        let (bytes, space) = writer
            .finish(&header, variables, file_bytes, &to)
            .map_err(writing)?;
        Ok((SnapshotReport::new(header, bytes), space))
    })
    .await
}

/// Headers of at least this size share a memory limit: whoever wrote the file chose what they hold.
const LARGE_HEADER: u64 = 1 << 20;
/// The limit: one of the longest, or several.
static HEADERS: Semaphore = Semaphore::const_new(64);

/// Opens a snapshot, if it is intact.
pub(crate) async fn open_snapshot(path: PathBuf) -> Result<Reader, Error> {
    let file = blocking(move || Ok(File::open(path).map_err(SnapshotError::from)?)).await?;
    read_snapshot(file).await
}

/// The same for a file that is open.
pub(crate) async fn read_snapshot(mut file: File) -> Result<Reader, Error> {
    let (file, header) = blocking(move || {
        let header = header_length(&mut file).map_err(SnapshotError::from)?;
        Ok((file, header))
    })
    .await?;
    let room = match u32::try_from(header.min(MAX_HEADER) / LARGE_HEADER) {
        // It is never closed.
        Ok(large @ 1..) => HEADERS.acquire_many(large).await.ok(),
        _ => None,
    };
    let mut reader = blocking(move || Ok(Reader::new(file)?)).await?;
    reader.room = room;
    Ok(reader)
}

/// Copies an intact snapshot.
pub(crate) async fn copy(
    mut reader: Reader,
    to: PathBuf,
    disk: Option<Arc<DiskAllowance>>,
) -> Result<SnapshotReport, Error> {
    blocking(move || {
        let bytes = reader.source().and_then(|file| file.metadata());
        let bytes = bytes.map_err(writing)?.len();
        let space = disk.map(|disk| disk.take(bytes)).transpose();
        let _space = space.map_err(writing)?;
        reader.copy(&to).map_err(writing)?;
        Ok(SnapshotReport::new(reader.header, bytes))
    })
    .await
}

/// What an intact snapshot contains.
pub(crate) fn report(reader: Reader) -> Result<SnapshotReport, Error> {
    let bytes = reader.source().and_then(|file| file.metadata());
    let bytes = bytes.map_err(SnapshotError::from)?.len();
    Ok(SnapshotReport::new(reader.header, bytes))
}

/// Refuses a snapshot of another minor version of Python.
pub(crate) fn check_python(reader: &Reader, here: &Environment) -> Result<(), SnapshotError> {
    let (snapshot, here) = (reader.header.python, here.version());
    if (snapshot.0, snapshot.1) == (here.0, here.1) {
        return Ok(());
    }
    Err(SnapshotError::Python { snapshot, here })
}

/// Refuses what was saved in another environment: a value that loads there and means something
/// else would go unnoticed.
pub(crate) fn check_environment(reader: &Reader, here: &Environment) -> Result<(), SnapshotError> {
    check_python(reader, here)?;
    let mut differences = differences(&reader.header, here);
    let more = differences.len().saturating_sub(MAX_DIFFERENCES);
    if differences.is_empty() {
        return Ok(());
    }
    if more > 0 {
        differences.truncate(MAX_DIFFERENCES);
        differences.push(format!("{more} more"));
    }
    Err(SnapshotError::Packages(differences))
}

/// Loads a snapshot into a new session.
pub(crate) async fn fill(awake: &AwakeSession, mut reader: Reader) -> Result<LoadReport, Error> {
    let AwakeSession { handle, guest } = awake;
    let session = Arc::clone(handle);
    let (reader, files) = blocking(move || {
        // All that its memory limit allows: it had them before.
        let source = reader.source().map_err(SnapshotError::from)?;
        let restore = |writing: &mut FilesWriting<'_>| reader.restore_files(writing);
        let workspace = &session.workspace;
        let files = session.write_files(workspace, "the snapshot", 0, Some(&source), restore)?;
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
        packages: differences(&reader.header, handle.backend.environment()),
    };
    let namespaces = Namespaces::from_saved(&reader.header.namespaces)
        .map_err(|_| SnapshotError::Damaged("its namespaces are invalid"))?;
    *lock(&handle.namespaces) = namespaces;
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

pub(crate) fn panicked(error: tokio::task::JoinError) -> Error {
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
    let mut loaded: HashMap<(Option<String>, String), Option<String>> = loaded
        .into_iter()
        .map(|loaded| ((loaded.namespace, loaded.name), loaded.why))
        .collect();
    let why = why.unwrap_or_else(|| "it was not found in the snapshot".into());
    saved
        .into_iter()
        .map(|saved| {
            let key = (saved.namespace, saved.name);
            let why = match (saved.why, loaded.remove(&key)) {
                (Some(why), _) => Some(format!("not saved: {why}")),
                (None, Some(why)) => why,
                (None, None) => Some(why.clone()),
            };
            let (namespace, name) = key;
            LoadedName {
                name,
                namespace,
                why,
            }
        })
        .collect()
}

/// An exchange that runs user code (of the classes of the saved values), so it has deadlines.
struct Talk<'a> {
    guest: &'a mut Guest,
    meter: &'a Meter,
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
            meter: &handle.meter,
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
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Error::Unresponsive),
        }
    }

    async fn send(&mut self, request: &HostFrame<'_>) -> Result<(), Error> {
        let request = encode_frame(request, &[]).map_err(Error::session)?;
        let control = &mut self.guest.control;
        let sending = async { Ok(control.write_all(&request).await?) };
        // The guest may be busy with names that it has; only the whole has a limit.
        Self::in_time(Duration::MAX, self.deadline, sending).await
    }

    /// Sends a part of a file, without copying its bytes; the last part has none.
    async fn send_part(&mut self, file: &File, mut at: u64, bytes: u64) -> Result<(), Error> {
        let size = usize::try_from(bytes).map_err(Error::session)?;
        let part = HostFrame::LoadPart { last: size == 0 };
        let head = encode_head(&part, size).map_err(Error::session)?;
        let control = &mut self.guest.control;
        let end = at + bytes;
        // They were read for the checksum. If the kernel has dropped them since, it reads them again meanwhile.
        let ahead = NonZeroU64::new(PART);
        let _ = rustix::fs::fadvise(file, end, ahead, Advice::WillNeed);
        let sending = async {
            control.write_all(&head).await?;
            while at < end {
                let left = usize::try_from(end - at).unwrap_or(size);
                let send = || Ok(rustix::fs::sendfile(&*control, file, Some(&mut at), left)?);
                match control.async_io(Interest::WRITABLE, send).await {
                    Ok(0) => return Ok(Err(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => match error.kind() {
                        io::ErrorKind::Interrupted => {}
                        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                            return Err(GuestError::Gone);
                        }
                        _ => return Ok(Err(error)),
                    },
                }
            }
            Ok(Ok(()))
        };
        // The guest may be busy with names that it has; only the whole has a limit.
        let sent = Self::in_time(Duration::MAX, self.deadline, sending).await?;
        Ok(sent.map_err(SnapshotError::from)?)
    }

    async fn receive(&mut self) -> Result<(GuestFrame, RawFrame), Error> {
        let receiving = self.guest.answer(self.meter);
        match Self::in_time(self.silence, self.deadline, receiving).await? {
            (GuestFrame::Fault { detail }, _) => Err(Error::session(detail)),
            answer => Ok(answer),
        }
    }
}

/// What was saved, and the sources of the cells.
type Saved = (SavedNames, BTreeMap<String, String>);

/// Makes the guest save its names, and passes on their bytes; their memory comes back. The receiver may
/// give up; the guest is still read to its end, since its next answer must belong to another request.
async fn save(
    guest: &mut Guest,
    handle: &SessionHandle,
    parts: &tokio::sync::mpsc::Sender<Vec<u8>>,
    memory: std::sync::mpsc::Receiver<Vec<u8>>,
    within: Option<Duration>,
) -> Result<Saved, Error> {
    let limits = &handle.limits;
    let mut talk = Talk::new(guest, handle);
    let limit_bytes = limits.memory_bytes;
    let most = within.map_or(f64::INFINITY, |within| within.as_secs_f64());
    let scrubber = handle.variables.scrubber();
    let mut search = StreamScrubber::new(Arc::clone(scrubber));
    let names: Vec<String> = lock(&handle.namespaces).names().collect();
    let request = HostFrame::Save {
        limit_bytes,
        namespaces: &names,
        secrets: GuestVariables(scrubber.secrets()),
        name_seconds: name_seconds(limits).min(most / 3.0),
        seconds: seconds(limits).min(most),
    };
    talk.send(&request).await?;
    let mut total = 0;
    loop {
        match talk.receive().await? {
            (GuestFrame::SavedPart, frame) => {
                total += frame.blob.len() as u64;
                // The names' headers are small beside their values, which the guest counts.
                if total > limit_bytes + limit_bytes / 2 {
                    return Err(ProtocolError::LongSnapshot.into());
                }
                // The guest leaves out what holds one, if it is not lying.
                if search.finds_secret(&frame.blob) {
                    return Err(ProtocolError::SecretInSnapshot.into());
                }
                let _ = parts.send(frame.blob).await;
                if let Ok(memory) = memory.try_recv() {
                    talk.guest.reuse(memory);
                }
            }
            (GuestFrame::Saved(saved), frame) => {
                let mut found = saved
                    .names
                    .iter()
                    .filter_map(|name| name.namespace.as_ref());
                if !found.all(|namespace| names.contains(namespace)) {
                    return Err(ProtocolError::OtherNamespace.into());
                }
                let sources = serde_json::from_slice(&scrubber.json(frame.blob))
                    .map_err(|_| ProtocolError::Sources)?;
                return Ok((saved, sources));
            }
            _ => return Err(ProtocolError::OtherAnswer.into()),
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
        namespaces: lock(&handle.namespaces)
            .directories(&handle.directory())
            .into_iter()
            .collect(),
        name_seconds: name_seconds(limits),
        seconds: seconds(limits),
    };
    talk.send(&request).await?;
    let mut variables = reader.variables();
    let file = reader.source().map_err(SnapshotError::from)?;
    loop {
        let part = (variables.end - variables.start).min(PART);
        talk.send_part(&file, variables.start, part).await?;
        if part == 0 {
            break;
        }
        variables.start += part;
    }
    loop {
        match talk.receive().await? {
            (GuestFrame::Loading, _) => {}
            (GuestFrame::Loaded { names, why }, _) => return Ok((names, why)),
            _ => return Err(ProtocolError::OtherAnswer.into()),
        }
    }
}
