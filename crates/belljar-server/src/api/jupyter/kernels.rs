//! `/api/kernels`, and how many there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kernel::{all, end, find, moment, start, view};
use super::running::kernel_of;
use crate::body::{Json, Named};
use crate::gather::gather;
use crate::problem::Problem;
use crate::service::{Caller, Service};

// Without `Debug`: variables may be secrets.
/// A kernel to start. Fields that would change nothing here are ignored.
#[derive(Deserialize)]
pub(super) struct NewKernel {
    name: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

pub(super) async fn status(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let entries = all(&service, &caller);
    let handles = entries
        .iter()
        .filter_map(|entry| service.kernels.find(&entry.id));
    let handles: Vec<_> = handles.collect();
    let connections: usize = handles.iter().map(|handle| handle.connections()).sum();
    let active = handles.iter().map(|handle| handle.state().last_activity);
    let created = entries.iter().map(|entry| entry.created);
    let mut all = Status {
        connections,
        kernels: entries.len(),
        last_activity: active.chain(created).max().map(moment),
    };
    let others = gather::<Status>(&service, &caller, &headers, &uri).await?;
    let mut headers = HeaderMap::new();
    others.name_unanswered(&mut headers);
    for other in others.lists.into_iter().map(|list| list.body) {
        all.connections += other.connections;
        all.kernels += other.kernels;
        // Moments have a fixed number of digits.
        all.last_activity = all.last_activity.max(other.last_activity);
    }
    Ok((headers, JsonResponse(all)).into_response())
}

/// How many kernels a tenant has, and when one of them was last used.
#[derive(Deserialize, Serialize)]
struct Status {
    connections: usize,
    kernels: usize,
    last_activity: Option<String>,
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kernels = all(&service, &caller);
    let kernels = kernels.iter().map(|entry| view(&service, entry)).collect();
    with_others(&service, &caller, kernels, &headers, &uri).await
}

/// Adds what the other nodes have.
pub(super) async fn with_others(
    service: &Service,
    caller: &Caller,
    mut all: Vec<Value>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Response, Problem> {
    let others = gather::<Vec<Value>>(service, caller, headers, uri).await?;
    let mut headers = HeaderMap::new();
    others.name_unanswered(&mut headers);
    all.extend(others.lists.into_iter().flat_map(|list| list.body));
    Ok((headers, JsonResponse(all)).into_response())
}

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(asked): Json<NewKernel>,
) -> Result<(StatusCode, JsonResponse<Value>), Problem> {
    let env = asked.env.unwrap_or_default();
    let entry = start(&service, caller, asked.name.as_deref(), env, None).await?;
    Ok((StatusCode::CREATED, JsonResponse(view(&service, &entry))))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let entry = find(&service, &caller, &id)?;
    Ok(JsonResponse(view(&service, &entry)))
}

pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let entry = find(&service, &caller, &id)?;
    end(&service, &entry).await;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn interrupt(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let entry = find(&service, &caller, &id)?;
    entry.any_session()?.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

/// Restarts a kernel: variables go, files stay.
pub(super) async fn restart(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let entry = find(&service, &caller, &id)?;
    kernel_of(&service, &entry).restart().await?;
    Ok(JsonResponse(view(&service, &entry)))
}
