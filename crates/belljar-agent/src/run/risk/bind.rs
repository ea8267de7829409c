//! Which values the names of a cell get.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Arguments, Comprehension, ExceptHandler, Expr, ExprCall, Pattern, Stmt, StmtClassDef,
    StmtFunctionDef,
};

use super::super::gate::captured;
use super::known;
use super::scope::{Function, Scopes, scope_of};
use super::value::{HOLE, Value, Values};

/// How often the code is gone through until nothing new is learned.
const ROUNDS: usize = 5;

/// Learns what the names of this code mean.
pub(super) fn bind(scopes: &mut Scopes<'_>, body: &[Stmt]) {
    for _ in 0..ROUNDS {
        let mut binder = Binder {
            scopes,
            classes: Vec::new(),
            functions: Vec::new(),
            depth: 0,
        };
        binder.visit_body(body);
        if !scopes.take_changed() {
            break;
        }
    }
    scopes.is_settled = true;
}

struct Binder<'b, 'e> {
    scopes: &'b mut Scopes<'e>,
    /// The classes around; none within their methods.
    classes: Vec<String>,
    /// The functions around, by the names that their results are kept under.
    functions: Vec<String>,
    /// How many statements are around.
    depth: usize,
}

impl Binder<'_, '_> {
    fn target(&mut self, target: &Expr, values: &Values) {
        match target {
            Expr::Name(name) => {
                self.scopes.bind(&name.id, values);
                if !self.classes.is_empty() {
                    self.scopes.set_slot(&name.id, values);
                }
                if self.depth == 1 && self.scopes.is_module() && self.classes.is_empty() {
                    self.scopes.replace(&name.id);
                }
            }
            Expr::Attribute(part) => self.scopes.set_slot(&part.attr.id, values),
            Expr::Subscript(part) => self.put_in(&part.value, values),
            Expr::Starred(part) => self.target(&part.value, &values.within()),
            Expr::Tuple(tuple) => {
                let elements = values.elements();
                tuple
                    .elts
                    .iter()
                    .for_each(|part| self.target(part, &elements));
            }
            Expr::List(list) => {
                let elements = values.elements();
                list.elts
                    .iter()
                    .for_each(|part| self.target(part, &elements));
            }
            _ => {}
        }
    }

    /// A container gets something.
    fn put_in(&mut self, container: &Expr, values: &Values) {
        match container {
            Expr::Name(name) => self.scopes.bind(&name.id, &values.within()),
            Expr::Attribute(part) => self.scopes.set_slot(&part.attr.id, &values.within()),
            _ => {}
        }
    }

    fn assigned(&mut self, target: &Expr, value: &Expr) {
        if let (Expr::Tuple(targets), Expr::Tuple(values)) = (target, value)
            && targets.elts.len() == values.elts.len()
            && !targets
                .elts
                .iter()
                .chain(&values.elts)
                .any(Expr::is_starred_expr)
        {
            for (target, value) in targets.elts.iter().zip(&values.elts) {
                self.assigned(target, value);
            }
            return;
        }
        let values = self.scopes.eval(value);
        self.target(target, &values);
    }

    fn function(&mut self, function: &StmtFunctionDef) {
        let name = function.name.id.as_str();
        let scope = scope_of(function);
        let is_static = function.decorator_list.iter().any(|decorator| {
            matches!(&decorator.expression, Expr::Name(name) if &*name.id == "staticmethod")
        });
        let is_method = !self.classes.is_empty() && !is_static;
        let skipped = usize::from(is_method);
        let kept = if self.classes.is_empty() {
            self.scopes.define(name, function, 0);
            self.scopes
                .bind(name, &Values::one(Value::Local(name.to_owned())));
            if self.depth == 1 {
                self.scopes.replace(name);
            }
            name.to_owned()
        } else {
            if let ("__init__", Some(class)) = (name, self.classes.last()) {
                let class = class.clone();
                self.scopes.define(&class, function, skipped);
            }
            let name = format!(".{name}");
            self.scopes.define(&name, function, skipped);
            let is_property = function.decorator_list.iter().any(|decorator| {
                matches!(&decorator.expression, Expr::Name(name) if name.id.contains("property"))
            });
            if is_property {
                let returned = self.scopes.returned(&name);
                self.scopes.set_slot(&name[1..], &returned);
            }
            name
        };
        for decorator in &function.decorator_list {
            self.visit_expr(&decorator.expression);
        }
        self.scopes
            .parameters(scope, &function.parameters, is_method);
        self.visit_parameters(&function.parameters);
        let classes = std::mem::take(&mut self.classes);
        self.functions.push(kept);
        self.scopes.enter(scope);
        self.visit_body(&function.body);
        self.scopes.leave();
        self.functions.pop();
        self.classes = classes;
    }

    fn class(&mut self, class: &StmtClassDef) {
        let name = class.name.id.as_str();
        self.scopes
            .bind(name, &Values::one(Value::Local(name.to_owned())));
        self.scopes.set_returned(name, &Values::one(Value::Own));
        if self.depth == 1 {
            self.scopes.replace(name);
        }
        self.classes.push(name.to_owned());
        self.visit_body(&class.body);
        self.classes.pop();
        if let Some(arguments) = &class.arguments {
            self.visit_arguments(arguments);
        }
    }

    fn returned(&mut self, values: &Values) {
        if let Some(function) = self.functions.last() {
            let function = function.clone();
            self.scopes.set_returned(&function, values);
        }
    }

    /// The arguments of a call are the parameters of the function that it calls.
    fn call(&mut self, call: &ExprCall) {
        let given = &call.arguments;
        match &*call.func {
            Expr::Name(name) => {
                self.given(&name.id, given);
                // Fields of a data class.
                if self.scopes.returned(&name.id).has(&Value::Own) {
                    for argument in &given.keywords {
                        if let Some(name) = &argument.arg {
                            let values = self.scopes.eval(&argument.value);
                            self.scopes.set_slot(&name.id, &values);
                        }
                    }
                }
                if let ("setattr", [_, name, value, ..]) = (name.id.as_str(), &*given.args) {
                    let values = self.scopes.eval(value);
                    if let Some(name) = self.scopes.eval(name).exact() {
                        let name = name.to_owned();
                        self.scopes.set_slot(&name, &values);
                    }
                }
                if let ("map" | "filter", [Expr::Name(function), list]) =
                    (name.id.as_str(), &*given.args)
                {
                    let elements = self.scopes.eval(list).elements();
                    self.first_is(&function.id, &elements);
                }
            }
            Expr::Attribute(part) => {
                let name = part.attr.id.as_str();
                self.given(&format!(".{name}"), given);
                let into = matches!(
                    name,
                    "append" | "add" | "appendleft" | "insert" | "setdefault" | "put" | "push"
                );
                if let (true, Some(value)) = (into, given.args.last()) {
                    let values = self.scopes.eval(value);
                    self.put_in(&part.value, &values);
                }
                if let ("extend" | "update", Some(value)) = (name, given.args.first()) {
                    let values = self.scopes.eval(value).elements();
                    self.put_in(&part.value, &values);
                }
            }
            _ => {}
        }
    }

    fn first_is(&mut self, function: &str, values: &Values) {
        let functions = self.scopes.functions.get(function).cloned();
        for function in functions.unwrap_or_default() {
            if let Some(name) = function.parameters.first() {
                self.scopes.bind_in(function.scope, name, values);
            }
        }
    }

    fn given(&mut self, function: &str, given: &Arguments) {
        let Some(functions) = self.scopes.functions.get(function).cloned() else {
            return;
        };
        for Function {
            scope,
            parameters,
            skipped,
        } in functions
        {
            for (place, value) in given.args.iter().enumerate() {
                if let Expr::Starred(spread) = value {
                    let elements = self.scopes.eval(&spread.value).elements();
                    for name in parameters.iter().skip(skipped + place) {
                        self.scopes.bind_in(scope, name, &elements);
                    }
                    break;
                }
                if let Some(name) = parameters.get(skipped + place) {
                    let values = self.scopes.eval(value);
                    self.scopes.bind_in(scope, name, &values);
                }
            }
            for keyword in &given.keywords {
                let values = self.scopes.eval(&keyword.value);
                match &keyword.arg {
                    Some(name) if parameters.iter().any(|other| *other == *name.id) => {
                        self.scopes.bind_in(scope, &name.id, &values);
                    }
                    Some(_) => {}
                    None => {
                        for name in &parameters {
                            self.scopes.bind_in(scope, name, &values.elements());
                        }
                    }
                }
            }
        }
    }
}

impl<'a> Visitor<'a> for Binder<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.depth += 1;
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let path = alias.name.id.as_str();
                    let (name, path) = match &alias.asname {
                        Some(name) => (name.id.as_str(), path),
                        None => (known::first_of(path), known::first_of(path)),
                    };
                    self.scopes.bind(name, &Values::named(&known::rooted(path)));
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| &module.id);
                for alias in &import.names {
                    let name = alias.name.id.as_str();
                    if name == "*" {
                        self.scopes.stars.insert(module.to_owned());
                        continue;
                    }
                    let path = known::rooted(&format!("{module}.{name}"));
                    let bound = alias.asname.as_ref().map_or(name, |name| name.id.as_str());
                    let value = match import.level {
                        0 => Value::Named(path),
                        _ => Value::Any,
                    };
                    self.scopes.bind(bound, &Values::one(value));
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.assigned(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assigned(&assign.target, value);
                }
            }
            Stmt::AugAssign(assign) => {
                let values = match (&*assign.target, &*assign.value) {
                    // A text that grows stays one that begins as it did.
                    (Expr::Name(name), value) => {
                        let (old, new) = (self.scopes.meanings(&name.id), self.scopes.eval(value));
                        let begins = old.iter().filter_map(Value::text);
                        let mut values: Values = begins
                            .map(|text| {
                                Value::Text(format!("{}{HOLE}", text.trim_end_matches(HOLE)))
                            })
                            .collect();
                        values.extend(&new);
                        values
                    }
                    (_, value) => self.scopes.eval(value),
                };
                self.target(&assign.target, &values);
            }
            Stmt::For(of) => {
                let elements = self.scopes.eval(&of.iter).elements();
                self.target(&of.target, &elements);
            }
            Stmt::With(with) => {
                for item in &with.items {
                    if let Some(target) = &item.optional_vars {
                        let values = self.scopes.eval(&item.context_expr);
                        let values = values.map(|value| match value {
                            Value::Made(path) if path == "tempfile.TemporaryDirectory" => {
                                Value::Text(format!("/tmp/{HOLE}"))
                            }
                            other => other.clone(),
                        });
                        self.target(target, &values);
                    }
                }
            }
            Stmt::Global(names) => {
                for name in &names.names {
                    self.scopes.global(&name.id);
                }
            }
            Stmt::Return(returned) => {
                if let Some(value) = &returned.value {
                    let values = self.scopes.eval(value);
                    self.returned(&values);
                }
            }
            Stmt::FunctionDef(function) => {
                self.function(function);
                self.depth -= 1;
                return;
            }
            Stmt::ClassDef(class) => {
                self.class(class);
                self.depth -= 1;
                return;
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
        self.depth -= 1;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Named(named) => self.assigned(&named.target, &named.value),
            Expr::Call(call) => self.call(call),
            Expr::Yield(part) => {
                if let Some(value) = &part.value {
                    let values = self.scopes.eval(value).within();
                    self.returned(&values);
                }
            }
            Expr::Lambda(lambda) => {
                let scope = lambda.range.start().to_u32() + 1;
                if let Some(parameters) = &lambda.parameters {
                    self.scopes.parameters(scope, parameters, false);
                    self.visit_parameters(parameters);
                }
                self.scopes.enter(scope);
                self.visit_expr(&lambda.body);
                self.scopes.leave();
                return;
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        let elements = self.scopes.eval(&comprehension.iter).elements();
        let depth = std::mem::replace(&mut self.depth, 9);
        self.target(&comprehension.target, &elements);
        self.depth = depth;
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        if let Some(name) = &caught.name {
            self.scopes.bind(&name.id, &Values::any());
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        if let Some(name) = captured(pattern) {
            self.scopes.bind(&name.id, &Values::any());
        }
        visitor::walk_pattern(self, pattern);
    }
}
