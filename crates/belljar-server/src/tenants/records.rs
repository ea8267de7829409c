//! Records of tenants besides their keys: quotas, use, and the audit log.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use utoipa::ToSchema;

use super::{Amounts, Quota, TenantName, Tenants, TenantsError, decode, now};

/// The actor of what is done without a key.
pub(super) const COMMAND_LINE: &str = "command line";

/// The actor of what the service does itself.
pub(crate) const SERVICE: &str = "service";

/// How long it is known which run a request has begun, in seconds.
const KEPT: i64 = 24 * 60 * 60;

/// An audit event: an action of an admin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditEvent {
    /// Number of the event, in order.
    pub id: i64,
    /// Time, in seconds since 1970.
    pub at: i64,
    /// The prefix of a key, `command line`, or `service`.
    pub actor: String,
    /// Action, such as `key_created`.
    pub act: String,
    /// Affected tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Object: prefix of a key, quota and amount, or id of a session.
    pub detail: String,
}

/// Something to write down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act<'a> {
    pub(crate) actor: &'a str,
    pub(crate) what: &'static str,
    pub(crate) tenant: Option<&'a TenantName>,
    pub(crate) detail: &'a str,
}

impl Tenants {
    /// All tenants that have had a key or have a quota.
    pub async fn names(&self) -> Result<Vec<TenantName>, TenantsError> {
        let all = "SELECT tenant FROM keys UNION SELECT tenant FROM quotas ORDER BY tenant";
        let rows = sqlx::query(all).fetch_all(&self.readers).await;
        let names = rows.and_then(|rows| rows.iter().map(|row| name(row, 0)).collect());
        names.map_err(|error| self.fault(error))
    }

    /// The quotas of all tenants that have any.
    pub async fn quotas(&self) -> Result<HashMap<TenantName, Amounts>, TenantsError> {
        let rows = sqlx::query("SELECT tenant, quota, amount FROM quotas")
            .fetch_all(&self.readers)
            .await;
        let all = rows.and_then(|rows| amounts(&rows));
        all.map_err(|error| self.fault(error))
    }

    /// Use of all tenants on a day, as far as it is on disk: a running service writes it every two seconds.
    pub async fn spent(&self, day: i64) -> Result<HashMap<TenantName, Amounts>, TenantsError> {
        let rows = sqlx::query("SELECT tenant, quota, amount FROM spent WHERE day = $1")
            .bind(day)
            .fetch_all(&self.readers)
            .await;
        let all = rows.and_then(|rows| amounts(&rows));
        all.map_err(|error| self.fault(error))
    }

    /// Sets quotas of a tenant; a quota without an amount is removed. A running service applies this
    /// within two seconds.
    pub async fn set_quotas(
        &self,
        tenant: &TenantName,
        changes: &BTreeMap<Quota, Option<u64>>,
    ) -> Result<(), TenantsError> {
        self.set_quotas_by(COMMAND_LINE, tenant, changes).await
    }

    pub(crate) async fn set_quotas_by(
        &self,
        actor: &str,
        tenant: &TenantName,
        changes: &BTreeMap<Quota, Option<u64>>,
    ) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.set_quotas").await?;
            for (quota, amount) in changes {
                let amount = amount.map(|amount| i64::try_from(amount).unwrap_or(i64::MAX));
                let query = match amount {
                    Some(_) => {
                        "INSERT OR REPLACE INTO quotas (tenant, quota, amount) VALUES ($1, $2, $3)"
                    }
                    None => "DELETE FROM quotas WHERE tenant = $1 AND quota = $2",
                };
                let mut query = sqlx::query(query)
                    .bind(tenant.as_str())
                    .bind(quota.as_str());
                if let Some(amount) = amount {
                    query = query.bind(amount);
                }
                query.execute(&mut *transaction).await?;
                let amount = amount.map_or_else(|| "none".to_owned(), |amount| amount.to_string());
                let act = Act {
                    actor,
                    what: "quota_set",
                    tenant: Some(tenant),
                    detail: &format!("{quota}={amount}"),
                };
                write(&mut transaction, act).await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Audit events, newest first, optionally before a given one.
    pub async fn audit(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AuditEvent>, TenantsError> {
        let rows = sqlx::query(
            "SELECT id, at, actor, act, tenant, detail FROM audit WHERE id < $1 ORDER BY id DESC LIMIT $2",
        )
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.readers)
        .await;
        let read = |row: &SqliteRow| {
            Ok(AuditEvent {
                id: row.try_get(0)?,
                at: row.try_get(1)?,
                actor: row.try_get(2)?,
                act: row.try_get(3)?,
                tenant: row.try_get(4)?,
                detail: row.try_get(5)?,
            })
        };
        let events = rows.and_then(|rows| rows.iter().map(read).collect());
        events.map_err(|error| self.fault(error))
    }

    /// The run that a request with this key has begun, or was about to begin: its id, and the hash of the request.
    pub(crate) async fn run_of_key(
        &self,
        tenant: &TenantName,
        key: &str,
    ) -> Result<Option<(String, Vec<u8>)>, TenantsError> {
        let row = sqlx::query(
            "SELECT run, hash FROM run_keys WHERE tenant = $1 AND key = $2 AND at > $3",
        )
        .bind(tenant.as_str())
        .bind(key)
        .bind(now() - KEPT)
        .fetch_optional(&self.readers)
        .await;
        let found = row.and_then(|row| {
            row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
                .transpose()
        });
        found.map_err(|error| self.fault(error))
    }

    /// Says which run a request with this key is about to begin.
    pub(crate) async fn keep_run_of_key(
        &self,
        tenant: &TenantName,
        key: &str,
        hash: &[u8],
        run: &str,
    ) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.keep_run_key").await?;
            sqlx::query("DELETE FROM run_keys WHERE at <= $1")
                .bind(now() - KEPT)
                .execute(&mut *transaction)
                .await?;
            sqlx::query(
                "INSERT INTO run_keys (tenant, key, hash, run, at) VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(tenant.as_str())
            .bind(key)
            .bind(hash)
            .bind(run)
            .bind(now())
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Notes that the run of a key was deleted. The key is kept: its request must not begin another.
    pub(crate) async fn forget_run(
        &self,
        tenant: &TenantName,
        run: &str,
    ) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.forget_run").await?;
            sqlx::query("UPDATE run_keys SET run = '' WHERE tenant = $1 AND run = $2")
                .bind(tenant.as_str())
                .bind(run)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// The number of the last audit event: who sees another one looks whether quotas have changed.
    pub(crate) async fn last_act(&self) -> Result<i64, TenantsError> {
        let last = sqlx::query("SELECT ifnull(max(id), 0) FROM audit")
            .fetch_one(&self.readers)
            .await;
        let last = last.and_then(|row| row.try_get(0));
        last.map_err(|error| self.fault(error))
    }

    pub(crate) async fn record(&self, act: Act<'_>) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.record").await?;
            write(&mut transaction, act).await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Writes what tenants have used on their days, all of it or nothing.
    pub(crate) async fn keep_spent(
        &self,
        all: &[(i64, TenantName, Amounts)],
    ) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.write("tenants.keep_spent").await?;
            for (day, tenant, amounts) in all {
                for (quota, amount) in amounts {
                    sqlx::query(
                        "INSERT OR REPLACE INTO spent (day, tenant, quota, amount) VALUES ($1, $2, $3, $4)",
                    )
                    .bind(day)
                    .bind(tenant.as_str())
                    .bind(quota.as_str())
                    .bind(i64::try_from(*amount).unwrap_or(i64::MAX))
                    .execute(&mut *transaction)
                    .await?;
                }
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }
}

pub(super) async fn write(connection: &mut SqliteConnection, act: Act<'_>) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO audit (at, actor, act, tenant, detail) VALUES ($1, $2, $3, $4, $5)")
        .bind(now())
        .bind(act.actor)
        .bind(act.what)
        .bind(act.tenant.map(TenantName::as_str))
        .bind(act.detail)
        .execute(connection)
        .await?;
    Ok(())
}

fn name(row: &SqliteRow, index: usize) -> sqlx::Result<TenantName> {
    row.try_get::<String, _>(index)?.parse().map_err(decode)
}

fn amounts(rows: &[SqliteRow]) -> sqlx::Result<HashMap<TenantName, Amounts>> {
    let mut all: HashMap<TenantName, Amounts> = HashMap::new();
    for row in rows {
        // One of a newer Belljar is none of ours.
        if let Ok(quota) = row.try_get::<String, _>(1)?.parse() {
            let amount = u64::try_from(row.try_get::<i64, _>(2)?).unwrap_or(0);
            all.entry(name(row, 0)?).or_default().insert(quota, amount);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An expired key is refused, and it is known when a valid one was last used.
    #[tokio::test]
    async fn a_key_expires_and_its_last_use_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let none = Tenants::open_existing(&directory.path().join("none")).await;
        assert!(none.unwrap().is_none());
        assert!(!directory.path().join("none").exists());
        let tenants = Tenants::open(directory.path()).await.unwrap();
        let a = "a".parse().unwrap();
        let day = Duration::from_hours(24);
        let valid = tenants.create_key(&a, &[], Some(day)).await.unwrap();
        let expired = tenants.create_key(&a, &[], Some(Duration::ZERO)).await;
        let expired = expired.unwrap();
        assert_eq!(tenants.check(&expired.text).await.unwrap(), None);
        assert!(!tenants.is_valid(&expired.info.prefix).await);
        let found = tenants.check(&valid.text).await.unwrap().unwrap();
        assert_eq!((found.expires, found.used), (valid.info.expires, None));
        tenants.keep_uses().await.unwrap();
        for key in tenants.keys().await.unwrap() {
            assert_eq!(key.used.is_some(), key.prefix == valid.info.prefix);
            assert_eq!(key.is_valid(), key.prefix == valid.info.prefix);
        }
    }

    /// Data of the first version is taken over, and what was done can't be undone by a mistake of ours.
    #[tokio::test]
    async fn an_older_file_is_taken_over_and_audit_events_are_only_added() {
        let directory = tempfile::tempdir().unwrap();
        let tenants = Tenants::open(directory.path()).await.unwrap();
        let a = "a".parse().unwrap();
        tenants.create_key(&a, &[], None).await.unwrap();
        for statement in [
            "DROP TABLE quotas",
            "DROP TABLE spent",
            "DROP TABLE audit",
            "DROP TABLE run_keys",
            "DROP TABLE sessions",
            "DROP TABLE request_keys",
            "ALTER TABLE keys DROP COLUMN expires",
            "ALTER TABLE keys DROP COLUMN used",
            "PRAGMA user_version = 1",
        ] {
            sqlx::raw_sql(statement)
                .execute(&tenants.writer)
                .await
                .unwrap();
        }
        tenants.readers.close().await;
        tenants.writer.close().await;
        let tenants = Tenants::open(directory.path()).await.unwrap();
        assert_eq!(tenants.keys().await.unwrap().len(), 1);
        let changes = [(Quota::Tokens, Some(5)), (Quota::Runs, None)].into();
        tenants.set_quotas(&a, &changes).await.unwrap();
        let quotas = tenants.quotas().await.unwrap();
        assert_eq!(quotas[&a], Amounts::from([(Quota::Tokens, 5)]));
        for statement in ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"] {
            let done = sqlx::raw_sql(statement).execute(&tenants.writer).await;
            assert!(done.is_err(), "{statement}");
        }
        let audit = tenants.audit(None, 10).await.unwrap();
        let details: Vec<_> = audit.iter().map(|event| event.detail.as_str()).collect();
        assert_eq!(details, ["tokens=5", "runs=none"]);
    }
}
