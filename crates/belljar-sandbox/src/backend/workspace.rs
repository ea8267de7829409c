//! The workspace of a session: its files, as the host reaches them.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use belljar_walls::{Beneath, BeneathError, Entry, FileStatus, FileWriter, Writing};
use rustix::fs::{FileType, fstat, fstatfs};

use super::container::files::{ContainerFiles, ContainerWriting};
use super::container::steward::Steward;
use super::meter::Meter;
use super::warm::WarmBackend;
use crate::capabilities::{Capability, Unsupported};
use crate::error::Error;
use crate::lock::lock;

/// The kernel's number of the file system in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Files of a session, to be read, listed and deleted.
#[derive(Debug)]
pub(crate) enum Files {
    /// Beneath a directory of this host.
    Beneath(Beneath),
    /// In a container.
    Told(ContainerFiles),
}

impl Files {
    /// A file whose length the caller compares with `most`: one that is larger need not have its contents.
    pub(crate) fn read(&self, path: &str, most: u64) -> Result<File, BeneathError> {
        match self {
            Self::Beneath(files) => files.read(path),
            Self::Told(files) => files.read(path, most),
        }
    }

    pub(crate) fn list(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), BeneathError> {
        match self {
            Self::Beneath(files) => files.list(path, limit),
            Self::Told(files) => files.list(path, limit),
        }
    }

    pub(crate) fn remove(&self, path: &str) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(files) => files.remove(path),
            Self::Told(files) => files.remove(path),
        }
    }

    pub(crate) fn remove_all(&self, path: &str) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(files) => files.remove_all(path),
            Self::Told(files) => files.remove_all(path),
        }
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStatus, BeneathError> {
        match self {
            Self::Beneath(files) => files.stat(path),
            Self::Told(files) => files.stat(path),
        }
    }

    pub(crate) fn read_link(&self, path: &str) -> Result<Option<String>, BeneathError> {
        match self {
            Self::Beneath(files) => files.read_link(path),
            Self::Told(files) => files.read_link(path),
        }
    }

    /// A descriptor of a directory, to be watched.
    pub(crate) fn directory(&self, path: &str) -> Result<OwnedFd, Error> {
        match self {
            Self::Beneath(files) => Ok(files.directory(path)?),
            Self::Told(_) => Err(Unsupported(Capability::Watches).into()),
        }
    }
}

/// Files on their way into a session.
#[derive(Debug)]
pub(crate) enum FilesWriting<'a> {
    Beneath(Writing<'a>),
    Told(ContainerWriting<'a>),
}

impl FilesWriting<'_> {
    pub(crate) fn directory(&mut self, path: &str) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(writing) => writing.directory(path),
            Self::Told(writing) => writing.directory(path),
        }
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(writing) => writing.rename(from, to),
            Self::Told(writing) => writing.rename(from, to),
        }
    }

    /// Writes a file through `write`, whole or not at all, making the directories it needs.
    pub(crate) fn file<E: From<BeneathError>>(
        &mut self,
        path: &str,
        executable: bool,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Beneath(writing) => writing.begin(path, executable)?,
            Self::Told(writing) => writing.begin(path, executable)?,
        }
        write(self)?;
        match self {
            Self::Beneath(writing) => writing.keep()?,
            Self::Told(writing) => writing.keep()?,
        }
        Ok(())
    }

    pub(crate) fn check_room(&mut self, bytes: u64) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(writing) => writing.check_room(bytes),
            Self::Told(writing) => writing.check_room(bytes),
        }
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(writing) => writing.data(bytes),
            Self::Told(writing) => writing.data(bytes),
        }
    }

    pub(crate) fn copy(&mut self, from: u64, bytes: u64) -> Result<(), BeneathError> {
        match self {
            Self::Beneath(writing) => writing.copy(from, bytes),
            Self::Told(writing) => writing.copy(from, bytes),
        }
    }
}

/// Who writes files: on this host a process that is charged to the session's memory.
#[derive(Debug)]
enum Writer {
    Process {
        /// The process that wrote files last, and may write more.
        kept: Mutex<Option<FileWriter>>,
        warm: Arc<WarmBackend>,
    },
    /// The steward's file helper, for one caller at a time.
    Steward(Mutex<()>),
}

/// The workspace of one session, or another directory of it.
#[derive(Debug)]
pub(crate) struct Workspace {
    files: Files,
    writer: Writer,
}

impl Workspace {
    pub(crate) fn new(directory: OwnedFd, warm: &Arc<WarmBackend>) -> Self {
        Self {
            files: Files::Beneath(Beneath::new(directory)),
            writer: Writer::Process {
                kept: Mutex::default(),
                warm: Arc::clone(warm),
            },
        }
    }

    /// A directory of a container.
    pub(crate) fn told(steward: &Arc<Steward>, root: &'static str) -> Self {
        Self {
            files: Files::Told(ContainerFiles::new(steward, root)),
            writer: Writer::Steward(Mutex::default()),
        }
    }

    /// Another directory of the same session, whose descriptor its init gave: one in memory, with the same owner and no
    /// part of this one. Nothing in a session can change what init opens; this would notice if it could.
    pub(crate) fn sibling(&self, directory: OwnedFd) -> io::Result<Self> {
        let (Files::Beneath(files), Writer::Process { warm, .. }) = (&self.files, &self.writer)
        else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let (own, other) = (fstat(files)?, fstat(&directory)?);
        let in_memory = u64::try_from(fstatfs(&directory)?.f_type) == Ok(TMPFS_MAGIC);
        let is_sibling = in_memory
            && FileType::from_raw_mode(other.st_mode) == FileType::Directory
            && (own.st_uid, own.st_gid) == (other.st_uid, other.st_gid)
            && own.st_dev != other.st_dev;
        is_sibling
            .then(|| Self::new(directory, warm))
            .ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Its files, to be read, listed and deleted.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Writes files: all of `act` runs, and is charged to the session. If the session has less than
    /// `reserve` bytes of memory left, files are refused. Parts of the source can be copied into
    /// them. `what` names what is written, for the error; `check` fails if the session has ended,
    /// which explains the end of the writer process.
    pub(crate) fn write<T>(
        &self,
        meter: &Meter,
        what: &str,
        reserve: u64,
        source: Option<&File>,
        check: impl Fn() -> Result<(), Error>,
        act: impl FnOnce(&mut FilesWriting<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match (&self.files, &self.writer) {
            (Files::Beneath(files), Writer::Process { kept, warm }) => {
                let cgroup = meter.cgroup();
                let mut kept = lock(kept);
                let mut writer = match kept.take().filter(FileWriter::is_ready) {
                    Some(writer) if source.is_none() => writer,
                    _ => {
                        let started = warm.start_writer(files, cgroup, source);
                        started.map_err(|error| match (error.kind(), cgroup) {
                            // It was killed at once, for want of memory, unless all of the session was.
                            (ErrorKind::UnexpectedEof, Some(cgroup)) => {
                                check().err().unwrap_or_else(|| {
                                    let (path, limit) = (what.to_owned(), cgroup.memory_limit());
                                    BeneathError::NoMemory { path, limit }.into()
                                })
                            }
                            _ => Error::io("starting the writer process")(error),
                        })?
                    }
                };
                let mut writing = FilesWriting::Beneath(writer.begin(cgroup, reserve));
                let done = act(&mut writing);
                let FilesWriting::Beneath(mut writing) = writing else {
                    return done;
                };
                let done = done.and_then(|value| {
                    writing.finish()?;
                    Ok(value)
                });
                let clean = done.as_ref().map_or_else(|_| writing.abandon(), |_| Ok(()));
                match clean {
                    Ok(()) => *kept = Some(writer),
                    Err(leftover) => {
                        let _ = leftover.map(|path| files.remove(&path));
                        check()?;
                    }
                }
                done
            }
            (Files::Told(files), Writer::Steward(one)) => {
                let _one = lock(one);
                let mut writing = FilesWriting::Told(ContainerWriting {
                    files,
                    source,
                    reserve,
                    path: what.to_owned(),
                });
                let done = act(&mut writing);
                if let (Err(_), FilesWriting::Told(writing)) = (&done, &mut writing) {
                    writing.abandon();
                    check()?;
                }
                done
            }
            _ => Err(Error::io("writing files")(ErrorKind::InvalidInput.into())),
        }
    }
}
