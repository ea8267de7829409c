//! Jupyter's wire: sessions as remote kernels ([why](../../../../docs/adr/0054-kernels-of-a-service.md)).
//!
//! It translates and decides nothing: keys, quotas, limits and sessions are those of `/v1`.

mod access;
mod channels;
mod errors;
mod host;
mod kernel;
mod kernels;
mod notebooks;
mod running;
mod specs;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{get, post};

use crate::forward::forward;
use crate::problem::{Code, Problem};
use crate::service::Service;
use crate::work::work;

/// All routes, below `/jupyter`.
pub(super) fn router(service: &Arc<Service>) -> Router {
    let with_key = Router::new()
        .route("/api/status", get(kernels::status))
        .route("/api/me", get(specs::me))
        .route("/api/kernelspecs", get(specs::list))
        .route("/api/kernelspecs/{name}", get(specs::show))
        .route("/api/kernels", get(kernels::list).post(kernels::create))
        .route(
            "/api/kernels/{id}",
            get(kernels::show).delete(kernels::delete),
        )
        .route("/api/kernels/{id}/interrupt", post(kernels::interrupt))
        .route("/api/kernels/{id}/restart", post(kernels::restart))
        .route("/api/kernels/{id}/channels", get(channels::open))
        .route(
            "/api/sessions",
            get(notebooks::list).post(notebooks::create),
        )
        .route(
            "/api/sessions/{id}",
            get(notebooks::show)
                .patch(notebooks::update)
                .delete(notebooks::delete),
        )
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), forward))
        .layer(from_fn_with_state(Arc::clone(service), access::with_key));
    // For clients that send no credentials with a WebSocket, and can't be given a query.
    let with_key_in_path = Router::new()
        .route(
            "/token/{key}/api/kernels/{id}/channels",
            get(channels::open_by_path),
        )
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), forward))
        .layer(from_fn_with_state(
            Arc::clone(service),
            access::with_key_in_path,
        ));
    let all = with_key
        .merge(with_key_in_path)
        .route("/api", get(specs::version))
        .layer(map_response(errors::as_message));
    Router::new()
        .nest("/jupyter", all)
        .with_state(Arc::clone(service))
}

async fn unknown() -> Problem {
    let detail = "Belljar has kernels, kernel specifications and sessions of this wire; `docs/jupyter.md` lists the routes";
    Problem::new(Code::RouteNotFound, detail)
}
