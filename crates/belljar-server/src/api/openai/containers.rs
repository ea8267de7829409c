//! `/containers`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json as JsonResponse;
use axum::extract::{OriginalUri, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::container::{Container, check_scope, container_id};
use super::errors::{invalid, unsupported};
use super::pages::{self, PageAsked};
use super::response_object::created_at;
use crate::api::session_create::CreateSession;
use crate::api::session_views::seconds;
use crate::api::sessions;
use crate::body::{Json, Named, Query};
use crate::gather::gather;
use crate::hop::is_passed_on;
use crate::label::{ContainerLabel, LabelChange, LabelFilter};
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Minutes of the lease that a use gives to a container, unless the client says.
const MINUTES: u64 = 20;

/// Sizes of memory, in GiB.
const MEMORY: [(&str, u64); 4] = [("1g", 1), ("4g", 4), ("16g", 16), ("64g", 64)];

#[derive(Deserialize)]
pub(super) struct NewContainer {
    name: String,
    expires_after: Option<ExpiresAfter>,
    file_ids: Option<Vec<Value>>,
    memory_limit: Option<String>,
    network_policy: Option<NetworkPolicy>,
    skills: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct ExpiresAfter {
    anchor: String,
    minutes: u64,
}

/// The hosts that a container may reach.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum NetworkPolicy {
    Disabled,
    Allowlist {
        allowed_domains: Vec<String>,
        domain_secrets: Option<Vec<Value>>,
    },
}

/// Refuses files that were uploaded elsewhere.
pub(super) fn check_file_ids(ids: Option<&Vec<Value>>) -> Result<(), Problem> {
    match ids {
        Some(ids) if !ids.is_empty() => {
            let why = "there is no store of files; upload them to a container";
            Err(unsupported("file_ids", why))
        }
        _ => Ok(()),
    }
}

/// Refuses more memory than the sessions of the service have.
pub(super) fn check_memory(service: &Service, asked: Option<&str>) -> Result<(), Problem> {
    let Some(asked) = asked else {
        return Ok(());
    };
    let found = MEMORY.iter().find(|(name, _)| *name == asked);
    let why = "it must be `1g`, `4g`, `16g` or `64g`";
    let (_, size) = found.ok_or_else(|| invalid("memory_limit", why))?;
    let most = service.options.session.limits.memory_bytes;
    if size << 30 > most {
        let why = format!("the sessions of this service have {} MiB", most >> 20);
        return Err(unsupported("memory_limit", &why));
    }
    Ok(())
}

/// Starts a session with a lease.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(asked): Json<NewContainer>,
) -> Result<JsonResponse<Value>, Problem> {
    check_scope(&caller)?;
    check_file_ids(asked.file_ids.as_ref())?;
    check_memory(&service, asked.memory_limit.as_deref())?;
    if asked.skills.is_some_and(|skills| !skills.is_empty()) {
        return Err(unsupported("skills", "upload files to the container"));
    }
    let mut minutes = MINUTES;
    if let Some(after) = asked.expires_after {
        if after.anchor != "last_active_at" || after.minutes == 0 {
            let why = "it must have the anchor `last_active_at`, and 1 minute at least";
            return Err(invalid("expires_after", why));
        }
        minutes = after.minutes;
    }
    let mut session = CreateSession::default();
    match asked.network_policy {
        None | Some(NetworkPolicy::Disabled) => {}
        Some(NetworkPolicy::Allowlist {
            allowed_domains,
            domain_secrets,
        }) => {
            if domain_secrets.is_some_and(|secrets| !secrets.is_empty()) {
                let why = "containers have no secrets";
                return Err(unsupported("network_policy.domain_secrets", why));
            }
            session.network.allow = allowed_domains;
        }
    }
    let label = LabelChange {
        name: Some(asked.name),
        ttl_seconds: Some(minutes.saturating_mul(60)),
        container: Some(ContainerLabel {
            minutes,
            memory_limit: asked.memory_limit,
            ..ContainerLabel::default()
        }),
        ..LabelChange::default()
    };
    let entry = sessions::start(&service, caller, session, label).await?;
    Ok(JsonResponse(view(&entry)))
}

fn view(entry: &SessionEntry) -> Value {
    let label = entry.label();
    let container = label.container.unwrap_or_default();
    let lease = Duration::from_secs(60 * container.minutes);
    // Each use moves the lease.
    let used = label.expires.and_then(|expires| expires.checked_sub(lease));
    json!({
        "id": container_id(&entry.id),
        "object": "container",
        "created_at": seconds(entry.created),
        "status": "running",
        "expires_after": {"anchor": "last_active_at", "minutes": container.minutes},
        "last_active_at": seconds(used.unwrap_or(UNIX_EPOCH)),
        "memory_limit": container.memory_limit,
        "name": label.name.unwrap_or_default(),
        "network_policy": match entry.allow.as_slice() {
            [] => json!({"type": "disabled"}),
            allowed => json!({"type": "allowlist", "allowed_domains": allowed}),
        },
    })
}

/// Lists the containers that clients made. Those of responses are found by their ids.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<PageAsked>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_scope(&caller)?;
    let filter = LabelFilter::new(asked.name.clone(), None)?;
    let mut own = service
        .sessions
        .list(&caller.tenant, &filter, 0, usize::MAX);
    own.retain(|entry| entry.label().container.is_some() && entry.session().is_ok());
    let mut all: Vec<Value> = own.iter().map(|entry| view(entry)).collect();
    if is_passed_on(&headers) {
        // All of them: the page is cut where those of all nodes are known.
        return Ok(JsonResponse(pages::list(&all, false)).into_response());
    }
    let others = gather::<OtherList>(&service, &caller, &headers, &uri).await?;
    let mut response_headers = HeaderMap::new();
    others.name_unanswered(&mut response_headers);
    if !others.lists.is_empty() {
        all.extend(others.lists.into_iter().flat_map(|list| list.body.data));
        all.sort_by_cached_key(|view| (view["created_at"].as_u64(), id_of(view)));
    }
    let (page, has_more) = asked.take(all, id_of)?;
    let list = JsonResponse(pages::list(&page, has_more));
    Ok((response_headers, list).into_response())
}

/// The containers of another node.
#[derive(Deserialize)]
struct OtherList {
    data: Vec<Value>,
}

fn id_of(view: &Value) -> String {
    view["id"].as_str().unwrap_or_default().to_owned()
}

/// Shows a container.
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let view = match Container::find(&service, &caller, &id).await? {
        Container::Session(entry) => view(&entry),
        Container::Run(recorded) => json!({
            "id": id,
            "object": "container",
            "created_at": created_at(&recorded).await?,
            "status": "running",
            "name": format!("resp_{}", recorded.id),
            "network_policy": {"type": "disabled"},
        }),
    };
    Ok(JsonResponse(view))
}

/// Ends a container.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    match Container::find(&service, &caller, &id).await? {
        Container::Session(entry) => {
            service.sessions.remove(&caller.tenant, &entry.id)?;
            entry.close().await;
        }
        Container::Run(_) => return Err(of_response("delete the response")),
    }
    Ok(JsonResponse(
        json!({"id": id, "object": "container.deleted", "deleted": true}),
    ))
}

/// The container of a response is what its run has left.
pub(super) fn of_response(instead: &str) -> Problem {
    let why = format!("the container of a response cannot be changed; {instead}");
    unsupported("container_id", &why)
}
