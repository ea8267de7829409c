//! A request to run a cell.

use std::time::Duration;

use crate::variables::Variables;

/// A piece of code to run, and how.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Python source.
    pub code: String,
    /// The [namespace](crate::Session::create_namespace) that it runs in, if not `main`.
    pub namespace: Option<String>,
    /// Its wall time limit, if not that of the session.
    pub wall_time: Option<Duration>,
    /// What to do while another cell runs.
    pub when_busy: WhenBusy,
    /// What becomes of the variables unless the cell succeeds.
    pub on_failure: OnFailure,
    /// Whether the caller answers tool calls of the cell, by [`Session::answer`](crate::Session::answer). While calls are
    /// open, CPU time counts towards the limit of the cell instead of wall time. If false, calls
    /// are denied.
    pub answers: bool,
    /// Whether the caller answers `input()` and `getpass()` of the cell, by
    /// [`Session::answer_input`](crate::Session::answer_input). Up to 10 minutes of waiting don't count towards the
    /// wall time limit. If false, they raise `EOFError`.
    pub input: bool,
    /// Whether packages of its `# requires:` lines are installed first, within the session's policy
    /// ([`Session::install`](crate::Session::install)). The outcome lists them; if they can't be
    /// installed, the cell is not run. The same for `%pip install` lines before its first
    /// statement.
    pub installs: bool,
    /// The most characters of an exception's value [default: 16384, maximum: 1048576].
    pub exception_characters: Option<usize>,
    /// Environment variables of this cell alone. After it they are as before.
    pub variables: Variables,
}

/// What to do with a cell while another one runs in the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Wait for the other cell.
    #[default]
    Wait,
    /// Return [`Error::Busy`](crate::Error::Busy).
    Refuse,
}

/// What becomes of the variables unless a cell succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They stay as the cell left them.
    #[default]
    Keep,
    /// All or nothing: they are restored to the state before the cell, and the outcome says so. A
    /// checkpoint is made before the cell, unless there is one of that state. If it can't be made,
    /// the cell is not run ([`Error::NotCheckpointed`](crate::Error::NotCheckpointed)). Files stay as the cell left them.
    Restore,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(code: T) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }
}
