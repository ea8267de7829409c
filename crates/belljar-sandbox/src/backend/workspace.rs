//! The workspace of a session: its files, as the host reaches them.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use belljar_walls::{Beneath, BeneathError, FileWriter, Writing};

use rustix::fs::{FileType, fstat, fstatfs};

use super::meter::Meter;
use super::warm::WarmBackend;
use crate::error::Error;
use crate::lock::lock;

/// The kernel's number of the file system in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The workspace of one session, or another directory of it. Files are read through a descriptor of its directory, and written
/// by a process that is charged to the session's memory.
#[derive(Debug)]
pub(crate) struct Workspace {
    files: Beneath,
    /// The process that wrote files last, and may write more.
    writer: Mutex<Option<FileWriter>>,
    warm: Arc<WarmBackend>,
}

impl Workspace {
    pub(crate) fn new(directory: OwnedFd, warm: &Arc<WarmBackend>) -> Self {
        Self {
            files: Beneath::new(directory),
            writer: Mutex::default(),
            warm: Arc::clone(warm),
        }
    }

    /// Lets another directory of the same session through: one in memory, with the same owner and no part of this
    /// one. Nothing in a session can change what init opens; this would notice if it could.
    pub(crate) fn check_sibling(&self, directory: OwnedFd) -> io::Result<OwnedFd> {
        let (own, other) = (fstat(&self.files)?, fstat(&directory)?);
        let in_memory = u64::try_from(fstatfs(&directory)?.f_type) == Ok(TMPFS_MAGIC);
        let is_sibling = in_memory
            && FileType::from_raw_mode(other.st_mode) == FileType::Directory
            && (own.st_uid, own.st_gid) == (other.st_uid, other.st_gid)
            && own.st_dev != other.st_dev;
        is_sibling
            .then_some(directory)
            .ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Its files, to be read, listed and deleted.
    pub(crate) fn files(&self) -> &Beneath {
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
        act: impl FnOnce(&mut Writing<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let cgroup = meter.cgroup();
        let mut kept = lock(&self.writer);
        let mut writer = match kept.take().filter(FileWriter::is_ready) {
            Some(writer) if source.is_none() => writer,
            _ => {
                let started = self.warm.start_writer(&self.files, cgroup, source);
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
        let mut writing = writer.begin(cgroup, reserve);
        let done = act(&mut writing).and_then(|value| {
            writing.finish()?;
            Ok(value)
        });
        let clean = done.as_ref().map_or_else(|_| writing.abandon(), |_| Ok(()));
        match clean {
            Ok(()) => *kept = Some(writer),
            Err(leftover) => {
                let _ = leftover.map(|path| self.files.remove(&path));
                check()?;
            }
        }
        done
    }
}
