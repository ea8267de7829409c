//! `/api/kernels`, and how many there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::kernel::{all, end, find, moment, start, view};
use super::running::kernel_of;
use crate::body::{Json, Named};
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
) -> JsonResponse<Value> {
    let entries = all(&service, &caller);
    let handles = entries
        .iter()
        .filter_map(|entry| service.kernels.find(&entry.id));
    let handles: Vec<_> = handles.collect();
    let connections: usize = handles.iter().map(|handle| handle.connections()).sum();
    let active = handles.iter().map(|handle| handle.state().last_activity);
    let created = entries.iter().map(|entry| entry.created);
    let last = active.chain(created).max();
    JsonResponse(json!({
        "connections": connections,
        "kernels": entries.len(),
        "last_activity": last.map(moment),
    }))
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> JsonResponse<Vec<Value>> {
    let kernels = all(&service, &caller);
    JsonResponse(kernels.iter().map(|entry| view(&service, entry)).collect())
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
