//! Which packages a session may install.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::requirement::normalise;

/// Which packages [`Session::install`](crate::Session::install) may install. Only wheels, always: to build a package from
/// source would run its code on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        Self::Allow(names.map(|name| normalise(name.as_ref())).collect())
    }

    /// Whether a package of this name may be requested.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::Deny => false,
            Self::Allow(names) => names.contains(&normalise(name)),
            Self::Any => true,
        }
    }
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
