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
    /// The object store or the database of the cluster cannot be used.
    #[error(transparent)]
    Objects(#[from] belljar_journal::Error),
    /// A node of a cluster without what all nodes share.
    #[error(
        "a node of a cluster needs {0}, which all nodes share\nhint: give `--database` and `--objects`, the same for each node"
    )]
    NotShared(&'static str),
    /// Another service has the prefix of the object store.
    #[error(
        "another service uses this prefix of the object store\nhint: give this one its own prefix with `--objects`, or use \
         the data directory of the other one"
    )]
    ObjectsInUse,
    /// No data of a service in a directory.
    #[error("`{}` has no data of a service\nhint: give the directory that `belljar serve --data` has", .0.display())]
    NoData(PathBuf),
    /// A service uses the data that are to be imported.
    #[error("a service uses the data directory `{}`\nhint: stop it first", .0.display())]
    Running(PathBuf),
    /// A single node with an object store.
    #[error(
        "the service of `{}` has its hibernated sessions in an object store, which cannot be imported\nhint: wake or delete them \
         first", .0.display()
    )]
    InObjects(PathBuf),
    /// A cluster has another session with an id that is to be imported.
    #[error("the cluster has another session with the id `{0}`\nhint: import into a new cluster")]
    InCluster(String),
    /// A run cannot be imported.
    #[error(transparent)]
    Run(Box<belljar_agent::RunError>),
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
