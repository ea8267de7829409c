//! Counters for Prometheus. Labels have a fixed number of values: none comes from a client.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use axum::http::StatusCode;
use belljar_sandbox::protocol::Status;

use crate::problem::Code;
use crate::sessions::lock;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<u16, u64>,
    problems: BTreeMap<&'static str, u64>,
    cells: BTreeMap<&'static str, u64>,
}

impl Metrics {
    pub(crate) fn request(&self, status: StatusCode, code: Option<Code>) {
        let mut counts = lock(&self.counts);
        *counts.requests.entry(status.as_u16()).or_default() += 1;
        if let Some(code) = code {
            *counts.problems.entry(code.as_str()).or_default() += 1;
        }
    }

    pub(crate) fn cell(&self, status: Status) {
        let status = match status {
            Status::Success => "success",
            Status::Failure => "failure",
            Status::Timeout => "timeout",
            Status::Crashed => "crashed",
        };
        *lock(&self.counts).cells.entry(status).or_default() += 1;
    }

    /// In the text format of Prometheus, with these sessions and cells at present.
    pub(crate) fn text(&self, (sessions, cells): (usize, usize)) -> String {
        let counts = lock(&self.counts);
        let mut text = format!(
            "# HELP belljar_sessions Sessions that live.\n# TYPE belljar_sessions gauge\nbelljar_sessions {sessions}\n\
             # HELP belljar_cells_running Cells that run or wait.\n# TYPE belljar_cells_running gauge\nbelljar_cells_running {cells}\n"
        );
        let requests = counts.requests.iter();
        let requests = requests.map(|(status, count)| (status.to_string(), *count));
        let named = |map: &BTreeMap<&'static str, u64>| -> Vec<_> {
            let list = map.iter();
            list.map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        for (name, help, label, values) in [
            (
                "belljar_http_requests_total",
                "Answers, by their status.",
                "status",
                requests.collect(),
            ),
            (
                "belljar_http_problems_total",
                "Refusals and faults, by their code.",
                "code",
                named(&counts.problems),
            ),
            (
                "belljar_cells_total",
                "Cells that have ended, by how.",
                "status",
                named(&counts.cells),
            ),
        ] {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for (value, count) in values {
                let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {count}");
            }
        }
        text
    }
}
