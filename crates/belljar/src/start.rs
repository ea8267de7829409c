//! What every command that runs sessions starts with.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_sandbox::protocol::SetBy;
use belljar_sandbox::{
    AllowList, Checkpoints, ContainerSpec, Engine, EngineBuilder, Environment, EnvironmentError,
    EnvironmentSpec, EnvironmentStore, HostDirectory, Limits, Network, PackageStore, Packages,
    Requirement, Session, SessionOptions, requires,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{show, words};

/// Defaults of `--memory` and `--cpus`, as text.
static MEMORY: LazyLock<String> =
    LazyLock::new(|| format!("{}M", Limits::default().memory_bytes >> 20));
static CPUS: LazyLock<String> = LazyLock::new(|| {
    Duration::from_millis(Limits::default().milli_cpus)
        .as_secs_f64()
        .to_string()
});

/// Which Python, and how much of the host.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Environment to start from (see `belljar env`); repeatable for `serve` and `mcp`, default first
    #[arg(long, value_name = "NAME", default_value = EnvironmentSpec::DEFAULT_NAME, conflicts_with = "python")]
    env: Vec<String>,
    /// Existing interpreter or virtual environment, used unchanged instead of `--env`
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Container image with Python 3.10 or later: each session is a container of it. `--python` is then a path in it
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["env", "walls"])]
    image: Option<String>,
    /// Docker or Podman, for `--image`; a `tcp://` address needs the certificates of `DOCKER_CERT_PATH` [default:
    /// `DOCKER_HOST`, or the local Docker]
    #[arg(long, value_name = "ADDRESS", requires = "image")]
    docker: Option<String>,
    /// Runtime of the containers, such as `runsc`, for `--image` [default: the engine's]
    #[arg(long, value_name = "NAME", requires = "image")]
    runtime: Option<String>,
    #[arg(long, help = format!("Cell time limit in seconds; interrupted, then killed {} seconds later [default: {}]", Limits::default().grace.as_secs(), Limits::default().wall_time.as_secs_f64()), value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Memory limit of the session, including processes and files, such as 512M or 2G
    #[arg(long, value_name = "SIZE", default_value = MEMORY.as_str(), value_parser = memory)]
    memory: u64,
    /// CPU limit of the session, such as 0.5
    #[arg(long, value_name = "N", default_value = CPUS.as_str(), value_parser = cpus)]
    cpus: u64,
    /// Processes and threads of the session
    #[arg(long, value_name = "N", default_value_t = Limits::default().processes, value_parser = clap::value_parser!(u64).range(8..=100_000))]
    processes: u64,
    /// Maximum size of /workspace, such as 500M [default: 1G, or half of the memory if that is more]
    #[arg(long, value_name = "SIZE", value_parser = disk)]
    disk: Option<u64>,
    /// Host that code may reach: `host`, `host:port` or `*.host` (repeatable) [default: no network]
    #[arg(long, value_name = "HOST")]
    allow: Vec<String>,
    /// Packages allowed in leading `# requires: NAME, …` lines: `deny`, `any` or `NAME,…`. Only
    /// wheels, only for this session
    #[arg(long, value_name = "POLICY", default_value = "deny", value_parser = packages)]
    packages: PackageChoice,
    /// Directory of the host to show in `/data/NAME`, read-only or with `:rw` (repeatable)
    #[arg(long, value_name = "DIR[:NAME][:rw]", value_parser = mount)]
    mount: Vec<HostDirectory>,
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

/// What `--packages` says.
#[derive(Clone, Debug)]
struct PackageChoice {
    policy: Packages,
    named: Vec<Requirement>,
}

/// The walls by name: there is no other way to do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WallsChoice {
    Full,
    None,
}

impl SessionArgs {
    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits::default();
        // Files are in memory: who gives more of it means those, too.
        let files = self
            .disk
            .unwrap_or(limits.workspace_bytes.max(self.memory / 2));
        Limits {
            wall_time: self.timeout.unwrap_or(limits.wall_time),
            memory_bytes: self.memory,
            milli_cpus: self.cpus,
            processes: self.processes,
            workspace_bytes: files,
            file_bytes: limits.file_bytes.max(files),
            ..limits
        }
    }

    /// The time limit that was given.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The packages that `--packages` names.
    pub(crate) fn named_packages(&self) -> anyhow::Result<&[Requirement]> {
        if self.packages.policy == Packages::Any {
            bail!(words::texts().session.packages_unnamed);
        }
        Ok(&self.packages.named)
    }

    /// The entries of `--allow`.
    pub(crate) fn allowed(&self) -> &[String] {
        &self.allow
    }

    /// Shows one more directory of the host.
    pub(crate) fn add_mount(&mut self, directory: HostDirectory) {
        self.mount.push(directory);
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
                bail!(words::texts().session.allow_needs_walls);
            }
            Network::Allow(list)
        };
        Ok(SessionOptions {
            limits: self.limits(),
            network,
            checkpoints: Checkpoints::Off,
            packages: self.packages.policy.clone(),
            mounts: self
                .mount
                .iter()
                .map(|mount| mount.name().to_owned())
                .collect(),
            set_by: SetBy::Command,
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
        self.warm(self.environment().await?).await
    }

    /// The engine for one piece of code: it imports ahead only what that code mentions.
    pub(crate) async fn engine_for(&self, code: &str) -> anyhow::Result<Engine> {
        let mentioned = |module: &str| {
            let package = module.split('.').next().unwrap_or(module);
            code.contains(package)
        };
        let environment = self.environment().await?.preload_only(mentioned);
        self.warm(environment).await
    }

    /// An engine of this environment, warm. It takes about a second, which is shown.
    pub(crate) async fn warm(&self, environment: Environment) -> anyhow::Result<Engine> {
        let engine = self.cold(environment)?;
        let starting = spinner(words::texts().session.starting);
        let warm = engine.warm().await;
        starting.finish_and_clear();
        warm?;
        Ok(engine)
    }

    /// An engine of this environment, which the first session warms.
    pub(crate) fn cold(&self, environment: Environment) -> anyhow::Result<Engine> {
        let mut engine = self.builder(environment);
        if self.walls == WallsChoice::None {
            show::note(words::texts().session.no_walls);
            engine = engine.without_walls();
        }
        if self.packages.policy != Packages::Deny {
            // Beside the environments, also where the settings file says where these are.
            let data = crate::settings::load()?.data_dir;
            engine = engine.package_store(PackageStore::open(data));
        }
        Ok(engine.build())
    }

    /// An engine whose sessions keep no checkpoints by default.
    pub(crate) fn builder(&self, environment: Environment) -> EngineBuilder {
        let engine = Engine::builder(environment);
        let engine = self
            .mount
            .iter()
            .cloned()
            .fold(engine, EngineBuilder::mount);
        engine
            .limits(self.limits())
            .packages(self.packages.policy.clone())
            .checkpoints(Checkpoints::Off)
    }

    /// The environment of a command with one session; `default` is built if it is not there yet.
    pub(crate) async fn environment(&self) -> anyhow::Result<Environment> {
        if let Some(image) = &self.image {
            return self.image(image).await;
        }
        match (&self.python, self.env.as_slice()) {
            (Some(python), _) => Ok(Environment::from_python(python)?),
            (None, [name]) => load(name),
            (None, names) => bail!(
                "`--env` was given {} times: this command has one environment\nhint: `belljar serve` and `belljar \
                 mcp` offer several",
                names.len()
            ),
        }
    }

    /// The environment of an image, as a container of it describes itself.
    async fn image(&self, image: &str) -> anyhow::Result<Environment> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let container = ContainerSpec {
            address: self.docker.clone().or_else(|| set("DOCKER_HOST")),
            certificates: set("DOCKER_CERT_PATH").map(PathBuf::from),
            runtime: self.runtime.clone(),
        };
        let python = self.python.as_ref().map(|path| path.display().to_string());
        let looking = spinner(words::texts().session.starting);
        let environment = Environment::from_image(&container, image, python.as_deref()).await;
        looking.finish_and_clear();
        Ok(environment?)
    }

    /// Engines of all environments of a service, warm, the default first.
    pub(crate) async fn engines(&self) -> anyhow::Result<Vec<Engine>> {
        let mut environments = Vec::new();
        if self.python.is_some() || self.image.is_some() {
            environments.push(self.environment().await?);
        } else {
            for (place, name) in self.env.iter().enumerate() {
                if self.env[..place].contains(name) {
                    bail!("`--env {name}` was given twice\nhint: list each environment once");
                }
                environments.push(load(name)?);
            }
        }
        let mut engines = Vec::new();
        for environment in environments {
            engines.push(self.warm(environment).await?);
        }
        Ok(engines)
    }
}

/// An environment by name; `default` is built if it is not there yet.
fn load(name: &str) -> anyhow::Result<Environment> {
    let store = store()?;
    match store.load(name) {
        Err(EnvironmentError::NotFound { .. }) if name == EnvironmentSpec::DEFAULT_NAME => {
            crate::env_command::build(&EnvironmentSpec::default_environment(), &store)
        }
        result => Ok(result?),
    }
}

/// Installs the packages of `# requires:`.
pub(crate) async fn install_required(
    session: &Session,
    code: &str,
) -> Result<(), belljar_sandbox::Error> {
    install(session, &requires(code)?).await
}

/// Installs packages, and shows which ones were added.
pub(crate) async fn install(
    session: &Session,
    required: &[Requirement],
) -> Result<(), belljar_sandbox::Error> {
    if required.is_empty() {
        return Ok(());
    }
    let installing = spinner(words::texts().session.installing);
    let installed = session.install(required).await;
    installing.finish_and_clear();
    let installed = installed?;
    if !installed.is_empty() {
        let packages: Vec<String> = installed
            .iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        show::note(&words::texts().session.installed(&packages.join(", ")));
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

fn packages(text: &str) -> Result<PackageChoice, String> {
    let named = match text {
        "deny" | "any" => Vec::new(),
        _ => Requirement::list(text).map_err(|error| error.to_string())?,
    };
    let policy = match text {
        "deny" => Packages::Deny,
        "any" => Packages::Any,
        _ => Packages::allow(named.iter().map(Requirement::name)),
    };
    Ok(PackageChoice { policy, named })
}

/// A directory of the host, with its name in sessions: its own, unless another is given.
fn mount(text: &str) -> Result<HostDirectory, String> {
    let (text, writable) = match text.strip_suffix(":rw") {
        Some(text) => (text, true),
        None => (text.strip_suffix(":ro").unwrap_or(text), false),
    };
    let (path, name) = match text.rsplit_once(':') {
        Some((path, name)) => (PathBuf::from(path), Some(name.to_owned())),
        None => (PathBuf::from(text), None),
    };
    let name = name.unwrap_or_else(|| {
        // That of `.` is known only in full.
        let full = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = full.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let directory = HostDirectory::new(name, &path).map_err(|error| error.to_string())?;
    Ok(if writable {
        directory.writable()
    } else {
        directory
    })
}

fn memory(text: &str) -> Result<u64, String> {
    size(text, 64)
}

fn disk(text: &str) -> Result<u64, String> {
    size(text, 1)
}

/// Bytes, at least this many MiB; a number without a unit is in MiB.
fn size(text: &str, least: u32) -> Result<u64, String> {
    let wrong = || format!("expected a size from {least}M to 1T, such as 512M or 2G");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.to_ascii_lowercase();
    let unit = unit
        .strip_suffix("ib")
        .or_else(|| unit.strip_suffix('b'))
        .unwrap_or(&unit);
    let mebibytes: u32 = match unit {
        "" | "m" => 1,
        "g" => 1 << 10,
        "t" => 1 << 20,
        _ => return Err(wrong()),
    };
    let size = number.parse::<f64>().map_err(|_| wrong())? * f64::from(mebibytes);
    if !(f64::from(least)..=f64::from(1 << 20)).contains(&size) {
        return Err(wrong());
    }
    // A whole number of MiB, as the kernel's pages are smaller.
    Ok(Duration::from_secs_f64(size).as_secs() << 20)
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

#[cfg(test)]
mod tests {
    use super::memory;

    #[test]
    fn sizes_have_units() {
        for (text, mebibytes) in [
            ("64", 64),
            ("2048", 2048),
            ("512M", 512),
            ("512MiB", 512),
            ("2G", 2048),
            ("2g", 2048),
            ("2GB", 2048),
            ("1.5GiB", 1536),
            ("1T", 1 << 20),
        ] {
            assert_eq!(memory(text), Ok(mebibytes << 20), "{text}");
        }
        for text in [
            "", "G", "63", "2K", "1.1T", "-1G", "2 G", "1e3", "nan", "2GG",
        ] {
            assert!(memory(text).is_err(), "{text}");
        }
    }
}
