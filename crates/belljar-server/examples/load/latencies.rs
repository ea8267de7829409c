//! Times, and which of them are exceeded by how many.

use std::time::Duration;

#[derive(Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that this share of them stays within.
    pub(crate) fn within(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in a list"
        )]
        let at = ((self.0.len() as f64 * share).ceil() as usize).clamp(1, self.0.len().max(1)) - 1;
        self.0
            .get(at)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }

    pub(crate) fn line(&mut self, what: &str) {
        println!(
            "{what}: {} times, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            self.count(),
            self.within(0.5),
            self.within(0.9),
            self.within(0.99),
            self.within(1.0)
        );
    }
}

impl Extend<Duration> for Latencies {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, times: T) {
        self.0.extend(times);
    }
}

impl IntoIterator for Latencies {
    type Item = Duration;
    type IntoIter = std::vec::IntoIter<Duration>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
