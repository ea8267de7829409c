//! The sessions of all tenants, by their ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use belljar_agent::METRIC_TARGET;
use belljar_sandbox::protocol::Walls;
use belljar_sandbox::{Error, Session, SessionOptions, Watch};

use crate::admission::Permit;
use crate::cell_record::CellRecord;
use crate::commands::CommandBook;
use crate::kept_cells::KeptCells;
use crate::label::{ContainerLabel, Label, LabelChange, LabelFilter, LeaseEnd};
use crate::lock::lock;
use crate::new_session::{NewSession, OldSession};
use crate::node::random_hex;
use crate::notebook::KeptNotebook;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;
use crate::uploads::UploadBook;

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
    /// Name of its environment.
    pub(crate) environment: String,
    pub(crate) isolation: Walls,
    label: Mutex<Label>,
    pub(crate) forked_from: Option<String>,
    live: Mutex<Live>,
    cells: Mutex<KeptCells>,
    notebook: Mutex<KeptNotebook>,
    last_cell: AtomicU32,
    running: AtomicUsize,
    /// Whether it is about to hibernate, at the end of its lease.
    falls_asleep: AtomicBool,
    /// Whether it is about to leave this node, or the service.
    leaves: AtomicBool,
    pub(crate) commands: CommandBook,
    pub(crate) uploads: UploadBook,
    /// Watched directories whose changes a client asks for, by id.
    pub(crate) watchers: Mutex<HashMap<String, Watch>>,
}

/// Where a session is.
#[derive(Debug)]
enum Live {
    /// With this service, awake or hibernated.
    Here(Arc<Session>, Permit),
    /// Saved for the next start.
    Left,
    /// Nowhere; why, if a restart of the service is the reason.
    Ended(Option<String>),
}

impl Live {
    /// Takes a session that is here, and leaves something else.
    fn take(&mut self, next: Self) -> Option<(Arc<Session>, Permit)> {
        if !matches!(self, Self::Here(..)) {
            return None;
        }
        match std::mem::replace(self, next) {
            Self::Here(session, permit) => Some((session, permit)),
            Self::Left | Self::Ended(_) => None,
        }
    }
}

impl SessionEntry {
    /// The session, to be used: if it has not ended, and its isolation is still strong enough for its tenant.
    pub(crate) fn session(&self) -> Result<Arc<Session>, Problem> {
        let session = self.any_session()?;
        match &*lock(&self.live) {
            Live::Here(_, permit) => permit.check_isolation(self.isolation)?,
            Live::Left | Live::Ended(_) => {}
        }
        Ok(session)
    }

    /// The session, if it has not ended: to look at it, to interrupt or to save it.
    pub(crate) fn any_session(&self) -> Result<Arc<Session>, Problem> {
        if self.due() == Some(LeaseEnd::End) {
            self.end();
        }
        match &*lock(&self.live) {
            Live::Here(session, _) => Ok(Arc::clone(session)),
            Live::Left => Err(Problem::draining()),
            Live::Ended(None) => Err(Problem::new(Code::SessionEnded, "start a new session")),
            Live::Ended(Some(why)) => {
                let detail = format!("{why}; start a new session");
                Err(Problem::new(Code::SessionEnded, detail))
            }
        }
    }

    /// Why it was lost, if a restart of the service is the reason.
    pub(crate) fn why_lost(&self) -> Option<String> {
        match &*lock(&self.live) {
            Live::Ended(why) => why.clone(),
            Live::Here(..) | Live::Left => None,
        }
    }

    /// Whether it hibernates, here or for the next start.
    pub(crate) fn is_hibernated(&self) -> bool {
        match &*lock(&self.live) {
            Live::Here(session, _) => session.is_hibernated(),
            Live::Left => true,
            Live::Ended(_) => false,
        }
    }

    fn is_live(&self) -> bool {
        matches!(&*lock(&self.live), Live::Here(..))
    }

    pub(crate) fn label(&self) -> Label {
        lock(&self.label).clone()
    }

    fn due(&self) -> Option<LeaseEnd> {
        lock(&self.label).due(SystemTime::now())
    }

    /// Hibernates it at the end of its lease, in the background: a running cell ends first. What can't hibernate
    /// stays awake until it can.
    fn fall_asleep(self: &Arc<Self>) {
        let Ok(session) = self.any_session() else {
            return;
        };
        if self.falls_asleep.swap(true, Ordering::AcqRel) {
            return;
        }
        let entry = Arc::clone(self);
        tokio::spawn(async move {
            match session.hibernate().await {
                // Unless it was moved meanwhile.
                Ok(_) if entry.due() == Some(LeaseEnd::Sleep) => lock(&entry.label).expires = None,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, session = entry.id, "a session stays awake after its lease");
                }
            }
            entry.falls_asleep.store(false, Ordering::Release);
        });
    }

    /// Changes its label, or fails and changes nothing.
    pub(crate) fn relabel(&self, asked: LabelChange) -> Result<(), Problem> {
        let mut label = lock(&self.label);
        *label = label.change(asked, SystemTime::now())?;
        Ok(())
    }

    /// Changes what it is to a client of OpenAI's API; nothing for a session that no such client made.
    pub(crate) fn with_container<T>(
        &self,
        change: impl FnOnce(&mut ContainerLabel) -> T,
    ) -> Option<T> {
        lock(&self.label).container.as_mut().map(change)
    }

    /// Takes the session, and forgets what was on its way into it.
    fn take(&self, next: Live) -> Option<(Arc<Session>, Permit)> {
        self.uploads.clear();
        lock(&self.live).take(next)
    }

    /// Ends it and gives its permit back, at once.
    pub(crate) fn end(&self) {
        let ended = self.take(Live::Ended(None));
        if let Some((session, _permit)) = ended {
            session.end();
        }
    }

    /// Gives it up if its session has ended. Who says so late may mean an earlier one: a kernel gets another under the
    /// same id.
    pub(crate) fn end_if_lost(&self) {
        let ended = {
            let mut live = lock(&self.live);
            let is_lost = matches!(&*live, Live::Here(session, _) if session.is_ended());
            is_lost.then(|| live.take(Live::Ended(None))).flatten()
        };
        if let Some((session, _permit)) = ended {
            self.uploads.clear();
            session.end();
        }
    }

    /// Ends it, because the service could not save it.
    pub(crate) fn lose(&self, why: &str) {
        self.end();
        *lock(&self.live) = Live::Ended(Some(why.to_owned()));
    }

    /// Marks it as about to leave; false if it is already.
    pub(crate) fn begin_leaving(&self) -> bool {
        !self.leaves.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    /// It does not leave after all.
    pub(crate) fn stay(&self) {
        self.leaves.store(false, Ordering::Release);
    }

    /// It was saved for the next start, or for other nodes.
    pub(crate) fn leave(&self) {
        let _left = self.take(Live::Left);
    }

    /// Ends it, and waits for its processes where nobody else uses it.
    pub(crate) async fn close(&self) {
        let ended = self.take(Live::Ended(None));
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
            self.end_if_lost();
        }
        error.into()
    }

    fn new(id: String, number: u64, created: SystemTime, live: Live, new: NewSession) -> Self {
        Self {
            id,
            number,
            tenant: new.tenant,
            created,
            options: new.options,
            allow: new.allow,
            environment: new.environment,
            isolation: new.isolation,
            label: Mutex::new(new.label),
            forked_from: new.forked_from,
            live: Mutex::new(live),
            cells: Mutex::default(),
            notebook: Mutex::default(),
            last_cell: AtomicU32::new(new.cells),
            running: AtomicUsize::new(0),
            falls_asleep: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            commands: CommandBook::default(),
            uploads: UploadBook::default(),
            watchers: Mutex::default(),
        }
    }

    /// Keeps a cell that has begun, and gives up the oldest ones where there are too many.
    pub(crate) fn keep(&self, record: &Arc<CellRecord>) {
        self.last_cell.fetch_max(record.number, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        lock(&self.cells).push(Arc::clone(record));
    }

    pub(crate) fn cell_ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn cells(&self) -> Vec<Arc<CellRecord>> {
        lock(&self.cells).list()
    }

    /// Its cells as a person has arranged them.
    pub(crate) fn notebook(&self) -> MutexGuard<'_, KeptNotebook> {
        lock(&self.notebook)
    }

    pub(crate) fn cell(&self, number: u32) -> Result<Arc<CellRecord>, Problem> {
        let found = lock(&self.cells).find(number);
        if found.is_some() {
            tracing::Span::current().record("cell", number);
        }
        found.ok_or_else(|| {
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

    /// Whether a cell or a command runs.
    pub(crate) fn works(&self) -> bool {
        let runs = |session: Arc<Session>| session.commands().iter().any(|one| one.end().is_none());
        self.is_busy() || self.any_session().is_ok_and(runs)
    }
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
        // A kernel is known by these digits alone, and its node has to be known from them.
        let id = if new.label.kernel.is_some() {
            self.id_from_digits(&self.digits(&random))
        } else {
            self.id_from_digits(&random)
        };
        let entry = self.insert(new, |number, new| {
            let live = Live::Here(Arc::new(session), permit);
            SessionEntry::new(id, number, SystemTime::now(), live, new)
        });
        entry.record_in_span();
        Ok(entry)
    }

    /// 32 digits of an id without its node, which begin with those of this node.
    pub(crate) fn digits(&self, random: &str) -> String {
        format!("{}{}", self.node, random.get(..24).unwrap_or(random))
    }

    /// The id of this node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The id of the session of this node with these digits.
    pub(crate) fn id_from_digits(&self, digits: &str) -> String {
        format!("{}-{digits}", self.node)
    }

    /// Puts another session in the place of one that has ended, under its id.
    pub(crate) fn replace(
        &self,
        entry: &Arc<SessionEntry>,
        session: Session,
        permit: Permit,
    ) -> Result<(), Problem> {
        let known = lock(&self.known);
        let listed = known.by_id.get(&entry.id);
        if !listed.is_some_and(|listed| Arc::ptr_eq(listed, entry)) {
            return Err(not_found(&entry.id));
        }
        *lock(&entry.live) = Live::Here(Arc::new(session), permit);
        Ok(())
    }

    /// Lists a session of an earlier service under the id that it had.
    pub(crate) fn hold_again(&self, old: OldSession, new: NewSession) {
        let live = match old.live {
            Ok((session, permit)) => Live::Here(Arc::new(session), permit),
            Err(why) => Live::Ended(Some(why)),
        };
        self.insert(new, |number, new| {
            let notebook = Mutex::new(old.notebook);
            let entry = SessionEntry::new(old.id, number, old.created, live, new);
            SessionEntry { notebook, ..entry }
        });
    }

    fn insert(
        &self,
        new: NewSession,
        make: impl FnOnce(u64, NewSession) -> SessionEntry,
    ) -> Arc<SessionEntry> {
        let mut known = lock(&self.known);
        known.next += 1;
        let entry = Arc::new(make(known.next, new));
        known.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        let of_tenant = known.by_tenant.entry(entry.tenant.clone()).or_default();
        of_tenant.insert(entry.number, Arc::clone(&entry));
        let ended = of_tenant
            .values()
            .filter(|entry| entry.any_session().is_err());
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
        entry
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

    /// Takes a session out of the list that another node will have.
    pub(crate) fn forget(&self, entry: &SessionEntry) {
        let mut known = lock(&self.known);
        known.by_id.remove(&entry.id);
        if let Some(of_tenant) = known.by_tenant.get_mut(&entry.tenant) {
            of_tenant.remove(&entry.number);
        }
    }

    /// Whether a session is listed, also one that has ended.
    pub(crate) fn has(&self, id: &str) -> bool {
        lock(&self.known).by_id.contains_key(id)
    }

    /// Whether a session is not there any more. A kernel that has lost its session gets another one.
    pub(crate) fn has_ended(&self, id: &str) -> bool {
        let entry = lock(&self.known).by_id.get(id).cloned();
        entry.is_none_or(|entry| !entry.is_live() && entry.label().kernel.is_none())
    }

    /// Whether a session is about to leave.
    pub(crate) fn is_leaving(&self, id: &str) -> bool {
        let known = lock(&self.known);
        let entry = known.by_id.get(id);
        entry.is_some_and(|entry| entry.is_leaving())
    }

    /// Sessions of a tenant that were made after one and match the filter, the oldest first.
    pub(crate) fn list(
        &self,
        tenant: &TenantName,
        filter: &LabelFilter,
        after: u64,
        limit: usize,
    ) -> Vec<Arc<SessionEntry>> {
        let known = lock(&self.known);
        let Some(of_tenant) = known.by_tenant.get(tenant) else {
            return Vec::new();
        };
        let rest = of_tenant.range(after.saturating_add(1)..);
        let rest = rest.map(|(_, entry)| entry);
        rest.filter(|entry| filter.matches(&lock(&entry.label)))
            .take(limit)
            .cloned()
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
        all.retain(|entry| entry.number > after && entry.is_live());
        all.sort_unstable_by_key(|entry| entry.number);
        all
    }

    /// How many there have been, and how many sleep.
    pub(crate) fn made_and_hibernated(&self) -> (u64, usize) {
        let (made, all): (_, Vec<_>) = {
            let known = lock(&self.known);
            (known.next, known.by_id.values().cloned().collect())
        };
        let hibernated = all.iter().filter(|entry| entry.is_hibernated());
        (made, hibernated.count())
    }

    /// Gives up what they keep for comfort, where the host is short of memory: of some of them, since all cells would
    /// wait for the end of a thousand copies.
    pub(crate) fn save_memory(&self) {
        let all = self.all();
        let sessions = all.iter().filter_map(|entry| entry.any_session().ok());
        let saving = sessions.filter(|session| session.give_up_older_checkpoints());
        saving.take(SAVING_AT_ONCE).for_each(drop);
    }

    /// Ends sessions whose lease is over, or lets them sleep.
    pub(crate) fn end_leases(&self) {
        for entry in self.all() {
            entry.uploads.forget_old();
            match entry.due() {
                Some(LeaseEnd::End) => entry.end(),
                Some(LeaseEnd::Sleep) => entry.fall_asleep(),
                None => {}
            }
        }
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
