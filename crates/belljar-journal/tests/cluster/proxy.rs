//! A network between a node and the database that can fail.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// Everything takes its time, each way.
    Slow(Duration),
    /// What is sent arrives later, when it works again.
    Stalls,
    /// The connection breaks with the next request, which doesn't arrive.
    LosesRequests,
    /// The connection breaks with the next answer: its request was carried out.
    LosesAnswers,
}

#[derive(Clone, Copy, Debug)]
struct Now {
    network: Network,
    /// Connections of earlier ones are closed.
    generation: u64,
}

pub(crate) struct Proxy {
    port: u16,
    /// Of the server.
    socket: Arc<Mutex<PathBuf>>,
    now: watch::Sender<Now>,
}

impl Proxy {
    pub(crate) async fn start(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (now, _) = watch::channel(Now {
            network: Network::Works,
            generation: 0,
        });
        let socket = Arc::new(Mutex::new(socket.to_owned()));
        tokio::spawn(accept(listener, socket.clone(), now.clone()));
        Self { port, socket, now }
    }

    /// New connections are to this server.
    pub(crate) fn lead_to(&self, socket: PathBuf) {
        *self.socket.lock().unwrap() = socket;
    }

    /// The address of a database behind it.
    pub(crate) fn address(&self, database: &str) -> String {
        format!(
            "postgres://belljar@127.0.0.1:{}/{database}?sslmode=disable",
            self.port
        )
    }

    pub(crate) fn set(&self, network: Network) {
        self.now.send_modify(|now| now.network = network);
    }

    /// Works again, and what was on the way is lost.
    pub(crate) fn reset(&self) {
        self.reset_to(Network::Works);
    }

    /// Closes all connections, and lets new ones be like this.
    pub(crate) fn reset_to(&self, network: Network) {
        self.now.send_modify(|now| {
            now.network = network;
            now.generation += 1;
        });
    }
}

async fn accept(listener: TcpListener, socket: Arc<Mutex<PathBuf>>, now: watch::Sender<Now>) {
    while let Ok((client, _)) = listener.accept().await {
        let (socket, now) = (socket.lock().unwrap().clone(), now.subscribe());
        tokio::spawn(async move {
            // A database that is away refuses at once.
            if let Ok(server) = UnixStream::connect(socket).await {
                connect(client, server, now).await;
            }
        });
    }
}

async fn connect(client: TcpStream, server: UnixStream, now: watch::Receiver<Now>) {
    let _ = client.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Either end closes both.
    tokio::select! {
        () = pump(from_client, to_server, now.clone(), Network::LosesRequests) => {}
        () = pump(from_server, to_client, now, Network::LosesAnswers) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut now: watch::Receiver<Now>,
    loses_these: Network,
) {
    let generation = now.borrow().generation;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut gone = now.clone();
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = gone.wait_for(|now| now.generation != generation) => return,
        };
        let Ok(size @ 1..) = read else { return };
        let passes = |now: &Now| now.network != Network::Stalls || now.generation != generation;
        let Ok(state) = now.wait_for(passes).await.map(|now| *now) else {
            return;
        };
        if state.network == loses_these || state.generation != generation {
            return;
        }
        if let Network::Slow(time) = state.network {
            tokio::time::sleep(time).await;
        }
        if to.write_all(&buffer[..size]).await.is_err() {
            return;
        }
    }
}
