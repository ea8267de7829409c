//! Calls of a server's tools.

use std::sync::{Arc, Weak};
use std::time::Duration;

use belljar_agent::{Given, Invocation};
use belljar_protocol::ToolError;
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{Peer, ServiceError};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::offer::words;
use super::process::Process;
use super::result::given;

/// Calls of one server at once; more wait.
const MAX_CALLS: usize = 16;

/// The most characters of a server's message in an error.
const MAX_SAID: usize = 1000;

/// What calls of a server's tools need.
#[derive(Clone)]
pub(super) struct Calls {
    server: String,
    peer: Peer<RoleClient>,
    process: Weak<Process>,
    at_once: Arc<Semaphore>,
    limit: Duration,
}

impl Calls {
    pub(super) fn new(
        server: &str,
        peer: Peer<RoleClient>,
        process: Weak<Process>,
        limit: Duration,
    ) -> Self {
        Self {
            server: server.to_owned(),
            peer,
            process,
            at_once: Arc::new(Semaphore::new(MAX_CALLS)),
            limit,
        }
    }

    /// Performs one call. Dropping the future notifies the server of the cancellation.
    pub(super) async fn call(
        self,
        tool: String,
        invocation: Invocation,
        schema: Option<Value>,
    ) -> Result<Given, ToolError> {
        let _permit = self.at_once.acquire().await;
        let call = CallToolRequestParams::new(tool).with_arguments(invocation.arguments);
        match timeout(self.limit, self.peer.call_tool_once(call)).await {
            Ok(Ok(CallToolResponse::Complete(result))) => given(result, schema.as_ref()),
            Ok(Ok(_)) => Err(ToolError(
                "the tool requests input from the client, which is not supported".into(),
            )),
            Ok(Err(error)) => Err(ToolError(self.why(error).await)),
            Err(_) => {
                let seconds = self.limit.as_secs();
                Err(ToolError(format!("no answer within {seconds} s")))
            }
        }
    }

    async fn why(&self, error: ServiceError) -> String {
        let ended = matches!(
            error,
            ServiceError::TransportClosed | ServiceError::TransportSend(_)
        );
        let process = self.process.upgrade().filter(|_| ended);
        let Some(process) = process else {
            return reason(error);
        };
        let server = &self.server;
        if let Some(why) = process.given_up.get() {
            return format!("the connection to the server `{server}` was closed: {why}");
        }
        match process.ending().await {
            Some(status) => format!("the server `{server}` has ended with {status}"),
            None => reason(error),
        }
    }
}

/// Why a request failed, in plain words.
pub(super) fn reason(error: ServiceError) -> String {
    let why = match error {
        ServiceError::McpError(error) => error.message.into_owned(),
        ServiceError::TransportSend(error) => innermost(&*error.error),
        ServiceError::TransportClosed => "the connection to the server has ended".into(),
        ServiceError::UnexpectedResponse => "the server sent an unexpected answer".into(),
        other => other.to_string(),
    };
    words(&why, MAX_SAID)
}

/// The innermost cause, which is the most specific.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
