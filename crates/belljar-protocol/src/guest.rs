//! Messages between the host and the guest of a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Artifact, Changes, ExceptionInfo, NameInfo, RawFrame, TableRequest, TableView};

/// How much an inspection tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InspectDetail {
    /// Signature, type and documentation.
    #[default]
    Documentation,
    /// The source instead of the documentation, where there is one.
    Source,
}

/// Whether code is a whole cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It can run.
    Complete,
    /// More lines must follow.
    Incomplete {
        /// The indentation of the next line.
        indent: String,
    },
    /// No line that follows would make it valid.
    Invalid,
}

/// A request of the host to the guest. One is answered before the next is sent.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostFrame<'a> {
    /// Run a cell.
    Run {
        /// Number of the cell, counted from 1.
        cell: u32,
        /// Random value that every answer about this cell must repeat.
        nonce: &'a str,
        /// Python source.
        code: &'a str,
        /// Directories with packages of the session.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        packages: &'a [PathBuf],
        /// Whether the host has no time for a checkpoint after it without a request.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        busy: bool,
        /// The most characters of an exception's value, if not the usual ones.
        #[serde(skip_serializing_if = "Option::is_none")]
        value_limit: Option<usize>,
        /// Whether questions of its code ([`GuestFrame::Asked`]) are answered.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        input: bool,
        /// Environment variables of the session, which it sets unless it has them.
        #[serde(skip_serializing_if = "GuestVariables::is_empty")]
        variables: GuestVariables<'a>,
        /// Those of this cell alone.
        #[serde(skip_serializing_if = "GuestVariables::is_empty")]
        cell_variables: GuestVariables<'a>,
        /// Its namespace, if not the main one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<GuestNamespace<'a>>,
    },
    /// Forget the variables of a namespace. Answered by [`GuestFrame::NamespaceCleared`].
    ClearNamespace {
        /// Its name.
        namespace: &'a str,
    },
    /// Bind values before the first cell.
    Seed {
        /// Names and their JSON values.
        values: &'a serde_json::Map<String, serde_json::Value>,
    },
    /// Make forks. Answered by [`GuestFrame::Forking`]; then a message with a [`ForkSetup`] and
    /// descriptors follows for each, and [`GuestFrame::ForksMade`] when all are made.
    Fork {
        /// How many.
        count: u32,
        /// Environment variables that they do not get.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        withheld: &'a [String],
    },
    /// Grant these tools to the session's code. Answered by [`GuestFrame::Granted`].
    Grant {
        /// The tools.
        tools: &'a [GuestTool],
        /// How many calls a cell may make.
        calls: u32,
    },
    /// The answer to [`GuestFrame::Called`] or [`GuestFrame::Asked`].
    Answer {
        /// Number of the call in its cell.
        number: u32,
        /// The answer, or why there is none.
        #[serde(flatten)]
        answer: CallAnswer<'a>,
    },
    /// Rehearse a typical first cell. For a pooled session.
    Rehearse,
    /// Make a checkpoint. Answered by [`GuestFrame::Kept`], then [`GuestFrame::Checkpointed`].
    Keep {
        /// The cell after which the state is what it is.
        cell: u32,
    },
    /// Send the manifest.
    Manifest {
        /// Of this namespace, if not the main one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    /// Complete the name that ends at `cursor` (in bytes of UTF-8).
    Complete {
        /// The source typed so far.
        code: &'a str,
        /// The position of the cursor.
        cursor: usize,
        /// The namespace, if not the main one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    /// Describe the name at `cursor` (in bytes of UTF-8).
    Inspect {
        /// The source typed so far.
        code: &'a str,
        /// The position of the cursor.
        cursor: usize,
        /// How much to tell.
        detail: InspectDetail,
        /// The namespace, if not the main one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    /// Say whether code is a whole cell.
    IsComplete {
        /// The source typed so far.
        code: &'a str,
    },
    /// Read a table. Answered by [`GuestFrame::TablePart`] as often as needed, then
    /// [`GuestFrame::TableEnd`].
    ReadTable {
        /// The name that is bound to it.
        name: &'a str,
        /// The namespace, if not the main one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        /// Which rows, in which order.
        #[serde(flatten)]
        view: &'a TableView,
        /// Which part of it.
        wanted: TableRequest,
        /// The most bytes of the answer.
        limit_bytes: u64,
        /// Bytes of a part that is not the last.
        part_bytes: u64,
        /// Seconds for it.
        seconds: f64,
    },
    /// Pickle the namespaces, name by name. Answered by [`GuestFrame::SavedPart`] as often as
    /// needed, then [`GuestFrame::Saved`].
    Save {
        /// The most bytes that all names may take.
        limit_bytes: u64,
        /// Namespaces besides the main one.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        namespaces: &'a [String],
        /// Names whose values contain one of these are not saved.
        #[serde(skip_serializing_if = "GuestVariables::is_empty")]
        secrets: GuestVariables<'a>,
        /// Seconds for one name.
        name_seconds: f64,
        /// Seconds for all of them.
        seconds: f64,
    },
    /// Bind the names in the following [`HostFrame::LoadPart`]s.
    Load {
        /// Sources of cells that ran before, by file name.
        sources: &'a BTreeMap<String, String>,
        /// Namespaces besides the main one, and where their cells start.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        namespaces: BTreeMap<String, PathBuf>,
        /// Directories with packages of the session.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        packages: &'a [PathBuf],
        /// Seconds for one name.
        name_seconds: f64,
        /// Seconds for all of them.
        seconds: f64,
    },
    /// Bytes of saved names, as the frame's blob. The last is answered by [`GuestFrame::Loaded`].
    LoadPart {
        /// Whether it is the last.
        last: bool,
    },
}

/// A namespace besides the main one, which the guest makes unless it has it.
#[derive(Clone, Debug, Serialize)]
pub struct GuestNamespace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where its first cell starts.
    pub directory: PathBuf,
    /// Whether no cell has run in it: one of this name that the guest has is another.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

/// Environment variables by name. Their values are not printed: they may be secrets.
#[derive(Clone, Copy, Serialize)]
#[serde(transparent)]
pub struct GuestVariables<'a>(pub &'a BTreeMap<String, String>);

impl GuestVariables<'_> {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for GuestVariables<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// The host's answer to a call.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer<'a> {
    /// The answer.
    Value(&'a serde_json::Value),
    /// The answer is JSON in this file of the workspace.
    File(&'a str),
    /// The answer stays with the host; this is its marker.
    Kept(&'a str),
    /// Why there is none, in the tool's words.
    Error(&'a str),
    /// Why the host denied the call.
    Denied(&'a str),
}

/// A tool as the guest gets it: a Python function.
#[derive(Clone, Debug, Serialize)]
pub struct GuestTool {
    /// Its name in calls.
    pub name: String,
    /// Its name in Python.
    pub identifier: String,
    /// Its doc string.
    pub doc: String,
    /// Its parameters, required ones first.
    pub parameters: Vec<GuestParameter>,
    /// Whether it accepts arguments with other names too.
    pub open: bool,
    /// Type of its result, as an annotation.
    pub returns: String,
    /// Whether its result is a table.
    pub table: bool,
}

/// A parameter of a tool.
#[derive(Clone, Debug, Serialize)]
pub struct GuestParameter {
    /// Its name in the tool's schema.
    pub name: String,
    /// Its name in Python.
    pub identifier: String,
    /// Its type, as an annotation.
    pub annotation: String,
    /// Whether it is required.
    pub required: bool,
    /// Whether `None` is a valid value; otherwise it means that the argument is left out.
    pub nullable: bool,
    /// Its default.
    pub default: Option<serde_json::Value>,
}

/// The fork slot of a fork. With it come its ends of the wires (control, interrupts, stdout,
/// stderr), and its Landlock rules.
#[derive(Clone, Debug, Serialize)]
pub struct ForkSetup {
    /// Its workspace.
    pub workspace: PathBuf,
    /// The last cell that ran.
    pub cell: u32,
    /// The nonce for the cell that waits in a call, if one does.
    pub nonce: String,
}

/// What a guest sends. It is data from hostile code: every field is checked before use.
#[derive(Clone, Debug)]
pub enum GuestFrame {
    /// The session is ready for its first request.
    Ready,
    /// The walls could not be entered; sent instead of [`GuestFrame::Ready`], before any user code.
    Fault {
        /// Which step failed, and how.
        detail: String,
    },
    /// A display; the parts' bytes follow as the frame's blob, in order.
    Display(GuestDisplay),
    /// The cell takes back its displays and output.
    Clear {
        /// Number of the cell.
        cell: u32,
        /// The cell's nonce.
        nonce: String,
        /// Whether it happens with the next output only.
        wait: bool,
    },
    /// The cell has ended.
    Done(Box<CellReport>),
    /// Answer to [`HostFrame::Seed`].
    Seeded {
        /// Names that were refused, with the reason.
        refused: BTreeMap<String, String>,
    },
    /// Answer to [`HostFrame::Rehearse`].
    Rehearsed,
    /// Answer to [`HostFrame::ClearNamespace`].
    NamespaceCleared,
    /// Answer to [`HostFrame::Grant`].
    Granted,
    /// Code of the cell calls a tool and waits for a [`HostFrame::Answer`]. The frame's blob is the
    /// arguments: a JSON object.
    Called(Call),
    /// Code of the cell asks the client for a line and waits for a [`HostFrame::Answer`].
    Asked(Question),
    /// No code waits for the answer to a call any more.
    Cancelled {
        /// Number of the cell.
        cell: u32,
        /// The cell's nonce.
        nonce: String,
        /// Number of the call.
        number: u32,
    },
    /// The session waits for the descriptors of forks.
    Forking,
    /// A fork's process has started, and waits for a byte until it is in its cgroups; it sends this
    /// on its own channel. [`GuestFrame::Ready`] follows.
    Forked {
        /// Its process in the session's pid namespace.
        pid: i32,
    },
    /// All possible forks are made.
    ForksMade {
        /// How many.
        made: u32,
    },
    /// A checkpoint was made.
    Kept(KeptCheckpoint),
    /// A checkpoint was woken and is the session now.
    Woke(WokenCheckpoint),
    /// Answer to [`HostFrame::Keep`].
    Checkpointed,
    /// Answer to [`HostFrame::Manifest`].
    Manifest {
        /// One entry for each name.
        names: Vec<NameInfo>,
    },
    /// Answer to [`HostFrame::Complete`].
    Completions {
        /// Byte offset where the completed word starts.
        start: usize,
        /// Candidates.
        candidates: Vec<String>,
    },
    /// Answer to [`HostFrame::Inspect`].
    Inspected {
        /// The description; `None` if there is no such name.
        text: Option<String>,
    },
    /// Answer to [`HostFrame::IsComplete`].
    Completeness(Completeness),
    /// Bytes of a table, as the frame's blob.
    TablePart,
    /// The rest of a table, as the frame's blob; or why there is nothing.
    TableEnd {
        /// Why it was not read, or not to its end.
        problem: Option<TableProblem>,
    },
    /// Bytes of saved names, as the frame's blob.
    SavedPart,
    /// All names are saved, except those with a reason. The blob is a JSON object: the sources of
    /// the cells by file name.
    Saved(SavedNames),
    /// Names are still being loaded.
    Loading,
    /// All names are loaded, except those with a reason.
    Loaded {
        /// The names that were found.
        names: Vec<LoadedName>,
        /// Why no more were found, if so.
        why: Option<String>,
    },
}

impl GuestFrame {
    /// Reads a frame's header.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn parse(frame: &RawFrame) -> Result<Self, String> {
        // The type first and alone: a derived reader of a tagged enum would keep all other fields
        // in between, at twenty times their size, also unknown ones.
        Ok(match read::<Tag>(frame)?.kind {
            Kind::Ready => Self::Ready,
            Kind::Fault => {
                let Fault { detail } = read(frame)?;
                Self::Fault { detail }
            }
            Kind::Display => Self::Display(read(frame)?),
            Kind::Clear => {
                let Clear { cell, nonce, wait } = read(frame)?;
                Self::Clear { cell, nonce, wait }
            }
            Kind::Done => Self::Done(read(frame)?),
            Kind::Seeded => {
                let Seeded { refused } = read(frame)?;
                Self::Seeded { refused }
            }
            Kind::Rehearsed => Self::Rehearsed,
            Kind::NamespaceCleared => Self::NamespaceCleared,
            Kind::Granted => Self::Granted,
            Kind::Called => Self::Called(read(frame)?),
            Kind::Asked => Self::Asked(read(frame)?),
            Kind::Cancelled => {
                let Cancelled {
                    cell,
                    nonce,
                    number,
                } = read(frame)?;
                Self::Cancelled {
                    cell,
                    nonce,
                    number,
                }
            }
            Kind::Forking => Self::Forking,
            Kind::Forked => {
                let Forked { pid } = read(frame)?;
                Self::Forked { pid }
            }
            Kind::ForksMade => {
                let ForksMade { made } = read(frame)?;
                Self::ForksMade { made }
            }
            Kind::Kept => Self::Kept(read(frame)?),
            Kind::Woke => Self::Woke(read(frame)?),
            Kind::Checkpointed => Self::Checkpointed,
            Kind::Manifest => {
                let Manifest { names } = read(frame)?;
                Self::Manifest { names }
            }
            Kind::Completions => {
                let Completions { start, candidates } = read(frame)?;
                Self::Completions { start, candidates }
            }
            Kind::Inspected => {
                let Inspected { text } = read(frame)?;
                Self::Inspected { text }
            }
            Kind::Completeness => {
                let CompletenessWire { status, indent } = read(frame)?;
                Self::Completeness(match status {
                    CompletenessStatus::Complete => Completeness::Complete,
                    CompletenessStatus::Incomplete => Completeness::Incomplete { indent },
                    CompletenessStatus::Invalid => Completeness::Invalid,
                })
            }
            Kind::TablePart => Self::TablePart,
            Kind::TableEnd => {
                let TableEnd { problem } = read(frame)?;
                Self::TableEnd { problem }
            }
            Kind::SavedPart => Self::SavedPart,
            Kind::Saved => Self::Saved(read(frame)?),
            Kind::Loading => Self::Loading,
            Kind::Loaded => {
                let Loaded { names, why } = read(frame)?;
                Self::Loaded { names, why }
            }
        })
    }
}

/// The most characters of an error about a frame, which may quote the frame.
const MAX_ERROR: usize = 200;

fn read<'a, T: Deserialize<'a>>(frame: &'a RawFrame) -> Result<T, String> {
    serde_json::from_slice(&frame.header).map_err(|error| {
        // Readers take the host's words for true: those of a guest must stay recognisable.
        let words: String = error.to_string().chars().take(MAX_ERROR).collect();
        format!("not a frame: {}", words.escape_debug())
    })
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    kind: Kind,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Ready,
    Fault,
    Display,
    Clear,
    Done,
    Seeded,
    Rehearsed,
    NamespaceCleared,
    Granted,
    Called,
    Asked,
    Cancelled,
    Forking,
    Forked,
    ForksMade,
    Kept,
    Woke,
    Checkpointed,
    Manifest,
    Completions,
    Inspected,
    Completeness,
    TablePart,
    TableEnd,
    SavedPart,
    Saved,
    Loading,
    Loaded,
}

#[derive(Deserialize)]
struct Fault {
    detail: String,
}

/// A display, without its bytes.
#[derive(Clone, Debug, Deserialize)]
pub struct GuestDisplay {
    /// Number of the cell that showed it.
    pub cell: u32,
    /// The cell's nonce.
    pub nonce: String,
    /// Its representations.
    pub parts: Vec<DisplayPart>,
    /// Whether it is the value of the last expression.
    #[serde(default)]
    pub value: bool,
    /// Its id, if it may change.
    #[serde(default)]
    pub id: Option<String>,
    /// Whether it replaces the newest display with its id.
    #[serde(default)]
    pub update: bool,
    /// A JSON object: what the program says about its representations, by MIME type. As text, so
    /// that its size is known before it is parsed.
    #[serde(default)]
    pub metadata: Option<String>,
}

#[derive(Deserialize)]
struct Clear {
    cell: u32,
    nonce: String,
    wait: bool,
}

#[derive(Deserialize)]
struct Seeded {
    refused: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Forked {
    pid: i32,
}

#[derive(Deserialize)]
struct ForksMade {
    made: u32,
}

/// A call of a tool by code in a cell.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// Number of the cell.
    pub cell: u32,
    /// The cell's nonce.
    pub nonce: String,
    /// Number of the call in the cell, counted from 1.
    pub number: u32,
    /// Name of the tool.
    pub tool: String,
    /// Whether the main thread only waits for its answer.
    pub blocks: bool,
}

/// A question of code in a cell, by `input()` or `getpass()`. It is numbered as a call.
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    /// Number of the cell.
    pub cell: u32,
    /// The cell's nonce.
    pub nonce: String,
    /// Number of the call in the cell.
    pub number: u32,
    /// The text before the answer.
    pub prompt: String,
    /// Whether the answer is not to be shown.
    pub password: bool,
}

#[derive(Deserialize)]
struct Cancelled {
    cell: u32,
    nonce: String,
    number: u32,
}

#[derive(Deserialize)]
struct Manifest {
    names: Vec<NameInfo>,
}

#[derive(Deserialize)]
struct Completions {
    start: usize,
    candidates: Vec<String>,
}

#[derive(Deserialize)]
struct Inspected {
    text: Option<String>,
}

#[derive(Deserialize)]
struct CompletenessWire {
    status: CompletenessStatus,
    #[serde(default)]
    indent: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CompletenessStatus {
    Complete,
    Incomplete,
    Invalid,
}

#[derive(Deserialize)]
struct TableEnd {
    #[serde(default)]
    problem: Option<TableProblem>,
}

/// Why a guest did not read a table, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableProblem {
    /// Nothing has this name.
    NoName,
    /// Its value is not a table.
    NotATable,
    /// The table has no such column.
    NoColumn,
    /// The value of a filter is none of its column.
    NotComparable,
    /// The time was up.
    TooSlow,
    /// It has more bytes than the limit.
    TooLarge,
    /// The process that read it was killed, or had no memory.
    Killed,
    /// The session can't have another process.
    NoProcess,
    /// The library or the values' classes failed.
    Failed,
}

/// A checkpoint of a session.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct KeptCheckpoint {
    /// The cell after which it was made.
    pub cell: u32,
    /// Its process in the session's pid namespace; 0 for one that could not be made.
    pub pid: i32,
    /// Whether the host requested it, by [`HostFrame::Keep`] or by waking the checkpoint that it
    /// replaces.
    #[serde(default)]
    pub asked: bool,
}

/// A checkpoint that became the session.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WokenCheckpoint {
    /// The cell after which it was made.
    pub cell: u32,
    /// Threads that ran when it was made, and that it lacks.
    pub threads: u32,
    /// Child processes that ran when it was made, and that it lacks.
    pub processes: u32,
}

/// What a session saved, and what it could not save.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedNames {
    /// Every name, in the order of the bytes.
    pub names: Vec<SavedName>,
    /// The package that pickled them.
    pub library: String,
    /// Threads that ran beside the main one.
    pub threads: u32,
    /// Child processes.
    pub processes: u32,
}

#[derive(Deserialize)]
struct Loaded {
    names: Vec<LoadedName>,
    #[serde(default)]
    why: Option<String>,
}

/// A name in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedName {
    /// The name.
    pub name: String,
    /// Its namespace, if not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The type of its value.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its bytes; those shared with an earlier name are counted there.
    #[serde(default)]
    pub bytes: u64,
    /// Why it could not be saved, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A name of a loaded snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedName {
    /// The name.
    pub name: String,
    /// Its namespace, if not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Why it was not loaded, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One representation of a display.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DisplayPart {
    /// MIME type.
    pub mime: String,
    /// Bytes of it in the frame's blob.
    pub len: usize,
}

/// How a cell ended, as the guest saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellEnd {
    /// All statements ran.
    Ok,
    /// An exception came out of the code.
    Exception,
    /// The code did not compile; nothing ran.
    Syntax,
    /// The code raised `SystemExit`.
    Exit,
    /// A `KeyboardInterrupt` that the host sent came out of the code.
    Interrupted,
}

/// The guest's report on a finished cell.
#[derive(Clone, Debug, Deserialize)]
pub struct CellReport {
    /// Number of the cell.
    pub cell: u32,
    /// The cell's nonce.
    pub nonce: String,
    /// How it ended.
    pub end: CellEnd,
    /// Exit code, where `end` is [`CellEnd::Exit`].
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// The exception, where one came out.
    #[serde(default)]
    pub exception: Option<ExceptionInfo>,
    /// Changes of the namespace.
    #[serde(default)]
    pub changes: Changes,
    /// Files that the cell created or changed.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// Notes: what was left out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Time from the first to the last statement, displays not counted.
    #[serde(default)]
    pub run_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Result<GuestFrame, String> {
        GuestFrame::parse(&RawFrame {
            header: header.into(),
            blob: Vec::new(),
        })
    }

    #[test]
    fn each_type_is_read_wherever_it_stands() {
        for header in [
            r#"{"type":"ready"}"#,
            r#"{"detail":"x","type":"fault"}"#,
            r#"{"type":"display","cell":1,"nonce":"n","parts":[{"mime":"a/b","len":1}]}"#,
            r#"{"type":"clear","cell":1,"nonce":"n","wait":true}"#,
            r#"{"end":"ok","cell":1,"type":"done","nonce":"n"}"#,
            r#"{"type":"seeded","refused":{"a":"b"}}"#,
            r#"{"type":"rehearsed","what nobody knows":[{}]}"#,
            r#"{"type":"granted"}"#,
            r#"{"type":"called","cell":1,"nonce":"n","number":1,"tool":"t","blocks":true}"#,
            r#"{"number":1,"type":"cancelled","cell":1,"nonce":"n"}"#,
            r#"{"prompt":"?","type":"asked","cell":1,"nonce":"n","number":1,"password":true}"#,
            r#"{"type":"kept","cell":1,"pid":7}"#,
            r#"{"type":"woke","cell":1,"threads":0,"processes":0}"#,
            r#"{"type":"checkpointed"}"#,
            r#"{"type":"manifest","names":[]}"#,
            r#"{"type":"completions","start":0,"candidates":["a"]}"#,
            r#"{"type":"inspected","text":null}"#,
            r#"{"status":"incomplete","indent":" ","type":"completeness"}"#,
            r#"{"names":[{"name":"a","type":"int"}],"type":"saved","library":"pickle","threads":0,"processes":0}"#,
            r#"{"type":"loaded","names":[{"name":"a","why":"b"}]}"#,
        ] {
            let kind = parse(header).unwrap_or_else(|error| panic!("{header}: {error}"));
            let name = format!("{kind:?}").to_lowercase();
            let name = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
            assert!(header.contains(&format!("\"type\":\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn errors_quote_little_and_no_commands() {
        let error = parse(&format!(
            r#"{{"type":"\n\u001b[2J\u202e{}"}}"#,
            "x".repeat(5000)
        ));
        let error = error.unwrap_err();
        assert!(
            error.starts_with(r"not a frame: unknown variant `\n\u{1b}[2J"),
            "{error}"
        );
        assert!(
            error.len() < 300 && !error.contains(char::is_control),
            "{error}"
        );
    }
}
