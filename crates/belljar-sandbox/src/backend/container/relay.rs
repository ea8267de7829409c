//! The relay between a container's one stream and the pipes that a session has: each wire's bytes come and go in order,
//! and none of them holds up the rest.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use belljar_protocol::{FrameDecoder, FromSteward, STEWARD_LIMITS, STEWARD_WINDOW, ToSteward};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, mpsc};

use super::steward::Steward;
use super::stream::Stream;
use crate::lock::lock;

/// How much is read from a wire at once.
const CHUNK: usize = 64 << 10;

/// After so many bytes that were taken, the steward gets credit for them.
const CREDIT: usize = 64 << 10;

/// How often the host says that it lives.
const ALIVE: Duration = Duration::from_secs(20);

/// How often it is looked whether a reader has taken what is there, and how long between: 0.1 s in all.
const MOMENT: Duration = Duration::from_millis(1);
const ATTEMPTS: u32 = 200;

/// How much of the steward's own words is kept.
const LOG: usize = 8 << 10;

/// Its last words, for an error.
pub(super) type Log = Arc<Mutex<VecDeque<u8>>>;

/// More output of a session than this is not on its way: a steward that keeps to its window stays below it.
const MOST_QUEUED: usize = 2 * STEWARD_WINDOW;

/// A part of the session's output.
type Output = (Wire, Vec<u8>);

#[derive(Clone, Copy)]
enum Wire {
    Control,
    Stdout,
    Stderr,
}

/// Starts the relay: reads and writes frames until the stream or the steward's holder ends.
pub(super) fn start(
    stream: Stream,
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    steward: &Arc<Steward>,
    theirs: Vec<OwnedFd>,
    log: Log,
) -> io::Result<()> {
    let theirs = <[OwnedFd; 4]>::try_from(theirs);
    let theirs = theirs.map_err(|_| io::ErrorKind::InvalidInput)?;
    let [control, interrupts, stdout, stderr] = theirs;
    let control = std::os::unix::net::UnixStream::from(control);
    control.set_nonblocking(true)?;
    let (from_host, to_host) = UnixStream::from_std(control)?.into_split();
    let wires = (
        to_host,
        pipe::Sender::from_owned_fd(stdout)?,
        pipe::Sender::from_owned_fd(stderr)?,
    );
    let interrupts = pipe::Receiver::from_owned_fd(interrupts)?;
    let (output, outputs) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let window = Arc::new(Semaphore::new(STEWARD_WINDOW));

    let writer = tokio::spawn(write(stream.writing, frames));
    let tasks = [
        tokio::spawn(pass_output(
            outputs,
            wires,
            Arc::downgrade(steward),
            Arc::clone(&queued),
        )),
        tokio::spawn(pass_input(
            from_host,
            Arc::downgrade(steward),
            Arc::clone(&window),
        )),
        tokio::spawn(pass_interrupts(interrupts, Arc::downgrade(steward))),
        tokio::spawn(stay_alive(Arc::downgrade(steward))),
    ];
    let steward = Arc::downgrade(steward);
    tokio::spawn(async move {
        let reading = (stream.reading, stream.is_framed);
        if let Err(error) = read(reading, &steward, (&output, &queued), &window, &log).await {
            // For the error of whoever waits.
            keep_words(&log, format!("\nits stream ended: {error}").as_bytes());
        }
        if let Some(steward) = steward.upgrade() {
            steward.end().await;
        }
        // What was printed before the end is still passed on.
        drop(output);
        let [outputs, others @ ..] = tasks;
        for task in others {
            task.abort();
        }
        let _ = outputs.await;
        writer.abort();
    });
    Ok(())
}

/// Keeps the last of the steward's words, and those of who started it.
fn keep_words(log: &Log, bytes: &[u8]) {
    let mut log = lock(log);
    log.extend(bytes);
    let over = log.len().saturating_sub(LOG);
    log.drain(..over);
}

/// The words of a steward that come on a stream of their own.
pub(super) async fn read_words(mut stream: pipe::Receiver, log: Log) {
    let mut chunk = vec![0; LOG];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        keep_words(&log, &chunk[..read]);
    }
}

async fn write(
    mut stream: Box<dyn AsyncWrite + Send + Unpin>,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(frame) = frames.recv().await {
        stream.write_all(&frame).await?;
        stream.flush().await?;
    }
    // Its holder is gone: the steward ends with its input.
    stream.shutdown().await
}

/// Reads frames until the end.
async fn read(
    (mut stream, is_framed): (Box<dyn AsyncRead + Send + Unpin>, bool),
    steward: &Weak<Steward>,
    (output, queued): (&mpsc::UnboundedSender<Output>, &AtomicUsize),
    window: &Semaphore,
    log: &Log,
) -> io::Result<()> {
    let mut decoder = FrameDecoder::new(STEWARD_LIMITS);
    let mut chunk = vec![0; CHUNK];
    loop {
        let (which, mut left) = if is_framed {
            // Which stream, three empty bytes, a length.
            let mut head = [0; 8];
            stream.read_exact(&mut head).await?;
            let [which, _, _, _, length @ ..] = head;
            let length = usize::try_from(u32::from_be_bytes(length));
            (which, length.unwrap_or(usize::MAX))
        } else {
            (1, usize::MAX)
        };
        while left > 0 {
            let part = left.min(CHUNK);
            let read = stream.read(&mut chunk[..part]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read;
            if which == 2 {
                keep_words(log, &chunk[..read]);
                continue;
            }
            decoder.push(&chunk[..read]);
            while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
                let Some(steward) = steward.upgrade() else {
                    return Ok(());
                };
                let message: FromSteward = serde_json::from_slice(&frame.header)?;
                let wire = match message {
                    FromSteward::Control => Wire::Control,
                    FromSteward::Stdout => Wire::Stdout,
                    FromSteward::Stderr => Wire::Stderr,
                    FromSteward::Credit { bytes } => {
                        let room = STEWARD_WINDOW.saturating_sub(window.available_permits());
                        window.add_permits(bytes.min(room));
                        continue;
                    }
                    message => {
                        steward.receive(message, frame.blob);
                        continue;
                    }
                };
                let bytes = frame.blob.len();
                if queued.fetch_add(bytes, Ordering::Relaxed) > MOST_QUEUED {
                    return Err(io::Error::other("it sent more than it may"));
                }
                let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                output.send((wire, frame.blob)).map_err(gone)?;
            }
        }
    }
}

/// Passes the session's output on, in its order. The session's reader may be slow; the steward waits for credit.
async fn pass_output(
    mut outputs: mpsc::UnboundedReceiver<Output>,
    (mut control, mut stdout, mut stderr): (
        tokio::net::unix::OwnedWriteHalf,
        pipe::Sender,
        pipe::Sender,
    ),
    steward: Weak<Steward>,
    queued: Arc<AtomicUsize>,
) {
    let mut taken = 0;
    let mut last = Wire::Control;
    while let Some((wire, bytes)) = outputs.recv().await {
        // The reader looks at three wires at once, and would mix up what is on two of them. Between cells nobody reads.
        if steward
            .upgrade()
            .is_some_and(|steward| steward.is_measuring())
        {
            match (last, wire) {
                (Wire::Stdout, Wire::Stdout) | (Wire::Stderr, Wire::Stderr) => {}
                (Wire::Stdout, _) => taken_from(|| is_empty(&stdout)).await,
                (Wire::Stderr, _) => taken_from(|| is_empty(&stderr)).await,
                (Wire::Control, _) => {
                    taken_from(|| belljar_walls::is_read(control.as_ref())).await;
                }
            }
        }
        last = wire;
        // A wire that nobody reads any longer is no reason to stop the others.
        let _ = match wire {
            // The session has closed its end.
            Wire::Control if bytes.is_empty() => control.shutdown().await,
            Wire::Control => control.write_all(&bytes).await,
            Wire::Stdout => stdout.write_all(&bytes).await,
            Wire::Stderr => stderr.write_all(&bytes).await,
        };
        queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        taken += bytes.len();
        if taken >= CREDIT {
            if let Some(steward) = steward.upgrade() {
                steward.send(&ToSteward::Credit { bytes: taken }, &[]);
            }
            taken = 0;
        }
    }
}

/// Waits until the reader of a wire has taken all that is on it.
async fn taken_from(is_done: impl Fn() -> bool) {
    for attempt in 0..ATTEMPTS {
        if is_done() {
            return;
        }
        if attempt < ATTEMPTS / 2 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(MOMENT).await;
        }
    }
}

fn is_empty(pipe: &pipe::Sender) -> bool {
    rustix::io::ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0)
}

/// Passes on what the host says to the session.
async fn pass_input(
    mut control: tokio::net::unix::OwnedReadHalf,
    steward: Weak<Steward>,
    window: Arc<Semaphore>,
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let Ok(read @ 1..) = control.read(&mut chunk).await else {
            return;
        };
        let permits = u32::try_from(read).unwrap_or(u32::MAX);
        let Ok(permit) = window.acquire_many(permits).await else {
            return;
        };
        permit.forget();
        let Some(steward) = steward.upgrade() else {
            return;
        };
        steward.send(&ToSteward::Control, &chunk[..read]);
    }
}

/// Passes on interrupts: numbers of cells.
async fn pass_interrupts(mut interrupts: pipe::Receiver, steward: Weak<Steward>) {
    while let Ok(cell) = interrupts.read_u32_le().await {
        let Some(steward) = steward.upgrade() else {
            return;
        };
        steward.send(&ToSteward::Interrupt { cell }, &[]);
    }
}

async fn stay_alive(steward: Weak<Steward>) {
    loop {
        tokio::time::sleep(ALIVE).await;
        let Some(steward) = steward.upgrade() else {
            return;
        };
        steward.send(&ToSteward::Alive, &[]);
    }
}
