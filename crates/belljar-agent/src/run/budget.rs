//! Budgets of runs, and why runs end.

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The model answered.
    Answered,
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
        match (left, language) {
            (1, Language::English) => {
                Some("This is your last step: give your answer now, as good as you have it.".into())
            }
            (1, Language::Chinese) => Some("这是最后一步：请现在给出你目前最好的答案。".into()),
            (2..=3, Language::English) => Some(format!(
                "{left} steps are left: run the code that shows the answer, or give the answer."
            )),
            (2..=3, Language::Chinese) => Some(format!(
                "还剩 {left} 步：请运行能显示答案的代码，或给出答案。"
            )),
            (_, Language::English) if short => {
                Some("The budget is nearly used up: come to your answer soon.".into())
            }
            (_, Language::Chinese) if short => Some("预算即将用完：请尽快给出答案。".into()),
            _ => None,
        }
    }
}
