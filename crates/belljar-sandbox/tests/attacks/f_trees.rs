//! F: whole directories, `/tmp` and watches, while code in the session works against the host.

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::time::{Duration, Instant};

use belljar_sandbox::{ArchiveError, BeneathError, Error, FileEvent, Limits, Session};
use tar::{Builder, EntryType, Header};

use crate::harness::{Case, Severity};
use crate::support::{eventually, seconds};

/// `tree` is a directory and `link` leads to `/tmp/outside`; they change places until there is `stop`.
const RACE: &str = r"
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs('/tmp/outside/below')
open('/tmp/outside/below/kept', 'w').write('outside')
open('/tmp/outside/kept', 'w').write('outside')
os.makedirs('top')
os.symlink('/tmp/outside', 'top/link')
def fill():
    for i in range(20):
        os.makedirs(f'top/tree/below/{i}', exist_ok=True)
        open(f'top/tree/below/{i}/kept', 'w').write('inside')
fill()
";

const SWAP: &str = r"
open('racing', 'w').close()
while not os.path.exists('stop'):
    for i in range(200): libc.renameat2(-100, b'top/tree', -100, b'top/link', 2)
    try: fill()
    except OSError: pass
";

const OUTSIDE: &str = "print(open('/tmp/outside/kept').read(), open('/tmp/outside/below/kept').read(), len(os.listdir('/tmp/outside/below')))";

/// A session with the race, in which `act` is done as often as it takes to have both results.
async fn race(case: &Case, act: impl Fn(&Session) -> Result<(), Error>) -> Session {
    let limits = Limits {
        wall_time: seconds(60.0),
        ..Limits::default()
    };
    let session = case.session_with(limits).await;
    case.printed(&session, RACE).await;
    let run = session.run(SWAP);
    eventually("the race", || session.get("racing").is_ok()).await;
    let (mut done, mut refused, started) = (0, 0, Instant::now());
    while (done < 50 || refused < 50) && started.elapsed() < Duration::from_secs(20) {
        match act(&session) {
            Ok(()) => done += 1,
            Err(Error::File(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done > 0, "no race was run: {done} done, {refused} refused");
    session.put("stop", b"").unwrap();
    assert!(run.await.unwrap().is_success());
    // What `fill` wrote through the link is the session's own doing: all else is as it was.
    let left = case.printed(&session, OUTSIDE).await;
    assert!(left.starts_with("outside outside "), "{left}");
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_f27_a_tree_and_a_link_change_places_while_it_is_deleted() {
    let case = Case::begin(
        "F27",
        Severity::Escape,
        "RENAME_EXCHANGE of a directory and a link to /tmp without pause, while the host deletes the directory recursively",
        "directories are deleted with their contents, links alone: nothing behind a link is deleted",
    )
    .await;
    let session = race(&case, |session| session.delete_all("top/tree/below")).await;
    // The link itself may be deleted, too, but not what it leads to.
    session.delete_all("top").unwrap();
    let left = case.printed(&session, OUTSIDE).await;
    assert!(left.starts_with("outside outside "), "{left}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_f28_a_directory_and_a_link_change_places_while_files_are_renamed() {
    let case = Case::begin(
        "F28",
        Severity::Escape,
        "RENAME_EXCHANGE of a directory and a link to /tmp without pause, while the host renames files in and out of it and makes directories in it",
        "each is done inside the workspace or refused: nothing is moved or made behind the link",
    )
    .await;
    let session = race(&case, |session| {
        let _ = session.put("mine", b"mine");
        session.make_directory("top/tree/made")?;
        session.rename("mine", "top/tree/moved")?;
        session.rename("top/tree/moved", "mine")
    })
    .await;
    let outside =
        "print(os.path.exists('/tmp/outside/made'), os.path.exists('/tmp/outside/moved'))";
    assert_eq!(case.printed(&session, outside).await, "False False\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_f29_a_directory_and_a_link_change_places_while_it_is_packed() {
    let case = Case::begin(
        "F29",
        Severity::HostLeak,
        "RENAME_EXCHANGE of a directory and a link to /tmp without pause, while the host packs the directory and unpacks into it",
        "an archive has files of the workspace alone, and nothing is unpacked behind the link",
    )
    .await;
    let archive = archive(&[(EntryType::Regular, "unpacked", b"x")]);
    let session = race(&case, |session| {
        let mut packed = Vec::new();
        session.pack("top", 1 << 30, &mut packed)?;
        let mut packed = tar::Archive::new(Cursor::new(packed));
        for entry in packed.entries().unwrap() {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut entry.unwrap(), &mut text).unwrap();
            assert_ne!(text, "outside", "packed what is behind the link");
        }
        session.unpack("top/tree", &archive)
    })
    .await;
    drop(archive);
    let outside = "print(os.path.exists('/tmp/outside/unpacked'))";
    assert_eq!(case.printed(&session, outside).await, "False\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_directory_with_pipes_and_holes_is_packed() {
    let case = Case::begin(
        "F30",
        Severity::HostDos,
        "pack a directory with a FIFO, a socket, links to devices and to a secret of the host, names that are not UTF-8, and a sparse file of 1 GiB",
        "only regular files are read; the sparse file is refused by its size, before any of it is read",
    )
    .await;
    let session = case.session().await;
    let plant = format!(
        "import os, socket\nos.makedirs('d')\nos.mkfifo('d/pipe')\nsocket.socket(socket.AF_UNIX).bind('d/socket')\n\
         os.symlink('/dev/zero', 'd/zero')\nos.symlink({:?}, 'd/secret')\nopen('d/file', 'w').write('1')\n\
         open(b'd/\\xff', 'w').write('2')",
        case.canaries.file
    );
    case.printed(&session, plant).await;
    let mut packed = Vec::new();
    session.pack("d", 1 << 30, &mut packed).unwrap();
    let mut packed = tar::Archive::new(Cursor::new(packed));
    let names = packed.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!(entry.header().entry_type(), EntryType::Regular);
        entry.path().unwrap().display().to_string()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["file"]);
    case.printed(
        &session,
        "with open('d/hole', 'w') as f: f.truncate(1 << 30)",
    )
    .await;
    let started = Instant::now();
    let refused = session.pack("d", 1 << 30, std::io::sink());
    assert!(
        matches!(refused, Err(Error::FileTooLarge { .. })),
        "{refused:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(2));
    case.end([session]).await;
}

/// An archive of entries whose names are not checked.
fn archive(entries: &[(EntryType, &str, &[u8])]) -> File {
    let mut builder = Builder::new(tempfile::tempfile().unwrap());
    for (kind, name, contents) in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o7777);
        header.set_size(contents.len() as u64);
        if kind.is_symlink() || kind.is_hard_link() {
            let target = b"/tmp/outside";
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        }
        header.set_cksum();
        builder.append(&header, *contents).unwrap();
    }
    builder.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn f31_archives_with_entries_that_lead_elsewhere() {
    let case = Case::begin(
        "F31",
        Severity::Escape,
        "unpack archives with absolute paths, `..`, links and files through them, hard links, devices, FIFOs, sparse files and set-id bits",
        "refused as a whole before anything is written; files get the permissions 644 or 755",
    )
    .await;
    let session = case.session().await;
    case.printed(&session, "import os; os.makedirs('/tmp/outside')")
        .await;
    for hostile in [
        (EntryType::Regular, "/tmp/outside/x"),
        (EntryType::Regular, "../tmp/outside/x"),
        (EntryType::Regular, "a/../../x"),
        (EntryType::Directory, "../x"),
        (EntryType::Symlink, "link"),
        (EntryType::Link, "link"),
        (EntryType::Char, "device"),
        (EntryType::Block, "device"),
        (EntryType::Fifo, "pipe"),
        (EntryType::GNUSparse, "sparse"),
    ] {
        let (kind, name) = hostile;
        let entries = [
            (EntryType::Regular, "first", &b"1"[..]),
            (kind, name, b""),
            (EntryType::Regular, "link/x", b"1"),
        ];
        let refused = session.unpack("", &archive(&entries));
        assert!(
            matches!(&refused, Err(Error::Archive(ArchiveError::Entry { .. }))),
            "{hostile:?}: {refused:?}"
        );
        assert_eq!(session.list("").unwrap().entries, [], "{hostile:?}");
    }
    session
        .unpack("d", &archive(&[(EntryType::Regular, "x", b"1")]))
        .unwrap();
    assert_eq!(session.stat("d/x").unwrap().mode, 0o755);
    let outside = "print(os.listdir('/tmp/outside'), os.listdir('/tmp'))";
    assert_eq!(case.printed(&session, outside).await, "[] ['outside']\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_links_planted_where_an_archive_goes() {
    let case = Case::begin(
        "F32",
        Severity::Escape,
        "links, FIFOs and files planted at the directories and names of an archive, then it is unpacked; the same below /tmp",
        "refused: nothing is written through a link or into a FIFO",
    )
    .await;
    let session = case.session().await;
    let plant = "import os\nos.makedirs('/tmp/outside')\nfor top in ['.', '/tmp/in']:\n    os.makedirs(top, exist_ok=True)\n    os.symlink('/tmp/outside', top + '/linked')\n    os.mkfifo(top + '/pipe')\n    os.symlink('/tmp/outside/made', top + '/dangling')";
    case.printed(&session, plant).await;
    for top in ["", "/tmp/in"] {
        for name in ["linked/x", "pipe", "pipe/x", "dangling", "linked"] {
            let refused = session.unpack(top, &archive(&[(EntryType::Regular, name, b"1")]));
            assert!(
                matches!(refused, Err(Error::File(BeneathError::NotRegular(_)))),
                "{top} {name}: {refused:?}"
            );
        }
    }
    let refused = session.unpack("linked", &archive(&[(EntryType::Regular, "x", b"1")]));
    assert!(matches!(refused, Err(Error::File(_))), "{refused:?}");
    let outside = "print(os.listdir('/tmp/outside'))";
    assert_eq!(case.printed(&session, outside).await, "[]\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f33_archives_without_end() {
    let case = Case::begin(
        "F33",
        Severity::HostDos,
        "unpack archives with a million entries, a million headers for one name, a name of 64 MiB, directories 2,000 levels deep, a size of 8 EiB, more files than the session has memory for",
        "refused within seconds, without the memory that they announce; the session has its memory",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 256 << 20,
            ..Limits::default()
        })
        .await;
    let write = |parts: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut file = std::io::BufWriter::new(tempfile::tempfile().unwrap());
        for part in parts {
            file.write_all(&part).unwrap();
        }
        file.into_inner().unwrap()
    };
    let header = |kind, size: u64| {
        let mut header = Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let directory = header(EntryType::Directory, 0);
    let global = header(EntryType::XGlobalHeader, 0);
    let deep = "d/".repeat(2000).into_bytes();
    let long = |name: Vec<u8>| {
        let size = name.len() as u64;
        let rest = vec![0; name.len().next_multiple_of(512) - name.len()];
        [header(EntryType::GNULongName, size), name, rest]
    };
    let large = |_| [header(EntryType::Regular, 64 << 20), vec![1; 64 << 20]];
    let mut archives = [
        write(&mut (0..1_000_000).map(|_| directory.clone())),
        write(&mut (0..1_000_000).map(|_| global.clone())),
        write(&mut long(vec![b'a'; 64 << 20]).into_iter()),
        write(&mut long(deep).into_iter().chain([directory.clone()])),
        write(&mut [header(EntryType::Regular, u64::MAX >> 1)].into_iter()),
        write(&mut (0..6).flat_map(large)),
    ];
    for (number, archive) in archives.iter_mut().enumerate() {
        let started = Instant::now();
        let refused = session.unpack("", archive);
        assert!(
            matches!(
                refused,
                Err(Error::Archive(_) | Error::File(BeneathError::NoMemory { .. }))
            ),
            "{number}: {refused:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(10), "{number}");
        assert_eq!(session.list("").unwrap().entries, [], "{number}");
    }
    drop(archives);
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f34_trees_that_are_hard_to_delete() {
    let case = Case::begin(
        "F34",
        Severity::HostDos,
        "delete trees of 3,000 levels, with names that are not UTF-8, without permissions, and one that code refills without pause",
        "the deep one is refused with few descriptors of the host; the others are deleted, or refused within seconds",
    )
    .await;
    let session = case.session().await;
    let plant = "import os\ntop = os.getcwd()\nos.mkdir('deep'); os.chdir('deep')\nfor i in range(3000): os.mkdir('d'); os.chdir('d')\nos.chdir(top)\n\
        os.makedirs(b'odd/\\xff/\\xfe'); open(b'odd/\\xff/\\xfe/\\n', 'w').close()\n\
        os.makedirs('shut/in'); os.chmod('shut/in', 0); os.chmod('shut', 0)";
    case.printed(&session, plant).await;
    let deep = session.delete_all("deep");
    assert!(
        matches!(deep, Err(Error::File(BeneathError::TooDeep(_)))),
        "{deep:?}"
    );
    session.delete_all("odd").unwrap();
    // As an ordinary user the host has no more rights than the session.
    if let Err(error) = session.delete_all("shut") {
        assert!(!rustix::process::getuid().is_root(), "{error}");
    }
    let refill = "open('racing', 'w').close()\ni = 0\nwhile not os.path.exists('stop'):\n    i += 1\n    try: os.makedirs(f'full/{i % 50}', exist_ok=True); open(f'full/{i % 50}/{i}', 'w').close()\n    except OSError: pass";
    let run = session.run(refill);
    eventually("the race", || session.stat("full").is_ok()).await;
    for _ in 0..20 {
        let started = Instant::now();
        let deleted = session.delete_all("full");
        assert!(
            matches!(deleted, Ok(()) | Err(Error::File(_))),
            "{deleted:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    session.put("stop", b"").unwrap();
    assert!(run.await.unwrap().is_success());
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f35_another_tmp_in_its_place() {
    let case = Case::begin(
        "F35",
        Severity::Escape,
        "replace /tmp by a link, another directory or a mount; links in /tmp to secrets of the host and to the workspace; then the host reads and writes below /tmp",
        "/tmp can't be replaced, links in it are not followed, and the host reaches the session's own",
    )
    .await;
    let session = case.session().await;
    let plant = format!(
        r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
open('mine', 'w').write('workspace')
failed = []
for act in [
    lambda: os.rename('/tmp', '/tmp2'), lambda: os.rmdir('/tmp'), lambda: os.symlink('/workspace', '/tmp'),
    lambda: os.rename('/workspace', '/tmp'),
]:
    try: act()
    except OSError: failed.append(1)
failed.append(libc.mount(b'/workspace', b'/tmp', None, 4096, None) < 0)
failed.append(libc.umount2(b'/tmp', 2) < 0)
open('/tmp/own', 'w').write('tmp')
os.symlink('/workspace', '/tmp/up')
os.symlink({:?}, '/tmp/secret')
os.symlink('/', '/tmp/root')
print(len(failed), all(failed))
",
        case.canaries.file
    );
    assert_eq!(case.printed(&session, plant).await, "6 True\n");
    assert_eq!(session.get("/tmp/own").unwrap(), b"tmp");
    for path in ["/tmp/up/mine", "/tmp/secret", "/tmp/root/etc/passwd"] {
        let got = session.get(path);
        assert!(
            matches!(got, Err(Error::File(BeneathError::NotRegular(_)))),
            "{path}: {got:?}"
        );
        let put = session.put(path, b"x");
        assert!(matches!(put, Err(Error::File(_))), "{path}: {put:?}");
    }
    assert!(session.delete_all("/tmp").is_err());
    session.delete_all("/tmp/up").unwrap();
    session.delete_all("/tmp/root").unwrap();
    let look = "print(open('mine').read(), sorted(os.listdir('/tmp')))";
    assert_eq!(
        case.printed(&session, look).await,
        "workspace ['own', 'secret']\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f36_a_flood_of_changes() {
    let case = Case::begin(
        "F36",
        Severity::HostDos,
        "a watched directory in which 20,000 files are made, renamed and deleted while nobody reads; as many watches as possible; the directory is replaced by a link",
        "the queue is bounded and says that it overflowed; a session has at most 8 watches; the link is not followed",
    )
    .await;
    let session = case.session().await;
    case.printed(&session, "import os\nos.mkdir('d')").await;
    let mut watch = session.watch("d").unwrap();
    let flood = "for i in range(20000):\n    open(f'd/{i}', 'w').close(); os.rename(f'd/{i}', f'd/r{i}'); os.remove(f'd/r{i}')";
    case.printed(&session, flood).await;
    let (mut events, mut overflowed) = (0, 0);
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(1), watch.next()).await {
        match event.unwrap() {
            FileEvent::Changed { .. } => events += 1,
            FileEvent::Overflowed => overflowed += 1,
        }
    }
    assert_eq!(overflowed, 1);
    assert!(events < 80_000, "{events}");
    // It still works.
    case.printed(&session, "open('d/after', 'w').close()").await;
    let next = watch.next().await;
    assert!(
        matches!(&next, Some(FileEvent::Changed { name, .. }) if name == "after"),
        "{next:?}"
    );
    let more: Vec<_> = (0..7).map(|_| session.watch("d").unwrap()).collect();
    assert!(matches!(
        session.watch("d"),
        Err(Error::TooManyWatches { limit: 8 })
    ));
    drop(more);
    case.printed(
        &session,
        "os.rename('d', 'e'); os.symlink('/etc', 'd'); os.symlink('/proc/self/fd', 'f')",
    )
    .await;
    for path in ["d", "f", "/etc", "../x", "missing"] {
        let refused = session.watch(path);
        assert!(matches!(refused, Err(Error::File(_))), "{path}");
    }
    // The end of the directory ends its watch.
    case.printed(&session, "import shutil; shutil.rmtree('e')")
        .await;
    while watch.next().await.is_some() {}
    drop(watch);
    case.end([session]).await;
}
