//! A running command: its pipes or its terminal, its output, its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use belljar_walls::{BEGUN, CommandSpec, send_bytes};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::command::{Command, TerminalSize};
use super::log::{OutputLog, OutputPart, OutputStream};
use super::server::{CommandServer, Prepared};
use crate::backend::warm::PATIENCE;
use crate::buffers::Share;
use crate::error::Error;
use crate::lock::lock;
use crate::variables::{Scrubber, StreamScrubber};

/// How long the output of a command that has ended is read, where something that it left behind
/// holds it open.
const AFTER_END: Duration = Duration::from_secs(1);

/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit code; `None` if a signal ended it, or its end is not known.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// Why its end is not known: its session has ended, for example.
    pub lost: Option<String>,
}

/// A program that runs in a session, or has ended.
#[derive(Debug)]
pub struct CommandProcess {
    pid: i32,
    group: i32,
    command: Command,
    started: SystemTime,
    server: Weak<CommandServer>,
    /// Its standard input, or its terminal.
    input: tokio::sync::Mutex<Option<pipe::Sender>>,
    /// Until its end.
    terminal: Mutex<Option<OwnedFd>>,
    log: Mutex<OutputLog>,
    /// Changes with the log and with the end.
    changes: watch::Sender<()>,
    end: OnceLock<(CommandEnd, Instant)>,
    /// How far a reader has come.
    followed: watch::Sender<u64>,
}

/// The host's ends of what a command is connected to, and the command's own.
struct Connections {
    outputs: Vec<(OutputStream, pipe::Receiver)>,
    input: Option<pipe::Sender>,
    terminal: Option<OwnedFd>,
    theirs: Vec<OwnedFd>,
}

/// Starts a command. What follows it to its end is to be run.
pub(super) async fn start(
    server: &Arc<CommandServer>,
    command: Command,
    spec: &CommandSpec,
    share: Share,
) -> Result<(Arc<CommandProcess>, Following), Error> {
    let connections = match command.terminal {
        Some(size) => Connections::terminal(size),
        None => Connections::pipes(command.input),
    };
    let Connections {
        outputs,
        input,
        terminal,
        theirs,
    } = connections.map_err(Error::io("a command's pipes"))?;
    let descriptors: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
    let message = message(spec)?;
    let Prepared {
        pid,
        group,
        exit,
        control: _,
        process: _,
    } = begin(server, command.terminal.is_some(), &message, &descriptors).await?;
    drop(theirs);
    let process = Arc::new(CommandProcess {
        pid,
        group,
        started: SystemTime::now(),
        server: Arc::downgrade(server),
        input: tokio::sync::Mutex::new(input),
        terminal: Mutex::new(terminal),
        log: Mutex::new(OutputLog::new(share)),
        changes: watch::Sender::new(()),
        end: OnceLock::new(),
        followed: watch::Sender::new(0),
        command,
    });
    let following = Following {
        process: Arc::clone(&process),
        outputs,
        exit,
    };
    Ok((process, following))
}

/// A command as its process reads it.
fn message(spec: &CommandSpec) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(spec).map_err(|error| Error::Command(error.to_string()))?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut message = length.to_le_bytes().to_vec();
    message.extend(text);
    Ok(message)
}

/// Makes a prepared process the program. One that was killed before that is replaced: code in the session could do it.
async fn begin(
    server: &Arc<CommandServer>,
    terminal: bool,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<Prepared, Error> {
    for _ in 0..3 {
        let prepared = server.take(terminal).await;
        let mut prepared = prepared.map_err(|error| Error::Command(error.to_string()))?;
        let begun = send(&mut prepared.control, message, descriptors);
        match tokio::time::timeout(PATIENCE, begun).await {
            Ok(Ok(answer)) => match answer.split_first() {
                Some((&BEGUN, [])) => return Ok(prepared),
                Some((&BEGUN, why)) => return Err(refused(why)),
                Some(_) => return Err(refused(&answer)),
                None => {}
            },
            Ok(Err(_)) => {}
            Err(_) => {
                let _ = prepared.process.kill();
                return Err(Error::Command("it did not start in time\nhint: the session may be out of CPU time: wait for its cell, and try again".into()));
            }
        }
    }
    let why = "its process was killed three times before it began\nhint: the session may be out of memory: free some, or raise its limit".into();
    Err(Error::Command(why))
}

fn refused(why: &[u8]) -> Error {
    Error::Command(String::from_utf8_lossy(why).into_owned())
}

/// Sends a command to its process, and waits until that has become its program, or says why not.
async fn send(
    control: &mut UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<Vec<u8>> {
    let first = || send_bytes(&*control, message, descriptors);
    let sent = control.async_io(Interest::WRITABLE, first).await?;
    control.write_all(&message[sent..]).await?;
    let mut answer = Vec::new();
    control.read_to_end(&mut answer).await?;
    Ok(answer)
}

impl Connections {
    fn pipes(input: bool) -> io::Result<Self> {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut theirs = vec![their_stdout, their_stderr];
        let input = if input {
            let (their_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
            theirs.push(their_stdin);
            Some(pipe::Sender::from_owned_fd(stdin)?)
        } else {
            None
        };
        Ok(Self {
            outputs: vec![
                (OutputStream::Stdout, pipe::Receiver::from_owned_fd(stdout)?),
                (OutputStream::Stderr, pipe::Receiver::from_owned_fd(stderr)?),
            ],
            input,
            terminal: None,
            theirs,
        })
    }

    fn terminal(size: TerminalSize) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let path = ptsname(&ours, Vec::new())?;
        let flags =
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let theirs = rustix::fs::open(path.as_c_str(), flags, rustix::fs::Mode::empty())?;
        let mut modes = tcgetattr(&theirs)?;
        // A backspace takes away a character, and not a byte of one.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&theirs, OptionalActions::Now, &modes)?;
        resize(&theirs, size)?;
        // It is no pipe, and is read and written as one.
        rustix::io::ioctl_fionbio(&ours, true)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?;
        let input = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
        Ok(Self {
            outputs: vec![(OutputStream::Terminal, output)],
            input: Some(input),
            terminal: Some(ours),
            theirs: vec![theirs],
        })
    }
}

fn resize(terminal: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

impl CommandProcess {
    /// Its process id in the session, by which other commands know it, too.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What was started.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// When it was started.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// How it ended; `None` while it runs.
    pub fn end(&self) -> Option<CommandEnd> {
        self.end.get().map(|(end, _)| end.clone())
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.end.get().map(|(_, at)| *at)
    }

    /// Its output from this place on, 0 being the beginning, at most so many bytes. The newest half
    /// megabyte is kept.
    pub fn output(&self, from: u64, most: usize) -> OutputPart {
        lock(&self.log).read(from, most)
    }

    /// What is kept of one stream, and how many bytes before that are not.
    pub fn kept_output(&self, stream: OutputStream) -> (Vec<u8>, u64) {
        lock(&self.log).kept_of(stream)
    }

    /// Waits until there is output after this place, and returns it. At the end of the command it is empty.
    pub async fn next_output(&self, from: u64, most: usize) -> OutputPart {
        self.followed.send_if_modified(|followed| {
            let is_further = from > *followed;
            *followed = from.max(*followed);
            is_further
        });
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let ended = self.end.get().is_some();
            let part = self.output(from, most);
            if ended || !part.chunks.is_empty() || part.lost_bytes > 0 {
                return part;
            }
            if changes.changed().await.is_err() {
                return part;
            }
        }
    }

    /// Whether a [paced](Command::paced) program waits for the reader of its output.
    fn is_ahead_of(&self, followed: u64) -> bool {
        self.command.paced && followed < lock(&self.log).total()
    }

    /// Whether its session has taken its command server along.
    fn is_orphaned(&self) -> bool {
        self.server.upgrade().is_none_or(|server| server.is_gone())
    }

    /// Waits until it has ended and its output was read.
    pub async fn wait(&self) -> CommandEnd {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(end) = self.end() {
                return end;
            }
            let _ = changes.changed().await;
        }
    }

    /// Writes to its standard input or its terminal. Waits while the program does not read.
    ///
    /// # Errors
    /// [`Error::Command`] if it has no input, or has closed it.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut input = self.input.lock().await;
        let Some(input) = &mut *input else {
            let why = "it has no standard input, or its input is closed".to_owned();
            return Err(Error::Command(why));
        };
        let written = input.write_all(bytes).await;
        written.map_err(|_| Error::Command("it reads no input any more".into()))
    }

    /// Closes its standard input: it reads the end of a file. A terminal gets the character for that.
    pub async fn close_input(&self) -> Result<(), Error> {
        if self.command.terminal.is_some() {
            return self.write(b"\x04").await;
        }
        self.input.lock().await.take();
        Ok(())
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        if self.end.get().is_some() {
            return Ok(());
        }
        if !(1..=64).contains(&signal) {
            return Err(Error::Command(format!(
                "there is no signal {signal}\nhint: signals are 1 to 64"
            )));
        }
        match self.server.upgrade() {
            Some(server) => {
                let sent = server.signal(self.group, signal);
                sent.map_err(Error::io("signalling a command"))
            }
            None => Ok(()),
        }
    }

    /// Kills its process group.
    pub fn kill(&self) -> Result<(), Error> {
        self.signal(rustix::process::Signal::KILL.as_raw())
    }

    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// [`Error::Command`] if it has none.
    pub fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        match &*lock(&self.terminal) {
            Some(terminal) => resize(terminal, size).map_err(Error::io("resizing a terminal")),
            None if self.end.get().is_some() => Ok(()),
            None => Err(Error::Command("it has no terminal".into())),
        }
    }

    async fn wait_for_end(&self, grace: Duration, exit: oneshot::Receiver<i32>) -> CommandEnd {
        tokio::pin!(exit);
        let mut timed_out = false;
        let ended = match self.command.timeout {
            None => exit.await,
            Some(timeout) => {
                if let Ok(ended) = tokio::time::timeout(timeout, &mut exit).await {
                    ended
                } else {
                    timed_out = true;
                    let _ = self.signal(rustix::process::Signal::TERM.as_raw());
                    let in_time = tokio::time::timeout(grace, &mut exit).await;
                    if in_time.is_err() {
                        let _ = self.kill();
                    }
                    match in_time {
                        Ok(ended) => ended,
                        Err(_) => exit.await,
                    }
                }
            }
        };
        match ended {
            Ok(status) => {
                let signal = status & 0x7f;
                CommandEnd {
                    exit_code: (signal == 0).then_some((status >> 8) & 0xff),
                    signal: (signal != 0).then_some(signal),
                    timed_out,
                    lost: None,
                }
            }
            Err(_) => CommandEnd {
                exit_code: None,
                signal: None,
                timed_out,
                lost: Some(
                    "its session ended, hibernated, or was restored from a checkpoint".into(),
                ),
            },
        }
    }
}

/// A running command that is followed to its end.
pub(super) struct Following {
    process: Arc<CommandProcess>,
    outputs: Vec<(OutputStream, pipe::Receiver)>,
    exit: oneshot::Receiver<i32>,
}

impl Following {
    /// Reads its output, ends it when its time is over, and notes its end.
    pub(super) async fn run(self, grace: Duration, scrubber: &Arc<Scrubber>) {
        let Self {
            process,
            outputs,
            exit,
        } = self;
        let mut readers = JoinSet::new();
        for (stream, mut from) in outputs {
            let this = Arc::clone(&process);
            let mut scrubber = StreamScrubber::new(Arc::clone(scrubber));
            readers.spawn(async move {
                let mut chunk = vec![0; CHUNK];
                let mut followed = this.followed.subscribe();
                loop {
                    let _ = followed.wait_for(|at| !this.is_ahead_of(*at)).await;
                    // A terminal that no program has open any more is an error.
                    match from.read(&mut chunk).await {
                        Ok(0) | Err(_) => break,
                        Ok(bytes) => {
                            let clean = scrubber.push(&chunk[..bytes]);
                            if !clean.is_empty() {
                                lock(&this.log).push(stream, &clean);
                                this.changes.send_replace(());
                            }
                        }
                    }
                }
                let rest = scrubber.finish();
                if !rest.is_empty() {
                    lock(&this.log).push(stream, &rest);
                }
            });
        }
        let end = process.wait_for_end(grace, exit).await;
        let mut all_read = std::pin::pin!(async { while readers.join_next().await.is_some() {} });
        // A reader that takes its time is not something in the background.
        while tokio::time::timeout(AFTER_END, &mut all_read)
            .await
            .is_err()
            && process.is_ahead_of(*process.followed.borrow())
            && !process.is_orphaned()
        {}
        let _ = process.end.set((end, Instant::now()));
        lock(&process.terminal).take();
        // Who writes now gets an error, and lets it go.
        if let Ok(mut input) = process.input.try_lock() {
            input.take();
        }
        process.changes.send_replace(());
    }
}
