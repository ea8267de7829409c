//! The least isolation of tenants.

use std::collections::HashMap;

use belljar_sandbox::protocol::Walls;

use super::records::{Act, COMMAND_LINE, write};
use super::{Row, TenantName, Tenants, TenantsError, Value, decode};

const SET: &str = "INSERT INTO least_isolation (tenant, walls) VALUES ($1, $2) \
                   ON CONFLICT (tenant) DO UPDATE SET walls = excluded.walls";

/// Isolation that a tenant can have as its least, the weakest first.
pub const ISOLATION_TIERS: [Walls; 3] = [Walls::Container, Walls::Full, Walls::Gvisor];

/// The isolation of this name.
///
/// # Errors
/// If it can't be the least one.
pub fn parse_isolation(name: &str) -> Result<Walls, String> {
    let mut all = ISOLATION_TIERS.into_iter();
    all.find(|walls| walls.as_str() == name).ok_or_else(|| {
        let names = ISOLATION_TIERS.map(Walls::as_str).join(", ");
        format!("expected one of {names}, the weakest first")
    })
}

impl Tenants {
    /// The least isolation of all tenants that have one.
    pub async fn least_isolation(&self) -> Result<HashMap<TenantName, Walls>, TenantsError> {
        let all = "SELECT tenant, walls FROM least_isolation";
        let rows = self.store.fetch(all, &[]).await;
        let read = |row: &Row| {
            let tenant = row.get::<String>(0)?.parse().map_err(decode)?;
            // One that is not known here is an error: nothing that is known could be enough.
            let walls = parse_isolation(&row.get::<String>(1)?).map_err(decode)?;
            Ok((tenant, walls))
        };
        let all = rows.and_then(|rows| rows.iter().map(read).collect());
        all.map_err(|error| self.fault(error))
    }

    /// Sets the least isolation of a tenant's sessions, or removes it. A running service applies this within two
    /// seconds.
    pub async fn set_least_isolation(
        &self,
        tenant: &TenantName,
        least: Option<Walls>,
    ) -> Result<(), TenantsError> {
        self.set_least_isolation_by(COMMAND_LINE, tenant, least)
            .await
    }

    pub(crate) async fn set_least_isolation_by(
        &self,
        actor: &str,
        tenant: &TenantName,
        least: Option<Walls>,
    ) -> Result<(), TenantsError> {
        let name = least.map_or("none", Walls::as_str);
        let done = async {
            let mut transaction = self.store.act("tenants.set_isolation").await?;
            let tenant_name = Value::Text(tenant.as_str());
            if least.is_some() {
                let values = [tenant_name, Value::Text(name)];
                transaction.execute(SET, &values).await?;
            } else {
                let remove = "DELETE FROM least_isolation WHERE tenant = $1";
                transaction.execute(remove, &[tenant_name]).await?;
            }
            let act = Act {
                actor,
                what: "isolation_set",
                tenant: Some(tenant),
                detail: name,
            };
            write(&mut transaction, act).await?;
            transaction.commit().await
        };
        done.await.map_err(|error| self.fault(error))
    }
}
