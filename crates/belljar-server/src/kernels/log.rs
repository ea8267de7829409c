//! The messages of a kernel that its clients have not read yet.
//!
//! A reader holds a number and nothing else. The kernel never waits for one: a reader that falls too far behind is cut
//! off.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::watch;

use crate::lock::lock;

/// The most bytes and messages that wait for the slowest reader.
const MAX_BYTES: usize = 16 << 20;
const MAX_MESSAGES: usize = 10_000;

/// How long messages wait for a client that is gone, and for how many.
const RETURN_TIME: Duration = Duration::from_mins(2);
const MAX_ABSENT: usize = 16;

/// Who gets a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// The client of this name.
    Client(String),
}

#[derive(Debug)]
pub(super) struct MessageLog {
    unread: Mutex<Unread>,
    /// The number of the next message.
    told: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Unread {
    messages: VecDeque<(Audience, Bytes)>,
    bytes: usize,
    /// The number of the next message; the first one here has `next - messages.len()`.
    next: u64,
    connections: u64,
    /// What connected readers have to read next.
    readers: BTreeMap<u64, u64>,
    /// The same for clients that may come back, and since when they are gone.
    absent: HashMap<String, (u64, Instant)>,
}

/// A reader has missed messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

/// One connected client.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<MessageLog>,
    told: watch::Receiver<u64>,
    connection: u64,
    /// The name that replies to it carry.
    pub(crate) name: String,
    /// Whether it can come back under this name.
    is_named: bool,
}

impl MessageLog {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            unread: Mutex::default(),
            told: watch::Sender::new(0),
        })
    }

    /// Whether nobody reads, and nobody is expected back.
    pub(super) fn has_nobody(&self) -> bool {
        let unread = lock(&self.unread);
        unread.readers.is_empty() && unread.absent.is_empty()
    }

    pub(super) fn connections(&self) -> usize {
        lock(&self.unread).readers.len()
    }

    /// Adds a message. Without its bytes, all readers have missed it.
    pub(super) fn append(&self, audience: Audience, frame: Option<Bytes>) {
        let mut unread = lock(&self.unread);
        unread.next += 1;
        if let Some(frame) = frame {
            unread.bytes += frame.len();
            unread.messages.push_back((audience, frame));
        } else {
            unread.messages.clear();
            unread.bytes = 0;
        }
        while unread.bytes > MAX_BYTES && unread.messages.len() > 1
            || unread.messages.len() > MAX_MESSAGES
        {
            unread.give_up_oldest();
        }
        unread.forget_read();
        let next = unread.next;
        drop(unread);
        self.told.send_replace(next);
    }

    pub(super) fn join(self: &Arc<Self>, name: Option<&str>) -> LogReader {
        let mut unread = lock(&self.unread);
        unread.connections += 1;
        let connection = unread.connections;
        let returned = name.and_then(|name| unread.absent.remove(name));
        let first = unread.first();
        let after = returned.map(|(after, _)| after);
        // Who has missed something begins anew.
        let after = after.filter(|after| *after >= first).unwrap_or(unread.next);
        unread.readers.insert(connection, after);
        LogReader {
            log: Arc::clone(self),
            told: self.told.subscribe(),
            connection,
            // No client can give itself this name: it has a space.
            name: name.map_or_else(|| format!("connection {connection}"), str::to_owned),
            is_named: name.is_some(),
        }
    }

    pub(super) fn forget_absent(&self) {
        let mut unread = lock(&self.unread);
        unread
            .absent
            .retain(|_, (_, since)| since.elapsed() < RETURN_TIME);
        unread.forget_read();
    }
}

impl Unread {
    fn first(&self) -> u64 {
        self.next - self.messages.len() as u64
    }

    fn give_up_oldest(&mut self) {
        let oldest = self.messages.pop_front();
        self.bytes -= oldest.map_or(0, |(_, frame)| frame.len());
    }

    /// Gives up what everybody has read.
    fn forget_read(&mut self) {
        let absent = self.absent.values().map(|(after, _)| after);
        let least = self.readers.values().chain(absent).min().copied();
        while self.first() < least.unwrap_or(self.next) {
            self.give_up_oldest();
        }
    }
}

impl LogReader {
    /// The next message for this client.
    pub(crate) async fn next(&mut self) -> Result<Bytes, TooSlow> {
        loop {
            if let Some(frame) = self.read()? {
                return Ok(frame);
            }
            // The sender is part of the log.
            let _ = self.told.changed().await;
        }
    }

    /// The same, if there is one.
    pub(crate) fn read(&mut self) -> Result<Option<Bytes>, TooSlow> {
        let mut unread = lock(&self.log.unread);
        self.told.mark_unchanged();
        let unread = &mut *unread;
        let first = unread.first();
        let place = unread.readers.entry(self.connection).or_insert(unread.next);
        let mut found = None;
        while *place < unread.next && found.is_none() {
            let index = place.checked_sub(first).ok_or(TooSlow)?;
            let message = usize::try_from(index)
                .ok()
                .and_then(|index| unread.messages.get(index));
            let (audience, frame) = message.ok_or(TooSlow)?;
            let is_for_it = match audience {
                Audience::All => true,
                Audience::Client(name) => *name == self.name,
            };
            found = is_for_it.then(|| frame.clone());
            *place += 1;
        }
        unread.forget_read();
        Ok(found)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut unread = lock(&self.log.unread);
        let after = unread.readers.remove(&self.connection);
        if let (Some(after), true) = (after, self.is_named) {
            if unread.absent.len() >= MAX_ABSENT {
                let oldest = unread.absent.iter().min_by_key(|(_, (_, since))| *since);
                if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                    unread.absent.remove(&oldest);
                }
            }
            unread
                .absent
                .insert(self.name.clone(), (after, Instant::now()));
        }
        unread.forget_read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &MessageLog, audience: Audience, text: &'static str) {
        log.append(audience, Some(Bytes::from_static(text.as_bytes())));
    }

    fn read(reader: &mut LogReader) -> String {
        let mut all = Vec::new();
        while let Some(frame) = reader.read().unwrap() {
            all.push(String::from_utf8(frame.to_vec()).unwrap());
        }
        all.join(" ")
    }

    #[test]
    fn replies_go_to_who_asked_and_the_rest_to_all() {
        let log = MessageLog::new();
        assert!(log.has_nobody());
        let (mut a, mut b) = (log.join(Some("a")), log.join(None));
        append(&log, Audience::All, "1");
        append(&log, Audience::Client("a".into()), "2");
        append(&log, Audience::Client(b.name.clone()), "3");
        assert_eq!((read(&mut a), read(&mut b)), ("1 2".into(), "1 3".into()));
        let unread = lock(&log.unread);
        assert_eq!((unread.messages.len(), unread.bytes), (0, 0));
    }

    #[test]
    fn a_client_that_returns_misses_nothing() {
        let log = MessageLog::new();
        let mut a = log.join(Some("a"));
        append(&log, Audience::All, "1");
        assert_eq!(read(&mut a), "1");
        drop(a);
        append(&log, Audience::Client("a".into()), "2");
        let mut a = log.join(Some("a"));
        assert_eq!((read(&mut a), log.connections()), ("2".into(), 1));
        // Who gives no name is not waited for.
        drop(log.join(None));
        drop(a);
        assert_eq!(lock(&log.unread).absent.len(), 1);
        for n in 0..2 * MAX_ABSENT {
            drop(log.join(Some(&n.to_string())));
        }
        assert_eq!(lock(&log.unread).absent.len(), MAX_ABSENT);
    }

    #[test]
    fn a_slow_reader_is_cut_off_and_the_log_stays_small() {
        let log = MessageLog::new();
        let (mut slow, mut fast) = (log.join(None), log.join(None));
        for _ in 0..40 {
            log.append(Audience::All, Some(vec![0; 1 << 20].into()));
            assert!(fast.read().unwrap().is_some());
            assert!(lock(&log.unread).bytes <= MAX_BYTES);
        }
        assert_eq!(slow.read(), Err(TooSlow));
        drop(slow);
        assert_eq!(lock(&log.unread).bytes, 0);
        log.append(Audience::All, None);
        assert_eq!(fast.read(), Err(TooSlow));
    }
}
