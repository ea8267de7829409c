//! `belljar serve`: sessions and runs over HTTP, for programs and teams.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_agent::{Policy, Provider};
use belljar_journal::{ObjectCredentials, Objects};
use belljar_sandbox::{Checkpoints, Network};
use belljar_server::{
    ClusterOptions, OfferedModel, RunsOptions, Server, ServerOptions, Tenants, Tls,
};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::log::LogFormat;
use crate::settings::{self, Origin, Settings};
use crate::start::SessionArgs;
use crate::{show, words};

#[derive(Debug, Args)]
#[command(after_help = "\
The first start creates an API key and prints it to standard output, once. `belljar keys` creates others. \
See docs/service.md.

Runs use the settings of `belljar config`: budget, approvals, addresses of providers.

On SIGTERM or Ctrl-C, the service accepts no new work, waits for running cells, hibernates its sessions and exits. \
Sessions and runs continue at the next start.

Exit code: 0, or 2 if the service cannot start.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct ServeArgs {
    /// Address to listen on. Use TLS, or loopback behind a TLS proxy: anyone who reaches it can try keys
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Demo mode: scripted model, no key, nothing kept without `--data`; loopback only
    #[arg(long, conflicts_with_all = ["host", "model"])]
    demo: bool,
    /// Address of the admin API, /healthz and /metrics; with TLS unless on loopback [default: none]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Serve the admin address without TLS beyond loopback
    #[arg(long, requires = "admin")]
    insecure_admin: bool,
    /// Data directory of the service: keys and id [default: server, next to the environments]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Object store for blobs and snapshots: `s3://BUCKET/PREFIX?endpoint=URL&region=REGION` [default: the data directory]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "demo")]
    objects: Option<String>,
    /// PostgreSQL database of a cluster that this node joins; needs `--objects` [default: a file in the data directory]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "demo")]
    database: Option<String>,
    /// Host and port of this node for other nodes [default: that of `--listen`]
    #[arg(long, value_name = "HOST:PORT", requires = "database")]
    node_address: Option<String>,
    /// Host name that clients use, such as a proxy's (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Domain below which ports of sessions are reached, `PORT-SESSION.DOMAIN` [default: no ports]
    #[arg(long, value_name = "DOMAIN")]
    ports_domain: Option<String>,
    /// TLS certificate chain (PEM), reloaded when it changes [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificate authority of the nodes (PEM), for mutual TLS between them [default: no mutual TLS]
    #[arg(long, value_name = "FILE", requires_all = ["tls_certificate", "database"])]
    node_ca: Option<PathBuf>,
    /// Maximum concurrent sessions
    #[arg(long, value_name = "N", default_value_t = count(ServerOptions::default().max_sessions), value_parser = clap::value_parser!(u32).range(1..))]
    max_sessions: u32,
    /// Maximum concurrent sessions per tenant
    #[arg(long, value_name = "N", default_value_t = count(ServerOptions::default().tenant_sessions), value_parser = clap::value_parser!(u32).range(1..))]
    tenant_sessions: u32,
    /// Model that runs may use (repeatable; the first is the default) [default: that of the settings]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Vec<String>,
    /// Maximum concurrent runs
    #[arg(long, value_name = "N", default_value_t = count(RunsOptions::default().max_runs), value_parser = clap::value_parser!(u32).range(1..))]
    max_runs: u32,
    /// Maximum concurrent runs per tenant
    #[arg(long, value_name = "N", default_value_t = count(RunsOptions::default().tenant_runs), value_parser = clap::value_parser!(u32).range(1..))]
    tenant_runs: u32,
    /// Answer programs written for E2B's SDKs, below `/e2b`
    #[arg(long)]
    e2b: bool,
    /// Domain with a wildcard name and certificate, for `E2B_DOMAIN` [default: none]
    #[arg(long, value_name = "DOMAIN", requires = "e2b")]
    e2b_domain: Option<String>,
    /// Answer programs written for OpenAI's API, below `/openai/v1`
    #[arg(long)]
    openai: bool,
    /// Answer clients of Jupyter's server API, below `/jupyter`
    #[arg(long)]
    jupyter: bool,
    /// Idle minutes before a session hibernates
    #[arg(long, value_name = "MINUTES", default_value_t = RunsOptions::default().patience.as_secs() / 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    idle: u64,
    /// Longest lease of a session, in hours
    #[arg(long, value_name = "HOURS", default_value_t = ServerOptions::default().max_lease.as_secs() / 3600, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    max_lease: u64,
    /// Shutdown grace period for running cells, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = ServerOptions::default().drain.as_secs())]
    drain: u64,
    #[command(flatten)]
    session: SessionArgs,
}

fn count(most: usize) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX)
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    if args.demo && !args.listen.ip().is_loopback() {
        bail!(
            "`--demo` cannot listen on {}: it needs no key, so it is for loopback only\nhint: leave out \
             `--listen`",
            args.listen.ip()
        );
    }
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut session = args.session.options()?;
    // A session survives crashes. Without walls, the engine makes no checkpoints.
    session.checkpoints = Checkpoints::Auto;
    session.hibernate_after = Some(Duration::from_secs(60 * args.idle));
    // What --allow lists is what sessions may ask for.
    session.network = Network::None;
    let tls = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            let tls = match &args.node_ca {
                Some(node_ca) => Tls::open_with_node_ca(certificate, key, node_ca),
                None => Tls::open(certificate, key),
            };
            Some(Arc::new(tls.context("cannot use the TLS certificate")?))
        }
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    if tls.is_none() && !args.listen.ip().is_loopback() {
        note(
            "[warning: without TLS, others can read keys, code and results on the network: give \
             `--tls-certificate` and `--tls-key`, or listen on loopback behind a TLS proxy]",
        );
    }
    let cluster = cluster(&args, scheme)?;
    let objects = args.objects.as_deref().map(open_objects).transpose()?;
    let options = ServerOptions {
        session,
        objects,
        cluster,
        tls,
        insecure_admin: args.insecure_admin,
        allow: args.session.allowed().to_vec(),
        hosts: args.host,
        ports_domain: args.ports_domain,
        max_sessions: args.max_sessions as usize,
        tenant_sessions: args.tenant_sessions as usize,
        drain: Duration::from_secs(args.drain),
        max_lease: Duration::from_secs(3600 * args.max_lease),
        e2b: args.e2b,
        e2b_domain: args.e2b_domain,
        openai: args.openai,
        jupyter: args.jupyter,
        runs: RunsOptions {
            max_runs: args.max_runs as usize,
            tenant_runs: args.tenant_runs as usize,
            patience: Duration::from_secs(60 * args.idle),
            ..if args.demo {
                RunsOptions::default()
            } else {
                runs(&args.model)?
            }
        },
        demo: args.demo,
        ..ServerOptions::default()
    };

    let mut admin_scheme = "http";
    if let Some(address) = args.admin {
        if options.admin_tls(address.ip())?.is_some() {
            admin_scheme = "https";
        } else if !address.ip().is_loopback() {
            note(
                "[warning: `--insecure-admin`: admin keys can be read on the network of the admin address]",
            );
        }
    }
    let listener = bind(args.listen).await?;
    let admin = match args.admin {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let mut fleeting = None;
    let data = match args.data {
        None if args.demo => {
            let made = tempfile::tempdir().context("creating a directory for the demo")?;
            fleeting.insert(made).path().to_owned()
        }
        given => directory(given)?,
    };
    let tenants = match &args.database {
        Some(database) => Tenants::connect(database).await?,
        None => Tenants::open(&data).await?,
    };
    let engines = tokio::select! {
        engines = args.session.engines() => engines?,
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
    };
    // Not before sessions can run: a start that fails would have made a key that nobody saw.
    if !args.demo
        && let Some(key) = tenants.first_key().await?
    {
        note("[API key of tenant `default`, not shown again:]");
        writeln!(std::io::stdout(), "{}", key.text)?;
    }
    let server = Server::new(engines, tenants, &data, options).await?;
    let word = if args.demo { "open" } else { "listening on" };
    note(&format!(
        "[{word} {scheme}://{}]",
        listener.local_addr().context("the listener")?
    ));
    if let Some(admin) = &admin {
        let address = admin.local_addr().context("the listener")?;
        note(&format!("[admin API at {admin_scheme}://{address}]"));
    }
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        note("[shutting down: no new work is accepted]");
    };
    server.serve(listener, admin, stop).await?;
    if let Some(fleeting) = fleeting {
        fleeting
            .close()
            .context("removing the directory of the demo")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster that this node is to join.
fn cluster(args: &ServeArgs, scheme: &str) -> anyhow::Result<Option<ClusterOptions>> {
    let Some(database) = &args.database else {
        return Ok(None);
    };
    if args.objects.is_none() {
        bail!(
            "`--database` has no `--objects`: other nodes need the blobs of a run to continue it\nhint: give each node the \
             same `--objects s3://BUCKET/PREFIX`"
        );
    }
    let address = match &args.node_address {
        Some(address) => address.clone(),
        None if args.listen.ip().is_unspecified() || args.listen.port() == 0 => bail!(
            "other nodes cannot reach this one at `{}`: it names no host or port\nhint: give `--node-address HOST:PORT`",
            args.listen
        ),
        None => args.listen.to_string(),
    };
    let address = format!("{scheme}://{address}");
    Ok(Some(ClusterOptions::new(database, address)))
}

/// The object store at an address, with the credentials of this process. It is asked when the service starts.
pub(crate) fn open_objects(address: &str) -> anyhow::Result<Objects> {
    let objects = Objects::open(address, ObjectCredentials::find()?)?;
    if objects.is_plain() {
        note(
            "[warning: without TLS, others can read blobs and snapshots on the network: give the object store an \
             `https://` endpoint]",
        );
    }
    Ok(objects)
}

/// What runs are given: these models, else that of the settings.
fn runs(models: &[String]) -> anyhow::Result<RunsOptions> {
    let settings = settings::load()?;
    let mut approvals = settings.approvals.clone();
    let policy = settings
        .rows
        .iter()
        .find(|row| row.name == "approvals.policy");
    if policy.is_none_or(|row| row.origin == Origin::Default) {
        // The default for a terminal is not meant for remote clients.
        approvals.policy = Policy::Never;
    }
    let models = match (models, &settings.model) {
        ([], None) => Vec::new(),
        ([], Some(model)) => match offered(&model.to_string()) {
            Ok(model) => vec![model],
            // It was not asked for here: sessions are served all the same.
            Err(error) => {
                show::note(&words::texts().session.no_runs(&format!("{error:#}")));
                Vec::new()
            }
        },
        (models, _) => {
            let models = models.iter().map(|model| offered(model));
            models.collect::<anyhow::Result<_>>()?
        }
    };
    Ok(RunsOptions {
        models,
        budget: settings.budget,
        approvals,
        language: settings.language,
        ..RunsOptions::default()
    })
}

fn offered(name: &str) -> anyhow::Result<OfferedModel> {
    let settings = Settings::for_model(name, None)?;
    let (model, profile) = settings.required_model()?;
    Ok(OfferedModel {
        name: model.to_string(),
        provider: Provider::new(profile, &model.model)?,
        dialect: settings.dialect,
        max_tokens: settings.max_tokens,
        temperature: settings.temperature,
        review: settings.review,
    })
}

/// For people; where a program reads the log, for it.
fn note(text: &str) {
    match LogFormat::of_environment() {
        Ok(LogFormat::Json) => tracing::info!("{}", text.trim_matches(['[', ']'])),
        _ => show::note(text),
    }
}

/// Where a service keeps its data.
pub(crate) fn directory(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(directory) => Ok(directory),
        None => Ok(crate::settings::load()?.data_dir.join("server")),
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("listening on {address}"))
}
