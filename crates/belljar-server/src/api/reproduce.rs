//! `POST /v1/runs/{id}/reproduce`.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use belljar_agent::Reproduction;
use serde_json::json;
use tokio::sync::watch;

use super::sessions::Nothing;
use crate::body::{Json, Named};
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::{self, KEY_CHECK, Reader};

/// Runs the code of an ended run again and compares its values.
///
/// The code runs twice, each time in a new session with the files that the run started with. Calls of tools get their
/// recorded answers. The stream has events `progress` (`done`, `all`) and ends with `reproduction`, or with `problem`.
/// Whoever leaves the stream ends it.
#[utoipa::path(
    post, path = "/v1/runs/{id}/reproduce", tag = "runs", operation_id = "reproduce_run",
    params(("id" = String, Path, description = "The ended run.")),
    responses((status = 200, description = "Progress, then the comparison.", body = ref("#/components/schemas/Reproduction"), content_type = "text/event-stream"))
)]
pub(super) async fn reproduce(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Response, Problem> {
    let admitted = service.runs.admit_reproduction(&caller.tenant, &id).await?;
    let (sender, progress) = watch::channel((0, 0));
    let reader = Reproducing {
        listener: Listener::new(&service, &caller)?,
        progress,
        work: Some(Box::pin(admitted.run(sender))),
        number: 0,
    };
    Ok(reader.answer())
}

type Work = Pin<Box<dyn Future<Output = Result<Reproduction, Problem>> + Send>>;

/// Somebody who waits for a reproduction.
struct Reproducing {
    listener: Listener,
    progress: watch::Receiver<(usize, usize)>,
    /// None once it has ended.
    work: Option<Work>,
    /// Of the last event.
    number: u64,
}

impl Reader for Reproducing {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let work = self.work.as_mut()?;
            if self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            let (kind, json) = tokio::select! {
                ended = work => {
                    self.work = None;
                    match ended {
                        Ok(reproduction) => ("reproduction", json!(reproduction)),
                        Err(problem) => ("problem", json!(problem.body())),
                    }
                }
                Ok(()) = self.progress.changed() => {
                    let (done, all) = *self.progress.borrow_and_update();
                    ("progress", json!({ "done": done, "all": all }))
                }
                () = tokio::time::sleep(KEY_CHECK) => match self.listener.sign_of_life() {
                    Some(sign) => return Some(sign),
                    None => continue,
                },
            };
            self.number += 1;
            let event = streams::event(self.number, kind, &json.to_string());
            return Some(self.listener.say(event));
        }
    }
}
