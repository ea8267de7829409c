//! Time, tokens and money of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::budget::Spent;
use super::call_history;
use super::event::RunEvent;
use super::machine::{Call, Misfit, Run};

/// What a run used, step by step; also in steps that were rolled back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Timing {
    /// In total.
    pub spent: Spent,
    /// Each step, in order.
    pub steps: Vec<StepTiming>,
    /// Repeated calls with the same result.
    pub repeated: Vec<RepeatedCall>,
}

/// What one step used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct StepTiming {
    /// Its number.
    pub step: u32,
    /// Milliseconds of the model.
    pub model_ms: u64,
    /// Milliseconds of tools.
    pub tool_ms: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Its cost, if known.
    pub cost: Option<f64>,
    /// The tools that it called.
    pub tools: Vec<String>,
    /// How many of the calls failed.
    pub failed: u32,
}

/// A call that was repeated with the same result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RepeatedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments, the first time.
    pub arguments: serde_json::Value,
    /// The steps, the first one too.
    pub steps: Vec<u32>,
    /// Milliseconds of all but the first.
    pub wasted_ms: u64,
}

impl Timing {
    /// The timing of a run, from its events.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a RunEvent>) -> Result<Self, Misfit> {
        let (mut run, mut timing) = (Run::default(), Self::default());
        let mut calls: Vec<Call> = Vec::new();
        let mut repeats: BTreeMap<String, RepeatedCall> = BTreeMap::new();
        for event in events {
            run.apply(event)?;
            match event {
                RunEvent::Replied {
                    step,
                    reply,
                    took_ms,
                    cost,
                } => {
                    calls = run
                        .steps()
                        .last()
                        .map_or_else(Vec::new, |s| s.calls.clone());
                    timing.steps.push(StepTiming {
                        step: *step,
                        model_ms: *took_ms,
                        input_tokens: reply.usage.input_tokens,
                        output_tokens: reply.usage.output_tokens,
                        cost: *cost,
                        tools: calls.iter().map(|call| call.tool.clone()).collect(),
                        ..StepTiming::default()
                    });
                }
                RunEvent::CallEnded { step, call, result } => {
                    if let Some(row) = timing.steps.last_mut().filter(|row| row.step == *step) {
                        row.tool_ms += result.took_ms;
                        row.failed += u32::from(result.failed);
                    }
                    let call = usize::try_from(*call).ok().and_then(|at| calls.get(at));
                    let Some(call) = call else { continue };
                    let key = call_history::key(&call.tool, &call.arguments, &result.text);
                    let repeated = repeats.entry(key).or_insert_with(|| RepeatedCall {
                        tool: call.tool.clone(),
                        arguments: call.arguments.clone(),
                        steps: Vec::new(),
                        wasted_ms: 0,
                    });
                    if !repeated.steps.is_empty() {
                        repeated.wasted_ms += result.took_ms;
                    }
                    repeated.steps.push(*step);
                }
                _ => {}
            }
        }
        timing.spent = run.spent();
        timing.repeated = repeats
            .into_values()
            .filter(|call| call.steps.len() > 1)
            .collect();
        timing.repeated.sort_by_key(|call| call.steps.clone());
        Ok(timing)
    }

    /// The steps that took longest, the slowest first.
    pub fn slowest(&self, most: usize) -> Vec<&StepTiming> {
        let mut steps: Vec<&StepTiming> = self.steps.iter().collect();
        steps.sort_by_key(|step| std::cmp::Reverse(step.model_ms + step.tool_ms));
        steps.truncate(most);
        steps
    }
}
