//! A server that we start: its process, and its lines.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio_util::sync::CancellationToken;

use super::limits::{MAX_MESSAGE, has_too_many_values};
use super::secrets::Secrets;
use crate::lines::{Line, LineStreams, line_of};

/// How much of the end of its standard error is kept.
const MAX_SAID: usize = 2000;

/// How much other output may come before a message.
const MAX_NONSENSE: usize = 64 << 20;

/// A server's process, which leads a group of its own. The whole group is killed when this is
/// dropped.
pub(super) struct Process {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    secrets: Secrets,
    /// Why it is no longer read.
    pub(super) given_up: OnceLock<String>,
}

impl Process {
    /// Starts it, with only these variables of ours, and in another directory: the current one may
    /// hold files of a project that it would load.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        environment: Vec<(String, OsString)>,
        secrets: Secrets,
    ) -> io::Result<(Arc<Self>, ServerLines)> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let said = Arc::default();
        let process = Arc::new(Self {
            child,
            said: Arc::clone(&said),
            secrets: secrets.clone(),
            given_up: OnceLock::new(),
        });
        let (Some(input), Some(output), Some(errors)) = streams else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let listener = thread::Builder::new().name("mcp-errors".into());
        listener.spawn(move || keep_end(errors, &said))?;
        let lines = ServerLines {
            streams: LineStreams::new(output, input, CancellationToken::new())?,
            waiting: HashSet::new(),
            failed: VecDeque::new(),
            nonsense: 0,
            secrets,
            process: Arc::downgrade(&process),
        };
        Ok((process, lines))
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it ends within a moment: its streams end a little before it.
    pub(super) async fn ending(&self) -> Option<String> {
        for _ in 0..25 {
            if let Some(status) = self.status() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// Its exit status, if it has ended. It is not reaped: until it is dropped, its id and that of
    /// its group are not reused.
    fn status(&self) -> Option<String> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = Pid::from_child(&self.child);
        let status = waitid(WaitId::Pid(id), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(format!("exit code {code}")),
            (_, Some(signal)) => Some(format!("signal {signal}")),
            _ => None,
        }
    }

    /// The end of its standard error.
    pub(super) fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        self.secrets.scrub_text(said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let id = Pid::from_child(&self.child);
        let _ = kill_process_group(id, Signal::KILL);
        // It is gone at once, unless the kernel holds it: that is not waited for here.
        let reaper = thread::Builder::new().name("mcp-reaper".into());
        let _ = reaper.spawn(move || {
            let options = WaitIdOptions::EXITED;
            let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(id), options));
        });
    }
}

fn keep_end(mut errors: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut buffer) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(&buffer[..read]);
        let more = said.len().saturating_sub(MAX_SAID);
        said.drain(..more);
    }
}

/// Messages as lines on the standard streams of a server.
pub(super) struct ServerLines {
    streams: LineStreams,
    /// Requests without an answer yet.
    waiting: HashSet<RequestId>,
    /// Answers that we give instead of the server, since its own are invalid.
    failed: VecDeque<ServerJsonRpcMessage>,
    /// Bytes since the last message that were not a message.
    nonsense: usize,
    secrets: Secrets,
    process: std::sync::Weak<Process>,
}

impl ServerLines {
    /// It is unknown whose answer it was: no waiting call gets one.
    fn fail_all(&mut self, why: &str) {
        let error = ErrorData::internal_error(why.to_owned(), None);
        let failed = |id| ServerJsonRpcMessage::error(error.clone(), Some(id));
        self.failed.extend(self.waiting.drain().map(failed));
    }

    fn message(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        #[derive(Deserialize)]
        struct Head {
            id: RequestId,
            #[serde(default)]
            method: Option<IgnoredAny>,
        }
        if has_too_many_values(line) {
            self.fail_all("the server's answer has too many values");
            return None;
        }
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
            Ok(message) => {
                self.nonsense = 0;
                match &message {
                    JsonRpcMessage::Response(answer) => self.waiting.remove(&answer.id),
                    JsonRpcMessage::Error(answer) => {
                        answer.id.as_ref().is_some_and(|id| self.waiting.remove(id))
                    }
                    _ => false,
                };
                return Some(message);
            }
            Err(error) => error,
        };
        match serde_json::from_slice(line) {
            Ok(Head { id, method: None }) if self.waiting.remove(&id) => {
                let why = format!("the server's answer cannot be read: {error}");
                let error = ErrorData::internal_error(why, None);
                Some(ServerJsonRpcMessage::error(error, Some(id)))
            }
            _ => {
                // Many print what they should log.
                tracing::debug!(%error, "a line of the server is not a message");
                self.nonsense += line.len();
                None
            }
        }
    }

    fn give_up(&self, why: String) {
        if let Some(process) = self.process.upgrade() {
            let _ = process.given_up.set(why);
        }
    }
}

impl Transport<RoleClient> for ServerLines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.waiting.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.waiting.remove(id);
                }
            }
            _ => {}
        }
        let outgoing = self.streams.outgoing.clone();
        async move {
            let line = line_of(&message)?;
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            outgoing.send(line).await.map_err(gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(failed) = self.failed.pop_front() {
                return Some(failed);
            }
            match self.streams.incoming.recv().await? {
                Line::Whole(line) => {
                    let line = self.secrets.scrub(line);
                    if let Some(message) = self.message(&line) {
                        return Some(message);
                    }
                }
                Line::TooLong => {
                    let limit = MAX_MESSAGE >> 20;
                    self.fail_all(&format!("the server's answer has more than {limit} MiB"));
                }
                Line::Broken(error) => self.give_up(format!("reading from it: {error}")),
            }
            if self.nonsense > MAX_NONSENSE {
                self.give_up("it writes too many lines that are not messages".into());
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.streams.incoming.close();
        Ok(())
    }
}
