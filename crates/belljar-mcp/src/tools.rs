//! The tools that a client sees: names, texts for the model, schemas, and the methods that perform
//! them. To add one, write its method and add it to [`list`].

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, ready};
use rmcp::handler::server::tool::{schema_for_output, schema_for_type};
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{
    AskAgent, BackgroundCommand, CloseSession, CreateSession, FileDone, FilesReport, ForkReport,
    ForkSession, ListFiles, Named, ReadFile, RunCommand, RunPython, SessionReport, WriteFile,
};
use crate::commands::{BackgroundReport, CommandReport};
use crate::error::CallError;
use crate::report::CellReport;
use crate::runs::RunReport;
use crate::server::Server;
use crate::work::Work;

/// The result of a call, or its error, in words for the model.
pub(crate) type ToolResponse = Result<CallToolResult, CallError>;

type Arguments = Option<JsonObject>;
type Call = dyn for<'a> Fn(&'a Server, Arguments, &'a CancellationToken) -> BoxFuture<'a, ToolResponse>
    + Send
    + Sync;
type Begin =
    dyn for<'a> Fn(&'a Server, Arguments) -> BoxFuture<'a, Result<Work, CallError>> + Send + Sync;

/// A tool, and how it is performed.
pub(crate) struct ServerTool {
    pub(crate) definition: Tool,
    pub(crate) perform: Perform,
}

/// How a tool is performed.
pub(crate) enum Perform {
    /// At once.
    Call(Box<Call>),
    /// As work that takes its time.
    Work(Box<Begin>),
}

/// For all tools together.
pub(crate) const INSTRUCTIONS: &str = "\
Python sessions that keep their variables, imports and files between calls, isolated from this \
machine. Work in steps: put data into the workspace with write_file, run cells with run_python, look \
at what each one says, go on. Without session_id all tools use one default session. Before a risky \
step make a checkpoint, and restore it if the step went wrong; to try several ways, fork_session.";

/// All tools of sessions.
pub(crate) fn list() -> Vec<ServerTool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let adds = || ToolAnnotations::new().destructive(false).open_world(false);
    let changes = || ToolAnnotations::new().destructive(true).open_world(false);
    vec![
        work::<RunPython, CellReport>(
            "run_python",
            "Run Python",
            "Run Python code in a live session that keeps variables, imports and files between \
             calls, like cells of a notebook. The value of the last expression is shown, as are \
             printed text, tables and matplotlib plots (as images). Files are in the current \
             directory, /workspace. numpy, pandas and matplotlib are there unless the session's \
             environment is another one; there is no network unless the user allowed it. When code \
             fails the answer says why, and whether the variables are kept.",
            changes(),
            |server, args| server.run_python(args).boxed(),
        ),
        work::<RunCommand, CommandReport>(
            "run_command",
            "Run a shell command",
            "Run a shell command in a session, also while Python code runs there. It sees the same files as \
             run_python and starts in /workspace; variables of the shell and cd do not outlast it. Use it \
             for programs; for data, run_python keeps the variables. python is that of the session. There is \
             no terminal, and no network unless the user allowed it. The answer has the exit code, stdout and \
             stderr. For a server or another long-lived program set background.",
            changes(),
            |server, args| server.run_command(args).boxed(),
        ),
        tool::<BackgroundCommand, BackgroundReport>(
            "background_command",
            "Look after a command",
            "Read the output of a command that run_command started in the background, wait for its end, or \
             kill it. Without pid, list the commands of the session. Commands end with their session.",
            changes(),
            |server, args, stop| server.background_command(args, stop).boxed(),
        ),
        tool::<CreateSession, SessionReport>(
            "create_session",
            "New session",
            "Start another Python session with its own variables and files, and get its session_id. \
             Only needed for work that must be kept apart: without session_id, all tools use one \
             default session.",
            adds(),
            |server, args, _| server.create_session(args).boxed(),
        ),
        tool::<CloseSession, SessionReport>(
            "close_session",
            "End a session",
            "End a session that is not needed any more. Its variables and files are gone.",
            changes(),
            |server, args, _| ready(server.close_session(&args)).boxed(),
        ),
        tool::<ListFiles, FilesReport>(
            "list_files",
            "List files",
            "List the files of a session's workspace, with their sizes. To move or delete files, use \
             run_command.",
            reads(),
            |server, args, _| server.list_files(args).boxed(),
        ),
        tool::<ReadFile, FileDone>(
            "read_file",
            "Read a file",
            "Read a file of a session's workspace: text as text, images as images, anything else as \
             base64. Of a large file read a part, with run_python.",
            reads(),
            |server, args, _| server.read_file(args).boxed(),
        ),
        tool::<WriteFile, FileDone>(
            "write_file",
            "Write a file",
            "Write a file into a session's workspace, where Python code finds it by its path. A file \
             that is there already is replaced.",
            changes().idempotent(true),
            |server, args, _| server.write_file(args).boxed(),
        ),
        tool::<ForkSession, ForkReport>(
            "fork_session",
            "Copy a session",
            "Make new sessions that start as copies of one, with all its variables and files, in \
             milliseconds. Afterwards none of them sees what the others do. Use it to try several \
             ways from the same state.",
            adds(),
            |server, args, stop| server.fork_session(args, stop).boxed(),
        ),
        tool::<Named, SessionReport>(
            "checkpoint",
            "Make a checkpoint",
            "Keep the state of a session's variables as it is now under a name, to go back to it \
             with restore. Files are not part of it. A name that is used again means the new state.",
            adds().idempotent(true),
            |server, args, stop| server.checkpoint(args, stop).boxed(),
        ),
        tool::<Named, SessionReport>(
            "restore",
            "Restore a checkpoint",
            "Go back to a checkpoint of a session: its variables are as they were then. Files stay \
             as they are now.",
            changes().idempotent(true),
            |server, args, stop| server.restore(args, stop).boxed(),
        ),
    ]
}

/// The tool for where there is a model to ask.
pub(crate) fn ask_agent() -> ServerTool {
    work::<AskAgent, RunReport>(
        "ask_agent",
        "Ask an agent",
        "Give a task to an agent with a model and a Python session of its own. It works in steps until \
         it has an answer, and says where each value of the answer was seen. It sees only the task and \
         the session_files that it is given; the files that it makes are put into the session under \
         runs/. Use it for work that can be handed over in one sentence or page, also several at once \
         (at most 4). It can take minutes.",
        ToolAnnotations::new().destructive(false).open_world(true),
        |server, args| server.ask_agent(args).boxed(),
    )
}

fn tool<Input: DeserializeOwned + JsonSchema + 'static, Data: JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
    perform: for<'a> fn(&'a Server, Input, &'a CancellationToken) -> BoxFuture<'a, ToolResponse>,
) -> ServerTool {
    ServerTool {
        definition: define::<Input, Data>(name, title, description, annotations),
        perform: Perform::Call(Box::new(move |server, arguments, stop| {
            match parse(name, arguments) {
                Ok(input) => perform(server, input, stop),
                Err(why) => ready(Err(why)).boxed(),
            }
        })),
    }
}

fn work<Input: DeserializeOwned + JsonSchema + 'static, Data: JsonSchema + 'static>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
    begin: for<'a> fn(&'a Server, Input) -> BoxFuture<'a, Result<Work, CallError>>,
) -> ServerTool {
    ServerTool {
        definition: define::<Input, Data>(name, title, description, annotations),
        perform: Perform::Work(Box::new(move |server, arguments| {
            match parse(name, arguments) {
                Ok(input) => begin(server, input),
                Err(why) => ready(Err(why)).boxed(),
            }
        })),
    }
}

fn parse<T: DeserializeOwned>(tool: &'static str, arguments: Arguments) -> Result<T, CallError> {
    let parsed = serde_json::from_value(Value::Object(arguments.unwrap_or_default()));
    parsed.map_err(|error| CallError::Arguments { tool, error })
}

fn define<Input: JsonSchema + 'static, Data: JsonSchema + 'static>(
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
        let tools = list().into_iter().chain([ask_agent()]);
        for tool in tools.map(|tool| tool.definition) {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false);
            let output = tool.output_schema.unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            assert!(tool.description.unwrap().len() > 40);
        }
    }
}
