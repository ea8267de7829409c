//! Long calls: followed to their end, made tasks, or held until a person decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, InputRequest, InputRequiredResult,
    InputResponses, JsonObject,
};
use rmcp::service::RequestContext;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::cell::{may_be_told, tell_progress};
use crate::error::CallError;
use crate::question::{AskMethod, Question};
use crate::sessions::new_id;
use crate::tasks::{PATIENCE, Tasks};

/// How long a call is kept whose client must ask a person.
const KEPT: Duration = Duration::from_hours(1);

/// The name of the one question in a result that requests input.
const KEY: &str = "approval";

/// A running cell or run. It is stopped when this is dropped.
pub(crate) struct Work {
    pub(crate) running: JoinHandle<CallToolResult>,
    pub(crate) questions: mpsc::Receiver<Question>,
    /// Its last progress message.
    pub(crate) heard: watch::Receiver<String>,
    pub(crate) stop: CancellationToken,
    /// Its longest possible duration.
    pub(crate) limit: Duration,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What was called. A call that comes again must be the same.
#[derive(Clone, PartialEq)]
pub(crate) struct Called {
    pub(crate) name: String,
    pub(crate) arguments: JsonObject,
}

impl Called {
    pub(crate) fn new(request: &CallToolRequestParams) -> Self {
        Self {
            name: request.name.clone().into_owned(),
            arguments: request.arguments.clone().unwrap_or_default(),
        }
    }
}

/// A call that waits for its client to come again with a decision.
struct PutAside {
    work: Work,
    question: Question,
    called: Called,
    /// Drops it in the end.
    timer: JoinSet<()>,
}

/// The calls of one connection that wait for a decision, each under an id that is good for one use.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<HashMap<String, PutAside>>>);

impl Waiting {
    fn put(&self, work: Work, question: Question, called: Called) -> InputRequiredResult {
        let id = new_id("q");
        let request = InputRequest::Elicitation(question.request());
        let mut timer = JoinSet::new();
        let (waiting, gone) = (self.clone(), id.clone());
        timer.spawn(async move {
            tokio::time::sleep(KEPT).await;
            let call = waiting.lock().remove(&gone);
            drop(call);
        });
        let call = PutAside {
            work,
            question,
            called,
            timer,
        };
        self.lock().insert(id.clone(), call);
        InputRequiredResult::new(Some([(KEY.to_owned(), request)].into()), Some(id))
    }

    pub(crate) fn are_none(&self) -> bool {
        self.lock().is_empty()
    }

    /// Continues a call that comes again: with the same arguments, since the person has decided on
    /// these.
    pub(crate) fn take(
        &self,
        id: &str,
        called: &Called,
        responses: Option<InputResponses>,
    ) -> Result<Work, CallError> {
        let waiting = self.lock().remove(id);
        let Some(waiting) = waiting else {
            return Err(CallError::NothingWaits);
        };
        if waiting.called != *called {
            return Err(CallError::OtherCall);
        }
        let PutAside {
            work,
            question,
            mut timer,
            ..
        } = waiting;
        timer.abort_all();
        let given = responses.and_then(|mut responses| responses.remove(KEY));
        question.answer(given);
        Ok(work)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, PutAside>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows work until there is an answer to its call.
pub(crate) async fn follow(
    mut work: Work,
    called: Called,
    context: &RequestContext<RoleServer>,
    tasks: &Tasks,
    waiting: &Waiting,
) -> Result<CallToolResponse, CallError> {
    let method = AskMethod::from_context(context);
    // Not beside this: the library knows by its task which call a request of ours belongs to.
    let mut asking = FuturesUnordered::new();
    // Ends when this is dropped: no progress may be sent for an answered call.
    let mut progress = JoinSet::new();
    if let Some(token) = context.meta.get_progress_token()
        && may_be_told(&token)
    {
        let heard = work.heard.clone();
        progress.spawn(tell_progress(context.peer.clone(), token, heard));
    }
    let mut waited = std::pin::pin!(tokio::time::sleep(PATIENCE));
    let mut may_be_task = context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks());
    loop {
        tokio::select! {
            Some(()) = asking.next(), if !asking.is_empty() => {}
            result = &mut work.running => return Ok(result?.into()),
            () = context.ct.cancelled(), if !work.stop.is_cancelled() => work.stop.cancel(),
            Some(question) = work.questions.recv() => match method {
                AskMethod::Nobody => question.refuse(),
                AskMethod::Request => {
                    asking.push(question.put_to(context.peer.clone()));
                }
                AskMethod::Retry => {
                    let result = waiting.put(work, question, called);
                    return Ok(CallToolResponse::InputRequired(result));
                }
            },
            () = &mut waited, if may_be_task => {
                if tasks.have_room() {
                    return Ok(CallToolResponse::Task(tasks.make(work, method)));
                }
                may_be_task = false;
            }
        }
    }
}
