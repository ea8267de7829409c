//! `belljar keys`: who may use the service.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use belljar_sandbox::protocol::texts::ServiceTexts;
use belljar_server::{Scope, TenantName, Tenants};
use clap::{Args, Subcommand};
use strsim::osa_distance;

use crate::serve_command::directory;
use crate::{show, table, words};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List keys: tenant, scopes, state, times of creation, expiry and last use
    List(DataArgs),
    /// Create a key and print it, once
    Create {
        /// Tenant of the key
        #[arg(long, value_name = "NAME", default_value = TenantName::FIRST)]
        tenant: TenantName,
        /// Scope of the key: `sessions`, `runs` or `admin` (repeatable)
        #[arg(long, value_name = "SCOPE", default_values = ["sessions", "runs"])]
        scope: Vec<Scope>,
        /// Days until the key expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        #[command(flatten)]
        tenant_args: NewTenantArgs,
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
    /// PostgreSQL database, if the service is a cluster
    #[arg(long, value_name = "ADDRESS", conflicts_with = "data")]
    database: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NewTenantArgs {
    /// Create the tenant, even if its name resembles that of another
    #[arg(long)]
    new_tenant: bool,
}

impl NewTenantArgs {
    /// Refuses a new tenant whose name is that of another but for a mistake in typing.
    pub(crate) async fn check(&self, tenants: &Tenants, name: &TenantName) -> anyhow::Result<()> {
        let known = tenants.names().await?;
        if self.new_tenant || known.contains(name) {
            return Ok(());
        }
        let distance = |other: &TenantName| osa_distance(other.as_str(), name.as_str());
        let nearest = known.iter().map(|other| (distance(other), other)).min();
        if let Some((1 | 2, other)) = nearest {
            bail!(texts().similar_tenant(name, other));
        }
        show::note(&texts().new_tenant(name));
        Ok(())
    }
}

/// What it says, and `belljar tenants`.
pub(crate) fn texts() -> &'static ServiceTexts {
    &words::texts().service
}

pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::List(data) => {
            let Some(tenants) = open_existing(data).await? else {
                return Ok(ExitCode::SUCCESS);
            };
            let rows = tenants.keys().await?.into_iter().map(|key| {
                let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
                let state = match key.revoked {
                    Some(at) => texts().revoked(&table::time(at)),
                    None if key.is_valid() => texts().valid.to_owned(),
                    None => texts().expired.to_owned(),
                };
                let time = |at: Option<i64>| at.map_or_else(|| "-".to_owned(), table::time);
                [
                    key.prefix,
                    key.tenant.to_string(),
                    scopes.join(","),
                    table::time(key.created),
                    time(key.expires),
                    time(key.used),
                    state,
                ]
            });
            let texts = texts();
            let head = [
                texts.head_key,
                texts.head_tenant,
                texts.head_scopes,
                texts.head_created,
                texts.head_expires,
                texts.head_used,
                texts.head_state,
            ];
            table::print(&head, &[false; 7], rows)?;
        }
        KeysCommand::Create {
            tenant,
            scope,
            days,
            tenant_args,
            data,
        } => {
            let tenants = open(data).await?;
            if tenant.as_str() != TenantName::FIRST {
                tenant_args.check(&tenants, &tenant).await?;
            }
            let lifetime = days.map(|days| Duration::from_hours(24) * days);
            let key = tenants.create_key(&tenant, &scope, lifetime).await?;
            show::note(texts().key_once);
            writeln!(std::io::stdout(), "{}", key.text)?;
        }
        KeysCommand::Revoke { prefix, data } => {
            let revoked = match open_existing(data).await? {
                Some(tenants) => tenants.revoke(&prefix).await?,
                None => false,
            };
            if !revoked {
                bail!(texts().no_such_key(&prefix));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn open(args: DataArgs) -> anyhow::Result<Tenants> {
    match &args.database {
        Some(database) => Ok(Tenants::connect(database).await?),
        None => Ok(Tenants::open(&directory(args.data)?).await?),
    }
}

/// The same without making anything; says so where there is nothing.
pub(crate) async fn open_existing(args: DataArgs) -> anyhow::Result<Option<Tenants>> {
    if let Some(database) = &args.database {
        return Ok(Some(Tenants::connect(database).await?));
    }
    let directory = directory(args.data)?;
    let tenants = Tenants::open_existing(&directory).await?;
    if tenants.is_none() {
        show::note(&texts().no_data(&directory.display()));
    }
    Ok(tenants)
}
