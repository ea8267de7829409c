//! F: what files that all sessions and the host have open tell of each other.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar_sandbox::EnvironmentStore;
use std::os::unix::fs::MetadataExt;

use crate::g_kernel::with_calls;
use crate::harness::{Case, Severity};
use crate::support::{bare_environment, plain_builder, printed};

#[tokio::test(flavor = "multi_thread")]
async fn f21_watches() {
    let case = Case::begin(
        "F21",
        Severity::Lateral,
        "inotify on /usr/bin, on /dev/null and on its own directory, to see what the host and other sessions open",
        "ENOSYS for each: a watch is kept at the file, which all share",
    )
    .await;
    let code = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def tell(result):
    print("done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
    return result
instance = tell(libc.inotify_init1(os.O_NONBLOCK))
tell(libc.inotify_init())
for path in (b"/usr/bin", b"/dev/null", b"."):
    tell(libc.inotify_add_watch(instance, path, 0xFFF))
tell(libc.inotify_rm_watch(instance, 1) if instance < 0 else 0)
"#;
    let seen =
        "os.close(os.open('/usr/bin/env', os.O_RDONLY))\nprint(b'env' in os.read(instance, 4096))";
    let control = case.control(&format!("{code}{seen}")).await;
    let expected = "done\n".repeat(6) + "True\n";
    assert_eq!(control.stdout, expected, "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "ENOSYS\n".repeat(6));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f22_what_is_kept_at_a_file() {
    let case = Case::begin(
        "F22",
        Severity::Lateral,
        "fcntl: F_NOTIFY on a directory, leases, write hints, and every command from 0 to 2,000, on files of the host and its own",
        "EINVAL for all but flags, locks, owners, pipes and seals",
    )
    .await;
    let code = r#"
import errno, fcntl, os
def attempt(path, command, argument):
    file = os.open(path, os.O_RDONLY)
    try: fcntl.fcntl(file, command, argument)
    except OSError as error: return errno.errorcode[error.errno]
    finally: os.close(file)
    return "done"
# DN_ACCESS and DN_MULTISHOT; a lease for reading; hints for an inode and for an open file.
ways = [(1026, 0x80000001), (1024, 0), (1025, 0), (1036, bytes(8)), (1035, bytes(8))]
open("own", "w").close()
"#;
    // The control is root of its namespace, and its files are its own.
    let works = "print([attempt(path, command, argument) for path, (command, argument) in zip(['/usr', 'own', 'own', 'own', 'own'], ways)])";
    let control = case.control(&format!("{code}{works}")).await;
    assert_eq!(
        control.stdout,
        format!("{:?}\n", ["done"; 5]).replace('"', "'")
    );
    let session = case.session().await;
    let refused = "print({attempt(path, *way) for way in ways for path in ('/usr', '/usr/bin/env', '/dev/null', 'own', '.')})";
    assert_eq!(
        case.printed(&session, format!("{code}{refused}")).await,
        "{'EINVAL'}\n"
    );
    // Descriptors come from 0, 1030; all others leave nothing behind. On a pipe, which has seals no more than files.
    let all = "print([command for command in range(2000) if attempt('/usr/bin/env', command, 0) == 'done'])";
    assert_eq!(
        case.printed(&session, all).await,
        "[0, 1, 2, 3, 4, 8, 9, 10, 11, 1030]\n"
    );
    case.end([session]).await;
}

/// How many bytes of a file the kernel has in memory.
fn cached(path: &Path) -> u64 {
    let output = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn f23_the_page_cache() {
    let case = Case::begin(
        "F23",
        Severity::Lateral,
        "ask which pages of the host's files are in memory (mincore, preadv2 with RWF_NOWAIT, cachestat), and push them out (fadvise, MADV_PAGEOUT, MADV_COLD); merge pages (MADV_MERGEABLE)",
        "no answer about the cache; the advice is not taken, and the pages stay",
    )
    .await;
    let session = case.session().await;
    // One that nobody else reads.
    let path = "import os\nprint(os.path.dirname(os.__file__) + '/doctest.py')";
    let path = case.printed(&session, path).await;
    let path = Path::new(path.trim());
    let read = || {
        let bytes = std::fs::read(path).unwrap().len();
        let cached = cached(path);
        assert!(cached >= bytes as u64, "{cached}");
        cached
    };
    read();
    let evict =
        "file = os.open(PATH, os.O_RDONLY)\nos.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)";
    let with_path = |code: &str| code.replace("PATH", &format!("{:?}", path.display().to_string()));
    let control = case
        .control(&with_path(&format!("import os\n{evict}")))
        .await;
    assert_eq!(control.code, Some(0), "{control:?}");
    // To an ordinary user the kernel reports each file of others as entirely in memory.
    if belljar_walls::has_admin_capability() {
        assert_eq!(cached(path), 0);
    }
    let before = read();
    let code = with_calls!(
        r#"
import mmap
NUMBERS.update(mincore=(27, 232), preadv2=(327, 286), cachestat=451, fadvise64=(221, 223), readahead=(187, 213), madvise=(28, 233))
file = os.open(PATH, os.O_RDONLY)
libc.mmap.restype = ctypes.c_void_p
mapped = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file, ctypes.c_long(0))
piece = (ctypes.c_size_t * 2)(ctypes.addressof(room := ctypes.create_string_buffer(64)), 64)
tell("mincore", mapped, 4096, buffer())
tell("preadv2", file, piece, 1, 0, 0, 8)
tell("preadv2", file, piece, 1, 0, 0, 0)
tell("cachestat", file, (ctypes.c_uint64 * 2)(0, 4096), buffer(), 0)
for advice in (12, 20, 21, 2):
    tell("madvise", mapped, 4096, advice)
libc.munmap(ctypes.c_void_p(mapped), ctypes.c_size_t(4096))
tell("fadvise64", file, 0, 0, 4)
tell("readahead", file, 0, 4096)
"#
    );
    assert_eq!(
        case.printed(&session, with_path(code)).await,
        "mincore EPERM\npreadv2 ENOTSUP\npreadv2 done\ncachestat EPERM\n\
         madvise EINVAL\nmadvise EINVAL\nmadvise EINVAL\nmadvise done\nfadvise64 done\nreadahead done\n"
    );
    case.printed(&session, with_path(evict)).await;
    assert_eq!(cached(path), before);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f24_times_of_devices() {
    let case = Case::begin(
        "F24",
        Severity::Lateral,
        "set the times of /dev/null, /dev/zero, /dev/full, /dev/random, /dev/urandom and of the hidden files of /proc, which everybody may write",
        "EROFS; writing to them works as ever, and the host's files have the times that they had",
    )
    .await;
    let code = r#"
import errno, os
def attempt(path):
    try: os.utime(path)
    except OSError as error: return errno.errorcode[error.errno]
    return "done"
print({attempt("/dev/" + name) for name in ("null", "zero", "full", "random", "urandom")})
"#;
    let control = case.control(code).await;
    assert_eq!(control.stdout, "{'done'}\n", "{control:?}");
    let times = || {
        let found = std::fs::metadata("/dev/null").unwrap();
        (found.mtime(), found.mtime_nsec(), found.atime_nsec())
    };
    let before = times();
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "{'EROFS'}\n");
    let use_them = "print(attempt('/proc/keys'), open('/dev/null', 'w').write('x'), open('/dev/zero', 'rb').read(1))";
    assert_eq!(case.printed(&session, use_them).await, "EROFS 1 b'\\x00'\n");
    assert_eq!(times(), before);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f25_the_list_of_locks() {
    let case = Case::begin(
        "F25",
        Severity::Lateral,
        "read /proc/locks while another session and the host hold locks of open files, which are listed in every pid namespace",
        "the list is empty",
    )
    .await;
    let lock = r#"
import fcntl, os, struct
held = open("held", "w")
fcntl.fcntl(held, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
"#;
    let list = "print(len(open('/proc/locks').read()) > 0)";
    let control = case.control(&format!("{lock}{list}")).await;
    assert_eq!(control.stdout, "True\n", "{control:?}");
    let (session, peer) = (case.session().await, case.session().await);
    assert_eq!(case.printed(&peer, lock).await, "");
    assert_eq!(case.printed(&session, list).await, "False\n");
    case.end([session, peer]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f26_locks_on_files_of_the_host() {
    let case = Case::begin(
        "F26",
        Severity::HostDos,
        "lock (flock, exclusively) every file and directory of the driver, the environment, the packages and /etc that it can open",
        "nobody waits for them: the host loads environments and starts engines and sessions, other sessions import",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import fcntl, os, sys
locked = []
def lock(path):
    try: file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError: return
    try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: os.close(file)
    else: locked.append(file)
tops = ["/", "/dev", "/etc", "/opt", sys.prefix, sys.base_prefix, os.path.dirname(sys.prefix), os.path.dirname(sys.base_prefix)]
for top in tops:
    lock(top)
    for directory, _, names in os.walk(top):
        if directory.startswith(("/proc", "/usr")): continue
        for name in ["", *names]:
            if len(locked) < 900: lock(os.path.join(directory, name))
        if directory.count("/") > top.count("/") + 1: break
lock("/dev/null")
print(len(locked) > 50)
"#;
    assert_eq!(case.printed(&session, code).await, "True\n");
    let started = Instant::now();
    let store = EnvironmentStore::open_default().unwrap();
    assert!(store.load("bare").is_ok());
    let other = plain_builder(bare_environment()).build();
    let theirs = other.session().await.unwrap();
    let import = "import decimal, json, sqlite3\nopen('/dev/null', 'w').write('x')\nprint(1)";
    assert_eq!(printed(&theirs, import).await, "1\n");
    drop(theirs);
    other.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(10));
    case.end([session]).await;
}
