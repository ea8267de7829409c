//! A kernel: a session, the requests to it, and its messages. It knows no transport.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_protocol::{CallId, Language};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::content::{InputReply, ShutdownRequest};
use crate::host::{Host, HostError};
use crate::message::{Author, Message, Object, PROTOCOL};
use crate::shell::Shell;

/// How a transport finds a client again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The connection that the request came from.
    pub connection: u64,
    /// The name that the client gave itself, the same on all channels.
    pub identity: Vec<u8>,
    /// The frames before the message, which come back with the reply.
    pub envelope: Vec<Vec<u8>>,
}

/// A message of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client.
    pub from: Route,
    /// The message.
    pub message: Message,
    /// What the transport counts for as long as the request waits or runs.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}

/// Where the requests of clients come from.
#[derive(Debug)]
pub struct Requests {
    /// Requests that wait for each other.
    pub shell: mpsc::Receiver<Request>,
    /// Requests that are answered while a cell runs.
    pub control: mpsc::Receiver<Request>,
    /// Answers to questions of a cell.
    pub stdin: mpsc::Receiver<Request>,
}

/// A message of the kernel.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A reply on the channel `shell`.
    Shell(Route, Message),
    /// A reply on the channel `control`.
    Control(Route, Message),
    /// A question on the channel `stdin`.
    Stdin(Route, Message),
    /// A message to all clients, on the channel `iopub`.
    Publish(Message),
}

/// What a kernel says beside what its cells do.
#[derive(Clone, Debug, Default)]
pub struct KernelOptions {
    /// A remark below the first cell.
    pub notice: Option<String>,
    /// A remark below the first cell that creates files, about where they are.
    pub files: Option<String>,
    /// The language of its own words.
    pub language: Language,
}

/// How a kernel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEnd {
    /// A client ended it, or all clients are gone for good.
    Shutdown,
    /// A client wants it to start again.
    Restart,
}

/// A kernel with one session.
#[derive(Debug)]
pub struct Kernel<H> {
    pub(crate) host: H,
    pub(crate) options: KernelOptions,
    author: Author,
    outgoing: mpsc::Sender<Outgoing>,
    /// The question of the running cell.
    question: Mutex<Option<CallId>>,
}

impl<H: Host> Kernel<H> {
    /// A kernel that sends its messages here.
    pub fn new(host: H, options: KernelOptions, outgoing: mpsc::Sender<Outgoing>) -> Self {
        Self {
            host,
            options,
            author: Author::new(),
            outgoing,
            question: Mutex::new(None),
        }
    }

    /// Answers requests until a client ends the kernel, or all clients are gone for good.
    ///
    /// # Errors
    /// If a session could not be started.
    pub async fn run(&self, requests: Requests) -> Result<KernelEnd, HostError> {
        self.status("starting", &Object::new()).await;
        let failed = async {
            match self.host.start().await {
                Ok(()) => std::future::pending().await,
                Err(error) => error,
            }
        };
        tokio::select! {
            error = failed => Err(error),
            result = Shell::new(self).run(requests.shell) => result.map(|()| KernelEnd::Shutdown),
            end = self.control(requests.control) => Ok(end),
            () = self.stdin(requests.stdin) => Ok(KernelEnd::Shutdown),
        }
    }

    /// Interrupts the running cell, if one runs.
    pub fn interrupt(&self) {
        if let Some(session) = self.host.ready_session() {
            session.interrupt();
        }
    }

    /// Replaces a lost session, and says so.
    pub(crate) async fn replace_session(&self, parent: &Object) -> Result<(), HostError> {
        self.status("restarting", parent).await;
        self.host.replace().await
    }

    /// Remembers the question of the running cell.
    pub(crate) fn set_question(&self, call: Option<CallId>) {
        *self.question.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// Answers requests of `control`, until one ends the kernel.
    async fn control(&self, mut requests: mpsc::Receiver<Request>) -> KernelEnd {
        while let Some(request) = requests.recv().await {
            let header = &request.message.header;
            let content = match request.message.kind() {
                "kernel_info_request" => self.info(),
                "interrupt_request" => {
                    self.interrupt();
                    json!({"status": "ok"})
                }
                "shutdown_request" => {
                    let content = Value::Object(request.message.content.clone());
                    let asked: ShutdownRequest =
                        serde_json::from_value(content).unwrap_or_default();
                    let content = json!({"status": "ok", "restart": asked.restart});
                    // To the other clients, too.
                    self.publish("shutdown_reply", header, content.clone())
                        .await;
                    self.reply_on_control(&request, "shutdown_reply", content)
                        .await;
                    return if asked.restart {
                        KernelEnd::Restart
                    } else {
                        KernelEnd::Shutdown
                    };
                }
                kind => {
                    tracing::debug!(kind, "a request on `control` is not known");
                    continue;
                }
            };
            self.status("busy", header).await;
            let kind = request.message.kind().replace("_request", "_reply");
            self.reply_on_control(&request, &kind, content).await;
            self.status("idle", header).await;
        }
        KernelEnd::Shutdown
    }

    async fn reply_on_control(&self, request: &Request, kind: &str, content: Value) {
        let message = self.author.message(kind, &request.message.header, content);
        self.send(Outgoing::Control(request.from.clone(), message))
            .await;
    }

    /// Passes answers to the question that is open. Answers do not name their question, so a late one could answer the
    /// next.
    async fn stdin(&self, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = requests.recv().await {
            let content = Value::Object(request.message.content);
            let Ok(InputReply { value }) = serde_json::from_value(content) else {
                continue;
            };
            let call = self
                .question
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let session = self.host.ready_session();
            if let (Some(call), Some(session)) = (call, session)
                && let Err(error) = session.answer_input(call, Some(value)).await
            {
                tracing::warn!(%error, "an answer was refused");
                // Rather the end of input than a cell that waits for ever.
                let _ = session.answer_input(call, None).await;
            }
        }
    }

    /// The content of `kernel_info_reply`.
    pub(crate) fn info(&self) -> Value {
        let (major, minor, micro) = self.host.python();
        let version = env!("CARGO_PKG_VERSION");
        json!({
            "status": "ok",
            "protocol_version": PROTOCOL,
            "implementation": "belljar",
            "implementation_version": version,
            "language_info": {
                "name": "python",
                "version": format!("{major}.{minor}.{micro}"),
                "mimetype": "text/x-python",
                "file_extension": ".py",
                "codemirror_mode": {"name": "ipython", "version": 3},
                "pygments_lexer": "ipython3",
                "nbconvert_exporter": "python",
            },
            "banner": format!("Belljar {version}, Python {major}.{minor}.{micro}"),
            "help_links": [],
            "debugger": false,
            "supported_features": [],
        })
    }

    pub(crate) async fn status(&self, state: &str, parent: &Object) {
        self.publish("status", parent, json!({"execution_state": state}))
            .await;
    }

    pub(crate) async fn publish(&self, kind: &str, parent: &Object, content: Value) {
        let message = self.author.message(kind, parent, content);
        self.send(Outgoing::Publish(message)).await;
    }

    pub(crate) async fn reply(&self, request: &Request, kind: &str, content: Value) {
        let message = self.author.message(kind, &request.message.header, content);
        self.send(Outgoing::Shell(request.from.clone(), message))
            .await;
    }

    /// Asks the client of this request for a line.
    pub(crate) async fn ask(&self, request: &Request, content: Value) {
        let message = self
            .author
            .message("input_request", &request.message.header, content);
        self.send(Outgoing::Stdin(request.from.clone(), message))
            .await;
    }

    async fn send(&self, message: Outgoing) {
        // A transport that is gone ends the kernel by its requests.
        let _ = self.outgoing.send(message).await;
    }
}
