//! Other machines and installers that a call reaches.

use ruff_python_ast::{Arguments, Expr};

use super::Capability;
use super::calls::Called;
use super::known;
use super::look::Look;
use super::target::{self, leads_out};
use super::value::{Value, Values};

impl Called<'_> {
    /// Whether it is one of a mapping.
    fn is_of_mapping(&self) -> bool {
        self.receiver.is_plain()
            || self
                .receiver
                .iter()
                .any(|value| matches!(value, Value::Within(_)))
            || self
                .path
                .as_deref()
                .is_some_and(|path| path.starts_with("os.environ"))
    }
}

impl Look<'_> {
    /// A process that installs packages.
    pub(super) fn installing(
        &mut self,
        capability: Capability,
        arguments: Option<&Arguments>,
        at: usize,
    ) {
        if capability != Capability::Processes {
            return;
        }
        let mut words = Vec::new();
        for argument in arguments.iter().flat_map(|given| &given.args) {
            literals(argument, &mut words, 3);
        }
        let words = words.iter().flat_map(|text| text.split_whitespace());
        if is_install(words) {
            self.find(Capability::Installs, "a process that installs packages", at);
        }
    }

    /// An address that is given to what goes there; whether there is one.
    pub(super) fn by_address(&mut self, call: &Called<'_>, is_read: bool) -> bool {
        let is_loader = match &call.path {
            Some(path) if path.starts_with("urllib.parse.") => false,
            Some(path)
                if matches!(
                    known::first_of(path),
                    "re" | "json"
                        | "html"
                        | "xml"
                        | "csv"
                        | "hashlib"
                        | "logging"
                        | "regex"
                        | "yaml"
                ) =>
            {
                false
            }
            _ if call.name == "get" => !call.is_of_mapping(),
            _ => known::is_loader(call.name),
        };
        // Of a function that an earlier cell defined nothing else is known.
        if is_read && !is_loader {
            return false;
        }
        let is_one = |value: &Value| matches!(value, Value::Text(text) if target::is_address(text));
        let addresses = |values: &Values| {
            // What is in a container goes nowhere by being handed on.
            if is_loader {
                leads_out(values)
            } else {
                values.iter().any(is_one)
            }
        };
        let args = call.given.args.iter();
        let keywords = call.given.keywords.iter().map(|keyword| &keyword.value);
        let leads_out = args
            .chain(keywords)
            .any(|part| addresses(&self.scopes.eval(part)));
        if leads_out {
            let what = call.show();
            self.find(Capability::Network, &what, call.at);
        }
        leads_out
    }
}

pub(super) fn is_install<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let installs = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        matches!(
            name,
            "pip" | "pip3" | "uv" | "conda" | "mamba" | "easy_install" | "apt" | "apt-get" | "npm"
        )
    };
    // What is asked of them stands after them.
    words.any(installs) && words.any(|word| matches!(word, "install" | "add" | "sync"))
}

/// The literal texts of an argument, in their order.
fn literals<'a>(expr: &'a Expr, words: &mut Vec<&'a str>, deep: usize) {
    if deep == 0 {
        return;
    }
    match expr {
        Expr::StringLiteral(literal) => words.push(literal.value.to_str()),
        Expr::List(list) => list
            .elts
            .iter()
            .for_each(|part| literals(part, words, deep - 1)),
        Expr::Tuple(list) => list
            .elts
            .iter()
            .for_each(|part| literals(part, words, deep - 1)),
        Expr::BinOp(operation) => literals(&operation.left, words, deep - 1),
        Expr::FString(string) => {
            let elements = string.value.elements().filter_map(|part| part.as_literal());
            words.extend(elements.map(|part| &*part.value));
        }
        _ => {}
    }
}
