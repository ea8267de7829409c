//! How talking to a model fails.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// Why there is no reply, and what had come of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelError {
    /// What happened the last time.
    pub fault: ModelFault,
    /// How often it was tried. 0 if nothing was sent.
    pub attempts: u32,
    /// What had come before it broke, if anything had.
    pub partial: Option<Box<Reply>>,
}

/// What happened. `said` is what the server said, shortened, without the key.
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
        "the model server refused the key: {said}\nhint: check the key, and that it may use this model"
    )]
    Auth {
        /// Its words.
        said: String,
    },
    /// The server doesn't have the model.
    #[error(
        "the server has no model `{model}`: {said}\nhint: check the model's name; local servers must have loaded it"
    )]
    NoSuchModel {
        /// The name that was asked for.
        model: String,
        /// Its words.
        said: String,
    },
    /// The server doesn't understand the request, or not there.
    #[error(
        "the model server refused the request ({status}): {said}\nhint: check the base URL and what the model supports"
    )]
    BadRequest {
        /// The HTTP status; 0 if it was said within a reply.
        status: u16,
        /// Its words.
        said: String,
    },
    /// The conversation is longer than the model can read.
    #[error(
        "the conversation is too long for the model: {said}\nhint: shorten it, or set the profile's context window to what the server has"
    )]
    ContextTooLong {
        /// Its words.
        said: String,
    },
    /// The server doesn't let this be asked or answered.
    #[error(
        "the model server's content filter stopped it: {said}\nhint: word the task differently"
    )]
    ContentFilter {
        /// Its words.
        said: String,
    },
    /// There is no money or quota left.
    #[error("the account has no quota left: {said}\nhint: look at the provider's billing page")]
    Quota {
        /// Its words.
        said: String,
    },
    /// Too many requests.
    #[error("the model server limits the rate of requests: {said}\nhint: wait{}", wait(*.retry_after_ms))]
    RateLimited {
        /// Its words.
        said: String,
        /// When it wants to be asked again.
        retry_after_ms: Option<u64>,
    },
    /// The server can't now.
    #[error("the model server is overloaded or broken ({status}): {said}\nhint: try again later{}", wait(*.retry_after_ms))]
    Overloaded {
        /// The HTTP status; 0 if it was said within a reply.
        status: u16,
        /// Its words.
        said: String,
        /// When it wants to be asked again.
        retry_after_ms: Option<u64>,
    },
    /// The server can't be reached.
    #[error("the model server can't be reached: {why}\nhint: check that it runs, and the base URL")]
    Connect {
        /// Why.
        why: String,
    },
    /// The server took too long.
    #[error(
        "the model server took too long: {phase} in {limit_ms} ms\nhint: the profile's timeouts can be raised for slow models"
    )]
    Timeout {
        /// What was waited for.
        phase: Phase,
        /// How long.
        limit_ms: u64,
    },
    /// The connection ended before the reply did.
    #[error(
        "the reply was cut off: {why}\nhint: try again; if it is always so, look at the server's log or at a proxy between"
    )]
    Cut {
        /// How.
        why: String,
    },
    /// What came is not in the server's format.
    #[error(
        "the reply can't be read: {why}\nhint: check that the base URL and the wire format fit the server"
    )]
    Malformed {
        /// Why.
        why: String,
    },
    /// The reply says nothing and calls nothing.
    #[error("the model's reply is empty\nhint: ask again in other words, or with another model")]
    Empty,
    /// The reply is larger than any honest one.
    #[error(
        "the reply is too large: more than {limit} {what}\nhint: this server doesn't behave; limit the tokens of a reply"
    )]
    TooLarge {
        /// Of what.
        what: String,
        /// The most that is taken.
        limit: usize,
    },
}

/// What was waited for.
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
            Self::FirstByte => "nothing of the reply came",
            Self::Idle => "nothing more of the reply came",
            Self::Whole => "the reply did not end",
        })
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if self.attempts > 1 {
            write!(f, "\nit was tried {} times", self.attempts)?;
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

    /// When the server wants to be asked again.
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
        format!(" ({} s, it says)", ms.div_ceil(1000))
    })
}
