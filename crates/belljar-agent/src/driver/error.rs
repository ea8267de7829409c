//! Why a run can't continue.

use std::path::PathBuf;

use belljar_journal::{AppendError, NodePlace, RunId, StorageFault};

use crate::run::{BRANCH, DecisionError, Misfit};

/// Why a run can't continue. Mistakes of the model or the code are part of the run instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The journal can't be read or written.
    #[error(transparent)]
    Journal(#[from] belljar_journal::Error),
    /// An event could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The journal's events are not those of a run.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// An event of the journal can't be read.
    #[error("event {seq} of the run cannot be read: {source}")]
    Event {
        /// Its number.
        seq: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The run was written by a newer Belljar.
    #[error(
        "the run was made by a newer Belljar: its events have version {version}\nhint: update Belljar"
    )]
    Newer {
        /// The version.
        version: u32,
    },
    /// The files of a run were stored too long ago.
    #[error("the run began too long after its files were stored\nhint: start it again")]
    BegunTooLate,
    /// Another process drives the run.
    #[error("the run `{0}` is driven by another process\nhint: wait for that process, or stop it")]
    Driven(RunId),
    /// Another node drives the run.
    #[error(
        "the run `{run}` is driven by node `{}`\nhint: ask that node, or wait until the run is given up", node.name
    )]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The node.
        node: NodePlace,
    },
    /// A cluster has other events of a run that is to be brought there.
    #[error(
        "the cluster has another run with the id `{0}`\nhint: import into a cluster that is new, or has not had this run"
    )]
    InCluster(RunId),
    /// The run may try alternatives, and a tool of the host has the name of the tool for that.
    #[error("a run with branches cannot have a tool of the name `{BRANCH}`")]
    ToolNamedBranch,
    /// The environment or the isolation that the run chose is not offered.
    #[error(transparent)]
    NotOffered(#[from] belljar_sandbox::NotOffered),
    /// The run has no such step, or it is not completed.
    #[error("the run has no completed step {0}")]
    NoStep(u32),
    /// A run that continues another one cannot be reproduced without the code of that one.
    #[error(
        "the run continues run `{0}`, whose code it does not have: that run had tools of the host\nhint: reproduce run `{0}`"
    )]
    ParentCode(String),
    /// Code of the run needed a person's approval, and could reach the network or this machine again.
    #[error(
        "code of step {step} needed approval, which was for one use\nhint: reproduce it without network access and with isolation"
    )]
    NeedsApproval {
        /// The step.
        step: u32,
    },
    /// A person's decision is refused.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// A session failed, or could not be started.
    #[error(transparent)]
    Session(#[from] belljar_sandbox::Error),
    /// A file can't be read or written.
    #[error("`{path}`: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl RunError {
    /// The storage fault behind this error, if it is one: the run can be resumed later.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        match self {
            Self::Journal(error) | Self::Append(AppendError::Journal(error)) => {
                error.storage_fault()
            }
            Self::File { source, .. } => StorageFault::from_io(source),
            Self::Session(belljar_sandbox::Error::Io { source, .. }) => {
                StorageFault::from_io(source)
            }
            _ => None,
        }
    }

    /// Whether another owner of the run, or this one later, can do better: nothing is wrong with the run itself.
    pub fn is_of_owner(&self) -> bool {
        matches!(
            self,
            Self::Append(AppendError::Fenced | AppendError::LeaseExpired)
                | Self::Journal(belljar_journal::Error::LifeOver)
                | Self::Driven(_)
                | Self::Elsewhere { .. }
        )
    }
}
