//! What a call gives, and what an operator makes.

use ruff_python_ast::{Arguments, Expr, Operator};

use super::eval::{argument, is_namespace};
use super::known;
use super::scope::Scopes;
use super::value::{HOLE, Value, Values};

impl Scopes<'_> {
    /// What calling something gives that is known by its path.
    pub(super) fn made(&self, path: &str, given: &Given<'_, '_>) -> Values {
        let hole = || Values::text(&HOLE.to_string());
        let first = || given.at(0);
        let as_text = |values: Values| values.texts().into_iter().map(Value::Text).collect();
        match path {
            "pathlib.Path" | "pathlib.PosixPath" | "pathlib.PurePath" | "pathlib.PurePosixPath" => {
                let text = given.joined("/");
                text.texts().into_iter().map(Value::Path).collect()
            }
            "pathlib.Path.home" => Values::one(Value::Path("~".into())),
            "pathlib.Path.cwd" => Values::one(Value::Path("/workspace".into())),
            "os.getcwd" => Values::text("/workspace"),
            "os.path.join" => as_text(given.joined("/")),
            "os.path.abspath" | "os.path.normpath" | "os.path.realpath" | "os.path.expanduser"
            | "os.path.expandvars" | "os.fspath" | "str" => as_text(first()),
            "os.path.basename" => first().map(|value| match value.text() {
                Some(text) => Value::Text(text.rsplit('/').next().unwrap_or_default().to_owned()),
                None => Value::Text(HOLE.to_string()),
            }),
            "os.path.dirname" | "os.getenv" | "os.environ.get" | "repr" | "format" | "chr"
            | "input" | "shutil.which" => hole(),
            "tempfile.mkdtemp" | "tempfile.gettempdir" | "tempfile.mktemp" => {
                Values::text(&format!("/tmp/{HOLE}"))
            }
            "os.listdir" => hole().within(),
            "glob.glob" | "glob.iglob" => {
                let cut = |value: &Value| match value.text() {
                    Some(text) => Value::Text(before_pattern(text)),
                    None => Value::Text(HOLE.to_string()),
                };
                first().map(cut).within()
            }
            "__import__" | "importlib.import_module" => {
                let name = given.get(0, &["name"]);
                match name.exact() {
                    Some(module) if path == "__import__" => Values::named(known::first_of(module)),
                    Some(module) => Values::named(module),
                    None => Values::one(Value::Hidden),
                }
            }
            "getattr" => {
                let (of, name) = (first(), given.at(1));
                let mut out = Values::default();
                for text in name.texts() {
                    if text.contains(HOLE) {
                        out.add(if of.is_data() {
                            Value::Plain
                        } else {
                            Value::Hidden
                        });
                    } else {
                        out.extend(&self.attribute(&of, &text));
                    }
                }
                out
            }
            "vars" | "globals" | "locals" => Values::one(Value::Made(path.to_owned())),
            "functools.partial"
            | "functools.cache"
            | "functools.lru_cache"
            | "list"
            | "tuple"
            | "sorted"
            | "set"
            | "frozenset"
            | "reversed"
            | "iter"
            | "tqdm.tqdm"
            | "collections.deque"
            | "copy.copy"
            | "copy.deepcopy" => first(),
            "filter" => given.at(1),
            "enumerate" | "zip" | "itertools.product" | "itertools.chain" => {
                let mut out = Values::default();
                for place in 0..given.arguments.args.len().min(4) {
                    out.extend(&given.at(place).elements());
                }
                if path == "itertools.chain" {
                    out.within()
                } else {
                    out.within().within()
                }
            }
            "map" => {
                let mut out = Values::default();
                for function in given.at(0).iter() {
                    out.add(match function {
                        Value::Named(path) if path == "pathlib.Path" => {
                            Value::Path(HOLE.to_string())
                        }
                        Value::Named(path) if known::is_data(path) => Value::Plain,
                        _ => Value::Any,
                    });
                }
                out.within()
            }
            "next" | "min" | "max" => first().elements(),
            "dict" | "collections.OrderedDict" | "types.SimpleNamespace" => {
                let mut out = Values::default();
                for keyword in &given.arguments.keywords {
                    out.extend(&self.followed(&keyword.value, given.far).within());
                }
                out.extend(&first());
                out
            }
            "int" | "float" | "len" | "sum" | "abs" | "round" | "range" | "bool" | "print"
            | "isinstance" | "hasattr" | "any" | "all" | "ord" | "hash" | "id" | "complex"
            | "divmod" | "pow" | "hex" | "bin" | "bytes" => Values::one(Value::Plain),
            path => Values::one(Value::Made(path.to_owned())),
        }
    }

    /// What a method of something gives.
    pub(super) fn method(
        &self,
        of: &Value,
        name: &str,
        given: &Given<'_, '_>,
        of_code: &Values,
    ) -> Values {
        let text = |text: String| Values::one(Value::Text(text));
        match (of, name) {
            (Value::Path(path), "joinpath" | "with_name") => {
                let mut all = Values::one(Value::Path(path.clone()));
                for place in 0..given.arguments.args.len().min(6) {
                    all = paths(&all, &given.at(place));
                }
                all
            }
            (Value::Path(_), "resolve" | "absolute" | "expanduser" | "relative_to") => {
                Values::one(of.clone())
            }
            (Value::Path(path), "with_suffix") => {
                let stem = path
                    .rsplit_once('.')
                    .map_or(path.as_str(), |(stem, _)| stem);
                let made = text(stem.to_owned()).joined("", &given.at(0));
                made.into_iter().map(Value::Path).collect()
            }
            (Value::Path(path), "with_stem") => Values::one(Value::Path(
                path.replace(|c: char| c != '/' && c != '.', &HOLE.to_string()),
            )),
            (Value::Path(path), "iterdir" | "glob" | "rglob") => {
                let inside = match path.as_str() {
                    "" | "." => HOLE.to_string(),
                    path => format!("{path}/{HOLE}"),
                };
                let found = match given.at(0).exact() {
                    Some(pattern) => {
                        let ending = pattern.rsplit('*').next().unwrap_or_default();
                        format!("{inside}{ending}")
                    }
                    None => inside,
                };
                Values::one(Value::Path(found)).within()
            }
            (Value::Path(_), "open") => Values::one(Value::Made("open".into())),
            (Value::Path(_), "as_posix" | "as_uri") => text(of.text().unwrap_or_default().into()),
            (Value::Text(format), "format") => {
                let mut all = Values::text("");
                for (place, part) in format.split('{').enumerate() {
                    if place == 0 {
                        all = Values::text(part);
                        continue;
                    }
                    let (field, rest) = part.split_once('}').unwrap_or(("", part));
                    let field = field.split([':', '!']).next().unwrap_or_default();
                    let value = match field.parse() {
                        _ if field.is_empty() => given.at(place - 1),
                        Ok(at) => given.at(at),
                        Err(_) => given.get(99, &[field]),
                    };
                    let next = all
                        .joined("", &value)
                        .into_iter()
                        .map(Value::Text)
                        .collect();
                    all = next;
                    let next = all.joined("", &Values::text(rest));
                    all = next.into_iter().map(Value::Text).collect();
                }
                all
            }
            (Value::Text(between), "join") => given.list(0, between),
            (
                Value::Text(same),
                "strip" | "lower" | "lstrip" | "rstrip" | "casefold" | "encode" | "removeprefix"
                | "removesuffix" | "title" | "upper",
            ) => text(same.clone()),
            (Value::Text(_) | Value::Any | Value::Plain, "replace")
                if given.arguments.args.len() == 2 =>
            {
                let with = given.at(1);
                match (of, given.at(0).exact(), with.exact()) {
                    (Value::Text(of), Some(what), Some(with)) => text(of.replace(what, with)),
                    (Value::Plain, ..) => Values::one(Value::Plain),
                    (_, _, Some(with)) => text(format!("{HOLE}{with}")),
                    _ => text(HOLE.to_string()),
                }
            }
            (Value::Text(_), _) => text(HOLE.to_string()),
            (Value::Within(inner), "get" | "pop" | "popleft") => Values::one((**inner).clone()),
            (Value::Within(_), "values" | "keys" | "copy") => Values::one(of.clone()),
            (Value::Within(_), "items") => Values::one(of.clone()).within(),
            (Value::Made(path), "get" | "pop") if is_namespace(path) => match given.at(0).exact() {
                Some(name) => self.meanings(name),
                None => Values::one(Value::Hidden),
            },
            (Value::Made(path), "values") if is_namespace(path) => {
                Values::one(Value::Hidden).within()
            }
            (Value::Made(path), "items") if is_namespace(path) => {
                Values::one(Value::Hidden).within().within()
            }
            (Value::Plain, _) => Values::one(Value::Plain).or(of_code),
            (Value::Made(path), _) if known::is_data(path) => Values::one(Value::Plain).or(of_code),
            (Value::Hidden, _) => Values::one(Value::Hidden),
            (Value::Own, _) if !of_code.is_empty() => of_code.clone(),
            _ => Values::any().or(of_code),
        }
    }
}

/// The arguments of a call, as values.
pub(super) struct Given<'g, 'e> {
    pub(super) scopes: &'g Scopes<'e>,
    pub(super) arguments: &'g Arguments,
    pub(super) far: usize,
}

impl Given<'_, '_> {
    fn at(&self, place: usize) -> Values {
        self.get(place, &[])
    }

    fn get(&self, place: usize, names: &[&str]) -> Values {
        let found = argument(self.arguments, place, names);
        found.map_or_else(Values::any, |expr| self.scopes.followed(expr, self.far))
    }

    /// All of them as one text.
    fn joined(&self, between: &str) -> Values {
        let mut args = self.arguments.args.iter().take(8);
        let mut all = match args.next() {
            Some(first) => self.scopes.followed(first, self.far),
            None => return Values::text("."),
        };
        for next in args {
            let next = self.scopes.followed(next, self.far);
            all = match between {
                "/" => paths(&all, &next),
                between => all
                    .joined(between, &next)
                    .into_iter()
                    .map(Value::Text)
                    .collect(),
            };
        }
        all
    }

    /// The elements of a list as one text.
    fn list(&self, place: usize, between: &str) -> Values {
        let parts = match self.arguments.args.get(place) {
            Some(Expr::List(list)) => &list.elts,
            Some(Expr::Tuple(list)) => &list.elts,
            _ => return Values::text(&format!("{HOLE}{between}{HOLE}")),
        };
        let mut all = Values::default();
        for part in parts.iter().take(16) {
            let next = self.scopes.followed(part, self.far);
            all = if all.is_empty() {
                next
            } else {
                all.joined(between, &next)
                    .into_iter()
                    .map(Value::Text)
                    .collect()
            };
        }
        all
    }
}

/// What stands before the first wild card of a pattern.
fn before_pattern(pattern: &str) -> String {
    let at = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let (start, rest) = pattern.split_at(at);
    let ending = rest.rsplit(['*', '?', ']']).next().unwrap_or_default();
    format!("{start}{HOLE}{ending}")
}

/// A path within another, as Python joins them.
fn paths(left: &Values, right: &Values) -> Values {
    let mut out = Values::default();
    for joined in left.joined("\0", right) {
        let text = match joined.split_once('\0') {
            Some((_, right)) if right.starts_with(['/', '~']) => right.to_owned(),
            Some(("" | ".", right)) => right.to_owned(),
            Some((left, right)) => format!("{}/{right}", left.trim_end_matches('/')),
            None => joined,
        };
        out.add(Value::Path(text));
    }
    out
}

pub(super) fn combined(left: &Values, operator: Operator, right: &Values) -> Values {
    let is_path = |values: &Values| values.iter().any(|value| matches!(value, Value::Path(_)));
    let is_text = |values: &Values| values.iter().any(|value| value.text().is_some());
    match operator {
        Operator::Div if is_path(left) || is_path(right) => paths(left, right),
        Operator::Div if is_text(right) && !left.is_plain() => paths(left, right),
        Operator::Add if is_text(left) || is_text(right) => left
            .joined("", right)
            .into_iter()
            .map(Value::Text)
            .collect(),
        Operator::Add => left.clone().or(right),
        Operator::Mod if is_text(left) => {
            let mut out = Values::default();
            for text in left.texts() {
                let mut parts = text.split('%');
                let mut all = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    let rest = part.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
                    all.push(HOLE);
                    all.push_str(rest.get(1..).unwrap_or_default());
                }
                // A text that is the first thing put in.
                if let (true, Some(first)) = (all.starts_with(HOLE), right.exact()) {
                    all.replace_range(..HOLE.len_utf8(), first);
                }
                out.add(Value::Text(all));
            }
            out
        }
        _ if left.is_plain() || right.is_plain() => Values::one(Value::Plain),
        _ => Values::any(),
    }
}
