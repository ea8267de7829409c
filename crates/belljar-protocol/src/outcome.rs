//! The typed result of a cell.

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize};

use crate::{Artifact, Changes, Traffic};

/// How a cell ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran to its end.
    Success,
    /// It ended with an exception, a syntax error, an interrupt or a non-zero `sys.exit`.
    Failure,
    /// It was stopped at a time limit.
    Timeout,
    /// Its process is gone.
    Crashed,
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// All statements ran.
    Completed,
    /// An exception came out of the code.
    Exception,
    /// The code did not compile; nothing ran.
    Syntax,
    /// `sys.exit` (the session lives on) or `os._exit` (it does not; see [`Outcome::state`]).
    Exit {
        /// The code it exited with.
        code: i64,
    },
    /// The caller interrupted it.
    Interrupted,
    /// It ran longer than its limit.
    WallTime {
        /// The limit.
        limit_ms: u64,
    },
    /// It used more CPU time than its limit.
    CpuTime {
        /// The limit.
        limit_ms: u64,
    },
    /// The kernel killed it because the session's memory was used up.
    Memory {
        /// The session's limit.
        limit_bytes: u64,
    },
    /// A signal killed it.
    Signal {
        /// Number of the signal.
        number: i32,
        /// Its name, such as `SIGSEGV`.
        name: String,
    },
    /// It exceeded the output limit of a cell.
    OutputLimit {
        /// The limit.
        limit_bytes: u64,
    },
    /// Its process sent an invalid message to the host.
    Protocol {
        /// The protocol error.
        detail: String,
    },
}

/// The isolation of the cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Walls {
    /// All walls.
    #[default]
    Full,
    /// All but seccomp and Landlock, to measure their cost.
    Unfiltered,
    /// Those of a container: the kernel's, as far as a container engine and we inside of it raise them.
    Container,
    /// A kernel of its own: a sandbox of gVisor.
    Gvisor,
    /// None: the code ran as an ordinary process of the host's user.
    None,
}

impl Walls {
    /// Whether all walls are up.
    pub fn are_full(&self) -> bool {
        *self == Self::Full
    }

    /// All of them, the weakest first. A container is below our own walls, as no user namespace of ours is around it.
    pub const BY_STRENGTH: [Self; 5] = [
        Self::None,
        Self::Unfiltered,
        Self::Container,
        Self::Full,
        Self::Gvisor,
    ];

    /// As text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Unfiltered => "unfiltered",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::None => "none",
        }
    }

    /// Their place in [`BY_STRENGTH`](Self::BY_STRENGTH).
    pub fn strength(self) -> usize {
        let mut all = Self::BY_STRENGTH.iter();
        all.position(|walls| *walls == self).unwrap_or_default()
    }

    /// Whether they are at least as strong as others.
    pub fn is_at_least(self, least: Self) -> bool {
        self.strength() >= least.strength()
    }
}

/// What became of the session's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// They are as the cell left them.
    Kept,
    /// They are as they were after the named cell.
    Restored {
        /// The cell; 0 before the first one.
        cell: u32,
    },
    /// They are lost; the session has ended.
    Lost,
}

/// An exception of Python.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExceptionInfo {
    /// Name of its type, with the module unless that is `builtins` or `__main__`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// `__name__` of its type. Empty in outcomes of older versions.
    #[serde(default)]
    pub name: String,
    /// `str()` of it.
    pub value: String,
    /// `repr()` of it.
    pub repr: String,
    /// The traceback without Belljar's own frames.
    pub traceback: String,
    /// The line of this cell where it came from.
    #[serde(default)]
    pub line: Option<u32>,
}

/// The output of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The text, cut in the middle with a mark if it was too long. Of a line with three or more
    /// carriage returns, such as a progress bar, the last state. Without text that the program
    /// cleared.
    pub text: String,
    /// Bytes that were written.
    pub bytes: u64,
    /// Bytes that `text` leaves out at its mark.
    pub omitted_bytes: u64,
    /// The file with the full text while the session lives, if `text` leaves out some of a long one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<std::path::PathBuf>,
    /// Whether that file is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file_truncated: bool,
}

/// A rich output: the same thing in one or more representations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Display {
    /// The representations, best last.
    pub parts: Vec<DisplayData>,
    /// Whether it is the value of the cell's last expression.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub value: bool,
    /// Its id, if the program gave it one to change it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether it replaces the newest display with its id. In an outcome: one of an earlier cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub update: bool,
    /// What the program says about its representations, by MIME type.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Display {
    /// The part of this MIME type.
    pub fn get(&self, mime: &str) -> Option<&DisplayData> {
        self.parts.iter().find(|part| part.mime == mime)
    }

    /// The plain text of it, if it has one.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.get("text/plain")?.data).ok()
    }
}

/// One representation of a display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayData {
    /// MIME type.
    pub mime: String,
    /// The bytes. In JSON they are `text` if they are UTF-8, else `base64`.
    pub data: Vec<u8>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DisplayData")]
struct DisplayDataWire {
    mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Serialize for DisplayData {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As `DisplayDataWire`, without another copy of what may be many bytes.
        let mut wire = serializer.serialize_struct("DisplayData", 2)?;
        wire.serialize_field("mime", &self.mime)?;
        match std::str::from_utf8(&self.data) {
            Ok(text) => wire.serialize_field("text", text)?,
            Err(_) => wire.serialize_field("base64", &Base64(&self.data))?,
        }
        wire.end()
    }
}

/// Bytes that are encoded as they are written.
struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &BASE64))
    }
}

impl<'de> Deserialize<'de> for DisplayData {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let wire = DisplayDataWire::deserialize(deserializer)?;
        let data = match (wire.text, wire.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => BASE64.decode(encoded).map_err(D::Error::custom)?,
            _ => return Err(D::Error::custom("one of `text` and `base64` is needed")),
        };
        Ok(Self {
            mime: wire.mime,
            data,
        })
    }
}

impl JsonSchema for DisplayData {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        DisplayDataWire::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DisplayDataWire::json_schema(generator)
    }
}

/// Durations of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// From the request to the outcome, as the host saw it.
    pub total_us: u64,
    /// From the first to the last statement, as the guest measured it; 0 if it did not report it.
    pub run_us: u64,
    /// CPU time of everything in the session, according to the kernel.
    pub cpu_us: u64,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Number of the cell in its session, counted from 1.
    pub cell: u32,
    /// Network activity of the session since the last outcome, if it may reach any hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Traffic>,
    /// Its isolation; left out if all walls were up.
    #[serde(default, skip_serializing_if = "Walls::are_full")]
    pub walls: Walls,
    /// How it ended.
    pub status: Status,
    /// Why.
    pub cause: Cause,
    /// What became of the variables.
    pub state: Fate,
    /// 0 if the process lives on; otherwise its exit code, or minus the number of the signal.
    pub exit_code: i64,
    /// The exception, if one came out of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<ExceptionInfo>,
    /// The package of a module that was not found, if the session may install it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The option that would let a failed cell succeed, if one would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// Packages that were installed for this cell, with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installed: Vec<String>,
    /// Output to descriptor 1.
    pub stdout: Output,
    /// Output to descriptor 2.
    pub stderr: Output,
    /// Both, in the order they were written, as a terminal would show them.
    pub transcript: String,
    /// Rich outputs, in order.
    #[serde(default)]
    pub displays: Vec<Display>,
    /// Files the cell created or changed.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// Changes to the namespace.
    #[serde(default)]
    pub changes: Changes,
    /// Notes: what was left out of this outcome, and why; and what the session lacks since it was
    /// restored, or since it hibernated before this cell.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Durations.
    pub durations: Durations,
    /// Peak memory of the session during the cell, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

/// An option of the session that would let a failed cell succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The option.
    pub option: RemedyOption,
    /// Who sets it.
    pub set_by: SetBy,
    /// The package or the host, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// An option that a [`Remedy`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RemedyOption {
    /// The package policy.
    Packages,
    /// The allow-list of hosts.
    Network,
}

/// Who sets the options of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SetBy {
    /// The program that uses the library.
    #[default]
    Library,
    /// The command line of `belljar exec`, `repl`, `run` or `mcp`.
    Command,
    /// The request to the service, within what `belljar serve` permits.
    Service,
}

impl Outcome {
    /// Whether the cell ran to its end.
    pub fn is_success(&self) -> bool {
        self.status == Status::Success
    }
}
