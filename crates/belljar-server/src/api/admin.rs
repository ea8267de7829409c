//! `/v1/admin`, on the admin listener: tenants, keys, sessions of all tenants, the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use axum::Json as JsonResponse;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use belljar_sandbox::HostMemory;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::sessions::{PageAsked, cursor, no_cursor};
use super::{admin_runs, admin_tenants, login, no_method, no_route, open_routes};
use crate::body::{Json, Named, Query};
use crate::guard::{Hosts, authorize, guard};
use crate::openapi::openapi_admin;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::tenants::{Act, AuditEvent, KeyInfo, Scope, TenantName};
use crate::web;
use crate::work::work;

fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(errors))
        .routes(routes!(admin_tenants::list_tenants))
        .routes(routes!(admin_tenants::show_tenant))
        .routes(routes!(admin_tenants::set_quotas))
        .routes(routes!(admin_tenants::set_isolation))
        .routes(routes!(list_keys, create_key))
        .routes(routes!(revoke_key))
        .routes(routes!(list_sessions))
        .routes(routes!(end_session))
        .routes(routes!(admin_runs::list))
        .routes(routes!(admin_runs::cancel))
        .routes(routes!(list_audit))
}

/// The paths of the OpenAPI document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// Routes for keys with the scope `admin`, and the web interface with its login.
pub(crate) fn router(service: &Arc<Service>, hosts: Hosts) -> Router {
    let (with_key, _) = routes().split_for_parts();
    let (open, _) = open_routes().split_for_parts();
    let with_key = with_key
        .route("/v1/me", get(login::me_of_admin))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), authorize))
        .with_state(Arc::clone(service));
    Router::new()
        .route(
            "/openapi.json",
            get(async || JsonResponse(openapi_admin()).into_response()),
        )
        .merge(web::routes())
        .merge(open.with_state(Arc::clone(service)))
        .merge(with_key)
        .layer(from_fn_with_state((Arc::clone(service), hosts), guard))
}

/// State of the service.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Whether the service is shutting down and accepts no new work.
    draining: bool,
    version: &'static str,
    /// Live sessions of all tenants.
    sessions: usize,
    /// Running and waiting cells.
    cells: usize,
    /// Total and available memory of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_available_bytes: Option<u64>,
}

/// Shows the state of the service.
#[utoipa::path(
    get, path = "/v1/admin/health", tag = "service", operation_id = "show_health",
    responses((status = 200, description = "The state of the service.", body = Health))
)]
pub(super) async fn health(State(service): State<Arc<Service>>) -> JsonResponse<Health> {
    let (sessions, cells, _) = service.admission.totals();
    let memory = HostMemory::now();
    JsonResponse(Health {
        draining: service.is_draining(),
        version: env!("CARGO_PKG_VERSION"),
        sessions,
        cells,
        memory_bytes: memory.map(|memory| memory.total),
        memory_available_bytes: memory.map(|memory| memory.available),
    })
}

/// Counts of problems.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Errors {
    /// Number of responses by code since the start; codes without responses are absent.
    #[schema(value_type = BTreeMap<String, u64>)]
    codes: BTreeMap<&'static str, u64>,
}

/// Counts problems by code.
#[utoipa::path(
    get, path = "/v1/admin/errors", tag = "service", operation_id = "count_errors",
    responses((status = 200, description = "The counts.", body = Errors))
)]
pub(super) async fn errors(State(service): State<Arc<Service>>) -> JsonResponse<Errors> {
    JsonResponse(Errors {
        codes: service.metrics.problems(),
    })
}

/// A key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    /// Prefix of the key.
    prefix: String,
    tenant: String,
    scopes: Vec<&'static str>,
    /// Creation time, in seconds since 1970.
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    /// Expiry time, in seconds since 1970; absent for a key that does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    /// Time of the last use, in seconds since 1970, to about a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_at: Option<i64>,
}

impl From<KeyInfo> for KeyView {
    fn from(key: KeyInfo) -> Self {
        Self {
            prefix: key.prefix,
            tenant: key.tenant.to_string(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            created_at: key.created,
            revoked_at: key.revoked,
            expires_at: key.expires,
            used_at: key.used,
        }
    }
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    /// Oldest first, including revoked keys.
    keys: Vec<KeyView>,
}

/// Lists keys.
#[utoipa::path(
    get, path = "/v1/admin/keys", tag = "keys", operation_id = "list_keys",
    responses((status = 200, description = "The keys.", body = KeyList))
)]
pub(super) async fn list_keys(
    State(service): State<Arc<Service>>,
) -> Result<JsonResponse<KeyList>, Problem> {
    let keys = service.tenants.keys().await?;
    let keys = keys.into_iter().map(KeyView::from).collect();
    Ok(JsonResponse(KeyList { keys }))
}

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateKey {
    /// Tenant of the key, with or without other keys.
    tenant: String,
    /// Scopes of the key: `sessions`, `runs`, `admin`.
    #[schema(min_items = 1)]
    scopes: Vec<String>,
    /// Seconds until the key expires; never if absent.
    #[schema(minimum = 1)]
    lifetime_seconds: Option<u64>,
}

/// A new key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreatedKey {
    /// The key itself, not shown again.
    key: String,
    #[serde(flatten)]
    info: KeyView,
}

/// Creates a key, shown only in this response.
#[utoipa::path(
    post, path = "/v1/admin/keys", tag = "keys", operation_id = "create_key",
    request_body = CreateKey,
    responses((status = 201, description = "The key.", body = CreatedKey))
)]
pub(super) async fn create_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(asked): Json<CreateKey>,
) -> Result<Response, Problem> {
    let bad = |why: String| Problem::new(Code::BadBody, why);
    let tenant: TenantName = asked.tenant.parse().map_err(bad)?;
    let scopes: Result<Vec<Scope>, String> =
        asked.scopes.iter().map(|scope| scope.parse()).collect();
    let scopes = scopes.map_err(bad)?;
    if scopes.is_empty() {
        return Err(bad("a key needs at least one scope".into()));
    }
    if asked.lifetime_seconds == Some(0) {
        return Err(bad("`lifetime_seconds` must be at least 1".into()));
    }
    let lifetime = asked.lifetime_seconds.map(Duration::from_secs);
    let made = service
        .tenants
        .create_key_by(&caller.prefix, &tenant, &scopes, lifetime);
    let key = made.await?;
    let made = JsonResponse(CreatedKey {
        key: key.text,
        info: key.info.into(),
    });
    Ok((StatusCode::CREATED, made).into_response())
}

/// Revokes a key; its streams end within two seconds.
///
/// A disk fault does not delay this: the key is refused at once, and the service retries until the
/// revocation is on disk.
#[utoipa::path(
    delete, path = "/v1/admin/keys/{prefix}", tag = "keys", operation_id = "revoke_key",
    params(("prefix" = String, Path, description = "Prefix of the key.")),
    responses((status = 204, description = "The key is revoked."))
)]
pub(super) async fn revoke_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(prefix): Named<String>,
) -> Result<StatusCode, Problem> {
    let revoked = service.tenants.revoke_by(&caller.prefix, &prefix).await;
    let revoked = revoked.map_err(|error| {
        let detail = "the key is refused from now on, but the revocation is not on disk yet: the service retries \
         until it is; if the service restarts before that, revoke the key again";
        Problem::from(error).because(detail)
    })?;
    if revoked {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = "no valid key has this prefix";
    Err(Problem::new(Code::KeyNotFound, detail))
}

/// A live session, as admins see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnySession {
    id: String,
    tenant: String,
    /// Creation time, in seconds since 1970.
    created_at: u64,
    /// Whether a cell is running.
    busy: bool,
    /// Number of the last started cell.
    cells: u32,
    /// Resource limits.
    memory_bytes: u64,
}

impl AnySession {
    fn from_entry(entry: &SessionEntry) -> Self {
        let created = entry.created.duration_since(UNIX_EPOCH);
        Self {
            id: entry.id.clone(),
            tenant: entry.tenant.to_string(),
            created_at: created.map_or(0, |since| since.as_secs()),
            busy: entry.is_busy(),
            cells: entry.last_cell(),
            memory_bytes: entry.options.limits.memory_bytes,
        }
    }
}

/// A page of sessions of all tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnySessionPage {
    /// Oldest first.
    sessions: Vec<AnySession>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Lists the live sessions of all tenants, except sessions of runs.
#[utoipa::path(
    get, path = "/v1/admin/sessions", tag = "sessions", operation_id = "list_all_sessions",
    params(PageAsked),
    responses((status = 200, description = "A page of sessions.", body = AnySessionPage))
)]
pub(super) async fn list_sessions(
    State(service): State<Arc<Service>>,
    Query(page): Query<PageAsked>,
) -> Result<JsonResponse<AnySessionPage>, Problem> {
    let limit = page.limit()?;
    let after = number(&page)?.unwrap_or(0);
    let mut found = service.sessions.live(after);
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found
        .last()
        .map(|entry| cursor(&entry.number.to_be_bytes()));
    Ok(JsonResponse(AnySessionPage {
        sessions: found
            .iter()
            .map(|entry| AnySession::from_entry(entry))
            .collect(),
        next_cursor: last.filter(|_| more),
    }))
}

/// The number that was put into a cursor.
fn number(page: &PageAsked) -> Result<Option<u64>, Problem> {
    let number = |bytes: Vec<u8>| bytes.try_into().map(u64::from_be_bytes);
    let found = page.cursor()?.map(number).transpose();
    found.map_err(|_| no_cursor())
}

/// Deletes a session of any tenant.
#[utoipa::path(
    delete, path = "/v1/admin/sessions/{id}", tag = "sessions", operation_id = "end_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 204, description = "The session is deleted."))
)]
pub(super) async fn end_session(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let tenant = service.sessions.tenant_of(&id)?;
    let act = Act {
        actor: &caller.prefix,
        what: "session_ended",
        tenant: Some(&tenant),
        detail: &id,
    };
    // What can't be written down is not done.
    service.tenants.record(act).await?;
    service.sessions.remove(&tenant, &id)?.close().await;
    Ok(StatusCode::NO_CONTENT)
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditPage {
    /// Newest first.
    events: Vec<AuditEvent>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Lists the audit log, newest first.
#[utoipa::path(
    get, path = "/v1/admin/audit", tag = "audit", operation_id = "list_audit", params(PageAsked),
    responses((status = 200, description = "A page of the audit log.", body = AuditPage))
)]
pub(super) async fn list_audit(
    State(service): State<Arc<Service>>,
    Query(page): Query<PageAsked>,
) -> Result<JsonResponse<AuditPage>, Problem> {
    let limit = page.limit()?;
    let before = number(&page)?.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
    let found = service.tenants.audit(before, limit + 1).await;
    let mut events = found?;
    let more = events.len() > limit;
    events.truncate(limit);
    let last = events.last().map(|event| cursor(&event.id.to_be_bytes()));
    Ok(JsonResponse(AuditPage {
        events,
        next_cursor: last.filter(|_| more),
    }))
}
