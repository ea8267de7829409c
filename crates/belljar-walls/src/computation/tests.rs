//! Code that has taken the computing process over tries what such code would try, by the kernel's own
//! interface. It is this test's binary started again, turned hostile before `main`, while it has one thread.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use super::*;

/// The first argument of the hostile process, and of one that does the same without walls.
pub(crate) const HOSTILE: &std::ffi::CStr = c"belljar-hostile-computation";
pub(crate) const UNCONFINED: &std::ffi::CStr = c"belljar-unconfined-computation";

const LIMITS: ComputationLimits = ComputationLimits {
    memory_bytes: 512 << 20,
    cpu_seconds: 4,
    stack_bytes: 1 << 20,
};

/// The whole life of the hostile process.
pub(crate) fn run(confined: bool) -> ! {
    let told = if confined {
        compute_confined(LIMITS, attempts).unwrap_or_else(|error| error.to_string())
    } else {
        attempts()
    };
    let _ = rustix::io::write(std::io::stdout(), told.as_bytes());
    sys::exit_now(0);
}

/// Each attempt, and the error that it got, or 0.
fn attempts() -> String {
    let path = c"/proc/self/status".as_ptr() as usize;
    // One that is not there: where it may be started, it is looked for.
    let program = c"/belljar/none".as_ptr() as usize;
    let (read, anywhere) = (libc::PROT_READ as usize, usize::MAX);
    let mapped = libc::MAP_PRIVATE as usize | libc::MAP_ANONYMOUS as usize;
    let execute = read | libc::PROT_EXEC as usize;
    let page = 4096;
    let here = libc::AT_FDCWD.cast_unsigned() as usize;
    let calls: [(&str, libc::c_long, [usize; 5]); 20] = [
        ("open", libc::SYS_openat, [here, path, 0, 0, 0]),
        ("socket", libc::SYS_socket, [2, 1, 0, 0, 0]),
        ("unix socket", libc::SYS_socketpair, [1, 1, 0, path, 0]),
        ("execve", libc::SYS_execve, [program, 0, 0, 0, 0]),
        // No signal at its end: one would stop the process that asks to be traced below.
        ("fork", libc::SYS_clone, [0, 0, 0, 0, 0]),
        ("thread", libc::SYS_clone3, [0, 0, 0, 0, 0]),
        (
            "executable memory",
            libc::SYS_mmap,
            [0, page, execute, mapped, anywhere],
        ),
        (
            "memory of a file",
            libc::SYS_mmap,
            [0, page, read, libc::MAP_PRIVATE as usize, 0],
        ),
        (
            "shared memory",
            libc::SYS_mmap,
            [
                0,
                page,
                read,
                libc::MAP_SHARED as usize | libc::MAP_ANONYMOUS as usize,
                anywhere,
            ],
        ),
        ("memfd", libc::SYS_memfd_create, [path, 0, 0, 0, 0]),
        ("dup", libc::SYS_dup, [0, 0, 0, 0, 0]),
        (
            "ptrace",
            libc::SYS_ptrace,
            [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0],
        ),
        (
            "prctl",
            libc::SYS_prctl,
            [libc::PR_GET_DUMPABLE as usize, 0, 0, 0, 0],
        ),
        (
            "unshare",
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0],
        ),
        ("mount", libc::SYS_mount, [path, path, path, 0, 0]),
        ("chdir", libc::SYS_chdir, [path, 0, 0, 0, 0]),
        ("kill", libc::SYS_kill, [0, 0, 0, 0, 0]),
        ("stat", libc::SYS_statx, [here, path, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0]),
        ("io_uring", libc::SYS_io_uring_setup, [1, path, 0, 0, 0]),
    ];
    let told: Vec<String> = calls
        .into_iter()
        .map(|(name, number, [a, b, c, d, e])| {
            // SAFETY: the kernel checks every argument; the pointers are to NUL-terminated constants, and none
            // of the calls writes to memory of this process that is in use.
            let result = unsafe { libc::syscall(number, a, b, c, d, e, 0) };
            let error = if result < 0 {
                io::Error::last_os_error().raw_os_error().unwrap_or(-1)
            } else {
                0
            };
            if name == "fork" && result == 0 {
                sys::exit_now(0);
            }
            format!("{name}: {error}\n")
        })
        .collect();
    told.concat()
}

fn child(name: &std::ffi::CStr) -> Output {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name.to_str().unwrap()).env_clear();
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn hostile_code_reaches_nothing() {
    let confined = child(HOSTILE);
    let told = String::from_utf8_lossy(&confined.stdout).into_owned();
    assert!(confined.status.success(), "{confined:?}");
    assert_eq!(told.lines().count(), 20, "{told}");
    for line in told.lines() {
        assert!(line.ends_with(&format!(": {}", libc::EPERM)), "{told}");
    }
}

/// Most of it works without the walls: the filter is what refuses it.
#[test]
fn without_walls_the_same_code_reaches_much() {
    let free = child(UNCONFINED);
    let told = String::from_utf8_lossy(&free.stdout).into_owned();
    for name in [
        "open",
        "socket",
        "fork",
        "executable memory",
        "memfd",
        "dup",
        "kill",
    ] {
        assert!(told.contains(&format!("{name}: 0\n")), "{name} in {told}");
    }
}
