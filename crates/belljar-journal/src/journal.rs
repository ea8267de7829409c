//! The journal: a store of events, and notification of new ones.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::watch;

use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::store::Store;
use crate::{AppendError, Entry, Error, NewEvent, RunId, RunSummary};

/// The largest body of an event.
const EVENT_BYTES: usize = 16 << 20;

/// How soon a tail sees events of another process. Those of this process it sees at once.
const POLL: Duration = Duration::from_millis(200);

/// How many entries a tail reads at once.
const TAIL_PAGE: usize = 256;

/// The events of runs. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Arc<dyn Store>,
    waiting: Arc<Waiting>,
}

impl Journal {
    /// Whether a directory has a journal.
    pub fn exists(directory: &Path) -> bool {
        Sqlite::exists(directory)
    }

    /// Opens the journal in a directory, which is made if it is not there.
    ///
    /// Any number of processes may have the same one open.
    pub async fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(Sqlite::open(directory).await?)))
    }

    /// Connects to the journal in a PostgreSQL database, of which the schema `belljar` is made or
    /// brought up to date.
    ///
    /// `database` is an address as PostgreSQL's own programs have it:
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full`. Any number of nodes may
    /// be connected. To drive runs that other nodes may take over, [join](crate::Node::join).
    pub async fn connect(database: &str) -> Result<Self, Error> {
        Ok(Self::new(Arc::new(Postgres::connect(database).await?)))
    }

    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            waiting: Arc::default(),
        }
    }

    /// Another store of the same events: its tails are notified with those of this one.
    pub(crate) fn with_store(&self, store: Arc<dyn Store>) -> Self {
        Self {
            store,
            waiting: self.waiting.clone(),
        }
    }

    /// Appends events to a run, all or none, and returns the last sequence number.
    ///
    /// `expected_seq` is the last sequence number that the caller knows, 0 for a new run. If the
    /// run has another one, nothing is written: so a run has one writer, or its writers notice each
    /// other. When this returns, the events survive a crash of the machine.
    ///
    /// If the future is dropped before it is ready, the events may be there or not; check
    /// [`last_seq`](Self::last_seq).
    pub async fn append(
        &self,
        run: &RunId,
        expected_seq: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        check_sizes(events)?;
        if events.is_empty() {
            let actual = self.store.last_seq(run).await?;
            return if actual == expected_seq {
                Ok(actual)
            } else {
                Err(AppendError::Conflict {
                    expected: expected_seq,
                    actual,
                })
            };
        }
        let last = self.store.append(run, expected_seq, events).await?;
        self.notify(run, last);
        Ok(last)
    }

    /// Notifies the tails of this process.
    pub(crate) fn notify(&self, run: &RunId, last: u64) {
        self.waiting.tell(run, last);
    }

    /// A page of the events after sequence number `after`, in order.
    ///
    /// It has at most `limit` entries, and ends early after some megabytes. An empty page is the
    /// end; the last entry of any other says where the next begins.
    pub async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Entry>, Error> {
        let page = self.store.read(run, after, limit).await?;
        if page.is_empty() && self.store.last_seq(run).await? == 0 {
            return Err(Error::UnknownRun(run.clone()));
        }
        Ok(page)
    }

    /// Removes a run with all of its events, for ever. Nothing happens for one that is not there.
    ///
    /// A writer of it then gets a conflict; a tail ends with an unknown run.
    pub async fn remove(&self, run: &RunId) -> Result<(), Error> {
        self.store.remove(run).await
    }

    /// Passes the body of each event of each run to `see`, in no order: for finding what events
    /// refer to.
    pub async fn each_body(&self, see: &mut (dyn FnMut(&str) + Send)) -> Result<(), Error> {
        self.store.each_body(see).await
    }

    /// Returns the space of removed runs to the disk. The whole journal is rewritten.
    pub async fn compact(&self) -> Result<(), Error> {
        self.store.compact().await
    }

    /// The last sequence number of a run, 0 if there is no such run.
    pub async fn last_seq(&self, run: &RunId) -> Result<u64, Error> {
        self.store.last_seq(run).await
    }

    /// The events after sequence number `after`: the existing ones, and then each new one, whoever
    /// writes it. No gap, none twice.
    ///
    /// It ends only with an error; then it can be restarted after its last entry.
    pub fn tail(
        &self,
        run: &RunId,
        after: u64,
    ) -> impl Stream<Item = Result<Entry, Error>> + Send + Unpin + use<> {
        let tail = Tail {
            news: self.waiting.wait_for(run),
            journal: self.clone(),
            run: run.clone(),
            after,
            page: VecDeque::new(),
        };
        Box::pin(futures_util::stream::try_unfold(tail, async |mut tail| {
            let entry = tail.next().await?;
            Ok(Some((entry, tail)))
        }))
    }

    /// A page of the runs, the newest first: those that began before the run `before`.
    ///
    /// It has at most `limit` runs, and ends early after some megabytes. An empty page is the end.
    pub async fn runs(
        &self,
        before: Option<&RunId>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, Error> {
        self.store.runs(before, limit).await
    }
}

pub(crate) fn check_sizes(events: &[NewEvent]) -> Result<(), AppendError> {
    let mut sizes = events.iter().map(|event| event.body.get().len());
    sizes
        .find(|bytes| *bytes > EVENT_BYTES)
        .map_or(Ok(()), |bytes| {
            Err(AppendError::EventTooLarge {
                bytes,
                limit: EVENT_BYTES,
            })
        })
}

struct Tail {
    journal: Journal,
    news: watch::Receiver<u64>,
    run: RunId,
    after: u64,
    page: VecDeque<Entry>,
}

impl Tail {
    async fn next(&mut self) -> Result<Entry, Error> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                self.after = entry.seq;
                return Ok(entry);
            }
            // Before reading: an append after the read notifies again.
            self.news.mark_unchanged();
            let store = &self.journal.store;
            let last = store.last_seq(&self.run).await?;
            if last == 0 {
                return Err(Error::UnknownRun(self.run.clone()));
            }
            if last > self.after {
                self.page = store.read(&self.run, self.after, TAIL_PAGE).await?.into();
            }
            if self.page.is_empty() {
                // Either way there is a reason to look again.
                let _ = tokio::time::timeout(POLL, self.news.changed()).await;
            }
        }
    }
}

/// Waiting tails of this process, by run.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<RunId, watch::Sender<u64>>>);

impl Waiting {
    fn wait_for(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, sender| sender.receiver_count() > 0);
        runs.entry(run.clone()).or_default().subscribe()
    }

    fn tell(&self, run: &RunId, last: u64) {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = runs.get(run) {
            sender.send_replace(last);
        }
    }
}
