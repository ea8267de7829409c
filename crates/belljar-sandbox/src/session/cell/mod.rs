//! Driving one cell: the request, the output while it runs, the limits, the end.

mod calls;
mod clock;
mod displays;
mod ending;
mod request;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_protocol::{
    Cause, CellReport, Denial, DeniedReason, Durations, Event, GuestFrame, GuestNamespace,
    GuestVariables, HostFrame, Outcome, RawFrame, Status, Stream, encode_frame,
};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedSender;

use crate::buffers;
use crate::error::Error;
use crate::options::Checkpoints;
use crate::session::capture::Capture;
use crate::session::guest::{ANSWER_TIME, Guest, READ_BYTES, WaitingCall, exited};
use crate::session::guest_error::{GuestError, ProtocolError};
use crate::session::handle::SessionHandle;
use crate::session::nonce::nonce;
use crate::session::packages;
use crate::variables::{StreamScrubber, Variables};
use calls::Calls;
use clock::Clock;
use displays::Displays;

pub use ending::MAX_LISTED;
pub use request::{Cell, OnFailure, WhenBusy};

/// Output that arrives in small pieces is sent at most this often, so that a program which writes
/// byte by byte costs a bounded number of events.
const EVENT_PAUSE: Duration = Duration::from_millis(20);

/// When a cell counts as keeping its session busy. Before, the checkpoint of the last cell may
/// still be made, for which others may have to wait.
const BUSY_AFTER: Duration = Duration::from_millis(10);

/// How often CPU time is read, at most: if it is limited, and while calls are open.
const CPU_PAUSE: Duration = Duration::from_millis(100);

/// How much is still read from the pipes once a cell has ended: what a pipe can hold, and not more,
/// since a thread may write for ever.
const REST_BYTES: u64 = 1 << 20;

/// Output that alternates between the streams is sent in its order up to this many pieces at once.
/// Past that, the order between the streams is given up, not the bound on events.
const MAX_PIECES: usize = 20;

/// The most characters of an exception's value that can be requested.
const MAX_EXCEPTION: usize = 1 << 20;

/// Why the cell's time has run out, once it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    WallTime,
    CpuTime,
    Output,
}

/// How the cell ended, before it becomes an outcome.
enum End {
    Report(Box<CellReport>),
    /// The guest's process is gone, or was killed by the host.
    Died,
    Protocol(ProtocolError),
    /// The guest never became ready: a fault of the host, not of the program.
    Fault(String),
}

pub(crate) struct CellDriver<'a> {
    pub(crate) handle: &'a SessionHandle,
    pub(crate) guest: &'a mut Guest,
    pub(crate) events: &'a UnboundedSender<Result<Event, Error>>,
    pub(crate) wall_time: Duration,
    /// The checkpoint to restore unless the cell succeeds.
    before: Option<u64>,
    calls: Calls,
    /// Frames that are still to be sent to the guest.
    outgoing: VecDeque<u8>,
    cell: u32,
    nonce: String,
    capture: Capture,
    /// What its streams go through before they are captured.
    scrubbers: [StreamScrubber; 2],
    variables: Variables,
    displays: Displays,
    notes: Vec<String>,
    /// A host that the cell requested, and that is not on the session's allow-list.
    unlisted: Option<String>,
    /// Text that was not sent yet, in its order.
    pending: Vec<(Stream, String)>,
    told: Instant,
    /// Whether the next output replaces what was shown so far.
    clears: bool,
    value_limit: Option<usize>,
    stop: Option<Stop>,
}

/// Writes as much of the queue as the channel takes now.
fn write_some(control: &UnixStream, outgoing: &mut VecDeque<u8>) {
    match control.try_write(outgoing.as_slices().0) {
        Ok(written) => drop(outgoing.drain(..written)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        // The guest has ended, and may have sent the reason: that is read, up to the end of the channel.
        Err(_) => outgoing.clear(),
    }
}

impl<'a> CellDriver<'a> {
    pub(crate) fn new(
        handle: &'a SessionHandle,
        guest: &'a mut Guest,
        events: &'a UnboundedSender<Result<Event, Error>>,
        cell: &Cell,
        before: Option<u64>,
    ) -> Self {
        guest.cells += 1;
        let number = guest.cells;
        Self {
            wall_time: cell.wall_time.unwrap_or(handle.limits.wall_time),
            value_limit: cell.exception_characters.map(|n| n.min(MAX_EXCEPTION)),
            calls: Calls::new(cell.answers, cell.input),
            variables: cell.variables.clone(),
            before,
            ..Self::with_nonce(handle, guest, events, number, nonce())
        }
    }

    /// For a fork whose cell waits for the answer to a call.
    pub(crate) fn going_on(
        handle: &'a SessionHandle,
        guest: &'a mut Guest,
        events: &'a UnboundedSender<Result<Event, Error>>,
        waiting: &WaitingCall,
    ) -> Self {
        let mut calls = Calls::new(true, false);
        calls.go_on_from(waiting);
        let nonce = waiting.nonce.clone();
        Self {
            calls,
            ..Self::with_nonce(handle, guest, events, waiting.id.cell, nonce)
        }
    }

    fn with_nonce(
        handle: &'a SessionHandle,
        guest: &'a mut Guest,
        events: &'a UnboundedSender<Result<Event, Error>>,
        cell: u32,
        nonce: String,
    ) -> Self {
        let limits = &handle.limits;
        let scrubber = || StreamScrubber::new(Arc::clone(handle.variables.scrubber()));
        Self {
            wall_time: limits.wall_time,
            calls: Calls::new(false, false),
            outgoing: VecDeque::new(),
            capture: Capture::new(limits, &handle.output_directory, cell),
            scrubbers: [scrubber(), scrubber()],
            variables: Variables::default(),
            notes: std::mem::take(&mut guest.lost),
            displays: Displays::new(guest.another_share()),
            handle,
            guest,
            events,
            before: None,
            cell,
            nonce,
            unlisted: None,
            pending: Vec::new(),
            told: Instant::now()
                .checked_sub(EVENT_PAUSE)
                .unwrap_or_else(Instant::now),
            clears: false,
            value_limit: None,
            stop: None,
        }
    }

    /// Runs the cell to its end, whatever that is.
    pub(crate) async fn run(
        mut self,
        code: &str,
        namespace: Option<GuestNamespace<'_>>,
    ) -> Result<Outcome, Error> {
        let nonce = self.nonce.clone();
        let packages = packages::paths(self.handle, &self.guest.layers);
        let variables = std::mem::take(&mut self.variables);
        let busy =
            self.handle.checkpoints == Checkpoints::Auto && !self.guest.checkpoint_set.allow();
        self.send(&HostFrame::Run {
            cell: self.cell,
            nonce: &nonce,
            code,
            packages: &packages,
            busy,
            value_limit: self.value_limit,
            input: self.calls.takes_questions(),
            variables: GuestVariables(self.handle.variables.values()),
            cell_variables: GuestVariables(variables.as_map()),
            namespace,
        })
        .map_err(Error::session)?;
        self.perform().await
    }

    /// Answers the call in which it waits, and runs the rest of the cell.
    pub(crate) async fn answer(mut self, frame: Vec<u8>) -> Result<Outcome, Error> {
        self.outgoing.extend(frame);
        self.perform().await
    }

    /// Queues a frame, which is sent as the guest reads.
    fn send(&mut self, frame: &HostFrame<'_>) -> Result<(), ProtocolError> {
        let frame = encode_frame(frame, &[]);
        let frame = frame.map_err(|error| ProtocolError::Unwritable(error.to_string()))?;
        self.outgoing.extend(frame);
        Ok(())
    }

    /// Sends the rest of the queue: a frame that was begun must be completed.
    async fn send_rest(&mut self) -> Result<(), Error> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let rest = std::mem::take(&mut self.outgoing);
        let (first, second) = rest.as_slices();
        let control = &mut self.guest.control;
        let send = async {
            control.write_all(first).await?;
            control.write_all(second).await
        };
        match tokio::time::timeout(ANSWER_TIME, send).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(self.handle.fail(Error::Unresponsive)),
        }
    }

    async fn perform(mut self) -> Result<Outcome, Error> {
        let started = Instant::now();
        let handle = self.handle;
        let meter = &handle.meter;
        meter.reset_peak();
        let cpu_before = handle.meter.cpu_time();
        let memory_kills_before = meter.memory_kills();
        self.tell(Event::Started { cell: self.cell });
        self.take_late_output();
        handle.set_running(self.cell);
        let end = {
            let mut drive = pin!(self.drive(started, cpu_before));
            if let Ok(end) = tokio::time::timeout(BUSY_AFTER, &mut drive).await {
                end
            } else {
                let _busy = meter.busy();
                drive.await
            }
        };
        handle.set_running(0);
        if matches!(end, End::Report(_)) {
            // If this fails, the code below reports that the session has ended.
            let _ = self.send_rest().await;
            self.read_rest();
        }
        self.cancel_calls();
        while let Ok(denial) = self.guest.denials.try_recv() {
            self.tell_denial(denial);
        }
        let death = match &end {
            End::Report(report) => self.undo(report).await,
            End::Died | End::Protocol(_) | End::Fault(_) => self.reap().await,
        };
        self.notes.extend(self.displays.note());
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = self.scrubbers[stream as usize].finish();
            self.take_clean_output(stream, &rest);
        }
        self.flush();
        let durations = Durations {
            total_us: micros(started.elapsed()),
            run_us: 0,
            cpu_us: micros(handle.meter.cpu_time().saturating_sub(cpu_before)),
        };
        let peak = meter.peak_bytes();
        match end {
            End::Report(report) => Ok(self.reported(*report, &death, durations, peak)),
            End::Protocol(error) => Ok(self.ended(
                Status::Crashed,
                Cause::Protocol {
                    detail: error.to_string(),
                },
                &death,
                durations,
                peak,
            )),
            End::Fault(detail) => Err(Error::session(detail)),
            End::Died => {
                let by_memory = meter.memory_kills() > memory_kills_before;
                self.died(death, by_memory, durations, peak)
            }
        }
    }

    /// Sends the request and serves the cell until it has ended. Never waits longer than the
    /// limits allow.
    async fn drive(&mut self, started: Instant, cpu_before: Duration) -> End {
        let mut clock = Clock::new(started + self.wall_time);
        let mut next_cpu = self.handle.limits.cpu_time.map(|_| started + CPU_PAUSE);
        let mut killed = false;
        let mut gone = false;
        let timer = tokio::time::sleep_until((started + self.wall_time).into());
        tokio::pin!(timer);
        write_some(&self.guest.control, &mut self.outgoing);
        loop {
            loop {
                match self.guest.next_frame() {
                    Ok(Some(frame)) => match self.take_frame(&frame) {
                        Ok(None) => {}
                        Ok(Some(end)) => return end,
                        Err(error) => return End::Protocol(error),
                    },
                    Ok(None) if gone => return End::Died,
                    Ok(None) => break,
                    Err(error) => return End::Protocol(error),
                }
            }
            let waits = self.calls.pause_clock() && self.stop.is_none();
            clock.set_waits(waits, || self.handle.meter.cpu_time());
            let flush = (!self.pending.is_empty()).then(|| self.told + EVENT_PAUSE);
            // No more than all of the time from now on counts.
            let mut wake = clock.deadline(|| self.handle.meter.cpu_time());
            if waits {
                wake = wake.max(Instant::now() + CPU_PAUSE);
            }
            let wake = [flush, next_cpu].into_iter().flatten().fold(wake, Ord::min);
            let wake = tokio::time::Instant::from_std(wake);
            if timer.deadline() != wake {
                timer.as_mut().reset(wake);
            }
            let guest = &mut *self.guest;
            let may_read = guest.reserve_buffer();
            let (outgoing, calls) = (&mut self.outgoing, &mut self.calls);
            let waiting = outgoing.len();
            let mut request = None;
            tokio::select! {
                read = guest.control.readable(), if may_read => {
                    match read.map_err(GuestError::from).and_then(|()| guest.read()) {
                        Ok(()) => {}
                        Err(GuestError::Gone) => return End::Died,
                        Err(GuestError::Protocol(error)) => return End::Protocol(error),
                    }
                }
                _ = guest.stdout.readable(), if !guest.stdout_ended => self.read_output(Stream::Stdout),
                _ = guest.stderr.readable(), if !guest.stderr_ended => self.read_output(Stream::Stderr),
                _ = guest.control.writable(), if !outgoing.is_empty() => {
                    write_some(&guest.control, outgoing);
                }
                // A checkpoint holds the channel open when the interpreter is gone.
                () = exited(&mut guest.exit), if !guest.checkpoint_set.is_empty() => {
                    gone = true;
                    // The last of what it sent, as far as it arrived.
                    while guest.read_some() {}
                }
                // There may be memory again for what it sends.
                () = tokio::time::sleep(buffers::PAUSE), if !may_read => {}
                wanted = calls.next_request(waiting) => request = Some(wanted),
                // Ends at once and for ever where the session has no proxy.
                Some(denial) = guest.denials.recv() => self.tell_denial(denial),
                () = &mut timer => {}
            }
            if let Some(request) = request {
                self.take_request(request).await;
            }
            let now = Instant::now();
            if flush.is_some_and(|at| at <= now) {
                self.flush();
            }
            let deadline = clock.deadline(|| self.handle.meter.cpu_time());
            let mut reason = (now >= deadline).then_some(Stop::WallTime);
            if next_cpu.is_some_and(|at| at <= now) {
                next_cpu = Some(now + CPU_PAUSE);
                let used = self.handle.meter.cpu_time().saturating_sub(cpu_before);
                if self
                    .handle
                    .limits
                    .cpu_time
                    .is_some_and(|limit| used > limit)
                {
                    reason = Some(Stop::CpuTime);
                }
            }
            if self.capture.total() > self.handle.limits.output_bytes {
                reason = Some(Stop::Output);
            }
            match (reason, self.stop) {
                (None, _) => {}
                (Some(reason), None) => {
                    self.stop = Some(reason);
                    clock = Clock::new(now + self.handle.limits.grace);
                    self.handle.interrupt_running();
                }
                (Some(_), Some(_)) if now >= deadline && !killed => {
                    // Whatever the code ignores, it does not outlive its namespaces.
                    killed = true;
                    clock = Clock::new(now + Duration::from_secs(5));
                    if self.guest.checkpoint_set.is_empty() {
                        self.handle.kill();
                    } else {
                        let _ = self.handle.interpreter().kill();
                    }
                }
                (Some(_), Some(_)) => {
                    if killed && now >= deadline {
                        return End::Died;
                    }
                }
            }
        }
    }

    /// A frame from the guest: the end if it is one, or the protocol error.
    fn take_frame(&mut self, frame: &RawFrame) -> Result<Option<End>, ProtocolError> {
        match GuestFrame::parse(frame).map_err(ProtocolError::Header)? {
            GuestFrame::Ready => {
                self.guest.ready = true;
                Ok(None)
            }
            GuestFrame::Fault { detail } if !self.guest.ready => Ok(Some(End::Fault(detail))),
            GuestFrame::Display(display) => {
                self.expect(display.cell, &display.nonce)?;
                // What was printed before it comes before it.
                self.read_rest();
                if std::mem::take(&mut self.clears) {
                    self.clear();
                }
                let scrubber = self.handle.variables.scrubber();
                let Some(display) = self.displays.take(display, &frame.blob, scrubber)? else {
                    return Ok(None);
                };
                self.flush();
                self.tell(Event::Display(display));
                Ok(None)
            }
            GuestFrame::Clear { cell, nonce, wait } => {
                self.expect(cell, &nonce)?;
                self.displays.count_change(0)?;
                // The guest has waited until all that it printed before was read.
                self.flush();
                self.clears = wait;
                if !wait {
                    self.clear();
                }
                self.tell(Event::Cleared { wait });
                Ok(None)
            }
            GuestFrame::Called(call) => {
                self.expect(call.cell, &call.nonce)?;
                self.take_call(call, &frame.blob)?;
                Ok(None)
            }
            GuestFrame::Asked(question) => {
                self.expect(question.cell, &question.nonce)?;
                self.take_question(question)?;
                Ok(None)
            }
            GuestFrame::Cancelled {
                cell,
                nonce,
                number,
            } => {
                self.expect(cell, &nonce)?;
                self.cancel_call(number);
                Ok(None)
            }
            GuestFrame::Kept(checkpoint) => {
                let meter = &self.handle.meter;
                self.guest
                    .checkpoint_set
                    .take_up(meter, checkpoint, self.cell)?;
                Ok(None)
            }
            GuestFrame::Done(report) => {
                self.expect(report.cell, &report.nonce)?;
                Ok(Some(End::Report(report)))
            }
            GuestFrame::Fault { .. }
            | GuestFrame::Granted
            | GuestFrame::Forking
            | GuestFrame::Forked { .. }
            | GuestFrame::ForksMade { .. }
            | GuestFrame::Rehearsed
            | GuestFrame::NamespaceCleared
            | GuestFrame::Woke(_)
            | GuestFrame::Checkpointed
            | GuestFrame::Seeded { .. }
            | GuestFrame::Manifest { .. }
            | GuestFrame::Completions { .. }
            | GuestFrame::Inspected { .. }
            | GuestFrame::Completeness(_)
            | GuestFrame::TablePart
            | GuestFrame::TableEnd { .. }
            | GuestFrame::SavedPart
            | GuestFrame::Saved(_)
            | GuestFrame::Loading
            | GuestFrame::Loaded { .. } => Err(ProtocolError::UnsolicitedAnswer),
        }
    }

    fn expect(&self, cell: u32, nonce: &str) -> Result<(), ProtocolError> {
        if cell == self.cell && nonce == self.nonce {
            Ok(())
        } else {
            Err(ProtocolError::OtherCell {
                reported: cell,
                running: self.cell,
            })
        }
    }

    /// Output of threads and processes of earlier cells since then belongs to this cell now.
    fn take_late_output(&mut self) {
        self.read_rest();
        let late = self.capture.total();
        if late > 0 {
            self.notes.push(format!(
                "the first {late} bytes of the output were written between the cells, by a thread or process of an earlier one"
            ));
        }
    }

    /// Reads what the pipes hold now, without relying on the runtime's readiness, which may be
    /// late: all output before a report is there when the report is.
    fn read_rest(&mut self) {
        let limit = self.capture.total() + REST_BYTES;
        let mut buffer = [0; READ_BYTES];
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.capture.total() < limit
                && let Ok(read @ 1..) = self.guest.read_now(stream, &mut buffer)
            {
                self.take_output(stream, &buffer[..read]);
            }
        }
    }

    /// Reads from a pipe that is said to be readable.
    fn read_output(&mut self, stream: Stream) {
        let mut buffer = [0; READ_BYTES];
        let (pipe, ended) = match stream {
            Stream::Stdout => (&self.guest.stdout, &mut self.guest.stdout_ended),
            Stream::Stderr => (&self.guest.stderr, &mut self.guest.stderr_ended),
        };
        match pipe.try_read(&mut buffer) {
            // Every writer has closed it, which a cell can do with os.close.
            Ok(0) => *ended = true,
            Ok(read) => self.take_output(stream, &buffer[..read]),
            Err(_) => {}
        }
    }

    /// What the cell has shown so far is left out of its outcome.
    fn clear(&mut self) {
        self.capture.clear();
        self.displays.clear();
    }

    fn take_output(&mut self, stream: Stream, bytes: &[u8]) {
        let clean = self.scrubbers[stream as usize].push(bytes);
        self.take_clean_output(stream, &clean);
    }

    fn take_clean_output(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.clears) {
            self.clear();
        }
        let (text, last) = self.capture.push(stream, bytes);
        let full = self.pending.len() >= MAX_PIECES;
        let mut pieces = self.pending.iter_mut().rev();
        let piece = if full {
            pieces.find(|(of, _)| *of == stream)
        } else {
            pieces.next().filter(|(of, _)| *of == stream)
        };
        match piece {
            Some((_, piece)) => piece.push_str(&text),
            None if text.is_empty() => {}
            None => self.pending.push((stream, text)),
        }
        if self.told.elapsed() >= EVENT_PAUSE || last {
            self.flush();
        }
        if last {
            self.tell(Event::Truncated { stream });
        }
    }

    fn flush(&mut self) {
        for (stream, text) in std::mem::take(&mut self.pending) {
            self.told = Instant::now();
            self.tell(Event::Output { stream, text });
        }
    }

    fn tell_denial(&mut self, mut denial: Denial) {
        self.handle.variables.scrubber().text(&mut denial.host);
        if denial.reason == DeniedReason::NotListed {
            self.unlisted = Some(denial.host.clone());
        }
        self.tell(Event::Denied(denial));
    }

    fn tell(&self, event: Event) {
        // The stream was dropped: the cell still runs to its end.
        let _ = self.events.send(Ok(event));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
