//! Why packages are not installed.

use std::path::{Path, PathBuf};

use crate::capabilities::Unsupported;
use crate::environment::EnvironmentError;

/// Why packages were not installed. The session continues unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// It is not a valid requirement.
    #[error(
        "`{}` is not a package requirement: {why}\nhint: write it like `pandas` or `pandas>=2`",
        belljar_protocol::visible(.text)
    )]
    Requirement {
        /// It.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The session's policy does not allow it.
    #[error(
        "`{0}` cannot be installed: the package policy of this session does not allow it\nhint: `belljar … --packages {0}` allows it, also for `belljar mcp` and `belljar serve`"
    )]
    Denied(String),
    /// The engine was built without a package policy, so its sessions see no packages.
    #[error(
        "packages cannot be installed: this engine has no package policy\nhint: build the engine with a package policy"
    )]
    Off,
    /// The session's backend has no place for packages.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// `uv` failed: no such package, no wheel for this Python, a conflict with the environment.
    #[error(
        "the packages could not be installed: `uv` {status} and printed:\n{output}\nhint: only wheels are installed, and the environment's own packages keep their versions; `belljar env create` builds an environment with others"
    )]
    Uv {
        /// How it ended.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// They are larger than a layer may be.
    #[error("the packages were not installed: they have more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A package contains something other than regular files.
    #[error("the package was not installed: its `{}` is not a regular file", belljar_protocol::visible(.0))]
    Odd(String),
    /// A package contains the metadata of another.
    #[error("the package was not installed: its `{}` is the metadata of another package", belljar_protocol::visible(.0))]
    Metadata(String),
    /// The host lacks `uv`, or a data directory.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A file operation failed.
    #[error("could not {action} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl PackageError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
