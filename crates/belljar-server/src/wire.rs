//! The bytes of a connection: heads are looked at before hyper gets them, and a client that takes its answer too slowly is
//! cut off.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::framing::{BodyLength, Head};
use crate::pace::Pace;
use crate::peers::Connection;

/// The most bytes of the head of a request.
pub(crate) const MAX_HEAD: usize = 32 << 10;

/// What is read at once of a head.
const PART: usize = 8 << 10;

/// What hyper is given instead of a head that is refused: it is not a head, which hyper answers with 400 and closes.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// The stream of a connection.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    connection: Arc<Connection>,
    /// What was read and not given to hyper yet.
    unread: Vec<u8>,
    /// How much of that hyper may have.
    checked: usize,
    /// How much of it there was when it was last looked at.
    parsed: usize,
    reading: Reading,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Head,
    /// So many more bytes of a body.
    Body(u64),
    /// Whatever comes is not a head.
    Rest,
    /// Nothing more is read.
    Refused,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self {
            stream,
            connection,
            unread: Vec::new(),
            checked: 0,
            parsed: 0,
            reading: Reading::Head,
            pace: Pace::default(),
        }
    }

    /// Looks at a head, once all of it is there. Whether hyper may have something.
    fn check(&mut self) -> bool {
        if !self.is_worth_parsing() {
            return false;
        }
        self.parsed = self.unread.len();
        self.reading = match Head::parse(&self.unread) {
            Head::Partial if self.unread.len() < MAX_HEAD => return false,
            // Hyper says what is wrong with it.
            Head::Partial | Head::Malformed => Reading::Rest,
            Head::Ambiguous => {
                tracing::debug!("ambiguous request refused");
                self.unread = REFUSED.to_vec();
                self.checked = REFUSED.len();
                Reading::Refused
            }
            Head::Whole { bytes, body } => {
                self.checked = bytes;
                match body {
                    BodyLength::Known(length) => Reading::Body(length),
                    BodyLength::Unknown => Reading::Rest,
                }
            }
        };
        true
    }

    /// Not for each byte of a client that sends one after the other.
    fn is_worth_parsing(&self) -> bool {
        let new = &self.unread[self.parsed.saturating_sub(3)..];
        let ends = |bytes: &[u8]| bytes.starts_with(b"\n\n") || bytes == b"\n\r\n";
        let grown = self.unread.len() >= (2 * self.parsed).clamp(1, MAX_HEAD);
        self.unread.len() > self.parsed
            && (grown || new.windows(3).any(ends) || new.ends_with(b"\n\n"))
    }

    /// Reads more of a head. How much.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Not on the heap: most connections are idle.
        let mut part = [0; PART];
        let mut part = ReadBuf::new(&mut part);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        self.unread.extend_from_slice(part.filled());
        Poll::Ready(Ok(part.filled().len()))
    }

    /// Cuts a client off that takes too little of what it is sent.
    fn paced<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Pending => {
                ready!(self.pace.poll_too_slow(context));
                tracing::debug!("slow client disconnected");
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(written) => {
                self.pace.moved(written.as_ref().map_or(0, bytes));
                Poll::Ready(written)
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.checked > 0 {
                let count = this.checked.min(to.remaining());
                to.put_slice(&this.unread[..count]);
                this.unread.drain(..count);
                this.checked -= count;
                return Poll::Ready(Ok(()));
            }
            match this.reading {
                Reading::Refused => return Poll::Ready(Ok(())),
                Reading::Head => {
                    if !this.check() && ready!(this.poll_fill(context))? == 0 {
                        this.reading = Reading::Rest;
                    }
                }
                Reading::Body(0) => {
                    (this.reading, this.parsed) = (Reading::Head, 0);
                    if this.unread.is_empty() {
                        this.unread = Vec::new();
                    }
                }
                Reading::Body(left) if !this.unread.is_empty() => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX);
                    this.checked = here.min(this.unread.len());
                    this.reading = Reading::Body(left - this.checked as u64);
                }
                Reading::Body(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX);
                    let part = to.initialize_unfilled_to(here.min(to.remaining()));
                    let mut part = ReadBuf::new(part);
                    ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
                    let count = part.filled().len();
                    to.advance(count);
                    this.reading = Reading::Body(left - count as u64);
                    return Poll::Ready(Ok(()));
                }
                Reading::Rest if !this.unread.is_empty() => this.checked = this.unread.len(),
                Reading::Rest => {
                    this.unread = Vec::new();
                    return Pin::new(&mut this.stream).poll_read(context, to);
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.paced(context, written, |count| *count)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.paced(context, written, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        let flushed = this.paced(context, flushed, |()| 0);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            // Hyper flushes when it has written all that it has.
            this.connection.sent();
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(context);
        this.paced(context, shut, |()| 0)
    }
}
