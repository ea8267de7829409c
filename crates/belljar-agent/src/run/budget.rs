//! Budgets of runs, and why runs end.

use std::time::Duration;

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::doubt::Doubt;

/// The budget of a run. The first part that is used up ends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Budget {
    /// Turns of the model: 20.
    pub steps: u32,
    /// Tokens of all requests and replies together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in the currency of the profile's prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// Seconds of the model and the tools together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Tool calls: 100.
    pub calls: u32,
    /// Tool calls by code of cells: 10,000. Further calls are denied; the run continues.
    pub cell_calls: u32,
    /// Rollbacks by loop detection: 2.
    pub repeats: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: 20,
            tokens: None,
            money: None,
            seconds: None,
            calls: 100,
            cell_calls: 10_000,
            repeats: 2,
        }
    }
}

/// Parts of a budget to raise to at least these values. Parts that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Raise {
    /// Turns of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Tokens of all requests and replies together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// Seconds of the model and the tools together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
}

/// What a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Turns of the model.
    pub steps: u32,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Money.
    pub money: f64,
    /// Milliseconds of the model.
    pub model_ms: u64,
    /// Milliseconds of tools.
    pub tool_ms: u64,
    /// Tool calls.
    pub calls: u32,
    /// Tool calls by code of cells.
    #[serde(default)]
    pub cell_calls: u32,
    /// Rollbacks.
    pub repeats: u32,
}

impl Spent {
    /// Tokens of requests and replies together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExitReason {
    /// The model answered, and no check found a doubt.
    Answered,
    /// The model answered, and kept to an answer that is not proven.
    Unverified {
        /// Why not.
        doubts: Vec<Doubt>,
    },
    /// The request to the model failed.
    ModelFailed {
        /// Why.
        error: String,
    },
    /// The model's replies could not be understood, several times in a row.
    NotUnderstood,
    /// It repeated the same actions.
    Repetition,
    /// A part of the budget was used up.
    Budget {
        /// Which.
        part: BudgetPart,
    },
    /// The caller ended it.
    Stopped,
}

impl ExitReason {
    /// It in words, without the error of the model's server: that is for the operator.
    pub fn text(&self, language: Language) -> String {
        let texts = &language.texts().run;
        match self {
            Self::Answered => texts.reason_answered.to_owned(),
            Self::Unverified { .. } => texts.reason_unverified.to_owned(),
            Self::ModelFailed { .. } => texts.reason_model_failed.to_owned(),
            Self::NotUnderstood => texts.reason_not_understood.to_owned(),
            Self::Repetition => texts.reason_repetition.to_owned(),
            Self::Budget { part } => texts.reason_budget(&format!("{part:?}").to_lowercase()),
            Self::Stopped => texts.reason_stopped.to_owned(),
        }
    }

    /// What is doubtful about the answer; nothing, if there is none.
    pub fn doubts(&self) -> &[Doubt] {
        match self {
            Self::Unverified { doubts } => doubts,
            _ => &[],
        }
    }
}

/// A part of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPart {
    /// Turns of the model.
    Steps,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
    /// Time.
    Seconds,
    /// Tool calls.
    Calls,
}

impl Budget {
    /// Raises parts of it. None is ever lowered, and unlimited parts stay so: the order of two
    /// raises does not matter.
    pub fn raise(&mut self, by: &Raise) {
        self.steps = by.steps.map_or(self.steps, |most| self.steps.max(most));
        self.calls = by.calls.map_or(self.calls, |most| self.calls.max(most));
        if let (Some(limit), Some(most)) = (&mut self.tokens, by.tokens) {
            *limit = most.max(*limit);
        }
        if let (Some(limit), Some(most)) = (&mut self.seconds, by.seconds) {
            *limit = most.max(*limit);
        }
        if let (Some(limit), Some(most)) = (&mut self.money, by.money) {
            *limit = most.max(*limit);
        }
    }

    /// The rest of the time, if it is limited.
    pub(crate) fn time_left(&self, spent: &Spent) -> Option<Duration> {
        let limit = Duration::from_secs(self.seconds?);
        Some(limit.saturating_sub(Duration::from_millis(spent.model_ms + spent.tool_ms)))
    }

    /// The rest of the tokens, if they are limited.
    pub(crate) fn tokens_left(&self, spent: &Spent) -> Option<u64> {
        Some(self.tokens?.saturating_sub(spent.tokens()))
    }

    /// The part that is used up, if one is.
    pub fn exceeded_by(&self, spent: &Spent) -> Option<BudgetPart> {
        let seconds = (spent.model_ms + spent.tool_ms) / 1000;
        if spent.steps >= self.steps {
            Some(BudgetPart::Steps)
        } else if self.tokens.is_some_and(|most| spent.tokens() >= most) {
            Some(BudgetPart::Tokens)
        } else if self.money.is_some_and(|most| spent.money >= most) {
            Some(BudgetPart::Money)
        } else if self.seconds.is_some_and(|most| seconds >= most) {
            Some(BudgetPart::Seconds)
        } else if spent.calls >= self.calls {
            Some(BudgetPart::Calls)
        } else {
            None
        }
    }

    /// The message for the model near the end of the budget.
    pub fn reminder(&self, spent: &Spent, language: Language) -> Option<String> {
        let left = self.steps.saturating_sub(spent.steps);
        let short = self
            .tokens
            .is_some_and(|most| spent.tokens() >= most / 10 * 8)
            || self
                .seconds
                .is_some_and(|most| (spent.model_ms + spent.tool_ms) / 1000 >= most / 10 * 8)
            || self.money.is_some_and(|most| spent.money >= most * 0.8)
            || spent.calls >= self.calls / 10 * 8;
        let texts = language.prompts();
        match left {
            1 => Some(texts.last_step.to_owned()),
            2..=3 => Some(texts.steps_left(left)),
            _ if short => Some(texts.budget_nearly_used.to_owned()),
            _ => None,
        }
    }
}
