//! Starting a response: a run with the files of a container.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json as JsonResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::begin::NewRun;
use super::container::{Container, inner_id};
use super::containers::{NetworkPolicy, check_file_ids, check_memory};
use super::conversation::{Content, Conversation, GivenFile};
use super::errors::{invalid, unsupported};
use super::follow::{Attended, Follower};
use super::parameters::{NO_FUNCTIONS, Others, check_sampling, shows_outputs};
use super::response_object::{ResponseState, run_of};
use super::response_stream::ResponseReader;
use super::responses;
use crate::api::session_views::seconds;
use crate::body::JsonRequest;
use crate::forward::{Begun, begin_elsewhere, elsewhere};
use crate::pass_on::pass_on;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::Reader as _;
use crate::work::ClientGone;

/// A response to make. Parameters that change nothing here are ignored.
#[derive(Deserialize)]
pub(super) struct ResponseAsked {
    model: String,
    input: Input,
    instructions: Option<String>,
    tools: Option<Vec<Tool>>,
    stream: Option<bool>,
    background: Option<bool>,
    include: Option<Vec<String>>,
    previous_response_id: Option<String>,
    temperature: Option<f64>,
    max_output_tokens: Option<u64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<InputItem>),
}

/// A message, or an item of an earlier response.
#[derive(Deserialize)]
struct InputItem {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    code: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: String,
    container: Option<ContainerAsked>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ContainerAsked {
    Id(String),
    Auto(AutoContainer),
}

#[derive(Deserialize)]
struct AutoContainer {
    #[serde(rename = "type")]
    kind: String,
    file_ids: Option<Vec<Value>>,
    memory_limit: Option<String>,
    network_policy: Option<NetworkPolicy>,
}

impl ResponseAsked {
    fn check(&self) -> Result<(), Problem> {
        let others = Others(&self.others);
        others.refuse_common()?;
        let text = [
            json!({}),
            json!({"format": {"type": "text"}}),
            json!({"format": null}),
        ];
        let store = "runs are kept until they are deleted; leave it out, and delete the response";
        others.refuse(&[
            ("conversation", &[], "continue with `previous_response_id`"),
            (
                "max_tool_calls",
                &[],
                "the operator sets the budget of runs",
            ),
            ("prompt", &[], "there are no stored prompts; send `input`"),
            ("store", &[json!(true)], store),
            (
                "text",
                &text,
                "an answer is text; ask for JSON in the input",
            ),
        ])?;
        let most = self.max_output_tokens;
        check_sampling(
            self.temperature,
            most.map(|most| ("max_output_tokens", most)),
        )
    }

    /// Takes the container of the only tool that there may be.
    fn take_container(&mut self, service: &Service) -> Result<Option<String>, Problem> {
        let mut tools = self.tools.take().unwrap_or_default().into_iter();
        let Some(tool) = tools.next() else {
            return Ok(None);
        };
        if tool.kind != "code_interpreter" {
            return Err(unsupported("tools", NO_FUNCTIONS));
        }
        if tools.next().is_some() {
            let why = "the only tool is `code_interpreter`, once";
            return Err(unsupported("tools", why));
        }
        match tool.container {
            None => Ok(None),
            Some(ContainerAsked::Id(id)) => Ok(Some(id)),
            Some(ContainerAsked::Auto(auto)) => {
                if auto.kind != "auto" {
                    let why = "it must be an id, or of the type `auto`";
                    return Err(invalid("tools.container", why));
                }
                check_file_ids(auto.file_ids.as_ref())?;
                check_memory(service, auto.memory_limit.as_deref())?;
                if let Some(NetworkPolicy::Allowlist { .. }) = auto.network_policy {
                    let why = "the code of a run has no network";
                    return Err(unsupported("tools.container.network_policy", why));
                }
                Ok(None)
            }
        }
    }

    /// The task of the run, and the files of its messages.
    fn take_task(&mut self) -> Result<(String, Vec<GivenFile>), Problem> {
        let mut conversation = Conversation::default();
        conversation.instruct(self.instructions.as_deref().unwrap_or_default());
        match std::mem::replace(&mut self.input, Input::Items(Vec::new())) {
            Input::Text(text) => conversation.say("user", Some(Content::Text(text)))?,
            Input::Items(items) => {
                for item in items {
                    match item.kind.as_deref() {
                        None | Some("message") => {
                            let role = item.role.as_deref().unwrap_or_default();
                            conversation.say(role, item.content)?;
                        }
                        Some("code_interpreter_call") => {
                            conversation.has_run(item.code.as_deref().unwrap_or_default());
                        }
                        // Thoughts lead to what was said.
                        Some("reasoning") => {}
                        Some(other) => {
                            let why = format!("it cannot have `{}`", other.escape_debug());
                            return Err(unsupported("input", &why));
                        }
                    }
                }
            }
        }
        conversation.task()
    }
}

/// The files of a container, and the session that gets those of the run.
async fn open_container(
    service: &Service,
    caller: &Caller,
    id: Option<String>,
) -> Result<(Vec<GivenFile>, Option<Arc<SessionEntry>>), Problem> {
    let Some(id) = id else {
        return Ok((Vec::new(), None));
    };
    let container = Container::find(service, caller, &id).await?;
    let files = container.files().await?;
    Ok(match container {
        Container::Session(entry) => (files, Some(entry)),
        Container::Run(_) => (files, None),
    })
}

/// Runs the agent. Unless it runs in the background, who hangs up cancels the run.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(client): Extension<ClientGone>,
    JsonRequest(mut asked, request): JsonRequest<ResponseAsked>,
) -> Result<Response, Problem> {
    asked.check()?;
    let include = asked.include.iter().flatten().map(String::as_str);
    let shows = shows_outputs(include)?;
    let container = asked.take_container(&service)?;
    let begun = async {
        let Some(id) = container.as_deref().and_then(inner_id) else {
            return begin_elsewhere(&service, None, request.into_request()).await;
        };
        // The files are there, and the run is driven there.
        let request = request.into_request();
        match elsewhere(&service, request.headers(), id).await? {
            Some(node) => pass_on(&service, None, &node, request)
                .await
                .map(Begun::Elsewhere),
            None => Ok(Begun::Here(request)),
        }
    };
    let begun = tokio::select! {
        begun = Box::pin(begun) => begun?,
        () = client.wait() => return Err(Problem::draining()),
    };
    if let Begun::Elsewhere(response) = begun {
        return Ok(response);
    }
    let (task, given) = asked.take_task()?;
    let previous = asked.previous_response_id.as_deref().map(run_of);
    let previous = previous.transpose()?.map(str::to_owned);
    // In memory until the run has them.
    let transfer = match container {
        Some(_) => Some(service.admission.transfer(&caller.tenant)?),
        None => None,
    };
    let (mut files, session) = open_container(&service, &caller, container).await?;
    files.retain(|(path, _)| given.iter().all(|(name, _)| name != path));
    files.extend(given);
    let run = NewRun {
        model: asked.model,
        task,
        files,
        temperature: asked.temperature,
        max_tokens: asked.max_output_tokens,
        previous,
    };
    let run = run.start(&service, &caller).await?;
    drop(transfer);
    if let Some(session) = session {
        session.with_container(|container| container.runs.push(run.to_string()));
    }
    let stays = asked.background == Some(true);
    let attended = (!stays).then(|| Attended::new(&service, &caller, &run));
    if stays && asked.stream != Some(true) {
        let object = responses::object(&service, &caller, run.as_str(), shows).await?;
        return Ok(JsonResponse(object).into_response());
    }
    let follower = Follower::new(&service, &caller, run.as_str()).await?;
    let state = ResponseState::new(run, seconds(SystemTime::now()), shows);
    if asked.stream == Some(true) {
        let reader = ResponseReader::new(&service, &caller, state, follower, attended, 0)?;
        return Ok(reader.answer());
    }
    tokio::select! {
        answer = whole(state, follower, attended) => answer,
        // Nobody reads this.
        () = client.wait() => Err(Problem::draining()),
    }
}

async fn whole(
    mut state: ResponseState,
    mut follower: Follower,
    mut attended: Option<Attended>,
) -> Result<Response, Problem> {
    while let Some(event) = follower.next().await? {
        state.hear(&event, &follower.blobs()).await?;
    }
    if let Some(attended) = &mut attended {
        attended.ended();
    }
    Ok(JsonResponse(state.object(false)).into_response())
}
