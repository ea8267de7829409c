//! What a command is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// The most bytes of arguments and variables, together.
const MAX_BYTES: usize = 512 << 10;

/// A program to be started in a session.
#[derive(Clone, Default)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in `PATH`, in which the
    /// environment's Python comes first.
    pub argv: Vec<String>,
    /// Where it starts, relative to the workspace. `None`: in the workspace.
    pub directory: Option<PathBuf>,
    /// Environment variables, in addition to those that every command has.
    pub variables: BTreeMap<String, String>,
    /// Whether it has a standard input that can be [written](crate::CommandProcess::write). Otherwise it
    /// reads the end of a file. With a terminal it always has one.
    pub input: bool,
    /// The size of its terminal; `None`: it has none, but one pipe for standard output and one for standard error.
    pub terminal: Option<TerminalSize>,
    /// The time after which it is ended, with what it has started.
    pub timeout: Option<Duration>,
    /// Whether the program waits for whoever [follows](crate::CommandProcess::next_output) its output, so that
    /// none of it is lost. Without a reader it then stops as soon as its pipe is full. Otherwise it never waits, and
    /// the newest output is kept.
    pub paced: bool,
}

/// Without the values of variables, which may be secrets.
impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Command")
            .field("argv", &self.argv)
            .field("directory", &self.directory)
            .field("variables", &self.variables.keys())
            .field("input", &self.input)
            .field("terminal", &self.terminal)
            .field("timeout", &self.timeout)
            .field("paced", &self.paced)
            .finish()
    }
}

impl Command {
    /// A program and its arguments.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// A line for the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::Command(why.to_owned()));
        if self.argv.first().is_none_or(String::is_empty) {
            return refuse("no program is given\nhint: give the program first, then its arguments");
        }
        let named = |(name, _): (&String, &String)| !name.is_empty() && !name.contains('=');
        if !self.variables.iter().all(named) {
            return refuse("a variable has no name, or a name with an equals sign");
        }
        let variables = self
            .variables
            .iter()
            .flat_map(|(name, value)| [name, value]);
        let texts = || self.argv.iter().chain(variables.clone());
        if texts().any(|text| text.contains('\0')) {
            return refuse("an argument or a variable contains a NUL character");
        }
        if texts().map(|text| text.len() + 1).sum::<usize>() > MAX_BYTES {
            return refuse("its arguments and variables are longer than 512 KiB");
        }
        Ok(())
    }
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self {
            rows: 24,
            columns: 80,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_kernel_takes_is_refused_before_it_is_sent() {
        let variable = |name: &str, value: &str| Command {
            variables: [(name.to_owned(), value.to_owned())].into(),
            ..Command::new(["true"])
        };
        for refused in [
            Command::default(),
            Command::new([""]),
            Command::new(["a\0b"]),
            Command::new(["a".repeat(MAX_BYTES)]),
            variable("", "x"),
            variable("A=B", "x"),
            variable("A", "x\0"),
        ] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
        variable("A", "=").check().unwrap();
    }

    #[test]
    fn no_value_of_a_variable_is_printed() {
        let mut command = Command::new(["true"]);
        command.variables.insert("TOKEN".into(), "s3cret".into());
        let text = format!("{command:?}");
        assert!(text.contains("TOKEN") && !text.contains("s3cret"), "{text}");
    }
}
