//! Sandboxes of gVisor that we start ourselves, by `runsc`: the host's programs and the environment's Python, read-only,
//! under a kernel in user space.
//!
//! The cgroup of a sandbox is ours. What limits, counts and ends a session is the host's kernel, as behind our own walls.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_protocol::{Attest, AttestedLimits};
use belljar_walls::{
    CgroupLimits, Cgroups, Keeper, KeeperPlan, SessionCgroup, lay_out_root, remove_tree,
    spawn_limited,
};
use tokio::net::unix::pipe;

use super::bundle::Bundle;
use super::create::own_processes;
use super::error::ContainerError;
use super::image::SandboxImages;
use super::stream::Stream;
use super::thread::RelayThread;
use crate::backend::cgroups::group_of;
use crate::backend::directory::EngineDirectory;
use crate::backend::rootfs::prepare_directory;
use crate::environment::{Environment, Failure, Finished, run_watched};
use crate::error::Error;
use crate::limits::Limits;
use crate::lock::lock;
use crate::permissions::open_to_sessions;

const PROGRAM: &str = "runsc";

/// The oldest that is known to do what we ask for: the one of 2022 ignores a part of it.
const OLDEST: u32 = 20_240_101;

/// How long it may take to say its version.
const VERSION_TIME: Duration = Duration::from_secs(10);

/// How long it may take to write the image of a sandbox.
const IMAGE_TIME: Duration = Duration::from_mins(1);

/// Memory of a sandbox beside that of the session: its kernel's own.
const KERNEL_BYTES: u64 = 64 << 20;

/// Threads of a sandbox on the host: of its kernel, and for each process of the session. 30 and 3 were measured; if there
/// are not enough, all of the sandbox ends.
const KERNEL_THREADS: u64 = 256;
const PROCESS_THREADS: u64 = 4;

/// `runsc`, and what its sandboxes share.
#[derive(Debug)]
pub(super) struct Runsc {
    program: PathBuf,
    /// The release of this host's kernel.
    kernel: String,
    python: String,
    cgroups: Cgroups,
    bundle: Bundle,
    /// Each sandbox has a directory in it.
    directory: PathBuf,
    pub(super) images: Arc<SandboxImages>,
    pub(super) thread: RelayThread,
    // Dropped last: it ends all processes and removes what is left, however this process ends.
    keeper: Mutex<Option<Keeper>>,
}

/// A sandbox: one session.
#[derive(Debug)]
pub(super) struct GvisorSandbox {
    runsc: Arc<Runsc>,
    pub(super) cgroup: SessionCgroup,
    name: String,
    directory: PathBuf,
    /// None once it is removed.
    child: Mutex<Option<Child>>,
}

impl Runsc {
    /// Looks for `runsc`, and makes what its sandboxes share.
    pub(super) fn prepare(
        environment: &Environment,
        directory: &mut EngineDirectory,
    ) -> Result<Self, Error> {
        let program = find()?;
        let plan = KeeperPlan {
            directory: directory.path().to_owned(),
            cgroup_trees: Cgroups::plan(directory.name())?,
        };
        let log = tempfile::tempfile().map_err(Error::io("the keeper's log"))?;
        let (keeper, _) = Keeper::start(&plan, log.into())?;
        let fault = Error::io("the engine's directory");
        let prepared = directory.create().and_then(|()| {
            let sandboxes = directory.path().join("sandboxes");
            fs::create_dir(&sandboxes)?;
            Ok(sandboxes)
        });
        let sandboxes = prepared.map_err(fault)?;
        let cgroups = Cgroups::create(directory.name())?;
        let at = directory.path().join("root");
        let shown = prepare_directory(directory, Some(&cgroups)).and_then(|mut root| {
            root.read_only = environment.read_only_paths().to_vec();
            let shown = lay_out_root(&root, &at)?;
            open_to_sessions(&at)?;
            Ok(shown)
        });
        Ok(Self {
            program,
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            python: environment.python().display().to_string(),
            cgroups,
            bundle: Bundle {
                root: at,
                shown: shown.map_err(Error::io("the engine's directory"))?,
            },
            directory: sandboxes,
            images: SandboxImages::new(directory.path().to_owned()),
            thread: RelayThread::start().map_err(Error::io("a thread for containers"))?,
            keeper: Mutex::new(Some(keeper)),
        })
    }

    /// Starts a sandbox, or restores it from an image. Returns its stream, and the words of the steward and of `runsc`
    /// itself.
    pub(super) fn start(
        self: &Arc<Self>,
        session: u64,
        tenant: Option<&str>,
        limits: &Limits,
        image: Option<&Path>,
    ) -> Result<(GvisorSandbox, Stream, pipe::Receiver), ContainerError> {
        let group = tenant.map(group_of);
        let cgroup = self
            .cgroups
            .session(
                &session.to_string(),
                group.as_deref(),
                CgroupLimits {
                    memory_bytes: limits.memory_bytes + KERNEL_BYTES,
                    processes: own_processes(limits) * PROCESS_THREADS + KERNEL_THREADS,
                    milli_cpus: limits.milli_cpus,
                },
            )
            .map_err(|error| ContainerError::Runsc(error.to_string()))?;
        let sandbox = GvisorSandbox {
            runsc: Arc::clone(self),
            cgroup,
            name: format!("belljar-{session}"),
            directory: self.directory.join(session.to_string()),
            child: Mutex::default(),
        };
        match sandbox.execute(limits, image) {
            Ok((stream, words)) => Ok((sandbox, stream, words)),
            Err(error) => {
                sandbox.remove();
                Err(ContainerError::Runsc(error.to_string()))
            }
        }
    }

    /// Ends all sandboxes, and waits until nothing is left.
    pub(super) fn stop(&self) {
        if let Some(keeper) = lock(&self.keeper).take() {
            drop(keeper);
            // The keeper has done it, unless it was killed before it could.
            for tree in self.cgroups.trees() {
                if let Err(error) = remove_tree(&tree) {
                    tracing::warn!(%error, "the engine's cgroup could not be removed");
                }
            }
        }
    }
}

impl GvisorSandbox {
    fn execute(
        &self,
        limits: &Limits,
        image: Option<&Path>,
    ) -> io::Result<(Stream, pipe::Receiver)> {
        fs::create_dir(&self.directory)?;
        let runsc = &self.runsc;
        let config = runsc.bundle.config(&runsc.python, limits).to_string();
        fs::write(self.directory.join("config.json"), config)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (words, their_words) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut command = self.command();
        match image {
            None => command.arg("run"),
            Some(image) => command.arg("restore").arg("--image-path").arg(image),
        };
        command
            .arg("--bundle")
            .arg(&self.directory)
            .arg(&self.name)
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(their_words);
        let child = spawn_limited(&mut command, self.cgroup.joins()?)?;
        *lock(&self.child) = Some(child);
        ours.set_nonblocking(true)?;
        let (reading, writing) = tokio::net::UnixStream::from_std(ours)?.into_split();
        let stream = Stream {
            reading: Box::new(reading),
            writing: Box::new(writing),
            is_framed: false,
        };
        Ok((stream, pipe::Receiver::from_owned_fd(words)?))
    }

    /// `runsc`, with what each of its commands needs.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.runsc.program);
        if !rustix::process::geteuid().is_root() {
            command.arg("--rootless");
        }
        command
            .arg("--root")
            .arg(self.directory.join("state"))
            .args(["--platform", "systrap", "--network", "none"])
            // Ours are there already. Nothing is written to the root, so that it needs no layer above it.
            .args(["--ignore-cgroups", "--overlay2", "none"])
            .env_clear()
            .current_dir("/");
        command
    }

    /// Writes an image of it; it continues.
    pub(super) fn save(&self, to: &Path) -> Result<(), ContainerError> {
        let fault = |why: String| ContainerError::Runsc(format!("the image of a sandbox: {why}"));
        fs::create_dir(to).map_err(|error| fault(error.to_string()))?;
        let mut command = self.command();
        command
            .args(["checkpoint", "--leave-running", "--compression", "none"])
            .arg("--image-path")
            .arg(to)
            .arg(&self.name);
        let run = run_watched(&mut command, IMAGE_TIME, |_| true);
        succeeded(run).map(drop).map_err(fault)
    }

    /// Ends it, and removes what is left of it without waiting for that.
    pub(super) fn remove(&self) {
        // Twice: one of them may just have started another.
        let _ = self.cgroup.kill_all_but(&[]) || self.cgroup.kill_all_but(&[]);
        let child = lock(&self.child).take();
        let directory = self.directory.clone();
        if child.is_none() && !directory.exists() {
            return;
        }
        let cgroups = self.cgroup.leave();
        self.runsc.thread.spawn_blocking(move || {
            if let Some(mut child) = child {
                let _ = child.kill();
                let _ = child.wait();
            }
            for cgroup in cgroups {
                if let Err(error) = remove_tree(&cgroup) {
                    tracing::warn!(%error, "the cgroup of a sandbox cannot be removed before its engine ends");
                }
            }
            let _ = fs::remove_dir_all(directory);
        });
    }

    /// The limits that it has, if it is a sandbox: its kernel is not the host's, and its processes are in its cgroup.
    pub(super) fn limits(
        &self,
        attest: &Attest,
        limits: &Limits,
    ) -> Result<AttestedLimits, ContainerError> {
        let mut missing = Vec::new();
        if attest.kernel == self.runsc.kernel {
            missing.push("it runs on this host's kernel instead of gVisor's".to_owned());
        }
        // `runsc` itself, the process that opens files, and the sandbox.
        if self.cgroup.in_use().processes.is_none_or(|count| count < 3) {
            missing.push("its processes are not in the cgroup that limits them".to_owned());
        }
        if !missing.is_empty() {
            return Err(ContainerError::Walls(missing));
        }
        Ok(AttestedLimits {
            memory: Some(limits.memory_bytes),
            processes: Some(own_processes(limits)),
            milli_cpus: Some(limits.milli_cpus),
        })
    }
}

/// The program, if it can be used.
fn find() -> Result<PathBuf, ContainerError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .map(|directory| directory.join(PROGRAM))
        .find(|program| program.is_file())
        .ok_or(ContainerError::NoRunsc)?;
    let said = version_of(&program).map_err(|why| {
        ContainerError::Runsc(format!("`{} --version`: {why}", program.display()))
    })?;
    match date_of(&said) {
        Some(date) if date >= OLDEST => Ok(program),
        _ => Err(ContainerError::OldRunsc {
            program,
            version: belljar_protocol::visible(&said).into_owned(),
        }),
    }
}

fn version_of(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    let finished = succeeded(run_watched(command.arg("--version"), VERSION_TIME, |_| {
        true
    }))?;
    let said = String::from_utf8_lossy(&finished.stdout);
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// What a command wrote, or why it failed.
fn succeeded(run: Result<Finished, Failure>) -> Result<Finished, String> {
    match run {
        Ok(finished) if finished.status.success() => Ok(finished),
        Ok(finished) => Err(format!(
            "{}: {}",
            finished.status,
            finished.stderr.trim_end()
        )),
        Err(failure) => Err(format!("{failure:?}")),
    }
}

/// The date in a version such as `release-20240729.0` or `0.0~20240729.0`.
fn date_of(version: &str) -> Option<u32> {
    version
        .split(|letter: char| !letter.is_ascii_digit())
        .find(|digits| digits.len() == 8)
        .and_then(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_dates() {
        assert_eq!(
            date_of("runsc version release-20250113.0"),
            Some(20_250_113)
        );
        assert_eq!(date_of("runsc version 0.0~20240729.0"), Some(20_240_729));
        assert_eq!(
            date_of("runsc version 0.0~20221219.0-1+b5"),
            Some(20_221_219)
        );
        assert_eq!(date_of("runsc version VERSION_MISSING"), None);
        assert_eq!(date_of("runsc version 1.2.3"), None);
    }
}
