//! What a backend is started with.

use belljar_protocol::Walls;

use crate::environment::Environment;
use crate::host_directory::HostDirectory;
use crate::options::{Backend, Rotation};
use crate::session::packages::{PackageError, PackageStore, Packages};

/// What a backend is started with.
#[derive(Clone, Debug)]
pub(crate) struct BackendSpec {
    pub(crate) environment: Environment,
    pub(crate) backend: Backend,
    pub(crate) rotation: Rotation,
    pub(crate) prepared_sandboxes: usize,
    pub(crate) packages: Packages,
    /// The package store, if not the default one.
    pub(crate) package_store: Option<PackageStore>,
    pub(crate) walls: Walls,
    /// Directories of the host that its sessions can have.
    pub(crate) directories: Vec<HostDirectory>,
}

impl BackendSpec {
    /// The package store, if sessions may have packages.
    pub(super) fn open_package_store(&self) -> Result<Option<PackageStore>, PackageError> {
        match (&self.package_store, &self.packages) {
            (Some(store), _) => Ok(Some(store.clone())),
            (None, Packages::Deny) => Ok(None),
            (None, _) => Ok(Some(PackageStore::open_default()?)),
        }
    }
}
