//! Why a call of a tool is refused, in words for the model.

use std::borrow::Cow;

use belljar_sandbox::{Error, NotOffered};
use tokio::task::JoinError;

/// Why a call of a tool is refused, in words for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments do not fit the tool's schema.
    #[error("Wrong arguments for {tool}: {error}.")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// What does not fit.
        error: serde_json::Error,
    },
    /// The value of an argument is not allowed.
    #[error("{0}")]
    Argument(Cow<'static, str>),
    /// The client has no session with this id.
    #[error(
        "There is no session with this id: it has ended, or never was ({}). Make one with \
         create_session, or leave session_id out to use the default session.",
        live(.0)
    )]
    NoSession(Vec<String>),
    /// The environment or the isolation is not offered.
    #[error("{}", sentence(.0))]
    NotOffered(#[from] NotOffered),
    /// The isolation of the session is below the least one, which is newer.
    #[error(
        "The session has the isolation {isolation}, and {least} is the least now: close it, and make one with \
         create_session."
    )]
    TooWeak {
        /// That of the session.
        isolation: &'static str,
        /// The least one.
        least: &'static str,
    },
    /// The session has no checkpoint of this name, but these.
    #[error("The session has no checkpoint of this name; those it has: {0}.")]
    NoCheckpoint(String),
    /// The session has as many checkpoints as it can have.
    #[error("The session has {limit} checkpoints already: use one of their names again ({names}).")]
    TooManyCheckpoints {
        /// The limit.
        limit: usize,
        /// Their names.
        names: String,
    },
    /// A limit of the client is reached.
    #[error("{0}")]
    Limit(String),
    /// The session refused, or has ended; as the client may see it.
    #[error("{0}")]
    Session(String),
    /// A file of the session that was named can't be read.
    #[error("The file {path} can't be read: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: Error,
    },
    /// The run could not begin, or failed; as the client may see it.
    #[error("{0}")]
    Run(String),
    /// There is no agent.
    #[error("There is no agent here.")]
    NoAgent,
    /// A person must approve it, and the client can't ask one.
    #[error(
        "A person must approve this before it runs, and this client can't ask one (it has no \
         elicitation). Use code that needs no approval, or tell the user."
    )]
    NobodyToAsk,
    /// A person did not approve it.
    #[error("The {what} was not run: a person did not approve it{}", said(.feedback.as_deref()))]
    NotApproved {
        /// Code, or a command.
        what: &'static str,
        /// The person's message to the model.
        feedback: Option<String>,
    },
    /// A decision for which no call waits.
    #[error("Nothing waits for this decision: it came twice, or too late.")]
    NothingWaits,
    /// The call that comes again is another one than a person was asked about.
    #[error("This is not the call that a person was asked about. Nothing was run.")]
    OtherCall,
    /// The client cancelled it.
    #[error("The call was cancelled.")]
    Cancelled,
    /// A fault of ours.
    #[error("The call failed: {0}")]
    Panicked(#[from] JoinError),
}

impl CallError {
    pub(crate) fn argument(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Argument(why.into())
    }
}

fn live(ids: &[String]) -> String {
    match ids {
        [] => "there are no sessions now".to_owned(),
        ids => format!("the live sessions are {}", ids.join(", ")),
    }
}

/// A reason as a sentence.
fn sentence(reason: &impl ToString) -> String {
    let mut words = reason.to_string();
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words + "."
}

fn said(feedback: Option<&str>) -> String {
    match feedback {
        Some(text) => format!(", and says: {text}"),
        None => ". Go another way, or ask the user.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model reads these.
    #[test]
    fn texts_say_what_to_do() {
        let ids = ["s-1", "s-2"].map(str::to_owned).to_vec();
        let text = |error: CallError| error.to_string();
        assert_eq!(
            text(CallError::NoSession(ids)),
            "There is no session with this id: it has ended, or never was (the live sessions are s-1, s-2). Make one \
             with create_session, or leave session_id out to use the default session."
        );
        let names = ["default", "tiny"].map(str::to_owned).to_vec();
        assert_eq!(
            text(NotOffered::Environment(names).into()),
            "There is no such environment; there are: default, tiny."
        );
        let refused = |feedback| {
            text(CallError::NotApproved {
                what: "code",
                feedback,
            })
        };
        assert_eq!(
            refused(None),
            "The code was not run: a person did not approve it. Go another way, or ask the user."
        );
        assert_eq!(
            refused(Some("use the copy".into())),
            "The code was not run: a person did not approve it, and says: use the copy"
        );
    }
}
