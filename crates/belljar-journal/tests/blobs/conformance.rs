//! What holds for blobs wherever they are: in a directory, and in an object store.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use belljar_journal::{BlobHash, BlobRef, Blobs, Error, Objects};

use crate::weed;

const LIMIT: u64 = 1 << 20;

/// Where the blobs of a test are.
pub(crate) enum Place {
    Directory(tempfile::TempDir),
    Store(Objects, tempfile::TempDir),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Directory(directory) | Self::Store(_, directory) => directory.path(),
        }
    }

    async fn open(&self) -> Blobs {
        self.open_with(LIMIT).await
    }

    async fn open_with(&self, limit: u64) -> Blobs {
        match self {
            Self::Directory(directory) => Blobs::open(directory.path(), limit).await.unwrap(),
            Self::Store(objects, directory) => {
                let blobs = Blobs::in_objects(objects.clone(), directory.path(), limit);
                blobs.await.unwrap()
            }
        }
    }

    /// How many blobs there are.
    async fn count(&self) -> usize {
        match self {
            Self::Directory(directory) => crate::files(directory.path()).len(),
            Self::Store(objects, _) => {
                let mut count = 0;
                objects.list(|_, _| count += 1).await.unwrap();
                count
            }
        }
    }

    /// Puts other bytes in the place of a blob, or none.
    async fn damage(&self, hash: BlobHash, bytes: Option<&[u8]>) {
        let hash = hash.to_string();
        let name = format!("{}/{}", &hash[..2], &hash[2..]);
        match (self, bytes) {
            (Self::Directory(directory), Some(bytes)) => {
                fs::write(directory.path().join("blobs").join(name), bytes).unwrap();
            }
            (Self::Directory(directory), None) => {
                fs::remove_file(directory.path().join("blobs").join(name)).unwrap();
            }
            (Self::Store(objects, _), Some(bytes)) => {
                objects.put(&name, bytes.to_vec()).await.unwrap();
            }
            (Self::Store(objects, _), None) => objects.remove(&name).await.unwrap(),
        }
    }
}

/// Each test in a directory and in an object store.
macro_rules! both {
    ($($name:ident)*) => {
        mod in_a_directory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                super::$name(super::Place::Directory(tempfile::tempdir().unwrap())).await;
            })*
        }
        mod in_an_object_store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let directory = tempfile::tempdir().unwrap();
                super::$name(super::Place::Store(super::weed::objects(), directory)).await;
            })*
        }
    };
}

both! {
    what_is_put_comes_back_under_the_hash_of_its_bytes
    a_file_of_any_size_is_put_and_comes_back
    many_may_put_the_same_at_once
    a_damaged_blob_is_an_error_until_it_is_put_again
    too_large_a_blob_is_neither_written_nor_read
    what_is_not_kept_is_removed
}

async fn what_is_put_comes_back_under_the_hash_of_its_bytes(place: Place) {
    let blobs = place.open().await;
    let blob = blobs.put(b"abc".to_vec(), "text/plain").await.unwrap();
    // The example of FIPS 180.
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(blob.hash.to_string(), hash);
    assert_eq!((blob.bytes, blob.media_type.as_str()), (3, "text/plain"));

    // As an event has it.
    let text = serde_json::to_string(&blob).unwrap();
    assert_eq!(serde_json::from_str::<BlobRef>(&text).unwrap(), blob);
    let reopened = place.open().await;
    assert_eq!(reopened.get(&blob).await.unwrap(), b"abc");
    assert!(reopened.contains(blob.hash).await.unwrap());

    let empty = blobs.put(Vec::new(), "").await.unwrap();
    assert_eq!(blobs.get(&empty).await.unwrap(), b"");
    let mut read = Vec::new();
    let mut file = blobs.get_file(&empty).await.unwrap();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"");
}

/// One that is larger than what may be held in memory, and than one part of an upload.
async fn a_file_of_any_size_is_put_and_comes_back(place: Place) {
    let blobs = place.open().await;
    let from = place.path().join("large");
    let contents: Vec<u8> = (0..20_u32 << 20)
        .map(|n| (n % 251).to_le_bytes()[0])
        .collect();
    fs::write(&from, &contents).unwrap();
    let blob = blobs.put_file(&from, "a/b").await.unwrap();
    assert_eq!(blob.bytes, 20 << 20);
    let mut read = Vec::new();
    let mut file = blobs.get_file(&blob).await.unwrap();
    file.read_to_end(&mut read).unwrap();
    assert!(read == contents);
    let refused = blobs.get(&blob).await.unwrap_err();
    assert!(matches!(refused, Error::BlobTooLarge { .. }), "{refused:?}");

    // The same by bytes, a second time, and damaged: also by as many bytes.
    fs::write(&from, b"abc").unwrap();
    let blob = blobs.put_file(&from, "a/b").await.unwrap();
    assert_eq!(blobs.put(b"abc".to_vec(), "a/b").await.unwrap(), blob);
    assert_eq!(blobs.put_file(&from, "a/b").await.unwrap(), blob);
    assert_eq!(place.count().await, 2);
    for damage in [&b"abd"[..], b"ab", b"abcd", b""] {
        place.damage(blob.hash, Some(damage)).await;
        let error = blobs.get_file(&blob).await.unwrap_err();
        assert!(matches!(error, Error::CorruptBlob(_)), "{error:?}");
    }
    place.damage(blob.hash, None).await;
    let error = blobs.get_file(&blob).await.unwrap_err();
    assert!(matches!(error, Error::UnknownBlob(_)), "{error:?}");
    fs::remove_file(&from).unwrap();
    let error = blobs.put_file(&from, "a/b").await.unwrap_err();
    assert!(error.to_string().contains("large"), "{error}");
}

async fn many_may_put_the_same_at_once(place: Place) {
    let mut putting = tokio::task::JoinSet::new();
    for number in 0..40_u8 {
        let blobs = place.open().await;
        putting.spawn(async move {
            let bytes = vec![number % 4; 100_000];
            let blob = blobs.put(bytes.clone(), "a/b").await.unwrap();
            assert_eq!(blobs.get(&blob).await.unwrap(), bytes);
        });
    }
    putting.join_all().await;
    assert_eq!(place.count().await, 4);
}

async fn a_damaged_blob_is_an_error_until_it_is_put_again(place: Place) {
    let blobs = place.open().await;
    let blob = blobs.put(b"contents".to_vec(), "a/b").await.unwrap();
    for damage in [&b"c0ntents"[..], b"", b"contents and more", b"content"] {
        place.damage(blob.hash, Some(damage)).await;
        let error = blobs.get(&blob).await.unwrap_err();
        assert!(
            matches!(error, Error::CorruptBlob(hash) if hash == blob.hash),
            "{error:?}"
        );
        blobs.put(b"contents".to_vec(), "a/b").await.unwrap();
        assert_eq!(blobs.get(&blob).await.unwrap(), b"contents");
    }
    place.damage(blob.hash, None).await;
    let error = blobs.get(&blob).await.unwrap_err();
    assert!(
        matches!(error, Error::UnknownBlob(hash) if hash == blob.hash),
        "{error:?}"
    );
    assert!(!blobs.contains(blob.hash).await.unwrap());
}

async fn too_large_a_blob_is_neither_written_nor_read(place: Place) {
    let blobs = place.open().await;
    let largest = blobs.put(vec![1; 1 << 20], "a/b").await.unwrap();
    let error = blobs.put(vec![1; (1 << 20) + 1], "a/b").await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::BlobTooLarge {
                bytes: 1_048_577,
                limit: 1_048_576
            }
        ),
        "{error:?}"
    );
    assert_eq!(place.count().await, 1);
    let smaller = place.open_with(1000).await;
    let error = smaller.get(&largest).await.unwrap_err();
    assert!(matches!(error, Error::BlobTooLarge { .. }), "{error:?}");
}

async fn what_is_not_kept_is_removed(place: Place) {
    let blobs = place.open().await;
    let kept = blobs.put(b"kept".to_vec(), "text/plain").await.unwrap();
    let gone = blobs.put(b"gone".to_vec(), "text/plain").await.unwrap();
    blobs.keep_only([kept.hash].into()).await.unwrap();
    assert_eq!(blobs.get(&kept).await.unwrap(), b"kept");
    let missing = blobs.get(&gone).await.unwrap_err();
    assert!(matches!(missing, Error::UnknownBlob(hash) if hash == gone.hash));
    blobs.put(b"gone".to_vec(), "text/plain").await.unwrap();
    assert_eq!(blobs.get(&gone).await.unwrap(), b"gone");
}
