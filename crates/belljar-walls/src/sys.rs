//! Thin safe wrappers over the system calls that `rustix` does not offer.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// Turns the -1 of a C function into its error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A path as the kernel wants it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// What `clone` returned.
pub(crate) enum Forked {
    Parent(libc::pid_t),
    Child,
}

/// Forks into the new namespaces that `flags` name.
///
/// The caller must be single-threaded: the child has only this thread, and a lock held by another
/// would stay held for ever. Every process that calls this was just started by [`crate::start`]
/// and never made a thread.
pub(crate) fn clone_process(flags: libc::c_int) -> io::Result<Forked> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is fork(2); no memory is shared, and
    // the null tid pointers are unused because no CLONE_*TID flag is set.
    let result =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    match libc::pid_t::try_from(result) {
        Ok(0) => Ok(Forked::Child),
        Ok(pid) if pid > 0 => Ok(Forked::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers; it changes only this process's namespaces.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Joins a namespace of this kind.
pub(crate) fn join_namespace(namespace: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: takes plain numbers; it changes only this process's namespaces.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }).map(drop)
}

pub(crate) fn set_ids(uid: libc::uid_t, gid: libc::gid_t) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map(drop)
}

pub(crate) fn clear_groups() -> io::Result<()> {
    // SAFETY: a count of 0 makes the kernel ignore the pointer.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }).map(drop)
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used below take plain numbers, and unused arguments are zero.
    check(unsafe { libc::prctl(option, value, 0_usize, 0_usize, 0_usize) }).map(drop)
}

/// This process dies with its parent.
pub(crate) fn die_with_parent() -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

/// Orphans among this process's descendants become its children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
}

pub(crate) fn set_dumpable(dumpable: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable))
}

pub(crate) fn no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Gives up the capabilities that a program could get back by being executed.
pub(crate) fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            // The kernel does not have so many.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            dropped => dropped?,
        }
    }
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    prctl(libc::PR_CAP_AMBIENT, clear)
}

/// Puts this process under rules of Landlock, for good. It must have given up new privileges before.
pub(crate) fn restrict_by_landlock(rules: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    // SAFETY: takes plain numbers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), flags) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Puts every thread of this process under a filter of system calls, for good. It must have given up new
/// privileges before.
pub(crate) fn filter_all_threads(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the pointer is to a live program of the length that it tells, which the kernel reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        // The id of a thread that could not be.
        1.. => Err(io::Error::other("a thread is under another filter")),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn set_name(name: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: the pointer is to a NUL-terminated string that outlives the call.
    check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0_usize, 0_usize, 0_usize) })
        .map(drop)
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Gives up every capability of this thread.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    let header = CapHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let data = [CapData::default(); 2];
    // SAFETY: both pointers are to live values of the layout that version 3 asks for.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether this process has `CAP_SYS_ADMIN` and `CAP_SETUID` in its user namespace, as root has.
pub fn has_admin_capability() -> bool {
    const CAP_SETUID: u32 = 7;
    const CAP_SYS_ADMIN: u32 = 21;
    let header = CapHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut data = [CapData::default(); 2];
    // SAFETY: both pointers are to live values of the layout that version 3 asks for.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    let needed = 1 << CAP_SETUID | 1 << CAP_SYS_ADMIN;
    result == 0 && data[0].effective & needed == needed
}

/// Keeps the heap of this process small. All threads share as many heaps as there are CPUs: the default
/// of eight per CPU is filled by tasks that move between threads, and none is ever freed. That was
/// half of the memory of a service after half an hour. And large blocks are mappings of their own, which
/// go back to the host when they are freed: by default the allocator puts them into its heaps once it
/// has freed one, and a flood of large requests left 460 MB of free blocks there, one of displays 60 MB.
pub fn limit_heaps() {
    const LARGE: libc::c_int = 256 << 10;
    let cpus = std::thread::available_parallelism().map_or(2, |count| count.get().max(2));
    let heaps = libc::c_int::try_from(cpus).unwrap_or(libc::c_int::MAX);
    for (parameter, value) in [(libc::M_ARENA_MAX, heaps), (libc::M_MMAP_THRESHOLD, LARGE)] {
        // SAFETY: changes a number of the allocator; memory that is allocated already stays valid.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Makes the disk begin to write these bytes of a file. That is only a hint, and says nothing about when they
/// are there: some file systems don't know it.
pub fn start_writing(file: impl AsFd, from: u64, bytes: u64) {
    let (Ok(from), Ok(bytes)) = (from.try_into(), bytes.try_into()) else {
        return;
    };
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: takes plain numbers, and changes no byte of the file.
    unsafe { libc::sync_file_range(fd, from, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Whether this process may make a user namespace here, and use it: tried in a child.
pub fn user_namespaces_work() -> io::Result<()> {
    // SAFETY: the child only makes a few system calls and exits, which is allowed after a fork of a
    // process with threads.
    match check(unsafe { libc::fork() })? {
        0 => {
            let tried = unshare(libc::CLONE_NEWUSER).and_then(|()| {
                // Where AppArmor restricts them, they can be made, and all power inside is taken away.
                let flags = rustix::fs::OFlags::WRONLY;
                let file =
                    rustix::fs::open(c"/proc/self/setgroups", flags, rustix::fs::Mode::empty())?;
                Ok(rustix::io::write(file, b"deny")?)
            });
            let code = match tried {
                Ok(_) => 0,
                Err(error) => error.raw_os_error().unwrap_or(1),
            };
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
        child => match wait(child)? {
            (_, 0) => Ok(()),
            (_, status) => Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))),
        },
    }
}

/// Waits for one child (or any, with -1) and returns its id and raw status.
pub(crate) fn wait(pid: libc::pid_t) -> io::Result<(libc::pid_t, libc::c_int)> {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        match check(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) }) {
            Ok(pid) => return Ok((pid, status)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Like [`wait`] for any child, but returns at once with `None` where none has ended.
pub(crate) fn try_wait_any() -> Option<(libc::pid_t, libc::c_int)> {
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
    (pid > 0).then_some((pid, status))
}

pub(crate) fn kill(pid: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

pub(crate) fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: ends this process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Mounts a fresh file system.
pub(crate) fn mount_new(
    kind: &std::ffi::CStr,
    target: &Path,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let target = c_path(target)?;
    let options = CString::new(options)?;
    // SAFETY: all pointers are to NUL-terminated strings that outlive the call.
    check(unsafe {
        libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    })
    .map(drop)
}

/// Cuts the mounts of this namespace off from those of the host.
pub(crate) fn make_mounts_private() -> io::Result<()> {
    // SAFETY: the one non-null pointer is to a NUL-terminated string.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })
    .map(drop)
}

#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Adds attributes (`MOUNT_ATTR_*`) to the whole mount tree under `tree`; never removes any, so it
/// also works where a namespace above has locked some.
pub(crate) fn add_mount_attributes(tree: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    set_mount_attributes(tree, attributes, 0)
}

/// The same, and owners of files become those that the user namespace maps them to.
pub(crate) fn map_mount(
    tree: BorrowedFd<'_>,
    namespace: BorrowedFd<'_>,
    attributes: u64,
) -> io::Result<()> {
    const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
    let namespace = u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?;
    set_mount_attributes(tree, attributes | MOUNT_ATTR_IDMAP, namespace)
}

fn set_mount_attributes(tree: BorrowedFd<'_>, attributes: u64, userns_fd: u64) -> io::Result<()> {
    let attr = MountAttr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd,
    };
    // SAFETY: the path is an empty C string, the structure is live and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    use std::os::fd::FromRawFd;
    // SAFETY: takes no pointers.
    let socket =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and nothing else owns it.
    let socket = unsafe { std::os::fd::OwnedFd::from_raw_fd(socket) };
    // SAFETY: an all-zero ifreq is a valid value of this plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = libc::c_char::try_from(b'l').unwrap_or_default();
    request.ifr_name[1] = libc::c_char::try_from(b'o').unwrap_or_default();
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: the pointer is to a live ifreq, which this request reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })
        .map(drop)
}

/// Whether all that was written to a local socket was read at its other end.
pub fn is_read(socket: impl AsFd) -> bool {
    let mut unread: libc::c_int = 0;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer is to a live number, which this request writes.
    let asked = unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut unread) };
    asked == 0 && unread == 0
}

/// Blocks SIGCHLD and returns a descriptor that becomes readable when a child ends.
pub(crate) fn child_signal_descriptor() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: an all-zero sigset_t is valid memory for sigemptyset to fill.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    // SAFETY: the pointer is to a live set.
    check(unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) })?;
    // SAFETY: the pointer is to a live set; the old set is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })?;
    // SAFETY: the pointer is to a live set.
    let descriptor = check(unsafe {
        libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
    })?;
    // SAFETY: the descriptor was just made and nothing else owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
}

/// Empties such a descriptor. One signal may stand for many children, so what it held says
/// nothing: the children are asked.
pub(crate) fn empty_signals(descriptor: &std::os::fd::OwnedFd) {
    let mut buffer = [0; 128 * 8];
    let _ = rustix::io::read(descriptor, &mut buffer);
}

/// Clears the signal mask, which a program keeps across `execve`.
pub(crate) fn unblock_signals() -> io::Result<()> {
    // SAFETY: an all-zero sigset_t is valid memory for sigemptyset to fill.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    // SAFETY: the pointer is to a live set; the old set is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) })
        .map(drop)
}

/// Lets every signal do what it does by default, and blocks none: a program keeps both across `execve`.
pub(crate) fn default_signals() -> io::Result<()> {
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: no handler is installed, so no code can run by it. Some numbers can't be changed.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    unblock_signals()
}

/// Copies a descriptor to the lowest free number from `lowest` on.
pub(crate) fn duplicate_above(source: libc::c_int, lowest: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: takes plain numbers; the copy is closed at the coming exec.
    check(unsafe { libc::fcntl(source, libc::F_DUPFD_CLOEXEC, lowest) })
}

/// Copies a descriptor to a given number, which nothing in this process owns.
pub(crate) fn duplicate_to(source: libc::c_int, target: libc::c_int) -> io::Result<()> {
    // SAFETY: takes plain numbers; the callers are about to exec and own nothing at `target`.
    check(unsafe { libc::dup2(source, target) }).map(drop)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: the callers keep no owner of these descriptors in use: they exec or loop for ever.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Replaces this process by a program.
pub(crate) fn exec(argv: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (arguments, variables) = (pointers(argv), pointers(environment));
    let Some(program) = argv.first() else {
        return io::Error::other("no program given");
    };
    // SAFETY: all three are NUL-terminated, the arrays end with a null pointer, and the strings
    // outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
    io::Error::last_os_error()
}
