//! Who is there: logging in and out by a browser, and what a key is good for.

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

use super::run_views::budget_schema;
use crate::demo::{self, ExampleView};
use crate::guard::COOKIE;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// The most bytes of a request to log in, and how long it may take.
const MAX_BODY: usize = 4 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// A key that a browser is to keep.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogIn {
    /// The key, `bj_PREFIX_SECRET`.
    key: String,
}

/// Gives a key to the browser to keep, where no script can read it. The cookie counts only in requests with the
/// header `X-Belljar: 1`.
#[utoipa::path(
    post, path = "/login", tag = "keys", operation_id = "log_in", security(()),
    request_body = LogIn,
    responses((status = 204, description = "The key is good, and is in the cookie `belljar`."))
)]
pub(super) async fn log_in(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BODY)).await;
    let read = read.map_err(|_| Problem::new(Code::BodyTimeout, "send it faster"))?;
    let read = read.map_err(|_| {
        let detail = format!("it was cut off, or has more than {MAX_BODY} bytes");
        Problem::new(Code::BadBody, detail)
    })?;
    let asked: LogIn = serde_json::from_slice(&read)
        .map_err(|error| Problem::new(Code::BadBody, error.to_string()))?;
    service.logins.check(&service.tenants, &asked.key).await?;
    // A key that is good has letters, digits and `_` alone.
    Ok(with_cookie(&asked.key, "", &headers))
}

/// Lets the browser forget its key.
#[utoipa::path(
    post, path = "/logout", tag = "keys", operation_id = "log_out", security(()),
    responses((status = 204, description = "The cookie is gone."))
)]
pub(super) async fn log_out(headers: HeaderMap) -> Response {
    with_cookie("", "; Max-Age=0", &headers)
}

/// Without `Path`, a cookie is for the directory of what was asked for: behind a proxy, for what is below its
/// prefix.
fn with_cookie(value: &str, more: &str, headers: &HeaderMap) -> Response {
    let secure = if is_encrypted(headers) {
        "; Secure"
    } else {
        ""
    };
    let cookie = format!("{COOKIE}={value}; HttpOnly; SameSite=Strict{secure}{more}");
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

/// Whose key it is, and what it is good for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    tenant: String,
    /// What the key may do.
    scopes: Vec<&'static str>,
    /// The models that runs may have, the usual one first.
    models: Vec<String>,
    /// Whether the service is a demonstration.
    demo: bool,
    /// Whether this address is for those who administer: it has `/v1/admin`, but neither runs nor sessions.
    is_admin_address: bool,
    /// Of the service.
    version: &'static str,
    /// The most that a run may use.
    #[schema(schema_with = budget_schema)]
    budget: Budget,
}

/// Shows whose key this is, and what the service has for it.
#[utoipa::path(
    get, path = "/v1/me", tag = "keys", operation_id = "show_me",
    responses((status = 200, description = "What the key is good for.", body = Me))
)]
pub(super) async fn me(State(service): State<Arc<Service>>, caller: Caller) -> JsonResponse<Me> {
    JsonResponse(Me::new(&service, &caller, false))
}

/// The same on the listener of those who administer.
pub(super) async fn me_of_admin(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> JsonResponse<Me> {
    JsonResponse(Me::new(&service, &caller, true))
}

impl Me {
    fn new(service: &Service, caller: &Caller, is_admin_address: bool) -> Self {
        let runs = service.runs.options();
        Self {
            tenant: caller.tenant.to_string(),
            scopes: caller.scopes.iter().map(|scope| scope.as_str()).collect(),
            models: runs.models.iter().map(|model| model.name.clone()).collect(),
            demo: service.demo.is_some(),
            is_admin_address,
            version: env!("CARGO_PKG_VERSION"),
            budget: runs.budget.clone(),
        }
    }
}

/// Lists tasks that a demonstration knows. A service that is none has none.
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
