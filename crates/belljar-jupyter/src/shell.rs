//! The requests of the channel `shell`, one after another.

use std::collections::VecDeque;

use belljar_protocol::{Completeness, InspectDetail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::content::{
    CommOpen, CompleteRequest, HistoryRequest, InspectRequest, IsCompleteRequest,
};
use crate::history::History;
use crate::host::{Host, HostError};
use crate::kernel::{Kernel, Request};
use crate::outputs::{Failure, Labels};
use crate::position::{byte_at, character_at};

/// What the requests of `shell` change.
#[derive(Debug)]
pub(crate) struct Shell<'a, H> {
    pub(crate) kernel: &'a Kernel<H>,
    /// The number of the last cell of the history.
    pub(crate) execution_count: u32,
    pub(crate) history: History,
    pub(crate) labels: Labels,
    /// Remarks of the options that were not shown yet.
    pub(crate) notice: Option<&'a str>,
    pub(crate) files: Option<&'a str>,
}

/// What follows a request.
pub(crate) enum Then {
    Nothing,
    /// Requests that wait to run cells are aborted.
    Abort,
}

impl<'a, H: Host> Shell<'a, H> {
    pub(crate) fn new(kernel: &'a Kernel<H>) -> Self {
        Self {
            kernel,
            execution_count: 0,
            history: History::default(),
            labels: Labels::default(),
            notice: kernel.options.notice.as_deref(),
            files: kernel.options.files.as_deref(),
        }
    }

    /// Answers requests until there are no more.
    pub(crate) async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
    ) -> Result<(), HostError> {
        let mut waiting: VecDeque<Request> = VecDeque::new();
        loop {
            let request = match waiting.pop_front() {
                Some(request) => request,
                None => match requests.recv().await {
                    Some(request) => request,
                    None => return Ok(()),
                },
            };
            let header = &request.message.header;
            self.kernel.status("busy", header).await;
            let (reply, then) = self.answer(&request).await?;
            // Whoever has seen the reply may run the next cell, so only what has come until now is aborted.
            let mut aborted = Vec::new();
            if matches!(then, Then::Abort) {
                while let Ok(next) = requests.try_recv() {
                    match next.message.kind() {
                        "execute_request" => aborted.push(next),
                        _ => waiting.push_back(next),
                    }
                }
            }
            if let Some(content) = reply {
                let kind = request.message.kind().replace("_request", "_reply");
                self.kernel.reply(&request, &kind, content).await;
            }
            self.kernel.status("idle", header).await;
            for request in aborted {
                self.abort(&request).await;
            }
        }
    }

    async fn abort(&self, request: &Request) {
        let header = &request.message.header;
        self.kernel.status("busy", header).await;
        let content = json!({"status": "aborted", "execution_count": self.execution_count});
        self.kernel.reply(request, "execute_reply", content).await;
        self.kernel.status("idle", header).await;
    }

    /// Does what a request asks for. Returns the content of the reply, if it has one.
    async fn answer(&mut self, request: &Request) -> Result<(Option<Value>, Then), HostError> {
        let content = match request.message.kind() {
            "execute_request" => match content(request) {
                Ok(content) => {
                    let (reply, then) = self.execute(request, &content).await?;
                    return Ok((Some(reply), then));
                }
                Err(reply) => reply,
            },
            "kernel_info_request" => self.kernel.info(),
            "comm_info_request" => json!({"status": "ok", "comms": {}}),
            "history_request" => match content::<HistoryRequest>(request) {
                Ok(content) => self.history.reply(&content),
                Err(reply) => reply,
            },
            "complete_request" | "inspect_request" | "is_complete_request" => {
                self.ask_session(request).await?
            }
            "comm_open" => {
                if let Ok(CommOpen { comm_id }) = content(request) {
                    // No target is known here: widgets need code that runs between cells.
                    let content = json!({"comm_id": comm_id, "data": {}});
                    let parent = &request.message.header;
                    self.kernel.publish("comm_close", parent, content).await;
                }
                return Ok((None, Then::Nothing));
            }
            kind => {
                tracing::debug!(kind, "a request on `shell` is not known");
                return Ok((None, Then::Nothing));
            }
        };
        Ok((Some(content), Then::Nothing))
    }

    /// Asks the session about code.
    async fn ask_session(&mut self, request: &Request) -> Result<Value, HostError> {
        let answer = match request.message.kind() {
            "complete_request" => match content(request) {
                Ok(content) => self.complete(&content).await,
                Err(reply) => return Ok(reply),
            },
            "inspect_request" => match content(request) {
                Ok(content) => self.inspect(&content).await,
                Err(reply) => return Ok(reply),
            },
            _ => match content(request) {
                Ok(content) => self.is_complete(&content).await,
                Err(reply) => return Ok(reply),
            },
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.replace_ended(&error, request).await?;
                Ok(Failure::from_error(&error).reply(self.execution_count))
            }
        }
    }

    async fn complete(&self, asked: &CompleteRequest) -> Result<Value, HostError> {
        let CompleteRequest { code, cursor_pos } = asked;
        let cursor = byte_at(code, *cursor_pos);
        let session = self.kernel.host.session().await?;
        let (start, matches) = session.complete(code, cursor).await?;
        Ok(json!({
            "status": "ok",
            "matches": matches,
            "cursor_start": character_at(code, start.min(cursor)),
            "cursor_end": character_at(code, cursor),
            "metadata": {},
        }))
    }

    async fn inspect(&self, asked: &InspectRequest) -> Result<Value, HostError> {
        let cursor = byte_at(&asked.code, asked.cursor_pos);
        let detail = match asked.detail_level {
            0 => InspectDetail::Documentation,
            _ => InspectDetail::Source,
        };
        let session = self.kernel.host.session().await?;
        let found = session.inspect(&asked.code, cursor, detail).await?;
        let data = match &found {
            Some(text) => json!({"text/plain": text}),
            None => json!({}),
        };
        Ok(json!({"status": "ok", "found": found.is_some(), "data": data, "metadata": {}}))
    }

    async fn is_complete(&self, asked: &IsCompleteRequest) -> Result<Value, HostError> {
        let session = self.kernel.host.session().await?;
        Ok(match session.is_complete(&asked.code).await? {
            Completeness::Complete => json!({"status": "complete"}),
            Completeness::Incomplete { indent } => {
                json!({"status": "incomplete", "indent": indent})
            }
            Completeness::Invalid => json!({"status": "invalid"}),
        })
    }

    /// Replaces the session if this error is its end.
    pub(crate) async fn replace_ended(
        &mut self,
        error: &HostError,
        request: &Request,
    ) -> Result<(), HostError> {
        if error.is_end() {
            self.labels.clear();
            self.kernel.replace_session(&request.message.header).await?;
        }
        Ok(())
    }
}

/// The content of a request, or that of the reply if it is wrong.
fn content<T: DeserializeOwned>(request: &Request) -> Result<T, Value> {
    let content = Value::Object(request.message.content.clone());
    serde_json::from_value(content).map_err(|error| Failure::from_error(&error).reply(0))
}
