//! Where runs and their files are.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use belljar_journal::{BlobHash, Blobs, Journal, Membership, Objects, RunId, failpoint};

use super::error::RunError;
use super::writer::Owner;
use crate::run::Ending;

/// The largest value of an event, which is held in memory. Files of a run are copied piece by piece.
pub const FILE_BYTES: u64 = 256 << 20;

/// Where runs are kept: their journal, the blobs beside it, and a directory for the files of each.
/// Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct RunsDirectory {
    pub(super) path: PathBuf,
    pub(super) journal: Journal,
    /// In a cluster, each run has its own below these.
    pub(super) blobs: Blobs,
    /// There in a cluster.
    pub(super) owner: Option<Owner>,
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
                Some(objects) => Blobs::in_objects(objects, &spool_in(path), FILE_BYTES).await?,
                None => Blobs::open(path, FILE_BYTES).await?,
            },
            path: path.to_owned(),
            owner: None,
        })
    }

    /// The runs of a tenant in a cluster. Below `objects`, each run has its own, with its blobs and its sessions. The
    /// directory has only files on their way there.
    pub async fn in_cluster(
        path: &Path,
        membership: Membership,
        tenant: &str,
        objects: Objects,
    ) -> Result<Self, RunError> {
        let spool = spool_in(path);
        let blobs = Blobs::in_objects(objects, &spool, FILE_BYTES).await?;
        clear(&spool);
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

    /// The large values of a run.
    pub fn blobs(&self, id: &RunId) -> Blobs {
        match self.owner {
            Some(_) => blobs_below(&self.blobs, id),
            None => self.blobs.clone(),
        }
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
    /// blob is written before the event that names it, so no run may be driven or start meanwhile. In a cluster,
    /// [`remove_objects`](Self::remove_objects) removes those of a run.
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

    /// Removes what a run of a cluster has in the object store, once its events are removed: from then on nothing can
    /// name it. Elsewhere nothing happens.
    pub async fn remove_objects(&self, id: &RunId) -> Result<(), RunError> {
        if self.owner.is_some() {
            for blobs in [
                blobs_below(&self.blobs, id),
                sessions_below(&self.blobs, id),
            ] {
                blobs.keep_only(HashSet::new()).await?;
            }
        }
        Ok(())
    }

    /// The artifacts of a run, wherever they are.
    pub fn artifact_files(&self, id: &RunId) -> ArtifactFiles {
        ArtifactFiles {
            blobs: self.blobs(id),
            directory: self.artifacts(id),
        }
    }

    /// The directory of a run's artifacts, if they are not in an object store.
    pub fn artifacts(&self, id: &RunId) -> PathBuf {
        artifacts_directory(&self.path, id)
    }
}

/// The artifacts of a run.
#[derive(Clone, Debug)]
pub struct ArtifactFiles {
    pub(super) blobs: Blobs,
    pub(super) directory: PathBuf,
}

impl ArtifactFiles {
    /// Opens one of an ended run: a blob in a cluster, else a file in the directory of its artifacts.
    pub async fn open(&self, ending: &Ending, path: &str) -> Result<File, RunError> {
        if let Some(contents) = ending.contents.get(path) {
            return Ok(self.blobs.get_file(contents).await?);
        }
        let path = self.directory.join(path);
        let opened = tokio::fs::File::open(&path).await;
        let opened = opened.map_err(|source| RunError::File { path, source })?;
        Ok(opened.into_std().await)
    }
}

pub(super) fn blobs_below(root: &Blobs, id: &RunId) -> Blobs {
    root.below(id.as_str()).below("blobs")
}

/// Where the sessions of a run are in an object store: apart, since they are removed while the run has other blobs.
pub(super) fn sessions_below(root: &Blobs, id: &RunId) -> Blobs {
    root.below(id.as_str()).below("sessions")
}

pub(super) fn spool_in(directory: &Path) -> PathBuf {
    directory.join("spool")
}

/// Removes what a process that died had on its way.
fn clear(spool: &Path) {
    for entry in std::fs::read_dir(spool).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
}

/// The driver of a run locks its directory.
pub(super) fn lock(directory: &Path, id: &RunId) -> Result<File, RunError> {
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
