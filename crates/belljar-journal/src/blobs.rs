//! Large values, in files that are named by the hash of their contents.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, directory, failpoint};

/// How much of a file is read at once.
const CHUNK: usize = 128 << 10;

/// A file that was being written this long ago belongs to a process that died.
const ABANDONED: Duration = Duration::from_hours(24);

/// The SHA-256 hash of a blob's contents; as text, 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    fn from_contents(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A text that is not a hash of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash of a blob must have 64 hexadecimal digits, in lower case")]
pub struct InvalidBlobHash;

impl FromStr for BlobHash {
    type Err = InvalidBlobHash;

    fn from_str(text: &str) -> Result<Self, InvalidBlobHash> {
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidBlobHash),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut hash = [0; 32];
        if pairs.len() != hash.len() || !rest.is_empty() {
            return Err(InvalidBlobHash);
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(hash))
    }
}

impl TryFrom<String> for BlobHash {
    type Error = InvalidBlobHash;

    fn try_from(text: String) -> Result<Self, InvalidBlobHash> {
        text.parse()
    }
}

impl From<BlobHash> for String {
    fn from(hash: BlobHash) -> Self {
        hash.to_string()
    }
}

/// A reference to a blob in an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct BlobRef {
    /// The hash of its contents.
    #[schemars(with = "String", extend("pattern" = "^[0-9a-f]{64}$"))]
    pub hash: BlobHash,
    /// Its size.
    pub bytes: u64,
    /// Its MIME type, such as `image/png`. It is kept here alone: the same bytes may have two
    /// types.
    pub media_type: String,
}

/// Blobs in a directory. Clones are cheap.
///
/// Any number of processes may have the same one open. A blob is there completely or not at all.
#[derive(Clone, Debug)]
pub struct Blobs {
    directory: Arc<Path>,
    limit: u64,
}

impl Blobs {
    /// Opens `blobs` in a directory; both are made if missing. Blobs of more than `limit` bytes are
    /// never held in memory: [`put`](Self::put) and [`get`](Self::get) refuse them.
    pub async fn open(directory: &Path, limit: u64) -> Result<Self, Error> {
        let blobs = Self {
            directory: directory.join("blobs").into(),
            limit,
        };
        let incoming = blobs.incoming();
        directory::in_background(move || {
            directory::make(&incoming)?;
            sweep(&incoming).map_err(|error| Error::io(&incoming, error))
        })
        .await?;
        Ok(blobs)
    }

    /// Stores some bytes. When this returns, they survive a crash of the machine.
    pub async fn put(
        &self,
        bytes: Vec<u8>,
        media_type: impl Into<String>,
    ) -> Result<BlobRef, Error> {
        let media_type = media_type.into();
        self.check_size(bytes.len() as u64)?;
        let blobs = self.clone();
        directory::in_background(move || {
            let hash = BlobHash::from_contents(&bytes);
            let path = blobs.path(hash);
            let folder = path.parent().unwrap_or(&blobs.directory);
            // A damaged one is replaced; a good one saves the writing.
            if !is_good(&path, hash) {
                directory::make(folder)?;
                write(&blobs.incoming(), &path, &bytes)?;
            }
            // Also when another process made the file, or the folder: it may not have come to this.
            directory::sync(folder)?;
            directory::sync(&blobs.directory)?;
            Ok(BlobRef {
                hash,
                bytes: bytes.len() as u64,
                media_type,
            })
        })
        .await
    }

    /// Stores the contents of a file of any size, piece by piece. When this returns, they survive a
    /// crash of the machine.
    pub async fn put_file(
        &self,
        from: &Path,
        media_type: impl Into<String>,
    ) -> Result<BlobRef, Error> {
        let media_type = media_type.into();
        let (blobs, from) = (self.clone(), from.to_owned());
        directory::in_background(move || {
            let unreadable = |error| Error::io(&from, error);
            let mut source = File::open(&from).map_err(unreadable)?;
            let incoming = blobs.incoming();
            let fault = |error| Error::io(&incoming, error);
            failpoint::fail("blobs.put").map_err(fault)?;
            let mut file = tempfile::NamedTempFile::new_in(&incoming).map_err(fault)?;
            let write = |chunk: &[u8]| file.write_all(chunk).map_err(fault);
            let (hash, bytes) = read_hashed(&mut source, unreadable, write)?;
            let path = blobs.path(hash);
            let folder = path.parent().unwrap_or(&blobs.directory);
            if !is_good(&path, hash) {
                directory::make(folder)?;
                keep(file, &path)?;
            }
            directory::sync(folder)?;
            directory::sync(&blobs.directory)?;
            Ok(BlobRef {
                hash,
                bytes,
                media_type,
            })
        })
        .await
    }

    /// A blob of any size as an open file, at its beginning. Its contents are those that were put.
    pub async fn get_file(&self, blob: &BlobRef) -> Result<File, Error> {
        let (hash, path) = (blob.hash, self.path(blob.hash));
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

    /// The bytes of a blob, which are those that were put, or an error.
    pub async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, Error> {
        self.check_size(blob.bytes)?;
        let (hash, size, path) = (blob.hash, blob.bytes, self.path(blob.hash));
        directory::in_background(move || {
            let mut bytes = Vec::new();
            // One more than it may have, so that a longer file is noticed and not read whole.
            match File::open(&path).and_then(|file| file.take(size + 1).read_to_end(&mut bytes)) {
                Ok(_) if BlobHash::from_contents(&bytes) == hash => Ok(bytes),
                Ok(_) => Err(Error::CorruptBlob(hash)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(Error::UnknownBlob(hash))
                }
                Err(error) => Err(Error::io(&path, error)),
            }
        })
        .await
    }

    /// Whether there is such a blob. Its contents are not looked at.
    pub async fn contains(&self, hash: BlobHash) -> Result<bool, Error> {
        let path = self.path(hash);
        directory::in_background(move || path.try_exists().map_err(|error| Error::io(&path, error)))
            .await
    }

    /// Removes all blobs but these. No writer may be about to refer to another one.
    pub async fn keep_only(&self, kept: HashSet<BlobHash>) -> Result<(), Error> {
        let directory = Arc::clone(&self.directory);
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

    fn check_size(&self, bytes: u64) -> Result<(), Error> {
        if bytes > self.limit {
            return Err(Error::BlobTooLarge {
                bytes,
                limit: self.limit,
            });
        }
        Ok(())
    }

    fn incoming(&self) -> PathBuf {
        self.directory.join("incoming")
    }

    fn path(&self, hash: BlobHash) -> PathBuf {
        let name = hash.to_string();
        let (folder, name) = name.split_at(2);
        self.directory.join(folder).join(name)
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
            return Ok((BlobHash(hasher.finalize().into()), bytes));
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
