//! The names of a cell, and what they may mean.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{Expr, Parameters, StmtFunctionDef};

use super::earlier::{Earlier, Learned};
use super::known::{self, Class};
use super::value::{HOLE, Value, Values};

/// The scope of the module. Any other is that of the function which starts there.
const MODULE: u32 = 0;

/// A function whose calls in the cell tell what its parameters are.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) scope: u32,
    pub(super) parameters: Vec<String>,
    /// Parameters that a call does not give: `self`.
    pub(super) skipped: usize,
}

/// What is known while a cell is read. Order is not looked at, as functions run later.
pub(super) struct Scopes<'e> {
    pub(super) earlier: &'e Earlier,
    names: BTreeMap<u32, BTreeMap<String, Values>>,
    slots: BTreeMap<String, Values>,
    returns: BTreeMap<String, Values>,
    pub(super) functions: BTreeMap<String, Vec<Function>>,
    pub(super) stars: BTreeSet<String>,
    globals: BTreeSet<(u32, String)>,
    replaced: BTreeSet<String>,
    /// The scopes around what is read, the innermost last.
    chain: Vec<u32>,
    /// Whether something was learned since it was last asked.
    changed: bool,
    /// Whether all is learned: what has no value now may be anything.
    pub(super) is_settled: bool,
    classes: RefCell<BTreeMap<String, Class>>,
    /// What expressions are, by where they are in memory, once all is learned.
    pub(super) seen: RefCell<BTreeMap<usize, Values>>,
}

impl<'e> Scopes<'e> {
    pub(super) fn new(earlier: &'e Earlier) -> Self {
        Self {
            earlier,
            names: BTreeMap::new(),
            slots: BTreeMap::new(),
            returns: BTreeMap::new(),
            functions: BTreeMap::new(),
            stars: earlier.stars.clone(),
            globals: BTreeSet::new(),
            replaced: BTreeSet::new(),
            chain: vec![MODULE],
            changed: false,
            is_settled: false,
            classes: RefCell::default(),
            seen: RefCell::default(),
        }
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn enter(&mut self, scope: u32) {
        self.chain.push(scope);
    }

    pub(super) fn leave(&mut self) {
        if self.chain.len() > 1 {
            self.chain.pop();
        }
    }

    fn inner(&self) -> u32 {
        self.chain.last().copied().unwrap_or(MODULE)
    }

    pub(super) fn is_module(&self) -> bool {
        self.chain.len() == 1
    }

    /// What a name may mean here.
    pub(super) fn meanings(&self, name: &str) -> Values {
        let fixed = |mut values: Values| {
            // A binding does not hide what is there anyway.
            if known::is_risky_builtin(name)
                || known::is_everywhere(name) && !known::is_common_word(name)
            {
                values.add(Value::Named(name.to_owned()));
            }
            values
        };
        for scope in self.chain.iter().rev() {
            if let Some(values) = self.names.get(scope).and_then(|names| names.get(name)) {
                let mut values = values.clone();
                if *scope == MODULE
                    && let Some(before) = self.earlier.names.get(name)
                {
                    values.extend(before);
                }
                if values.is_empty() && self.is_settled {
                    values.add(Value::Any);
                }
                return fixed(values);
            }
        }
        let mut found = Values::default();
        if let Some(values) = self.earlier.names.get(name) {
            found.extend(values);
        }
        for module in &self.stars {
            found.add(Value::Named(known::rooted(&format!("{module}.{name}"))));
        }
        if found.is_empty() {
            let is_known = !known::is_common_word(name)
                && (is_builtin(name) || known::import(known::usual(name)).is_none())
                || known::class(name) != known::Class::Fine && !known::is_common_word(name);
            found.add(match () {
                () if is_known || known::usual(name) != name => {
                    Value::Named(known::usual(name).to_owned())
                }
                () if self.earlier.lost => Value::Hidden,
                () => Value::Any,
            });
        }
        fixed(found)
    }

    /// What naming a path means.
    pub(super) fn class(&self, path: &str) -> Class {
        if let Some(class) = self.classes.borrow().get(path) {
            return *class;
        }
        let class = known::class(path);
        self.classes.borrow_mut().insert(path.to_owned(), class);
        class
    }

    /// What an attribute of something that was not followed may be.
    pub(super) fn slot(&self, name: &str) -> Values {
        let mut found = self.slots.get(name).cloned().unwrap_or_default();
        if let Some(values) = self.earlier.slots.get(name) {
            found.extend(values);
        }
        found
    }

    /// What a function gives that code defines.
    pub(super) fn returned(&self, name: &str) -> Values {
        let mut found = self.returns.get(name).cloned().unwrap_or_default();
        if let Some(values) = self.earlier.returns.get(name) {
            found.extend(values);
        }
        found
    }

    pub(super) fn bind(&mut self, name: &str, values: &Values) {
        let inner = self.inner();
        let is_global = self.globals.contains(&(inner, name.to_owned()));
        self.bind_in(if is_global { MODULE } else { inner }, name, values);
    }

    /// A name that has no other meaning after this, if the cell is run to its end.
    pub(super) fn replace(&mut self, name: &str) {
        self.replaced.insert(name.to_owned());
    }

    pub(super) fn global(&mut self, name: &str) {
        let inner = self.inner();
        self.globals.insert((inner, name.to_owned()));
    }

    pub(super) fn bind_in(&mut self, scope: u32, name: &str, values: &Values) {
        let names = self.names.entry(scope).or_default();
        let known = names.entry(name.to_owned()).or_default();
        self.changed |= known.grow(values);
    }

    pub(super) fn set_slot(&mut self, name: &str, values: &Values) {
        let known = self.slots.entry(name.to_owned()).or_default();
        self.changed |= known.grow(values);
    }

    pub(super) fn set_returned(&mut self, name: &str, values: &Values) {
        let known = self.returns.entry(name.to_owned()).or_default();
        self.changed |= known.grow(values);
    }

    /// The parameters of a function or lambda, as far as its definition tells.
    pub(super) fn parameters(&mut self, scope: u32, parameters: &Parameters, is_method: bool) {
        for (place, parameter) in parameters.iter().enumerate() {
            let name = parameter.as_parameter().name.id.as_str();
            let mut values = match parameter.default() {
                Some(default) => self.eval(default),
                None => Values::default(),
            };
            if is_method && place == 0 {
                values.add(Value::Own);
            }
            if parameter
                .annotation()
                .is_some_and(|annotation| self.is_path(annotation))
            {
                values.add(Value::Path(HOLE.to_string()));
            }
            self.bind_in(scope, name, &values);
        }
    }

    fn is_path(&self, annotation: &Expr) -> bool {
        let values = self.eval(annotation);
        values.paths().any(|path| path.starts_with("pathlib."))
    }

    /// Remembers a function by its name, so that its calls can tell its parameters.
    pub(super) fn define(&mut self, name: &str, function: &StmtFunctionDef, skipped: usize) {
        let known = self.functions.entry(name.to_owned()).or_default();
        let scope = scope_of(function);
        if known.len() < 8 && known.iter().all(|other| other.scope != scope) {
            let parameters = function.parameters.iter();
            let parameters = parameters.map(|part| part.as_parameter().name.id.to_string());
            known.push(Function {
                scope,
                parameters: parameters.collect(),
                skipped,
            });
            self.changed = true;
        }
    }

    /// What the cell tells the later ones.
    pub(super) fn learned(self, written: BTreeSet<String>) -> Learned {
        let mut names = self.names;
        Learned {
            names: names.remove(&MODULE).unwrap_or_default(),
            replaced: self.replaced,
            slots: self.slots,
            returns: self.returns,
            stars: self.stars,
            written,
            unread: false,
        }
    }
}

/// The scope of a function.
pub(super) fn scope_of(function: &StmtFunctionDef) -> u32 {
    function.range.start().to_u32() + 1
}

fn is_builtin(name: &str) -> bool {
    ruff_python_stdlib::builtins::is_python_builtin(name, super::NEWEST, true)
}
