//! Errors of requests to a model server.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// Why there is no reply, and the part that had arrived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelError {
    /// The fault of the last attempt.
    pub fault: ModelFault,
    /// The number of attempts; 0 if nothing was sent.
    pub attempts: u32,
    /// The part of the reply that had arrived, if any.
    pub partial: Option<Box<Reply>>,
}

/// What happened. `said` is the message of the server, shortened, without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelFault {
    /// The profile can't be used.
    #[error("{why}")]
    Profile {
        /// Why, and what to do.
        why: String,
    },
    /// The server doesn't accept the key.
    #[error(
        "the model server refused the key: {said}\nhint: check the key, and that it permits this model"
    )]
    Auth {
        /// The server's message.
        said: String,
    },
    /// The server doesn't have the model.
    #[error(
        "the model server has no model `{model}`: {said}\nhint: check the name of the model; a local server must have loaded it"
    )]
    NoSuchModel {
        /// The requested name.
        model: String,
        /// The server's message.
        said: String,
    },
    /// The server doesn't understand the request, or not at this URL.
    #[error(
        "the model server refused the request ({status}): {said}\nhint: check the base URL, and which features the model supports"
    )]
    BadRequest {
        /// The HTTP status; 0 if the error was part of a reply.
        status: u16,
        /// The server's message.
        said: String,
    },
    /// The conversation is longer than the model can read.
    #[error(
        "the conversation is too long for the model: {said}\nhint: shorten it, or set the profile's context window to that of the server"
    )]
    ContextTooLong {
        /// The server's message.
        said: String,
    },
    /// The content filter of the server blocked the request or the reply.
    #[error("the content filter of the model server blocked it: {said}\nhint: rephrase the task")]
    ContentFilter {
        /// The server's message.
        said: String,
    },
    /// There is no money or quota left.
    #[error("the account has no quota left: {said}\nhint: see the provider's billing page")]
    Quota {
        /// The server's message.
        said: String,
    },
    /// Too many requests.
    #[error("the rate limit of the model server is exceeded: {said}\nhint: wait{}", wait(*.retry_after_ms))]
    RateLimited {
        /// The server's message.
        said: String,
        /// When to retry, if the server said so.
        retry_after_ms: Option<u64>,
    },
    /// The server failed for now.
    #[error("the model server is overloaded or broken ({status}): {said}\nhint: try again later{}", wait(*.retry_after_ms))]
    Overloaded {
        /// The HTTP status; 0 if the error was part of a reply.
        status: u16,
        /// The server's message.
        said: String,
        /// When to retry, if the server said so.
        retry_after_ms: Option<u64>,
    },
    /// The server can't be reached.
    #[error(
        "the model server cannot be reached: {why}\nhint: check that it runs, and its base URL, which `belljar config` shows"
    )]
    Connect {
        /// Why.
        why: String,
    },
    /// The server took too long.
    #[error(
        "the request to the model server timed out: {phase} within {limit_ms} ms\nhint: raise the profile's timeouts for slow models"
    )]
    Timeout {
        /// The phase.
        phase: Phase,
        /// The timeout.
        limit_ms: u64,
    },
    /// The connection ended before the reply did.
    #[error(
        "the reply was cut off: {why}\nhint: try again; if that does not help, check the log of the server and proxies in between"
    )]
    Cut {
        /// How.
        why: String,
    },
    /// What came is not in the server's format.
    #[error(
        "the reply cannot be read: {why}\nhint: check that the base URL and the wire format match the server"
    )]
    Malformed {
        /// Why.
        why: String,
    },
    /// The reply says nothing and calls nothing.
    #[error("the model's reply is empty\nhint: rephrase the task, or use another model")]
    Empty,
    /// The reply is larger than any valid one.
    #[error(
        "the reply is too large: more than {limit} {what}\nhint: the server misbehaves; limit the tokens of a reply"
    )]
    TooLarge {
        /// Of what.
        what: String,
        /// The limit.
        limit: usize,
    },
}

/// The phase of a request that timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A connection.
    Connect,
    /// The first byte of the reply.
    FirstByte,
    /// The next byte of the reply.
    Idle,
    /// The whole reply.
    Whole,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::FirstByte => "no byte of the reply arrived",
            Self::Idle => "no further byte of the reply arrived",
            Self::Whole => "the reply did not end",
        })
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if self.attempts > 1 {
            write!(f, "\nattempts: {}", self.attempts)?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelError {}

impl From<ModelFault> for ModelError {
    fn from(fault: ModelFault) -> Self {
        Self {
            fault,
            attempts: 0,
            partial: None,
        }
    }
}

impl ModelFault {
    /// Whether the same request may succeed in a moment.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Overloaded { .. }
                | Self::Connect { .. }
                | Self::Timeout { .. }
                | Self::Cut { .. }
        )
    }

    /// The delay before a retry that the server asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after_ms, .. } | Self::Overloaded { retry_after_ms, .. } => {
                retry_after_ms.map(Duration::from_millis)
            }
            _ => None,
        }
    }
}

fn wait(ms: Option<u64>) -> String {
    ms.map_or_else(String::new, |ms| {
        format!(" ({} s, according to the server)", ms.div_ceil(1000))
    })
}
