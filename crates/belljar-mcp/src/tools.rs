//! The tools that a client sees: names, words for the model, schemas.

use std::sync::Arc;

use rmcp::handler::server::tool::{schema_for_output, schema_for_type};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::CellReport;
use crate::runs::RunReport;

/// The tools whose calls take their time.
pub(crate) const RUN_PYTHON: &str = "run_python";
pub(crate) const ASK_AGENT: &str = "ask_agent";

/// For `run_python`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPython {
    /// Python source. The value of its last expression is shown.
    pub(crate) code: String,
    /// The session to run it in. Leave it out to use the default session.
    pub(crate) session_id: Option<String>,
}

/// For `create_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {}

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
    /// A directory of the workspace. Leave it out for all of the workspace.
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

/// For all tools together.
pub(crate) const INSTRUCTIONS: &str = "\
Python sessions that keep their variables, imports and files between calls, isolated from this \
machine. Work in steps: put data into the workspace with write_file, run cells with run_python, look \
at what each one says, go on. Without session_id all tools use one default session. Before a risky \
step make a checkpoint, and restore it if the step went wrong; to try several ways, fork_session.";

/// All tools of sessions.
pub(crate) fn list() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let adds = || ToolAnnotations::new().destructive(false).open_world(false);
    let changes = || ToolAnnotations::new().destructive(true).open_world(false);
    vec![
        tool::<RunPython, CellReport>(
            RUN_PYTHON,
            "Run Python",
            "Run Python code in a live session that keeps variables, imports and files between \
             calls, like cells of a notebook. The value of the last expression is shown, as are \
             printed text, tables and matplotlib plots (as images). Files are in the current \
             directory, /workspace. numpy, pandas and matplotlib are there unless the session's \
             environment is another one; there is no network unless the user allowed it. When code \
             fails the answer says why, and whether the variables are kept.",
            changes(),
        ),
        tool::<CreateSession, SessionReport>(
            "create_session",
            "New session",
            "Start another Python session with its own variables and files, and get its session_id. \
             Only needed for work that must be kept apart: without session_id, all tools use one \
             default session.",
            adds(),
        ),
        tool::<CloseSession, SessionReport>(
            "close_session",
            "End a session",
            "End a session that is not needed any more. Its variables and files are gone.",
            changes(),
        ),
        tool::<ListFiles, FilesReport>(
            "list_files",
            "List files",
            "List the files of a session's workspace, with their sizes.",
            reads(),
        ),
        tool::<ReadFile, FileDone>(
            "read_file",
            "Read a file",
            "Read a file of a session's workspace: text as text, images as images, anything else as \
             base64. Of a large file read a part, with run_python.",
            reads(),
        ),
        tool::<WriteFile, FileDone>(
            "write_file",
            "Write a file",
            "Write a file into a session's workspace, where Python code finds it by its path. A file \
             that is there already is replaced.",
            changes().idempotent(true),
        ),
        tool::<ForkSession, ForkReport>(
            "fork_session",
            "Copy a session",
            "Make new sessions that start as copies of one, with all its variables and files, in \
             milliseconds. Afterwards none of them sees what the others do. Use it to try several \
             ways from the same state.",
            adds(),
        ),
        tool::<Named, SessionReport>(
            "checkpoint",
            "Make a checkpoint",
            "Keep the state of a session's variables as it is now under a name, to go back to it \
             with restore. Files are not part of it. A name that is used again means the new state.",
            adds().idempotent(true),
        ),
        tool::<Named, SessionReport>(
            "restore",
            "Restore a checkpoint",
            "Go back to a checkpoint of a session: its variables are as they were then. Files stay \
             as they are now.",
            changes().idempotent(true),
        ),
    ]
}

/// The tool for where there is a model to ask.
pub(crate) fn ask_agent() -> Tool {
    tool::<AskAgent, RunReport>(
        ASK_AGENT,
        "Ask an agent",
        "Give a task to an agent with a model and a Python session of its own. It works in steps until \
         it has an answer, and says where each value of the answer was seen. It sees only the task and \
         the session_files that it is given; the files that it makes are put into the session under \
         runs/. Use it for work that can be handed over in one sentence or page, also several at once \
         (at most 4). It can take minutes.",
        ToolAnnotations::new().destructive(false).open_world(true),
    )
}

fn tool<Input: JsonSchema + 'static, Data: JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    // The names and words of our own types say nothing to a model.
    let mut input = JsonObject::clone(&schema_for_type::<Input>());
    input.remove("title");
    input.remove("description");
    Tool::new(name, description, Arc::new(input))
        .with_title(title)
        .with_raw_output_schema(schema_for_output::<Data>())
        .with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::{ask_agent, list};

    #[test]
    fn every_tool_has_words_and_schemas_of_objects() {
        for tool in list().into_iter().chain([ask_agent()]) {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false);
            let output = tool.output_schema.unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            assert!(tool.description.unwrap().len() > 40);
        }
    }
}
