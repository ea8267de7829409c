//! What a service left for its next start: sessions, and the keys of executed requests.

use std::collections::HashSet;

use super::store::Write;
use super::{Row, TenantName, Tenants, TenantsError, Value, decode};

const KEEP: &str = "INSERT OR REPLACE INTO sessions (id, tenant, record, snapshot, why) \
     VALUES ($1, $2, $3, $4, $5)";

const KEEP_KEY: &str = "INSERT INTO request_keys (tenant, key, hash) VALUES ($1, $2, $3)";

/// A session of an earlier service.
#[derive(Clone, Debug)]
pub(crate) struct KeptSession {
    pub(crate) id: String,
    pub(crate) tenant: TenantName,
    /// Its options, as JSON.
    pub(crate) record: String,
    pub(crate) saved: Saved,
}

/// The `Idempotency-Key` of a request that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    pub(crate) tenant: TenantName,
    pub(crate) key: String,
    /// Of the request.
    pub(crate) hash: [u8; 32],
}

/// What is left of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    /// The name of its snapshot.
    Snapshot(String),
    /// Nothing, and why.
    Lost(String),
}

impl Tenants {
    /// Writes down all sessions before the first one is saved. Those of earlier stops are forgotten: this service has
    /// reported which of them were lost.
    pub(crate) async fn list_sessions(&self, all: &[KeptSession]) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.own.write("tenants.keep_sessions").await?;
            transaction.execute("DELETE FROM sessions", &[]).await?;
            for session in all {
                keep(&mut transaction, session).await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.own.fault(error))
    }

    /// Writes down what became of one session.
    pub(crate) async fn keep_session(&self, session: &KeptSession) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.own.write("tenants.keep_sessions").await?;
            keep(&mut transaction, session).await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.own.fault(error))
    }

    /// Forgets a session that other nodes have now.
    pub(crate) async fn forget_session(&self, id: &str) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.own.write("tenants.keep_sessions").await?;
            let forget = "DELETE FROM sessions WHERE id = $1";
            transaction.execute(forget, &[Value::Text(id)]).await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.own.fault(error))
    }

    /// The sessions of earlier services.
    pub(crate) async fn kept_sessions(&self) -> Result<Vec<KeptSession>, TenantsError> {
        let all = "SELECT id, tenant, record, snapshot, why FROM sessions";
        let rows = self.own.fetch(all, &[]).await;
        let read = |row: &Row| {
            let why: Option<String> = row.get(4)?;
            Ok(KeptSession {
                id: row.get(0)?,
                tenant: row.get::<String>(1)?.parse().map_err(decode)?,
                record: row.get(2)?,
                saved: match row.get(3)? {
                    Some(snapshot) => Saved::Snapshot(snapshot),
                    None => Saved::Lost(why.unwrap_or_default()),
                },
            })
        };
        let sessions = rows.and_then(|rows| rows.iter().map(read).collect());
        sessions.map_err(|error| self.own.fault(error))
    }

    /// Writes down which requests were executed, in place of those of an earlier stop.
    pub(crate) async fn keep_request_keys(&self, keys: &[RequestKey]) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.own.write("tenants.keep_request_keys").await?;
            transaction.execute("DELETE FROM request_keys", &[]).await?;
            for RequestKey { tenant, key, hash } in keys {
                let tenant = Value::Text(tenant.as_str());
                let values = [tenant, Value::Text(key), Value::Bytes(hash)];
                transaction.execute(KEEP_KEY, &values).await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.own.fault(error))
    }

    /// Which requests the service before this one had executed, without those in `run_keys`.
    pub(crate) async fn request_keys(&self) -> Result<Vec<RequestKey>, TenantsError> {
        let all = "SELECT tenant, key, hash FROM request_keys ORDER BY rowid";
        let rows = self.own.fetch(all, &[]).await;
        let read = |row: &Row| {
            let hash: Vec<u8> = row.get(2)?;
            Ok(RequestKey {
                tenant: row.get::<String>(0)?.parse().map_err(decode)?,
                key: row.get(1)?,
                hash: hash
                    .try_into()
                    .map_err(|_| decode("a hash of another length".into()))?,
            })
        };
        let keys: sqlx::Result<Vec<_>> = rows.and_then(|rows| rows.iter().map(read).collect());
        let mut keys = keys.map_err(|error| self.own.fault(error))?;
        let of_runs = self.store.fetch("SELECT tenant, key FROM run_keys", &[]);
        let of_runs = of_runs.await.and_then(|rows| {
            let read = |row: &Row| Ok((row.get(0)?, row.get(1)?));
            rows.iter().map(read).collect()
        });
        let of_runs: HashSet<(String, String)> = of_runs.map_err(|error| self.fault(error))?;
        keys.retain(|one| !of_runs.contains(&(one.tenant.as_str().to_owned(), one.key.clone())));
        Ok(keys)
    }
}

async fn keep(transaction: &mut Write, session: &KeptSession) -> sqlx::Result<()> {
    let (snapshot, why) = match &session.saved {
        Saved::Snapshot(snapshot) => (Some(snapshot.as_str()), None),
        Saved::Lost(why) => (None, Some(why.as_str())),
    };
    let values = [
        Value::Text(&session.id),
        Value::Text(session.tenant.as_str()),
        Value::Text(&session.record),
        Value::MaybeText(snapshot),
        Value::MaybeText(why),
    ];
    transaction.execute(KEEP, &values).await.map(drop)
}
