//! A: exhaustion by files that the host writes on somebody's word.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use belljar_sandbox::{BeneathError, Error, Limits, Session};

use crate::harness::{Case, Severity};
use crate::support::{good, seconds, timed, without_checkpoints};

const MEMORY: u64 = 64 << 20;
const MIB: usize = 1 << 20;

fn little_memory() -> Limits {
    Limits {
        memory_bytes: MEMORY,
        ..Limits::default()
    }
}

fn in_use(session: &Session) -> u64 {
    session.in_use().unwrap().memory_bytes.unwrap()
}

fn assert_no_memory(result: &Result<(), Error>) {
    assert!(
        matches!(result, Err(Error::File(BeneathError::NoMemory { limit, .. })) if *limit == MEMORY),
        "{result:?}"
    );
}

/// Bytes of all files of the workspace.
fn held(session: &Session) -> u64 {
    let entries = session.list("").unwrap().entries;
    entries.iter().map(|entry| entry.size).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_many_puts() {
    let case = Case::begin(
        "A18",
        Severity::HostDos,
        "37 files of 17 MB put into a session of 64 MiB",
        "charged to the session: what does not fit is refused, `use` shows the rest, its variables stay",
    )
    .await;
    let session = case.session_with(little_memory()).await;
    case.printed(&session, "kept = 42").await;
    let before = in_use(&session);
    let contents = vec![7; 17_000_000];
    let mut taken = 0;
    for number in 0..37 {
        match session.put(&format!("file-{number}"), &contents) {
            Ok(()) => taken += 1,
            refused => assert_no_memory(&refused),
        }
    }
    assert_eq!(taken, 3);
    assert_eq!(held(&session), 3 * 17_000_000);
    let now = in_use(&session);
    assert!(
        (before + 3 * 17_000_000..=MEMORY).contains(&now),
        "{before} {now}"
    );
    assert_eq!(case.printed(&session, "print(kept)").await, "42\n");
    // What is deleted is given back.
    session.delete("file-0").unwrap();
    session.put("file-0", &contents).unwrap();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_one_stream_without_end() {
    let case = Case::begin(
        "A19",
        Severity::HostDos,
        "one file of 200 MB put into a session of 64 MiB, also of a size that nobody told",
        "refused while it arrives; nothing of it is left, the session's variables stay",
    )
    .await;
    let session = case.session_with(little_memory()).await;
    case.printed(&session, "kept = 42").await;
    let before = in_use(&session);
    let mut source = std::io::repeat(7).take(200_000_000);
    assert_no_memory(&session.put_from("sub/big", &mut source));
    let file = tempfile::tempfile().unwrap();
    file.set_len(200_000_000).unwrap();
    assert_no_memory(&session.put_file("sub/big", &file));
    drop(file);
    assert_eq!(held(&session), 0);
    assert_eq!(session.list("sub").unwrap().entries, []);
    let now = in_use(&session);
    assert!(now < before + (4 << 20), "{before} {now}");
    assert_eq!(case.printed(&session, "print(kept)").await, "42\n");
    session.put("sub/small", b"1").unwrap();
    case.end([session]).await;
}

/// Starts the threads that a snapshot needs, since the oracle counts those that come later.
async fn start_threads() {
    let all = Arc::new(Barrier::new(4));
    let wait = || {
        let all = Arc::clone(&all);
        tokio::task::spawn_blocking(move || all.wait())
    };
    for thread in [wait(), wait(), wait(), wait()] {
        thread.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a20_snapshot_of_a_larger_session() {
    start_threads().await;
    let case = Case::begin(
        "A20",
        Severity::HostDos,
        "a snapshot with 100 MB of files, loaded into sessions of 256 and of 64 MiB",
        "the files are charged to the first; the second is refused, and nothing is left of it",
    )
    .await;
    let session = case.session().await;
    case.printed(
        &session,
        "for n in range(10): open(f'{n}', 'wb').write(bytes(10_000_000))",
    )
    .await;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("snapshot");
    session.snapshot(&path).await.unwrap();
    let limits = |memory_bytes| {
        without_checkpoints(Limits {
            memory_bytes,
            ..Limits::default()
        })
    };
    let loaded = case.engine().load(&path, limits(256 << 20)).await;
    let (loaded, report) = loaded.unwrap();
    assert_eq!(report.files, 10);
    let now = in_use(&loaded);
    assert!(now > 100_000_000, "{now}");
    loaded.close().await.unwrap();
    let refused = case.engine().load(&path, limits(MEMORY)).await;
    assert_no_memory(&refused.map(drop));
    drop(place);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a21_files_changed_on_their_way() {
    let case = Case::begin(
        "A21",
        Severity::HostDos,
        "a thread empties, removes and links every file that the host is writing",
        "what is written is charged to the session, whatever becomes of its name; the host continues",
    )
    .await;
    let session = Arc::new(case.session_with(little_memory()).await);
    let code = r"
import os, threading
kept, stop = [], False
def meddle():
    while not stop:
        for name in os.listdir('.'):
            if name.startswith('.belljar-put-'):
                try:
                    kept.append(open(name, 'r+b'))
                    os.truncate(name, 0)
                    os.link(name, f'linked-{len(kept)}')
                    os.unlink(name)
                except OSError:
                    pass
thread = threading.Thread(target=meddle)
thread.start()
";
    case.printed(&session, code).await;
    let putting = Arc::clone(&session);
    let put = tokio::task::spawn_blocking(move || {
        let contents = vec![7; 8 * MIB];
        let put = |_| putting.put("victim", &contents);
        (0..30).map(put).collect::<Vec<_>>()
    });
    let results = put.await.unwrap();
    for result in results {
        match result {
            Ok(()) | Err(Error::File(BeneathError::NotFound(_))) => {}
            refused => assert_no_memory(&refused),
        }
    }
    assert!(in_use(&session) <= MEMORY);
    // Not the sizes of the files: one that was emptied under the writer is long and mostly a hole.
    let code = "stop = True\nthread.join()\nplace = os.statvfs('.')\nprint((place.f_blocks - place.f_bfree) * place.f_frsize)";
    let files: u64 = case.printed(&session, code).await.trim().parse().unwrap();
    assert!((1..=MEMORY).contains(&files), "{files}");
    let session = Arc::into_inner(session).unwrap();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a22_memory_filled_from_both_sides() {
    let case = Case::begin(
        "A22",
        Severity::HostDos,
        "a cell fills the memory with files while the host puts others",
        "the writer is refused or ended, never the host; the sibling does not notice",
    )
    .await;
    let session = Arc::new(case.session_with(little_memory()).await);
    let watch = case.watch_sibling();
    let over = Arc::new(AtomicBool::new(false));
    let (putting, ended) = (Arc::clone(&session), Arc::clone(&over));
    let put = tokio::task::spawn_blocking(move || {
        let (mut taken, mut refused) = (0, 0);
        while !ended.load(Ordering::Relaxed) {
            match putting.put("from-outside", &vec![7; 20 * MIB]) {
                Ok(()) => taken += 1,
                Err(Error::File(BeneathError::NoMemory { .. })) => refused += 1,
                Err(Error::Ended(_)) => break,
                other => panic!("{other:?}"),
            }
        }
        (taken, refused)
    });
    let code = r"
import os
while True:
    with open('/dev/shm/inside', 'wb') as file:
        for _ in range(50):
            file.write(bytes(1 << 20))
    os.remove('/dev/shm/inside')
";
    let outcome = case.run(&session, timed(code, seconds(4.0))).await;
    over.store(true, Ordering::Relaxed);
    let (taken, refused) = put.await.unwrap();
    assert!(taken + refused > 0, "{taken} {refused} {outcome:?}");
    watch.finish().await;
    let session = Arc::into_inner(session).unwrap();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_empty_files() {
    let case = Case::begin(
        "A23",
        Severity::HostDos,
        "5,000 empty files with long names, put by the host",
        "what the kernel keeps of each is charged to the session, too",
    )
    .await;
    let session = case.session().await;
    let before = in_use(&session);
    let name = "n".repeat(200);
    for number in 0..5_000 {
        session.put(&format!("{name}-{number}"), b"").unwrap();
    }
    let grown = in_use(&session).saturating_sub(before);
    // An inode and a directory entry have more than a kilobyte together.
    assert!(grown > 5_000_000, "{grown}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_signals_for_the_writer() {
    let case = Case::begin(
        "A24",
        Severity::HostDos,
        "a cell looks for the process that writes the host's files, and stops all that it can",
        "it sees none; puts continue",
    )
    .await;
    let session = case.session().await;
    session.put("first", b"1").unwrap();
    let code = r"
import os, signal
names = [open(f'/proc/{pid}/comm').read().strip() for pid in os.listdir('/proc') if pid.isdigit()]
print('belljar-writer' in names)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(2, 2000):
    if number != os.getpid():
        for sent in (signal.SIGSTOP, signal.SIGKILL):
            try:
                os.kill(number, sent)
                print('reached', number)
            except OSError:
                pass
";
    let text = case.printed(&session, code).await;
    assert!(text.starts_with("False\n"), "{text}");
    session.put("second", &vec![7; MIB]).unwrap();
    assert_eq!(held(&session), MIB as u64 + 1);
    good(&session, "1").await;
    case.end([session]).await;
}
