//! `belljar config`: effective settings and their sources.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Command, Subcommand};
use serde_json::{Value, json};

use crate::run_command::print_line;
use crate::settings::{Row, Settings, SettingsArgs};
use crate::{reference, settings_file, settings_list, show, words};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Precedence: flag, environment variable, settings file, defaults of the model's provider. API keys are never \
shown, and never in the settings file: it names the variable or the file that holds a key.

Examples:
  belljar config init                          write a settings file with an example of each setting
  belljar config --model openai/gpt-5-mini     show the settings for this model"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the path of the settings file
    Path,
    /// Write a settings file with every setting, if there is none
    Init,
    /// Print docs/configuration.md
    #[command(hide = true)]
    Reference,
}

pub(crate) fn run(args: &ConfigArgs, cli: &Command) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(ConfigCommand::Path) => {
            print_line(&settings_file::path()?.display().to_string())?;
        }
        Some(ConfigCommand::Init) => init()?,
        Some(ConfigCommand::Reference) => print_line(reference::page(cli)?.trim_end())?,
        None => {
            let settings = Settings::load(&args.settings)?;
            if args.json {
                print_line(&object(&settings).to_string())?;
            } else {
                table(&settings)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn init() -> anyhow::Result<()> {
    let path = settings_file::path()?;
    let language = words::language();
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let file = std::fs::File::create_new(&path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!(language.texts().settings.file_exists(&path.display()))
        }
        other => other.with_context(|| path.display().to_string())?,
    };
    file.write_all(settings_list::template(language).as_bytes())
        .with_context(|| path.display().to_string())?;
    print_line(&path.display().to_string())
}

fn object(settings: &Settings) -> Value {
    let rows = settings.rows.iter().map(|row| {
        let mut entry = json!({"name": row.name, "value": row.value, "from": row.origin.json()});
        if let Some(set) = key_is_set(row) {
            entry["set"] = set.into();
        }
        entry
    });
    json!({
        "file": settings.file,
        "file_exists": settings.file.exists(),
        "settings": rows.collect::<Vec<_>>(),
    })
}

/// For the variable of a key: whether it holds one. What it holds is never shown.
fn key_is_set(row: &Row) -> Option<bool> {
    let name = row.value.as_str().filter(|_| row.name == "key_variable")?;
    Some(std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn table(settings: &Settings) -> anyhow::Result<()> {
    let language = settings.language;
    let file = settings.file.display();
    let mut out = std::io::stdout().lock();
    let texts = &language.texts().settings;
    let head = if settings.file.exists() {
        texts.file(&file)
    } else {
        texts.file_missing(&file)
    };
    writeln!(out, "{head}")?;
    let shown = |row: &Row| {
        let set = match key_is_set(row) {
            Some(true) => texts.key_set,
            Some(false) => texts.key_not_set,
            None => "",
        };
        format!("{}{set}", show::message(&row.to_string()))
    };
    let width = |width: fn(&(String, &Row)) -> usize, rows: &[(String, &Row)]| {
        rows.iter().map(width).max().unwrap_or_default()
    };
    let rows: Vec<(String, &Row)> = settings.rows.iter().map(|row| (shown(row), row)).collect();
    let names = width(|(_, row)| row.name.len(), &rows);
    let values = width(|(value, _)| value.chars().count(), &rows).min(48);
    for (value, row) in rows {
        let origin = match row.value {
            Value::Null => texts.not_set.to_owned(),
            _ => row.origin.text(language),
        };
        writeln!(out, "{:names$}  {value:values$}  {origin}", row.name)?;
    }
    Ok(())
}
