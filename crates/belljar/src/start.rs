//! What every command that runs sessions starts with.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_sandbox::{
    AllowList, Checkpoints, Engine, EngineBuilder, Environment, EnvironmentError, EnvironmentSpec,
    EnvironmentStore, Limits, Network, PackageStore, Packages, Requirement, Session,
    SessionOptions, requires,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::show;

/// Which Python, and how much of the host.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Environment to start from (see `belljar env`)
    #[arg(long, value_name = "NAME", default_value = EnvironmentSpec::DEFAULT_NAME, conflicts_with = "python")]
    env: String,
    /// Existing interpreter or virtual environment, used unchanged instead of `--env`
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Cell time limit in seconds; interrupted, then killed 2 seconds later
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Memory limit of the session, including processes and files, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(64..=1 << 20))]
    memory: u64,
    /// CPU limit of the session, such as 0.5
    #[arg(long, value_name = "N", default_value = "2", value_parser = cpus)]
    cpus: u64,
    /// Host that code may reach: `host`, `host:port` or `*.host` (repeatable) [default: no network]
    #[arg(long, value_name = "HOST")]
    allow: Vec<String>,
    /// Packages allowed in leading `# requires: NAME, …` lines: `deny`, `any` or `NAME,…`. Only
    /// wheels, only for this session
    #[arg(long, value_name = "POLICY", default_value = "deny", value_parser = packages)]
    packages: Packages,
    /// Isolation: `full`, or `none` for trusted code on unsupported hosts. `none` also disables memory
    /// and CPU limits
    #[arg(
        long,
        value_name = "WALLS",
        default_value = "full",
        hide_default_value = true
    )]
    walls: WallsChoice,
}

/// The walls by name: there is no other way to do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WallsChoice {
    Full,
    None,
}

impl SessionArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            wall_time: self.timeout,
            memory_bytes: self.memory << 20,
            milli_cpus: self.cpus,
            ..Limits::default()
        }
    }

    /// The entries of `--allow`.
    pub(crate) fn allowed(&self) -> &[String] {
        &self.allow
    }

    pub(crate) fn has_walls(&self) -> bool {
        self.walls == WallsChoice::Full
    }

    /// Session options without checkpoints, for a command that ends with its session.
    pub(crate) fn options(&self) -> anyhow::Result<SessionOptions> {
        let network = if self.allow.is_empty() {
            Network::None
        } else {
            let list = AllowList::parse(&self.allow).context("--allow")?;
            if self.walls == WallsChoice::None {
                bail!(
                    "`--allow` needs walls: with `--walls=none`, code has your network access\nhint: leave out \
                 `--allow`, or use `--walls=full`"
                );
            }
            Network::Allow(list)
        };
        Ok(SessionOptions {
            limits: self.limits(),
            network,
            checkpoints: Checkpoints::Off,
            packages: self.packages.clone(),
            ..SessionOptions::default()
        })
    }

    /// The same with a checkpoint after each cell, if there are walls.
    pub(crate) fn options_with_checkpoints(&self) -> anyhow::Result<SessionOptions> {
        let mut options = self.options()?;
        if self.has_walls() {
            options.checkpoints = Checkpoints::Every;
        }
        Ok(options)
    }

    /// The engine, warm.
    pub(crate) async fn engine(&self) -> anyhow::Result<Engine> {
        self.warm(self.environment()?).await
    }

    /// The engine for one piece of code: it imports ahead only what that code mentions.
    pub(crate) async fn engine_for(&self, code: &str) -> anyhow::Result<Engine> {
        let mentioned = |module: &str| {
            let package = module.split('.').next().unwrap_or(module);
            code.contains(package)
        };
        self.warm(self.environment()?.preload_only(mentioned)).await
    }

    /// An engine of this environment, warm. It takes about a second, which is shown.
    pub(crate) async fn warm(&self, environment: Environment) -> anyhow::Result<Engine> {
        let mut engine = self.builder(environment);
        if self.walls == WallsChoice::None {
            show::note("[--walls=none: code runs as you on this machine, without isolation]");
            engine = engine.without_walls();
        }
        if self.packages != Packages::Deny {
            // Beside the environments, also where the settings file says where these are.
            let data = crate::settings::load()?.data_dir;
            engine = engine.package_store(PackageStore::open(data));
        }
        let engine = engine.build();
        let starting = spinner("starting Python and importing its libraries");
        let warm = engine.warm().await;
        starting.finish_and_clear();
        warm?;
        Ok(engine)
    }

    /// An engine whose sessions keep no checkpoints by default.
    pub(crate) fn builder(&self, environment: Environment) -> EngineBuilder {
        Engine::builder(environment)
            .limits(self.limits())
            .packages(self.packages.clone())
            .checkpoints(Checkpoints::Off)
    }

    /// The environment; `default` is built if it is not there yet.
    pub(crate) fn environment(&self) -> anyhow::Result<Environment> {
        if let Some(python) = &self.python {
            return Ok(Environment::from_python(python)?);
        }
        let store = store()?;
        match store.load(&self.env) {
            Err(EnvironmentError::NotFound { .. }) if self.env == EnvironmentSpec::DEFAULT_NAME => {
                crate::env_command::build(&EnvironmentSpec::default_environment(), &store)
            }
            result => Ok(result?),
        }
    }
}

/// Installs the packages of `# requires:`.
pub(crate) async fn install_required(
    session: &Session,
    code: &str,
) -> Result<(), belljar_sandbox::Error> {
    let required = requires(code)?;
    if required.is_empty() {
        return Ok(());
    }
    let installing = spinner("installing packages");
    let installed = session.install(&required).await;
    installing.finish_and_clear();
    let installed = installed?;
    if !installed.is_empty() {
        let packages: Vec<String> = installed
            .iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        show::note(&format!("[installed {}]", packages.join(", ")));
    }
    Ok(())
}

pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    // Draws on standard error, and nothing where that is not a terminal.
    let spinner = ProgressBar::new_spinner().with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected a number of seconds above 0, at most 86400 (one day)".into())
    }
}

fn packages(text: &str) -> Result<Packages, String> {
    match text {
        "deny" => Ok(Packages::Deny),
        "any" => Ok(Packages::Any),
        _ => {
            let list = Requirement::list(text).map_err(|error| error.to_string())?;
            Ok(Packages::allow(list.iter().map(Requirement::name)))
        }
    }
}

/// Thousandths of a CPU.
fn cpus(text: &str) -> Result<u64, String> {
    let milli = seconds(text).map(|time| time.as_millis());
    match milli.map(u64::try_from) {
        // Less than a hundredth is less than the kernel can give out.
        Ok(Ok(milli @ 10..=1_024_000)) => Ok(milli),
        _ => Err("expected a number of CPUs from 0.01 to 1024".into()),
    }
}

/// Where named environments are kept.
pub(crate) fn store() -> anyhow::Result<EnvironmentStore> {
    Ok(EnvironmentStore::open(crate::settings::load()?.data_dir))
}

/// Runs a command's task.
pub(crate) fn block_on(
    task: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(task)
}
