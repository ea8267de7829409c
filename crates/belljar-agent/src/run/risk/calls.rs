//! What the arguments of a call say.

use ruff_python_ast::{Arguments, Expr, Keyword};

use super::names::{name_of, text};
use super::{Capability, known};

/// Methods of anything whose arguments say whether they touch a file.
pub(super) fn file_method(name: &str, given: &Arguments) -> Option<Capability> {
    let first = given.args.first();
    match name {
        // Of a path the mode is the first argument, of an archive the second.
        "open" => {
            let at = usize::from(!first.and_then(text).is_some_and(is_mode));
            Some(read_or_written(writes(given, at)))
        }
        "system" if first.is_some() => Some(Capability::Processes),
        // Of a file; other things are cut by keywords, or at what was computed.
        "truncate"
            if given.keywords.is_empty() && first.is_none_or(Expr::is_number_literal_expr) =>
        {
            Some(Capability::Deletions)
        }
        // Without a file they give a text.
        name if name.starts_with("to_") && given.args.is_empty() => {
            let into = [
                "path_or_buf",
                "path",
                "buf",
                "excel_writer",
                "path_or_buffer",
            ];
            let into_file = into.iter().any(|name| keyword(given, name).is_some());
            known::file_method(name).filter(|_| into_file)
        }
        name => known::file_method(name),
    }
}

pub(super) fn read_or_written(written: bool) -> Capability {
    if written {
        Capability::FilesWritten
    } else {
        Capability::FilesRead
    }
}

/// Whether a file is opened for writing; `at` is where the mode stands. A mode that can't be seen
/// may be one for writing.
pub(super) fn writes(given: &Arguments, at: usize) -> bool {
    let hidden = given.args.iter().any(Expr::is_starred_expr)
        || given.keywords.iter().any(|keyword| keyword.arg.is_none());
    match keyword(given, "mode").or_else(|| given.args.get(at)) {
        Some(mode) => text(mode).is_none_or(|mode| {
            let (kind, _) = mode.split_once([':', '|']).unwrap_or((mode, ""));
            kind.contains(['w', 'a', 'x', '+'])
        }),
        None => hidden,
    }
}

fn is_mode(text: &str) -> bool {
    (1..=4).contains(&text.len()) && text.bytes().all(|byte| b"rwaxbtU+".contains(&byte))
}

pub(super) fn keyword<'a>(given: &'a Arguments, name: &str) -> Option<&'a Expr> {
    let is_it = |other: &&Keyword| {
        other
            .arg
            .as_ref()
            .is_some_and(|arg| arg.id.as_str() == name)
    };
    given.keywords.iter().find(is_it).map(|found| &found.value)
}

pub(super) fn is_false(value: &Expr) -> bool {
    value
        .as_boolean_literal_expr()
        .is_some_and(|literal| !literal.value)
}

/// `globals()[…]` and the like, which are then called.
pub(super) fn is_lookup(function: &Expr) -> bool {
    let is_namespace = |expr: &Expr| match expr {
        Expr::Call(call) => matches!(name_of(&call.func), Some("globals" | "locals" | "vars")),
        Expr::Attribute(part) => part.attr.id.as_str() == "__dict__",
        _ => false,
    };
    match function {
        Expr::Subscript(part) => is_namespace(&part.value),
        Expr::Call(call) => match &*call.func {
            Expr::Attribute(part) => is_namespace(&part.value),
            _ => false,
        },
        _ => false,
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
pub(super) fn literals<'a>(expr: &'a Expr, words: &mut Vec<&'a str>, deep: usize) {
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
