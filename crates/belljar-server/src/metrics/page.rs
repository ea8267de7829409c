//! The text format of Prometheus.

use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Upper ends of the buckets, in seconds: from a cell that does nothing to one that takes all of its time.
const BUCKETS: [f64; 17] = [
    0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];

#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    pub(super) fn add(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(index) = BUCKETS.iter().position(|end| seconds <= *end) {
            self.buckets[index] += 1;
        }
        self.count += 1;
        self.sum += duration;
    }
}

/// What is written.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    /// Of the family that is being written.
    name: &'static str,
}

impl Page {
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    pub(super) fn one(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut below = 0;
        for (end, count) in BUCKETS.iter().zip(histogram.buckets) {
            below += count;
            let end = end.to_string();
            self.line("_bucket", &[labels, &[("le", &end)]].concat(), below);
        }
        let all = [labels, &[("le", "+Inf")]].concat();
        self.line("_bucket", &all, histogram.count);
        self.line("_sum", labels, histogram.sum.as_secs_f64());
        self.line("_count", labels, histogram.count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}
