//! `compute_with_python`: one Python expression, evaluated exactly (EXP-1 to EXP-5).
//!
//! Monty, a Python interpreter in Rust without files, network or foreign code, evaluates it, in a
//! child process for each expression: an allocation that fails or a stack that overflows aborts the
//! process it happens in, and Monty's own count of memory needs an allocator of its own for the
//! whole program. The child goes behind walls before it reads, and is killed if it is late. Why so, and
//! what was tried: `docs/adr/0015-expressions-in-a-child.md`.

pub(super) mod tool;

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use belljar_protocol::Language;
use belljar_walls::{ComputationLimits, compute_confined};
use monty::MontyRun;
use monty_types::{
    CompileOptions, ExcType, MontyException, MontyObject, PrintWriter, ResourceLimits,
    ResourceTracker,
};
use ruff_python_ast::{Mod, Stmt};
use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::dialect::parse_here;

/// The tool's name.
pub const COMPUTE: &str = "compute_with_python";

/// Longest expression, in bytes.
const LONGEST_CODE: usize = 32 * 1024;
/// Longest result, in bytes; also the most that is kept as `last_result`.
const LONGEST_RESULT: usize = 256 * 1024;
/// What an expression may take by Monty's own clock; the child's and the host's are longer.
const TIME: Duration = Duration::from_secs(2);
const CPU_SECONDS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(6);
/// Address space of the child: the program itself, stacks, and what an expression may use.
const MEMORY: u64 = 512 << 20;
/// Also for the tree of the longest expression, which is parsed and dropped by recursion.
const STACK: usize = 64 << 20;
/// Depth of calls; each needs some of the stack.
const RECURSION: usize = 200;

/// Past this many expressions a run does without the tool if more than half of them were errors.
const TRUSTED_CALLS: u32 = 4;

/// What came of an expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Computed {
    /// It has a value.
    Value {
        /// As `str()` shows it.
        text: String,
        /// The value, for `last_result` of the next expression; none if it can't be kept.
        value: Option<Value>,
    },
    /// It has none.
    Error {
        /// Python's name of the error.
        name: String,
        /// What it says.
        message: String,
    },
}

impl Computed {
    fn error(name: &str, message: impl Into<String>) -> Self {
        Self::Error {
            name: name.into(),
            message: message.into(),
        }
    }

    /// What the model gets back.
    pub fn text(&self) -> String {
        match self {
            Self::Value { text, .. } => text.clone(),
            Self::Error { name, message } => format!("PythonError: {name}: {message}"),
        }
    }
}

/// What a run remembers of its expressions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Computations {
    /// The last value (EXP-2).
    pub last_result: Option<Value>,
    /// How many were evaluated.
    pub calls: u32,
    /// How many of them were errors; past a rate the run continues without the tool (EXP-5).
    pub errors: u32,
}

impl Computations {
    /// Takes note of a result. An error leaves the last one as it was.
    pub fn remember(&mut self, value: Option<Value>, failed: bool) {
        self.calls += 1;
        if failed {
            self.errors += 1;
        } else {
            self.last_result = value;
        }
    }

    /// Whether the tool does more harm than good here, so that the run continues without it
    /// (EXP-5).
    pub fn given_up(&self) -> bool {
        self.calls >= TRUSTED_CALLS && self.errors * 2 > self.calls
    }

    /// The message for the model when that happens.
    pub(crate) fn given_up_words(&self, language: Language) -> String {
        language
            .prompts()
            .compute_taken_away(COMPUTE, self.errors, self.calls)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    code: String,
    last_result: Option<Value>,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Computed(Computed),
    /// Nothing was evaluated: the child could not be confined, or was not understood.
    Refused(String),
}

/// Starts a child for each expression.
#[derive(Clone, Debug)]
pub struct Evaluator {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Evaluator {
    /// `program` with these arguments must do nothing but call [`serve_computation`].
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments }
    }

    /// Evaluates one expression. An error of the expression is a value here; `Err` is a fault of
    /// ours or of the host.
    pub async fn evaluate(&self, code: &str, last: Option<&Value>) -> std::io::Result<Computed> {
        if code.len() > LONGEST_CODE {
            let message = format!("the expression is longer than {LONGEST_CODE} bytes");
            return Ok(Computed::error("MemoryError", message));
        }
        let request = serde_json::to_vec(&Request {
            code: code.into(),
            last_result: last.cloned(),
        })?;
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        let talk = async {
            // A child that died at once does not read; how it ended says why.
            let _ = stdin.write_all(&request).await;
            drop(stdin);
            let mut reply = Vec::new();
            // The child bounds what it writes; this bounds a child that does not.
            let most = 4 * LONGEST_RESULT as u64;
            stdout.take(most).read_to_end(&mut reply).await?;
            Ok::<_, std::io::Error>((reply, child.wait().await?))
        };
        let Ok(ended) = tokio::time::timeout(PATIENCE, talk).await else {
            return Ok(too_long());
        };
        let (reply, status) = ended?;
        if status.success() {
            return match serde_json::from_slice(&reply)? {
                Reply::Computed(computed) => Ok(computed),
                Reply::Refused(why) => Err(std::io::Error::other(why)),
            };
        }
        let late = [Signal::XCPU, Signal::KILL].map(Signal::as_raw);
        // Of the process that computes, as its parent passes it on.
        let passed_on = status.code().and_then(|code| code.checked_sub(128));
        match status.signal().or(passed_on.filter(|signal| *signal > 0)) {
            Some(signal) if late.contains(&signal) => Ok(too_long()),
            // An allocation that was refused, or a stack that was not enough.
            Some(_) => Ok(Computed::error(
                "MemoryError",
                format!(
                    "the expression needs more memory than the {} MB it may use",
                    MEMORY >> 20
                ),
            )),
            None => Err(std::io::Error::other(format!(
                "the child that evaluates expressions ended with {status}"
            ))),
        }
    }
}

fn too_long() -> Computed {
    let seconds = TIME.as_secs();
    Computed::error(
        "TimeoutError",
        format!("the expression took longer than {seconds} s"),
    )
}

/// The main function of the child: goes behind walls, reads a request from stdin, writes the
/// outcome to stdout.
pub fn serve_computation() -> std::io::Result<()> {
    let limits = ComputationLimits {
        memory_bytes: MEMORY,
        cpu_seconds: CPU_SECONDS,
        stack_bytes: STACK,
    };
    let answer = || -> std::io::Result<Reply> {
        let mut request = Vec::new();
        std::io::stdin().lock().read_to_end(&mut request)?;
        let request: Request = serde_json::from_slice(&request)?;
        Ok(Reply::Computed(evaluate(&request)))
    };
    let reply = match compute_confined(limits, answer) {
        Ok(answered) => answered.unwrap_or_else(|error| Reply::Refused(error.to_string())),
        Err(error) => Reply::Refused(error.to_string()),
    };
    std::io::stdout()
        .lock()
        .write_all(&serde_json::to_vec(&reply)?)
}

fn evaluate(request: &Request) -> Computed {
    if let Some(fault) = not_an_expression(&request.code) {
        return fault;
    }
    let last = request.last_result.clone();
    let last = last.and_then(|value| serde_json::from_value(value).ok());
    // In brackets, so that line breaks inside of it are no ends of statements.
    let code = format!("import math\n(\n{}\n)", request.code);
    let names = vec!["last_result".to_owned()];
    let limits = ResourceLimits {
        max_duration: Some(TIME),
        max_memory: usize::try_from(MEMORY / 4).ok(),
        max_recursion_depth: RECURSION,
        ..ResourceLimits::default()
    };
    let run = MontyRun::new(code, "expression", names, CompileOptions::default());
    let value = run.and_then(|run| {
        let inputs = vec![last.unwrap_or(MontyObject::None)];
        run.run(inputs, ResourceTracker::new(limits), PrintWriter::Disabled)
    });
    match value {
        Ok(value) => shown(&value),
        Err(exception) => told(&exception),
    }
}

/// Why the code is not one expression.
fn not_an_expression(code: &str) -> Option<Computed> {
    let parsed = parse_here(code.trim());
    let message = match (parsed.errors().first(), parsed.syntax()) {
        (Some(error), _) => error.error.to_string(),
        (None, Mod::Module(module)) => match &module.body[..] {
            [Stmt::Expr(_)] => return None,
            [] => "there is no expression".into(),
            [Stmt::Import(_) | Stmt::ImportFrom(_), ..] => {
                "imports are not allowed here, only one expression; `math` is there already".into()
            }
            [_] => "statements are not allowed here, only one expression".into(),
            _ => "only one expression is allowed here".into(),
        },
        (None, Mod::Expression(_)) => return None,
    };
    Some(Computed::error("SyntaxError", message))
}

fn shown(value: &MontyObject) -> Computed {
    let text = value.to_string();
    if text.len() > LONGEST_RESULT {
        let message = format!("the result is longer than {LONGEST_RESULT} bytes");
        return Computed::error("MemoryError", message);
    }
    // What can't be read back, such as a function or NaN, is not kept.
    let kept = serde_json::to_value(value).ok();
    let again = kept.clone().map(serde_json::from_value::<MontyObject>);
    let same = matches!(again, Some(Ok(again)) if again.to_string() == text && !is_shadow(&again));
    Computed::Value {
        text,
        value: kept.filter(|kept| same && kept.to_string().len() <= LONGEST_RESULT),
    }
}

fn is_shadow(value: &MontyObject) -> bool {
    matches!(
        value,
        MontyObject::Repr(_) | MontyObject::Cycle(..) | MontyObject::Function { .. }
    )
}

/// Builtins that Monty does not have, for a reason that the model should know.
const REFUSED: [&str; 8] = [
    "__import__",
    "exec",
    "eval",
    "compile",
    "input",
    "globals",
    "breakpoint",
    "__builtins__",
];

fn told(exception: &MontyException) -> Computed {
    let name = exception.exc_type().to_string();
    let message = exception.message().unwrap_or_default();
    let refused = match exception.exc_type() {
        ExcType::NameError => REFUSED
            .into_iter()
            .find(|word| message.contains(&format!("'{word}'"))),
        // Monty would ask its host to open the file.
        ExcType::NotImplementedError => message
            .strip_prefix("OS function '")
            .and_then(|rest| rest.split('\'').next()),
        _ => None,
    };
    if let Some(word) = refused {
        let why = "an expression can't import modules, open files or run other code";
        return Computed::error("PermissionError", format!("`{word}` is refused: {why}"));
    }
    Computed::error(&name, message)
}
