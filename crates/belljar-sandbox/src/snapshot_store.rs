//! Where snapshots of hibernated sessions are kept, if not on this machine.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// What a store does, and what becomes of it.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A store for snapshots of hibernated sessions, which other machines may reach. It takes and returns files, and knows
/// nothing about their contents.
pub trait SnapshotStore: fmt::Debug + Send + Sync {
    /// Stores a file, and returns a new name for it. When this succeeds, it survives a crash.
    fn put<'a>(&'a self, file: &'a Path) -> StoreFuture<'a, String>;

    /// The stored file, at its beginning; it may be a new one in this directory.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none, [`io::ErrorKind::InvalidData`] if its contents are not those that were
    /// stored.
    fn get<'a>(&'a self, name: &'a str, directory: &'a Path) -> StoreFuture<'a, File>;

    /// The size of a stored file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none.
    fn size<'a>(&'a self, name: &'a str) -> StoreFuture<'a, u64>;

    /// Removes a stored file; none is no error.
    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()>;
}

/// Where a snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedSnapshot {
    /// In this file.
    File(PathBuf),
    /// In the [store](crate::SessionOptions::snapshot_store), under this name.
    Stored(String),
}
