//! Observing a run from outside: spans by OpenTelemetry's conventions for generative AI, and
//! measurements. Without a listener they cost nothing.
//!
//! Texts of models, code and tools are events of their own target, which a log never has, and a
//! trace only if the operator enabled it. A measurement is an event whose name is the instrument's;
//! its fields have few values.

use std::time::Duration;

use belljar_protocol::{Outcome, Status, ToolError};
use serde_json::{Map, Value, json};
use tracing::field::Empty;
use tracing::{Level, Span, info_span};

use super::{LiveRun, RunError};
use crate::run::{Approval, CallResult, Decision, ExitReason, Run, RunEvent, Subject};
use crate::tool::Given;
use crate::{Finish, Message, ModelError, ModelFault, ModelRequest, Part, Provider, Reply};

/// The target of events with texts of models, code and tools.
pub const CONTENT_TARGET: &str = "belljar::content";

/// The target of events that are measurements.
pub const METRIC_TARGET: &str = "belljar::metric";

/// The most letters of a tool's name, which a model may make up.
const NAME_LETTERS: usize = 64;

/// One drive of a run.
pub(super) fn invoke_agent(live: &LiveRun) -> Span {
    let provider = &live.agent.provider;
    let budget = live.run.budget();
    info_span!(
        "invoke_agent",
        otel.name = "invoke_agent belljar",
        run = %live.id,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = "belljar",
        gen_ai.provider.name = provider.profile().provider,
        gen_ai.request.model = provider.model(),
        belljar.budget.steps = budget.steps,
        belljar.budget.tokens = budget.tokens,
        belljar.budget.money = budget.money,
        belljar.budget.seconds = budget.seconds,
        belljar.budget.calls = budget.calls,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        belljar.spent.steps = Empty,
        belljar.spent.money = Empty,
        belljar.spent.calls = Empty,
        belljar.spent.cell_calls = Empty,
        belljar.run.exit_reason = Empty,
        "error.type" = Empty,
        otel.status_code = Empty,
    )
}

/// It ended, or waits for a person.
pub(super) fn driven(span: &Span, run: &Run, end: &Result<(), RunError>) {
    let spent = run.spent();
    span.record("gen_ai.usage.input_tokens", spent.input_tokens);
    span.record("gen_ai.usage.output_tokens", spent.output_tokens);
    span.record("belljar.spent.steps", spent.steps);
    span.record("belljar.spent.money", spent.money);
    span.record("belljar.spent.calls", spent.calls);
    span.record("belljar.spent.cell_calls", spent.cell_calls);
    match (end, run.ending().map(|ending| &ending.reason)) {
        (Err(_), _) => fail(span, "run_error"),
        (Ok(()), None) => {}
        (Ok(()), Some(reason)) => {
            let word = match reason {
                ExitReason::Answered => "answered",
                ExitReason::Unverified { .. } => "unverified",
                ExitReason::ModelFailed { .. } => "model_failed",
                ExitReason::NotUnderstood => "not_understood",
                ExitReason::Repetition => "repetition",
                ExitReason::Budget { .. } => "budget",
                ExitReason::Stopped => "stopped",
            };
            span.record("belljar.run.exit_reason", word);
            if matches!(reason, ExitReason::ModelFailed { .. }) {
                fail(span, word);
            }
        }
    }
}

fn fail(span: &Span, error: &str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}

/// An approval was requested or decided.
pub(super) fn tell(event: &RunEvent) {
    match event {
        RunEvent::ApprovalAsked(approval) => {
            let Approval { id, subject, .. } = &**approval;
            let subject = match subject {
                Subject::Cell { .. } => "cell",
                Subject::Command { .. } => "command",
                Subject::Call { .. } => "call",
            };
            tracing::event!(
                name: "belljar.approval.asked",
                Level::INFO,
                belljar.approval.id = id,
                belljar.approval.subject = subject
            );
        }
        RunEvent::ApprovalDecided {
            approval, decision, ..
        } => {
            let decision = match decision {
                Decision::Accept { .. } => "accept",
                Decision::Edit { .. } => "edit",
                Decision::Feedback { .. } => "feedback",
                Decision::Reject => "reject",
            };
            tracing::event!(
                name: "belljar.approval.decided",
                Level::INFO,
                belljar.approval.id = approval,
                belljar.approval.decision = decision
            );
        }
        _ => {}
    }
}

/// One request to the model.
pub(super) fn chat(live: &LiveRun, step: u32, request: &ModelRequest) -> Span {
    let provider = &live.agent.provider;
    info_span!(
        "chat",
        otel.name = format!("chat {}", provider.model()),
        otel.kind = "client",
        run = %live.id,
        belljar.step = step,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider.profile().provider,
        gen_ai.request.model = provider.model(),
        gen_ai.request.max_tokens = request.max_tokens,
        gen_ai.request.temperature = request.temperature,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        "error.type" = Empty,
        otel.status_code = Empty,
    )
}

/// The model replied, or the request failed.
pub(super) fn replied(
    span: &Span,
    provider: &Provider,
    request: &ModelRequest,
    took: Duration,
    sent: &Result<Reply, ModelError>,
) {
    let (name, model) = (provider.profile().provider.as_str(), provider.model());
    let error = sent.as_ref().err().map(|error| word_of(&error.fault));
    tracing::info!(
        name: "gen_ai.client.operation.duration",
        target: METRIC_TARGET,
        value = took.as_secs_f64(),
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = name,
        gen_ai.request.model = model,
        "error.type" = error
    );
    if let Some(error) = error {
        fail(span, error);
    }
    if let Ok(reply) = sent {
        let usage = &reply.usage;
        for (kind, tokens) in [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
        ] {
            tracing::info!(
                name: "gen_ai.client.token.usage",
                target: METRIC_TARGET,
                value = tokens,
                gen_ai.operation.name = "chat",
                gen_ai.provider.name = name,
                gen_ai.request.model = model,
                gen_ai.token.type = kind
            );
        }
        span.record("gen_ai.usage.input_tokens", usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", usage.output_tokens);
        let cached = usage.cached_tokens;
        span.record("gen_ai.usage.cache_read.input_tokens", cached);
        span.record("gen_ai.response.finish_reasons", finish_word(&reply.finish));
        if let Some(model) = &reply.model {
            span.record("gen_ai.response.model", model);
        }
    }
    if !hears_content() {
        return;
    }
    let said = sent.as_ref().map_or(Value::Null, |reply| {
        let mut said = message(&Message::assistant(reply.clone()));
        said["finish_reason"] = finish_word(&reply.finish).into();
        json!([said])
    });
    let asked: Value = request.messages.iter().map(message).collect();
    span.in_scope(|| {
        tracing::event!(
            target: CONTENT_TARGET,
            Level::INFO,
            gen_ai.input.messages = asked.to_string(),
            gen_ai.output.messages = said.to_string(),
        );
    });
}

fn finish_word(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_call",
        Finish::Length => "length",
        Finish::Other(word) => word,
    }
}

/// A message as the conventions write it. Images are left out.
fn message(message: &Message) -> Value {
    let texts = |parts: &[Part]| -> String {
        let texts = parts.iter().map(|part| match part {
            Part::Text { text } => text.as_str(),
            Part::Image { .. } => "[image]",
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    let (role, parts) = match message {
        Message::System { text } => ("system", vec![json!({"type": "text", "content": text})]),
        Message::User { parts } => (
            "user",
            vec![json!({"type": "text", "content": texts(parts)})],
        ),
        Message::Assistant {
            text, tool_calls, ..
        } => {
            let mut parts = vec![json!({"type": "text", "content": text})];
            parts.extend(tool_calls.iter().map(|call| {
                json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
            }));
            ("assistant", parts)
        }
        Message::ToolResult { call_id, parts, .. } => (
            "tool",
            vec![json!({"type": "tool_call_response", "id": call_id, "response": texts(parts)})],
        ),
    };
    json!({"role": role, "parts": parts})
}

fn word_of(fault: &ModelFault) -> &'static str {
    match fault {
        ModelFault::Profile { .. } => "profile",
        ModelFault::Auth { .. } => "auth",
        ModelFault::NoSuchModel { .. } => "no_such_model",
        ModelFault::BadRequest { .. } => "bad_request",
        ModelFault::ContextTooLong { .. } => "context_too_long",
        ModelFault::ContentFilter { .. } => "content_filter",
        ModelFault::Quota { .. } => "quota",
        ModelFault::RateLimited { .. } => "rate_limited",
        ModelFault::Overloaded { .. } => "overloaded",
        ModelFault::Connect { .. } => "connect",
        ModelFault::Timeout { .. } => "timeout",
        ModelFault::Cut { .. } => "cut",
        ModelFault::Malformed { .. } => "malformed",
        ModelFault::Empty => "empty",
        ModelFault::TooLarge { .. } => "too_large",
    }
}

/// A tool call: of the model, or of the code of a cell, within whose span it is then.
pub(super) fn execute_tool(live: &LiveRun, tool: &str, step: u32, place: u32) -> Span {
    let name: String = tool.chars().take(NAME_LETTERS).collect();
    info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {name}"),
        run = %live.id,
        belljar.step = step,
        belljar.call = place,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.type = "function",
        cell = Empty,
        belljar.outcome.status = Empty,
        belljar.outcome.cpu_us = Empty,
        belljar.outcome.duration_us = Empty,
        "error.type" = Empty,
        otel.status_code = Empty,
    )
}

/// A call of the model has ended.
pub(super) fn call_ended(span: &Span, arguments: &Value, result: &CallResult) {
    if result.failed {
        fail(span, "tool_error");
    }
    if hears_content() {
        span.in_scope(|| {
            tracing::event!(
                target: CONTENT_TARGET,
                Level::INFO,
                gen_ai.tool.call.arguments = arguments.to_string(),
                gen_ai.tool.call.result = result.text,
            );
        });
    }
}

/// The code of a cell calls a tool.
pub(super) fn cell_called(span: &Span, arguments: &Map<String, Value>) {
    if hears_content() {
        let arguments = serde_json::to_string(arguments).unwrap_or_default();
        span.in_scope(|| {
            tracing::event!(target: CONTENT_TARGET, Level::INFO, gen_ai.tool.call.arguments = arguments);
        });
    }
}

/// The tool has returned or failed.
pub(super) fn cell_call_ended(span: &Span, given: &Result<Given, ToolError>) {
    if given.is_err() {
        fail(span, "tool_error");
    }
    if hears_content() {
        let result = match given {
            Ok(Given::Value(value)) => value.to_string(),
            Ok(Given::Kept { mime, data }) => format!("{} bytes of {mime}", data.len()),
            Err(ToolError(message)) => message.clone(),
        };
        span.in_scope(|| {
            tracing::event!(target: CONTENT_TARGET, Level::INFO, gen_ai.tool.call.result = result);
        });
    }
}

fn hears_content() -> bool {
    tracing::enabled!(target: CONTENT_TARGET, Level::INFO)
}

/// The cell of the span that is entered has an outcome.
pub(super) fn outcome(outcome: &Outcome) {
    let span = Span::current();
    let status = status_word(outcome.status);
    span.record("cell", outcome.cell);
    span.record("belljar.outcome.status", status);
    span.record("belljar.outcome.cpu_us", outcome.durations.cpu_us);
    span.record("belljar.outcome.duration_us", outcome.durations.total_us);
    tracing::info!(
        name: "belljar.cells",
        target: METRIC_TARGET,
        value = 1_u64,
        belljar.outcome.status = status
    );
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Failure => "failure",
        Status::Timeout => "timeout",
        Status::Crashed => "crashed",
    }
}
