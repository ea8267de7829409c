//! `docs/options.md`: the table of session options.

use std::fmt::Write as _;

use crate::options_table::{Entry, OPTIONS, WAYS};

const HEAD: &str = "\
# Session options

Generated from the code: `env -i belljar manual --options > docs/options.md`. Tests try each entry.

Each row is an option of a session, each column a way in. `exec`, `repl`, `shell` and `run` are commands, HTTP is
the [service](service.md), SDK is its [Python client](sdk.md), and MCP is `belljar mcp` or `/mcp` of the service. Rust
is the [library](library.md).

The operator of a service sets maximums by options of `belljar serve`. A session requests less than that, or gets it
all; network access is the exception, which a session must request. Runs over HTTP choose their environment and
isolation, and have the operator's options for the rest.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = format!("{HEAD}\n| option | {} |\n", WAYS.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(WAYS.len() + 1));
    for (option, entries) in OPTIONS {
        let _ = write!(page, "| **{option}** |");
        for entry in entries {
            let _ = match entry {
                Entry::Set(how) => write!(page, " {how} |"),
                Entry::No(reason) => write!(page, " *no: {reason}* |"),
            };
        }
        page.push('\n');
    }
    page
}
