//! Saved sessions of a run: files in its directory, or objects of a cluster.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_journal::{BlobRef, Blobs, Error, failpoint};
use belljar_sandbox::Session;

use super::error::RunError;
use crate::run::Run;

/// How long a session may take to its store after a cell. The run then continues without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many files were sent to a store: each has a name of its own, also beside one that was given up.
static SAVES: AtomicU64 = AtomicU64::new(0);

pub(super) const MEDIA_TYPE: &str = "application/x-belljar-snapshot";

/// Where the sessions of a run are saved.
#[derive(Debug)]
pub(super) enum SavedSessions {
    /// In the directory of the run, by the number of the last cell: the driver of the run has locked it.
    Files(PathBuf),
    /// In an object store. A former driver that is only slow may still write there, so that one is valid only if an
    /// event of the run names it.
    Objects {
        blobs: Blobs,
        /// For the file, on its way.
        spool: PathBuf,
        /// Those that this driver has read or written.
        known: Vec<BlobRef>,
    },
}

/// A saved session that is there.
#[derive(Debug)]
pub(super) struct FoundSession {
    path: PathBuf,
    /// Without a name; the path is that of its descriptor.
    _file: Option<File>,
}

impl FoundSession {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl SavedSessions {
    /// Those of a run in an object store.
    pub(super) fn in_objects(blobs: Blobs, spool: PathBuf, run: &Run) -> Self {
        let known = run.saved_session().cloned().into_iter().collect();
        Self::Objects {
            blobs,
            spool,
            known,
        }
    }

    /// Whether events name them.
    pub(super) fn are_named(&self) -> bool {
        matches!(self, Self::Objects { .. })
    }

    /// The session after a cell, if it was saved. A store that can't be reached is an error: the run may continue
    /// later. Whatever else is wrong with it costs the variables.
    pub(super) async fn find(
        &self,
        cell: u32,
        named: Option<&BlobRef>,
    ) -> Result<Option<FoundSession>, RunError> {
        match self {
            Self::Files(directory) => {
                let path = snapshot_in(directory, cell);
                Ok(path.exists().then_some(FoundSession { path, _file: None }))
            }
            Self::Objects { blobs, .. } => match named {
                Some(named) => fetch(blobs, named).await,
                None => Ok(None),
            },
        }
    }

    /// Saves a session after a cell; returns what an event has to name.
    pub(super) async fn save(
        &mut self,
        session: &Session,
        cell: u32,
    ) -> Result<Option<BlobRef>, String> {
        failpoint::fail("runs.save_session").map_err(|error| error.to_string())?;
        match self {
            Self::Files(directory) => {
                make_directory(directory).map_err(|error| error.to_string())?;
                let saved = session.snapshot(&snapshot_in(directory, cell)).await;
                saved.map_err(|error| error.to_string())?;
                Ok(None)
            }
            Self::Objects {
                blobs,
                spool,
                known,
            } => {
                let number = SAVES.fetch_add(1, Ordering::Relaxed);
                let path = spool.join(format!("{number}.snapshot"));
                let sent = async {
                    let saved = session.snapshot(&path).await;
                    saved.map_err(|error| error.to_string())?;
                    let sent = blobs.put_file(&path, MEDIA_TYPE).await;
                    sent.map_err(|error| error.to_string())
                };
                let sent = tokio::time::timeout(PATIENCE, sent).await;
                let _ = fs::remove_file(&path);
                let late = |_| format!("it took longer than {} s", PATIENCE.as_secs());
                let saved = sent.map_err(late)??;
                known.push(saved.clone());
                Ok(Some(saved))
            }
        }
    }

    /// Removes the file after this cell, which may be of one that was never journaled.
    pub(super) fn remove_file(&self, cell: u32) {
        if let Self::Files(directory) = self {
            let _ = fs::remove_file(snapshot_in(directory, cell));
        }
    }

    /// Removes all files but the one after this cell, and remains of an interrupted one; 0 for all.
    pub(super) fn keep_file(&self, cell: u32) {
        let Self::Files(directory) = self else { return };
        let kept = snapshot_in(directory, cell);
        for file in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = file.path();
            if path != kept {
                // The directory of artifacts is no file, and stays.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Removes those that the run no longer names, without waiting for the store.
    pub(super) fn remove_replaced(&mut self, run: &Run) {
        match self {
            Self::Files(_) => self.keep_file(run.last_cell()),
            Self::Objects { blobs, known, .. } => {
                let is_replaced = |saved: &mut BlobRef| Some(&*saved) != run.saved_session();
                for replaced in known.extract_if(.., is_replaced) {
                    let blobs = blobs.clone();
                    tokio::spawn(async move {
                        if let Err(error) = blobs.remove(replaced.hash).await {
                            // It goes at the end of the run.
                            tracing::warn!(%error, "a replaced session of a run stays in its store");
                        }
                    });
                }
            }
        }
    }

    /// The run has ended: removes all but the session that a follow-up continues, if it is kept.
    pub(super) async fn close(&self, kept: Option<&Run>) {
        match self {
            Self::Files(directory) => {
                self.keep_file(kept.map_or(0, Run::kept_cell));
                // Unless the run has left files in it.
                let _ = fs::remove_dir(directory);
            }
            Self::Objects { blobs, .. } => {
                let kept = kept.and_then(Run::saved_session);
                let kept = kept.map(|saved| saved.hash).into_iter().collect();
                if let Err(error) = blobs.keep_only(kept).await {
                    // It goes with the run.
                    tracing::warn!(%error, "a saved session of a run stays in its store");
                }
            }
        }
    }
}

/// Copies the saved session of an ended run to one that continues it. None if it is not there.
pub(super) async fn copy_session(
    from: &Blobs,
    saved: &BlobRef,
    to: &Blobs,
) -> Result<Option<BlobRef>, RunError> {
    match fetch(from, saved).await? {
        Some(found) => Ok(Some(to.put_file(found.path(), MEDIA_TYPE).await?)),
        None => Ok(None),
    }
}

async fn fetch(blobs: &Blobs, saved: &BlobRef) -> Result<Option<FoundSession>, RunError> {
    match blobs.get_file(saved).await {
        Ok(file) => Ok(Some(FoundSession {
            path: path_of(&file),
            _file: Some(file),
        })),
        Err(error @ (Error::UnknownBlob(_) | Error::CorruptBlob(_))) => {
            tracing::warn!(%error, "the saved session of a run cannot be loaded");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A path of an open file without a name.
pub(super) fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Where the session of the run with this directory is saved as it was after a cell.
pub(super) fn snapshot_in(directory: &Path, cell: u32) -> PathBuf {
    directory.join(format!("session-{cell}.snapshot"))
}

/// For this user alone.
pub(super) fn make_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}
