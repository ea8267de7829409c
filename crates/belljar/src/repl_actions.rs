//! What the lines that start with `/` do.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use belljar_sandbox::protocol::{NameInfo, visible};
use belljar_sandbox::{Checkpoint, CheckpointRef, EntryKind, Session};

use crate::show;

/// The commands, as they are completed and explained.
pub(crate) const COMMANDS: [(&str, &str, &str); 14] = [
    ("/help", "", "show this list"),
    ("/vars", "", "list the variables"),
    ("/files", "", "list the files of the workspace"),
    (
        "/put",
        " PATH [NAME]",
        "copy a file from this machine to the workspace",
    ),
    (
        "/get",
        " NAME [PATH]",
        "copy a file from the workspace to this machine",
    ),
    (
        "/checkpoint",
        " NAME",
        "make a named checkpoint of the variables",
    ),
    (
        "/checkpoints",
        "",
        "list checkpoints and the memory they hold",
    ),
    (
        "/restore",
        " NAME|CELL",
        "restore the variables of a checkpoint, by name or cell; files stay",
    ),
    (
        "/fork",
        "",
        "switch to a fork: a copy of the session with its variables and files",
    ),
    (
        "/back",
        "",
        "drop the fork and return to its parent session",
    ),
    (
        "/save",
        " PATH",
        "write a snapshot of variables and files on this machine",
    ),
    ("/load", " PATH", "start a new session from a snapshot"),
    ("/reset", "", "start a new, empty session"),
    ("/quit", "", "quit (or Ctrl-D)"),
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
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut words = split(text)?.into_iter();
        let word = words.next().unwrap_or_default();
        let (first, second, more) = (words.next(), words.next(), words.next());
        let usage = || {
            let (name, rest, _) = COMMANDS.iter().find(|(name, ..)| *name == word)?;
            Some(match *rest {
                "" => format!("`{name}` takes no arguments"),
                rest => format!("usage: `{name}{rest}`; quote names with spaces"),
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
                    bail!(
                        "`{name}` cannot be the name of a checkpoint: a number means a cell\nhint: choose \
                     another name"
                    );
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
                bail!(usage().unwrap_or_else(|| format!(
                    "no such command: `{word}`\nhint: commands: {names}"
                )))
            }
        })
    }
}

/// Words as a shell would split them: quotes and backslashes keep spaces.
fn split(text: &str) -> anyhow::Result<Vec<String>> {
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
        bail!("unclosed quote `{quote}`");
    }
    words.extend(word);
    Ok(words)
}

/// Does a command that needs nothing but the session.
pub(crate) async fn act(session: &Session, command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Help => say(&help()),
        Command::Vars => {
            let names = session.manifest().await?;
            if names.is_empty() {
                show::note("[no variables yet]");
            } else {
                say(&variables(&names));
            }
        }
        Command::Files => files(session)?,
        Command::Put { path, name } => put(session, path, name.as_deref())?,
        Command::Get { name, path } => get(session, name, path.as_deref())?,
        Command::Checkpoint { name } => {
            session.checkpoint(name).await?;
            let name = visible(name);
            show::note(&format!("[checkpoint made; `/restore {name}` restores it]"));
        }
        Command::Checkpoints => {
            let checkpoints = session.checkpoints().await?;
            if checkpoints.is_empty() {
                show::note("[no checkpoints yet: one is made after each cell]");
            } else {
                say(&checkpoint_table(checkpoints));
            }
        }
        Command::Restore { checkpoint } => {
            session.restore(checkpoint.clone()).await?;
            show::note("[variables restored]");
        }
        Command::Save { path } => save(session, &home(path)).await?,
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

fn help() -> String {
    let mut text = String::new();
    for (name, rest, what) in COMMANDS {
        let _ = writeln!(text, "{:20} {what}", format!("{name}{rest}"));
    }
    text.push_str(
        "Everything else is Python. An empty line ends a block; Tab completes; Ctrl-C clears the line,\nor \
         interrupts the running cell and keeps the variables.\n",
    );
    text
}

fn files(session: &Session) -> anyhow::Result<()> {
    let listing = session.list("")?;
    if listing.entries.is_empty() {
        show::note("[the workspace is empty; /put PATH copies a file into it]");
        return Ok(());
    }
    let rows = listing.entries.iter().map(|entry| match entry.kind {
        EntryKind::File => [size(entry.size), entry.path.clone()],
        EntryKind::Directory => [String::new(), format!("{}/", entry.path)],
        EntryKind::Other => ["not a file".into(), entry.path.clone()],
    });
    say(&table(&["size", "path"], &[true, false], rows));
    if listing.truncated {
        show::note("[list truncated]");
    }
    Ok(())
}

fn put(session: &Session, path: &str, name: Option<&str>) -> anyhow::Result<()> {
    let path = home(path);
    let of_path = || path.file_name().and_then(|name| name.to_str());
    let name = name.or_else(of_path).with_context(|| {
        format!(
            "`{}` has no file name\nhint: give one: `/put PATH NAME`",
            path.display()
        )
    })?;
    let data =
        std::fs::metadata(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    if !data.is_file() {
        bail!("`{}` is not a regular file", path.display());
    }
    let limit = session.limits().transfer_bytes;
    if data.len() > limit {
        bail!(
            "`{}` is too large: {}, more than the limit of {}",
            path.display(),
            size(data.len()),
            size(limit)
        );
    }
    let contents =
        std::fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    session.put(name, &contents)?;
    show::note(&format!(
        "[{}: {}]",
        visible(&session.directory().join(name).to_string_lossy()),
        size(contents.len() as u64)
    ));
    Ok(())
}

fn get(session: &Session, name: &str, path: Option<&str>) -> anyhow::Result<()> {
    let within = Path::new(name).strip_prefix(session.directory()).ok();
    let name = within.and_then(Path::to_str).unwrap_or(name);
    let own_name = Path::new(name)
        .file_name()
        .with_context(|| format!("`{name}` is not a file name"))?;
    let target = match path.map(home) {
        None => PathBuf::from(own_name),
        Some(directory) if directory.is_dir() => directory.join(own_name),
        Some(path) => path,
    };
    let contents = session.get(name)?;
    let mut options = std::fs::File::options();
    options.write(true);
    // Only what was named is written over.
    if path.is_some() {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(&target) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!(
                "`{}` already exists\nhint: `/get NAME PATH` writes to PATH and overwrites it",
                target.display()
            )
        }
        result => result.with_context(|| format!("cannot write `{}`", target.display()))?,
    };
    file.write_all(&contents)
        .with_context(|| format!("cannot write `{}`", target.display()))?;
    show::note(&format!(
        "[{}: {}]",
        visible(&target.to_string_lossy()),
        size(contents.len() as u64)
    ));
    Ok(())
}

async fn save(session: &Session, path: &Path) -> anyhow::Result<()> {
    let report = session.snapshot(path).await?;
    show::saved(&report);
    let saved = report.names.iter().filter(|name| name.why.is_none());
    show::note(&format!(
        "[{}: names: {}, files: {}, {}]",
        visible(&path.to_string_lossy()),
        saved.count(),
        report.files,
        size(report.bytes)
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
fn checkpoint_table(checkpoints: Vec<Checkpoint>) -> String {
    let rows = checkpoints.into_iter().map(|checkpoint| {
        [
            checkpoint.cell.to_string(),
            checkpoint.name.unwrap_or_default(),
            checkpoint.memory_bytes.map(size).unwrap_or_default(),
        ]
    });
    table(&["cell", "name", "memory"], &[true, false, true], rows)
}

/// The manifest as a table.
fn variables(names: &[NameInfo]) -> String {
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
            "seed".into()
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
        &["name", "type", "shape", "size", "cell"],
        &[false, false, true, true, true],
        rows,
    )
}

/// The widest that a column gets; longer text is cut.
const MAX_WIDTH: usize = 60;

/// Rows in aligned columns, those of numbers to the right.
fn table<const N: usize>(
    head: &[&str; N],
    right: &[bool; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.map(|row| row.map(|text| shorten(&visible(&text)))));
    let mut widths = [0; N];
    for line in &lines {
        for (width, text) in widths.iter_mut().zip(line) {
            *width = (*width).max(columns(text));
        }
    }
    let mut out = String::new();
    for line in &lines {
        let mut shown = String::new();
        for ((text, width), right) in line.iter().zip(widths).zip(right) {
            let space = " ".repeat(width - columns(text));
            let (before, after) = if *right {
                (space.as_str(), "")
            } else {
                ("", space.as_str())
            };
            let _ = write!(shown, "{before}{text}{after}  ");
        }
        let _ = writeln!(out, "{}", shown.trim_end());
    }
    out
}

fn shorten(text: &str) -> String {
    if columns(text) <= MAX_WIDTH {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    for c in text.chars() {
        width += column(c);
        if width >= MAX_WIDTH {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// How many columns of a terminal a text takes.
fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

/// Python's names may be Chinese, Japanese or Korean, which take two columns; nothing else that is
/// wide or without width is likely in a table of names.
fn column(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
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
    use super::*;

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
        assert_eq!(Command::parse("/vars").unwrap(), Command::Vars);
        assert_eq!(Command::parse("  /quit  ").unwrap(), Command::Quit);
        let put = Command::Put {
            path: "my file.csv".into(),
            name: Some("a b".into()),
        };
        assert_eq!(Command::parse(r"/put 'my file.csv' a\ b").unwrap(), put);
        let get = Command::Get {
            name: String::new(),
            path: None,
        };
        assert_eq!(Command::parse("/get ''").unwrap(), get);
    }

    #[test]
    fn what_is_wrong_with_a_command_is_told() {
        let wrong = |text: &str| Command::parse(text).unwrap_err().to_string();
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
            variables(&names),
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
        let shown = variables(&[info(
            "x",
            &format!("a\n\x1b[2J{}", "b".repeat(100)),
            None,
            None,
        )]);
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
