//! `/v1/sessions/{id}/watch`: changes in a directory of a session, as they happen.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use belljar_sandbox::{FileChange, FileEvent, Watch};
use schemars::JsonSchema;
use serde::Serialize;

use super::files::{DirectoryAsked, check, with_files};
use crate::body::{Named, Query};
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::{KEY_CHECK, Reader, event};

/// A change in a watched directory.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "FileEvent")]
pub(crate) enum FileEventView {
    /// An entry was made, or moved here.
    Created {
        /// Name of the entry in the directory.
        name: String,
    },
    /// An entry was written to.
    Written {
        /// Name of the entry in the directory.
        name: String,
    },
    /// An entry was deleted.
    Deleted {
        /// Name of the entry in the directory.
        name: String,
    },
    /// An entry was moved away, or has another name now.
    Renamed {
        /// Name of the entry in the directory.
        name: String,
    },
    /// The permissions or times of an entry changed.
    Attributes {
        /// Name of the entry in the directory.
        name: String,
    },
    /// Changes came faster than they were read, and some are missing: list the directory again.
    Overflowed,
    /// The directory was deleted, or the session has hibernated or ended.
    End,
}

impl From<FileEvent> for FileEventView {
    fn from(event: FileEvent) -> Self {
        let FileEvent::Changed { name, change } = event else {
            return Self::Overflowed;
        };
        match change {
            FileChange::Created => Self::Created { name },
            FileChange::Written => Self::Written { name },
            FileChange::Deleted => Self::Deleted { name },
            FileChange::Renamed => Self::Renamed { name },
            FileChange::Attributes => Self::Attributes { name },
        }
    }
}

impl FileEventView {
    fn kind(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Written { .. } => "written",
            Self::Deleted { .. } => "deleted",
            Self::Renamed { .. } => "renamed",
            Self::Attributes { .. } => "attributes",
            Self::Overflowed => "overflowed",
            Self::End => "end",
        }
    }
}

/// Streams the changes in the workspace, or in a directory, from now on. Directories in it are not watched.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/watch", tag = "files", operation_id = "watch_directory",
    params(("id" = String, Path, description = "The session."), DirectoryAsked),
    responses((status = 200, description = "The changes.",
        body = ref("#/components/schemas/FileEvent"), content_type = "text/event-stream"))
)]
pub(super) async fn watch(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<DirectoryAsked>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let path = asked.path.unwrap_or_default();
    check(&path)?;
    let listener = Listener::new(&service, &caller)?;
    let watch = with_files(&entry, move |session| session.watch(&path)).await?;
    let reader = WatchReader {
        watch,
        listener,
        number: 0,
        ended: false,
    };
    Ok(reader.answer())
}

/// Somebody who reads the changes of a directory.
struct WatchReader {
    watch: Watch,
    listener: Listener,
    number: u64,
    ended: bool,
}

impl Reader for WatchReader {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            if self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            let Ok(change) = tokio::time::timeout(KEY_CHECK, self.watch.next()).await else {
                if let Some(sign) = self.listener.sign_of_life() {
                    return Some(sign);
                }
                continue;
            };
            self.ended = change.is_none();
            let told = change.map_or(FileEventView::End, FileEventView::from);
            let json = serde_json::to_string(&told).ok()?;
            self.number += 1;
            return Some(self.listener.say(event(self.number, told.kind(), &json)));
        }
        None
    }
}
