//! Tables beside the journal, in the same database and by the same rules for connections.

use std::fmt;
use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::{PgArguments, PgRow};

use super::connections::{Connections, Taken, fault, within};
use super::migrate::{self, Migrations};
use super::writes::WRITE;
use crate::{Error, failpoint};

/// Few: what is in these tables is read seldom, and remembered.
const CONNECTIONS: usize = 4;

/// How long a statement that only reads may take: somebody waits for it.
const READ: Duration = Duration::from_secs(5);

/// A PostgreSQL database with tables of the caller's, in the schema `belljar`. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Database(Connections);

impl Database {
    /// Connects, and brings the tables up to date.
    pub async fn connect(address: &str, migrations: Migrations) -> Result<Self, Error> {
        let connections = Connections::open(address, CONNECTIONS)?;
        migrate::migrate(&connections, migrations).await?;
        Ok(Self(connections))
    }

    /// The rows that a statement returns.
    pub async fn fetch(
        &self,
        statement: &'static str,
        arguments: PgArguments,
    ) -> sqlx::Result<Vec<PgRow>> {
        let mut connection = self.0.take().await?;
        let query = sqlx::query_with(statement, arguments);
        let rows = within(READ, query.fetch_all(&mut *connection)).await;
        connection.finish(rows)
    }

    /// Begins a write of several statements; its name is that of its failpoint.
    pub async fn begin(&self, name: &'static str) -> sqlx::Result<DatabaseWrite> {
        let mut connection = self.0.take().await?;
        within(WRITE, connection.execute("BEGIN")).await?;
        Ok(DatabaseWrite { connection, name })
    }

    /// What an error of these methods means.
    pub fn fault(&self, error: sqlx::Error) -> Error {
        fault(&self.0, error)
    }
}

/// A write: all of it or nothing. If it is dropped or fails, its connection is closed, and the server rolls it back.
pub struct DatabaseWrite {
    connection: Taken,
    name: &'static str,
}

impl fmt::Debug for DatabaseWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl DatabaseWrite {
    /// The rows that a statement returns.
    pub async fn fetch(
        &mut self,
        statement: &'static str,
        arguments: PgArguments,
    ) -> sqlx::Result<Vec<PgRow>> {
        let query = sqlx::query_with(statement, arguments);
        within(WRITE, query.fetch_all(&mut *self.connection)).await
    }

    /// Makes it durable.
    pub async fn commit(self) -> sqlx::Result<()> {
        failpoint::fail(self.name)?;
        self.end("COMMIT").await
    }

    /// Rolls it back, if there is nothing to write after all.
    pub async fn roll_back(self) -> sqlx::Result<()> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> sqlx::Result<()> {
        within(WRITE, self.connection.execute(statement)).await?;
        self.connection.finish(Ok(()))
    }
}
