//! A connection on two byte streams, from its first message to its end.
//!
//! By hand, where the protocol's own library has a connection: that one reads lines of any length, and
//! holds messages without bound for a client that does not read them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::{Error, RequestId};
use belljar_mcp::{Line, LineStreams, MAX_LINE};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Offer};
use crate::methods;
use crate::peer::{Incoming, Peer};
use crate::turn::Turn;

/// The most requests of a client that are being answered.
const MOST_REQUESTS: usize = 32;

/// How long runs may take to stop after the client is gone, and the last answers to be written.
const LAST_RUNS: Duration = Duration::from_secs(5);
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system could not start a thread.
    #[error("the thread that reads the client's messages could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Serves one client, which writes messages as lines to `input` and reads them from `output`, until
/// its input ends, nobody reads the output any more, or `stop` is done. Runs are stopped then.
pub async fn serve(
    offer: Offer,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let ended = CancellationToken::new();
    let LineStreams {
        mut incoming,
        outgoing,
        written,
    } = LineStreams::new(input, output, ended.clone())?;
    let connection = Arc::new(Connection::new(Peer::new(outgoing), offer));
    let mut answering = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            // As long as answers wait, nothing is read that would need another one.
            if connection.peer.is_ready().await {
                incoming.recv().await
            } else {
                None
            }
        };
        let line = tokio::select! {
            line = next => line,
            () = ended.cancelled() => None,
            () = &mut stop => None,
            Some(_) = answering.join_next(), if !answering.is_empty() => continue,
        };
        let Some(line) = line else { break };
        if let Some((id, error)) = take(&connection, line, &mut answering) {
            let _ = connection.peer.answer(id.as_ref(), Err(error)).await;
        }
    }
    connection.peer.close();
    connection.cancel_all();
    let stopped = async { while answering.join_next().await.is_some() {} };
    let _ = timeout(LAST_RUNS, stopped).await;
    answering.shutdown().await;
    drop(connection);
    let _ = timeout(LAST_WORDS, written).await;
    Ok(())
}

/// A refusal, by the id of the request if that is known.
type Refusal = (Option<RequestId>, Error);

/// Takes a line. What can't be answered is refused at once.
fn take(connection: &Arc<Connection>, line: Line, answering: &mut JoinSet<()>) -> Option<Refusal> {
    let refuse = |id: Option<RequestId>, mut error: Error, why: String| {
        error.message = why;
        Some((id, error))
    };
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong => {
            let why = format!("a message can have at most {MAX_LINE} bytes");
            return refuse(None, Error::invalid_request(), why);
        }
        Line::Broken(error) => {
            tracing::error!(%error, "reading from the client failed");
            return None;
        }
    };
    let message: Incoming = match serde_json::from_slice(&line) {
        Ok(message) => message,
        Err(error) if error.is_syntax() || error.is_eof() => {
            let why = format!("this is not JSON, or nested too deep: {error}");
            return refuse(None, Error::parse_error(), why);
        }
        Err(_) => {
            let why = "this is not a JSON-RPC message".to_owned();
            return refuse(None, Error::invalid_request(), why);
        }
    };
    if message.jsonrpc != "2.0" {
        let why = "`jsonrpc` must be `2.0`".to_owned();
        return refuse(message.id, Error::invalid_request(), why);
    }
    let Some(method) = message.method.clone() else {
        connection.peer.answered(message);
        return None;
    };
    let Some(id) = message.id else {
        methods::notified(connection, &method, message.params.as_deref());
        return None;
    };
    if answering.len() >= MOST_REQUESTS {
        let why = format!("{MOST_REQUESTS} requests wait for an answer, the maximum");
        return refuse(Some(id), Error::invalid_request(), why);
    }
    // At once: a cancellation may come next.
    let turn = if method == "session/prompt" {
        let request = methods::read(message.params.as_deref());
        match request.and_then(|request| Turn::begin(connection, request)) {
            Ok(turn) => Some(turn),
            Err(error) => return Some((Some(id), error)),
        }
    } else {
        None
    };
    let connection = Arc::clone(connection);
    answering.spawn(async move {
        let answer = match turn {
            Some(turn) => Box::pin(turn.answer())
                .await
                .and_then(|it| methods::written(&it)),
            None => methods::answer(&connection, &method, message.params.as_deref()).await,
        };
        let _ = connection.peer.answer(Some(&id), answer).await;
    });
    None
}
