//! Sessions in containers: one container each, made by Docker or Podman, with a steward of ours as its process 1. A
//! sandbox of gVisor is one, too, which we start ourselves.
//!
//! A container is never used twice. Its life hangs on one stream: at the end of it the steward ends, and everything in
//! the container with it, whoever is gone.

pub(crate) mod api;
mod attest;
mod bundle;
mod create;
mod enclosure;
mod engine;
pub(crate) mod error;
pub(crate) mod files;
mod gvisor;
mod image;
mod relay;
mod start;
pub(crate) mod steward;
mod stream;
mod thread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use belljar_protocol::{FromSteward, StewardLimits, ToSteward, Walls};

use self::api::{EngineApi, LOCAL};
use self::enclosure::Enclosure;
use self::engine::ContainerEngine;
use self::error::ContainerError;
use self::gvisor::Runsc;
use self::image::ImagePlan;
use self::start::{ContainerRequest, START_TIME, StartedContainer, Starter, start_container};
use self::steward::Steward;
use crate::backend::directory::EngineDirectory;
use crate::backend::pipes::Pipes;
use crate::backend::process::process_limits;
use crate::capabilities::{Capabilities, Capability};
use crate::environment::{ContainerSpec, DEFAULT_PRELOAD, Environment, Image};
use crate::error::Error;
use crate::limits::Limits;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::network::Network;

/// How long what is left of a container that could not be used may take to be removed.
const SWEEP_TIME: Duration = Duration::from_secs(5);

/// The first user id of sessions, and how many there are: none that a user of the engine's host has.
const FIRST_USER: u32 = 1 << 30;
const USERS: u32 = 1 << 29;

/// The containers of one engine.
#[derive(Debug)]
pub(crate) struct ContainerBackend {
    environment: Environment,
    starter: Starter,
    down: AtomicBool,
    next_id: AtomicU64,
    directory: EngineDirectory,
}

/// A session that was just started in a container.
pub(crate) struct ContainerSession {
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) pipes: Pipes,
    pub(crate) steward: Arc<Steward>,
}

impl ContainerBackend {
    /// Connects to the engine of an environment that is an image, and checks that it can limit containers.
    pub(crate) async fn start(environment: Environment) -> Result<Arc<Self>, Error> {
        let Some(Image { container, .. }) = environment.image() else {
            return Err(ContainerError::Image("there is none".to_owned()).into());
        };
        let engine = connect(container).await?;
        let mut directory = plan_directory()?;
        directory
            .create()
            .map_err(Error::io("the engine's directory"))?;
        engine.remove_orphans(&directory).await;
        Ok(Self::new(environment, Starter::Engine(engine), directory))
    }

    /// Prepares sandboxes of gVisor for an environment of this host.
    pub(crate) async fn start_gvisor(environment: Environment) -> Result<Arc<Self>, Error> {
        if environment.image().is_some() {
            return Err(ContainerError::Image("gVisor runs an environment of this host; for an image, name `runsc` as the runtime of its container engine".to_owned()).into());
        }
        let prepared = tokio::task::spawn_blocking(move || {
            let mut directory = plan_directory()?;
            let runsc = Runsc::prepare(&environment, &mut directory)?;
            let starter = Starter::Gvisor(Arc::new(runsc));
            Ok(Self::new(environment, starter, directory))
        });
        prepared.await.map_err(Error::session)?
    }

    fn new(environment: Environment, starter: Starter, directory: EngineDirectory) -> Arc<Self> {
        Arc::new(Self {
            environment,
            starter,
            down: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            directory,
        })
    }

    pub(crate) fn walls(&self) -> Walls {
        match self.starter {
            Starter::Engine(_) => Walls::Container,
            Starter::Gvisor(_) => Walls::Gvisor,
        }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn directory(&self) -> &EngineDirectory {
        &self.directory
    }

    pub(crate) fn next_session_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Ends all containers, and waits until they are gone.
    pub(crate) async fn stop(&self) {
        self.down.store(true, Ordering::Release);
        match &self.starter {
            Starter::Engine(engine) => {
                if let Err(error) = engine.sweep(self.directory.name()).await {
                    tracing::warn!(%error, "containers could not be removed; they end by themselves");
                }
            }
            Starter::Gvisor(runsc) => {
                let runsc = Arc::clone(runsc);
                let _ = tokio::task::spawn_blocking(move || runsc.stop()).await;
            }
        }
    }

    /// Starts a session in a container of its own.
    pub(crate) async fn start_session(
        &self,
        capabilities: Capabilities,
        options: &SessionOptions,
    ) -> Result<ContainerSession, Error> {
        if options.network != Network::None {
            capabilities.require(Capability::AllowLists)?;
        }
        if !options.mounts.is_empty() {
            capabilities.require(Capability::Directories)?;
        }
        let plan = match &self.starter {
            Starter::Engine(_) => ImagePlan::None,
            Starter::Gvisor(runsc) => runsc
                .images
                .plan(options.tenant.as_deref(), &options.limits),
        };
        let started = self.start_one(options, &plan).await;
        match (started, &self.starter) {
            (Err(error), Starter::Gvisor(runsc)) if !matches!(plan, ImagePlan::None) => {
                tracing::warn!(%error, "sessions of this tenant are no longer restored from an image: one could not be");
                runsc.images.give_up(options.tenant.as_deref());
                self.start_one(options, &ImagePlan::None).await
            }
            (started, _) => started,
        }
    }

    async fn start_one(
        &self,
        options: &SessionOptions,
        plan: &ImagePlan,
    ) -> Result<ContainerSession, Error> {
        let id = self.next_session_id();
        let restored = match plan {
            ImagePlan::Restore(image) => Some(image),
            ImagePlan::None | ImagePlan::Make(_) => None,
        };
        let mut pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let request = ContainerRequest {
            image: self.environment.image().cloned(),
            python: self.environment.python().display().to_string(),
            engine_name: self.directory.name().to_owned(),
            session: id,
            tenant: options.tenant.clone(),
            limits: options.limits.clone(),
            restores: restored.map(|image| image.path().to_owned()),
            modules: None,
        };
        let theirs = std::mem::take(&mut pipes.theirs);
        let started = start_container(&self.starter, request, theirs).await?;
        let data_bytes = match restored {
            Some(image) => image.data_bytes,
            None => self.import(&started).await?,
        };
        if let ImagePlan::Make(maker) = plan {
            let (steward, to) = (Arc::clone(&started.steward), maker.path().to_owned());
            let save = move || match steward.enclosure() {
                Enclosure::Gvisor(sandbox) => sandbox.save(&to),
                Enclosure::Container { .. } => Ok(()),
            };
            let saved = tokio::task::spawn_blocking(save).await;
            saved.map_err(Error::session)??;
            maker.finish(data_bytes);
        }
        let pid = self
            .start_interpreter(&started, options, data_bytes)
            .await?;
        // What the imports used is not the first cell's.
        let steward = Arc::clone(&started.steward);
        let _ = tokio::task::spawn_blocking(move || steward.in_use()).await;
        Ok(ContainerSession {
            id,
            pid,
            pipes,
            steward: started.steward,
        })
    }

    /// Imports the preload list; returns the memory of the interpreter.
    async fn import(&self, container: &StartedContainer) -> Result<u64, Error> {
        let mut preload = self.environment.preload().to_vec();
        loop {
            let fonts = self.environment.fonts();
            let (data_bytes, failed) = container.warm(&preload, fonts).await?;
            let Some((module, why)) = failed.iter().next() else {
                return Ok(data_bytes);
            };
            if !self.environment.preload_is_usual() {
                return Err(Error::Template {
                    environment: self.environment.name().to_owned(),
                    why: format!("`{module}` of its preload list cannot be imported: {why}"),
                });
            }
            tracing::warn!(module, %why, "a module that is usually preloaded cannot be imported; the session starts without it");
            preload.retain(|module| !failed.contains_key(module));
        }
    }

    async fn start_interpreter(
        &self,
        container: &StartedContainer,
        options: &SessionOptions,
        data_bytes: u64,
    ) -> Result<i32, Error> {
        let limits = process_limits(&options.limits, data_bytes);
        let checkpoints = match options.checkpoints {
            Checkpoints::Off => "off",
            Checkpoints::Auto => "auto",
            Checkpoints::Every => "every",
        };
        let is_gvisor = matches!(self.starter, Starter::Gvisor(_));
        let is_plain = self
            .environment
            .image()
            .is_some_and(|image| image.container.runtime.is_none());
        let user = FIRST_USER + random() % USERS;
        let threads = options.limits.threads().to_string();
        let start = ToSteward::Start {
            uid: user,
            gid: user,
            limits: StewardLimits {
                core: Some(limits.core),
                signals: is_plain.then_some(limits.signals),
                open_files: Some(limits.open_files),
                file_size: Some(limits.file_size),
                // None of it is shared with a template: all of it counts.
                data: Some(limits.data.saturating_sub(data_bytes)),
                // The kernel counts those of a user in all containers; the container has the exact limit. A sandbox has a
                // kernel of its own, whose processes are not the host's.
                processes: is_gvisor.then_some(options.limits.processes),
                growth: is_gvisor.then_some(options.limits.memory_bytes),
            },
            checkpoints,
            filters: true,
            variables: BTreeMap::from([("HOME", "/workspace"), ("OPENBLAS_NUM_THREADS", &threads)]),
        };
        match container.step(&start, START_TIME).await? {
            FromSteward::Started { pid } if pid > 1 => Ok(pid),
            _ => Err(container.failed("its answer was another").into()),
        }
    }
}

async fn connect(spec: &ContainerSpec) -> Result<Arc<ContainerEngine>, Error> {
    let address = spec.address.as_deref().unwrap_or(LOCAL);
    let api = EngineApi::connect(address, spec.certificates.as_deref()).await?;
    let information = api.information().await?;
    let kernel = information["KernelVersion"].as_str().unwrap_or_default();
    let engine = ContainerEngine::new(api, kernel.to_owned());
    let engine = engine.map_err(Error::io("a thread for containers"))?;
    let mut missing = Vec::new();
    for (field, what) in [
        ("MemoryLimit", "memory"),
        ("PidsLimit", "processes"),
        ("CpuCfsQuota", "CPU time"),
    ] {
        if information[field].as_bool() == Some(false) {
            missing.push(format!("it cannot limit {what}"));
        }
    }
    if let Some(runtime) = &spec.runtime
        && information["Runtimes"].get(runtime).is_none()
    {
        missing.push(format!("it has no runtime `{runtime}`"));
    }
    if !missing.is_empty() {
        return Err(ContainerError::Walls(missing).into());
    }
    Ok(Arc::new(engine))
}

fn plan_directory() -> Result<EngineDirectory, Error> {
    EngineDirectory::plan().map_err(Error::io("the engine's directory"))
}

impl Environment {
    /// Describes the Python of a container image that the container engine has: `python`, or the one that is found as
    /// `python3`. A container of it is started to look. The preload list is the default one, as far as the modules are
    /// installed. Sessions start from the image that has this name now, also if another gets the name later.
    ///
    /// # Errors
    /// [`Error::Container`] if the engine, the image or its Python can't be used.
    pub async fn from_image(
        spec: &ContainerSpec,
        image: &str,
        python: Option<&str>,
    ) -> Result<Self, Error> {
        let engine = connect(spec).await?;
        let mut directory = plan_directory()?;
        directory
            .create()
            .map_err(Error::io("the engine's directory"))?;
        let mut image = Image {
            name: image.to_owned(),
            digest: None,
            container: spec.clone(),
        };
        let request = ContainerRequest {
            image: Some(image.clone()),
            python: python.unwrap_or("python3").to_owned(),
            engine_name: directory.name().to_owned(),
            session: 0,
            tenant: None,
            limits: Limits::default(),
            restores: None,
            modules: Some(DEFAULT_PRELOAD.map(str::to_owned).to_vec()),
        };
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let by = Starter::Engine(Arc::clone(&engine));
        let looked = async {
            let started = start_container(&by, request, pipes.theirs).await?;
            let Enclosure::Container { id, .. } = started.steward.enclosure() else {
                return Err(ContainerError::Image("there is none".to_owned()));
            };
            let digest = start::digest(&engine, id).await?;
            Ok((digest, started.attest.clone()))
        };
        let (digest, attest) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                // This program may end now, and with it whoever removes what was made.
                let sweep = engine.sweep(directory.name());
                let _ = tokio::time::timeout(SWEEP_TIME, sweep).await;
                return Err(error.into());
            }
        };
        image.digest = Some(digest);
        engine.sweep(directory.name()).await?;
        Ok(Self::of_image(image, attest))
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}
