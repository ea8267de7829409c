//! A static check of code before it runs: undefined names are reported at once, for the price of a
//! turn, instead of by a cell that fails in the middle of its work.
//!
//! It errs on the side of running: a name counts as defined wherever in the code it is bound.

mod calls;

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Alias, ExceptHandler, Expr, ExprContext, Identifier, Mod, Parameter};
use ruff_python_ast::{Pattern, Stmt, TypeParam, name::Name};

use crate::dialect::with_syntax;

pub(crate) use calls::{words_wrong_calls, wrong_calls};

/// Names that a session has beside those of the language.
const OURS: [&str; 4] = ["belljar", "cite", "display", "tools"];

/// A name that is used and that nothing defines, and the line where it is first used.
pub(crate) type Undefined = (String, usize);

/// The names that neither the code nor `known` defines. Names that it binds are added to `known`.
pub(crate) fn undefined(code: &str, known: &mut BTreeSet<String>) -> Vec<Undefined> {
    let names = with_syntax(code, |parsed| {
        let mut names = Names::default();
        match parsed.syntax() {
            Mod::Module(module) if parsed.has_valid_syntax() => names.visit_body(&module.body),
            // The interpreter says best what is wrong with it.
            _ => names.anything = true,
        }
        names
    });
    let Some(names) = names else {
        return Vec::new();
    };
    known.extend(names.bound);
    if names.anything {
        return Vec::new();
    }
    let mut found: Vec<Undefined> = Vec::new();
    for (name, at) in names.used {
        let defined = known.contains(&name) || name.starts_with('_') || is_built_in(&name);
        if !defined && !found.iter().any(|(other, _)| *other == name) {
            found.push((name, code[..at].lines().count().max(1)));
        }
    }
    found
}

fn is_built_in(name: &str) -> bool {
    const NEWEST: u8 = 14;
    OURS.contains(&name) || ruff_python_stdlib::builtins::is_python_builtin(name, NEWEST, false)
}

#[derive(Default)]
struct Names {
    bound: Vec<String>,
    used: Vec<(String, usize)>,
    /// Whether names come from where this can't see.
    anything: bool,
}

impl Names {
    fn bind(&mut self, name: &Name) {
        self.bound.push(name.to_string());
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => self.bind(&function.name.id),
            Stmt::ClassDef(class) => self.bind(&class.name.id),
            Stmt::Global(names) => names.names.iter().for_each(|name| self.bind(&name.id)),
            Stmt::Nonlocal(names) => names.names.iter().for_each(|name| self.bind(&name.id)),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            match name.ctx {
                ExprContext::Load => {
                    self.anything |= matches!(&*name.id, "exec" | "globals" | "locals" | "vars");
                    let at = name.range.start().to_usize();
                    self.used.push((name.id.to_string(), at));
                }
                ExprContext::Store | ExprContext::Del | ExprContext::Invalid => {
                    self.bind(&name.id);
                }
            }
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        let name = alias.asname.as_ref().unwrap_or(&alias.name);
        self.anything |= &*name.id == "*";
        let first = name.id.split('.').next().unwrap_or_default();
        self.bound.push(first.to_owned());
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(&parameter.name.id);
        visitor::walk_parameter(self, parameter);
    }

    fn visit_type_param(&mut self, parameter: &'a TypeParam) {
        self.bind(&parameter.name().id);
        visitor::walk_type_param(self, parameter);
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

/// The name that a pattern binds by itself.
pub(super) fn captured(pattern: &Pattern) -> Option<&Identifier> {
    match pattern {
        Pattern::MatchAs(part) => part.name.as_ref(),
        Pattern::MatchStar(part) => part.name.as_ref(),
        Pattern::MatchMapping(part) => part.rest.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Vec<Undefined> {
        undefined(code, &mut BTreeSet::from(["df".to_owned()]))
    }

    #[test]
    fn what_nothing_defines_is_found() {
        let found = |name: &str, line| vec![(name.to_owned(), line)];
        assert_eq!(names("print(total)"), found("total", 1));
        assert_eq!(names("x = 1\n\ny = x + np.pi\nz = np.e"), found("np", 3));
        assert_eq!(names("def f(a):\n    return a + b"), found("b", 2));
        assert_eq!(names("print(f'{name} {df}')"), found("name", 1));
        assert_eq!(names("for n in rows: pass"), found("rows", 1));
    }

    /// Whatever binds a name, wherever it stands.
    #[test]
    fn what_may_be_defined_is_let_through() {
        for code in [
            "import os.path, numpy as np\nfrom json import loads as read\nos, np, read",
            "def f(a, /, b=1, *c, d, **e): return a, b, c, d, e, f, g\ng = 2",
            "class A[T]:\n    x: T = None\n    def m(self): return self, A, T",
            "try:\n    pass\nexcept ValueError as error:\n    print(error)",
            "with open('a') as (one, *rest): print(one, rest)",
            "match df:\n    case [a, *b]: print(a, b)\n    case {'k': c, **d}: print(c, d)\n    case str() as e: print(e)",
            "print([i + j for i in range(3) for j in df if (k := i)], k, lambda q: q)",
            "def f():\n    global made\n    made = 1\nf(); print(made)",
            "from math import *\nprint(sqrt(2))",
            "globals()['late'] = 1\nprint(late)",
            "print(__name__, _, display, df, ValueError, exit)",
            "print(this is no Python",
            "del df\nasync def g():\n    async for x in y(): pass\nimport y",
        ] {
            assert_eq!(names(code), [], "{code}");
        }
    }

    #[test]
    fn cells_of_one_reply_know_each_other() {
        let mut known = BTreeSet::new();
        assert_eq!(undefined("a = 1", &mut known), []);
        assert_eq!(undefined("print(a)", &mut known), []);
    }
}
