//! Why a service does not start.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use belljar_sandbox::AllowListError;

use crate::tenants::TenantsError;

/// Error of starting a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Unusable file in the data directory.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Unreadable keys.
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    /// No valid key.
    #[error("all keys are revoked\nhint: create one with `belljar keys create`")]
    NoKey,
    /// Another service has the data directory.
    #[error("another service uses the data directory `{}`\nhint: give this one its own directory with \
     `--data`", .0.display())]
    InUse(PathBuf),
    /// Demo mode has no admin address.
    #[error(
        "a demo has no admin address: it needs no key, so everybody could use it\nhint: leave out `--admin`, or start without `--demo`"
    )]
    DemoAdmin,
    /// Admin address beyond loopback without TLS.
    #[error(
        "the admin address `{0}` is beyond loopback and has no TLS: admin keys could be read on the network\nhint: give `--tls-certificate` and `--tls-key`, listen on loopback, or allow it with `--insecure-admin`"
    )]
    InsecureAdmin(IpAddr),
    /// Invalid domain for ports.
    #[error(
        "`{0}` is not a domain name, so ports cannot have names below it\nhint: give `--ports-domain` a name such as `ports.example.org`, or `localhost`"
    )]
    PortsDomain(String),
    /// No random numbers.
    #[error("no random numbers are available")]
    NoRandom,
    /// Sessions cannot run.
    #[error(transparent)]
    Engine(#[from] belljar_sandbox::Error),
    /// Invalid entry of the allow-list.
    #[error(transparent)]
    AllowList(#[from] AllowListError),
}
