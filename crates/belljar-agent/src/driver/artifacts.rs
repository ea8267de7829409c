//! The files that a run made, when it ends: in a directory, or blobs in a cluster.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_journal::{StorageFault, failpoint};
use belljar_sandbox::{BeneathError, Error, Session};

use super::error::RunError;
use super::saved::make_directory;
use super::session::RunSession;
use crate::run::{Ending, Run};

/// The longest path of an artifact, and its most directories: whoever removes them later holds each
/// of them open.
const MAX_PATH: usize = 1024;
const MAX_DEPTH: usize = 64;

const DISK_FAILED: &str = "the disk of the service failed";

/// The most bytes of the paths of all artifacts: they are a part of the run's last event.
const MAX_NAMED: usize = 1 << 20;

/// The bytes of a reference to the contents of an artifact, in a cluster.
const REFERENCE: usize = 200;

impl RunSession {
    /// Copies artifacts out of the session. The list keeps those that still exist and are stored
    /// now; those that could not be kept are noted, and the run ends nonetheless. After the death
    /// of a host, the session is loaded for it.
    ///
    /// In a cluster they become blobs, for which the directory is only the way. A store that fails is an error: the run
    /// ends once it is back.
    pub(super) async fn keep_artifacts(
        &mut self,
        root: &Path,
        ending: &mut Ending,
        run: &Run,
    ) -> Result<(), RunError> {
        if ending.artifacts.is_empty() {
            return Ok(());
        }
        if self.live.is_none() {
            self.live = self.load(run).await?.map(|(session, _)| Arc::new(session));
        }
        let mut named = 0;
        for artifact in std::mem::take(&mut ending.artifacts) {
            named += artifact.path.len();
            if self.saved.are_named() {
                named += artifact.path.len() + REFERENCE;
            }
            let kept = match &self.live {
                Some(_) if named > MAX_NAMED => Err("the run made too many files"),
                Some(session) => keep_artifact(session, root, &artifact.path).await,
                None => Err("the session that had it is gone"),
            };
            match kept {
                Ok(true) if self.saved.are_named() => {
                    let file = root.join(&artifact.path);
                    let blob = self.blobs.put_file(&file, "application/octet-stream");
                    ending.contents.insert(artifact.path.clone(), blob.await?);
                    ending.artifacts.push(artifact);
                    let _ = fs::remove_file(file);
                }
                Ok(true) => ending.artifacts.push(artifact),
                // The run has removed it since.
                Ok(false) => {}
                Err(why) => ending.note_not_kept(&artifact.path, why),
            }
        }
        Ok(())
    }
}

/// Copies a file of a session below a directory. Returns false if it no longer exists.
async fn keep_artifact(
    session: &Arc<Session>,
    root: &Path,
    name: &str,
) -> Result<bool, &'static str> {
    let path = below(root, name)?;
    let (session, name) = (Arc::clone(session), name.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        let contents = match session.open(&name) {
            Ok(contents) => contents,
            Err(Error::File(BeneathError::NotFound(_))) => return Ok(false),
            Err(Error::File(BeneathError::NotRegular(_))) => {
                return Err("something that is not a regular file took its place");
            }
            Err(Error::FileTooLarge { .. }) => return Err("it is too large"),
            Err(Error::Ended(_)) => return Err("the session that had it has ended"),
            Err(error) => {
                tracing::warn!(%error, "an artifact cannot be read");
                return Err("it could not be read");
            }
        };
        // Code that still runs can make it larger meanwhile.
        let bytes = contents.metadata().map_or(0, |file| file.len());
        keep_file(&path, &mut contents.take(bytes)).map(|()| true)
    });
    copied.await.unwrap_or(Err("it could not be read"))
}

/// Makes the artifacts of a run durable. If the disk fails, they are noted as not kept.
pub(super) async fn sync_artifacts(root: PathBuf, ending: &mut Ending) {
    if ending.artifacts.is_empty() {
        return;
    }
    let synced = tokio::task::spawn_blocking(move || {
        let root = fs::File::open(root)?;
        Ok(rustix::fs::syncfs(root)?)
    });
    let synced = synced
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    if let Err(error) = synced {
        tracing::error!(%error, "artifacts cannot be made durable");
        for artifact in std::mem::take(&mut ending.artifacts) {
            ending.note_not_kept(&artifact.path, DISK_FAILED);
        }
    }
}

/// Writes an artifact, completely or not at all; returns the reason if not.
pub(super) fn keep_file(path: &Path, contents: &mut dyn Read) -> Result<(), &'static str> {
    let mut write = || {
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        failpoint::fail("runs.artifact")?;
        let mut file = fs::File::create(path)?;
        let written = io::copy(contents, &mut file).map(drop);
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
        written
    };
    write().map_err(|error| {
        tracing::error!(%error, path = %path.display(), "an artifact cannot be kept");
        match (StorageFault::from_io(&error), error.kind()) {
            (Some(StorageFault::Full), _) => "the disk of the service was full",
            (Some(StorageFault::Failed), _) => DISK_FAILED,
            (None, ErrorKind::InvalidFilename) => "its path is too long",
            (None, _) => "it could not be written",
        }
    })
}

/// A path below a directory, which need not take all paths that a session can have.
pub(super) fn below(root: &Path, path: &str) -> Result<PathBuf, &'static str> {
    let mut out = root.to_owned();
    if path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
        return Err("its path is too long");
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." || part.contains('\0') {
            return Err("its path is not one inside the workspace");
        }
        out.push(part);
    }
    Ok(out)
}
