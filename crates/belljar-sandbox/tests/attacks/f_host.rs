//! F: what of the host a session can see, and can't change.

use crate::harness::{Case, Severity};

/// `attempt(name, function, ...)` prints the name and what came of it. What the host's user decides
/// (no right to the file) and what the mount decides (read-only) are one answer: which comes first
/// depends on who owns the host's files.
const ATTEMPT: &str = r#"
import ctypes, errno, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, function, *arguments, **options):
    try:
        result = function(*arguments, **options)
        result = errno.errorcode[ctypes.get_errno()] if result == -1 else "done"
    except OSError as error:
        result = errno.errorcode[error.errno]
    print(name, "refused" if result in ("EACCES", "EROFS") else result)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn f16a_writing_to_the_base() {
    let case = Case::begin(
        "F16a",
        Severity::Lateral,
        "write, append, truncate, rename, delete, chmod, link over and make files in site-packages, the standard library, the driver, /usr, /etc, /",
        "all refused: read-only mounts, no rights, and Landlock",
    )
    .await;
    let ways = r#"
def ways(path):
    directory = os.path.dirname(path)
    attempt("write", open, path, "r+b")
    attempt("append", open, path, "ab")
    attempt("truncate", os.truncate, path, 0)
    attempt("open and truncate", os.open, path, os.O_RDONLY | os.O_TRUNC)
    attempt("map", lambda: mmap.mmap(os.open(path, os.O_RDWR), 0))
    attempt("mode", os.chmod, path, 0o777)
    attempt("times", os.utime, path)
    attempt("attribute", os.setxattr, path, "user.x", b"1")
    attempt("unnamed file", os.open, directory, os.O_TMPFILE | os.O_WRONLY)
    attempt("new file", open, directory + "/new", "w")
    attempt("new directory", os.mkdir, directory + "/newer")
    attempt("link", os.symlink, "/tmp", directory + "/new-link")
    attempt("rename", os.rename, path, path + ".old")
    attempt("delete", os.unlink, path + ".old" if os.path.exists(path + ".old") else path)
"#;
    let names = [
        "write",
        "append",
        "truncate",
        "open and truncate",
        "map",
        "mode",
        "times",
        "attribute",
        "unnamed file",
        "new file",
        "new directory",
        "link",
        "rename",
        "delete",
    ];
    // In the control's scratch directory all of it works; an empty file can't be mapped, and only
    // newer kernels keep attributes of users there.
    let own = "os.makedirs('/mnt/d')\nopen('/mnt/d/f', 'w').write('x')\nos.truncate = lambda path, size, inner=os.truncate: inner(path, 1)\nold, os.O_TRUNC = os.O_TRUNC, 0\nways('/mnt/d/f')";
    let control = case.control(&format!("{ATTEMPT}{ways}{own}")).await;
    let lines = |text: &str, result: &str| {
        let kept = text.lines().filter(|line| !line.starts_with("attribute"));
        kept.map(|line| {
            line.strip_suffix(result)
                .unwrap_or_else(|| panic!("{line}: {text}"))
                .trim()
                .to_owned()
        })
        .collect::<Vec<_>>()
    };
    let expected: Vec<&str> = names
        .into_iter()
        .filter(|name| *name != "attribute")
        .collect();
    assert_eq!(lines(&control.stdout, " done"), expected, "{control:?}");
    let session = case.session().await;
    case.printed(&session, format!("{ATTEMPT}{ways}")).await;
    for path in [
        "os.__file__",
        "sys.modules['belljar_guest.wire'].__file__",
        "next(p for p in sys.path if p.endswith('site-packages')) + '/' + os.listdir(next(p for p in sys.path if p.endswith('site-packages')))[0] if os.listdir(next(p for p in sys.path if p.endswith('site-packages'))) else os.__file__",
        "'/usr/bin/env'",
        "os.path.realpath(sys.executable)",
        "'/etc/passwd'",
    ] {
        let text = case
            .printed(&session, format!("path = {path}\nways(path)"))
            .await;
        if text.contains("EISDIR") {
            // A package's directory: it can't be opened for writing as a file at all.
            assert!(!text.contains("done"), "{path}: {text}");
        } else {
            assert_eq!(lines(&text, " refused"), expected, "{path}");
        }
    }
    let root = "attempt('root', os.mkdir, '/new')\nattempt('dev', open, '/dev/new', 'w')\nattempt('proc', open, '/proc/new', 'w')";
    assert_eq!(
        case.printed(&session, root).await,
        "root refused\ndev refused\nproc ENOENT\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f16b_pages_of_read_only_files() {
    let case = Case::begin(
        "F16b",
        Severity::Lateral,
        "change the pages of a read-only file in memory: shared writable maps, mprotect, /proc/self/mem, splice into pipes, write through descriptors opened for reading",
        "all refused; a private copy can be changed, and neither the file nor another session sees it",
    )
    .await;
    let code = r#"
import tempfile
def pages(path):
    fd = os.open(path, os.O_RDONLY)
    size = 4096
    attempt("shared writable map", mmap.mmap, fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    shared = libc.mmap(None, size, 1, 1, fd, 0)
    attempt("mprotect", libc.mprotect, ctypes.c_void_p(shared), size, 3)
    attempt("memory file", os.open, "/proc/self/mem", os.O_RDWR)
    attempt("reopen", os.open, f"/proc/self/fd/{fd}", os.O_RDWR)
    attempt("pwrite", os.pwrite, fd, b"evil", 0)
    attempt("ftruncate", os.ftruncate, fd, 0)
    attempt("fallocate", os.posix_fallocate, fd, 0, 10)
    reading, writing = os.pipe()
    attempt("splice", libc.syscall, 275, fd, None, writing, None, 100, 0)
    attempt("vmsplice", libc.syscall, 278, writing, ctypes.create_string_buffer(16), 0, 0)
    attempt("process_madvise", libc.syscall, 440, -1, None, 0, 4, 0)
    private = libc.mmap(None, size, 3, 2, fd, 0)
    ctypes.memmove(private, b"evil", 4)
    print(ctypes.string_at(private, 4), ctypes.string_at(shared, 4) == open(path, "rb").read(4))
"#;
    let control_code = format!(
        "{ATTEMPT}{code}\nopen('/mnt/f', 'wb').write(b'x' * 4096)\nreal = os.open\nos.open = lambda path, flags: real(path, os.O_RDWR)\npages('/mnt/f')"
    );
    let control = case.control(&control_code).await;
    // process_madvise and vmsplice are asked with nothing to do; the kernel's answer is its own.
    for name in [
        "shared writable map",
        "mprotect",
        "memory file",
        "reopen",
        "pwrite",
        "ftruncate",
        "fallocate",
    ] {
        assert!(
            control.stdout.contains(&format!("{name} done\n")),
            "{name}: {control:?}"
        );
    }
    let session = case.session().await;
    case.printed(&session, format!("{ATTEMPT}{code}")).await;
    let target = "os.path.realpath(sys.executable)";
    let text = case.printed(&session, format!("pages({target})")).await;
    assert_eq!(
        text,
        "shared writable map refused\nmprotect refused\nmemory file refused\nreopen refused\npwrite EBADF\nftruncate EINVAL\nfallocate EBADF\nsplice EPERM\nvmsplice EPERM\nprocess_madvise EPERM\nb'evil' True\n"
    );
    let other = case.session().await;
    let look = format!("import os, sys\nprint(open({target}, 'rb').read(4))");
    assert_eq!(case.printed(&other, look).await, "b'\\x7fELF'\n");
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_truncation_by_landlock() {
    let case = Case::begin(
        "F17",
        Severity::Integrity,
        "truncate(path), open(O_TRUNC) and writing where the file system would allow it: files of /proc that belong to the session's user",
        "EACCES by Landlock alone: writing and truncating are for /workspace, /tmp, /dev/shm and the plain devices",
    )
    .await;
    let code = r#"
def name(function, *arguments):
    try:
        function(*arguments)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
for path in ("/proc/self/comm", "/proc/self/oom_score_adj", "/proc/self/coredump_filter"):
    print(
        name(os.open, path, os.O_WRONLY),
        name(os.open, path, os.O_WRONLY | os.O_TRUNC),
        name(os.open, path, os.O_RDONLY | os.O_TRUNC),
        name(os.truncate, path, 0),
    )
"#;
    let control = case.control(&format!("{ATTEMPT}{code}")).await;
    assert_eq!(
        control.stdout,
        "done done done done\n".repeat(3),
        "{control:?}"
    );
    let session = case.session().await;
    let text = case.printed(&session, format!("{ATTEMPT}{code}")).await;
    assert_eq!(text, "EACCES EACCES EACCES EACCES\n".repeat(3));
    // Where it may, it can.
    let own = "for directory in ('/workspace', '/tmp', '/dev/shm'):\n    path = directory + '/own'\n    open(path, 'w').write('text')\n    print(name(os.truncate, path, 1), name(os.open, path, os.O_RDONLY | os.O_TRUNC), os.path.getsize(path))\nprint(name(os.open, '/dev/null', os.O_WRONLY | os.O_TRUNC))";
    let text = case.printed(&session, own).await;
    assert_eq!(text, "done done 0\n".repeat(3) + "done\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f18_devices() {
    let case = Case::begin(
        "F18",
        Severity::Escape,
        "devices: what /dev holds, mknod of /dev/mem, of a disk and of /dev/cuse in all writable places, links in /dev",
        "five plain devices and links to the session's own descriptors; mknod of a device is EPERM by seccomp, and no writable place honours one",
    )
    .await;
    let make = r#"
def make(directory):
    for name, kind, device in (("mem", 0o020666, (1, 1)), ("cuse", 0o020666, (10, 203)), ("disk", 0o060666, (8, 0)), ("null", 0o020666, (1, 3))):
        attempt(name, os.mknod, f"{directory}/{name}", kind, os.makedev(*device))
"#;
    // Only root can make devices at all; they are made in a place that honours none.
    if let Some(control) = case
        .control_as_root(&format!("{ATTEMPT}{make}\nmake('/mnt')"))
        .await
    {
        let all_made = "mem done\ncuse done\ndisk done\nnull done\n";
        assert_eq!(control.stdout, all_made, "{control:?}");
    }
    let session = case.session().await;
    let code = format!(
        "{ATTEMPT}{make}\nfor directory in ('/workspace', '/tmp', '/dev/shm'):\n    make(directory)\n    print(bool(os.statvfs(directory).f_flag & os.ST_NODEV))\nmake('/dev')"
    );
    let denied = "mem EPERM\ncuse EPERM\ndisk EPERM\nnull EPERM\n";
    assert_eq!(
        case.printed(&session, code).await,
        format!("{denied}True\n").repeat(3) + denied
    );
    let golden = r#"
import stat
for name in sorted(os.listdir("/dev")):
    mode = os.lstat("/dev/" + name)
    if stat.S_ISLNK(mode.st_mode): print(name, os.readlink("/dev/" + name))
    elif stat.S_ISCHR(mode.st_mode): print(name, os.major(mode.st_rdev), os.minor(mode.st_rdev))
    else: print(name, "directory" if stat.S_ISDIR(mode.st_mode) else "?")
attempt("link", os.symlink, "/etc", "/dev/new")
attempt("delete", os.unlink, "/dev/fd")
attempt("rename", os.rename, "/dev/null", "/dev/nothing")
"#;
    assert_eq!(
        case.printed(&session, golden).await,
        "fd /proc/self/fd\nfull 1 7\nnull 1 3\nrandom 1 8\nshm directory\nstderr /proc/self/fd/2\nstdin /proc/self/fd/0\nstdout /proc/self/fd/1\ntty 5 0\nurandom 1 9\nzero 1 5\nlink refused\ndelete refused\nrename refused\n"
    );
    case.end([session]).await;
}
