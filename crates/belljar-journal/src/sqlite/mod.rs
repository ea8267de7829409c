//! Events in a SQLite file: for one machine, any number of processes.
//!
//! One connection writes, a few read. The queries are those that PostgreSQL understands too; what
//! is SQLite's own is here and in the schema: how a file is opened, and how a transaction begins.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::value::RawValue;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::failpoint;
use crate::storage::{WriteTransaction, primary_code};
use crate::store::{PAGE_BYTES, Store, StoreFuture};
use crate::{AppendError, Entry, Error, NewEvent, RunId, RunSummary, Timestamp, directory};

/// Each brings the schema one version further. A released one is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("0001.sql")];

/// How long to wait for the writer of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;

const LAST_SEQ: &str = "SELECT last_seq FROM runs WHERE id = $1";

const READ: &str = "SELECT e.seq, e.at, e.kind, e.version, e.body \
    FROM runs r JOIN events e ON e.run = r.number \
    WHERE r.id = $1 AND e.seq > $2 ORDER BY e.seq LIMIT $3";

const RUNS: &str = "SELECT r.id, f.seq, f.at, f.kind, f.version, f.body, \
    l.seq, l.at, l.kind, l.version, l.body \
    FROM runs r \
    JOIN events f ON f.run = r.number AND f.seq = 1 \
    JOIN events l ON l.run = r.number AND l.seq = r.last_seq \
    WHERE r.number < $1 ORDER BY r.number DESC LIMIT $2";

const REMOVE_EVENTS: &str =
    "DELETE FROM events WHERE run = (SELECT number FROM runs WHERE id = $1)";

const FILE: &str = "journal.sqlite3";

#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Sqlite {
    pub(crate) fn exists(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    pub(crate) async fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        // One at a time turns a new file into a write-ahead log and brings the schema up to date.
        let lock = prepare(directory.to_owned(), path.clone()).await?;
        let opened = Self::open_file(path.clone()).await;
        drop(lock);
        opened
    }

    async fn open_file(path: PathBuf) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL would lose acknowledged events when the power fails.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        let fault = |error| fault(&path, error);

        let writer = pool
            .clone()
            .max_connections(1)
            .connect_with(options.clone())
            .await
            .map_err(fault)?;
        migrate(&path, &writer).await?;
        let readers = pool
            .max_connections(READERS)
            .connect_with(options.read_only(true))
            .await
            .map_err(fault)?;
        Ok(Self {
            path,
            writer,
            readers,
        })
    }

    async fn append(
        &self,
        run: &RunId,
        expected: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        let fault = |error| fault(&self.path, error);
        failpoint::reach(failpoint::BEFORE_APPEND);
        let begun = WriteTransaction::begin(&self.writer, "journal.append").await;
        let mut transaction = begun.map_err(fault)?;

        let known = sqlx::query("SELECT number, last_seq FROM runs WHERE id = $1")
            .bind(run.as_str())
            .fetch_optional(&mut *transaction)
            .await
            .and_then(|row| {
                row.map(|row| Ok((row.try_get::<i64, _>(0)?, unsigned(row.try_get(1)?))))
                    .transpose()
            })
            .map_err(fault)?;
        let actual = known.map_or(0, |(_, last_seq)| last_seq);
        if actual != expected {
            transaction.roll_back().await.map_err(fault)?;
            return Err(AppendError::Conflict { expected, actual });
        }

        let last = expected + events.len() as u64;
        let number = if let Some((number, _)) = known {
            sqlx::query("UPDATE runs SET last_seq = $1 WHERE number = $2")
                .bind(signed(last))
                .bind(number)
                .execute(&mut *transaction)
                .await
                .map_err(fault)?;
            number
        } else {
            sqlx::query("INSERT INTO runs (id, last_seq) VALUES ($1, $2) RETURNING number")
                .bind(run.as_str())
                .bind(signed(last))
                .fetch_one(&mut *transaction)
                .await
                .and_then(|row| row.try_get(0))
                .map_err(fault)?
        };
        for (seq, event) in (expected + 1..).zip(events) {
            sqlx::query(
                "INSERT INTO events (run, seq, at, kind, version, body) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(number)
            .bind(signed(seq))
            .bind(event.at.0)
            .bind(event.kind.as_str())
            .bind(i64::from(event.version))
            .bind(event.body.get())
            .execute(&mut *transaction)
            .await
            .map_err(fault)?;
        }

        failpoint::reach(failpoint::BEFORE_COMMIT);
        transaction.commit().await.map_err(fault)?;
        failpoint::reach(failpoint::BEFORE_ACKNOWLEDGE);
        Ok(last)
    }

    async fn remove(&self, run: &RunId) -> sqlx::Result<()> {
        let mut transaction = WriteTransaction::begin(&self.writer, "journal.remove").await?;
        for query in [REMOVE_EVENTS, "DELETE FROM runs WHERE id = $1"] {
            let query = sqlx::query(query).bind(run.as_str());
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }

    async fn each_body(&self, see: &mut (dyn FnMut(&str) + Send)) -> sqlx::Result<()> {
        let mut rows = sqlx::query("SELECT body FROM events").fetch(&self.readers);
        while let Some(row) = rows.try_next().await? {
            see(row.try_get(0)?);
        }
        Ok(())
    }

    async fn compact(&self) -> sqlx::Result<()> {
        failpoint::fail("journal.compact")?;
        let mut connection = self.writer.acquire().await?;
        // The second empties the log that the first has written all of it to.
        for statement in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            sqlx::raw_sql(statement).execute(&mut *connection).await?;
        }
        Ok(())
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> sqlx::Result<Vec<Entry>> {
        let mut rows = sqlx::query(READ)
            .bind(run.as_str())
            .bind(signed(after))
            .bind(signed(limit as u64))
            .fetch(&self.readers);
        let (mut page, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(row) = rows.try_next().await?
        {
            let entry = entry(run.clone(), &row, 0)?;
            if entry.seq != after + 1 + page.len() as u64 {
                return Err(sqlx::Error::Decode("an event is missing".into()));
            }
            bytes += entry.body.get().len();
            page.push(entry);
        }
        Ok(page)
    }

    async fn last_seq(&self, run: &RunId) -> sqlx::Result<u64> {
        let row = sqlx::query(LAST_SEQ)
            .bind(run.as_str())
            .fetch_optional(&self.readers)
            .await?;
        row.map_or(Ok(0), |row| Ok(unsigned(row.try_get(0)?)))
    }

    async fn runs(&self, before: Option<&RunId>, limit: usize) -> Result<Vec<RunSummary>, Error> {
        let before = match before {
            None => i64::MAX,
            Some(run) => sqlx::query("SELECT number FROM runs WHERE id = $1")
                .bind(run.as_str())
                .fetch_optional(&self.readers)
                .await
                .and_then(|row| row.map(|row| row.try_get(0)).transpose())
                .map_err(|error| fault(&self.path, error))?
                .ok_or_else(|| Error::UnknownRun(run.clone()))?,
        };
        self.runs_before(before, limit)
            .await
            .map_err(|error| fault(&self.path, error))
    }

    async fn runs_before(&self, before: i64, limit: usize) -> sqlx::Result<Vec<RunSummary>> {
        let mut rows = sqlx::query(RUNS)
            .bind(before)
            .bind(signed(limit as u64))
            .fetch(&self.readers);
        let (mut page, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(row) = rows.try_next().await?
        {
            let run = RunId::try_from(row.try_get::<String, _>(0)?)
                .map_err(|error| sqlx::Error::Decode(error.into()))?;
            let first = entry(run.clone(), &row, 1)?;
            let last = entry(run, &row, 6)?;
            bytes += first.body.get().len() + last.body.get().len();
            page.push(RunSummary { first, last });
        }
        Ok(page)
    }
}

impl Store for Sqlite {
    fn append<'a>(
        &'a self,
        run: &'a RunId,
        expected: u64,
        events: &'a [NewEvent],
    ) -> StoreFuture<'a, u64, AppendError> {
        Box::pin(self.append(run, expected, events))
    }

    fn read<'a>(&'a self, run: &'a RunId, after: u64, limit: usize) -> StoreFuture<'a, Vec<Entry>> {
        Box::pin(async move {
            let page = self.read(run, after, limit).await;
            page.map_err(|error| fault(&self.path, error))
        })
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let removed = self.remove(run).await;
            removed.map_err(|error| fault(&self.path, error))
        })
    }

    fn each_body<'a>(&'a self, see: &'a mut (dyn FnMut(&str) + Send)) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let seen = self.each_body(see).await;
            seen.map_err(|error| fault(&self.path, error))
        })
    }

    fn compact(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let compacted = self.compact().await;
            compacted.map_err(|error| fault(&self.path, error))
        })
    }

    fn last_seq<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let last = self.last_seq(run).await;
            last.map_err(|error| fault(&self.path, error))
        })
    }

    fn runs<'a>(
        &'a self,
        before: Option<&'a RunId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<RunSummary>> {
        Box::pin(self.runs(before, limit))
    }
}

/// Makes the directory and the file, and takes the lock for opening it.
async fn prepare(directory: PathBuf, path: PathBuf) -> Result<File, Error> {
    directory::in_background(move || {
        directory::make(&directory)?;
        let lock_path = directory.join("journal.lock");
        let lock = directory::make_file(&lock_path)?;
        lock.lock().map_err(|error| Error::io(&lock_path, error))?;
        // The files that SQLite makes beside it get the same permissions.
        directory::make_file(&path)?;
        Ok(lock)
    })
    .await
}

/// Brings the schema to the version that is known here, or to a refusal.
async fn migrate(path: &Path, writer: &SqlitePool) -> Result<(), Error> {
    let fault = |error| fault(path, error);
    let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(fault)?;
    let found: i64 = sqlx::query("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(fault)?;
    let known = signed(MIGRATIONS.len() as u64);
    if found > known {
        return Err(Error::NewerSchema {
            path: path.to_owned(),
            found,
            known,
        });
    }
    for (version, migration) in (1..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > found)
    {
        let version = AssertSqlSafe(format!("PRAGMA user_version = {version}"));
        for statement in [sqlx::raw_sql(migration), sqlx::raw_sql(version)] {
            statement.execute(&mut *transaction).await.map_err(fault)?;
        }
    }
    transaction.commit().await.map_err(fault)
}

/// The entry whose columns begin at `column`.
fn entry(run: RunId, row: &SqliteRow, column: usize) -> sqlx::Result<Entry> {
    let version: i64 = row.try_get(column + 3)?;
    Ok(Entry {
        run,
        seq: unsigned(row.try_get(column)?),
        at: Timestamp(row.try_get(column + 1)?),
        kind: row.try_get(column + 2)?,
        version: u32::try_from(version).map_err(|error| sqlx::Error::Decode(error.into()))?,
        body: RawValue::from_string(row.try_get(column + 4)?)
            .map_err(|error| sqlx::Error::Decode(error.into()))?,
    })
}

/// What a fault of the database means for the caller.
fn fault(path: &Path, error: sqlx::Error) -> Error {
    let path = path.to_owned();
    match (primary_code(&error), error) {
        (Some(5 | 6), _) | (None, sqlx::Error::PoolTimedOut) => Error::Locked(path),
        (Some(13), _) => Error::DiskFull(path),
        (Some(11 | 26), error)
        | (None, error @ (sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. })) => {
            Error::Corrupt {
                path,
                why: error.to_string(),
            }
        }
        (None, sqlx::Error::Io(source)) => Error::io(&path, source),
        (_, source) => Error::Database { path, source },
    }
}

/// SQL has no unsigned integers; a number that doesn't fit is beyond every event.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The schema keeps sequence numbers above 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
