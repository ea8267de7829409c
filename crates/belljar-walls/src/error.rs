//! Why walls could not be raised, or a process not be put behind them.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// Why walls could not be raised, or a process not be put behind them.
///
/// A step is text and not an enum: there are a hundred of them, each ends the process that takes it, and which one it
/// was is for a person. What callers can act on is the system's error, and the variants beside [`Self::Step`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The system refused a step.
    #[error("{step}: {source}")]
    Step {
        /// The step.
        step: Cow<'static, str>,
        /// What the kernel said.
        source: io::Error,
    },
    /// The system refused what a process is to be reached by.
    #[error("{0}")]
    System(#[source] io::Error),
    /// The kernel's version of Landlock is too old.
    #[error(
        "this kernel has version {version} of Landlock, but {floor} is needed (Linux 5.19 or later)"
    )]
    OldLandlock {
        /// The kernel's.
        version: u32,
        /// The oldest that sessions can use.
        floor: u32,
    },
    /// The kernel has no Landlock.
    #[error(
        "this kernel has no Landlock, or it is disabled (see `lsm=` of the kernel command line)"
    )]
    NoLandlock,
    /// What is to be shown as a directory is none.
    #[error("it is not a directory")]
    NotDirectory,
    /// A session would create files of root.
    #[error(
        "it belongs to root, and so would all files that the session creates: give it to another user, or mount it read-only"
    )]
    OwnedByRoot,
    /// A directory of the host can't be shown without what is mounted below it.
    #[error("other file systems are mounted below it, which could be seen then")]
    MountsBelow,
    /// A directory of the engine can't be offered to sessions.
    #[error("the directory {}: {source}", path.display())]
    Directory {
        /// Where it is on the host.
        path: PathBuf,
        /// Why.
        source: Box<Self>,
    },
    /// A process of ours is not as the others need it: a message without its descriptors, a parent that is gone.
    #[error("{0}")]
    Process(&'static str),
    /// The error of another process behind the walls, which sent it as text.
    #[error("{0}")]
    Reported(String),
}

/// Adds the failed step to an error of the system.
pub(crate) trait StepContext<T> {
    fn step(self, step: impl Into<Cow<'static, str>>) -> Result<T, SetupError>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn step(self, step: impl Into<Cow<'static, str>>) -> Result<T, SetupError> {
        self.map_err(|error| SetupError::Step {
            step: step.into(),
            source: error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// The texts go to people, and over channels to the host.
    #[test]
    fn the_step_stands_before_the_error_of_the_system() {
        let refused: Result<(), _> = Err(rustix::io::Errno::PERM);
        let error = refused.step("mounting /proc").unwrap_err();
        assert_eq!(
            error.to_string(),
            "mounting /proc: Operation not permitted (os error 1)"
        );
        assert!(error.source().is_some());
        let error = SetupError::Directory {
            path: "/srv/data".into(),
            source: Box::new(error),
        };
        assert_eq!(
            error.to_string(),
            "the directory /srv/data: mounting /proc: Operation not permitted (os error 1)"
        );
        assert_eq!(
            SetupError::OldLandlock {
                version: 1,
                floor: 2
            }
            .to_string(),
            "this kernel has version 1 of Landlock, but 2 is needed (Linux 5.19 or later)"
        );
    }
}
