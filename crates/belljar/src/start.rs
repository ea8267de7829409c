//! What every command that runs sessions starts with.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_sandbox::protocol::SetBy;
use belljar_sandbox::{
    AllowList, Checkpoints, Engine, EngineBuilder, EngineSet, Environment, EnvironmentError,
    EnvironmentSpec, EnvironmentStore, HostDirectory, Limits, Network, PackageStore, Packages,
    Requirement, Session, SessionOptions, requires,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::container_args::ContainerArgs;
use crate::start_values::{PackageChoice, cpus, disk, memory, mount, packages, seconds};
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
    #[command(flatten)]
    container: ContainerArgs,
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
    /// Isolation: `full`; `gvisor`, a kernel for each session (needs `runsc`); or `none` for trusted code on
    /// unsupported hosts. `none` also disables memory and CPU limits. A list for `serve` and `mcp`, default first
    /// [default: full]
    #[arg(long, value_name = "WALLS", value_delimiter = ',')]
    walls: Vec<WallsChoice>,
}

/// The walls by name: there is no other way to do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WallsChoice {
    Full,
    Gvisor,
    None,
}

/// What isolates sessions in the place of Belljar's own walls.
pub(crate) enum IsolationTool<'a> {
    Containers {
        image: &'a str,
        address: Option<&'a str>,
        runtime: Option<&'a str>,
    },
    Gvisor,
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
        !self.walls.contains(&WallsChoice::None)
    }

    /// The walls of environments of this host.
    fn walls(&self) -> &[WallsChoice] {
        match self.walls.as_slice() {
            [] => &[WallsChoice::Full],
            given => given,
        }
    }

    /// Refuses walls that were given for an image: it would have others.
    fn check_walls_of(&self, image: &Environment) -> anyhow::Result<()> {
        if !self.walls.is_empty() {
            bail!(
                "environment `{}` is a container image: its isolation is `container`\nhint: leave out `--walls`",
                image.name()
            );
        }
        Ok(())
    }

    /// Session options without checkpoints, for a command that ends with its session.
    pub(crate) fn options(&self) -> anyhow::Result<SessionOptions> {
        let network = if self.allow.is_empty() {
            Network::None
        } else {
            let list = AllowList::parse(&self.allow).context("--allow")?;
            if !self.has_walls() {
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

    /// The same with a checkpoint after each cell, if there are walls and checkpoints are cheap.
    pub(crate) fn options_with_checkpoints(&self) -> anyhow::Result<SessionOptions> {
        let mut options = self.options()?;
        if self.walls().contains(&WallsChoice::Full) {
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
        self.warm_up(self.cold(environment)?).await
    }

    async fn warm_up(&self, engine: Engine) -> anyhow::Result<Engine> {
        let starting = spinner(words::texts().session.starting);
        let warm = engine.warm().await;
        starting.finish_and_clear();
        warm?;
        Ok(engine)
    }

    /// An engine of this environment, which the first session warms.
    pub(crate) fn cold(&self, environment: Environment) -> anyhow::Result<Engine> {
        self.build_one(self.builder(environment))
    }

    /// An engine of the one isolation that was given.
    pub(crate) fn build_one(&self, engine: EngineBuilder) -> anyhow::Result<Engine> {
        let [walls] = *self.walls() else {
            bail!(
                "`--walls` has {} values: this command has one isolation\nhint: `belljar serve` and `belljar mcp` \
                 offer several",
                self.walls.len()
            );
        };
        self.build(engine, walls)
    }

    /// The tool that isolates sessions of this environment, if it is not Belljar itself.
    pub(crate) fn tool<'a>(&self, environment: &'a Environment) -> Option<IsolationTool<'a>> {
        match (environment.image(), self.walls()) {
            (Some(image), _) => Some(IsolationTool::Containers {
                image: &image.name,
                address: image.container.address.as_deref(),
                runtime: image.container.runtime.as_deref(),
            }),
            (None, [WallsChoice::Gvisor]) => Some(IsolationTool::Gvisor),
            _ => None,
        }
    }

    fn build(&self, mut engine: EngineBuilder, walls: WallsChoice) -> anyhow::Result<Engine> {
        match walls {
            WallsChoice::Full => {}
            WallsChoice::Gvisor => engine = engine.gvisor(),
            WallsChoice::None => {
                show::note(words::texts().session.no_walls);
                engine = engine.without_walls();
            }
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
            (None, [name]) => {
                let environment = load(name)?;
                if environment.image().is_some() {
                    self.check_walls_of(&environment)?;
                }
                Ok(environment)
            }
            (None, names) => bail!(
                "`--env` was given {} times: this command has one environment\nhint: `belljar serve` and `belljar \
                 mcp` offer several",
                names.len()
            ),
        }
    }

    /// The environment of an image, as a container of it describes itself.
    async fn image(&self, image: &str) -> anyhow::Result<Environment> {
        look_at_image(&self.container, image, self.python.as_deref()).await
    }

    /// Engines of all environments of a service, warm; the default first. Those of this host have all of the walls.
    pub(crate) async fn engines(&self) -> anyhow::Result<EngineSet> {
        for (place, walls) in self.walls.iter().enumerate() {
            if self.walls[..place].contains(walls) {
                bail!("`--walls` has a value twice\nhint: list each isolation once");
            }
        }
        if self.walls.len() > 1 && !self.has_walls() {
            bail!(
                "`--walls none` cannot be offered with others\nhint: leave out `none`: a client could choose it"
            );
        }
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
        let images = environments.iter().filter(|one| one.image().is_some());
        if let Some(image) = images.clone().next()
            && (images.count() == environments.len() || !self.has_walls())
        {
            self.check_walls_of(image)?;
        }
        let mut engines = Vec::new();
        for environment in environments {
            let walls = match environment.image() {
                // It has one isolation, that of its container engine.
                Some(_) => &[WallsChoice::Full],
                None => self.walls(),
            };
            for walls in walls {
                let engine = self
                    .builder(environment.clone())
                    .prepared_sandboxes(PREPARED_SANDBOXES);
                engines.push(self.warm_up(self.build(engine, *walls)?).await?);
            }
        }
        let mut engines = engines.into_iter();
        let first = engines.next().context("no environment was given")?;
        Ok(EngineSet::new(first, engines))
    }
}

/// Sandboxes that an engine for many sessions keeps ready.
const PREPARED_SANDBOXES: usize = 2;

/// The environment of an image, by its interpreter in it or `python3`, as a container of it describes itself.
pub(crate) async fn look_at_image(
    container: &ContainerArgs,
    image: &str,
    python: Option<&Path>,
) -> anyhow::Result<Environment> {
    let python = python.map(|path| path.display().to_string());
    let looking = spinner(words::texts().session.starting);
    let found = Environment::from_image(&container.spec(), image, python.as_deref()).await;
    looking.finish_and_clear();
    Ok(found?)
}

/// An environment by name; `default` is built if it is not there yet.
pub(crate) fn load(name: &str) -> anyhow::Result<Environment> {
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

/// Where named environments are kept.
pub(crate) fn store() -> anyhow::Result<EnvironmentStore> {
    Ok(EnvironmentStore::open(crate::settings::load()?.data_dir))
}

/// Runs a command's task.
pub(crate) fn block_on<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(task)
}
