//! Environments that are container images.

use std::path::PathBuf;

use belljar_protocol::Attest;
use serde::{Deserialize, Serialize};

use super::version::PythonVersion;
use super::{Environment, LockedPackage};

/// The container engine, Docker or Podman, of an [image](crate::Environment::from_image).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Its address, `unix://…` or `tcp://…`. `None`: the socket of Docker on this host.
    pub address: Option<String>,
    /// The directory with `ca.pem`, `cert.pem` and `key.pem`, for an address that is not a local socket.
    pub certificates: Option<PathBuf>,
    /// The runtime that the engine uses for the containers, `runsc` for example. `None`: the engine's default.
    pub runtime: Option<String>,
}

/// A container image, and the engine that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its name, as the engine knows it.
    pub name: String,
    /// Its digest when it was looked at: sessions start from exactly this one, whatever has the name by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The engine.
    pub container: ContainerSpec,
}

impl Image {
    /// What the engine is asked for.
    pub(crate) fn reference(&self) -> &str {
        self.digest.as_deref().unwrap_or(&self.name)
    }
}

impl Environment {
    /// An environment that is an image, as a container of it describes itself.
    pub(crate) fn of_image(image: Image, attest: Attest) -> Self {
        let (major, minor, micro) = attest.python;
        let package = |(name, version)| LockedPackage {
            name,
            version,
            hashes: Vec::new(),
        };
        let mut packages: Vec<_> = attest.packages.into_iter().map(package).collect();
        packages.sort();
        Self {
            name: format!("image:{}", image.name),
            python: PathBuf::from(attest.executable),
            version: PythonVersion(major, minor, micro),
            packages,
            preload: attest.modules,
            preload_is_usual: true,
            fonts: Vec::new(),
            read_only_paths: Vec::new(),
            image: Some(image),
        }
    }
}
