//! Which system calls a process that only computes may make: the whole policy. What is not listed is
//! refused with `EPERM`.

use super::{Clause, Row, Test, Verdict};

const ALLOW: Verdict = Verdict::Allow;

/// Only for these values of the first argument.
macro_rules! descriptors {
    ($($descriptor:literal),+) => {
        Verdict::AllowIf {
            clauses: &[Clause(&[Test { word: 0, mask: u32::MAX, values: &[$($descriptor),+] }])],
            otherwise: libc::EPERM,
        }
    };
}

/// Memory that is not to be executed.
const DATA: Verdict = Verdict::AllowIf {
    clauses: &[Clause(&[Test {
        word: 4,
        mask: libc::PROT_EXEC as u32,
        values: &[0],
    }])],
    otherwise: libc::EPERM,
};

/// What an allocator asks for: memory of the process alone that no file is behind.
const OWN_DATA: Verdict = Verdict::AllowIf {
    clauses: &[Clause(&[
        Test {
            word: 4,
            mask: libc::PROT_EXEC as u32,
            values: &[0],
        },
        Test {
            word: 6,
            mask: (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_SHARED) as u32,
            values: &[(libc::MAP_ANONYMOUS | libc::MAP_PRIVATE) as u32],
        },
    ])],
    otherwise: libc::EPERM,
};

macro_rules! rows {
    ($($number:ident $verdict:expr, $reason:literal;)*) => {
        &[$(Row {
            name: stringify!($number),
            number: libc::$number as u32,
            verdict: $verdict,
            reason: $reason,
        },)*]
    };
}

#[rustfmt::skip]
#[expect(clippy::cast_possible_truncation, reason = "constants of the kernel's interface, all small and positive")]
pub(super) const COMPUTATION: &[Row] = rows! {
    SYS_read descriptors!(0), "the request";
    SYS_write descriptors!(1, 2), "the answer, and a panic's message";
    SYS_mmap OWN_DATA, "the allocator";
    SYS_mprotect DATA, "the allocator's heaps";
    SYS_munmap ALLOW, "the allocator";
    SYS_mremap ALLOW, "growing a large block";
    SYS_madvise ALLOW, "giving memory back, a thread's stack";
    SYS_brk ALLOW, "the allocator";
    SYS_futex ALLOW, "waiting for the thread that computes";
    SYS_getrandom ALLOW, "seeds of hash tables";
    SYS_clock_gettime ALLOW, "the interpreter's time limit, where the kernel maps no clock";
    SYS_sigaltstack ALLOW, "the end of a thread";
    SYS_rt_sigprocmask ALLOW, "the end of a thread, abort";
    SYS_rt_sigaction ALLOW, "a stack that overflows, abort";
    SYS_rt_sigreturn ALLOW, "a stack that overflows";
    SYS_getpid ALLOW, "abort";
    SYS_gettid ALLOW, "abort";
    SYS_tgkill ALLOW, "abort: nobody else is in its pid namespace";
    SYS_restart_syscall ALLOW, "a wait that a stop interrupted";
    SYS_exit ALLOW, "the end of a thread";
    SYS_exit_group ALLOW, "the end";
};
