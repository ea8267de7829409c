//! The walls' packet channel, for tasks.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use belljar_walls::{Channel, receive_message, send_message};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// A packet socket; the stream type is only there for its readiness.
#[derive(Debug)]
pub(crate) struct AsyncChannel(UnixStream);

impl AsyncChannel {
    pub(crate) fn new(channel: Channel) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(channel));
        socket.set_nonblocking(true)?;
        Ok(Self(UnixStream::from_std(socket)?))
    }

    pub(crate) async fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let send = || send_message(&self.0, message, descriptors);
        self.0.async_io(Interest::WRITABLE, send).await
    }

    /// Sends a message if the socket has space for it, which it has for the few that are sent so.
    pub(crate) fn send_now(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        send_message(&self.0, message, descriptors)
    }

    /// Sends a message, from a thread that may wait.
    pub(crate) fn send_blocking(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        loop {
            match self.send_now(message, descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                done => return done,
            }
        }
    }

    /// Ends both directions: the other side sees that this one is gone.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// `None` when the other end is gone.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        self.0
            .async_io(Interest::READABLE, || receive_message(&self.0))
            .await
    }
}
