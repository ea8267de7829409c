//! Messages as lines on two byte streams, within bounds.
//!
//! By hand, where the library has a transport of lines: that one leaves a request that is too long,
//! nested too deep or wrong in its types without an answer, holds answers without bound for a client
//! that does not read them, and gives up on a client that opens with a notification.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta, RequestId};
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The longest line: a file of 8 MiB in base64, and some more.
pub const MAX_LINE: usize = 16 << 20;

/// How much of an overlong line is read and discarded.
const MAX_PASSED_OVER: u64 = 1 << 30;

/// How many answers wait for a client that does not read before its next message is not read
/// either.
const WAITING: usize = 16;

/// The lines that come, and where those go that are sent. A stream has a thread each: a read or write
/// of a standard stream can't be given up, and a runtime would wait for it when it ends.
#[derive(Debug)]
pub struct LineStreams {
    /// Lines of the client, one at a time.
    pub incoming: mpsc::Receiver<Line>,
    /// Lines for the client; a few wait at most.
    pub outgoing: mpsc::Sender<Vec<u8>>,
    /// Notified when everything is written.
    pub written: oneshot::Receiver<()>,
}

impl LineStreams {
    /// Starts the two threads. `ended` is notified when the client no longer reads.
    pub fn new(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        ended: CancellationToken,
    ) -> io::Result<Self> {
        let (lines, incoming) = mpsc::channel(1);
        let (outgoing, queue) = mpsc::channel(WAITING);
        let (done, written) = oneshot::channel();
        let reader = thread::Builder::new().name("line-input".into());
        reader.spawn(move || read_lines(input, &lines))?;
        let writer = thread::Builder::new().name("line-output".into());
        writer.spawn(move || {
            if let Err(error) = write_lines(output, queue) {
                tracing::info!(%error, "the client no longer reads messages");
                ended.cancel();
            }
            let _ = done.send(());
        })?;
        Ok(Self {
            incoming,
            outgoing,
            written,
        })
    }
}

/// A line of a client.
#[derive(Debug)]
pub enum Line {
    /// A whole one.
    Whole(Vec<u8>),
    /// One of more than [`MAX_LINE`] bytes, which was not kept.
    TooLong,
    /// The end of the input, and the reason.
    Broken(io::Error),
}

/// The connection of a client, on two streams.
pub(crate) struct Lines {
    incoming: mpsc::Receiver<Line>,
    outgoing: mpsc::Sender<Vec<u8>>,
    /// Whether the client has opened the connection, by `initialize` or a request that stands alone.
    open: bool,
    /// Notified when the input ends, or the client no longer reads.
    ended: CancellationToken,
}

impl Lines {
    /// The connection, and a notification of when everything is written.
    pub(crate) fn new(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        ended: CancellationToken,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let streams = LineStreams::new(input, output, ended.clone())?;
        let lines = Self {
            incoming: streams.incoming,
            outgoing: streams.outgoing,
            open: false,
            ended,
        };
        Ok((lines, streams.written))
    }

    async fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        if let Ok(line) = line_of(&ServerJsonRpcMessage::error(error, id)) {
            let _ = self.outgoing.send(line).await;
        }
    }

    /// Whether to pass this to the service. Before a client has opened the connection, the library
    /// ends it at anything but a request.
    fn passes(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if let JsonRpcMessage::Request(request) = message {
            self.open |= match &request.request {
                ClientRequest::InitializeRequest(_) => true,
                ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
                request => request.get_meta().protocol_version().is_some(),
            };
            return true;
        }
        self.open
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let line = line_of(&message)?;
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            outgoing.send(line).await.map_err(gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // As long as answers wait, nothing is read that would need another one.
            let line = match self.outgoing.reserve().await {
                Ok(_) => self.incoming.recv().await,
                Err(_) => None,
            };
            let Some(line) = line else {
                self.ended.cancel();
                return None;
            };
            let line = match line {
                Line::Whole(line) => line,
                Line::TooLong => {
                    let why = format!("a message can have at most {MAX_LINE} bytes");
                    let error = ErrorData::invalid_request(why, None);
                    self.refuse(error, None).await;
                    continue;
                }
                Line::Broken(error) => {
                    tracing::error!(%error, "reading from the client failed");
                    continue;
                }
            };
            match serde_json::from_slice::<ClientJsonRpcMessage>(&line) {
                Ok(message) if self.passes(&message) => return Some(message),
                Ok(_) => tracing::debug!("a message before the connection was opened is ignored"),
                Err(error) => {
                    tracing::debug!(%error, "a message cannot be read");
                    if let Some((error, id)) = refusal(&line, &error) {
                        self.refuse(error, id).await;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The writer ends when what is queued is written, and this is dropped.
        self.incoming.close();
        Ok(())
    }
}

/// The answer to a line that is not a message; none to a notification.
fn refusal(line: &[u8], error: &serde_json::Error) -> Option<(ErrorData, Option<RequestId>)> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        id: Option<RequestId>,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    if error.is_syntax() || error.is_eof() {
        let why = format!("this is not JSON, or nested too deep: {error}");
        return Some((ErrorData::parse_error(why, None), None));
    }
    let head = serde_json::from_slice::<Head>(line);
    let invalid = || ErrorData::invalid_request("this is not a message of the protocol", None);
    match head {
        Ok(Head {
            id: None,
            method: Some(_),
        }) => None,
        Ok(head) => Some((invalid(), head.id)),
        Err(_) => Some((invalid(), None)),
    }
}

/// A message as a line.
pub fn line_of(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Ends with the input, or when its receiver is gone.
fn read_lines(input: impl Read, lines: &mpsc::Sender<Line>) {
    let mut input = BufReader::with_capacity(64 << 10, input);
    loop {
        let line = match read_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                let _ = lines.blocking_send(Line::Broken(error));
                return;
            }
        };
        let is_empty = matches!(&line, Line::Whole(line) if line.trim_ascii().is_empty());
        if !is_empty && lines.blocking_send(line).is_err() {
            return;
        }
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let most = MAX_LINE as u64 + 1;
    let read = input.by_ref().take(most).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || line.len() <= MAX_LINE {
        return Ok(Some(Line::Whole(line)));
    }
    drop(line);
    let passed_over = input.by_ref().take(MAX_PASSED_OVER).skip_until(b'\n')?;
    if passed_over as u64 == MAX_PASSED_OVER {
        return Err(io::Error::other("a line without an end"));
    }
    Ok(Some(Line::TooLong))
}

fn write_lines(mut output: impl Write, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = queue.blocking_recv() {
        output.write_all(&line)?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Line, MAX_LINE, read_line, refusal};

    fn lines(input: &[u8]) -> Vec<Option<usize>> {
        let mut input = input;
        let mut found = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            found.push(match line {
                Line::Whole(line) => Some(line.len()),
                Line::TooLong => None,
                Line::Broken(error) => panic!("{error}"),
            });
        }
        found
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let mut input = b"one\n".to_vec();
        input.extend(vec![b'x'; MAX_LINE - 1]);
        input.push(b'\n');
        input.extend(vec![b'x'; MAX_LINE + 1]);
        input.extend(b"\ntwo\n");
        input.extend(vec![b'x'; 3 * MAX_LINE]);
        assert_eq!(
            lines(&input),
            [Some(4), Some(MAX_LINE), None, Some(4), None]
        );
        // One that never ends is not read for ever.
        let mut endless = std::io::BufReader::with_capacity(1 << 20, std::io::repeat(b'x'));
        assert!(read_line(&mut endless).is_err());
        assert_eq!(lines(b"the end without its line feed"), [Some(29)]);
    }

    #[test]
    fn what_can_be_answered_is_answered_by_its_id() {
        let refused = |line: &[u8]| {
            let error = serde_json::from_slice::<super::ClientJsonRpcMessage>(line);
            let answer = refusal(line, &error.unwrap_err());
            answer.map(|(error, id)| (error.code.0, id.map(|id| id.to_string())))
        };
        assert_eq!(refused(b"{"), Some((-32700, None)));
        assert_eq!(refused(&[b'['; 1000]), Some((-32700, None)));
        assert_eq!(refused(b"7"), Some((-32600, None)));
        let no_version = br#"{"id": 7, "method": "tools/list"}"#;
        assert_eq!(refused(no_version), Some((-32600, Some("7".into()))));
        let notification = br#"{"method": "notifications/cancelled", "params": 3}"#;
        assert_eq!(refused(notification), None);
    }
}
