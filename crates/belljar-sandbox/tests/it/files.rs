//! Files of a workspace (ENV-4) and what a cell did to them.

use std::io::Write;

use belljar_sandbox::protocol::ArtifactChange;
use belljar_sandbox::{BeneathError, EntryKind, Error, Limits};

use crate::support::{good, printed, session, session_with};

/// ENV-4: files in and out; artifacts are listed with what happened to them.
#[tokio::test]
async fn env_4_files_in_and_out() {
    let session = session().await;
    session.put("data/in.csv", "a,b\n1,2\n".as_bytes()).unwrap();
    let outcome = good(&session, "text = open('data/in.csv').read()\nopen('out.txt', 'w').write(text.upper())\nimport os\nos.makedirs('plots')\nopen('plots/图.txt', 'w').write('1')").await;
    let artifacts: Vec<(&str, ArtifactChange)> = outcome
        .artifacts
        .iter()
        .map(|a| (a.path.as_str(), a.change))
        .collect();
    assert_eq!(
        artifacts,
        [
            ("out.txt", ArtifactChange::Created),
            ("plots/图.txt", ArtifactChange::Created)
        ]
    );
    assert_eq!(session.get("out.txt").unwrap(), b"A,B\n1,2\n");
    session.put("put-between.txt", b"host").unwrap();
    let outcome = good(&session, "open('out.txt', 'a').write('more')").await;
    assert_eq!(outcome.artifacts.len(), 1, "{:?}", outcome.artifacts);
    assert_eq!(outcome.artifacts[0].change, ArtifactChange::Changed);
    assert_eq!(printed(&session, "open('data/in.csv', 'a').write('x')\nprint(os.stat('data/in.csv').st_uid == os.getuid())").await, "True\n");

    let listing = session.list("").unwrap();
    let paths: Vec<&str> = listing.entries.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "data",
            "data/in.csv",
            "out.txt",
            "plots",
            "plots/图.txt",
            "put-between.txt"
        ]
    );
    session.delete("out.txt").unwrap();
    assert!(matches!(session.get("out.txt"), Err(Error::File(_))));
}

/// Links, pipes and paths that lead outside are refused, whatever the code plants.
#[tokio::test]
async fn planted_links_lead_nowhere() {
    let session = session().await;
    good(&session, "import os\nos.symlink('/etc/passwd', 'leak')\nos.symlink('/', 'root')\nos.symlink('/proc/self/root/etc', 'magic')\nos.mkfifo('pipe.csv')\nos.mkdir('dir')").await;
    for path in [
        "leak",
        "root/etc/passwd",
        "magic/passwd",
        "pipe.csv",
        "../etc/passwd",
        "/etc/passwd",
        "dir",
    ] {
        let result = session.get(path);
        assert!(matches!(result, Err(Error::File(_))), "{path}: {result:?}");
    }
    for path in ["leak", "root/tmp/x", "magic/x", "pipe.csv", "dir"] {
        let result = session.put(path, b"x");
        assert!(matches!(result, Err(Error::File(_))), "{path}: {result:?}");
    }
    let kinds: Vec<EntryKind> = session
        .list("")
        .unwrap()
        .entries
        .iter()
        .map(|e| e.kind)
        .collect();
    assert!(kinds.contains(&EntryKind::Other) && kinds.contains(&EntryKind::Directory));
}

/// The kernel resolves each path while code inside swaps a directory and a link.
#[tokio::test(flavor = "multi_thread")]
async fn swapping_a_directory_for_a_link_wins_nothing() {
    let session = session().await;
    good(&session, "import os, ctypes\nos.mkdir('a'); open('a/passwd', 'w').write('inside')\nos.symlink('/etc', 'b')").await;
    let swap = "libc = ctypes.CDLL(None)\nimport time\nend = time.time() + 2\nwhile time.time() < end:\n    libc.renameat2(-100, b'a', -100, b'b', 2)";
    let run = session.run(swap);
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..20_000 {
        match session.get("a/passwd") {
            Ok(contents) => {
                assert_eq!(contents, b"inside");
                inside += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(run.await.unwrap().is_success());
    assert!(
        inside > 0 && refused > 0,
        "the race was run: {inside} {refused}"
    );
}

/// Sizes are capped on both ways; a sparse file of any size is refused before it is read.
#[tokio::test]
async fn sizes_are_capped() {
    let session = session_with(Limits {
        transfer_bytes: 1000,
        ..Limits::default()
    })
    .await;
    assert!(matches!(
        session.put("big", &[0; 1001]),
        Err(Error::FileTooLarge { .. })
    ));
    good(
        &session,
        "f = open('sparse', 'wb'); f.truncate(1 << 29); f.close()",
    )
    .await;
    assert!(matches!(
        session.get("sparse"),
        Err(Error::FileTooLarge { .. })
    ));
}

/// The workspace is there to read after the session's process died.
#[tokio::test]
async fn files_outlive_a_crash() {
    let session = session().await;
    session
        .run("open('result', 'w').write('kept')\nimport os\nos._exit(1)")
        .await
        .unwrap();
    assert_eq!(session.get("result").unwrap(), b"kept");
}

/// A file goes in and out without being held in memory, within the same limit, whole or not at all.
#[tokio::test]
async fn files_as_streams() {
    let session = session_with(Limits {
        transfer_bytes: 1000,
        ..Limits::default()
    })
    .await;
    session.put_from("one", &mut [7; 1000].as_slice()).unwrap();
    let mut contents = Vec::new();
    let mut file = session.open("one").unwrap();
    std::io::Read::read_to_end(&mut file, &mut contents).unwrap();
    assert_eq!(contents, [7; 1000]);
    let endless = session.put_from("one", &mut std::io::repeat(8));
    assert!(matches!(endless, Err(Error::FileTooLarge { .. })));
    assert_eq!(session.get("one").unwrap(), [7; 1000]);
    assert_eq!(session.list("").unwrap().entries.len(), 1);
    good(&session, "open('two', 'w').write('x' * 1001)").await;
    assert!(matches!(
        session.open("two"),
        Err(Error::FileTooLarge { .. })
    ));
}

/// Who ends a session that others use ends what they do with it.
#[tokio::test]
async fn a_shared_session_is_ended() {
    let session = session().await;
    let mut running = session.run("import time\ntime.sleep(20)");
    running.next().await.unwrap().unwrap();
    session.end();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(5), running.outcome());
    let ended = ended.await.expect("the cell continues");
    assert!(!ended.is_ok_and(|outcome| outcome.is_success()));
    assert!(matches!(session.run("1").await, Err(Error::Ended(_))));
}

fn in_use(session: &belljar_sandbox::Session) -> u64 {
    session.in_use().unwrap().memory_bytes.unwrap()
}

/// What the host writes counts towards the session's memory: when it is put, and when it wakes.
#[tokio::test(flavor = "multi_thread")]
async fn files_from_the_host_are_charged_to_the_session() {
    let session = session().await;
    good(&session, "1").await;
    let before = in_use(&session);
    let contents = vec![7; 40_000_000];
    session.put("one", &contents).unwrap();
    session.put_from("two", &mut contents.as_slice()).unwrap();
    let source = tempfile::tempfile().unwrap();
    (&source).write_all(&contents).unwrap();
    session.put_file("three", &source).unwrap();
    assert_eq!(session.get("three").unwrap(), contents);
    let now = in_use(&session);
    assert!(now > before + 120_000_000, "{before} {now}");
    session.delete("two").unwrap();
    session.delete("three").unwrap();
    let now = in_use(&session);
    assert!(now < before + 50_000_000, "{before} {now}");

    let forks = session.fork(1).await.unwrap();
    let (fork, parent) = (&forks[0], in_use(&session));
    let before = in_use(fork);
    fork.put("three", &contents).unwrap();
    let now = in_use(fork);
    assert!(now > before + 40_000_000, "{before} {now}");
    assert!(in_use(&session) < parent + 1_000_000);
    drop(forks);

    session.hibernate().await.unwrap();
    session.wake().await.unwrap();
    let now = in_use(&session);
    assert!(now > 40_000_000, "{now}");
    assert_eq!(session.get("one").unwrap(), contents);
}

/// A source that reports each read, and waits until it may continue.
struct Paused {
    left: usize,
    reading: std::sync::mpsc::Sender<()>,
    go_on: std::sync::mpsc::Receiver<()>,
}

impl std::io::Read for Paused {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let _ = self.reading.send(());
        let _ = self.go_on.recv();
        let read = self.left.min(buffer.len());
        buffer[..read].fill(7);
        self.left -= read;
        Ok(read)
    }
}

/// What ends the processes of a session does not end a file on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_on_its_way_outlives_a_restore() {
    let session = std::sync::Arc::new(session().await);
    good(&session, "x = 1").await;
    session.checkpoint("before").await.unwrap();
    good(&session, "x = 2").await;
    let (reading, is_reading) = std::sync::mpsc::channel();
    let (may_go_on, go_on) = std::sync::mpsc::channel();
    let putting = std::sync::Arc::clone(&session);
    let put = tokio::task::spawn_blocking(move || {
        let mut source = Paused {
            left: 1_000_000,
            reading,
            go_on,
        };
        putting.put_from("slow", &mut source)
    });
    is_reading.recv().unwrap();
    // Some of it is written.
    may_go_on.send(()).unwrap();
    is_reading.recv().unwrap();
    session.restore("before").await.unwrap();
    drop(may_go_on);
    put.await.unwrap().unwrap();
    let looked = "import os; print(x, os.path.getsize('slow'))";
    assert_eq!(printed(&session, looked).await, "1 1000000\n");
}

/// What a file is, directories, other names, and whole directories that go.
#[tokio::test]
async fn files_are_described_renamed_and_removed() {
    let session = session().await;
    session.make_directory("a/b").unwrap();
    session.make_directory("a/b").unwrap();
    session.put("a/b/file", b"12345").unwrap();
    good(
        &session,
        "import os; os.chmod('a/b/file', 0o640); os.utime('a/b/file', (1, 1_700_000_000))",
    )
    .await;
    let status = session.stat("a/b/file").unwrap();
    assert_eq!(
        (status.kind, status.size, status.mode),
        (EntryKind::File, 5, 0o640)
    );
    let modified = status
        .modified
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(modified.as_secs(), 1_700_000_000);
    assert_eq!(session.stat("a").unwrap().kind, EntryKind::Directory);
    assert_eq!(session.stat("").unwrap().kind, EntryKind::Directory);
    session.rename("a/b/file", "new/place/name").unwrap();
    assert!(matches!(
        session.stat("a/b/file"),
        Err(Error::File(BeneathError::NotFound(_)))
    ));
    assert_eq!(session.get("new/place/name").unwrap(), b"12345");
    assert!(session.rename("nothing", "x").is_err());
    good(&session, "for i in range(300):\n    os.makedirs(f'many/{i % 7}/{i}'); open(f'many/{i % 7}/{i}/f', 'w').close()\nos.symlink('/etc', 'many/link')").await;
    assert!(session.delete("many").is_err());
    session.delete_all("many").unwrap();
    assert_eq!(
        printed(
            &session,
            "print(os.path.exists('many'), os.path.exists('/etc/passwd'))"
        )
        .await,
        "False True\n"
    );
    assert!(session.delete_all("many").is_err());
}

/// Code in the session knows its files by absolute names; whoever is outside can use the same.
#[tokio::test]
async fn the_workspace_has_four_names() {
    let session = session().await;
    session.put("/workspace/x", b"1").unwrap();
    for path in ["x", "/home/user/x", "~/x", "/workspace/x"] {
        assert_eq!(session.get(path).unwrap(), b"1", "{path}");
        session.stat(path).unwrap();
    }
    assert_eq!(session.list("/home/user").unwrap().entries.len(), 1);
    assert_eq!(
        printed(&session, "print(open('/home/user/x').read())").await,
        "1\n"
    );
    for path in ["/etc/passwd", "/workspacex", "/home/user/../x", "~root/x"] {
        assert!(session.get(path).is_err(), "{path}");
    }
    let denied = session.get("/etc/passwd").unwrap_err().to_string();
    assert!(denied.contains("permission denied"), "{denied}");
    assert!(denied.contains("`/tmp`"), "{denied}");
}

/// What is in the way of a directory or of a new name is named, and stays.
#[tokio::test]
async fn nothing_is_replaced_by_another_kind() {
    let session = session().await;
    session.put("file", b"1").unwrap();
    session.put("full/file", b"2").unwrap();
    session.make_directory("full").unwrap();
    let exists = |result: Result<(), Error>, path: &str| match result {
        Err(Error::File(BeneathError::Exists(found))) => assert_eq!(found, path),
        result => panic!("{path}: {result:?}"),
    };
    exists(session.make_directory("file"), "file");
    exists(session.make_directory("file/below"), "file/below");
    exists(session.rename("file", "full"), "full");
    exists(session.rename("full", "file"), "file");
    assert!(session.rename("full", "full/below").is_err());
    assert_eq!(session.get("file").unwrap(), b"1");
    assert_eq!(session.get("full/file").unwrap(), b"2");
    // A file is replaced, as by `mv`.
    session.rename("full/file", "file").unwrap();
    assert_eq!(session.get("file").unwrap(), b"2");
}

/// `/tmp` of the session, by the same calls.
#[tokio::test]
async fn files_of_tmp_are_reached() {
    let session = session().await;
    good(&session, "import os; open('/tmp/inside', 'w').write('1')").await;
    assert_eq!(session.get("/tmp/inside").unwrap(), b"1");
    session.put("/tmp/a/b", b"from outside").unwrap();
    session.put("tmp/a", b"in the workspace").unwrap();
    let code = "print(open('/tmp/a/b').read(), os.stat('/tmp/a/b').st_uid == os.getuid())";
    assert_eq!(printed(&session, code).await, "from outside True\n");
    let paths = |listing: belljar_sandbox::Listing| -> Vec<String> {
        listing
            .entries
            .into_iter()
            .map(|entry| entry.path)
            .collect()
    };
    let all = ["/tmp/a", "/tmp/a/b", "/tmp/inside"];
    assert_eq!(paths(session.list("/tmp").unwrap()), all);
    assert_eq!(paths(session.list("/tmp/a/").unwrap()), ["/tmp/a/b"]);
    assert_eq!(session.stat("/tmp").unwrap().kind, EntryKind::Directory);
    assert_eq!(session.stat("/tmp/inside").unwrap().size, 1);
    session.make_directory("/tmp/c/d").unwrap();
    session.rename("/tmp/a/b", "/tmp/c/d/e").unwrap();
    assert_eq!(session.get("/tmp/c/d/e").unwrap(), b"from outside");
    // From one file system to another.
    for (from, to) in [("/tmp/inside", "x"), ("tmp/a", "/tmp/x")] {
        let moved = session.rename(from, to);
        assert!(matches!(
            moved,
            Err(Error::File(BeneathError::BadPath { .. }))
        ));
    }
    session.delete("/tmp/inside").unwrap();
    session.delete_all("/tmp/c").unwrap();
    let gone = session.get("/tmp/inside").unwrap_err().to_string();
    assert_eq!(gone, "`/tmp/inside` does not exist");
    assert_eq!(paths(session.list("/tmp").unwrap()), ["/tmp/a"]);
    // A size of its own.
    let large = vec![0; 300 << 20];
    assert!(session.put("/tmp/large", &large[..200 << 20]).is_ok());
    assert!(session.put("/tmp/more", &large[..100 << 20]).is_err());
    assert_eq!(
        paths(session.list("/tmp").unwrap()),
        ["/tmp/a", "/tmp/large"]
    );
}

/// After hibernation `/tmp` is another one, and empty; a fork has its parent's.
#[tokio::test]
async fn tmp_is_that_of_the_session_now() {
    let session = session().await;
    session.put("/tmp/x", b"1").unwrap();
    session.put("x", b"2").unwrap();
    let fork = session.fork(1).await.unwrap().remove(0);
    assert_eq!(fork.get("/tmp/x").unwrap(), b"1");
    fork.put("/tmp/of-fork", b"3").unwrap();
    assert_eq!(session.get("/tmp/of-fork").unwrap(), b"3");
    fork.put("own", b"4").unwrap();
    let own = printed(&fork, "import os; print(os.path.abspath('own'))").await;
    assert_eq!(fork.get(own.trim()).unwrap(), b"4");
    assert!(session.get("own").is_err());
    fork.close().await.unwrap();
    session.hibernate().await.unwrap();
    assert!(matches!(session.get("/tmp/x"), Err(Error::Hibernated)));
    session.wake().await.unwrap();
    let gone = session.get("/tmp/x");
    assert!(matches!(gone, Err(Error::File(BeneathError::NotFound(_)))));
    assert_eq!(session.get("x").unwrap(), b"2");
    session.put("/tmp/new", b"5").unwrap();
    assert_eq!(
        printed(&session, "print(open('/tmp/new').read())").await,
        "5\n"
    );
}
