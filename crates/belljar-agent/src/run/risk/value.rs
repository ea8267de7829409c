//! What an expression may be, as far as the code shows it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Stands in a text for what can't be seen of it.
pub(super) const HOLE: char = '\u{fffc}';

/// The most values of one name or expression.
const MOST: usize = 8;

/// The most bytes of a text or of a dotted path.
const LONGEST: usize = 200;

/// One thing that an expression may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Value {
    /// Anything: it was not followed.
    Any,
    /// Data, of which no part is a module or a function that acts.
    Plain,
    /// A module, or what is in one, by its dotted path.
    Named(String),
    /// The result of calling such a thing.
    Made(String),
    /// A text.
    Text(String),
    /// A path of `pathlib`.
    Path(String),
    /// A function or a class that the code defines.
    Local(String),
    /// An object of a class that the code defines.
    Own,
    /// A container with this in it.
    Within(Box<Value>),
    /// Looked up by a name that can't be seen: a module, a function, anything.
    Hidden,
}

impl Value {
    /// The text of a text or of a path.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Path(text) => Some(text),
            _ => None,
        }
    }

    /// The same, short enough to be kept.
    fn bounded(self) -> Self {
        match self {
            Self::Named(path) if path.len() > LONGEST => Self::Hidden,
            Self::Made(path) if path.len() > LONGEST => Self::Any,
            Self::Text(text) => Self::Text(cut(&text)),
            Self::Path(text) => Self::Path(cut(&text)),
            Self::Within(inner) => match inner.bounded() {
                // Two levels are enough for rows of a table of functions.
                Self::Within(deep) if matches!(*deep, Self::Within(_)) => Self::Within(deep),
                inner => Self::Within(Box::new(inner)),
            },
            other => other,
        }
    }
}

/// A text that is not longer than a kept one may be; a hole stands for the rest.
fn cut(text: &str) -> String {
    const TWO: &str = "\u{fffc}\u{fffc}";
    if text.len() <= LONGEST && !text.contains(TWO) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars() {
        if out.len() >= LONGEST {
            if !out.ends_with(HOLE) {
                out.push(HOLE);
            }
            break;
        }
        if c != HOLE || !out.ends_with(HOLE) {
            out.push(c);
        }
    }
    out
}

/// Everything that an expression may be, in order. Empty: nothing was seen yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Values(Vec<Value>);

impl Values {
    pub(super) fn one(value: Value) -> Self {
        let mut values = Self::default();
        values.add(value);
        values
    }

    pub(super) fn any() -> Self {
        Self::one(Value::Any)
    }

    pub(super) fn text(text: &str) -> Self {
        Self::one(Value::Text(text.to_owned()))
    }

    pub(super) fn named(path: &str) -> Self {
        Self::one(Value::Named(path.to_owned()))
    }

    /// Adds a value. One too many makes the whole hidden: it is not lost silently.
    pub(super) fn add(&mut self, value: Value) {
        let value = value.bounded();
        if self.0.contains(&value) {
            return;
        }
        let is_full = self.0.len() >= MOST;
        let value = match value {
            Value::Plain if is_full => return,
            Value::Named(_) | Value::Hidden if is_full => Value::Hidden,
            _ if is_full => Value::Any,
            value => value,
        };
        if let Err(place) = self.0.binary_search(&value) {
            self.0.insert(place, value);
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for value in &other.0 {
            if !self.0.contains(value) {
                self.add(value.clone());
            }
        }
    }

    /// Adds the values of another; whether there are more now.
    pub(super) fn grow(&mut self, other: &Self) -> bool {
        let before = self.0.len();
        self.extend(other);
        self.0.len() != before
    }

    /// Both.
    pub(super) fn or(mut self, other: &Self) -> Self {
        self.extend(other);
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, value: &Value) -> bool {
        self.0.contains(value)
    }

    /// Whether it can only be data, or a package for data.
    pub(super) fn is_data(&self) -> bool {
        let is_package =
            |value: &Value| matches!(value, Value::Named(path) if super::known::is_data(path));
        let mut others = self.0.iter().filter(|value| !is_package(value)).peekable();
        !self.0.is_empty()
            && (others.peek().is_none() || others.cloned().collect::<Self>().is_plain())
    }

    /// Whether it can only be data.
    pub(super) fn is_plain(&self) -> bool {
        !self.0.is_empty()
            && self.0.iter().all(|value| {
                matches!(
                    value,
                    Value::Plain | Value::Own | Value::Text(_) | Value::Path(_)
                ) || matches!(value, Value::Made(path) if super::known::is_data(path))
            })
    }

    /// Whether it tells nothing that a later cell could need.
    pub(super) fn is_dull(&self) -> bool {
        self.0.iter().all(|value| matches!(value, Value::Any))
    }

    /// The dotted paths among them.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|value| match value {
            Value::Named(path) => Some(path.as_str()),
            _ => None,
        })
    }

    /// The texts; a hole where one can't be seen. None of what was not seen yet.
    pub(super) fn texts(&self) -> BTreeSet<String> {
        let text = |value: &Value| match value.text() {
            Some(text) => text.to_owned(),
            None => HOLE.to_string(),
        };
        self.0.iter().map(text).collect()
    }

    /// The one text that it is, all of it.
    pub(super) fn exact(&self) -> Option<&str> {
        let mut values = self.0.iter();
        match (values.next(), values.next()) {
            (Some(Value::Text(text)), None) if !text.contains(HOLE) => Some(text),
            _ => None,
        }
    }

    /// What is in containers; what is none stays.
    pub(super) fn elements(&self) -> Self {
        let mut out = Self::default();
        for value in &self.0 {
            match value {
                Value::Within(inner) => out.add((**inner).clone()),
                Value::Text(_) => out.add(Value::Text(HOLE.to_string())),
                Value::Plain => out.add(Value::Plain),
                Value::Made(path) if super::known::is_data(path) => out.add(Value::Plain),
                Value::Hidden => out.add(Value::Hidden),
                _ => out.add(Value::Any),
            }
        }
        out
    }

    /// A container with these.
    pub(super) fn within(&self) -> Self {
        let mut out = Self::default();
        for value in &self.0 {
            out.add(Value::Within(Box::new(value.clone())));
        }
        out
    }

    /// Every value by another.
    pub(super) fn map(&self, change: impl Fn(&Value) -> Value) -> Self {
        let mut out = Self::default();
        for value in &self.0 {
            out.add(change(value));
        }
        out
    }

    /// Texts made of both, one after the other.
    pub(super) fn joined(&self, between: &str, next: &Self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        for one in self.texts() {
            for other in next.texts() {
                if out.len() < MOST {
                    out.insert(cut(&format!("{one}{between}{other}")));
                }
            }
        }
        out
    }
}

impl FromIterator<Value> for Values {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut out = Self::default();
        values.into_iter().for_each(|value| out.add(value));
        out
    }
}
