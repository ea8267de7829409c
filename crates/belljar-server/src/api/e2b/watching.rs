//! Changes in a directory of a sandbox: as a stream, or kept until a client asks for them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json as JsonResponse};
use belljar_sandbox::{FileChange, FileEvent, Watch};
use futures_util::FutureExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::errors::not_supported;
use super::filesystem::{EntryView, absolute, status};
use super::rpc::{Empty, Framed, STREAM, bad, last, last_error, message};
use crate::api::files::{check, with_files};
use crate::body::Json;
use crate::listener::Listener;
use crate::lock::lock;
use crate::node::random_hex;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::{KEY_CHECK, Reader};

/// The most changes that one answer has.
const MAX_EVENTS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchAsked {
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    include_entry: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatcherId {
    watcher_id: String,
}

/// A change.
#[derive(Debug, Serialize)]
struct ChangeView {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryView>,
}

#[derive(Debug, Serialize)]
pub(super) struct Changes {
    events: Vec<ChangeView>,
}

impl ChangeView {
    /// None for changes that are missing.
    fn new(event: FileEvent) -> Option<Self> {
        let FileEvent::Changed { name, change } = event else {
            return None;
        };
        let kind = match change {
            FileChange::Created => "EVENT_TYPE_CREATE",
            FileChange::Written => "EVENT_TYPE_WRITE",
            FileChange::Deleted => "EVENT_TYPE_REMOVE",
            FileChange::Renamed => "EVENT_TYPE_RENAME",
            FileChange::Attributes => "EVENT_TYPE_CHMOD",
        };
        let entry = None;
        Some(Self { name, kind, entry })
    }
}

/// Changes that came faster than they were read.
fn overflowed() -> Problem {
    let detail =
        "changes came faster than they were read, and some are missing; watch the directory again";
    Problem::new(Code::EventsGone, detail)
}

async fn begin(entry: &SessionEntry, asked: &WatchAsked) -> Result<Watch, Problem> {
    if asked.recursive {
        let detail = "`recursive`: a watch is of one directory; watch those below it, too";
        return Err(not_supported(detail));
    }
    check(&asked.path)?;
    let kind = status(entry, &asked.path).await?.kind;
    if kind != belljar_sandbox::EntryKind::Directory {
        let path = asked.path.escape_debug();
        return Err(bad(&format!("`{path}` is not a directory")));
    }
    let path = asked.path.clone();
    with_files(entry, move |session| session.watch(&path)).await
}

/// Streams the changes from now on.
pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    Framed(asked): Framed<WatchAsked>,
) -> Result<Response, Problem> {
    let watch = begin(&entry, &asked).await?;
    let reader = ChangeReader {
        listener: Listener::new(&service, &caller)?,
        first: Some(message(&json!({"start": {}}))),
        ended: false,
        watch,
        entry,
        asked,
    };
    Ok(reader.answer())
}

struct ChangeReader {
    watch: Watch,
    entry: Arc<SessionEntry>,
    asked: WatchAsked,
    listener: Listener,
    first: Option<Bytes>,
    ended: bool,
}

impl ChangeReader {
    async fn with_entry(&self, mut change: ChangeView) -> ChangeView {
        if self.asked.include_entry {
            let path = format!("{}/{}", absolute(&self.asked.path), change.name);
            let status = status(&self.entry, &path).await.ok();
            change.entry = status.map(|status| EntryView::new(&path, &status));
        }
        change
    }
}

impl Reader for ChangeReader {
    const KIND: &'static str = STREAM;

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.ended {
            if self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            let Ok(event) = tokio::time::timeout(KEY_CHECK, self.watch.next()).await else {
                if self.listener.sign_of_life().is_some() {
                    return Some(message(&json!({"keepalive": {}})));
                }
                continue;
            };
            let Some(event) = event else {
                self.ended = true;
                return Some(last());
            };
            let Some(change) = ChangeView::new(event) else {
                self.ended = true;
                return Some(last_error("resource_exhausted", &overflowed().detail));
            };
            let change = self.with_entry(change).await;
            let change = message(&json!({"filesystem": change}));
            return Some(self.listener.say(change));
        }
        None
    }
}

/// Keeps the changes from now on. A session has a maximum of watches.
pub(super) async fn create(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<WatchAsked>,
) -> Result<JsonResponse<WatcherId>, Problem> {
    if asked.include_entry {
        let detail = "`include_entry`: ask for the entry by `files.get_info`, or use the asynchronous client";
        return Err(not_supported(detail));
    }
    let watch = begin(&entry, &asked).await?;
    let id = random_hex(8).map_err(|error| Problem::internal("cannot read random bytes", error))?;
    lock(&entry.watchers).insert(id.clone(), watch);
    Ok(JsonResponse(WatcherId { watcher_id: id }))
}

/// The changes since the last call.
pub(super) async fn events(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<WatcherId>,
) -> Result<JsonResponse<Changes>, Problem> {
    let mut watchers = lock(&entry.watchers);
    let watch = watchers.get_mut(&asked.watcher_id).ok_or_else(no_watcher)?;
    let mut events = Vec::new();
    while events.len() < MAX_EVENTS {
        // Only what is there already.
        let Some(Some(event)) = watch.next().now_or_never() else {
            break;
        };
        events.push(ChangeView::new(event).ok_or_else(overflowed)?);
    }
    Ok(JsonResponse(Changes { events }))
}

pub(super) async fn remove(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<WatcherId>,
) -> Result<JsonResponse<Empty>, Problem> {
    let removed = lock(&entry.watchers).remove(&asked.watcher_id);
    removed.ok_or_else(no_watcher)?;
    Ok(JsonResponse(Empty {}))
}

fn no_watcher() -> Problem {
    Problem::new(Code::FileNotFound, "no watcher has this id")
}
