//! Which node of a cluster carries out a request with an `Idempotency-Key`.

use super::records::KEPT;
use super::{TenantName, Tenants, TenantsError, Value};

/// Keeps the row that is there, and returns it.
const CLAIM: &str = "INSERT INTO key_nodes (tenant, key, node, at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (tenant, key) DO UPDATE SET at = key_nodes.at RETURNING node";

const MOVE: &str =
    "UPDATE key_nodes SET node = $4 WHERE tenant = $1 AND key = $2 AND node = $3 RETURNING node";

const FORGET: &str = "DELETE FROM key_nodes WHERE tenant = $1 AND key = $2";

const LEAVE: &str = "UPDATE key_nodes SET node = '' WHERE node = $1";

impl Tenants {
    /// The node that carries out the request with this key: this one, if there was none. Empty if it has stopped.
    pub(crate) async fn claim_key(
        &self,
        tenant: &TenantName,
        key: &str,
        node: &str,
    ) -> Result<String, TenantsError> {
        let done = async {
            let now = self.store.now().await?;
            let mut transaction = self.store.write("tenants.claim_key").await?;
            let forget = "DELETE FROM key_nodes WHERE at <= $1";
            let old = Value::Number(now - KEPT);
            transaction.execute(forget, &[old]).await?;
            let (tenant, at) = (Value::Text(tenant.as_str()), Value::Number(now));
            let values = [tenant, Value::Text(key), Value::Text(node), at];
            let rows = transaction.execute(CLAIM, &values).await?;
            transaction.commit().await?;
            rows.first().map_or(Ok(String::new()), |row| row.get(0))
        };
        done.await.map_err(|error| self.fault(error))
    }

    /// Says that another node carries the request out. False if somebody else has said so.
    pub(crate) async fn move_key(
        &self,
        tenant: &TenantName,
        key: &str,
        from: &str,
        to: &str,
    ) -> Result<bool, TenantsError> {
        let tenant = Value::Text(tenant.as_str());
        let values = [tenant, Value::Text(key), Value::Text(from), Value::Text(to)];
        let moved = self.change_keys(MOVE, &values).await?;
        Ok(moved > 0)
    }

    /// Forgets a key whose request was refused for the moment.
    pub(crate) async fn forget_key(
        &self,
        tenant: &TenantName,
        key: &str,
    ) -> Result<(), TenantsError> {
        let values = [Value::Text(tenant.as_str()), Value::Text(key)];
        self.change_keys(FORGET, &values).await.map(drop)
    }

    /// Says that the answers of a node are gone.
    pub(crate) async fn leave_keys(&self, node: &str) -> Result<(), TenantsError> {
        self.change_keys(LEAVE, &[Value::Text(node)])
            .await
            .map(drop)
    }

    async fn change_keys(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<usize, TenantsError> {
        let done = async {
            let mut transaction = self.store.write("tenants.change_keys").await?;
            let rows = transaction.execute(statement, values).await?;
            transaction.commit().await?;
            Ok(rows.len())
        };
        done.await.map_err(|error| self.fault(error))
    }
}
