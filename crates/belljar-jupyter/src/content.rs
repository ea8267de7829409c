//! The contents of requests.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the protocol has them")]
pub(crate) struct ExecuteRequest {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) silent: bool,
    #[serde(default = "yes")]
    pub(crate) store_history: bool,
    #[serde(default = "yes")]
    pub(crate) allow_stdin: bool,
    #[serde(default = "yes")]
    pub(crate) stop_on_error: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CompleteRequest {
    pub(crate) code: String,
    pub(crate) cursor_pos: usize,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InspectRequest {
    pub(crate) code: String,
    pub(crate) cursor_pos: usize,
    #[serde(default)]
    pub(crate) detail_level: u8,
}

#[derive(Debug, Deserialize)]
pub(crate) struct IsCompleteRequest {
    pub(crate) code: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HistoryRequest {
    pub(crate) hist_access_type: String,
    #[serde(default)]
    pub(crate) output: bool,
    #[serde(default)]
    pub(crate) session: i64,
    #[serde(default)]
    pub(crate) start: u32,
    #[serde(default)]
    pub(crate) stop: Option<u32>,
    #[serde(default)]
    pub(crate) n: Option<usize>,
    #[serde(default)]
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) unique: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CommOpen {
    pub(crate) comm_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InputReply {
    pub(crate) value: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ShutdownRequest {
    #[serde(default)]
    pub(crate) restart: bool,
}

fn yes() -> bool {
    true
}
