//! What an expression makes.

use std::sync::Arc;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprSubscript, Number, Operator, UnaryOp};

use super::{Cells, Made, Measure, Shape, Words, joined};

/// How deep an expression is followed, and how many in all.
const DEPTH: usize = 24;
const STEPS: usize = 5000;

/// Attributes that lead to the same data.
const SAME: [&str; 12] = [
    "loc", "iloc", "at", "iat", "str", "dt", "values", "T", "index", "columns", "array", "real",
];

impl Cells {
    pub(super) fn eval(&mut self, expr: &Expr) -> Made {
        if self.depth >= DEPTH || self.steps >= STEPS {
            return Made::default();
        }
        self.depth += 1;
        self.steps += 1;
        let made = self.look(expr).bounded();
        self.depth -= 1;
        made
    }

    fn look(&mut self, expr: &Expr) -> Made {
        match expr {
            Expr::Name(name) => self.named(&name.id),
            Expr::NumberLiteral(number) => Made::constant(match &number.value {
                Number::Int(one) => one.to_string(),
                Number::Float(one) => one.to_string(),
                Number::Complex { .. } => String::new(),
            }),
            Expr::StringLiteral(text) => Made::constant(text.value.to_str().to_owned()),
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => Made::constant(String::new()),
            Expr::FString(text) => {
                let mut made = Made::scalar();
                for part in text
                    .value
                    .elements()
                    .filter_map(|one| one.as_interpolation())
                {
                    made.join(&self.eval(&part.expression));
                }
                made
            }
            Expr::Attribute(part) => {
                let base = self.eval(&part.value);
                match part.attr.as_str() {
                    "shape" => {
                        let rows = base.clone().aggregated(Measure::Count);
                        let mut columns = Made::scalar();
                        columns.about.insert("columns".to_owned());
                        columns.join_inputs(&base);
                        let columns = columns.measured(Measure::Count);
                        Made::default().with_shape(Shape::Tuple(vec![rows, columns]))
                    }
                    "size" => base.aggregated(Measure::Count),
                    attr if SAME.contains(&attr) => base,
                    // `r.name` of a value, or `math.pi` of a module.
                    attr if base.inputs.is_empty() && base.about.is_empty() => {
                        let mut made = Made::scalar();
                        made.about.insert(attr.to_owned());
                        made
                    }
                    "year" | "month" | "day" | "hour" | "days" => base,
                    attr => base.column(attr),
                }
            }
            Expr::Subscript(part) => self.part(part),
            Expr::Call(call) => self.call(call),
            Expr::BinOp(both) => {
                let (left, right) = (self.eval(&both.left), self.eval(&both.right));
                binary(left, right, both.op)
            }
            Expr::UnaryOp(one) => {
                let mut made = self.eval(&one.operand);
                if one.op == UnaryOp::Invert {
                    made.limits.insert("not".to_owned());
                }
                made
            }
            Expr::Compare(compare) => {
                let mut made = self.eval(&compare.left);
                for one in &compare.comparators {
                    let other = self.eval(one);
                    made.join_inputs(&other);
                }
                made.limits.extend(self.words(expr));
                made.is_mask = true;
                made.constant = None;
                made
            }
            Expr::BoolOp(all) => {
                let parts: Vec<Made> = all.values.iter().map(|one| self.eval(one)).collect();
                joined(&parts)
            }
            Expr::If(one) => {
                let parts = [self.eval(&one.body), self.eval(&one.orelse)];
                joined(&parts)
            }
            Expr::Tuple(all) => {
                let parts = all.elts.iter().map(|one| self.eval(one)).collect();
                Made::default().with_shape(Shape::Tuple(parts))
            }
            Expr::List(all) => {
                let parts: Vec<Made> = all
                    .elts
                    .iter()
                    .take(100)
                    .map(|one| self.eval(one))
                    .collect();
                let mut one = joined(&parts);
                one.constant = None;
                let mut made = Made::default();
                made.join_inputs(&one);
                made.with_shape(Shape::List(Box::new(one)))
            }
            Expr::Set(all) => {
                let parts: Vec<Made> = all
                    .elts
                    .iter()
                    .take(100)
                    .map(|one| self.eval(one))
                    .collect();
                Made::default().with_shape(Shape::List(Box::new(joined(&parts))))
            }
            Expr::Dict(dict) => {
                let mut parts = Vec::new();
                for item in dict.items.iter().take(100) {
                    let value = self.eval(&item.value);
                    let key = item.key.as_ref().map(|key| self.eval(key));
                    let key = key.and_then(|key| key.constant).unwrap_or_default();
                    parts.push((key, value));
                }
                Made::default().with_shape(Shape::Dict(parts))
            }
            Expr::ListComp(one) => self.comprehended(&one.generators, |own| own.eval(&one.elt)),
            Expr::Generator(one) => self.comprehended(&one.generators, |own| own.eval(&one.elt)),
            Expr::SetComp(one) => {
                let made = self.comprehended(&one.generators, |own| own.eval(&one.elt));
                made.measured(Measure::Distinct)
            }
            Expr::DictComp(one) => {
                let mut by = Words::new();
                let made = self.comprehended(&one.generators, |own| {
                    by = one
                        .key
                        .as_deref()
                        .map(|key| own.words(key))
                        .unwrap_or_default();
                    own.eval(&one.value)
                });
                let Shape::List(value) = made.shape else {
                    return made;
                };
                let mut map = Made::default().with_shape(Shape::Map(value));
                map.by = by;
                map
            }
            Expr::Await(one) => self.eval(&one.value),
            Expr::Starred(one) => self.eval(&one.value),
            Expr::Named(one) => {
                let made = self.eval(&one.value);
                self.bind(&one.target, made.clone());
                made
            }
            _ => Made::default(),
        }
    }

    fn named(&self, name: &str) -> Made {
        let Some(known) = self.names.get(name) else {
            return Made::default();
        };
        let mut made = known.made.clone();
        if let Some(origin) = &known.origin {
            made.inputs.insert(name.to_owned(), Arc::clone(origin));
        }
        made
    }

    /// A list of what is made for each element.
    fn comprehended(
        &mut self,
        generators: &[Comprehension],
        each: impl FnOnce(&mut Self) -> Made,
    ) -> Made {
        let mark = self.enter();
        let mut limits = Words::new();
        let mut from = Made::default();
        for one in generators {
            let all = self.eval(&one.iter);
            from.join_inputs(&all);
            from.join_rows(&all);
            self.bind(&one.target, all.element());
            for test in &one.ifs {
                limits.extend(self.words(test));
            }
        }
        let mut one = each(self);
        self.leave(mark);
        one.join_inputs(&from);
        one.limits.extend(limits);
        let mut made = from;
        made.limits.extend(one.limits.iter().cloned());
        made.is_mask = one.is_mask;
        made.with_shape(Shape::List(Box::new(one)))
    }

    fn part(&mut self, part: &ExprSubscript) -> Made {
        let base = self.eval(&part.value);
        let is_loc = matches!(&*part.value, Expr::Attribute(one) if matches!(one.attr.as_str(), "loc" | "at" | "iloc" | "iat"));
        match &*part.slice {
            Expr::StringLiteral(text) if is_loc => {
                let mut row = base;
                row.limits.insert(text.value.to_str().to_owned());
                let shape = match row.shape {
                    Shape::Series => Shape::Scalar,
                    _ => Shape::Row,
                };
                row.with_shape(shape)
            }
            Expr::StringLiteral(text) => base.column(text.value.to_str()),
            Expr::Tuple(parts) if is_loc => {
                let mut rows = base;
                if let Some(row) = parts.elts.first().filter(|one| !one.is_slice_expr()) {
                    rows = self.rows(rows, row);
                }
                match parts.elts.get(1) {
                    Some(Expr::StringLiteral(column)) => {
                        let is_one = matches!(rows.shape, Shape::Row);
                        let made = rows.column(column.value.to_str());
                        if is_one {
                            made.with_shape(Shape::Scalar)
                        } else {
                            made
                        }
                    }
                    _ => rows,
                }
            }
            Expr::Tuple(parts) => {
                let names = parts.elts.iter().filter_map(|one| match one {
                    Expr::StringLiteral(text) => Some(text.value.to_str()),
                    _ => None,
                });
                let mut made = base;
                for name in names.filter(|name| !name.is_empty()) {
                    let about = made.about.clone();
                    made = made.column(name);
                    if let Some(measure) = super::measure_of(name) {
                        made.about = about;
                        made = made.measured(measure);
                    }
                }
                made.with_shape(Shape::Series)
            }
            Expr::List(names) => {
                let mut columns = Vec::new();
                for one in &names.elts {
                    if let Expr::StringLiteral(text) = one {
                        let name = text.value.to_str();
                        columns.push((name.to_owned(), base.column(name)));
                    }
                }
                let mut made = base;
                made.about = columns.iter().map(|(name, _)| name.clone()).collect();
                match made.shape {
                    Shape::Groups | Shape::Unknown => made,
                    _ => made.with_shape(Shape::Frame(columns)),
                }
            }
            Expr::Slice(_) => {
                let mut made = base;
                if let Some(sorted) = made.sorted.clone() {
                    made.picked.get_or_insert_default().extend(sorted);
                }
                made
            }
            slice @ (Expr::NumberLiteral(_) | Expr::UnaryOp(_)) => {
                let at = position(slice);
                base.nth(at)
            }
            slice => self.rows(base, slice),
        }
    }

    /// The rows that a condition, a key or a label selects.
    fn rows(&mut self, mut base: Made, slice: &Expr) -> Made {
        let chosen = self.eval(slice);
        base.join_inputs(&chosen);
        if chosen.has(Measure::Max) || chosen.has(Measure::Min) {
            // `df.loc[df['a'].idxmax()]`.
            base.picked.get_or_insert_default().extend(chosen.about);
            base.limits.extend(chosen.limits);
            let shape = match base.shape {
                Shape::Series => Shape::Scalar,
                _ => Shape::Row,
            };
            return base.with_shape(shape);
        }
        if chosen.is_mask {
            base.limits.extend(chosen.limits);
            return base;
        }
        let shape = match std::mem::take(&mut base.shape) {
            Shape::Map(value) => {
                let mut value = *value;
                value.join_inputs(&base);
                return value;
            }
            Shape::List(one) => {
                let mut one = *one;
                one.join_inputs(&base);
                return one;
            }
            Shape::Series => Shape::Scalar,
            Shape::Frame(_) if chosen.constant.is_some() => Shape::Row,
            other => other,
        };
        base.limits.extend(chosen.constant);
        base.with_shape(shape)
    }

    /// The words of a condition or a key: columns, texts, numbers.
    pub(super) fn words(&self, expr: &Expr) -> Words {
        let mut found = Found {
            cells: self,
            words: Words::new(),
        };
        found.visit_expr(expr);
        found.words
    }
}

impl Made {
    /// A column, an entry or an attribute.
    pub(super) fn column(&self, name: &str) -> Self {
        let entry = match &self.shape {
            Shape::Frame(named) | Shape::Dict(named) => {
                named.iter().rfind(|(known, _)| known == name)
            }
            _ => None,
        };
        if let Some((_, made)) = entry {
            let mut made = made.clone();
            made.join_rows(self);
            return made;
        }
        let mut made = self.clone();
        made.rename(name);
        made.shape = match &self.shape {
            Shape::Frame(_) => Shape::Series,
            Shape::Groups => Shape::Groups,
            Shape::Row | Shape::Dict(_) | Shape::Series => Shape::Scalar,
            Shape::Map(value) => {
                let mut value = (**value).clone();
                value.limits.insert(name.to_owned());
                value.join_inputs(self);
                return value;
            }
            _ => Shape::Unknown,
        };
        if let Shape::Series = self.shape {
            // An entry of a series is named by its row.
            made.about.clone_from(&self.about);
            made.units.clone_from(&self.units);
            made.limits.insert(name.to_owned());
        }
        made
    }

    /// The element at a position.
    fn nth(self, at: Option<i64>) -> Self {
        if let (Shape::Tuple(all), Some(at)) = (&self.shape, at) {
            let count = i64::try_from(all.len()).unwrap_or(0);
            let at = if at < 0 { at + count } else { at };
            let part = usize::try_from(at).ok().and_then(|at| all.get(at));
            if let Some(part) = part {
                let mut part = part.clone();
                part.join_rows(&self);
                return part;
            }
        }
        let mut one = match self.shape {
            Shape::Frame(_) => self.clone().with_shape(Shape::Row),
            Shape::Row => self.clone().with_shape(Shape::Scalar),
            _ => self.element(),
        };
        if let Some(sorted) = &self.sorted {
            one.picked
                .get_or_insert_default()
                .extend(sorted.iter().cloned());
        }
        one
    }

    /// What a function computes of this.
    pub(super) fn aggregated(mut self, measure: Measure) -> Self {
        let shape = std::mem::take(&mut self.shape);
        let mut made = self;
        if let Shape::List(one) | Shape::Map(one) = &shape {
            made.join(one);
            made.is_mask |= one.is_mask;
            if one.constant.is_some() && measure == Measure::Sum {
                return made.measured(Measure::Count).with_shape(Shape::Scalar);
            }
            made.shape = Shape::Scalar;
        } else {
            made.shape = shape;
        }
        let measure = match measure {
            Measure::Sum if made.is_mask => Measure::Count,
            Measure::Mean if made.is_mask => Measure::Ratio,
            other => other,
        };
        made.is_mask = false;
        if matches!(measure, Measure::Count | Measure::Distinct | Measure::Ratio) {
            made.units.clear();
        }
        let shape = match std::mem::take(&mut made.shape) {
            Shape::Groups if made.about.len() <= 1 || measure == Measure::Count => Shape::Series,
            Shape::Groups => {
                let one = |name: &String| {
                    let mut column = made.clone();
                    column.rename(name);
                    (
                        name.clone(),
                        column.measured(measure).with_shape(Shape::Series),
                    )
                };
                Shape::Frame(made.about.iter().map(one).collect())
            }
            Shape::Frame(_) if measure == Measure::Count => Shape::Scalar,
            Shape::Frame(_) => Shape::Series,
            _ => Shape::Scalar,
        };
        made.measured(measure).with_shape(shape)
    }
}

fn position(slice: &Expr) -> Option<i64> {
    match slice {
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(one) => one.as_i64(),
            _ => None,
        },
        Expr::UnaryOp(one) if one.op == UnaryOp::USub => position(&one.operand).map(|at| -at),
        _ => None,
    }
}

fn binary(left: Made, right: Made, op: Operator) -> Made {
    if matches!(op, Operator::BitAnd | Operator::BitOr) {
        let mut made = left;
        made.is_mask |= right.is_mask;
        made.join(&right);
        return made;
    }
    // A constant changes the scale, not what it is.
    match (left.constant.is_some(), right.constant.is_some()) {
        (true, true) => return Made::constant(String::new()),
        (false, true) if right.inputs.is_empty() => return scaled(left, op),
        (true, false) if left.inputs.is_empty() => return scaled(right, op),
        _ => {}
    }
    let measure = match op {
        Operator::Div | Operator::FloorDiv
            if right.outer() == Some(Measure::Count) && left.has(Measure::Sum) =>
        {
            Some(Measure::Mean)
        }
        Operator::Div | Operator::FloorDiv => Some(Measure::Ratio),
        Operator::Sub => Some(Measure::Difference),
        // A rate times a number is no rate.
        Operator::Mult if left.has(Measure::Ratio) || right.has(Measure::Ratio) => {
            Some(Measure::Other)
        }
        Operator::Add if left.about != right.about => Some(Measure::Both),
        _ => None,
    };
    let is_table =
        |made: &Made| matches!(made.shape, Shape::Series | Shape::Frame(_) | Shape::Groups);
    let shape = match (&left.shape, &right.shape) {
        _ if is_table(&left) => left.shape.clone(),
        _ if is_table(&right) => right.shape.clone(),
        (Shape::List(_), Shape::List(_)) => left.shape.clone(),
        (Shape::Scalar, _) | (_, Shape::Scalar) => Shape::Scalar,
        _ => Shape::Unknown,
    };
    let mut made = left;
    made.join(&right);
    made.is_mask = false;
    if matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mult) {
        made.units.clear();
    }
    match measure {
        Some(measure) => made.measured(measure),
        None => made,
    }
    .with_shape(shape)
}

/// A constant factor may be one between units.
fn scaled(mut made: Made, op: Operator) -> Made {
    if matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mult) {
        made.units.clear();
    }
    made
}

struct Found<'c> {
    cells: &'c Cells,
    words: Words,
}

impl<'a> Visitor<'a> for Found<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::StringLiteral(text) => {
                self.words.insert(text.value.to_str().to_owned());
            }
            Expr::NumberLiteral(number) => {
                let text = match &number.value {
                    Number::Int(one) => one.to_string(),
                    Number::Float(one) => one.to_string(),
                    Number::Complex { .. } => String::new(),
                };
                self.words.insert(text);
            }
            Expr::Attribute(part) if !SAME.contains(&part.attr.as_str()) => {
                self.words.insert(part.attr.to_string());
            }
            Expr::Name(name) => {
                let made = self
                    .cells
                    .names
                    .get(name.id.as_str())
                    .map(|known| &known.made);
                if let Some(made) = made {
                    self.words.extend(made.constant.clone());
                    if made.is_mask {
                        self.words.extend(made.limits.iter().cloned());
                    }
                    if !matches!(made.shape, Shape::Frame(_)) {
                        self.words.extend(made.about.iter().cloned());
                    }
                }
            }
            _ => {}
        }
        if self.words.len() < super::MOST_WORDS {
            visitor::walk_expr(self, expr);
        }
    }
}
