//! Names of the namespace that a cell reads, and those that it writes.
//!
//! Only what the code says: a change through another name of the same object, or within a function of a library, is not
//! seen.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprContext, Keyword, Mod, Parameters, Pattern, Stmt,
};
use serde::{Deserialize, Serialize};

use super::gate::captured;
use crate::dialect::with_syntax;

/// The most names of each kind.
const MOST: usize = 200;

/// Methods that change what they are called on.
const CHANGES: [&str; 10] = [
    "append", "extend", "insert", "remove", "pop", "clear", "update", "add", "discard", "sort",
];

/// Names of the namespace that a cell reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellNames {
    /// Names that it reads before it writes them.
    pub reads: BTreeSet<String>,
    /// Names that it binds, or whose value it changes in place. Imports bind the same again, and are left out.
    pub writes: BTreeSet<String>,
}

/// The names of a cell; `None` if its code does not say them.
pub fn cell_names(code: &str) -> Option<CellNames> {
    let found = with_syntax(code, |parsed| {
        let mut names = Names::default();
        match parsed.syntax() {
            Mod::Module(module) if parsed.has_valid_syntax() => names.visit_body(&module.body),
            _ => names.is_lost = true,
        }
        names
    });
    let mut names = found?;
    // A function runs after the cell has bound its names.
    for name in std::mem::take(&mut names.later) {
        names.read(name);
    }
    let (reads, writes) = (names.reads, names.writes);
    let fits = !names.is_lost && reads.len() <= MOST && writes.len() <= MOST;
    fits.then_some(CellNames { reads, writes })
}

/// The name at the root of `df.loc[...]`.
pub(super) fn root(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(&name.id),
        Expr::Attribute(member) => root(&member.value),
        Expr::Subscript(part) => root(&part.value),
        _ => None,
    }
}

/// Whether a method changes what it is called on.
pub(super) fn changes(method: &str, keywords: &[Keyword]) -> bool {
    let in_place = |one: &Keyword| one.arg.as_ref().is_some_and(|name| name == "inplace");
    CHANGES.contains(&method) || keywords.iter().any(in_place)
}

#[derive(Default)]
struct Names {
    reads: BTreeSet<String>,
    writes: BTreeSet<String>,
    imported: BTreeSet<String>,
    /// Read by functions.
    later: Vec<String>,
    /// Around what is read, the innermost last; none is the module.
    scopes: Vec<Scope>,
    is_lost: bool,
}

#[derive(Default)]
struct Scope {
    bound: BTreeSet<String>,
    globals: BTreeSet<String>,
    is_comprehension: bool,
}

impl Names {
    fn read(&mut self, name: String) {
        let is_known = self.writes.contains(&name) || self.imported.contains(&name);
        if !is_known && !ruff_python_stdlib::builtins::is_python_builtin(&name, u8::MAX, false) {
            self.reads.insert(name);
        }
    }

    fn is_local(&self, name: &str) -> bool {
        let scopes = self.scopes.iter().rev();
        let mut known = scopes.filter(|one| one.bound.contains(name) || one.globals.contains(name));
        known.next().is_some_and(|one| !one.globals.contains(name))
    }

    fn load(&mut self, name: &str) {
        self.is_lost |= matches!(name, "exec" | "eval" | "globals" | "locals" | "vars");
        if self.is_local(name) {
            return;
        }
        if self.scopes.iter().all(|one| one.is_comprehension) {
            self.read(name.to_owned());
        } else {
            self.later.push(name.to_owned());
        }
    }

    fn bind(&mut self, name: &str) {
        let inner = self.scopes.iter().rev().find(|one| !one.is_comprehension);
        let is_global = inner.is_none_or(|one| one.globals.contains(name));
        if is_global && !self.is_local(name) {
            self.writes.insert(name.to_owned());
        }
    }

    /// `df['x'] = 1` and `df.x = 1` change what they read.
    fn change(&mut self, target: &Expr) {
        match target {
            Expr::Tuple(all) => all.iter().for_each(|one| self.change(one)),
            Expr::List(all) => all.iter().for_each(|one| self.change(one)),
            Expr::Starred(one) => self.change(&one.value),
            Expr::Attribute(_) | Expr::Subscript(_) => self.change_value(target),
            _ => {}
        }
    }

    fn change_value(&mut self, value: &Expr) {
        if let Some(name) = root(value)
            && !self.is_local(name)
        {
            let name = name.to_owned();
            self.load(&name);
            self.writes.insert(name);
        }
    }

    fn parameters(&mut self, parameters: &Parameters) -> BTreeSet<String> {
        for one in parameters.iter_non_variadic_params() {
            one.default
                .iter()
                .for_each(|default| self.visit_expr(default));
        }
        let names = parameters.iter();
        names.map(|one| one.name().id.to_string()).collect()
    }

    fn within(&mut self, scope: Scope, look: impl FnOnce(&mut Self)) {
        self.scopes.push(scope);
        look(self);
        self.scopes.pop();
    }

    fn comprehension(&mut self, generators: &[Comprehension], results: &[&Expr]) {
        let mut scope = Bound::default();
        for one in generators {
            scope.visit_expr(&one.target);
        }
        let scope = Scope {
            bound: scope.names,
            is_comprehension: true,
            ..Scope::default()
        };
        // The first is evaluated outside.
        generators
            .iter()
            .take(1)
            .for_each(|one| self.visit_expr(&one.iter));
        self.within(scope, |names| {
            for (at, one) in generators.iter().enumerate() {
                if at > 0 {
                    names.visit_expr(&one.iter);
                }
                one.ifs.iter().for_each(|test| names.visit_expr(test));
            }
            for one in results {
                names.visit_expr(one);
            }
        });
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                function
                    .decorator_list
                    .iter()
                    .for_each(|one| self.visit_decorator(one));
                let bound = self.parameters(&function.parameters);
                self.bind(&function.name.id);
                self.within(Scope::of_body(&function.body, bound), |names| {
                    names.visit_body(&function.body);
                });
                return;
            }
            Stmt::ClassDef(class) => {
                class
                    .decorator_list
                    .iter()
                    .for_each(|one| self.visit_decorator(one));
                class
                    .arguments
                    .iter()
                    .for_each(|one| self.visit_arguments(one));
                self.bind(&class.name.id);
                self.within(Scope::of_body(&class.body, BTreeSet::new()), |names| {
                    names.visit_body(&class.body);
                });
                return;
            }
            Stmt::Import(import) => {
                for one in &import.names {
                    let name = one.asname.as_ref().unwrap_or(&one.name);
                    let first = name.id.split('.').next().unwrap_or_default();
                    self.imported.insert(first.to_owned());
                }
            }
            Stmt::ImportFrom(import) => {
                for one in &import.names {
                    let name = one.asname.as_ref().unwrap_or(&one.name);
                    self.is_lost |= name == "*";
                    self.imported.insert(name.id.to_string());
                }
            }
            Stmt::Assign(assign) => assign.targets.iter().for_each(|one| self.change(one)),
            Stmt::AnnAssign(assign) => self.change(&assign.target),
            Stmt::AugAssign(assign) => {
                if let Expr::Name(name) = &*assign.target {
                    self.load(&name.id);
                }
                self.change(&assign.target);
            }
            Stmt::Delete(delete) => delete.targets.iter().for_each(|one| self.change(one)),
            Stmt::For(each) => self.change(&each.target),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => match name.ctx {
                ExprContext::Load => self.load(&name.id),
                _ => self.bind(&name.id),
            },
            Expr::Lambda(lambda) => {
                let parameters = lambda.parameters.as_deref();
                let bound = parameters
                    .map(|all| self.parameters(all))
                    .unwrap_or_default();
                let scope = Scope {
                    bound,
                    ..Scope::default()
                };
                self.within(scope, |names| names.visit_expr(&lambda.body));
            }
            Expr::ListComp(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::SetComp(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::Generator(all) => self.comprehension(&all.generators, &[&all.elt]),
            Expr::DictComp(all) => {
                let key = all.key.as_deref();
                let results: Vec<&Expr> = key.into_iter().chain([&*all.value]).collect();
                self.comprehension(&all.generators, &results);
            }
            Expr::Call(call) => {
                if let Expr::Attribute(method) = &*call.func
                    && changes(&method.attr, &call.arguments.keywords)
                {
                    self.change_value(&method.value);
                }
                visitor::walk_expr(self, expr);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        if let Some(name) = &caught.name {
            self.bind(&name.id);
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        if let Some(name) = captured(pattern) {
            self.bind(&name.id);
        }
        visitor::walk_pattern(self, pattern);
    }
}

impl Scope {
    fn of_body(body: &[Stmt], bound: BTreeSet<String>) -> Self {
        let mut found = Bound {
            names: bound,
            globals: BTreeSet::new(),
        };
        found.visit_body(body);
        Self {
            bound: found.names,
            globals: found.globals,
            is_comprehension: false,
        }
    }
}

/// The names that a body binds, without those of the functions in it.
#[derive(Default)]
struct Bound {
    names: BTreeSet<String>,
    globals: BTreeSet<String>,
}

impl<'a> Visitor<'a> for Bound {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                self.names.insert(function.name.id.to_string());
                return;
            }
            Stmt::ClassDef(class) => {
                self.names.insert(class.name.id.to_string());
                return;
            }
            Stmt::Global(all) => {
                self.globals
                    .extend(all.names.iter().map(|one| one.id.to_string()));
            }
            Stmt::Import(import) => {
                for one in &import.names {
                    let name = one.asname.as_ref().unwrap_or(&one.name);
                    let first = name.id.split('.').next().unwrap_or_default();
                    self.names.insert(first.to_owned());
                }
            }
            Stmt::ImportFrom(import) => {
                for one in &import.names {
                    let name = one.asname.as_ref().unwrap_or(&one.name);
                    self.names.insert(name.id.to_string());
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if !matches!(name.ctx, ExprContext::Load) => {
                self.names.insert(name.id.to_string());
            }
            Expr::Lambda(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::Generator(_)
            | Expr::DictComp(_) => {}
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        self.names
            .extend(caught.name.iter().map(|name| name.id.to_string()));
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        self.names
            .extend(captured(pattern).map(|name| name.id.to_string()));
        visitor::walk_pattern(self, pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_namespace() {
        for (code, reads, writes) in [
            ("rate = 2", "", "rate"),
            ("print('price', 21 * rate)", "rate", ""),
            ("total = price * n\nprint(total)", "n price", "total"),
            ("n += 1", "n", "n"),
            ("df['a'] = b\ndf.c = 1", "b df", "df"),
            ("rows.append(x)\nrows.sort()", "rows x", "rows"),
            ("df.drop(columns='a', inplace=True)", "df", "df"),
            ("print(df.sort_values('a'))", "df", ""),
            ("import pandas as pd\ndf = pd.read_csv(path)", "path", "df"),
            ("from math import pi\nprint(pi)", "", ""),
            ("for row in rows:\n    print(row, row.a)", "rows", "row"),
            ("[x + y for x in xs if x > low]", "low xs y", ""),
            (
                "{k: v for k, v in d.items()}\n(one for one in one)",
                "d one",
                "",
            ),
            ("def f(a, b=c):\n    d = a\n    return d + e", "c e", "f"),
            // A function runs after the cell has bound its names.
            ("def f():\n    return x\nx = 1\nf()", "", "f x"),
            ("def f():\n    global g\n    g = h", "h", "f g"),
            (
                "def f():\n    def inner():\n        return a + b\n    a = 1\n    return inner",
                "b",
                "f",
            ),
            ("key = lambda one: one[at]", "at", "key"),
            (
                "class A(Base):\n    x = y\n    def m(self):\n        return self.x + z",
                "Base y z",
                "A",
            ),
            (
                "with open(path) as f:\n    text = f.read()",
                "path",
                "f text",
            ),
            ("try:\n    a()\nexcept E as e:\n    print(e)", "E a", "e"),
            (
                "match v:\n    case [a, *b]:\n        print(a, b, c)",
                "c v",
                "a b",
            ),
            ("print(m := n)\nprint([q := i for i in m])", "n", "m q"),
            ("x, (y, *z) = v\ndel w", "v", "w x y z"),
            ("a[i], b.c = 1, 2", "a b i", "a b"),
        ] {
            let found = cell_names(code).unwrap();
            let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(" ");
            assert_eq!(
                (joined(found.reads), joined(found.writes)),
                (reads.into(), writes.into()),
                "{code}"
            );
        }
    }

    #[test]
    fn code_that_does_not_say_its_names_has_none() {
        for code in [
            "%time x",
            "!ls",
            "print(",
            "from math import *",
            "exec('x = 1')",
            "globals()['x'] = 1",
        ] {
            assert_eq!(cell_names(code), None, "{code}");
        }
        let many: Vec<String> = (0..=MOST).map(|at| format!("x{at} = 1")).collect();
        let many = many.join("\n");
        assert_eq!(cell_names(&many), None);
    }

    proptest::proptest! {
        #[test]
        fn any_code_is_read(code in ".{0,200}") {
            cell_names(&code);
        }
    }
}
