//! What the names of a cell mean: imports and their aliases, functions that got another name, and
//! texts that are addresses of other machines.

use std::collections::{BTreeSet, HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprContext, FStringPart, Parameters, Stmt};

use super::known;

/// How far an expression is followed; a chain can be as long as the code.
const FAR: usize = 8;

/// The most meanings of one name, and bytes of one: names can be made of names without end.
const MEANINGS: usize = 4;
const LONGEST: usize = 200;

/// Collected wherever in the code it stands: order is not looked at, as functions run later.
#[derive(Default)]
pub(super) struct Names {
    aliases: HashMap<String, BTreeSet<String>>,
    pub(super) modules: HashSet<String>,
    bound: HashSet<String>,
    stars: Vec<String>,
    remote: HashSet<String>,
}

impl Names {
    fn alias(&mut self, name: &str, path: String) {
        let paths = self.aliases.entry(name.to_owned()).or_default();
        if paths.len() < MEANINGS && path.len() <= LONGEST {
            paths.insert(path);
        }
    }

    /// The dotted paths that an expression may mean.
    pub(super) fn paths(&self, expr: &Expr) -> Vec<String> {
        let mut paths = self.followed(expr, FAR);
        for path in &mut paths {
            let mut dots = path.match_indices('.').map(|(at, _)| at + 1);
            let starts = |at: &usize| known::ALWAYS.contains(&first_of(&path[*at..]));
            if let Some(at) = dots.rfind(starts) {
                path.drain(..at);
            }
            for (other, usual) in [("builtins.", ""), ("posix.", "os."), ("_io.", "io.")] {
                if let Some(rest) = path.strip_prefix(other) {
                    *path = format!("{usual}{rest}");
                }
            }
        }
        paths
    }

    fn followed(&self, expr: &Expr, far: usize) -> Vec<String> {
        if far == 0 {
            return Vec::new();
        }
        let of = |paths: Vec<String>, name: &str| -> Vec<String> {
            paths.iter().map(|path| format!("{path}.{name}")).collect()
        };
        match expr {
            Expr::Name(name) => self.meanings(&name.id),
            Expr::Attribute(part) => of(self.followed(&part.value, far - 1), &part.attr.id),
            Expr::Call(call) => {
                let Some(function) = name_of(&call.func) else {
                    return Vec::new();
                };
                let literal = |at: usize| call.arguments.args.get(at).and_then(text);
                match (function, call.arguments.args.first()) {
                    ("getattr", Some(object)) => literal(1)
                        .map_or_else(Vec::new, |name| of(self.followed(object, far - 1), name)),
                    ("__import__" | "import_module", _) => {
                        literal(0).map(str::to_owned).into_iter().collect()
                    }
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    fn meanings(&self, name: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        if let Some(paths) = self.aliases.get(name) {
            found.extend(paths.iter().cloned());
        }
        found.extend(self.stars.iter().map(|module| format!("{module}.{name}")));
        let is_free = !self.bound.contains(name) && !self.aliases.contains_key(name);
        let is_fixed =
            known::ALWAYS.contains(&name) || known::path(name).is_some() || name == "open";
        if (is_free && !known::is_common_word(name)) || is_fixed {
            found.push(known::usual(name).to_owned());
        }
        found
    }

    /// Whether an expression is, or holds, the address of something on another machine.
    pub(super) fn is_remote(&self, expr: &Expr) -> bool {
        self.leads_out(expr, FAR)
    }

    fn leads_out(&self, expr: &Expr, far: usize) -> bool {
        if far == 0 {
            return false;
        }
        let leads = |expr: &Expr| self.leads_out(expr, far - 1);
        match expr {
            Expr::StringLiteral(literal) => is_address(literal.value.to_str()),
            Expr::FString(string) => match string.value.as_slice().first() {
                Some(FStringPart::Literal(literal)) => is_address(literal),
                Some(FStringPart::FString(part)) => match part.elements.first() {
                    Some(element) => match (element.as_literal(), element.as_interpolation()) {
                        (Some(literal), _) => is_address(&literal.value),
                        (_, Some(value)) => leads(&value.expression),
                        _ => false,
                    },
                    None => false,
                },
                None => false,
            },
            Expr::Name(name) => self.remote.contains(name.id.as_str()),
            Expr::BinOp(operation) => leads(&operation.left),
            Expr::Attribute(part) => leads(&part.value),
            Expr::Subscript(part) => leads(&part.value),
            Expr::Call(call) => leads(&call.func) || call.arguments.args.first().is_some_and(leads),
            Expr::List(list) => list.elts.iter().any(leads),
            Expr::Tuple(list) => list.elts.iter().any(leads),
            Expr::Dict(dict) => dict.items.iter().any(|item| leads(&item.value)),
            _ => false,
        }
    }

    fn assigned(&mut self, target: &Expr, value: &Expr) {
        let remote = self.is_remote(value);
        if let Expr::Name(name) = target {
            for path in self.paths(value) {
                self.alias(&name.id, path);
            }
        }
        if remote {
            self.mark(target);
        }
    }

    fn mark(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => {
                self.remote.insert(name.id.to_string());
            }
            Expr::Tuple(tuple) => {
                for part in tuple.elts.iter().filter(|part| part.is_name_expr()) {
                    self.mark(part);
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let path = alias.name.id.as_str();
                    let (name, path) = if let Some(name) = &alias.asname {
                        (name.id.as_str(), path)
                    } else {
                        let first = first_of(path);
                        (first, first)
                    };
                    self.alias(name, path.to_owned());
                    self.modules.insert(name.to_owned());
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                let module = import
                    .module
                    .as_ref()
                    .map_or("", |module| module.id.as_str());
                for alias in &import.names {
                    if alias.name.id.as_str() == "*" {
                        if self.stars.len() < MEANINGS {
                            self.stars.push(module.to_owned());
                        }
                        continue;
                    }
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.alias(&name.id, format!("{module}.{}", alias.name.id));
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.assigned(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assigned(&assign.target, value);
                }
            }
            Stmt::For(of) if self.is_remote(&of.iter) => self.mark(&of.target),
            Stmt::FunctionDef(function) => {
                self.bound.insert(function.name.id.to_string());
            }
            Stmt::ClassDef(class) => {
                self.bound.insert(class.name.id.to_string());
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx != ExprContext::Load => {
                self.bound.insert(name.id.to_string());
            }
            Expr::Named(named) => self.assigned(&named.target, &named.value),
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if self.is_remote(&comprehension.iter) {
            self.mark(&comprehension.target);
        }
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        for parameter in parameters {
            let name = &parameter.as_parameter().name.id;
            self.bound.insert(name.to_string());
            if parameter
                .default()
                .is_some_and(|value| self.is_remote(value))
            {
                self.remote.insert(name.to_string());
            }
        }
        visitor::walk_parameters(self, parameters);
    }
}

/// The first part of a dotted path.
pub(super) fn first_of(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

/// What a literal text says.
pub(super) fn text(expr: &Expr) -> Option<&str> {
    expr.as_string_literal_expr()
        .map(|literal| literal.value.to_str())
}

/// The last name of a function.
pub(super) fn name_of(function: &Expr) -> Option<&str> {
    match function {
        Expr::Name(name) => Some(&name.id),
        Expr::Attribute(part) => Some(&part.attr.id),
        _ => None,
    }
}

fn is_address(text: &str) -> bool {
    let scheme = text
        .trim_start()
        .split_once("://")
        .map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        (2..=30).contains(&scheme.len())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte))
            && !["file", "sqlite", "duckdb", "memory"]
                .iter()
                .any(|own| scheme.starts_with(own))
    })
}
