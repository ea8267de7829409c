//! `belljar keys`: who may use the service.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use belljar_server::{Scope, TenantName, Tenants};
use clap::{Args, Subcommand};

use crate::serve_command::directory;
use crate::show;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List keys: prefix, tenant, scopes, times of creation and revocation
    List(DataArgs),
    /// Create a key and print it, once
    Create {
        /// Tenant of the key
        #[arg(long, value_name = "NAME", default_value = TenantName::FIRST)]
        tenant: TenantName,
        /// Scope of the key: `sessions`, `runs` or `admin` (repeatable)
        #[arg(long, value_name = "SCOPE", default_values = ["sessions", "runs"])]
        scope: Vec<Scope>,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Revoke a key; a running service applies this within two seconds
    Revoke {
        /// Prefix of the key: the part between the underscores
        prefix: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// Data directory of the service [default: server, next to the environments]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::List(data) => {
            for key in open(data).await?.keys().await? {
                let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
                let revoked = match key.revoked {
                    Some(at) => format!("revoked at {at}"),
                    None => "valid".to_owned(),
                };
                writeln!(
                    std::io::stdout(),
                    "{}\t{}\t{}\tcreated at {}\t{revoked}",
                    key.prefix,
                    key.tenant,
                    scopes.join(","),
                    key.created,
                )?;
            }
        }
        KeysCommand::Create {
            tenant,
            scope,
            data,
        } => {
            let key = open(data).await?.create_key(&tenant, &scope).await?;
            show::note("[API key, not shown again:]");
            writeln!(std::io::stdout(), "{}", key.text)?;
        }
        KeysCommand::Revoke { prefix, data } => {
            if !open(data).await?.revoke(&prefix).await? {
                bail!(
                    "no valid key has the prefix `{prefix}`\nhint: `belljar keys list` lists all keys"
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn open(args: DataArgs) -> anyhow::Result<Tenants> {
    Ok(Tenants::open(&directory(args.data)?).await?)
}
