//! Lists of sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::{IntoResponse as _, Response};

use super::errors::not_supported;
use super::sandbox::{state, view};
use crate::body::Query;
use crate::label::LabelFilter;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Default and maximum number of sandboxes of a page.
const PAGE: usize = 100;

/// Lists the sandboxes of a tenant, a page at a time.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let asked = ListAsked::new(asked)?;
    let all = service
        .sessions
        .list(&caller.tenant, &LabelFilter::default(), 0, usize::MAX);
    let mut found: Vec<_> = all.into_iter().filter(|entry| asked.wants(entry)).collect();
    if asked.newest_first {
        found.reverse();
    }
    let more = found.len() > asked.limit;
    found.truncate(asked.limit);
    let next = found.last().filter(|_| more).map(|entry| entry.number);
    let views: Vec<_> = found.iter().map(|entry| view(entry)).collect();
    let mut response = JsonResponse(views).into_response();
    if let Some(next) = next {
        let next = HeaderValue::from(next);
        response.headers_mut().insert("x-next-token", next);
    }
    Ok(response)
}

/// Which sandboxes of a list a client wants.
struct ListAsked {
    limit: usize,
    /// The number of the last sandbox of the page before.
    after: Option<u64>,
    newest_first: bool,
    states: Vec<String>,
    template: Option<String>,
    metadata: BTreeMap<String, String>,
}

impl ListAsked {
    fn new(pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let bad = |name: &str| Problem::new(Code::BadQuery, format!("`{name}` is not valid"));
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
                "nextToken" => {
                    asked.after = Some(value.parse().map_err(|_| bad("nextToken"))?);
                }
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
        let in_page = match self.after {
            None => true,
            Some(after) if self.newest_first => entry.number < after,
            Some(after) => entry.number > after,
        };
        let has = |(name, value): (&String, &String)| label.metadata.get(name) == Some(value);
        let state = state(entry);
        entry.any_session().is_ok()
            && in_page
            && (self.states.is_empty() || self.states.iter().any(|one| one == state))
            && self
                .template
                .as_ref()
                .is_none_or(|one| *one == sandbox.template)
            && self.metadata.iter().all(has)
    }
}
