//! Names that cells read and write: what a printed value was computed from, and what changed it later.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprContext, Mod, Operator, Stmt};

use crate::dialect::with_syntax;
use crate::run::cell_names::{changes, root};

/// A statement of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    /// Its text, if it is an assignment or an expression.
    pub(super) code: String,
    pub(super) reads: BTreeSet<String>,
    /// Names that it binds or changes.
    pub(super) writes: BTreeSet<String>,
    /// Whether it prints, or is the expression that a cell shows.
    pub(super) shows: bool,
    /// Names that it shows as they are.
    pub(super) shown_names: BTreeSet<String>,
    /// Members, functions and texts that it uses.
    pub(super) uses: BTreeSet<String>,
    /// Whether it divides something by another thing.
    pub(super) divides: bool,
    /// The column that it sets, if it does nothing else.
    pub(super) sets: Option<String>,
    /// Names of its loops.
    bound: BTreeSet<String>,
}

/// The statements of a cell, as far as they can be read.
pub(super) fn statements(code: &str) -> Vec<Statement> {
    let found = with_syntax(code, |parsed| {
        let Mod::Module(module) = parsed.syntax() else {
            return Vec::new();
        };
        let last = module.body.len().saturating_sub(1);
        let statements = module.body.iter().enumerate().map(|(at, stmt)| {
            let mut found = Statement {
                shows: at == last && matches!(stmt, Stmt::Expr(_)),
                ..Statement::default()
            };
            found.visit_stmt(stmt);
            let bound = std::mem::take(&mut found.bound);
            found.reads.retain(|name| !bound.contains(name));
            found.writes.retain(|name| !bound.contains(name));
            if let (true, Stmt::Expr(shown)) = (found.shows, stmt) {
                found.note_shown(&shown.value);
            }
            found.code = match stmt {
                Stmt::Assign(one) => code[one.range].to_owned(),
                Stmt::AugAssign(one) => code[one.range].to_owned(),
                Stmt::Expr(one) => code[one.range].to_owned(),
                _ => String::new(),
            };
            found
        });
        statements.collect()
    });
    found.unwrap_or_default()
}

impl Statement {
    fn note_shown(&mut self, expr: &Expr) {
        match expr {
            Expr::Name(name) => {
                self.shown_names.insert(name.id.to_string());
            }
            Expr::FString(text) => {
                for part in text
                    .value
                    .elements()
                    .filter_map(|part| part.as_interpolation())
                {
                    self.note_shown(&part.expression);
                }
            }
            Expr::Tuple(tuple) => tuple.iter().for_each(|one| self.note_shown(one)),
            _ => {}
        }
    }

    /// A name that lives in its loop alone.
    fn bind(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => {
                self.bound.insert(name.id.to_string());
            }
            Expr::Tuple(tuple) => tuple.iter().for_each(|one| self.bind(one)),
            _ => {}
        }
    }

    fn note_change(&mut self, target: &Expr) {
        if let (Some(name), false) = (root(target), target.is_name_expr()) {
            self.writes.insert(name.to_owned());
            self.reads.insert(name.to_owned());
        }
    }
}

impl<'a> Visitor<'a> for Statement {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) => {
                assign.targets.iter().for_each(|one| self.note_change(one));
                if let [Expr::Subscript(part)] = &assign.targets[..]
                    && let Expr::StringLiteral(column) = &*part.slice
                {
                    self.sets = Some(column.value.to_str().to_owned());
                }
            }
            Stmt::For(one) => self.bind(&one.target),
            Stmt::AugAssign(assign) => {
                self.note_change(&assign.target);
                if let Some(name) = root(&assign.target) {
                    self.reads.insert(name.to_owned());
                }
            }
            Stmt::Delete(delete) => delete.targets.iter().for_each(|one| self.note_change(one)),
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.bind(&comprehension.target);
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => {
                let names = match name.ctx {
                    ExprContext::Load => &mut self.reads,
                    _ => &mut self.writes,
                };
                names.insert(name.id.to_string());
                self.uses.insert(name.id.to_string());
            }
            Expr::Attribute(member) => {
                self.uses.insert(member.attr.to_string());
            }
            Expr::Call(call) => {
                let is_print = matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "print" | "display" | "cite"));
                if is_print {
                    self.shows = true;
                    call.arguments
                        .args
                        .iter()
                        .for_each(|one| self.note_shown(one));
                }
                if let Expr::Attribute(method) = &*call.func {
                    let changes = changes(&method.attr, &call.arguments.keywords);
                    if let Some(name) = root(&method.value).filter(|_| changes) {
                        self.writes.insert(name.to_owned());
                    }
                }
            }
            Expr::BinOp(one) => self.divides |= one.op == Operator::Div,
            Expr::StringLiteral(text) => {
                self.uses.insert(text.value.to_str().to_owned());
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

/// What the names at the end of these cells were computed from, themselves included.
pub(super) fn origins<'s>(
    cells: impl Iterator<Item = &'s [Statement]>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut origins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for statement in cells.flatten() {
        let mut from: BTreeSet<String> = BTreeSet::new();
        for name in &statement.reads {
            from.insert(name.clone());
            from.extend(origins.get(name).into_iter().flatten().cloned());
        }
        for name in &statement.writes {
            origins.insert(name.clone(), from.clone());
        }
    }
    origins
}
