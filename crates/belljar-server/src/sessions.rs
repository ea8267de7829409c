//! The sessions of all tenants, by their ids.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use belljar_agent::METRIC_TARGET;
use belljar_sandbox::{Error, Session, SessionOptions};

use crate::admission::Permit;
use crate::cells::CellRecord;
use crate::node::random_hex;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;

/// The cells of a session that are kept, and what they may hold together; the newest is always kept.
const MAX_CELLS: usize = 16;
const MAX_CELL_BYTES: usize = 4 << 20;

/// The sessions that give up copies at once where memory is short.
const SAVING_AT_ONCE: usize = 20;

/// The sessions of a tenant that have ended and can still be looked at.
const MAX_ENDED: usize = 100;

/// A session with an id, and whose it is.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) id: String,
    /// The order in which sessions were made.
    pub(crate) number: u64,
    pub(crate) tenant: TenantName,
    pub(crate) created: SystemTime,
    pub(crate) options: SessionOptions,
    /// The entries of its allow-list.
    pub(crate) allow: Vec<String>,
    pub(crate) forked_from: Option<String>,
    /// Until it has ended.
    live: Mutex<Option<(Arc<Session>, Permit)>>,
    cells: Mutex<VecDeque<Arc<CellRecord>>>,
    last_cell: AtomicU32,
    running: AtomicUsize,
}

impl SessionEntry {
    /// The session, if it has not ended.
    pub(crate) fn session(&self) -> Result<Arc<Session>, Problem> {
        let live = lock(&self.live);
        let session = live.as_ref().map(|(session, _)| Arc::clone(session));
        session.ok_or_else(|| Problem::new(Code::SessionEnded, "start a new session"))
    }

    /// Ends it and gives its permit back, at once.
    pub(crate) fn end(&self) {
        let ended = lock(&self.live).take();
        if let Some((session, _permit)) = ended {
            session.end();
        }
    }

    /// Ends it, and waits for its processes where nobody else uses it.
    pub(crate) async fn close(&self) {
        let ended = lock(&self.live).take();
        if let Some((session, _permit)) = ended {
            session.end();
            if let Some(session) = Arc::into_inner(session) {
                let _ = session.close().await;
            }
        }
    }

    /// What went wrong, for a client; a session that has ended is given up.
    pub(crate) fn explain(&self, error: Error) -> Problem {
        if matches!(error, Error::Ended(_)) {
            self.end();
        }
        error.into()
    }

    /// Keeps a cell that has begun, and gives up the oldest ones where there are too many.
    pub(crate) fn keep(&self, record: &Arc<CellRecord>) {
        self.last_cell.fetch_max(record.number, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        let mut cells = lock(&self.cells);
        cells.push_back(Arc::clone(record));
        let mut bytes: usize = cells.iter().map(|cell| cell.bytes()).sum();
        while cells.len() > MAX_CELLS || (bytes > MAX_CELL_BYTES && cells.len() > 1) {
            bytes -= cells.pop_front().map_or(0, |cell| cell.bytes());
        }
    }

    pub(crate) fn cell_ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn cells(&self) -> Vec<Arc<CellRecord>> {
        lock(&self.cells).iter().cloned().collect()
    }

    pub(crate) fn cell(&self, number: u32) -> Result<Arc<CellRecord>, Problem> {
        let cells = lock(&self.cells);
        let found = cells.iter().rev().find(|cell| cell.number == number);
        if found.is_some() {
            tracing::Span::current().record("cell", number);
        }
        found.cloned().ok_or_else(|| {
            let detail = format!("cell {number} has not run, or is no longer kept");
            Problem::new(Code::CellNotFound, detail)
        })
    }

    /// The log tells which session a request was about.
    fn record_in_span(&self) {
        tracing::Span::current().record("session", &self.id);
    }

    pub(crate) fn last_cell(&self) -> u32 {
        self.last_cell.load(Ordering::Relaxed)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }
}

/// What a session is held with.
#[derive(Clone, Debug)]
pub(crate) struct NewSession {
    pub(crate) tenant: TenantName,
    pub(crate) options: SessionOptions,
    pub(crate) allow: Vec<String>,
    pub(crate) forked_from: Option<String>,
    /// How many cells have run in it.
    pub(crate) cells: u32,
}

/// All sessions of this node.
#[derive(Debug)]
pub(crate) struct Sessions {
    node: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    by_id: HashMap<String, Arc<SessionEntry>>,
    by_tenant: HashMap<TenantName, BTreeMap<u64, Arc<SessionEntry>>>,
}

impl Sessions {
    pub(crate) fn new(node: String) -> Self {
        Self {
            node,
            known: Mutex::default(),
        }
    }

    /// Gives a session an id, which nobody can guess and which begins with that of this node.
    pub(crate) fn hold(
        &self,
        session: Session,
        permit: Permit,
        new: NewSession,
    ) -> Result<Arc<SessionEntry>, Problem> {
        let random =
            random_hex(16).map_err(|error| Problem::internal("cannot read random bytes", error))?;
        tracing::info!(name: "belljar.sessions", target: METRIC_TARGET, value = 1_u64);
        let mut known = lock(&self.known);
        known.next += 1;
        let entry = Arc::new(SessionEntry {
            id: format!("{}-{random}", self.node),
            number: known.next,
            tenant: new.tenant,
            created: SystemTime::now(),
            options: new.options,
            allow: new.allow,
            forked_from: new.forked_from,
            live: Mutex::new(Some((Arc::new(session), permit))),
            cells: Mutex::default(),
            last_cell: AtomicU32::new(new.cells),
            running: AtomicUsize::new(0),
        });
        entry.record_in_span();
        known.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        let of_tenant = known.by_tenant.entry(entry.tenant.clone()).or_default();
        of_tenant.insert(entry.number, Arc::clone(&entry));
        let ended = of_tenant.values().filter(|entry| entry.session().is_err());
        let ended: Vec<_> = ended
            .map(|entry| (entry.number, entry.id.clone()))
            .collect();
        let too_many = ended.len().saturating_sub(MAX_ENDED);
        for (number, _) in &ended[..too_many] {
            of_tenant.remove(number);
        }
        for (_, id) in &ended[..too_many] {
            known.by_id.remove(id);
        }
        Ok(entry)
    }

    /// A session of this tenant. That of another is as one that is not there.
    pub(crate) fn find(&self, tenant: &TenantName, id: &str) -> Result<Arc<SessionEntry>, Problem> {
        let known = lock(&self.known);
        let found = known.by_id.get(id).filter(|entry| entry.tenant == *tenant);
        let entry = found.cloned().ok_or_else(|| not_found(id))?;
        entry.record_in_span();
        Ok(entry)
    }

    /// Takes a session of this tenant out of the list.
    pub(crate) fn remove(
        &self,
        tenant: &TenantName,
        id: &str,
    ) -> Result<Arc<SessionEntry>, Problem> {
        let mut known = lock(&self.known);
        let found = known.by_id.get(id).filter(|entry| entry.tenant == *tenant);
        let entry = Arc::clone(found.ok_or_else(|| not_found(id))?);
        entry.record_in_span();
        known.by_id.remove(id);
        if let Some(of_tenant) = known.by_tenant.get_mut(tenant) {
            of_tenant.remove(&entry.number);
        }
        Ok(entry)
    }

    /// Sessions of a tenant that were made after one, the oldest first.
    pub(crate) fn list(
        &self,
        tenant: &TenantName,
        after: u64,
        limit: usize,
    ) -> Vec<Arc<SessionEntry>> {
        let known = lock(&self.known);
        let Some(of_tenant) = known.by_tenant.get(tenant) else {
            return Vec::new();
        };
        let rest = of_tenant.range(after.saturating_add(1)..);
        rest.take(limit)
            .map(|(_, entry)| Arc::clone(entry))
            .collect()
    }

    /// Whose session this is.
    pub(crate) fn tenant_of(&self, id: &str) -> Result<TenantName, Problem> {
        let known = lock(&self.known);
        let found = known.by_id.get(id).map(|entry| entry.tenant.clone());
        found.ok_or_else(|| not_found(id))
    }

    /// Sessions of all tenants that live and were made after one, the oldest first.
    pub(crate) fn live(&self, after: u64) -> Vec<Arc<SessionEntry>> {
        let mut all: Vec<_> = lock(&self.known).by_id.values().cloned().collect();
        all.retain(|entry| entry.number > after && lock(&entry.live).is_some());
        all.sort_unstable_by_key(|entry| entry.number);
        all
    }

    /// How many there have been, and how many sleep.
    pub(crate) fn made_and_hibernated(&self) -> (u64, usize) {
        let (made, all): (_, Vec<_>) = {
            let known = lock(&self.known);
            (known.next, known.by_id.values().cloned().collect())
        };
        let hibernated = all.iter().filter(|entry| {
            let live = lock(&entry.live);
            live.as_ref()
                .is_some_and(|(session, _)| session.is_hibernated())
        });
        (made, hibernated.count())
    }

    /// Gives up what they keep for comfort, where the host is short of memory: of some of them, since all cells would
    /// wait for the end of a thousand copies.
    pub(crate) fn save_memory(&self) {
        let all = self.all();
        let sessions = all.iter().filter_map(|entry| entry.session().ok());
        let saving = sessions.filter(|session| session.give_up_older_checkpoints());
        saving.take(SAVING_AT_ONCE).for_each(drop);
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        for entry in self.all() {
            entry.end();
        }
    }

    fn all(&self) -> Vec<Arc<SessionEntry>> {
        lock(&self.known).by_id.values().cloned().collect()
    }
}

fn not_found(id: &str) -> Problem {
    let id: String = id.chars().take(100).collect();
    let detail = format!("no session has the id `{}`", id.escape_debug());
    Problem::new(Code::SessionNotFound, detail)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
