//! Packages that are installed into a live session.
//!
//! `uv` resolves them on the host and unpacks their wheels into a layer: a directory named by its
//! contents, kept in the data directory, and shown read-only to its sessions. The environment stays
//! as it is. Nothing of a package runs on the host.

mod requirement;
mod store;
mod suggest;
mod tree;
mod wheels;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::environment::{EnvironmentError, LockedPackage};
use crate::error::Error;
use crate::guest::Guest;
use crate::handle::SessionHandle;
use crate::session::Session;

pub use requirement::{Requirement, requires};
pub use store::PackageStore;

pub(crate) use suggest::suggestion;

/// Where sessions see layers.
const PLACE: &str = "/opt/packages";

/// The most layers that are taken from a snapshot: each may be a run of `uv`.
const MOST_LAYERS: usize = 64;

/// Which packages [`Session::install`] may install. Only wheels, always: to build a package from
/// source would run its code on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Packages {
    /// None.
    #[default]
    Deny,
    /// These names, and their dependencies. See [`Packages::allow`].
    Allow(BTreeSet<String>),
    /// Any.
    Any,
}

impl Packages {
    /// These names, in any spelling, and their dependencies.
    pub fn allow<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        let names = names.into_iter();
        Self::Allow(
            names
                .map(|name| requirement::normalise(name.as_ref()))
                .collect(),
        )
    }

    /// Whether a package of this name may be requested.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::Deny => false,
            Self::Allow(names) => names.contains(&requirement::normalise(name)),
            Self::Any => true,
        }
    }
}

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
    #[error("`{0}` cannot be installed: the package policy of this session does not allow it")]
    Denied(String),
    /// The engine was built without a package policy, so its sessions see no packages.
    #[error(
        "packages cannot be installed: this engine has no package policy\nhint: build the engine with a package policy"
    )]
    Off,
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
    fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// Packages of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// The hash of all of its files.
    pub(crate) content: String,
    /// Its packages.
    pub(crate) packages: Vec<LockedPackage>,
    /// Its directory in the store. Another store has another name for it.
    #[serde(skip)]
    name: String,
}

/// Where a guest of this session finds its layers.
pub(crate) fn paths(handle: &SessionHandle, layers: &[Layer]) -> Vec<PathBuf> {
    let place = match handle.warm.package_store() {
        Some(store) if handle.warm.cgroups().is_none() => store.layers(),
        _ => PathBuf::from(PLACE),
    };
    layers.iter().map(|layer| place.join(&layer.name)).collect()
}

/// The part of a store that the root of an engine's sessions shows.
pub(crate) fn mount(store: &PackageStore) -> Result<(PathBuf, PathBuf), PackageError> {
    Ok((store.prepare()?, PathBuf::from(PLACE)))
}

impl Session {
    /// Installs packages for this session alone; the next cell can import them. Returns the added
    /// ones: none if the environment has them. Waits for a running cell.
    ///
    /// Once installed, a package is available at once to every session of the same environment: see
    /// `docs/packages.md`.
    ///
    /// # Errors
    /// [`Error::Packages`]: the policy does not allow a package, it does not exist, it has no
    /// wheel, or its versions conflict with the environment. Nothing is added then.
    pub async fn install(&self, requirements: &[Requirement]) -> Result<Vec<LockedPackage>, Error> {
        let (handle, mut guest) = self.wires().await?;
        let Some(layer) = provide(&handle, &guest, requirements.to_vec()).await? else {
            return Ok(Vec::new());
        };
        let packages = layer.packages.clone();
        guest.layers.push(layer);
        Ok(packages)
    }
}

async fn provide(
    handle: &SessionHandle,
    guest: &Guest,
    requirements: Vec<Requirement>,
) -> Result<Option<Layer>, PackageError> {
    if requirements.is_empty() {
        return Ok(None);
    }
    let denied = |one: &&Requirement| !handle.packages.allows(one.name());
    if let Some(denied) = requirements.iter().find(denied) {
        return Err(PackageError::Denied(denied.name().to_owned()));
    }
    let store = handle.warm.package_store().ok_or(PackageError::Off)?;
    let (store, layers) = (Arc::clone(store), guest.layers.clone());
    let environment = handle.warm.environment().clone();
    blocking(move || store.provide(&environment, &layers, requirements)).await
}

/// Adds the layers of a snapshot, which may be hostile, to a new session. Returns what is missing.
pub(crate) async fn give_back(
    handle: &SessionHandle,
    guest: &mut Guest,
    layers: &[Layer],
) -> Vec<String> {
    let mut missing = Vec::new();
    if layers.len() > MOST_LAYERS {
        let more = layers.len() - MOST_LAYERS;
        missing.push(format!("{more} more installs of the saved session"));
    }
    for layer in layers.iter().take(MOST_LAYERS) {
        match find_again(handle, guest, layer).await {
            Ok(found) => guest.layers.extend(found),
            Err(error) => {
                missing.extend(layer.packages.iter().map(|package| {
                    format!("{} {} is missing: {error}", package.name, package.version)
                }));
            }
        }
    }
    missing
}

/// The same layer, or one with the same packages.
async fn find_again(
    handle: &SessionHandle,
    guest: &Guest,
    layer: &Layer,
) -> Result<Option<Layer>, PackageError> {
    let known = match handle.warm.package_store() {
        Some(store) if handle.packages != Packages::Deny => {
            let (store, content) = (Arc::clone(store), layer.content.clone());
            blocking(move || Ok(store.known(&content))).await?
        }
        _ => None,
    };
    // Our own record says what a layer holds, not the snapshot. One of its packages was requested,
    // and the others are its dependencies.
    if let Some(known) = known
        && known
            .packages
            .iter()
            .any(|one| handle.packages.allows(&one.name))
    {
        return Ok(Some(known));
    }
    let pins = layer
        .packages
        .iter()
        .map(|package| format!("{}=={}", package.name, package.version).parse::<Requirement>());
    provide(handle, guest, pins.collect::<Result<_, _>>()?).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PackageError> + Send + 'static,
) -> Result<T, PackageError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| PackageError::io("run", Path::new("uv"))(error.into()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_compare_names_as_indexes_do() {
        let list = Packages::allow(["Foo_Bar", "baz"]);
        assert!(list.allows("foo-bar") && list.allows("FOO.bar") && list.allows("baz"));
        assert!(!list.allows("foo") && !Packages::Deny.allows("baz") && Packages::Any.allows("x"));
    }
}
