//! What an expression may be.

use ruff_python_ast::{Arguments, Expr, ExprCall, FStringPart, InterpolatedStringElement};

use super::known;
use super::results::{Given, combined};
use super::scope::Scopes;
use super::value::{HOLE, Value, Values};

/// How far an expression is followed; a chain can be as long as the code.
const FAR: usize = 16;

/// What was followed at least this far is not followed again.
const ENOUGH: usize = 8;

impl Scopes<'_> {
    /// What an expression may be.
    pub(super) fn eval(&self, expr: &Expr) -> Values {
        self.followed(expr, FAR)
    }

    pub(super) fn followed(&self, expr: &Expr, far: usize) -> Values {
        let Some(far) = far.checked_sub(1) else {
            return Values::any();
        };
        if !self.is_settled || far < ENOUGH {
            return self.follow(expr, far);
        }
        let place = std::ptr::from_ref(expr).addr();
        if let Some(values) = self.seen.borrow().get(&place) {
            return values.clone();
        }
        let values = self.follow(expr, far);
        self.seen.borrow_mut().insert(place, values.clone());
        values
    }

    fn follow(&self, expr: &Expr, far: usize) -> Values {
        let eval = |expr: &Expr| self.followed(expr, far);
        let all = |parts: &[Expr]| {
            let mut out = Values::default();
            for part in parts.iter().take(32) {
                match part {
                    Expr::Starred(starred) => out.extend(&eval(&starred.value).elements()),
                    part => out.extend(&eval(part)),
                }
            }
            out
        };
        match expr {
            Expr::Name(name) => self.meanings(&name.id),
            Expr::Attribute(part) => self.attribute(&eval(&part.value), &part.attr.id),
            Expr::Call(call) => self.called(call, far),
            Expr::StringLiteral(literal) => Values::text(literal.value.to_str()),
            Expr::FString(_) => self.formatted(expr, far),
            Expr::List(list) => all(&list.elts).within(),
            Expr::Tuple(list) => all(&list.elts).within(),
            Expr::Set(list) => all(&list.elts).within(),
            Expr::Dict(dict) => {
                let mut out = Values::default();
                for item in dict.items.iter().take(32) {
                    match &item.key {
                        Some(key) => {
                            out.extend(&eval(key).within());
                            out.extend(&eval(&item.value).within());
                        }
                        None => out.extend(&eval(&item.value)),
                    }
                }
                if out.is_empty() {
                    out.add(Value::Plain);
                }
                out
            }
            Expr::ListComp(part) => eval(&part.elt).within(),
            Expr::SetComp(part) => eval(&part.elt).within(),
            Expr::Generator(part) => eval(&part.elt).within(),
            Expr::DictComp(part) => {
                let keys = part.key.as_deref().map(eval).unwrap_or_default();
                keys.within().or(&eval(&part.value).within())
            }
            Expr::If(part) => eval(&part.body).or(&eval(&part.orelse)),
            Expr::BoolOp(part) => all(&part.values),
            Expr::Named(part) => eval(&part.value),
            Expr::Await(part) => eval(&part.value),
            Expr::Starred(part) => eval(&part.value).elements(),
            Expr::Subscript(part) => self.subscript(&eval(&part.value), &eval(&part.slice)),
            Expr::BinOp(part) => {
                let (left, right) = (eval(&part.left), eval(&part.right));
                combined(&left, part.op, &right)
            }
            Expr::UnaryOp(_)
            | Expr::Compare(_)
            | Expr::NumberLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::NoneLiteral(_)
            | Expr::EllipsisLiteral(_)
            | Expr::BytesLiteral(_) => Values::one(Value::Plain),
            _ => Values::any(),
        }
    }

    /// An attribute of values.
    pub(super) fn attribute(&self, of: &Values, name: &str) -> Values {
        let mut out = Values::default();
        for value in of.iter() {
            match value {
                Value::Named(path) => {
                    out.add(Value::Named(known::member_of(path, name)));
                    out.extend(&self.slot(name));
                }
                Value::Path(text) => match name {
                    "parent" => {
                        out.add(Value::Path(match text.rsplit_once('/') {
                            Some(("", _)) => "/".to_owned(),
                            Some((parent, _)) => parent.to_owned(),
                            None => ".".to_owned(),
                        }));
                    }
                    "name" => {
                        let last = text.rsplit('/').next().unwrap_or_default();
                        out.add(Value::Text(last.to_owned()));
                    }
                    "stem" | "suffix" => out.add(Value::Text(HOLE.to_string())),
                    _ => out.add(Value::Any),
                },
                Value::Made(path) if path.starts_with("tempfile.") && name == "name" => {
                    out.add(Value::Text(format!("/tmp/{HOLE}")));
                }
                Value::Made(path) if known::is_data(path) => out.add(Value::Plain),
                Value::Plain | Value::Text(_) => out.add(Value::Plain),
                Value::Hidden if is_of_text(name) => out.add(Value::Plain),
                Value::Hidden => out.add(Value::Hidden),
                Value::Own | Value::Local(_) => {
                    let slot = self.slot(name);
                    if slot.is_empty() && self.is_settled {
                        out.add(Value::Any);
                    }
                    out.extend(&slot);
                }
                Value::Any | Value::Made(_) | Value::Within(_) => {
                    out.extend(&self.slot(name));
                    out.add(Value::Any);
                }
            }
        }
        out
    }

    fn subscript(&self, of: &Values, key: &Values) -> Values {
        let mut out = Values::default();
        for value in of.iter() {
            match value {
                Value::Within(inner) => out.add((**inner).clone()),
                Value::Made(path) if is_namespace(path) => match key.exact() {
                    Some(name) => out.extend(&self.meanings(name)),
                    None => out.add(Value::Hidden),
                },
                Value::Named(path) if path == "os.environ" => {
                    out.add(Value::Text(HOLE.to_string()));
                }
                Value::Named(path) if path == "sys.modules" || path == "__builtins__" => {
                    out.add(Value::Hidden);
                }
                Value::Made(path) if path == "os.path.splitext" || path == "os.path.split" => {
                    out.add(Value::Text(HOLE.to_string()));
                }
                Value::Text(_) => out.add(Value::Text(HOLE.to_string())),
                // Generics and the like.
                Value::Named(path) => out.add(Value::Named(path.clone())),
                Value::Plain | Value::Made(_) if of.is_plain() => out.add(Value::Plain),
                Value::Hidden => out.add(Value::Hidden),
                _ => out.add(Value::Any),
            }
        }
        out
    }

    fn formatted(&self, expr: &Expr, far: usize) -> Values {
        let Expr::FString(string) = expr else {
            return Values::any();
        };
        let mut out = Values::text("");
        let mut add = |next: &Values| {
            out = out.joined("", next).into_iter().map(Value::Text).collect();
        };
        for part in string.value.as_slice() {
            match part {
                FStringPart::Literal(literal) => add(&Values::text(literal)),
                FStringPart::FString(part) => {
                    for element in &part.elements {
                        match element {
                            InterpolatedStringElement::Literal(literal) => {
                                add(&Values::text(&literal.value));
                            }
                            InterpolatedStringElement::Interpolation(value) => {
                                add(&self.followed(&value.expression, far));
                            }
                        }
                    }
                }
            }
        }
        out
    }

    fn called(&self, call: &ExprCall, far: usize) -> Values {
        let arguments = Given {
            scopes: self,
            arguments: &call.arguments,
            far,
        };
        let mut out = Values::default();
        let functions = match &*call.func {
            Expr::Attribute(part) => {
                let receiver = self.followed(&part.value, far);
                let name = part.attr.id.as_str();
                let of_code = self.returned(&format!(".{name}"));
                let mut named = Values::default();
                for value in receiver.iter() {
                    match value {
                        Value::Named(path) => {
                            named.add(Value::Named(known::member_of(path, name)));
                        }
                        value => out.extend(&self.method(value, name, &arguments, &of_code)),
                    }
                }
                named
            }
            function => self.followed(function, far),
        };
        for function in functions.iter() {
            match function {
                Value::Named(path) => out.extend(&self.made(path, &arguments)),
                Value::Local(name) => {
                    let returned = self.returned(name);
                    if returned.is_empty() && self.is_settled {
                        out.add(Value::Any);
                    }
                    out.extend(&returned);
                }
                Value::Hidden => out.add(Value::Hidden),
                Value::Plain => out.add(Value::Plain),
                _ => out.add(Value::Any),
            }
        }
        if out.is_empty() && self.is_settled {
            out.add(Value::Any);
        }
        out
    }
}

/// An argument by its place or one of its names. Nothing after one that is spread is in its place.
pub(super) fn argument<'a>(given: &'a Arguments, place: usize, names: &[&str]) -> Option<&'a Expr> {
    let is_it = |name: &str| names.contains(&name);
    let by_name = given
        .keywords
        .iter()
        .find(|keyword| keyword.arg.as_ref().is_some_and(|arg| is_it(&arg.id)));
    if let Some(keyword) = by_name {
        return Some(&keyword.value);
    }
    let spread = given.args.iter().position(Expr::is_starred_expr);
    match spread {
        Some(at) if place >= at => None,
        _ => given.args.get(place),
    }
}

/// Methods of texts alone.
pub(super) fn is_of_text(name: &str) -> bool {
    matches!(
        name,
        "startswith" | "endswith" | "lower" | "upper" | "strip" | "split" | "isdigit"
    )
}

pub(super) fn is_namespace(path: &str) -> bool {
    matches!(path, "vars" | "globals" | "locals")
}
