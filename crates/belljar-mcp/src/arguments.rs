//! The arguments of the tools, and what they report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// For `run_python`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPython {
    /// Python source. The value of its last expression is shown.
    pub(crate) code: String,
    /// The session to run it in. Leave it out to use the default session.
    pub(crate) session_id: Option<String>,
    /// Time limit of the code in seconds, if shorter than that of the session.
    #[schemars(range(min = 1))]
    pub(crate) timeout_seconds: Option<u32>,
}

/// For `run_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCommand {
    /// A line for the shell, such as `sort sales.csv | head`.
    pub(crate) command: String,
    /// The session to run it in. Leave it out to use the default session.
    pub(crate) session_id: Option<String>,
    /// The directory to start in. Leave it out for the workspace.
    pub(crate) directory: Option<String>,
    /// Text for its standard input. Without it the command has no input.
    pub(crate) input: Option<String>,
    /// Time limit of the command in seconds, if shorter than that of the session. In the background there is
    /// no limit unless this sets one.
    #[schemars(range(min = 1))]
    pub(crate) timeout_seconds: Option<u32>,
    /// Whether to return at once with the command's `pid`, and let it run.
    #[serde(default)]
    pub(crate) background: bool,
}

/// For `background_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackgroundCommand {
    /// The `pid` that `run_command` returned. Leave it out to list the commands of the session.
    pub(crate) pid: Option<i32>,
    /// The session that it runs in. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// Where to start reading: `next` of the result before. Leave it out for the newest output.
    pub(crate) from: Option<u64>,
    /// Seconds to wait for the end of the command before reading.
    #[schemars(range(max = 30))]
    #[serde(default)]
    pub(crate) wait_seconds: u32,
    /// Whether to kill it, with the processes that it has started.
    #[serde(default)]
    pub(crate) kill: bool,
}

/// For `create_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {
    /// The environment to start from: Python and its packages. Leave it out for the default one.
    pub(crate) environment: Option<String>,
    /// The isolation of the session, such as `full` or `gvisor`. Leave it out for the default one.
    pub(crate) isolation: Option<String>,
}

/// For `close_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseSession {
    /// The session to end.
    pub(crate) session_id: String,
}

/// For `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFiles {
    /// The session whose files are meant. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// A directory of the workspace, or `/tmp`. Leave it out for all of the workspace.
    #[serde(default)]
    pub(crate) path: String,
}

/// For `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    /// The session whose file is meant. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// Path of the file in the workspace, such as `results/sales.csv`.
    pub(crate) path: String,
}

/// For `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    /// The session whose file is meant. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// Path of the file in the workspace. Directories are made as needed.
    pub(crate) path: String,
    /// What the file is to hold: the text, or base64 of its bytes.
    pub(crate) content: String,
    /// How `content` is to be understood.
    #[serde(default)]
    pub(crate) encoding: Encoding,
}

/// How the content of a file is written down.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// As it is.
    #[default]
    Text,
    /// As base64, for what is not text.
    Base64,
}

/// For `fork_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkSession {
    /// The session to copy. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// How many copies.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 8))]
    pub(crate) count: u32,
}

fn one() -> u32 {
    1
}

/// For `checkpoint` and `restore`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    /// The session that is meant. Leave it out for the default session.
    pub(crate) session_id: Option<String>,
    /// Name of the checkpoint, such as `clean data`.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) name: String,
}

/// For `ask_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskAgent {
    /// What is to be done, with all that the agent has to know: it sees nothing of this conversation.
    pub(crate) task: String,
    /// Files of the session that the agent gets copies of, by their paths.
    #[serde(default)]
    pub(crate) session_files: Vec<String>,
    /// The session whose files these are, and that gets the files that the agent makes. Leave it out
    /// for the default session.
    pub(crate) session_id: Option<String>,
    /// The environment that the agent works in: Python and its packages. Leave it out for the default one.
    pub(crate) environment: Option<String>,
    /// The isolation of the agent's session, such as `full` or `gvisor`. Leave it out for the default one.
    pub(crate) isolation: Option<String>,
    /// The most turns of the agent's model; never more than the user's settings allow.
    #[schemars(range(min = 1))]
    pub(crate) max_steps: Option<u32>,
}

/// A session that was made, closed, or gone back in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionReport {
    /// The id to use as `session_id`.
    pub(crate) session_id: String,
}

/// Sessions that were made from another one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForkReport {
    /// The ids of the copies, each to use as `session_id`.
    pub(crate) session_ids: Vec<String>,
}

/// What is in a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FilesReport {
    pub(crate) session_id: String,
    pub(crate) files: Vec<FileReport>,
    /// Whether there are more.
    pub(crate) truncated: bool,
}

/// A file or a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileReport {
    pub(crate) path: String,
    /// `file`, `directory` or `other`.
    pub(crate) kind: &'static str,
    /// Bytes, for a file.
    pub(crate) size: u64,
}

/// A file that was read or written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileDone {
    pub(crate) session_id: String,
    pub(crate) path: String,
    /// Bytes of the file.
    pub(crate) size: u64,
}
