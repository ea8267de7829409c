//! The list of a session's namespaces.
//!
//! The host decides which there are, and sends the name with each request. The guest makes one when a cell first runs in
//! it. So nothing that a guest says, and no checkpoint, changes the list.

use std::path::{Path, PathBuf};

use belljar_protocol::GuestNamespace;
use belljar_walls::HOME;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The namespace that every session has.
pub(crate) const MAIN: &str = "main";

/// The most namespaces of a session, the main one among them.
pub const MAX_NAMESPACES: usize = 16;
const MAX_NAME: usize = 64;
const MAX_DIRECTORY: usize = 4095;

/// A namespace of a session: global names of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Where its first cell starts. Later ones start where the one before was.
    pub directory: PathBuf,
}

/// The namespaces of a session, besides the main one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces(Vec<NamespaceEntry>);

#[derive(Clone, Debug)]
struct NamespaceEntry {
    name: String,
    directory: String,
    /// Whether no cell was sent to it.
    fresh: bool,
}

/// A namespace in the header of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedNamespace {
    name: String,
    directory: String,
}

impl Namespaces {
    pub(crate) fn add(&mut self, name: &str, directory: &str, fresh: bool) -> Result<(), Error> {
        let is_first = |byte: u8| byte.is_ascii_alphanumeric();
        let is_valid = |byte: u8| is_first(byte) || b"-_.".contains(&byte);
        let is_named = name.bytes().next().is_some_and(is_first) && name.bytes().all(is_valid);
        if !is_named || name.len() > MAX_NAME {
            return Err(Error::InvalidNamespace(
                "a name has 1 to 64 letters, digits, `-`, `_` and `.`, and starts with a letter or a digit",
            ));
        }
        if directory.len() > MAX_DIRECTORY || directory.contains('\0') {
            return Err(Error::InvalidNamespace("its directory is not a path"));
        }
        let refuse = |why: String| Err(Error::Namespace(why));
        if name == MAIN || self.find(name).is_some() {
            return refuse(format!("there is one named `{name}`"));
        }
        if self.0.len() + 1 >= MAX_NAMESPACES {
            return refuse(format!("the session has {MAX_NAMESPACES}, the maximum"));
        }
        self.0.push(NamespaceEntry {
            name: name.to_owned(),
            directory: directory.to_owned(),
            fresh,
        });
        Ok(())
    }

    /// Those of a snapshot, which anybody may have written.
    pub(crate) fn from_saved(saved: &[SavedNamespace]) -> Result<Self, Error> {
        let mut namespaces = Self::default();
        for SavedNamespace { name, directory } in saved {
            namespaces.add(name, directory, false)?;
        }
        Ok(namespaces)
    }

    pub(crate) fn to_saved(&self) -> Vec<SavedNamespace> {
        let saved = self.0.iter().map(|entry| SavedNamespace {
            name: entry.name.clone(),
            directory: entry.directory.clone(),
        });
        saved.collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|entry| entry.name.clone())
    }

    /// Their names and where their cells start, in a session with this workspace.
    pub(crate) fn directories(&self, workspace: &Path) -> Vec<(String, PathBuf)> {
        let all = self.0.iter();
        all.map(|entry| (entry.name.clone(), entry.directory(workspace)))
            .collect()
    }

    /// Removes one; false for the main one.
    ///
    /// # Errors
    /// [`Error::NoNamespace`].
    pub(crate) fn remove(&mut self, name: &str) -> Result<bool, Error> {
        self.check(name)?;
        let found = self.find(name);
        found.map(|at| self.0.remove(at));
        Ok(found.is_some())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|entry| entry.name == name)
    }

    /// Whether a namespace exists: its name, if it is not the main one.
    ///
    /// # Errors
    /// [`Error::NoNamespace`].
    pub(crate) fn check<'a>(&self, name: &'a str) -> Result<Option<&'a str>, Error> {
        match name {
            MAIN => Ok(None),
            _ if self.find(name).is_some() => Ok(Some(name)),
            _ => Err(Error::NoNamespace(name.chars().take(MAX_NAME).collect())),
        }
    }

    /// A namespace as the guest gets it, with its next cell; `None` for the main one.
    pub(crate) fn enter<'a>(
        &mut self,
        name: &'a str,
        workspace: &Path,
    ) -> Result<Option<GuestNamespace<'a>>, Error> {
        self.check(name)?;
        Ok(self.find(name).map(|at| GuestNamespace {
            name,
            directory: self.0[at].directory(workspace),
            fresh: std::mem::take(&mut self.0[at].fresh),
        }))
    }
}

impl NamespaceEntry {
    fn directory(&self, workspace: &Path) -> PathBuf {
        let given = Path::new(&self.directory);
        // A fork has a workspace of its own.
        let mut roots = ["/workspace", HOME].into_iter();
        let rest = roots.find_map(|root| given.strip_prefix(root).ok());
        let mut directory = workspace.to_owned();
        directory.extend(rest.unwrap_or(given));
        directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_number_are_bounded() {
        let mut namespaces = Namespaces::default();
        let long = "x".repeat(65);
        for name in [
            "", "main", "__main__", "_x", ".", "..", "../x", "a b", "a/b", "a\0", "ä", "-x", &long,
        ] {
            let refused = namespaces.add(name, "", true);
            let invalid = matches!(refused, Err(Error::InvalidNamespace(_)));
            assert!(invalid || name == MAIN && refused.is_err(), "{name}");
        }
        for directory in ["a\0b", &"x".repeat(4096)] {
            assert!(namespaces.add("a", directory, true).is_err());
        }
        for number in 1..MAX_NAMESPACES {
            namespaces.add(&format!("{number}"), "", true).unwrap();
        }
        assert!(namespaces.add("more", "", true).is_err());
        assert!(namespaces.add("1", "", true).is_err());
    }

    #[test]
    fn a_directory_of_the_workspace_is_that_of_the_fork() {
        let mut namespaces = Namespaces::default();
        let fork = Path::new("/forks/1");
        for (given, meant) in [
            ("", "/forks/1"),
            ("a/b", "/forks/1/a/b"),
            ("/workspace", "/forks/1"),
            ("/workspace/a", "/forks/1/a"),
            ("/home/user/a", "/forks/1/a"),
            ("/workspaces", "/workspaces"),
            ("/tmp/x", "/tmp/x"),
        ] {
            namespaces.add("a", given, true).unwrap();
            let found = namespaces.enter("a", fork).unwrap().unwrap();
            assert_eq!(found.directory, Path::new(meant));
            assert!(found.fresh && !namespaces.enter("a", fork).unwrap().unwrap().fresh);
            namespaces.0.clear();
        }
        assert!(namespaces.enter("main", fork).unwrap().is_none());
        assert!(matches!(
            namespaces.enter("a", fork),
            Err(Error::NoNamespace(_))
        ));
    }
}
