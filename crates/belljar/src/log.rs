//! The log: what went wrong inside, and what the service did, on standard error.

use std::io::IsTerminal as _;

use anyhow::bail;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::debug_fn;

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// What `BELLJAR_LOG_FORMAT` says.
    pub(crate) fn of_environment() -> anyhow::Result<Self> {
        match std::env::var("BELLJAR_LOG_FORMAT").as_deref() {
            Err(std::env::VarError::NotPresent) | Ok("" | "text") => Ok(Self::Text),
            Ok("json") => Ok(Self::Json),
            _ => bail!("BELLJAR_LOG_FORMAT is `text` or `json`"),
        }
    }

    /// Begins the log.
    pub(crate) fn start(self) {
        let filter =
            EnvFilter::try_from_env("BELLJAR_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
        match self {
            Self::Text => {
                // What others wrote is in the fields, and stays within its line.
                let fields = debug_fn(|writer, field, value| {
                    if field.name() != "message" {
                        write!(writer, "{field}=")?;
                    }
                    for letter in format!("{value:?}").chars() {
                        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
                            write!(writer, "{}", letter.escape_default())?;
                        } else {
                            writer.write_char(letter)?;
                        }
                    }
                    Ok(())
                });
                log.with_ansi(std::io::stderr().is_terminal())
                    .with_env_filter(filter)
                    .fmt_fields(fields.delimited(" "))
                    .init();
            }
            Self::Json => {
                // The start and the end of the service, which are notes to people otherwise.
                let notes = "belljar::serve_command=info".parse();
                let filter = notes.map_or(filter.clone(), |notes| filter.add_directive(notes));
                log.json()
                    .flatten_event(true)
                    .with_span_list(false)
                    .with_env_filter(filter)
                    .init();
            }
        }
    }
}
