//! A connection on two byte streams, from its first message to its end.

use std::io::{Read, Write};
use std::time::Duration;

use rmcp::serve_server;
use rmcp::service::ServerInitializeError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::lines::Lines;
use crate::server::Server;

/// How long calls may continue after the client has closed its input.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// How long the last answers may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system could not start a thread.
    #[error("the thread that reads the client's messages could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// The handshake with the client failed.
    #[error("the connection could not be opened: {0}")]
    Refused(String),
}

/// Serves one client, which writes messages as lines to `input` and reads them from `output`, until
/// its input ends, nobody reads the output any more, or `stop` is done. Ends the server's sessions.
pub async fn serve(
    server: Server,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let sessions = server.sessions();
    let end_calls = server.ender();
    let ended = CancellationToken::new();
    let (lines, written) = Lines::new(input, output, ended.clone())?;
    let mut serving = std::pin::pin!(async {
        match serve_server(server, lines).await {
            Ok(running) => {
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::Refused(error.to_string())),
        }
    });
    let end = async {
        tokio::select! {
            () = stop => {}
            () = ended.cancelled() => tokio::time::sleep(LAST_CALLS).await,
        }
    };
    let result = tokio::select! {
        result = &mut serving => Some(result),
        () = end => None,
    };
    end_calls.await;
    // Every cell that runs ends with this, and so does every call.
    sessions.shutdown().await;
    let result = match result {
        Some(result) => result,
        // After a signal the client may keep writing: then it is not awaited.
        None => timeout(LAST_WORDS, &mut serving).await.unwrap_or(Ok(())),
    };
    let _ = timeout(LAST_WORDS, written).await;
    result
}
