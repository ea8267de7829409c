//! A: exhaustion of resources.

use belljar_sandbox::protocol::{Cause, Fate, Status};
use belljar_sandbox::{Error, Limits};

use crate::harness::{Case, Severity};
use crate::support::{seconds, timed};

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a1_fork_bomb() {
    let case = Case::begin(
        "A1",
        Severity::PeerDos,
        "while 1: os.fork()",
        "the limit of processes holds (BlockingIOError); closing the session ends all of them",
    )
    .await;
    let session = case
        .session_with(Limits {
            processes: 60,
            ..Limits::default()
        })
        .await;
    let watch = case.watch_sibling();
    let outcome = case
        .fails(
            &session,
            timed("import os\nwhile 1: os.fork()", seconds(5.0)),
        )
        .await;
    assert_eq!(outcome.exception.unwrap().type_name, "BlockingIOError");
    let members = case.members(&session).len();
    assert!(members <= 60, "{members} processes");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a3_doubling_memory() {
    let case = Case::begin(
        "A3",
        Severity::PeerDos,
        "b = bytearray(1 << 20), then b *= 2 without end",
        "a MemoryError, or a crash whose cause is memory; the sibling does not notice",
    )
    .await;
    let limits = Limits {
        memory_bytes: 128 << 20,
        ..Limits::default()
    };
    let session = case.session_with(limits.clone()).await;
    let watch = case.watch_sibling();
    let outcome = case
        .fails(&session, "b = bytearray(1 << 20)\nwhile 1: b *= 2")
        .await;
    assert_eq!(outcome.status, Status::Failure, "{outcome:?}");
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    // What a process's own limit does not see, the cgroup does.
    let hungry = case.session_with(limits).await;
    let shared =
        "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1";
    let outcome = case.fails(&hungry, shared).await;
    let limit_bytes = 128 << 20;
    assert_eq!(outcome.cause, Cause::Memory { limit_bytes }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    watch.finish().await;
    case.end([session, hungry]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_sparse_file() {
    let case = Case::begin(
        "A8",
        Severity::HostDos,
        "a sparse file of 1 EB, and its download",
        "a file past its limit is refused at once; a smaller one is refused before it is read",
    )
    .await;
    let code = "f = open('big', 'wb')\nf.truncate(1 << 60)";
    let control = case.control(code).await;
    assert_eq!(control.code, Some(0), "{control:?}");
    let session = case
        .session_with(Limits {
            file_bytes: 1 << 40,
            ..Limits::default()
        })
        .await;
    let outcome = case.fails(&session, code).await;
    let exception = outcome.exception.unwrap();
    assert!(exception.value.contains("File too large"), "{exception:?}");
    case.printed(&session, "f.truncate(1 << 40)").await;
    let got = session.get("big");
    assert!(
        matches!(got, Err(Error::FileTooLarge { bytes, .. }) if bytes == 1 << 40),
        "{got:?}"
    );
    assert_eq!(session.list("").unwrap().entries.len(), 1);
    case.end([session]).await;
}
