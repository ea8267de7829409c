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

/// Snapshots of sessions: all that other nodes have stored can be read, too.
#[derive(Clone, Debug)]
pub(crate) struct ObjectSnapshots {
    all: Objects,
    node: String,
}

impl ObjectSnapshots {
    pub(crate) fn new(objects: &Objects, node: &str) -> Arc<Self> {
        Arc::new(Self {
            all: objects.below("sessions"),
            node: node.to_owned(),
        })
    }

    /// Removes those of this node that belong to no session: of a service that was killed.
    pub(crate) async fn keep_only(&self, names: &HashSet<String>) -> Result<(), Error> {
        let names: HashSet<String> = names.iter().map(|name| self.full(name)).collect();
        let mut others = Vec::new();
        let see = |name: &str, _| {
            let name = self.full(name);
            if !names.contains(&name) {
                others.push(name);
            }
        };
        self.all.below(&self.node).list(see).await?;
        for name in others {
            self.all.remove(&name).await?;
        }
        Ok(())
    }

    fn full(&self, name: &str) -> String {
        full_name(name, &self.node)
    }
}

/// The name of a snapshot with that of the node that has stored it, which earlier versions left out.
pub(crate) fn full_name(name: &str, node: &str) -> String {
    if name.contains('/') {
        name.to_owned()
    } else {
        format!("{node}/{name}")
    }
}

/// A name that tells what the contents must be: `NODE/RANDOM-BYTES-HASH`.
pub(crate) fn new_name(node: &str, random: &str, digest: &FileDigest) -> String {
    format!("{node}/{random}-{}-{}", digest.bytes, digest.hash)
}

fn digest_of(name: &str) -> io::Result<FileDigest> {
    let digest = || {
        let name = name.rsplit('/').next()?;
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
            let name = |digest: &FileDigest| new_name(&self.node, &random, digest);
            let digest = self.all.put_file(file, name).await.map_err(passed_on)?;
            Ok(name(&digest))
        })
    }

    fn get<'a>(&'a self, name: &'a str, directory: &'a Path) -> StoreFuture<'a, File> {
        Box::pin(async move {
            let known = digest_of(name)?;
            let fetched = self.all.get_file(&self.full(name), &known, directory).await;
            match fetched.map_err(passed_on)? {
                FetchedObject::File(file) => Ok(file),
                FetchedObject::Missing => Err(io::ErrorKind::NotFound.into()),
                FetchedObject::Damaged => Err(io::ErrorKind::InvalidData.into()),
            }
        })
    }

    fn size<'a>(&'a self, name: &'a str) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let size = self.all.size(&self.full(name)).await.map_err(passed_on)?;
            size.ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let removed = self.all.remove(&self.full(name)).await;
            removed.map_err(passed_on)
        })
    }
}
