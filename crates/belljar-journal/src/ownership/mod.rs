//! Which node drives a run: lives of nodes, and claims of runs.
//!
//! A node that joins begins a life, and beats. Whoever has seen a life without a beat for a whole
//! lease declares it dead, and its runs are claimed like those that are ready. Safety doesn't
//! depend on clocks: each claim raises the epoch of the run, and an append with an earlier epoch is
//! refused by the statement that would write it.

mod import;
mod lives;
mod load;
mod membership;
mod offers;
mod orphans;
mod run;
mod sessions;
mod single;
mod status;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::failpoint;
use crate::journal::check_sizes;
use crate::postgres::{Connections, Postgres, Taken, fault, run_id, unsigned, within};
use crate::{AppendError, Error, Journal, NewEvent, RunId};
pub use import::{Import, ImportedState};
pub use lives::{Lease, Watch, beat_interval};
pub use load::NodeLoad;
pub use membership::Membership;
pub use offers::NodeOffer;
pub use run::{OwnedRun, RunState};
pub use sessions::{MovedSession, SessionPlace};
pub use single::{NodePlace, RunClaim, RunPlace};
pub use status::{ClusterStatus, Eviction, NodeStatus};

/// The shortest lease: below it, an ordinary delay of the database would end lives.
const SHORTEST: Duration = Duration::from_millis(200);

/// For a statement of which the lease doesn't depend. One that is given up takes its connection with it, and the next
/// is slower still.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest text of a node's name or address.
const TEXT_BYTES: usize = 256;

/// Of how many dropped runs a node remembers how far they were.
const MOST_DROPPED: usize = 10_000;

/// Lives that have long been dead and left nothing are forgotten.
const FORGET: &str = "DELETE FROM belljar.lives l WHERE dead AND died < now() - interval '1 day' \
    AND NOT EXISTS (SELECT FROM belljar.runs r WHERE r.life = l.life AND r.state = 'driven')";

const JOIN: &str =
    "INSERT INTO belljar.lives (node, address, draining) VALUES ($1, $2, $3) RETURNING life";

/// One row: whether this life still is one and whether it is draining, and the others with their beats. With the name,
/// since a database that was restored or failed over may have given the number to another node. The row of the life is
/// written anyway, so its load costs nothing.
const BEAT: &str = "WITH mine AS ( \
        UPDATE belljar.lives SET beat = beat + 1, sessions = $3, session_limit = $4, free_memory = $5 \
        WHERE life = $1 AND node = $2 AND NOT dead RETURNING draining) \
    SELECT (SELECT draining FROM mine), \
        coalesce(array_agg(life), '{}'), coalesce(array_agg(beat), '{}') \
    FROM belljar.lives WHERE NOT dead AND life <> $1";

/// Not if it has beaten since.
const DECLARE_DEAD: &str = "UPDATE belljar.lives SET dead = true, died = now() \
    WHERE life = $1 AND beat = $2 AND NOT dead";

/// With what is lost with this node, until it is started again.
const LEAVE: &str = "UPDATE belljar.lives SET dead = true, died = now(), sessions = $2 \
    WHERE life = $1 AND NOT dead";

const DRAIN: &str = "UPDATE belljar.lives SET draining = true WHERE life = $1 AND NOT dead";

/// Runs that this life has in the table and not in its hands: the answer to a claim was lost, or
/// their drivers have ended without giving them up.
const CLAIM_LOST: &str = "WITH picked AS ( \
        SELECT number FROM belljar.runs \
        WHERE life = $1 AND state = 'driven' AND id <> ALL ($3) \
        LIMIT $2 FOR UPDATE SKIP LOCKED) \
    UPDATE belljar.runs r SET epoch = r.epoch + 1, node = $4 FROM picked \
    WHERE r.number = picked.number \
    RETURNING r.id, r.tenant, r.epoch, r.last_seq";

/// Runs of dead lives. An array, so that the plan looks at no run of the living.
const CLAIM_DEAD: &str = "WITH picked AS ( \
        SELECT number FROM belljar.runs \
        WHERE life = ANY (ARRAY(SELECT life FROM belljar.lives WHERE dead)) \
            AND life IS NOT NULL AND state = 'driven' \
        LIMIT $2 FOR UPDATE SKIP LOCKED) \
    UPDATE belljar.runs r SET epoch = r.epoch + 1, life = $1, node = $4 FROM picked \
    WHERE r.number = picked.number \
        AND EXISTS (SELECT FROM belljar.lives WHERE life = $1 AND NOT dead) \
    RETURNING r.id, r.tenant, r.epoch, r.last_seq";

/// Runs that are ready, one of each tenant after another.
const CLAIM_READY: &str = "WITH picked AS ( \
        SELECT number FROM belljar.runs WHERE state = 'ready' \
        ORDER BY turn, number LIMIT $2 FOR UPDATE SKIP LOCKED) \
    UPDATE belljar.runs r SET epoch = r.epoch + 1, life = $1, node = $4, state = 'driven' FROM picked \
    WHERE r.number = picked.number \
        AND EXISTS (SELECT FROM belljar.lives WHERE life = $1 AND NOT dead) \
    RETURNING r.id, r.tenant, r.epoch, r.last_seq";

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, for people.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// How long a node may be silent before others take over its runs: the same for each node.
    pub lease: Duration,
}

impl NodeOptions {
    /// With a lease of five seconds.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            lease: Duration::from_secs(5),
        }
    }
}

/// A member of a cluster: one life of a node. Clones are cheap and share everything.
///
/// It beats as long as a clone of it or a run of it is there. A program that ends should
/// [leave](Self::leave), so that others need not wait for the lease.
#[derive(Clone, Debug)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    life: i64,
    name: String,
    postgres: Postgres,
    journal: Journal,
    lease: Mutex<Lease>,
    /// What this node has seen of the others.
    watch: Mutex<Watch>,
    standing: Mutex<Standing>,
    /// The runs in the hands of this life, with the epochs of their claims.
    owned: Mutex<HashMap<RunId, i64>>,
    /// Over all lives of this node.
    dropped: Arc<Mutex<Dropped>>,
    /// One claim at a time: what another one has claimed is in no hands until it has its answer.
    claiming: tokio::sync::Mutex<()>,
    /// For a statement.
    patience: Duration,
}

/// What a beat tells the others of this node, and what it learns of itself. Another life of the node begins with it.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    load: Option<NodeLoad>,
    is_draining: bool,
}

impl Node {
    /// Joins the cluster whose journal is in this database, and begins to beat.
    pub async fn join(database: &str, options: NodeOptions) -> Result<Self, Error> {
        check(&options)?;
        let postgres = Postgres::connect(database).await?;
        let journal = Journal::new(Arc::new(postgres.clone()));
        let (dropped, standing) = (Arc::default(), Standing::default());
        Self::live(postgres, journal, dropped, standing, options).await
    }

    /// Begins another life, with the connections and the journal of this one.
    async fn join_again(&self, options: NodeOptions) -> Result<Self, Error> {
        let (postgres, journal) = (self.0.postgres.clone(), self.0.journal.clone());
        let (dropped, standing) = (Arc::clone(&self.0.dropped), *self.0.standing());
        Self::live(postgres, journal, dropped, standing, options).await
    }

    async fn live(
        postgres: Postgres,
        journal: Journal,
        dropped: Arc<Mutex<Dropped>>,
        standing: Standing,
        options: NodeOptions,
    ) -> Result<Self, Error> {
        // Its own: a beat must not wait behind the rest.
        let connections = postgres.connections().apart(1);
        let begun = begin(&connections, &options, standing.is_draining).await;
        let (life, sent) = begun.map_err(|error| fault(&connections, error))?;
        let node = Self(Arc::new(Inner {
            life,
            journal,
            postgres,
            lease: Mutex::new(Lease::new(options.lease, sent)),
            watch: Mutex::new(Watch::new(options.lease)),
            standing: Mutex::new(standing),
            owned: Mutex::default(),
            dropped,
            claiming: tokio::sync::Mutex::default(),
            patience: options.lease.max(PATIENCE),
            name: options.name,
        }));
        let weak = Arc::downgrade(&node.0);
        tokio::spawn(beat(weak, connections, options.lease));
        Ok(node)
    }

    /// The number of this life: each start of each node has another one.
    pub fn life(&self) -> i64 {
        self.0.life
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The events of all runs.
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// The events of the runs of a tenant: those of others are not there. Only their owners append to them.
    pub fn journal_of(&self, tenant: &str) -> Journal {
        let postgres = self.0.postgres.of_tenant(tenant);
        self.0.journal.with_store(Arc::new(postgres))
    }

    /// Whether this node may act for its runs: it has reached the database recently enough.
    pub fn may_act(&self) -> bool {
        self.0.lease().holds(Instant::now())
    }

    /// Whether this life is over: others have declared it dead. A program then joins again.
    pub fn is_over(&self) -> bool {
        self.0.lease().is_over()
    }

    /// Makes a run with its first events, for any node to claim. Returns the last sequence number.
    pub async fn submit(
        &self,
        run: &RunId,
        tenant: &str,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        check_first(tenant, events)?;
        let last = self.0.postgres.create(run, tenant, "ready", events).await?;
        self.0.journal.notify(run, last);
        Ok(last)
    }

    /// Claims up to `limit` runs: those of dead lives first, then those that are ready, one of each
    /// tenant after another. A node that is draining gets only those that it has dropped.
    pub async fn claim(&self, limit: usize) -> Result<Vec<OwnedRun>, Error> {
        if self.is_draining() {
            return self.claim_dropped(limit).await;
        }
        self.claim_by(&[CLAIM_LOST, CLAIM_DEAD, CLAIM_READY], limit)
            .await
    }

    /// Claims up to `limit` runs of this life that are not in its hands: it has dropped them, or the answer to a claim was
    /// lost. No other node can.
    pub async fn claim_dropped(&self, limit: usize) -> Result<Vec<OwnedRun>, Error> {
        self.claim_by(&[CLAIM_LOST], limit).await
    }

    async fn claim_by(
        &self,
        statements: &[&'static str],
        limit: usize,
    ) -> Result<Vec<OwnedRun>, Error> {
        let _one = self.0.claiming.lock().await;
        let mut claimed = Vec::new();
        for &statement in statements {
            if self.is_over() {
                return Err(Error::LifeOver);
            }
            if !self.may_act() || claimed.len() >= limit {
                break;
            }
            let rows = self.0.claim(statement, limit - claimed.len()).await;
            let rows = rows.map_err(|error| self.0.postgres.fault(error))?;
            for row in rows {
                let run = self.own(&row);
                claimed.push(run.map_err(|error| self.0.postgres.fault(error))?);
            }
        }
        Ok(claimed)
    }

    fn own(&self, row: &PgRow) -> sqlx::Result<OwnedRun> {
        let id = run_id(row, 0)?;
        let (tenant, epoch) = (row.try_get(1)?, row.try_get(2)?);
        let last_seq = unsigned(row.try_get(3)?);
        self.0.owned().insert(id.clone(), epoch);
        let mut run = OwnedRun::new(self.clone(), id, tenant, epoch, last_seq);
        let known = self.0.dropped().forget(&run.id);
        run.missing = known.saturating_sub(last_seq);
        Ok(run)
    }

    /// Marks this life as draining, as an operator does: other nodes give it nothing more.
    pub async fn drain(&self) -> Result<(), Error> {
        self.0.standing().is_draining = true;
        let drained = self.0.execute(sqlx::query(DRAIN).bind(self.0.life)).await;
        drained
            .map(drop)
            .map_err(|error| self.0.postgres.fault(error))
    }

    /// Ends this life. Other nodes take over its runs at once. The sessions of the last report are lost with it, until the
    /// node is started again.
    pub async fn leave(self) -> Result<(), Error> {
        self.0.lease().end();
        let [sessions, ..] = NodeLoad::columns(self.0.standing().load);
        let leave = sqlx::query(LEAVE).bind(self.0.life).bind(sessions);
        let left = self.0.execute(leave).await;
        left.map_err(|error| self.0.postgres.fault(error)).map(drop)
    }
}

/// The last certain sequence numbers of runs that this node had, and has not given up. A database that has less of such
/// a run has lost acknowledged events.
#[derive(Debug, Default)]
struct Dropped(HashMap<RunId, u64>);

impl Dropped {
    fn note(&mut self, run: &RunId, last_seq: u64) {
        // Runs that other nodes have taken over stay here. So it begins anew at some size.
        if self.0.len() >= MOST_DROPPED {
            self.0.clear();
        }
        self.0.insert(run.clone(), last_seq);
    }

    /// Nothing is certain of others: 0.
    fn forget(&mut self, run: &RunId) -> u64 {
        self.0.remove(run).unwrap_or(0)
    }
}

impl Inner {
    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owned(&self) -> MutexGuard<'_, HashMap<RunId, i64>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> MutexGuard<'_, Dropped> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn claim(&self, statement: &'static str, limit: usize) -> sqlx::Result<Vec<PgRow>> {
        let owned: Vec<String> = self
            .owned()
            .keys()
            .map(|run| run.as_str().to_owned())
            .collect();
        let query = sqlx::query(statement)
            .bind(self.life)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(owned)
            .bind(&self.name);
        self.fetch(query).await
    }

    /// The first row that a statement returns.
    async fn execute(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> sqlx::Result<Option<PgRow>> {
        let mut connection = self.postgres.connections().take().await?;
        let row = within(self.patience, query.fetch_optional(&mut *connection)).await;
        connection.finish(row)
    }

    /// All rows that a statement returns.
    async fn fetch(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> sqlx::Result<Vec<PgRow>> {
        let mut connection = self.postgres.connections().take().await?;
        let rows = within(self.patience, query.fetch_all(&mut *connection)).await;
        connection.finish(rows)
    }

    /// Whether a run of this life may be written to.
    fn check(&self) -> Result<(), AppendError> {
        let lease = self.lease();
        if lease.holds(Instant::now()) || failpoint::is_set(failpoint::UNFENCED) {
            Ok(())
        } else if lease.is_over() {
            Err(AppendError::Fenced)
        } else {
            Err(AppendError::LeaseExpired)
        }
    }
}

fn check(options: &NodeOptions) -> Result<(), Error> {
    for text in [&options.name, &options.address] {
        if text.len() > TEXT_BYTES || text.contains('\0') {
            let why = format!("at most {TEXT_BYTES} bytes of text for a name or an address");
            return Err(Error::Invalid(why));
        }
    }
    if options.lease < SHORTEST {
        let why = format!("a lease has at least {} ms", SHORTEST.as_millis());
        return Err(Error::Invalid(why));
    }
    Ok(())
}

/// Whether a run of this tenant may begin with these events.
fn check_first(tenant: &str, events: &[NewEvent]) -> Result<(), AppendError> {
    check_sizes(events)?;
    if tenant.len() > TEXT_BYTES || tenant.contains('\0') || events.is_empty() {
        let why = "a run has a tenant of some bytes of text, and an event".to_owned();
        return Err(Error::Invalid(why).into());
    }
    Ok(())
}

/// A new life, and when it was asked for.
async fn begin(
    connections: &Connections,
    options: &NodeOptions,
    is_draining: bool,
) -> sqlx::Result<(i64, Instant)> {
    let mut connection = connections.take().await?;
    let work = async {
        sqlx::query(FORGET).execute(&mut *connection).await?;
        let sent = Instant::now();
        let join = sqlx::query(JOIN)
            .bind(&options.name)
            .bind(&options.address)
            .bind(is_draining);
        let row = join.fetch_one(&mut *connection).await?;
        Ok((row.try_get(0)?, sent))
    };
    let begun = within(Duration::from_secs(10), work).await;
    connection.finish(begun)
}

/// Beats, and declares those dead who don't, until the node is gone or its life is over.
async fn beat(node: Weak<Inner>, connections: Connections, lease: Duration) {
    let mut ticks = tokio::time::interval(beat_interval(lease));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(node) = node.upgrade() else { return };
        if node.lease().is_over() {
            return;
        }
        // A fault is no news: the lease runs on, and the next beat tries again. How long it takes to connect counts for
        // nothing: on a slow network, no beat would ever come after it.
        let Ok(connection) = connections.take().await else {
            continue;
        };
        let asked = Instant::now();
        let Ok((is_draining, others)) = beat_once(connection, &node, lease).await else {
            continue;
        };
        let Some(is_draining) = is_draining else {
            node.lease().end();
            return;
        };
        node.lease().renew(asked);
        node.standing().is_draining = is_draining;
        let silent = node.watch().see(asked, Instant::now(), others);
        for (life, beat) in silent {
            // Whoever comes second changes nothing.
            let declare = sqlx::query(DECLARE_DEAD).bind(life).bind(beat);
            let _ = within(lease / 4, node.execute(declare)).await;
        }
    }
}

/// Whether this life is draining, unless it is over, and the beats of the others.
async fn beat_once(
    mut connection: Taken,
    node: &Inner,
    patience: Duration,
) -> sqlx::Result<(Option<bool>, Vec<(i64, i64)>)> {
    let load = node.standing().load;
    let [sessions, session_limit, free_memory] = NodeLoad::columns(load);
    let beat = sqlx::query(BEAT)
        .bind(node.life)
        .bind(&node.name)
        .bind(sessions)
        .bind(session_limit)
        .bind(free_memory);
    let row = within(patience, beat.fetch_one(&mut *connection)).await;
    let row = connection.finish(row)?;
    let (lives, beats): (Vec<i64>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
    Ok((row.try_get(0)?, lives.into_iter().zip(beats).collect()))
}
