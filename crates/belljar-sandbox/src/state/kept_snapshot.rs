//! The snapshot of a hibernated session: a file, or something in a store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::snapshot_store::{SavedSnapshot, SnapshotStore};
use crate::state::freeing::FreedLater;
use crate::state::snapshot::{Reader, SnapshotError, open_snapshot, read_snapshot};

/// Where to read a snapshot.
#[derive(Clone, Debug)]
pub(crate) enum SnapshotSource {
    File(PathBuf),
    Stored {
        store: Arc<dyn SnapshotStore>,
        name: String,
        /// For the file, while it is read.
        directory: PathBuf,
    },
}

impl SnapshotSource {
    /// Opens it, if it is intact.
    pub(crate) async fn open(&self) -> Result<Reader, Error> {
        match self {
            Self::File(path) => open_snapshot(path.clone()).await,
            Self::Stored {
                store,
                name,
                directory,
            } => {
                let file = store.get(name, directory).await.map_err(fetching)?;
                read_snapshot(file).await
            }
        }
    }

    /// Its size.
    pub(crate) async fn bytes(&self) -> Result<u64, Error> {
        match self {
            Self::File(path) => {
                let metadata = std::fs::metadata(path).map_err(SnapshotError::from)?;
                Ok(metadata.len())
            }
            Self::Stored { store, name, .. } => {
                let size = store.size(name).await;
                size.map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => SnapshotError::from(error).into(),
                    _ => fetching(error),
                })
            }
        }
    }
}

fn fetching(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => SnapshotError::Damaged("it is no longer in the store").into(),
        io::ErrorKind::InvalidData => {
            SnapshotError::Damaged("the store returned other bytes than it was given").into()
        }
        _ => Error::io("fetching the snapshot")(error),
    }
}

/// The snapshot of a session, removed on drop.
#[derive(Debug)]
pub(crate) struct KeptSnapshot(Option<SnapshotSource>);

impl KeptSnapshot {
    pub(crate) fn new(source: SnapshotSource) -> Self {
        Self(Some(source))
    }

    pub(crate) fn source(&self) -> SnapshotSource {
        let gone = || SnapshotSource::File(PathBuf::new());
        self.0.clone().unwrap_or_else(gone)
    }

    /// Removes it, and waits for that.
    pub(crate) async fn remove(mut self) {
        if let Some(SnapshotSource::Stored { store, name, .. }) = &self.0 {
            remove(&**store, name).await;
            self.0 = None;
        }
    }

    /// It is somebody else's from now on.
    pub(crate) fn release(mut self) -> SavedSnapshot {
        match self.0.take() {
            Some(SnapshotSource::File(path)) => SavedSnapshot::File(path),
            Some(SnapshotSource::Stored { name, .. }) => SavedSnapshot::Stored(name),
            None => SavedSnapshot::File(PathBuf::new()),
        }
    }
}

impl Drop for KeptSnapshot {
    fn drop(&mut self) {
        match &self.0 {
            Some(SnapshotSource::File(path)) => {
                let _freed = FreedLater::hold(path);
                // The engine's directory goes with the engine.
                let _ = std::fs::remove_file(path);
            }
            Some(SnapshotSource::Stored { store, name, .. }) => {
                let (store, name) = (Arc::clone(store), name.clone());
                // Without a runtime, the program is at its end.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move { remove(&*store, &name).await });
                }
            }
            None => {}
        }
    }
}

async fn remove(store: &dyn SnapshotStore, name: &str) {
    if let Err(error) = store.remove(name).await {
        tracing::warn!(%error, "a snapshot that is not needed any more stays in its store");
    }
}
