//! Errors of connections to servers.

use std::path::PathBuf;

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings are invalid.
    #[error("`[mcp.{server}]` of the settings is invalid: {why}")]
    Settings {
        /// Its name.
        server: String,
        /// What is wrong.
        why: String,
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
