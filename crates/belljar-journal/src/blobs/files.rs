//! Blobs in files.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::blob_hash::BlobHash;
use crate::objects::FileDigest;
use crate::{Error, directory, failpoint};

/// How much of a file is read at once.
const CHUNK: usize = 128 << 10;

/// A file that was being written this long ago belongs to a process that died.
const ABANDONED: Duration = Duration::from_hours(24);

/// A directory of blobs.
#[derive(Clone, Debug)]
pub(super) struct Files(Arc<Path>);

impl Files {
    pub(super) async fn open(directory: &Path) -> Result<Self, Error> {
        let files = Self(directory.join("blobs").into());
        let incoming = files.incoming();
        directory::in_background(move || {
            directory::make(&incoming)?;
            sweep(&incoming).map_err(|error| Error::io(&incoming, error))
        })
        .await?;
        Ok(files)
    }

    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<BlobHash, Error> {
        let files = self.clone();
        directory::in_background(move || {
            let hash = BlobHash::from_contents(&bytes);
            let path = files.path(hash);
            let folder = path.parent().unwrap_or(&files.0);
            // A damaged one is replaced; a good one saves the writing.
            if !is_good(&path, hash) {
                directory::make(folder)?;
                write(&files.incoming(), &path, &bytes)?;
            }
            // Also when another process made the file, or the folder: it may not have come to this.
            directory::sync(folder)?;
            directory::sync(&files.0)?;
            Ok(hash)
        })
        .await
    }

    pub(super) async fn put_file(&self, from: &Path) -> Result<FileDigest, Error> {
        let (files, from) = (self.clone(), from.to_owned());
        directory::in_background(move || {
            let unreadable = |error| Error::io(&from, error);
            let mut source = File::open(&from).map_err(unreadable)?;
            let incoming = files.incoming();
            let fault = |error| Error::io(&incoming, error);
            failpoint::fail("blobs.put").map_err(fault)?;
            let mut file = tempfile::NamedTempFile::new_in(&incoming).map_err(fault)?;
            let write = |chunk: &[u8]| file.write_all(chunk).map_err(fault);
            let (hash, bytes) = read_hashed(&mut source, unreadable, write)?;
            let path = files.path(hash);
            let folder = path.parent().unwrap_or(&files.0);
            if !is_good(&path, hash) {
                directory::make(folder)?;
                keep(file, &path)?;
            }
            directory::sync(folder)?;
            directory::sync(&files.0)?;
            Ok(FileDigest { hash, bytes })
        })
        .await
    }

    pub(super) async fn get_file(&self, hash: BlobHash) -> Result<File, Error> {
        let path = self.path(hash);
        directory::in_background(move || {
            let fault = |error: io::Error| match error.kind() {
                io::ErrorKind::NotFound => Error::UnknownBlob(hash),
                _ => Error::io(&path, error),
            };
            let mut file = File::open(&path).map_err(fault)?;
            let (found, _) = read_hashed(&mut file, fault, |_| Ok(()))?;
            if found != hash {
                return Err(Error::CorruptBlob(hash));
            }
            file.rewind().map_err(fault)?;
            Ok(file)
        })
        .await
    }

    /// The bytes of a file; one more than it may have, so that a longer one is noticed and not read whole.
    pub(super) async fn get(&self, hash: BlobHash, size: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(hash);
        directory::in_background(move || {
            let mut bytes = Vec::new();
            match File::open(&path).and_then(|file| file.take(size + 1).read_to_end(&mut bytes)) {
                Ok(_) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::io(&path, error)),
            }
        })
        .await
    }

    pub(super) async fn contains(&self, hash: BlobHash) -> Result<bool, Error> {
        let path = self.path(hash);
        directory::in_background(move || path.try_exists().map_err(|error| Error::io(&path, error)))
            .await
    }

    pub(super) async fn remove(&self, hash: BlobHash) -> Result<(), Error> {
        let path = self.path(hash);
        directory::in_background(move || match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(&path, error)),
            _ => Ok(()),
        })
        .await
    }

    pub(super) async fn keep_only(&self, kept: HashSet<BlobHash>) -> Result<(), Error> {
        let directory = Arc::clone(&self.0);
        directory::in_background(move || {
            let fault = |error| Error::io(&directory, error);
            for folder in fs::read_dir(&directory).map_err(fault)? {
                let folder = folder.map_err(fault)?;
                for file in fs::read_dir(folder.path()).map_err(fault)? {
                    let file = file.map_err(fault)?;
                    let name = [folder.file_name(), file.file_name()].map(OsString::into_string);
                    // What is being written has another name.
                    let [Ok(folder), Ok(name)] = name else {
                        continue;
                    };
                    let hash = format!("{folder}{name}").parse();
                    if hash.is_ok_and(|hash| !kept.contains(&hash)) {
                        failpoint::fail("blobs.remove").map_err(fault)?;
                        fs::remove_file(file.path()).map_err(fault)?;
                    }
                }
            }
            Ok(())
        })
        .await
    }

    fn incoming(&self) -> PathBuf {
        self.0.join("incoming")
    }

    fn path(&self, hash: BlobHash) -> PathBuf {
        self.0.join(hash.path())
    }
}

fn is_good(path: &Path, hash: BlobHash) -> bool {
    let fault = |error| Error::io(path, error);
    let read = |mut file| read_hashed(&mut file, fault, |_| Ok(()));
    let found = File::open(path).map_err(fault).and_then(read);
    found.is_ok_and(|(found, _)| found == hash)
}

/// Reads a file to its end, piece by piece; its hash and its size.
fn read_hashed(
    source: &mut File,
    unreadable: impl Fn(io::Error) -> Error,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(BlobHash, u64), Error> {
    let (mut chunk, mut hasher, mut bytes) = (vec![0; CHUNK], Sha256::new(), 0);
    loop {
        let read = match source.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(&unreadable)?,
        };
        if read == 0 {
            return Ok((BlobHash::from_digest(hasher.finalize().into()), bytes));
        }
        hasher.update(&chunk[..read]);
        each(&chunk[..read])?;
        bytes += read as u64;
    }
}

fn write(incoming: &Path, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fault = |error| Error::io(path, error);
    failpoint::fail("blobs.put").map_err(fault)?;
    let mut file = tempfile::NamedTempFile::new_in(incoming).map_err(fault)?;
    file.write_all(bytes).map_err(fault)?;
    keep(file, path)
}

/// The bytes are on the disk before the file gets the name by which it is found.
fn keep(file: tempfile::NamedTempFile, path: &Path) -> Result<(), Error> {
    let fault = |error| Error::io(path, error);
    file.as_file().sync_all().map_err(fault)?;
    file.persist(path).map_err(|error| fault(error.error))?;
    Ok(())
}

/// Removes files that dead processes left half written.
fn sweep(incoming: &Path) -> io::Result<()> {
    for file in fs::read_dir(incoming)? {
        let file = file?;
        // It may be gone meanwhile: then there is nothing to do.
        let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else {
            continue;
        };
        if modified.elapsed().is_ok_and(|age| age > ABANDONED) {
            match fs::remove_file(file.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
