//! A session: one live interpreter behind walls.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use belljar_protocol::{Event, GuestFrame, HostFrame, NameInfo, Outcome, Walls};
use belljar_walls::{Beneath, Process};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

use crate::cell::CellDriver;
use crate::checkpoints::copy_before;
use crate::copies::Copies;
use crate::error::Error;
use crate::family::Family;
use crate::guest::{DEATH_TIME, Guest};
use crate::limits::Limits;
use crate::network::{Network, Proxy};
use crate::options::{Checkpoints, SessionOptions};
use crate::shared::Shared;
use crate::starting::Started;
use crate::warm::Warm;

/// The longest cell, in bytes of source.
const MAX_CODE: usize = 4 << 20;

/// Denials that wait to be told; more are counted.
const MAX_DENIALS: usize = 64;

/// A piece of code to run, and how.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Python source.
    pub code: String,
    /// How long it may run, if not as long as the session's limits say.
    pub wall_time: Option<Duration>,
    /// What to do while another cell runs.
    pub when_busy: WhenBusy,
    /// What becomes of the variables if it does not succeed.
    pub on_failure: OnFailure,
    /// Whether whoever runs it answers what it asks, by [`Session::answer`]. Its time does not run
    /// while it waits. Where nobody answers, `belljar.ask` fails.
    pub answers: bool,
}

/// What a guest is to do.
pub(crate) enum Work {
    Cell(Cell),
    /// The answer to the call that a fork was made at.
    Answer(serde_json::Value),
}

/// What to do with a cell while another one runs in the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Run it after that one.
    #[default]
    Wait,
    /// Return [`Error::Busy`].
    Refuse,
}

/// What becomes of the variables when a cell does not end in success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They stay as the cell left them.
    #[default]
    Keep,
    /// All or nothing: they are as they were before the cell, and the outcome says so. A copy of
    /// the session is made before the cell, if none is there of that state; where it can't be
    /// made, the cell is not run ([`Error::NotCopied`]). Files stay as the cell left them.
    Restore,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(code: T) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }
}

/// One live Python interpreter behind walls, with a workspace. It ends when it is dropped.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    guest: Arc<tokio::sync::Mutex<Guest>>,
}

impl Session {
    pub(crate) fn new(
        warm: Arc<Warm>,
        started: Started,
        options: SessionOptions,
        walls: Walls,
    ) -> Result<Self, Error> {
        let Started {
            id,
            control,
            interrupts,
            stdout,
            stderr,
            init,
            interpreter,
            workspace,
            cgroup,
            listener,
            watches,
            exit,
        } = started;
        let SessionOptions {
            limits,
            network,
            checkpoints,
            ..
        } = options;
        let (reports, denials) = channel(MAX_DENIALS);
        let proxy = match (listener, network) {
            (Some(listener), Network::Allow(list)) => {
                let proxy = Proxy::start(listener.into(), list, reports);
                Some(proxy.map_err(Error::io("the session's proxy"))?)
            }
            _ => None,
        };
        let family = match init.zip(watches) {
            Some(((init, mounts), watches)) => {
                let family = Family::new(id, init, mounts, watches, proxy);
                Some(Arc::new(
                    family.map_err(Error::io("the session's orphans"))?,
                ))
            }
            None => None,
        };
        let orphans = family.as_ref().map(|family| family.orphans.clone());
        let mut copies = Copies::new(orphans, checkpoints);
        if checkpoints != Checkpoints::Off {
            copies.stand_before(&interpreter);
        }
        let (calls, requests) = unbounded_channel();
        Ok(Self::assemble(
            Shared {
                id,
                limits,
                walls,
                checkpoints,
                output_directory: warm.output_directory(id),
                workspace,
                family,
                interpreter: Mutex::new(Arc::new(interpreter)),
                interrupts,
                cgroup,
                running: AtomicU32::new(0),
                ended: Mutex::default(),
                asked: AtomicU64::new(0),
                calls,
                room: None,
                warm,
            },
            Guest::new(control, stdout, stderr, denials, exit, copies, requests),
        ))
    }

    pub(crate) fn assemble(shared: Shared, guest: Guest) -> Self {
        Self {
            shared: Arc::new(shared),
            guest: Arc::new(tokio::sync::Mutex::new(guest)),
        }
    }

    /// A number that no other session of this engine has.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// What this session may use.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Runs a cell. What comes back is a stream of events that ends in an outcome, and a future
    /// of that outcome. The cell runs to its end even if nobody listens.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn run(&self, cell: impl Into<Cell>) -> CellRun {
        self.spawn(Work::Cell(cell.into()))
    }

    pub(crate) fn spawn(&self, work: Work) -> CellRun {
        let (sender, events) = unbounded_channel();
        let (shared, guest) = (Arc::clone(&self.shared), Arc::clone(&self.guest));
        tokio::spawn(async move {
            let result = match work {
                Work::Cell(cell) => run_cell(&shared, &guest, cell, &sender).await,
                Work::Answer(value) => resume(&shared, &guest, &value, &sender).await,
            };
            if shared.checkpoints == Checkpoints::Auto {
                let (shared, guest) = (Arc::downgrade(&shared), Arc::downgrade(&guest));
                tokio::spawn(take_up_copies(shared, guest));
            }
            // All of the session is released before the caller can know that the cell is over.
            drop((shared, guest));
            let _ = sender.send(result.map(|outcome| Event::Outcome(Box::new(outcome))));
        });
        CellRun { events }
    }

    /// Interrupts the cell that runs, as Ctrl-C would; its variables are kept. False if no cell
    /// runs.
    pub fn interrupt(&self) -> bool {
        self.shared.interrupt_running()
    }

    /// Binds values before the first cell, or between cells. Fails for names that are bound
    /// already or can't be names; the others are bound.
    pub async fn seed(
        &self,
        values: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), Error> {
        match self.ask(&HostFrame::Seed { values }).await? {
            GuestFrame::Seeded { refused } if refused.is_empty() => Ok(()),
            GuestFrame::Seeded { refused } => Err(Error::Seed(refused)),
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Lets a session that nobody waits for make its first moves, which cost the most.
    pub(crate) async fn rehearse(&self) -> Result<(), Error> {
        self.ask(&HostFrame::Rehearse).await.map(drop)
    }

    /// The manifest: what the namespace holds.
    pub async fn manifest(&self) -> Result<Vec<NameInfo>, Error> {
        match self.ask(&HostFrame::Manifest).await? {
            GuestFrame::Manifest { names } => Ok(names),
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Names that complete the word before `cursor` (in bytes), and where that word starts.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<(usize, Vec<String>), Error> {
        match self.ask(&HostFrame::Complete { code, cursor }).await? {
            GuestFrame::Completions { start, candidates } => {
                Ok((start.min(code.len()), candidates))
            }
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Ends the session and waits until its processes are gone.
    pub async fn close(self) -> Result<(), Error> {
        self.shared.end("it was closed");
        self.shared.kill();
        // A cell that runs sees its guest die and gives the guest back.
        self.guest.lock().await.wait_status(DEATH_TIME).await;
        Ok(())
    }

    /// Memory of the session's interpreter, and of its init where there are walls.
    pub(crate) fn sum_processes(&self, of: impl Fn(&Process) -> Option<u64>) -> Option<u64> {
        let family = self.shared.family.as_ref();
        let init = family.map_or(Some(0), |family| of(&family.init))?;
        Some(init + of(&self.shared.interpreter())?)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.shared.check().is_ok() && !self.shared.interpreter_is_gone()
    }

    /// What the host keeps of it, and its wires: whoever locks them may talk to the guest.
    pub(crate) fn wires(&self) -> (&Arc<Shared>, &Arc<tokio::sync::Mutex<Guest>>) {
        (&self.shared, &self.guest)
    }

    pub(crate) fn workspace(&self) -> &Beneath {
        &self.shared.workspace
    }

    /// Ends a session that answered another question than the one it was asked: its next answer
    /// would be taken for something else, too.
    fn broke_the_protocol(&self) -> Error {
        let why = "it broke the protocol: an answer to another question";
        self.shared.end(why);
        self.shared.kill();
        Error::Ended(why.into())
    }

    async fn ask(&self, question: &HostFrame<'_>) -> Result<GuestFrame, Error> {
        let mut guest = self.guest.lock().await;
        self.shared.check()?;
        let answer = guest.ask(question, self.shared.cgroup.as_ref()).await;
        if let Err(error) = &answer {
            self.shared.end(&error.to_string());
            self.shared.kill();
        }
        answer
    }
}

impl Drop for Session {
    /// A cell that still runs holds what the host keeps of the session, but does not outlive it.
    fn drop(&mut self) {
        self.shared.end("it was dropped");
        self.shared.kill();
    }
}

/// Takes up the copy that is made after a cell, and ends the oldest one, in the pause that follows:
/// in the next cell it would cost that cell's time.
async fn take_up_copies(shared: Weak<Shared>, guest: Weak<tokio::sync::Mutex<Guest>>) {
    for milliseconds in [5, 10, 20, 40] {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        let (Some(shared), Some(guest)) = (shared.upgrade(), guest.upgrade()) else {
            return;
        };
        // A cell that runs does it itself, and one that waits for the lock comes first.
        let Ok(mut guest) = guest.try_lock() else {
            return;
        };
        if shared.check().is_err() {
            return;
        }
        let before = guest.copies.newest;
        // What is wrong will be so in the next cell, which has somebody to tell it to.
        let absorbed = guest.absorb(shared.cgroup.as_ref());
        if absorbed.is_err() || guest.copies.newest != before {
            return;
        }
    }
}

async fn run_cell(
    shared: &Shared,
    guest: &tokio::sync::Mutex<Guest>,
    cell: Cell,
    events: &UnboundedSender<Result<Event, Error>>,
) -> Result<Outcome, Error> {
    if cell.code.len() > MAX_CODE {
        return Err(Error::CellTooLarge {
            bytes: cell.code.len(),
            limit: MAX_CODE,
        });
    }
    let mut guest = match cell.when_busy {
        WhenBusy::Wait => guest.lock().await,
        WhenBusy::Refuse => guest.try_lock().map_err(|_| Error::Busy)?,
    };
    shared.check()?;
    let before = match cell.on_failure {
        OnFailure::Keep => None,
        OnFailure::Restore => Some(copy_before(shared, &mut guest).await?),
    };
    guest.copies.pinned = before;
    let outcome = CellDriver::new(shared, &mut guest, events, &cell, before)
        .run(&cell.code)
        .await;
    guest.copies.pinned = None;
    if before.is_some() && shared.checkpoints == Checkpoints::Off {
        if guest.copies.is_expecting() {
            guest.wait_for_copy(shared.cgroup.as_ref()).await;
        }
        guest.copies.give_up(|copy| copy.name.is_none());
    }
    outcome
}

async fn resume(
    shared: &Shared,
    guest: &tokio::sync::Mutex<Guest>,
    value: &serde_json::Value,
    events: &UnboundedSender<Result<Event, Error>>,
) -> Result<Outcome, Error> {
    let mut guest = guest.lock().await;
    let Some(question) = guest.question.take() else {
        shared.check()?;
        return Err(Error::NotAsked { call: 0 });
    };
    shared.asked.store(0, Ordering::Release);
    shared.check()?;
    CellDriver::going_on(shared, &mut guest, events, &question)
        .answer(question.call, value)
        .await
}

/// A cell on its way: a stream of events that ends in [`Event::Outcome`], or in an error of ours.
///
/// As a future it is the outcome alone: `let outcome = session.run("1 + 1").await?;`
#[derive(Debug)]
pub struct CellRun {
    events: UnboundedReceiver<Result<Event, Error>>,
}

impl CellRun {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        self.events.recv().await
    }

    /// Waits for the outcome, passing over the other events.
    pub async fn outcome(mut self) -> Result<Outcome, Error> {
        while let Some(event) = self.next().await {
            if let Event::Outcome(outcome) = event? {
                return Ok(*outcome);
            }
        }
        Err(Error::Ended("the task that served it is gone".into()))
    }
}

impl futures_core::Stream for CellRun {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context)
    }
}

impl IntoFuture for CellRun {
    type Output = Result<Outcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.outcome())
    }
}
