//! The journal: append-only, durable events of runs, and blobs beside them.
//!
//! The journal is the only truth about a run. It doesn't know what the events mean: it keeps JSON
//! with a kind and a version, in order, and returns the same text.
//!
//! ```
//! use belljar_journal::{AppendError, Blobs, Journal, NewEvent, RunId, Timestamp};
//! use futures_util::StreamExt;
//! use serde_json::json;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let directory = temporary.path();
//! let journal = Journal::open(directory).await?;
//! let blobs = Blobs::open(directory, 64 << 20).await?;
//! let run: RunId = "run-1".parse()?;
//!
//! // A large value is a blob; the event has its hash.
//! let plot = blobs.put(b"not really a png".to_vec(), "image/png").await?;
//! let events = [
//!     NewEvent::new("task", 1, Timestamp::now(), &json!({"text": "Plot the sales."}))?,
//!     NewEvent::new("display", 1, Timestamp::now(), &json!({"image": plot}))?,
//! ];
//! assert_eq!(journal.append(&run, 0, &events).await?, 2);
//!
//! // A second writer whose view is outdated changes nothing.
//! let refused = journal.append(&run, 0, &events).await;
//! assert!(matches!(refused, Err(AppendError::Conflict { expected: 0, actual: 2 })));
//!
//! // The existing events, and then new ones.
//! let mut tail = journal.tail(&run, 1);
//! let entry = tail.next().await.unwrap()?;
//! assert_eq!((entry.seq, entry.kind.as_str()), (2, "display"));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Events of a run are numbered from 1, without gaps. A batch is there completely or not at all.
//! - An append that has returned survives the death of the process and of the machine.
//! - Of several appends after the same sequence number, one succeeds; the others get a conflict.
//! - New directories and files are private to this user.
//!
//! Events are not encrypted: don't put secrets into them.
//!
//! # Many nodes
//!
//! [`Journal::connect`] has the same events in PostgreSQL. There each run has one owner: a [`Node`]
//! claims it, and its appends are refused from the moment that another node has taken it over.
//!
//! [`Blobs::in_objects`] has blobs in a store that speaks S3's protocol, so that each node has them.
//!
//! # Files
//!
//! `journal.sqlite3`, with `-wal` and `-shm` while it is in use; `journal.lock`, held while it is
//! being opened; `blobs/ab/cdef…`. All of it must be on a local disk: locks and shared memory don't
//! work over a network.

mod blob_hash;
mod blobs;
mod directory;
mod error;
mod event;
#[doc(hidden)]
pub mod failpoint;
mod journal;
mod objects;
mod ownership;
mod postgres;
mod sqlite;
mod storage;
mod store;

/// Leases and beats, as each node judges them by its own clock. For simulations, which have a clock of their own: a
/// [`Node`] does all of this by itself.
pub mod leases {
    pub use crate::ownership::{Lease, Watch, beat_interval};
}

pub use blob_hash::{BlobHash, InvalidBlobHash};
pub use blobs::{BlobRef, Blobs};
pub use error::{AppendError, Error};
pub use event::{Entry, InvalidRunId, NewEvent, RunId, RunSummary, Timestamp};
pub use journal::Journal;
pub use objects::{FetchedObject, FileDigest, ObjectCredentials, Objects};
pub use ownership::{
    ClusterStatus, Eviction, Import, ImportedState, Membership, MovedSession, Node, NodeLoad,
    NodeOffer, NodeOptions, NodePlace, NodeStatus, OwnedRun, RunClaim, RunPlace, RunState,
    SessionPlace,
};
pub use postgres::{Database, DatabaseWrite, Migrations};
pub use storage::{StorageFault, WriteTransaction};
