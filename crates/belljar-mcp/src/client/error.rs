//! Why a server can't be used.

use std::path::PathBuf;

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings can't be followed.
    #[error("[mcp.{server}] of the settings: {why}")]
    Settings {
        /// Its name.
        server: String,
        /// What is wrong.
        why: String,
    },
    /// Its program did not start, or ended.
    #[error(
        "the MCP server `{server}` does not run: {why}\nhint: try its command by hand: {command}"
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
        "the MCP server `{server}` did not answer within {seconds} s, when it was asked {what}{said}\nhint: see whether it runs, or take [mcp.{server}] out of the settings"
    )]
    Silent {
        /// Its name.
        server: String,
        /// What it was asked.
        what: &'static str,
        /// How long was waited.
        seconds: u64,
        /// What it wrote to standard error.
        said: String,
    },
    /// It could not be reached, or does not speak the protocol.
    #[error(
        "the MCP server `{server}` can't be used: {why}\nhint: see whether it runs, and whether [mcp.{server}] names a server of the Model Context Protocol"
    )]
    Unusable {
        /// Its name.
        server: String,
        /// What happened.
        why: String,
    },
    /// It offers more than is taken.
    #[error("the MCP server `{server}` offers more than is taken: {why}")]
    TooMuch {
        /// Its name.
        server: String,
        /// Of what.
        why: String,
    },
    /// Its accepted tools can't be read or written.
    #[error("the accepted tools of `{server}` in {}: {why}\nhint: look at them with `belljar mcp-servers`, and accept what it offers now: belljar mcp-servers accept {server}", path.display())]
    Pins {
        /// Its name.
        server: String,
        /// Where they are.
        path: PathBuf,
        /// What happened.
        why: String,
    },
}
