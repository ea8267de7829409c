//! `/chat/completions`: a run whose task is the last message.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json as JsonResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::begin::NewRun;
use super::chat_state::{ChatHead, ChatState};
use super::chat_stream::ChatReader;
use super::conversation::{Content, Conversation};
use super::errors::in_stream;
use super::follow::{Attended, Finished, Follower};
use super::parameters::{NO_FUNCTIONS, NO_LOGPROBS, Others, check_sampling};
use crate::api::session_views::seconds;
use crate::body::Json;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::Reader as _;
use crate::work::ClientGone;

/// A chat. Parameters that change nothing here are ignored.
#[derive(Deserialize)]
pub(super) struct ChatAsked {
    model: String,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    temperature: Option<f64>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<u64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl ChatAsked {
    fn check(&self) -> Result<(), Problem> {
        let others = Others(&self.others);
        others.refuse_common()?;
        let text = "an answer is text; ask for JSON in the message";
        others.refuse(&[
            ("tools", &[json!([])], NO_FUNCTIONS),
            ("functions", &[json!([])], NO_FUNCTIONS),
            (
                "function_call",
                &[json!("auto"), json!("none")],
                NO_FUNCTIONS,
            ),
            ("n", &[json!(1)], "a run has one answer"),
            ("logprobs", &[json!(false)], NO_LOGPROBS),
            ("logit_bias", &[json!({})], "it cannot be set"),
            ("response_format", &[json!({"type": "text"})], text),
            ("modalities", &[json!(["text"])], text),
            ("audio", &[], text),
            (
                "stop",
                &[json!([]), json!("")],
                "an answer ends where the model ends it",
            ),
            ("web_search_options", &[], "a run does not search the web"),
        ])?;
        let (name, most) = match self.max_completion_tokens {
            Some(most) => ("max_completion_tokens", Some(most)),
            None => ("max_tokens", self.max_tokens),
        };
        check_sampling(self.temperature, most.map(|most| (name, most)))
    }
}

/// Runs the agent on a conversation. Who hangs up cancels the run.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(client): Extension<ClientGone>,
    Json(asked): Json<ChatAsked>,
) -> Result<Response, Problem> {
    asked.check()?;
    let mut conversation = Conversation::default();
    for message in asked.messages {
        conversation.say(&message.role, message.content)?;
    }
    let (task, files) = conversation.task()?;
    let run = NewRun {
        model: asked.model.clone(),
        task,
        files,
        temperature: asked.temperature,
        max_tokens: asked.max_completion_tokens.or(asked.max_tokens),
        previous: None,
    };
    let run = run.start(&service, &caller).await?;
    let attended = Attended::new(&service, &caller, &run);
    let follower = Follower::new(&service, &caller, run.as_str()).await?;
    let head = ChatHead {
        run,
        model: asked.model,
        created: seconds(SystemTime::now()),
    };
    if asked.stream == Some(true) {
        let options = asked.stream_options;
        let usage = options.and_then(|options| options.include_usage) == Some(true);
        let reader = ChatReader::new(&service, &caller, head, usage, follower, attended)?;
        return Ok(reader.answer());
    }
    tokio::select! {
        answer = whole(&head, follower, attended) => answer,
        // Nobody reads this.
        () = client.wait() => Err(Problem::draining()),
    }
}

async fn whole(
    head: &ChatHead,
    mut follower: Follower,
    mut attended: Attended,
) -> Result<Response, Problem> {
    let mut state = ChatState::default();
    while let Some(event) = follower.next().await? {
        state.hear(&event);
    }
    attended.ended();
    let (content, reason) = match &state.finished {
        Some(Finished::Answered(text)) => (text, "stop"),
        Some(Finished::Cut(text)) => (text, "length"),
        Some(Finished::Cancelled(why) | Finished::Failed(why)) => return Ok(failed(why)),
        None => return Err(Problem::internal("a run", "it has no end")),
    };
    let choices = json!([{
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": null},
        "logprobs": null,
        "finish_reason": reason,
    }]);
    let mut body = head.object("chat.completion", &choices);
    body["usage"] = state.usage();
    Ok(JsonResponse(body).into_response())
}

/// A run without an answer: a fault of the server to a client, which is not to try again by itself.
fn failed(why: &str) -> Response {
    let body = JsonResponse(in_stream("run_failed", why));
    let mut response = (StatusCode::INTERNAL_SERVER_ERROR, body).into_response();
    let no = HeaderValue::from_static("false");
    response.headers_mut().insert("x-should-retry", no);
    response
}
