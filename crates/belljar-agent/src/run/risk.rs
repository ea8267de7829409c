//! The capabilities of a cell, as far as its code shows before it runs.
//!
//! This informs a person, and decides under a policy whether one is asked. It is not a wall: Python
//! has endless ways to do a thing without naming it, and whoever wants to get past this will. A
//! session's walls, its network and its grants limit what it can really do. So this is meant to be
//! right about code that hides nothing, to report hidden effects as "unknown", and to stay silent
//! about plain work with data.
//!
//! A cell is read twice. First [`bind`] learns which [values](value) its names may have: modules under
//! other names, texts, paths, what functions are given and give. What [earlier] cells told is taken in.
//! Then [`look`] goes through every name, attribute, import and [call](calls), and judges it by what is
//! [known] of modules and methods: a module or a name of one that is not known to be harmless asks.

mod bind;
mod calls;
mod earlier;
mod eval;
mod files;
mod finding;
mod known;
mod look;
mod reach;
mod results;
mod scope;
mod target;
mod value;

use std::collections::BTreeSet;

use ruff_python_ast::Mod;
use ruff_python_ast::visitor::Visitor as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dialect::with_syntax;
use earlier::Learned;
use look::Look;
use scope::Scopes;

pub(crate) use earlier::Earlier;
pub use finding::{Capability, Finding};

use finding::{NEWEST, SHOWN};

/// The capabilities of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Risk {
    /// The findings, by line. What is found several times is listed at its first line.
    pub findings: Vec<Finding>,
    /// The modules that it imports: of dotted names the first part.
    pub imports: Vec<String>,
}

impl Risk {
    /// All of its capabilities.
    pub fn capabilities(&self) -> BTreeSet<Capability> {
        self.findings.iter().map(|found| found.capability).collect()
    }

    /// Whether some of it is [risky](Capability::is_risky).
    pub fn is_risky(&self) -> bool {
        self.findings
            .iter()
            .any(|found| found.capability.is_risky())
    }
}

/// The capabilities of a cell, from its code alone. For people and policies: it is not a wall.
pub fn risk(code: &str) -> Risk {
    Earlier::default().risk(code)
}

/// The capabilities of a line for the shell: those of Python code that runs it. So a command is never judged safer than a
/// cell that does the same.
pub(super) fn command_risk(line: &str) -> Risk {
    // A string of JSON is one of Python.
    let line = serde_json::Value::from(line);
    let mut risk = risk(&format!("import os\nos.system({line})"));
    risk.imports.clear();
    for finding in &mut risk.findings {
        finding.line = 1;
    }
    risk
}

impl Earlier {
    /// The capabilities of a cell that follows the known ones.
    pub(crate) fn risk(&self, code: &str) -> Risk {
        self.read(code).0
    }

    /// Adds a cell. If it failed, some of it may not have run.
    pub(crate) fn learn(&mut self, code: &str, failed: bool) {
        let (_, learned) = self.read(code);
        self.add(learned, failed);
    }

    fn read(&self, code: &str) -> (Risk, Learned) {
        let looked = with_syntax(code, |parsed| {
            let mut scopes = Scopes::new(self);
            if let Mod::Module(module) = parsed.syntax() {
                bind::bind(&mut scopes, &module.body);
            }
            let mut look = Look::new(code, scopes);
            look.comments(code);
            if let Mod::Module(module) = parsed.syntax() {
                look.visit_body(&module.body);
            }
            if let Some(error) = parsed.errors().first() {
                let at = error.location.start().to_usize();
                look.find(Capability::Unknown, "code that is not Python", at);
                look.commands(code);
            }
            let learned = look.scopes.learned(look.written);
            (first_of_each(look.findings), look.imports, learned)
        });
        let Some((findings, imports, learned)) = looked else {
            let empty = Self::default();
            let mut look = Look::new(code, Scopes::new(&empty));
            look.comments(code);
            let what = "code that is too long to look through";
            look.find(Capability::Unknown, what, 0);
            let risk = Risk {
                findings: first_of_each(look.findings),
                imports: Vec::new(),
            };
            let learned = Learned {
                unread: true,
                ..Learned::default()
            };
            return (risk, learned);
        };
        let imports = imports.into_iter().collect();
        (Risk { findings, imports }, learned)
    }
}

/// What is found several times, at its first line.
fn first_of_each(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|one, other| {
        let key = |found: &Finding| (found.capability, found.line);
        one.what.cmp(&other.what).then(key(one).cmp(&key(other)))
    });
    findings
        .dedup_by(|next, first| (next.capability, &next.what) == (first.capability, &first.what));
    findings.sort();
    findings
}

#[cfg(test)]
mod tests;
