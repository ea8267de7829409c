//! Sessions that move between nodes: hibernated by one, for any other to take.
//!
//! A session is on the node that its id names until that one gives it to the cluster. From then on a row says who has
//! it. Taking it is one statement, so that of several nodes one succeeds.

use std::collections::HashSet;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Node;
use super::single::{NodePlace, place};
use crate::Error;

/// Not a row that another node has. One that is there with the same snapshot is from this statement: its answer was lost.
const GIVE: &str = "WITH given AS ( \
        INSERT INTO belljar.moved_sessions AS moved (id, tenant, record, snapshot) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (id) DO UPDATE SET record = $3, snapshot = $4, node = NULL WHERE moved.node = $5 \
        RETURNING id) \
    SELECT EXISTS (SELECT FROM given) \
        OR EXISTS (SELECT FROM belljar.moved_sessions WHERE id = $1 AND snapshot = $4)";

const TAKE: &str = "UPDATE belljar.moved_sessions SET node = $2 \
    WHERE id = $1 AND (node IS NULL OR node = $2) \
        AND EXISTS (SELECT FROM belljar.lives WHERE life = $3 AND NOT dead) \
    RETURNING tenant, record, snapshot";

/// One row: whether it has moved, whether it is free, whose it is, whether anybody knows that node, and its life. A node
/// is known for a day after its end, unless it was evicted.
const FIND: &str = "SELECT moved.id IS NOT NULL, moved.id IS NOT NULL AND moved.node IS NULL, \
        coalesce(moved.node, $2), \
        EXISTS (SELECT FROM belljar.lives l WHERE l.node = coalesce(moved.node, $2) \
            AND (NOT dead OR died > now() - interval '1 day')), \
        life.life, life.node, life.address \
    FROM (SELECT 1) one LEFT JOIN belljar.moved_sessions moved ON moved.id = $1 \
    LEFT JOIN LATERAL (SELECT l.life, l.node, l.address FROM belljar.lives l \
        WHERE l.node = coalesce(moved.node, $2) AND NOT l.dead ORDER BY l.life DESC LIMIT 1) life ON true";

const FREE: &str = "SELECT coalesce(array_agg(id), '{}') FROM ( \
        SELECT id FROM belljar.moved_sessions WHERE node IS NULL LIMIT $1) free";

const FORGET: &str =
    "DELETE FROM belljar.moved_sessions WHERE node = $1 AND id = ANY ($2) RETURNING id";

/// Only before the node takes the first one: what it had until its process ended is in nobody's hands.
const RELEASE: &str = "UPDATE belljar.moved_sessions SET node = NULL WHERE node = $1 RETURNING id";

const SNAPSHOTS: &str = "SELECT coalesce(array_agg(snapshot), '{}') FROM belljar.moved_sessions";

/// A hibernated session that has left its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedSession {
    /// Its id, which begins with that of the node that made it.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// What a node needs to know of it besides its snapshot.
    pub record: String,
    /// The name of its snapshot, which every node can read.
    pub snapshot: String,
}

/// Where a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPlace {
    /// On the node that its id names, as far as anybody knows.
    Home(NodePlace),
    /// On another one.
    Moved(NodePlace),
    /// On none: any may take it.
    Free,
    /// On a node with this name, which does not live.
    Lost(String),
    /// Nobody knows the node.
    Unknown,
}

impl Node {
    /// Gives a session to the cluster. False if another node has taken one with this id, and has it: nothing was changed.
    pub async fn give_session(&self, session: &MovedSession) -> Result<bool, Error> {
        let give = sqlx::query(GIVE)
            .bind(&session.id)
            .bind(&session.tenant)
            .bind(&session.record)
            .bind(&session.snapshot)
            .bind(self.name());
        let row = self.0.execute(give).await;
        let given = row.and_then(|row| row.ok_or(sqlx::Error::RowNotFound)?.try_get(0));
        given.map_err(|error| self.0.postgres.fault(error))
    }

    /// Takes a session that is free, or that this node has taken before; nothing if another was faster, or there is none.
    pub async fn take_session(&self, id: &str) -> Result<Option<MovedSession>, Error> {
        let take = sqlx::query(TAKE)
            .bind(id)
            .bind(self.name())
            .bind(self.life());
        let row = self.0.execute(take).await;
        let read = |row: PgRow| {
            Ok(MovedSession {
                id: id.to_owned(),
                tenant: row.try_get(0)?,
                record: row.try_get(1)?,
                snapshot: row.try_get(2)?,
            })
        };
        let taken = row.and_then(|row| row.map(read).transpose());
        taken.map_err(|error| self.0.postgres.fault(error))
    }

    /// Where a session is whose id names this node.
    pub async fn find_session(&self, id: &str, home: &str) -> Result<SessionPlace, Error> {
        let row = self.0.execute(sqlx::query(FIND).bind(id).bind(home)).await;
        let read = |row: PgRow| {
            let (is_moved, is_free): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
            let (name, is_known): (String, bool) = (row.try_get(2)?, row.try_get(3)?);
            let life: Option<i64> = row.try_get(4)?;
            Ok(match life {
                _ if is_free => SessionPlace::Free,
                Some(_) if is_moved => SessionPlace::Moved(place(&row, 4)?),
                Some(_) => SessionPlace::Home(place(&row, 4)?),
                None if is_known => SessionPlace::Lost(name),
                None => SessionPlace::Unknown,
            })
        };
        let found = row.and_then(|row| read(row.ok_or(sqlx::Error::RowNotFound)?));
        found.map_err(|error| self.0.postgres.fault(error))
    }

    /// Ids of some sessions that no node has.
    pub async fn free_sessions(&self, limit: u32) -> Result<Vec<String>, Error> {
        let query = sqlx::query(FREE).bind(i64::from(limit));
        self.texts(query).await
    }

    /// Names of the snapshots of all sessions that have moved.
    pub async fn moved_snapshots(&self) -> Result<HashSet<String>, Error> {
        let names = self.texts(sqlx::query(SNAPSHOTS)).await?;
        Ok(names.into_iter().collect())
    }

    /// Forgets sessions that this node had taken, and that have ended.
    pub async fn forget_sessions(&self, ids: &[String]) -> Result<(), Error> {
        let query = sqlx::query(FORGET).bind(self.name()).bind(ids);
        self.change(query).await
    }

    /// Makes free what this node had taken before its process ended. For its start alone.
    pub async fn release_sessions(&self) -> Result<(), Error> {
        self.change(sqlx::query(RELEASE).bind(self.name())).await
    }

    async fn texts(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<Vec<String>, Error> {
        let row = self.0.execute(query).await;
        let texts = row.and_then(|row| row.ok_or(sqlx::Error::RowNotFound)?.try_get(0));
        texts.map_err(|error| self.0.postgres.fault(error))
    }

    async fn change(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<(), Error> {
        let changed = self.0.fetch(query).await;
        changed
            .map(drop)
            .map_err(|error| self.0.postgres.fault(error))
    }
}
