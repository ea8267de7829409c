//! `cite(value, label)`: a value with the model's own words for it.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule};

use super::Words;
use super::cells::{Cells, Part};

/// The names of columns in the conditions of a cell: `region` of `df['region'] == 'North'`.
pub(super) fn columns(module: &ModModule) -> Words {
    let mut found = Columns::default();
    found.visit_body(&module.body);
    found.names
}

#[derive(Default)]
struct Columns {
    is_condition: bool,
    names: Words,
}

impl<'a> Visitor<'a> for Columns {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Compare(_) => {
                let before = std::mem::replace(&mut self.is_condition, true);
                visitor::walk_expr(self, expr);
                self.is_condition = before;
                return;
            }
            Expr::Subscript(part) if self.is_condition => {
                if let Expr::StringLiteral(text) = &*part.slice {
                    self.names.insert(text.value.to_str().to_owned());
                }
            }
            Expr::Attribute(part) if self.is_condition => {
                self.names.insert(part.attr.to_string());
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

impl Cells {
    /// Whether this calls the function of the session, and not one of the cells.
    pub(super) fn is_citation(&self, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else {
            return false;
        };
        matches!(&*call.func, Expr::Name(name) if name.id == "cite")
            && !self.names.contains_key("cite")
            && !self.functions.contains_key("cite")
    }

    /// The parts of the line that a citation prints, and the first of its value.
    pub(super) fn cited(&mut self, call: &ExprCall) -> Option<(Vec<Part>, usize)> {
        let given = &call.arguments;
        let label = given.find_argument_value("label", 1)?;
        let value = given.find_argument_value("value", 0)?;
        let mut parts = Vec::new();
        self.add_parts(label, &mut parts);
        parts.push(Part::Text(": ".to_owned()));
        let first = parts.len();
        self.add_parts(value, &mut parts);
        for part in &mut parts[first..] {
            if let Part::Value(made, _) = part {
                made.limits.retain(|limit| !self.columns.contains(limit));
            }
        }
        Some((parts, first))
    }
}
