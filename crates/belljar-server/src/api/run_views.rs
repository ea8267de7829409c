//! What is shown of a run.

use belljar_agent::{Approval, Budget, Evidence, ExitReason, NotKept, Parent, Policy, Spent};
use belljar_sandbox::protocol::{Artifact, Language, Walls};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, ArrayBuilder};
use utoipa::openapi::{Ref, Type};

use super::isolation::isolation_schema;
use crate::problem::Problem;
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};
use crate::tenants::RunLabel;

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunView {
    #[serde(flatten)]
    brief: RunBrief,
    /// Chosen environment; without it, the default one of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    /// Isolation of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = isolation_schema)]
    isolation: Option<&'static str>,
    #[schema(schema_with = language_schema)]
    language: Language,
    /// Budget.
    #[schema(schema_with = budget_schema)]
    budget: Budget,
    /// Approval policy.
    #[schema(schema_with = policy_schema)]
    approvals: Policy,
    /// Use so far.
    #[schema(schema_with = spent_schema)]
    spent: Spent,
    /// Number of events.
    events: u64,
    /// Pending approvals, each with the hash of its exact bytes.
    #[schema(schema_with = approvals_schema)]
    waits_for: Vec<Approval>,
    /// Reason of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = reason_schema)]
    reason: Option<ExitReason>,
    /// Answer; in state `unverified` it is not proven, and `reason` has the doubts.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Last output of a run without an answer. It is not an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Evidence: the origin of each value of the answer, not its correctness.
    #[schema(schema_with = evidence_schema)]
    evidence: Vec<Evidence>,
    /// Files that the run made, for download.
    #[schema(schema_with = artifacts_schema)]
    artifacts: Vec<Artifact>,
    /// Files that the run made and that were not kept: the first 100, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = not_kept_schema)]
    not_kept: Vec<NotKept>,
    /// Number of further files that were not kept.
    #[serde(skip_serializing_if = "is_zero")]
    not_kept_more: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The run that another one continues.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ParentView {
    pub(super) id: String,
    /// Last step that the new run keeps.
    step: u32,
}

impl From<Box<Parent>> for ParentView {
    fn from(parent: Box<Parent>) -> Self {
        Self {
            id: parent.run,
            step: parent.step,
        }
    }
}

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunBrief {
    pub(super) id: String,
    /// Creation time, in seconds since 1970.
    pub(super) created_at: u64,
    pub(super) state: RunState,
    pub(super) task: String,
    #[serde(flatten)]
    pub(super) label: RunLabelView,
    pub(super) model: String,
    /// The run that this one continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<ParentView>,
}

/// What people call a run.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct RunLabelView {
    /// Title that somebody gave the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    /// Tags of the run, sorted.
    pub(super) tags: Vec<String>,
}

impl From<RunLabel> for RunLabelView {
    fn from(label: RunLabel) -> Self {
        Self {
            title: label.title,
            tags: label.tags,
        }
    }
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunState {
    /// Running.
    Running,
    /// Waiting for approval.
    Waits,
    /// Ended with an answer that no check doubts.
    Answered,
    /// Ended with an answer that is not proven; `reason` says why.
    Unverified,
    /// Ended without an answer; `reason` says why.
    Ended,
    /// Interrupted: the restarted service will resume it, or could not resume it.
    Interrupted,
}

/// A page of runs.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct RunPage {
    pub(super) runs: Vec<RunBrief>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

pub(super) fn language_schema() -> Ref {
    Ref::from_schema_name("Language")
}

pub(super) fn budget_schema() -> Ref {
    Ref::from_schema_name("Budget")
}

fn policy_schema() -> Ref {
    Ref::from_schema_name("Policy")
}

pub(super) fn spent_schema() -> Ref {
    Ref::from_schema_name("Spent")
}

pub(super) fn reason_schema() -> Ref {
    Ref::from_schema_name("ExitReason")
}

fn approvals_schema() -> Array {
    list_of("Approval")
}

pub(super) fn evidence_schema() -> Array {
    list_of("Evidence")
}

fn not_kept_schema() -> Array {
    list_of("NotKept")
}

fn artifacts_schema() -> Array {
    list_of("Artifact")
}

fn list_of(name: &str) -> Array {
    ArrayBuilder::new()
        .schema_type(Type::Array)
        .items(Ref::from_schema_name(name))
        .build()
}

impl RunState {
    pub(super) fn from_reason(reason: &ExitReason) -> Self {
        match reason {
            ExitReason::Answered => Self::Answered,
            ExitReason::Unverified { .. } => Self::Unverified,
            _ => Self::Ended,
        }
    }

    pub(super) fn from_recorded(recorded: &Recorded) -> Self {
        match recorded.run.ending() {
            Some(ending) => Self::from_reason(&ending.reason),
            None if !recorded.run.undecided().is_empty() => Self::Waits,
            None if recorded.was_driven => Self::Running,
            None => Self::Interrupted,
        }
    }
}

impl RunView {
    /// A run of this tenant.
    pub(super) async fn read(
        service: &Service,
        caller: &Caller,
        id: &str,
    ) -> Result<Self, Problem> {
        let recorded = service.runs.read(&caller.tenant, id).await?;
        let label = service.tenants.run_label(&caller.tenant, id).await?;
        Self::from_recorded(recorded, label).await
    }

    async fn from_recorded(recorded: Recorded, label: RunLabel) -> Result<Self, Problem> {
        let journal = recorded.directory.journal();
        let first = journal.read(&recorded.id, 0, 1).await;
        let first = first.map_err(|error| fault(error.into()))?;
        let created = first.first().map_or(0, |entry| entry.at.0 / 1_000_000);
        let state = RunState::from_recorded(&recorded);
        let (run, last) = (&recorded.run, recorded.last);
        let start = run.start().cloned();
        let start = start.ok_or_else(|| Problem::internal("a run", "it has no first event"))?;
        let ending = run.ending().cloned();
        let (mut reason, mut answer, mut last_output) = (None, None, None);
        let (mut evidence, mut artifacts) = (Vec::new(), Vec::new());
        let (mut not_kept, mut not_kept_more) = (Vec::new(), 0);
        if let Some(ending) = ending {
            (not_kept, not_kept_more) = (ending.not_kept, ending.not_kept_more);
            (reason, answer) = (Some(ending.reason), ending.answer);
            last_output = ending.last_output;
            (evidence, artifacts) = (ending.evidence, ending.artifacts);
        }
        Ok(Self {
            brief: RunBrief {
                id: recorded.id.to_string(),
                created_at: created.try_into().unwrap_or(0),
                state,
                task: start.task,
                label: label.into(),
                model: start.model,
                parent: start.parent.map(ParentView::from),
            },
            environment: start.environment,
            isolation: start.isolation.map(Walls::as_str),
            language: start.language,
            budget: run.budget().clone(),
            approvals: run.approvals().policy,
            spent: run.spent(),
            events: last,
            waits_for: run.undecided().to_vec(),
            reason,
            answer,
            last_output,
            evidence,
            artifacts,
            not_kept,
            not_kept_more,
        })
    }
}
