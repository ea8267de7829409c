//! Ports: connections from outside to programs of a session that listen.
//!
//! Init makes the socket, since a socket belongs to the network namespace that it was made in. The host connects it to
//! loopback there, so that init waits for nothing ([why](../../../../docs/adr/0048-ports.md)).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream as StdTcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use belljar_walls::PROXY_PORT;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use crate::capabilities::Capability;
use crate::error::Error;
use crate::session::Session;
use crate::session::connections::OpenConnection;
use crate::session::handle::AwakeSession;
use crate::session::port_error::PortError;

/// How long a program may take to have a connection. Only a full queue makes it wait.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The first port that code in a session can listen on.
const FIRST_PORT: u16 = 1024;

/// Connecting to programs in the session.
impl Session {
    /// Whether programs of the session could be reached on a port.
    ///
    /// # Errors
    /// [`Error::Port`] if the port is not offered; [`Error::Unsupported`] without walls.
    pub fn check_port(&self, port: u16) -> Result<(), Error> {
        if port < FIRST_PORT || port == PROXY_PORT {
            return Err(PortError::NotOffered(port).into());
        }
        if let Some(AwakeSession { handle, .. }) = self.now() {
            handle.backend.capabilities().require(Capability::Ports)?;
        }
        Ok(())
    }

    /// Connects to a port of the session's loopback (IPv4), also while a cell runs. What the program there says is
    /// hostile. Does not wake a hibernated session: its programs ended.
    ///
    /// # Errors
    /// [`Error::Port`] if nothing listens there, the port is not offered, or there are too many connections;
    /// [`Error::Unsupported`] without walls.
    pub async fn connect(&self, port: u16) -> Result<PortStream, Error> {
        self.check_port(port)?;
        let Some(AwakeSession { handle, .. }) = self.lifecycle().now()? else {
            return Err(PortError::Refused(port).into());
        };
        handle.check()?;
        let Some(group) = &handle.namespace_group else {
            return Err(PortError::NotOffered(port).into());
        };
        let open = handle.connections.acquire()?;
        let fault = |source| {
            let what = "making a socket in the session";
            handle.check().err().unwrap_or(Error::Io { what, source })
        };
        let socket = group.orphans.socket().await.map_err(fault)?;
        // The type of a socket that is not connected is made from one that could be.
        let socket = TcpSocket::from_std_stream(StdTcpStream::from(socket));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = match tokio::time::timeout(CONNECT_TIME, socket.connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(PortError::Refused(port).into());
            }
            Ok(Err(error)) => return Err(fault(error)),
            Err(_) => return Err(PortError::Unanswered(port).into()),
        };
        // Small messages go out at once.
        stream.set_nodelay(true).map_err(fault)?;
        Ok(PortStream {
            stream,
            _open: open,
        })
    }
}

/// A connection to a program in a session.
#[derive(Debug)]
pub struct PortStream {
    stream: TcpStream,
    _open: OpenConnection,
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
