//! The requests of a client.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, CancelNotification, CloseSessionRequest, CloseSessionResponse,
    ConfigOptionUpdate, CurrentModeUpdate, Error, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, LoadSessionRequest, LoadSessionResponse,
    McpCapabilities, McpServer, NewSessionRequest, NewSessionResponse, PromptCapabilities,
    ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities,
    SessionConfigOption, SessionId, SessionListCapabilities, SessionModeState,
    SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use belljar_agent::{Agent, Policy, Start};
use belljar_journal::RunId;
use belljar_protocol::visible;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::connection::{Connection, invalid};
use crate::conversation::Conversation;
use crate::directory::Directory;
use crate::history;
use crate::options::{APPROVALS, MODEL, config_options, modes, policy, policy_id};
use crate::servers::connect_all;

/// Answers a request that is not a prompt.
pub(crate) async fn answer(
    connection: &Connection,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, Error> {
    match method {
        "initialize" => written(&initialize(connection, read(params)?)),
        "session/new" => written(&new(connection, read(params)?).await?),
        "session/load" => written(&load(connection, read(params)?).await?),
        "session/resume" => written(&resume(connection, read(params)?).await?),
        "session/list" => {
            connection.client()?;
            let request: ListSessionsRequest = read(params)?;
            let listed = history::list(&connection.offer.runs, &request).await;
            written(&listed.map_err(|error| internal(&error))?)
        }
        "session/close" => {
            let request: CloseSessionRequest = read(params)?;
            connection.close(&request.session_id.0)?;
            written(&CloseSessionResponse::new())
        }
        "session/set_mode" => written(&set_mode(connection, read(params)?).await?),
        "session/set_config_option" => written(&set_option(connection, read(params)?).await?),
        _ => {
            let mut error = Error::method_not_found();
            error.message = format!("no such method: `{}`", visible(method));
            Err(error)
        }
    }
}

/// Takes a notification; unknown ones are ignored.
pub(crate) fn notified(connection: &Connection, method: &str, params: Option<&RawValue>) {
    if method == "session/cancel"
        && let Ok(request) = read::<CancelNotification>(params)
        && let Ok(session) = connection.session(&request.session_id.0)
    {
        session.cancel();
    }
}

/// The parameters of a request.
pub(crate) fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Error> {
    let params = params.map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| invalid(format!("wrong parameters: {error}")))
}

pub(crate) fn written(result: &impl Serialize) -> Result<Box<RawValue>, Error> {
    to_raw_value(result).map_err(|error| internal(&error))
}

fn internal(error: &dyn std::error::Error) -> Error {
    let mut answer = Error::internal_error();
    answer.message = error.to_string();
    answer
}

fn initialize(connection: &Connection, request: InitializeRequest) -> InitializeResponse {
    connection.introduce(request);
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .resume(SessionResumeCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    let about =
        Implementation::new("belljar", env!("CARGO_PKG_VERSION")).title("Belljar".to_owned());
    // Whoever asks for another version gets the one that there is.
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(about)
}

/// A session that is not open yet.
async fn prepare(
    connection: &Connection,
    id: RunId,
    cwd: &Path,
    more: &[PathBuf],
    servers: Vec<McpServer>,
) -> Result<Conversation, Error> {
    connection.client()?;
    if !more.is_empty() {
        return Err(invalid(
            "`additionalDirectories` are not supported: a session has one directory, `cwd`",
        ));
    }
    let directory = Directory::open(cwd).map_err(invalid)?;
    let offer = &connection.offer;
    let tools = connect_all(servers, &offer.tools, &offer.pins).await;
    let tools = tools.map_err(invalid)?;
    let policy = offer.models.first().map(|model| &model.start.approvals);
    let policy = policy.map_or(Policy::Always, |approvals| approvals.policy);
    Ok(Conversation::new(id, directory, tools, policy))
}

/// What a person can choose, as it is.
fn choices(
    connection: &Connection,
    session: &Conversation,
) -> (SessionModeState, Vec<SessionConfigOption>) {
    let state = session.state();
    let options = config_options(&connection.offer.models, state.model, state.policy);
    (modes(state.policy), options)
}

async fn new(
    connection: &Connection,
    request: NewSessionRequest,
) -> Result<NewSessionResponse, Error> {
    let (cwd, more) = (&request.cwd, &request.additional_directories);
    let id = Agent::new_run_id();
    let session = prepare(connection, id, cwd, more, request.mcp_servers).await?;
    let session = connection.open(session)?;
    let (modes, options) = choices(connection, &session);
    let response = NewSessionResponse::new(SessionId::new(session.id().as_str()));
    Ok(response.modes(modes).config_options(options))
}

async fn load(
    connection: &Connection,
    request: LoadSessionRequest,
) -> Result<LoadSessionResponse, Error> {
    let (cwd, more) = (&request.cwd, &request.additional_directories);
    let id = &request.session_id;
    let (session, chain) = reopen(connection, id, cwd, more, request.mcp_servers).await?;
    let (runs, peer) = (&connection.offer.runs, &connection.peer);
    let shown = history::replay(runs, peer, &id.0, &chain).await;
    shown.map_err(|error| internal(&error))?;
    let (modes, options) = choices(connection, &session);
    Ok(LoadSessionResponse::new()
        .modes(modes)
        .config_options(options))
}

async fn resume(
    connection: &Connection,
    request: ResumeSessionRequest,
) -> Result<ResumeSessionResponse, Error> {
    let (cwd, more) = (&request.cwd, &request.additional_directories);
    let id = &request.session_id;
    let (session, _) = reopen(connection, id, cwd, more, request.mcp_servers).await?;
    let (modes, options) = choices(connection, &session);
    Ok(ResumeSessionResponse::new()
        .modes(modes)
        .config_options(options))
}

/// Opens a session of the journal; with it, its runs.
async fn reopen(
    connection: &Connection,
    id: &SessionId,
    cwd: &Path,
    more: &[PathBuf],
    servers: Vec<McpServer>,
) -> Result<(Arc<Conversation>, Vec<(RunId, Start)>), Error> {
    let unknown = || invalid(format!("no such session: `{}`", visible(&id.0)));
    let id: RunId = id.0.parse().map_err(|_| unknown())?;
    let chain = history::find(&connection.offer.runs, &id).await;
    let chain = chain.map_err(|error| internal(&error))?;
    let (last, start) = chain.last().ok_or_else(unknown)?;
    let session = prepare(connection, id, cwd, more, servers).await?;
    {
        let mut state = session.state();
        state.last = Some((last.clone(), start.files.clone()));
        // A person may have chosen more approvals than the settings say.
        state.policy = state.policy.max(start.approvals.policy);
        let mut models = connection.offer.models.iter();
        let model = models.position(|model| model.name == start.model);
        state.model = model.unwrap_or(0);
    }
    Ok((connection.open(session)?, chain))
}

async fn set_mode(
    connection: &Connection,
    request: SetSessionModeRequest,
) -> Result<SetSessionModeResponse, Error> {
    let session = connection.session(&request.session_id.0)?;
    set_policy(&session, &request.mode_id.0).await?;
    let (_, options) = choices(connection, &session);
    let update = SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options));
    let _ = connection.peer.update(&request.session_id.0, update).await;
    Ok(SetSessionModeResponse::new())
}

async fn set_option(
    connection: &Connection,
    request: SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let id = &request.session_id.0;
    let session = connection.session(id)?;
    let value = request.value.as_value_id().map(|value| &*value.0);
    let value = value.ok_or_else(|| invalid("the value of an option is the id of a choice"))?;
    match &*request.config_id.0 {
        MODEL => {
            let mut models = connection.offer.models.iter();
            let model = models.position(|model| model.name == value);
            let unknown = || invalid(format!("no such model here: `{}`", visible(value)));
            session.state().model = model.ok_or_else(unknown)?;
        }
        APPROVALS => {
            let policy = set_policy(&session, value).await?;
            let mode = CurrentModeUpdate::new(policy_id(policy));
            let update = SessionUpdate::CurrentModeUpdate(mode);
            let _ = connection.peer.update(id, update).await;
        }
        other => return Err(invalid(format!("no such option: `{}`", visible(other)))),
    }
    let (_, options) = choices(connection, &session);
    Ok(SetSessionConfigOptionResponse::new(options))
}

async fn set_policy(session: &Conversation, id: &str) -> Result<Policy, Error> {
    let unknown = || invalid(format!("no such approval policy: `{}`", visible(id)));
    let policy = policy(id).ok_or_else(unknown)?;
    session.set_policy(policy).await;
    Ok(policy)
}
