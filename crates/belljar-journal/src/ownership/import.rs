//! What a single node had, brought into a cluster: runs with their events, and hibernated sessions. No node is needed.

use std::sync::Arc;

use sqlx::Row;

use super::status::rows;
use super::{MovedSession, RunState, check_first};
use crate::postgres::{Postgres, UNCLAIMED};
use crate::{AppendError, Error, Journal, NewEvent, RunId};

const RUN: &str = "SELECT tenant, state = 'free' FROM belljar.runs WHERE id = $1";

const COMPLETE: &str =
    "UPDATE belljar.runs SET state = $2 WHERE id = $1 AND state = 'free' RETURNING id";

const SESSION: &str = "SELECT tenant FROM belljar.moved_sessions WHERE id = $1";

const ADD_SESSION: &str = "INSERT INTO belljar.moved_sessions (id, tenant, record, snapshot) \
    VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING RETURNING id";

/// Brings runs and sessions of a single node into a cluster.
#[derive(Clone, Debug)]
pub struct Import {
    postgres: Postgres,
    journal: Journal,
}

/// A run of the cluster, as an import finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedState {
    /// Whose it is.
    pub tenant: String,
    /// Whether no node drives it before it is [complete](Import::complete).
    pub is_partial: bool,
}

impl Import {
    /// Connects to the database of a cluster, and brings its tables up to date.
    pub async fn connect(database: &str) -> Result<Self, Error> {
        let postgres = Postgres::connect(database).await?;
        Ok(Self {
            journal: Journal::new(Arc::new(postgres.clone())),
            postgres,
        })
    }

    /// What tells this cluster from others.
    pub async fn cluster(&self) -> Result<String, Error> {
        let query = sqlx::query("SELECT id FROM belljar.cluster");
        let found = self.row(query).await.and_then(|row| {
            let row = row.ok_or(sqlx::Error::RowNotFound)?;
            row.try_get(0)
        });
        found.map_err(|error| self.postgres.fault(error))
    }

    /// The events of all runs of the cluster.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// A run of the cluster, if there is one with this id.
    pub async fn run(&self, run: &RunId) -> Result<Option<ImportedState>, Error> {
        let row = self.row(sqlx::query(RUN).bind(run.as_str())).await;
        let state = row.and_then(|row| {
            let read = |row: sqlx::postgres::PgRow| {
                Ok(ImportedState {
                    tenant: row.try_get(0)?,
                    is_partial: row.try_get(1)?,
                })
            };
            row.map(read).transpose()
        });
        state.map_err(|error| self.postgres.fault(error))
    }

    /// Appends events to a run that is not complete, which is made with the first ones.
    pub async fn append(
        &self,
        run: &RunId,
        tenant: &str,
        expected_seq: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        if expected_seq == 0 {
            check_first(tenant, events)?;
            return self.postgres.create(run, tenant, "free", events).await;
        }
        self.postgres
            .append_at(UNCLAIMED, run, expected_seq, expected_seq, events)
            .await
    }

    /// Lets nodes have a run that is all there.
    pub async fn complete(&self, run: &RunId, state: RunState) -> Result<(), Error> {
        let query = sqlx::query(COMPLETE)
            .bind(run.as_str())
            .bind(state.as_str());
        let done = self.row(query).await;
        done.map(drop).map_err(|error| self.postgres.fault(error))
    }

    /// Whose session it is that the cluster has with this id.
    pub async fn session(&self, id: &str) -> Result<Option<String>, Error> {
        let row = self.row(sqlx::query(SESSION).bind(id)).await;
        let tenant = row.and_then(|row| row.map(|row| row.try_get(0)).transpose());
        tenant.map_err(|error| self.postgres.fault(error))
    }

    /// Gives a session to the cluster, unless there is one with its id.
    pub async fn add_session(&self, session: &MovedSession) -> Result<(), Error> {
        let query = sqlx::query(ADD_SESSION)
            .bind(&session.id)
            .bind(&session.tenant)
            .bind(&session.record)
            .bind(&session.snapshot);
        let added = self.row(query).await;
        added.map(drop).map_err(|error| self.postgres.fault(error))
    }

    async fn row(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> sqlx::Result<Option<sqlx::postgres::PgRow>> {
        let rows = rows(self.postgres.connections(), query).await?;
        Ok(rows.into_iter().next())
    }
}
