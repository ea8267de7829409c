//! `/responses/{id}`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::follow::Follower;
use super::parameters::shows_outputs;
use super::response_object::{ResponseState, created_at, run_of};
use super::response_stream::ResponseReader;
use crate::body::{Named, Query};
use crate::problem::{Code, Problem};
use crate::runs::Recorded;
use crate::service::{Caller, Service};
use crate::streams::Reader as _;

/// How long a cancelled run has to end until its client gets an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A response as it is now.
pub(super) async fn object(
    service: &Service,
    caller: &Caller,
    run: &str,
    shows_outputs: bool,
) -> Result<Value, Problem> {
    let recorded = service.runs.read(&caller.tenant, run).await?;
    let mut state = new_state(&recorded, shows_outputs).await?;
    for event in &recorded.events {
        state.hear(event, &recorded.blobs()).await?;
    }
    Ok(state.object(recorded.was_driven))
}

async fn new_state(recorded: &Recorded, shows_outputs: bool) -> Result<ResponseState, Problem> {
    let created = created_at(recorded).await?;
    Ok(ResponseState::new(
        recorded.id.clone(),
        created,
        shows_outputs,
    ))
}

/// What a client wants of a response.
struct ShowAsked {
    streams: bool,
    /// The number of the first event.
    first: u64,
    shows_outputs: bool,
}

impl ShowAsked {
    fn new(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let value = |wanted: &str| {
            let mut pairs = pairs.iter().filter(|(name, _)| name == wanted);
            pairs.next().map(|(_, value)| value.as_str())
        };
        let first = match value("starting_after").map(str::parse::<u64>) {
            None => 0,
            Some(Ok(after)) => after.saturating_add(1),
            Some(Err(_)) => {
                let detail = "`starting_after`: it must be the number of an event";
                return Err(Problem::new(Code::BadQuery, detail));
            }
        };
        let include = pairs
            .iter()
            .filter(|(name, _)| name == "include" || name == "include[]");
        Ok(Self {
            streams: value("stream") == Some("true"),
            first,
            shows_outputs: shows_outputs(include.map(|(_, value)| value.as_str()))?,
        })
    }
}

/// Shows a response, or streams its events from the first one or after one.
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let run = run_of(&id)?;
    let asked = ShowAsked::new(&asked)?;
    if !asked.streams {
        let _transfer = service.admission.transfer(&caller.tenant)?;
        let object = object(&service, &caller, run, asked.shows_outputs).await?;
        return Ok(JsonResponse(object).into_response());
    }
    let state = {
        let recorded = service.runs.read(&caller.tenant, run).await?;
        new_state(&recorded, asked.shows_outputs).await?
    };
    let follower = Follower::new(&service, &caller, run).await?;
    let reader = ResponseReader::new(&service, &caller, state, follower, None, asked.first)?;
    Ok(reader.answer())
}

/// Deletes an ended response, with its files.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let run = run_of(&id)?;
    let runs = &service.runs;
    runs.delete(&service.tenants, &caller.tenant, run).await?;
    Ok(JsonResponse(
        json!({"id": id, "object": "response", "deleted": true}),
    ))
}

/// Cancels a response; one that has ended stays as it is.
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let run = run_of(&id)?;
    let (found, _) = service.runs.find(&caller.tenant, run).await?;
    match service.runs.cancel(&caller.tenant, &found).await {
        Ok(()) => {}
        Err(problem) if problem.code == Code::RunEnded => {}
        Err(problem) => return Err(problem),
    }
    let mut follower = Follower::new(&service, &caller, run).await?;
    let ended = async { while let Ok(Some(_)) = follower.next().await {} };
    // One that has not ended by then is shown as it is.
    let _ = tokio::time::timeout(PATIENCE, ended).await;
    let object = object(&service, &caller, run, false).await?;
    Ok(JsonResponse(object))
}
