//! The client at the other end: answers and notifications for it, and requests of ours to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol_schema::v1::{
    Error, RequestId, SessionId, SessionNotification, SessionUpdate,
};
use belljar_mcp::line_of;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

/// The most requests of ours that wait for an answer.
const MOST_WAITING: usize = 64;

/// A message of the client.
#[derive(Deserialize)]
pub(crate) struct Incoming {
    pub(crate) jsonrpc: String,
    #[serde(default)]
    pub(crate) id: Option<RequestId>,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) params: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Error>,
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Answer<'a, R> {
    jsonrpc: &'static str,
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

/// Why a request of ours has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("the client is gone")]
    Gone,
    #[error("{0}")]
    Refused(String),
    #[error("the answer of the client cannot be read")]
    Unreadable,
}

type Waiting = HashMap<i64, oneshot::Sender<Result<Box<RawValue>, Error>>>;

/// The client. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Inner>);

struct Inner {
    outgoing: mpsc::Sender<Vec<u8>>,
    /// The number of the last request of ours, and those without an answer.
    waiting: Mutex<(i64, Waiting)>,
}

impl Peer {
    pub(crate) fn new(outgoing: mpsc::Sender<Vec<u8>>) -> Self {
        let waiting = Mutex::default();
        Self(Arc::new(Inner { outgoing, waiting }))
    }

    /// Waits until a message can be sent; false if the client is gone.
    pub(crate) async fn is_ready(&self) -> bool {
        self.0.outgoing.reserve().await.is_ok()
    }

    async fn send(&self, message: &impl Serialize) -> Result<(), PeerError> {
        let line = line_of(message).map_err(|_| PeerError::Unreadable)?;
        let sent = self.0.outgoing.send(line).await;
        sent.map_err(|_| PeerError::Gone)
    }

    /// Sends an update of a session.
    pub(crate) async fn update(
        &self,
        session: &str,
        update: SessionUpdate,
    ) -> Result<(), PeerError> {
        let params = SessionNotification::new(SessionId::new(session), update);
        self.send(&Outgoing {
            jsonrpc: "2.0",
            id: None,
            method: "session/update",
            params,
        })
        .await
    }

    /// Answers a request; without an id, one that could not be read.
    pub(crate) async fn answer(
        &self,
        id: Option<&RequestId>,
        answer: Result<Box<RawValue>, Error>,
    ) -> Result<(), PeerError> {
        let (result, error) = match answer {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        self.send(&Answer {
            jsonrpc: "2.0",
            id,
            result,
            error,
        })
        .await
    }

    /// Asks the client for something. An answer that comes after this was dropped is ignored.
    pub(crate) async fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, PeerError> {
        let (answered, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting();
            if waiting.1.len() >= MOST_WAITING {
                let why = "the client leaves too many requests without an answer";
                return Err(PeerError::Refused(why.into()));
            }
            waiting.0 += 1;
            let id = waiting.0;
            waiting.1.insert(id, answered);
            id
        };
        // Also if nobody waits for it any more.
        let _forget = Forget(self, id);
        self.send(&Outgoing {
            jsonrpc: "2.0",
            id: Some(id),
            method,
            params,
        })
        .await?;
        match answer.await {
            Ok(Ok(result)) => serde_json::from_str(result.get()).map_err(|_| PeerError::Unreadable),
            Ok(Err(error)) => Err(PeerError::Refused(error.message)),
            Err(_) => Err(PeerError::Gone),
        }
    }

    /// Takes an answer of the client to one of our requests.
    pub(crate) fn answered(&self, message: Incoming) {
        let waiting = match message.id {
            Some(RequestId::Number(id)) => self.waiting().1.remove(&id),
            _ => None,
        };
        let Some(waiting) = waiting else {
            tracing::debug!("an answer to no request of ours is ignored");
            return;
        };
        let answer = match (message.error, message.result) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => Ok(result),
            (None, None) => Ok(RawValue::NULL.to_owned()),
        };
        let _ = waiting.send(answer);
    }

    /// Nothing more comes from the client: no request of ours is answered any more.
    pub(crate) fn close(&self) {
        self.waiting().1.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, (i64, Waiting)> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

struct Forget<'a>(&'a Peer, i64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.waiting().1.remove(&self.1);
    }
}
