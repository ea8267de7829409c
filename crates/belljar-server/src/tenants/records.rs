//! Records of tenants besides their keys: quotas, use, and the audit log.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use utoipa::ToSchema;

use super::store::Write;
use super::{Amounts, Quota, Row, TenantName, Tenants, TenantsError, Value, decode, now};

/// The actor of what is done without a key.
pub(super) const COMMAND_LINE: &str = "command line";

/// The actor of what the service does itself.
pub(crate) const SERVICE: &str = "service";

/// How long it is known which run a request has begun, and which node carries it out, in seconds.
pub(super) const KEPT: i64 = 24 * 60 * 60;

const SET_QUOTA: &str = "INSERT INTO quotas (tenant, quota, amount) VALUES ($1, $2, $3) \
     ON CONFLICT (tenant, quota) DO UPDATE SET amount = excluded.amount";

const REMOVE_QUOTA: &str = "DELETE FROM quotas WHERE tenant = $1 AND quota = $2";

const AUDIT: &str = "SELECT id, at, actor, act, tenant, detail FROM audit WHERE id < $1 \
     ORDER BY id DESC LIMIT $2";

const RECORD: &str =
    "INSERT INTO audit (at, actor, act, tenant, detail) VALUES ($1, $2, $3, $4, $5)";

const RUN_OF_KEY: &str =
    "SELECT run, hash FROM run_keys WHERE tenant = $1 AND key = $2 AND at > $3";

const KEEP_RUN_OF_KEY: &str = "INSERT INTO run_keys (tenant, key, hash, run, at) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, key) DO NOTHING RETURNING run";

const KEEP_SPENT: &str = "INSERT INTO spent (day, tenant, quota, amount) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (day, tenant, quota) DO UPDATE SET amount = excluded.amount";

/// Of a node, which alone writes these rows.
const KEEP_SPENT_OF_NODE: &str = "INSERT INTO spent (day, tenant, quota, amount, node) \
     VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (day, tenant, quota, node) DO UPDATE SET amount = excluded.amount";

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
    /// Object: prefix of a key, quota and amount, isolation, or id of a session or run.
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
    /// All tenants that have had a key, or have a quota or a least isolation.
    pub async fn names(&self) -> Result<Vec<TenantName>, TenantsError> {
        let all = "SELECT tenant FROM keys UNION SELECT tenant FROM quotas \
                   UNION SELECT tenant FROM least_isolation ORDER BY tenant";
        let rows = self.store.fetch(all, &[]).await;
        let names = rows.and_then(|rows| rows.iter().map(|row| name(row, 0)).collect());
        names.map_err(|error| self.fault(error))
    }

    /// The quotas of all tenants that have any.
    pub async fn quotas(&self) -> Result<HashMap<TenantName, Amounts>, TenantsError> {
        let all = "SELECT tenant, quota, amount FROM quotas";
        let rows = self.store.fetch(all, &[]).await;
        let all = rows.and_then(|rows| amounts(&rows));
        all.map_err(|error| self.fault(error))
    }

    /// Use of all tenants on a day, as far as it is on disk: a running service writes it every two seconds.
    pub async fn spent(&self, day: i64) -> Result<HashMap<TenantName, Amounts>, TenantsError> {
        let all = "SELECT tenant, quota, amount FROM spent WHERE day = $1";
        let rows = self.store.fetch(all, &[Value::Number(day)]).await;
        let all = rows.and_then(|rows| amounts(&rows));
        all.map_err(|error| self.fault(error))
    }

    /// The same, apart: of this service, and of other nodes.
    pub(crate) async fn spent_here_and_elsewhere(
        &self,
        day: i64,
    ) -> Result<[HashMap<TenantName, Amounts>; 2], TenantsError> {
        if !self.store.is_shared() {
            return Ok([self.spent(day).await?, HashMap::new()]);
        }
        let all = "SELECT tenant, quota, amount, node FROM spent WHERE day = $1";
        let rows = self.store.fetch(all, &[Value::Number(day)]).await;
        let both = rows.and_then(|rows| {
            let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
            for row in rows {
                let is_here = row.get::<String>(3)? == self.node;
                (if is_here { &mut here } else { &mut elsewhere }).push(row);
            }
            Ok([amounts(&here)?, amounts(&elsewhere)?])
        });
        both.map_err(|error| self.fault(error))
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
            let mut transaction = self.store.act("tenants.set_quotas").await?;
            for (quota, amount) in changes {
                let amount = amount.map(|amount| i64::try_from(amount).unwrap_or(i64::MAX));
                let names = [Value::Text(tenant.as_str()), Value::Text(quota.as_str())];
                match amount {
                    Some(amount) => {
                        let [tenant, quota] = names;
                        let values = [tenant, quota, Value::Number(amount)];
                        transaction.execute(SET_QUOTA, &values).await?
                    }
                    None => transaction.execute(REMOVE_QUOTA, &names).await?,
                };
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
        let values = [
            Value::Number(before.unwrap_or(i64::MAX)),
            Value::Number(i64::try_from(limit).unwrap_or(i64::MAX)),
        ];
        let rows = self.store.fetch(AUDIT, &values).await;
        let read = |row: &Row| {
            Ok(AuditEvent {
                id: row.get(0)?,
                at: row.get(1)?,
                actor: row.get(2)?,
                act: row.get(3)?,
                tenant: row.get(4)?,
                detail: row.get(5)?,
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
        let found = async {
            let values = [
                Value::Text(tenant.as_str()),
                Value::Text(key),
                Value::Number(self.store.now().await? - KEPT),
            ];
            let rows = self.store.fetch(RUN_OF_KEY, &values).await?;
            let read = |row: &Row| Ok((row.get(0)?, row.get(1)?));
            rows.first().map(read).transpose()
        };
        found.await.map_err(|error| self.fault(error))
    }

    /// Says which run a request with this key is about to begin. False if another node has just said so.
    pub(crate) async fn keep_run_of_key(
        &self,
        tenant: &TenantName,
        key: &str,
        hash: &[u8],
        run: &str,
    ) -> Result<bool, TenantsError> {
        let done = async {
            let now = self.store.now().await?;
            let mut transaction = self.store.write("tenants.keep_run_key").await?;
            let forget = "DELETE FROM run_keys WHERE at <= $1";
            let old = Value::Number(now - KEPT);
            transaction.execute(forget, &[old]).await?;
            let values = [
                Value::Text(tenant.as_str()),
                Value::Text(key),
                Value::Bytes(hash),
                Value::Text(run),
                Value::Number(now),
            ];
            let kept = transaction.execute(KEEP_RUN_OF_KEY, &values).await?;
            transaction.commit().await?;
            Ok(!kept.is_empty())
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// The number of the last audit event: who sees another one looks whether quotas have changed.
    pub(crate) async fn last_act(&self) -> Result<i64, TenantsError> {
        let last = "SELECT coalesce(max(id), 0) FROM audit";
        let rows = self.store.fetch(last, &[]).await;
        let last = rows.and_then(|rows| rows.first().map_or(Ok(0), |row| row.get(0)));
        last.map_err(|error| self.fault(error))
    }

    pub(crate) async fn record(&self, act: Act<'_>) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.store.act("tenants.record").await?;
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
            let mut transaction = self.store.write("tenants.keep_spent").await?;
            for (day, tenant, amounts) in all {
                for (quota, amount) in amounts {
                    let values = [
                        Value::Number(*day),
                        Value::Text(tenant.as_str()),
                        Value::Text(quota.as_str()),
                        Value::Number(i64::try_from(*amount).unwrap_or(i64::MAX)),
                        Value::Text(&self.node),
                    ];
                    if self.store.is_shared() {
                        transaction.execute(KEEP_SPENT_OF_NODE, &values).await?;
                    } else {
                        transaction.execute(KEEP_SPENT, &values[..4]).await?;
                    }
                }
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }
}

pub(super) async fn write(transaction: &mut Write, act: Act<'_>) -> sqlx::Result<()> {
    let values = [
        Value::Number(now()),
        Value::Text(act.actor),
        Value::Text(act.what),
        Value::MaybeText(act.tenant.map(TenantName::as_str)),
        Value::Text(act.detail),
    ];
    transaction.execute(RECORD, &values).await.map(drop)
}

fn name(row: &Row, index: usize) -> sqlx::Result<TenantName> {
    row.get::<String>(index)?.parse().map_err(decode)
}

/// The sums of the rows.
fn amounts(rows: &[Row]) -> sqlx::Result<HashMap<TenantName, Amounts>> {
    let mut all: HashMap<TenantName, Amounts> = HashMap::new();
    for row in rows {
        // One of a newer Belljar is none of ours.
        if let Ok(quota) = row.get::<String>(1)?.parse() {
            let amount = u64::try_from(row.get::<i64>(2)?).unwrap_or(0);
            let sum = all.entry(name(row, 0)?).or_default().entry(quota);
            let sum = sum.or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    Ok(all)
}
