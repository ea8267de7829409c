//! What a service left for its next start: sessions, and the keys of executed requests.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::{TenantName, Tenants, TenantsError, decode};

const KEEP: &str = "INSERT OR REPLACE INTO sessions (id, tenant, record, snapshot, why) \
     VALUES ($1, $2, $3, $4, $5)";

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
            let mut transaction = self.write("tenants.keep_sessions").await?;
            sqlx::query("DELETE FROM sessions")
                .execute(&mut *transaction)
                .await?;
            for session in all {
                keep(session).execute(&mut *transaction).await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Writes down what became of one session.
    pub(crate) async fn keep_session(&self, session: &KeptSession) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.keep_sessions").await?;
            keep(session).execute(&mut *transaction).await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// The sessions of earlier services.
    pub(crate) async fn kept_sessions(&self) -> Result<Vec<KeptSession>, TenantsError> {
        let rows = sqlx::query("SELECT id, tenant, record, snapshot, why FROM sessions")
            .fetch_all(&self.readers)
            .await;
        let read = |row: &SqliteRow| {
            let why: Option<String> = row.try_get(4)?;
            Ok(KeptSession {
                id: row.try_get(0)?,
                tenant: row.try_get::<String, _>(1)?.parse().map_err(decode)?,
                record: row.try_get(2)?,
                saved: match row.try_get(3)? {
                    Some(snapshot) => Saved::Snapshot(snapshot),
                    None => Saved::Lost(why.unwrap_or_default()),
                },
            })
        };
        let sessions = rows.and_then(|rows| rows.iter().map(read).collect());
        sessions.map_err(|error| self.fault(error))
    }

    /// Writes down which requests were executed, in place of those of an earlier stop.
    pub(crate) async fn keep_request_keys(&self, keys: &[RequestKey]) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.keep_request_keys").await?;
            sqlx::query("DELETE FROM request_keys")
                .execute(&mut *transaction)
                .await?;
            for RequestKey { tenant, key, hash } in keys {
                sqlx::query("INSERT INTO request_keys (tenant, key, hash) VALUES ($1, $2, $3)")
                    .bind(tenant.as_str())
                    .bind(key)
                    .bind(hash.as_slice())
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Which requests the service before this one had executed, without those in `run_keys`.
    pub(crate) async fn request_keys(&self) -> Result<Vec<RequestKey>, TenantsError> {
        let rows = sqlx::query(
            "SELECT tenant, key, hash FROM request_keys AS other WHERE NOT EXISTS (SELECT 1 FROM run_keys \
             WHERE tenant = other.tenant AND key = other.key) ORDER BY rowid",
        )
        .fetch_all(&self.readers)
        .await;
        let read = |row: &SqliteRow| {
            let hash: Vec<u8> = row.try_get(2)?;
            Ok(RequestKey {
                tenant: row.try_get::<String, _>(0)?.parse().map_err(decode)?,
                key: row.try_get(1)?,
                hash: hash
                    .try_into()
                    .map_err(|_| decode("a hash of another length".into()))?,
            })
        };
        let keys = rows.and_then(|rows| rows.iter().map(read).collect());
        keys.map_err(|error| self.fault(error))
    }
}

type Query<'a> = sqlx::query::Query<'a, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

fn keep(session: &KeptSession) -> Query<'_> {
    let (snapshot, why) = match &session.saved {
        Saved::Snapshot(snapshot) => (Some(snapshot), None),
        Saved::Lost(why) => (None, Some(why)),
    };
    sqlx::query(KEEP)
        .bind(&session.id)
        .bind(session.tenant.as_str())
        .bind(&session.record)
        .bind(snapshot)
        .bind(why)
}
