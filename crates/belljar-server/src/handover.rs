//! Sessions from one service to the next: saved when a service stops, found by its next start.
//!
//! A row of the tenants' file says what became of each session. All rows are written before the first session is
//! saved, and each is completed after its snapshot is on disk. So a service that is killed in between leaves whole
//! snapshots, and the other sessions are reported as lost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use belljar_sandbox::protocol::Walls;
use belljar_sandbox::{
    AllowList, Checkpoints, DetachedSession, DiskFull, Engine, Error, Limits, Network, Packages,
    SavedSnapshot, SessionOptions, Settled, SnapshotError, Variables,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};

use crate::error::ServerError;
use crate::label::Label;
use crate::new_session::{NewSession, OldSession};
use crate::notebook::KeptNotebook;
use crate::object_snapshots::ObjectSnapshots;
use crate::service::Service;
use crate::sessions::SessionEntry;
use crate::tenants::{KeptSession, Saved, TenantName};

/// How long sessions are saved after the grace period of running cells. Units and charts wait longer for the end of the
/// service.
const SAVE_TIME: Duration = Duration::from_secs(30);

/// The most time for the variables of one session: its code decides how long they take.
const EACH: Duration = Duration::from_secs(15);

/// The sessions that are saved at once.
const AT_ONCE: usize = 8;

/// How often it is looked whether all have left.
const LOOK: Duration = Duration::from_millis(20);

/// Why a session is lost.
const NOT_IN_TIME: &str = "the service was stopped before it was saved";
const CRASHED: &str = "the service ended without saving it";
const UNREADABLE: &str = "its record cannot be read";
const ELSEWHERE: &str = "its snapshot is in an object store, and the service has none";

/// How the names of snapshots in the data directory end; those in an object store end in a hash.
const FILE: &str = ".snapshot";

/// Whether a snapshot with this name is in an object store.
pub(crate) fn is_stored(name: &str) -> bool {
    !name.ends_with(FILE)
}

/// What is known of a session besides its snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    number: u64,
    /// In seconds since 1970.
    created: u64,
    cells: u32,
    limits: KeptLimits,
    checkpoints: Checkpoints,
    allow: Vec<String>,
    packages: Packages,
    #[serde(default)]
    mounts: Vec<String>,
    environment: String,
    /// None of an older service, which had one for all.
    #[serde(default)]
    isolation: Option<Walls>,
    /// Secrets are not stored.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    label: Label,
    forked_from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notebook: Option<Box<RawValue>>,
    lost: Vec<String>,
}

/// The limits that a client may choose.
#[derive(Debug, Serialize, Deserialize)]
struct KeptLimits {
    memory_bytes: u64,
    milli_cpus: u64,
    processes: u64,
    workspace_bytes: u64,
    wall_time: Duration,
    cpu_time: Option<Duration>,
}

impl KeptLimits {
    fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            milli_cpus: limits.milli_cpus,
            processes: limits.processes,
            workspace_bytes: limits.workspace_bytes,
            wall_time: limits.wall_time,
            cpu_time: limits.cpu_time,
        }
    }

    fn apply(&self, limits: &mut Limits) {
        limits.memory_bytes = self.memory_bytes;
        limits.milli_cpus = self.milli_cpus;
        limits.processes = self.processes;
        limits.workspace_bytes = self.workspace_bytes;
        limits.wall_time = self.wall_time;
        limits.cpu_time = self.cpu_time;
    }
}

impl SessionEntry {
    /// What the next start needs to know.
    fn to_kept(&self, saved: Saved, lost: Vec<String>) -> KeptSession {
        let created = self.created.duration_since(UNIX_EPOCH);
        let record = SessionRecord {
            number: self.number,
            created: created.map_or(0, |since| since.as_secs()),
            cells: self.last_cell(),
            limits: KeptLimits::new(&self.options.limits),
            checkpoints: self.options.checkpoints,
            allow: self.allow.clone(),
            packages: self.options.packages.clone(),
            mounts: self.options.mounts.clone(),
            environment: self.environment.clone(),
            isolation: Some(self.isolation),
            variables: self.options.variables.as_map().clone(),
            label: self.label(),
            forked_from: self.forked_from.clone(),
            notebook: self.notebook().to_record(),
            lost,
        };
        KeptSession {
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            // Numbers and strings: there is nothing that can't be written.
            record: serde_json::to_string(&record).unwrap_or_default(),
            saved,
        }
    }
}

impl Service {
    /// Saves all sessions for the next start, or for the other nodes of a cluster. Cells may run until the deadline.
    pub(crate) async fn hand_over_sessions(self: &Arc<Self>, cells: Instant) {
        let started = Instant::now();
        let entries = self.sessions.live(0);
        let all: Vec<_> = entries
            .iter()
            .map(|entry| entry.to_kept(Saved::Lost(NOT_IN_TIME.into()), Vec::new()))
            .collect();
        if let Err(error) = self.tenants.list_sessions(&all).await {
            tracing::error!(%error, "cannot list the sessions before they are saved");
        }
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut saving = JoinSet::new();
        for entry in in_order(entries).await {
            // Some of a node that is drained are on their way.
            if !entry.begin_leaving() {
                continue;
            }
            let (service, slots) = (Arc::clone(self), Arc::clone(&slots));
            saving.spawn(async move { service.hand_over(&entry, &slots, cells).await });
        }
        let saved = saving.join_all().await;
        while Instant::now() < cells + SAVE_TIME
            && self.sessions.live(0).iter().any(|entry| entry.is_leaving())
        {
            tokio::time::sleep(LOOK).await;
        }
        let hibernated = saved.iter().filter(|saved| **saved).count();
        let lost = saved.len() - hibernated;
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(
            hibernated,
            lost,
            seconds,
            "sessions left for the next start"
        );
    }

    /// Saves one session, and gives it to the cluster, if there is one; whether it is saved.
    pub(crate) async fn hand_over(
        &self,
        entry: &SessionEntry,
        slots: &Semaphore,
        cells: Instant,
    ) -> bool {
        let until = cells + SAVE_TIME;
        let in_time = tokio::time::timeout_at(until.into(), self.save(entry, slots, cells));
        let kept = match in_time.await {
            Ok(Ok(detached)) => Ok(detached),
            Ok(Err(error)) => Err((reason(&error), error.to_string())),
            Err(late) => Err((NOT_IN_TIME, late.to_string())),
        };
        let why = match kept {
            Ok(detached) => match self.keep(entry, detached).await {
                Ok(kept) => {
                    let is_given = self.give(&kept, until).await;
                    entry.leave();
                    if is_given {
                        self.sessions.forget(entry);
                        if let Some(kernel) = self.kernels.find(&entry.id) {
                            kernel.over.cancel();
                        }
                    }
                    return true;
                }
                Err(error) => {
                    tracing::error!(%error, session = entry.id, "cannot record a saved session");
                    "the service could not write its record"
                }
            },
            Err((why, error)) => {
                tracing::warn!(error, session = entry.id, tenant = %entry.tenant, "session lost: {why}");
                let kept = entry.to_kept(Saved::Lost(why.into()), Vec::new());
                if let Err(error) = self.tenants.keep_session(&kept).await {
                    tracing::error!(%error, session = entry.id, "cannot record a lost session");
                }
                why
            }
        };
        entry.lose(why);
        entry.stay();
        false
    }

    async fn save(
        &self,
        entry: &SessionEntry,
        slots: &Semaphore,
        cells: Instant,
    ) -> Result<DetachedSession, Error> {
        let Ok(session) = entry.any_session() else {
            return Err(Error::Ended("it ended while the service stopped".into()));
        };
        let settled = session.settle(cells).await?;
        let foreground = entry.commands.foreground_ended();
        let _ = tokio::time::timeout_at(cells.into(), foreground).await;
        let commands = session.commands();
        let commands = commands.iter().filter(|one| one.end().is_none()).count();
        // It is never closed.
        let _slot = slots.acquire().await;
        let mut detached = session.detach(EACH).await?;
        if commands > 0 {
            let lost = format!("running commands, ended when the service stopped: {commands}");
            detached.lost.push(lost);
        }
        let secrets: Vec<String> = entry
            .options
            .secrets
            .names()
            .map(|name| format!("`{name}`"))
            .collect();
        if !secrets.is_empty() {
            let secrets = secrets.join(", ");
            let lost = format!(
                "the secrets {secrets} are gone: the service stores none, and was restarted"
            );
            detached.lost.push(lost);
        }
        let cell = entry.last_cell();
        detached.lost.extend(match settled {
            Settled::Idle => None,
            Settled::Interrupted => Some(format!(
                "cell {cell} was interrupted when the service stopped"
            )),
            Settled::Killed => Some(format!(
                "cell {cell} was killed when the service stopped: it ignored the interrupt"
            )),
        });
        Ok(detached)
    }

    /// Writes down that a session is saved, once its snapshot has its name on disk or in the store.
    async fn keep(
        &self,
        entry: &SessionEntry,
        detached: DetachedSession,
    ) -> Result<KeptSession, Box<dyn std::error::Error + Send + Sync>> {
        let directory = self.hibernated.clone();
        spawn_blocking(move || std::fs::File::open(directory)?.sync_all()).await??;
        let name = match detached.snapshot {
            SavedSnapshot::Stored(name) => name,
            SavedSnapshot::File(path) => {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        };
        let kept = entry.to_kept(Saved::Snapshot(name), detached.lost);
        self.tenants.keep_session(&kept).await?;
        Ok(kept)
    }

    /// Leaves the keys of executed requests to the next start: a client that lost a response repeats its request there.
    pub(crate) async fn hand_over_keys(&self) {
        if let Err(error) = self
            .tenants
            .keep_request_keys(&self.idempotency.keys())
            .await
        {
            tracing::error!(%error, "cannot write the keys of executed requests");
        }
        if let Some(node) = self.runs.node()
            && let Err(error) = self.tenants.leave_keys(node.name()).await
        {
            tracing::error!(%error, "cannot tell other nodes that responses are gone");
        }
    }

    /// Lists the sessions of the service before this one.
    pub(crate) async fn take_over_sessions(
        &self,
        stored: Option<&ObjectSnapshots>,
    ) -> Result<(), ServerError> {
        self.idempotency
            .take_over(self.tenants.request_keys().await?);
        let node = self.runs.node();
        let kept = self.tenants.kept_sessions().await?;
        let parsed = kept.into_iter().map(|kept| {
            let record = serde_json::from_str::<SessionRecord>(&kept.record).ok();
            (kept, record)
        });
        let mut parsed: Vec<_> = parsed.collect();
        parsed.sort_by_key(|(_, record)| record.as_ref().map(|record| record.number));
        let mut files = HashSet::new();
        let until = Instant::now() + SAVE_TIME;
        let (mut found, mut lost) = (0_u64, 0_u64);
        for (kept, record) in parsed {
            if let Saved::Snapshot(name) = &kept.saved {
                files.insert(name.clone());
            }
            // The service before this one could not give it to the cluster, or had none.
            if node.is_some() && matches!(&kept.saved, Saved::Snapshot(name) if is_stored(name)) {
                let is_given = self.give(&kept, until).await;
                *(if is_given { &mut found } else { &mut lost }) += 1;
                continue;
            }
            let restored = self.take_over(kept, record).await?;
            *(if restored { &mut found } else { &mut lost }) += 1;
        }
        if let Some(node) = &node {
            // After those that were saved: their rows, if they had moved here, still name the snapshots before.
            node.release_sessions().await?;
        }
        remove_others(&self.hibernated, &files);
        if let Some(stored) = stored {
            if let Some(node) = &node {
                files.extend(node.moved_snapshots().await?);
            }
            stored.keep_only(&files).await?;
        }
        self.metrics.taken_over(found, lost);
        if found + lost > 0 {
            tracing::info!(
                hibernated = found,
                lost,
                "sessions of the service before this one"
            );
        }
        Ok(())
    }

    /// Lists one session; whether it can be woken.
    pub(crate) async fn take_over(
        &self,
        kept: KeptSession,
        record: Option<SessionRecord>,
    ) -> Result<bool, ServerError> {
        let mut options = self.session_options(&kept.tenant);
        let mut new = NewSession {
            tenant: kept.tenant.clone(),
            options: SessionOptions::default(),
            allow: Vec::new(),
            environment: String::new(),
            isolation: Walls::default(),
            label: Label::default(),
            forked_from: None,
            cells: 0,
        };
        let mut created = UNIX_EPOCH;
        let mut lost = Vec::new();
        let mut saved = kept.saved;
        let mut engine = None;
        let mut notebook = KeptNotebook::default();
        match record {
            Some(record) => {
                record.limits.apply(&mut options.limits);
                options.checkpoints = record.checkpoints;
                // Of an earlier service, which may have allowed other names.
                options.variables = Variables::new(record.variables).unwrap_or_default();
                created += Duration::from_secs(record.created);
                (new.cells, new.forked_from) = (record.cells, record.forked_from);
                lost = record.lost;
                if let Some(record) = &record.notebook {
                    let memory = &self.admission.charged;
                    let kept = KeptNotebook::from_record(record, memory, &kept.tenant);
                    notebook = kept.unwrap_or_else(|| {
                        lost.push("its notebook is gone: the service could not keep it".to_owned());
                        KeptNotebook::default()
                    });
                }
                new.allow = self.still_allowed(record.allow, &mut lost);
                options.network = network(&new.allow)?;
                options.packages = still_permitted(&options.packages, record.packages, &mut lost);
                (new.environment, new.label) = (record.environment, record.label);
                // Never behind other walls than before.
                let isolation = record.isolation.map(Walls::as_str);
                let chosen = self.engines.choose(Some(&new.environment), isolation, None);
                engine = chosen.ok();
                let walls = engine.map(Engine::walls).or(record.isolation);
                new.isolation = walls.unwrap_or_default();
                options.mounts = still_offered(engine, record.mounts, &mut lost);
            }
            None => saved = Saved::Lost(UNREADABLE.into()),
        }
        let session = match saved {
            Saved::Snapshot(name) => match engine {
                Some(engine) => {
                    let snapshot = if name.ends_with(FILE) {
                        SavedSnapshot::File(self.hibernated.join(name))
                    } else {
                        SavedSnapshot::Stored(name)
                    };
                    let detached = DetachedSession { snapshot, lost };
                    match engine.attach(detached, options.clone()).await {
                        Ok(session) => Ok(session),
                        // It was woken, and its service was killed before it was saved again.
                        Err(Error::Snapshot(SnapshotError::Io(_))) => Err(CRASHED.to_owned()),
                        Err(Error::NoSnapshotStore) => Err(ELSEWHERE.to_owned()),
                        Err(error) => return Err(error.into()),
                    }
                }
                None => Err(format!(
                    "the service no longer offers its environment `{}` with isolation `{}`",
                    new.environment,
                    new.isolation.as_str()
                )),
            },
            Saved::Lost(why) => Err(why),
        };
        let restored = session.is_ok();
        let memory = options.limits.memory_bytes;
        let permit = |session| (session, self.admission.adopt(&kept.tenant, memory));
        new.options = options;
        let old = OldSession {
            id: kept.id,
            created,
            live: session.map(permit),
            notebook,
        };
        self.sessions.hold_again(old, new);
        Ok(restored)
    }

    /// The hosts that are still on the service's allow-list.
    fn still_allowed(&self, allow: Vec<String>, lost: &mut Vec<String>) -> Vec<String> {
        let (kept, gone): (Vec<_>, Vec<_>) = allow
            .into_iter()
            .partition(|entry| self.options.allow.contains(entry));
        lost.extend(gone.iter().map(|entry| {
            format!(
                "network access to `{entry}` is gone: it is no longer on the service's allow-list"
            )
        }));
        kept
    }
}

/// The directories that are still offered.
fn still_offered(
    engine: Option<&Engine>,
    mounts: Vec<String>,
    lost: &mut Vec<String>,
) -> Vec<String> {
    let offered = engine.map(Engine::directories).unwrap_or_default();
    let is_offered = |name: &String| offered.iter().any(|known| known.name() == name);
    let (kept, gone): (Vec<_>, Vec<_>) = mounts.into_iter().partition(is_offered);
    lost.extend(gone.iter().map(|name| {
        format!("the directory `/data/{name}` is gone: the service no longer offers it")
    }));
    kept
}

/// The packages of a session that the service still permits.
fn still_permitted(permitted: &Packages, kept: Packages, lost: &mut Vec<String>) -> Packages {
    match kept {
        Packages::Deny => Packages::Deny,
        Packages::Any => permitted.clone(),
        Packages::Allow(names) => {
            let (kept, gone): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| permitted.allows(name));
            lost.extend(gone.iter().map(|name| {
                format!("the package `{name}` can no longer be installed: the service does not permit it")
            }));
            Packages::allow(kept)
        }
    }
}

fn network(allow: &[String]) -> Result<Network, ServerError> {
    Ok(match allow {
        [] => Network::None,
        allow => Network::Allow(AllowList::parse(allow)?),
    })
}

/// The order in which sessions are saved: one of each tenant after the other, so that none waits for all of another,
/// and those with little memory first, so that most of them are saved if time runs out.
async fn in_order(entries: Vec<Arc<SessionEntry>>) -> Vec<Arc<SessionEntry>> {
    let look = move || {
        let memory = |entry: &Arc<SessionEntry>| {
            let session = entry.any_session().ok()?;
            session.in_use()?.memory_bytes
        };
        let sized = entries.into_iter().map(|entry| {
            let bytes = memory(&entry).unwrap_or(0);
            (entry.tenant.clone(), bytes, entry)
        });
        round_robin(sized.collect())
    };
    spawn_blocking(look).await.unwrap_or_default()
}

fn round_robin<T>(mut sized: Vec<(TenantName, u64, T)>) -> Vec<T> {
    sized.sort_by_key(|(_, bytes, _)| *bytes);
    let mut counts: HashMap<TenantName, usize> = HashMap::new();
    let mut ranked: Vec<_> = sized
        .into_iter()
        .map(|(tenant, bytes, what)| {
            let rank = counts.entry(tenant).or_default();
            *rank += 1;
            (*rank, bytes, what)
        })
        .collect();
    ranked.sort_by_key(|(rank, bytes, _)| (*rank, *bytes));
    ranked.into_iter().map(|(_, _, what)| what).collect()
}

/// Why a session is lost, for its tenant: nothing about the host.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::Io { source, .. } if DiskFull::find(source).is_some() => {
            "its snapshot would exceed the disk quota of its tenant"
        }
        Error::Io { .. } => "the service could not write its snapshot",
        Error::Ended(_) => "it ended while the service stopped",
        Error::Unresponsive => "it did not answer",
        _ => "it could not be saved",
    }
}

/// Removes what belongs to no session: of a service that was killed.
fn remove_others(directory: &Path, files: &HashSet<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if !files.contains(&*entry.file_name().to_string_lossy())
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::warn!(%error, "cannot remove a file of a dead service");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_and_small_sessions_go_first() {
        let sized = [
            ("a", 9, 1),
            ("a", 3, 2),
            ("a", 1, 3),
            ("b", 8, 4),
            ("c", 2, 5),
        ];
        let sized = sized.map(|(tenant, bytes, what)| (tenant.parse().unwrap(), bytes, what));
        assert_eq!(round_robin(sized.into()), [3, 5, 4, 2, 1]);
    }
}
