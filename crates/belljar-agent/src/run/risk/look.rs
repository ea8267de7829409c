//! The findings of a cell: every name, attribute, import and call is looked at once.

use std::collections::BTreeSet;

use belljar_protocol::visible;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Arguments, Expr, ExprAttribute, ExprContext, Stmt, StmtImportFrom};

use super::calls::first_text;
use super::eval::is_of_text;
use super::known::{self, Class};
use super::scope::{Scopes, scope_of};
use super::value::{Value, Values};
use super::{Capability, Finding, NEWEST, SHOWN};

/// How a name or an attribute is used.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Use<'a> {
    /// It is called.
    Call(&'a Arguments),
    /// It gets another name, or is only looked at.
    Alias,
    /// It is handed on: to a function, into a container.
    Value,
}

pub(super) struct Look<'e> {
    pub(super) scopes: Scopes<'e>,
    /// Where each line starts.
    lines: Vec<usize>,
    pub(super) findings: Vec<Finding>,
    pub(super) imports: BTreeSet<String>,
    /// Modules whose code the cell writes.
    pub(super) written: BTreeSet<String>,
}

impl<'e> Look<'e> {
    pub(super) fn new(code: &str, scopes: Scopes<'e>) -> Self {
        let feeds = code.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            scopes,
            lines: [0].into_iter().chain(feeds).collect(),
            findings: Vec::new(),
            imports: BTreeSet::new(),
            written: BTreeSet::new(),
        }
    }

    pub(super) fn find(&mut self, capability: Capability, what: &str, at: usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        self.findings.push(Finding {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            capability,
            what: what.to_owned(),
        });
    }

    /// What no syntax tree shows: packages that the cell asks for, and lines for another shell.
    pub(super) fn comments(&mut self, code: &str) {
        let starts = self.lines.clone();
        let mut in_head = true;
        for (line, at) in code.split('\n').zip(starts) {
            let line = line.trim();
            in_head &= line.is_empty() || line.starts_with('#');
            let comment = line.trim_start_matches('#').trim_start();
            if in_head && let Some(list) = comment.strip_prefix("requires:") {
                let asks = belljar_sandbox::requires(&format!("# requires:{list}"));
                if asks.as_ref().map_or(true, |packages| !packages.is_empty()) {
                    let what = format!("requires: {}", shown(list.trim()));
                    self.find(Capability::Installs, &what, at);
                }
            }
            if let Some(command) = line.strip_prefix(['%', '!'])
                && super::reach::is_install(command.split_whitespace().take(50))
            {
                self.find(Capability::Installs, &shown(line), at);
            }
        }
    }

    /// Commands of the shell, in code that is no Python but may be for `IPython`.
    pub(super) fn commands(&mut self, code: &str) {
        let starts = self.lines.clone();
        for (line, at) in code.split('\n').zip(starts) {
            let line = line.trim();
            let command = match line.split_once('=') {
                Some((_, value)) if value.trim_start().starts_with('!') => value.trim_start(),
                _ => line,
            };
            let is_script = ["%%bash", "%%sh"].iter().any(|mark| line.starts_with(mark));
            let words = command
                .strip_prefix('!')
                .unwrap_or_default()
                .split_whitespace();
            let is_install = super::reach::is_install(words.take(50));
            if is_script || command.starts_with('!') && !is_install {
                self.find(Capability::Processes, &shown(line), at);
            }
        }
    }

    /// A module that is imported.
    pub(super) fn imported(&mut self, module: &str, at: usize) {
        let first = known::first_of(module);
        if !module.is_empty() {
            self.imports.insert(first.to_owned());
        }
        let written = &self.scopes.earlier.written;
        if written.contains(first) || self.written.contains(first) {
            let what = format!("import {}: its code was written here", shown(module));
            self.find(Capability::Unknown, &what, at);
        } else if let Some(capability) = known::import(module) {
            self.find(capability, &format!("import {}", shown(module)), at);
        }
    }

    fn imported_names(&mut self, import: &StmtImportFrom) {
        let at = import.range.start().to_usize();
        let module = import
            .module
            .as_ref()
            .map_or("", |module| module.id.as_str());
        if import.level > 0 {
            let what = format!("from .{} import", shown(module));
            self.find(Capability::Unknown, &what, at);
            return;
        }
        self.imported(module, at);
        let is_risky = known::import(module).is_some();
        for alias in &import.names {
            let name = alias.name.id.as_str();
            let path = known::rooted(&format!("{module}.{name}"));
            let at = alias.range.start().to_usize();
            if name == "*" {
                let first = known::first_of(module);
                let is_standard = ruff_python_stdlib::sys::is_known_standard_library(NEWEST, first);
                if !is_standard && !known::is_data(first) {
                    let what = format!("from {} import *", shown(module));
                    self.find(Capability::Unknown, &what, at);
                }
                continue;
            }
            // Later cells may use it by any name.
            match known::class(&path) {
                Class::Does(capability) if capability.is_risky() && !is_risky => {
                    self.find(capability, &shown(&path), at);
                }
                _ => {}
            }
        }
    }

    /// A name or an attribute that is used.
    fn used(&mut self, expr: &Expr, name: &str, at: usize, how: Use<'_>) {
        let values = self.scopes.eval(expr);
        let arguments = match how {
            Use::Call(arguments) => Some(arguments),
            _ => None,
        };
        let first = first_text(arguments);
        let mut is_known = false;
        for path in values.paths() {
            match self.scopes.class(path) {
                Class::Does(capability) => {
                    if self.is_excepted(path, arguments) {
                        continue;
                    }
                    is_known = true;
                    self.find(capability, &called(path, first.as_deref()), at);
                    self.installing(capability, arguments, at);
                }
                Class::Module if how == Use::Value => {
                    let what = format!("{} handed on", shown(path));
                    self.find(Capability::Unknown, &what, at);
                }
                Class::Module | Class::Fine => {}
            }
            if how == Use::Value && is_reflective(path) {
                self.find(Capability::Unknown, &format!("{path} handed on"), at);
            }
        }
        let is_called = matches!(how, Use::Call(_));
        if values.has(&Value::Hidden) && is_called {
            self.find(
                Capability::Unknown,
                "a call of a name that is looked up",
                at,
            );
        }
        if let Expr::Attribute(part) = expr {
            self.attribute(part, at, how);
            if let Some((path, capability)) = module_within(part) {
                self.find(capability, &called(&path, first.as_deref()), at);
                is_known = true;
            }
            if !is_known && let Some(capability) = known::attribute(name) {
                let path = values.paths().next();
                let what = path.map_or_else(|| format!(".{}", shown(name)), str::to_owned);
                self.find(capability, &called(&what, first.as_deref()), at);
                self.installing(capability, arguments, at);
                is_known = true;
            }
        }
        if let Use::Call(arguments) = how {
            self.call(expr, name, &values, arguments, at, is_known);
        }
    }

    /// What the object of an attribute says about it.
    fn attribute(&mut self, part: &ExprAttribute, at: usize, how: Use<'_>) {
        let name = part.attr.id.as_str();
        let of = self.scopes.eval(&part.value);
        let is_module = of.paths().any(|path| !known::is_data(path));
        if name == "__dict__" && is_module {
            self.find(Capability::Unknown, "__dict__ of a module", at);
        }
        if of.paths().any(|path| path == "sys.modules") {
            self.find(Capability::Unknown, "sys.modules", at);
        }
        if of.paths().any(|path| path == "sys.path") {
            self.find(Capability::Unknown, "sys.path", at);
        }
        let is_plain = name.starts_with("__") || is_of_text(name);
        if of.has(&Value::Hidden) && known::attribute(name).is_none() && !is_plain {
            let what = format!(".{} of something that is looked up", shown(name));
            self.find(Capability::Unknown, &what, at);
        }
        let is_path = of.iter().any(|value| matches!(value, Value::Path(_)));
        if is_path && how == Use::Value && matches!(name, "rename" | "replace" | "move") {
            self.find(Capability::Deletions, &format!(".{name}"), at);
        }
    }

    /// What is assigned to or deleted.
    fn changed(&mut self, target: &Expr) {
        match target {
            Expr::Attribute(part) => {
                let at = part.attr.range.start().to_usize();
                let name = part.attr.id.as_str();
                for path in self.scopes.eval(&part.value).paths() {
                    let path = format!("{path}.{name}");
                    if !is_setting(&path) {
                        self.find(
                            Capability::Unknown,
                            &format!("{} changed", shown(&path)),
                            at,
                        );
                    }
                }
                if known::attribute(name).is_some() {
                    self.find(
                        Capability::Unknown,
                        &format!(".{} changed", shown(name)),
                        at,
                    );
                }
            }
            Expr::Subscript(part) => {
                let at = part.range.start().to_usize();
                let key = self.scopes.eval(&part.slice);
                for path in self.scopes.eval(&part.value).paths() {
                    let is_environment =
                        path == "os.environ" && !key.exact().is_some_and(is_harmless_variable);
                    if is_environment || matches!(path, "sys.modules" | "sys.path" | "__builtins__")
                    {
                        self.find(Capability::Unknown, &format!("{path} changed"), at);
                    }
                }
            }
            Expr::Tuple(parts) => parts.elts.iter().for_each(|part| self.changed(part)),
            _ => {}
        }
    }

    fn looked_into(&mut self, value: &Expr, at: usize) {
        for path in self.scopes.eval(value).paths() {
            if matches!(path, "sys.modules") {
                self.find(Capability::Unknown, "sys.modules", at);
            }
        }
    }

    /// Looks at an expression that is not handed on by standing here.
    fn visit_as(&mut self, expr: &Expr, how: Use<'_>) {
        match expr {
            Expr::Name(name) => {
                let at = name.range.start().to_usize();
                self.used(expr, &name.id, at, how);
            }
            Expr::Attribute(part) => {
                let at = part.attr.range.start().to_usize();
                self.used(expr, &part.attr.id, at, how);
                self.visit_base(&part.value);
            }
            other => self.visit_expr(other),
        }
    }

    /// The object of an attribute. A plain chain of names is looked at as a whole.
    fn visit_base(&mut self, expr: &Expr) {
        let is_chain = self.scopes.eval(expr).paths().next().is_some();
        match expr {
            Expr::Name(_) => {}
            Expr::Attribute(part) if is_chain => self.visit_base(&part.value),
            Expr::Attribute(_) => self.visit_as(expr, Use::Alias),
            other => self.visit_expr(other),
        }
    }

    fn visit_function(&mut self, scope: u32, body: &[Stmt]) {
        self.scopes.enter(scope);
        self.visit_body(body);
        self.scopes.leave();
    }
}

impl<'a> Visitor<'a> for Look<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.imported(&alias.name.id, alias.range.start().to_usize());
                }
            }
            Stmt::ImportFrom(import) => self.imported_names(import),
            Stmt::Assign(assign) => {
                assign
                    .targets
                    .iter()
                    .for_each(|target| self.changed(target));
                if assign.targets.iter().all(Expr::is_name_expr) {
                    self.visit_as(&assign.value, Use::Alias);
                    return;
                }
            }
            Stmt::AnnAssign(assign) => self.changed(&assign.target),
            Stmt::AugAssign(assign) => {
                self.changed(&assign.target);
                if let Expr::Attribute(part) = &*assign.target
                    && self
                        .scopes
                        .eval(&assign.target)
                        .paths()
                        .any(|path| path == "sys.path")
                {
                    self.find(
                        Capability::Unknown,
                        "sys.path",
                        part.range.start().to_usize(),
                    );
                }
            }
            Stmt::Delete(delete) => delete
                .targets
                .iter()
                .for_each(|target| self.changed(target)),
            Stmt::FunctionDef(function) => {
                let name = function.name.id.as_str();
                if matches!(
                    name,
                    "__reduce__" | "__reduce_ex__" | "__import__" | "__build_class__"
                ) {
                    let at = function.name.range.start().to_usize();
                    self.find(Capability::Unknown, &format!("def {name}"), at);
                }
                for decorator in &function.decorator_list {
                    self.visit_as(&decorator.expression, Use::Alias);
                }
                self.visit_parameters(&function.parameters);
                self.visit_function(scope_of(function), &function.body);
                return;
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                match &*call.func {
                    Expr::Attribute(_) | Expr::Name(_) => {
                        self.visit_as(&call.func, Use::Call(&call.arguments));
                    }
                    other => {
                        let at = call.arguments.range.start().to_usize();
                        let values = self.scopes.eval(other);
                        if values.has(&Value::Hidden) {
                            let what = "a call of a name that is looked up";
                            self.find(Capability::Unknown, what, at);
                        }
                        self.call(other, "", &values, &call.arguments, at, false);
                        self.visit_expr(other);
                    }
                }
                // What only looks at an object does not hand it on.
                if self.only_looks(&call.func) {
                    for argument in &call.arguments.args {
                        self.visit_as(argument, Use::Alias);
                    }
                    for keyword in &call.arguments.keywords {
                        self.visit_expr(&keyword.value);
                    }
                } else {
                    self.visit_arguments(&call.arguments);
                }
            }
            Expr::Attribute(part) if part.ctx == ExprContext::Load => {
                self.visit_as(expr, Use::Value);
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.visit_as(expr, Use::Value);
            }
            Expr::Compare(compare) => {
                let parts = [&*compare.left].into_iter().chain(&compare.comparators);
                parts.for_each(|part| self.visit_as(part, Use::Alias));
            }
            Expr::Subscript(part) => {
                self.looked_into(&part.value, part.range.start().to_usize());
                self.visit_as(&part.value, Use::Alias);
                self.visit_expr(&part.slice);
            }
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.visit_parameters(parameters);
                }
                self.scopes.enter(lambda.range.start().to_u32() + 1);
                self.visit_expr(&lambda.body);
                self.scopes.leave();
            }
            other => visitor::walk_expr(self, other),
        }
    }
}

/// A name of a module that is an attribute of something else.
fn module_within(part: &ExprAttribute) -> Option<(String, Capability)> {
    let Expr::Attribute(module) = &*part.value else {
        return None;
    };
    let (module, name) = (module.attr.id.as_str(), part.attr.id.as_str());
    let path = format!("{module}.{name}");
    let capability = known::exact(&path).filter(|capability| capability.is_risky());
    capability
        .filter(|_| known::is_everywhere(module))
        .map(|capability| (path, capability))
}

/// Functions by which others are reached: what they do can't be seen where they are handed on.
fn is_reflective(path: &str) -> bool {
    matches!(
        path,
        "getattr" | "setattr" | "delattr" | "open" | "io.open" | "globals" | "locals" | "vars"
    )
}

/// Attributes of modules that are there to be set.
fn is_setting(path: &str) -> bool {
    path.split('.').any(|part| {
        matches!(
            part,
            "options" | "rcParams" | "config" | "defaults" | "templates" | "environ"
        )
    }) || matches!(path, "sys.stdout" | "sys.stderr" | "decimal.DefaultContext")
        || path.starts_with("torch.backends.")
}

/// Environment variables that only tune libraries for data.
fn is_harmless_variable(name: &str) -> bool {
    name.ends_with("_NUM_THREADS")
        || matches!(
            name,
            "CUDA_VISIBLE_DEVICES"
                | "KERAS_BACKEND"
                | "MPLBACKEND"
                | "MPLCONFIGDIR"
                | "PYTHONHASHSEED"
                | "TF_CPP_MIN_LOG_LEVEL"
                | "TF_ENABLE_ONEDNN_OPTS"
                | "TOKENIZERS_PARALLELISM"
                | "TZ"
        )
}

/// A function as a finding shows it.
pub(super) fn called(path: &str, first: Option<&str>) -> String {
    match first {
        Some(argument) => format!("{}('{}')", shown(path), shown(argument)),
        None => shown(path),
    }
}

/// Short, on one line, and without disguise.
pub(super) fn shown(text: &str) -> String {
    let mut cut = text.chars();
    let mut out = visible(&cut.by_ref().take(SHOWN).collect::<String>()).into_owned();
    if cut.next().is_some() {
        out.push('…');
    }
    out
}

/// What may be an object of values, for those that name none.
pub(super) fn receiver(scopes: &Scopes<'_>, function: &Expr) -> Values {
    match function {
        Expr::Attribute(part) => scopes.eval(&part.value),
        _ => Values::default(),
    }
}
