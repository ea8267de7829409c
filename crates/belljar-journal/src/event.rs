//! Events as they are given to the journal, and as they come back.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The id of a run: 1 to 64 letters, digits, `-` and `_`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[A-Za-z0-9_-]{1,64}$"))]
pub struct RunId(String);

impl RunId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is not a valid run id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a valid run id: it must have 1 to 64 letters, digits, `-` or `_`",
    .0.escape_debug()
)]
pub struct InvalidRunId(String);

impl TryFrom<String> for RunId {
    type Error = InvalidRunId;

    fn try_from(text: String) -> Result<Self, InvalidRunId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text))
        } else {
            Err(InvalidRunId(text.chars().take(80).collect()))
        }
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        text.to_owned().try_into()
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Microseconds since the beginning of 1970, UTC.
///
/// The journal never looks at a clock, and never orders by time: the sequence number is the order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The current time of this machine's clock.
    pub fn now() -> Self {
        // A clock before 1970 or after the year 294246 is wrong anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(since.map_or(0, |since| {
            i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
        }))
    }
}

/// An event to append.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Its kind; the journal gives it no meaning.
    pub kind: String,
    /// The version of the body's shape.
    pub version: u32,
    /// When it happened, by the caller's clock.
    pub at: Timestamp,
    /// The body, as JSON. Large values belong in [`Blobs`](crate::Blobs).
    pub body: Box<RawValue>,
}

impl NewEvent {
    /// An event whose body is serialised as JSON.
    pub fn new(
        kind: impl Into<String>,
        version: u32,
        at: Timestamp,
        body: &impl Serialize,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            kind: kind.into(),
            version,
            at,
            body: serde_json::value::to_raw_value(body)?,
        })
    }
}

/// An event of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The run that it belongs to.
    pub run: RunId,
    /// Its place in the run, from 1, without gaps.
    pub seq: u64,
    /// When it happened, by the clock of the writer.
    pub at: Timestamp,
    /// Its kind.
    pub kind: String,
    /// The version of the body's shape.
    pub version: u32,
    /// The body: the same text that was appended.
    pub body: Box<RawValue>,
}

impl Entry {
    /// The body as a value of the caller's type.
    pub fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.body.get())
    }
}

/// A run in a list of runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its first event: when it began, and what it is about.
    pub first: Entry,
    /// Its last event: how far it came, and its last sequence number.
    pub last: Entry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_safe_to_show_and_to_put_in_a_path() {
        for good in ["a", "run-1_B", &"x".repeat(64)] {
            assert_eq!(good.parse::<RunId>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "..", "a b", "é", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<RunId>(bad.into()).is_err());
        }
        let message = "a\u{1b}[2J".parse::<RunId>().unwrap_err().to_string();
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
}
