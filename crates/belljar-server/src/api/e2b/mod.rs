//! The wire of E2B's SDKs, for programs that were written for them ([why](../../../../docs/adr/0050-wire-of-e2b.md)).
//!
//! It translates and decides nothing: keys, quotas, limits and sessions are those of `/v1`. What Belljar does not have
//! is refused in words.

mod access;
mod code;
mod contents;
mod contexts;
mod control;
mod errors;
mod filesystem;
mod frames;
mod links;
mod process;
mod process_input;
mod process_stream;
mod rpc;
mod sandbox;
mod sandbox_list;
mod watching;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{any, delete, get, post, put};

use crate::forward::forward;
use crate::problem::Problem;
use crate::service::Service;
use crate::work::work;

pub(super) use access::rewrite;
use errors::not_supported;

/// All routes: below `/e2b`, and the files of signed addresses, which drop that prefix.
pub(super) fn router(service: &Arc<Service>) -> Router {
    let control = control_routes()
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), forward))
        .layer(from_fn_with_state(Arc::clone(service), access::with_key))
        .layer(map_response(errors::as_status));
    let files = || {
        Router::new()
            .route("/files", get(contents::read).post(contents::write))
            .layer(from_fn_with_state(Arc::clone(service), work))
            .layer(from_fn_with_state(Arc::clone(service), access::with_token))
            .layer(map_response(errors::as_status))
    };
    let health = Router::new()
        .route("/health", get(contents::health))
        .layer(from_fn_with_state(Arc::clone(service), access::with_token))
        .layer(map_response(errors::as_status));
    let calls = rpc_routes()
        .layer(from_fn_with_state(Arc::clone(service), work))
        // Its body is read while it is sent.
        .route("/process.Process/StreamInput", post(process_input::stream))
        .layer(from_fn_with_state(Arc::clone(service), access::with_token))
        .layer(from_fn(errors::as_connect));
    let code = Router::new()
        .route("/execute", post(code::execute))
        .route("/contexts", get(contexts::list).post(contexts::create))
        .route("/contexts/{id}", delete(contexts::remove))
        .route("/contexts/{id}/restart", post(contexts::restart))
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), access::with_token))
        .layer(map_response(errors::as_text));
    let all = control
        .merge(files())
        .merge(health)
        .merge(calls)
        .merge(code);
    Router::new()
        .nest("/e2b", all)
        .merge(files())
        .with_state(Arc::clone(service))
}

fn control_routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/sandboxes", get(sandbox_list::list).post(control::create))
        .route(
            "/v2/sandboxes",
            get(sandbox_list::list).post(control::create),
        )
        .route("/sandboxes/{id}", get(control::show).delete(control::kill))
        .route("/sandboxes/{id}/connect", post(control::connect))
        .route("/v2/sandboxes/{id}/connect", post(control::connect))
        .route("/sandboxes/{id}/resume", post(control::resume))
        .route("/sandboxes/{id}/timeout", post(control::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(control::set_timeout))
        .route("/sandboxes/{id}/pause", post(control::pause))
        .route("/sandboxes/{id}/fork", post(control::fork))
        .route("/sandboxes/{id}/metrics", get(control::metrics))
        .route("/sandboxes/{id}/logs", get(control::logs))
        .route("/v2/sandboxes/{id}/logs", get(control::logs))
        .route("/sandboxes/{id}/network", put(control::network))
        .route("/sandboxes/{id}/snapshots", post(snapshots))
        .route("/snapshots", get(snapshots))
        .route("/templates/{*rest}", any(templates))
        .route("/v2/templates/{*rest}", any(templates))
        .route("/v3/templates", any(templates))
        .route("/volumes", any(volumes))
        .route("/volumes/{*rest}", any(volumes))
        .route("/volumecontent/{*rest}", any(volumes))
        .route("/secrets", any(secrets))
        .route("/secrets/{*rest}", any(secrets))
}

fn rpc_routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/filesystem.Filesystem/Stat", post(filesystem::stat))
        .route("/filesystem.Filesystem/ListDir", post(filesystem::list))
        .route("/filesystem.Filesystem/MakeDir", post(filesystem::make))
        .route("/filesystem.Filesystem/Move", post(filesystem::rename))
        .route("/filesystem.Filesystem/Remove", post(filesystem::remove))
        .route("/filesystem.Filesystem/WatchDir", post(watching::stream))
        .route(
            "/filesystem.Filesystem/CreateWatcher",
            post(watching::create),
        )
        .route(
            "/filesystem.Filesystem/GetWatcherEvents",
            post(watching::events),
        )
        .route(
            "/filesystem.Filesystem/RemoveWatcher",
            post(watching::remove),
        )
        .route("/process.Process/Start", post(process::start))
        .route("/process.Process/Connect", post(process::connect))
        .route("/process.Process/List", post(process::list))
        .route("/process.Process/SendInput", post(process_input::send))
        .route("/process.Process/CloseStdin", post(process_input::close))
        .route("/process.Process/SendSignal", post(process::signal))
        .route("/process.Process/Update", post(process::resize))
}

async fn unknown() -> Problem {
    not_supported("Belljar answers no such request of this wire; `docs/e2b.md` lists what it does")
}

async fn snapshots() -> Problem {
    not_supported("sandboxes have no kept snapshots; fork a running sandbox, or pause it")
}

async fn templates() -> Problem {
    not_supported("environments are made by the operator, with `belljar env create`")
}

async fn volumes() -> Problem {
    not_supported("there are no volumes; the operator offers directories with `--mount`")
}

async fn secrets() -> Problem {
    not_supported("there are no stored secrets; pass `envs` to the sandbox or the command")
}
