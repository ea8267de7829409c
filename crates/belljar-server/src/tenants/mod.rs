//! Keys and their tenants, in a SQLite file or a PostgreSQL database; quotas, use and least isolation of tenants; the
//! audit log.
//!
//! A key is `bj_PREFIX_SECRET`. The secret is 256 random bits, so SHA-256 is enough to keep it by: there is
//! nothing to guess that a slow hash would make harder, as there is with passwords, and each request would
//! pay for the slowness.

mod import;
mod isolation;
mod key_nodes;
mod library;
mod name;
mod quota;
mod records;
mod sessions;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar_journal::StorageFault;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

pub use isolation::{ISOLATION_TIERS, parse_isolation};
pub(crate) use library::{MAX_SHARES, RunLabel, RunLabelChange, ShareInfo, Shared, SharedPart};
pub use name::{Scope, TenantName};
pub use quota::{Amounts, Quota};
pub use records::AuditEvent;
pub(crate) use records::{Act, SERVICE};
pub(crate) use sessions::{KeptSession, RequestKey, Saved};

use crate::lock::lock;
use crate::node::random_hex;
use store::{Row, Store, Value, Write};

/// How long a key that was looked up is believed. Another process may revoke it meanwhile.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most keys that are remembered between requests.
const MAX_KNOWN: usize = 10_000;

/// How exactly it is known when a key was last used, in seconds: each time costs a write.
const USE_INTERVAL: i64 = 60;

const LIST: &str = "SELECT prefix, tenant, scopes, created, revoked, hash, expires, used FROM keys \
                    ORDER BY created, prefix";

const FIND: &str = "SELECT prefix, tenant, scopes, created, revoked, hash, expires, used FROM keys \
                    WHERE prefix = $1";

const INSERT: &str = "INSERT INTO keys (prefix, tenant, scopes, hash, created, expires) \
                      VALUES ($1, $2, $3, $4, $5, $6)";

const KEEP_USE: &str =
    "UPDATE keys SET used = $1 WHERE prefix = $2 AND (used IS NULL OR used < $1)";

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
    /// Records of a single node that a cluster has otherwise.
    #[error(
        "the cluster has other {what} for `{key}`\nhint: make them the same, or import into a new cluster"
    )]
    Differs {
        /// Which kind.
        what: &'static str,
        /// Whose.
        key: String,
    },
    /// Unusable database of a cluster.
    #[error(transparent)]
    Cluster(#[from] belljar_journal::Error),
}

impl TenantsError {
    /// The storage fault, if it is one: a retry may succeed.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        match self {
            Self::Io { source, .. } => StorageFault::from_io(source),
            Self::Database { source, .. } => StorageFault::from_database(source),
            Self::Newer(_) | Self::Differs { .. } => None,
            Self::Cluster(error) => error.storage_fault(),
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
    store: Store,
    /// Where this service leaves what its own next start needs: the same, or a file of this node.
    own: Store,
    /// Whose use of quotas is written; empty where there is one node.
    node: String,
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
        Ok(Self::new(Store::open(data).await?))
    }

    /// Connects to the PostgreSQL database of a cluster, whose tables are made or brought up to date.
    pub async fn connect(database: &str) -> Result<Self, TenantsError> {
        Ok(Self::new(Store::connect(database).await?))
    }

    fn new(store: Store) -> Self {
        Self {
            own: store.clone(),
            store,
            node: String::new(),
            known: Mutex::default(),
            revocations: Mutex::default(),
            uses: Mutex::default(),
        }
    }

    /// Whether other nodes have the same tenants.
    pub(crate) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Serves a node of a cluster, with this id and data directory. Nothing changes for a service alone.
    pub(crate) async fn serve_node(&mut self, id: &str, data: &Path) -> Result<(), TenantsError> {
        if self.store.is_shared() {
            self.own = Store::open(data).await?;
            id.clone_into(&mut self.node);
        }
        Ok(())
    }

    /// Creates the first key, with all scopes, if there has never been one.
    pub async fn first_key(&self) -> Result<Option<NewKey>, TenantsError> {
        let made = async {
            let mut transaction = self.store.act("tenants.create_key").await?;
            let found = "SELECT prefix FROM keys LIMIT 1";
            if !transaction.execute(found, &[]).await?.is_empty() {
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
            let mut transaction = self.store.act("tenants.create_key").await?;
            let key = insert(&mut transaction, actor, tenant, scopes, expires).await?;
            transaction.commit().await?;
            Ok(key)
        };
        made.await.map_err(|error| self.fault(error))
    }

    /// All keys, oldest first.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>, TenantsError> {
        let rows = self.store.fetch(LIST, &[]).await;
        let rows = rows.map_err(|error| self.fault(error))?;
        let now = Instant::now();
        let keys = rows
            .iter()
            .map(|row| Ok(self.as_revoked(read(row, now)?).info));
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
            let mut transaction = self.store.act("tenants.revoke_key").await?;
            let revoke = "UPDATE keys SET revoked = $1 WHERE prefix = $2 AND revoked IS NULL RETURNING tenant";
            let values = [Value::Number(*at), Value::Text(prefix)];
            let revoked = transaction.execute(revoke, &values).await?;
            let Some(row) = revoked.first() else {
                transaction.roll_back().await?;
                return Ok(false);
            };
            let tenant = row.get::<String>(0)?.parse().map_err(decode)?;
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
            let mut transaction = self.store.write("tenants.keep_uses").await?;
            // In one order on each node: then none of them waits for one that waits for it.
            let mut sorted: Vec<(&String, &i64)> = uses.iter().collect();
            sorted.sort_unstable();
            for (prefix, at) in sorted {
                let values = [Value::Number(*at), Value::Text(prefix)];
                transaction.execute(KEEP_USE, &values).await?;
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
        // No other has been made, and not each text is one for PostgreSQL.
        if !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        // What is found is as old as the question, however long the answer takes.
        let asked = Instant::now();
        let rows = self.store.fetch(FIND, &[Value::Text(prefix)]).await;
        let known = rows.and_then(|rows| rows.first().map(|row| read(row, asked)).transpose());
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

    fn revocations(&self) -> MutexGuard<'_, HashMap<String, Revocation>> {
        self.revocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, source: sqlx::Error) -> TenantsError {
        self.store.fault(source)
    }
}

async fn insert(
    transaction: &mut Write,
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
    let values = [
        Value::Text(&prefix),
        Value::Text(tenant.as_str()),
        Value::Text(&names.join(" ")),
        Value::Bytes(&hash),
        Value::Number(created),
        Value::MaybeNumber(expires),
    ];
    transaction.execute(INSERT, &values).await?;
    let act = Act {
        actor,
        what: "key_created",
        tenant: Some(tenant),
        detail: &format!("{prefix} {}", names.join(",")),
    };
    records::write(transaction, act).await?;
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

/// A key, as it was at this time.
fn read(row: &Row, seen: Instant) -> sqlx::Result<Known> {
    let scopes: String = row.get(2)?;
    let scopes: Result<_, _> = scopes.split_whitespace().map(str::parse).collect();
    let hash: Vec<u8> = row.get(5)?;
    Ok(Known {
        info: KeyInfo {
            prefix: row.get(0)?,
            tenant: row.get::<String>(1)?.parse().map_err(decode)?,
            scopes: scopes.map_err(decode)?,
            created: row.get(3)?,
            revoked: row.get(4)?,
            expires: row.get(6)?,
            used: row.get(7)?,
        },
        hash: hash
            .try_into()
            .map_err(|_| decode("a hash of another length".into()))?,
        seen,
    })
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
