//! The container engine of an image: the same options wherever an image is named.

use std::path::PathBuf;

use belljar_sandbox::ContainerSpec;
use clap::Args;

/// The container engine of `--image`.
#[derive(Debug, Args)]
pub(crate) struct ContainerArgs {
    /// Docker or Podman, for `--image`; a `tcp://` address needs the certificates of `DOCKER_CERT_PATH` [default:
    /// `DOCKER_HOST`, or the local Docker]
    #[arg(long, value_name = "ADDRESS", requires = "image")]
    docker: Option<String>,
    /// Runtime of the containers, such as `runsc`, for `--image` [default: the engine's]
    #[arg(long, value_name = "NAME", requires = "image")]
    runtime: Option<String>,
}

impl ContainerArgs {
    pub(crate) fn spec(&self) -> ContainerSpec {
        container_spec(self.docker.clone(), self.runtime.clone())
    }
}

/// The container engine: the one that is named, or that of Docker's variables.
pub(crate) fn container_spec(address: Option<String>, runtime: Option<String>) -> ContainerSpec {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let certificates = set("DOCKER_CERT_PATH").map(PathBuf::from);
    ContainerSpec {
        address: address.or_else(|| set("DOCKER_HOST")),
        // An environment may be used from another directory than it was created in.
        certificates: certificates.map(|path| std::path::absolute(&path).unwrap_or(path)),
        runtime,
    }
}
