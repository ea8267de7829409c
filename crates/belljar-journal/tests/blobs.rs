//! Blobs: whole or not at all, and never other bytes than those that were put.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with the place is the best report"
)]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_journal::{BlobHash, BlobRef, Blobs, Error};

async fn open(directory: &Path) -> Blobs {
    Blobs::open(directory, 1 << 20).await.unwrap()
}

/// All files below `blobs`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(directory.join("blobs")).unwrap();
    folders
        .flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect()
}

#[tokio::test]
async fn what_is_put_comes_back_under_the_hash_of_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
    let blob = blobs.put(b"abc".to_vec(), "text/plain").await.unwrap();
    // The example of FIPS 180.
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(blob.hash.to_string(), hash);
    assert_eq!((blob.bytes, blob.media_type.as_str()), (3, "text/plain"));
    let path = format!("blobs/{}/{}", &hash[..2], &hash[2..]);
    assert_eq!(fs::read(directory.path().join(path)).unwrap(), b"abc");

    // As an event has it.
    let text = serde_json::to_string(&blob).unwrap();
    assert_eq!(serde_json::from_str::<BlobRef>(&text).unwrap(), blob);
    let reopened = open(directory.path()).await;
    assert_eq!(reopened.get(&blob).await.unwrap(), b"abc");
    assert!(reopened.contains(blob.hash).await.unwrap());

    let empty = blobs.put(Vec::new(), "").await.unwrap();
    assert_eq!(blobs.get(&empty).await.unwrap(), b"");
}

/// One that is larger than what may be held in memory.
#[tokio::test]
async fn a_file_of_any_size_is_put_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
    let from = directory.path().join("large");
    let contents: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
    fs::write(&from, &contents).unwrap();
    let blob = blobs.put_file(&from, "a/b").await.unwrap();
    assert_eq!(blob.bytes, 3 << 20);
    let mut read = Vec::new();
    let mut file = blobs.get_file(&blob).await.unwrap();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, contents);
    let refused = blobs.get(&blob).await.unwrap_err();
    assert!(matches!(refused, Error::BlobTooLarge { .. }), "{refused:?}");

    // The same by bytes, a second time, and damaged.
    fs::write(&from, b"abc").unwrap();
    let blob = blobs.put_file(&from, "a/b").await.unwrap();
    assert_eq!(blobs.put(b"abc".to_vec(), "a/b").await.unwrap(), blob);
    assert_eq!(blobs.put_file(&from, "a/b").await.unwrap(), blob);
    assert_eq!(files(directory.path()).len(), 2);
    let path = files(directory.path());
    let path = path.iter().find(|path| fs::read(path).unwrap() == b"abc");
    fs::write(path.unwrap(), b"abd").unwrap();
    let error = blobs.get_file(&blob).await.unwrap_err();
    assert!(matches!(error, Error::CorruptBlob(_)), "{error:?}");
    fs::remove_file(path.unwrap()).unwrap();
    let error = blobs.get_file(&blob).await.unwrap_err();
    assert!(matches!(error, Error::UnknownBlob(_)), "{error:?}");
    fs::remove_file(&from).unwrap();
    let error = blobs.put_file(&from, "a/b").await.unwrap_err();
    assert!(error.to_string().contains("large"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_put_the_same_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut putting = tokio::task::JoinSet::new();
    for number in 0..40_u8 {
        let blobs = open(directory.path()).await;
        putting.spawn(async move {
            let bytes = vec![number % 4; 100_000];
            let blob = blobs.put(bytes.clone(), "a/b").await.unwrap();
            assert_eq!(blobs.get(&blob).await.unwrap(), bytes);
        });
    }
    putting.join_all().await;
    assert_eq!(files(directory.path()).len(), 4);
}

#[tokio::test]
async fn a_damaged_blob_is_an_error_until_it_is_put_again() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
    let blob = blobs.put(b"contents".to_vec(), "a/b").await.unwrap();
    let path = files(directory.path()).pop().unwrap();
    for damage in [&b"c0ntents"[..], b"", b"contents and more", b"content"] {
        fs::write(&path, damage).unwrap();
        let error = blobs.get(&blob).await.unwrap_err();
        assert!(
            matches!(error, Error::CorruptBlob(hash) if hash == blob.hash),
            "{error:?}"
        );
        blobs.put(b"contents".to_vec(), "a/b").await.unwrap();
        assert_eq!(blobs.get(&blob).await.unwrap(), b"contents");
    }
    fs::remove_file(&path).unwrap();
    let error = blobs.get(&blob).await.unwrap_err();
    assert!(
        matches!(error, Error::UnknownBlob(hash) if hash == blob.hash),
        "{error:?}"
    );
    assert!(!blobs.contains(blob.hash).await.unwrap());
}

#[tokio::test]
async fn too_large_a_blob_is_neither_written_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
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
    assert_eq!(files(directory.path()).len(), 1);
    let smaller = Blobs::open(directory.path(), 1000).await.unwrap();
    let error = smaller.get(&largest).await.unwrap_err();
    assert!(matches!(error, Error::BlobTooLarge { .. }), "{error:?}");
}

/// The hash of an event becomes a path: it must not lead elsewhere.
#[test]
fn a_hash_is_nothing_but_hexadecimal_digits() {
    let good = "0123456789abcdef".repeat(4);
    assert_eq!(good.parse::<BlobHash>().unwrap().to_string(), good);
    let up = "../".repeat(21) + "x";
    let wide = "é".repeat(32);
    for bad in [
        "",
        &good[1..],
        &(good.clone() + "0"),
        &good.to_uppercase(),
        &up,
        &wide,
    ] {
        assert!(bad.parse::<BlobHash>().is_err(), "{bad}");
        assert!(serde_json::from_value::<BlobHash>(bad.into()).is_err());
    }
}

#[tokio::test]
async fn what_a_dead_process_left_half_written_is_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).await;
    let incoming = directory.path().join("blobs/incoming");
    let (old, new) = (incoming.join("old"), incoming.join("new"));
    for path in [&old, &new] {
        fs::write(path, "half").unwrap();
    }
    let two_days_ago = SystemTime::now() - Duration::from_hours(48);
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(two_days_ago).unwrap();
    open(directory.path()).await;
    // The new one may belong to a process that lives.
    assert!(!old.exists() && new.exists());
}

#[tokio::test]
async fn what_is_not_kept_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
    let kept = blobs.put(b"kept".to_vec(), "text/plain").await.unwrap();
    let gone = blobs.put(b"gone".to_vec(), "text/plain").await.unwrap();
    // Of another process, which is at it.
    let half = directory.path().join("blobs/incoming/half");
    fs::write(&half, b"half").unwrap();
    blobs.keep_only([kept.hash].into()).await.unwrap();
    assert_eq!(blobs.get(&kept).await.unwrap(), b"kept");
    let missing = blobs.get(&gone).await.unwrap_err();
    assert!(matches!(missing, Error::UnknownBlob(hash) if hash == gone.hash));
    assert!(half.exists());
    blobs.put(b"gone".to_vec(), "text/plain").await.unwrap();
    assert_eq!(blobs.get(&gone).await.unwrap(), b"gone");
}
