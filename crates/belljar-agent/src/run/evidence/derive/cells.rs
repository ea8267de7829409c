//! What the statements of cells do: the names that they write, and the values that they show.

use std::collections::BTreeMap;
use std::sync::Arc;

use ruff_python_ast::{
    Arguments, Expr, InterpolatedStringElement, Mod, Operator, Stmt, StmtFunctionDef,
};
use ruff_text_size::Ranged;

use super::{Made, Measure, Origin, Shape, Words, citations, units};
use crate::dialect::with_syntax;

/// The longest code that is kept of a statement, and the most values that a cell shows.
const MOST_CODE: usize = 160;
const MOST_SHOWN: usize = 60;
/// The longest function that is followed, in bytes.
const MOST_FUNCTION: usize = 1024;

/// A name, and where it was written; without a place if it lives in a loop or a function alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) made: Made,
    pub(super) origin: Option<Arc<Origin>>,
}

/// The namespace as far as the code of the cells says it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Cells {
    pub(super) names: BTreeMap<String, Known>,
    pub(super) functions: BTreeMap<String, Arc<StmtFunctionDef>>,
    pub(super) returned: Vec<Made>,
    pub(super) depth: usize,
    pub(super) steps: usize,
    /// How deep in functions of the cells.
    pub(super) calls: usize,
    /// What names had outside of the scopes that bind them.
    covered: Vec<(String, Option<Known>)>,
    scopes: usize,
    loops: usize,
    conditions: Vec<Words>,
    cell: Option<u32>,
    code: String,
    shown: Vec<Shown>,
    /// The statement of the cell that is followed.
    statement: usize,
    /// The columns of conditions.
    pub(super) columns: Words,
}

/// A line or a block that a statement shows.
#[derive(Clone, Debug)]
pub(in super::super) struct Shown {
    pub(super) parts: Vec<Part>,
    /// Those of one loop, or under one condition, may come in any number.
    pub(super) statement: usize,
    pub(super) repeats: bool,
    /// Whether nothing may be shown.
    pub(super) may_be_empty: bool,
    /// The first part of the value, if it is a citation.
    pub(super) cites: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    /// A value, with the code of its expression.
    Value(Box<Made>, String),
}

impl Cells {
    /// What a cell shows, in order.
    pub(in super::super) fn follow(&mut self, code: &str, cell: Option<u32>) -> Vec<Shown> {
        let mut own = std::mem::take(self);
        own.cell = cell;
        code.clone_into(&mut own.code);
        own.steps = 0;
        let kept = own.clone();
        let found = with_syntax(code, move |parsed| {
            if let Mod::Module(module) = parsed.syntax() {
                own.columns.extend(citations::columns(module));
                let last = module.body.len().saturating_sub(1);
                for (at, stmt) in module.body.iter().enumerate() {
                    own.statement = at;
                    own.statement(stmt);
                    if let (true, Stmt::Expr(one)) = (at == last, stmt)
                        && !is_print(&one.value)
                        && !own.is_citation(&one.value)
                    {
                        own.show_last(&one.value);
                    }
                }
            }
            own
        });
        *self = found.unwrap_or(kept);
        std::mem::take(&mut self.shown)
    }

    /// Begins a scope: [`Self::leave`] gives the names that it binds back their values.
    pub(super) fn enter(&mut self) -> usize {
        self.scopes += 1;
        self.covered.len()
    }

    pub(super) fn leave(&mut self, mark: usize) {
        self.scopes -= 1;
        while self.covered.len() > mark {
            match self.covered.pop() {
                Some((name, Some(known))) => self.names.insert(name, known),
                Some((name, None)) => self.names.remove(&name),
                None => break,
            };
        }
    }

    fn set(&mut self, name: &str, known: Known) {
        let before = self.names.insert(name.to_owned(), known);
        if self.scopes > 0 {
            self.covered.push((name.to_owned(), before));
        }
    }

    pub(super) fn run(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    fn text_of(&self, node: &impl Ranged) -> String {
        // Of a function of an earlier cell, the code is not here.
        if self.calls > 0 {
            return String::new();
        }
        let range = node.range();
        let text = self
            .code
            .get(range.start().to_usize()..range.end().to_usize());
        text.unwrap_or_default().chars().take(MOST_CODE).collect()
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(assign) => {
                let made = self.eval(&assign.value);
                let code = self.text_of(assign);
                for target in &assign.targets {
                    self.assign(target, made.clone(), &code);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    let made = self.eval(value);
                    let code = self.text_of(assign);
                    self.assign(&assign.target, made, &code);
                }
            }
            Stmt::AugAssign(assign) => {
                let mut made = self.eval(&assign.value);
                let is_one = made.constant.is_some();
                let before = self.eval(&assign.target);
                for words in &self.conditions {
                    made.limits.extend(words.iter().cloned());
                }
                made.join_inputs(&before);
                let is_sum = assign.op == Operator::Add && self.loops > 0;
                let code = self.text_of(assign);
                let made = match (is_sum, is_one) {
                    (true, true) => made.measured(Measure::Count),
                    (true, false) => made.measured(Measure::Sum),
                    (false, _) => before.clone(),
                };
                let shape = before.shape.clone();
                self.assign(&assign.target, made.with_shape(shape), &code);
            }
            Stmt::For(each) => {
                let all = self.eval(&each.iter);
                let mut one = all.element();
                one.join_inputs(&all);
                self.bind(&each.target, one);
                self.loops += 1;
                self.run(&each.body);
                self.run(&each.orelse);
                self.loops -= 1;
            }
            Stmt::While(each) => {
                self.loops += 1;
                self.run(&each.body);
                self.loops -= 1;
            }
            Stmt::If(one) => {
                let words = self.words(&one.test);
                self.conditions.push(words);
                self.loops += 1;
                self.run(&one.body);
                self.conditions.pop();
                for clause in &one.elif_else_clauses {
                    let words = clause.test.as_ref().map(|test| self.words(test));
                    self.conditions.push(words.unwrap_or_default());
                    self.run(&clause.body);
                    self.conditions.pop();
                }
                self.loops -= 1;
            }
            Stmt::With(with) => {
                for item in &with.items {
                    let made = self.eval(&item.context_expr);
                    if let Some(target) = &item.optional_vars {
                        self.bind(target, made);
                    }
                }
                self.run(&with.body);
            }
            Stmt::Try(one) => {
                self.run(&one.body);
                self.run(&one.orelse);
                self.run(&one.finalbody);
            }
            // A longer one may be too deep a tree for the thread that drops it.
            Stmt::FunctionDef(function) if function.range.len().to_usize() <= MOST_FUNCTION => {
                let name = function.name.to_string();
                self.functions.insert(name, Arc::new(function.clone()));
            }
            Stmt::Return(returned) => {
                if let Some(value) = &returned.value {
                    let made = self.eval(value);
                    self.returned.push(made);
                }
            }
            Stmt::Expr(one) => self.expression(&one.value),
            _ => {}
        }
    }

    fn expression(&mut self, expr: &Expr) {
        let Expr::Call(call) = expr else {
            return;
        };
        if is_print(expr) {
            let is_display = matches!(&*call.func, Expr::Name(name) if name.id == "display");
            let parts = self.printed(&call.arguments);
            let repeats = self.loops > 0 || self.calls > 0 || is_display;
            self.show(parts, repeats, false);
            return;
        }
        if self.is_citation(expr)
            && let Some((parts, value)) = self.cited(call)
        {
            if self.shown.len() < MOST_SHOWN {
                self.shown.push(Shown {
                    parts,
                    statement: self.statement,
                    repeats: self.loops > 0 || self.calls > 0,
                    may_be_empty: false,
                    cites: Some(value),
                });
            }
            return;
        }
        match &*call.func {
            // `rows.append(…)`.
            Expr::Attribute(method) => {
                let added = call.arguments.args.first().map(|one| self.eval(one));
                if let ("append" | "add", Some(mut added)) = (method.attr.as_str(), added) {
                    for words in &self.conditions {
                        added.limits.extend(words.iter().cloned());
                    }
                    self.append(&method.value, added);
                }
            }
            Expr::Name(name) if self.functions.contains_key(name.id.as_str()) => {
                self.eval(expr);
            }
            _ => {}
        }
    }

    fn append(&mut self, list: &Expr, added: Made) {
        match list {
            Expr::Name(name) => {
                if let Some(known) = self.names.get_mut(name.id.as_str()) {
                    known.made.join_inputs(&added);
                    known.made.limits.extend(added.limits.iter().cloned());
                    known.made.shape = Shape::List(Box::new(added));
                }
            }
            // `groups[key].append(…)`.
            Expr::Subscript(part) => {
                let mut one = Made::default();
                one.join_inputs(&added);
                let list = one.with_shape(Shape::List(Box::new(added)));
                let by = self.words(&part.slice);
                if let Expr::Name(name) = &*part.value
                    && let Some(known) = self.names.get_mut(name.id.as_str())
                {
                    known.made.join_inputs(&list);
                    known.made.by = by;
                    known.made.shape = Shape::Map(Box::new(list));
                }
            }
            _ => {}
        }
    }

    fn show(&mut self, parts: Vec<Part>, repeats: bool, may_be_empty: bool) {
        // A text may end a line.
        let mut lines = vec![Vec::new()];
        for part in parts {
            let Part::Text(text) = &part else {
                lines
                    .last_mut()
                    .into_iter()
                    .for_each(|line| line.push(part.clone()));
                continue;
            };
            for (at, text) in text.split('\n').enumerate() {
                if at > 0 {
                    lines.push(Vec::new());
                }
                let text = Part::Text(text.to_owned());
                lines
                    .last_mut()
                    .into_iter()
                    .for_each(|line| line.push(text.clone()));
            }
        }
        for parts in lines {
            let is_blank = parts
                .iter()
                .all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()));
            if !is_blank && self.shown.len() < MOST_SHOWN {
                self.shown.push(Shown {
                    parts,
                    statement: self.statement,
                    repeats,
                    may_be_empty,
                    cites: None,
                });
            }
        }
    }

    fn show_last(&mut self, expr: &Expr) {
        let made = self.eval(expr);
        let is_call = matches!(expr, Expr::Call(_)) && matches!(made.shape, Shape::Unknown);
        let code = self.text_of(expr);
        self.show(vec![Part::Value(Box::new(made), code)], false, is_call);
    }

    /// The parts of a line that is printed.
    fn printed(&mut self, given: &Arguments) -> Vec<Part> {
        let mut parts = Vec::new();
        for one in &given.args {
            if !parts.is_empty() {
                parts.push(Part::Text(" ".to_owned()));
            }
            self.add_parts(one, &mut parts);
        }
        parts
    }

    pub(super) fn add_parts(&mut self, expr: &Expr, parts: &mut Vec<Part>) {
        match expr {
            Expr::StringLiteral(text) => parts.push(Part::Text(text.value.to_str().to_owned())),
            Expr::FString(text) => {
                for element in text.value.elements() {
                    match element {
                        InterpolatedStringElement::Literal(literal) => {
                            parts.push(Part::Text(literal.value.to_string()));
                        }
                        InterpolatedStringElement::Interpolation(part) => {
                            let made = self.eval(&part.expression);
                            let made = if part.format_spec.is_some() {
                                made.with_shape(Shape::Scalar)
                            } else {
                                made
                            };
                            let code = self.text_of(&*part.expression);
                            parts.push(Part::Value(Box::new(made), code));
                        }
                    }
                }
            }
            Expr::BinOp(both) if both.op == Operator::Add && is_text(expr) => {
                self.add_parts(&both.left, parts);
                self.add_parts(&both.right, parts);
            }
            // `'%d of %d' % (a, b)`.
            Expr::BinOp(both) if both.op == Operator::Mod && is_text(&both.left) => {
                if let Expr::StringLiteral(text) = &*both.left {
                    let values: Vec<&Expr> = match &*both.right {
                        Expr::Tuple(all) => all.elts.iter().collect(),
                        one => vec![one],
                    };
                    let mut pieces = text.value.to_str().split('%');
                    parts.extend(pieces.next().map(|one| Part::Text(one.to_owned())));
                    for (piece, value) in pieces.filter(|one| !one.is_empty()).zip(values) {
                        let made = self.eval(value).with_shape(Shape::Scalar);
                        parts.push(Part::Value(Box::new(made), self.text_of(value)));
                        let ends = piece.find(char::is_alphabetic).map_or(0, |at| at + 1);
                        parts.push(Part::Text(piece[ends..].to_owned()));
                    }
                }
            }
            Expr::Call(call) => {
                if let Expr::Name(name) = &*call.func
                    && name.id == "str"
                    && let Some(one) = call.arguments.args.first()
                {
                    return self.add_parts(one, parts);
                }
                if let Expr::Attribute(method) = &*call.func
                    && method.attr.as_str() == "format"
                    && let Expr::StringLiteral(text) = &*method.value
                {
                    let mut values = call.arguments.args.iter();
                    for piece in text.value.to_str().split('{') {
                        let Some((_, after)) = piece.split_once('}') else {
                            parts.push(Part::Text(piece.to_owned()));
                            continue;
                        };
                        let value = values.next();
                        let made = value.map(|one| self.eval(one)).unwrap_or_default();
                        let code = value.map(|one| self.text_of(one)).unwrap_or_default();
                        parts.push(Part::Value(Box::new(made.with_shape(Shape::Scalar)), code));
                        parts.push(Part::Text(after.to_owned()));
                    }
                    return;
                }
                let made = self.eval(expr);
                parts.push(Part::Value(Box::new(made), self.text_of(expr)));
            }
            Expr::Starred(one) => {
                let mut made = self.eval(&one.value);
                made.shape = Shape::Unknown;
                parts.push(Part::Value(Box::new(made), self.text_of(&*one.value)));
            }
            _ => {
                let made = self.eval(expr);
                parts.push(Part::Value(Box::new(made), self.text_of(expr)));
            }
        }
    }

    /// Binds the names of a loop: they are no inputs themselves.
    pub(super) fn bind(&mut self, target: &Expr, made: Made) {
        match target {
            Expr::Name(name) => self.bind_name(&name.id, made),
            Expr::Tuple(all) => {
                for (at, one) in all.elts.iter().enumerate() {
                    self.bind(one, unpacked(&made, at, all.elts.len()));
                }
            }
            Expr::Starred(one) => self.bind(&one.value, made),
            _ => {}
        }
    }

    pub(super) fn bind_name(&mut self, name: &str, mut made: Made) {
        if made.about.is_empty() && !matches!(made.shape, Shape::Frame(_)) {
            made.rename(name);
        }
        let known = Known { made, origin: None };
        self.set(name, known);
    }

    fn assign(&mut self, target: &Expr, made: Made, code: &str) {
        match target {
            Expr::Name(name) => {
                let name = name.id.to_string();
                let made = called(made, &name);
                let cell = self.cell;
                let origin = (self.calls == 0).then(|| {
                    let code = code.to_owned();
                    Arc::new(Origin { cell, code })
                });
                self.set(&name, Known { made, origin });
            }
            Expr::Tuple(all) => {
                for (at, one) in all.elts.iter().enumerate() {
                    self.assign(one, unpacked(&made, at, all.elts.len()), code);
                }
            }
            Expr::Starred(one) => self.assign(&one.value, made, code),
            Expr::Subscript(part) => {
                let Expr::Name(name) = &*part.value else {
                    return;
                };
                let key = match &*part.slice {
                    Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
                    // A column of a table with two heads.
                    Expr::Tuple(all) => all.elts.iter().find_map(|one| match one {
                        Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
                        _ => None,
                    }),
                    _ => None,
                };
                let by = self.words(&part.slice);
                let Some(known) = self.names.get_mut(name.id.as_str()) else {
                    return;
                };
                known.made.join_inputs(&made);
                let Some(key) = key else {
                    let own = &mut known.made;
                    if let Shape::Map(_) | Shape::Dict(_) = own.shape {
                        own.by = by;
                        own.shape = Shape::Map(Box::new(made));
                    }
                    return;
                };
                let made = called(made, &key);
                match &mut known.made.shape {
                    Shape::Dict(named) => named.push((key, made)),
                    Shape::Frame(named) => named.push((key, made.with_shape(Shape::Series))),
                    other @ Shape::Unknown => {
                        *other = Shape::Frame(vec![(key, made.with_shape(Shape::Series))]);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// A value under a name: what is about one thing keeps its word, what was made of several has the name alone.
fn called(mut made: Made, name: &str) -> Made {
    made.constant = made.constant.filter(|text| !text.is_empty());
    let rename = |made: &mut Made| {
        if units::of_name(name).is_some() {
            made.rename(name);
            return;
        }
        if made.about.len() > 1 || made.has(Measure::Ratio) || made.has(Measure::Difference) {
            made.about.clear();
        }
        made.about.insert(name.to_owned());
    };
    match &mut made.shape {
        Shape::Frame(_) | Shape::Groups | Shape::Dict(_) | Shape::Tuple(_) => {}
        Shape::List(one) | Shape::Map(one) => {
            if matches!(one.shape, Shape::Scalar | Shape::Unknown) {
                rename(one);
            }
        }
        _ => rename(&mut made),
    }
    made
}

/// The part of a value that the n-th of several names gets.
fn unpacked(made: &Made, at: usize, names: usize) -> Made {
    let mut part = match &made.shape {
        Shape::Tuple(all) if all.len() == names => all[at].clone(),
        _ => Made {
            shape: Shape::Unknown,
            measures: made.measures.clone(),
            ..Made::default()
        },
    };
    part.join_rows(made);
    part
}

fn is_print(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else {
        return false;
    };
    matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "print" | "display" | "pprint"))
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::StringLiteral(_) | Expr::FString(_) => true,
        Expr::Call(call) => matches!(&*call.func, Expr::Name(name) if name.id == "str"),
        Expr::BinOp(both) => is_text(&both.left) || is_text(&both.right),
        _ => false,
    }
}
