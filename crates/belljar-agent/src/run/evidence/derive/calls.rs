//! What a call makes: functions of Python, of the cells themselves, and methods of pandas.

use ruff_python_ast::{Arguments, Expr, ExprCall, ExprLambda};

use super::{Cells, Made, Measure, Shape, Words, joined, measure_of};

/// How deep functions of the cells are followed.
const CALLS: usize = 3;

impl Cells {
    pub(super) fn call(&mut self, call: &ExprCall) -> Made {
        let given = &call.arguments;
        match &*call.func {
            Expr::Name(name) => {
                if let Some(function) = self.functions.get(name.id.as_str()).cloned()
                    && self.calls < CALLS
                {
                    return self.own_function(&function, given);
                }
                self.function(name.id.as_str(), given)
            }
            Expr::Attribute(method) => {
                let is_module = match &*method.value {
                    Expr::Name(name) => !self.names.contains_key(name.id.as_str()),
                    Expr::Attribute(_) => self.eval(&method.value).inputs.is_empty(),
                    _ => false,
                };
                if is_module {
                    return self.function(method.attr.as_str(), given);
                }
                let base = self.eval(&method.value);
                self.method(base, method.attr.as_str(), given)
            }
            other => {
                let mut made = self.eval(other);
                made.shape = Shape::Unknown;
                made
            }
        }
    }

    /// All arguments, as one.
    fn all(&mut self, given: &Arguments) -> Made {
        let args = given
            .args
            .iter()
            .chain(given.keywords.iter().map(|one| &one.value));
        let all: Vec<Made> = args.map(|one| self.eval(one)).collect();
        let mut whole = Made::default();
        for one in &all {
            whole.join(one);
        }
        whole
    }

    fn first(&mut self, given: &Arguments) -> Made {
        given
            .args
            .first()
            .map(|one| self.eval(one))
            .unwrap_or_default()
    }

    fn own_function(
        &mut self,
        function: &ruff_python_ast::StmtFunctionDef,
        given: &Arguments,
    ) -> Made {
        let mut values: Vec<(String, Made)> = Vec::new();
        let parameters = function.parameters.iter_non_variadic_params();
        for (at, one) in parameters.enumerate() {
            let name = one.parameter.name.as_str();
            let value = given
                .args
                .get(at)
                .or_else(|| given.find_keyword(name).map(|found| &found.value))
                .or(one.default.as_deref());
            let value = value.map(|one| self.eval(one)).unwrap_or_default();
            values.push((name.to_owned(), value));
        }
        let mark = self.enter();
        let returned = std::mem::take(&mut self.returned);
        for (name, value) in values {
            self.bind_name(&name, value);
        }
        self.calls += 1;
        self.run(&function.body);
        self.calls -= 1;
        self.leave(mark);
        let made = std::mem::replace(&mut self.returned, returned);
        joined(&made)
    }

    /// A function of Python or of a module.
    fn function(&mut self, name: &str, given: &Arguments) -> Made {
        match name {
            "len" => {
                let base = self.first(given);
                // How many different ones.
                if base.outer() == Some(Measure::Distinct) {
                    return base.with_shape(Shape::Scalar);
                }
                base.aggregated(Measure::Count).with_shape(Shape::Scalar)
            }
            "max" | "min" if given.args.len() == 1 => {
                let measure = if name == "max" {
                    Measure::Max
                } else {
                    Measure::Min
                };
                let base = self.first(given);
                match given.find_keyword("key") {
                    Some(key) => {
                        let picked = self.key_words(&key.value, &base);
                        let mut one = base.element();
                        one.join_inputs(&base);
                        one.picked.get_or_insert_default().extend(picked);
                        spread_pick(&mut one);
                        one
                    }
                    None => base.aggregated(measure),
                }
            }
            "sorted" | "reversed" | "list" | "tuple" | "iter" => {
                let mut base = self.first(given);
                if name == "sorted" {
                    let key = given.find_keyword("key");
                    base.sorted = Some(match key {
                        Some(key) => self.key_words(&key.value, &base),
                        None => base.about.clone(),
                    });
                }
                match base.shape {
                    Shape::List(_) | Shape::Tuple(_) | Shape::Unknown | Shape::Series => base,
                    _ => {
                        let one = base.element();
                        base.with_shape(Shape::List(Box::new(one)))
                    }
                }
            }
            "set" | "unique" => {
                let base = self.first(given);
                let one = base.element();
                base.measured(Measure::Distinct)
                    .with_shape(Shape::List(Box::new(one)))
            }
            "round" | "int" | "float" | "abs" | "str" | "to_numeric" | "to_datetime" | "sqrt"
            | "Decimal" | "Fraction" | "deepcopy" | "array" | "asarray" | "ceil" | "floor"
            | "dumps" | "fabs" | "repr" | "format" => {
                let base = self.first(given);
                let has_indent = given.find_keyword("indent").is_some();
                match (name, base.shape.clone()) {
                    // A line for each entry.
                    ("dumps", Shape::Map(value)) if has_indent => {
                        let mut value = *value;
                        value.join_inputs(&base);
                        value.with_shape(Shape::Series)
                    }
                    ("dumps", _) if has_indent => base.with_shape(Shape::Unknown),
                    ("int" | "float" | "str" | "to_numeric", Shape::Unknown) => {
                        base.with_shape(Shape::Scalar)
                    }
                    _ => base,
                }
            }
            "dict" => {
                let base = self.first(given);
                let shape = match &base.shape {
                    Shape::List(pair) => match &pair.shape {
                        Shape::Tuple(two) if two.len() == 2 => {
                            let mut map = base.clone();
                            map.by.clone_from(&two[0].about);
                            let mut value = two[1].clone();
                            value.join_inputs(&base);
                            return map.with_shape(Shape::Map(Box::new(value)));
                        }
                        _ => Shape::Unknown,
                    },
                    Shape::Series => Shape::Map(Box::new(base.clone().with_shape(Shape::Scalar))),
                    other => other.clone(),
                };
                let mut base = base;
                if let (Shape::Unknown, false) = (&shape, given.keywords.is_empty()) {
                    let all: Vec<(String, Made)> = given
                        .keywords
                        .iter()
                        .map(|one| {
                            let name = one.arg.as_ref().map(ToString::to_string);
                            (name.unwrap_or_default(), self.eval(&one.value))
                        })
                        .collect();
                    base.shape = Shape::Dict(all);
                    return base;
                }
                base.with_shape(shape)
            }
            "zip" => {
                let all: Vec<Made> = given
                    .args
                    .iter()
                    .map(|one| self.eval(one).element())
                    .collect();
                let mut list = Made::default();
                for one in &all {
                    list.join_inputs(one);
                }
                let pair = Made::default().with_shape(Shape::Tuple(all));
                list.with_shape(Shape::List(Box::new(pair)))
            }
            "enumerate" => {
                let base = self.first(given);
                let mut index = Made::scalar();
                index.about.insert("index".to_owned());
                let pair = Shape::Tuple(vec![index, base.element()]);
                let pair = Made::default().with_shape(pair);
                base.with_shape(Shape::List(Box::new(pair)))
            }
            "range" => {
                let one = self.all(given).with_shape(Shape::Scalar);
                let mut index = Made::scalar();
                index.inputs = one.inputs;
                Made::default().with_shape(Shape::List(Box::new(index)))
            }
            "Counter" => {
                let base = self.first(given);
                let mut one = base
                    .element()
                    .measured(Measure::Count)
                    .with_shape(Shape::Scalar);
                one.join_inputs(&base);
                let mut map = base;
                map.by = std::mem::take(&mut one.about);
                one.by.clone_from(&map.by);
                map.with_shape(Shape::Map(Box::new(one)))
            }
            "defaultdict" | "OrderedDict" => Made::default().with_shape(Shape::Map(Box::default())),
            "DataFrame" => {
                let base = self.first(given);
                let shape = match &base.shape {
                    Shape::Dict(named) => Shape::Frame(
                        named
                            .iter()
                            .map(|(name, made)| {
                                let mut column = made.clone();
                                column.constant = None;
                                column.rename(name);
                                (name.clone(), column.with_shape(Shape::Series))
                            })
                            .collect(),
                    ),
                    _ => Shape::Frame(Vec::new()),
                };
                base.with_shape(shape)
            }
            "Series" => self.first(given).with_shape(Shape::Series),
            "crosstab" | "pivot_table" => {
                let mut made = self.all(given);
                let words = given
                    .args
                    .iter()
                    .take(2)
                    .fold(Words::new(), |mut all, one| {
                        all.extend(self.words(one));
                        all
                    });
                let values = given.find_keyword("values");
                made.about = values.map(|one| self.words(&one.value)).unwrap_or_default();
                made.by = words;
                made.measures = aggregates(given.find_keyword("aggfunc").map(|one| &one.value));
                if made.measures.is_empty() {
                    made.measures.push(if values.is_some() {
                        Measure::Mean
                    } else {
                        Measure::Count
                    });
                }
                made.with_shape(Shape::Frame(Vec::new()))
            }
            "concat" | "merge" => {
                let mut made = Made::default();
                made.join(&self.all(given));
                made.with_shape(Shape::Frame(Vec::new()))
            }
            "open" | "Path" => self.file(given),
            "load" | "loads" | "reader" | "DictReader" | "safe_load" => {
                let base = self.first(given);
                let one = Made::default();
                let list = Shape::List(Box::new(one));
                base.with_shape(if name.ends_with("eader") {
                    list
                } else {
                    Shape::Unknown
                })
            }
            name if name.starts_with("read_") => {
                self.file(given).with_shape(Shape::Frame(Vec::new()))
            }
            name => {
                if let Some(measure) = measure_of(name) {
                    return self.first(given).aggregated(measure);
                }
                let is_constant = given.args.iter().all(Expr::is_literal_expr)
                    && given.keywords.iter().all(|one| one.value.is_literal_expr());
                if is_constant && !(given.args.is_empty() && given.keywords.is_empty()) {
                    return Made::constant(String::new());
                }
                let mut made = Made::default();
                made.join_inputs(&self.all(given));
                made.measures.push(Measure::Other);
                made
            }
        }
    }

    /// What reads a file.
    fn file(&mut self, given: &Arguments) -> Made {
        let mut made = self.first(given);
        let name = made.constant.take().filter(|name| name.contains('.'));
        made.files.extend(name);
        made.with_shape(Shape::Unknown)
    }

    /// What a key such as `lambda r: r['a']` looks at.
    fn key_words(&mut self, key: &Expr, base: &Made) -> Words {
        let Expr::Lambda(lambda) = key else {
            return self.words(key);
        };
        let made = self.lambda(lambda, base.element());
        let mut words = made.about;
        words.extend(self.words(&lambda.body));
        words
    }

    fn lambda(&mut self, lambda: &ExprLambda, argument: Made) -> Made {
        let mark = self.enter();
        let parameters = lambda.parameters.iter();
        let name = parameters
            .flat_map(|one| one.iter_non_variadic_params())
            .next();
        if let Some(name) = name {
            self.bind_name(name.parameter.name.as_str(), argument);
        }
        let made = self.eval(&lambda.body);
        self.leave(mark);
        made
    }

    fn method(&mut self, mut base: Made, name: &str, given: &Arguments) -> Made {
        match name {
            "agg" | "aggregate" => self.aggregates_of(base, given),
            "groupby" | "resample" => {
                let mut by = Words::new();
                let keyword = given.find_keyword("by").map(|one| &one.value);
                for one in given.args.first().into_iter().chain(keyword) {
                    by.extend(self.words(one));
                }
                base.by = by;
                if matches!(base.shape, Shape::Frame(_)) {
                    // Of which column is said later.
                    base.about.clear();
                }
                base.with_shape(Shape::Groups)
            }
            "describe" => {
                base.describes = true;
                let shape = match std::mem::take(&mut base.shape) {
                    Shape::Frame(named) => Shape::Frame(named),
                    Shape::Unknown | Shape::Groups => Shape::Frame(Vec::new()),
                    _ => Shape::Series,
                };
                base.with_shape(shape)
            }
            "value_counts" => {
                let shares = given.find_keyword("normalize").is_some();
                base.by = std::mem::take(&mut base.about);
                let measure = if shares {
                    Measure::Ratio
                } else {
                    Measure::Count
                };
                base.measured(measure).with_shape(Shape::Series)
            }
            "idxmax" | "idxmin" | "argmax" | "argmin" => {
                let measure = if name.ends_with("max") {
                    Measure::Max
                } else {
                    Measure::Min
                };
                let mut made = base.aggregated(measure);
                made.picked = Some(made.about.clone());
                made
            }
            "sort_values" | "nlargest" | "nsmallest" | "most_common" | "sort_index" => {
                let mut by = Words::new();
                let keyword = given.find_keyword("by").map(|one| &one.value);
                for one in given.args.iter().chain(keyword) {
                    by.extend(self.words(one));
                }
                by.retain(|word| !word.bytes().all(|b| b.is_ascii_digit()));
                if by.is_empty() {
                    by.clone_from(&base.about);
                }
                if name.starts_with('n') {
                    base.picked
                        .get_or_insert_default()
                        .extend(by.iter().cloned());
                }
                base.sorted = Some(by);
                if name == "most_common"
                    && let Shape::Map(value) = &base.shape
                {
                    let mut key = Made::scalar();
                    key.about.clone_from(&base.by);
                    let pair = Shape::Tuple(vec![key, (**value).clone()]);
                    let pair = Made::default().with_shape(pair);
                    return base.with_shape(Shape::List(Box::new(pair)));
                }
                base
            }
            "head" | "tail" | "first" | "last" => {
                if let Some(sorted) = base.sorted.clone() {
                    base.picked.get_or_insert_default().extend(sorted);
                }
                base
            }
            "query" | "filter" | "between" | "isin" | "contains" | "startswith" | "endswith"
            | "eq" | "ne" | "gt" | "lt" | "ge" | "le" | "isna" | "isnull" | "notna" => {
                for one in &given.args {
                    base.limits.extend(self.words(one));
                }
                if !matches!(name, "query" | "filter") {
                    base.limits.extend(base.about.iter().cloned());
                    base.is_mask = true;
                }
                if let "isna" | "isnull" = name {
                    base.limits.insert("missing".to_owned());
                }
                base
            }
            "pivot_table" | "pivot" => {
                let words = |own: &Self, name: &str| {
                    given
                        .find_keyword(name)
                        .map(|one| own.words(&one.value))
                        .unwrap_or_default()
                };
                let about = words(self, "values");
                base.by = words(self, "index");
                base.by.extend(words(self, "columns"));
                if name == "pivot_table" {
                    let function = given.find_keyword("aggfunc").map(|one| &one.value);
                    base.measures = aggregates(function);
                    if let Some(Expr::Dict(named)) = function {
                        let mut columns = Vec::new();
                        for item in &named.items {
                            if let Some(Expr::StringLiteral(text)) = &item.key {
                                let name = text.value.to_str();
                                let mut column = base.column(name);
                                column.measures = aggregates(Some(&item.value));
                                columns.push((name.to_owned(), column.with_shape(Shape::Series)));
                            }
                        }
                        return base.with_shape(Shape::Frame(columns));
                    }
                    if base.measures.is_empty() {
                        base.measures.push(Measure::Mean);
                    }
                }
                base.about = about;
                base.with_shape(Shape::Frame(Vec::new()))
            }
            "assign" => {
                let mut columns = match std::mem::take(&mut base.shape) {
                    Shape::Frame(columns) => columns,
                    _ => Vec::new(),
                };
                for one in &given.keywords {
                    let Some(name) = &one.arg else { continue };
                    let mut made = match &one.value {
                        Expr::Lambda(lambda) => self.lambda(
                            lambda,
                            base.clone().with_shape(Shape::Frame(columns.clone())),
                        ),
                        value => self.eval(value),
                    };
                    made.rename(name);
                    columns.push((name.to_string(), made.with_shape(Shape::Series)));
                }
                base.with_shape(Shape::Frame(columns))
            }
            "rename" => {
                let columns = given
                    .find_keyword("columns")
                    .map(|one| self.eval(&one.value));
                if let (Some(Shape::Dict(names)), Shape::Frame(columns)) =
                    (columns.map(|one| one.shape), &mut base.shape)
                {
                    for (old, new) in names {
                        let Some(new) = new.constant else { continue };
                        for (name, made) in &mut *columns {
                            if *name == old {
                                name.clone_from(&new);
                                made.about.insert(new.clone());
                            }
                        }
                    }
                }
                base
            }
            "reset_index" | "set_index" | "round" | "astype" | "fillna" | "copy" | "dropna"
            | "to_frame" | "rename_axis" | "abs" | "unstack" | "stack" | "transpose" | "loc"
            | "drop" | "drop_duplicates" | "replace" | "clip" | "add" | "merge" | "join"
            | "reindex" | "to_period" | "to_timestamp" | "normalize" | "squeeze" | "ffill"
            | "bfill" | "apply" | "map" | "transform" | "isoformat" | "to_string" | "shift"
            | "rolling" | "where" | "mask" | "style" | "to_markdown" | "melt" => {
                if matches!(name, "merge" | "join" | "add") {
                    let other = self.all(given);
                    base.join_inputs(&other);
                }
                if matches!(name, "apply" | "map" | "transform")
                    && let Some(Expr::StringLiteral(text)) = given.args.first()
                    && let Some(measure) = measure_of(text.value.to_str())
                {
                    return base.measured(measure);
                }
                if name == "apply"
                    && let Some(Expr::Lambda(lambda)) = given.args.first()
                {
                    let made =
                        self.lambda(lambda, base.clone().with_shape(Shape::Frame(Vec::new())));
                    let mut made = made.with_shape(Shape::Series);
                    made.join_rows(&base);
                    return made;
                }
                base
            }
            "to_dict" | "to_json" => match &base.shape {
                Shape::Series => {
                    let value = base.clone().with_shape(Shape::Scalar);
                    base.with_shape(Shape::Map(Box::new(value)))
                }
                Shape::Row => base,
                _ => base.with_shape(Shape::Unknown),
            },
            "items" => {
                let mut key = Made::scalar();
                key.about.clone_from(&base.by);
                key.inputs.clone_from(&base.inputs);
                let value = match &base.shape {
                    Shape::Map(value) => (**value).clone(),
                    Shape::Dict(named) => {
                        let all: Vec<Made> = named.iter().map(|(_, one)| one.clone()).collect();
                        joined(&all)
                    }
                    _ => base.element(),
                };
                let pair = Made::default().with_shape(Shape::Tuple(vec![key, value]));
                base.with_shape(Shape::List(Box::new(pair)))
            }
            "values" => match base.shape.clone() {
                Shape::Map(value) => base.with_shape(Shape::List(value)),
                Shape::Dict(named) => {
                    let all: Vec<Made> = named.into_iter().map(|(_, one)| one).collect();
                    base.with_shape(Shape::List(Box::new(joined(&all))))
                }
                _ => base,
            },
            "iterrows" => {
                let row = base.clone().with_shape(Shape::Row);
                let pair = Made::default().with_shape(Shape::Tuple(vec![Made::scalar(), row]));
                base.with_shape(Shape::List(Box::new(pair)))
            }
            "itertuples" => {
                let row = base.clone().with_shape(Shape::Row);
                base.with_shape(Shape::List(Box::new(row)))
            }
            "tolist" | "to_list" | "to_numpy" | "unique" | "keys" => {
                let one = base.element();
                if name == "unique" {
                    base = base.measured(Measure::Distinct);
                }
                base.with_shape(Shape::List(Box::new(one)))
            }
            "get" => match given.args.first() {
                Some(Expr::StringLiteral(text)) => base.column(text.value.to_str()),
                _ => base.element(),
            },
            "item" | "date" | "strftime" | "total_seconds" | "strip" | "lower" | "upper"
            | "title" | "format" | "day_name" | "month_name" | "time" | "isoweekday" => {
                base.with_shape(Shape::Scalar)
            }
            "append" | "extend" | "split" | "splitlines" | "readlines" | "read" | "readline"
            | "read_text" => {
                if name == "splitlines" || name == "readlines" || name == "split" {
                    let one = base.clone().with_shape(Shape::Unknown);
                    return base.with_shape(Shape::List(Box::new(one)));
                }
                base.with_shape(Shape::Unknown)
            }
            // One for each row.
            "diff" => base.measured(Measure::Difference),
            "pct_change" => base.measured(Measure::Ratio),
            "cumsum" => base.measured(Measure::Sum),
            name => {
                if let Some(measure) = measure_of(name) {
                    return base.aggregated(measure);
                }
                base.join_inputs(&self.all(given));
                base.measured(Measure::Other).with_shape(Shape::Unknown)
            }
        }
    }

    /// `agg('sum')`, `agg(['sum', 'mean'])`, `agg({'a': 'sum'})`, `agg(total=('a', 'sum'))`.
    fn aggregates_of(&mut self, base: Made, given: &Arguments) -> Made {
        let mut columns: Vec<(String, Made)> = Vec::new();
        for one in &given.keywords {
            let (Some(name), Expr::Tuple(pair)) = (&one.arg, &one.value) else {
                continue;
            };
            let [Expr::StringLiteral(of), how] = &pair.elts[..] else {
                continue;
            };
            let mut made = base.column(of.value.to_str());
            made.measures = aggregates(Some(how));
            made.about.insert(name.to_string());
            columns.push((name.to_string(), made.with_shape(Shape::Series)));
        }
        if !columns.is_empty() {
            return base.with_shape(Shape::Frame(columns));
        }
        match given.args.first() {
            Some(Expr::StringLiteral(how)) => match measure_of(how.value.to_str()) {
                Some(measure) => base.aggregated(measure),
                None => base.measured(Measure::Other),
            },
            Some(Expr::List(all)) => {
                for one in &all.elts {
                    let Expr::StringLiteral(how) = one else {
                        continue;
                    };
                    let name = how.value.to_str();
                    let mut made = base.clone();
                    made.measures = aggregates(Some(one));
                    columns.push((name.to_owned(), made.with_shape(Shape::Series)));
                }
                base.with_shape(Shape::Frame(columns))
            }
            Some(Expr::Dict(named)) => {
                for item in &named.items {
                    let Some(Expr::StringLiteral(of)) = &item.key else {
                        continue;
                    };
                    let name = of.value.to_str();
                    let made = base.column(name);
                    let hows: &[Expr] = match &item.value {
                        Expr::List(all) => &all.elts,
                        one => std::slice::from_ref(one),
                    };
                    for how in hows {
                        let mut made = made.clone();
                        made.measures = aggregates(Some(how));
                        let own = match how {
                            Expr::StringLiteral(how) if hows.len() > 1 => {
                                format!("{name} {}", how.value.to_str())
                            }
                            _ => name.to_owned(),
                        };
                        columns.push((own, made.with_shape(Shape::Series)));
                    }
                }
                base.with_shape(Shape::Frame(columns))
            }
            _ => {
                let all = self.all(given);
                let mut made = base;
                made.join_inputs(&all);
                made.measured(Measure::Other)
                    .with_shape(Shape::Frame(Vec::new()))
            }
        }
    }
}

/// What was picked holds for each part of a row.
fn spread_pick(one: &mut Made) {
    let picked = one.picked.clone();
    if let Shape::Tuple(parts) = &mut one.shape {
        for part in parts {
            part.picked.clone_from(&picked);
        }
    }
}

/// The measures of an argument such as `'sum'`, `len` or `np.mean`.
fn aggregates(how: Option<&Expr>) -> Vec<Measure> {
    let name = match how {
        None => return Vec::new(),
        Some(Expr::StringLiteral(text)) => text.value.to_str(),
        Some(Expr::Name(name)) => name.id.as_str(),
        Some(Expr::Attribute(part)) => part.attr.as_str(),
        Some(_) => "",
    };
    vec![measure_of(name).unwrap_or(Measure::Other)]
}
