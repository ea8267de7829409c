//! Installed packages, as a session has them.

use serde::{Deserialize, Serialize};

use crate::environment::LockedPackage;

/// Packages of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// The hash of all of its files.
    pub(crate) content: String,
    /// Its packages.
    pub(crate) packages: Vec<LockedPackage>,
    /// Its directory in the store. Another store has another name for it.
    #[serde(skip)]
    pub(super) name: String,
}
