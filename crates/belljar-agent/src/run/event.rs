//! Events of a run, as its journal has them.

use std::collections::BTreeMap;

use belljar_journal::BlobRef;
use belljar_protocol::{Artifact, Language, NameInfo, Walls};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::approval::{Approval, Approvals, Decision, Policy};
use super::branches::{Branch, Branches};
use super::budget::{Budget, ExitReason, Raise};
use super::evidence::Evidence;
use crate::tool::GrantedTool;
use crate::{Dialect, Reply};

/// The version of the events' shape that this code writes.
pub const EVENT_VERSION: u32 = 1;

/// One fact about a run. The journal has them in order; folding them yields the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run began.
    Started(Box<Start>),
    /// A request to the model. Its body is a blob, so that a replay can compare it.
    Asked {
        /// The step, counted from 1.
        step: u32,
        /// The body of the request.
        body: BlobRef,
    },
    /// The model replied.
    Replied {
        /// The step.
        step: u32,
        /// The reply.
        reply: Box<Reply>,
        /// How long it took.
        took_ms: u64,
        /// Its cost, in the currency of the profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// The request to the model failed, after all retries.
    ModelFailed {
        /// The step.
        step: u32,
        /// Why, in words.
        error: String,
    },
    /// A tool call is about to be performed.
    CallStarted {
        /// The step.
        step: u32,
        /// Its index among the calls of the step.
        call: u32,
    },
    /// A call has its result.
    CallEnded {
        /// The step.
        step: u32,
        /// Its index.
        call: u32,
        /// The result.
        result: Box<CallResult>,
    },
    /// The host died while a call was performed: whether it took effect is unknown.
    CallLost {
        /// The step.
        step: u32,
        /// Its index.
        call: u32,
        /// Whether its code was run again, and made other calls than the first time.
        #[serde(default)]
        differs: bool,
    },
    /// An approval is requested.
    ApprovalAsked(Box<Approval>),
    /// A person has decided.
    ApprovalDecided {
        /// The approval.
        approval: String,
        /// The hash of the approved bytes.
        hash: String,
        /// The decision.
        decision: Decision,
    },
    /// Parts of the budget were raised.
    BudgetRaised {
        /// Which, and to what.
        raise: Raise,
    },
    /// The approval policy was changed.
    PolicySet {
        /// The new policy.
        policy: Policy,
    },
    /// A call by code of a cell is about to be performed.
    ToolCalled {
        /// The step.
        step: u32,
        /// The index of the cell's call in the step.
        call: u32,
        /// Its number among the calls of the cell, from 1.
        number: u32,
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Map<String, Value>,
    },
    /// It has its answer.
    ToolAnswered {
        /// The step.
        step: u32,
        /// The index of the cell's call in the step.
        call: u32,
        /// Its number.
        number: u32,
        /// The answer.
        answer: ToolAnswer,
    },
    /// Alternatives were tried for a call of `branch` by code; then it is answered.
    Branched {
        /// The step.
        step: u32,
        /// The index of the cell's call in the step.
        call: u32,
        /// The number of the call.
        number: u32,
        /// The result of each, up to the accepted one.
        branches: Vec<Branch>,
    },
    /// A session was started for the run's cells: the first one, or another after the last was
    /// lost.
    SessionStarted {
        /// What it has of an earlier session, in words for the model; none for a first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// How many cells it has run: those of the earlier session, if that could be loaded.
        #[serde(default)]
        cells: u32,
        /// Its manifest.
        manifest: Vec<NameInfo>,
        /// Where it is saved, in a cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<BlobRef>,
    },
    /// Loop detection rolled the run back to before a step.
    RolledBack {
        /// The step.
        step: u32,
        /// Whether the variables were restored to that state.
        restored: bool,
        /// The manifest after it, if it was read.
        manifest: Vec<NameInfo>,
        /// Where the session is saved as it was after it, in a cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<BlobRef>,
    },
    /// The caller requests the end.
    Stopped,
    /// The run has ended.
    Ended(Box<Ending>),
}

impl RunEvent {
    /// Its kind in the journal.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Asked { .. } => "asked",
            Self::Replied { .. } => "replied",
            Self::ModelFailed { .. } => "model_failed",
            Self::CallStarted { .. } => "call_started",
            Self::CallEnded { .. } => "call_ended",
            Self::CallLost { .. } => "call_lost",
            Self::ApprovalAsked(_) => "approval_asked",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::BudgetRaised { .. } => "budget_raised",
            Self::PolicySet { .. } => "policy_set",
            Self::ToolCalled { .. } => "tool_called",
            Self::ToolAnswered { .. } => "tool_answered",
            Self::Branched { .. } => "branched",
            Self::SessionStarted { .. } => "session_started",
            Self::RolledBack { .. } => "rolled_back",
            Self::Stopped => "stopped",
            Self::Ended(_) => "ended",
        }
    }
}

/// The start of a run, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The task.
    pub task: String,
    /// Files of the workspace.
    #[serde(default)]
    pub files: Vec<TaskFile>,
    /// The model, as `provider/name`.
    pub model: String,
    /// Its dialect.
    pub dialect: Dialect,
    /// The language of prompts and messages.
    #[serde(default)]
    pub language: Language,
    /// The version of the prompts in that language, set when the run starts. Other prompts may lead to
    /// other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<String>,
    /// The budget.
    pub budget: Budget,
    /// The context window: tokens of a conversation and its reply together.
    pub context_window: u32,
    /// The most tokens of a reply.
    pub max_tokens: u32,
    /// Sampling temperature; by default that of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Whether the model is asked to check its first answer against the task before it is accepted.
    #[serde(default)]
    pub review: bool,
    /// The tools for the model besides `python` and `answer`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Packages of the environment, for the prompt.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Python and the packages of the environment, each with its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The tools that code may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<GrantedTool>,
    /// The approval policy.
    #[serde(default)]
    pub approvals: Approvals,
    /// Whether code may try alternatives, and which of them is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branches: Option<Branches>,
    /// The run that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<Parent>>,
    /// The environment of its session, by its name; by default the agent's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The isolation of its session; by default that of the environment's first engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Walls>,
    /// The program that a person gave the task in, and decides in, if it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RunClient>,
}

/// The program that a person gave a task in: an editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClient {
    /// Its name, in its own words.
    pub name: String,
    /// The directory that the person works in.
    pub directory: String,
}

/// The run that another one continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parent {
    /// Its id.
    pub run: String,
    /// The last of its steps that counts.
    pub step: u32,
    /// Its summary for the model.
    pub told: String,
    /// Its manifest at that step.
    #[serde(default)]
    pub manifest: Vec<NameInfo>,
    /// How many cells had run in its saved session; 0 if none was saved.
    #[serde(default)]
    pub kept_cells: u32,
    /// Where that session is saved, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<BlobRef>,
    /// The code of the cells that made its session, in a list: run again if no session was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<BlobRef>,
    /// Names of files that its saved session lacks: they are new, or have new contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_files: Vec<String>,
}

/// A file that a run starts with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFile {
    /// Its name in the workspace.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its beginning, if it is text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// Its contents.
    pub contents: BlobRef,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallResult {
    /// The text for the model, cut to what a step may have.
    pub text: String,
    /// Whether it failed.
    #[serde(default)]
    pub failed: bool,
    /// The result as data, for tools that keep some: the last result of a computation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The cell that ran, for a call of `python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellResult>,
    /// Where the session is saved as it was after the call, in a cluster. If a call may have changed it and there is
    /// none, it was not saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<BlobRef>,
    /// How long it took.
    #[serde(default)]
    pub took_ms: u64,
}

/// The answer to a call by code of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolAnswer {
    /// A value.
    Value {
        /// It.
        value: Value,
    },
    /// A large value, as JSON.
    Large {
        /// It.
        json: BlobRef,
    },
    /// A value that is not JSON.
    Kept {
        /// Its marker.
        marker: String,
        /// It.
        data: BlobRef,
    },
    /// The tool failed.
    Failed {
        /// In its words.
        message: String,
    },
    /// It was not performed: a person or the budget did not allow it.
    Refused {
        /// The message for the code.
        message: String,
    },
    /// The code no longer waited for it. Whether it took effect is unknown.
    Cancelled,
    /// The host died while it was performed. Whether it took effect is unknown.
    Lost,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResult {
    /// Its number in the session.
    pub number: u32,
    /// The whole outcome.
    pub outcome: BlobRef,
    /// Its output and displays, as far as an outcome keeps them: the evidence for an answer.
    pub output: String,
    /// The exception that ended it, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Images that it showed.
    #[serde(default)]
    pub images: Vec<BlobRef>,
    /// Files that it made or changed.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// The manifest after it.
    #[serde(default)]
    pub manifest: Vec<NameInfo>,
    /// Whether the variables were lost: the session has to be restarted.
    #[serde(default)]
    pub lost: bool,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Why.
    pub reason: ExitReason,
    /// The answer; its reason says whether it is unverified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The last output of a successful cell, if there is no answer. It is not an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output: Option<String>,
    /// The evidence for the values in it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Files that the run made.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// The contents of these files by path, in a cluster. Elsewhere they are in a directory of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contents: BTreeMap<String, BlobRef>,
    /// Files that it made, or that its answer names, and that could not be kept: the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<NotKept>,
    /// How many more could not be kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_kept_more: u64,
}

/// The most files that could not be kept which an ending names.
const NAMED_NOT_KEPT: usize = 100;

impl Ending {
    /// Notes a file that could not be kept.
    pub(crate) fn note_not_kept(&mut self, path: &str, why: &str) {
        if self.not_kept.len() < NAMED_NOT_KEPT {
            self.not_kept.push(NotKept {
                path: path.to_owned(),
                why: why.to_owned(),
            });
        } else {
            self.not_kept_more += 1;
        }
    }
}

/// A file that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotKept {
    /// Its path in the workspace.
    pub path: String,
    /// Why it is missing.
    pub why: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
