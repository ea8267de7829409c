//! Tool calls that are certain to fail: the tool does not exist, or does not accept the arguments.
//!
//! The host would deny them, in the middle of a cell. Here too what is not certain is let through.

use std::collections::{BTreeSet, HashMap};

use belljar_protocol::{GuestParameter, Language};
use belljar_sandbox::ToolSignature;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Arguments, Expr, ExprContext, Mod, Number, Stmt, UnaryOp};
use serde_json::Value;

use super::Names;
use crate::dialect::with_syntax;
use crate::run::tools_text::shown_signature;

/// The module that the tools are in.
const TOOLS: &str = "tools";

/// The most wrong calls that are reported at once, and names that are listed.
const TOLD: usize = 5;
const LISTED: usize = 12;

/// How deep a literal is looked into.
const DEPTH: usize = 5;

/// A call that can't succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongCall {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The name by which the tool is called.
    pub(crate) tool: String,
    /// What is wrong.
    pub(crate) wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// There is no such tool; those that there are, the nearest first.
    NoTool { there: Vec<String> },
    /// It does not take these arguments.
    Arguments {
        /// How it is called.
        signature: String,
        fault: Fault,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has no parameter of this name.
    NoParameter(String),
    /// More arguments without a name than it has parameters.
    TooMany(usize),
    /// This argument is given by its place and by its name.
    Twice(String),
    /// These arguments are not given.
    Missing(Vec<String>),
    /// A value is not of the type that it has to be of, in the words of the host.
    Misfit(String),
}

/// Calls in the code that can't succeed. `known` are names that earlier cells defined: where `tools`
/// is one of them, it may be anything.
pub(crate) fn wrong_calls(
    code: &str,
    tools: &[ToolSignature],
    known: &BTreeSet<String>,
) -> Vec<WrongCall> {
    let found = with_syntax(code, |parsed| {
        let Mod::Module(module) = parsed.syntax() else {
            return Vec::new();
        };
        let mut names = Names::default();
        names.visit_body(&module.body);
        if !parsed.has_valid_syntax() || names.anything {
            return Vec::new();
        }
        let mut uses = Uses::default();
        uses.visit_body(&module.body);
        let line = |at: usize| code[..at].matches('\n').count() + 1;
        uses.wrong(tools, &names.bound, known)
            .into_iter()
            .map(|(at, tool, wrong)| WrongCall {
                line: line(at),
                tool: tool.to_owned(),
                wrong,
            })
            .collect()
    });
    found.unwrap_or_default()
}

/// What code does with names that may be tools.
#[derive(Default)]
struct Uses<'a> {
    /// Names that the module is imported by, and how often.
    modules: HashMap<&'a str, usize>,
    /// Names that a tool is imported by: the tool, and how often.
    functions: HashMap<&'a str, (&'a str, usize)>,
    /// Tools that are imported, and where.
    imported: Vec<(usize, &'a str)>,
    seen: Vec<Use<'a>>,
    /// Objects whose attributes are asked for or changed.
    probed: BTreeSet<&'a str>,
}

/// `of.name` or `of`, and the arguments where it is called.
struct Use<'a> {
    of: &'a str,
    name: Option<&'a str>,
    at: usize,
    arguments: Option<&'a Arguments>,
}

impl<'a> Uses<'a> {
    fn wrong(
        self,
        tools: &[ToolSignature],
        bound: &[String],
        known: &BTreeSet<String>,
    ) -> Vec<(usize, &'a str, Wrong)> {
        let is_imported = !self.modules.is_empty() || !self.functions.is_empty();
        if tools.is_empty() && is_imported {
            // A file of the workspace may have this name.
            return Vec::new();
        }
        let mut bindings: HashMap<&str, usize> = HashMap::new();
        for name in bound {
            *bindings.entry(name).or_default() += 1;
        }
        // Whether nothing else has the name.
        let is_only = |name: &str, imports: usize| {
            bindings.get(name).copied().unwrap_or(0) == imports && !self.probed.contains(name)
        };
        let is_module = |name: &str| match self.modules.get(name) {
            Some(imports) => is_only(name, *imports),
            None => name == TOOLS && !known.contains(TOOLS) && is_only(name, 0),
        };
        let mut found = Vec::new();
        for (at, tool) in self.imported.iter().copied() {
            let is_there = ToolSignature::is_reserved(tool) || signature(tools, tool).is_some();
            if !is_there && found.len() < TOLD {
                found.push((at, tool, no_tool(tools, tool)));
            }
        }
        for used in &self.seen {
            if found.len() >= TOLD {
                break;
            }
            let tool = match (used.name, self.functions.get(used.of)) {
                (Some(name), _) if is_module(used.of) => name,
                (None, Some((tool, imports))) if is_only(used.of, *imports) => tool,
                _ => continue,
            };
            match (signature(tools, tool), used.arguments) {
                (Some(signature), Some(given)) => {
                    let text = shown_signature(signature);
                    found.extend(faults(given, signature).into_iter().map(|fault| {
                        let signature = text.clone();
                        (used.at, tool, Wrong::Arguments { signature, fault })
                    }));
                }
                (None, _) if used.name.is_some() && !ToolSignature::is_reserved(tool) => {
                    found.push((used.at, tool, no_tool(tools, tool)));
                }
                _ => {}
            }
        }
        found.sort_by_key(|(at, ..)| *at);
        found.truncate(TOLD);
        found
    }
}

fn signature<'a>(tools: &'a [ToolSignature], name: &str) -> Option<&'a ToolSignature> {
    tools.iter().find(|tool| tool.identifier() == name)
}

fn no_tool(tools: &[ToolSignature], name: &str) -> Wrong {
    let mut there: Vec<&str> = tools.iter().map(ToolSignature::identifier).collect();
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    there.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    there.truncate(LISTED);
    Wrong::NoTool {
        there: there.into_iter().map(str::to_owned).collect(),
    }
}

/// What is wrong with the arguments, as far as can be seen.
fn faults(given: &Arguments, tool: &ToolSignature) -> Vec<Fault> {
    let parameters = tool.parameters();
    let spread = given.args.iter().any(Expr::is_starred_expr);
    let mut faults = Vec::new();
    // Their places are known as far as nothing is spread.
    let placed = given
        .args
        .iter()
        .take_while(|value| !value.is_starred_expr());
    let placed: Vec<&Expr> = placed.collect();
    if placed.len() > parameters.len() {
        faults.push(Fault::TooMany(placed.len()));
    }
    let mut values: Vec<(&GuestParameter, &Expr)> = parameters.iter().zip(placed).collect();
    let by_place = values.len();
    for keyword in &given.keywords {
        let Some(name) = &keyword.arg else { continue };
        let name = name.id.as_str();
        let is_it = |of: &&GuestParameter| of.identifier == name || of.name == name;
        match parameters.iter().find(is_it) {
            Some(parameter) => {
                let mut earlier = values[..by_place].iter();
                if earlier.any(|(other, _)| other.name == parameter.name) {
                    faults.push(Fault::Twice(name.to_owned()));
                }
                values.push((parameter, &keyword.value));
            }
            None if !tool.is_open() => faults.push(Fault::NoParameter(name.to_owned())),
            None => {}
        }
    }
    let all_seen = !spread && given.keywords.iter().all(|keyword| keyword.arg.is_some());
    if all_seen {
        let is_given =
            |wanted: &GuestParameter| values.iter().any(|(of, _)| of.name == wanted.name);
        let missing = parameters.iter().filter(|of| of.required && !is_given(of));
        let missing: Vec<String> = missing.map(|of| of.identifier.clone()).collect();
        if !missing.is_empty() {
            faults.push(Fault::Missing(missing));
        }
    }
    for (parameter, value) in values {
        let Some(value) = json(value, DEPTH) else {
            continue;
        };
        let is_left_out = value.is_null() && !parameter.required && !parameter.nullable;
        if !is_left_out && let Some(why) = tool.mismatch(parameter, &value) {
            faults.push(Fault::Misfit(why));
        }
    }
    faults
}

/// A literal as the host would get it.
fn json(expr: &Expr, deep: usize) -> Option<Value> {
    let deep = deep.checked_sub(1)?;
    let list = |items: &[Expr]| -> Option<Value> {
        let items = items.iter().map(|item| json(item, deep));
        items.collect::<Option<Vec<_>>>().map(Value::Array)
    };
    match expr {
        Expr::NoneLiteral(_) => Some(Value::Null),
        Expr::BooleanLiteral(literal) => Some(literal.value.into()),
        Expr::StringLiteral(literal) => Some(literal.value.to_str().into()),
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(number) => number.as_i64().map(Value::from),
            Number::Float(number) => Some(Value::from(*number)),
            Number::Complex { .. } => None,
        },
        Expr::UnaryOp(negative) if negative.op == UnaryOp::USub => {
            let number = json(&negative.operand, deep)?;
            let whole = number.as_i64().map(|number| Value::from(-number));
            whole.or_else(|| number.as_f64().map(|number| Value::from(-number)))
        }
        Expr::List(items) => list(&items.elts),
        Expr::Tuple(items) => list(&items.elts),
        Expr::Dict(dict) => {
            let member = |item: &ruff_python_ast::DictItem| {
                let key = item.key.as_ref()?.as_string_literal_expr()?;
                Some((key.value.to_str().to_owned(), json(&item.value, deep)?))
            };
            dict.items.iter().map(member).collect()
        }
        _ => None,
    }
}

impl<'a> Uses<'a> {
    fn used(&mut self, expr: &'a Expr, arguments: Option<&'a Arguments>) {
        match expr {
            Expr::Name(name) => self.seen.push(Use {
                of: &name.id,
                name: None,
                at: name.range.start().to_usize(),
                arguments,
            }),
            Expr::Attribute(part) => {
                let Expr::Name(of) = &*part.value else { return };
                if part.ctx == ExprContext::Load {
                    self.seen.push(Use {
                        of: &of.id,
                        name: Some(&part.attr.id),
                        at: part.attr.range.start().to_usize(),
                        arguments,
                    });
                } else {
                    self.probed.insert(&of.id);
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Uses<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in import.names.iter().filter(|alias| &*alias.name.id == TOOLS) {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    *self.modules.entry(&name.id).or_default() += 1;
                }
            }
            Stmt::ImportFrom(import)
                if import.level == 0
                    && import
                        .module
                        .as_ref()
                        .is_some_and(|name| &*name.id == TOOLS) =>
            {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    let entry = self.functions.entry(&name.id);
                    // By one name only one tool; what differs is a binding too many.
                    let (tool, times) = entry.or_insert((&alias.name.id, 0));
                    *times += usize::from(*tool == &*alias.name.id);
                    let at = alias.range.start().to_usize();
                    self.imported.push((at, &alias.name.id));
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                self.used(&call.func, Some(&call.arguments));
                if let Expr::Name(function) = &*call.func
                    && matches!(&*function.id, "hasattr" | "getattr" | "setattr" | "delattr")
                    && let Some(Expr::Name(object)) = call.arguments.args.first()
                {
                    self.probed.insert(&object.id);
                }
                // The function itself is seen.
                if let Expr::Attribute(part) = &*call.func {
                    self.visit_expr(&part.value);
                } else if !call.func.is_name_expr() {
                    self.visit_expr(&call.func);
                }
                self.visit_arguments(&call.arguments);
            }
            expr => {
                if expr.is_attribute_expr() {
                    self.used(expr, None);
                }
                visitor::walk_expr(self, expr);
            }
        }
    }
}

/// The message for the model about calls that were not made.
pub(crate) fn words_wrong_calls(wrong: &[WrongCall], language: Language) -> String {
    let quoted = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let texts = language.prompts();
    let mut text = texts.wrong_calls.to_owned();
    for WrongCall { line, tool, wrong } in wrong {
        text.push_str(&texts.wrong_call_line(*line));
        match wrong {
            Wrong::NoTool { there } if there.is_empty() => text.push_str(&texts.no_tools(tool)),
            Wrong::NoTool { there } => text.push_str(&texts.no_such_tool(tool, &quoted(there))),
            Wrong::Arguments { signature, fault } => {
                text.push_str(&match fault {
                    Fault::NoParameter(name) => texts.no_parameter(name),
                    Fault::TooMany(given) => texts.too_many_arguments(*given),
                    Fault::Twice(name) => texts.two_values(name),
                    Fault::Missing(names) => texts.missing_arguments(&quoted(names)),
                    Fault::Misfit(why) => why.clone(),
                });
                text.push_str(&texts.call_form(signature));
            }
        }
    }
    text.push_str(texts.wrong_calls_again);
    text
}

#[cfg(test)]
mod tests;
