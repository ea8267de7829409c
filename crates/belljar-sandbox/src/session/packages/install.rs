//! Packages of one session: installed on request, and again after a snapshot is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::PackageError;
use super::layer::Layer;
use super::policy::Packages;
use super::requirement::{Requirement, normalise};
use crate::capabilities::Capability;
use crate::environment::LockedPackage;
use crate::lock::lock;
use crate::session::guest::Guest;
use crate::session::handle::SessionHandle;

/// The most layers that are taken from a snapshot: each may be a run of `uv`.
const MOST_LAYERS: usize = 64;

/// Where a guest of this session finds its layers.
pub(crate) fn paths(handle: &SessionHandle, layers: &[Layer]) -> Vec<PathBuf> {
    let place = handle.backend.layers_in_sessions();
    layers.iter().map(|layer| place.join(&layer.name)).collect()
}

/// Installs packages; returns the added ones.
pub(crate) async fn install(
    handle: &SessionHandle,
    guest: &mut Guest,
    requirements: &[Requirement],
) -> Result<Vec<LockedPackage>, PackageError> {
    let Some(layer) = provide(handle, guest, requirements.to_vec()).await? else {
        return Ok(Vec::new());
    };
    let packages = layer.packages.clone();
    guest.layers.push(layer);
    *lock(&handle.package_paths) = paths(handle, &guest.layers);
    Ok(packages)
}

async fn provide(
    handle: &SessionHandle,
    guest: &Guest,
    mut requirements: Vec<Requirement>,
) -> Result<Option<Layer>, PackageError> {
    // What is there needs no permission: many cells begin by asking for it anyway.
    let there = handle.backend.environment().packages();
    requirements.retain(|one| {
        let is_there = |package: &LockedPackage| normalise(&package.name) == one.name();
        !one.is_name_alone() || !there.iter().any(is_there)
    });
    if requirements.is_empty() {
        return Ok(None);
    }
    let denied = |one: &&Requirement| !handle.packages.allows(one.name());
    if let Some(denied) = requirements.iter().find(denied) {
        return Err(PackageError::Denied(denied.name().to_owned()));
    }
    handle
        .backend
        .capabilities()
        .require(Capability::Packages)?;
    let store = handle.backend.package_store().ok_or(PackageError::Off)?;
    let (store, layers) = (Arc::clone(store), guest.layers.clone());
    let environment = handle.backend.environment().clone();
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
    *lock(&handle.package_paths) = paths(handle, &guest.layers);
    missing
}

/// The same layer, or one with the same packages.
async fn find_again(
    handle: &SessionHandle,
    guest: &Guest,
    layer: &Layer,
) -> Result<Option<Layer>, PackageError> {
    let known = match handle.backend.package_store() {
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
