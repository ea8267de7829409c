//! Containers: sessions that a client made for their files, and those of responses, which are what a run has left.

use std::collections::HashSet;
use std::sync::Arc;

use belljar_sandbox::EntryKind;
use tokio::io::AsyncReadExt as _;

use super::conversation::{GivenFile, check_files};
use crate::api::files::{awake, in_background, with_files};
use crate::api::run_create::{MAX_FILE_BYTES, MAX_FILES};
use crate::api::runs::open_artifact;
use crate::label::LabelChange;
use crate::problem::{Code, Problem};
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::tenants::Scope;

/// What the id of a container begins with, before that of its session or run.
const PREFIX: &str = "cntr_";

/// The files of a container that are known as those of runs, at most.
const MAX_MADE: usize = 10_000;

/// A container of a tenant.
pub(super) enum Container {
    Session(Arc<SessionEntry>),
    /// That of a response: the files that its run was given, and its artifacts.
    Run(Box<Recorded>),
}

/// What an id names: a session or a run.
pub(super) fn inner_id(id: &str) -> Option<&str> {
    id.strip_prefix(PREFIX)
}

pub(super) fn container_id(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Session containers are sessions, so they need the same scope.
pub(super) fn check_scope(caller: &Caller) -> Result<(), Problem> {
    if caller.scopes.contains(&Scope::Sessions) {
        return Ok(());
    }
    Err(Problem::new(
        Code::ScopeMissing,
        "the key lacks scope `sessions`",
    ))
}

impl Container {
    /// A container of this tenant, whose lease begins anew. That of another is as one that is not there.
    pub(super) async fn find(
        service: &Service,
        caller: &Caller,
        id: &str,
    ) -> Result<Self, Problem> {
        let not_found = || {
            let id: String = id.chars().take(100).collect();
            let detail = format!("no container has the id `{}`", id.escape_debug());
            Problem::new(Code::SessionNotFound, detail)
        };
        let inner = inner_id(id).ok_or_else(not_found)?;
        if let Ok(entry) = service.sessions.find(&caller.tenant, inner)
            && let Some(container) = entry.label().container
        {
            check_scope(caller)?;
            entry.any_session()?;
            let used = LabelChange {
                ttl_seconds: Some(60 * container.minutes),
                ..LabelChange::default()
            };
            entry.relabel(used.within(service.options.max_lease)?)?;
            fetch_artifacts(service, &entry).await?;
            return Ok(Self::Session(entry));
        }
        match service.runs.read(&caller.tenant, inner).await {
            Ok(recorded) => Ok(Self::Run(Box::new(recorded))),
            Err(problem) if problem.code == Code::RunNotFound => Err(not_found()),
            Err(problem) => Err(problem),
        }
    }

    /// Its files, for a run.
    pub(super) async fn files(&self) -> Result<Vec<GivenFile>, Problem> {
        match self {
            Self::Session(entry) => session_files(entry).await,
            Self::Run(recorded) => run_files(recorded).await,
        }
    }
}

async fn session_files(entry: &SessionEntry) -> Result<Vec<GivenFile>, Problem> {
    let listing = with_files(entry, |session| session.list("")).await?;
    let mut files = listing.entries;
    files.retain(|file| file.kind == EntryKind::File);
    if listing.truncated || files.len() > MAX_FILES {
        return Err(too_much());
    }
    let mut given = Vec::new();
    let mut left = MAX_FILE_BYTES;
    for file in files {
        let path = file.path.clone();
        let opened = with_files(entry, move |session| session.open(&path)).await?;
        let contents = read(opened, left).await?;
        left -= contents.len() as u64;
        given.push((file.path, contents));
    }
    Ok(given)
}

async fn run_files(recorded: &Recorded) -> Result<Vec<GivenFile>, Problem> {
    let made = recorded
        .run
        .ending()
        .map_or(&[][..], |ending| &ending.artifacts);
    let start = recorded.run.start();
    let names: HashSet<&str> = made.iter().map(|artifact| artifact.path.as_str()).collect();
    let given = start.map_or(&[][..], |start| &start.files);
    let unchanged = given
        .iter()
        .filter(|file| !names.contains(file.name.as_str()));
    let mut files = Vec::new();
    if made.len() > MAX_FILES {
        return Err(too_much());
    }
    for file in unchanged {
        let contents = recorded.blobs().get(&file.contents).await;
        files.push((
            file.name.clone(),
            contents.map_err(|error| fault(error.into()))?,
        ));
    }
    for artifact in made {
        let (file, _) = open_artifact(recorded, &artifact.path).await?;
        files.push((artifact.path.clone(), read(file, MAX_FILE_BYTES).await?));
        check_files(&files)?;
    }
    Ok(files)
}

/// A file of at most so many bytes. It may grow meanwhile.
async fn read(file: std::fs::File, most: u64) -> Result<Vec<u8>, Problem> {
    let mut contents = Vec::new();
    let mut file = tokio::fs::File::from_std(file).take(most + 1);
    let read = file.read_to_end(&mut contents).await;
    read.map_err(|error| Problem::io("cannot read a file of a container", error))?;
    if contents.len() as u64 > most {
        return Err(too_much());
    }
    Ok(contents)
}

fn too_much() -> Problem {
    let detail = format!(
        "a run begins with at most {MAX_FILES} files of a container, with {MAX_FILE_BYTES} bytes together"
    );
    Problem::new(Code::FileTooLarge, detail)
}

/// Writes the artifacts of ended runs that began with its files into a container. At its next use, so that nothing has to
/// wait for a run, also after a restart.
async fn fetch_artifacts(service: &Service, entry: &Arc<SessionEntry>) -> Result<(), Problem> {
    let runs = entry.with_container(|container| container.runs.clone());
    for id in runs.unwrap_or_default() {
        let mut made = Vec::new();
        match service.runs.read(&entry.tenant, &id).await {
            Ok(recorded) => {
                let Some(ending) = recorded.run.ending() else {
                    continue;
                };
                for artifact in &ending.artifacts {
                    match copy(&recorded, entry, &artifact.path).await {
                        Ok(()) => made.push(artifact.path.clone()),
                        // It stays in the container of the response.
                        Err(problem) => {
                            tracing::warn!(
                                session = entry.id,
                                problem.detail,
                                "artifact not copied"
                            );
                        }
                    }
                }
            }
            // It was deleted.
            Err(problem) if problem.code == Code::RunNotFound => {}
            Err(problem) => return Err(problem),
        }
        entry.with_container(|container| {
            container.runs.retain(|known| *known != id);
            if container.made.len() + made.len() <= MAX_MADE {
                container.made.extend(made);
            }
        });
    }
    Ok(())
}

async fn copy(recorded: &Recorded, entry: &Arc<SessionEntry>, path: &str) -> Result<(), Problem> {
    let (file, _) = open_artifact(recorded, path).await?;
    let session = awake(entry).await?;
    let path = path.to_owned();
    let put = in_background(move || Ok(session.put_file(&path, &file)));
    put.await?.map_err(|error| entry.explain(error))
}
