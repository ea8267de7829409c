//! The one stream between the host and a steward.

use tokio::io::{AsyncRead, AsyncWrite};

/// A container's one stream.
pub(super) struct Stream {
    pub(super) reading: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writing: Box<dyn AsyncWrite + Send + Unpin>,
    /// Whether a container engine has put its own frames around the steward's output and its words.
    pub(super) is_framed: bool,
}
