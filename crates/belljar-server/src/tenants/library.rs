//! Titles, tags and share links of runs. The journal of a run has no place for them: it ends with the run.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Row, TenantName, Tenants, TenantsError, Value, decode, now};
use crate::node::random_hex;

/// What the token of a share link begins with.
const TOKEN: &str = "bjs_";

/// Maximum share links of a run.
pub(crate) const MAX_SHARES: usize = 100;

const LABELS: &str = "SELECT title, tags, run FROM run_labels WHERE tenant = $1";

const LABEL: &str = "SELECT title, tags FROM run_labels WHERE tenant = $1 AND run = $2";

const SET_LABEL: &str = "INSERT INTO run_labels (tenant, run, title, tags) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (tenant, run) DO UPDATE SET title = excluded.title, tags = excluded.tags";

const FORGET_RUN: &str = "UPDATE run_keys SET run = '' WHERE tenant = $1 AND run = $2";

const FORGET_LABEL: &str = "DELETE FROM run_labels WHERE tenant = $1 AND run = $2";

const SHARES: &str = "SELECT id, step, created, actor FROM run_shares WHERE tenant = $1 AND run = $2 \
     ORDER BY created, id";

const INSERT_SHARE: &str = "INSERT INTO run_shares (id, tenant, run, step, hash, created, actor) \
     VALUES ($1, $2, $3, $4, $5, $6, $7)";

const FIND_SHARE: &str = "SELECT tenant, run, step, hash FROM run_shares WHERE id = $1";

const REVOKE_SHARE: &str =
    "DELETE FROM run_shares WHERE tenant = $1 AND run = $2 AND id = $3 RETURNING id";

const FORGET_SHARES: &str = "DELETE FROM run_shares WHERE tenant = $1 AND run = $2";

/// What people call a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunLabel {
    pub(crate) title: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// Changes of a label; what is absent stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLabelChange {
    /// An empty one removes the title.
    pub(crate) title: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
}

/// What a share link shows of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedPart {
    Run,
    Step(u32),
    /// A value of the answer, by its place in the evidence, from 1.
    Value(u32),
}

impl SharedPart {
    /// As the column `step` has it: a value is below zero, where an older node finds no step and shows nothing.
    fn to_column(self) -> Option<i64> {
        match self {
            Self::Run => None,
            Self::Step(step) => Some(step.into()),
            Self::Value(value) => Some(-i64::from(value)),
        }
    }

    fn read(row: &Row, index: usize) -> sqlx::Result<Self> {
        let Some(number) = row.get::<Option<i64>>(index)? else {
            return Ok(Self::Run);
        };
        let size = u32::try_from(number.unsigned_abs());
        let size = size.map_err(|error| decode(error.to_string()))?;
        Ok(if number < 0 {
            Self::Value(size)
        } else {
            Self::Step(size)
        })
    }
}

/// A share link, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareInfo {
    pub(crate) id: String,
    pub(crate) part: SharedPart,
    /// In seconds since 1970.
    pub(crate) created: i64,
    /// Prefix of the key that made it.
    pub(crate) actor: String,
}

/// What a share link shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) tenant: TenantName,
    pub(crate) run: String,
    pub(crate) part: SharedPart,
}

impl Tenants {
    /// Labels of all runs of a tenant that have one, by the id of the run.
    pub(crate) async fn run_labels(
        &self,
        tenant: &TenantName,
    ) -> Result<HashMap<String, RunLabel>, TenantsError> {
        let values = [Value::Text(tenant.as_str())];
        let rows = self.store.fetch(LABELS, &values).await;
        let read = |row: &Row| Ok((row.get(2)?, label(row)?));
        let labels = rows.and_then(|rows| rows.iter().map(read).collect());
        labels.map_err(|error| self.fault(error))
    }

    /// The label of a run; an empty one if it has none.
    pub(crate) async fn run_label(
        &self,
        tenant: &TenantName,
        run: &str,
    ) -> Result<RunLabel, TenantsError> {
        let values = [Value::Text(tenant.as_str()), Value::Text(run)];
        let rows = self.store.fetch(LABEL, &values).await;
        let found = rows.and_then(|rows| rows.first().map_or(Ok(RunLabel::default()), label));
        found.map_err(|error| self.fault(error))
    }

    /// Changes the label of a run.
    pub(crate) async fn relabel_run(
        &self,
        tenant: &TenantName,
        run: &str,
        change: RunLabelChange,
    ) -> Result<RunLabel, TenantsError> {
        let done = async {
            let mut transaction = self.store.write("tenants.relabel_run").await?;
            let ids = [Value::Text(tenant.as_str()), Value::Text(run)];
            let rows = transaction.execute(LABEL, &ids).await?;
            let mut changed = rows.first().map_or(Ok(RunLabel::default()), label)?;
            if let Some(title) = change.title {
                changed.title = (!title.is_empty()).then_some(title);
            }
            changed.tags = change.tags.unwrap_or(changed.tags);
            if changed == RunLabel::default() {
                transaction.execute(FORGET_LABEL, &ids).await?;
            } else {
                // A list of texts: there is nothing in it that can't be written.
                let tags = serde_json::to_string(&changed.tags).unwrap_or_default();
                let [tenant, run] = ids;
                let title = Value::MaybeText(changed.title.as_deref());
                let values = [tenant, run, title, Value::Text(&tags)];
                transaction.execute(SET_LABEL, &values).await?;
            }
            transaction.commit().await?;
            Ok(changed)
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Makes a link to a run, or to a part of it: its token, which is not kept. None if the run has too many links.
    pub(crate) async fn share_run(
        &self,
        tenant: &TenantName,
        run: &str,
        part: SharedPart,
        actor: &str,
    ) -> Result<Option<(String, ShareInfo)>, TenantsError> {
        let done = async {
            let id = random_hex(8).map_err(sqlx::Error::Io)?;
            let secret = random_hex(32).map_err(sqlx::Error::Io)?;
            let mut transaction = self.store.write("tenants.share_run").await?;
            let ids = [Value::Text(tenant.as_str()), Value::Text(run)];
            if transaction.execute(SHARES, &ids).await?.len() >= MAX_SHARES {
                transaction.roll_back().await?;
                return Ok(None);
            }
            let created = now();
            let hash = hash(&secret);
            let [tenant, run] = ids;
            let values = [
                Value::Text(&id),
                tenant,
                run,
                Value::MaybeNumber(part.to_column()),
                Value::Bytes(&hash),
                Value::Number(created),
                Value::Text(actor),
            ];
            transaction.execute(INSERT_SHARE, &values).await?;
            transaction.commit().await?;
            let token = format!("{TOKEN}{id}_{secret}");
            let actor = actor.to_owned();
            let info = ShareInfo {
                id,
                part,
                created,
                actor,
            };
            Ok(Some((token, info)))
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Links to a run and to its parts, oldest first.
    pub(crate) async fn shares_of_run(
        &self,
        tenant: &TenantName,
        run: &str,
    ) -> Result<Vec<ShareInfo>, TenantsError> {
        let values = [Value::Text(tenant.as_str()), Value::Text(run)];
        let rows = self.store.fetch(SHARES, &values).await;
        let read = |row: &Row| {
            Ok(ShareInfo {
                id: row.get(0)?,
                part: SharedPart::read(row, 1)?,
                created: row.get(2)?,
                actor: row.get(3)?,
            })
        };
        let shares = rows.and_then(|rows| rows.iter().map(read).collect());
        shares.map_err(|error| self.fault(error))
    }

    /// Revokes a link. False if the run has no such link.
    pub(crate) async fn revoke_share(
        &self,
        tenant: &TenantName,
        run: &str,
        id: &str,
    ) -> Result<bool, TenantsError> {
        // No other has been made, and not each text is one for PostgreSQL.
        if !is_id(id) {
            return Ok(false);
        }
        let done = async {
            let mut transaction = self.store.write("tenants.revoke_share").await?;
            let values = [tenant.as_str(), run, id].map(Value::Text);
            let revoked = transaction.execute(REVOKE_SHARE, &values).await?;
            transaction.commit().await?;
            Ok(!revoked.is_empty())
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// What the link with this token shows; none if there is no such link, or no longer.
    pub(crate) async fn find_share(&self, token: &str) -> Result<Option<Shared>, TenantsError> {
        let parts = token.strip_prefix(TOKEN);
        let Some((id, secret)) = parts.and_then(|rest| rest.split_once('_')) else {
            return Ok(None);
        };
        if !is_id(id) {
            return Ok(None);
        }
        let given = hash(secret);
        let rows = self.store.fetch(FIND_SHARE, &[Value::Text(id)]).await;
        let read = |row: &Row| {
            let kept: Vec<u8> = row.get(3)?;
            let is_same: bool = given.ct_eq(kept.as_slice()).into();
            let shared = Shared {
                tenant: row.get::<String>(0)?.parse().map_err(decode)?,
                run: row.get(1)?,
                part: SharedPart::read(row, 2)?,
            };
            Ok(is_same.then_some(shared))
        };
        let found = rows.and_then(|rows| rows.first().map_or(Ok(None), read));
        found.map_err(|error| self.fault(error))
    }

    /// Notes that a run was deleted, with what people called it and who had a link to it. The key of its request is
    /// kept: it must not begin another.
    pub(crate) async fn forget_run(
        &self,
        tenant: &TenantName,
        run: &str,
    ) -> Result<(), TenantsError> {
        let done = async {
            let mut transaction = self.store.write("tenants.forget_run").await?;
            let values = [Value::Text(tenant.as_str()), Value::Text(run)];
            for statement in [FORGET_RUN, FORGET_LABEL, FORGET_SHARES] {
                transaction.execute(statement, &values).await?;
            }
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn label(row: &Row) -> sqlx::Result<RunLabel> {
    let tags = serde_json::from_str(&row.get::<String>(1)?);
    Ok(RunLabel {
        title: row.get(0)?,
        tags: tags.map_err(|error| decode(error.to_string()))?,
    })
}
