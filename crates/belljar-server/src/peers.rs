//! Who is connected. Connections are many, and most of what they may do is bounded by the tenant whose key they
//! bring; here it is those without one that are bounded, by their address.
//!
//! A connection is unauthenticated until a request with a valid key has arrived whole, and again as soon as it is
//! answered: while it shakes hands, sends half of a head, is idle, logs in or loads the interface. Where there is no place
//! for a new one, the address that has most of them loses the one that has been so for longest. A proxy, whose clients all
//! have its address, loses only those that are idle or slow, as it does anyway after 15 seconds.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use rustix::process::{Resource, getrlimit};
use tokio_util::sync::CancellationToken;

use crate::lock::lock;

/// The most connections of a listener at once, and how many of them one address may have that are unauthenticated.
const MAX_CONNECTIONS: usize = 4096;
const MAX_OF_ADDRESS: usize = 1024;

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Peers {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    next: u64,
    /// By address, the one that has been so for longest first.
    unauthenticated: HashMap<IpAddr, BTreeMap<u64, Arc<Connection>>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    peers: Arc<Peers>,
    address: IpAddr,
    /// The whole address of the client, for the log.
    pub(crate) client: IpAddr,
    /// Whether it has shown the certificate of a node.
    node: AtomicBool,
    /// Its place among those that are unauthenticated, and how many requests with a key are being answered.
    state: Mutex<(u64, usize)>,
    cut: CancellationToken,
    /// What is held until all that was said is sent; `None` once it is closed.
    unsent: Mutex<Option<Vec<Box<dyn Any + Send>>>>,
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(pub(crate) Arc<Connection>);

/// A request with a valid key that is being answered.
#[derive(Debug)]
pub(crate) struct Authenticated(Arc<Connection>);

impl Peers {
    pub(crate) fn new() -> Arc<Self> {
        // Others need descriptors, too: sessions have about ten each.
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        Self::with(MAX_CONNECTIONS.min(files))
    }

    fn with(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: Mutex::default(),
        })
    }

    /// Lets a connection in; `None` where all places are taken by requests with a key.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let client = address.to_canonical();
        let (loopback, address) = (client.is_loopback(), network(address));
        let mut open = lock(&self.open);
        let of_address = open.unauthenticated.get(&address).map_or(0, BTreeMap::len);
        // Clients on loopback are a proxy, or users of this machine.
        if of_address >= MAX_OF_ADDRESS && !loopback {
            open.cut_oldest(address);
        } else if open.count >= self.most {
            let most = open
                .unauthenticated
                .iter()
                .max_by_key(|(_, all)| (all.len(), Reverse(all.keys().next().copied())))
                .map(|(address, _)| *address)?;
            open.cut_oldest(most);
        }
        open.count += 1;
        let connection = Arc::new(Connection {
            peers: Arc::clone(self),
            address,
            client,
            node: AtomicBool::new(false),
            state: Mutex::default(),
            cut: CancellationToken::new(),
            unsent: Mutex::new(Some(Vec::new())),
        });
        open.list(&connection);
        Some(Admitted(connection))
    }
}

impl Open {
    fn list(&mut self, connection: &Arc<Connection>) {
        self.next += 1;
        lock(&connection.state).0 = self.next;
        let of_address = self.unauthenticated.entry(connection.address).or_default();
        of_address.insert(self.next, Arc::clone(connection));
    }

    /// Whether it was listed.
    fn unlist(&mut self, connection: &Connection) -> bool {
        let Some(of_address) = self.unauthenticated.get_mut(&connection.address) else {
            return false;
        };
        let listed = of_address.remove(&lock(&connection.state).0).is_some();
        if of_address.is_empty() {
            self.unauthenticated.remove(&connection.address);
        }
        listed
    }

    fn cut_oldest(&mut self, address: IpAddr) {
        let of_address = self.unauthenticated.get(&address);
        let oldest = of_address.and_then(|all| all.values().next().cloned());
        if let Some(oldest) = oldest {
            self.unlist(&oldest);
            self.count -= 1;
            oldest.cut.cancel();
        }
    }
}

impl Connection {
    /// A request with a valid key has arrived.
    pub(crate) fn authenticate(self: &Arc<Self>) -> Authenticated {
        let mut open = lock(&self.peers.open);
        open.unlist(self);
        lock(&self.state).1 += 1;
        Authenticated(Arc::clone(self))
    }

    /// It has shown the certificate of a node.
    pub(crate) fn note_node(&self) {
        self.node.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_of_node(&self) -> bool {
        self.node.load(Ordering::Relaxed)
    }

    /// It lost its place to another one.
    pub(crate) async fn wait_until_cut(&self) {
        self.cut.cancelled().await;
    }

    /// Holds something until an answer has been sent, or the connection is gone.
    pub(crate) fn hold(self: &Arc<Self>, answer: Response, held: impl Any + Send) -> Response {
        let (connection, held) = (Arc::clone(self), Some(Box::new(held) as _));
        answer.map(|body| {
            Body::new(Sending {
                body,
                connection,
                held,
            })
        })
    }

    /// All that was said has been sent.
    pub(crate) fn sent(&self) {
        let unsent = lock(&self.unsent).as_mut().map(std::mem::take);
        drop(unsent);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let unsent = lock(&self.0.unsent).take();
        drop(unsent);
        let mut open = lock(&self.0.peers.open);
        open.unlist(&self.0);
        if !self.0.cut.is_cancelled() {
            open.count -= 1;
            self.0.cut.cancel();
        }
    }
}

impl Drop for Authenticated {
    fn drop(&mut self) {
        let mut open = lock(&self.0.peers.open);
        let mut state = lock(&self.0.state);
        state.1 -= 1;
        let idle = state.1 == 0;
        drop(state);
        if idle && !self.0.cut.is_cancelled() {
            open.list(&self.0);
        }
    }
}

/// The body of an answer, and what is held until it is sent. Hyper drops a body when it has all of it, which is before
/// the client has.
struct Sending {
    body: Body,
    connection: Arc<Connection>,
    held: Option<Box<dyn Any + Send>>,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(unsent) = &mut *lock(&self.connection.unsent) {
            unsent.extend(self.held.take());
        }
    }
}

/// Whose address it is: of version 6, whoever has one has all with the same 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_cut(admitted: &Admitted) -> bool {
        admitted.0.cut.is_cancelled()
    }

    #[test]
    fn the_address_with_most_makes_room() {
        let peers = Peers::with(4);
        let many = ["10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"];
        let many = many.map(|address| peers.admit(ip(address)).unwrap());
        let _new = peers.admit(ip("10.0.0.3")).unwrap();
        assert_eq!(many.each_ref().map(is_cut), [true, false, false, false]);
        drop(many);
        assert_eq!(lock(&peers.open).count, 1);
    }

    #[test]
    fn who_has_a_key_is_not_cut() {
        let peers = Peers::with(2);
        let [first, second] = [0; 2].map(|_| peers.admit(ip("10.0.0.1")).unwrap());
        let requests = [first.0.authenticate(), first.0.authenticate()];
        let _third = peers.admit(ip("10.0.0.1")).unwrap();
        assert_eq!([&first, &second].map(is_cut), [false, true]);
        let all = lock(&peers.open).count;
        assert_eq!(all, 2);
        let fourth = peers.admit(ip("10.0.0.2")).unwrap();
        let _request = fourth.0.authenticate();
        assert!(peers.admit(ip("10.0.0.3")).is_none());
        let [one, other] = requests;
        drop(one);
        assert!(peers.admit(ip("10.0.0.3")).is_none());
        drop(other);
        assert!(peers.admit(ip("10.0.0.3")).is_some());
        assert!(is_cut(&first));
    }

    #[test]
    fn an_address_has_a_bound_of_its_own() {
        let peers = Peers::with(2 * MAX_OF_ADDRESS);
        let of = |address: &str| peers.admit(ip(address)).unwrap();
        let mut all: Vec<_> = (0..MAX_OF_ADDRESS)
            .map(|n| of(&format!("2001:db8::{n:x}:1")))
            .collect();
        assert!(!all.iter().any(is_cut));
        all.push(of("2001:db8:0:1::1"));
        all.push(of("2001:db8::ffff:2"));
        assert_eq!(all.iter().filter(|one| is_cut(one)).count(), 1);
        assert!(is_cut(&all[0]));
        // A proxy has all connections of its clients.
        let proxy: Vec<_> = (0..MAX_OF_ADDRESS - 1).map(|_| of("127.0.0.1")).collect();
        let mapped = of("::ffff:127.0.0.1");
        assert!(!proxy.iter().any(is_cut) && !is_cut(&mapped));
    }
}
