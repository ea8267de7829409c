//! Constants of code that it shows: values that were written, not computed.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, InterpolatedStringElement, Mod, Stmt};

use super::number::numbers;
use crate::dialect::with_syntax;

/// Numbers that a cell has as constants, assigned to a name or printed as they stand.
pub(super) fn constants(code: &str) -> Vec<String> {
    let found = with_syntax(code, |parsed| {
        let mut found = Constants {
            code,
            numbers: Vec::new(),
        };
        if let Mod::Module(module) = parsed.syntax() {
            found.visit_body(&module.body);
        }
        found.numbers
    });
    found.unwrap_or_default()
}

struct Constants<'c> {
    code: &'c str,
    numbers: Vec<String>,
}

impl Constants<'_> {
    fn note(&mut self, expr: &Expr) {
        match expr {
            Expr::NumberLiteral(number) => self.note_text(&self.code[number.range]),
            Expr::UnaryOp(unary) => self.note(&unary.operand),
            Expr::StringLiteral(text) => self.note_text(text.value.to_str()),
            Expr::FString(text) => {
                for element in text.value.elements() {
                    match element {
                        InterpolatedStringElement::Literal(literal) => {
                            self.note_text(&literal.value);
                        }
                        InterpolatedStringElement::Interpolation(part) => {
                            self.note(&part.expression);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn note_text(&mut self, text: &str) {
        let found = numbers(text).into_iter().map(str::to_owned);
        self.numbers.extend(found);
    }
}

impl<'a> Visitor<'a> for Constants<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) => self.note(&assign.value),
            Stmt::Expr(statement) => match &*statement.value {
                Expr::Call(call) => call.arguments.args.iter().for_each(|one| self.note(one)),
                other => self.note(other),
            },
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_that_are_shown() {
        let found = constants("a = 42.3\nprint(f'It is 17 {a}', -5)\nb = x * 100\ny[:30]");
        assert_eq!(found, ["42.3", "17", "5"]);
    }

    proptest::proptest! {
        #[test]
        fn any_code_is_read(code in ".{0,200}") {
            constants(&code);
        }
    }
}
