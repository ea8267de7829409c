//! Processes held by descriptor, so that a number used again by the kernel can't be hit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{PidfdFlags, Signal, getrlimit, pidfd_send_signal, setrlimit};

/// A process, live or dead, that can be signalled and waited for. Its descriptor becomes readable
/// when it ends.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// Takes the descriptor of a process.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Opens a process of this pid namespace by its id.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0);
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends SIGUSR2, by which a frozen copy wakes.
    pub fn wake(&self) -> io::Result<()> {
        self.signal(Signal::USR2)
    }

    /// Ends it, and with it everything in its pid namespace if it is that namespace's init.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Ends it and its process group, for one that leads a group.
    pub fn kill_group(&self) -> io::Result<()> {
        let information = std::fs::read_to_string(format!(
            "/proc/self/fdinfo/{}",
            std::os::fd::AsRawFd::as_raw_fd(&self.0)
        ))?;
        // -1 once it is reaped; until then its number can't be another's.
        let pid = information
            .lines()
            .find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        let pid = pid.filter(|pid: &i32| *pid > 1);
        if let Some(group) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.kill()
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) -> io::Result<()> {
        self.signal(Signal::INT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.0, signal) {
            // Already dead: what was asked for is so.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets this process open as many files as it may: a session costs the host about ten.
pub fn raise_open_files() -> io::Result<()> {
    let mut limit = getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(rustix::process::Resource::Nofile, limit)?;
    Ok(())
}
