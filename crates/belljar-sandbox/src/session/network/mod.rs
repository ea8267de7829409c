//! Network access of a session.
//!
//! A session's network namespace has loopback and nothing else: no route, no resolver. With
//! [`Network::Allow`], init makes one listener inside the namespace and hands it to the host, where
//! a [`Proxy`] answers. Other traffic goes nowhere, so it doesn't matter whether a program honours
//! `HTTPS_PROXY`.
//!
//! | module | what it is |
//! |---|---|
//! | `policy` | the allow-list |
//! | `name` | host names, and what only looks like one |
//! | `address` | addresses that no session may reach |
//! | `request` | the head of a request to the proxy |
//! | `hello` | the server name in a TLS `ClientHello` |
//! | `proxy` | one session's connections, and their limits |
//! | `relay` | bytes between two connections, counted |
//!
//! # What it does not see
//!
//! The proxy can't look into TLS. Whoever answers for an allowed host can pass data on, also to
//! another site behind the same address (a content network that honours a `Host` other than the
//! server name). `*.example.com` lets a session send data to the name servers of `example.com`, by
//! looking up names. List hosts that you would trust with the session's data.

mod address;
mod hello;
mod name;
mod policy;
mod proxy;
mod relay;
mod request;

use belljar_protocol::{Denial, DeniedReason};

pub use policy::{AllowList, AllowListError};
pub use proxy::Proxy;
pub use relay::SentBytes;

/// What a session may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing. Names can't be resolved either.
    #[default]
    None,
    /// The hosts of a list, over TLS or plain HTTP, through a proxy of the host.
    Allow(AllowList),
}
