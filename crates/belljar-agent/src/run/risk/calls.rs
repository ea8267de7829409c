//! What a call does, by its function and its arguments.

use ruff_python_ast::{Arguments, Expr};

use super::Capability;
use super::eval::argument;
use super::known;
use super::look::{Look, called, receiver, shown};
use super::target;
use super::value::{HOLE, Value, Values};

/// A call that is looked at.
pub(super) struct Called<'a> {
    /// The function by its path, where it is known.
    pub(super) path: Option<String>,
    /// The last part of its name.
    pub(super) name: &'a str,
    /// The object, of a method.
    pub(super) receiver: Values,
    pub(super) given: &'a Arguments,
    pub(super) at: usize,
}

impl Called<'_> {
    /// As a finding shows it.
    pub(super) fn show(&self) -> String {
        let first = first_text(Some(self.given));
        let name = self.path.clone().unwrap_or_else(|| {
            let dot = if self.receiver.is_empty() { "" } else { "." };
            format!("{dot}{}", self.name)
        });
        called(&name, first.as_deref())
    }
}

impl Look<'_> {
    /// Looks at a call.
    pub(super) fn call(
        &mut self,
        function: &Expr,
        name: &str,
        values: &Values,
        given: &Arguments,
        at: usize,
        is_known: bool,
    ) {
        let receiver = receiver(&self.scopes, function);
        let paths: Vec<String> = values.paths().map(str::to_owned).collect();
        let is_method = paths.is_empty() && function.is_attribute_expr();
        for path in paths {
            let call = Called {
                name: path.rsplit('.').next().unwrap_or_default(),
                path: Some(path.clone()),
                receiver: Values::default(),
                given,
                at,
            };
            let leads_out = self.by_address(&call, true);
            if !is_known && !leads_out {
                self.function(&call);
                self.files(&call);
            }
        }
        let others = values.iter().any(|value| !matches!(value, Value::Named(_)));
        let call = Called {
            path: None,
            name,
            receiver,
            given,
            at,
        };
        if is_method || function.is_attribute_expr() && others {
            let leads_out = self.by_address(&call, true);
            if !is_known && !leads_out {
                self.method(&call);
                self.files(&call);
            }
        } else if others {
            let is_local = self.scopes.functions.contains_key(name);
            self.by_address(&call, is_local);
        }
    }

    pub(super) fn eval(&self, call: &Called<'_>, place: usize, names: &[&str]) -> Option<Values> {
        if let Some(found) = argument(call.given, place, names) {
            return Some(self.scopes.eval(found));
        }
        // What is spread may be it.
        let spread = call.given.args.iter().filter_map(Expr::as_starred_expr);
        let spread = spread.map(|part| self.scopes.eval(&part.value).elements());
        let keywords = call
            .given
            .keywords
            .iter()
            .filter(|keyword| keyword.arg.is_none());
        let keywords = keywords.map(|part| self.scopes.eval(&part.value).elements());
        let all = spread.chain(keywords).reduce(|one, other| one.or(&other))?;
        // A mapping without such a name does not give it.
        let is_named_elsewhere = place == 99 || !names.is_empty();
        let may = call
            .given
            .keywords
            .iter()
            .all(|keyword| keyword.arg.is_some());
        (may || !is_named_elsewhere || self.may_have(call, names)).then_some(all)
    }

    /// Whether a mapping that is spread may have one of these names: its keys are among its values.
    fn may_have(&self, call: &Called<'_>, names: &[&str]) -> bool {
        let keywords = call
            .given
            .keywords
            .iter()
            .filter(|keyword| keyword.arg.is_none());
        keywords.map(|keyword| &keyword.value).any(|value| {
            let elements = self.scopes.eval(value).elements();
            elements.iter().any(|value| match value {
                Value::Text(text) => text.contains(HOLE) || names.contains(&text.as_str()),
                Value::Plain => false,
                _ => true,
            })
        })
    }

    /// What is not what its name says, for its arguments.
    pub(super) fn is_excepted(&self, path: &str, arguments: Option<&Arguments>) -> bool {
        let Some(given) = arguments else {
            return false;
        };
        let text = |place, names: &[&str]| {
            let values = argument(given, place, names).map(|part| self.scopes.eval(part));
            values.and_then(|values| values.exact().map(str::to_owned))
        };
        match path {
            // A plain import, written as a call.
            "__import__" => {
                let module = text(0, &["name"]);
                module.is_some_and(|module| {
                    known::import(&module).is_none()
                        && known::class(&module) != known::Class::Module
                })
            }
            "pandas.eval" => text(0, &["expr"]).is_some_and(|text| !target::escapes(&text)),
            _ => false,
        }
    }

    /// Functions whose arguments say what they do.
    fn function(&mut self, call: &Called<'_>) {
        let Some(path) = call.path.as_deref() else {
            return;
        };
        let unknown = |look: &mut Self| {
            let what = call.show();
            look.find(Capability::Unknown, &what, call.at);
        };
        match path {
            "getattr" | "setattr" | "delattr" => self.by_name(call, path),
            "vars" => {
                let of = self.eval(call, 0, &[]);
                if of.is_some_and(|of| of.paths().any(|path| !known::is_data(path))) {
                    self.find(Capability::Unknown, "vars of a module", call.at);
                }
            }
            "importlib.import_module" => match self
                .eval(call, 0, &["name"])
                .as_ref()
                .and_then(Values::exact)
            {
                Some(module) => {
                    let module = module.to_owned();
                    self.imported(&module, call.at);
                    if known::class(&module) == known::Class::Module {
                        unknown(self);
                    }
                }
                None => unknown(self),
            },
            "operator.attrgetter" | "operator.methodcaller" | "operator.itemgetter" => {
                if path == "operator.itemgetter" {
                    return;
                }
                let most = if path.ends_with("caller") {
                    1
                } else {
                    usize::MAX
                };
                for part in call.given.args.iter().take(most) {
                    let values = self.scopes.eval(part);
                    let is_plain =
                        |name: &str| known::attribute(name).is_none() && !is_ambiguous(name);
                    if !values
                        .exact()
                        .is_some_and(|text| text.split('.').all(is_plain))
                    {
                        unknown(self);
                    }
                }
            }
            "codecs.decode" | "codecs.encode" => {
                let codec = self.eval(call, 1, &["encoding"]);
                let is_plain = codec.as_ref().is_none_or(|codec| {
                    let starts = ["utf", "ascii", "latin", "cp1252", "hex", "base64"];
                    codec.exact().is_some_and(|codec| {
                        starts
                            .iter()
                            .any(|start| codec.to_ascii_lowercase().starts_with(start))
                    })
                });
                if !is_plain {
                    unknown(self);
                }
            }
            "timeit.timeit" | "timeit.repeat" | "timeit.Timer" | "cProfile.run" | "profile.run"
            | "cProfile.runctx" | "profile.runctx" => {
                let parts = call.given.args.iter().take(2);
                let named = call.given.keywords.iter().map(|keyword| &keyword.value);
                let runs = parts.chain(named).any(|part| {
                    self.scopes
                        .eval(part)
                        .iter()
                        .any(|value| value.text().is_some())
                });
                if runs {
                    unknown(self);
                }
            }
            "numpy.load" => {
                let pickled = argument(call.given, 2, &["allow_pickle"]);
                if pickled.is_some_and(|value| !is_false(value)) {
                    unknown(self);
                } else {
                    let what = call.show();
                    self.find(Capability::FilesRead, &what, call.at);
                }
            }
            "yaml.load" | "yaml.load_all" => {
                let loader = self.eval(call, 1, &["Loader"]);
                let safe = ["yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader"];
                if !loader.is_some_and(|loader| loader.paths().any(|path| safe.contains(&path))) {
                    unknown(self);
                }
            }
            "sympy.sympify"
            | "sympy.S"
            | "sympy.parse_expr"
            | "sympy.parsing.sympy_parser.parse_expr"
            | "numexpr.evaluate"
            | "sympy.lambdify" => {
                let given = self.eval(call, 0, &["a", "s", "ex"]);
                let text = given.as_ref().and_then(Values::exact);
                let is_seen = given.as_ref().is_some_and(|given| {
                    given.is_plain() && !given.iter().any(|value| value.text().is_some())
                });
                if path != "sympy.lambdify" && !is_seen && text.is_none_or(target::escapes) {
                    unknown(self);
                }
            }
            "sqlalchemy.create_engine" => {
                let address = self.eval(call, 0, &["url"]);
                let own = address
                    .as_ref()
                    .and_then(Values::exact)
                    .map(|text| text.starts_with("sqlite"));
                let capability = match own {
                    Some(true) => Capability::FilesWritten,
                    _ => Capability::Network,
                };
                let what = call.show();
                self.find(capability, &what, call.at);
            }
            "os.open" => {
                let flags = argument(call.given, 1, &["flags"]);
                let reads = flags.is_some_and(|flags| {
                    let values = self.scopes.eval(flags);
                    values.paths().eq(["os.O_RDONLY"])
                });
                if reads {
                    let what = call.show();
                    self.find(Capability::FilesRead, &what, call.at);
                } else {
                    let to = self.eval(call, 0, &["path"]);
                    self.written_to(call, to.as_ref());
                }
            }
            path if path.starts_with("pandas.")
                && matches!(call.name, "read_sql" | "read_sql_query" | "read_sql_table") =>
            {
                self.statement(call);
            }
            path if opens(path) => self.opened(call, 0, 1),
            "jinja2.Template" => {
                let text = self.eval(call, 0, &["source"]);
                let text = text.as_ref().and_then(Values::exact);
                if text.is_none_or(target::escapes) {
                    unknown(self);
                }
            }
            path if known::is_data(path) => self.expression(call),
            _ => {}
        }
    }

    /// An attribute that is named by a value.
    fn by_name(&mut self, call: &Called<'_>, function: &str) {
        let (Some(of), Some(name)) = (self.eval(call, 0, &[]), self.eval(call, 1, &[])) else {
            return;
        };
        let is_module = of.paths().any(|path| !known::is_data(path));
        if function != "getattr" {
            if of.paths().next().is_some() || of.has(&Value::Hidden) {
                let what = format!("{function} of a module");
                self.find(Capability::Unknown, &what, call.at);
            }
            return;
        }
        for text in name.texts() {
            if !text.contains(HOLE) {
                // As if it were written with a dot.
                let found = self.scopes.attribute(&of, &text);
                let by_path = found.paths().find_map(|path| match known::class(path) {
                    known::Class::Does(capability) => Some((capability, shown(path))),
                    _ => None,
                });
                let by_name = || Some((known::attribute(&text)?, format!(".{}", shown(&text))));
                if let Some((capability, what)) = by_path.or_else(by_name) {
                    self.find(capability, &what, call.at);
                } else if of.has(&Value::Hidden) {
                    self.find(
                        Capability::Unknown,
                        "getattr of something that is looked up",
                        call.at,
                    );
                }
            } else if is_module {
                self.find(Capability::Unknown, "getattr of a module", call.at);
            } else if !of.is_plain() && of.paths().next().is_none() {
                self.find(
                    Capability::Unknown,
                    "getattr by a name that can't be seen",
                    call.at,
                );
            }
        }
    }

    /// Whether a function only looks at what it is given.
    pub(super) fn only_looks(&self, function: &Expr) -> bool {
        let values = self.scopes.eval(function);
        values.paths().any(|path| {
            matches!(
                path,
                "dir"
                    | "getattr"
                    | "hasattr"
                    | "help"
                    | "id"
                    | "isinstance"
                    | "print"
                    | "repr"
                    | "str"
                    | "type"
                    | "vars"
                    | "callable"
                    | "setattr"
                    | "delattr"
                    | "importlib.reload"
            )
        })
    }
}

/// The first argument as it is shown.
pub(super) fn first_text(arguments: Option<&Arguments>) -> Option<String> {
    let given = arguments?;
    let named = || Some(&given.keywords.first()?.value);
    let first = given.args.first().or_else(named)?;
    let literal = first.as_string_literal_expr()?;
    Some(literal.value.to_str().to_owned())
}

/// Names of methods that are harmless of data and harmful of modules and paths.
fn is_ambiguous(name: &str) -> bool {
    matches!(
        name,
        "call"
            | "exec"
            | "load"
            | "loads"
            | "move"
            | "open"
            | "remove"
            | "rename"
            | "replace"
            | "run"
            | "system"
            | "touch"
            | "write_bytes"
            | "write_text"
            | "kill"
            | "get"
            | "post"
    )
}

/// Functions that open a file, and take the mode as the second argument.
fn opens(path: &str) -> bool {
    matches!(
        path,
        "aiofiles.open"
            | "bz2.open"
            | "bz2.BZ2File"
            | "codecs.open"
            | "gzip.open"
            | "gzip.GzipFile"
            | "h5py.File"
            | "io.FileIO"
            | "io.open"
            | "lzma.open"
            | "lzma.LZMAFile"
            | "netCDF4.Dataset"
            | "open"
            | "tarfile.open"
            | "tarfile.TarFile"
            | "wave.open"
            | "zipfile.ZipFile"
    )
}

fn is_false(value: &Expr) -> bool {
    value
        .as_boolean_literal_expr()
        .is_some_and(|literal| !literal.value)
}
