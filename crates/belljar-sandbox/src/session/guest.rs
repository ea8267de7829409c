//! The host's end of a session's wires. Its holder may talk to the guest.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_protocol::{
    CallId, Denial, FrameDecoder, GuestFrame, HostFrame, RawFrame, Stream, Traffic, encode_frame,
};
use bytes::BufMut as _;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use crate::backend::meter::Meter;
use crate::buffers::{self, Share};
use crate::error::Error;
use crate::session::guest_error::{GuestError, ProtocolError};
use crate::session::packages::Layer;
use crate::state::checkpoint_set::CheckpointSet;
use crate::variables::Scrubber;

/// How long a guest that runs no cell may take to answer.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long a killed process may take to be reported dead; it takes a millisecond.
pub(crate) const DEATH_TIME: Duration = Duration::from_secs(10);

/// How much is read at once.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// How much a guest may send while it should answer: displays of threads.
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 32 << 20;

/// The exit status of the interpreter, once it has ended.
#[derive(Debug)]
pub(crate) enum Exit {
    Awaited(oneshot::Receiver<i32>),
    Known(Option<i32>),
}

/// A call during which a session was forked.
#[derive(Clone, Debug)]
pub(crate) struct WaitingCall {
    pub(crate) id: CallId,
    pub(crate) nonce: String,
    /// Number of the last call that the cell has made.
    pub(crate) made: u32,
}

#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) control: UnixStream,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) stdout_ended: bool,
    pub(crate) stderr_ended: bool,
    /// Denials by the session's policy since they were last reported.
    pub(crate) denials: Receiver<Denial>,
    /// Its network activity by the end of its last cell.
    pub(crate) traffic: Traffic,
    pub(crate) exit: Exit,
    /// Checkpoints to continue from.
    pub(crate) checkpoint_set: CheckpointSet,
    pub(crate) cells: u32,
    /// The call during which it is forked, or, in a fork, was.
    pub(crate) waiting: Option<WaitingCall>,
    /// When it was last used.
    pub(crate) used: Instant,
    /// Losses by hibernation that no outcome has reported yet.
    pub(crate) lost: Vec<String>,
    /// Packages that it was given.
    pub(crate) layers: Vec<Layer>,
    /// Whether it has entered the walls and waits for requests.
    pub(crate) ready: bool,
    /// What its frames are scrubbed by, as soon as they are whole.
    scrubber: Arc<Scrubber>,
    decoder: FrameDecoder,
    /// Memory for frames on their way.
    buffers: Share,
    /// Frames that arrived while another was awaited.
    held: VecDeque<RawFrame>,
    /// The protocol error of a frame between two cells.
    broken: Option<ProtocolError>,
}

impl Guest {
    pub(crate) fn new(
        control: UnixStream,
        [stdout, stderr]: [pipe::Receiver; 2],
        denials: Receiver<Denial>,
        exit: oneshot::Receiver<i32>,
        checkpoint_set: CheckpointSet,
        buffers: Share,
        scrubber: Arc<Scrubber>,
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
            checkpoint_set,
            cells: 0,
            waiting: None,
            used: Instant::now(),
            lost: Vec::new(),
            layers: Vec::new(),
            ready: false,
            scrubber,
            decoder: FrameDecoder::default(),
            buffers,
            held: VecDeque::new(),
            broken: None,
        }
    }

    /// The raw wait status of the interpreter once it is dead; `None` if it does not die in time,
    /// or its status can't be learnt.
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

    /// Replaces the interpreter.
    pub(crate) fn set_exit(&mut self, exit: oneshot::Receiver<i32>) {
        self.exit = Exit::Awaited(exit);
    }

    /// Discards what has arrived, whole or not.
    pub(crate) fn start_anew(&mut self) {
        let mut buffer = [0; READ_BYTES];
        while self
            .control
            .try_read(&mut buffer)
            .is_ok_and(|read| read > 0)
        {}
        self.decoder = FrameDecoder::default();
        self.held.clear();
        self.broken = None;
    }

    /// Handles frames that have arrived and answer nothing. Their protocol errors are returned
    /// again by the next read.
    pub(crate) fn absorb(&mut self, meter: &Meter) -> Result<(), ProtocolError> {
        self.read_some();
        while let Some(frame) = self.next_frame()? {
            match GuestFrame::parse(&frame) {
                Ok(GuestFrame::Ready) => self.ready = true,
                Ok(GuestFrame::Kept(checkpoint)) => {
                    let taken = self.checkpoint_set.take_up(meter, checkpoint, self.cells);
                    self.broken = taken.err();
                }
                Ok(_) => self.broken = Some(ProtocolError::UnsolicitedAnswer),
                Err(why) => self.broken = Some(ProtocolError::Header(why)),
            }
        }
        Ok(())
    }

    /// Waits until it reports the checkpoint that replaces a woken one; returns whether it did.
    pub(crate) async fn wait_for_checkpoint(&mut self, meter: &Meter) -> bool {
        match tokio::time::timeout(ANSWER_TIME, self.frame()).await {
            Ok(Ok((GuestFrame::Kept(checkpoint), _))) => self
                .checkpoint_set
                .take_up(meter, checkpoint, self.cells)
                .is_ok(),
            _ => false,
        }
    }

    /// Makes a checkpoint of the current state; returns its id.
    pub(crate) async fn keep(&mut self, name: Option<String>, meter: &Meter) -> Result<u64, Error> {
        let cell = self.checkpoint_set.state;
        let id = self.checkpoint_set.expect(name);
        match self.ask(&HostFrame::Keep { cell }, meter).await? {
            GuestFrame::Checkpointed if self.checkpoint_set.holds(id) => Ok(id),
            GuestFrame::Checkpointed => Err(Error::NotCheckpointed(
                "it is at its process limit, or another of its threads computes without a pause\nhint: end processes or threads, and try again".into(),
            )),
            _ => Err(ProtocolError::OtherAnswer.into()),
        }
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> Result<(GuestFrame, RawFrame), GuestError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                let parsed = GuestFrame::parse(&frame).map_err(ProtocolError::Header)?;
                return Ok((parsed, frame));
            }
            if self.reserve_buffer() {
                self.control.readable().await?;
                self.read()?;
            } else {
                tokio::time::sleep(buffers::PAUSE).await;
            }
        }
    }

    /// Extracts something from the next frame that has it; others are held for the next read.
    pub(crate) async fn expect<T>(
        &mut self,
        wanted: impl Fn(&GuestFrame) -> Option<T>,
    ) -> Result<T, GuestError> {
        let mut held = VecDeque::new();
        let found = loop {
            let (parsed, frame) = self.frame().await?;
            if let Some(found) = wanted(&parsed) {
                break found;
            }
            held.push_back(frame);
            if held.len() > MAX_HELD
                || held.iter().map(|f| f.blob.len()).sum::<usize>() > MAX_HELD_BYTES
            {
                return Err(ProtocolError::TooManyFrames.into());
            }
        };
        self.held = held;
        Ok(found)
    }

    /// The next frame that answers a request; others that may come between are handled.
    pub(crate) async fn answer(
        &mut self,
        meter: &Meter,
    ) -> Result<(GuestFrame, RawFrame), GuestError> {
        loop {
            match self.frame().await? {
                (GuestFrame::Ready, _) => self.ready = true,
                (GuestFrame::Kept(checkpoint), _) => {
                    self.checkpoint_set.take_up(meter, checkpoint, self.cells)?;
                }
                (GuestFrame::Fault { .. }, _) if self.ready => {
                    return Err(ProtocolError::LateFault.into());
                }
                answer => return Ok(answer),
            }
        }
    }

    /// Reads what a stream holds now, whether or not the runtime has noticed it.
    pub(crate) fn read_now(&self, stream: Stream, buffer: &mut [u8]) -> io::Result<usize> {
        let pipe = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        Ok(rustix::io::read(pipe, buffer)?)
    }

    /// Whether there is memory for its next output: for a whole frame, so that one that was begun
    /// can arrive.
    pub(crate) fn reserve_buffer(&mut self) -> bool {
        let held: usize = self.held.iter().map(|frame| frame.blob.len()).sum();
        self.buffers.hold(self.decoder.wanted() + held + READ_BYTES)
    }

    /// Memory for what is kept of one of its cells.
    pub(crate) fn another_share(&self) -> Share {
        self.buffers.another()
    }

    /// Reads what has arrived; returns whether that was anything.
    pub(crate) fn read_some(&mut self) -> bool {
        self.try_read().is_ok_and(|read| read > 0)
    }

    fn try_read(&mut self) -> io::Result<usize> {
        if let Some((blob, missing)) = self.decoder.blob() {
            return self.control.try_read_buf(&mut blob.limit(missing));
        }
        let mut buffer = [0; READ_BYTES];
        let read = self.control.try_read(&mut buffer)?;
        self.decoder.push(&buffer[..read]);
        Ok(read)
    }

    /// Gives it memory for the next large part of a snapshot.
    pub(crate) fn reuse(&mut self, memory: Vec<u8>) {
        self.decoder.reuse(memory);
    }

    /// Reads what has arrived.
    pub(crate) fn read(&mut self) -> Result<(), GuestError> {
        match self.try_read() {
            Ok(0) => Err(GuestError::Gone),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(GuestError::Gone),
        }
    }

    /// The next frame that has arrived whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<RawFrame>, ProtocolError> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if let Some(frame) = self.held.pop_front() {
            return Ok(Some(frame));
        }
        let frame = self.decoder.next_frame();
        // Less than before, so it is never refused.
        self.buffers.hold(self.decoder.buffered());
        Ok(frame?.map(|frame| RawFrame {
            header: self.scrubber.json(frame.header).into_owned(),
            ..frame
        }))
    }

    /// Sends a request that runs no user code, and returns its answer.
    pub(crate) async fn ask(
        &mut self,
        question: &HostFrame<'_>,
        meter: &Meter,
    ) -> Result<GuestFrame, Error> {
        if matches!(
            question,
            HostFrame::Seed { .. } | HostFrame::ClearNamespace { .. }
        ) {
            self.checkpoint_set.note_change();
        }
        let request = encode_frame(question, &[]).map_err(Error::session)?;
        let answer = async {
            self.control.write_all(&request).await?;
            Ok(self.answer(meter).await?.0)
        };
        match tokio::time::timeout(ANSWER_TIME, answer).await {
            Ok(Ok(GuestFrame::Fault { detail })) => Err(Error::session(detail)),
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(error)) => Err(GuestError::into(error)),
            Err(_) => Err(Error::Unresponsive),
        }
    }
}

/// Ends when the interpreter has.
pub(crate) async fn exited(exit: &mut Exit) {
    match exit {
        Exit::Awaited(awaited) => {
            let status = awaited.await.ok();
            *exit = Exit::Known(status);
        }
        Exit::Known(_) => {}
    }
}
