//! A session: one live interpreter behind walls, and what happens in it.

mod archive;
pub(crate) mod archive_plan;
mod call;
mod capture;
pub(crate) mod cell;
pub(crate) mod commands;
pub(crate) mod connections;
pub(crate) mod files;
pub(crate) mod guest;
pub(crate) mod guest_error;
pub(crate) mod handle;
pub(crate) mod namespace_list;
pub(crate) mod namespaces;
pub(crate) mod network;
pub(crate) mod nonce;
pub(crate) mod packages;
pub(crate) mod port_error;
pub(crate) mod ports;
pub(crate) mod start;
pub(crate) mod table_error;
mod table_read;
pub(crate) mod tools;
pub(crate) mod tools_error;
pub(crate) mod watch;
pub(crate) mod watches;

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use belljar_protocol::{
    CallId, Completeness, Event, GuestFrame, HostFrame, InspectDetail, NameInfo, Outcome, Walls,
};
use belljar_walls::SessionUse;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::backend::process::private_bytes_of;
use crate::backend::running::RunningBackend;
use crate::backend::supervisor::Supervisor;
use crate::environment::LockedPackage;
use crate::error::Error;
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::cell::{Cell, CellDriver, OnFailure, WhenBusy};
use crate::session::guest::{DEATH_TIME, Guest};
use crate::session::handle::{AwakeSession, SessionHandle, Wires};
use crate::session::namespace_list::MAIN;
use crate::session::network::{Proxy, SentBytes};
use crate::session::packages::{Requirement, requires};
use crate::session::tools::Toolset;
use crate::state::checkpoints::checkpoint_before;
use crate::state::lifecycle::{DetachedSession, Lifecycle};

/// The longest cell, in bytes of source.
const MAX_CODE: usize = 4 << 20;

/// The work of a guest.
pub(crate) enum Work {
    Cell(Cell),
    /// The answer to the call during which a fork was made.
    Answer(CallId, Vec<u8>),
}

/// One live Python interpreter behind walls, with a workspace. It ends when it is dropped.
#[derive(Debug)]
pub struct Session {
    lifecycle: Arc<Lifecycle>,
}

impl Session {
    pub(crate) fn new(
        awake: AwakeSession,
        options: SessionOptions,
        supervisor: Weak<Supervisor>,
    ) -> Self {
        Self {
            lifecycle: Lifecycle::begin(awake, options, supervisor),
        }
    }

    /// A session from a fork, with the options of its parent. A fork does not hibernate.
    pub(crate) fn from_fork(fork: AwakeSession, parent: &SessionOptions) -> Self {
        let options = SessionOptions {
            hibernate_after: None,
            ..parent.clone()
        };
        Self::new(fork, options, Weak::new())
    }

    /// A session that another engine has left, hibernated.
    pub(crate) async fn attached(
        detached: DetachedSession,
        options: SessionOptions,
        tools: Arc<Toolset>,
        walls: Walls,
        backend: RunningBackend,
        supervisor: Weak<Supervisor>,
    ) -> Result<Self, Error> {
        let attached = Lifecycle::attach(detached, options, tools, walls, backend, supervisor);
        let lifecycle = attached.await?;
        Ok(Self { lifecycle })
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
        handle.meter.in_use()
    }

    /// The counter of what the session sends to the network. `None` while it is hibernated, after its end, and without
    /// an allow-list. A session that wakes has a new one.
    pub fn sent_bytes(&self) -> Option<SentBytes> {
        let AwakeSession { handle, .. } = self.now()?;
        handle.proxy().map(Proxy::sent_bytes)
    }

    /// Runs a cell. Returns a stream of events that ends with the outcome, and is also a future of
    /// that outcome. The cell runs to its end even if the stream is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn run(&self, cell: impl Into<Cell>) -> CellRun {
        self.begin(Work::Cell(cell.into()))
    }

    pub(crate) fn begin(&self, work: Work) -> CellRun {
        let (sender, events) = unbounded_channel();
        let lifecycle = Arc::clone(&self.lifecycle);
        let mut driven = Box::pin(async move {
            let result = match work {
                Work::Cell(cell) => run_cell(&lifecycle, cell, &sender).await,
                Work::Answer(call, frame) => resume(&lifecycle, call, frame, &sender).await,
            };
            let mut checkpoints = None;
            if lifecycle.options.checkpoints == Checkpoints::Auto
                && let Ok(Some(AwakeSession { handle, guest })) = lifecycle.now()
            {
                let (handle, guest) = (Arc::downgrade(&handle), Arc::downgrade(&guest));
                checkpoints = Some(take_up_checkpoints(handle, guest));
            }
            // All of the session is released before the caller can know that the cell is over.
            drop(lifecycle);
            let _ = sender.send(result.map(|outcome| Event::Outcome(Box::new(outcome))));
            checkpoints.map(tokio::spawn);
        });
        // Up to its first wait here and now: the guest has the request before another thread wakes up.
        let mut nobody = Context::from_waker(Waker::noop());
        if driven.as_mut().poll(&mut nobody).is_pending() {
            tokio::spawn(driven);
        }
        CellRun { events }
    }

    /// Interrupts the running cell, as Ctrl-C would; its variables are kept. Returns false if no
    /// cell runs.
    pub fn interrupt(&self) -> bool {
        self.now()
            .is_some_and(|awake| awake.handle.interrupt_running())
    }

    /// The same for the cell with this number: another one that runs by now is left alone.
    pub fn interrupt_cell(&self, cell: u32) -> bool {
        self.now().is_some_and(|awake| awake.handle.interrupt(cell))
    }

    /// Binds values in the main namespace, before the first cell or between cells. Fails for names that are already bound
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

    /// The manifest: the names in the main namespace.
    pub async fn manifest(&self) -> Result<Vec<NameInfo>, Error> {
        self.namespace(MAIN).manifest().await
    }

    /// [`complete`](crate::SessionNamespace::complete) in the main namespace.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<(usize, Vec<String>), Error> {
        self.namespace(MAIN).complete(code, cursor).await
    }

    /// [`inspect`](crate::SessionNamespace::inspect) in the main namespace.
    pub async fn inspect(
        &self,
        code: &str,
        cursor: usize,
        detail: InspectDetail,
    ) -> Result<Option<String>, Error> {
        self.namespace(MAIN).inspect(code, cursor, detail).await
    }

    /// Whether code is a whole cell, or needs more lines, as at a prompt.
    pub async fn is_complete(&self, code: &str) -> Result<Completeness, Error> {
        match self.ask(&HostFrame::IsComplete { code }).await? {
            GuestFrame::Completeness(completeness) => Ok(completeness),
            _ => Err(self.broke_the_protocol()),
        }
    }

    /// Ends a shared session: whatever other owners do with it fails from now on.
    pub fn end(&self) {
        self.lifecycle.end("it was closed");
    }

    /// Whether it has ended, for whatever reason.
    pub fn is_ended(&self) -> bool {
        let ended = match self.lifecycle.now() {
            Ok(Some(awake)) => awake.handle.check(),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        matches!(ended, Err(Error::Ended(_)))
    }

    /// Ends the session and waits until its processes are gone.
    pub async fn close(self) -> Result<(), Error> {
        if let Some(awake) = self.lifecycle.end("it was closed") {
            // A cell that runs sees its guest die and gives the guest back.
            awake.guest.lock().await.wait_status(DEATH_TIME).await;
        }
        Ok(())
    }

    /// Installs packages for this session alone; the next cell can import them. Returns the added
    /// ones: none if the environment has them. Waits for a running cell.
    ///
    /// Once installed, a package is available at once to every session of the same environment: see
    /// `docs/packages.md`.
    ///
    /// # Errors
    /// [`Error::Packages`]: the policy does not allow a package, it does not exist, it has no
    /// wheel, or its versions conflict with the environment. Nothing is added then.
    pub async fn install(&self, requirements: &[Requirement]) -> Result<Vec<LockedPackage>, Error> {
        let (handle, mut guest) = self.wires().await?;
        Ok(packages::install(&handle, &mut guest, requirements).await?)
    }

    /// Text of the session's files without its secrets, for whoever must not see them: a model, for
    /// example.
    pub fn scrub(&self, text: Vec<u8>) -> Vec<u8> {
        match self.now() {
            // Of a fork, also what only its parent has.
            Some(AwakeSession { handle, .. }) => handle.variables.scrubber().bytes(text),
            None => self.lifecycle.options.secrets.scrubber().bytes(text),
        }
    }

    /// Revokes a tool: calls of it are denied from now on, also those of a running cell. Forks made
    /// before keep it.
    pub fn revoke(&self, tool: &str) {
        self.lifecycle.tools.revoke(tool);
    }

    /// Bytes of memory that this session alone holds: its interpreter and its init, without what
    /// it shares with the template. Zero while it is hibernated.
    pub fn private_bytes(&self) -> Option<u64> {
        let Some(AwakeSession { handle, .. }) = self.now() else {
            return Some(0);
        };
        let group = handle.namespace_group.as_ref();
        let init = group.map_or(Some(0), |group| private_bytes_of(group.init.id()?))?;
        Some(init + handle.interpreter().private_bytes()?)
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
        let answer = guest.ask(question, &handle.meter).await;
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
        let absorbed = guest.absorb(&handle.meter);
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
    let namespace = cell.namespace.as_deref().unwrap_or(MAIN);
    lock(&handle.namespaces).check(namespace)?;
    let installed = if cell.installs {
        packages::install(handle, &mut guest, &requires(&cell.code)?).await?
    } else {
        Vec::new()
    };
    let before = match cell.on_failure {
        OnFailure::Keep => None,
        OnFailure::Restore => Some(checkpoint_before(handle, &mut guest).await?),
    };
    guest.checkpoint_set.pinned = before;
    let namespace = handle.enter(namespace)?;
    let outcome = CellDriver::new(handle, &mut guest, events, &cell, before)
        .run(&cell.code, namespace)
        .await;
    guest.checkpoint_set.pinned = None;
    if before.is_some() && handle.checkpoints == Checkpoints::Off {
        if guest.checkpoint_set.is_expecting() {
            guest.wait_for_checkpoint(&handle.meter).await;
        }
        guest
            .checkpoint_set
            .give_up(|checkpoint| checkpoint.name.is_none());
    }
    guest.used = Instant::now();
    outcome.map(|mut outcome| {
        let name = |package: &LockedPackage| format!("{} {}", package.name, package.version);
        outcome.installed = installed.iter().map(name).collect();
        outcome
    })
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
