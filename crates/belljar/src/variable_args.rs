//! `--var` and `--secret` of the commands that run sessions.

use std::collections::BTreeMap;
use std::env::VarError;

use anyhow::{Context as _, bail};
use belljar_sandbox::{Secrets, SessionOptions, Variables};
use clap::Args;

use crate::words;

/// Environment variables of the session.
#[derive(Debug, Args)]
pub(crate) struct VariableArgs {
    /// Environment variable of the session (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    var: Vec<(String, String)>,
    /// Secret of the session, with the value of belljar's own variable NAME (repeatable)
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
}

impl VariableArgs {
    /// Adds them to the options of a session.
    pub(crate) fn give(&self, mut options: SessionOptions) -> anyhow::Result<SessionOptions> {
        let variables: BTreeMap<String, String> = self.var.iter().cloned().collect();
        options.variables = Variables::new(variables).context("--var")?;
        let mut secrets = BTreeMap::new();
        for name in &self.secret {
            match std::env::var(name) {
                Ok(value) => secrets.insert(name.clone(), value),
                Err(VarError::NotPresent) => bail!(words::texts().session.secret_not_set(name)),
                Err(VarError::NotUnicode(_)) => bail!(words::texts().session.secret_not_text(name)),
            };
        }
        options.secrets = Secrets::new(secrets).context("--secret")?;
        Ok(options)
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
