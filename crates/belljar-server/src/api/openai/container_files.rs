//! Files of containers.

use std::io::Write as _;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use belljar_sandbox::EntryKind;
use serde_json::{Value, json};
use tokio_util::io::ReaderStream;

use super::container::{Container, container_id};
use super::containers::of_response;
use super::errors::{invalid, unsupported};
use super::pages::{self, PageAsked};
use super::response_object::created_at;
use crate::api::files::{attachment, awake, in_background, to_save, with_files};
use crate::api::form::{Form, reason};
use crate::api::run_create::is_file_name;
use crate::api::runs::open_artifact;
use crate::api::session_views::seconds;
use crate::api::spool::{Spooled, rewound};
use crate::body::{Named, Query, Upload};
use crate::problem::{Code, Problem, disk_full};
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// What the id of a file begins with, before its path in base64.
const PREFIX: &str = "cfile_";

/// Where clients see the workspace, as code does.
const DATA: &str = "/mnt/data/";

/// The longest path.
const MAX_PATH: usize = 4096;

pub(super) fn file_id(path: &str) -> String {
    format!("{PREFIX}{}", BASE64_URL.encode(path))
}

/// The path in the workspace that an id names. What cannot be one is as what is not there.
fn path_of(id: &str) -> Result<String, Problem> {
    let decoded = id.strip_prefix(PREFIX).map(|path| BASE64_URL.decode(path));
    let path = decoded.and_then(Result::ok).map(String::from_utf8);
    let path = path.and_then(Result::ok).filter(|path| {
        let mut parts = path.split('/');
        path.len() <= MAX_PATH
            && !path.starts_with('~')
            && !path.contains('\0')
            && parts.all(|part| !["", ".", ".."].contains(&part))
    });
    path.ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> Problem {
    let id: String = id.chars().take(100).collect();
    let detail = format!(
        "no file of the container has the id `{}`",
        id.escape_debug()
    );
    Problem::new(Code::FileNotFound, detail)
}

/// A file of a container.
struct ContainerFile {
    path: String,
    bytes: u64,
    created: u64,
    source: &'static str,
}

impl ContainerFile {
    fn view(&self, container: &str) -> Value {
        json!({
            "id": file_id(&self.path),
            "object": "container.file",
            "created_at": self.created,
            "bytes": self.bytes,
            "container_id": container,
            "path": format!("{DATA}{}", self.path),
            "source": self.source,
        })
    }

    /// A regular file of a session. Links are none.
    async fn of_session(entry: &SessionEntry, path: &str) -> Result<Self, Problem> {
        let asked = path.to_owned();
        let status = with_files(entry, move |session| session.stat(&asked)).await?;
        if status.kind != EntryKind::File {
            return Err(not_found(&file_id(path)));
        }
        let is_made = entry.with_container(|container| container.made.contains(path));
        Ok(Self {
            path: path.to_owned(),
            bytes: status.size,
            created: seconds(status.modified),
            source: if is_made == Some(true) {
                "assistant"
            } else {
                "user"
            },
        })
    }

    /// All of a run: those that it was given and those that it made.
    async fn of_run(recorded: &Recorded) -> Result<Vec<Self>, Problem> {
        let created = created_at(recorded).await?;
        let made = recorded
            .run
            .ending()
            .map_or(&[][..], |ending| &ending.artifacts);
        let given = recorded.run.start().map_or(&[][..], |start| &start.files);
        let is_made = |path: &str| made.iter().any(|artifact| artifact.path == path);
        let given = given.iter().filter(|file| !is_made(&file.name));
        let given = given.map(|file| (&file.name, file.bytes, "user"));
        let made = made
            .iter()
            .map(|artifact| (&artifact.path, artifact.size, "assistant"));
        let mut all: Vec<Self> = given
            .chain(made)
            .map(|(path, bytes, source)| Self {
                path: path.clone(),
                bytes,
                created,
                source,
            })
            .collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }

    async fn find(container: &Container, id: &str) -> Result<Self, Problem> {
        let path = path_of(id)?;
        match container {
            Container::Session(entry) => Self::of_session(entry, &path).await,
            Container::Run(recorded) => {
                let mut all = Self::of_run(recorded).await?.into_iter();
                all.find(|file| file.path == path)
                    .ok_or_else(|| not_found(id))
            }
        }
    }
}

/// Lists the files of a container by their paths.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<PageAsked>,
) -> Result<JsonResponse<Value>, Problem> {
    let container = Container::find(&service, &caller, &id).await?;
    let (data, has_more) = match &container {
        Container::Session(entry) => {
            let listing = with_files(entry, |session| session.list("")).await?;
            let mut paths: Vec<String> = listing
                .entries
                .into_iter()
                .filter(|file| file.kind == EntryKind::File)
                .map(|file| file.path)
                .collect();
            paths.sort();
            let (paths, has_more) = asked.take(paths, |path| file_id(path))?;
            let mut data = Vec::new();
            for path in paths {
                match ContainerFile::of_session(entry, &path).await {
                    Ok(file) => data.push(file.view(&id)),
                    // Code has just removed it.
                    Err(problem) if problem.code == Code::FileNotFound => {}
                    Err(problem) => return Err(problem),
                }
            }
            (data, has_more)
        }
        Container::Run(recorded) => {
            let all = ContainerFile::of_run(recorded).await?;
            let (page, has_more) = asked.take(all, |file| file_id(&file.path))?;
            let data = page.iter().map(|file| file.view(&id)).collect();
            (data, has_more)
        }
    };
    Ok(JsonResponse(pages::list(&data, has_more)))
}

/// Uploads a file, as the part `file` of a form.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
    upload: Upload,
) -> Result<JsonResponse<Value>, Problem> {
    let Container::Session(entry) = Container::find(&service, &caller, &id).await? else {
        return Err(of_response("create a container"));
    };
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let Ok(boundary) = multer::parse_boundary(kind) else {
        let why =
            "there is no store of files; send the contents as `file`, in `multipart/form-data`";
        return Err(unsupported("file_id", why));
    };
    let body = tokio::fs::File::from_std(rewound(upload.file()?)?);
    let mut form = Form::new(ReaderStream::new(body), boundary);
    let malformed = |error| invalid("file", &format!("the form is wrong: {}", reason(&error)));
    let mut written = None;
    while let Some(mut part) = form.next().await.map_err(malformed)? {
        if part.name() != Some("file") || written.is_some() {
            return Err(invalid("file", "the form must have one part, named `file`"));
        }
        let name = part.file_name().filter(|name| is_file_name(name));
        let why = "the part must have a file name, without directories";
        let name = name.ok_or_else(|| invalid("file", why))?.to_owned();
        let mut spooled = Spooled::new(&service, &caller.tenant).await?;
        while let Some(chunk) = part.chunk().await.map_err(malformed)? {
            spooled.write_all(&chunk).map_err(disk_full)?;
        }
        written = Some((name, spooled));
    }
    let (name, spooled) = written.ok_or_else(|| invalid("file", "the form has no such part"))?;
    let session = awake(&entry).await?;
    let path = name.clone();
    let put = in_background(move || {
        let file = rewound(&spooled.file)?;
        Ok(session.put_file(&path, &file))
    });
    put.await?.map_err(|error| entry.explain(error))?;
    entry.with_container(|container| container.made.remove(&name));
    let file = ContainerFile::of_session(&entry, &name).await?;
    Ok(JsonResponse(file.view(&container_id(&entry.id))))
}

/// Shows a file.
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, file)): Named<(String, String)>,
) -> Result<JsonResponse<Value>, Problem> {
    let container = Container::find(&service, &caller, &id).await?;
    let file = ContainerFile::find(&container, &file).await?;
    Ok(JsonResponse(file.view(&id)))
}

/// Deletes a file.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, file)): Named<(String, String)>,
) -> Result<JsonResponse<Value>, Problem> {
    let container = Container::find(&service, &caller, &id).await?;
    let found = ContainerFile::find(&container, &file).await?;
    let Container::Session(entry) = container else {
        return Err(of_response("delete the response"));
    };
    let path = found.path.clone();
    with_files(&entry, move |session| session.delete(&path)).await?;
    entry.with_container(|container| container.made.remove(&found.path));
    Ok(JsonResponse(
        json!({"id": file, "object": "container.file.deleted", "deleted": true}),
    ))
}

/// Downloads a file.
pub(super) async fn content(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, file)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let container = Container::find(&service, &caller, &id).await?;
    let found = ContainerFile::find(&container, &file).await?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let path = found.path;
    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
    let kind = "application/octet-stream";
    let opened = match container {
        Container::Session(entry) => with_files(&entry, move |session| session.open(&path)).await?,
        Container::Run(recorded) if found.source == "user" => {
            let given = recorded.run.start().map_or(&[][..], |start| &start.files);
            let given = given.iter().find(|given| given.name == path);
            let given = given.ok_or_else(|| not_found(&file))?;
            let contents = recorded.blobs().get(&given.contents).await;
            let contents = contents.map_err(|error| fault(error.into()))?;
            return Ok(to_save(Body::from(contents), &name, kind));
        }
        Container::Run(recorded) => open_artifact(&recorded, &path).await?.0,
    };
    let size = opened.metadata().map(|metadata| metadata.len());
    let size = size.map_err(|error| Problem::io("cannot read a file of a container", error))?;
    Ok(attachment(opened, size, &name, kind, transfer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_path_of_the_workspace_only() {
        for path in ["a", "out/a b.csv", "é", ".x", "a..b", "%2e%2e"] {
            assert_eq!(path_of(&file_id(path)).unwrap(), path);
        }
        for path in [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "~/x",
            "a\0",
            "/tmp/x",
        ] {
            assert!(path_of(&file_id(path)).is_err(), "{path}");
        }
        let long = file_id(&"a".repeat(MAX_PATH + 1));
        for id in [
            "",
            "cfile_",
            "cfile_?",
            "cfile_/w",
            "file-1",
            "cfile_AA==",
            &long,
        ] {
            assert!(path_of(id).is_err(), "{id}");
        }
        assert!(path_of(&format!("{PREFIX}{}", BASE64_URL.encode([0xff]))).is_err());
    }
}
