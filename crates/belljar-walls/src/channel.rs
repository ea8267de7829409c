//! Short JSON messages with descriptors, over a packet socket between our own processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest message, in bytes of JSON.
const MAX_MESSAGE: usize = 64 << 10;

/// The most descriptors one message carries.
const MAX_DESCRIPTORS: usize = 20;

/// One end of a packet socket: a message is sent whole or not at all, so several processes may
/// write to the same end.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Two ends that talk to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(a), Self(b)))
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_message(&self.0, message, descriptors)
    }

    /// Receives a message; `None` when the other end is gone.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        receive_message(&self.0)
    }
}

/// Sends a message on a packet socket.
pub fn send_message(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    send_bytes(socket, &bytes, descriptors).map(drop)
}

/// Sends bytes with descriptors on a socket; returns how many bytes were sent.
pub fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    );
    Ok(sent?)
}

/// Receives a message from a packet socket; `None` when the other end is gone.
pub fn receive_message<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_MESSAGE];
    match receive_bytes(socket, &mut bytes)? {
        (0, _) => Ok(None),
        (received, descriptors) => {
            let message = serde_json::from_slice(&bytes[..received])?;
            Ok(Some((message, descriptors)))
        }
    }
}

/// Receives bytes with descriptors from a socket; none when the other end is gone.
pub(crate) fn receive_bytes(
    socket: impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let result = recvmsg(
            &socket,
            &mut [IoSliceMut::new(bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        match result {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_and_the_end_is_seen() {
        let (a, b) = Channel::pair().unwrap();
        let (_, extra) = Channel::pair().unwrap();
        a.send(&"hello", &[extra.as_fd(), extra.as_fd()]).unwrap();
        let (text, descriptors) = b.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("hello", 2));
        drop(a);
        assert!(b.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        let (a, b) = Channel::pair().unwrap();
        rustix::net::send(&a, b"{", SendFlags::empty()).unwrap();
        assert!(b.receive::<String>().is_err());
    }
}
