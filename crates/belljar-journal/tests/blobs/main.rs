//! Blobs: whole or not at all, and never other bytes than those that were put.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with the place is the best report"
)]

mod conformance;
mod objects;
#[path = "../weed/mod.rs"]
mod weed;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_journal::{BlobHash, Blobs};

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
async fn a_file_has_the_path_of_its_hash() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = open(directory.path()).await;
    let blob = blobs.put(b"abc".to_vec(), "text/plain").await.unwrap();
    let hash = blob.hash.to_string();
    let path = format!("blobs/{}/{}", &hash[..2], &hash[2..]);
    assert_eq!(fs::read(directory.path().join(path)).unwrap(), b"abc");
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
    let blobs = open(directory.path()).await;
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
    blobs.keep_only([].into()).await.unwrap();
    assert!(new.exists());
}
