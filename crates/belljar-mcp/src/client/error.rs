//! Errors of connections to servers.

use std::io;
use std::path::PathBuf;

/// The longest name of a server.
pub(super) const MAX_NAME: usize = 24;

/// What is wrong with the settings of a server. No value of them is in it: that may be a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Its name is not one.
    #[error(
        "a server's name has at most {MAX_NAME} lower-case letters and digits, and begins with a letter"
    )]
    Name,
    /// It has both a command and a URL.
    #[error("give either a `command` or a `url`")]
    CommandOrUrl,
    /// It has neither.
    #[error("there is no `command`")]
    NoCommand,
    /// Environment variables for a server that is not started.
    #[error("`env` is for a server with a `command`")]
    EnvOfUrl,
    /// Headers for a server that is started.
    #[error("`headers` are for a server with a `url`")]
    HeadersOfCommand,
    /// The program is named by a path from where we stand.
    #[error(
        "the program of `command` must be a name in `PATH`, or a path that begins with `/` or `~/`"
    )]
    Program,
    /// Not the name of an environment variable.
    #[error("`{0}` is not a valid name of an environment variable")]
    Variable(String),
    /// The timeout is out of range.
    #[error("`timeout` must be from 1 to 86400 seconds (a day)")]
    Timeout,
    /// Not a URL of a server.
    #[error("`url` must look like `https://host/mcp`, without user name and password")]
    Url,
    /// Keys would be sent in the open to this host.
    #[error("the `headers` would be sent unencrypted to `{0}`: use https")]
    Unencrypted(String),
    /// The protocol itself sets this header.
    #[error("`headers.{0}`: this header cannot be set")]
    Header(String),
    /// A header can't have this value.
    #[error("`headers.{0}`: the value has characters that a header cannot have")]
    HeaderValue(String),
    /// A path from where we stand.
    #[error("a path begins with `/` or `~/`")]
    Path,
    /// A value without its source.
    #[error("write \"variable:NAME\", \"file:PATH\" or \"text:…\"")]
    Source,
    /// The same of a header.
    #[error(
        "write \"variable:NAME\" or \"file:PATH\", or the same after \"Bearer \"; \
         a key itself does not belong in the settings"
    )]
    HeaderSource,
    /// A value can't be read from its source.
    #[error("`{field}`: {error}")]
    Value {
        /// The setting.
        field: String,
        /// Why.
        error: ValueError,
    },
}

/// Why a value can't be read from its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The environment variable is not set, or empty.
    #[error("the variable `{0}` is not set")]
    NotSet(String),
    /// The file can't be read.
    #[error("`{}`: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is there is not a key.
    #[error("{0}")]
    Key(String),
    /// A key in the settings.
    #[error("a key itself does not belong in the settings")]
    KeyInSettings,
}

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings are invalid.
    #[error("`[mcp.{server}]` of the settings is invalid: {why}")]
    Settings {
        /// Its name.
        server: String,
        /// What is wrong.
        why: SpecError,
    },
    /// Its program did not start, or ended.
    #[error(
        "the MCP server `{server}` does not run: {why}\nhint: try its command by hand: `{command}`"
    )]
    Start {
        /// Its name.
        server: String,
        /// What happened.
        why: String,
        /// The program and its arguments.
        command: String,
    },
    /// It did not answer in time.
    #[error(
        "the MCP server `{server}` did not {what} within {seconds} s{said}\nhint: check that it runs, or remove `[mcp.{server}]` from the settings"
    )]
    Silent {
        /// Its name.
        server: String,
        /// The request.
        what: &'static str,
        /// The timeout.
        seconds: u64,
        /// What it wrote to standard error.
        said: String,
    },
    /// It could not be reached, or does not speak the protocol.
    #[error(
        "the MCP server `{server}` cannot be used: {why}\nhint: check that it runs, and that `[mcp.{server}]` names a server of the Model Context Protocol"
    )]
    Unusable {
        /// Its name.
        server: String,
        /// What happened.
        why: String,
    },
    /// Its tools exceed a limit.
    #[error("the tools of the MCP server `{server}` exceed a limit: {why}")]
    TooMuch {
        /// Its name.
        server: String,
        /// The limit.
        why: String,
    },
    /// Its accepted tools can't be read or written.
    #[error("the accepted tools of `{server}` in `{}` cannot be used: {why}\nhint: `belljar mcp-servers` shows its current tools, `belljar mcp-servers accept {server}` accepts them", path.display())]
    Pins {
        /// Its name.
        server: String,
        /// Where they are.
        path: PathBuf,
        /// What happened.
        why: String,
    },
}
