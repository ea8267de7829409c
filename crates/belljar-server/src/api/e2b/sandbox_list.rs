//! Lists of sandboxes: of a service, or of all nodes of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Serialize;
use serde_json::Value;

use super::errors::not_supported;
use super::sandbox::{state, view};
use crate::body::Query;
use crate::gather::{Gathered, gather};
use crate::label::LabelFilter;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Default and maximum number of sandboxes of a page.
const PAGE: usize = 100;

/// The parameter and the header with the token of the next page.
const NEXT: &str = "nextToken";
const NEXT_HEADER: &str = "x-next-token";

/// Lists the sandboxes of a tenant, a page at a time.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<Vec<(String, String)>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = ListAsked::new(asked)?;
    let all = service
        .sessions
        .list(&caller.tenant, &LabelFilter::default(), 0, usize::MAX);
    let mut found: Vec<_> = all.into_iter().filter(|entry| asked.wants(entry)).collect();
    if service.options.cluster.is_some() {
        let others = gather(&service, &caller, &headers, &uri).await?;
        return of_all_nodes(&asked, &found, others);
    }
    let after = asked.after.as_ref().map(|after| after.parse::<u64>());
    let after = after.transpose().map_err(|_| bad(NEXT))?;
    if asked.newest_first {
        found.reverse();
    }
    found.retain(|entry| match after {
        None => true,
        Some(after) if asked.newest_first => entry.number < after,
        Some(after) => entry.number > after,
    });
    let more = found.len() > asked.limit;
    found.truncate(asked.limit);
    let next = found.last().filter(|_| more);
    let next = next.map(|entry| entry.number.to_string());
    let views: Vec<_> = found.iter().map(|entry| view(entry)).collect();
    Ok(page(&views, next))
}

/// The same page of the sandboxes of this node and of all others. Those of several nodes are in the order of their start
/// times in seconds, and of their ids.
fn of_all_nodes(
    asked: &ListAsked,
    own: &[Arc<SessionEntry>],
    others: Gathered<Vec<Value>>,
) -> Result<Response, Problem> {
    let decoded = |after: &String| String::from_utf8(BASE64.decode(after).ok()?).ok();
    let after = asked.after.as_ref();
    let after = after.map(|after| decoded(after).ok_or_else(|| bad(NEXT)));
    let after = after.transpose()?;
    let own: Result<Vec<Value>, _> = own
        .iter()
        .map(|entry| serde_json::to_value(view(entry)))
        .collect();
    let mut all = own.map_err(|error| Problem::internal("a sandbox", error))?;
    let mut more = false;
    let mut headers = HeaderMap::new();
    others.name_unanswered(&mut headers);
    for list in others.lists {
        more |= list.headers.contains_key(NEXT_HEADER);
        all.extend(list.body);
    }
    let mut all: Vec<(String, Value)> = all
        .into_iter()
        .filter_map(|view| Some((place(&view)?, view)))
        .filter(|(place, _)| match &after {
            None => true,
            Some(after) if asked.newest_first => place < after,
            Some(after) => place > after,
        })
        .collect();
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    if asked.newest_first {
        all.reverse();
    }
    more |= all.len() > asked.limit;
    all.truncate(asked.limit);
    let next = all.last().filter(|_| more);
    let next = next.map(|(place, _)| BASE64.encode(place));
    let views: Vec<_> = all.into_iter().map(|(_, view)| view).collect();
    let mut response = page(&views, next);
    response.headers_mut().extend(headers);
    Ok(response)
}

/// The place of a sandbox among those of all nodes.
fn place(view: &Value) -> Option<String> {
    const SECONDS: usize = "2026-11-19T10:00:00".len();
    let started = view["startedAt"].as_str()?.get(..SECONDS)?;
    Some(format!("{started} {}", view["sandboxID"].as_str()?))
}

fn page(views: &[impl Serialize], next: Option<String>) -> Response {
    let mut response = JsonResponse(views).into_response();
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
        response.headers_mut().insert(NEXT_HEADER, next);
    }
    response
}

fn bad(name: &str) -> Problem {
    Problem::new(Code::BadQuery, format!("`{name}` is not valid"))
}

/// Which sandboxes of a list a client wants.
struct ListAsked {
    limit: usize,
    /// The token of the page before.
    after: Option<String>,
    newest_first: bool,
    states: Vec<String>,
    template: Option<String>,
    metadata: BTreeMap<String, String>,
}

impl ListAsked {
    fn new(pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut asked = Self {
            limit: PAGE,
            after: None,
            newest_first: true,
            states: Vec::new(),
            template: None,
            metadata: BTreeMap::new(),
        };
        for (name, value) in pairs {
            match name.as_str() {
                "limit" => {
                    let limit: usize = value.parse().map_err(|_| bad("limit"))?;
                    asked.limit = limit.clamp(1, PAGE);
                }
                NEXT => asked.after = Some(value),
                "order" => asked.newest_first = value != "asc",
                "state" => asked.states.extend(value.split(',').map(str::to_owned)),
                "template" => asked.template = Some(value),
                "metadata" => {
                    let query = format!("/?{value}").parse().map_err(|_| bad("metadata"))?;
                    let pairs = axum::extract::Query::try_from_uri(&query);
                    asked.metadata = pairs.map_err(|_| bad("metadata"))?.0;
                }
                other => {
                    let detail = format!("a list cannot be filtered by `{}`", other.escape_debug());
                    return Err(not_supported(detail));
                }
            }
        }
        Ok(asked)
    }

    fn wants(&self, entry: &SessionEntry) -> bool {
        let label = entry.label();
        let Some(sandbox) = &label.sandbox else {
            return false;
        };
        let has = |(name, value): (&String, &String)| label.metadata.get(name) == Some(value);
        let state = state(entry);
        entry.any_session().is_ok()
            && (self.states.is_empty() || self.states.iter().any(|one| one == state))
            && self
                .template
                .as_ref()
                .is_none_or(|one| *one == sandbox.template)
            && self.metadata.iter().all(has)
    }
}
