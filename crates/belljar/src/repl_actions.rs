//! What the lines that start with `/` do.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use belljar_sandbox::protocol::texts::SessionTexts;
use belljar_sandbox::protocol::{NameInfo, visible};
use belljar_sandbox::{BeneathError, Checkpoint, CheckpointRef, EntryKind, Error, Session};

use crate::table::table;
use crate::{show, transfer};

/// A command: its name, its arguments, and what it does.
type CommandHelp = (
    &'static str,
    &'static str,
    fn(&SessionTexts) -> &'static str,
);

/// The commands, as they are completed and explained.
pub(crate) const COMMANDS: [CommandHelp; 14] = [
    ("/help", "", |texts| texts.help_help),
    ("/vars", "", |texts| texts.help_vars),
    ("/files", "", |texts| texts.help_files),
    ("/put", " PATH [NAME]", |texts| texts.help_put),
    ("/get", " NAME [PATH]", |texts| texts.help_get),
    ("/checkpoint", " NAME", |texts| texts.help_checkpoint),
    ("/checkpoints", "", |texts| texts.help_checkpoints),
    ("/restore", " NAME|CELL", |texts| texts.help_restore),
    ("/fork", "", |texts| texts.help_fork),
    ("/back", "", |texts| texts.help_back),
    ("/save", " PATH", |texts| texts.help_save),
    ("/load", " PATH", |texts| texts.help_load),
    ("/reset", "", |texts| texts.help_reset),
    ("/quit", "", |texts| texts.help_quit),
];

/// What follows after something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A cell ran.
    Ran {
        /// To its end.
        success: bool,
    },
    /// Something else was done.
    Go,
    /// The person wants to leave.
    Leave,
}

impl Next {
    pub(crate) fn is_leaving(self) -> bool {
        self == Self::Leave
    }
}

/// A command with what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Vars,
    Files,
    Put { path: String, name: Option<String> },
    Get { name: String, path: Option<String> },
    Checkpoint { name: String },
    Checkpoints,
    Restore { checkpoint: CheckpointRef },
    Fork,
    Back,
    Save { path: String },
    Load { path: String },
    Reset,
    Quit,
}

impl Command {
    pub(crate) fn parse(text: &str, texts: &SessionTexts) -> anyhow::Result<Self> {
        let mut words = split(text, texts)?.into_iter();
        let word = words.next().unwrap_or_default();
        let (first, second, more) = (words.next(), words.next(), words.next());
        let usage = || {
            let (name, rest, _) = COMMANDS.iter().find(|(name, ..)| *name == word)?;
            Some(match *rest {
                "" => texts.no_arguments(name),
                rest => texts.usage(&format!("{name}{rest}")),
            })
        };
        Ok(match (word.as_str(), first, second, more) {
            ("/help", None, ..) => Self::Help,
            ("/vars", None, ..) => Self::Vars,
            ("/files", None, ..) => Self::Files,
            ("/put", Some(path), name, None) => Self::Put { path, name },
            ("/get", Some(name), path, None) => Self::Get { name, path },
            ("/checkpoints", None, ..) => Self::Checkpoints,
            ("/checkpoint", Some(name), None, _) => {
                if name.parse::<u32>().is_ok() {
                    bail!(texts.checkpoint_number(&name));
                }
                Self::Checkpoint { name }
            }
            ("/restore", Some(which), None, _) => Self::Restore {
                checkpoint: match which.parse() {
                    Ok(cell) => CheckpointRef::Cell(cell),
                    Err(_) => CheckpointRef::Name(which),
                },
            },
            ("/fork", None, ..) => Self::Fork,
            ("/back", None, ..) => Self::Back,
            ("/save", Some(path), None, _) => Self::Save { path },
            ("/load", Some(path), None, _) => Self::Load { path },
            ("/reset", None, ..) => Self::Reset,
            ("/quit", None, ..) => Self::Quit,
            _ => {
                let names = COMMANDS.map(|(name, ..)| name).join(", ");
                bail!(usage().unwrap_or_else(|| texts.no_such_command(&word, &names)))
            }
        })
    }
}

/// Words as a shell would split them: quotes and backslashes keep spaces.
fn split(text: &str, texts: &SessionTexts) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        bail!(texts.unclosed_quote(&quote));
    }
    words.extend(word);
    Ok(words)
}

/// Does a command that needs nothing but the session.
pub(crate) async fn act(
    session: &Session,
    command: &Command,
    texts: &SessionTexts,
) -> anyhow::Result<()> {
    match command {
        Command::Help => say(&help(texts)),
        Command::Vars => {
            let names = session.manifest().await?;
            if names.is_empty() {
                show::note(texts.no_variables);
            } else {
                say(&variables(&names, texts));
            }
        }
        Command::Files => files(session, texts)?,
        Command::Put { path, name } => put(session, path, name.as_deref(), texts)?,
        Command::Get { name, path } => get(session, name, path.as_deref(), texts)?,
        Command::Checkpoint { name } => {
            session.checkpoint(name).await?;
            let name = visible(name);
            show::note(&texts.checkpoint_made(&name));
        }
        Command::Checkpoints => {
            let checkpoints = session.checkpoints().await?;
            if checkpoints.is_empty() {
                show::note(texts.no_checkpoints);
            } else {
                say(&checkpoint_table(checkpoints, texts));
            }
        }
        Command::Restore { checkpoint } => {
            session.restore(checkpoint.clone()).await?;
            show::note(texts.restored);
        }
        Command::Save { path } => save(session, &home(path), texts).await?,
        Command::Fork | Command::Back | Command::Load { .. } | Command::Reset | Command::Quit => {}
    }
    Ok(())
}

fn say(text: &str) {
    let mut stdout = anstream::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

fn help(texts: &SessionTexts) -> String {
    let mut text = String::new();
    for (name, rest, what) in COMMANDS {
        let _ = writeln!(text, "{:20} {}", format!("{name}{rest}"), what(texts));
    }
    text.push_str(texts.help_end);
    text
}

fn files(session: &Session, texts: &SessionTexts) -> anyhow::Result<()> {
    let listing = session.list("")?;
    if listing.entries.is_empty() {
        show::note(texts.no_files);
        return Ok(());
    }
    let rows = listing.entries.iter().map(|entry| match entry.kind {
        EntryKind::File => [size(entry.size), entry.path.clone()],
        EntryKind::Directory => [String::new(), format!("{}/", entry.path)],
        EntryKind::Other => [texts.not_a_file.into(), entry.path.clone()],
    });
    say(&table(
        &[texts.head_size, texts.head_path],
        &[true, false],
        rows,
    ));
    if listing.truncated {
        show::note(texts.list_truncated);
    }
    Ok(())
}

fn put(
    session: &Session,
    path: &str,
    name: Option<&str>,
    texts: &SessionTexts,
) -> anyhow::Result<()> {
    let path = home(path);
    let of_path = || path.file_name().and_then(|name| name.to_str());
    let name = name
        .or_else(of_path)
        .with_context(|| texts.no_file_name(&path.display()))?;
    let mut inputs = Vec::new();
    transfer::add(&path, name.to_owned(), &mut inputs)?;
    transfer::put_all(session, &inputs)?;
    for input in &inputs {
        let bytes = std::fs::metadata(&input.path).map_or(0, |data| data.len());
        copied(&session.directory().join(&input.name), bytes);
    }
    Ok(())
}

fn get(
    session: &Session,
    name: &str,
    path: Option<&str>,
    texts: &SessionTexts,
) -> anyhow::Result<()> {
    let within = Path::new(name).strip_prefix(session.directory()).ok();
    let name = within.and_then(Path::to_str).unwrap_or(name);
    let name = name.trim_end_matches('/');
    let own_name = Path::new(name)
        .file_name()
        .with_context(|| texts.not_a_file_name(name))?;
    let target = match path.map(home) {
        None => PathBuf::from(own_name),
        Some(directory) if directory.is_dir() => directory.join(own_name),
        Some(path) => path,
    };
    let names = match session.open(name) {
        // A directory is its files.
        Err(Error::File(BeneathError::NotRegular(_))) => transfer::files_below(session, name)?,
        Err(error) => return Err(error.into()),
        Ok(_) => vec![name.to_owned()],
    };
    for file in names {
        let mut source = session.open(&file)?;
        let below = file.strip_prefix(name).unwrap_or_default();
        let target = match below.trim_start_matches('/') {
            "" => target.clone(),
            below => target.join(below),
        };
        // Only what was named is written over.
        if !transfer::copy(&mut source, &target, path.is_some())? {
            bail!(texts.already_exists(&target.display()));
        }
        let bytes = std::fs::metadata(&target).map_or(0, |data| data.len());
        copied(&target, bytes);
    }
    Ok(())
}

/// Says what was copied.
fn copied(path: &Path, bytes: u64) {
    let path = visible(&path.to_string_lossy()).into_owned();
    show::note(&format!("[{path}: {}]", size(bytes)));
}

async fn save(session: &Session, path: &Path, texts: &SessionTexts) -> anyhow::Result<()> {
    let report = session.snapshot(path).await?;
    show::saved(&report);
    let saved = report.names.iter().filter(|name| name.why.is_none());
    show::note(&texts.saved(
        &visible(&path.to_string_lossy()),
        saved.count(),
        report.files,
        &size(report.bytes),
    ));
    Ok(())
}

/// A path as it is typed, `~/` for the home directory.
pub(crate) fn home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// The checkpoints of a session as a table.
fn checkpoint_table(checkpoints: Vec<Checkpoint>, texts: &SessionTexts) -> String {
    let rows = checkpoints.into_iter().map(|checkpoint| {
        [
            checkpoint.cell.to_string(),
            checkpoint.name.unwrap_or_default(),
            checkpoint.memory_bytes.map(size).unwrap_or_default(),
        ]
    });
    table(
        &[texts.head_cell, texts.head_name, texts.head_memory],
        &[true, false, true],
        rows,
    )
}

/// The manifest as a table.
fn variables(names: &[NameInfo], texts: &SessionTexts) -> String {
    let rows = names.iter().map(|name| {
        let shape = match (&name.shape, name.length) {
            (Some(shape), _) => shape
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(" × "),
            (None, Some(length)) => length.to_string(),
            (None, None) => String::new(),
        };
        let cell = if name.cell == 0 {
            texts.seed.into()
        } else {
            name.cell.to_string()
        };
        [
            name.name.clone(),
            name.type_name.clone(),
            shape,
            name.size_bytes.map(size).unwrap_or_default(),
            cell,
        ]
    });
    table(
        &[
            texts.head_name,
            texts.head_type,
            texts.head_shape,
            texts.head_size,
            texts.head_cell,
        ],
        &[false, false, true, true, true],
        rows,
    )
}

/// A size for people.
fn size(bytes: u64) -> String {
    let mut unit = "B";
    let mut tenths = bytes.saturating_mul(10);
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use belljar_sandbox::protocol::Language;

    use super::*;

    fn texts() -> &'static SessionTexts {
        &Language::English.texts().session
    }

    fn info(name: &str, type_name: &str, shape: Option<Vec<u64>>, length: Option<u64>) -> NameInfo {
        NameInfo {
            name: name.into(),
            type_name: type_name.into(),
            shape,
            length,
            size_bytes: Some(2048),
            cell: 3,
            preview: None,
        }
    }

    #[test]
    fn commands_are_read_with_what_they_are_given() {
        assert_eq!(Command::parse("/vars", texts()).unwrap(), Command::Vars);
        assert_eq!(Command::parse("  /quit  ", texts()).unwrap(), Command::Quit);
        let put = Command::Put {
            path: "my file.csv".into(),
            name: Some("a b".into()),
        };
        assert_eq!(
            Command::parse(r"/put 'my file.csv' a\ b", texts()).unwrap(),
            put
        );
        let get = Command::Get {
            name: String::new(),
            path: None,
        };
        assert_eq!(Command::parse("/get ''", texts()).unwrap(), get);
    }

    #[test]
    fn what_is_wrong_with_a_command_is_told() {
        let wrong = |text: &str| Command::parse(text, texts()).unwrap_err().to_string();
        assert!(
            wrong("/nothing").contains("commands: /help, /vars, /files"),
            "{}",
            wrong("/nothing")
        );
        assert!(
            wrong("/put").contains("/put PATH [NAME]"),
            "{}",
            wrong("/put")
        );
        assert!(wrong("/get a b c").contains("/get NAME [PATH]"));
        assert!(wrong("/vars all").contains("`/vars`"));
        assert!(wrong("/put 'a").contains("unclosed quote"));
        assert!(wrong("/save a b").contains("/save PATH"));
        assert!(wrong("/load").contains("/load PATH"));
        assert!(wrong("/fork 2").contains("`/fork` takes no arguments"));
    }

    #[test]
    fn the_manifest_is_an_aligned_table() {
        let mut seeded = info("数据", "dict", None, Some(2));
        (seeded.cell, seeded.size_bytes) = (0, None);
        let names = [
            info("df", "pandas.DataFrame", Some(vec![1000, 4]), None),
            info("x", "int", None, None),
            seeded,
        ];
        assert_eq!(
            variables(&names, texts()),
            "\
name  type                 shape     size  cell
df    pandas.DataFrame  1000 × 4  2.0 KiB     3
x     int                         2.0 KiB     3
数据  dict                     2           seed
"
        );
    }

    #[test]
    fn a_guests_words_can_not_break_the_table() {
        let shown = variables(
            &[info(
                "x",
                &format!("a\n\x1b[2J{}", "b".repeat(100)),
                None,
                None,
            )],
            texts(),
        );
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("a<U+000A><U+001B>[2Jbbb"), "{shown}");
        assert!(shown.contains('…'));
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size(1536 << 10), "1.5 MiB");
        assert_eq!(size(u64::MAX / 20), "838860.7 TiB");
    }
}
