//! The host's end of a session's wires. Whoever holds it may talk to the guest.

use std::io;
use std::time::Duration;

use belljar_protocol::{
    Denial, FrameDecoder, GuestFrame, HostFrame, RawFrame, Stream, Traffic, encode_frame,
};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use crate::error::Error;

/// How long a guest that runs no cell may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How long a killed process may take to be reported dead; it takes a millisecond.
pub(crate) const DEATH_TIME: Duration = Duration::from_secs(3);

/// How much is read at once.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// Why a guest can't be talked to.
#[derive(Debug)]
pub(crate) enum GuestError {
    /// Its end is closed.
    Gone,
    /// What it sends is not an answer.
    Protocol(String),
}

impl From<io::Error> for GuestError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// How the interpreter ended, once it has.
#[derive(Debug)]
enum Exit {
    Awaited(oneshot::Receiver<i32>),
    Known(Option<i32>),
}

#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) control: UnixStream,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) stdout_ended: bool,
    pub(crate) stderr_ended: bool,
    /// What the session's policy did not allow, since it was last told.
    pub(crate) denials: Receiver<Denial>,
    /// What it did on the network by the end of its last cell.
    pub(crate) traffic: Traffic,
    exit: Exit,
    pub(crate) cells: u32,
    /// Whether it has entered the walls and waits for requests.
    pub(crate) ready: bool,
    decoder: FrameDecoder,
}

impl Guest {
    pub(crate) fn new(
        control: UnixStream,
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
        denials: Receiver<Denial>,
        exit: oneshot::Receiver<i32>,
    ) -> Self {
        Self {
            control,
            stdout,
            stderr,
            stdout_ended: false,
            stderr_ended: false,
            denials,
            traffic: Traffic::default(),
            exit: Exit::Awaited(exit),
            cells: 0,
            ready: false,
            decoder: FrameDecoder::default(),
        }
    }

    /// The raw wait status of the interpreter once it is dead; `None` if it does not die in time
    /// or nobody could tell.
    pub(crate) async fn wait_status(&mut self, patience: Duration) -> Option<i32> {
        if let Exit::Awaited(exit) = &mut self.exit {
            let status = tokio::time::timeout(patience, exit).await.ok()?;
            self.exit = Exit::Known(status.ok());
        }
        match self.exit {
            Exit::Known(status) => status,
            Exit::Awaited(_) => None,
        }
    }

    /// Reads from a stream what is there, whether or not the runtime has heard of it yet.
    pub(crate) fn read_now(&self, stream: Stream, buffer: &mut [u8]) -> io::Result<usize> {
        let pipe = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        Ok(rustix::io::read(pipe, buffer)?)
    }

    /// Reads what has arrived.
    pub(crate) fn read(&mut self) -> Result<(), GuestError> {
        let mut buffer = [0; READ_BYTES];
        match self.control.try_read(&mut buffer) {
            Ok(0) => Err(GuestError::Gone),
            Ok(read) => {
                self.decoder.push(&buffer[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(GuestError::Gone),
        }
    }

    /// The next frame that has arrived whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<RawFrame>, String> {
        self.decoder.next_frame().map_err(|error| error.to_string())
    }

    /// Asks a question that runs no user code, and returns its answer.
    pub(crate) async fn ask(&mut self, question: &HostFrame<'_>) -> Result<GuestFrame, Error> {
        let request = encode_frame(question, &[]).map_err(|e| Error::Session(e.to_string()))?;
        let answer = async {
            self.control.write_all(&request).await?;
            loop {
                while let Some(frame) = self.next_frame().map_err(GuestError::Protocol)? {
                    match GuestFrame::parse(&frame).map_err(GuestError::Protocol)? {
                        GuestFrame::Ready => self.ready = true,
                        frame => return Ok(frame),
                    }
                }
                self.control.readable().await?;
                self.read()?;
            }
        };
        match tokio::time::timeout(ANSWER_TIME, answer).await {
            Ok(Ok(GuestFrame::Fault { detail })) => Err(Error::Session(detail)),
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(GuestError::Gone)) => Err(Error::Ended("its process is gone".into())),
            Ok(Err(GuestError::Protocol(detail))) => {
                Err(Error::Ended(format!("it broke the protocol: {detail}")))
            }
            Err(_) => Err(Error::Unresponsive),
        }
    }
}
