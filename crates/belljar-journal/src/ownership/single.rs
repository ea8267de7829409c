//! Requests about one run: beginning it, claiming it, and who has it.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::run::GIVE_UP_LOST;
use super::{Node, OwnedRun, RunState, check_first};
use crate::{AppendError, Error, NewEvent, RunId};

/// Not from a life that lives, unless it is this one, which has dropped the run.
const CLAIM: &str = "WITH picked AS ( \
        SELECT number FROM belljar.runs r WHERE id = $2 AND (state IN ('ready', 'waits', 'stuck') \
            OR state = 'driven' AND (life = $1 OR EXISTS ( \
                SELECT FROM belljar.lives l WHERE l.life = r.life AND dead))) \
        FOR UPDATE) \
    UPDATE belljar.runs r SET epoch = r.epoch + 1, life = $1, node = $3, state = 'driven' FROM picked \
    WHERE r.number = picked.number \
        AND EXISTS (SELECT FROM belljar.lives WHERE life = $1 AND NOT dead) \
    RETURNING r.id, r.tenant, r.epoch, r.last_seq";

const PLACE: &str = "SELECT r.node, l.life, l.node, l.address FROM belljar.runs r \
    LEFT JOIN belljar.lives l ON l.life = r.life AND NOT l.dead WHERE r.id = $1";

/// A node has one life at a time, and for a moment the last one beside it.
const FIND: &str = "SELECT life, node, address FROM belljar.lives WHERE node = $1 AND NOT dead \
    ORDER BY life DESC LIMIT 1";

/// For each other node its life, or the last one of a node that is dead. Nothing is missing with a node that has left
/// without sessions.
const OTHERS: &str = "SELECT life, node, address, dead FROM ( \
        SELECT DISTINCT ON (node) life, node, address, dead, sessions FROM belljar.lives WHERE node <> $1 \
        ORDER BY node, dead, life DESC) last \
    WHERE NOT dead OR sessions IS DISTINCT FROM 0 ORDER BY node";

/// A node that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// Its current life.
    pub life: i64,
    /// Its name.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The name of the node that drove it last.
    pub last: Option<String>,
    /// The node that drives it now, as far as anybody knows.
    pub driver: Option<NodePlace>,
}

/// What became of the claim of one run.
#[derive(Debug)]
pub enum RunClaim {
    /// This node has it from now on.
    Owned(OwnedRun),
    /// This node has it already.
    Here,
    /// Another node drives it.
    Elsewhere(NodePlace),
    /// Nobody can have it: it has ended, or there is none.
    Over,
}

impl Node {
    /// Makes a run with its first events, which this node drives from the beginning.
    ///
    /// After [`AppendError::Journal`] it is unknown whether the run is there. If it is, the next claim of this node
    /// has it.
    pub async fn begin_run(
        &self,
        run: &RunId,
        tenant: &str,
        events: &[NewEvent],
    ) -> Result<OwnedRun, AppendError> {
        check_first(tenant, events)?;
        self.0.check()?;
        // Before it is there: a claim would take it for one that was dropped.
        if self.0.owned().contains_key(run) {
            return Err(Error::Invalid(format!("the run `{run}` is there already")).into());
        }
        self.0.owned().insert(run.clone(), 1);
        // Removes that, if there is no such run after all.
        let mut owned = OwnedRun::new(self.clone(), run.clone(), tenant.to_owned(), 1, 0);
        let begun = self.0.postgres.begin(run, tenant, self.life(), events);
        owned.last_seq = begun.await?;
        self.0.journal.notify(run, owned.last_seq);
        Ok(owned)
    }

    /// Claims a run, whoever could: one that is ready, waits, is stuck, or whose owner is dead.
    pub async fn claim_run(&self, run: &RunId) -> Result<RunClaim, Error> {
        if self.is_over() {
            return Err(Error::LifeOver);
        }
        let _one = self.0.claiming.lock().await;
        if self.0.owned().contains_key(run) {
            return Ok(RunClaim::Here);
        }
        let claim = sqlx::query(CLAIM)
            .bind(self.life())
            .bind(run.as_str())
            .bind(self.name());
        let row = self.0.execute(claim).await;
        let row = row.map_err(|error| self.0.postgres.fault(error))?;
        if let Some(row) = row {
            let owned = self.own(&row);
            return Ok(RunClaim::Owned(
                owned.map_err(|error| self.0.postgres.fault(error))?,
            ));
        }
        match self.place(run).await?.and_then(|place| place.driver) {
            // This life is over, and does not know yet.
            Some(place) if place.life == self.life() => Err(Error::LifeOver),
            Some(place) => Ok(RunClaim::Elsewhere(place)),
            None => Ok(RunClaim::Over),
        }
    }

    /// Gives up a run of this node that was dropped, in this state. Nothing happens if the node has it no longer, or
    /// has it again.
    pub async fn release(&self, run: &RunId, state: RunState) -> Result<(), Error> {
        let _one = self.0.claiming.lock().await;
        if self.0.owned().contains_key(run) {
            return Ok(());
        }
        let release = sqlx::query(GIVE_UP_LOST)
            .bind(run.as_str())
            .bind(self.life())
            .bind(state.as_str());
        let released = self.0.execute(release).await;
        released
            .map(drop)
            .map_err(|error| self.0.postgres.fault(error))
    }

    /// Where a run is; nothing if there is none.
    pub async fn place(&self, run: &RunId) -> Result<Option<RunPlace>, Error> {
        let row = self.0.execute(sqlx::query(PLACE).bind(run.as_str())).await;
        let place = row.and_then(|row| {
            let read = |row: PgRow| {
                let life: Option<i64> = row.try_get(1)?;
                Ok(RunPlace {
                    last: row.try_get(0)?,
                    driver: life.map(|_| place(&row, 1)).transpose()?,
                })
            };
            row.map(read).transpose()
        });
        place.map_err(|error| self.0.postgres.fault(error))
    }

    /// The node with this name, if it lives.
    pub async fn find(&self, name: &str) -> Result<Option<NodePlace>, Error> {
        let row = self.0.execute(sqlx::query(FIND).bind(name)).await;
        let found = row.and_then(|row| row.map(|row| place(&row, 0)).transpose());
        found.map_err(|error| self.0.postgres.fault(error))
    }

    /// Whether a node with this name lives, or died not long ago.
    pub async fn knows(&self, name: &str) -> Result<bool, Error> {
        let known = "SELECT life FROM belljar.lives WHERE node = $1 LIMIT 1";
        let row = self.0.execute(sqlx::query(known).bind(name)).await;
        row.map(|row| row.is_some())
            .map_err(|error| self.0.postgres.fault(error))
    }

    /// The other nodes by name: those that live with their place, and those that died not long ago with sessions.
    pub async fn others(&self) -> Result<BTreeMap<String, Option<NodePlace>>, Error> {
        let rows = self.0.fetch(sqlx::query(OTHERS).bind(self.name())).await;
        let others = rows.and_then(|rows| {
            let read = |row: &PgRow| {
                let other = place(row, 0)?;
                let is_dead: bool = row.try_get(3)?;
                Ok((other.name.clone(), (!is_dead).then_some(other)))
            };
            rows.iter().map(read).collect()
        });
        others.map_err(|error| self.0.postgres.fault(error))
    }

    /// What tells this cluster from others.
    pub async fn cluster(&self) -> Result<String, Error> {
        self.of_cluster("SELECT id FROM belljar.cluster").await
    }

    /// What only the nodes of this cluster know.
    pub async fn secret(&self) -> Result<String, Error> {
        self.of_cluster("SELECT secret FROM belljar.cluster").await
    }

    async fn of_cluster(&self, statement: &'static str) -> Result<String, Error> {
        let row = self.0.execute(sqlx::query(statement)).await;
        let text = row.and_then(|row| row.ok_or(sqlx::Error::RowNotFound)?.try_get(0));
        text.map_err(|error| self.0.postgres.fault(error))
    }
}

/// The node whose columns begin at `column`.
pub(super) fn place(row: &PgRow, column: usize) -> sqlx::Result<NodePlace> {
    Ok(NodePlace {
        life: row.try_get(column)?,
        name: row.try_get(column + 1)?,
        address: row.try_get(column + 2)?,
    })
}
