//! Objects in a store that speaks S3's protocol ([why by hand](../../../../docs/adr/0062-object-storage.md)).

mod address;
mod client;
mod credentials;
mod sign;
mod upload;
mod xml;

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use time::OffsetDateTime;

use crate::{BlobHash, Error, directory};
use address::Address;
use client::{Answer, Call, Client, Failure};
pub use credentials::ObjectCredentials;

/// The most bytes of a page of names.
const MAX_PAGE: usize = 4 << 20;

/// Objects that are written to learn the time of the store.
const CLOCK: &str = "clock";

/// Objects below a prefix of a bucket. Clones are cheap.
///
/// An object is there completely or not at all. What was written is durable as the store promises it.
#[derive(Clone, Debug)]
pub struct Objects {
    client: Arc<Client>,
    /// Empty, or with a slash at the end.
    prefix: Arc<str>,
}

/// An object in a list.
struct Listed<'a> {
    name: &'a str,
    bytes: u64,
    /// By the clock of the store.
    written: Option<OffsetDateTime>,
}

/// Size and hash of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// The SHA-256 hash of its bytes.
    pub hash: BlobHash,
    /// Its size.
    pub bytes: u64,
}

/// What was found under the name of an object.
#[derive(Debug)]
pub enum FetchedObject {
    /// It, as a file without a name, at its beginning.
    File(File),
    /// Nothing.
    Missing,
    /// Other bytes: it is truncated or damaged, or another object was put in its place.
    Damaged,
}

impl Objects {
    /// The objects at `s3://BUCKET/PREFIX?endpoint=URL&region=REGION`. The store is not asked; [`check`](Self::check) does
    /// that.
    pub fn open(address: &str, credentials: ObjectCredentials) -> Result<Self, Error> {
        let address = Address::parse(address)?;
        Ok(Self {
            prefix: address.prefix.as_str().into(),
            client: Arc::new(Client::new(address, credentials)?),
        })
    }

    /// The objects below a name.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self {
            client: Arc::clone(&self.client),
            prefix: format!("{}{name}/", self.prefix).into(),
        }
    }

    /// Whether contents can be read on the way to the store: it is not on this machine, and there is no TLS.
    pub fn is_plain(&self) -> bool {
        self.client.address().is_plain()
    }

    /// Writes, reads, lists and deletes an object. What can't do all of it is no store for this program.
    pub async fn check(&self) -> Result<(), Error> {
        let probe = format!("probe-{}", random_name());
        let written = Bytes::copy_from_slice(probe.as_bytes());
        self.put(&probe, written.clone()).await?;
        let read = self.get(&probe, written.len()).await?;
        let mut is_listed = false;
        let listed = self.list(|name, _| is_listed |= name == probe).await;
        // Also if it could not be read.
        self.remove(&probe).await?;
        listed?;
        if read.is_none_or(|read| read != written) || !is_listed {
            return Err(self.refused("what was written is not what is read"));
        }
        Ok(())
    }

    /// Stores an object, or replaces it.
    pub async fn put(&self, name: &str, contents: impl Into<Bytes>) -> Result<(), Error> {
        let key = self.key(name);
        let put = self.call(Method::PUT, Some(&key), &[], contents.into(), 0);
        put.await.map(drop).map_err(|failure| self.fault(failure))
    }

    /// Stores a file of any size, piece by piece, under a name that may depend on its contents.
    pub async fn put_file(
        &self,
        from: &Path,
        name: impl FnOnce(&FileDigest) -> String,
    ) -> Result<FileDigest, Error> {
        let path = from.to_owned();
        let digest = directory::in_background(move || upload::digest(&path)).await?;
        Box::pin(self.upload(&name(&digest), from, &digest)).await?;
        Ok(digest)
    }

    /// The contents of an object. If it has more bytes than the limit, some more are returned.
    pub async fn get(&self, name: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(name);
        let got = self.call(Method::GET, Some(&key), &[], Bytes::new(), limit);
        self.unless_missing(got.await.map(|answer| answer.body))
    }

    /// An object whose contents are known, as a file in this directory.
    pub async fn get_file(
        &self,
        name: &str,
        known: &FileDigest,
        directory: &Path,
    ) -> Result<FetchedObject, Error> {
        let local = directory.to_owned();
        let fault = |error| Error::io(directory, error);
        let file = directory::in_background(move || {
            tempfile::tempfile_in(&local).map_err(|error| Error::io(&local, error))
        });
        let mut file = tokio::fs::File::from_std(file.await?);
        let key = self.key(name);
        let download = Box::pin(self.client.download(&key, known.bytes, &mut file));
        match download.await {
            Ok(Some(hash)) if hash == known.hash => {
                let mut file = file.into_std().await;
                file.rewind().map_err(fault)?;
                Ok(FetchedObject::File(file))
            }
            Ok(_) => Ok(FetchedObject::Damaged),
            Err(failure) if failure.is_missing() => Ok(FetchedObject::Missing),
            Err(Failure::Local(error)) => Err(fault(error)),
            Err(failure) => Err(self.fault(failure)),
        }
    }

    /// The size of an object.
    pub async fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let key = self.key(name);
        let head = self.call(Method::HEAD, Some(&key), &[], Bytes::new(), 0);
        let size = |answer: Answer| {
            let length = answer.headers.get(reqwest::header::CONTENT_LENGTH)?;
            length.to_str().ok()?.parse().ok()
        };
        match self.unless_missing(head.await.map(size))? {
            Some(None) => Err(self.refused("it does not tell the size of an object")),
            Some(size) => Ok(size),
            None => Ok(None),
        }
    }

    /// Removes an object; none is no error.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        let removed = self.call(Method::DELETE, Some(&key), &[], Bytes::new(), 0);
        self.unless_missing(removed.await).map(drop)
    }

    /// The names and sizes of all objects. It takes a request for each thousand.
    pub async fn list(&self, mut each: impl FnMut(&str, u64) + Send) -> Result<(), Error> {
        self.list_all(&mut |object: Listed<'_>| each(object.name, object.bytes))
            .await
    }

    /// The names of objects that were written at least this long ago, by the store's own clock.
    pub async fn older_than(&self, age: Duration) -> Result<Vec<String>, Error> {
        // The age of an object is its distance from one that is written now.
        let (clocks, name) = (self.below(CLOCK), random_name());
        clocks.put(&name, "now").await?;
        let mut now = None;
        let see = &mut |object: Listed<'_>| {
            if object.name == name {
                now = object.written;
            }
        };
        let listed = clocks.list_all(see).await;
        clocks.remove(&name).await?;
        listed?;
        let now = now.ok_or_else(|| self.refused("it does not tell when an object was written"))?;
        let mut names = Vec::new();
        let see = &mut |object: Listed<'_>| {
            if object.written.is_some_and(|written| now - written >= age) {
                names.push(object.name.to_owned());
            }
        };
        self.list_all(see).await?;
        Ok(names)
    }

    async fn list_all(&self, each: &mut (dyn FnMut(Listed<'_>) + Send)) -> Result<(), Error> {
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("list-type", "2"), ("prefix", &self.prefix)];
            if let Some(token) = &token {
                query.insert(0, ("continuation-token", token));
            }
            let page = self.call(Method::GET, None, &query, Bytes::new(), MAX_PAGE);
            let page = page.await.map_err(|failure| self.fault(failure))?;
            let page = String::from_utf8_lossy(&page.body);
            if !page.contains("<ListBucketResult") || page.len() > MAX_PAGE {
                return Err(self.refused("its list of objects is not valid"));
            }
            for object in xml::elements(&page, "Contents") {
                let key = xml::value(object, "Key").unwrap_or_default();
                let bytes = xml::value(object, "Size").and_then(|size| size.parse().ok());
                // Some stores list directories, too.
                let name = key.strip_prefix(&*self.prefix);
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    each(Listed {
                        name,
                        bytes: bytes.unwrap_or(0),
                        written: xml::value(object, "LastModified").and_then(|at| xml::time(&at)),
                    });
                }
            }
            if xml::value(&page, "IsTruncated").as_deref() != Some("true") {
                return Ok(());
            }
            let next = xml::value(&page, "NextContinuationToken");
            if next.is_none() || next == token {
                return Err(self.refused("its list of objects has no end"));
            }
            token = next;
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn call(
        &self,
        method: Method,
        key: Option<&str>,
        query: &[(&str, &str)],
        body: Bytes,
        limit: usize,
    ) -> Result<Answer, Failure> {
        let call = Call {
            method,
            key,
            query,
            body,
            limit,
        };
        // Apart: what awaits it would grow by a request.
        Box::pin(self.client.call(&call)).await
    }

    fn unless_missing<T>(&self, result: Result<T, Failure>) -> Result<Option<T>, Error> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.is_missing() => Ok(None),
            Err(failure) => Err(self.fault(failure)),
        }
    }

    /// The store as an error names it.
    fn store(&self) -> String {
        let address = self.client.address();
        format!("{}/{}", address.endpoint, address.bucket)
    }

    fn refused(&self, why: &str) -> Error {
        Error::ObjectsRefused {
            store: self.store(),
            why: why.to_owned(),
        }
    }

    fn fault(&self, failure: Failure) -> Error {
        match failure {
            Failure::Unreachable(why) => Error::ObjectsUnreachable {
                store: self.store(),
                why,
            },
            Failure::Refused { status, code } => {
                self.refused(format!("it answered {status} {code}").trim_end())
            }
            Failure::Local(error) => Error::io(Path::new("."), error),
        }
    }
}

/// A name that no other has.
fn random_name() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let chance = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", chance(), chance())
}
