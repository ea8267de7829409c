//! A: exhaustion by files and descriptors.

use belljar_sandbox::{Error, Limits};

use crate::harness::{Case, Severity};
use crate::support::descriptors;

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

#[tokio::test(flavor = "multi_thread")]
async fn a6_full_workspace() {
    let case = Case::begin(
        "A6",
        Severity::HostDos,
        "write files until there is no space left",
        "ENOSPC at the workspace's size, in the session's memory and on no disk; another session still writes",
    )
    .await;
    let limits = Limits {
        workspace_bytes: 16 << 20,
        temporary_bytes: 8 << 20,
        ..Limits::default()
    };
    let session = case.session_with(limits).await;
    let code = r"
import errno, os
def fill(directory):
    written = 0
    try:
        with open(directory + '/full', 'wb', buffering=0) as file:
            while True:
                written += file.write(bytes(1 << 16))
    except OSError as error:
        print(directory, written >> 20, errno.errorcode[error.errno])
for directory in ['/workspace', '/tmp', '/dev/shm']:
    fill(directory)
";
    assert_eq!(
        case.printed(&session, code).await,
        "/workspace 16 ENOSPC\n/tmp 8 ENOSPC\n/dev/shm 8 ENOSPC\n"
    );
    let refused = session.put("one-more", &vec![0; 1 << 16]);
    assert!(refused.is_err(), "{refused:?}");
    let peer = case.session().await;
    let write = "print(open('mine', 'wb').write(bytes(17 << 20)) >> 20)";
    assert_eq!(case.printed(&peer, write).await, "17\n");
    // What was full is of use again.
    case.printed(&session, "os.remove('/workspace/full'); fill('/workspace')")
        .await;
    case.end([session, peer]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a7a_empty_files() {
    let case = Case::begin(
        "A7a",
        Severity::HostDos,
        "empty files with names of 255 bytes, without end",
        "ENOSPC at the limit of files; the host lists and closes in bounded time",
    )
    .await;
    let session = case
        .session_with(Limits {
            inodes: 5_000,
            ..Limits::default()
        })
        .await;
    let code = r"
import errno
made = 0
try:
    while True:
        open(f'{made:0>255}', 'x').close()
        made += 1
except OSError as error:
    print(made, errno.errorcode[error.errno])
";
    let outcome = case.outcome(&session, code).await;
    // The directory itself is the one that is missing.
    assert_eq!(outcome.stdout.text, "4999 ENOSPC\n", "{outcome:?}");
    assert!(session.list("").unwrap().entries.len() <= 4_999);
    let peer = case.session().await;
    case.printed(&peer, "open('mine', 'x').close()").await;
    case.end([session, peer]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a7b_deep_directories() {
    let case = Case::begin(
        "A7b",
        Severity::HostDos,
        "10,000 directories, each in the one before",
        "cells and listing keep working; closing the session takes no longer than else",
    )
    .await;
    let session = case.session().await;
    // From the inside out, since each step into them costs the depth.
    let code = r"
import os
name = 'd' * 255
os.mkdir(name)
for _ in range(10_000):
    os.mkdir('outer')
    os.rename(name, 'outer/' + name)
    os.rename('outer', name)
";
    case.printed(&session, code).await;
    let listed = session.list("").unwrap().entries.len();
    assert!((1..100).contains(&listed), "{listed}");
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    let path = vec!["d".repeat(255); 10_001].join("/");
    assert!(session.list(&path).is_err());
    // The oracle gives closing two seconds.
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a9a_descriptors() {
    let case = Case::begin(
        "A9a",
        Severity::PeerDos,
        "open files until it fails, in many processes",
        "EMFILE in each process; the session's next cell and other sessions open files as before",
    )
    .await;
    let session = case.session().await;
    let code = r"
import errno, os, time
def exhaust():
    held = []
    try:
        while True:
            held.append(os.open('/dev/null', os.O_RDONLY))
    except OSError as error:
        return held, errno.errorcode[error.errno]
ends = [os.pipe() for _ in range(50)]
for read, write in ends:
    if os.fork() == 0:
        os.write(write, exhaust()[1].encode())
        time.sleep(100)
print({os.read(read, 100) for read, write in ends})
held, error = exhaust()
print(error, len(held) + 100 + 5)
";
    assert_eq!(
        case.printed(&session, code).await,
        "{b'EMFILE'}\nEMFILE 1024\n"
    );
    // The driver needs none that it has not.
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.check_sibling().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a9b_descriptors_for_the_host() {
    let case = Case::begin(
        "A9b",
        Severity::HostDos,
        "send 25,000 descriptors (SCM_RIGHTS) to the host over the control socket, within valid frames",
        "the frames count, the descriptors are dropped: the host holds not one more",
    )
    .await;
    let session = case.session().await;
    let before = descriptors();
    let code = r"
import array, os, socket
from belljar_guest import wire
from belljar_guest.state import STATE
control = socket.socket(fileno=os.dup(3))
files = array.array('i', [os.open('/dev/null', os.O_RDONLY) for _ in range(250)])
header = wire.to_json({
    'type': 'display', 'cell': STATE.cell, 'nonce': STATE.nonce,
    'parts': [{'mime': 'text/plain', 'len': 2}],
})
frame = wire.frame_lengths(len(header), 2) + header + b'ok'
sent = 0
for _ in range(50):
    for piece in (frame[:10], frame[10:]):
        # The kernel refuses more while the host has not read those before.
        while True:
            try:
                control.sendmsg([piece], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
                break
            except OSError as error:
                if error.errno != 109:
                    raise
        sent += len(files)
control.close()
for file in files:
    os.close(file)
print(sent)
";
    let outcome = case.outcome(&session, code).await;
    assert_eq!(outcome.stdout.text, "25000\n", "{outcome:?}");
    assert_eq!(outcome.displays.len(), 50);
    assert_eq!(descriptors(), before);
    case.end([session]).await;
}
