//! A network to the object store that can fail.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// Each piece takes its time, each way.
    Slow(Duration),
    /// The store asks for patience, this many times.
    SlowDown(u32),
    /// Each request is answered with an error of the store.
    Fails,
    /// Connections break after so many bytes of an answer, this many times.
    CutsAnswers(usize, u32),
    /// Connections break after so many bytes of a request.
    CutsRequests(usize),
    /// Connections are closed at once.
    Gone,
    /// Nothing is answered.
    Stalls,
}

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    now: watch::Sender<Network>,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (now, _) = watch::channel(Network::Works);
        let shared = now.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, to, shared.clone()));
            }
        });
        Self { port, now }
    }

    /// What happens to new and to open connections from now on.
    pub(crate) fn set(&self, network: Network) {
        self.now.send_replace(network);
    }
}

async fn connect(client: TcpStream, to: u16, now: watch::Sender<Network>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Either end closes both, with what is on its way.
    let to_client = tokio::sync::Mutex::new(to_client);
    tokio::select! {
        () = requests(from_client, to_server, &to_client, &now) => {}
        () = answers(from_server, &to_client, &now) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    client: &tokio::sync::Mutex<OwnedWriteHalf>,
    now: &watch::Sender<Network>,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    loop {
        let Ok(size @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let network = *now.borrow();
        let refuse = async |code: &str| {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let length = body.len();
            let head = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length:";
            let answer = format!("{head} {length}\r\n\r\n{body}");
            let _ = client.lock().await.write_all(answer.as_bytes()).await;
        };
        match network {
            Network::Gone => return,
            Network::Stalls => {
                let mut changes = now.subscribe();
                let _ = changes.wait_for(|now| *now != Network::Stalls).await;
                return;
            }
            Network::Fails => return refuse("InternalError").await,
            Network::SlowDown(left @ 1..) => {
                now.send_replace(Network::SlowDown(left - 1));
                return refuse("SlowDown").await;
            }
            Network::CutsRequests(most) if passed + size > most => return,
            Network::Slow(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        passed += size;
        if to.write_all(&buffer[..size]).await.is_err() {
            return;
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    to: &tokio::sync::Mutex<OwnedWriteHalf>,
    now: &watch::Sender<Network>,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    loop {
        let Ok(size @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let mut kept = size;
        let network = *now.borrow();
        match network {
            Network::CutsAnswers(most, left @ 1..) if passed + size > most => {
                now.send_replace(Network::CutsAnswers(most, left - 1));
                kept = most.saturating_sub(passed);
            }
            Network::Slow(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        passed += size;
        let written = to.lock().await.write_all(&buffer[..kept]).await;
        if written.is_err() || kept < size {
            return;
        }
    }
}
