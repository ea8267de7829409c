//! F: files in and out: their paths and names.

use std::path::Path;

use belljar_sandbox::{EntryKind, Error};
use belljar_walls::BeneathError;

use crate::harness::{Case, Severity, is_on_forks};

fn bad_path<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(
        result,
        Err(Error::File(
            BeneathError::BadPath { .. } | BeneathError::Outside(_)
        ))
    )
}

pub(crate) fn not_regular<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::File(BeneathError::NotRegular(_))))
}

fn not_found<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::File(BeneathError::NotFound(_))))
}

#[tokio::test(flavor = "multi_thread")]
async fn f1a_paths_that_are_none() {
    let case = Case::begin(
        "F1a",
        Severity::Escape,
        "get, put, list and delete with ../, absolute paths, NUL, nothing, 5,000 characters, `.` and `..` and empty parts",
        "refused by name before anything is opened, by all four alike",
    )
    .await;
    let session = case.session().await;
    let long = "x".repeat(5000);
    let deep = "x/".repeat(2500) + "x";
    let host = case.canaries.file.to_str().unwrap();
    for path in [
        "..",
        "../x",
        "../../../../../../etc/passwd",
        "a/../../x",
        "a/..",
        "./a",
        "a/./b",
        "a//b",
        "/etc/passwd",
        "/workspace/../a",
        "/workspace//a",
        "/home/user/../../etc/passwd",
        "~/../x",
        "/tmp/../etc/passwd",
        "/tmp//x",
        "/tmpx",
        "/dev/shm/x",
        "a\0b",
        "\0",
        &long,
        &deep,
    ] {
        assert!(
            bad_path(&session.get(path)),
            "{path:?}: {:?}",
            session.get(path)
        );
        assert!(bad_path(&session.put(path, b"x")), "{path:?}");
        assert!(bad_path(&session.delete(path)), "{path:?}");
        assert!(bad_path(&session.delete_all(path)), "{path:?}");
        assert!(bad_path(&session.stat(path)), "{path:?}");
        assert!(bad_path(&session.make_directory(path)), "{path:?}");
        assert!(bad_path(&session.rename(path, "x")), "{path:?}");
        assert!(
            bad_path(&session.list(path)),
            "{path:?}: {:?}",
            session.list(path)
        );
    }
    // The workspace itself has names for listing, and for nothing else.
    for path in ["", ".", "/", "//"] {
        assert_eq!(session.list(path).unwrap().entries, []);
        assert!(
            session.get(path).is_err()
                && session.put(path, b"x").is_err()
                && session.delete(path).is_err(),
            "{path:?}"
        );
    }
    // Where the host has its secret, the session has its own `/tmp`, or nothing.
    let got = session.get(host);
    assert!(not_found(&got) || bad_path(&got), "{got:?}");
    // A component over the kernel's 255 bytes is the kernel's error, not a crash.
    let name = "n".repeat(256);
    let put = session.put(&name, b"x");
    assert!(
        matches!(put, Err(Error::File(BeneathError::Io { .. }))),
        "{put:?}"
    );
    assert_eq!(session.list("").unwrap().entries, []);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1b_names_that_only_look_so() {
    let case = Case::begin(
        "F1b",
        Severity::Integrity,
        "%2e%2e%2f, %252e, backslashes, `...`, `~`, `C:`, `$HOME`, NFC and NFD of the same word",
        "ordinary names: nothing is decoded, expanded or normalised; each is its own file",
    )
    .await;
    let session = case.session().await;
    let names = [
        "%2e%2e%2fetc%2fpasswd",
        "%252e%252e",
        "..\\..\\etc",
        "\\\\host\\share",
        "...",
        "~",
        "~root",
        "C:",
        "$HOME",
        "-rf",
        "*",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{ff0e}\u{ff0e}",
        " ",
    ];
    for name in names {
        session.put(name, name.as_bytes()).unwrap();
    }
    for name in names {
        assert_eq!(session.get(name).unwrap(), name.as_bytes(), "{name}");
    }
    let listing = session.list("").unwrap();
    assert_eq!(listing.entries.len(), names.len());
    let text = case
        .printed(
            &session,
            "import os\nprint(len(os.listdir()), all(open(n).read() == n for n in os.listdir()))",
        )
        .await;
    assert_eq!(text, format!("{} True\n", names.len()));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_link_to_a_host_file() {
    let case = Case::begin(
        "F2",
        Severity::HostLeak,
        "symbolic links to files of the host, and through /proc/self/root",
        "no file is got or put through them",
    )
    .await;
    let secret = case.canaries.file.clone();
    let directory = secret.parent().unwrap().display();
    let links = format!(
        "import os\nos.symlink('{directory}/secret.txt', 'leak')\nos.symlink('/proc/self/root{directory}', 'd')\nos.symlink('/proc/{}/root/', 'host')",
        std::process::id()
    );
    let read = format!("{links}\nprint(open('leak').read()[:6], open('d/secret.txt').read()[:6])");
    let control = case.control(&read).await;
    assert_eq!(control.stdout, "CANARY CANARY\n", "{control:?}");
    let session = case.session().await;
    case.fails(&session, read).await;
    for path in ["leak", "d/secret.txt", "host/etc/passwd"] {
        let got = session.get(path);
        assert!(matches!(got, Err(Error::File(_))), "{path}: {got:?}");
        let put = session.put(path, b"planted");
        assert!(matches!(put, Err(Error::File(_))), "{path}: {put:?}");
    }
    let text = std::fs::read_to_string(&secret).unwrap();
    assert!(text.starts_with("CANARY-"), "the host's file was written");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_magic_links() {
    let case = Case::begin(
        "F10",
        Severity::HostLeak,
        "/proc/self/root, /proc/self/cwd, /proc/self/fd/N, /proc/1/root, as paths and behind links",
        "refused as paths; behind links they are links, and not followed, by the kernel's own resolution",
    )
    .await;
    let session = case.session().await;
    let plant = r#"
import os
keep = os.open("/etc", os.O_RDONLY)
for name, target in {
    "root": "/proc/self/root", "cwd": "/proc/self/cwd", "one": "/proc/1/root",
    "fd": f"/proc/{os.getpid()}/fd/{keep}", "exe": "/proc/self/exe", "up": "..", "here": ".",
}.items():
    os.symlink(target, name)
open("file", "w").write("x")
"#;
    case.printed(&session, plant).await;
    for path in [
        "/proc/self/root/etc/passwd",
        "/proc/self/fd/3",
        "/proc/1/root",
        "/dev/fd/3",
    ] {
        assert!(
            bad_path(&session.get(path)) && bad_path(&session.put(path, b"")),
            "{path}"
        );
    }
    for path in [
        "root/etc/passwd",
        "cwd/file",
        "one/etc/passwd",
        "fd/passwd",
        "exe",
        "up/etc/passwd",
        "here/file",
        "root",
    ] {
        let (got, listed) = (session.get(path), session.list(path));
        assert!(not_regular(&got), "{path}: {got:?}");
        assert!(not_regular(&listed), "{path}: {listed:?}");
        assert!(not_regular(&session.put(path, b"x")), "{path}");
    }
    for path in [
        "root/etc/passwd",
        "one/etc/passwd",
        "up/etc/passwd",
        "here/file",
    ] {
        assert!(not_regular(&session.delete(path)), "{path}");
    }
    // A path that starts like one of /proc is an ordinary one.
    assert!(not_found(&session.get("proc/self/root/etc/passwd")));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_hostile_names() {
    let case = Case::begin(
        "F13",
        Severity::Integrity,
        "names with line breaks, quotes, control sequences, text direction marks, bytes that are no UTF-8, 255 bytes, a `-` in front",
        "told as they are in lists and artifacts, which stay valid JSON; bytes that are no UTF-8 are replaced or escaped; a name that is text opens its file",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import os
names = [
    b"line\nbreak", b'quote"\'`;', b"\x1b[2J\x07", "\u202egnp.exe".encode(), "\u200b".encode(),
    b"a: b\r\nSet-Cookie: c", b"-rf", b"\xff\xfe", b"\xed\xa0\x80", b"n" * 255, b"<script>", "\U000e0041".encode(),
]
for name in names:
    open(name, "wb").write(name)
os.mkdir(b"\xffdirectory")
open(b"\xffdirectory/inner", "w").close()
"#;
    let outcome = case.outcome(&session, code).await;
    assert!(outcome.is_success(), "{outcome:#?}");
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(
        serde_json::from_str::<belljar_sandbox::protocol::Outcome>(&text).unwrap(),
        outcome
    );
    assert_eq!(outcome.artifacts.len(), 13, "{:#?}", outcome.artifacts);
    assert!(
        outcome
            .artifacts
            .iter()
            .any(|artifact| artifact.path == "\\udcff\\udcfe")
    );
    let listing = session.list("").unwrap();
    // What is beneath a name that is no text can't be named, and is left out.
    assert_eq!(listing.entries.len(), 13, "{listing:#?}");
    let mut opened = 0;
    for entry in &listing.entries {
        if entry.path.contains('\u{fffd}') {
            assert!(not_found(&session.get(&entry.path)), "{}", entry.path);
        } else {
            assert_eq!(session.get(&entry.path).unwrap(), entry.path.as_bytes());
            opened += 1;
        }
    }
    assert_eq!(opened, 10);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_nothing_of_the_workspace_runs() {
    let case = Case::begin(
        "F15",
        Severity::Escape,
        "programs, hooks and settings planted for tools of the host: .git/hooks, bin/python, conftest.py, .envrc, Makefile, libraries",
        "the host reads and writes files of the workspace and runs none; where the files are, it has no name for them",
    )
    .await;
    let session = case.session().await;
    let code = r##"
import os
program = "#!/bin/sh\ntouch /workspace/ran\n"
for path in (
    ".git/hooks/post-checkout", ".git/hooks/pre-commit", ".git/fsmonitor", "bin/python", "bin/python3", "python",
    "git", "sh", "belljar", ".venv/bin/python", "Makefile", ".envrc", ".bashrc", ".profile", "conftest.py",
    "setup.py", "build.rs", "pyproject.toml", "libc.so.6", "ld.so.preload",
):
    if "/" in path: os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(program)
    os.chmod(path, 0o755)
open(".git/config", "w").write("[core]\nfsmonitor = .git/fsmonitor\nhooksPath = .git/hooks\n")
"##;
    case.printed(&session, code).await;
    for entry in session.list("").unwrap().entries {
        if entry.kind == EntryKind::File {
            let contents = session.get(&entry.path).unwrap();
            session.put(&entry.path, &contents).unwrap();
        }
    }
    session.delete("python").unwrap();
    session.manifest().await.unwrap();
    session.complete("import g", 8).await.unwrap();
    let next = case.session().await;
    assert!(not_found(&session.get("ran")));
    // No process of the host can start them by a path of its own.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("/workspace"), "{mounts}");
    assert!(!Path::new("/workspace/.git/hooks/pre-commit").exists());
    case.end([session, next]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f20_the_boundary_is_the_hosts() {
    let case = Case::begin(
        "F20",
        Severity::Escape,
        "the code goes to another directory, changes its root, renames, replaces or mounts over /workspace, sets PWD and HOME",
        "each but the first is refused; paths still mean the workspace that the host made",
    )
    .await;
    let code = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(function, *arguments):
    try:
        result = function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode[ctypes.get_errno()] if result == -1 else "done"
os.makedirs(SCRATCH + "/new")
os.makedirs(SCRATCH + "/other")
print(
    attempt(os.chdir, SCRATCH),
    attempt(libc.mount, SCRATCH.encode() + b"/new", SCRATCH.encode() + b"/other", None, 4096, None),
    attempt(os.chroot, SCRATCH + "/new"),
)
"#;
    let control = case.control(&code.replace("SCRATCH", "'/mnt'")).await;
    assert_eq!(control.stdout, "done done done\n", "{control:?}");
    let session = case.session().await;
    let text = case
        .printed(&session, code.replace("SCRATCH", "'/tmp'"))
        .await;
    assert_eq!(text, "done EPERM EPERM\n");
    let code = r#"
os.environ.update(PWD="/etc", HOME="/etc", TMPDIR="/etc")
print(
    attempt(os.rename, "/workspace", "/tmp/workspace"),
    attempt(os.rmdir, "/workspace"),
    attempt(os.symlink, "/etc", "/workspace"),
    attempt(libc.umount2, b"/workspace", 2),
    attempt(libc.syscall, 155, b"/tmp", b"/tmp"),
)
open("elsewhere", "w").write("x")
os.chdir("/etc")
"#;
    let text = case.printed(&session, code).await;
    // In the code's second name for it, too, a fork's workspace stands, which is no file's parent.
    let first = if is_on_forks() { "ENOENT" } else { "EXDEV" };
    assert_eq!(text, format!("{first} EROFS EEXIST EPERM EPERM\n"));
    session.put("file", b"x").unwrap();
    assert!(not_found(&session.get("elsewhere")) && not_found(&session.get("passwd")));
    let outcome = case.outcome(&session, "print(os.getcwd(), open('/workspace/file').read())\nopen('/workspace/new.txt', 'w').close()").await;
    assert_eq!(outcome.stdout.text, "/etc x\n");
    assert_eq!(outcome.artifacts[0].path, "new.txt");
    let paths: Vec<String> = session
        .list("")
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    assert_eq!(paths, ["file", "new.txt"]);
    case.end([session]).await;
}
