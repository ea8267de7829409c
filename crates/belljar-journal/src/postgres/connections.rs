//! Connections to PostgreSQL.
//!
//! Not sqlx's pool: it asks the server for a sign of life after each use, which doubles the round trips of an append,
//! and after a restart of the server it hands out each dead connection once.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;

/// How long a server may take to accept a connection, and a caller may wait for one.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection that nobody has used for longer is tried first: a restart of the server may have ended it.
const FRESH: Duration = Duration::from_secs(1);

/// Whatever the server's defaults are, a commit waits for the disk; a statement sees what was committed before it; a
/// lock is not waited for without end; and the server notices soon that this node is gone, so that it holds no lock.
/// Tables without a schema are ours.
const PREPARE: &str = "SELECT \
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false), \
    set_config('default_transaction_isolation', 'read committed', false), \
    set_config('lock_timeout', '5s', false), \
    set_config('idle_in_transaction_session_timeout', '10s', false), \
    set_config('tcp_keepalives_idle', '5', false), \
    set_config('tcp_keepalives_interval', '2', false), \
    set_config('tcp_keepalives_count', '3', false), \
    set_config('tcp_user_timeout', '10s', false), \
    set_config('search_path', 'belljar', false), \
    set_config('jit', 'off', false)";

#[derive(Clone)]
pub(crate) struct Connections {
    options: Arc<PgConnectOptions>,
    /// With the moments of their last use.
    idle: Arc<Mutex<Vec<(Instant, PgConnection)>>>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Connections {
    /// The options have the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name().to_string_lossy())
    }
}

impl Connections {
    /// To the database with this address. Nothing is sent yet.
    pub(crate) fn open(address: &str, most: usize) -> Result<Self, Error> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| address.starts_with(scheme))
        {
            let why = "it does not begin with `postgres://`".to_owned();
            return Err(Error::InvalidDatabase(why));
        }
        let options = PgConnectOptions::from_str(address).map_err(|error| {
            let why = match error {
                sqlx::Error::Configuration(why) => why.to_string(),
                error => error.to_string(),
            };
            Error::InvalidDatabase(why)
        })?;
        let options = options
            .application_name("belljar")
            .disable_statement_logging();
        Ok(Self::new(Arc::new(options), most))
    }

    fn new(options: Arc<PgConnectOptions>, most: usize) -> Self {
        Self {
            options,
            idle: Arc::default(),
            permits: Arc::new(Semaphore::new(most)),
        }
    }

    /// As many others to the same database, for what must not wait behind the rest.
    pub(crate) fn apart(&self, most: usize) -> Self {
        Self::new(self.options.clone(), most)
    }

    /// The database as errors name it: without the password.
    pub(crate) fn name(&self) -> PathBuf {
        let options = &self.options;
        let database = options.get_database().unwrap_or(options.get_username());
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        format!("postgres://{place}/{database}").into()
    }

    /// A connection that nobody else uses.
    pub(crate) async fn take(&self) -> sqlx::Result<Taken> {
        let permit = tokio::time::timeout(CONNECT, self.permits.clone().acquire_owned());
        let Ok(Ok(permit)) = permit.await else {
            return Err(sqlx::Error::PoolTimedOut);
        };
        let connection = if let Some(connection) = self.idle().await {
            connection
        } else {
            let connect = async {
                let mut connection = self.options.connect().await?;
                connection.execute(PREPARE).await?;
                Ok(connection)
            };
            within(CONNECT, connect).await?
        };
        Ok(Taken {
            connection: Some(connection),
            from: self.clone(),
            _permit: permit,
        })
    }

    async fn idle(&self) -> Option<PgConnection> {
        let (used, mut connection) = self.lock().pop()?;
        if used.elapsed() > FRESH && within(FRESH, connection.ping()).await.is_err() {
            self.lock().clear();
            return None;
        }
        Some(connection)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, PgConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. One that is dropped before its work is finished is closed.
pub(crate) struct Taken {
    /// There until it is dropped.
    connection: Option<PgConnection>,
    from: Connections,
    _permit: OwnedSemaphorePermit,
}

impl Taken {
    /// Lets others use the connection, if the work has left it in order.
    pub(crate) fn finish<T>(mut self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        match &result {
            Err(error) if !leaves_connection(error) => {
                // What has ended this one has probably ended the idle ones, too.
                self.from.lock().clear();
            }
            _ => {
                let connection = self.connection.take();
                let idle = connection.map(|connection| (Instant::now(), connection));
                self.from.lock().extend(idle);
            }
        }
        result
    }
}

#[allow(
    clippy::expect_used,
    reason = "only `finish`, which consumes it, takes the connection out"
)]
impl Deref for Taken {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("a connection in use")
    }
}

#[allow(
    clippy::expect_used,
    reason = "only `finish`, which consumes it, takes the connection out"
)]
impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("a connection in use")
    }
}

/// The result, or an error if it takes too long: a lost network answers nothing at all.
pub(crate) async fn within<T>(
    time: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let timeout =
        || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer from the database");
    let result = tokio::time::timeout(time, work).await;
    result.unwrap_or_else(|_| Err(timeout().into()))
}

/// Whether the connection can be used after this error: the server has refused a statement, and nothing else.
fn leaves_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            !matches!(error.code().as_deref(), Some(code) if is_gone(code))
        }
        sqlx::Error::RowNotFound => true,
        _ => false,
    }
}

/// SQLSTATEs of a server that can't be used now: connection exceptions, insufficient resources, operator intervention,
/// a server that only reads, an internal error.
fn is_gone(code: &str) -> bool {
    ["08", "53", "57", "XX"]
        .iter()
        .any(|class| code.starts_with(class))
        || code == "25006"
}

/// What a fault of the database means for the caller.
pub(crate) fn fault(connections: &Connections, error: sqlx::Error) -> Error {
    let path = connections.name();
    let code = match &error {
        sqlx::Error::Database(error) => error.code().map(std::borrow::Cow::into_owned),
        _ => None,
    };
    match (code.as_deref(), error) {
        (Some("53100"), _) => Error::DiskFull(path),
        (Some("55P03"), _) => Error::Locked(path),
        (Some("XX001" | "XX002"), error)
        | (None, error @ (sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. })) => {
            Error::Corrupt {
                path,
                why: error.to_string(),
            }
        }
        (Some(code), source) if is_gone(code) => Error::Unreachable { path, source },
        (
            None,
            source @ (sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut),
        ) => Error::Unreachable { path, source },
        (_, source) => Error::Database { path, source },
    }
}
