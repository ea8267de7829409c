//! Walls for pure computation: a process that reads one request, computes, and writes one answer.
//!
//! It needs next to nothing of the kernel, so it gets next to nothing: namespaces of its own, an empty
//! root directory, no capability, no descriptor but the three it was started with, and a filter that
//! leaves it memory, reading and writing. Where one of these can't be had, nothing is computed.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::{SetupError, StepContext};
use crate::identity::{map_ids, session_ids};
use crate::init::NAMESPACES;
use crate::root;
use crate::seccomp;
use crate::sys::{self, Forked};

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Limits of a computation.
#[derive(Clone, Copy, Debug)]
pub struct ComputationLimits {
    /// Address space, the program itself included.
    pub memory_bytes: u64,
    /// CPU time.
    pub cpu_seconds: u64,
    /// Stack.
    pub stack_bytes: usize,
}

/// Why nothing was computed.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The host lacks a protection.
    #[error(
        "the process that computes cannot be confined: {0}\nhint: `belljar doctor` shows what this host lacks"
    )]
    Walls(#[from] SetupError),
    /// The computation panicked.
    #[error("the computation panicked")]
    Panicked,
}

/// Runs `work` in a process that can do nothing but compute, and returns what it made there.
///
/// This process must have one thread. It never gets past this call, unless by an error: it waits for the
/// process that computes, and ends as that one did, with 128 and the signal's number if it was by a signal.
pub fn compute_confined<T: Send + 'static>(
    limits: ComputationLimits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ConfineError> {
    enter(limits)?;
    let sealed = move || seal().map(|()| work());
    let thread = std::thread::Builder::new().stack_size(limits.stack_bytes);
    let thread = thread.spawn(sealed).step("starting a thread")?;
    match thread.join() {
        Ok(worked) => Ok(worked?),
        Err(_) => Err(ConfineError::Panicked),
    }
}

/// Returns in a process of its own, behind all walls but the filter.
fn enter(limits: ComputationLimits) -> Result<(), SetupError> {
    // A fork has one thread, and locks that others hold would stay held in it.
    let threads = fs::read_dir("/proc/self/task").step("counting threads")?;
    if threads.count() != 1 {
        return Err(SetupError::Process("the process has more than one thread"));
    }
    let ids = session_ids();
    let (uid, gid) = ids.map_or_else(
        || {
            (
                rustix::process::getuid().as_raw(),
                rustix::process::getgid().as_raw(),
            )
        },
        |ids| (ids.first, ids.first),
    );
    let (read_go, write_go) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("making a pipe")?;
    let flags = NAMESPACES | libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP;
    match sys::clone_process(flags).step("making namespaces")? {
        Forked::Child => {
            drop(write_go);
            let mut go = [0];
            if rustix::io::read(&read_go, &mut go) != Ok(1) {
                return Err(SetupError::Process("its user could not be mapped"));
            }
            confine(limits, ids.is_some(), read_go)
        }
        Forked::Parent(child) => {
            drop(read_go);
            let mapped = map_ids(&child.to_string(), 0, uid, gid, 1, ids.is_some());
            // Open for as long as this process lives: the child checks for that.
            let held = mapped.is_ok().then_some(write_go);
            if let Some(go) = &held {
                let _ = rustix::io::write(go, b"1");
            }
            let ended = sys::wait(child);
            mapped?;
            match ended.step("waiting for the process that computes")? {
                (_, status) if libc::WIFSIGNALED(status) => {
                    sys::exit_now(128 + libc::WTERMSIG(status))
                }
                (_, status) => sys::exit_now(libc::WEXITSTATUS(status)),
            }
        }
    }
}

/// `parent` is a pipe whose other end the parent has, for as long as it lives.
fn confine(limits: ComputationLimits, privileged: bool, parent: OwnedFd) -> Result<(), SetupError> {
    if privileged {
        sys::clear_groups().step("leaving all groups")?;
    }
    sys::set_ids(0, 0).step("becoming another user")?;
    sys::die_with_parent().step("tying it to its parent")?;
    // It may have died before that.
    let mut watched = [PollFd::new(&parent, PollFlags::empty())];
    let lives = poll(&mut watched, Some(&NOW)).step("looking for its parent")? == 0;
    if !lives {
        return Err(SetupError::Process("its parent is gone"));
    }
    drop(parent);
    root::enter_empty()?;
    sys::close_from(3).step("closing descriptors")?;
    for (what, resource, most) in [
        // With 1, and no other number, the kernel starts no program of the host for a crash.
        ("core dumps", Resource::Core, 1),
        ("memory", Resource::As, limits.memory_bytes),
        ("CPU time", Resource::Cpu, limits.cpu_seconds),
        ("files", Resource::Fsize, 0),
        ("descriptors", Resource::Nofile, 3),
        ("locked memory", Resource::Memlock, 0),
        ("message queues", Resource::Msgqueue, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).step(format!("limiting {what}"))?;
    }
    sys::set_dumpable(false).step("closing its memory to others")?;
    sys::drop_capabilities().step("dropping capabilities")?;
    sys::no_new_privileges().step("giving up new privileges")
}

/// Puts all threads under the filter.
fn seal() -> Result<(), SetupError> {
    let filter = seccomp::computation_filter();
    sys::filter_all_threads(&filter).step("filtering system calls")
}

#[cfg(test)]
pub(crate) mod tests;
