//! What a tenant may use.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that a tenant may use so much of.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// Sessions at once, those of runs among them.
    Sessions,
    /// Runs that go on at once.
    Runs,
    /// Sessions that are started in a second, on average; twice as many at once.
    CreatesPerSecond,
    /// Requests in a second, on average; twice as many at once.
    RequestsPerSecond,
    /// Memory limits of its sessions together.
    MemoryBytes,
    /// What it has on disk: journals and files of its runs, sleeping sessions, uploads and downloads.
    DiskBytes,
    /// Processor time of its cells, in a day.
    CpuMs,
    /// What its cells write to standard output and standard error, in a day.
    OutputBytes,
    /// What its cells send to the network, in a day.
    EgressBytes,
    /// Events of its cells and runs, in a day.
    Events,
    /// Tokens that models read and write in its runs, in a day.
    Tokens,
    /// What models cost in its runs in a day: millionths of the currency of the prices.
    MoneyMicros,
}

/// So much of each.
pub type Amounts = BTreeMap<Quota, u64>;

impl Quota {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Sessions,
        Self::Runs,
        Self::CreatesPerSecond,
        Self::RequestsPerSecond,
        Self::MemoryBytes,
        Self::DiskBytes,
        Self::CpuMs,
        Self::OutputBytes,
        Self::EgressBytes,
        Self::Events,
        Self::Tokens,
        Self::MoneyMicros,
    ];

    /// What is counted for a day: what a cell uses.
    pub(crate) const OF_CELLS: [Self; 4] = [
        Self::CpuMs,
        Self::OutputBytes,
        Self::EgressBytes,
        Self::Events,
    ];

    /// What is counted for a day: what a run uses.
    pub(crate) const OF_RUNS: [Self; 6] = [
        Self::CpuMs,
        Self::OutputBytes,
        Self::EgressBytes,
        Self::Events,
        Self::Tokens,
        Self::MoneyMicros,
    ];

    /// As text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Runs => "runs",
            Self::CreatesPerSecond => "creates_per_second",
            Self::RequestsPerSecond => "requests_per_second",
            Self::MemoryBytes => "memory_bytes",
            Self::DiskBytes => "disk_bytes",
            Self::CpuMs => "cpu_ms",
            Self::OutputBytes => "output_bytes",
            Self::EgressBytes => "egress_bytes",
            Self::Events => "events",
            Self::Tokens => "tokens",
            Self::MoneyMicros => "money_micros",
        }
    }

    /// Whether it is counted for a day, and not for what there is at the moment.
    pub(crate) fn is_daily(self) -> bool {
        Self::OF_RUNS.contains(&self)
    }
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|quota| quota.as_str() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|quota| quota.as_str()).collect();
            format!("a quota is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
