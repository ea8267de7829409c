//! Directories and files of ours: for this user alone, and durable once they are made.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::Error;

/// Makes a directory and those above it. One that is there is left as it is.
pub(crate) fn make(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent(path);
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Someone else may have made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::NotADirectory(path.to_owned()));
        }
        made => made.map_err(|error| Error::io(path, error))?,
    }
    sync(parent)
}

/// Makes an empty file, if there is none.
pub(crate) fn make_file(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::io(path, error))?;
    sync(parent(path))?;
    Ok(file)
}

/// Makes the names in a directory durable.
pub(crate) fn sync(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Error::io(path, error))
}

/// Does what would block, where it hinders nobody.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(error) => Err(Error::io(Path::new("."), io::Error::other(error))),
        },
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}
