//! What there is in a cluster, for its operators.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::NodePlace;
use super::single::place;
use crate::Error;
use crate::postgres::{Connections, fault, unsigned, within};

/// A node beats several times in this time, with the default lease.
const WATCHED: Duration = Duration::from_secs(1);

const PATIENCE: Duration = Duration::from_secs(30);

const NODES: &str = "SELECT l.life, l.node, l.address, l.beat, extract(epoch FROM l.started)::bigint, \
        (SELECT count(*) FROM belljar.runs r WHERE r.life = l.life), l.sessions, l.draining \
    FROM belljar.lives l WHERE NOT l.dead ORDER BY l.life";

const FREE_SESSIONS: &str = "SELECT count(*) FROM belljar.moved_sessions WHERE node IS NULL";

/// By name or address.
const DRAIN: &str = "UPDATE belljar.lives SET draining = true WHERE NOT dead AND (node = $1 OR address = $1) \
    RETURNING node";

/// Its lives are over, and forgotten as those that ended long ago. Its runs are claimed as those of any dead life, and the
/// sessions that it had taken over are free: those that it had not woken are as they were.
const EVICT: &str = "WITH ended AS ( \
        UPDATE belljar.lives SET dead = true, died = 'epoch', sessions = 0 WHERE node = $1 RETURNING life), \
    freed AS (UPDATE belljar.moved_sessions SET node = NULL WHERE node = $1 RETURNING id) \
    SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM freed), (SELECT count(*) FROM belljar.runs r \
        WHERE r.state = 'driven' AND r.life IN (SELECT life FROM ended))";

const RUNS: &str = "SELECT count(*) FILTER (WHERE r.state = 'ready'), \
        count(*) FILTER (WHERE r.state = 'waits'), count(*) FILTER (WHERE r.state = 'stuck'), \
        count(*) FILTER (WHERE l.dead) \
    FROM belljar.runs r LEFT JOIN belljar.lives l ON l.life = r.life WHERE r.state <> 'ended'";

/// A node that has not been declared dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name and address.
    pub place: NodePlace,
    /// When its life began, in seconds since 1970, by the clock of the database.
    pub started: i64,
    /// Whether it beat while it was watched.
    pub is_beating: bool,
    /// How many runs it drives.
    pub runs: u64,
    /// How many sessions it has, if it has reported.
    pub sessions: Option<u64>,
    /// Whether it takes no more of either.
    pub is_draining: bool,
}

impl NodeStatus {
    /// Whether it is draining and has nothing left.
    pub fn is_drained(&self) -> bool {
        self.is_draining && self.runs == 0 && self.sessions == Some(0)
    }
}

/// What became of a node that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The cluster knows no node of this name.
    Unknown,
    /// Nothing: it beats.
    Beating,
    /// It is removed.
    Done {
        /// How many runs it drove. Other nodes continue them.
        runs: u64,
        /// How many sessions it had taken over. Other nodes can take them.
        sessions: u64,
    },
}

/// The nodes of a cluster, and how many runs no node drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The nodes that live, oldest life first.
    pub nodes: Vec<NodeStatus>,
    /// Runs that any node may claim.
    pub ready: u64,
    /// Runs that wait for a person.
    pub waiting: u64,
    /// Runs that can't be driven.
    pub stuck: u64,
    /// Runs of dead nodes that no other has claimed yet.
    pub orphaned: u64,
    /// Hibernated sessions that any node may take.
    pub free_sessions: u64,
}

impl ClusterStatus {
    /// Watches the cluster in this database for a second.
    pub async fn read(database: &str) -> Result<Self, Error> {
        let connections = Connections::open(database, 1)?;
        let status = watch(&connections).await;
        status.map_err(|error| fault(&connections, error))
    }

    /// Marks the life of the node with this name or address as draining. Returns the names of the nodes: none if no such
    /// node lives.
    pub async fn drain(database: &str, node: &str) -> Result<Vec<String>, Error> {
        let connections = Connections::open(database, 1)?;
        let drain = sqlx::query(DRAIN).bind(node);
        let drained = rows(&connections, drain).await.and_then(|rows| {
            let names = rows.iter().map(|row| row.try_get(0));
            names.collect()
        });
        drained.map_err(|error| fault(&connections, error))
    }

    /// Removes a node that will not return, by its name. Watches it for a second: one that beats stays. If it does return,
    /// it joins as a new one.
    pub async fn evict(database: &str, node: &str) -> Result<Eviction, Error> {
        let connections = Connections::open(database, 1)?;
        let evicted = evict(&connections, node).await;
        evicted.map_err(|error| fault(&connections, error))
    }
}

async fn evict(connections: &Connections, node: &str) -> sqlx::Result<Eviction> {
    let status = watch(connections).await?;
    let is_beating = |status: &NodeStatus| status.place.name == node && status.is_beating;
    if status.nodes.iter().any(is_beating) {
        return Ok(Eviction::Beating);
    }
    let rows = rows(connections, sqlx::query(EVICT).bind(node)).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let count = |column: usize| row.try_get(column).map(unsigned);
    let (lives, sessions) = (count(0)?, count(1)?);
    Ok(if lives + sessions == 0 {
        Eviction::Unknown
    } else {
        let runs = count(2)?;
        Eviction::Done { runs, sessions }
    })
}

pub(super) async fn rows(
    connections: &Connections,
    query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
) -> sqlx::Result<Vec<PgRow>> {
    let mut connection = connections.take().await?;
    let rows = within(PATIENCE, query.fetch_all(&mut *connection)).await;
    connection.finish(rows)
}

async fn watch(connections: &Connections) -> sqlx::Result<ClusterStatus> {
    let rows = |statement: &'static str| rows(connections, sqlx::query(statement));
    let beat = |row: &PgRow| Ok::<(i64, i64), sqlx::Error>((row.try_get(0)?, row.try_get(3)?));
    let before: sqlx::Result<HashMap<i64, i64>> = rows(NODES).await?.iter().map(beat).collect();
    let before = before?;
    tokio::time::sleep(WATCHED).await;
    let node = |row: &PgRow| {
        let (life, now) = beat(row)?;
        Ok(NodeStatus {
            place: place(row, 0)?,
            started: row.try_get(4)?,
            is_beating: before.get(&life).is_none_or(|before| *before != now),
            runs: unsigned(row.try_get(5)?),
            sessions: row.try_get::<Option<i64>, _>(6)?.map(unsigned),
            is_draining: row.try_get(7)?,
        })
    };
    let nodes: sqlx::Result<Vec<NodeStatus>> = rows(NODES).await?.iter().map(node).collect();
    let runs = rows(RUNS).await?;
    let runs = runs.first().ok_or(sqlx::Error::RowNotFound)?;
    let count = |column: usize| runs.try_get(column).map(unsigned);
    let free = rows(FREE_SESSIONS).await?;
    let free = free.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(ClusterStatus {
        nodes: nodes?,
        ready: count(0)?,
        waiting: count(1)?,
        stuck: count(2)?,
        orphaned: count(3)?,
        free_sessions: unsigned(free.try_get(0)?),
    })
}
