//! `docs/configuration.md`: every setting, variable and option of the service, as the code has them.

use std::fmt::Write as _;

use belljar_sandbox::protocol::Language;
use clap::{Arg, Command};
use serde_json::Value;

use crate::settings::{Origin, Settings};
use crate::settings_list::{SETTINGS, Setting};

const HEAD: &str = "\
# Configuration

Generated from the code: `env -i belljar config reference > docs/configuration.md`.

Precedence: flag, environment variable, settings file, defaults of the model's provider. `belljar config` shows the
effective settings and their sources. `belljar config init` writes a settings file with an example of each setting.
API keys are never in the settings file: it names the variable or the file that holds a key.
";

/// The whole page. Defaults are those of this system: without variables and a file they are the program's.
pub(crate) fn page(cli: &Command) -> anyhow::Result<String> {
    let settings = crate::settings::load()?;
    let variables = variables(cli);
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n## Settings file\n\n`*` is a name of your choice: of a provider, a model, a tool or an MCP server.\n\n\
         | setting | meaning | value | default | flag | variable |\n|---|---|---|---|---|---|\n",
    );
    let flags: Vec<&Arg> = options(cli, "config").collect();
    for Setting(name, kind, _, [about, _]) in SETTINGS {
        let last = name.rsplit('.').next().unwrap_or(name);
        let long = match *name {
            "approvals.policy" => "approve".to_owned(),
            _ => last.replace('_', "-"),
        };
        let flag = flags.iter().find(|flag| flag.get_long() == Some(&long));
        let variable = format!("BELLJAR_{}", last.to_ascii_uppercase());
        let variable = variables.iter().find(|(known, _)| *known == variable);
        let told = variable.and_then(|(_, about)| default_in(about));
        let told = told.or_else(|| default_in(&help(flag?)));
        let told = told.or_else(|| default_in(about));
        let about = about.split(" [default").next().unwrap_or_default();
        let default = told.unwrap_or_else(|| default_of(&settings, name));
        row(
            &mut page,
            &[
                code(name),
                about.to_owned(),
                kind.expected(Language::English),
                default,
                flag.map_or(String::new(), |_| code(&format!("--{long}"))),
                variable.map_or(String::new(), |(name, _)| code(name)),
            ],
        );
    }
    page.push_str("\n## Environment variables\n\n| variable | meaning |\n|---|---|\n");
    for (name, about) in &variables {
        row(&mut page, &[code(name), about.clone()]);
    }
    page.push_str(
        "\n## Service options\n\nOptions of `belljar serve`. They have no environment variables.\n\n\
         | option | meaning | default |\n|---|---|---|\n",
    );
    for option in options(cli, "serve") {
        let Some(long) = option.get_long() else {
            continue;
        };
        let names = option.get_value_names();
        let names = names.filter(|_| option.get_action().takes_values());
        let names = names.unwrap_or_default();
        let value = names.iter().map(|name| format!(" {name}"));
        let defaults: Vec<_> = option
            .get_default_values()
            .iter()
            .filter(|_| option.get_action().takes_values())
            .filter_map(|value| value.to_str())
            .collect();
        let about = help(option);
        let default = default_in(&about).unwrap_or_else(|| defaults.join(" "));
        let about = about.split(" [default").next().unwrap_or_default();
        let name = code(&format!("--{long}{}", value.collect::<String>()));
        row(&mut page, &[name, about.to_owned(), default]);
    }
    Ok(page)
}

/// The options of a command that people see.
fn options<'a>(cli: &'a Command, command: &str) -> impl Iterator<Item = &'a Arg> {
    let command = cli.find_subcommand(command).into_iter();
    command
        .flat_map(Command::get_arguments)
        .filter(|option| !option.is_hide_set() && option.get_long() != Some("help"))
}

/// The variables that the program's help lists.
fn variables(cli: &Command) -> Vec<(String, String)> {
    let help = cli.get_after_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let list = help.split("Environment variables:\n").nth(1);
    let lines = list.unwrap_or_default().lines();
    let pair = |line: &str| {
        let (name, about) = line.trim().split_once("  ")?;
        Some((name.to_owned(), about.trim().to_owned()))
    };
    lines.filter_map(pair).collect()
}

fn help(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The default that a text has in brackets.
fn default_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("[default: ")?;
    Some(rest.split(']').next()?.to_owned())
}

fn default_of(settings: &Settings, name: &str) -> String {
    let row = settings.rows.iter().find(|row| row.name == name);
    match row.map(|row| (&row.value, &row.origin)) {
        Some((value @ (Value::Bool(_) | Value::Number(_)), Origin::Default)) => value.to_string(),
        _ => String::new(),
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn row(page: &mut String, cells: &[String]) {
    for cell in cells {
        let _ = write!(page, "| {} ", cell.replace('|', "\\|"));
    }
    page.push_str("|\n");
}
