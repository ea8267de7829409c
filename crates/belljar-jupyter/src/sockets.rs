//! Sockets of `ZeroMQ` that accept connections: ROUTER, PUB and REP.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::connection::Endpoint;
use crate::kernel::{Request, Route};
use crate::message::{Author, Key, Message, Object};
use crate::peers::{Peer, Peers};
use crate::zmtp::{
    Decoder, Item, ZmtpError, encode_command, encode_handshake, encode_message, ready_property,
};

/// How long a peer may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most connections of a socket.
const MAX_CONNECTIONS: usize = 64;
/// The longest name of a peer, as `ZeroMQ` has it.
const MAX_IDENTITY: usize = 255;

/// What a socket does with messages.
#[derive(Debug)]
pub(crate) enum Role {
    /// Passes signed messages on.
    Router(mpsc::Sender<Request>),
    /// Reads subscriptions.
    Publisher(Box<Author>),
    /// Sends each message back.
    Echo,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) peers: Peers,
    role: Role,
    key: Key,
    /// KiB of unfinished messages of all peers, of whom nobody knows yet whether they have the key.
    unfinished: Arc<Semaphore>,
}

/// Accepts connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

impl Listener {
    pub(crate) async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(ip, port) => {
                Ok(Self::Tcp(TcpListener::bind((ip.as_str(), *port)).await?))
            }
            Endpoint::Ipc(path) => {
                remove_socket(path)?;
                Ok(Self::Ipc(UnixListener::bind(path)?))
            }
        }
    }
}

/// Removes a socket that another kernel has left behind, and nothing else.
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

impl Socket {
    pub(crate) fn new(role: Role, key: Key, unfinished: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Self {
            peers: Peers::default(),
            role,
            key,
            unfinished,
        })
    }

    fn socket_type(&self) -> &'static str {
        match self.role {
            Role::Router(_) => "ROUTER",
            Role::Publisher(_) => "PUB",
            Role::Echo => "REP",
        }
    }

    /// Accepts connections for ever. `flushed` is dropped when all that is queued for a peer is written.
    pub(crate) async fn accept(self: Arc<Self>, listener: Listener, flushed: mpsc::Sender<()>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connection = 0;
        loop {
            connection += 1;
            let socket = Arc::clone(&self);
            let flushed = flushed.clone();
            let accepted = match &listener {
                Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    // Messages are small, and each is waited for.
                    let _ = stream.set_nodelay(true);
                    let stream: Box<dyn Stream> = Box::new(stream);
                    stream
                }),
                Listener::Ipc(listener) => listener.accept().await.map(|(stream, _)| {
                    let stream: Box<dyn Stream> = Box::new(stream);
                    stream
                }),
            };
            match (accepted, Arc::clone(&places).try_acquire_owned()) {
                (Ok(stream), Ok(place)) => {
                    tokio::spawn(async move {
                        let served = socket.serve(stream, connection, flushed).await;
                        socket.peers.remove(connection);
                        if let Err(error) = served {
                            tracing::debug!(%error, socket = socket.socket_type(), "a connection ended");
                        }
                        drop(place);
                    });
                }
                (Ok(_), Err(_)) => tracing::warn!("a connection over the limit was closed"),
                (Err(error), _) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Most likely there are no descriptors left: trying again at once would not end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(
        &self,
        stream: Box<dyn Stream>,
        connection: u64,
        flushed: mpsc::Sender<()>,
    ) -> io::Result<()> {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = Reader::new(reader, Arc::clone(&self.unfinished));
        let handshake = async {
            writer
                .write_all(&encode_handshake(self.socket_type()))
                .await?;
            reader.handshake().await
        };
        let handshake = tokio::time::timeout(HANDSHAKE, handshake).await;
        let identity = handshake.map_err(|_| broken("the handshake took too long"))??;
        let (peer, mut queued) = Peer::new(connection, identity);
        let peer = Arc::new(peer);
        // Whoever forgets the peer ends its queue.
        let known = Arc::downgrade(&peer);
        self.peers.insert(peer);
        tokio::spawn(async move {
            while let Some((bytes, _room)) = queued.recv().await {
                if writer.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _ = writer.shutdown().await;
            drop(flushed);
        });
        while let Some(item) = reader.next().await? {
            // Without it, the peer was dropped or the kernel ends.
            let Some(peer) = known.upgrade() else { break };
            self.take(&peer, item).await?;
        }
        Ok(())
    }

    /// Does what a peer says.
    async fn take(&self, peer: &Peer, item: Item) -> io::Result<()> {
        match (&self.role, item) {
            (_, Item::Greeting) => return Err(broken("a second greeting")),
            (_, Item::Command { name, body }) if name == b"PING" => {
                // Its time to live comes first.
                let context = body.get(2..).unwrap_or_default();
                peer.send(encode_command(b"PONG", context).into()).await;
            }
            (Role::Publisher(author), Item::Command { name, body }) => match name.as_slice() {
                b"SUBSCRIBE" => self.subscribe(peer, &body, author).await?,
                b"CANCEL" => peer.unsubscribe(&body),
                _ => {}
            },
            (_, Item::Command { .. }) => {}
            (Role::Router(requests), Item::Message(frames)) => {
                match Message::parse(frames, &self.key) {
                    Ok((envelope, message)) => {
                        let from = Route {
                            connection: peer.connection,
                            identity: peer.identity.clone(),
                            envelope,
                        };
                        // A kernel that has ended takes none.
                        let held = None;
                        let _ = requests
                            .send(Request {
                                from,
                                message,
                                held,
                            })
                            .await;
                    }
                    Err(error) => tracing::warn!(%error, "a message was dropped"),
                }
            }
            (Role::Publisher(author), Item::Message(frames)) => {
                match frames.first().and_then(|frame| frame.split_first()) {
                    Some((1, topic)) => self.subscribe(peer, topic, author).await?,
                    Some((0, topic)) => peer.unsubscribe(topic),
                    _ => {}
                }
            }
            (Role::Echo, Item::Message(frames)) => {
                let bytes = encode_message(frames.iter().map(Vec::as_slice));
                peer.send(bytes.into()).await;
            }
        }
        Ok(())
    }

    /// Welcomes a subscriber: from this message on, it misses none.
    async fn subscribe(&self, peer: &Peer, topic: &[u8], author: &Author) -> io::Result<()> {
        if !peer.subscribe(topic) {
            return Err(broken("too many topics"));
        }
        let topic = String::from_utf8_lossy(topic);
        let content = serde_json::json!({"subscription": topic});
        let welcome = author.message("iopub_welcome", &Object::new(), content);
        let frames = welcome.encode(&[topic.as_bytes().to_vec()], &self.key);
        peer.send(encode_message(frames.iter().map(Vec::as_slice)).into())
            .await;
        Ok(())
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::other(why)
}

/// A connection of either transport.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Reads what a peer sends, within the allowance of all peers.
struct Reader {
    stream: ReadHalf<Box<dyn Stream>>,
    decoder: Decoder,
    buffer: Vec<u8>,
    unfinished: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Reader {
    fn new(stream: ReadHalf<Box<dyn Stream>>, unfinished: Arc<Semaphore>) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            buffer: vec![0; 16 << 10],
            unfinished,
            held: None,
        }
    }

    /// Reads the handshake of a peer. Returns the name that it gives itself.
    async fn handshake(&mut self) -> io::Result<Vec<u8>> {
        if self.next().await? != Some(Item::Greeting) {
            return Err(broken("no greeting"));
        }
        match self.next().await? {
            Some(Item::Command { name, body }) if name == b"READY" => {
                self.decoder.set_ready();
                let identity = ready_property(&body, b"Identity").unwrap_or_default();
                if identity.len() > MAX_IDENTITY {
                    return Err(broken("a name is too long"));
                }
                Ok(identity)
            }
            _ => Err(broken("no READY")),
        }
    }

    /// The next item, or none at the end.
    async fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            let wrong = |error: ZmtpError| io::Error::other(error);
            if let Some(item) = self.decoder.next_item().map_err(wrong)? {
                return Ok(Some(item));
            }
            self.charge()?;
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Ok(None);
            }
            self.decoder.push(&self.buffer[..read]);
        }
    }

    /// Charges an unfinished message to the allowance.
    fn charge(&mut self) -> io::Result<()> {
        let kib = self.decoder.held() >> 10;
        if kib == 0 {
            self.held = None;
            return Ok(());
        }
        let held = self
            .held
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        // Bounded by the largest message.
        let more = u32::try_from(kib.saturating_sub(held)).unwrap_or(u32::MAX);
        if more > 0 {
            let more = Arc::clone(&self.unfinished).try_acquire_many_owned(more);
            let more = more.map_err(|_| broken("too many unfinished messages"))?;
            match &mut self.held {
                Some(held) => held.merge(more),
                None => self.held = Some(more),
            }
        }
        Ok(())
    }
}
