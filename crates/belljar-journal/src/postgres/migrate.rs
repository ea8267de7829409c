//! The schema of the database, brought up to date.

use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use super::connections::{Connections, fault};
use crate::Error;

/// Tables with a version of their own.
///
/// Each migration brings them one version further. A released one is never changed. Programs of the version before must
/// work with it: in a rolling upgrade they do.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// The table that has the version, in the schema `belljar`.
    pub version_table: &'static str,
    /// The first one is for an empty database.
    pub all: &'static [&'static str],
}

/// Of the journal.
pub(super) const JOURNAL: Migrations = Migrations {
    version_table: "schema_version",
    all: &[
        include_str!("0001.sql"),
        include_str!("0002.sql"),
        include_str!("0003.sql"),
        include_str!("0004.sql"),
    ],
};

/// The oldest server: it can compress with LZ4.
const SERVER: i32 = 140_000;

/// Holds off other nodes that start at the same time. The number is arbitrary.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7236837518224121)";

/// Brings tables to the version that is known here, or refuses the database.
pub(super) async fn migrate(
    connections: &Connections,
    migrations: Migrations,
) -> Result<(), Error> {
    let known = i64::try_from(migrations.all.len()).unwrap_or(i64::MAX);
    let migrated = apply(connections, migrations, known).await;
    let found = migrated.map_err(|error| match error {
        Refused::Unsuitable(why) => Error::Unsuitable {
            path: connections.name(),
            why,
        },
        Refused::Fault(error) => fault(connections, error),
    })?;
    // One version further is one that this program works with.
    if found > known + 1 {
        return Err(Error::NewerSchema {
            path: connections.name(),
            found,
            known,
        });
    }
    Ok(())
}

enum Refused {
    Unsuitable(String),
    Fault(sqlx::Error),
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::Fault(error)
    }
}

async fn apply(
    connections: &Connections,
    Migrations { version_table, all }: Migrations,
    known: i64,
) -> Result<i64, Refused> {
    let mut connection = connections.take().await?;
    let row = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), \
        to_regclass('belljar.' || $1) IS NOT NULL";
    let row = sqlx::query(row).bind(version_table);
    let row = row.fetch_one(&mut *connection).await?;
    let (server, encoding): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    if server < SERVER {
        let why = format!(
            "its server has version {}, at least 14 is needed",
            server / 10_000
        );
        return Err(Refused::Unsuitable(why));
    }
    if encoding != "UTF8" {
        let why = format!("its encoding is {encoding}, not UTF8");
        return Err(Refused::Unsuitable(why));
    }
    // Without the lock, which needs more rights, if there is nothing to do.
    let mut found = 0;
    if row.try_get(2)? {
        found = version(&mut connection, version_table).await?;
    }
    if found < known {
        let mut transaction = connection.begin().await?;
        // A node that waits longer than the others' migration takes has a reason to give up.
        transaction
            .execute("SET LOCAL lock_timeout = '60s'")
            .await?;
        transaction.execute(LOCK).await?;
        let init = format!(
            "CREATE SCHEMA IF NOT EXISTS belljar; \
             CREATE TABLE IF NOT EXISTS belljar.{version_table} (version bigint NOT NULL)"
        );
        transaction
            .execute(sqlx::raw_sql(AssertSqlSafe(init)))
            .await?;
        found = version(&mut transaction, version_table).await?;
        let done = usize::try_from(found).unwrap_or(usize::MAX);
        for migration in all.iter().skip(done) {
            transaction.execute(sqlx::raw_sql(*migration)).await?;
        }
        if found < known {
            found = known;
            let set = format!(
                "DELETE FROM belljar.{version_table}; INSERT INTO belljar.{version_table} VALUES ({found})"
            );
            transaction
                .execute(sqlx::raw_sql(AssertSqlSafe(set)))
                .await?;
        }
        transaction.commit().await?;
    }
    connection.finish(Ok(()))?;
    Ok(found)
}

async fn version(connection: &mut sqlx::PgConnection, table: &str) -> sqlx::Result<i64> {
    let version = format!("SELECT coalesce(max(version), 0) FROM belljar.{table}");
    let version = sqlx::query(AssertSqlSafe(version));
    version.fetch_one(connection).await?.try_get(0)
}
