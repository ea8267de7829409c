//! Snapshots of hibernated sessions in an object store, and whose prefix of the store it is.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use belljar_journal::{Error, FetchedObject, FileDigest, Objects};
use belljar_sandbox::{SnapshotStore, StoreFuture};

use crate::error::ServerError;
use crate::node::random_hex;

/// The object with the id of the node or of the cluster that has the prefix.
const OWNER: &str = "node";

/// Makes sure that a store can be used, and by nobody else: each service removes what its own journals don't name.
pub(crate) async fn claim(objects: &Objects, owner: &str) -> Result<(), ServerError> {
    objects.check().await?;
    match objects.get(OWNER, owner.len()).await? {
        Some(found) if found == owner.as_bytes() => Ok(()),
        Some(_) => Err(ServerError::ObjectsInUse),
        None => Ok(objects.put(OWNER, owner.to_owned()).await?),
    }
}

/// Snapshots of the sessions of one node.
#[derive(Clone, Debug)]
pub(crate) struct ObjectSnapshots(Objects);

impl ObjectSnapshots {
    pub(crate) fn new(objects: &Objects, node: &str) -> Arc<Self> {
        Arc::new(Self(objects.below("sessions").below(node)))
    }

    /// Removes those that belong to no session: of a service that was killed.
    pub(crate) async fn keep_only(&self, names: &HashSet<String>) -> Result<(), Error> {
        let mut others = Vec::new();
        let see = |name: &str, _| {
            if !names.contains(name) {
                others.push(name.to_owned());
            }
        };
        self.0.list(see).await?;
        for name in others {
            self.0.remove(&name).await?;
        }
        Ok(())
    }
}

/// A name that tells what the contents must be: `RANDOM-BYTES-HASH`.
fn new_name(random: &str, digest: &FileDigest) -> String {
    format!("{random}-{}-{}", digest.bytes, digest.hash)
}

fn digest_of(name: &str) -> io::Result<FileDigest> {
    let digest = || {
        let (_, digest) = name.split_once('-')?;
        let (bytes, hash) = digest.split_once('-')?;
        Some(FileDigest {
            bytes: bytes.parse().ok()?,
            hash: hash.parse().ok()?,
        })
    };
    digest().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Faults of the store stay what they are: who answers a client finds them in the error.
fn passed_on(error: Error) -> io::Error {
    io::Error::other(error)
}

impl SnapshotStore for ObjectSnapshots {
    fn put<'a>(&'a self, file: &'a Path) -> StoreFuture<'a, String> {
        Box::pin(async move {
            let random = random_hex(16)?;
            let digest = self.0.put_file(file, |digest| new_name(&random, digest));
            let digest = digest.await.map_err(passed_on)?;
            Ok(new_name(&random, &digest))
        })
    }

    fn get<'a>(&'a self, name: &'a str, directory: &'a Path) -> StoreFuture<'a, File> {
        Box::pin(async move {
            let known = digest_of(name)?;
            let fetched = self.0.get_file(name, &known, directory).await;
            match fetched.map_err(passed_on)? {
                FetchedObject::File(file) => Ok(file),
                FetchedObject::Missing => Err(io::ErrorKind::NotFound.into()),
                FetchedObject::Damaged => Err(io::ErrorKind::InvalidData.into()),
            }
        })
    }

    fn size<'a>(&'a self, name: &'a str) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let size = self.0.size(name).await.map_err(passed_on)?;
            size.ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.0.remove(name).await.map_err(passed_on) })
    }
}
