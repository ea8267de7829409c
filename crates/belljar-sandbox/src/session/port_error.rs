//! Why a port of a session can't be reached.

/// Why a port of a session can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// No program of the session can have this port.
    #[error("port {0} of a session is not offered\nhint: use a port from 1024 on, but not 3128")]
    NotOffered(u16),
    /// No program listens on it; so in a hibernated session, too.
    #[error(
        "nothing listens on port {0} of the session\nhint: start the program, or wait until it listens"
    )]
    Refused(u16),
    /// A program listens, but takes no connections.
    #[error("the program on port {0} of the session does not accept connections")]
    Unanswered(u16),
    /// The session has the maximum number of connections.
    #[error("the session already has {limit} connections to its ports, the maximum")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}
