//! `belljar tenants`: quotas, use and least isolation of the service's tenants, and the audit log.

use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::bail;
use belljar_sandbox::protocol::Walls;
use belljar_server::{Amounts, Quota, TenantName, parse_isolation};
use clap::Subcommand;

use crate::keys_command::{DataArgs, NewTenantArgs, open, open_existing, texts};
use crate::table;

/// The name of the least isolation among the quotas.
const LEAST_ISOLATION: &str = "least_isolation";

#[derive(Debug, Subcommand)]
pub(crate) enum TenantsCommand {
    /// List tenants, their quotas and least isolation
    List(DataArgs),
    /// Show quotas of a tenant, today's use, and its least isolation
    Show {
        /// Tenant
        name: TenantName,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Set quotas or the least isolation of a tenant; applied by a running service within 2 seconds
    #[command(after_help = "\
Quotas: sessions, runs, creates_per_second, requests_per_second, memory_bytes, disk_bytes; and per day \
(UTC): cpu_ms, output_bytes, egress_bytes, events, tokens, money_micros (millionths of the currency of the \
prices). docs/operations.md explains how they are counted.")]
    Set {
        /// Tenant, with or without keys
        name: TenantName,
        /// Quota and its amount, or `none` to remove it (repeatable)
        #[arg(long, value_name = "QUOTA=AMOUNT", required_unless_present = "least_isolation", value_parser = change)]
        quota: Vec<(Quota, Option<u64>)>,
        /// Least isolation of its sessions: `container`, `full` or `gvisor`; or `none` to remove it
        #[arg(long, value_name = "WALLS", value_parser = least_isolation)]
        least_isolation: Option<LeastIsolation>,
        #[command(flatten)]
        tenant_args: NewTenantArgs,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Show the audit log: keys, quotas, ended sessions, starts; newest first
    Audit {
        /// Maximum number of events
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        data: DataArgs,
    },
}

pub(crate) async fn run(command: TenantsCommand) -> anyhow::Result<ExitCode> {
    match command {
        TenantsCommand::List(data) => {
            let Some(tenants) = open_existing(data).await? else {
                return Ok(ExitCode::SUCCESS);
            };
            let quotas = tenants.quotas().await?;
            let least = tenants.least_isolation().await?;
            let rows = tenants.names().await?.into_iter().map(|name| {
                let quotas = quotas.get(&name).into_iter().flatten();
                let quotas = quotas.map(|(quota, amount)| format!("{quota}={amount}"));
                let least = least.get(&name).copied();
                let least = least.map(|walls| format!("{LEAST_ISOLATION}={}", walls.as_str()));
                let set: Vec<String> = quotas.chain(least).collect();
                [name.to_string(), set.join(" ")]
            });
            let head = [texts().head_tenant, texts().head_quotas];
            table::print(&head, &[false; 2], rows)?;
        }
        TenantsCommand::Show { name, data } => {
            let Some(tenants) = open_existing(data).await? else {
                bail!(texts().no_such_tenant(&name));
            };
            if !tenants.names().await?.contains(&name) {
                bail!(texts().no_such_tenant(&name));
            }
            let today = UNIX_EPOCH.elapsed()?.as_secs() / (24 * 60 * 60);
            let spent = tenants.spent(i64::try_from(today)?).await?;
            let quotas = tenants.quotas().await?;
            let amount = |all: Option<&Amounts>, quota| {
                let amount = all.and_then(|all| all.get(&quota));
                amount.map_or_else(|| "-".to_owned(), u64::to_string)
            };
            let rows = Quota::ALL.into_iter().map(|quota| {
                let limit = amount(quotas.get(&name), quota);
                let used = amount(spent.get(&name), quota);
                [quota.to_string(), limit, used]
            });
            let least = tenants.least_isolation().await?;
            let least = least.get(&name).map_or("-", |walls| walls.as_str());
            let rows = rows.chain([[LEAST_ISOLATION, least, "-"].map(str::to_owned)]);
            let texts = texts();
            let head = [texts.head_quota, texts.head_limit, texts.head_used_today];
            table::print(&head, &[false, true, true], rows)?;
        }
        TenantsCommand::Set {
            name,
            quota,
            least_isolation,
            tenant_args,
            data,
        } => {
            let changes = quota.into_iter().collect();
            let tenants = open(data).await?;
            tenant_args.check(&tenants, &name).await?;
            tenants.set_quotas(&name, &changes).await?;
            if let Some(LeastIsolation(least)) = least_isolation {
                tenants.set_least_isolation(&name, least).await?;
            }
        }
        TenantsCommand::Audit { limit, data } => {
            let Some(tenants) = open_existing(data).await? else {
                return Ok(ExitCode::SUCCESS);
            };
            let rows = tenants.audit(None, limit).await?.into_iter().map(|event| {
                let tenant = event.tenant.unwrap_or_else(|| "-".to_owned());
                let time = table::time(event.at);
                [time, event.actor, event.act, tenant, event.detail]
            });
            let texts = texts();
            let head = [
                texts.head_time,
                texts.head_actor,
                texts.head_action,
                texts.head_tenant,
                texts.head_detail,
            ];
            table::print(&head, &[false; 5], rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn change(text: &str) -> Result<(Quota, Option<u64>), String> {
    let (quota, amount) = text
        .split_once('=')
        .ok_or("expected QUOTA=AMOUNT or QUOTA=none")?;
    let amount = match amount {
        "none" => None,
        amount => {
            let amount = amount
                .parse()
                .ok()
                .filter(|amount| i64::try_from(*amount).is_ok());
            Some(amount.ok_or("the amount must be a whole number or `none`")?)
        }
    };
    Ok((quota.parse()?, amount))
}

/// What `--least-isolation` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastIsolation(Option<Walls>);

fn least_isolation(text: &str) -> Result<LeastIsolation, String> {
    match text {
        "none" => Ok(LeastIsolation(None)),
        name => parse_isolation(name).map(|walls| LeastIsolation(Some(walls))),
    }
}
