//! OpenAI's API for programs written for it: a run behind the name of a model
//! ([why](../../../../docs/adr/0053-api-of-openai.md)).
//!
//! It translates and decides nothing: keys, scopes, quotas, limits and approvals are those of `/v1`. A parameter that
//! Belljar cannot keep is refused by name.

mod begin;
mod chat;
mod chat_state;
mod chat_stream;
mod container;
mod container_files;
mod containers;
mod conversation;
mod errors;
mod follow;
mod models;
mod pages;
mod parameters;
mod response_create;
mod response_items;
mod response_object;
mod response_stream;
mod responses;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::credentials::bearer;
use crate::forward::forward;
use crate::guard::serve_caller;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::tenants::Scope;
use crate::work::work;

/// All routes, below `/openai/v1`.
pub(super) fn router(service: &Arc<Service>) -> Router {
    let routes = Router::new()
        .route("/models", get(models::list))
        .route("/models/{*model}", get(models::show))
        .route("/chat/completions", post(chat::create))
        .route("/responses", post(response_create::create))
        .route(
            "/responses/{id}",
            get(responses::show).delete(responses::delete),
        )
        .route("/responses/{id}/cancel", post(responses::cancel))
        .route(
            "/containers",
            get(containers::list).post(containers::create),
        )
        .route(
            "/containers/{id}",
            get(containers::show).delete(containers::delete),
        )
        .route(
            "/containers/{id}/files",
            get(container_files::list).post(container_files::create),
        )
        .route(
            "/containers/{id}/files/{file}",
            get(container_files::show).delete(container_files::delete),
        )
        .route(
            "/containers/{id}/files/{file}/content",
            get(container_files::content),
        )
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), forward))
        .layer(from_fn_with_state(Arc::clone(service), with_key))
        .layer(map_response(errors::as_error));
    Router::new()
        .nest("/openai/v1", routes)
        .with_state(Arc::clone(service))
}

/// Lets nobody pass without a key for runs.
async fn with_key(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let key = bearer(request.headers()).map(str::to_owned);
    let found = service.find_key(key).await;
    match found.and_then(|key| Caller::with_scope(key, Some(Scope::Runs))) {
        Ok(caller) => serve_caller(&service, caller, request, next).await,
        Err(problem) => problem.into_response(),
    }
}

async fn unknown() -> Problem {
    let detail = "Belljar does not answer this request; `docs/openai.md` lists what it does";
    Problem::new(Code::RouteNotFound, detail)
}
