//! Which system calls code in a session may make, and why: the whole policy, to be read as data.
//!
//! What is not listed is refused with `EPERM`; numbers that this kernel interface did not have when
//! the list was last read through get `ENOSYS`, so that a C library takes its older way. The list
//! grew from what Python, glibc, the data stack, child programs and compilers really ask for.
//! Before adding a row, ask: which program needs it, and what did bugs behind it allow so far?

use super::{Clause, Row, Test, Verdict};

/// The last number that was known when this list was read through (`mseal`).
pub(super) const LAST_KNOWN: u32 = 462;

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Of a socket's type: the kind, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCKET_KIND: u32 = 0xf;

/// All but `RLIMIT_CORE`, whose 1 must stay: with any other limit, 0 too, the kernel starts the
/// host's program for core dumps, where there is one, for each crash in a session.
const RESOURCES_BUT_CORE: [u32; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Of `preadv2`: give up rather than wait for a disk.
const RWF_NOWAIT: u32 = 8;

/// By number: NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED, FREE, REMOVE, DONTFORK, DOFORK, HUGEPAGE, NOHUGEPAGE,
/// DONTDUMP, DODUMP, WIPEONFORK, KEEPONFORK, `POPULATE_READ`, `POPULATE_WRITE`, `DONTNEED_LOCKED`, COLLAPSE. Not
/// MERGEABLE, COLD, PAGEOUT.
const MADVISE: [u32; 19] = [
    0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25,
];

/// Of a mode: the bits by which a program runs as the owner of its file. A session has no use for them, and in a directory
/// of the host they would be an offer to its users.
const SET_ID: u32 = 0o6000;

/// Of the flags of `open`: those with which its mode counts.
const CREATING: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// Requests of `ioctl` that ask about a descriptor, or change how a program uses it.
#[rustfmt::skip]
const QUESTIONS: [u32; 19] = [
    0x5401, // TCGETS: isatty
    0x540f, // TIOCGPGRP: shells
    0x5411, // TIOCOUTQ, SIOCOUTQ: sockets
    0x5413, // TIOCGWINSZ: os.get_terminal_size
    0x541b, // FIONREAD: bytes to read
    0x5421, // FIONBIO: socket.setblocking
    0x5450, // FIONCLEX
    0x5451, // FIOCLEX: os.set_inheritable
    0x5452, // FIOASYNC
    0x8910, // SIOCGIFNAME
    0x8912, // SIOCGIFCONF
    0x8913, // SIOCGIFFLAGS
    0x8915, // SIOCGIFADDR
    0x8927, // SIOCGIFHWADDR: uuid.getnode
    0x8933, // SIOCGIFINDEX: socket.if_nametoindex
    0x8000_6601, // FS_IOC_GETFLAGS, 32 bit: lsattr
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4004_9409, // FICLONE: cp, which works without it
    0x4020_940d, // FICLONERANGE
];

/// Requests of `ioctl` by which a shell and the programs in it drive their terminal. Not those that type keys for
/// another program (TIOCSTI, TIOCLINUX), choose a line discipline (TIOCSETD), or take the console (TIOCCONS).
#[rustfmt::skip]
pub(super) const DRIVING: [u32; 16] = [
    0x5402, 0x5403, 0x5404, // TCSETS, TCSETSW, TCSETSF: editors
    0x5409, 0x540a, 0x540b, // TCSBRK, TCXONC, TCFLSH: tcdrain, tcflow, tcflush
    0x540e, // TIOCSCTTY: a program that starts a session on it
    0x5410, // TIOCSPGRP: job control
    0x5414, // TIOCSWINSZ: stty
    0x5422, // TIOCNOTTY: setsid
    0x5425, // TCSBRKP: tcsendbreak
    0x5429, // TIOCGSID: tcgetsid
    0x802c_542a, 0x402c_542b, 0x402c_542c, 0x402c_542d, // TCGETS2, TCSETS2, TCSETSW2, TCSETSF2: newer C libraries
];

const ALLOW: Verdict = Verdict::Allow;

mod numbers {
    pub(super) use libc::*;

    /// The same everywhere; the crate lacks it for aarch64.
    #[cfg(target_arch = "aarch64")]
    #[allow(non_upper_case_globals, reason = "as the crate would name it")]
    pub(super) const SYS_fchmodat2: libc::c_long = 452;
}

macro_rules! rows {
    ($($(#[$attribute:meta])* $number:ident $verdict:expr, $reason:literal;)*) => {
        &[$($(#[$attribute])* Row {
            name: stringify!($number),
            number: numbers::$number as u32,
            verdict: $verdict,
            reason: $reason,
        },)*]
    };
}

/// Passes if any of the clauses does; a clause is a list of `argument & mask` and allowed values.
macro_rules! only {
    ($errno:ident: $([$($argument:literal & $mask:expr => $values:expr),+]),+ $(,)?) => {
        Verdict::AllowIf {
            clauses: &[$(Clause(&[$(Test { word: 2 * $argument, mask: $mask, values: &$values }),+])),+],
            otherwise: libc::$errno,
        }
    };
}

#[rustfmt::skip]
#[expect(clippy::cast_possible_truncation, reason = "constants of the kernel's interface, all small and positive")]
pub(super) const POLICY: &[Row] = rows! {
    // Reading and writing what is open.
    SYS_read ALLOW, "files, pipes, sockets";
    SYS_write ALLOW, "files, pipes, sockets";
    SYS_readv ALLOW, "files, pipes, sockets";
    SYS_writev ALLOW, "files, pipes, sockets";
    SYS_pread64 ALLOW, "databases, numpy.memmap";
    SYS_pwrite64 ALLOW, "databases, numpy.memmap";
    SYS_preadv ALLOW, "os.preadv";
    SYS_pwritev ALLOW, "os.pwritev";
    SYS_preadv2 only!(EOPNOTSUPP: [5 & RWF_NOWAIT => [0]]), "os.preadv with flags; not the one that tells whether a page of the host's files is in memory";
    SYS_pwritev2 ALLOW, "os.pwritev with flags";
    SYS_lseek ALLOW, "files";
    SYS_close ALLOW, "descriptors";
    SYS_close_range ALLOW, "subprocess closes descriptors";
    SYS_dup ALLOW, "descriptors";
    SYS_dup3 ALLOW, "descriptors";
    SYS_fcntl only!(EINVAL: [1 & !0 => [
        0, 1030, // DUPFD, DUPFD_CLOEXEC
        1, 2, 3, 4, // GETFD, SETFD, GETFL, SETFL
        5, 6, 7, // GETLK, SETLK, SETLKW
        36, 37, 38, // the same for locks of open files
        8, 9, 10, 11, 15, 16, // SETOWN, GETOWN, SETSIG, GETSIG, SETOWN_EX, GETOWN_EX
        1031, 1032, // SETPIPE_SZ, GETPIPE_SZ
        1033, 1034, // ADD_SEALS, GET_SEALS
    ]]), "flags and locks of descriptors; nothing that is kept at a file which others have open too: no NOTIFY, leases, write hints";
    SYS_flock ALLOW, "locks of files; those of the host too, which no filter can tell apart (SECURITY.md)";
    SYS_ftruncate ALLOW, "files open for writing";
    SYS_fallocate ALLOW, "databases";
    SYS_fadvise64 Verdict::Answer(0), "nothing to do for files in memory; for the host's it would empty the page cache that all share";
    SYS_readahead Verdict::Answer(0), "as fadvise64";
    SYS_sendfile ALLOW, "shutil.copyfile";
    SYS_copy_file_range ALLOW, "cp, os.copy_file_range";
    SYS_fsync ALLOW, "databases";
    SYS_fdatasync ALLOW, "databases";
    SYS_sync_file_range ALLOW, "databases";
    SYS_sync Verdict::Answer(0), "nothing of a session is on a disk, and it would write out the host's";
    SYS_syncfs Verdict::Answer(0), "as sync: the descriptor may be of a directory of the host";
    SYS_ioctl only!(ENOTTY: [1 & !0 => QUESTIONS]), "questions about descriptors; no terminal is driven, no keys are typed (TIOCSTI)";

    // Files by name. Read-only mounts and Landlock decide which.
    SYS_openat only!(EPERM: [2 & CREATING => [0]], [3 & SET_ID => [0]]), "files; none that runs as its owner";
    SYS_openat2 Verdict::Answer(libc::ENOSYS), "its flags and mode are out of sight; C libraries take openat then";
    SYS_faccessat ALLOW, "os.access";
    SYS_faccessat2 ALLOW, "os.access";
    SYS_newfstatat ALLOW, "os.stat";
    SYS_fstat ALLOW, "os.fstat";
    SYS_statx ALLOW, "os.stat of newer C libraries";
    SYS_statfs ALLOW, "shutil.disk_usage";
    SYS_fstatfs ALLOW, "shutil.disk_usage";
    SYS_readlinkat ALLOW, "os.readlink";
    SYS_getdents64 ALLOW, "os.listdir";
    SYS_getcwd ALLOW, "os.getcwd";
    SYS_chdir ALLOW, "os.chdir";
    SYS_fchdir ALLOW, "os.fchdir";
    SYS_mkdirat ALLOW, "os.mkdir";
    SYS_unlinkat ALLOW, "os.remove";
    SYS_renameat ALLOW, "os.rename";
    SYS_renameat2 ALLOW, "mv";
    SYS_linkat ALLOW, "os.link";
    SYS_symlinkat ALLOW, "os.symlink";
    SYS_fchmod only!(EPERM: [1 & SET_ID => [0]]), "os.chmod";
    SYS_fchmodat only!(EPERM: [2 & SET_ID => [0]]), "os.chmod";
    SYS_fchmodat2 only!(EPERM: [2 & SET_ID => [0]]), "os.chmod of newer C libraries";
    SYS_fchown ALLOW, "shutil.copystat, tar: to the one user there is";
    SYS_fchownat ALLOW, "as fchown";
    SYS_utimensat ALLOW, "os.utime";
    SYS_truncate ALLOW, "os.truncate";
    SYS_umask ALLOW, "os.umask";
    SYS_mknodat only!(EPERM: [2 & (0o170_000 | SET_ID) => [0, 0o100_000, 0o010_000, 0o140_000]]), "files, FIFOs and sockets; no devices";
    SYS_getxattr ALLOW, "shutil.copystat";
    SYS_lgetxattr ALLOW, "shutil.copystat";
    SYS_fgetxattr ALLOW, "shutil.copystat";
    SYS_listxattr ALLOW, "shutil.copystat";
    SYS_llistxattr ALLOW, "shutil.copystat";
    SYS_flistxattr ALLOW, "shutil.copystat";
    SYS_setxattr ALLOW, "shutil.copystat";
    SYS_lsetxattr ALLOW, "shutil.copystat";
    SYS_fsetxattr ALLOW, "shutil.copystat";
    SYS_removexattr ALLOW, "os.removexattr";
    SYS_lremovexattr ALLOW, "os.removexattr";
    SYS_fremovexattr ALLOW, "os.removexattr";
    SYS_landlock_restrict_self ALLOW, "a fork of a session gives up its parent's files; with the rules of others nothing is gained";
    SYS_inotify_init1 Verdict::Answer(libc::ENOSYS), "a watch is kept at the file, which for those of the host and for devices all share: it would show who else opens them. Libraries that have another way take it";
    SYS_inotify_add_watch Verdict::Answer(libc::ENOSYS), "as inotify_init1";
    SYS_inotify_rm_watch Verdict::Answer(libc::ENOSYS), "as inotify_init1";

    // Waiting.
    SYS_ppoll ALLOW, "select.poll";
    SYS_pselect6 ALLOW, "select.select";
    SYS_epoll_create1 ALLOW, "asyncio";
    SYS_epoll_ctl ALLOW, "asyncio";
    SYS_epoll_pwait ALLOW, "asyncio";
    SYS_epoll_pwait2 ALLOW, "asyncio of newer libraries";
    SYS_eventfd2 ALLOW, "asyncio, threads";
    SYS_signalfd4 ALLOW, "event loops";
    SYS_timerfd_create ALLOW, "event loops";
    SYS_timerfd_settime ALLOW, "event loops";
    SYS_timerfd_gettime ALLOW, "event loops";
    SYS_pipe2 ALLOW, "os.pipe, subprocess";

    // Memory.
    SYS_brk ALLOW, "malloc";
    SYS_mmap ALLOW, "malloc, libraries, numpy.memmap; writable and executable too: compilers such as numba need it";
    SYS_munmap ALLOW, "as mmap";
    SYS_mremap ALLOW, "realloc";
    SYS_mprotect ALLOW, "libraries, threads' stacks";
    SYS_madvise only!(EINVAL: [2 & !0 => MADVISE]), "malloc, numpy; nothing that pushes shared pages out or has equal pages of others merged";
    SYS_msync ALLOW, "mmap.flush";
    SYS_mlock ALLOW, "keys in memory; bounded by a resource limit";
    SYS_mlock2 ALLOW, "as mlock";
    SYS_munlock ALLOW, "as mlock";
    SYS_memfd_create ALLOW, "anonymous files: multiprocessing, arrow";
    SYS_membarrier ALLOW, "runtimes of compiled languages";
    SYS_get_mempolicy ALLOW, "OpenBLAS asks for the layout of memory";

    // Processes and threads, all within the session's pid namespace.
    SYS_clone only!(EPERM: [0 & NAMESPACES => [0]]), "threads and fork; no namespaces";
    SYS_clone3 Verdict::Answer(libc::ENOSYS), "its flags are in memory, where no filter can read them: the C library falls back to clone";
    SYS_execve ALLOW, "subprocess";
    SYS_execveat ALLOW, "os.execve of a descriptor";
    SYS_exit ALLOW, "threads";
    SYS_exit_group ALLOW, "processes";
    SYS_wait4 ALLOW, "os.wait";
    SYS_waitid ALLOW, "os.waitid, asyncio";
    SYS_kill ALLOW, "os.kill";
    SYS_tkill ALLOW, "raise of older C libraries";
    SYS_tgkill ALLOW, "signal.pthread_kill, abort";
    SYS_pidfd_open ALLOW, "asyncio waits for children";
    SYS_pidfd_send_signal ALLOW, "signal.pidfd_send_signal";
    SYS_getpid ALLOW, "ids";
    SYS_getppid ALLOW, "ids";
    SYS_gettid ALLOW, "ids";
    SYS_getpgid ALLOW, "job control";
    SYS_setpgid ALLOW, "job control";
    SYS_getsid ALLOW, "job control";
    SYS_setsid ALLOW, "subprocess with start_new_session";
    SYS_getuid ALLOW, "ids";
    SYS_geteuid ALLOW, "ids";
    SYS_getgid ALLOW, "ids";
    SYS_getegid ALLOW, "ids";
    SYS_getgroups ALLOW, "ids";
    SYS_getresuid ALLOW, "ids";
    SYS_getresgid ALLOW, "ids";
    SYS_setuid ALLOW, "shells set the id that they have; there is no other";
    SYS_setgid ALLOW, "as setuid";
    SYS_setreuid ALLOW, "as setuid";
    SYS_setregid ALLOW, "as setuid";
    SYS_setresuid ALLOW, "as setuid";
    SYS_setresgid ALLOW, "as setuid";
    SYS_capget ALLOW, "programs ask what they may; the answer is nothing";
    SYS_prctl only!(EPERM: [0 & !0 => [
        1, 2, // PDEATHSIG
        3, 4, // DUMPABLE
        15, 16, // NAME
        21, // GET_SECCOMP
        23, // CAPBSET_READ
        29, 30, // TIMERSLACK
        36, 37, // CHILD_SUBREAPER
        38, 39, // NO_NEW_PRIVS
        40, // GET_TID_ADDRESS
        41, 42, // THP_DISABLE
        0x5356_4d41, // SET_VMA: names of memory areas, by malloc
    ]]), "names, death signals; no seccomp, no capabilities, no speculation controls";
    #[cfg(target_arch = "x86_64")]
    SYS_arch_prctl ALLOW, "the C library sets up its thread pointer; AMX";
    SYS_set_tid_address ALLOW, "threads";
    SYS_set_robust_list ALLOW, "threads";
    SYS_get_robust_list ALLOW, "threads";
    SYS_rseq ALLOW, "threads";
    SYS_futex ALLOW, "locks";
    SYS_futex_waitv ALLOW, "locks";
    SYS_sched_yield ALLOW, "threads";
    SYS_sched_getaffinity ALLOW, "os.sched_getaffinity, OpenBLAS";
    SYS_sched_setaffinity ALLOW, "numeric libraries bind threads; within the session's CPUs";
    SYS_sched_getscheduler ALLOW, "os.sched_getscheduler";
    SYS_sched_getparam ALLOW, "threads' attributes";
    SYS_sched_get_priority_max ALLOW, "threads' attributes";
    SYS_sched_get_priority_min ALLOW, "threads' attributes";
    SYS_sched_rr_get_interval ALLOW, "os.sched_rr_get_interval";
    SYS_getpriority ALLOW, "os.nice";
    SYS_setpriority ALLOW, "os.nice, downwards only";
    SYS_getcpu ALLOW, "numeric libraries";
    SYS_prlimit64 Verdict::AllowIf {
        clauses: &[
            // Of the caller alone: a fork of a session could else end the others by theirs.
            Clause(&[Test { word: 0, mask: !0, values: &[0] }, Test { word: 2, mask: !0, values: &RESOURCES_BUT_CORE }]),
            // No new limit, so it only asks.
            Clause(&[Test { word: 4, mask: !0, values: &[0] }, Test { word: 5, mask: !0, values: &[0] }]),
        ],
        otherwise: libc::EPERM,
    }, "resource limits, downwards only";
    SYS_getrlimit ALLOW, "resource limits";
    SYS_setrlimit only!(EPERM: [0 & !0 => RESOURCES_BUT_CORE]), "resource limits, downwards only";
    SYS_getrusage ALLOW, "resource.getrusage";
    SYS_personality only!(EPERM: [0 & !0 => [0, 0xffff_ffff]]), "asking, and the plain one";
    SYS_restart_syscall ALLOW, "after a stop";

    // Signals.
    SYS_rt_sigaction ALLOW, "signals";
    SYS_rt_sigprocmask ALLOW, "signals";
    SYS_rt_sigreturn ALLOW, "signals";
    SYS_rt_sigpending ALLOW, "signals";
    SYS_rt_sigsuspend ALLOW, "signals";
    SYS_rt_sigtimedwait ALLOW, "signal.sigtimedwait";
    SYS_rt_sigqueueinfo ALLOW, "sigqueue";
    SYS_rt_tgsigqueueinfo ALLOW, "pthread_sigqueue";
    SYS_sigaltstack ALLOW, "faulthandler";

    // Time: reading and waiting, never setting.
    SYS_clock_gettime ALLOW, "time";
    SYS_clock_getres ALLOW, "time";
    SYS_clock_nanosleep ALLOW, "time.sleep";
    SYS_nanosleep ALLOW, "sleep";
    SYS_gettimeofday ALLOW, "time";
    SYS_times ALLOW, "os.times";
    SYS_getitimer ALLOW, "signal.getitimer";
    SYS_setitimer ALLOW, "signal.setitimer";
    SYS_timer_create ALLOW, "timers";
    SYS_timer_settime ALLOW, "timers";
    SYS_timer_gettime ALLOW, "timers";
    SYS_timer_getoverrun ALLOW, "timers";
    SYS_timer_delete ALLOW, "timers";

    // The machine.
    SYS_uname ALLOW, "platform";
    SYS_sysinfo ALLOW, "how much memory there is";
    SYS_getrandom ALLOW, "os.urandom, secrets";

    // Sockets: local ones and the internet's plain ones. The network namespace has loopback alone. For a protocol that it
    // does not know the kernel starts `modprobe`, outside of the session's limits, so each kind has its own ones.
    SYS_socket only!(EAFNOSUPPORT:
        [0 & !0 => [libc::AF_UNIX as u32], 1 & SOCKET_KIND => [1, 2, 5]],
        [0 & !0 => [libc::AF_INET as u32, libc::AF_INET6 as u32], 1 & SOCKET_KIND => [1], 2 & !0 => [0, 6]],
        [0 & !0 => [libc::AF_INET as u32, libc::AF_INET6 as u32], 1 & SOCKET_KIND => [2], 2 & !0 => [0, 17]],
    ), "streams and datagrams; no raw, netlink, packet, vsock, crypto or other families, whose code is rarely read";
    SYS_socketpair only!(EAFNOSUPPORT: [0 & !0 => [libc::AF_UNIX as u32], 1 & SOCKET_KIND => [1, 2, 5]]), "asyncio, multiprocessing";
    SYS_bind ALLOW, "servers within the session";
    SYS_listen ALLOW, "servers within the session";
    SYS_accept ALLOW, "servers within the session";
    SYS_accept4 ALLOW, "servers within the session";
    SYS_connect ALLOW, "clients within the session, and its proxy";
    SYS_getsockname ALLOW, "sockets";
    SYS_getpeername ALLOW, "sockets";
    SYS_sendto ALLOW, "sockets";
    SYS_recvfrom ALLOW, "sockets";
    SYS_sendmsg ALLOW, "sockets";
    SYS_recvmsg ALLOW, "sockets";
    SYS_sendmmsg ALLOW, "resolvers";
    SYS_recvmmsg ALLOW, "resolvers";
    SYS_shutdown ALLOW, "sockets";
    SYS_getsockopt ALLOW, "sockets";
    SYS_setsockopt only!(ENOPROTOOPT:
        [1 & !0 => [0, 41, 17]],
        // By number: REUSEADDR, DONTROUTE, BROADCAST, SNDBUF, RCVBUF, KEEPALIVE, OOBINLINE, PRIORITY,
        // LINGER, REUSEPORT, PASSCRED, RCVLOWAT, RCVTIMEO, SNDTIMEO, BINDTODEVICE, TIMESTAMP,
        // TIMESTAMPNS, and the newer forms of the times. No programs (ATTACH_FILTER, ATTACH_BPF).
        [1 & !0 => [libc::SOL_SOCKET as u32], 2 & !0 => [2, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 18, 20, 21, 25, 29, 35, 63, 64, 66, 67]],
        // By number: NODELAY, MAXSEG, CORK, KEEPIDLE, KEEPINTVL, KEEPCNT, SYNCNT, LINGER2,
        // DEFER_ACCEPT, WINDOW_CLAMP, QUICKACK, USER_TIMEOUT, FASTOPEN, NOTSENT_LOWAT.
        [1 & !0 => [6], 2 & !0 => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18, 23, 25]],
    ), "sockets; no upper layers (TCP_ULP), no other protocols";

    // Older names of the above, which this architecture still has.
    #[cfg(target_arch = "x86_64")]
    SYS_open only!(EPERM: [1 & CREATING => [0]], [2 & SET_ID => [0]]), "as openat";
    #[cfg(target_arch = "x86_64")]
    SYS_creat only!(EPERM: [1 & SET_ID => [0]]), "as openat";
    #[cfg(target_arch = "x86_64")]
    SYS_stat ALLOW, "as newfstatat";
    #[cfg(target_arch = "x86_64")]
    SYS_lstat ALLOW, "as newfstatat";
    #[cfg(target_arch = "x86_64")]
    SYS_access ALLOW, "as faccessat";
    #[cfg(target_arch = "x86_64")]
    SYS_readlink ALLOW, "as readlinkat";
    #[cfg(target_arch = "x86_64")]
    SYS_getdents ALLOW, "as getdents64";
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir ALLOW, "as mkdirat";
    #[cfg(target_arch = "x86_64")]
    SYS_rmdir ALLOW, "as unlinkat";
    #[cfg(target_arch = "x86_64")]
    SYS_unlink ALLOW, "as unlinkat";
    #[cfg(target_arch = "x86_64")]
    SYS_rename ALLOW, "as renameat";
    #[cfg(target_arch = "x86_64")]
    SYS_link ALLOW, "as linkat";
    #[cfg(target_arch = "x86_64")]
    SYS_symlink ALLOW, "as symlinkat";
    #[cfg(target_arch = "x86_64")]
    SYS_chmod only!(EPERM: [1 & SET_ID => [0]]), "as fchmodat";
    #[cfg(target_arch = "x86_64")]
    SYS_chown ALLOW, "as fchownat";
    #[cfg(target_arch = "x86_64")]
    SYS_lchown ALLOW, "as fchownat";
    #[cfg(target_arch = "x86_64")]
    SYS_utime ALLOW, "as utimensat";
    #[cfg(target_arch = "x86_64")]
    SYS_utimes ALLOW, "as utimensat";
    #[cfg(target_arch = "x86_64")]
    SYS_futimesat ALLOW, "as utimensat";
    #[cfg(target_arch = "x86_64")]
    SYS_mknod only!(EPERM: [1 & (0o170_000 | SET_ID) => [0, 0o100_000, 0o010_000, 0o140_000]]), "as mknodat";
    #[cfg(target_arch = "x86_64")]
    SYS_inotify_init Verdict::Answer(libc::ENOSYS), "as inotify_init1";
    #[cfg(target_arch = "x86_64")]
    SYS_poll ALLOW, "as ppoll";
    #[cfg(target_arch = "x86_64")]
    SYS_select ALLOW, "as pselect6";
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_create ALLOW, "as epoll_create1";
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait ALLOW, "as epoll_pwait";
    #[cfg(target_arch = "x86_64")]
    SYS_eventfd ALLOW, "as eventfd2";
    #[cfg(target_arch = "x86_64")]
    SYS_signalfd ALLOW, "as signalfd4";
    #[cfg(target_arch = "x86_64")]
    SYS_pipe ALLOW, "as pipe2";
    #[cfg(target_arch = "x86_64")]
    SYS_dup2 ALLOW, "as dup3";
    #[cfg(target_arch = "x86_64")]
    SYS_fork ALLOW, "as clone";
    #[cfg(target_arch = "x86_64")]
    SYS_vfork ALLOW, "as clone";
    #[cfg(target_arch = "x86_64")]
    SYS_getpgrp ALLOW, "as getpgid";
    #[cfg(target_arch = "x86_64")]
    SYS_alarm ALLOW, "as setitimer";
    #[cfg(target_arch = "x86_64")]
    SYS_pause ALLOW, "signal.pause";
    #[cfg(target_arch = "x86_64")]
    SYS_time ALLOW, "time";
};

/// Of the flags of `open`: how it is opened, and `O_TRUNC`.
const OPENING: u32 = (libc::O_ACCMODE | libc::O_TRUNC) as u32;

/// All but `O_TRUNC` of a file that is opened to be read.
const WITHOUT_EMPTYING: [u32; 7] = {
    let truncate = libc::O_TRUNC as u32;
    [0, 1, 2, 3, truncate | 1, truncate | 2, truncate | 3]
};

/// Rows in the place of others where Landlock does not cover that a file is emptied (before version 3, Linux
/// 6.2): what can't be written must not be emptied, and the mount alone would be one wall.
#[rustfmt::skip]
#[expect(clippy::cast_possible_truncation, reason = "constants of the kernel's interface, all small and positive")]
pub(super) const EMPTYING: &[Row] = rows! {
    #[cfg(target_arch = "x86_64")]
    SYS_open only!(EPERM: [1 & OPENING => WITHOUT_EMPTYING, 1 & CREATING => [0]], [1 & OPENING => WITHOUT_EMPTYING, 2 & SET_ID => [0]]), "as openat";
    SYS_openat only!(EPERM: [2 & OPENING => WITHOUT_EMPTYING, 2 & CREATING => [0]], [2 & OPENING => WITHOUT_EMPTYING, 3 & SET_ID => [0]]), "files; who empties one opens it for writing";
    SYS_truncate Verdict::Answer(libc::EPERM), "file.truncate() works";
};

/// Rows in the place of others for commands that have a terminal.
#[expect(
    clippy::cast_possible_truncation,
    reason = "constants of the kernel's interface, all small and positive"
)]
pub(super) const TERMINAL: &[Row] = rows! {
    SYS_ioctl only!(ENOTTY: [1 & !0 => QUESTIONS], [1 & !0 => DRIVING]), "a terminal is driven; no keys are typed (TIOCSTI)";
};
