//! Watching a directory of a session for changes.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};

use belljar_walls::TEMPORARY_NAMES;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Error;
use crate::session::Session;
use crate::session::handle::AwakeSession;

/// Bytes of events that are read at once.
const BUFFER: usize = 16 << 10;

/// A change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// An entry of the directory changed.
    Changed {
        /// Its name; bytes that are not UTF-8 are replaced.
        name: String,
        /// What happened to it.
        change: FileChange,
    },
    /// Changes came faster than they were read: some are missing. Look at the directory again.
    Overflowed,
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It was made, or moved here.
    Created,
    /// It was written to.
    Written,
    /// It was deleted.
    Deleted,
    /// It was moved away, or has another name now.
    Renamed,
    /// Its permissions, times or owner changed.
    Attributes,
}

/// The changes of one directory, while this is there.
#[derive(Debug)]
pub struct Watch {
    /// The type is only there for its readiness.
    inotify: UnixStream,
    pending: VecDeque<FileEvent>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    /// Watches a directory of the workspace or of `/tmp` for changes, but not the directories in it. Needs a Tokio
    /// runtime. What code in the session does with the names of its files is not believed: look at the files.
    pub fn watch(&self, path: &str) -> Result<Watch, Error> {
        let fault = || Error::io("watching a directory");
        let AwakeSession { handle, .. } = self.lifecycle().now()?.ok_or(Error::Hibernated)?;
        let permit = handle.watches.acquire()?;
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|error| fault()(error.into()))?;
        self.with_files(path, |files, path| {
            let directory = files.directory(path.trim_end_matches('/'))?;
            let flags = WatchFlags::CREATE
                | WatchFlags::MODIFY
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::ATTRIB
                | WatchFlags::DELETE_SELF
                | WatchFlags::ONLYDIR;
            // The directory itself, whatever has its name by now.
            let found = format!("/proc/self/fd/{}", directory.as_raw_fd());
            inotify::add_watch(&inotify, found, flags).map_err(|error| fault()(error.into()))
        })?;
        let inotify = std::os::unix::net::UnixStream::from(inotify);
        Ok(Watch {
            inotify: UnixStream::from_std(inotify).map_err(fault())?,
            pending: VecDeque::new(),
            ended: false,
            _permit: permit,
        })
    }
}

impl Watch {
    /// The next change; none after the end of the directory, by its deletion or because the session has hibernated or
    /// ended. Can be cancelled.
    pub async fn next(&mut self) -> Option<FileEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            let (inotify, pending) = (&self.inotify, &mut self.pending);
            let read = inotify.async_io(Interest::READABLE, || read(inotify, pending));
            self.ended = read.await.unwrap_or(true);
        }
    }
}

/// Reads some events; true if no more will come.
fn read(inotify: impl AsFd, events: &mut VecDeque<FileEvent>) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        let event = reader.next()?;
        let flags = event.events();
        if flags.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT | ReadFlags::DELETE_SELF) {
            return Ok(true);
        }
        let name = event.file_name().map(|name| name.to_string_lossy());
        let change = [
            (ReadFlags::CREATE | ReadFlags::MOVED_TO, FileChange::Created),
            (ReadFlags::MODIFY, FileChange::Written),
            (ReadFlags::DELETE, FileChange::Deleted),
            (ReadFlags::MOVED_FROM, FileChange::Renamed),
            (ReadFlags::ATTRIB, FileChange::Attributes),
        ];
        let change = change.into_iter().find(|(kind, _)| flags.intersects(*kind));
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            events.push_back(FileEvent::Overflowed);
        } else if let (Some(name), Some((_, change))) = (name, change)
            // The names that files have while the host writes them.
            && !name.starts_with(TEMPORARY_NAMES)
        {
            let name = name.into_owned();
            events.push_back(FileEvent::Changed { name, change });
        }
        if reader.is_buffer_empty() {
            return Ok(false);
        }
    }
}
