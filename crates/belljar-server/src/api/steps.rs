//! `/v1/runs/{id}/steps`: a run as parsed. Its events have the model's raw replies, and outcomes only
//! by their hash.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use belljar_agent::{Action, Run, RunEvent};
use belljar_journal::{BlobRef, Blobs};
use belljar_sandbox::protocol::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::body::{Named, Query};
use crate::cell_record::without_host_paths;
use crate::problem::{Code, Problem};
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};

/// Maximum steps of a page: their outcomes, with images, are in memory.
const MAX_STEPS: usize = 20;

/// Maximum bytes of outcomes of a page, unless its first step alone has more.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StepsAsked {
    /// Only steps after this number.
    #[serde(default)]
    #[param(minimum = 0)]
    after: u32,
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 20)]
    limit: Option<usize>,
}

/// Steps of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepPage {
    steps: Vec<StepView>,
    /// Whether more steps follow.
    more: bool,
}

/// One turn of the model as parsed, and its effects.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepView {
    /// Number of the step, from 1.
    number: u32,
    /// Thoughts of the model, if it gave any.
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<String>,
    /// False if the reply was not understood.
    understood: bool,
    /// Tool calls, in order.
    calls: Vec<CallView>,
    /// The answer that the reply gives. The run's last step has the run's answer; the others were sent back.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Note for the model, such as why its code was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Input and output tokens of the step.
    tokens: u64,
    /// Cost of the step, in the currency of the model's prices; absent if they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip)]
    outcomes: Vec<Option<BlobRef>>,
}

/// A tool call.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CallView {
    tool: String,
    /// Arguments; for a cell, `code` as executed, including edits by a person.
    #[schema(value_type = Object)]
    arguments: Value,
    /// Note for the model instead of an outcome, such as why code was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<String>,
    /// Outcome of an ended cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = super::cells::outcome_schema)]
    outcome: Option<Box<Outcome>>,
}

/// Lists the parsed steps of a run, with outcomes of cells.
#[utoipa::path(
    get, path = "/v1/runs/{id}/steps", tag = "runs", operation_id = "list_steps",
    params(("id" = String, Path, description = "The run."), StepsAsked),
    responses((status = 200, description = "The steps, in order.", body = StepPage))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<StepsAsked>,
) -> Result<JsonResponse<StepPage>, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let _transfer = service.admission.transfer(&caller.tenant)?;
    Ok(JsonResponse(page(&recorded, &asked, None).await?))
}

/// A page of the steps of a run, or of the only one that somebody may see.
pub(super) async fn page(
    recorded: &Recorded,
    asked: &StepsAsked,
    only: Option<u32>,
) -> Result<StepPage, Problem> {
    let limit = asked.limit.unwrap_or(MAX_STEPS);
    if !(1..=MAX_STEPS).contains(&limit) {
        let detail = format!("`limit` must be from 1 to {MAX_STEPS}");
        return Err(Problem::new(Code::BadQuery, detail));
    }
    let mut steps = understood(recorded)?;
    steps.retain(|step| step.number > asked.after && only.is_none_or(|only| step.number == only));
    let all = steps.len();
    steps.truncate(limit.min(fitting(&steps)));
    let more = all > steps.len();
    for step in &mut steps {
        for (call, outcome) in step.calls.iter_mut().zip(&step.outcomes) {
            if let Some(outcome) = outcome {
                call.outcome = Some(read(outcome, &recorded.blobs()).await?);
            }
        }
    }
    Ok(StepPage { steps, more })
}

/// How many steps fit into an answer by the bytes of their outcomes; one at least.
fn fitting(steps: &[StepView]) -> usize {
    let mut bytes = 0;
    let fits = |step: &&StepView| {
        let outcomes = step.outcomes.iter().flatten();
        bytes += outcomes.map(|outcome| outcome.bytes).sum::<u64>();
        bytes <= MAX_BYTES
    };
    steps.iter().take_while(fits).count().max(1)
}

/// All steps, including rolled-back ones, each as it was after its calls.
fn understood(recorded: &Recorded) -> Result<Vec<StepView>, Problem> {
    let mut run = Run::default();
    let mut steps: Vec<StepView> = Vec::new();
    let (mut tokens, mut cost) = (0, None);
    for event in &recorded.events {
        run.apply(event).map_err(|error| fault(error.into()))?;
        if let RunEvent::Replied {
            reply, cost: told, ..
        } = event
        {
            tokens = reply.usage.input_tokens + reply.usage.output_tokens;
            cost = *told;
        }
        let changes = matches!(
            event,
            RunEvent::Replied { .. }
                | RunEvent::CallEnded { .. }
                | RunEvent::ApprovalDecided { .. }
        );
        let Some(last) = run.steps().last().filter(|_| changes) else {
            continue;
        };
        let calls = last.calls.iter().map(|call| CallView {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            told: call
                .result()
                .filter(|result| result.cell.is_none())
                .map(|result| result.text.clone()),
            outcome: None,
        });
        let outcomes = last.calls.iter().map(|call| {
            let cell = call.result()?.cell.as_ref()?;
            Some(cell.outcome.clone())
        });
        let answer = last.actions.iter().find_map(|action| match action {
            Action::Answer { text, .. } => Some(text.clone()),
            _ => None,
        });
        let view = StepView {
            number: last.number,
            thought: last.thought.clone(),
            understood: last.understood,
            calls: calls.collect(),
            answer,
            note: last.note.clone(),
            tokens,
            cost,
            outcomes: outcomes.collect(),
        };
        if steps.last().is_some_and(|step| step.number == view.number) {
            steps.pop();
        }
        steps.push(view);
    }
    Ok(steps)
}

async fn read(outcome: &BlobRef, blobs: &Blobs) -> Result<Box<Outcome>, Problem> {
    let bytes = blobs.get(outcome).await;
    let bytes = bytes.map_err(|error| fault(error.into()))?;
    let outcome = serde_json::from_slice(&bytes);
    let mut outcome: Box<Outcome> =
        outcome.map_err(|error| Problem::internal("cannot read an outcome of a run", error))?;
    without_host_paths(&mut outcome);
    Ok(outcome)
}
