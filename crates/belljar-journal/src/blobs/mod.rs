//! Large values, named by the hash of their contents: in files, or in objects of a store.

mod files;

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blob_hash::BlobHash;
use crate::objects::{FetchedObject, FileDigest, Objects};
use crate::{Error, directory};
use files::Files;

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

/// Blobs in a directory, or in an object store. Clones are cheap.
///
/// Any number of processes may have the same ones open. A blob is there completely or not at all.
#[derive(Clone, Debug)]
pub struct Blobs {
    kept: Kept,
    limit: u64,
}

#[derive(Clone, Debug)]
enum Kept {
    Files(Files),
    Objects {
        objects: Objects,
        /// Where files are on their way.
        spool: Arc<Path>,
    },
}

impl Blobs {
    /// Opens `blobs` in a directory; both are made if missing. Blobs of more than `limit` bytes are
    /// never held in memory: [`put`](Self::put) and [`get`](Self::get) refuse them.
    pub async fn open(directory: &Path, limit: u64) -> Result<Self, Error> {
        let kept = Kept::Files(Files::open(directory).await?);
        Ok(Self { kept, limit })
    }

    /// The same in an object store. The directory is made if missing; blobs that become files are there, without names.
    pub async fn in_objects(objects: Objects, spool: &Path, limit: u64) -> Result<Self, Error> {
        let local = spool.to_owned();
        directory::in_background(move || directory::make(&local)).await?;
        let spool = spool.into();
        let kept = Kept::Objects { objects, spool };
        Ok(Self { kept, limit })
    }

    /// Those below a name in an object store, apart from all others. In a directory, all are the same.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let kept = match &self.kept {
            Kept::Files(files) => Kept::Files(files.clone()),
            Kept::Objects { objects, spool } => Kept::Objects {
                objects: objects.below(name),
                spool: Arc::clone(spool),
            },
        };
        Self { kept, ..*self }
    }

    /// Stores some bytes. When this returns, they survive a crash of the machine.
    pub async fn put(
        &self,
        bytes: Vec<u8>,
        media_type: impl Into<String>,
    ) -> Result<BlobRef, Error> {
        let media_type = media_type.into();
        let size = bytes.len() as u64;
        self.check_size(size)?;
        let hash = match &self.kept {
            Kept::Files(files) => files.put(bytes).await?,
            // Always, not only if there is none: a damaged one is replaced.
            Kept::Objects { objects, .. } => {
                let hash = BlobHash::from_contents(&bytes);
                objects.put(&hash.path(), bytes).await?;
                hash
            }
        };
        Ok(BlobRef {
            hash,
            bytes: size,
            media_type,
        })
    }

    /// Stores the contents of a file of any size, piece by piece. When this returns, they survive a
    /// crash of the machine.
    pub async fn put_file(
        &self,
        from: &Path,
        media_type: impl Into<String>,
    ) -> Result<BlobRef, Error> {
        let media_type = media_type.into();
        let FileDigest { hash, bytes } = match &self.kept {
            Kept::Files(files) => files.put_file(from).await?,
            Kept::Objects { objects, .. } => {
                objects.put_file(from, |digest| digest.hash.path()).await?
            }
        };
        Ok(BlobRef {
            hash,
            bytes,
            media_type,
        })
    }

    /// A blob of any size as an open file, at its beginning. Its contents are those that were put.
    pub async fn get_file(&self, blob: &BlobRef) -> Result<File, Error> {
        let hash = blob.hash;
        match &self.kept {
            Kept::Files(files) => files.get_file(hash).await,
            Kept::Objects { objects, spool } => {
                let known = FileDigest {
                    hash,
                    bytes: blob.bytes,
                };
                match objects.get_file(&hash.path(), &known, spool).await? {
                    FetchedObject::File(file) => Ok(file),
                    FetchedObject::Missing => Err(Error::UnknownBlob(hash)),
                    FetchedObject::Damaged => Err(Error::CorruptBlob(hash)),
                }
            }
        }
    }

    /// The bytes of a blob, which are those that were put, or an error.
    pub async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, Error> {
        self.check_size(blob.bytes)?;
        let found = match &self.kept {
            Kept::Files(files) => files.get(blob.hash, blob.bytes).await?,
            Kept::Objects { objects, .. } => {
                let limit = usize::try_from(blob.bytes).unwrap_or(usize::MAX);
                objects.get(&blob.hash.path(), limit).await?
            }
        };
        let bytes = found.ok_or(Error::UnknownBlob(blob.hash))?;
        if BlobHash::from_contents(&bytes) != blob.hash {
            return Err(Error::CorruptBlob(blob.hash));
        }
        Ok(bytes)
    }

    /// Whether there is such a blob. Its contents are not looked at.
    pub async fn contains(&self, hash: BlobHash) -> Result<bool, Error> {
        match &self.kept {
            Kept::Files(files) => files.contains(hash).await,
            Kept::Objects { objects, .. } => Ok(objects.size(&hash.path()).await?.is_some()),
        }
    }

    /// Removes a blob; none is no error. No event may name it, and no writer may be about to.
    pub async fn remove(&self, hash: BlobHash) -> Result<(), Error> {
        match &self.kept {
            Kept::Files(files) => files.remove(hash).await,
            Kept::Objects { objects, .. } => objects.remove(&hash.path()).await,
        }
    }

    /// Removes all blobs but these. No writer may be about to refer to another one.
    pub async fn keep_only(&self, kept: HashSet<BlobHash>) -> Result<(), Error> {
        let objects = match &self.kept {
            Kept::Files(files) => return files.keep_only(kept).await,
            Kept::Objects { objects, .. } => objects,
        };
        let mut gone = Vec::new();
        let see = |name: &str, _| {
            let hash = name.replacen('/', "", 1).parse();
            gone.extend(hash.ok().filter(|hash| !kept.contains(hash)));
        };
        objects.list(see).await?;
        for hash in gone {
            objects.remove(&hash.path()).await?;
        }
        Ok(())
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
}
