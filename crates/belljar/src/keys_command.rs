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
    /// List keys by their prefixes: tenant, scopes, when they were made and revoked
    List(DataArgs),
    /// Make a key and print it, once
    Create {
        /// Whose it is
        #[arg(long, value_name = "NAME", default_value = TenantName::FIRST)]
        tenant: TenantName,
        /// What it may do: `sessions`, `runs` or `admin` (may be given several times)
        #[arg(long, value_name = "SCOPE", default_values = ["sessions", "runs"])]
        scope: Vec<Scope>,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Revoke a key; a service that runs notices within two seconds
    Revoke {
        /// The key's prefix: the part between the underscores
        prefix: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// Where the service keeps its keys [default: server, beside the environments]
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
                    "{}\t{}\t{}\tmade at {}\t{revoked}",
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
            show::note("[it is not shown again]");
            writeln!(std::io::stdout(), "{}", key.text)?;
        }
        KeysCommand::Revoke { prefix, data } => {
            if !open(data).await?.revoke(&prefix).await? {
                bail!("no key that is valid has the prefix `{prefix}`; see `belljar keys list`");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn open(args: DataArgs) -> anyhow::Result<Tenants> {
    Ok(Tenants::open(&directory(args.data)?).await?)
}
