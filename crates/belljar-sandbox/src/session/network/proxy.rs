//! One session's proxy: who may connect where, and how much at once.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_protocol::Traffic;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::address::is_refused;
use super::hello::Hello;
use super::name::{HostName, Target};
use super::policy::AllowList;
use super::relay::{Counters, SentBytes, Upload, relay};
use super::request::{Fault, HEAD_BYTES, Request};
use super::{Denial, DeniedReason};

/// Connections of a session at once. More wait in the listener's queue, where they cost nothing.
const CONNECTIONS: usize = 64;
/// How long each of them is taken at the least. So a session makes no more than 64 connections a
/// second, and fills neither the host's table of connections nor anyone's log.
const PLACE_TIME: Duration = Duration::from_secs(1);
/// Names that are looked up at once. Each takes a thread of the runtime, which the resolver may hold
/// for many seconds.
const LOOKUPS: usize = 4;
/// From the first byte of a head, or of a greeting, to its last.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// For the lookup, and for all of a host's addresses together.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// For one of them, so that a dead address leaves time for the next.
const ADDRESS_TIME: Duration = Duration::from_secs(4);
/// How long both sides may be silent.
const IDLE_TIME: Duration = Duration::from_mins(1);
/// What a session still says after it was refused is read, this much and this long: a connection
/// that is closed before would be reset, and the answer lost.
const REST_BYTES: u64 = 256 << 10;
const REST_TIME: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4 << 10;

/// `access_denied`, fatal: what a client of TLS understands.
const TLS_ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 49];

/// Answers the programs of one session that want to reach the network. Dropped, it ends every
/// connection and closes the listener; until then, the listener's network namespace stays.
///
/// It speaks HTTP as proxies do:
///
/// - `CONNECT host:port`, on any port: the tunnel carries TLS only, and the server name in the
///   greeting must be the host. So a tunnel is no way for SSH or mail, and none to a site that only
///   shares the host's address.
/// - `GET http://host/path` and the other methods: one request a connection, with a `Host` header
///   that agrees. A body needs a `Content-Length`.
///
/// A host is looked up on the host's side as a full name (search domains and the file of hosts don't
/// count), only if the list allows it. The connection goes to the address that was checked, so an
/// answer that changes later changes nothing. One private address in an answer refuses the name; so
/// does one of a translator (NAT64), which some networks without IPv4 put into every answer.
///
/// A session has at most 64 connections at once and 64 new ones a second; further ones wait.
#[derive(Debug)]
pub struct Proxy {
    task: JoinHandle<()>,
    state: Arc<ProxyState>,
}

#[derive(Debug)]
struct ProxyState {
    policy: AllowList,
    reports: mpsc::Sender<Denial>,
    lookups: Arc<Semaphore>,
    connections: AtomicU64,
    bytes: Arc<Counters>,
    denials: AtomicU64,
    denials_unreported: AtomicU64,
}

impl Proxy {
    /// Answers on a listener, which may be in another network namespace, by a list. Each denial is
    /// reported; those that the channel has no place for are counted.
    ///
    /// Call it from within a Tokio runtime.
    pub fn start(
        listener: StdTcpListener,
        policy: AllowList,
        reports: mpsc::Sender<Denial>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let state = Arc::new(ProxyState {
            policy,
            reports,
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            connections: AtomicU64::default(),
            bytes: Arc::default(),
            denials: AtomicU64::default(),
            denials_unreported: AtomicU64::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { task, state })
    }

    /// What the session sent and got so far.
    pub fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: read(&self.state.connections),
            bytes_sent: read(&self.state.bytes.sent),
            bytes_received: read(&self.state.bytes.received),
            denials: read(&self.state.denials),
            denials_unreported: read(&self.state.denials_unreported),
        }
    }

    /// The counter of what the session sends.
    pub fn sent_bytes(&self) -> SentBytes {
        SentBytes(Arc::clone(&self.state.bytes))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The listener and the connections belong to the task.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((client, _)) => {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let end = Instant::now() + PLACE_TIME;
                    state.serve(client).await;
                    sleep_until(end).await;
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: they come back.
                tracing::debug!(%error, "a connection of a session could not be accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Why a request of a session was refused, in words for the session.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Denied(Denial),
    #[error("{0}")]
    Malformed(&'static str),
    #[error("a body needs a Content-Length")]
    LengthRequired,
    #[error("the head of the request did not arrive in time")]
    Slow,
    #[error("the head of the request has more than 16 KiB")]
    TooLong,
    #[error("{0} could not be resolved")]
    Unresolved(String),
    #[error("{0} could not be reached")]
    Unreachable(String),
    /// The session went away.
    #[error("{0}")]
    Gone(#[from] io::Error),
}

impl Refusal {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Denied(_) => Some(403),
            Self::Malformed(_) => Some(400),
            Self::LengthRequired => Some(411),
            Self::Slow => Some(408),
            Self::TooLong => Some(431),
            Self::Unresolved(_) | Self::Unreachable(_) => Some(502),
            Self::Gone(_) => None,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Malformed(what) => Self::Malformed(what),
            Fault::LengthRequired => Self::LengthRequired,
            Fault::Denied(denial) => Self::Denied(denial),
        }
    }
}

impl ProxyState {
    async fn serve(&self, mut client: TcpStream) {
        if let Err(refusal) = self.answer(&mut client).await {
            if let Refusal::Denied(denial) = &refusal {
                self.report(denial);
            }
            let Some(status) = refusal.status() else {
                return;
            };
            // Also in the status line, since that is what most clients show.
            let text = format!("belljar: {refusal}");
            let length = text.len() + 1;
            let answer = format!(
                "HTTP/1.1 {status} {text}\r\nContent-Type: text/plain\r\n\
                 Content-Length: {length}\r\nConnection: close\r\n\r\n{text}\n"
            );
            let _ = client.write_all(answer.as_bytes()).await;
        }
        let _ = client.shutdown().await;
        let mut rest = client.take(REST_BYTES);
        let _ = timeout(
            REST_TIME,
            tokio::io::copy(&mut rest, &mut tokio::io::sink()),
        )
        .await;
    }

    async fn answer(&self, client: &mut TcpStream) -> Result<(), Refusal> {
        client.set_nodelay(true)?;
        let (head, rest) = timeout(HEAD_TIME, read_head(client))
            .await
            .map_err(|_| Refusal::Slow)??;
        let request = Request::parse(&head)?;
        let target = request.target();
        if !self.policy.allows(target) {
            return Err(Refusal::Denied(target.denied(DeniedReason::NotListed)));
        }
        let mut server = self.reach(target).await?;
        self.connections.fetch_add(1, Ordering::Relaxed);

        let upload = match request {
            Request::Tunnel(target) => {
                client
                    .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    .await?;
                match read_hello(client, &rest, &target.host).await? {
                    Ok(first) => Upload { first, more: None },
                    Err(reason) => {
                        // HTTP is over here: the refusal is sent as a TLS alert.
                        self.report(&target.denied(reason));
                        return Ok(client.write_all(&TLS_ALERT).await?);
                    }
                }
            }
            Request::Plain {
                mut head,
                body_bytes,
                ..
            } => {
                let here = rest
                    .len()
                    .min(usize::try_from(body_bytes).unwrap_or(usize::MAX));
                head.extend_from_slice(&rest[..here]);
                Upload {
                    first: head,
                    more: Some(body_bytes - here as u64),
                }
            }
        };
        relay(client, &mut server, upload, &self.bytes, IDLE_TIME).await;
        Ok(())
    }

    /// A connection to an address of the target that was checked.
    async fn reach(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let host = target.host.as_str();
        let unresolved = || Refusal::Unresolved(host.to_owned());
        let unreachable = || Refusal::Unreachable(format!("{host}:{}", target.port));
        let refused = || Refusal::Denied(target.denied(DeniedReason::RefusedAddress));

        let addresses = timeout(CONNECT_TIME, self.resolve(target))
            .await
            .map_err(|_| unresolved())?
            .map_err(|_| unresolved())?;
        if addresses.iter().any(|address| is_refused(address.ip())) {
            return Err(refused());
        }
        let connect = async {
            for address in addresses {
                let server = timeout(ADDRESS_TIME, TcpStream::connect(address)).await;
                if let Ok(Ok(server)) = server {
                    return Some(server);
                }
            }
            None
        };
        let server = timeout(CONNECT_TIME, connect)
            .await
            .ok()
            .flatten()
            .ok_or_else(unreachable)?;
        // The address was checked before; this is what the kernel says that it connected to.
        let peer = server.peer_addr().map_err(|_| unreachable())?;
        if is_refused(peer.ip()) {
            return Err(refused());
        }
        let _ = server.set_nodelay(true);
        Ok(server)
    }

    async fn resolve(&self, target: &Target) -> io::Result<Vec<SocketAddr>> {
        // The dot keeps the resolver from trying the name in the host's own domains.
        let name = format!("{}.", target.host.as_str());
        let port = target.port;
        let place = Arc::clone(&self.lookups).acquire_owned().await;
        // Not `lookup_host`: the permit is held as long as the thread runs, also if nobody waits.
        let lookup = spawn_blocking(move || {
            let _place = place;
            (name.as_str(), port).to_socket_addrs()
        });
        Ok(lookup.await??.collect())
    }

    fn report(&self, denial: &Denial) {
        self.denials.fetch_add(1, Ordering::Relaxed);
        if self.reports.try_send(denial.clone()).is_err() {
            self.denials_unreported.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A head up to its empty line, and what came after it.
async fn read_head(client: &mut TcpStream) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    let mut buffer = [0; READ_BYTES];
    loop {
        let length = client.read(&mut buffer).await?;
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        // The end may have begun in what was read before.
        let start = head.len().saturating_sub(END.len() - 1);
        head.extend_from_slice(&buffer[..length]);
        let end = head[start..]
            .windows(END.len())
            .position(|part| part == END);
        let end = end.map(|end| start + end + END.len());
        if end.unwrap_or(head.len()) > HEAD_BYTES {
            return Err(Refusal::TooLong);
        }
        if let Some(end) = end {
            let rest = head.split_off(end);
            return Ok((head, rest));
        }
    }
}

/// The greeting to `host` that a tunnel must begin with, of which `bytes` were read already.
async fn read_hello(
    client: &mut TcpStream,
    bytes: &[u8],
    host: &HostName,
) -> io::Result<Result<Vec<u8>, DeniedReason>> {
    let read = async {
        let mut hello = Hello::default();
        let mut name = hello.push(bytes);
        let mut buffer = [0; READ_BYTES];
        loop {
            match name {
                Ok(Some(name)) if name == *host => return Ok(Ok(hello.into_received())),
                Ok(Some(_)) => return Ok(Err(DeniedReason::ServerNameMismatch)),
                Ok(None) => {}
                Err(reason) => return Ok(Err(reason)),
            }
            let length = client.read(&mut buffer).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            name = hello.push(&buffer[..length]);
        }
    };
    timeout(HEAD_TIME, read)
        .await
        .unwrap_or(Ok(Err(DeniedReason::NotTls)))
}
