//! G: the kernel's surface. The families of sockets are in `g_sockets`, hosts that lack a wall in
//! `g_hosts`; each rule of the filter has its test in `belljar-walls`.

use belljar_sandbox::protocol::{Cause, Fate};

use crate::harness::{Case, Severity, posture};
use crate::support::template;

/// Python with `call` and `tell`, which make system calls by name.
macro_rules! with_calls {
    ($code:literal) => {
        concat!(include_str!("calls.py"), $code)
    };
}
pub(crate) use with_calls;

/// Every line that was printed ends in this result.
fn assert_each(text: &str, result: &str) {
    assert!(!text.is_empty());
    for line in text.lines() {
        assert!(line.ends_with(&format!(" {result}")), "{line}");
    }
}

/// The calls reach the kernel's code without walls: whatever it says, it is not that they are
/// forbidden. `as_root` for calls that the kernel forbids to root of a user namespace as well.
async fn assert_calls_work(case: &Case, code: &str, as_root: bool) {
    let control = if as_root {
        let Some(control) = case.control_as_root(code).await else {
            return;
        };
        control
    } else {
        case.control(code).await
    };
    assert_eq!(control.code, Some(0), "{control:?}");
    assert!(!control.stdout.is_empty(), "{control:?}");
    for line in control.stdout.lines() {
        assert!(!line.ends_with(" EPERM"), "{control:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_new_user_namespace() {
    let case = Case::begin(
        "G1",
        Severity::Escape,
        "unshare(CLONE_NEWUSER), clone(CLONE_NEWUSER), clone3",
        "each fails; no capability comes back",
    )
    .await;
    // clone and clone3 (56 and 435 on x86-64) as a fork into a new user namespace, whose child
    // ends at once.
    let code = "import ctypes, os, struct\nlibc = ctypes.CDLL(None, use_errno=True)\ndef fork(*arguments):\n    pid = libc.syscall(*arguments)\n    if pid == 0: os._exit(0)\n    return pid > 0\nprint(fork(56, 0x10000000 | 17, 0, 0, 0, 0))\nwanted = ctypes.create_string_buffer(struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0))\nprint(fork(435, wanted, 64))\nprint(libc.unshare(0x10000000) == 0)";
    let control = case.control(code).await;
    assert_eq!(control.stdout, "True\nTrue\nTrue\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "False\nFalse\nFalse\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g1a_other_namespaces() {
    let case = Case::begin(
        "G1a",
        Severity::Escape,
        "unshare of the mount, pid, network, ipc, uts, cgroup and time namespaces",
        "EPERM",
    )
    .await;
    let code = with_calls!(
        r#"
for flag in (0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80):
    tell("unshare", flag)
"#
    );
    assert_calls_work(&case, code, false).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_mounts() {
    let case = Case::begin(
        "G2",
        Severity::Escape,
        "mount, umount2, pivot_root, chroot, open_tree, fsopen, fsconfig, fsmount, fspick, move_mount, mount_setattr, statmount, listmount",
        "EPERM",
    )
    .await;
    let code = with_calls!(
        r#"
os.mkdir("a")
os.mkdir("a/b")
tell("mount", b"none", b"a", b"tmpfs", 0, 0)
tell("mount", b"none", b"/proc", 0, 32, 0)  # MS_REMOUNT
tell("umount2", b"a", 2)
tell("pivot_root", b"a", b"a/b")
tell("chroot", b"a")
os.chdir("/")
tell("open_tree", -100, b"/", 1)
tell("fsopen", b"tmpfs", 0)
tell("fsconfig", 1 << 20, 6, 0, 0, 0)
tell("fsmount", 1 << 20, 0, 0)
tell("fspick", -100, b"/", 0)
tell("move_mount", 1 << 20, b"", -100, b"/tmp", 4)
tell("mount_setattr", -100, b"/", 0, buffer(size=32), 32)
tell("statmount", buffer(size=32), buffer(), 256, 0)
tell("listmount", buffer(size=32), buffer(), 1, 0)
"#
    );
    assert_calls_work(&case, code, false).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_other_processes() {
    let case = Case::begin(
        "G3",
        Severity::Lateral,
        "ptrace (TRACEME, SEIZE), process_vm_readv, process_vm_writev, pidfd_getfd, kcmp, process_madvise, move_pages, migrate_pages, on a child and on init",
        "EPERM, on its own children too",
    )
    .await;
    let code = with_calls!(
        r#"
import time
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
traced = os.fork()
if traced == 0:
    tell("ptrace", 0, 0, 0, 0)
    os._exit(0)
os.waitpid(traced, 0)
kept = buffer(b"kept")
area = (ctypes.c_ulong * 2)(ctypes.addressof(kept), 4)
for pid in (child, 1):
    descriptor = call("pidfd_open", pid, 0)
    tell("process_vm_readv", pid, area, 1, area, 1, 0)
    tell("process_vm_writev", pid, area, 1, area, 1, 0)
    tell("kcmp", os.getpid(), pid, 0, 0, 0)
    tell("pidfd_getfd", descriptor, 0, 0)
    tell("process_madvise", descriptor, area, 1, 20, 0)
    tell("migrate_pages", pid, 64, buffer(), buffer())
    tell("move_pages", pid, 0, 0, 0, 0, 0)
    tell("ptrace", 0x4206, pid, 0, 0)
os.kill(child, 9)
"#
    );
    assert_calls_work(&case, code, true).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g4_io_uring() {
    let case = Case::begin(
        "G4",
        Severity::Escape,
        "io_uring_setup, io_uring_enter, io_uring_register",
        "EPERM; the process continues",
    )
    .await;
    let code = with_calls!(
        r#"
tell("io_uring_setup", 8, buffer())
tell("io_uring_enter", 1 << 20, 0, 0, 0, 0)
tell("io_uring_register", 1 << 20, 0, 0, 0)
"#
    );
    assert_calls_work(&case, code, true).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_rarely_used_calls() {
    let case = Case::begin(
        "G5",
        Severity::Escape,
        "bpf, perf_event_open, userfaultfd, fanotify_init, kexec_load, init_module, open_by_handle_at and their kin",
        "EPERM",
    )
    .await;
    // Arguments that are wrong in a way which is seen only after the check of rights.
    let code = with_calls!(
        r#"
tell("bpf", 0, buffer(), 72)
tell("perf_event_open", buffer(), 0, -1, -1, 0)
tell("userfaultfd", 0)
tell("fanotify_init", 0, 0)
tell("kexec_load", 0, 17, 0, 0)
tell("kexec_file_load", -1, -1, 0, 0, 0x7FFF0000)
tell("init_module", 0, 0, b"")
tell("finit_module", -1, b"", 0)
tell("delete_module", b"belljar_none", 0)
tell("name_to_handle_at", -100, b".", buffer(b"\x80"), buffer(), 0)
tell("open_by_handle_at", -100, buffer(b"\x80"), 0)
"#
    );
    assert_calls_work(&case, code, true).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g5a_keys() {
    let case = Case::begin(
        "G5a",
        Severity::Lateral,
        "add_key, request_key, keyctl",
        "EPERM: no keys of the user or of the host",
    )
    .await;
    let code = with_calls!(
        r#"
tell("add_key", b"user", b"belljar", b"x", 1, -2)
tell("request_key", b"user", b"belljar-none", 0, 0)
tell("keyctl", 0, -3, 0)
"#
    );
    assert_calls_work(&case, code, false).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

/// Without a control: kernels are mostly built without this interface, and say ENOSYS themselves.
#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn g7_x32_numbers() {
    let case = Case::begin(
        "G7",
        Severity::Escape,
        "system calls by their x32 numbers (0x40000000 and more)",
        "ENOSYS for each",
    )
    .await;
    let session = case.session().await;
    let code = with_calls!(
        r"
libc.syscall.restype = ctypes.c_long
found = set()
for number in range(600):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(0x40000000 | number), 0, 0, 0, 0, 0, 0)
    found.add((result, errno.errorcode.get(ctypes.get_errno())))
print(found)
"
    );
    assert_eq!(case.printed(&session, code).await, "{(-1, 'ENOSYS')}\n");
    case.end([session]).await;
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn g7a_32_bit_calls() {
    let case = Case::begin(
        "G7a",
        Severity::Escape,
        "int 0x80 from machine code: system calls of the 32-bit interface",
        "the process is ended by SIGSYS, and the outcome says so",
    )
    .await;
    // getpid by its 32-bit number: mov eax, 20; int 0x80; ret
    let code = r#"
import ctypes, mmap
area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
area.write(bytes.fromhex("b814000000cd80c3"))
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
print(function() > 0)
"#;
    let control = case.control(code).await;
    // A kernel without that interface ends it by itself.
    assert!(
        control.stdout == "True\n" || control.signal == Some(11),
        "{control:?}"
    );
    let session = case.session().await;
    let outcome = case.fails(&session, code).await;
    let expected = Cause::Signal {
        number: 31,
        name: "SIGSYS".into(),
    };
    assert_eq!(outcome.cause, expected, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g9_setns() {
    let case = Case::begin(
        "G9",
        Severity::Escape,
        "setns with /proc/self/ns/*, with a pidfd of init, with every descriptor there is",
        "EPERM; /proc/1 is not there",
    )
    .await;
    let code = with_calls!(
        r#"
for name in ("ipc", "mnt", "net", "pid", "uts"):
    tell("setns", os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0)
tell("setns", call("pidfd_open", 1, 0), 0x4000000)
"#
    );
    let control = case.control(code).await;
    assert_each(&control.stdout, "done");
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    let every = with_calls!(
        r#"
for name in ("cgroup", "time", "user", "pid_for_children"):
    os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
for descriptor in os.listdir("/proc/self/fd"):
    for kind in (0, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        tell("setns", int(descriptor), kind)
try: os.listdir("/proc/1/ns")
except OSError as error: print("listdir", errno.errorcode[error.errno].replace("ENOENT", "EPERM"))
try: os.open("/proc/1/ns/mnt", os.O_RDONLY)
except OSError as error: print("open", errno.errorcode[error.errno].replace("ENOENT", "EPERM"))
"#
    );
    let text = case.printed(&session, every).await;
    assert_each(&text, "EPERM");
    assert!(
        text.ends_with("listdir EPERM\nopen EPERM\n") && text.lines().count() > 60,
        "{text}"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_terminals() {
    let case = Case::begin(
        "G10",
        Severity::Escape,
        "keys typed into a terminal (TIOCSTI, TIOCLINUX), taking one over (TIOCSCTTY), making one",
        "no terminal to open (/dev/tty: ENXIO), none to make, no controlling one; ENOTTY on every descriptor",
    )
    .await;
    // The same requests to a terminal that the control makes for itself.
    let requests = with_calls!(
        r#"
import fcntl
def type_keys(descriptor):
    out = []
    for request in (0x5412, 0x541C, 0x540E):
        try: out.append(fcntl.ioctl(descriptor, request, b"x") and "done")
        except OSError as error: out.append(errno.errorcode[error.errno])
    return out
"#
    );
    let control = format!(
        "{requests}{}",
        r#"
libc.mount(b"none", b"/mnt", b"devpts", 0, b"newinstance,ptmxmode=0666")
os.setsid()
master = os.open("/mnt/ptmx", os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(master, 0x40045431, b"\0\0\0\0")
fcntl.ioctl(os.open("/mnt/0", os.O_RDWR | os.O_NOCTTY), 0x540E, 0)
print("terminal made")
print(type_keys(os.open("/mnt/0", os.O_RDWR))[0])
"#
    );
    let control = case.control(&control).await;
    // Kernels may forbid TIOCSTI altogether (dev.tty.legacy_tiocsti).
    assert!(
        ["terminal made\ndone\n", "terminal made\nEIO\n"].contains(&control.stdout.as_str()),
        "{control:?}"
    );
    let attack = format!(
        "{requests}{}",
        r#"
for path in ("tty", "ptmx", "pts/ptmx", "console", "tty0", "tty1", "vcs", "ttyS0"):
    try: print(os.open("/dev/" + path, os.O_RDWR))
    except OSError as error: assert error.errno == (errno.ENXIO if path == "tty" else errno.ENOENT)
print(open("/proc/self/stat").read().rpartition(")")[2].split()[4])
print({result for descriptor in range(5) for result in type_keys(descriptor)})
try: print(os.openpty())
except OSError: print("none made")
"#
    );
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, attack).await,
        "0\n{'ENOTTY'}\nnone made\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_set_user_id_programs() {
    let case = Case::begin(
        "G11",
        Severity::Escape,
        "set-user-id programs of the host; one made by chmod u+s; setuid(0)",
        "they run as the session's user, and none is made; mounts are nosuid, NoNewPrivs is set",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import os, shutil, subprocess
found = subprocess.run("find /usr/bin /usr/sbin /usr/lib* -type f -perm /6000", shell=True, capture_output=True, text=True)
print({bool(os.statvfs(path).f_flag & os.ST_NOSUID) for path in found.stdout.split()} or {True})
print(subprocess.run(["grep", "NoNewPrivs", "/proc/self/status"], capture_output=True).stdout)
for directory in ("/tmp", "/workspace", "/dev/shm"):
    path = directory + "/id"
    shutil.copy(shutil.which("id"), path)
    for mode in (0o4755, 0o2755):
        for make in (lambda: os.chmod(path, mode), lambda: os.open(path + "2", os.O_CREAT | os.O_WRONLY, mode),
                     lambda: os.open(directory, os.O_TMPFILE | os.O_WRONLY, mode), lambda: os.mknod(path + "3", mode)):
            try: print("made", make())
            except PermissionError: pass
    print(subprocess.run([path, "-u"], capture_output=True).stdout, bool(os.statvfs(path).f_flag & os.ST_NOSUID))
for change in (lambda: os.chown("/tmp/id", 0, 0), lambda: os.setuid(0), lambda: os.setresgid(0, 0, 0),
               lambda: os.setxattr("/tmp/id", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))):
    try: print(change())
    except OSError as error: print(error.strerror)
"#;
    assert_eq!(
        case.printed(&session, code).await,
        "{True}\nb'NoNewPrivs:\\t1\\n'\n\
        b'1000\\n' True\nb'1000\\n' True\nb'1000\\n' True\n\
        Invalid argument\nInvalid argument\nInvalid argument\nOperation not permitted\n"
    );
    // Without walls a set-user-id program does change the user.
    let control = r#"
import os, shutil, subprocess
shutil.copy(shutil.which("id"), "id")
os.chown("id", 12345, 12345)
os.chmod("id", 0o4755)
print(subprocess.run(["./id", "-u"], capture_output=True).stdout)
"#;
    if let Some(control) = case.control_as_root(control).await {
        assert_eq!(control.stdout, "b'12345\\n'\n", "{control:?}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_capabilities() {
    let case = Case::begin(
        "G12",
        Severity::Escape,
        "CapInh, CapPrm, CapEff, CapBnd, CapAmb of every thread, of a child, of a program",
        "all zero",
    )
    .await;
    let code = r#"
import os, re, subprocess, threading
stop = threading.Event()
for _ in range(8):
    threading.Thread(target=stop.wait, daemon=True).start()
def capabilities(text):
    return re.findall(r"Cap(?:Inh|Prm|Eff|Bnd|Amb):\s*(\w+)", text)
texts = [open(f"/proc/self/task/{task}/status").read() for task in os.listdir("/proc/self/task")]
print(len(texts))
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, open("/proc/self/status").read().encode())
    os._exit(0)
os.waitpid(child, 0)
texts.append(os.read(reader, 100_000).decode())
texts.append(subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout)
found = [capabilities(text) for text in texts]
print({len(each) for each in found}, {int(one, 16) for each in found for one in each} == {0})
stop.set()
"#;
    let control = case.control(code).await;
    assert_eq!(control.stdout, "9\n{5} False\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "9\n{5} True\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_out_of_the_root() {
    let case = Case::begin(
        "G13",
        Severity::Escape,
        "chroot twice with a kept directory; openat('..') from every directory descriptor; /proc/*/root and cwd",
        "chroot is EPERM; '..' of the root is the root; init's root and cwd can't be followed",
    )
    .await;
    let escape = with_calls!(
        r#"
os.mkdir("jail")
outside = os.open(".", os.O_RDONLY)
tell("chroot", b"jail")
os.fchdir(outside)
print("jail" in os.listdir("."))
"#
    );
    let control = case.control(escape).await;
    assert_eq!(control.stdout, "chroot done\nTrue\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, escape).await, "chroot EPERM\nTrue\n");
    let climb = r#"
import errno, os
identity = lambda found: (found.st_dev, found.st_ino)
root = identity(os.stat("/"))
for path in ("/", "/proc", "/workspace", "/tmp", "/dev/shm", "/usr/bin", "/etc/ssl", "/proc/self/root"):
    directory = os.open(path, os.O_PATH)
    print(identity(os.stat("../" * 60, dir_fd=directory)) == root, end=" ")
for path in ("/proc/1/root", "/proc/1/cwd", "/proc/1/exe", "/proc/1/fd"):
    for follow in (os.readlink, os.stat, os.listdir):
        try: print("REACHED", follow(path)) if follow != os.stat or path != "/proc/1/fd" else None
        except OSError as error: print(errno.errorcode[error.errno], end=" ")
"#;
    let text = case.printed(&session, climb).await;
    assert_eq!(text.matches("True").count(), 8, "{text}");
    assert!(
        !text.contains("REACHED") && !text.contains("False"),
        "{text}"
    );
    case.end([session]).await;
}

/// The machine's own files have no control: one that worked would change the machine.
#[tokio::test(flavor = "multi_thread")]
async fn g14_files_of_the_kernel() {
    let case = Case::begin(
        "G14",
        Severity::Escape,
        "open every file of /proc for writing: core_pattern, sysrq-trigger, sysctls, oom_score_adj, attr",
        "none opens; there is no /sys, and so no cgroup and no release_agent",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import errno, os
results, opened, seen = {}, [], 0
for place, directories, names in os.walk("/proc"):
    if place == "/proc":
        directories[:] = [name for name in directories if not name.isdigit() or name == str(os.getpid())]
    directories[:] = [name for name in directories if name not in ("task", "fd", "fdinfo")]
    for name in names:
        path = os.path.join(place, name)
        if os.path.islink(path):
            continue
        seen += 1
        try:
            os.close(os.open(path, os.O_WRONLY))
            opened.append(path)
        except OSError as error:
            results.setdefault(errno.errorcode[error.errno], []).append(path)
print(seen > 300, sorted(results), opened)
for name in ("sys/kernel/core_pattern", *(f"{os.getpid()}/{name}" for name in ("oom_score_adj", "uid_map", "comm", "mem"))):
    print("/proc/" + name in results.get("EACCES", []), end=" ")
print(os.path.exists("/sys"), os.path.exists("/proc/sysrq-trigger"))
"#;
    let text = case.printed(&session, code).await;
    // Most kernels have this file; it is among those that can't be opened.
    let trigger = if std::fs::exists("/proc/sysrq-trigger").unwrap() {
        "True"
    } else {
        "False"
    };
    let expected = format!("True ['EACCES'] []\nTrue True True True True False {trigger}\n");
    assert_eq!(text, expected);
    let own = "open('/proc/self/oom_score_adj', 'w').write('1000'); open('/proc/self/comm', 'w').write('x'); print('written')";
    let control = case.control(own).await;
    assert_eq!(control.stdout, "written\n", "{control:?}");
    let outcome = case.fails(&session, own).await;
    assert_eq!(outcome.exception.unwrap().type_name, "PermissionError");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_calls_that_change_the_machine() {
    let case = Case::begin(
        "G15",
        Severity::Escape,
        "modify_ldt, iopl, ioperm, personality, swapon, acct, quotactl, syslog, settimeofday, reboot, sethostname, capset, seccomp and their kin",
        "EPERM",
    )
    .await;
    let code = with_calls!(
        r#"
tell("modify_ldt", 0, buffer(), 16)
tell("iopl", 3)
tell("ioperm", 0x80, 1, 1)
tell("personality", 0x0040000)  # ADDR_NO_RANDOMIZE
tell("personality", 8)  # PER_LINUX32
tell("swapon", b"/none", 0)
tell("swapoff", b"/none")
tell("acct", b"/none")
tell("quotactl", 0x800007 << 8, b"/none", 0, buffer())
tell("syslog", 10, 0, 0)
tell("settimeofday", 0, 0)
tell("clock_settime", 0, 1)
tell("clock_adjtime", 0, 1)
tell("adjtimex", 1)
tell("reboot", 0, 0, 0, 0)
tell("sethostname", b"x", 1)
tell("setdomainname", b"x", 1)
tell("setgroups", 0, 0)
tell("seccomp", 1, 0, 1)
tell("capset", buffer(b"\x22\x05\x08\x20"), buffer())
"#
    );
    assert_calls_work(&case, code, true).await;
    let session = case.session().await;
    assert_each(&case.printed(&session, code).await, "EPERM");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_code_from_memory() {
    let case = Case::begin(
        "G16",
        Severity::SelfDos,
        "memfd_create and exec of it; memory that is writable and executable; programs written to /tmp, /dev/shm, /workspace",
        "allowed: compilers need it, and no wall depends on what code runs",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import ctypes, mmap, os, platform, shutil, subprocess
memory = os.memfd_create("program")
with open(shutil.which("echo"), "rb") as program:
    os.write(memory, program.read())
if os.fork() == 0:
    os.dup2(memory, 100)
    os.execve(100, ["echo", "from memory"], {})
os.wait()
for directory in ("/tmp", "/dev/shm", "/workspace"):
    shutil.copy(shutil.which("echo"), directory + "/program")
    print(subprocess.run([directory + "/program", directory], capture_output=True).stdout)
area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# Returns 42.
area.write(bytes.fromhex("b82a000000c3" if platform.machine() == "x86_64" else "40058052c0035fd6"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))())
"#;
    assert_eq!(
        case.printed(&session, code).await,
        "from memory\nb'/tmp\\n'\nb'/dev/shm\\n'\nb'/workspace\\n'\n42\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g17_posture_after_the_death_of_the_template() {
    let case = Case::begin(
        "G17",
        Severity::Escape,
        "kill the template, and look at a session of the next one: ids, capabilities, filters, descriptors, limits, mounts",
        "as it is written down; also after a thousand sessions, in threads and in children",
    )
    .await;
    let old = template().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(old).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let session = case.session().await;
    assert_ne!(template(), Some(old));
    let code = concat!(include_str!("../it/posture.py"), "\nprint(posture())");
    let found = case.printed(&session, code).await;
    let golden = include_str!("../it/posture.golden");
    assert_eq!(posture(&found), posture(golden));
    case.end([session]).await;
}
