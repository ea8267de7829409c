//! What a session may reach on the network.
//!
//! A session's network namespace has loopback and nothing else: no route, no resolver. With
//! [`Network::Allow`], init makes one listener inside the namespace and hands it to the host, where
//! a [`Proxy`] answers. What does not ask the proxy goes nowhere, so it is no matter whether a
//! program heeds `HTTPS_PROXY`.
//!
//! | module | what it is |
//! |---|---|
//! | `policy` | the allow-list |
//! | `name` | host names, and what only looks like one |
//! | `address` | the addresses that nobody may reach |
//! | `request` | the head of a request to the proxy |
//! | `hello` | the server name in a TLS greeting |
//! | `proxy` | one session's connections, and their limits |
//! | `relay` | bytes between two connections, counted |
//!
//! # What it does not see
//!
//! Inside TLS the proxy is blind. Whoever answers for an allowed host can pass data on, also to
//! another site behind the same address (a content network that heeds a `Host` other than the server
//! name). `*.example.com` lets a session say things to the name servers of `example.com`, by asking
//! for names. List hosts that you would trust with the session's data.

mod address;
mod hello;
mod name;
mod policy;
mod proxy;
mod relay;
mod request;

use std::fmt;

pub use policy::{AllowList, AllowListError};
pub use proxy::{Proxy, Traffic};

/// What a session may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing. Names can't be resolved either.
    #[default]
    None,
    /// The hosts of a list, over TLS or plain HTTP, through a proxy of the host.
    Allow(AllowList),
}

/// Something that a session asked for and did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The host that was asked for: printable ASCII, other bytes as `\xNN`, at most 255 bytes.
    pub host: String,
    /// The port that was asked for.
    pub port: u16,
    /// Why not.
    pub reason: DeniedReason,
}

/// One line, fit for people, for models and for logs.
impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, reason } = self;
        write!(formatter, "{host}:{port} {reason}")
    }
}

/// Why a session did not get what it asked for. Shown after the host, as in [`Denial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DeniedReason {
    /// No entry covers the host and the port.
    #[error("is not on this session's allow-list, which the host sets")]
    NotListed,
    /// An address instead of a name, in any spelling.
    #[error("is an address; sessions reach hosts by their names only")]
    AddressLiteral,
    /// Nothing that could be a host name.
    #[error("is not a host name; letters outside ASCII are written in the xn-- form")]
    InvalidName,
    /// The name leads to an address that is refused to every session: private, link-local, and
    /// whatever else is not of the public internet. One such address among others is enough, since
    /// honest names don't mix.
    #[error("leads to a private or reserved address, which no session may reach")]
    RefusedAddress,
    /// The `Host` header of a plain request names another host or port.
    #[error("was asked for with a Host header that names another host")]
    HostMismatch,
    /// What came through a tunnel was not a TLS greeting, or not in time, or not within 16 KiB.
    #[error("was sent something other than TLS, which is all that a tunnel carries")]
    NotTls,
    /// The TLS greeting has no server name.
    #[error("was sent a TLS greeting without a server name")]
    NoServerName,
    /// The TLS greeting has the name of another host.
    #[error("was sent a TLS greeting that names another host")]
    ServerNameMismatch,
    /// The TLS greeting hides its real server name (ECH).
    #[error("was sent a TLS greeting with an encrypted server name, which can't be checked")]
    EncryptedHello,
}
