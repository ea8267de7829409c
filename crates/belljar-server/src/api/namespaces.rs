//! `/v1/sessions/{id}/namespaces`.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar_sandbox::Namespace;
use belljar_sandbox::protocol::NameInfo;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::sessions::Nothing;
use crate::body::{Json, Named, Query};
use crate::problem::Problem;
use crate::service::{Caller, Service};

/// A namespace to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNamespace {
    /// Name: letters, digits, `-`, `_` and `.`.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$"
    )]
    name: String,
    /// Where its first cell starts, relative to the workspace [default: the workspace].
    #[schema(max_length = 4095)]
    directory: Option<String>,
}

/// A namespace of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamespaceView {
    name: String,
    /// Where its first cell starts. Later ones start where the one before was.
    directory: String,
}

impl From<Namespace> for NamespaceView {
    fn from(namespace: Namespace) -> Self {
        Self {
            name: namespace.name,
            directory: namespace.directory.display().to_string(),
        }
    }
}

/// The namespaces of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamespaceList {
    /// `main` first, then in the order of their creation.
    namespaces: Vec<NamespaceView>,
}

/// Lists the namespaces of a session. Does not wait for a running cell.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/namespaces", tag = "namespaces", operation_id = "list_namespaces",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The namespaces.", body = NamespaceList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<NamespaceList>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let list = entry.session()?.namespaces().await;
    let list = list.map_err(|error| entry.explain(error))?;
    let namespaces = list.into_iter().map(NamespaceView::from).collect();
    Ok(JsonResponse(NamespaceList { namespaces }))
}

/// Adds an empty namespace to a session. Does not wait for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/namespaces", tag = "namespaces", operation_id = "create_namespace",
    params(("id" = String, Path, description = "The session.")),
    request_body = CreateNamespace,
    responses((status = 201, description = "The namespace.", body = NamespaceView))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<CreateNamespace>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let made = session.create_namespace(&asked.name, asked.directory.as_deref());
    let made = made.await.map_err(|error| entry.explain(error))?;
    Ok((StatusCode::CREATED, JsonResponse(NamespaceView::from(made))).into_response())
}

/// Forgets the variables of a namespace. Waits for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/namespaces/{name}/restart", tag = "namespaces",
    operation_id = "restart_namespace",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the namespace."),
    ),
    responses((status = 204, description = "The namespace is empty."))
)]
pub(super) async fn restart(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let restarted = entry.session()?.namespace(&name).restart().await;
    restarted.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a namespace with its variables. Waits for a running cell.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/namespaces/{name}", tag = "namespaces", operation_id = "delete_namespace",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the namespace. `main` cannot be removed."),
    ),
    responses((status = 204, description = "Removed."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let removed = entry.session()?.namespace(&name).remove().await;
    removed.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Names in a namespace.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Manifest {
    #[schema(schema_with = names_schema)]
    names: Vec<NameInfo>,
}

fn names_schema() -> utoipa::openapi::schema::Array {
    let item = utoipa::openapi::Ref::from_schema_name("NameInfo");
    utoipa::openapi::schema::ArrayBuilder::new()
        .items(item)
        .build()
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ManifestAsked {
    /// The namespace [default: `main`].
    namespace: Option<String>,
}

/// Lists the names of a namespace. Waits for a running cell.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/manifest", tag = "sessions", operation_id = "show_manifest",
    params(("id" = String, Path, description = "The session."), ManifestAsked),
    responses((status = 200, description = "The names.", body = Manifest))
)]
pub(super) async fn manifest(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<ManifestAsked>,
) -> Result<JsonResponse<Manifest>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let names = match &asked.namespace {
        Some(name) => session.namespace(name).manifest().await,
        None => session.manifest().await,
    };
    let names = names.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(Manifest { names }))
}
