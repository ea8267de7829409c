//! `GET /v1/sessions`: the sessions of a service, or of all nodes of a cluster.
//!
//! One node lists its sessions in the order in which they were made. Several have no common count, so theirs are in the
//! order of their creation times, and of their ids within a second. Both are those of a session for ever, so that a page
//! begins behind the last session of the page before, whichever node is asked.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::{OriginalUri, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::session_views::{SessionView, seconds};
use super::sessions::{PageAsked, cursor, no_cursor};
use crate::body::Query;
use crate::gather::{Gathered, gather};
use crate::label::LabelFilter;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionPage {
    #[schema(value_type = Vec<SessionView>)]
    sessions: Vec<Listed>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Nodes of the cluster that did not answer in time: their sessions are missing here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// A session of this node, or of another one as it shows it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Listed {
    Here(Box<SessionView>),
    Elsewhere(Map<String, Value>),
}

/// The page of another node.
#[derive(Debug, Deserialize)]
struct OtherPage {
    sessions: Vec<Map<String, Value>>,
    next_cursor: Option<String>,
}

/// The place of a session among those of all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    created_at: u64,
    id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsAsked {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Only sessions of this name.
    name: Option<String>,
    /// Only sessions with this metadata: `KEY=VALUE`.
    metadata: Option<String>,
}

impl Listed {
    fn here(entry: &SessionEntry) -> Self {
        Self::Here(Box::new(SessionView::from_entry(entry)))
    }
}

impl Place {
    fn from_entry(entry: &SessionEntry) -> Self {
        Self {
            created_at: seconds(entry.created),
            id: entry.id.clone(),
        }
    }

    /// That of a session that another node shows.
    fn from_view(view: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            created_at: view.get("created_at")?.as_u64()?,
            id: view.get("id")?.as_str()?.to_owned(),
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        [&self.created_at.to_be_bytes()[..], self.id.as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (created_at, id) = bytes.split_first_chunk()?;
        Some(Self {
            created_at: u64::from_be_bytes(*created_at),
            id: str::from_utf8(id).ok()?.to_owned(),
        })
    }
}

/// Lists sessions, oldest first: those of all nodes of a cluster.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions", params(SessionsAsked),
    responses((status = 200, description = "A page of sessions.", body = SessionPage))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<SessionsAsked>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<JsonResponse<SessionPage>, Problem> {
    let filter = LabelFilter::new(asked.name, asked.metadata.as_deref())?;
    let page = PageAsked::new(asked.limit, asked.cursor);
    let (limit, after) = (page.limit()?, page.cursor()?);
    let page = if service.options.cluster.is_some() {
        let after = after.map(|bytes| Place::from_bytes(&bytes).ok_or_else(no_cursor));
        let after = after.transpose()?;
        let others = gather(&service, &caller, &headers, &uri).await?;
        let all = service
            .sessions
            .list(&caller.tenant, &filter, 0, usize::MAX);
        of_all_nodes(&all, others, limit, after.as_ref())
    } else {
        let after = match after {
            None => 0,
            Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| no_cursor())?),
        };
        let sessions = &service.sessions;
        let found = sessions.list(&caller.tenant, &filter, after, limit + 1);
        of_one_node(&found, limit)
    };
    Ok(JsonResponse(page))
}

fn of_one_node(found: &[Arc<SessionEntry>], limit: usize) -> SessionPage {
    let more = found.len() > limit;
    let found = &found[..limit.min(found.len())];
    let last = found.last().filter(|_| more);
    SessionPage {
        sessions: found.iter().map(|entry| Listed::here(entry)).collect(),
        next_cursor: last.map(|entry| cursor(&entry.number.to_be_bytes())),
        unanswered: Vec::new(),
    }
}

/// The page behind a place, of the sessions of this node and of the same pages of the others.
fn of_all_nodes(
    own: &[Arc<SessionEntry>],
    others: Gathered<OtherPage>,
    limit: usize,
    after: Option<&Place>,
) -> SessionPage {
    let own = own.iter().map(|entry| (Place::from_entry(entry), entry));
    let mut own: Vec<_> = own.filter(|(place, _)| Some(place) > after).collect();
    own.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let mut more = own.len() > limit;
    own.truncate(limit);
    let own = own.into_iter();
    let mut all: Vec<_> = own
        .map(|(place, entry)| (place, Listed::here(entry)))
        .collect();
    for list in others.lists {
        more |= list.body.next_cursor.is_some();
        let sessions = list.body.sessions.into_iter();
        all.extend(
            sessions.filter_map(|view| Some((Place::from_view(&view)?, Listed::Elsewhere(view)))),
        );
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    more |= all.len() > limit;
    all.truncate(limit);
    let last = all.last().filter(|_| more);
    SessionPage {
        next_cursor: last.map(|(place, _)| cursor(&place.to_bytes())),
        sessions: all.into_iter().map(|(_, listed)| listed).collect(),
        unanswered: others.unanswered,
    }
}
