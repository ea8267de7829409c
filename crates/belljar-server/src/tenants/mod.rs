//! Keys and their tenants, in a SQLite file; quotas and use of tenants; the audit log.
//!
//! A key is `bj_PREFIX_SECRET`. The secret is 256 random bits, so SHA-256 is enough to keep it by: there is
//! nothing to guess that a slow hash would make harder, as there is with passwords, and each request would
//! pay for the slowness.

mod name;
mod quota;
mod records;
mod sessions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar_journal::{StorageFault, WriteTransaction};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Row as _};
use subtle::ConstantTimeEq as _;

pub use name::{Scope, TenantName};
pub use quota::{Amounts, Quota};
pub use records::AuditEvent;
pub(crate) use records::{Act, SERVICE};
pub(crate) use sessions::{KeptSession, RequestKey, Saved};

use crate::lock::lock;
use crate::node::{make_directory, make_private_file, random_hex};

/// How long a key that was looked up is believed. Another process may revoke it meanwhile.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most keys that are remembered between requests.
const MAX_KNOWN: usize = 10_000;

const READERS: u32 = 2;

/// How exactly it is known when a key was last used, in seconds: each time costs a write.
const USE_INTERVAL: i64 = 60;

const LIST: &str = "SELECT prefix, tenant, scopes, created, revoked, hash, expires, used FROM keys \
                    ORDER BY created, prefix";

const FIND: &str = "SELECT prefix, tenant, scopes, created, revoked, hash, expires, used FROM keys \
                    WHERE prefix = $1";

/// Error of reading or writing keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TenantsError {
    /// Unusable directory or file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Unusable database.
    #[error("{}: {source}", path.display())]
    Database {
        /// Which.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
    /// Database of a newer version.
    #[error("`{}` was written by a newer version of Belljar\nhint: use that version, or another data \
     directory", .0.display())]
    Newer(PathBuf),
}

impl TenantsError {
    /// The storage fault, if it is one: a retry may succeed.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        match self {
            Self::Io { source, .. } => StorageFault::from_io(source),
            Self::Database { source, .. } => StorageFault::from_database(source),
            Self::Newer(_) => None,
        }
    }
}

/// A stored key: everything except the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Prefix of the key.
    pub prefix: String,
    /// Tenant of the key.
    pub tenant: TenantName,
    /// Scopes of the key.
    pub scopes: Vec<Scope>,
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// Revocation time, in seconds since 1970.
    pub revoked: Option<i64>,
    /// Expiry time, in seconds since 1970; never if absent.
    pub expires: Option<i64>,
    /// Time of the last use, in seconds since 1970, to about a minute.
    pub used: Option<i64>,
}

impl KeyInfo {
    /// Whether it is neither revoked nor expired.
    pub fn is_valid(&self) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| expires > now())
    }
}

/// A new key, complete: it cannot be shown again.
#[derive(Clone)]
pub struct NewKey {
    /// `bj_PREFIX_SECRET`.
    pub text: String,
    /// The stored part.
    pub info: KeyInfo,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Known {
    info: KeyInfo,
    hash: [u8; 32],
    seen: Instant,
}

/// A key that was revoked by this process.
#[derive(Clone, Debug)]
struct Revocation {
    at: i64,
    actor: String,
    /// Whether it is on disk.
    is_kept: bool,
}

/// The keys of a service.
#[derive(Debug)]
pub struct Tenants {
    path: PathBuf,
    /// One connection: writes wait for each other here.
    writer: SqlitePool,
    /// Never used for writes, so that no write fault reaches readers.
    readers: SqlitePool,
    known: Mutex<HashMap<String, Known>>,
    /// By prefix. A revocation holds from the moment that it is here, whatever the disk does.
    revocations: Mutex<HashMap<String, Revocation>>,
    /// Times of last use that are not on disk, by prefix.
    uses: Mutex<HashMap<String, i64>>,
}

impl Tenants {
    /// Opens `tenants.sqlite` in the data directory of a service; none if there is no such file.
    pub async fn open_existing(data: &Path) -> Result<Option<Self>, TenantsError> {
        if data.join("tenants.sqlite").exists() {
            return Self::open(data).await.map(Some);
        }
        Ok(None)
    }

    /// Opens `tenants.sqlite` in the data directory of a service, and creates both if missing.
    pub async fn open(data: &Path) -> Result<Self, TenantsError> {
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
        Ok(Self {
            readers: readers.map_err(fault)?,
            path,
            writer,
            known: Mutex::default(),
            revocations: Mutex::default(),
            uses: Mutex::default(),
        })
    }

    /// Creates the first key, with all scopes, if there has never been one.
    pub async fn first_key(&self) -> Result<Option<NewKey>, TenantsError> {
        let made = async {
            let mut transaction = self.write("tenants.create_key").await?;
            let count: i64 = sqlx::query("SELECT count(*) FROM keys")
                .fetch_one(&mut *transaction)
                .await?
                .try_get(0)?;
            if count > 0 {
                transaction.roll_back().await?;
                return Ok(None);
            }
            let tenant = TenantName::FIRST.parse().map_err(decode)?;
            let key = insert(&mut transaction, SERVICE, &tenant, &Scope::ALL, None).await?;
            transaction.commit().await?;
            Ok(Some(key))
        };
        made.await.map_err(|error| self.fault(error))
    }

    /// Creates a key, valid for this time if one is given. The tenant need not have had one before.
    pub async fn create_key(
        &self,
        tenant: &TenantName,
        scopes: &[Scope],
        lifetime: Option<Duration>,
    ) -> Result<NewKey, TenantsError> {
        self.create_key_by(records::COMMAND_LINE, tenant, scopes, lifetime)
            .await
    }

    pub(crate) async fn create_key_by(
        &self,
        actor: &str,
        tenant: &TenantName,
        scopes: &[Scope],
        lifetime: Option<Duration>,
    ) -> Result<NewKey, TenantsError> {
        let lifetime = lifetime.map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        let expires = lifetime.map(|seconds| now().saturating_add(seconds));
        let made = async {
            let mut transaction = self.write("tenants.create_key").await?;
            let key = insert(&mut transaction, actor, tenant, scopes, expires).await?;
            transaction.commit().await?;
            Ok(key)
        };
        made.await.map_err(|error| self.fault(error))
    }

    /// All keys, oldest first.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>, TenantsError> {
        let rows = sqlx::query(LIST).fetch_all(&self.readers).await;
        let rows = rows.map_err(|error| self.fault(error))?;
        let keys = rows.iter().map(|row| Ok(self.as_revoked(read(row)?).info));
        let keys: Result<_, _> = keys.collect();
        keys.map_err(|error| self.fault(error))
    }

    /// Revokes a key by its prefix. False if there is none, or if it was revoked before.
    ///
    /// An error means that it is not on disk. This process refuses the key nonetheless, and the
    /// service tries again.
    pub async fn revoke(&self, prefix: &str) -> Result<bool, TenantsError> {
        self.revoke_by(records::COMMAND_LINE, prefix).await
    }

    pub(crate) async fn revoke_by(&self, actor: &str, prefix: &str) -> Result<bool, TenantsError> {
        let revocation = Revocation {
            at: now(),
            actor: actor.to_owned(),
            is_kept: false,
        };
        // First: from here on the key is refused, whatever becomes of the rest.
        let revocation = {
            let mut revocations = self.revocations();
            let noted = revocations.entry(prefix.to_owned());
            noted.or_insert(revocation).clone()
        };
        // Where nobody can tell whether there is such a key, none with this prefix is let in.
        if let Ok(found) = self.find(prefix).await
            && found.is_none_or(|known| known.info.revoked.is_some())
        {
            self.revocations().remove(prefix);
            return Ok(false);
        }
        self.keep_revocation(prefix, &revocation).await
    }

    /// Writes the revocations to disk that could not be written when they were made.
    pub(crate) async fn keep_revocations(&self) -> Result<(), TenantsError> {
        let unkept: Vec<(String, Revocation)> = {
            let revocations = self.revocations();
            let unkept = revocations.iter().filter(|(_, made)| !made.is_kept);
            unkept
                .map(|(prefix, made)| (prefix.clone(), made.clone()))
                .collect()
        };
        for (prefix, revocation) in unkept {
            self.keep_revocation(&prefix, &revocation).await?;
        }
        Ok(())
    }

    /// False if the disk has no such key, or one that was revoked before.
    async fn keep_revocation(
        &self,
        prefix: &str,
        Revocation { at, actor, .. }: &Revocation,
    ) -> Result<bool, TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.revoke_key").await?;
            let revoked = sqlx::query(
                "UPDATE keys SET revoked = $1 WHERE prefix = $2 AND revoked IS NULL RETURNING tenant",
            )
            .bind(at)
            .bind(prefix)
            .fetch_optional(&mut *transaction)
            .await?;
            let Some(row) = revoked else {
                transaction.roll_back().await?;
                return Ok(false);
            };
            let tenant = row.try_get::<String, _>(0)?.parse().map_err(decode)?;
            let act = Act {
                actor,
                what: "key_revoked",
                tenant: Some(&tenant),
                detail: prefix,
            };
            records::write(&mut transaction, act).await?;
            transaction.commit().await?;
            Ok(true)
        };
        let done = done.await.map_err(|error| self.fault(error))?;
        if let Some(revocation) = self.revocations().get_mut(prefix) {
            revocation.is_kept = true;
        }
        Ok(done)
    }

    /// Whose key this is; `None` if it is no key, or a revoked one.
    pub(crate) async fn check(&self, text: &str) -> Result<Option<KeyInfo>, TenantsError> {
        let Some((prefix, secret)) = text
            .strip_prefix("bj_")
            .and_then(|rest| rest.split_once('_'))
        else {
            return Ok(None);
        };
        let Some(known) = self.look_up(prefix).await? else {
            return Ok(None);
        };
        let given: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let same: bool = given.ct_eq(&known.hash).into();
        if !same || !known.info.is_valid() {
            return Ok(None);
        }
        let now = now();
        if known
            .info
            .used
            .is_none_or(|used| now - used >= USE_INTERVAL)
        {
            lock(&self.uses).insert(known.info.prefix.clone(), now);
        }
        Ok(Some(known.info))
    }

    /// The key with this prefix, if it is good.
    pub(crate) async fn find_valid(&self, prefix: &str) -> Result<Option<KeyInfo>, TenantsError> {
        let known = self.look_up(prefix).await?;
        Ok(known.map(|known| known.info).filter(KeyInfo::is_valid))
    }

    /// Whether a key that was good is still good.
    pub(crate) async fn is_valid(&self, prefix: &str) -> bool {
        // Where nobody can tell, nobody is let in.
        let known = self.look_up(prefix).await.ok().flatten();
        known.is_some_and(|known| known.info.is_valid())
    }

    /// Writes when keys were last used.
    pub(crate) async fn keep_uses(&self) -> Result<(), TenantsError> {
        let uses = std::mem::take(&mut *lock(&self.uses));
        if uses.is_empty() {
            return Ok(());
        }
        let done = async {
            let mut transaction = self.write("tenants.keep_uses").await?;
            for (prefix, at) in &uses {
                sqlx::query("UPDATE keys SET used = $1 WHERE prefix = $2")
                    .bind(at)
                    .bind(prefix)
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        };
        let done = done.await;
        if done.is_err() {
            // The next time tries again.
            let mut newer = lock(&self.uses);
            for (prefix, at) in uses {
                newer.entry(prefix).or_insert(at);
            }
        }
        done.map_err(|error| self.fault(error))
    }

    async fn look_up(&self, prefix: &str) -> Result<Option<Known>, TenantsError> {
        let known = self.known().get(prefix).cloned();
        if let Some(known) = known.filter(|known| known.seen.elapsed() < BELIEVED) {
            return Ok(Some(self.as_revoked(known)));
        }
        let known = self.find(prefix).await?;
        let mut all = self.known();
        match &known {
            Some(found) => {
                if all.len() >= MAX_KNOWN {
                    all.clear();
                }
                all.insert(prefix.to_owned(), found.clone());
            }
            None => drop(all.remove(prefix)),
        }
        drop(all);
        Ok(known.map(|known| self.as_revoked(known)))
    }

    /// A key as the disk has it.
    async fn find(&self, prefix: &str) -> Result<Option<Known>, TenantsError> {
        let row = sqlx::query(FIND)
            .bind(prefix)
            .fetch_optional(&self.readers)
            .await;
        let known = row.and_then(|row| row.as_ref().map(read).transpose());
        known.map_err(|error| self.fault(error))
    }

    /// A key that the disk, or what is remembered of it, may still have as valid.
    fn as_revoked(&self, mut known: Known) -> Known {
        if known.info.revoked.is_none() {
            let revocation = self
                .revocations()
                .get(&known.info.prefix)
                .map(|made| made.at);
            known.info.revoked = revocation;
        }
        known
    }

    /// Begins a write; the name is that of its failpoint.
    async fn write(&self, name: &'static str) -> sqlx::Result<WriteTransaction> {
        WriteTransaction::begin(&self.writer, name).await
    }

    fn revocations(&self) -> MutexGuard<'_, HashMap<String, Revocation>> {
        self.revocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, source: sqlx::Error) -> TenantsError {
        TenantsError::Database {
            path: self.path.clone(),
            source,
        }
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    actor: &str,
    tenant: &TenantName,
    scopes: &[Scope],
    expires: Option<i64>,
) -> sqlx::Result<NewKey> {
    let prefix = random_hex(4).map_err(sqlx::Error::Io)?;
    let secret = random_hex(32).map_err(sqlx::Error::Io)?;
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    let names: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    let created = now();
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    sqlx::query(
        "INSERT INTO keys (prefix, tenant, scopes, hash, created, expires) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(&prefix)
    .bind(tenant.as_str())
    .bind(names.join(" "))
    .bind(hash.as_slice())
    .bind(created)
    .bind(expires)
    .execute(&mut *connection)
    .await?;
    let act = Act {
        actor,
        what: "key_created",
        tenant: Some(tenant),
        detail: &format!("{prefix} {}", names.join(",")),
    };
    records::write(connection, act).await?;
    Ok(NewKey {
        text: format!("bj_{prefix}_{secret}"),
        info: KeyInfo {
            prefix,
            tenant: tenant.clone(),
            scopes,
            created,
            revoked: None,
            expires,
            used: None,
        },
    })
}

fn read(row: &SqliteRow) -> sqlx::Result<Known> {
    let scopes: String = row.try_get(2)?;
    let scopes: Result<_, _> = scopes.split_whitespace().map(str::parse).collect();
    let hash: Vec<u8> = row.try_get(5)?;
    Ok(Known {
        info: KeyInfo {
            prefix: row.try_get(0)?,
            tenant: row.try_get::<String, _>(1)?.parse().map_err(decode)?,
            scopes: scopes.map_err(decode)?,
            created: row.try_get(3)?,
            revoked: row.try_get(4)?,
            expires: row.try_get(6)?,
            used: row.try_get(7)?,
        },
        hash: hash
            .try_into()
            .map_err(|_| decode("a hash of another length".into()))?,
        seen: Instant::now(),
    })
}

/// Brings the schema up to date; false if it is newer than what is known here.
async fn migrate(pool: &SqlitePool) -> sqlx::Result<bool> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let found: i64 = sqlx::query("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await?
        .try_get(0)?;
    let migrations = [
        [include_str!("0001.sql"), "PRAGMA user_version = 1"],
        [include_str!("0002.sql"), "PRAGMA user_version = 2"],
        [include_str!("0003.sql"), "PRAGMA user_version = 3"],
    ];
    for (version, statements) in (1..).zip(migrations) {
        if found < version {
            for statement in statements {
                sqlx::raw_sql(statement).execute(&mut *transaction).await?;
            }
        }
    }
    transaction.commit().await?;
    Ok(found <= 3)
}

fn decode(why: String) -> sqlx::Error {
    sqlx::Error::Decode(why.into())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
