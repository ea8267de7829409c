//! Starting a keeper: this very binary, started again under another name.
//!
//! The processes behind the walls must not be forks of the host, whose memory holds secrets, and
//! must not need a second file to be found on the disk. So the host's own executable is run again
//! with [`NAME`] as its first argument, and a function that the C library calls before `main`
//! turns that process into a keeper. It works in every program that links this crate: the
//! `belljar` command, a user's server, a test.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::Channel;
#[cfg(test)]
use crate::computation::tests::{HOSTILE, UNCONFINED};
use crate::holder;
use crate::keeper::{self, CHANNEL, KeeperPlan, LIFE, WallsSpec};
use crate::process::Process;
use crate::sys;

const NAME: &std::ffi::CStr = c"belljar-keeper";

/// How long a keeper may take to end and remove everything; it takes milliseconds.
const END_TIME: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Why a keeper did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The operating system refused a process, a pipe or a socket.
    #[error("the keeper process could not be started: {0}")]
    Io(#[from] std::io::Error),
    /// The spec can't be written as JSON.
    #[error("the keeper's instructions could not be written: {0}")]
    Spec(#[from] serde_json::Error),
}

/// A running keeper, from the host's side.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    instructions: Option<ChildStdin>,
    life: Option<OwnedFd>,
}

impl Keeper {
    /// Starts a keeper and tells it what to remove at the end; only then may that be made. What
    /// it says on its standard error goes to `log`.
    pub fn start(plan: &KeeperPlan, log: OwnedFd) -> Result<(Self, Channel), StartError> {
        let (ours, theirs) = Channel::pair()?;
        let (life_read, life_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(std::io::Error::from)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(NAME.to_str().unwrap_or_default())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log));
        let (channel, life) = (theirs.as_fd().as_raw_fd(), life_read.as_raw_fd());
        let hand_over = move || {
            // Out of the way first, since a source may be one of the targets.
            let channel = sys::duplicate_above(channel, 10)?;
            let life = sys::duplicate_above(life, 10)?;
            sys::duplicate_to(channel, CHANNEL)?;
            sys::duplicate_to(life, LIFE)
        };
        // SAFETY: between fork and exec the closure only calls fcntl and dup2, which are
        // async-signal-safe, and touches no memory of other threads.
        unsafe { command.pre_exec(hand_over) };
        let mut child = command.spawn()?;
        let mut keeper = Self {
            instructions: child.stdin.take(),
            child,
            life: Some(life_write),
        };
        keeper.tell(plan)?;
        Ok((keeper, ours))
    }

    /// Lets it raise the walls. [`Report::Up`](crate::Report::Up) or
    /// [`Report::Failed`](crate::Report::Failed) follows on the channel, where requests to the
    /// spawner then go in.
    pub fn raise(&mut self, spec: &WallsSpec) -> Result<(), StartError> {
        self.tell(spec)?;
        self.instructions = None;
        Ok(())
    }

    fn tell(&mut self, message: &impl serde::Serialize) -> Result<(), StartError> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        match &mut self.instructions {
            Some(instructions) => Ok(instructions.write_all(&line)?),
            None => Err(std::io::Error::other("the walls were raised before").into()),
        }
    }

    /// Ends everything behind the walls and waits until nothing is left. A keeper that does not do it in time is
    /// ended; the kernel ends the rest with it, and what is left of it on the host is the caller's to remove.
    pub fn stop(&mut self) -> std::io::Result<()> {
        drop((self.instructions.take(), self.life.take()));
        if !self.ends_within(END_TIME)? {
            self.child.kill()?;
        }
        self.child.wait().map(drop)
    }

    fn ends_within(&mut self, time: Timespec) -> std::io::Result<bool> {
        if self.child.try_wait()?.is_some() {
            return Ok(true);
        }
        // Not reaped yet, so the id is the child's still.
        let process =
            Process::open(i32::try_from(self.child.id()).map_err(std::io::Error::other)?)?;
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        loop {
            match poll(&mut ended, Some(&time)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The keeper ends by itself once the pipe is closed; it is waited for only so that it
        // does not stay a zombie, which takes a few milliseconds.
        let _ = self.stop();
    }
}

/// Called by the C library before `main`, with the arguments of `main`.
extern "C" fn before_main(
    count: libc::c_int,
    arguments: *const *const libc::c_char,
    _environment: *const *const libc::c_char,
) {
    if count != 1 || arguments.is_null() {
        return;
    }
    // SAFETY: the C library passes an array of `count` pointers to NUL-terminated strings.
    let first = unsafe { *arguments };
    // SAFETY: as above, and `count` is 1.
    let name = unsafe { std::ffi::CStr::from_ptr(first) };
    if name == NAME {
        keeper::run();
    }
    if name == holder::NAME {
        holder::run();
    }
    #[cfg(test)]
    if name == HOSTILE || name == UNCONFINED {
        crate::computation::tests::run(name == HOSTILE);
    }
}

// SAFETY: the section holds pointers to functions of exactly this type, which glibc calls with
// these arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(
    libc::c_int,
    *const *const libc::c_char,
    *const *const libc::c_char,
) = before_main;
