//! Who may use this wire: whoever has a key. Clients have three places for it.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use crate::credentials::credential;
use crate::guard::serve_caller;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::tenants::Scope;

#[derive(Deserialize)]
struct TokenQuery {
    token: Option<String>,
}

/// Lets nobody pass without a key: in `Authorization`, or for a WebSocket in the query.
pub(super) async fn with_key(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let key = if headers.contains_key(header::AUTHORIZATION) {
        credential(headers, &["token", "bearer"]).map(str::to_owned)
    } else if request.uri().path().ends_with("/channels") {
        let query = Query::<TokenQuery>::try_from_uri(request.uri());
        query.ok().and_then(|query| query.0.token)
    } else {
        None
    };
    pass(&service, key, request, next).await
}

/// The same with the key in the path.
pub(super) async fn with_key_in_path(
    State(service): State<Arc<Service>>,
    Path((key, _)): Path<(String, String)>,
    request: Request,
    next: Next,
) -> Response {
    pass(&service, Some(key), request, next).await
}

async fn pass(service: &Service, key: Option<String>, request: Request, next: Next) -> Response {
    let found = service.find_key(key).await;
    match found.and_then(|key| Caller::with_scope(key, Some(Scope::Sessions))) {
        Ok(caller) => serve_caller(service, caller, request, next).await,
        Err(problem) => refused(problem).into_response(),
    }
}

fn refused(problem: Problem) -> Problem {
    match problem.code {
        Code::Unauthorized => problem.because("send `Authorization: token KEY` with a valid key"),
        _ => problem,
    }
}
