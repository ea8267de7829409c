//! Login and logout of browsers, and the rights of a key.

use std::sync::Arc;
use std::time::Duration;

use axum::Json as JsonResponse;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar_agent::Budget;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::isolation::IsolationView;
use super::run_views::budget_schema;
use crate::credentials::HOST_COOKIE;
use crate::demo::{self, ExampleView};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// Maximum bytes of a login request, and its time limit.
const MAX_BODY: usize = 4 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Login of a browser.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogIn {
    /// API key, `bj_PREFIX_SECRET`.
    key: String,
}

/// Logs a browser in: stores the key in a cookie that scripts cannot read.
///
/// The cookie is accepted only in requests with the header `X-Belljar: 1`.
#[utoipa::path(
    post, path = "/login", tag = "keys", operation_id = "log_in", security(()),
    request_body = LogIn,
    responses((status = 204, description = "The key is valid, and is in the cookie `belljar`, or `__Host-belljar` on a service with a domain for ports."))
)]
pub(super) async fn log_in(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BODY)).await;
    let read = read.map_err(|_| Problem::new(Code::BodyTimeout, "send it faster"))?;
    let read = read.map_err(|_| {
        let detail = format!("it was cut off, or exceeds {MAX_BODY} bytes");
        Problem::new(Code::BadBody, detail)
    })?;
    let asked: LogIn = serde_json::from_slice(&read)
        .map_err(|error| Problem::new(Code::BadBody, error.to_string()))?;
    service.logins.check(&service.tenants, &asked.key).await?;
    // A key that is good has letters, digits and `_` alone.
    Ok(with_cookie(&service, &asked.key, "", &headers))
}

/// Logs a browser out: deletes the cookie.
#[utoipa::path(
    post, path = "/logout", tag = "keys", operation_id = "log_out", security(()),
    responses((status = 204, description = "The cookie is deleted."))
)]
pub(super) async fn log_out(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    with_cookie(&service, "", "; Max-Age=0", &headers)
}

/// Without `Path`, a cookie is for the directory of the requested path: behind a proxy, for paths
/// below its prefix. One that only its own host can set has no choice.
fn with_cookie(service: &Service, value: &str, more: &str, headers: &HeaderMap) -> Response {
    let name = service.cookie();
    let secure = match name {
        HOST_COOKIE => "; Path=/; Secure",
        _ if is_encrypted(headers) => "; Secure",
        _ => "",
    };
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict{secure}{more}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Whether the browser came by TLS: it says so itself, or the proxy does.
fn is_encrypted(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    text("origin").is_some_and(|origin| origin.starts_with("https://"))
        || text("x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// Tenant and rights of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    tenant: String,
    /// Scopes of the key.
    scopes: Vec<&'static str>,
    /// Models for runs, the default first.
    models: Vec<String>,
    /// Environments that a session may choose, the default first.
    environments: Vec<String>,
    /// Isolation that a session may choose, the default first.
    isolation: Vec<IsolationView>,
    /// Whether the service is in demo mode.
    demo: bool,
    /// Whether this is the admin address, which has `/v1/admin`, but neither runs nor sessions.
    is_admin_address: bool,
    /// Version of the service.
    version: &'static str,
    /// Public key (Ed25519, base64) that signs exported pages.
    report_key: String,
    /// Maximum budget of a run.
    #[schema(schema_with = budget_schema)]
    budget: Budget,
}

/// Shows tenant and scopes of the key, and what the service offers.
#[utoipa::path(
    get, path = "/v1/me", tag = "keys", operation_id = "show_me",
    responses((status = 200, description = "Tenant and rights of the key.", body = Me))
)]
pub(super) async fn me(State(service): State<Arc<Service>>, caller: Caller) -> JsonResponse<Me> {
    JsonResponse(Me::new(&service, &caller, false))
}

/// The same on the admin listener.
pub(super) async fn me_of_admin(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> JsonResponse<Me> {
    JsonResponse(Me::new(&service, &caller, true))
}

impl Me {
    fn new(service: &Service, caller: &Caller, is_admin_address: bool) -> Self {
        let runs = service.runs.options();
        let environments = service.engines.environments().into_iter();
        Self {
            tenant: caller.tenant.to_string(),
            scopes: caller.scopes.iter().map(|scope| scope.as_str()).collect(),
            models: runs.models.iter().map(|model| model.name.clone()).collect(),
            environments: environments.map(str::to_owned).collect(),
            isolation: IsolationView::list(service, &caller.tenant),
            demo: service.demo.is_some(),
            is_admin_address,
            version: env!("CARGO_PKG_VERSION"),
            report_key: service.report_key.public(),
            budget: runs.budget.clone(),
        }
    }
}

/// Lists the example tasks of demo mode; otherwise none.
#[utoipa::path(
    get, path = "/v1/demo/examples", tag = "keys", operation_id = "list_examples",
    responses((status = 200, description = "The tasks.", body = Vec<ExampleView>))
)]
pub(super) async fn examples(
    State(service): State<Arc<Service>>,
    _: Caller,
) -> JsonResponse<Vec<ExampleView>> {
    let demo = service.demo.as_ref();
    JsonResponse(demo.map(|_| demo::views()).unwrap_or_default())
}
