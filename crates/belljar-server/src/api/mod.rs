//! The API of the service: one module for each kind of resource.

pub(crate) mod admin;
mod admin_runs;
mod admin_tenants;
mod approvals;
mod cells;
mod checkpoints;
mod commands;
mod e2b;
mod files;
mod form;
mod isolation;
mod jupyter;
mod lease;
mod login;
mod mcp;
mod namespaces;
mod notebook;
mod openai;
mod ports;
mod reproduce;
mod retold;
mod run_create;
mod run_list;
mod run_views;
mod runs;
mod session_create;
mod session_list;
mod session_views;
mod sessions;
mod shares;
mod snapshots;
mod socket;
mod spool;
mod steering;
mod steps;
mod tables;
mod terminal;
mod thread;
mod uploads;
mod variables;
pub(crate) mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::header;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::forward::forward;
use crate::guard::{Hosts, authorize, guard};
use crate::openapi::openapi;
use crate::problem::{Code, ERRORS_PAGE, Problem};
use crate::requests::MCP;
use crate::service::Service;
use crate::web;
use crate::work::work;

fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(session_list::list, sessions::create))
        .routes(routes!(sessions::show, sessions::update, sessions::delete))
        .routes(routes!(namespaces::manifest))
        .routes(routes!(tables::rows))
        .routes(routes!(tables::statistics))
        .routes(routes!(tables::csv))
        .routes(routes!(sessions::interrupt))
        .routes(routes!(lease::renew))
        .routes(routes!(cells::list, cells::run))
        .routes(routes!(cells::show))
        .routes(routes!(cells::events))
        .routes(routes!(cells::input))
        .routes(routes!(notebook::show, notebook::store))
        .routes(routes!(socket::open))
        .routes(routes!(namespaces::list, namespaces::create))
        .routes(routes!(namespaces::restart))
        .routes(routes!(namespaces::delete))
        .routes(routes!(commands::list, commands::run))
        .routes(routes!(commands::show, commands::kill))
        .routes(routes!(commands::events))
        .routes(routes!(commands::input))
        .routes(routes!(commands::signal))
        .routes(routes!(commands::resize))
        .routes(routes!(terminal::open))
        .routes(routes!(ports::open))
        .routes(routes!(checkpoints::list, checkpoints::create))
        .routes(routes!(checkpoints::forget))
        .routes(routes!(checkpoints::restore))
        .routes(routes!(checkpoints::fork))
        .routes(routes!(snapshots::download))
        .routes(routes!(snapshots::load))
        .routes(routes!(snapshots::hibernate))
        .routes(routes!(snapshots::wake))
        .routes(routes!(files::list))
        .routes(routes!(files::get, files::put, files::delete))
        .routes(routes!(files::stat))
        .routes(routes!(files::make_directory))
        .routes(routes!(files::rename))
        .routes(routes!(files::archive, files::unpack))
        .routes(routes!(watch::watch))
        .merge(uploads())
        .routes(routes!(run_list::list, run_create::create))
        .routes(routes!(runs::show, run_list::update, runs::delete))
        .routes(routes!(thread::show))
        .routes(routes!(thread::again))
        .routes(routes!(shares::list, shares::create))
        .routes(routes!(shares::revoke))
        .routes(routes!(runs::events))
        .routes(routes!(steps::list))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::interrupt))
        .routes(routes!(runs::resume))
        .routes(routes!(approvals::decide))
        .routes(routes!(approvals::preview))
        .routes(routes!(steering::budget))
        .routes(routes!(steering::policy))
        .routes(routes!(steering::follow_up))
        .routes(routes!(steering::branch))
        .routes(routes!(runs::artifact))
        .routes(routes!(runs::export))
        .routes(routes!(reproduce::reproduce))
        .routes(routes!(login::me))
        .routes(routes!(login::examples))
}

/// Each of their responses has a header more.
fn uploads() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(uploads::create))
        .routes(routes!(uploads::show, uploads::add, uploads::delete))
        .layer(map_response(uploads::say_version))
}

/// Routes without a key.
fn open_routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(login::log_in))
        .routes(routes!(login::log_out))
}

/// Routes with the token of a share link instead of a key.
fn shared_routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(shares::show))
        .routes(routes!(shares::steps))
}

/// The paths of the OpenAPI document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    routes()
        .merge(open_routes())
        .merge(shared_routes())
        .into_openapi()
}

/// Everything that the public listener answers.
pub(crate) fn router(service: &Arc<Service>, hosts: Hosts) -> Router {
    let (with_key, _) = routes().split_for_parts();
    let (open, _) = open_routes().split_for_parts();
    let (shared, _) = shared_routes().split_for_parts();
    let shared = shared
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), shares::authorize))
        .with_state(Arc::clone(service));
    let with_key = with_key
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(service), work))
        .layer(from_fn_with_state(Arc::clone(service), forward))
        // Its messages are not requests of ours: they are read and answered as its protocol says.
        .route(
            MCP,
            any(mcp::handle).layer(from_fn_with_state(Arc::clone(service), forward)),
        )
        .layer(from_fn_with_state(Arc::clone(service), authorize))
        .with_state(Arc::clone(service));
    let sandboxes = match service.tokens {
        Some(_) => e2b::router(service),
        None => Router::new(),
    };
    let openai = if service.options.openai {
        openai::router(service)
    } else {
        Router::new()
    };
    let kernels = if service.options.jupyter {
        jupyter::router(service)
    } else {
        Router::new()
    };
    let all = Router::new()
        .route("/openapi.json", get(document_as_json))
        .route("/errors/{code}", get(error_page))
        .merge(web::routes())
        .merge(open.with_state(Arc::clone(service)))
        .merge(with_key)
        .merge(shared)
        .merge(sandboxes)
        .merge(openai)
        .merge(kernels)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state((Arc::clone(service), hosts), guard));
    let Some(domain) = service.options.e2b_domain.clone() else {
        return all;
    };
    let service = Arc::clone(service);
    // Before a route is looked for: each name of the domain is one of a sandbox, or of a port.
    Router::new().fallback(move |mut request: Request| {
        let ports = service.ports.as_ref();
        if ports
            .and_then(|ports| ports.find(request.headers()))
            .is_none()
        {
            e2b::rewrite(&mut request, &domain);
        }
        TowerToHyperService::new(all.clone()).call(request)
    })
}

async fn no_route() -> Problem {
    Problem::new(
        Code::RouteNotFound,
        "`/openapi.json` lists all routes and methods",
    )
}

async fn no_method() -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        "`/openapi.json` lists all routes and methods",
    )
}

async fn document_as_json() -> Response {
    let json = openapi().to_string();
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// The section of the page that a problem's `type` points to.
async fn error_page(Path(code): Path<String>) -> Result<Response, Problem> {
    let heading = format!("## {code}\n");
    let known = Code::ALL.iter().any(|known| known.as_str() == code);
    let section = known.then(|| ERRORS_PAGE.split_once(&heading)).flatten();
    let Some((_, rest)) = section else {
        return Ok(no_route().await.into_response());
    };
    let text = rest.split("\n## ").next().unwrap_or(rest).trim();
    let page = format!("{heading}\n{text}\n");
    Ok((
        [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")],
        page,
    )
        .into_response())
}
