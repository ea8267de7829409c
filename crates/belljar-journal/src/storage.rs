//! Storage faults, and writes to SQLite files that leave nothing behind when they fail.

use std::io;
use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePool};

use crate::{Error, failpoint};

/// A fault of the storage, not of the program or its caller. The same write may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// No space is left.
    Full,
    /// The storage can't be written: an I/O error, a read-only file system, a lock held for too
    /// long.
    Failed,
}

impl StorageFault {
    /// The fault that an error of the file system means, if it is one of the storage.
    pub fn from_io(error: &io::Error) -> Option<Self> {
        const EIO: i32 = 5;
        // One of a store of ours, passed on as an error of the system.
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        if let Some(inner) = inner {
            return inner.storage_fault();
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Self::Full),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::FileTooLarge => Some(Self::Failed),
            _ => (error.raw_os_error() == Some(EIO)).then_some(Self::Failed),
        }
    }

    /// The fault that an error of SQLite means, if it is one of the storage.
    pub fn from_database(error: &sqlx::Error) -> Option<Self> {
        match error {
            sqlx::Error::Io(error) => Self::from_io(error),
            sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => Some(Self::Failed),
            // BUSY, LOCKED, READONLY, IOERR, CANTOPEN, PROTOCOL.
            _ => match primary_code(error)? {
                13 => Some(Self::Full),
                5 | 6 | 8 | 10 | 14 | 15 => Some(Self::Failed),
                _ => None,
            },
        }
    }
}

/// SQLite's result code without its details: <https://sqlite.org/rescode.html>.
pub(crate) fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let sqlx::Error::Database(error) = error else {
        return None;
    };
    let code: u32 = error.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// A write to a SQLite file: all of it or nothing.
///
/// After some faults (a full disk) SQLite has ended the transaction by itself, after others it has
/// not, and this can't be detected. A connection whose write failed is closed and never used again;
/// so is one whose write was dropped.
#[derive(Debug)]
pub struct WriteTransaction {
    connection: PoolConnection<Sqlite>,
    name: &'static str,
    is_over: bool,
}

impl WriteTransaction {
    /// Begins a write; its name is that of its failpoint. Other writers wait from here on.
    pub async fn begin(pool: &SqlitePool, name: &'static str) -> sqlx::Result<Self> {
        let mut write = Self {
            connection: pool.acquire().await?,
            name,
            is_over: false,
        };
        // Taken at once: a transaction that first reads and then wants to write can fail. Not by sqlx, which counts
        // transactions, and wrongly after a fault.
        let begin = sqlx::raw_sql("BEGIN IMMEDIATE");
        begin.execute(&mut *write.connection).await?;
        Ok(write)
    }

    /// Makes it durable.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        failpoint::fail(self.name)?;
        self.end("COMMIT").await
    }

    /// Rolls it back, if there is nothing to write after all.
    pub async fn roll_back(mut self) -> sqlx::Result<()> {
        self.end("ROLLBACK").await
    }

    async fn end(&mut self, statement: &'static str) -> sqlx::Result<()> {
        let end = sqlx::raw_sql(statement);
        end.execute(&mut *self.connection).await?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for WriteTransaction {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for WriteTransaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}
