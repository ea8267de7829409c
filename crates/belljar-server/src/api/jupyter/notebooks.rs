//! `/api/sessions`: what Jupyter calls a session is a notebook or console with a kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::kernel::{all, end, find, grouped, start, view};
use super::kernels::with_others;
use crate::body::{Json, JsonRequest, Named};
use crate::forward::{Begun, begin_elsewhere, elsewhere, locate};
use crate::gather::gather;
use crate::label::{KernelLabel, LabelChange, NotebookLabel};
use crate::node::random_hex;
use crate::pass_on::pass_on;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// A notebook, or changes of one.
#[derive(Deserialize)]
pub(super) struct NotebookAsked {
    path: Option<String>,
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    kernel: Option<KernelAsked>,
}

#[derive(Default, Deserialize)]
struct KernelAsked {
    id: Option<String>,
    name: Option<String>,
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let notebooks = notebooks(&service, &caller);
    let views = notebooks
        .iter()
        .map(|(entry, notebook)| notebook_view(&service, entry, notebook));
    with_others(&service, &caller, views.collect(), &headers, &uri).await
}

/// Starts a kernel for a notebook. A notebook that has one keeps it.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    OriginalUri(uri): OriginalUri,
    JsonRequest(asked, request): JsonRequest<NotebookAsked>,
) -> Result<Response, Problem> {
    let path = asked.path.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| Problem::new(Code::BadBody, "`path` is missing"))?;
    let mut known = notebooks(&service, &caller).into_iter();
    if let Some((entry, notebook)) = known.find(|(_, notebook)| notebook.path == path) {
        let view = notebook_view(&service, &entry, &notebook);
        return Ok((StatusCode::CREATED, JsonResponse(view)).into_response());
    }
    let headers = &request.parts.headers;
    let others = gather::<Vec<Value>>(&service, &caller, headers, &uri).await?;
    let mut known = others.lists.into_iter().flat_map(|list| list.body);
    if let Some(view) = known.find(|view| view["path"] == path.as_str()) {
        return Ok((StatusCode::CREATED, JsonResponse(view)).into_response());
    }
    let kernel = asked.kernel.unwrap_or_default();
    if let Some(id) = kernel.id.as_deref().filter(|id| !id.is_empty()) {
        if let Some(node) = elsewhere(&service, headers, id).await? {
            return Box::pin(pass_on(&service, None, &node, request.into_request())).await;
        }
    } else {
        let begun = begin_elsewhere(&service, None, request.into_request());
        if let Begun::Elsewhere(response) = Box::pin(begun).await? {
            return Ok(response);
        }
    }
    let random =
        random_hex(16).map_err(|error| Problem::internal("cannot read random bytes", error))?;
    let notebook = NotebookLabel {
        id: grouped(&service.sessions.digits(&random)),
        path,
        name: asked.name.unwrap_or_default(),
        kind: asked.kind.unwrap_or_else(|| "notebook".into()),
    };
    let entry = take(&service, caller, &kernel, notebook.clone()).await?;
    let view = notebook_view(&service, &entry, &notebook);
    Ok((StatusCode::CREATED, JsonResponse(view)).into_response())
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let (entry, notebook) = find_notebook(&service, &caller, &id)?;
    Ok(JsonResponse(notebook_view(&service, &entry, &notebook)))
}

/// Renames a notebook, or gives it another kernel in place of the one that it has.
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<NotebookAsked>,
) -> Result<JsonResponse<Value>, Problem> {
    let (mut entry, known) = find_notebook(&service, &caller, &id)?;
    let other = asked.kernel.as_ref().and_then(|kernel| kernel.id.as_ref());
    // No node could find the notebook by its id, and the one that is asked is its own.
    if let Some(other) = other
        && locate(&service, other, false).await?.is_some()
    {
        let detail = format!(
            "the kernel `{}` is on another node than the notebook; start a new one for it",
            other.escape_debug()
        );
        return Err(Problem::new(Code::BadBody, detail));
    }
    let notebook = NotebookLabel {
        id: known.id,
        path: asked.path.unwrap_or(known.path),
        name: asked.name.unwrap_or(known.name),
        kind: asked.kind.unwrap_or(known.kind),
    };
    match asked.kernel {
        Some(kernel) if kernel.id.is_some() || kernel.name.is_some() => {
            let other = take(&service, caller, &kernel, notebook.clone()).await?;
            if !Arc::ptr_eq(&entry, &other) {
                end(&service, &entry).await;
            }
            entry = other;
        }
        _ => relabel(&entry, &notebook)?,
    }
    Ok(JsonResponse(notebook_view(&service, &entry, &notebook)))
}

/// Ends a notebook's kernel.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let (entry, _) = find_notebook(&service, &caller, &id)?;
    end(&service, &entry).await;
    Ok(StatusCode::NO_CONTENT)
}

/// The kernel that a notebook asks for: one that there is, or a new one.
async fn take(
    service: &Arc<Service>,
    caller: Caller,
    asked: &KernelAsked,
    notebook: NotebookLabel,
) -> Result<Arc<SessionEntry>, Problem> {
    let Some(id) = asked.id.as_deref().filter(|id| !id.is_empty()) else {
        let name = asked.name.as_deref();
        return start(service, caller, name, BTreeMap::new(), Some(notebook)).await;
    };
    let entry = find(service, &caller, id)?;
    let used_by = notebook_of(&entry).filter(|other| other.id != notebook.id);
    if let Some(other) = used_by {
        let detail = format!("the kernel is that of `{}`", other.path.escape_debug());
        return Err(Problem::new(Code::BadBody, detail));
    }
    relabel(&entry, &notebook)?;
    Ok(entry)
}

fn relabel(entry: &SessionEntry, notebook: &NotebookLabel) -> Result<(), Problem> {
    entry.relabel(LabelChange {
        kernel: Some(KernelLabel {
            notebook: Some(notebook.clone()),
        }),
        ..LabelChange::default()
    })
}

fn notebook_of(entry: &SessionEntry) -> Option<NotebookLabel> {
    entry.label().kernel?.notebook
}

fn notebooks(service: &Service, caller: &Caller) -> Vec<(Arc<SessionEntry>, NotebookLabel)> {
    let kernels = all(service, caller).into_iter();
    kernels
        .filter_map(|entry| notebook_of(&entry).map(|notebook| (entry, notebook)))
        .collect()
}

fn find_notebook(
    service: &Service,
    caller: &Caller,
    id: &str,
) -> Result<(Arc<SessionEntry>, NotebookLabel), Problem> {
    let mut all = notebooks(service, caller).into_iter();
    all.find(|(_, notebook)| notebook.id == id).ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        let detail = format!("no notebook has the session id `{}`", id.escape_debug());
        Problem::new(Code::SessionNotFound, detail)
    })
}

fn notebook_view(service: &Service, entry: &SessionEntry, notebook: &NotebookLabel) -> Value {
    let NotebookLabel {
        id,
        path,
        name,
        kind,
    } = notebook;
    json!({
        "id": id,
        "path": path,
        "name": name,
        "type": kind,
        "kernel": view(service, entry),
        "notebook": {"path": path, "name": name},
    })
}
