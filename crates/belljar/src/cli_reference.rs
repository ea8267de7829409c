//! `docs/cli-reference.md`: every command with its arguments and options, as clap has them.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::reference::{code, default_in, help, row};

const HEAD: &str = "\
# Commands

Generated from the code: `env -i belljar manual --reference > docs/cli-reference.md`.

Every command also has `--help` and `--version`. [cli.md](cli.md) is a tour with examples and
[exit codes](cli.md#exit-codes). [configuration.md](configuration.md) lists settings and environment variables.
";

/// The whole page.
pub(crate) fn page(mut cli: Command) -> String {
    // Gives each command its full name.
    cli.build();
    let mut page = HEAD.to_owned();
    for command in subcommands(&mut cli) {
        write_command(&mut page, command, "##");
    }
    page
}

fn write_command(page: &mut String, command: &mut Command, heading: &str) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{heading} {name}\n\n{}", sentence(&about));
    let usage = command.render_usage().to_string();
    let _ = write!(
        page,
        "\n```text\n{}\n```\n",
        usage.trim_start_matches("Usage: ")
    );
    let (positionals, options): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !is_standard(argument))
        .partition(|argument| argument.is_positional());
    for (title, arguments) in [("argument", positionals), ("option", options)] {
        if !arguments.is_empty() {
            let _ = write!(page, "\n| {title} | meaning | default |\n|---|---|---|\n");
        }
        for argument in arguments {
            write_argument(page, argument);
        }
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    if let Some(after) = after {
        write_paragraphs(page, &after.to_string());
    }
    for command in subcommands(command) {
        write_command(page, command, "###");
    }
}

/// A text below a help: prose, and lists and examples as they are.
fn write_paragraphs(page: &mut String, text: &str) {
    for paragraph in text.trim_end().split("\n\n") {
        if paragraph.contains("\n  ") {
            let _ = write!(page, "\n```text\n{paragraph}\n```\n");
        } else {
            let escaped = paragraph.replace('<', "\\<").replace('*', "\\*");
            let _ = write!(page, "\n{escaped}\n");
        }
    }
}

fn write_argument(page: &mut String, argument: &Arg) {
    let takes_value = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let value: Vec<String> = names.iter().map(ToString::to_string).collect();
    let value = value.join(" ");
    let name = match (argument.get_short(), argument.get_long()) {
        (_, None) => value,
        (short, Some(long)) => {
            let short = short.map(|short| format!("-{short}, "));
            let value = (takes_value && !value.is_empty()).then(|| format!(" {value}"));
            format!(
                "{}--{long}{}",
                short.unwrap_or_default(),
                value.unwrap_or_default()
            )
        }
    };
    let mut about = help(argument);
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .filter(|_| takes_value)
        .filter_map(|value| value.to_str())
        .collect();
    let default = default_in(&about).unwrap_or_else(|| defaults.join(" "));
    about.truncate(about.find(" [default").unwrap_or(about.len()));
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| code(value.get_name()))
        .collect();
    // Some texts name the values themselves.
    if !values.iter().all(|value| about.contains(value)) {
        let _ = write!(about, ": {}", values.join(", "));
    }
    row(page, &[code(&name), about, default]);
}

/// The commands that people see.
fn subcommands(command: &mut Command) -> impl Iterator<Item = &mut Command> {
    let all = command.get_subcommands_mut();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// `--help` and `--version`, which every command has.
fn is_standard(argument: &Arg) -> bool {
    matches!(argument.get_long(), Some("help" | "version"))
}

/// Paragraphs of a help text, each with a full stop.
fn sentence(text: &str) -> String {
    let mut out = String::new();
    for paragraph in text.split("\n\n") {
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let stop = if line.ends_with(['.', ':']) { "" } else { "." };
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{line}{stop}");
    }
    out
}
