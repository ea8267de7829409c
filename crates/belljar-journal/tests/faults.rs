//! Faults of the machine and of the caller: each has a type, and says what to do.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with the place is the best report"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use belljar_journal::{AppendError, Blobs, Error, Journal, NewEvent, RunId, Timestamp};

fn run() -> RunId {
    "a".parse().unwrap()
}

fn event(body: &str) -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &body).unwrap()
}

#[tokio::test]
async fn a_file_in_the_way_is_not_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Journal::open(&path).await.unwrap_err();
        assert!(matches!(error, Error::NotADirectory(_)), "{error:?}");
        let error = Blobs::open(&path, 1).await.unwrap_err();
        assert!(matches!(error, Error::NotADirectory(_)), "{error:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[tokio::test]
async fn all_is_for_this_user_alone() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("not/yet/there");
    let journal = Journal::open(&directory).await.unwrap();
    let blobs = Blobs::open(&directory, 100).await.unwrap();
    journal.append(&run(), 0, &[event("")]).await.unwrap();
    blobs.put(b"x".to_vec(), "a/b").await.unwrap();

    let mut seen = Vec::new();
    let mut below = vec![outer.path().join("not")];
    while let Some(path) = below.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, wanted, "{path:?}");
        if metadata.is_dir() {
            below.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|file| file.unwrap().path()),
            );
        } else {
            seen.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    for name in [
        "journal.sqlite3",
        "journal.sqlite3-wal",
        "journal.sqlite3-shm",
    ] {
        assert!(seen.iter().any(|seen| seen == name), "{name} in {seen:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_told_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite3");
    let text = "this was never a database. ".repeat(400);
    fs::write(&path, &text).unwrap();
    let error = Journal::open(directory.path()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// A file system of two megabytes, made in a mount namespace of a child.
#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=2m none "$1" && exec "$2" --exact on_a_small_disk --ignored --nocapture"#;
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .env("SMALL_DISK", directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
}

#[tokio::test]
#[ignore = "it is the child of the test above, which gives it a small disk"]
async fn on_a_small_disk() {
    let directory = std::env::var("SMALL_DISK").unwrap();
    let directory = Path::new(&directory);
    let journal = Journal::open(directory).await.unwrap();
    let blobs = Blobs::open(directory, 1 << 30).await.unwrap();

    let error = blobs.put(vec![1; 4 << 20], "a/b").await.unwrap_err();
    assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
    let ballast = blobs.put(vec![1; 1 << 20], "a/b").await.unwrap();

    let batch = vec![event(&"x".repeat(10_000)); 3];
    let mut last = 0;
    let error = loop {
        match journal.append(&run(), last, &batch).await {
            Ok(seq) => last = seq,
            Err(error) => break error,
        }
        assert!(last < 1000, "the disk is not small");
    };
    assert!(
        matches!(error, AppendError::Journal(Error::DiskFull(_))),
        "{error:?}"
    );
    assert!(last > 0 && last % 3 == 0);
    assert_eq!(journal.last_seq(&run()).await.unwrap(), last);

    // With some space again it continues where it was.
    let hash = ballast.hash.to_string();
    fs::remove_file(directory.join("blobs").join(&hash[..2]).join(&hash[2..])).unwrap();
    let more = journal.append(&run(), last, &batch).await.unwrap();
    assert_eq!(more, last + 3);
    drop(journal);
    let journal = Journal::open(directory).await.unwrap();
    let mut seen = 0;
    while seen < more {
        let page = journal.read(&run(), seen, 100).await.unwrap();
        for entry in page {
            seen += 1;
            assert_eq!((entry.seq, entry.body.get().len()), (seen, 10_002));
        }
    }
}
