//! The pipes and the socket between the host and a session.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The pipes and the socket of a session.
pub(crate) struct Pipes {
    pub(crate) control: UnixStream,
    pub(crate) interrupts: OwnedFd,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    /// The guest's ends: control, interrupts, stdout, stderr.
    pub(crate) theirs: Vec<OwnedFd>,
}

impl Pipes {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (control, their_control) = std::os::unix::net::UnixStream::pair()?;
        control.set_nonblocking(true)?;
        // Neither side ever waits on this one: the guest looks into it in a signal handler.
        let (their_interrupts, interrupts) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            control: UnixStream::from_std(control)?,
            interrupts,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
            theirs: vec![
                their_control.into(),
                their_interrupts,
                their_stdout,
                their_stderr,
            ],
        })
    }
}
