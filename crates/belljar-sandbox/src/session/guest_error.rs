//! How communication with a guest fails: its end is closed, or it broke the protocol.

use std::io;

use belljar_protocol::FrameError;

use crate::error::Error;

/// Why communication with a guest failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// Its end is closed.
    #[error("its process is gone")]
    Gone,
    /// What it sent is not an answer.
    #[error("it broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
}

/// How a guest broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    /// Bytes that are not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame with a header that can't be read.
    #[error("{0}")]
    Header(String),
    /// Our own frame can't be written: an answer that is too long. The guest would wait for it for ever.
    #[error("{0}")]
    Unwritable(String),
    #[error("an unsolicited answer")]
    UnsolicitedAnswer,
    #[error("an answer to another request")]
    OtherAnswer,
    #[error("an unsolicited checkpoint")]
    UnsolicitedCheckpoint,
    /// Only our own code, before the guest is ready, can report a fault of the host.
    #[error("a fault after its start")]
    LateFault,
    /// It sent too many frames while an answer was awaited.
    #[error("too much data at once")]
    TooManyFrames,
    #[error("a report about cell {reported} while cell {running} runs")]
    OtherCell { reported: u32, running: u32 },
    #[error("call {number} after call {last}")]
    CallNumber { number: u32, last: u32 },
    #[error("too many calls at once")]
    TooManyCalls,
    #[error("question {number} after call {last}")]
    QuestionNumber { number: u32, last: u32 },
    #[error("too many questions, or one that is too long")]
    TooManyQuestions,
    #[error("two questions at once")]
    TwoQuestions,
    #[error("too many displays")]
    TooManyDisplays,
    #[error("a display whose id or metadata is too long")]
    LongDisplay,
    #[error("a display whose metadata is no JSON object")]
    DisplayMetadata,
    #[error("a display whose parts do not match")]
    DisplayParts,
    #[error("a snapshot over its limit")]
    LongSnapshot,
    #[error("a snapshot with a secret")]
    SecretInSnapshot,
    #[error("names of another namespace")]
    OtherNamespace,
    #[error("sources that can't be read")]
    Sources,
    #[error("{0}")]
    Table(String),
    #[error("a table over its limit")]
    LongTable,
}

impl From<io::Error> for GuestError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// The session has ended by it.
impl From<GuestError> for Error {
    fn from(error: GuestError) -> Self {
        Self::Ended(error.to_string())
    }
}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        GuestError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are the causes of outcomes, and the reasons for which sessions have ended.
    #[test]
    fn the_reason_names_the_violation() {
        let error = ProtocolError::OtherCell {
            reported: 2,
            running: 3,
        };
        assert_eq!(error.to_string(), "a report about cell 2 while cell 3 runs");
        let Error::Ended(why) = Error::from(error) else {
            panic!("the session continues");
        };
        assert_eq!(
            why,
            "it broke the protocol: a report about cell 2 while cell 3 runs"
        );
        let error = ProtocolError::from(FrameError::EmptyHeader);
        assert_eq!(error.to_string(), "frame without a header");
    }
}
