//! Files, databases and expressions that a call is given.

use ruff_python_ast::Expr;

use super::Capability;
use super::calls::Called;
use super::eval::argument;
use super::known;
use super::look::Look;
use super::target::{self, Sql, Target, target};
use super::value::{HOLE, Value, Values};

impl Look<'_> {
    /// Methods of what is not known by a path.
    pub(super) fn method(&mut self, call: &Called<'_>) {
        let Called {
            name, given, at, ..
        } = *call;
        let is_path = call
            .receiver
            .iter()
            .any(|value| matches!(value, Value::Path(_)));
        let first = || argument(given, 0, &["target", "dst"]);
        match name {
            "rename" | "replace" | "move" | "move_into" if is_path => {
                let what = call.show();
                self.find(Capability::Deletions, &what, at);
            }
            "replace" if given.args.len() + given.keywords.len() == 1 => {
                // Texts take two arguments, tables a mapping or keywords.
                let moved = first().map(|part| self.scopes.eval(part));
                let moved = moved.filter(|_| !call.receiver.is_plain());
                if moved.is_some_and(|moved| moved.iter().any(|value| value.text().is_some())) {
                    let what = call.show();
                    self.find(Capability::Deletions, &what, at);
                }
            }
            "write_text" | "write_bytes" | "touch" | "mkdir"
                if is_path || name.starts_with("write") =>
            {
                self.written_to(call, Some(&call.receiver));
            }
            "open" => {
                // Of a path the mode is the first argument, of an archive the second.
                let is_mode = |values: &Values| values.exact().is_some_and(is_mode);
                let first = self.eval(call, 0, &["mode"]);
                if is_path || first.as_ref().is_none_or(is_mode) {
                    self.opened_as(call, Some(&call.receiver), 0);
                } else {
                    self.opened(call, 0, 1);
                }
            }
            "system" if !given.args.is_empty() => {
                let what = call.show();
                self.find(Capability::Processes, &what, at);
            }
            // Of a file; other things are cut by keywords, or at what was computed.
            "truncate"
                if given.keywords.is_empty()
                    && given.args.first().is_none_or(Expr::is_number_literal_expr) =>
            {
                self.find(Capability::Deletions, ".truncate", at);
            }
            "to_sql" => {
                let into = self.eval(call, 1, &["con"]);
                let is_own = |value: &Value| match value {
                    Value::Made(path) => {
                        path.starts_with("sqlite3.")
                            || path.starts_with("duckdb.")
                            || path.starts_with("sqlalchemy.")
                    }
                    Value::Text(text) => text.starts_with("sqlite"),
                    _ => false,
                };
                let is_own = into.is_some_and(|into| !into.is_empty() && into.iter().all(is_own));
                let capability = if is_own {
                    Capability::FilesWritten
                } else {
                    Capability::Unknown
                };
                let what = call.show();
                self.find(capability, &what, at);
            }
            "sql" | "execute" | "executemany" | "executescript" | "read_sql" | "read_sql_query" => {
                self.statement(call);
            }
            "query" | "eval" => {
                self.statement(call);
                self.expression(call);
            }
            "kill" | "terminate"
                if call.receiver.iter().any(
                    |value| matches!(value, Value::Made(path) if path.starts_with("psutil.")),
                ) =>
            {
                let what = call.show();
                self.find(Capability::Processes, &what, at);
            }
            _ => {}
        }
    }

    /// An expression that a table or a library evaluates.
    pub(super) fn expression(&mut self, call: &Called<'_>) {
        if matches!(call.name, "query" | "eval" | "sympify")
            && let Some(values) = self.eval(call, 0, &["expr"])
            && values.iter().filter_map(Value::text).any(target::escapes)
        {
            let what = call.show();
            self.find(Capability::Unknown, &what, call.at);
        }
        if matches!(call.name, "sql" | "execute") {
            self.statement(call);
        }
    }

    /// Statements of SQL.
    pub(super) fn statement(&mut self, call: &Called<'_>) {
        let Some(values) = self.eval(call, 0, &["sql", "query"]) else {
            return;
        };
        let found: Vec<Sql> = values
            .iter()
            .filter_map(Value::text)
            .filter_map(target::sql)
            .collect();
        for found in found {
            let (capability, what) = match found {
                Sql::Remote => (Capability::Network, call.show()),
                Sql::Outside => (
                    Capability::Unknown,
                    format!("{} outside of the workspace", call.show()),
                ),
                Sql::Extension => (Capability::Unknown, call.show()),
            };
            self.find(capability, &what, call.at);
        }
    }

    /// Files that a call reads or writes, by what it is called.
    pub(super) fn files(&mut self, call: &Called<'_>) {
        let path = call.path.as_deref();
        if let Some((place, names)) = known::writes(path, call.name) {
            let is_database = matches!(path, Some("sqlite3.connect" | "duckdb.connect"));
            let to = self.eval(call, place, names);
            if is_database && to.as_ref().is_some_and(|to| to.exact() == Some(":memory:")) {
                return;
            }
            if to.is_some() {
                self.written_to(call, to.as_ref());
            } else if matches!(
                call.name,
                "extractall" | "extract" | "unpack_archive" | "save" | "dump"
            ) {
                let what = call.show();
                self.find(Capability::FilesWritten, &what, call.at);
            }
        } else if known::reads(call.name) || call.name == "read_text" || call.name == "read_bytes" {
            let what = call.show();
            self.find(Capability::FilesRead, &what, call.at);
        }
    }

    /// A file that is opened: `file` and `mode` are the places of these arguments.
    pub(super) fn opened(&mut self, call: &Called<'_>, file: usize, mode: usize) {
        let to = self.eval(call, file, &["file", "filename", "name", "path"]);
        self.opened_as(call, to.as_ref(), mode);
    }

    fn opened_as(&mut self, call: &Called<'_>, to: Option<&Values>, mode: usize) {
        if argument(call.given, 99, &["opener"]).is_some() {
            self.find(Capability::Unknown, "an opener of files", call.at);
        }
        let mode = self.eval(call, mode, &["mode"]);
        match mode {
            None => {
                let what = call.show();
                self.find(Capability::FilesRead, &what, call.at);
            }
            Some(modes) => {
                let is_seen = modes
                    .iter()
                    .all(|mode| matches!(mode, Value::Text(mode) if !mode.contains(HOLE)));
                let writes = modes.iter().filter_map(Value::text).any(|mode| {
                    let (kind, _) = mode.split_once([':', '|']).unwrap_or((mode, ""));
                    kind.contains(['w', 'a', 'x', '+'])
                });
                if !is_seen {
                    let what = format!("{} in a mode that can't be seen", call.show());
                    self.find(Capability::Unknown, &what, call.at);
                } else if writes {
                    self.written_to(call, to);
                } else {
                    let what = call.show();
                    self.find(Capability::FilesRead, &what, call.at);
                }
            }
        }
    }

    /// A file that is written.
    pub(super) fn written_to(&mut self, call: &Called<'_>, to: Option<&Values>) {
        let what = call.show();
        let (capability, what) = match to.map(target) {
            Some(Target::Inside) => (Capability::FilesWritten, what),
            Some(Target::Code(module)) => {
                self.written.insert(module);
                (Capability::FilesWritten, what)
            }
            Some(Target::Remote) => (Capability::Network, what),
            Some(Target::Outside) => (
                Capability::Unknown,
                format!("{what} outside of the workspace"),
            ),
            Some(Target::Unseen) | None => (
                Capability::Unknown,
                format!("{what} to a file that can't be seen"),
            ),
        };
        self.find(capability, &what, call.at);
    }
}

fn is_mode(text: &str) -> bool {
    (1..=4).contains(&text.len()) && text.bytes().all(|byte| b"rwaxbtU+".contains(&byte))
}
