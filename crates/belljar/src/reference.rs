//! `docs/configuration.md`: every setting, variable and option of the service, as the code has them.

use std::fmt::Write as _;
use std::time::Duration;

use belljar_sandbox::Limits;
use belljar_sandbox::protocol::Language;
use clap::{Arg, Command};
use serde_json::Value;

use crate::settings::{Origin, Settings};
use crate::settings_list::SETTINGS;

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
    // Those of all commands too.
    let flags = cli.get_arguments().chain(options(cli, "config"));
    let flags: Vec<&Arg> = flags.collect();
    for setting in SETTINGS {
        let name = setting.name;
        let about = (setting.about)(&Language::English.texts().setting);
        let variable = variables.iter();
        let mut variable = variable.filter(|(known, _)| setting.variable == Some(known));
        let flag = || {
            let long = setting.flag?.strip_prefix("--");
            flags.iter().find(|flag| flag.get_long() == long)
        };
        let told = variable.find_map(|(_, about)| default_in(about));
        let told = told.or_else(|| default_in(&help(flag()?)));
        let told = told.or_else(|| default_in(about));
        let about = about.split(" [default").next().unwrap_or_default();
        let default = told.unwrap_or_else(|| default_of(&settings, name));
        row(
            &mut page,
            &[
                code(name),
                about.to_owned(),
                setting.kind.expected(Language::English),
                default,
                setting.flag.map(code).unwrap_or_default(),
                setting.variable.map(code).unwrap_or_default(),
            ],
        );
    }
    session_limits(&mut page);
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

/// The limits of a session. Each field must be named: one that is added has to have a row.
fn session_limits(page: &mut String) {
    let Limits {
        memory_bytes,
        milli_cpus,
        processes,
        open_files,
        file_bytes,
        workspace_bytes,
        temporary_bytes,
        inodes,
        wall_time,
        cpu_time,
        grace,
        calls,
        output_bytes,
        output_kept_bytes,
        output_file_bytes,
        transfer_bytes,
    } = Limits::default();
    let size = |bytes: u64| match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    };
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    let cpus = Duration::from_millis(milli_cpus).as_secs_f64();
    let rows = [
        ("wall time of a cell", seconds(wall_time), "--timeout"),
        (
            "grace period after the interrupt at that limit",
            seconds(grace),
            "",
        ),
        (
            "CPU time of a cell",
            cpu_time.map_or("not limited".into(), seconds),
            "",
        ),
        (
            "memory, including the session's files",
            size(memory_bytes),
            "--memory",
        ),
        ("CPUs", cpus.to_string(), "--cpus"),
        ("processes and threads", processes.to_string(), ""),
        ("open files per process", open_files.to_string(), ""),
        ("size of one file", size(file_bytes), ""),
        ("size of the workspace", size(workspace_bytes), ""),
        (
            "size of `/tmp` and of `/dev/shm`, each",
            size(temporary_bytes),
            "",
        ),
        (
            "files and directories in each of these three",
            inodes.to_string(),
            "",
        ),
        (
            "output of a cell before it is stopped",
            size(output_bytes),
            "",
        ),
        (
            "output in an outcome, per stream; more is cut in the middle",
            size(output_kept_bytes as u64),
            "",
        ),
        (
            "output kept in a file, per stream",
            size(output_file_bytes),
            "",
        ),
        (
            "one file copied into or out of the workspace",
            size(transfer_bytes),
            "",
        ),
        ("tool calls of a cell", calls.to_string(), ""),
    ];
    page.push_str(
        "\n## Session limits\n\nThe options set some of them, `Limits` of the library all. A session of the \
         service has the operator's limits or less.\n\n| limit | default | option |\n|---|---|---|\n",
    );
    for (limit, default, option) in rows {
        let option = if option.is_empty() {
            String::new()
        } else {
            code(option)
        };
        row(page, &[limit.to_owned(), default, option]);
    }
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

pub(crate) fn help(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The default that a text has in brackets.
pub(crate) fn default_in(text: &str) -> Option<String> {
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

pub(crate) fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(crate) fn row(page: &mut String, cells: &[String]) {
    for cell in cells {
        let _ = write!(page, "| {} ", cell.replace('|', "\\|"));
    }
    page.push_str("|\n");
}
