//! Network activity and denials of a session.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Network activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Connections made to servers.
    pub connections: u64,
    /// Bytes sent to servers.
    pub bytes_sent: u64,
    /// Bytes received from servers.
    pub bytes_received: u64,
    /// Denials.
    pub denials: u64,
    /// Denials that were only counted, because their channel was full.
    pub denials_unreported: u64,
}

impl Traffic {
    /// The activity since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            bytes_sent: self.bytes_sent - before.bytes_sent,
            bytes_received: self.bytes_received - before.bytes_received,
            denials: self.denials - before.denials,
            denials_unreported: self.denials_unreported - before.denials_unreported,
        }
    }
}

/// A denied network request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// The requested host: printable ASCII, other bytes as `\xNN`, at most 255 bytes.
    pub host: String,
    /// The requested port.
    pub port: u16,
    /// The reason.
    pub reason: DeniedReason,
}

/// One line, fit for people, for models and for logs.
impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, reason } = self;
        write!(formatter, "{host}:{port} {reason}")
    }
}

/// Why a network request was denied. Shown after the host, as in [`Denial`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeniedReason {
    /// No entry covers the host and the port.
    #[error("is not on this session's allow-list, which the host sets")]
    NotListed,
    /// An address instead of a name, in any spelling.
    #[error("is an address; sessions reach hosts by name only")]
    AddressLiteral,
    /// Not a valid host name.
    #[error("is not a host name; letters outside ASCII are written in the xn-- form")]
    InvalidName,
    /// The name resolves to an address that is refused to every session: private, link-local, or
    /// otherwise not of the public internet. One such address among others is enough, since honest
    /// names don't mix.
    #[error("resolves to a private or reserved address, which no session may reach")]
    RefusedAddress,
    /// The `Host` header of a plain request names another host or port.
    #[error("was requested with a Host header that names another host")]
    HostMismatch,
    /// The data in a tunnel was not a TLS `ClientHello`, or not in time, or not within 16 KiB.
    #[error("was sent something other than TLS; a tunnel carries only TLS")]
    NotTls,
    /// The TLS `ClientHello` has no server name.
    #[error("was sent a TLS ClientHello without a server name")]
    NoServerName,
    /// The TLS `ClientHello` has the name of another host.
    #[error("was sent a TLS ClientHello that names another host")]
    ServerNameMismatch,
    /// The TLS `ClientHello` hides its real server name (ECH).
    #[error("was sent a TLS ClientHello with an encrypted server name, which cannot be checked")]
    EncryptedHello,
}
