//! One client: what it can do, and its sessions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol_schema::v1::{ClientCapabilities, Error, InitializeRequest};
use belljar_agent::{Agent, HostTool, RunsDirectory, Start, Surface, tools_on};
use belljar_protocol::visible;
use tokio::sync::Semaphore;

use crate::conversation::Conversation;
use crate::peer::Peer;

/// The most open sessions, and concurrent runs.
const MOST_SESSIONS: usize = 64;
const RUNS_AT_ONCE: usize = 4;

/// The most characters of a client's name.
const MAX_NAME: usize = 100;

/// A model that a person can choose.
#[derive(Debug)]
pub struct Model {
    /// Its name, as `provider/name`.
    pub name: String,
    /// The agent that asks it. Its sessions are kept, so that a follow-up has the variables.
    pub agent: Agent,
    /// How its runs start.
    pub start: Start,
}

/// What a client is offered.
#[derive(Debug)]
pub struct Offer {
    /// The models, at least one: the first is used until a person chooses another.
    pub models: Vec<Model>,
    /// Where the runs of these models are kept.
    pub runs: RunsDirectory,
    /// Tools of every run.
    pub tools: Vec<HostTool>,
    /// Where the accepted tools of the client's own servers are noted.
    pub pins: PathBuf,
}

/// A client, and what it has opened.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) offer: Offer,
    pub(crate) runs: Arc<Semaphore>,
    client: OnceLock<Client>,
    sessions: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// What a client says about itself.
pub(crate) struct Client {
    /// Its name, for the journal.
    pub(crate) name: String,
    pub(crate) capabilities: ClientCapabilities,
}

impl Connection {
    pub(crate) fn new(peer: Peer, mut offer: Offer) -> Self {
        for model in &mut offer.models {
            let tools = tools_on(Surface::Acp).map(|tool| tool.name().to_owned());
            model.start.tools = tools.collect();
        }
        Self {
            peer,
            offer,
            runs: Arc::new(Semaphore::new(RUNS_AT_ONCE)),
            client: OnceLock::new(),
            sessions: Mutex::default(),
        }
    }

    /// The client has introduced itself. What it says later does not count.
    pub(crate) fn introduce(&self, request: InitializeRequest) {
        let name = request.client_info.map_or_else(String::new, |info| {
            let name = info.title.unwrap_or(info.name);
            format!("{name} {}", info.version)
        });
        let name = visible(name.trim()).chars().take(MAX_NAME).collect();
        let capabilities = request.client_capabilities;
        let _ = self.client.set(Client { name, capabilities });
    }

    /// The client, once it has introduced itself.
    pub(crate) fn client(&self) -> Result<&Client, Error> {
        self.client.get().ok_or_else(|| {
            let mut error = Error::invalid_request();
            error.message = "`initialize` must come first".into();
            error
        })
    }

    /// The open session of this id.
    pub(crate) fn session(&self, id: &str) -> Result<Arc<Conversation>, Error> {
        self.client()?;
        let found = self.sessions().get(id).cloned();
        found.ok_or_else(|| invalid(format!("no open session `{}`", visible(id))))
    }

    /// Opens a session, in the place of an open one of its id that is idle.
    pub(crate) fn open(&self, session: Conversation) -> Result<Arc<Conversation>, Error> {
        let mut sessions = self.sessions();
        let id = session.id().as_str();
        if sessions.get(id).is_some_and(|open| open.is_busy()) {
            return Err(invalid("the session is open, and answers a prompt"));
        }
        if sessions.len() >= MOST_SESSIONS && !sessions.contains_key(id) {
            return Err(invalid(format!(
                "{MOST_SESSIONS} sessions are open, the maximum: close one with `session/close`"
            )));
        }
        let id = id.to_owned();
        let session = Arc::new(session);
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Stops and forgets a session.
    pub(crate) fn close(&self, id: &str) -> Result<(), Error> {
        let session = self.session(id)?;
        session.cancel();
        self.sessions().remove(id);
        Ok(())
    }

    /// Stops all runs.
    pub(crate) fn cancel_all(&self) {
        self.sessions().values().for_each(|it| it.cancel());
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client asked for something that can't be had, in words.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    let mut error = Error::invalid_params();
    error.message = message.into();
    error
}
