//! The peers of a socket, and what is queued for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// KiB that may wait for one peer.
const QUEUE_KIB: u32 = 64 << 10;
/// How long a full queue may stay full before its peer is dropped: a stopped client must not stop the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most topics of a subscriber.
const MAX_TOPICS: usize = 64;

/// Bytes for a peer, and their place in its queue.
pub(crate) type Queued = (Arc<[u8]>, OwnedSemaphorePermit);

/// A connected peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) connection: u64,
    /// The name that it gave itself.
    pub(crate) identity: Vec<u8>,
    queue: UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    topics: Mutex<Vec<Vec<u8>>>,
}

impl Peer {
    pub(crate) fn new(connection: u64, identity: Vec<u8>) -> (Self, UnboundedReceiver<Queued>) {
        let (queue, queued) = unbounded_channel();
        let peer = Self {
            connection,
            identity,
            queue,
            room: Arc::new(Semaphore::new(QUEUE_KIB as usize)),
            topics: Mutex::default(),
        };
        (peer, queued)
    }

    /// Queues bytes. Returns false if the peer is gone, or has read nothing for too long.
    pub(crate) async fn send(&self, bytes: Arc<[u8]>) -> bool {
        let kib = u32::try_from(bytes.len() >> 10).unwrap_or(QUEUE_KIB);
        let room = Arc::clone(&self.room).acquire_many_owned(kib.saturating_add(1).min(QUEUE_KIB));
        match tokio::time::timeout(PATIENCE, room).await {
            Ok(Ok(room)) => self.queue.send((bytes, room)).is_ok(),
            _ => false,
        }
    }

    /// Adds a topic. Returns false if the peer has too many.
    pub(crate) fn subscribe(&self, topic: &[u8]) -> bool {
        let mut topics = lock(&self.topics);
        let has_room = topics.len() < MAX_TOPICS;
        if has_room {
            topics.push(topic.to_vec());
        }
        has_room
    }

    pub(crate) fn unsubscribe(&self, topic: &[u8]) {
        let mut topics = lock(&self.topics);
        if let Some(place) = topics.iter().position(|one| one == topic) {
            topics.remove(place);
        }
    }

    fn wants(&self, topic: &[u8]) -> bool {
        lock(&self.topics).iter().any(|one| topic.starts_with(one))
    }
}

/// The peers of a socket, by the numbers of their connections.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<BTreeMap<u64, Arc<Peer>>>);

impl Peers {
    pub(crate) fn insert(&self, peer: Arc<Peer>) {
        lock(&self.0).insert(peer.connection, peer);
    }

    pub(crate) fn remove(&self, connection: u64) {
        lock(&self.0).remove(&connection);
    }

    /// Forgets all. What is queued for them is still written.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(crate) async fn send(&self, connection: u64, bytes: Vec<u8>) {
        let peer = lock(&self.0).get(&connection).cloned();
        self.send_to(peer, bytes.into()).await;
    }

    /// Sends to the newest peer of this name. Returns false if there is none.
    pub(crate) async fn send_to_identity(&self, identity: &[u8], bytes: Vec<u8>) -> bool {
        let peer = {
            let peers = lock(&self.0);
            let mut newest = peers.values().rev();
            newest.find(|peer| peer.identity == identity).cloned()
        };
        let is_there = peer.is_some();
        self.send_to(peer, bytes.into()).await;
        is_there
    }

    /// Sends to all subscribers of a topic.
    pub(crate) async fn publish(&self, topic: &[u8], bytes: Vec<u8>) {
        let bytes: Arc<[u8]> = bytes.into();
        let peers: Vec<_> = lock(&self.0).values().cloned().collect();
        for peer in peers {
            if peer.wants(topic) {
                self.send_to(Some(peer), Arc::clone(&bytes)).await;
            }
        }
    }

    async fn send_to(&self, peer: Option<Arc<Peer>>, bytes: Arc<[u8]>) {
        if let Some(peer) = peer
            && !peer.send(bytes).await
        {
            self.remove(peer.connection);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_a_peer_that_reads_nothing_is_dropped() {
        let peers = Peers::default();
        let (peer, queued) = Peer::new(1, b"slow".to_vec());
        assert!(peer.subscribe(b""));
        peers.insert(Arc::new(peer));
        for _ in 0..100 {
            peers.publish(b"stream", vec![0; 1 << 20]).await;
        }
        assert!(lock(&peers.0).is_empty());
        assert!(queued.len() < 65, "{}", queued.len());
    }

    #[tokio::test]
    async fn subscribers_get_their_topics() {
        let peers = Peers::default();
        let (peer, mut queued) = Peer::new(1, Vec::new());
        let peer = Arc::new(peer);
        peers.insert(Arc::clone(&peer));
        peers.publish(b"status", b"none".to_vec()).await;
        assert!(peer.subscribe(b"st"));
        peers.publish(b"status", b"one".to_vec()).await;
        peers.publish(b"error", b"other".to_vec()).await;
        peer.unsubscribe(b"st");
        peers.publish(b"status", b"none".to_vec()).await;
        peers.clear();
        drop(peer);
        assert_eq!(*queued.recv().await.unwrap().0, *b"one");
        assert!(queued.recv().await.is_none());
    }
}
