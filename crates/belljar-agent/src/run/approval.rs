//! Approvals: when a person is asked before code runs or a tool is called, and the decision.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use belljar_protocol::{Shown, ShownRow, shown_line};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::risk::{Capability, Earlier, Finding, Risk, command_risk, risk};
use crate::tool::{GrantedTool, ToolEffects};

/// The tool that runs commands.
pub const RUN_COMMAND: &str = "run_command";

/// When approval is needed, from the weakest to the strictest.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Never.
    #[default]
    Never,
    /// Where it can do harm: by a capability that [is risky](Capability::is_risky), by a tool that
    /// does something.
    Risky,
    /// Each time.
    Always,
}

/// The approval policy of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// For everything that the others don't name.
    pub policy: Policy,
    /// Tools, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Policy>,
    /// For code, by capability.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<Capability, Policy>,
}

impl Approvals {
    /// The approval that this code needs outside of a run, if any.
    pub fn ask_for_code(&self, code: &str) -> Option<Approval> {
        self.ask_for_code_of(0, 0, code, &Earlier::default())
    }

    /// The same for the code of a call of a run, after earlier cells. Code is not analysed if
    /// nothing ever needs approval.
    pub(crate) fn ask_for_code_of(
        &self,
        step: u32,
        call: u32,
        code: &str,
        earlier: &Earlier,
    ) -> Option<Approval> {
        if self.never_asks_for_code() {
            return None;
        }
        let risk = earlier.risk(code);
        self.ask_for_cell(&risk)
            .then(|| Approval::of_cell(step, call, code, risk))
    }

    /// Whether no code ever needs approval.
    pub(crate) fn never_asks_for_code(&self) -> bool {
        self.policy == Policy::Never && self.capabilities.is_empty()
    }

    /// Whether a cell with this risk needs approval.
    fn ask_for_cell(&self, risk: &Risk) -> bool {
        self.policy == Policy::Always
            || risk.findings.iter().any(|finding| {
                let capability = finding.capability;
                let policy = self.capabilities.get(&capability).unwrap_or(&self.policy);
                match policy {
                    Policy::Never => false,
                    Policy::Risky => capability.is_risky(),
                    Policy::Always => true,
                }
            })
    }

    /// Whether a call of this tool needs approval.
    pub(crate) fn ask_for_call(&self, tool: &GrantedTool) -> bool {
        match self.tools.get(&tool.stub.name).unwrap_or(&self.policy) {
            Policy::Never => false,
            Policy::Risky => tool.effects != ToolEffects::None,
            Policy::Always => true,
        }
    }

    /// The approval that a command needs, if any: the same as Python code that starts it.
    pub fn ask_for_command(&self, command: ShellCommand) -> Option<Approval> {
        self.ask_for_command_of(0, 0, command)
    }

    /// The same for a call of a run.
    pub(crate) fn ask_for_command_of(
        &self,
        step: u32,
        call: u32,
        command: ShellCommand,
    ) -> Option<Approval> {
        if self.never_asks_for_code() {
            return None;
        }
        let risk = command_risk(&command.command);
        self.ask_for_cell(&risk)
            .then(|| Approval::of_command(step, call, command, risk))
    }

    /// Never ask again for what this approval needed.
    pub fn allow(&mut self, subject: &Subject) {
        match subject {
            Subject::Call { tool, .. } => {
                self.tools.insert(tool.clone(), Policy::Never);
            }
            Subject::Cell { risk, .. } | Subject::Command { risk, .. } => {
                if self.policy == Policy::Always {
                    self.policy = Policy::Risky;
                }
                for finding in &risk.findings {
                    self.capabilities.insert(finding.capability, Policy::Never);
                }
            }
        }
    }
}

/// A request for approval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Approval {
    /// Its id within its run.
    pub id: String,
    /// Its step.
    pub step: u32,
    /// The index of the call in the step.
    pub call: u32,
    /// What is to be approved.
    pub subject: Subject,
    /// SHA-256 of its exact bytes: a decision is for these, and for nothing else.
    pub hash: String,
    /// The view for a person. Whoever asks a person shows this, and nothing else of it.
    pub shown: ShownSubject,
}

/// An approval as it is read: the view is always made from its subject.
#[derive(Deserialize)]
struct StoredApproval {
    id: String,
    step: u32,
    call: u32,
    subject: Subject,
    hash: String,
}

impl<'de> Deserialize<'de> for Approval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StoredApproval::deserialize(deserializer).map(Self::from)
    }
}

impl From<StoredApproval> for Approval {
    fn from(stored: StoredApproval) -> Self {
        let StoredApproval {
            id,
            step,
            call,
            subject,
            hash,
        } = stored;
        Self {
            id,
            step,
            call,
            shown: ShownSubject::new(&subject),
            subject,
            hash,
        }
    }
}

/// The view of what is to be approved: complete, with deceptive characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownSubject {
    /// The tool, for a call; `run_command` for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its capabilities.
    pub findings: Vec<Finding>,
    /// Warnings, each in a few words. Ordinary code and arguments have none.
    pub remarks: Vec<String>,
    /// The code, or the arguments as JSON, row by row.
    pub rows: Vec<ShownRow>,
}

impl ShownSubject {
    fn new(subject: &Subject) -> Self {
        match subject {
            Subject::Cell { code, risk } => Self::from_cell(code, risk),
            Subject::Command { command, risk } => {
                let head = command.head();
                let mut shown = Self::from_cell(&format!("{head}{}", command.command), risk);
                for finding in &mut shown.findings {
                    finding.line += u32::try_from(head.lines().count()).unwrap_or(0);
                }
                shown.tool = Some(RUN_COMMAND.to_owned());
                shown
            }
            Subject::Call {
                tool, arguments, ..
            } => {
                // Plain values can always be written as JSON.
                let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
                let Shown { mut remarks, rows } = Shown::new(&arguments);
                remarks.extend(Shown::new(tool).remarks);
                Self {
                    tool: Some(shown_line(tool)),
                    findings: Vec::new(),
                    remarks,
                    rows,
                }
            }
        }
    }

    /// The view of code that a person wants to run instead.
    pub fn of_code(code: &str) -> Self {
        Self::from_cell(code, &risk(code))
    }

    fn from_cell(code: &str, risk: &Risk) -> Self {
        let Shown { remarks, rows } = Shown::new(code);
        let shown = |finding: &Finding| Finding {
            what: shown_line(&finding.what),
            ..finding.clone()
        };
        Self {
            tool: None,
            findings: risk.findings.iter().map(shown).collect(),
            remarks,
            rows,
        }
    }
}

/// The subject of an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// That a cell runs.
    Cell {
        /// All of it.
        code: String,
        /// Its capabilities.
        risk: Risk,
    },
    /// That a command runs.
    Command {
        /// All of it.
        #[serde(flatten)]
        command: ShellCommand,
        /// Its capabilities.
        risk: Risk,
    },
    /// That a tool is called: by code which runs, or by the model itself.
    Call {
        /// Its number among the calls of the cell, from 1; 0 for a call of the model.
        number: u32,
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Map<String, Value>,
    },
}

/// A command, as a person decides on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShellCommand {
    /// The line for the shell.
    pub command: String,
    /// Where it starts; `None`: in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Its standard input; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

impl ShellCommand {
    /// Lines of ours before the line for the shell, if it needs some: what it would otherwise not show, and a mark where it
    /// could pass for them. Two commands never look the same.
    fn head(&self) -> String {
        let mut head = String::new();
        if let Some(directory) = &self.directory {
            let _ = writeln!(head, "directory: {}", Value::from(directory.as_str()));
        }
        if let Some(input) = &self.input {
            let _ = writeln!(head, "input: {}", Value::from(input.as_str()));
        }
        let ours = ["directory:", "input:", "command:"];
        if !head.is_empty() || ours.iter().any(|mark| self.command.starts_with(mark)) {
            head.push_str("command:\n");
        }
        head
    }
}

impl Approval {
    pub(crate) fn of_command(step: u32, call: u32, command: ShellCommand, risk: Risk) -> Self {
        StoredApproval {
            id: format!("{step}.{call}"),
            step,
            call,
            hash: hash_of_command(&command),
            subject: Subject::Command { command, risk },
        }
        .into()
    }

    pub(crate) fn of_cell(step: u32, call: u32, code: &str, risk: Risk) -> Self {
        let code = code.to_owned();
        StoredApproval {
            id: format!("{step}.{call}"),
            step,
            call,
            hash: hash_of_code(&code),
            subject: Subject::Cell { code, risk },
        }
        .into()
    }

    pub(crate) fn of_call(
        (step, call, number): (u32, u32, u32),
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Self {
        StoredApproval {
            id: format!("{step}.{call}.{number}"),
            step,
            call,
            hash: hash_of_call(tool, &arguments),
            subject: Subject::Call {
                number,
                tool: tool.to_owned(),
                arguments,
            },
        }
        .into()
    }

    /// The number of the call in its cell, if it is for one of code that runs.
    pub(crate) fn call_number(&self) -> Option<u32> {
        match self.subject {
            Subject::Call { number, .. } => Some(number).filter(|number| *number > 0),
            Subject::Cell { .. } | Subject::Command { .. } => None,
        }
    }

    /// Whether it is for exactly this command.
    pub fn is_for_command(&self, command: &ShellCommand) -> bool {
        self.hash == hash_of_command(command)
    }

    /// Whether it is for exactly this code.
    pub fn is_for_code(&self, code: &str) -> bool {
        self.hash == hash_of_code(code)
    }

    /// Whether the hash is that of what it shows.
    pub(crate) fn holds(&self) -> bool {
        self.hash
            == match &self.subject {
                Subject::Cell { code, .. } => hash_of_code(code),
                Subject::Command { command, .. } => hash_of_command(command),
                Subject::Call {
                    tool, arguments, ..
                } => hash_of_call(tool, arguments),
            }
    }
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Decision {
    /// Do it.
    Accept {
        /// Don't ask again in this run for a cell with the same capabilities, or for this tool.
        #[serde(default)]
        rest_of_run: bool,
    },
    /// Run this code instead: it is the person's, and the model gets a note.
    Edit {
        /// The code.
        code: String,
    },
    /// Reject, with this text for the model, or, for a call, for its code.
    Feedback {
        /// In the person's words.
        text: String,
    },
    /// Reject.
    Reject,
}

/// Why a decision is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No approval with this id is pending.
    #[error(
        "this approval is not pending: it was decided already, is no longer needed, or belongs to another run"
    )]
    NotWaiting,
    /// It is for other bytes.
    #[error(
        "the approval is for other bytes than the pending ones\nhint: read the pending code or call again"
    )]
    Changed,
    /// Arguments of a call can't be edited.
    #[error(
        "a call cannot be edited, only code\nhint: accept the call, or reject it with a reason"
    )]
    NotCode,
    /// The run is no longer driven.
    #[error("the run is no longer running")]
    Over,
}

pub(crate) fn hash_of_code(code: &str) -> String {
    hash(&["cell", code])
}

pub(crate) fn hash_of_command(command: &ShellCommand) -> String {
    // Plain values can always be written as JSON.
    hash(&[
        "command",
        &serde_json::to_string(command).unwrap_or_default(),
    ])
}

pub(crate) fn hash_of_call(tool: &str, arguments: &Map<String, Value>) -> String {
    // Plain values can always be written as JSON.
    let arguments = serde_json::to_string(arguments).unwrap_or_default();
    hash(&["call", tool, &arguments])
}

/// Different lists of texts have different encodings: each text is preceded by its length.
fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::risk::Finding;
    use belljar_protocol::ToolStub;

    fn tool(effects: ToolEffects) -> GrantedTool {
        GrantedTool {
            stub: ToolStub {
                name: "mail".into(),
                description: String::new(),
                parameters: Value::Null,
                result: None,
            },
            effects,
            direct: false,
        }
    }

    fn with(capability: Capability) -> Risk {
        Risk {
            findings: vec![Finding {
                capability,
                what: "it".into(),
                line: 1,
            }],
            ..Risk::default()
        }
    }

    /// APR-1: always, never, risky only; a tool and a capability may have their own.
    #[test]
    fn who_is_asked_for_what() {
        let mut approvals = Approvals::default();
        assert!(!approvals.ask_for_call(&tool(ToolEffects::EachCall)));
        assert!(!approvals.ask_for_cell(&with(Capability::Processes)));
        approvals.policy = Policy::Risky;
        assert!(approvals.ask_for_call(&tool(ToolEffects::EachCall)));
        assert!(approvals.ask_for_call(&tool(ToolEffects::Once)));
        assert!(!approvals.ask_for_call(&tool(ToolEffects::None)));
        assert!(approvals.ask_for_cell(&with(Capability::Processes)));
        assert!(!approvals.ask_for_cell(&with(Capability::FilesRead)));
        assert!(!approvals.ask_for_cell(&Risk::default()));
        approvals
            .capabilities
            .insert(Capability::FilesRead, Policy::Always);
        approvals.tools.insert("mail".into(), Policy::Never);
        assert!(approvals.ask_for_cell(&with(Capability::FilesRead)));
        assert!(!approvals.ask_for_call(&tool(ToolEffects::EachCall)));
        approvals.policy = Policy::Always;
        assert!(approvals.ask_for_cell(&Risk::default()));
    }

    /// An approval for the rest of the run is one of capabilities, not of a text.
    #[test]
    fn what_was_allowed_is_not_asked_again() {
        let mut approvals = Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        };
        approvals.allow(&Subject::Cell {
            code: "os.system('ls')".into(),
            risk: with(Capability::Processes),
        });
        assert!(!approvals.ask_for_cell(&with(Capability::Processes)));
        assert!(approvals.ask_for_cell(&with(Capability::Network)));
        approvals.allow(&Subject::Call {
            number: 1,
            tool: "mail".into(),
            arguments: Map::new(),
        });
        assert!(!approvals.ask_for_call(&tool(ToolEffects::EachCall)));
    }

    /// Code outside of a run is asked for as a cell is, and by its exact bytes.
    #[test]
    fn code_outside_of_a_run_is_asked_for() {
        let approvals = Approvals {
            policy: Policy::Risky,
            ..Approvals::default()
        };
        assert_eq!(approvals.ask_for_code("print(1)"), None);
        let code = "import os\nos.system('ls')";
        let approval = approvals.ask_for_code(code);
        let is_for = |code| approval.as_ref().map(|asked| asked.is_for_code(code));
        assert_eq!(is_for(code), Some(true));
        assert_eq!(is_for("import os\nos.system('ls' )"), Some(false));
    }

    fn command(line: &str) -> ShellCommand {
        ShellCommand {
            command: line.into(),
            ..ShellCommand::default()
        }
    }

    /// A command needs the approval of code that starts processes, whatever it is.
    #[test]
    fn commands_are_asked_for_as_code_that_starts_processes() {
        let risky = Approvals {
            policy: Policy::Risky,
            ..Approvals::default()
        };
        for line in [
            "true",
            "",
            "ls \"$x\" '\\'",
            "# requires: x",
            "echo 1\n\"); x = (\"",
            "\u{0}",
        ] {
            assert_eq!(Approvals::default().ask_for_command(command(line)), None);
            let approval = risky.ask_for_command(command(line)).expect(line);
            assert!(approval.is_for_command(&command(line)) && approval.holds());
            let Subject::Command { risk, .. } = &approval.subject else {
                panic!("{approval:?}");
            };
            assert!(
                risk.capabilities().contains(&Capability::Processes),
                "{line}"
            );
        }
        // Once processes are allowed, so are commands, but no more of them than of cells.
        let mut allowed = risky.clone();
        let asked = risky.ask_for_command(command("ls")).unwrap();
        allowed.allow(&asked.subject);
        assert_eq!(allowed.ask_for_command(command("make")), None);
        assert_eq!(allowed.ask_for_code("import os\nos.system('make')"), None);
        assert!(
            allowed
                .ask_for_code("import os\nos.system('pip install x')")
                .is_some()
        );
        assert!(allowed.ask_for_command(command("pip install x")).is_some());
    }

    /// Attack L5: directory and input are part of what is shown and of what is approved.
    #[test]
    fn l5_a_command_is_shown_whole() {
        let always = Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        };
        let whole = ShellCommand {
            command: "sh".into(),
            directory: Some("a\nb".into()),
            input: Some("rm -r .\n".into()),
        };
        let shows = |command: &ShellCommand| {
            let approval = always.ask_for_command(command.clone()).unwrap();
            let line = usize::try_from(approval.shown.findings[0].line).unwrap();
            assert_eq!(line, approval.shown.rows.len());
            let rows = approval
                .shown
                .rows
                .iter()
                .map(belljar_protocol::ShownRow::text);
            rows.collect::<Vec<_>>().join("\n")
        };
        let text = "directory: \"a\\nb\"\ninput: \"rm -r .\\n\"\ncommand:\nsh";
        assert_eq!(shows(&whole), text);
        assert_eq!(shows(&command("sh")), "sh");
        // A line that looks like another command with its directory and input.
        let approval = always.ask_for_command(command(text)).unwrap();
        assert_eq!(approval.shown.rows[0].text(), "command:");
        for other in [
            ShellCommand {
                input: None,
                ..whole.clone()
            },
            ShellCommand {
                directory: None,
                ..whole.clone()
            },
            ShellCommand {
                command: "sh ".into(),
                ..whole.clone()
            },
        ] {
            assert!(
                !always
                    .ask_for_command(whole.clone())
                    .unwrap()
                    .is_for_command(&other)
            );
        }
    }

    #[test]
    fn a_hash_is_of_one_thing_alone() {
        let arguments = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let hashes = [
            hash_of_code(""),
            hash_of_code("a"),
            hash_of_code("a "),
            hash_of_command(&command("a")),
            hash_of_call("a", &Map::new()),
            hash_of_call("a{}", &Map::new()),
            hash_of_call("a", &arguments(r#"{"x": 1}"#)),
            hash_of_call("a", &arguments(r#"{"x": "1"}"#)),
        ];
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
