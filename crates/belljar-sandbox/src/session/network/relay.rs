//! Bytes between a session and a server, counted, until one side ends or both are silent.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// What is held of one direction at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// How many bytes went each way.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    /// How many of the sent bytes were taken.
    taken: AtomicU64,
}

/// Counts what a session and its forks send to the network, for whoever charges it: each byte is taken once. Also counts
/// after the session has ended.
#[derive(Clone, Debug)]
pub struct SentBytes(pub(super) Arc<Counters>);

impl SentBytes {
    /// The number of bytes that nobody has taken before.
    #[must_use]
    pub fn take(&self) -> u64 {
        let sent = self.0.sent.load(Ordering::Relaxed);
        let before = self.0.taken.fetch_max(sent, Ordering::Relaxed);
        sent.saturating_sub(before)
    }
}

/// What goes from the session to the server.
pub(super) struct Upload {
    /// What was read already.
    pub(super) first: Vec<u8>,
    /// How many bytes may follow; the connection stays open after them. `None`: all, up to the end.
    pub(super) more: Option<u64>,
}

/// Passes bytes both ways. It is over when the server ends, when either side fails, or when nothing
/// has moved for the time `idle`.
pub(super) async fn relay(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut (impl AsyncRead + AsyncWrite + Unpin),
    upload: Upload,
    counters: &Counters,
    idle: Duration,
) {
    let (mut client_reader, mut client_writer) = split(client);
    let (mut server_reader, mut server_writer) = split(server);
    let moved = Mutex::new(Instant::now());

    let upload = async {
        let Upload { first, more } = upload;
        let writer = &mut server_writer;
        pump(&mut &first[..], writer, &counters.sent, &moved).await?;
        let Some(more) = more else {
            pump(&mut client_reader, writer, &counters.sent, &moved).await?;
            return writer.shutdown().await;
        };
        let mut body = (&mut client_reader).take(more);
        pump(&mut body, writer, &counters.sent, &moved).await?;
        match body.limit() {
            0 => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    // A session that has said all still waits for the answer.
    let upload_fails = async {
        if upload.await.is_ok() {
            pending::<()>().await;
        }
    };
    let download = pump(
        &mut server_reader,
        &mut client_writer,
        &counters.received,
        &moved,
    );
    let silence = async {
        loop {
            let end = *lock(&moved) + idle;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    };
    tokio::select! {
        _ = download => {}
        () = upload_fails => {}
        () = silence => {}
    }
}

async fn pump(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    counter: &AtomicU64,
    moved: &Mutex<Instant>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = reader.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        writer.write_all(&buffer[..length]).await?;
        counter.fetch_add(length as u64, Ordering::Relaxed);
        *lock(moved) = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;

    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(200);

    /// A relay, and the outer ends of both sides. It returns what was sent and received.
    fn start(
        first: &[u8],
        more: Option<u64>,
        idle: Duration,
    ) -> (DuplexStream, DuplexStream, JoinHandle<(u64, u64)>) {
        let (client, mut client_end) = duplex(64);
        let (server, mut server_end) = duplex(64);
        let first = first.to_vec();
        let task = tokio::spawn(async move {
            let counters = Counters::default();
            let upload = Upload { first, more };
            relay(&mut client_end, &mut server_end, upload, &counters, idle).await;
            (counters.sent.into_inner(), counters.received.into_inner())
        });
        (client, server, task)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_and_are_counted() {
        let (mut client, mut server, task) = start(b"one", None, LONG);
        client.write_all(b"two").await.unwrap();
        client.shutdown().await.unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "onetwo");
        let answer = async {
            server.write_all(&[7; 1000]).await.unwrap();
            drop(server);
        };
        let mut received = Vec::new();
        let ((), read) = tokio::join!(answer, client.read_to_end(&mut received));
        read.unwrap();
        assert_eq!(received, [7; 1000]);
        assert_eq!(task.await.unwrap(), (6, 1000));
    }

    /// I5: after a plain request and its body nothing more reaches the server.
    #[tokio::test(start_paused = true)]
    async fn a_body_ends_where_it_said() {
        let (mut client, mut server, task) = start(b"head", Some(3), LONG);
        client.write_all(b"bodyGET / smuggled").await.unwrap();
        let mut text = [0; 7];
        server.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"headbod");
        let more = tokio::time::timeout(SHORT, server.read(&mut text)).await;
        assert!(more.is_err(), "{more:?}");
        drop(server);
        assert_eq!(task.await.unwrap(), (7, 0));

        // A session that goes away in the middle of a body ends it all.
        let (client, _server, task) = start(b"head", Some(3), LONG);
        drop(client);
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_and_one_direction_is_enough_to_go_on() {
        let (_client, _server, task) = start(b"", None, SHORT);
        task.await.unwrap();

        let (mut client, mut server, task) = start(b"", None, SHORT);
        for _ in 0..8 {
            tokio::time::sleep(SHORT / 4).await;
            server.write_all(b"x").await.unwrap();
            client.read_exact(&mut [0]).await.unwrap();
        }
        assert!(!task.is_finished());
        // A session that does not read what it asked for is silent too.
        let _ = tokio::time::timeout(LONG, server.write_all(&vec![0; 100_000])).await;
        let (_, received) = task.await.unwrap();
        assert!(received < 1000, "{received}");
    }
}
