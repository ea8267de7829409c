//! Files of any size to objects: one request, or parts of it one after another.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use reqwest::Method;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{FileDigest, Objects, xml};
use crate::{BlobHash, Error, directory};

/// The size of a part, which is held in memory; S3 wants at least 5 MB.
const PART: u64 = 8 << 20;

/// The most parts of an object.
const MAX_PARTS: u64 = 10_000;

/// The most bytes of an answer about an upload.
const MAX_ANSWER: usize = 64 << 10;

/// The files that are sent at once, since each has a part in memory.
static UPLOADS: Semaphore = Semaphore::const_new(8);

/// The size of the parts of a file.
fn part_size(bytes: u64) -> u64 {
    PART.max(bytes.div_ceil(MAX_PARTS))
}

/// Reads a file once, for its hash.
pub(super) fn digest(path: &Path) -> Result<FileDigest, Error> {
    let fault = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(fault)?;
    let mut hasher = Sha256::new();
    let bytes = io::copy(&mut file, &mut HashWriter(&mut hasher)).map_err(fault)?;
    Ok(FileDigest {
        hash: BlobHash::from_digest(hasher.finalize().into()),
        bytes,
    })
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file on its way.
struct Source {
    file: File,
    hasher: Sha256,
}

impl Source {
    /// The next bytes, and the source; fewer at the end.
    async fn next(mut self, path: &Path, bytes: u64) -> Result<(Self, Bytes), Error> {
        let path = path.to_owned();
        directory::in_background(move || {
            let mut part = Vec::new();
            let read = (&mut self.file).take(bytes).read_to_end(&mut part);
            read.map_err(|error| Error::io(&path, error))?;
            self.hasher.update(&part);
            Ok((self, part.into()))
        })
        .await
    }

    fn is(self, known: &FileDigest) -> bool {
        BlobHash::from_digest(self.hasher.finalize().into()) == known.hash
    }
}

impl Objects {
    /// Stores a file whose contents are known. Of one that has changed meanwhile, nothing is stored.
    pub(super) async fn upload(
        &self,
        name: &str,
        from: &Path,
        known: &FileDigest,
    ) -> Result<(), Error> {
        // It is never closed.
        let _slot = UPLOADS.acquire().await;
        let changed = || Error::io(from, io::Error::other("it changed while it was read"));
        let fault = |error| Error::io(from, error);
        let source = Source {
            file: File::open(from).map_err(fault)?,
            hasher: Sha256::new(),
        };
        if known.bytes <= PART {
            let (source, contents) = source.next(from, PART + 1).await?;
            if !source.is(known) {
                return Err(changed());
            }
            return self.put(name, contents).await;
        }
        let key = self.key(name);
        let begun = self.call(
            Method::POST,
            Some(&key),
            &[("uploads", "")],
            Bytes::new(),
            MAX_ANSWER,
        );
        let begun = begun.await.map_err(|failure| self.fault(failure))?;
        let id = xml::value(&String::from_utf8_lossy(&begun.body), "UploadId");
        let id = id.ok_or_else(|| self.refused("it gave no id to an upload"))?;
        let sent = match self.send_parts(&key, &id, from, source, known).await {
            Ok(Some(parts)) => self.complete(&key, &id, &parts).await,
            Ok(None) => Err(changed()),
            Err(error) => Err(error),
        };
        if sent.is_err() {
            // What is left of it costs space until the store removes it by a rule of the bucket.
            let query = [("uploadId", id.as_str())];
            let _ = self
                .call(Method::DELETE, Some(&key), &query, Bytes::new(), 0)
                .await;
        }
        sent
    }

    /// The tags of the parts; nothing if the file has changed.
    async fn send_parts(
        &self,
        key: &str,
        id: &str,
        from: &Path,
        mut source: Source,
        known: &FileDigest,
    ) -> Result<Option<Vec<String>>, Error> {
        let size = part_size(known.bytes);
        let mut tags = Vec::new();
        loop {
            let (rest, part) = source.next(from, size).await?;
            source = rest;
            if part.is_empty() {
                return Ok(source.is(known).then_some(tags));
            }
            if tags.len() as u64 == known.bytes.div_ceil(size) {
                return Ok(None);
            }
            let number = (tags.len() + 1).to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", id)];
            let sent = self.call(Method::PUT, Some(key), &query, part, 0).await;
            let sent = sent.map_err(|failure| self.fault(failure))?;
            let tag = sent.headers.get(reqwest::header::ETAG);
            let tag = tag.and_then(|tag| tag.to_str().ok());
            let tag = tag.ok_or_else(|| self.refused("it gave no tag to a part"))?;
            tags.push(tag.to_owned());
        }
    }

    /// Makes an object of the parts. If an answer is lost and the store no longer knows the upload, this is an error,
    /// though the object may be there.
    async fn complete(&self, key: &str, id: &str, tags: &[String]) -> Result<(), Error> {
        let parts = tags.iter().enumerate().map(|(index, tag)| {
            let (number, tag) = (index + 1, xml::escape(tag));
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        });
        let parts: String = parts.collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let query = [("uploadId", id)];
        let done = self.call(Method::POST, Some(key), &query, body.into(), MAX_ANSWER);
        let done = done.await.map_err(|failure| self.fault(failure))?;
        // The status is sent before the work is done, so a failure may come with a success.
        let text = String::from_utf8_lossy(&done.body);
        if !text.contains("<CompleteMultipartUploadResult") {
            let code = xml::code(&text);
            return Err(Error::ObjectsUnreachable {
                store: self.store(),
                why: format!("an upload was not completed: {code}"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_too_many_parts() {
        assert_eq!(part_size(PART + 1), PART);
        let large = PART * MAX_PARTS + 1;
        assert!(large.div_ceil(part_size(large)) <= MAX_PARTS);
    }
}
