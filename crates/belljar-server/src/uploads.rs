//! Files on their way into a session, part by part.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar_sandbox::DiskSpace;

use crate::lock::lock;
use crate::node::random_hex;
use crate::problem::{Code, Problem};

/// The most uploads of a session, of which complete ones are only kept to be asked about.
const MAX_UPLOADS: usize = 8;

/// How long an upload waits for its next part.
const KEPT: Duration = Duration::from_hours(1);

/// The uploads of a session.
#[derive(Debug, Default)]
pub(crate) struct UploadBook(Mutex<HashMap<String, Arc<PartialUpload>>>);

/// A file of which a part has come.
#[derive(Debug)]
pub(crate) struct PartialUpload {
    /// Where it goes.
    pub(crate) path: String,
    /// Its size when it is complete.
    pub(crate) length: u64,
    /// Held by a request while it adds a part.
    pub(crate) received: Arc<tokio::sync::Mutex<Received>>,
    touched: Mutex<Instant>,
    complete: AtomicBool,
}

/// What has come of a file.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// None before the first byte, and when it is written.
    stored: Option<(File, Option<DiskSpace>)>,
    pub(crate) bytes: u64,
}

impl UploadBook {
    /// Begins an upload, and returns its id.
    pub(crate) fn begin(&self, path: String, length: u64) -> Result<String, Problem> {
        let id = random_hex(16).map_err(|error| Problem::io("cannot name an upload", error))?;
        self.forget_old();
        let mut uploads = lock(&self.0);
        if uploads.len() >= MAX_UPLOADS {
            let complete = uploads.iter().filter(|(_, upload)| upload.is_complete());
            let oldest = complete.min_by_key(|(_, upload)| *lock(&upload.touched));
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                uploads.remove(&id);
            }
        }
        if uploads.len() >= MAX_UPLOADS {
            let detail =
                format!("a session has at most {MAX_UPLOADS} incomplete uploads: delete one");
            return Err(Problem::new(Code::TooManyTransfers, detail));
        }
        let upload = PartialUpload {
            path,
            length,
            received: Arc::default(),
            touched: Mutex::new(Instant::now()),
            complete: AtomicBool::new(false),
        };
        uploads.insert(id.clone(), Arc::new(upload));
        Ok(id)
    }

    /// The upload with this id.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<PartialUpload>, Problem> {
        let upload = lock(&self.0).get(id).cloned();
        upload.ok_or_else(|| Problem::new(Code::UploadNotFound, "begin the upload again"))
    }

    pub(crate) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    /// Forgets those that have waited too long.
    pub(crate) fn forget_old(&self) {
        lock(&self.0).retain(|_, upload| lock(&upload.touched).elapsed() < KEPT);
    }

    /// Forgets all of them: their session has ended.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl PartialUpload {
    /// Another part comes: it waits for the next from now on.
    pub(crate) fn touch(&self) {
        *lock(&self.touched) = Instant::now();
    }

    /// The file is in the workspace.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }
}

impl Received {
    /// Adds a part of a file with this length. Of one that can't be stored whole, nothing counts.
    pub(crate) fn add(
        &mut self,
        mut part: File,
        space: Option<DiskSpace>,
        length: u64,
    ) -> Result<(), Problem> {
        let fault = |error| Problem::io("cannot store a part of a file", error);
        let more = part.metadata().map_err(fault)?.len();
        if more > length - self.bytes {
            let detail = format!("the file has more than the {length} bytes of `Upload-Length`");
            return Err(Problem::new(Code::BadBody, detail));
        }
        match &mut self.stored {
            None => self.stored = Some((part, space)),
            Some((file, stored)) => {
                let mut copy = || {
                    part.rewind()?;
                    file.seek(SeekFrom::Start(self.bytes))?;
                    io::copy(&mut part, file)
                };
                copy().map_err(fault)?;
                if let (Some(stored), Some(space)) = (stored, space) {
                    stored.absorb(space);
                }
            }
        }
        self.bytes += more;
        Ok(())
    }

    /// Uses the file, or none if it is empty, and gives it up if that succeeds.
    pub(crate) fn consume<T, E>(
        &mut self,
        consume: impl FnOnce(Option<&File>) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = consume(self.stored.as_ref().map(|(file, _)| file))?;
        self.stored = None;
        Ok(done)
    }
}
