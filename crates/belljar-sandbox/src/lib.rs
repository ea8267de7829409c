//! Live Python sessions behind walls.
//!
//! An [`Engine`] keeps a warmed template of one [`Environment`] and forks [`Session`]s from it in
//! milliseconds. A session runs cells one after another in the same interpreter; each ends in a
//! typed [`Outcome`](belljar_protocol::Outcome).
//!
//! ```
//! use belljar_sandbox::{Engine, Environment, Limits};
//! use std::time::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any Python 3.10 or later; `EnvironmentStore` has named environments with locked packages.
//! let environment = Environment::from_python("/usr/bin/python3".as_ref())?;
//! let limits = Limits {
//!     wall_time: Duration::from_secs(5),
//!     memory_bytes: 512 << 20,
//!     ..Limits::default()
//! };
//! let engine = Engine::builder(environment).limits(limits).build();
//! let session = engine.session().await?;
//!
//! session.run("x = 20").await?;
//! let outcome = session.run("x + 22").await?;
//! assert_eq!(outcome.displays[0].text(), Some("42"));
//!
//! // What goes wrong in a cell is an outcome too, and says what became of the variables.
//! let outcome = session.run("x / 0").await?;
//! assert_eq!(outcome.exception.unwrap().type_name, "ZeroDivisionError");
//! assert!(session.manifest().await?.iter().any(|info| info.name == "x"));
//! # Ok(())
//! # }
//! ```
//!
//! # Who fails
//!
//! An [`Error`] is a fault of the host or of the caller. Whatever the program in a cell does, even
//! the loss of its process, is an outcome.
//!
//! # Cost and abuse
//!
//! A session costs the host about ten descriptors and nothing else while it is idle; what it writes
//! is bounded by [`Limits`], and what it sends is not believed. Code in a session is taken to be
//! hostile: see `ARCHITECTURE.md` for the processes that stand between it and the host.

mod allowance;
mod backend;
mod buffers;
mod capabilities;
mod disk;
mod engine;
mod engine_set;
mod environment;
mod error;
mod host_directory;
mod limits;
mod lock;
mod measure;
mod options;
mod permissions;
mod session;
mod snapshot_store;
mod state;
mod variables;

pub use backend::container::error::ContainerError;
pub use backend::host_memory::HostMemory;
pub use belljar_protocol as protocol;
pub use belljar_walls::{BeneathError, Entry, EntryKind, FileStatus, SessionUse, SetupError};
pub use capabilities::{Capabilities, Capability, Unsupported};
pub use disk::{DiskAllowance, DiskFull, DiskSpace};
pub use engine::{Engine, EngineBuilder};
pub use engine_set::{EngineSet, NotOffered};
pub use environment::{
    BuildStep, ContainerSpec, Environment, EnvironmentError, EnvironmentSpec, EnvironmentStore,
    Image, LockedPackage,
};
pub use error::Error;
pub use host_directory::{DirectoryError, HostDirectory, MAX_MOUNTS};
pub use limits::Limits;
pub use measure::BareForks;
pub use options::{Backend, Checkpoints, Rotation, SessionOptions};
pub use session::archive_plan::ArchiveError;
pub use session::cell::{Cell, MAX_LISTED, OnFailure, WhenBusy};
pub use session::commands::{
    Command, CommandCapture, CommandEnd, CommandProcess, OutputChunk, OutputPart, OutputStream,
    TerminalSize,
};
pub use session::files::Listing;
pub use session::namespace_list::{MAX_NAMESPACES, Namespace};
pub use session::namespaces::SessionNamespace;
pub use session::network::{AllowList, AllowListError, Network, Proxy, SentBytes};
pub use session::packages::{PackageError, PackageStore, Packages, Requirement, requires};
pub use session::port_error::PortError;
pub use session::ports::PortStream;
pub use session::table_error::TableError;
pub use session::tools::ToolSignature;
pub use session::tools_error::ToolsError;
pub use session::watch::{FileChange, FileEvent, Watch};
pub use session::{CellRun, Session};
pub use snapshot_store::{SavedSnapshot, SnapshotStore, StoreFuture};
pub use state::checkpoint::{Checkpoint, CheckpointRef};
pub use state::lifecycle::{DetachedSession, Settled};
pub use state::snapshot::{FileLeftOut, LoadReport, SnapshotError, SnapshotReport};
pub use variables::{SecretGrant, Secrets, VariableError, Variables};

/// The example of the page on the library, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;

/// The example of the page on checkpoints, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/checkpoints.md")]
struct CheckpointsPage;

/// The example of the page on isolation, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/choose-isolation.md")]
struct ChooseIsolationPage;

/// The example of the page on images, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/images.md")]
struct ImagesPage;

/// The example of the page on packages, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/packages.md")]
struct PackagesPage;

/// The examples of the page on tools, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tools.md")]
struct ToolsPage;
