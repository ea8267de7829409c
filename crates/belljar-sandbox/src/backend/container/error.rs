//! Why a container could not be had.

use std::io;
use std::path::PathBuf;

/// Why a container could not be had, so that nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The address of a container engine can't be used.
    #[error("`{address}` is not the address of a container engine: {why}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// The container engine does not answer.
    #[error(
        "the container engine at {address} cannot be reached: {source}\nhint: start Docker or Podman, or name its address with `--docker` or DOCKER_HOST"
    )]
    Unreachable {
        /// Its address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The container engine took too long.
    #[error("the container engine did not answer within {seconds} seconds ({what})")]
    Silent {
        /// What it was asked for.
        what: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// The container engine refused a request.
    #[error("the container engine refused to {what}: {message}")]
    Engine {
        /// What it was asked for.
        what: &'static str,
        /// Its words.
        message: String,
    },
    /// The engine has no such image.
    #[error(
        "the container engine has no image `{image}`\nhint: get it with `docker pull {image}`: Belljar downloads no images"
    )]
    NoImage {
        /// The image.
        image: String,
    },
    /// The engine no longer has the image that the environment was made from.
    #[error(
        "the container engine no longer has `{image}` as the environment was created from it ({digest})\nhint: get that version again, or remove the environment and create it again"
    )]
    ImageGone {
        /// The image.
        image: String,
        /// Its digest then.
        digest: String,
    },
    /// gVisor is not installed.
    #[error(
        "gVisor's `runsc` was not found in PATH\nhint: install it (https://gvisor.dev/docs/user_guide/install), or use other walls"
    )]
    NoRunsc,
    /// gVisor is too old, or of an unknown age.
    #[error(
        "`{program}` says `{version}`, and a version of 2024 or later is needed\nhint: install a newer one (https://gvisor.dev/docs/user_guide/install)"
    )]
    OldRunsc {
        /// The program.
        program: PathBuf,
        /// What it says.
        version: String,
    },
    /// `runsc` could not be started.
    #[error("gVisor's `runsc` did not start a sandbox: {0}")]
    Runsc(String),
    /// A wall that a session needs is missing in the container.
    #[error("the container is not closed enough to run untrusted code: {}", .0.join("; "))]
    Walls(Vec<String>),
    /// The image can't run sessions.
    #[error("sessions cannot run in this image: {0}")]
    Image(String),
    /// The process of ours in the container did not do its part.
    #[error("the container did not start a session: {0}")]
    Steward(String),
}
