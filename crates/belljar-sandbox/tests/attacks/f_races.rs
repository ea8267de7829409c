//! F: files that are links, pipes or leased, and files that change while the host handles them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use belljar_sandbox::{EntryKind, Error, Limits, Session};

use crate::f_files::not_regular;
use crate::harness::{Case, Severity};
use crate::support::{Stopwatch, eventually, seconds};

/// What the host did while a directory and a link changed places.
#[derive(Debug, Default)]
struct Race {
    done: u32,
    refused: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_f3_a_directory_and_a_link_change_places() {
    let case = Case::begin(
        "F3",
        Severity::HostLeak,
        "RENAME_EXCHANGE of a directory and a link without pause, while the host gets, puts, lists and deletes (100,000 times)",
        "each operation is done inside the workspace or refused: nothing outside is read, written, listed or deleted, on the host or in the session's root",
    )
    .await;
    let secret = case.canaries.file.clone();
    let host = secret.parent().unwrap().to_owned();
    let session = case
        .session_with(Limits {
            wall_time: seconds(60.0),
            ..Limits::default()
        })
        .await;
    // The link's target is there on the host, with a canary, and in the session's root as well: in
    // its /tmp, which is another mount than the workspace.
    let plant = format!(
        r#"
import ctypes, os, signal, threading
host = "{}"
os.makedirs(host)
open(host + "/secret.txt", "w").write("outside")
open(host + "/kept", "w").write("outside")
open(host + "/outside", "w").write("outside")
os.mkdir("a")
open("a/secret.txt", "w").write("inside")
open("a/kept", "w").write("inside")
os.symlink(host, "b")
libc = ctypes.CDLL(None)
print(libc.renameat2(-100, b"a", -100, b"b", 2), os.path.islink("a"))
"#,
        host.display()
    );
    assert_eq!(case.printed(&session, plant).await, "0 True\n");
    std::fs::write(host.join("kept"), "host").unwrap();
    let run = session.run("open('racing', 'w').close()\nwhile not os.path.exists('stop'):\n    for i in range(1000): libc.renameat2(-100, b'a', -100, b'b', 2)");
    eventually("the race", || session.get("racing").is_ok()).await;
    let mut races: [Race; 4] = Default::default();
    let started = Stopwatch::start();
    for round in 0..25_000 / Stopwatch::slowness() {
        let results = [
            session.get("a/secret.txt").map(|contents| {
                assert_eq!(contents, b"inside", "read outside");
            }),
            session.put("a/new.txt", b"put"),
            session.list("a").map(|listing| {
                let known = ["a/kept", "a/new.txt", "a/secret.txt"];
                let strange = |entry: &&belljar_sandbox::Entry| {
                    !known.contains(&entry.path.as_str())
                        && !entry.path.starts_with("a/.belljar-put-")
                };
                assert_eq!(listing.entries.iter().find(strange), None, "listed outside");
            }),
            session.delete("a/new.txt"),
        ];
        for (race, result) in races.iter_mut().zip(results) {
            match result {
                Ok(()) => race.done += 1,
                Err(Error::File(_)) => race.refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        // What was swapped meanwhile is left out; the listing of the whole still comes.
        let listing = session.list("").unwrap();
        let strange = listing
            .entries
            .iter()
            .find(|entry| entry.path.contains("outside"));
        assert_eq!(strange, None);
        assert!(
            round < 100 || started.elapsed() < Duration::from_secs(40),
            "too slow"
        );
    }
    session.put("stop", b"").unwrap();
    assert!(run.await.unwrap().is_success());
    for race in &races {
        assert!(
            race.done > 50 && race.refused > 50,
            "no race was run: {races:?}"
        );
    }
    let mut left: Vec<_> = std::fs::read_dir(&host)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["kept", "secret.txt"]);
    assert_eq!(std::fs::read_to_string(host.join("kept")).unwrap(), "host");
    assert!(
        std::fs::read_to_string(&secret)
            .unwrap()
            .starts_with("CANARY-")
    );
    let look = "print(sorted(os.listdir(host)), open(host + '/kept').read(), open(host + '/secret.txt').read())";
    assert_eq!(
        case.printed(&session, look).await,
        "['kept', 'outside', 'secret.txt'] outside outside\n"
    );
    std::fs::remove_file(host.join("kept")).unwrap();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f4a_links_where_the_host_writes() {
    let case = Case::begin(
        "F4a",
        Severity::Escape,
        "links planted at the names that the host puts to, at its directories, dangling ones, and at all names like its temporary files",
        "refused, or replaced by the file; never followed, nothing is made where they point",
    )
    .await;
    let session = case.session().await;
    let target = case.canaries.file.with_file_name("planted");
    let plant = format!(
        r#"
import os
os.symlink("{0}", "file")
os.symlink("{1}", "directory")
os.symlink("/tmp/made", "dangling")
os.symlink("directory/x", "chain")
os.symlink("loop", "loop")
for i in range(256):
    os.symlink("{0}", f".belljar-put-{{i:016x}}")
"#,
        target.display(),
        target.parent().unwrap().display()
    );
    case.printed(&session, plant).await;
    for path in [
        "file",
        "directory",
        "directory/planted",
        "directory/a/b",
        "dangling",
        "chain",
        "loop",
        "loop/x",
    ] {
        let put = session.put(path, b"planted");
        assert!(not_regular(&put), "{path}: {put:?}");
    }
    session.put("plain", b"contents").unwrap();
    assert_eq!(session.get("plain").unwrap(), b"contents");
    assert!(!target.exists(), "a link was followed");
    assert_eq!(
        case.printed(&session, "print(os.path.exists('/tmp/made'))")
            .await,
        "False\n"
    );
    // Deleting takes the link, not what it points to.
    session.delete("directory").unwrap();
    assert!(target.parent().unwrap().is_dir());
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f4b_a_link_in_place_of_the_temporary_file() {
    let case = Case::begin(
        "F4b",
        Severity::Escape,
        "code that watches for the host's temporary file of a put and puts a link, a FIFO or a directory in its place",
        "the host writes into the file that it made, and never through the link; nothing outside is made",
    )
    .await;
    let session = case.session().await;
    let target = case.canaries.file.with_file_name("planted");
    let watch = format!(
        r#"
import os
open("watching", "w").close()
swapped = 0
while not os.path.exists("stop"):
    for name in os.listdir():
        if name.startswith(".belljar-put-"):
            try:
                os.unlink(name)
                [lambda: os.symlink("{}", name), lambda: os.mkfifo(name), lambda: os.mkdir(name)][swapped % 3]()
                swapped += 1
            except OSError:
                pass
        elif name.startswith("put"):
            try: os.unlink(name)
            except OSError: os.rmdir(name)
print(swapped > 0)
"#,
        target.display()
    );
    let run = session.run(watch);
    eventually("the watch", || session.get("watching").is_ok()).await;
    let contents = vec![7; 1 << 20];
    let started = Instant::now();
    let mut round = 0;
    while started.elapsed() < seconds(0.8) {
        round += 1;
        match session.put(&format!("put{round}"), &contents) {
            Ok(()) | Err(Error::File(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // The code may have taken this one's temporary file too.
    while session.get("stop").is_err() {
        let _ = session.put("stop", b"");
    }
    let outcome = run.await.unwrap();
    assert_eq!(outcome.stdout.text, "True\n", "{outcome:#?}");
    assert!(!target.exists(), "a link was followed");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f4c_files_of_the_host() {
    let case = Case::begin(
        "F4c",
        Severity::HostLeak,
        "a look for the files that the host itself writes: long output, its own directory",
        "they are outside of the session's root; what the code plants at the same path stays its own",
    )
    .await;
    let session = case.session().await;
    let outcome = case.outcome(&session, "print('x' * 1_000_000)").await;
    let file = outcome.stdout.file.unwrap();
    let plant = format!(
        r#"
import os
path = "{}"
print(os.path.exists(path), os.path.exists(os.path.dirname(path)))
os.makedirs(os.path.dirname(path))
os.symlink("/etc/passwd", path)
os.symlink("{}", path.replace("cell-2", "cell-4"))
"#,
        file.display(),
        case.canaries.file.display()
    );
    assert_eq!(case.printed(&session, plant).await, "False False\n");
    let outcome = case.outcome(&session, "print('y' * 1_000_000)").await;
    let own = outcome.stdout.file.unwrap();
    assert!(own.ends_with("cell-4.stdout"), "{}", own.display());
    assert_eq!(
        std::fs::read_to_string(own).unwrap(),
        "y".repeat(1_000_000) + "\n"
    );
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        "x".repeat(1_000_000) + "\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_owners_and_modes() {
    let case = Case::begin(
        "F5",
        Severity::Escape,
        "links and hard links in place of files, so that the host changes owner or mode of something else",
        "the host changes neither by name: a put file is made new with its owner and mode, and what links point to keeps both",
    )
    .await;
    let session = case.session().await;
    let secret = case.canaries.file.clone();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let before = std::fs::metadata(&secret).unwrap();
    let plant = format!(
        "import os\nos.umask(0)\nos.symlink('{}', 'link')\nopen('one', 'w').write('old')\nos.chmod('one', 0o777)\nos.link('one', 'two')\nos.mkdir('closed', 0o000)\nos.mkdir('set')\nos.chmod('set', 0o777)",
        secret.display()
    );
    case.printed(&session, plant).await;
    assert!(not_regular(&session.put("link", b"new")));
    session.put("one", b"new").unwrap();
    session.put("set/a/b", b"new").unwrap();
    let look = "for name in ['one', 'two', 'set/a', 'set/a/b']:\n    stat = os.stat(name)\n    print(name, oct(stat.st_mode & 0o7777), stat.st_uid == os.getuid(), stat.st_nlink)\nprint(open('two').read())";
    let text = case.printed(&session, look).await;
    assert_eq!(
        text,
        "one 0o644 True 1\ntwo 0o777 True 1\nset/a 0o755 True 2\nset/a/b 0o644 True 1\nold\n"
    );
    let after = std::fs::metadata(&secret).unwrap();
    assert_eq!(
        (after.uid(), after.gid(), after.mode()),
        (before.uid(), before.gid(), before.mode())
    );
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    // A directory that is closed to its owner costs its own contents, not the listing.
    assert!(session.list("").unwrap().entries.len() >= 7);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_hard_links() {
    let case = Case::begin(
        "F6",
        Severity::HostLeak,
        "hard links in the workspace to files outside of it: by name, through /proc/self/fd, by an empty path",
        "EXDEV: the workspace is a file system of its own, so a hard link there is to a file of its own",
    )
    .await;
    let code = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def link(*arguments):
    return errno.errorcode[ctypes.get_errno()] if libc.linkat(*arguments) else "linked"
inside = os.path.realpath("inside")
open(inside, "w").close()
for path in TARGETS:
    if path == "inside": path = inside
    fd = os.open(path, os.O_RDONLY)
    print(
        link(-100, path.encode(), -100, b"by-name", 0),
        link(-100, f"/proc/self/fd/{fd}".encode(), -100, b"by-descriptor", 0x400),
    )
"#;
    let control = case.control(&code.replace("TARGETS", "['inside']")).await;
    assert_eq!(control.stdout, "linked linked\n", "{control:?}");
    let session = case.session().await;
    let targets = "['/usr/bin/env', os.__file__, '/etc/passwd', '/proc/self/status']";
    let text = case
        .printed(&session, code.replace("TARGETS", targets))
        .await;
    assert_eq!(text, "EXDEV EXDEV\n".repeat(4));
    // To a descriptor itself: refused for lack of a capability, or as another file system.
    let empty = "fd = os.open('/usr/bin/env', os.O_RDONLY)\nprint(link(fd, b'', -100, b'empty', 0x1000) in ('EXDEV', 'ENOENT'))";
    assert_eq!(case.printed(&session, empty).await, "True\n");
    case.printed(
        &session,
        "open('mine', 'w').write('own')\nos.link('mine', 'yours')",
    )
    .await;
    assert_eq!(session.get("yours").unwrap(), b"own");
    case.end([session]).await;
}

/// All operations end at once, whatever stands there.
fn at_once<T>(what: &str, operation: impl FnOnce() -> T) -> T {
    let started = Stopwatch::start();
    let result = operation();
    assert!(
        started.elapsed() < seconds(2.0),
        "{what} took {:?}",
        started.elapsed()
    );
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn f7a_what_is_no_file() {
    let case = Case::begin(
        "F7a",
        Severity::HostDos,
        "a FIFO, a socket, a directory, links to devices where the host gets and puts",
        "refused at once as no regular file; listed as `other`, and deleted like any name",
    )
    .await;
    let session = case.session().await;
    let plant = r#"
import os, socket
os.mkfifo("fifo")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
os.mkdir("directory")
os.symlink("/dev/zero", "zero")
os.symlink("/dev/fd/0", "stdin")
"#;
    case.printed(&session, plant).await;
    for path in ["fifo", "socket", "zero", "stdin", "directory"] {
        let got = at_once(path, || session.get(path));
        assert!(not_regular(&got), "{path}: {got:?}");
        let put = at_once(path, || session.put(path, b"x"));
        assert!(not_regular(&put), "{path}: {put:?}");
        let below = at_once(path, || session.put(&format!("{path}/x"), b"x"));
        assert_eq!(below.is_ok(), path == "directory", "{path}: {below:?}");
    }
    session.delete("directory/x").unwrap();
    for entry in session.list("").unwrap().entries {
        let directory = entry.path == "directory";
        let kind = if directory {
            EntryKind::Directory
        } else {
            EntryKind::Other
        };
        assert_eq!((entry.kind, entry.size), (kind, 0), "{}", entry.path);
        session.delete(&entry.path).unwrap();
    }
    assert_eq!(session.list("").unwrap().entries, []);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7b_leases_and_locks() {
    let case = Case::begin(
        "F7b",
        Severity::HostDos,
        "a lease (F_SETLEASE) and locks on a file, so that whoever opens it waits",
        "no lease is given, and locks mean nothing to the host: it does not wait",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import fcntl
for name in ("leased", "locked"):
    open(name, "w").write("x")
leased = open("leased")
try: fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error: print(error.strerror)
locked = open("locked", "r+")
fcntl.flock(locked, fcntl.LOCK_EX)
fcntl.lockf(locked, fcntl.LOCK_EX)
"#;
    assert_eq!(case.printed(&session, code).await, "Invalid argument\n");
    let got = at_once("the other file", || session.get("leased"));
    assert_eq!(got.unwrap(), b"x");
    at_once("putting over it", || session.put("leased", b"new")).unwrap();
    assert_eq!(session.get("leased").unwrap(), b"new");
    assert_eq!(
        at_once("a locked file", || session.get("locked")).unwrap(),
        b"x"
    );
    at_once("listing", || session.list("")).unwrap();
    case.end([session]).await;
}

async fn changing(case: &Case, code: &str) -> Session {
    let session = case
        .session_with(Limits {
            transfer_bytes: 16 << 20,
            ..Limits::default()
        })
        .await;
    case.printed(&session, code).await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_truncated_while_it_is_read() {
    let case = Case::begin(
        "F11",
        Severity::HostDos,
        "a file is truncated and grown again without pause while the host reads it",
        "the host reads what is there: no SIGBUS, since it maps no file of a session",
    )
    .await;
    let session = changing(&case, "open('file', 'wb').write(b'x' * (8 << 20))").await;
    let run = session.run("import os\nwhile not os.path.exists('stop'):\n    os.truncate('file', 0)\n    with open('file', 'r+b') as file: file.write(b'x' * (8 << 20))");
    let started = Instant::now();
    let mut lengths = std::collections::BTreeSet::new();
    while started.elapsed() < seconds(0.7) {
        let contents = session.get("file").unwrap();
        assert!(
            contents.len() <= 8 << 20 && contents.iter().all(|byte| *byte == b'x' || *byte == 0)
        );
        lengths.insert(contents.len());
    }
    session.put("stop", b"").unwrap();
    assert!(run.await.unwrap().is_success());
    assert!(lengths.len() > 1, "the race was not run");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_growing_while_it_is_read() {
    let case = Case::begin(
        "F12",
        Severity::HostDos,
        "a file grows without end while the host reads it; another passes the limit of transfers between the look and the reading",
        "read up to the limit and then refused as too large, with bounded memory; never cut off as if it were whole",
    )
    .await;
    let session = changing(
        &case,
        "import os\nfile = open('file', 'wb', 0)\nfile.write(b'x' * (1 << 20))",
    )
    .await;
    let run = session.run("while not os.path.exists('stop'):\n    file.write(b'y' * (1 << 20))\n    if file.tell() > 64 << 20:\n        file.seek(0); file.truncate(1 << 20)\n        file.seek(1 << 20)");
    let limit = 16 << 20;
    let (mut whole, mut refused) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < seconds(0.8) {
        match session.get("file") {
            Ok(contents) => {
                assert!(contents.len() as u64 <= limit);
                whole += 1;
            }
            Err(Error::FileTooLarge {
                bytes, limit: told, ..
            }) => {
                assert!(bytes > limit && told == limit);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    session.put("stop", b"").unwrap();
    assert!(run.await.unwrap().is_success());
    assert!(
        whole > 0 && refused > 0,
        "the race was not run: {whole} {refused}"
    );
    case.end([session]).await;
}
