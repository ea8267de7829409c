//! Sessions in containers: one container each, made by Docker or Podman, with a steward of ours as its process 1.
//!
//! A container is never used twice. Its life hangs on one stream: at the end of it the steward ends, and everything in
//! the container with it, whoever is gone.

pub(crate) mod api;
mod attest;
mod create;
mod engine;
pub(crate) mod error;
pub(crate) mod files;
mod relay;
pub(crate) mod steward;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_protocol::{
    Attest, AttestedLimits, FromSteward, STEWARD_VERSION, StewardLimits, ToSteward,
};
use belljar_walls::seccomp_program;
use tokio::sync::mpsc;

use self::api::{EngineApi, LOCAL};
use self::create::Container;
use self::engine::ContainerEngine;
use self::error::ContainerError;
use self::relay::Log;
use self::steward::Steward;

use crate::backend::directory::EngineDirectory;
use crate::backend::pipes::Pipes;
use crate::backend::process::process_limits;
use crate::capabilities::{Capabilities, Capability};
use crate::environment::{ContainerSpec, DEFAULT_PRELOAD, Environment, Image};
use crate::error::Error;
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::network::Network;

/// How long a container may take to say what it is: a busy engine needs seconds to start one.
const START_TIME: Duration = Duration::from_mins(1);

/// How long the preload list may take to import.
const WARM_TIME: Duration = Duration::from_mins(3);

/// After so long without a word of the host a steward ends: a network can vanish without notice.
const SILENCE_S: u32 = 60;

/// The first user id of sessions, and how many there are: none that a user of the engine's host has.
const FIRST_USER: u32 = 1 << 30;
const USERS: u32 = 1 << 29;

/// The containers of one engine.
#[derive(Debug)]
pub(crate) struct ContainerBackend {
    environment: Environment,
    spec: ContainerSpec,
    image: String,
    engine: Arc<ContainerEngine>,
    directory: EngineDirectory,
    next_id: AtomicU64,
}

/// A container whose steward has said what it is.
pub(crate) struct StartedContainer {
    pub(crate) steward: Arc<Steward>,
    attest: Attest,
    log: Log,
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
        let Some(Image { name, container }) = environment.image().cloned() else {
            return Err(ContainerError::Image("there is none".to_owned()).into());
        };
        let engine = connect(&container).await?;
        let mut directory = EngineDirectory::plan().map_err(Error::io("the engine's directory"))?;
        directory
            .create()
            .map_err(Error::io("the engine's directory"))?;
        engine.remove_orphans(&directory).await;
        Ok(Arc::new(Self {
            environment,
            spec: container,
            image: name,
            engine,
            directory,
            next_id: AtomicU64::new(1),
        }))
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
        self.engine.is_down()
    }

    /// Ends all containers, and waits until they are gone.
    pub(crate) async fn stop(&self) {
        self.engine.set_down();
        if let Err(error) = self.engine.sweep(self.directory.name()).await {
            tracing::warn!(%error, "containers could not be removed; they end by themselves");
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
        let id = self.next_session_id();
        let mut pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let request = ContainerRequest {
            image: self.image.clone(),
            python: self.environment.python().display().to_string(),
            runtime: self.spec.runtime.clone(),
            engine_name: self.directory.name().to_owned(),
            session: id,
            limits: options.limits.clone(),
            modules: None,
        };
        let theirs = std::mem::take(&mut pipes.theirs);
        let started = start_container(&self.engine, request, theirs).await?;
        let pid = self.start_interpreter(&started, options).await?;
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

    async fn start_interpreter(
        &self,
        container: &StartedContainer,
        options: &SessionOptions,
    ) -> Result<i32, Error> {
        let mut preload = self.environment.preload().to_vec();
        let data_bytes = loop {
            let (data_bytes, failed) = container.warm(&preload).await?;
            let Some((module, why)) = failed.iter().next() else {
                break data_bytes;
            };
            if !self.environment.preload_is_usual() {
                return Err(Error::Template {
                    environment: self.environment.name().to_owned(),
                    why: format!("`{module}` of its preload list cannot be imported: {why}"),
                });
            }
            tracing::warn!(module, %why, "a module that is usually preloaded cannot be imported; the session starts without it");
            preload.retain(|module| !failed.contains_key(module));
        };
        let limits = process_limits(&options.limits, data_bytes);
        let checkpoints = match options.checkpoints {
            Checkpoints::Off => "off",
            Checkpoints::Auto => "auto",
            Checkpoints::Every => "every",
        };
        let user = FIRST_USER + random() % USERS;
        let start = ToSteward::Start {
            uid: user,
            gid: user,
            limits: StewardLimits {
                core: Some(limits.core),
                signals: self.spec.runtime.is_none().then_some(limits.signals),
                open_files: Some(limits.open_files),
                file_size: Some(limits.file_size),
                data: Some(limits.data),
                // The kernel counts those of a user in all containers; the container has the exact limit.
                processes: None,
            },
            checkpoints,
            filters: true,
            variables: BTreeMap::from([("HOME", "/workspace")]),
        };
        match container.step(&start, START_TIME).await? {
            FromSteward::Started { pid } if pid > 1 => Ok(pid),
            _ => Err(container.failed("its answer was another").into()),
        }
    }
}

impl Drop for ContainerBackend {
    fn drop(&mut self) {
        self.engine.set_down();
    }
}

impl StartedContainer {
    async fn step(
        &self,
        message: &ToSteward<'_>,
        patience: Duration,
    ) -> Result<FromSteward, ContainerError> {
        let answer = self.steward.step(message, patience).await;
        answer.map_err(|why| self.failed(&why))
    }

    fn failed(&self, why: &str) -> ContainerError {
        let log: Vec<u8> = lock(&self.log).iter().copied().collect();
        let log = String::from_utf8_lossy(&log).into_owned();
        let log = belljar_protocol::plain(&log);
        ContainerError::Steward(format!("{why}\n{log}").trim_end().to_owned())
    }

    /// Imports modules; returns the memory of the process, and those that could not be imported.
    async fn warm(
        &self,
        preload: &[String],
    ) -> Result<(u64, BTreeMap<String, String>), ContainerError> {
        let warm = ToSteward::Warm {
            preload,
            fonts: &[],
        };
        match self.step(&warm, WARM_TIME).await? {
            FromSteward::Warm {
                data_bytes,
                failed,
                threads,
            } => {
                if threads != 1 {
                    return Err(self.failed(&format!(
                        "it has {threads} threads after importing the preload list, and must have one"
                    )));
                }
                Ok((data_bytes, failed))
            }
            _ => Err(self.failed("its answer was another")),
        }
    }
}

/// What a container is asked for.
struct ContainerRequest {
    image: String,
    python: String,
    runtime: Option<String>,
    engine_name: String,
    session: u64,
    limits: Limits,
    /// For a probe: which of these modules are installed is part of the answer.
    modules: Option<Vec<String>>,
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

/// Makes and starts a container, and lets it through if it is closed as it was asked for.
async fn start_container(
    engine: &Arc<ContainerEngine>,
    request: ContainerRequest,
    theirs: Vec<std::os::fd::OwnedFd>,
) -> Result<StartedContainer, ContainerError> {
    let of = Arc::clone(engine);
    engine
        .run(async move { start_on_thread(of, request, theirs).await })
        .await?
}

async fn start_on_thread(
    engine: Arc<ContainerEngine>,
    request: ContainerRequest,
    theirs: Vec<std::os::fd::OwnedFd>,
) -> Result<StartedContainer, ContainerError> {
    let api = &engine.api;
    let body = Container {
        image: &request.image,
        python: &request.python,
        runtime: request.runtime.as_deref(),
        engine: &request.engine_name,
        host: &engine.host,
        session: request.session,
        limits: &request.limits,
        counts_files: !api.is_podman && request.runtime.is_none(),
        is_podman: api.is_podman,
    }
    .body();
    let container = api.create(&body).await.map_err(|error| match error {
        ContainerError::Engine { message, .. }
            if message.to_lowercase().contains("no such image") =>
        {
            ContainerError::NoImage {
                image: request.image.clone(),
            }
        }
        error => error,
    })?;
    let (frames, outgoing) = mpsc::unbounded_channel();
    // From here on its end removes the container.
    let steward = Arc::new(Steward::new(
        frames,
        Arc::clone(&engine),
        container.clone(),
        request.limits.memory_bytes,
    ));
    let stream = api.attach(&container).await?;
    let log = Log::default();
    let fault = |error: std::io::Error| ContainerError::Steward(error.to_string());
    relay::start(stream, outgoing, &steward, theirs, Arc::clone(&log)).map_err(fault)?;
    api.start(&container).await?;
    send_files(&steward);
    let hello = ToSteward::Hello {
        version: STEWARD_VERSION,
        silence_s: Some(SILENCE_S),
        modules: request.modules.as_deref(),
    };
    let mut started = StartedContainer {
        attest: Attest::default(),
        steward,
        log,
    };
    match started.step(&hello, START_TIME).await? {
        FromSteward::Attest(attest) => started.attest = *attest,
        _ => return Err(started.failed("its answer was another")),
    }
    let set_by_engine = match &request.runtime {
        Some(runtime) => other_kernel(&engine, &container, runtime, &started.attest).await?,
        None => None,
    };
    attest::check(&started.attest, &request.limits, set_by_engine)?;
    Ok(started)
}

/// Checks that a container has the runtime it was asked for, which an engine may ignore. If that has a kernel of its own,
/// returns the limits that the engine has set.
async fn other_kernel(
    engine: &ContainerEngine,
    container: &str,
    runtime: &str,
    attest: &Attest,
) -> Result<Option<AttestedLimits>, ContainerError> {
    let told = engine.api.inspect(container).await?;
    let host = &told["HostConfig"];
    let used = told["OCIRuntime"].as_str().or(host["Runtime"].as_str());
    if used != Some(runtime) {
        let used = belljar_protocol::visible(used.unwrap_or("another"));
        return Err(ContainerError::Walls(vec![format!(
            "the engine started it with the runtime {used} instead of {runtime}"
        )]));
    }
    let limits = AttestedLimits {
        memory: host["Memory"].as_u64().filter(|limit| *limit > 0),
        processes: host["PidsLimit"].as_u64().filter(|limit| *limit > 0),
        milli_cpus: host["NanoCpus"]
            .as_u64()
            .map(|nano| nano / 1_000_000)
            .filter(|limit| *limit > 0),
    };
    Ok((attest.kernel != engine.kernel).then_some(limits))
}

/// The guest's files, which the container's first process waits for.
fn send_files(steward: &Steward) {
    let program = seccomp_program();
    let mut files: Vec<(&str, &[u8])> = belljar_guest::FILES
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    files.push(("seccomp.bpf", &program));
    let sizes = files.iter().map(|(path, bytes)| (*path, bytes.len()));
    let message = ToSteward::Files {
        files: sizes.collect(),
    };
    let bytes: Vec<u8> = files
        .iter()
        .flat_map(|(_, bytes)| *bytes)
        .copied()
        .collect();
    steward.send(&message, &bytes);
}

impl Environment {
    /// Describes the Python of a container image that the container engine has: `python`, or the one that is found as
    /// `python3`. A container of it is started to look. The preload list is the default one, as far as the modules are
    /// installed.
    ///
    /// # Errors
    /// [`Error::Container`] if the engine, the image or its Python can't be used.
    pub async fn from_image(
        spec: &ContainerSpec,
        image: &str,
        python: Option<&str>,
    ) -> Result<Self, Error> {
        let engine = connect(spec).await?;
        let mut directory = EngineDirectory::plan().map_err(Error::io("the engine's directory"))?;
        directory
            .create()
            .map_err(Error::io("the engine's directory"))?;
        let request = ContainerRequest {
            image: image.to_owned(),
            python: python.unwrap_or("python3").to_owned(),
            runtime: spec.runtime.clone(),
            engine_name: directory.name().to_owned(),
            session: 0,
            limits: Limits::default(),
            modules: Some(DEFAULT_PRELOAD.map(str::to_owned).to_vec()),
        };
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let started = start_container(&engine, request, pipes.theirs).await?;
        let attest = started.attest.clone();
        drop(started);
        engine.sweep(directory.name()).await?;
        let image = Image {
            name: image.to_owned(),
            container: spec.clone(),
        };
        Ok(Self::of_image(image, attest))
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}
