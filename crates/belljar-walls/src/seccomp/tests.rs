//! The policy read as a list, the program run by hand, and the program run by the kernel agree.

use std::collections::HashSet;

use super::*;
use crate::landlock::LANDLOCK_FLOOR;

/// A call: number and arguments.
type Call = (u32, [u64; 6]);

/// What the list says: nothing of the compiler in it.
fn listed(policy: &[&Row], (number, arguments): Call) -> u32 {
    let Some(row) = policy.iter().find(|row| row.number == number) else {
        let unknown = number > LAST_KNOWN;
        return error(if unknown { libc::ENOSYS } else { libc::EPERM });
    };
    let word = |word: u32| {
        let argument = arguments[word as usize / 2];
        u32::try_from((argument >> (word % 2 * 32)) & 0xffff_ffff).unwrap()
    };
    let passes = |clause: &Clause| {
        clause
            .0
            .iter()
            .all(|test| test.values.contains(&(word(test.word) & test.mask)))
    };
    match row.verdict {
        Verdict::Allow => RETURN_ALLOW,
        Verdict::Answer(number) => error(number),
        Verdict::AllowIf { clauses, .. } if clauses.iter().any(passes) => RETURN_ALLOW,
        Verdict::AllowIf { otherwise, .. } => error(otherwise),
    }
}

/// The filter machine, as far as our programs use it.
fn interpreted(program: &[Instruction], architecture: u32, (number, arguments): Call) -> u32 {
    let (mut at, mut loaded) = (0, 0);
    loop {
        let step = program[at];
        at += 1;
        match step.code {
            LOAD => {
                loaded = match step.value {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    offset => {
                        let word = (offset - ARGUMENTS) / 4;
                        let argument = arguments[word as usize / 2];
                        u32::try_from((argument >> (word % 2 * 32)) & 0xffff_ffff).unwrap()
                    }
                }
            }
            AND => loaded &= step.value,
            JUMP => at += step.value as usize,
            IF_EQUAL | IF_AT_LEAST => {
                let holds = match step.code {
                    IF_EQUAL => loaded == step.value,
                    _ => loaded >= step.value,
                };
                at += usize::from(if holds { step.if_true } else { step.if_false });
            }
            RETURN => return step.value,
            code => panic!("{code:#x}"),
        }
    }
}

/// With the oldest Landlock that sessions start with, and with one that covers more.
fn policies() -> [Vec<&'static Row>; 2] {
    [LANDLOCK_FLOOR, COVERS_EMPTYING].map(|landlock| session_policy(landlock, false))
}

/// For each row: each allowed combination of arguments, and each with one argument changed; and
/// every number there is, with arguments that are all zero and all ones.
fn calls(policy: &[&Row]) -> Vec<Call> {
    let mut calls = Vec::new();
    for number in (0..LAST_KNOWN + 200).chain([0x4000_0000, 0x4000_0027, 0x4000_0209, u32::MAX]) {
        calls.push((number, [0; 6]));
        calls.push((number, [u64::MAX; 6]));
    }
    for row in policy {
        let Verdict::AllowIf { clauses, .. } = row.verdict else {
            continue;
        };
        for clause in clauses {
            let mut good = vec![[0_u64; 6]];
            for test in clause.0 {
                good = good
                    .into_iter()
                    .flat_map(|base| {
                        test.values.iter().map(move |value| {
                            let mut arguments = base;
                            arguments[test.word as usize / 2] |=
                                u64::from(*value) << (test.word % 2 * 32);
                            arguments
                        })
                    })
                    .collect();
            }
            for arguments in good {
                calls.push((row.number, arguments));
                for test in clause.0 {
                    for bit in 0..64 {
                        let mut changed = arguments;
                        changed[test.word as usize / 2] ^= 1 << bit;
                        calls.push((row.number, changed));
                    }
                }
            }
        }
    }
    calls
}

#[test]
fn each_row_stands_once_with_its_reason() {
    for policy in policies() {
        let mut seen = HashSet::new();
        for row in policy {
            assert!(seen.insert(row.number), "{} stands twice", row.name);
            assert!(!row.reason.is_empty(), "{} has no reason", row.name);
            assert!(row.number <= LAST_KNOWN, "{} is beyond", row.name);
        }
    }
}

/// F17 where Landlock does not cover it: a file that is opened to be read is not emptied.
#[test]
fn f17_nothing_is_emptied_that_can_not_be_written() {
    let [old, new] = policies();
    let open = |flags: i32| [0, 0, u64::from(flags.cast_unsigned()), 0, 0, 0];
    let openat = u32::try_from(libc::SYS_openat).unwrap();
    let truncate = u32::try_from(libc::SYS_truncate).unwrap();
    for (flags, allowed) in [
        (libc::O_RDONLY, true),
        (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY, true),
        (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, true),
        (libc::O_RDWR | libc::O_TRUNC, true),
        (libc::O_RDONLY | libc::O_TRUNC, false),
        (libc::O_RDONLY | libc::O_TRUNC | libc::O_CREAT, false),
    ] {
        let answer = listed(&old, (openat, open(flags)));
        assert_eq!(answer == RETURN_ALLOW, allowed, "{flags:#x}");
        assert_eq!(listed(&new, (openat, open(flags))), RETURN_ALLOW);
    }
    assert_eq!(listed(&old, (truncate, [0; 6])), error(libc::EPERM));
    assert_eq!(listed(&new, (truncate, [0; 6])), RETURN_ALLOW);
}

/// What no session may ever call, whatever the list becomes.
#[test]
fn the_dangerous_ones_are_not_listed() {
    for number in [
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_ptrace,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_fsopen,
        libc::SYS_open_tree,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_kexec_load,
        libc::SYS_seccomp,
        libc::SYS_clock_settime,
        libc::SYS_memfd_secret,
        libc::SYS_vmsplice,
        libc::SYS_mincore,
        libc::SYS_fanotify_init,
        libc::SYS_name_to_handle_at,
    ] {
        let number = u32::try_from(number).unwrap();
        for policy in policies() {
            let answer = listed(&policy, (number, [0; 6]));
            assert_eq!(answer, error(libc::EPERM), "{number}");
        }
    }
}

#[test]
fn the_program_does_what_the_list_says() {
    for policy in policies() {
        let program = compile(&policy, RETURN_ALLOW);
        assert!(program.len() < 1000, "{} instructions", program.len());
        for call in calls(&policy) {
            assert_eq!(
                interpreted(&program, THIS_ARCHITECTURE, call),
                listed(&policy, call),
                "{call:x?}"
            );
        }
        let foreign = interpreted(&program, 0x4000_0003, (1, [0; 6]));
        assert_eq!(foreign, RETURN_KILL);
    }
}

/// G8, in the manner of Firecracker: every rule with good and with changed arguments, by the
/// kernel. The program under test returns an error of its own where the real one allows, so that
/// no call is really made; the child tells what it saw through shared memory and ends without a
/// call.
#[test]
fn g8_the_kernel_does_what_the_list_says() {
    for policy in policies() {
        check_by_the_kernel(&policy);
    }
}

fn check_by_the_kernel(policy: &[&Row]) {
    const ALLOWED: u32 = 999;
    let program = compile(policy, RETURN_ERROR | ALLOWED);
    let mut calls = calls(policy);
    // The kernel keeps these two of x86-64 (uretprobe, uprobe) from every filter. From anywhere but
    // its own trampolines they end the caller with SIGILL.
    calls.retain(|(number, _)| !(335..=336).contains(number));
    let bytes = calls.len() * size_of::<i64>();
    // SAFETY: a new anonymous mapping that nothing else knows of.
    let shared = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(shared, libc::MAP_FAILED);
    let results = shared.cast::<i64>();
    // SAFETY: the child makes system calls and writes to the mapping, nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        install(&program);
        for (index, (number, arguments)) in calls.iter().enumerate() {
            let [first, second, third, fourth, fifth, sixth] = *arguments;
            // SAFETY: the filter answers every call, so that none is made.
            let result = unsafe {
                libc::syscall(
                    i64::from(*number),
                    first,
                    second,
                    third,
                    fourth,
                    fifth,
                    sixth,
                )
            };
            let error = std::io::Error::last_os_error().raw_os_error();
            let seen = if result == 0 {
                0
            } else {
                error.map_or(0, i64::from)
            };
            // SAFETY: within the mapping, which has room for all results.
            unsafe { results.wrapping_add(index).write_volatile(seen + 1) };
        }
        end_without_a_call();
    }
    let (_, status) = crate::sys::wait(child).unwrap();
    assert!(libc::WIFSIGNALED(status), "{status}");
    for (index, call) in calls.iter().enumerate() {
        // SAFETY: within the mapping; the writer is dead.
        let seen = unsafe { results.wrapping_add(index).read_volatile() } - 1;
        let expected = match listed(policy, *call) {
            RETURN_ALLOW => ALLOWED,
            answer => answer & 0xffff,
        };
        assert_eq!(seen, i64::from(expected), "{call:x?}");
    }
}

/// A command with a terminal drives it, and types nothing into it; one without a terminal does neither.
#[test]
fn a_terminal_is_driven_and_not_typed_into() {
    const TIOCSTI: u64 = 0x5412;
    const TIOCSETD: u64 = 0x5423;
    let [plain, driving] = [false, true].map(|terminal| {
        let policy = session_policy(COVERS_EMPTYING, terminal);
        let program = compile(&policy, RETURN_ALLOW);
        move |request: u64| {
            let number = u32::try_from(libc::SYS_ioctl).unwrap();
            let call = (number, [0, request, 0, 0, 0, 0]);
            interpreted(&program, THIS_ARCHITECTURE, call) == RETURN_ALLOW
        }
    });
    for request in policy::DRIVING.map(u64::from) {
        assert!(driving(request) && !plain(request), "{request:#x}");
    }
    for request in [TIOCSTI, TIOCSETD] {
        assert!(!driving(request) && !plain(request), "{request:#x}");
    }
    assert!(driving(0x5401) && plain(0x5401), "isatty");
}

/// G7: a call by the 32-bit gate ends the process, whatever it asks for.
#[cfg(target_arch = "x86_64")]
#[test]
fn g7_the_32_bit_gate_is_closed() {
    let program = compile(&session_policy(COVERS_EMPTYING, false), RETURN_ALLOW);
    // SAFETY: the child makes two system calls and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        install(&program);
        // SAFETY: getpid of the 32-bit interface takes no arguments and changes only rax.
        unsafe { std::arch::asm!("int 0x80", inout("rax") 20_u64 => _) };
        crate::sys::exit_now(0);
    }
    let (_, status) = crate::sys::wait(child).unwrap();
    assert!(libc::WIFSIGNALED(status), "{status}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSYS);
}

fn install(program: &[Instruction]) {
    let filters: Vec<libc::sock_filter> = program
        .iter()
        .map(|step| libc::sock_filter {
            code: step.code,
            jt: step.if_true,
            jf: step.if_false,
            k: step.value,
        })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(filters.len()).unwrap(),
        filter: filters.as_ptr().cast_mut(),
    };
    crate::sys::no_new_privileges().unwrap();
    // SAFETY: the program and its instructions are live; the kernel copies them.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(result, 0);
}

fn end_without_a_call() -> ! {
    // SAFETY: ends the process by an illegal instruction, which needs no system call.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ud2", options(noreturn))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("udf #0", options(noreturn))
    }
}
