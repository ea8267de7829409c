//! Q: directories of the host that a session sees.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use belljar_sandbox::{EngineBuilder, HostDirectory, Session, SessionOptions};
use tempfile::TempDir;

use crate::harness::{Case, Severity, environment_canary, is_on_forks};
use crate::support::{bare_environment, plain_builder};

/// Prints the name of each attempt, and the number of its error.
const ATTEMPT: &str = r#"
import errno, os, socket
def attempt(name, function, *arguments):
    try: print(name, "done", function(*arguments))
    except OSError as error: print(name, errno.errorcode[error.errno])
"#;

/// A directory of somebody else, in one that is named so that its path is seen if it is shown.
fn directory() -> TempDir {
    environment_canary();
    let above = tempfile::Builder::new()
        .prefix("belljar-path-of-the-host")
        .tempdir()
        .unwrap();
    let inside = above.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("table"), "1").unwrap();
    fs::write(above.path().join("beside"), "beside").unwrap();
    for path in [inside.clone(), inside.join("table")] {
        // An ordinary user can't, and needs not.
        let _ = chown(path, Some(4711), Some(4711));
    }
    above
}

fn builder(above: &TempDir, writable: bool) -> EngineBuilder {
    let shown = HostDirectory::new("data", &above.path().join("inside")).unwrap();
    let shown = if writable { shown.writable() } else { shown };
    plain_builder(bare_environment()).mount(shown)
}

async fn session(case: &Case) -> Session {
    let mounts = vec!["data".to_owned()];
    let options = SessionOptions {
        mounts,
        ..SessionOptions::default()
    };
    case.session_of(options).await
}

/// All that is below a directory.
fn tree(at: &Path) -> Vec<fs::DirEntry> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        }
        found.push(entry);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn q1_leaving_a_mount() {
    let above = directory();
    let case = Case::begin_on(
        builder(&above, true),
        "Q1",
        Severity::HostLeak,
        "out of a directory of the host: by .., by links that the host has in it, by /proc, by renaming a directory out of it",
        "`..` is the session's own /data; links lead to files of the session or to none; a rename stays in the mount",
    )
    .await;
    let inside = above.path().join("inside");
    symlink(&case.canaries.file, inside.join("absolute")).unwrap();
    symlink("../beside", inside.join("relative")).unwrap();
    symlink("/proc/1/root", inside.join("init")).unwrap();
    let session = session(&case).await;
    let code = r#"
print(os.listdir("/data/data/.."), os.listdir("/data/data/../..") == os.listdir("/"))
for name in ("absolute", "relative", "init/etc/shadow"):
    attempt(name, open, "/data/data/" + name)
attempt("handle", lambda: open("/proc/self/fd/%d/../beside" % os.open("/data/data", os.O_RDONLY)))
os.chdir("/data/data")
attempt("beside", open, "../beside")
attempt("rename", os.rename, "/data/data/table", "/workspace/table")
attempt("link", os.link, "/data/data/table", "/workspace/table")
"#;
    let text = case.printed(&session, format!("{ATTEMPT}{code}")).await;
    let refused = |line: &str| {
        ["ENOENT", "EACCES", "EXDEV", "EPERM"]
            .iter()
            .any(|error| line.ends_with(error))
    };
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(first, "['data'] True");
    assert!(
        rest.lines().count() == 7 && rest.lines().all(refused),
        "{text}"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q2_writing_a_read_only_mount() {
    let above = directory();
    let case = Case::begin_on(
        builder(&above, false),
        "Q2",
        Severity::Escape,
        "write, append, empty, rename, delete, chmod, chown, touch, link and make files in a directory that is shown read-only; remount it",
        "all refused; on the host nothing has changed",
    )
    .await;
    let inside = above.path().join("inside");
    let before = fs::metadata(inside.join("table")).unwrap();
    let session = session(&case).await;
    let code = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def mount(*arguments):
    if libc.mount(*arguments): raise OSError(ctypes.get_errno(), "")
path = "/data/data/table"
attempt("write", open, path, "r+b")
attempt("append", open, path, "ab")
attempt("empty", os.truncate, path, 0)
attempt("open and empty", os.open, path, os.O_RDONLY | os.O_TRUNC)
attempt("rename", os.rename, path, path + "2")
attempt("delete", os.unlink, path)
attempt("mode", os.chmod, path, 0o777)
attempt("owner", os.chown, path, 1000, 1000)
attempt("times", os.utime, path)
attempt("attribute", os.setxattr, path, "user.x", b"1")
attempt("link", os.symlink, "/tmp", "/data/data/link")
attempt("hard link", os.link, path, path + "3")
attempt("file", open, "/data/data/new", "w")
attempt("unnamed file", os.open, "/data/data", os.O_TMPFILE | os.O_WRONLY)
attempt("directory", os.mkdir, "/data/data/new")
attempt("beside", os.mkdir, "/data/new")
attempt("remount", mount, None, b"/data/data", None, 32 | 4096, None)
attempt("through /proc", lambda: open("/proc/self/fd/%d" % os.open(path, os.O_RDONLY), "w"))
"#;
    let text = case.printed(&session, format!("{ATTEMPT}{code}")).await;
    assert!(
        text.lines().count() == 18 && !text.contains(" done "),
        "{text}"
    );
    let after = fs::metadata(inside.join("table")).unwrap();
    assert_eq!(fs::read(inside.join("table")).unwrap(), b"1");
    let about = |of: &fs::Metadata| (of.mode(), of.uid(), of.nlink(), of.modified().unwrap());
    assert_eq!(about(&after), about(&before));
    assert_eq!(tree(&inside).len(), 1);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q3_set_user_id_files_for_the_host() {
    let above = directory();
    let case = Case::begin_on(
        builder(&above, true),
        "Q3",
        Severity::Escape,
        "leave a program in a writable directory that runs as its owner: by chmod, fchmod, open, creat, mknod, mkdir, openat2, a file capability",
        "refused: on the host no file has such a bit or capability",
    )
    .await;
    let session = session(&case).await;
    let code = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
os.umask(0)
os.chdir("/data/data")
for bits in (0o4000, 0o2000, 0o6000):
    mode = bits | 0o755
    attempt("chmod", os.chmod, "table", mode)
    attempt("fchmod", lambda: os.fchmod(os.open("table", os.O_RDWR), mode))
    attempt("open", os.open, "a", os.O_CREAT | os.O_WRONLY, mode)
    attempt("unnamed", os.open, ".", os.O_TMPFILE | os.O_WRONLY, mode)
    attempt("mknod", os.mknod, "b", mode)
    attempt("fchmodat2", call, 452, -100, b"table", mode, 0)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    attempt("openat2", call, 437, -100, b"c", ctypes.byref(how), 24)
    os.mkdir("d%o" % bits, mode)
attempt("capability", os.setxattr, "table", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
"#;
    if !is_on_forks() {
        let text = case.printed(&session, format!("{ATTEMPT}{code}")).await;
        assert!(
            text.lines().count() == 22 && !text.contains(" done "),
            "{text}"
        );
    }
    for entry in tree(&above.path().join("inside")) {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{entry:?} {mode:o}");
    }
    // Without walls such a file can be made.
    let control = "import os\nopen('f', 'w').close()\nos.chmod('f', 0o4755)\nprint(oct(os.stat('f').st_mode & 0o7000))";
    let control = case.control(control).await;
    assert_eq!(control.stdout, "0o4000\n", "{control:?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q4_other_things_than_files() {
    let above = directory();
    let case = Case::begin_on(
        builder(&above, true),
        "Q4",
        Severity::Escape,
        "leave links, FIFOs, sockets and devices in a writable directory, for programs of the host that read it",
        "refused: what is left is files and directories",
    )
    .await;
    let session = session(&case).await;
    let code = r#"
os.chdir("/data/data")
attempt("link", os.symlink, "/etc/shadow", "table2")
attempt("fifo", os.mkfifo, "fifo")
attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
attempt("device", os.mknod, "null", 0o20666, os.makedev(1, 3))
attempt("disk", os.mknod, "disk", 0o60666, os.makedev(8, 0))
def moved(make, name):
    make("/workspace/" + name)
    os.rename("/workspace/" + name, "/data/data/" + name)
attempt("link from elsewhere", moved, lambda path: os.symlink("/etc/shadow", path), "x")
attempt("fifo from elsewhere", moved, os.mkfifo, "y")
"#;
    let text = case.printed(&session, format!("{ATTEMPT}{code}")).await;
    assert!(
        text.lines().count() == 7 && !text.contains(" done "),
        "{text}"
    );
    for entry in tree(&above.path().join("inside")) {
        let kind = entry.file_type().unwrap();
        assert!(kind.is_file() || kind.is_dir(), "{entry:?}");
        assert!(!kind.is_fifo() && !kind.is_symlink(), "{entry:?}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q5_a_mount_of_another_session() {
    let above = directory();
    let case = Case::begin_on(
        builder(&above, true),
        "Q5",
        Severity::Lateral,
        "from a session without it: look for a directory of the host that others have; and from any, for its path on the host",
        "/data is empty, what the engine offers is hidden; no list of mounts has the path",
    )
    .await;
    let (one, other) = (session(&case).await, case.session().await);
    let code = r#"
import glob, subprocess
print(os.listdir("/data"))
seen = []
for name in ("mountinfo", "mounts", "mountstats"):
    for path in glob.glob("/proc/*/" + name):
        try: seen.append(open(path).read())
        except OSError: pass
found = subprocess.run(["find", "/", "-xdev", "-name", "table"], capture_output=True, text=True).stdout
print("path-of-the-host" in "".join(seen), found.split(), os.listdir("/var/host") if os.path.exists("/var/host") else [])
"#;
    let code = format!("{ATTEMPT}{code}");
    assert_eq!(
        case.printed(&other, code.as_str()).await,
        "[]\nFalse [] []\n"
    );
    assert_eq!(
        case.printed(&one, code.as_str()).await,
        "['data']\nFalse [] []\n"
    );
    case.end([one, other]).await;
}
