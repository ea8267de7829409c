//! Directories of the host in sessions (P12).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use belljar_sandbox::{
    Capability, Checkpoints, DirectoryError, Engine, Error, HostDirectory, Session, SessionOptions,
};
use tempfile::TempDir;

use crate::support::{bare_environment, builder, good, printed};

/// Somebody who is neither root nor the one who runs the tests.
const SOMEBODY: u32 = 4711;

/// A directory with a file that is closed to others. It belongs to somebody, where this test may give it away.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("table.csv");
    fs::write(&file, "a,b\n1,2\n").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    for path in [file.as_path(), directory.path()] {
        // An ordinary user can't, and needs not.
        let _ = chown(path, Some(SOMEBODY), Some(SOMEBODY + 1));
    }
    directory
}

fn engine(directories: impl IntoIterator<Item = HostDirectory>) -> Engine {
    let start = builder(bare_environment());
    directories
        .into_iter()
        .fold(start, belljar_sandbox::EngineBuilder::mount)
        .build()
}

async fn session(engine: &Engine, names: &[&str]) -> Result<Session, Error> {
    let options = SessionOptions {
        mounts: names.iter().map(|name| (*name).to_owned()).collect(),
        checkpoints: Checkpoints::Off,
        ..SessionOptions::default()
    };
    engine.session_with(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_read_and_not_written() {
    let directory = directory();
    let shown = HostDirectory::new("sales", directory.path()).unwrap();
    let engine = engine([shown]);
    let session = session(&engine, &["sales"]).await.unwrap();
    let code = "print(open('/data/sales/table.csv').read())\nimport os\nprint(os.listdir('/data'), os.stat('/data/sales').st_uid == os.getuid())";
    assert_eq!(
        printed(&session, code).await,
        "a,b\n1,2\n\n['sales'] True\n"
    );
    let writes = r"
import os
for write in (lambda: open('/data/sales/new', 'w'), lambda: open('/data/sales/table.csv', 'a'), lambda: os.remove('/data/sales/table.csv'),
              lambda: os.rename('/data/sales/table.csv', '/data/sales/x'), lambda: os.chmod('/data/sales', 0o777), lambda: os.mkdir('/data/x'),
              lambda: os.utime('/data/sales/table.csv')):
    try: print(write())
    except OSError as error: print(error.strerror)
";
    let refused = printed(&session, writes).await;
    assert!(
        refused.lines().all(|line| [
            "Read-only file system",
            "Permission denied",
            "Operation not permitted"
        ]
        .contains(&line)),
        "{refused}"
    );
    // Commands see it as well; a session that did not request it does not.
    assert_eq!(
        printed(&session, "!cat /data/sales/table.csv").await,
        "a,b\n1,2\n"
    );
    let other = engine.session().await.unwrap();
    assert_eq!(
        printed(
            &other,
            "import os; print(os.listdir('/data'), os.listdir('/var'))"
        )
        .await
        .replace("'host', ", "")
        .replace(", 'host'", ""),
        "[] ['empty']\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_belongs_to_the_owner_of_the_directory() {
    let directory = directory();
    let shown = HostDirectory::new("results", directory.path()).unwrap();
    let engine = engine([shown.writable()]);
    let session = session(&engine, &["results"]).await.unwrap();
    good(&session, "import os\nos.makedirs('/data/results/a/b')\nopen('/data/results/a/b/file', 'w').write('new')\nopen('/data/results/table.csv', 'a').write('3,4\\n')\nos.rename('/data/results/a/b/file', '/data/results/moved')\nos.remove('/data/results/moved')\nopen('/data/results/a/left', 'w').write('x')").await;
    let at = |name: &str| directory.path().join(name);
    assert_eq!(
        fs::read_to_string(at("table.csv")).unwrap(),
        "a,b\n1,2\n3,4\n"
    );
    let (own, left) = (
        fs::metadata(directory.path()).unwrap(),
        fs::metadata(at("a/left")).unwrap(),
    );
    assert_eq!((left.uid(), left.gid()), (own.uid(), own.gid()));
    assert!(!at("moved").exists());
    // The commands of a session write it as its cells do.
    good(&session, "!echo by a command > /data/results/command").await;
    assert_eq!(fs::read_to_string(at("command")).unwrap(), "by a command\n");
    // A fork tries things out: it reads.
    let fork = session.fork(1).await.unwrap().remove(0);
    let code = "print(len(open('/data/results/table.csv').read()))\ntry: open('/data/results/fork', 'w')\nexcept OSError as error: print(error.strerror)";
    assert_eq!(printed(&fork, code).await, "12\nPermission denied\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_is_refused() {
    let directory = directory();
    for name in ["", ".", "..", ".hidden", "a/b", "a b", "é", &"x".repeat(65)] {
        let refused = HostDirectory::new(name, directory.path());
        assert!(
            matches!(&refused, Err(DirectoryError::Name(given)) if given == name),
            "{refused:?}"
        );
    }
    for path in [
        directory.path().join("table.csv"),
        directory.path().join("none"),
    ] {
        let refused = HostDirectory::new("x", &path);
        assert!(
            matches!(refused, Err(DirectoryError::Path { .. })),
            "{refused:?}"
        );
    }
    let shown = HostDirectory::new("sales", directory.path()).unwrap();
    let engine = engine([shown.clone()]);
    let refused = session(&engine, &["salary"]).await;
    assert!(
        matches!(refused, Err(Error::Directory(DirectoryError::Unknown(_)))),
        "{refused:?}"
    );
    assert!(engine.capabilities().has(Capability::Directories));
    let open = builder(bare_environment())
        .mount(shown)
        .without_walls()
        .build();
    let refused = session(&open, &["sales"]).await;
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    // Where files would be created as root.
    let own = tempfile::tempdir().unwrap();
    if fs::metadata(own.path()).unwrap().uid() == 0 {
        let shown = HostDirectory::new("own", own.path()).unwrap();
        let engine = crate::directories::engine([shown.writable()]);
        let refused = session(&engine, &["own"]).await.unwrap_err();
        assert!(refused.to_string().contains("belongs to root"), "{refused}");
    }
}
