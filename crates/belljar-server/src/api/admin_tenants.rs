//! Tenants, for admins: what they may use, and their least isolation.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use belljar_sandbox::protocol::Walls;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::isolation::{asked_schema, isolation_schema};
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::tenants::{Amounts, Quota, TenantName, parse_isolation};

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TenantView {
    name: String,
    /// Quotas that differ from the service's defaults.
    #[schema(value_type = BTreeMap<Quota, u64>)]
    quotas: Amounts,
    /// Current use, and use of today (UTC).
    #[schema(value_type = BTreeMap<Quota, u64>)]
    used: Amounts,
    /// Least isolation of its sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = isolation_schema)]
    least_isolation: Option<&'static str>,
}

impl TenantView {
    fn new(tenant: &TenantName, service: &Service) -> Self {
        let (quotas, used) = service.admission.account(tenant);
        Self {
            name: tenant.to_string(),
            quotas,
            used,
            least_isolation: service.admission.isolation.get(tenant).map(Walls::as_str),
        }
    }
}

/// All tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TenantList {
    /// Sorted by name.
    tenants: Vec<TenantView>,
}

/// Lists all tenants that have had a key, or have a quota or a least isolation.
#[utoipa::path(
    get, path = "/v1/admin/tenants", tag = "tenants", operation_id = "list_tenants",
    responses((status = 200, description = "The tenants.", body = TenantList))
)]
pub(super) async fn list_tenants(
    State(service): State<Arc<Service>>,
) -> Result<JsonResponse<TenantList>, Problem> {
    let names = service.tenants.names().await?;
    let tenants = names.iter().map(|name| TenantView::new(name, &service));
    Ok(JsonResponse(TenantList {
        tenants: tenants.collect(),
    }))
}

/// Shows a tenant, with its disk use.
#[utoipa::path(
    get, path = "/v1/admin/tenants/{name}", tag = "tenants", operation_id = "show_tenant",
    params(("name" = String, Path, description = "The tenant.")),
    responses((status = 200, description = "The tenant.", body = TenantView))
)]
pub(super) async fn show_tenant(
    State(service): State<Arc<Service>>,
    Named(name): Named<String>,
) -> Result<JsonResponse<TenantView>, Problem> {
    let names = service.tenants.names().await?;
    let tenant = names.iter().find(|tenant| tenant.as_str() == name);
    let tenant = tenant.ok_or_else(|| {
        let detail = "it has had no key, and has no quota and no least isolation";
        Problem::new(Code::TenantNotFound, detail)
    })?;
    let mut view = TenantView::new(tenant, &service);
    let disk = service.runs.disk_bytes(tenant).await?;
    view.used.insert(Quota::DiskBytes, disk);
    Ok(JsonResponse(view))
}

/// Quotas of a tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetQuotas {
    /// New amounts; `null` removes a quota. Omitted quotas stay unchanged.
    quotas: BTreeMap<Quota, Option<u64>>,
}

/// Sets quotas of a tenant, with or without keys.
#[utoipa::path(
    post, path = "/v1/admin/tenants/{name}/quotas", tag = "tenants", operation_id = "set_quotas",
    params(("name" = String, Path, description = "The tenant.")),
    request_body = SetQuotas,
    responses((status = 200, description = "The changed tenant.", body = TenantView))
)]
pub(super) async fn set_quotas(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(name): Named<String>,
    Json(asked): Json<SetQuotas>,
) -> Result<JsonResponse<TenantView>, Problem> {
    let tenant = tenant_name(&name)?;
    let set = service
        .tenants
        .set_quotas_by(&caller.prefix, &tenant, &asked.quotas);
    set.await?;
    service.read_quotas().await?;
    Ok(JsonResponse(TenantView::new(&tenant, &service)))
}

/// The least isolation of a tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetIsolation {
    /// Least isolation of its sessions; `null` for none.
    #[schema(schema_with = asked_schema)]
    least: Option<String>,
}

/// Sets the least isolation of a tenant, with or without keys.
///
/// A session or run below it is refused from then on, and a running one ends or accepts no more work.
#[utoipa::path(
    post, path = "/v1/admin/tenants/{name}/isolation", tag = "tenants", operation_id = "set_isolation",
    params(("name" = String, Path, description = "The tenant.")),
    request_body = SetIsolation,
    responses((status = 200, description = "The changed tenant.", body = TenantView))
)]
pub(super) async fn set_isolation(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(name): Named<String>,
    Json(asked): Json<SetIsolation>,
) -> Result<JsonResponse<TenantView>, Problem> {
    let tenant = tenant_name(&name)?;
    let least = asked.least.as_deref().map(parse_isolation).transpose();
    let least = least.map_err(|why| Problem::new(Code::BadBody, why))?;
    let set = service
        .tenants
        .set_least_isolation_by(&caller.prefix, &tenant, least);
    set.await?;
    service.read_quotas().await?;
    Ok(JsonResponse(TenantView::new(&tenant, &service)))
}

fn tenant_name(text: &str) -> Result<TenantName, Problem> {
    text.parse()
        .map_err(|why: String| Problem::new(Code::BadRequest, why))
}
