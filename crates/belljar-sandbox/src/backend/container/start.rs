//! The start of a container, up to a steward that has said what it is.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_protocol::{Attest, AttestedLimits, FromSteward, STEWARD_VERSION, ToSteward};
use belljar_walls::seccomp_program;
use tokio::sync::mpsc;

use super::attest;
use super::create::Container;
use super::enclosure::Enclosure;
use super::engine::ContainerEngine;
use super::error::ContainerError;
use super::gvisor::Runsc;
use super::relay::{self, Log};
use super::steward::Steward;
use super::stream::Stream;
use crate::environment::Image;
use crate::limits::Limits;
use crate::lock::lock;

/// How long a container may take to say what it is: a busy engine needs seconds to start one.
pub(super) const START_TIME: Duration = Duration::from_mins(1);

/// How long the preload list may take to import.
const WARM_TIME: Duration = Duration::from_mins(3);

/// After so long without a word of the host a steward ends: a network can vanish without notice.
const SILENCE_S: u32 = 60;

/// Who starts containers.
#[derive(Clone, Debug)]
pub(super) enum Starter {
    /// Docker or Podman.
    Engine(Arc<ContainerEngine>),
    /// `runsc`.
    Gvisor(Arc<Runsc>),
}

/// What a container is asked for.
pub(super) struct ContainerRequest {
    /// None for a sandbox of gVisor.
    pub(super) image: Option<Image>,
    pub(super) python: String,
    pub(super) engine_name: String,
    pub(super) session: u64,
    pub(super) tenant: Option<String>,
    pub(super) limits: Limits,
    /// An image of a sandbox of gVisor, to restore.
    pub(super) restores: Option<PathBuf>,
    /// For a probe: which of these modules are installed is part of the answer.
    pub(super) modules: Option<Vec<String>>,
}

/// A container whose steward has said what it is.
pub(super) struct StartedContainer {
    pub(super) steward: Arc<Steward>,
    /// Until the relay has it.
    outgoing: Option<mpsc::UnboundedReceiver<Vec<u8>>>,
    pub(super) attest: Attest,
    log: Log,
}

impl StartedContainer {
    fn new(enclosure: Enclosure, limits: &Limits) -> Self {
        let (frames, outgoing) = mpsc::unbounded_channel();
        Self {
            steward: Arc::new(Steward::new(frames, enclosure, limits.memory_bytes)),
            outgoing: Some(outgoing),
            attest: Attest::default(),
            log: Log::default(),
        }
    }

    /// Starts the relay.
    fn listen(&mut self, stream: Stream, theirs: Vec<OwnedFd>) -> Result<(), ContainerError> {
        let fault = |error: std::io::Error| ContainerError::Steward(error.to_string());
        let Some(outgoing) = self.outgoing.take() else {
            return Ok(());
        };
        let log = Arc::clone(&self.log);
        relay::start(stream, outgoing, &self.steward, theirs, log).map_err(fault)
    }

    /// Asks the steward what it found.
    async fn hello(&mut self, modules: Option<&[String]>) -> Result<(), ContainerError> {
        let hello = ToSteward::Hello {
            version: STEWARD_VERSION,
            silence_s: Some(SILENCE_S),
            modules,
        };
        match self.step(&hello, START_TIME).await? {
            FromSteward::Attest(attest) => self.attest = *attest,
            _ => return Err(self.failed("its answer was another")),
        }
        Ok(())
    }

    pub(super) async fn step(
        &self,
        message: &ToSteward<'_>,
        patience: Duration,
    ) -> Result<FromSteward, ContainerError> {
        let answer = self.steward.step(message, patience).await;
        answer.map_err(|why| self.failed(&why))
    }

    pub(super) fn failed(&self, why: &str) -> ContainerError {
        let log: Vec<u8> = lock(&self.log).iter().copied().collect();
        let log = String::from_utf8_lossy(&log).into_owned();
        let log = belljar_protocol::plain(&log);
        ContainerError::Steward(format!("{why}\n{log}").trim_end().to_owned())
    }

    /// Imports modules; returns the memory of the process, and those that could not be imported.
    pub(super) async fn warm(
        &self,
        preload: &[String],
        fonts: &[PathBuf],
    ) -> Result<(u64, BTreeMap<String, String>), ContainerError> {
        let warm = ToSteward::Warm { preload, fonts };
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

/// Makes and starts a container, and lets it through if it is closed as it was asked for.
pub(super) async fn start_container(
    starter: &Starter,
    request: ContainerRequest,
    theirs: Vec<OwnedFd>,
) -> Result<StartedContainer, ContainerError> {
    let by = starter.clone();
    let start = async move {
        match by {
            Starter::Engine(engine) => start_in_engine(engine, request, theirs).await,
            Starter::Gvisor(runsc) => start_in_gvisor(&runsc, request, theirs).await,
        }
    };
    match starter {
        Starter::Engine(engine) => engine.thread.run(start).await?,
        Starter::Gvisor(runsc) => runsc.thread.run(start).await?,
    }
}

async fn start_in_engine(
    engine: Arc<ContainerEngine>,
    request: ContainerRequest,
    theirs: Vec<OwnedFd>,
) -> Result<StartedContainer, ContainerError> {
    let api = &engine.api;
    let Some(image) = &request.image else {
        return Err(ContainerError::Image("there is none".to_owned()));
    };
    let runtime = image.container.runtime.as_deref();
    let body = Container {
        image: image.reference(),
        python: &request.python,
        runtime,
        engine: &request.engine_name,
        host: &engine.host,
        session: request.session,
        limits: &request.limits,
        counts_files: !api.is_podman && runtime.is_none(),
        is_podman: api.is_podman,
    }
    .body();
    let id = api.create(&body).await.map_err(|error| match error {
        ContainerError::Engine { message, .. }
            if message.to_lowercase().contains("no such image") =>
        {
            no_image(image)
        }
        error => error,
    })?;
    // From here on its end removes the container.
    let enclosure = Enclosure::Container {
        engine: Arc::clone(&engine),
        id: id.clone(),
    };
    let mut started = StartedContainer::new(enclosure, &request.limits);
    let (reading, writing) = tokio::io::split(api.attach(&id).await?);
    let stream = Stream {
        reading: Box::new(reading),
        writing: Box::new(writing),
        is_framed: true,
    };
    started.listen(stream, theirs)?;
    api.start(&id).await?;
    send_files(&started.steward);
    started.hello(request.modules.as_deref()).await?;
    let set_by_engine = match runtime {
        Some(runtime) => other_kernel(&engine, &id, runtime, &started.attest).await?,
        None => None,
    };
    attest::check(&started.attest, &request.limits, set_by_engine)?;
    Ok(started)
}

async fn start_in_gvisor(
    runsc: &Arc<Runsc>,
    request: ContainerRequest,
    theirs: Vec<OwnedFd>,
) -> Result<StartedContainer, ContainerError> {
    let (session, tenant) = (request.session, request.tenant.as_deref());
    let (sandbox, stream, words) = runsc.start(
        session,
        tenant,
        &request.limits,
        request.restores.as_deref(),
    )?;
    // From here on its end removes the sandbox.
    let mut started = StartedContainer::new(Enclosure::Gvisor(sandbox), &request.limits);
    tokio::spawn(relay::read_words(words, Arc::clone(&started.log)));
    started.listen(stream, theirs)?;
    started.hello(None).await?;
    let set = match started.steward.enclosure() {
        Enclosure::Gvisor(sandbox) => sandbox.limits(&started.attest, &request.limits)?,
        Enclosure::Container { .. } => AttestedLimits::default(),
    };
    attest::check(&started.attest, &request.limits, Some(set))?;
    Ok(started)
}

fn no_image(Image { name, digest, .. }: &Image) -> ContainerError {
    let image = name.clone();
    match digest.clone() {
        None => ContainerError::NoImage { image },
        Some(digest) => ContainerError::ImageGone { image, digest },
    }
}

/// The digest of the image that a container was made from.
pub(super) async fn digest(
    engine: &ContainerEngine,
    container: &str,
) -> Result<String, ContainerError> {
    let described = engine.api.inspect(container).await?;
    let digest = described["Image"].as_str().unwrap_or_default();
    let is_digest = digest.strip_prefix("sha256:").is_some_and(|number| {
        number.len() == 64 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_digest {
        let message = "its answer has no digest of the image".to_owned();
        let what = "describe a container";
        return Err(ContainerError::Engine { what, message });
    }
    Ok(digest.to_owned())
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
