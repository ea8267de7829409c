//! Kernels of Jupyter's wire: what their clients share.
//!
//! A kernel is a session with a task that answers requests. Here are its queues, its messages and its state; the task
//! itself is in `api::jupyter`, and starts with the first use.

mod log;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::body::Bytes;
use belljar_jupyter::{Channel, Message, Outgoing, Request, Requests, Route, encode_v1};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::charged::ChargedBytes;
use crate::lock::lock;
use crate::offload::offload;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;
use log::{Audience, MessageLog};
pub(crate) use log::{LogReader, TooSlow};

/// Requests that wait on a channel.
const WAITING: usize = 1024;

/// The kernels whose tasks run, by the ids of their sessions.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<String, Arc<KernelHandle>>>);

/// A kernel, as its clients reach it.
#[derive(Debug)]
pub(crate) struct KernelHandle {
    log: Arc<MessageLog>,
    queues: Mutex<Queues>,
    restarts: mpsc::Sender<RestartAsked>,
    state: Mutex<KernelState>,
    /// Cancelled at its end.
    pub(crate) over: CancellationToken,
    memory: Arc<ChargedBytes>,
    tenant: TenantName,
}

/// Who waits for the end of a restart.
pub(crate) type RestartAsked = oneshot::Sender<Result<(), Problem>>;

/// The other ends of a handle's channels, for the task of the kernel.
#[derive(Debug)]
pub(crate) struct KernelInput {
    pub(crate) requests: Requests,
    pub(crate) restarts: mpsc::Receiver<RestartAsked>,
}

#[derive(Debug)]
struct Queues {
    shell: mpsc::Sender<Request>,
    control: mpsc::Sender<Request>,
    stdin: mpsc::Sender<Request>,
}

/// What a kernel does.
#[derive(Clone, Debug)]
pub(crate) struct KernelState {
    pub(crate) execution_state: String,
    pub(crate) last_activity: SystemTime,
}

impl Kernels {
    /// The kernel of a session, and its input if it has to be started.
    pub(crate) fn find_or_insert(
        &self,
        session: &str,
        tenant: &TenantName,
        memory: &Arc<ChargedBytes>,
    ) -> (Arc<KernelHandle>, Option<KernelInput>) {
        let mut all = lock(&self.0);
        if let Some(known) = all.get(session) {
            return (Arc::clone(known), None);
        }
        let (handle, input) = KernelHandle::new(tenant.clone(), Arc::clone(memory));
        let handle = Arc::new(handle);
        all.insert(session.to_owned(), Arc::clone(&handle));
        (handle, Some(input))
    }

    pub(crate) fn find(&self, session: &str) -> Option<Arc<KernelHandle>> {
        lock(&self.0).get(session).cloned()
    }

    pub(crate) fn remove(&self, session: &str) {
        lock(&self.0).remove(session);
    }
}

impl KernelHandle {
    fn new(tenant: TenantName, memory: Arc<ChargedBytes>) -> (Self, KernelInput) {
        let (queues, requests) = queues();
        let (asked, restarts) = mpsc::channel(1);
        let handle = Self {
            log: MessageLog::new(),
            queues: Mutex::new(queues),
            restarts: asked,
            state: Mutex::new(KernelState {
                execution_state: "starting".into(),
                last_activity: SystemTime::now(),
            }),
            over: CancellationToken::new(),
            memory,
            tenant,
        };
        (handle, KernelInput { requests, restarts })
    }

    /// Replaces the queues. Requests that wait are dropped.
    pub(crate) fn reopen(&self) -> Requests {
        let (queues, requests) = queues();
        *lock(&self.queues) = queues;
        requests
    }

    /// Queues a request. Returns false if there are too many.
    pub(crate) fn submit(&self, channel: Channel, request: Request) -> bool {
        let queues = lock(&self.queues);
        let queue = match channel {
            Channel::Shell => &queues.shell,
            Channel::Control => &queues.control,
            Channel::Stdin => &queues.stdin,
            // Nobody asks for anything there.
            Channel::Iopub => return true,
        };
        // A kernel that restarts or ends drops what waits.
        !matches!(
            queue.try_send(request),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }

    /// Restarts the kernel, and waits for it.
    pub(crate) async fn restart(&self) -> Result<(), Problem> {
        let (asked, done) = oneshot::channel();
        // Where the kernel has ended, nobody answers.
        let _ = self.restarts.send(asked).await;
        let ended = |_| Problem::new(Code::SessionEnded, "start a new kernel");
        done.await.map_err(ended)?
    }

    pub(crate) fn state(&self) -> KernelState {
        lock(&self.state).clone()
    }

    /// How many clients are connected.
    pub(crate) fn connections(&self) -> usize {
        self.log.connections()
    }

    /// Lets a client read. One that was here before continues where it was, if it gives its name.
    pub(crate) fn join(&self, name: Option<&str>) -> LogReader {
        self.log.join(name)
    }

    /// Forgets clients that have not come back.
    pub(crate) fn forget_absent(&self) {
        self.log.forget_absent();
    }

    /// Puts a message of the kernel where its clients read it.
    pub(crate) async fn say(&self, outgoing: Outgoing) {
        let (channel, audience, message) = match outgoing {
            Outgoing::Shell(route, message) => (Channel::Shell, client(&route), message),
            Outgoing::Control(route, message) => (Channel::Control, client(&route), message),
            Outgoing::Stdin(route, message) => (Channel::Stdin, client(&route), message),
            Outgoing::Publish(message) => {
                self.note(&message);
                (Channel::Iopub, Audience::All, message)
            }
        };
        if self.log.has_nobody() {
            return;
        }
        let frame = offload(size(&message), move || encode_v1(channel, &message)).await;
        // Nothing is kept beyond what the tenant may hold: its readers are cut off.
        let charge = self.memory.charge(&self.tenant, frame.len());
        let frame: Option<Bytes> = charge.map(|charge| charge.hold(frame));
        self.log.append(audience, frame);
    }

    pub(crate) fn set_state(&self, state: &str) {
        state.clone_into(&mut lock(&self.state).execution_state);
    }

    fn note(&self, message: &Message) {
        lock(&self.state).last_activity = SystemTime::now();
        let state = message.content.get("execution_state");
        if let ("status", Some(Value::String(state))) = (message.kind(), state) {
            self.set_state(state);
        }
    }
}

fn queues() -> (Queues, Requests) {
    let (shell, shell_requests) = mpsc::channel(WAITING);
    let (control, control_requests) = mpsc::channel(WAITING);
    let (stdin, stdin_requests) = mpsc::channel(WAITING);
    let queues = Queues {
        shell,
        control,
        stdin,
    };
    let requests = Requests {
        shell: shell_requests,
        control: control_requests,
        stdin: stdin_requests,
    };
    (queues, requests)
}

fn client(route: &Route) -> Audience {
    Audience::Client(String::from_utf8_lossy(&route.identity).into_owned())
}

/// About how many bytes a message has: displays and output are the large ones.
fn size(message: &Message) -> usize {
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    let content = message.content.values();
    content
        .map(|value| match value {
            Value::Object(data) => data.values().map(length).sum(),
            value => length(value),
        })
        .sum()
}
