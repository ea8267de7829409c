//! A kernel over `ZeroMQ`, as a client starts it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::connection::{ConnectionFile, Endpoint};
use crate::host::{Host, HostError};
use crate::kernel::{Kernel, KernelOptions, Outgoing, Requests, Route};
use crate::message::{Author, Key, Message};
use crate::sockets::{Listener, Role, Socket};
use crate::zmtp::encode_message;

/// Requests that wait on a channel; the next one waits in its connection.
const WAITING: usize = 1024;
/// KiB of unfinished messages of all peers.
const UNFINISHED_KIB: usize = 64 << 10;
/// How long the last messages may take.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// Why a kernel ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A socket could not be made where the connection file says.
    #[error(
        "the kernel cannot listen on {place}: {error}\nhint: another process may use it; start the kernel again"
    )]
    Listen {
        /// Where.
        place: String,
        /// Why.
        error: io::Error,
    },
    /// A session could not be started.
    #[error(transparent)]
    Session(#[from] HostError),
}

/// Serves a kernel until a client ends it, or `stop` does. Each signal of `interrupts` interrupts the running cell, as a
/// client's message does.
///
/// # Errors
/// If it can't listen, or a session can't be started.
pub async fn serve(
    file: &ConnectionFile,
    host: impl Host,
    options: KernelOptions,
    mut interrupts: Signal,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let endpoints = file.endpoints();
    let mut listeners = Vec::new();
    for endpoint in &endpoints {
        let listener = Listener::bind(endpoint).await;
        listeners.push(listener.map_err(|error| ServeError::Listen {
            place: match endpoint {
                Endpoint::Tcp(ip, port) => format!("{ip}:{port}"),
                Endpoint::Ipc(path) => path.display().to_string(),
            },
            error,
        })?);
    }
    let key = file.key();
    let unfinished = Arc::new(Semaphore::new(UNFINISHED_KIB));
    let socket = |role| Socket::new(role, key.clone(), Arc::clone(&unfinished));
    let (shell, shell_requests) = mpsc::channel(WAITING);
    let (control, control_requests) = mpsc::channel(WAITING);
    let (stdin, stdin_requests) = mpsc::channel(WAITING);
    let requests = Requests {
        shell: shell_requests,
        control: control_requests,
        stdin: stdin_requests,
    };
    // In the order of the endpoints.
    let sockets = [
        socket(Role::Router(shell)),
        socket(Role::Router(control)),
        socket(Role::Publisher(Box::new(Author::new()))),
        socket(Role::Router(stdin)),
        socket(Role::Echo),
    ];
    let (flushing, mut flushed) = mpsc::channel(1);
    let mut accepting = JoinSet::new();
    for (socket, listener) in sockets.iter().zip(listeners) {
        accepting.spawn(Arc::clone(socket).accept(listener, flushing.clone()));
    }
    drop(flushing);
    let (outgoing, messages) = mpsc::channel(64);
    let sending = tokio::spawn(send_all(messages, sockets.clone(), key));
    let kernel = Kernel::new(host, options, outgoing);
    let interrupting = async {
        while interrupts.recv().await.is_some() {
            kernel.interrupt();
        }
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = kernel.run(requests) => result.map(drop).map_err(ServeError::from),
        () = stop => Ok(()),
        () = interrupting => Ok(()),
    };
    // The last messages are written, if their readers are there.
    drop(kernel);
    accepting.shutdown().await;
    let _ = tokio::time::timeout(LAST_MESSAGES, async {
        let _ = sending.await;
        for socket in &sockets {
            socket.peers.clear();
        }
        flushed.recv().await
    })
    .await;
    for endpoint in &endpoints {
        if let Endpoint::Ipc(path) = endpoint {
            let _ = std::fs::remove_file(path);
        }
    }
    result
}

/// Sends the messages of the kernel.
async fn send_all(mut messages: mpsc::Receiver<Outgoing>, sockets: [Arc<Socket>; 5], key: Key) {
    let [shell, control, iopub, stdin, _] = sockets;
    let bytes = |envelope: &[Vec<u8>], message: &Message| {
        let frames = message.encode(envelope, &key);
        encode_message(frames.iter().map(Vec::as_slice))
    };
    let to = |route: &Route, message: &Message| bytes(&route.envelope, message);
    while let Some(message) = messages.recv().await {
        match message {
            Outgoing::Shell(route, message) => {
                shell
                    .peers
                    .send(route.connection, to(&route, &message))
                    .await;
            }
            Outgoing::Control(route, message) => {
                control
                    .peers
                    .send(route.connection, to(&route, &message))
                    .await;
            }
            Outgoing::Stdin(route, message) => {
                let bytes = to(&route, &message);
                if !stdin.peers.send_to_identity(&route.identity, bytes).await {
                    tracing::warn!("a question found no client on `stdin`");
                }
            }
            Outgoing::Publish(message) => {
                let topic = message.kind().as_bytes().to_vec();
                let bytes = bytes(std::slice::from_ref(&topic), &message);
                iopub.peers.publish(&topic, bytes).await;
            }
        }
    }
}
