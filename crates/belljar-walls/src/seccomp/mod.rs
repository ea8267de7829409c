//! The filter of system calls that every process of a session is under.
//!
//! [`policy`] is the list; this module makes it a program for the kernel's filter machine (classic
//! BPF). By hand, because each session installs the program at its start: a search tree of a few
//! hundred instructions loads in a tenth of the time that a chain of comparisons takes, which is
//! what the crates for it make, and rows need answers of their own (`ENOSYS`, `EAFNOSUPPORT`).

mod computation;
mod policy;

use computation::COMPUTATION;
use policy::{EMPTYING, LAST_KNOWN, POLICY, TERMINAL};

use crate::landlock::{COVERS_EMPTYING, landlock_version};

/// A system call of the policy.
#[derive(Debug)]
struct Row {
    #[cfg_attr(not(test), expect(dead_code, reason = "for whoever reads the list"))]
    name: &'static str,
    number: u32,
    verdict: Verdict,
    #[cfg_attr(not(test), expect(dead_code, reason = "for whoever reads the list"))]
    reason: &'static str,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Allow,
    /// Allowed if one of the clauses passes.
    AllowIf {
        clauses: &'static [Clause],
        /// The error otherwise.
        otherwise: i32,
    },
    /// Not made: it returns with this error, or with success for 0.
    Answer(i32),
}

/// Passes if all tests do.
#[derive(Debug)]
struct Clause(&'static [Test]);

/// Whether `word & mask` is one of the values. An argument has two words, of which the kernel takes
/// the low one for most of those that are tested here; a pointer needs both.
#[derive(Debug)]
struct Test {
    /// Twice the number of the argument, and one more for its high half.
    word: u32,
    mask: u32,
    values: &'static [u32],
}

/// One instruction, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const RETURN_ALLOW: u32 = 0x7fff_0000;
const RETURN_ERROR: u32 = 0x0005_0000;
const RETURN_KILL: u32 = 0x8000_0000;

#[cfg(target_arch = "x86_64")]
const THIS_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const THIS_ARCHITECTURE: u32 = 0xc000_00b7;

/// The program for this kernel as it takes it, for `PR_SET_SECCOMP`: eight bytes an instruction.
pub fn seccomp_program() -> Vec<u8> {
    let policy = session_policy(landlock_version().unwrap_or_default(), false);
    compile(&policy, RETURN_ALLOW)
        .into_iter()
        .flat_map(|step| {
            let mut bytes = step.code.to_ne_bytes().to_vec();
            bytes.extend([step.if_true, step.if_false]);
            bytes.extend(step.value.to_ne_bytes());
            bytes
        })
        .collect()
}

/// Whether this kernel can filter system calls: it knows the answer that the filter gives.
pub fn seccomp_works() -> bool {
    const GET_ACTION_AVAIL: libc::c_ulong = 2;
    let action = RETURN_ERROR;
    // SAFETY: the pointer is to a live number, which the kernel reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            GET_ACTION_AVAIL,
            0_usize,
            &raw const action,
        )
    };
    result == 0
}

/// A program for the kernel's filter machine.
pub(crate) type Filter = Vec<libc::sock_filter>;

/// The program for a process that only computes.
pub(crate) fn computation_filter() -> Filter {
    filter(&COMPUTATION.iter().collect::<Vec<_>>())
}

/// The program for a command of a session, with a terminal or without one.
pub(crate) fn command_filter(terminal: bool) -> Filter {
    filter(&session_policy(
        landlock_version().unwrap_or_default(),
        terminal,
    ))
}

fn filter(policy: &[&Row]) -> Filter {
    let program = compile(policy, RETURN_ALLOW).into_iter();
    program
        .map(|step| libc::sock_filter {
            code: step.code,
            jt: step.if_true,
            jf: step.if_false,
            k: step.value,
        })
        .collect()
}

/// The policy of sessions, where Landlock has this version; or of their commands that have a terminal.
fn session_policy(landlock: u32, terminal: bool) -> Vec<&'static Row> {
    let mut instead: Vec<&Row> = match landlock {
        ..COVERS_EMPTYING => EMPTYING.iter().collect(),
        COVERS_EMPTYING.. => Vec::new(),
    };
    if terminal {
        instead.extend(TERMINAL);
    }
    let kept = |row: &&Row| instead.iter().all(|other| other.number != row.number);
    let mut policy: Vec<&Row> = POLICY.iter().filter(kept).collect();
    policy.extend(instead);
    policy
}

/// A policy as a program. `allowed` is what it returns for a call that may be made.
fn compile(policy: &[&Row], allowed: u32) -> Vec<Instruction> {
    let mut program = vec![
        load(ARCHITECTURE),
        // Calls of another architecture (`int 0x80`) have other numbers: no program of ours makes
        // them, and what does is ended.
        jump_if(IF_EQUAL, THIS_ARCHITECTURE, 1, 0),
        give(RETURN_KILL),
        load(NUMBER),
    ];
    program.extend(search(&ranges(policy), allowed));
    program
}

/// All numbers in order: where a range starts, and what happens from there on.
fn ranges(policy: &[&Row]) -> Vec<(u32, Verdict)> {
    let mut rows = policy.to_vec();
    rows.sort_unstable_by_key(|row| row.number);
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    let mut push = |start, verdict| match (ranges.last(), verdict) {
        (Some((_, Verdict::Allow)), Verdict::Allow) => {}
        (Some((_, Verdict::Answer(before))), Verdict::Answer(answer)) if *before == answer => {}
        _ => ranges.push((start, verdict)),
    };
    let mut next = 0;
    for row in rows {
        if row.number > next {
            push(next, Verdict::Answer(libc::EPERM));
        }
        push(row.number, row.verdict);
        next = row.number + 1;
    }
    push(next, Verdict::Answer(libc::EPERM));
    // The x32 numbers of x86-64 are among these.
    push(LAST_KNOWN + 1, Verdict::Answer(libc::ENOSYS));
    ranges
}

/// A binary search for the number that is loaded.
fn search(ranges: &[(u32, Verdict)], allowed: u32) -> Vec<Instruction> {
    match ranges {
        [] => vec![give(error(libc::EPERM))],
        [(_, verdict)] => decide(*verdict, allowed),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let pivot = high[0].0;
            let (low, high) = (search(low, allowed), search(high, allowed));
            let mut program = match u8::try_from(low.len()) {
                Ok(near) => vec![jump_if(IF_AT_LEAST, pivot, near, 0)],
                Err(_) => vec![jump_if(IF_AT_LEAST, pivot, 0, 1), jump(low.len())],
            };
            program.extend(low);
            program.extend(high);
            program
        }
    }
}

fn decide(verdict: Verdict, allowed: u32) -> Vec<Instruction> {
    match verdict {
        Verdict::Allow => vec![give(allowed)],
        Verdict::Answer(number) => vec![give(error(number))],
        Verdict::AllowIf { clauses, otherwise } => {
            let mut program = Vec::new();
            for clause in clauses {
                // From the end, since each test jumps behind the clause when it fails.
                let mut passed = vec![give(allowed)];
                for test in clause.0.iter().rev() {
                    let mut steps = vec![load(ARGUMENTS + 4 * test.word)];
                    if test.mask != u32::MAX {
                        steps.push(Instruction {
                            value: test.mask,
                            ..plain(AND)
                        });
                    }
                    let behind = passed.len();
                    for (index, value) in test.values.iter().enumerate() {
                        let left = test.values.len() - index - 1;
                        let failed = if left == 0 { behind } else { 0 };
                        steps.push(jump_if(IF_EQUAL, *value, near(left), near(failed)));
                    }
                    steps.append(&mut passed);
                    passed = steps;
                }
                program.extend(passed);
            }
            program.push(give(error(otherwise)));
            program
        }
    }
}

/// A distance within one rule: rules are short, which a test of the whole policy shows.
fn near(distance: usize) -> u8 {
    u8::try_from(distance).unwrap_or(u8::MAX)
}

fn error(number: i32) -> u32 {
    RETURN_ERROR | u32::try_from(number).unwrap_or(0)
}

fn plain(code: u16) -> Instruction {
    Instruction {
        code,
        if_true: 0,
        if_false: 0,
        value: 0,
    }
}

fn load(offset: u32) -> Instruction {
    Instruction {
        value: offset,
        ..plain(LOAD)
    }
}

fn give(value: u32) -> Instruction {
    Instruction {
        value,
        ..plain(RETURN)
    }
}

fn jump(distance: usize) -> Instruction {
    Instruction {
        value: u32::try_from(distance).unwrap_or(u32::MAX),
        ..plain(JUMP)
    }
}

fn jump_if(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        value,
    }
}

#[cfg(test)]
mod tests;
