//! Quotas of tenants.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A quota of a tenant.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// Concurrent sessions, including sessions of runs.
    Sessions,
    /// Concurrent runs.
    Runs,
    /// Started sessions per second on average; bursts of twice as many.
    CreatesPerSecond,
    /// Requests per second on average; bursts of twice as many.
    RequestsPerSecond,
    /// Sum of the memory limits of its sessions, in bytes.
    MemoryBytes,
    /// Disk use: journals and files of runs, hibernated sessions, uploads and downloads, in bytes.
    DiskBytes,
    /// CPU time of cells and commands per day, in milliseconds.
    CpuMs,
    /// Output of cells and commands to standard output and standard error per day, in bytes.
    OutputBytes,
    /// Network traffic sent by cells per day, in bytes.
    EgressBytes,
    /// Events of cells and runs per day.
    Events,
    /// Input and output tokens of runs per day.
    Tokens,
    /// Cost of runs per day, in millionths of the currency of the prices.
    MoneyMicros,
}

/// Amounts by quota.
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

    /// Daily quotas that cells and commands use.
    pub(crate) const OF_CELLS: [Self; 4] = [
        Self::CpuMs,
        Self::OutputBytes,
        Self::EgressBytes,
        Self::Events,
    ];

    /// Daily quotas that runs use.
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
            format!("expected one of the quotas {}", names.join(", "))
        })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
