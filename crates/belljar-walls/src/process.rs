//! Processes held by descriptor, so that a reused process id can't be hit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

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

    /// Sends SIGUSR2, which wakes a checkpoint.
    pub fn wake(&self) -> io::Result<()> {
        self.signal(Signal::USR2)
    }

    /// Kills it, and with it everything in its pid namespace if it is that namespace's init.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Kills it and its process group, for one that leads a group.
    pub fn kill_group(&self) -> io::Result<()> {
        if let Some(group) = self.id().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.kill()
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) -> io::Result<()> {
        self.signal(Signal::INT)
    }

    /// Its id in the pid namespace of this process, which can't be another's before it is reaped;
    /// none after that.
    pub fn id(&self) -> Option<i32> {
        let descriptor = self.0.as_raw_fd();
        let information = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        let mut lines = information.lines();
        let id = lines.find_map(|line| line.strip_prefix("Pid:"))?;
        // -1 once it is reaped.
        id.trim().parse().ok().filter(|id| *id > 1)
    }

    /// Whether it is gone or on its way. The init of a pid namespace is before any process there dies
    /// of its death.
    pub fn is_dying(&self) -> bool {
        const EXITING: u64 = 4;
        let Some(id) = self.id() else {
            return true;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
            return self.id().is_none();
        };
        // The name may hold anything; the seventh word after it holds the flags.
        let words = stat.rsplit_once(')').map(|(_, words)| words);
        let flags = words.and_then(|words| words.split_whitespace().nth(6)?.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & EXITING != 0)
    }

    /// Its OOM score, in thousandths of the memory: `None` if that can't be read.
    pub fn memory_score(&self) -> Option<i32> {
        let mut text = String::new();
        let mut file = self.memory_score_file(File::options().read(true)).ok()?;
        file.read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }

    /// Changes [`Self::memory_score`]; upwards always, downwards to what a privileged process set.
    pub fn set_memory_score(&self, score: i32) -> io::Result<()> {
        let mut file = self.memory_score_file(File::options().write(true))?;
        file.write_all(score.to_string().as_bytes())
    }

    fn memory_score_file(&self, options: &OpenOptions) -> io::Result<File> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let id = self.id().ok_or_else(gone)?;
        let file = options.open(format!("/proc/{id}/oom_score_adj"))?;
        // If it is not reaped yet, that is its file.
        self.id().ok_or_else(gone).map(|_| file)
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

/// Starts a program in the cgroups that these [descriptors](crate::SessionCgroup::joins) join: it and all that it starts
/// are limited from the first moment.
pub fn spawn_limited(command: &mut Command, joins: Vec<OwnedFd>) -> io::Result<Child> {
    let join = move || {
        for join in &joins {
            rustix::io::write(join, b"0")?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only calls write, which is async-signal-safe, and touches no memory
    // that another thread changes.
    unsafe { command.pre_exec(join) };
    command.spawn()
}

/// Raises the limit on open files to its maximum: a session costs the host about ten.
pub fn raise_open_files() -> io::Result<()> {
    let mut limit = getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(rustix::process::Resource::Nofile, limit)?;
    Ok(())
}
