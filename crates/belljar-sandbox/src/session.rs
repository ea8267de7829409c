//! A session: one live interpreter behind walls.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use belljar_protocol::{CallId, Event, GuestFrame, HostFrame, NameInfo, Outcome};
use belljar_walls::{Process, SessionCgroup, SessionUse};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::cell::CellDriver;
use crate::checkpoints::checkpoint_before;
use crate::error::Error;
use crate::guest::{DEATH_TIME, Guest};
use crate::handle::SessionHandle;
use crate::lifecycle::{AwakeSession, Lifecycle, Wires};
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};

/// The longest cell, in bytes of source.
const MAX_CODE: usize = 4 << 20;

/// A piece of code to run, and how.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Python source.
    pub code: String,
    /// Its wall time limit, if not that of the session.
    pub wall_time: Option<Duration>,
    /// What to do while another cell runs.
    pub when_busy: WhenBusy,
    /// What becomes of the variables unless the cell succeeds.
    pub on_failure: OnFailure,
    /// Whether the caller answers tool calls of the cell, by [`Session::answer`]. While calls are
    /// open, CPU time counts towards the limit of the cell instead of wall time. If false, calls
    /// are denied.
    pub answers: bool,
}

/// The work of a guest.
pub(crate) enum Work {
    Cell(Cell),
    /// The answer to the call during which a fork was made.
    Answer(CallId, Vec<u8>),
}

/// What to do with a cell while another one runs in the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Wait for the other cell.
    #[default]
    Wait,
    /// Return [`Error::Busy`].
    Refuse,
}

/// What becomes of the variables unless a cell succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They stay as the cell left them.
    #[default]
    Keep,
    /// All or nothing: they are restored to the state before the cell, and the outcome says so. A
    /// checkpoint is made before the cell, unless there is one of that state. If it can't be made,
    /// the cell is not run ([`Error::NotCheckpointed`]). Files stay as the cell left them.
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
    lifecycle: Arc<Lifecycle>,
}

impl Session {
    pub(crate) fn new(awake: AwakeSession, options: SessionOptions) -> Self {
        Self {
            lifecycle: Lifecycle::begin(awake, options),
        }
    }

    /// The id of the session, unique in its engine.
    pub fn id(&self) -> u64 {
        self.lifecycle.id
    }

    /// The limits of this session.
    pub fn limits(&self) -> &Limits {
        &self.lifecycle.options.limits
    }

    /// Current use of the session, including its checkpoints, also while a cell runs. `None` while
    /// it is hibernated, after its end, and without walls. Reads a few files of the kernel, which
    /// may take a moment: don't call it on a thread that must not block.
    pub fn in_use(&self) -> Option<SessionUse> {
        let AwakeSession { handle, .. } = self.now()?;
        handle.cgroup.as_ref().map(SessionCgroup::in_use)
    }

    /// Runs a cell. Returns a stream of events that ends with the outcome, and is also a future of
    /// that outcome. The cell runs to its end even if the stream is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn run(&self, cell: impl Into<Cell>) -> CellRun {
        self.spawn(Work::Cell(cell.into()))
    }

    pub(crate) fn spawn(&self, work: Work) -> CellRun {
        let (sender, events) = unbounded_channel();
        let lifecycle = Arc::clone(&self.lifecycle);
        tokio::spawn(async move {
            let result = match work {
                Work::Cell(cell) => run_cell(&lifecycle, cell, &sender).await,
                Work::Answer(call, frame) => resume(&lifecycle, call, frame, &sender).await,
            };
            if lifecycle.options.checkpoints == Checkpoints::Auto
                && let Ok(Some(AwakeSession { handle, guest })) = lifecycle.now()
            {
                let (handle, guest) = (Arc::downgrade(&handle), Arc::downgrade(&guest));
                tokio::spawn(take_up_checkpoints(handle, guest));
            }
            // All of the session is released before the caller can know that the cell is over.
            drop(lifecycle);
            let _ = sender.send(result.map(|outcome| Event::Outcome(Box::new(outcome))));
        });
        CellRun { events }
    }

    /// Interrupts the running cell, as Ctrl-C would; its variables are kept. Returns false if no
    /// cell runs.
    pub fn interrupt(&self) -> bool {
        self.now()
            .is_some_and(|awake| awake.handle.interrupt_running())
    }

    /// Binds values before the first cell, or between cells. Fails for names that are already bound
    /// or are invalid; the others are bound.
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

    /// Lets an idle pooled session perform its first steps, which cost the most.
    pub(crate) async fn rehearse(&self) -> Result<(), Error> {
        self.ask(&HostFrame::Rehearse).await.map(drop)
    }

    /// The manifest: the names in the namespace.
    pub async fn manifest(&self) -> Result<Vec<NameInfo>, Error> {
        match self.ask(&HostFrame::Manifest).await? {
            GuestFrame::Manifest { names } => Ok(names),
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Names that complete the word before `cursor` (in bytes), and the start of that word.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<(usize, Vec<String>), Error> {
        match self.ask(&HostFrame::Complete { code, cursor }).await? {
            GuestFrame::Completions { start, candidates } => {
                Ok((start.min(code.len()), candidates))
            }
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Ends a shared session: whatever other owners do with it fails from now on.
    pub fn end(&self) {
        self.lifecycle.end("it was closed");
    }

    /// Ends the session and waits until its processes are gone.
    pub async fn close(self) -> Result<(), Error> {
        if let Some(awake) = self.lifecycle.end("it was closed") {
            // A cell that runs sees its guest die and gives the guest back.
            awake.guest.lock().await.wait_status(DEATH_TIME).await;
        }
        Ok(())
    }

    /// Memory of the session's interpreter, and of its init if there are walls; none while it is
    /// hibernated.
    pub(crate) fn sum_processes(&self, of: impl Fn(&Process) -> Option<u64>) -> Option<u64> {
        let Some(AwakeSession { handle, .. }) = self.now() else {
            return Some(0);
        };
        let namespace_group = handle.namespace_group.as_ref();
        let init = namespace_group.map_or(Some(0), |namespace_group| of(&namespace_group.init))?;
        Some(init + of(&handle.interpreter())?)
    }

    pub(crate) fn is_alive(&self) -> bool {
        let awake = self.now();
        awake.is_some_and(|AwakeSession { handle, .. }| {
            handle.check().is_ok() && !handle.interpreter_is_gone()
        })
    }

    pub(crate) fn lifecycle(&self) -> &Arc<Lifecycle> {
        &self.lifecycle
    }

    /// The awake session, if it is awake.
    pub(crate) fn now(&self) -> Option<AwakeSession> {
        self.lifecycle.now().ok().flatten()
    }

    /// The host's state of the session, and its wires: their holder may talk to the guest. Waits
    /// for a running cell, and wakes a hibernated session.
    pub(crate) async fn wires(&self) -> Result<Wires, Error> {
        let (handle, guest) = self.lifecycle.wires().await?;
        handle.check()?;
        Ok((handle, guest))
    }

    /// Ends a session that answered another request: its next answer would be misread, too.
    fn broke_the_protocol(&self) -> Error {
        let why = "it broke the protocol: an answer to another request";
        let error = Error::Ended(why.into());
        match self.now() {
            Some(AwakeSession { handle, .. }) => handle.fail(error),
            None => error,
        }
    }

    async fn ask(&self, question: &HostFrame<'_>) -> Result<GuestFrame, Error> {
        let (handle, mut guest) = self.wires().await?;
        let answer = guest.ask(question, handle.cgroup.as_ref()).await;
        answer.map_err(|error| handle.fail(error))
    }
}

impl Drop for Session {
    /// A running cell holds the host's state of the session, but does not outlive the session.
    fn drop(&mut self) {
        self.lifecycle.end("it was dropped");
    }
}

/// Receives the checkpoint that is made after a cell, and ends the oldest one. This happens in the
/// pause after the cell, because in the next cell it would cost that cell's time.
async fn take_up_checkpoints(handle: Weak<SessionHandle>, guest: Weak<tokio::sync::Mutex<Guest>>) {
    for milliseconds in [5, 10, 20, 40] {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        let (Some(handle), Some(guest)) = (handle.upgrade(), guest.upgrade()) else {
            return;
        };
        // A running cell does it itself, and a cell that waits for the lock comes first.
        let Ok(mut guest) = guest.try_lock() else {
            return;
        };
        if handle.check().is_err() {
            return;
        }
        let before = guest.checkpoint_set.newest;
        // An error here will recur in the next cell, which can return it.
        let absorbed = guest.absorb(handle.cgroup.as_ref());
        if absorbed.is_err() || guest.checkpoint_set.newest != before {
            return;
        }
    }
}

async fn run_cell(
    lifecycle: &Arc<Lifecycle>,
    cell: Cell,
    events: &UnboundedSender<Result<Event, Error>>,
) -> Result<Outcome, Error> {
    if cell.code.len() > MAX_CODE {
        return Err(Error::CellTooLarge {
            bytes: cell.code.len(),
            limit: MAX_CODE,
        });
    }
    let (handle, mut guest) = match cell.when_busy {
        WhenBusy::Wait => lifecycle.wires().await?,
        WhenBusy::Refuse => lifecycle.wires_now().await?,
    };
    let handle = &*handle;
    handle.check()?;
    let before = match cell.on_failure {
        OnFailure::Keep => None,
        OnFailure::Restore => Some(checkpoint_before(handle, &mut guest).await?),
    };
    guest.checkpoint_set.pinned = before;
    let outcome = CellDriver::new(handle, &mut guest, events, &cell, before)
        .run(&cell.code)
        .await;
    guest.checkpoint_set.pinned = None;
    if before.is_some() && handle.checkpoints == Checkpoints::Off {
        if guest.checkpoint_set.is_expecting() {
            guest.wait_for_checkpoint(handle.cgroup.as_ref()).await;
        }
        guest
            .checkpoint_set
            .give_up(|checkpoint| checkpoint.name.is_none());
    }
    guest.used = Instant::now();
    outcome
}

async fn resume(
    lifecycle: &Arc<Lifecycle>,
    call: CallId,
    frame: Vec<u8>,
    events: &UnboundedSender<Result<Event, Error>>,
) -> Result<Outcome, Error> {
    // A fork does not hibernate.
    let Some(AwakeSession { handle, guest }) = lifecycle.now()? else {
        return Err(Error::NoCall { call });
    };
    let mut guest = guest.lock().await;
    let Some(waiting) = guest.waiting.take() else {
        handle.check()?;
        return Err(Error::NoCall { call });
    };
    *lock(&handle.waiting) = None;
    handle.check()?;
    CellDriver::going_on(&handle, &mut guest, events, &waiting)
        .answer(frame)
        .await
}

/// A running cell: a stream of events that ends with [`Event::Outcome`], or with an error of the
/// host.
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

    /// Waits for the outcome, skipping the other events.
    pub async fn outcome(mut self) -> Result<Outcome, Error> {
        while let Some(event) = self.next().await {
            if let Event::Outcome(outcome) = event? {
                return Ok(*outcome);
            }
        }
        Err(Error::Ended("its host task is gone".into()))
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
