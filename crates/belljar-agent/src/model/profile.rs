//! Profiles of model servers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reply::Usage;
use super::request::ModelRequest;
use super::{anthropic, openai};

/// The two formats that model servers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireFormat {
    /// Chat completions, as OpenAI's `/v1/chat/completions`.
    ChatCompletions,
    /// Messages, as Anthropic's `/v1/messages`.
    Messages,
}

/// How to talk to a family of model servers. [`Profile::built_in`] has the known ones; each field
/// can be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about a server of its own"
)]
pub struct Profile {
    /// The provider's name, as in `openai/gpt-5`.
    pub provider: String,
    /// Its wire format.
    pub wire: WireFormat,
    /// The URL before `/chat/completions` or `/messages`, as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The environment variable that holds the key.
    pub key_variable: Option<String>,
    /// A file that holds the key; it comes before the variable.
    pub key_file: Option<PathBuf>,
    /// Whether the server can't be used without a key.
    pub key_required: bool,
    /// Permits a key over plain HTTP to another machine, where anyone on the way can read it.
    pub allow_plain_http: bool,
    /// The dialect of its models.
    pub dialect: String,
    /// The context window: tokens of a conversation and its reply together.
    pub context_window: u32,
    /// The most tokens of a reply, if a request doesn't say. Needed by the messages format.
    pub max_tokens: Option<u32>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// The server's name for the token limit: newer models of OpenAI refuse the old name.
    pub max_tokens_field: String,
    /// Says that several calls in one reply are welcome, to servers that else make only one.
    pub parallel_tool_calls: bool,
    /// More fields of every request's body, as `{"enable_thinking": false}`.
    pub extra_body: Map<String, Value>,
    /// Prices of its tokens, if known.
    pub prices: Option<Prices>,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Retries.
    pub retries: Retries,
}

/// Prices in one currency, for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Of input.
    pub input: f64,
    /// Of output.
    pub output: f64,
    /// Of input from the server's cache; else as input.
    pub cached_input: Option<f64>,
    /// Of input written to the server's cache; else as input.
    pub cache_write: Option<f64>,
}

/// Timeouts, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// For a connection.
    pub connect_ms: u64,
    /// From the request to the first byte of the reply. A local model reads a long conversation for
    /// minutes, and a reply that is not streamed comes as a whole.
    pub first_byte_ms: u64,
    /// Between two pieces of a reply.
    pub idle_ms: u64,
    /// For the whole reply.
    pub whole_ms: u64,
}

/// Retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// All attempts together.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with each one.
    pub first_wait_ms: u64,
    /// No attempt begins later than this after the first one began.
    pub within_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_byte_ms: 300_000,
            idle_ms: 120_000,
            whole_ms: 1_800_000,
        }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait_ms: 500,
            within_ms: 180_000,
        }
    }
}

impl Prices {
    /// What a usage cost.
    #[expect(clippy::cast_precision_loss, reason = "no reply has 2^52 tokens")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let special = usage.cached_tokens + usage.cache_write_tokens;
        let plain = usage.input_tokens.saturating_sub(special);
        let sum = plain as f64 * self.input
            + usage.cached_tokens as f64 * self.cached_input.unwrap_or(self.input)
            + usage.cache_write_tokens as f64 * self.cache_write.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output;
        sum / 1e6
    }
}

impl Profile {
    /// The names of the built-in profiles.
    pub const BUILT_IN: [&str; 6] = ["openai", "anthropic", "qwen", "ollama", "llamacpp", "vllm"];

    /// A profile that we know by name.
    pub fn built_in(provider: &str) -> Option<Self> {
        let hosted = |base_url: &str, variable: &str| Self {
            provider: provider.to_owned(),
            wire: WireFormat::ChatCompletions,
            base_url: base_url.to_owned(),
            key_variable: Some(variable.to_owned()),
            key_file: None,
            key_required: true,
            allow_plain_http: false,
            dialect: "native".to_owned(),
            context_window: 128_000,
            max_tokens: None,
            stream: true,
            max_tokens_field: "max_tokens".to_owned(),
            parallel_tool_calls: true,
            extra_body: Map::new(),
            prices: None,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        };
        // The models of these are any, often small ones, which write code in fences more reliably
        // than calls.
        let local = |base_url: &str, variable: &str, context_window| Self {
            key_required: false,
            dialect: "fenced".to_owned(),
            context_window,
            prices: Some(Prices::default()),
            ..hosted(base_url, variable)
        };
        Some(match provider {
            "openai" => Self {
                max_tokens_field: "max_completion_tokens".to_owned(),
                // It is so by default, and some models refuse to hear it.
                parallel_tool_calls: false,
                ..hosted("https://api.openai.com/v1", "OPENAI_API_KEY")
            },
            "anthropic" => Self {
                wire: WireFormat::Messages,
                context_window: 200_000,
                max_tokens: Some(16_384),
                ..hosted("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
            },
            "qwen" => Self {
                context_window: 131_072,
                ..hosted(
                    "https://dashscope.aliyuncs.com/compatible-mode/v1",
                    "DASHSCOPE_API_KEY",
                )
            },
            // Its default. It cuts a longer conversation without a word, so this must not be more.
            "ollama" => local("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", 4096),
            "llamacpp" => local("http://127.0.0.1:8080/v1", "LLAMA_API_KEY", 8192),
            "vllm" => local("http://127.0.0.1:8000/v1", "VLLM_API_KEY", 32_768),
            _ => return None,
        })
    }

    /// The profile of a scripted model, for which nothing is sent anywhere.
    pub(super) fn scripted(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            wire: WireFormat::ChatCompletions,
            base_url: String::new(),
            key_variable: None,
            key_file: None,
            key_required: false,
            allow_plain_http: false,
            dialect: "native".to_owned(),
            context_window: 128_000,
            max_tokens: None,
            stream: true,
            max_tokens_field: "max_tokens".to_owned(),
            parallel_tool_calls: false,
            extra_body: Map::new(),
            prices: Some(Prices::default()),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        }
    }

    /// The body that is sent for a request. Serialised, it has the same bytes every time, whoever
    /// has the key.
    pub fn body(&self, model: &str, request: &ModelRequest) -> Value {
        let mut body = match self.wire {
            WireFormat::ChatCompletions => openai::body(self, model, request),
            WireFormat::Messages => anthropic::body(self, model, request),
        };
        body.extend(self.extra_body.clone());
        Value::Object(body)
    }
}

/// A model and who serves it, as `qwen/qwen-plus`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelName {
    /// The provider: the name of a profile.
    pub provider: String,
    /// The model, as the provider calls it; it may have slashes of its own.
    pub model: String,
}

/// A text is not the name of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a model\nhint: write `provider/model`, such as `qwen/qwen-plus` or `ollama/qwen2.5-coder`"
)]
pub struct ModelNameError(String);

impl ModelName {
    /// Reads `provider/model`.
    pub fn parse(text: &str) -> Result<Self, ModelNameError> {
        match text.trim().split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            _ => Err(ModelNameError(text.to_owned())),
        }
    }
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ModelName {
    type Error = ModelNameError;

    fn try_from(text: String) -> Result<Self, ModelNameError> {
        Self::parse(&text)
    }
}

impl From<ModelName> for String {
    fn from(name: ModelName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models() {
        let name = ModelName::parse("vllm/Qwen/Qwen2.5-Coder").unwrap();
        assert_eq!(
            (name.provider.as_str(), name.model.as_str()),
            ("vllm", "Qwen/Qwen2.5-Coder")
        );
        assert_eq!(name.to_string(), "vllm/Qwen/Qwen2.5-Coder");
        for text in ["", "gpt", "/gpt", "openai/"] {
            assert!(ModelName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_built_in_profile_is_there_and_survives_a_journey() {
        for name in Profile::BUILT_IN {
            let profile = Profile::built_in(name).unwrap();
            assert_eq!(profile.provider, name);
            assert_eq!(
                profile.key_required,
                profile.base_url.starts_with("https://"),
                "{name}"
            );
            let text = serde_json::to_string(&profile).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        }
        assert!(Profile::built_in("nobody").is_none());
    }

    #[test]
    fn cost_counts_each_token_once() {
        let prices = Prices {
            input: 2.0,
            output: 10.0,
            cached_input: Some(0.5),
            cache_write: None,
        };
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_tokens: 600_000,
            cache_write_tokens: 100_000,
            output_tokens: 100_000,
            ..Usage::default()
        };
        assert!((prices.cost(&usage) - (0.6 + 0.3 + 0.2 + 1.0)).abs() < 1e-9);
    }
}
