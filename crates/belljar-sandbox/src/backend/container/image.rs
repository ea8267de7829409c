//! An image of a sandbox whose interpreter has imported its modules, and waits for its session. Further sandboxes are
//! restored from it, which takes a tenth of the time of the imports.
//!
//! The second session of a tenant makes it, so that programs with one session don't pay for it. Nothing of that session
//! is in its sandbox then. The image is in the engine's own directory, and goes with it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::limits::Limits;
use crate::lock::lock;

/// The most images of an engine, each of some 80 MB: one for each tenant, none of whom shares a memory layout with
/// another. Further tenants' sessions are not restored.
const MOST: usize = 8;

/// The images of one engine.
#[derive(Debug)]
pub(super) struct SandboxImages {
    directory: PathBuf,
    attempts: AtomicU64,
    tenants: Mutex<HashMap<Option<String>, State>>,
}

#[derive(Debug)]
enum State {
    /// The next session makes one.
    Wanted,
    Making,
    Ready(Arc<SandboxImage>),
    /// It can't be made or used here.
    Off,
}

/// An image.
#[derive(Debug)]
pub(super) struct SandboxImage {
    directory: PathBuf,
    sizes: Sizes,
    /// Memory of its interpreter.
    pub(super) data_bytes: u64,
}

/// The limits that are part of a sandbox when it starts. The others are those of its cgroup, or come with the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    open_files: u64,
    temporary_bytes: u64,
    workspace_bytes: u64,
}

/// What a session has to do with an image.
#[derive(Debug)]
pub(super) enum ImagePlan {
    /// Nothing.
    None,
    /// Its sandbox is restored from it.
    Restore(Arc<SandboxImage>),
    /// Its sandbox is saved as the image, and continues.
    Make(ImageMaker),
}

/// Whoever makes an image. Dropped before it has, another may.
#[derive(Debug)]
pub(super) struct ImageMaker {
    images: Arc<SandboxImages>,
    tenant: Option<String>,
    directory: PathBuf,
    sizes: Sizes,
}

impl SandboxImages {
    pub(super) fn new(directory: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            directory,
            attempts: AtomicU64::new(1),
            tenants: Mutex::default(),
        })
    }

    /// For a session that starts now.
    pub(super) fn plan(self: &Arc<Self>, tenant: Option<&str>, limits: &Limits) -> ImagePlan {
        let tenant = tenant.map(str::to_owned);
        let sizes = Sizes::from(limits);
        let mut tenants = lock(&self.tenants);
        let count = tenants.len();
        match tenants.get_mut(&tenant) {
            None if count < MOST => drop(tenants.insert(tenant, State::Wanted)),
            Some(state @ State::Wanted) => {
                *state = State::Making;
                // Each attempt has a name of its own.
                let number = self.attempts.fetch_add(1, Ordering::Relaxed);
                let name = format!("image-{number}");
                return ImagePlan::Make(ImageMaker {
                    images: Arc::clone(self),
                    tenant,
                    directory: self.directory.join(name),
                    sizes,
                });
            }
            Some(State::Ready(image)) if image.sizes == sizes => {
                return ImagePlan::Restore(Arc::clone(image));
            }
            _ => {}
        }
        ImagePlan::None
    }

    /// No session of a tenant is restored any more.
    pub(super) fn give_up(&self, tenant: Option<&str>) {
        lock(&self.tenants).insert(tenant.map(str::to_owned), State::Off);
    }
}

impl SandboxImage {
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }
}

impl ImageMaker {
    /// Where it is to be.
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// It is there.
    pub(super) fn finish(&self, data_bytes: u64) {
        self.replace(State::Ready(Arc::new(SandboxImage {
            directory: self.directory.clone(),
            sizes: self.sizes,
            data_bytes,
        })));
    }

    fn replace(&self, next: State) {
        let mut tenants = lock(&self.images.tenants);
        if let Some(state @ State::Making) = tenants.get_mut(&self.tenant) {
            *state = next;
        }
    }
}

impl Drop for ImageMaker {
    fn drop(&mut self) {
        self.replace(State::Wanted);
    }
}

impl From<&Limits> for Sizes {
    fn from(limits: &Limits) -> Self {
        Self {
            open_files: limits.open_files,
            temporary_bytes: limits.temporary_bytes,
            workspace_bytes: limits.workspace_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_session_makes_it_and_later_ones_are_restored() {
        let images = SandboxImages::new("/engine".into());
        let limits = Limits::default();
        let plan = |limits: &Limits| images.plan(Some("a"), limits);
        assert!(matches!(plan(&limits), ImagePlan::None));
        // Dropped before it was made.
        assert!(matches!(plan(&limits), ImagePlan::Make(_)));
        let ImagePlan::Make(maker) = plan(&limits) else {
            panic!("nobody makes it")
        };
        assert!(matches!(plan(&limits), ImagePlan::None));
        maker.finish(7);
        let made = maker.path().to_owned();
        drop(maker);
        let ImagePlan::Restore(image) = plan(&limits) else {
            panic!("nobody uses it")
        };
        assert_eq!((image.path(), image.data_bytes), (&*made, 7));
        let other = Limits {
            workspace_bytes: 1,
            ..limits.clone()
        };
        assert!(matches!(plan(&other), ImagePlan::None));
        assert!(matches!(images.plan(None, &limits), ImagePlan::None));
        assert!(matches!(images.plan(None, &limits), ImagePlan::Make(_)));
        images.give_up(Some("a"));
        assert!(matches!(plan(&limits), ImagePlan::None));
        for tenant in 0..MOST {
            images.plan(Some(&tenant.to_string()), &limits);
        }
        let last = (MOST - 1).to_string();
        assert!(matches!(images.plan(Some(&last), &limits), ImagePlan::None));
    }
}
