//! Limits on what a server may send, and which of its messages are read.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ClientResult, ErrorCode, ErrorData};
use rmcp::model::{JsonRpcMessage, JsonRpcRequest, RequestId, ServerRequest};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;

use crate::values::count_values;

/// The most bytes of one message.
pub(super) const MAX_MESSAGE: usize = crate::lines::MAX_LINE;

/// The most values of one message: each takes the memory of many bytes.
const MAX_VALUES: usize = 500_000;

/// How many unsolicited messages may come before an answer does.
const MAX_UNASKED: usize = 100_000;

/// How many requests of a server are refused at once. More get no answer: it does not read.
const MAX_REFUSALS: usize = 8;

/// Whether JSON has more values than the limit.
pub(super) fn has_too_many_values(json: &[u8]) -> bool {
    count_values(json) > MAX_VALUES
}

/// A transport that passes answers and nothing else: requests of a server are refused, its
/// notifications are ignored.
pub(super) struct ResponsesOnly<T> {
    transport: T,
    /// `initialize`, until it is answered. A server that was slow to start may answer an earlier
    /// request, which the library would take for the answer to this.
    opening: Option<RequestId>,
    unasked: usize,
    refusals: Arc<Semaphore>,
}

impl<T: Transport<RoleClient>> ResponsesOnly<T> {
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            opening: None,
            unasked: 0,
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
        }
    }

    /// Whether a request waits for this answer.
    fn take_awaited(&mut self, id: Option<&RequestId>) -> bool {
        let awaited = match (&self.opening, id) {
            (Some(opening), Some(id)) => opening == id,
            _ => true,
        };
        self.opening.take_if(|_| awaited);
        awaited
    }

    fn refuse(&mut self, request: JsonRpcRequest<ServerRequest>) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else {
            return;
        };
        let answer = if matches!(request.request, ServerRequest::PingRequest(_)) {
            ClientJsonRpcMessage::response(ClientResult::empty(()), request.id)
        } else {
            let why = "this client does not answer requests of servers";
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
            ClientJsonRpcMessage::error(error, Some(request.id))
        };
        let sending = self.transport.send(answer);
        tokio::spawn(async move {
            let _ = sending.await;
            drop(permit);
        });
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ResponsesOnly<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            self.opening = Some(request.id.clone());
        }
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.transport.receive().await?;
            let awaited = match &message {
                JsonRpcMessage::Response(answer) => self.take_awaited(Some(&answer.id)),
                JsonRpcMessage::Error(answer) => self.take_awaited(answer.id.as_ref()),
                _ => false,
            };
            if awaited {
                self.unasked = 0;
                return Some(message);
            }
            if let JsonRpcMessage::Request(request) = message {
                self.refuse(request);
            }
            self.unasked += 1;
            if self.unasked > MAX_UNASKED {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_VALUES, has_too_many_values};

    #[test]
    fn values_are_counted_and_text_is_not() {
        let list = |count: usize| format!("[{}]", "0,".repeat(count));
        assert!(!has_too_many_values(list(MAX_VALUES - 1).as_bytes()));
        assert!(has_too_many_values(list(MAX_VALUES).as_bytes()));
        assert!(has_too_many_values("[".repeat(MAX_VALUES + 1).as_bytes()));
        let text = format!(r#"["\"{}"]"#, ",[{".repeat(MAX_VALUES));
        assert!(!has_too_many_values(text.as_bytes()));
    }
}
