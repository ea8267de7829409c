//! What the cells of a session have made known: it is part of the run, and made of its events alone.

use std::collections::{BTreeMap, BTreeSet};

use belljar_protocol::NameInfo;
use serde::{Deserialize, Serialize};

use super::known;
use super::value::{Value, Values};

/// The most names, attributes and functions that are remembered.
const MOST: usize = 400;

/// The most modules that were written, and that all names were imported of.
const MODULES: usize = 64;

/// What earlier cells say about the names that a cell uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Earlier {
    pub(super) names: BTreeMap<String, Values>,
    /// By the name of the attribute, whatever it is one of.
    pub(super) slots: BTreeMap<String, Values>,
    /// What functions give, by their name; methods with a dot before it.
    pub(super) returns: BTreeMap<String, Values>,
    /// Modules that all names were imported of.
    pub(super) stars: BTreeSet<String>,
    /// Modules whose code was written to the workspace.
    pub(super) written: BTreeSet<String>,
    /// Whether there was more than is remembered: a name may then be anything.
    pub(super) lost: bool,
}

/// What one cell adds.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) names: BTreeMap<String, Values>,
    /// Those of the names that have no other meaning after the cell, if all of it ran.
    pub(super) replaced: BTreeSet<String>,
    pub(super) slots: BTreeMap<String, Values>,
    pub(super) returns: BTreeMap<String, Values>,
    pub(super) stars: BTreeSet<String>,
    pub(super) written: BTreeSet<String>,
    /// Whether it could not be read.
    pub(super) unread: bool,
}

impl Earlier {
    /// Takes in what a cell has made known. Where it failed, what was before may hold too.
    pub(super) fn add(&mut self, learned: Learned, failed: bool) {
        if !failed {
            for name in &learned.replaced {
                self.names.remove(name);
            }
        }
        self.lost |= learned.unread;
        for (into, from) in [
            (&mut self.names, learned.names),
            (&mut self.slots, learned.slots),
            (&mut self.returns, learned.returns),
        ] {
            for (name, values) in from {
                if values.is_dull() && !into.contains_key(&name) {
                    continue;
                }
                if into.len() >= MOST && !into.contains_key(&name) {
                    self.lost |= !values.is_plain();
                    continue;
                }
                into.entry(name).or_default().extend(&values);
            }
        }
        for (into, from) in [
            (&mut self.stars, learned.stars),
            (&mut self.written, learned.written),
        ] {
            into.extend(from);
            self.lost |= into.len() > MODULES;
            while into.len() > MODULES {
                into.pop_last();
            }
        }
    }

    /// With the names of a namespace that nothing else is known of: a module is an unknown
    /// one, unless its name says which.
    pub(crate) fn with_manifest(&self, manifest: &[NameInfo]) -> Self {
        let mut all = self.clone();
        for info in manifest {
            if all.names.contains_key(&info.name) {
                continue;
            }
            let usual = known::usual(&info.name);
            let value = match info.type_name.as_str() {
                "module" if known::import(usual).is_none() => Value::Named(usual.to_owned()),
                "module" => Value::Hidden,
                kind if kind.starts_with("pathlib.") => Value::Path("\u{fffc}".into()),
                kind if known::is_data(kind) => Value::Plain,
                _ => continue,
            };
            all.names.insert(info.name.clone(), Values::one(value));
        }
        all
    }
}
