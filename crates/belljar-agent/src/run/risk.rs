//! What a cell may do, as far as its code shows before it is run.
//!
//! This informs a person, and decides under a policy whether one is asked. It is not a wall: Python
//! has endless ways to do a thing without naming it, names of earlier cells are known here only by
//! custom, and whoever wants to get past this will. What a session can really do is bounded by its
//! walls, its network and its grants. So it is made to be right about code that hides nothing, to
//! call "unknown" what hides, and to stay silent about plain work with data.

mod calls;
mod known;
mod names;

use std::collections::BTreeSet;
use std::fmt;

use belljar_protocol::visible;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Arguments, Expr, ExprAttribute, ExprCall, ExprContext, Mod, Stmt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dialect::with_syntax;
use calls::{
    file_method, is_false, is_install, is_lookup, keyword, literals, read_or_written, writes,
};
use names::{Names, first_of, text};

/// The minor version of Python whose modules are known.
const NEWEST: u8 = 14;

/// The most characters of a literal that a finding shows, and of a path.
const SHOWN: usize = 60;

/// What code can do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// It reads files, or looks at which there are.
    FilesRead,
    /// It makes or changes files.
    FilesWritten,
    /// It talks to other machines.
    Network,
    /// It starts processes or sends signals to them.
    Processes,
    /// It deletes files, or what is in them.
    Deletions,
    /// It installs packages.
    Installs,
    /// What it does can't be seen from its code.
    Unknown,
}

impl Capability {
    /// Whether a person is asked for it where the policy is to ask for what is risky.
    pub fn is_risky(self) -> bool {
        !matches!(self, Self::FilesRead | Self::FilesWritten)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FilesRead => "files_read",
            Self::FilesWritten => "files_written",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Deletions => "deletions",
            Self::Installs => "installs",
            Self::Unknown => "unknown",
        })
    }
}

/// A place in the code that shows a capability.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Finding {
    /// The line, counted from 1 by line feeds.
    pub line: u32,
    /// What it can do.
    pub capability: Capability,
    /// What stands there: the function by its full name, and the text that it is given.
    pub what: String,
}

/// What a cell may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Risk {
    /// Where that was seen, by line. What is found several times stands at its first line.
    pub findings: Vec<Finding>,
    /// The modules that it imports: of dotted names the first part.
    pub imports: Vec<String>,
}

impl Risk {
    /// Everything that it may do.
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

/// What a cell may do, from its code. For people and policies to look at: it is not a wall.
pub fn risk(code: &str) -> Risk {
    let mut look = Look::new(code);
    look.comments(code);
    let looked = with_syntax(code, |parsed| {
        if let Mod::Module(module) = parsed.syntax() {
            look.names.visit_body(&module.body);
            look.visit_body(&module.body);
        }
        if let Some(error) = parsed.errors().first() {
            let at = error.location.start().to_usize();
            look.find(Capability::Unknown, "code that is not Python", at);
        }
    });
    if looked.is_none() {
        let what = "code that is too long to look through";
        look.find(Capability::Unknown, what, 0);
    }
    // The first of each.
    look.findings.sort_by(|one, other| {
        let key = |found: &Finding| (found.capability, found.line);
        one.what.cmp(&other.what).then(key(one).cmp(&key(other)))
    });
    look.findings
        .dedup_by(|next, first| (next.capability, &next.what) == (first.capability, &first.what));
    look.findings.sort();
    Risk {
        findings: look.findings,
        imports: look.imports.into_iter().collect(),
    }
}

struct Look {
    names: Names,
    /// Where each line starts.
    lines: Vec<usize>,
    findings: Vec<Finding>,
    imports: BTreeSet<String>,
}

impl Look {
    fn new(code: &str) -> Self {
        let feeds = code.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            names: Names::default(),
            lines: [0].into_iter().chain(feeds).collect(),
            findings: Vec::new(),
            imports: BTreeSet::new(),
        }
    }

    fn find(&mut self, capability: Capability, what: &str, at: usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        self.findings.push(Finding {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            capability,
            what: what.to_owned(),
        });
    }

    /// What no syntax tree shows: packages that the cell asks for, and lines for another shell.
    fn comments(&mut self, code: &str) {
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
                && is_install(command.split_whitespace().take(50))
            {
                self.find(Capability::Installs, &shown(line), at);
            }
        }
    }

    /// A module that is imported.
    fn imported(&mut self, module: &str, at: usize) {
        if !module.is_empty() {
            self.imports.insert(first_of(module).to_owned());
        }
        if let Some(capability) = known::module(module) {
            self.find(capability, &format!("import {module}"), at);
        }
    }

    /// A name or an attribute that is used, with the arguments where it is called.
    fn used(&mut self, expr: &Expr, name: &str, at: usize, arguments: Option<&Arguments>) {
        let paths = self.names.paths(expr);
        let first = arguments.and_then(|given| given.args.first());
        let mut known = false;
        for path in &paths {
            if let Some(capability) = known::path(path).or_else(|| known::part(path)) {
                known = true;
                let capability = self.reaching(capability, first);
                self.find(capability, &called(path, first), at);
                self.installing(capability, arguments, at);
            } else if let Some(arguments) = arguments
                && let Some(capability) = self.file_function(path, arguments)
            {
                known = true;
                let capability = self.reaching(capability, first);
                self.find(capability, &called(path, first), at);
            }
        }
        let is_attribute = expr.is_attribute_expr();
        if known || !is_attribute {
            return;
        }
        let named = paths.iter().find(|path| known::is_data(path));
        let what = named.map_or_else(|| format!(".{name}"), String::clone);
        if let Some(capability) = known::attribute(name) {
            self.find(capability, &called(&what, first), at);
            self.installing(capability, arguments, at);
        } else if let Some(arguments) = arguments
            && let Some(capability) = file_method(name, arguments)
        {
            let capability = self.reaching(capability, first);
            self.find(capability, &called(&what, first), at);
        }
    }

    /// A file on another machine is no file.
    fn reaching(&self, capability: Capability, first: Option<&Expr>) -> Capability {
        let is_remote = || first.is_some_and(|argument| self.names.is_remote(argument));
        if !capability.is_risky() && is_remote() {
            Capability::Network
        } else {
            capability
        }
    }

    /// A process that installs packages.
    fn installing(&mut self, capability: Capability, arguments: Option<&Arguments>, at: usize) {
        if capability != Capability::Processes {
            return;
        }
        let mut words = Vec::new();
        for argument in arguments.iter().flat_map(|given| &given.args) {
            literals(argument, &mut words, 3);
        }
        let words = words.iter().flat_map(|text| text.split_whitespace());
        if is_install(words) {
            self.find(Capability::Installs, "a process that installs packages", at);
        }
    }

    /// Functions of modules whose arguments say whether they read or write.
    fn file_function(&self, path: &str, given: &Arguments) -> Option<Capability> {
        match path {
            "os.open" => {
                let paths = given.args.get(1).map(|flags| self.names.paths(flags));
                let reads = paths.is_some_and(|paths| paths == ["os.O_RDONLY"]);
                Some(read_or_written(!reads))
            }
            "numpy.load" => {
                let pickled = keyword(given, "allow_pickle").or_else(|| given.args.get(2));
                let pickled = pickled.is_some_and(|value| !is_false(value));
                Some(if pickled {
                    Capability::Unknown
                } else {
                    Capability::FilesRead
                })
            }
            "numpy.save" => Some(Capability::FilesWritten),
            "sqlite3.connect" | "duckdb.connect" => {
                let name = given.args.first().and_then(text);
                (name != Some(":memory:")).then_some(Capability::FilesWritten)
            }
            "sqlalchemy.create_engine" => {
                let own = given.args.first().and_then(text);
                let own = own.is_some_and(|address| address.starts_with("sqlite"));
                Some(if own {
                    Capability::FilesWritten
                } else {
                    Capability::Network
                })
            }
            path if known::runs_text(path) => {
                let is_text =
                    |code: &Expr| code.is_string_literal_expr() || code.is_f_string_expr();
                given
                    .args
                    .first()
                    .is_some_and(is_text)
                    .then_some(Capability::Unknown)
            }
            path if known::opens(path) => Some(read_or_written(writes(given, 1))),
            _ => None,
        }
    }

    fn call(&mut self, expr: &Expr, call: &ExprCall) {
        let at = call.arguments.range.start().to_usize();
        let first = call.arguments.args.first();
        match (&*call.func, first) {
            (Expr::Name(name), Some(object)) if name.id.as_str() == "getattr" => {
                match call.arguments.args.get(1).map(text) {
                    // As if it were written with a dot.
                    Some(Some(name)) => self.taken(expr, name, at),
                    Some(None) if self.is_module(object) => {
                        self.find(Capability::Unknown, "getattr of a module", at);
                    }
                    _ => {}
                }
            }
            (Expr::Name(name), Some(object))
                if name.id.as_str() == "vars" && self.is_module(object) =>
            {
                self.find(Capability::Unknown, "vars of a module", at);
            }
            (function, _) if is_lookup(function) => {
                self.find(
                    Capability::Unknown,
                    "a call of a name that is looked up",
                    at,
                );
            }
            _ => {}
        }
    }

    /// What `getattr` takes by a literal name.
    fn taken(&mut self, expr: &Expr, name: &str, at: usize) {
        let paths = self.names.paths(expr);
        let of_path = |path: &String| {
            let capability = known::path(path).or_else(|| known::part(path))?;
            Some((capability, path.clone()))
        };
        let found = paths.iter().find_map(of_path);
        let of_name = || Some((known::attribute(name)?, format!(".{}", shown(name))));
        if let Some((capability, what)) = found.or_else(of_name) {
            self.find(capability, &what, at);
        }
    }

    /// Whether an expression is a module of which names may be risky.
    fn is_module(&self, expr: &Expr) -> bool {
        let is_known = match expr {
            Expr::Name(name) => {
                self.names.modules.contains(name.id.as_str())
                    || known::ALWAYS.contains(&name.id.as_str())
                    || name.id.as_str() == "__builtins__"
            }
            Expr::Call(_) => true,
            _ => false,
        };
        let paths = || self.names.paths(expr);
        is_known && paths().iter().any(|path| !known::is_data(path))
    }

    /// `sys.modules` looked into; whether a module is in it may be asked.
    fn modules(&mut self, value: &Expr, at: usize) {
        if self
            .names
            .paths(value)
            .iter()
            .any(|path| path == "sys.modules")
        {
            self.find(Capability::Unknown, "sys.modules", at);
        }
    }

    fn attribute(&mut self, part: &ExprAttribute) {
        let at = part.attr.range.start().to_usize();
        self.modules(&part.value, at);
        if part.attr.id.as_str() == "__dict__" && self.is_module(&part.value) {
            self.find(Capability::Unknown, "__dict__ of a module", at);
        }
    }
}

impl<'a> Visitor<'a> for Look {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.imported(&alias.name.id, alias.range.start().to_usize());
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                let module = import
                    .module
                    .as_ref()
                    .map_or("", |module| module.id.as_str());
                let at = import.range.start().to_usize();
                self.imported(module, at);
                for alias in &import.names {
                    let name = alias.name.id.as_str();
                    let path = format!("{module}.{name}");
                    let first = first_of(module);
                    if name == "*" {
                        let is_standard =
                            ruff_python_stdlib::sys::is_known_standard_library(NEWEST, first);
                        if !is_standard && !known::is_data(first) {
                            let what = format!("from {} import *", shown(module));
                            self.find(Capability::Unknown, &what, at);
                        }
                    } else if known::module(module).is_none()
                        && let Some(capability) =
                            known::path(&path).or_else(|| known::module(&path))
                        && capability.is_risky()
                    {
                        // Later cells may use it by any name.
                        self.find(capability, &path, alias.range.start().to_usize());
                    }
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                self.call(expr, call);
                match &*call.func {
                    Expr::Attribute(part) => {
                        self.attribute(part);
                        let at = part.attr.range.start().to_usize();
                        self.used(&call.func, &part.attr.id, at, Some(&call.arguments));
                        self.visit_expr(&part.value);
                    }
                    Expr::Name(name) => {
                        let at = name.range.start().to_usize();
                        self.used(&call.func, &name.id, at, Some(&call.arguments));
                    }
                    other => self.visit_expr(other),
                }
                self.visit_arguments(&call.arguments);
                return;
            }
            Expr::Attribute(part) => {
                self.attribute(part);
                if part.ctx == ExprContext::Load {
                    let at = part.attr.range.start().to_usize();
                    self.used(expr, &part.attr.id, at, None);
                }
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.used(expr, &name.id, name.range.start().to_usize(), None);
            }
            Expr::Subscript(part) => {
                self.modules(&part.value, part.range.start().to_usize());
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// A function as a finding shows it.
fn called(path: &str, first: Option<&Expr>) -> String {
    match first.and_then(text) {
        Some(argument) => format!("{}('{}')", shown(path), shown(argument)),
        None => shown(path),
    }
}

/// Short, on one line, and without disguise.
fn shown(text: &str) -> String {
    let mut cut = text.chars();
    let mut out = visible(&cut.by_ref().take(SHOWN).collect::<String>()).into_owned();
    if cut.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
