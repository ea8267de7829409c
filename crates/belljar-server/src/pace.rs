//! How slowly a client may send or take something. One that is slower holds what others wait for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The fewest bytes in so much time of waiting for the client: 2 KiB in a second. A window is long because the kernel
/// takes what is sent in pieces: a client behind a proxy takes up to 128 KiB at once.
const LEAST: u64 = 64 << 10;
const WINDOW: Duration = Duration::from_secs(30);

/// Time that is waited for one client. Time in which the client waits for us does not count.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Of this window, before the current wait.
    waited: Duration,
    since: Option<Instant>,
    /// Bytes since the first wait of this window.
    bytes: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// Some bytes moved.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.timer = None;
        if self.waited > Duration::ZERO {
            self.bytes += bytes as u64;
        }
        if self.waited >= WINDOW && self.bytes >= LEAST {
            *self = Self::default();
        }
    }

    /// Waits for the client; ready when it is too slow.
    pub(crate) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let since = *self.since.get_or_insert_with(Instant::now);
            let left = WINDOW.saturating_sub(self.waited + since.elapsed());
            if left.is_zero() {
                if self.bytes < LEAST {
                    return Poll::Ready(());
                }
                *self = Self::default();
                continue;
            }
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Whether a client is cut off that moves so many bytes after each so many seconds, within an hour.
    async fn is_cut_off(bytes: usize, seconds: u64) -> bool {
        let mut pace = Pace::default();
        pace.moved(1 << 30);
        for _ in 0..3600 / seconds {
            let pause = Duration::from_secs(seconds);
            let slow = poll_fn(|context| pace.poll_too_slow(context));
            if timeout(pause, slow).await.is_ok() {
                return true;
            }
            pace.moved(bytes);
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_too_slow_is_cut_off() {
        assert!(is_cut_off(0, 1).await);
        assert!(is_cut_off(1024, 1).await);
        assert!(is_cut_off(20 << 10, 29).await);
        assert!(!is_cut_off(4096, 1).await);
        assert!(!is_cut_off(128 << 10, 29).await);
    }

    /// What was sent fast buys no time, and the time in which the client waits for us does not count.
    #[tokio::test(start_paused = true)]
    async fn only_waiting_counts() {
        let mut pace = Pace::default();
        pace.moved(1 << 30);
        let began = Instant::now();
        poll_fn(|context| pace.poll_too_slow(context)).await;
        assert!(began.elapsed() < WINDOW + Duration::from_secs(1));

        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.moved(1);
            sleep(WINDOW).await;
        }
        let short = poll_fn(|context| pace.poll_too_slow(context));
        assert!(timeout(Duration::from_secs(1), short).await.is_err());
    }
}
