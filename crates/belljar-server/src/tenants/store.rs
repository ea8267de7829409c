//! Where the records of tenants are: a SQLite file of one service, or a PostgreSQL database of many nodes.
//!
//! Both understand the same statements, so that there is one set of them. Only their connections, their rows and their
//! ways to hold off other writers differ.

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_journal::{Database, DatabaseWrite, Migrations, WriteTransaction};
use sqlx::postgres::{PgRow, Postgres};
use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Arguments, ColumnIndex, ConnectOptions as _, Decode, Encode, Row as _, Type};

use super::TenantsError;
use crate::node::{make_directory, make_private_file};

const READERS: u32 = 2;

const MIGRATIONS: Migrations = Migrations {
    version_table: "tenants_version",
    all: &[
        include_str!("postgres_0001.sql"),
        include_str!("postgres_0002.sql"),
        include_str!("postgres_0003.sql"),
    ],
};

/// The statements that bring a SQLite file one version further.
const SQLITE: [[&str; 2]; 5] = [
    [include_str!("0001.sql"), "PRAGMA user_version = 1"],
    [include_str!("0002.sql"), "PRAGMA user_version = 2"],
    [include_str!("0003.sql"), "PRAGMA user_version = 3"],
    [include_str!("0004.sql"), "PRAGMA user_version = 4"],
    [include_str!("0005.sql"), "PRAGMA user_version = 5"],
];

/// Holds off other acts. Those of PostgreSQL would otherwise be numbered in another order than they become visible, and
/// whoever looks for new ones would miss some.
const ONE_ACT: &str = "LOCK TABLE audit IN SHARE ROW EXCLUSIVE MODE";

#[derive(Clone, Debug)]
pub(super) enum Store {
    Sqlite {
        path: PathBuf,
        /// One connection: writes wait for each other here.
        writer: SqlitePool,
        /// Never used for writes, so that no write fault reaches readers.
        readers: SqlitePool,
    },
    Postgres(Database),
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    MaybeText(Option<&'a str>),
    Number(i64),
    MaybeNumber(Option<i64>),
    Bytes(&'a [u8]),
}

#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(super) fn get<T>(&self, index: usize) -> sqlx::Result<T>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite>,
        T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
        usize: ColumnIndex<SqliteRow> + ColumnIndex<PgRow>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(index),
            Self::Postgres(row) => row.try_get(index),
        }
    }
}

impl Store {
    /// The file `tenants.sqlite` in a directory; both are made if they are missing.
    pub(super) async fn open(data: &Path) -> Result<Self, TenantsError> {
        let path = data.join("tenants.sqlite");
        let made = make_directory(data).and_then(|()| make_private_file(&path));
        made.map_err(|source| TenantsError::Io {
            path: path.clone(),
            source,
        })?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5))
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        let fault = |source| TenantsError::Database {
            path: path.clone(),
            source,
        };
        let writer = pool.clone().max_connections(1);
        let writer = writer.connect_with(options.clone()).await.map_err(fault)?;
        match migrate(&writer).await {
            Ok(true) => {}
            Ok(false) => return Err(TenantsError::Newer(path)),
            Err(error) => return Err(fault(error)),
        }
        let readers = pool.max_connections(READERS);
        let readers = readers.connect_with(options.read_only(true)).await;
        Ok(Self::Sqlite {
            readers: readers.map_err(fault)?,
            path,
            writer,
        })
    }

    pub(super) async fn connect(address: &str) -> Result<Self, TenantsError> {
        Ok(Self::Postgres(
            Database::connect(address, MIGRATIONS).await?,
        ))
    }

    /// Whether other nodes write to it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Seconds since 1970 by the one clock of all that write here: nodes may have clocks that are days apart.
    pub(super) async fn now(&self) -> sqlx::Result<i64> {
        match self {
            Self::Sqlite { .. } => Ok(super::now()),
            Self::Postgres(_) => {
                let now = "SELECT extract(epoch FROM now())::bigint";
                let rows = self.fetch(now, &[]).await?;
                rows.first().ok_or(sqlx::Error::RowNotFound)?.get(0)
            }
        }
    }

    /// The rows that a statement returns, which changes nothing.
    pub(super) async fn fetch(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> sqlx::Result<Vec<Row>> {
        match self {
            Self::Sqlite { readers, .. } => {
                let query = sqlx::query_with(statement, arguments::<Sqlite>(values)?);
                let rows = query.fetch_all(readers).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(database) => {
                let rows = database
                    .fetch(statement, arguments::<Postgres>(values)?)
                    .await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// Begins a write; the name is that of its failpoint.
    pub(super) async fn write(&self, name: &'static str) -> sqlx::Result<Write> {
        match self {
            Self::Sqlite { writer, .. } => {
                let begun = WriteTransaction::begin(writer, name).await;
                begun.map(Write::Sqlite)
            }
            Self::Postgres(database) => database.begin(name).await.map(Write::Postgres),
        }
    }

    /// Begins a write that has audit events: one at a time.
    pub(super) async fn act(&self, name: &'static str) -> sqlx::Result<Write> {
        let mut write = self.write(name).await?;
        // SQLite has one writer at a time.
        if self.is_shared() {
            write.execute(ONE_ACT, &[]).await?;
        }
        Ok(write)
    }

    pub(super) fn fault(&self, source: sqlx::Error) -> TenantsError {
        match self {
            Self::Sqlite { path, .. } => TenantsError::Database {
                path: path.clone(),
                source,
            },
            Self::Postgres(database) => database.fault(source).into(),
        }
    }
}

/// A write: all of it or nothing.
#[derive(Debug)]
pub(super) enum Write {
    Sqlite(WriteTransaction),
    Postgres(DatabaseWrite),
}

impl Write {
    pub(super) async fn execute(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> sqlx::Result<Vec<Row>> {
        match self {
            Self::Sqlite(write) => {
                let query = sqlx::query_with(statement, arguments::<Sqlite>(values)?);
                let rows = query.fetch_all(&mut **write).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(write) => {
                let rows = write
                    .fetch(statement, arguments::<Postgres>(values)?)
                    .await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    pub(super) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite(write) => write.commit().await,
            Self::Postgres(write) => write.commit().await,
        }
    }

    /// There is nothing to write after all.
    pub(super) async fn roll_back(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite(write) => write.roll_back().await,
            Self::Postgres(write) => write.roll_back().await,
        }
    }
}

fn arguments<'a, D: sqlx::Database>(values: &[Value<'a>]) -> sqlx::Result<D::Arguments>
where
    &'a str: Encode<'a, D> + Type<D>,
    Option<&'a str>: Encode<'a, D> + Type<D>,
    i64: Encode<'a, D> + Type<D>,
    Option<i64>: Encode<'a, D> + Type<D>,
    &'a [u8]: Encode<'a, D> + Type<D>,
{
    let mut arguments = D::Arguments::default();
    for value in values {
        let added = match *value {
            Value::Text(text) => arguments.add(text),
            Value::MaybeText(text) => arguments.add(text),
            Value::Number(number) => arguments.add(number),
            Value::MaybeNumber(number) => arguments.add(number),
            Value::Bytes(bytes) => arguments.add(bytes),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Brings the schema of a file up to date; false if it is newer than what is known here.
async fn migrate(pool: &SqlitePool) -> sqlx::Result<bool> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let found: i64 = sqlx::query("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await?
        .try_get(0)?;
    for (version, statements) in (1..).zip(SQLITE) {
        if found < version {
            for statement in statements {
                sqlx::raw_sql(statement).execute(&mut *transaction).await?;
            }
        }
    }
    transaction.commit().await?;
    Ok(found <= 5)
}
