//! Files and directories of a sandbox.

use std::sync::Arc;
use std::time::SystemTime;

use axum::{Extension, Json as JsonResponse};
use belljar_sandbox::{EntryKind, Error, FileStatus, Session};
use serde::{Deserialize, Serialize};

use super::links::{resolve, resolve_parent};
use super::rpc::{Empty, bad};
use super::sandbox::moment;
use crate::api::files::{check, with_files};
use crate::body::Json;
use crate::problem::{Code, Problem};
use crate::sessions::SessionEntry;

/// The home of the user of a sandbox.
pub(super) const HOME: &str = "/home/user";

/// Directories above it. Clients look at them before they remove one; nothing in them is shown.
const ABOVE: [&str; 2] = ["/", "/home"];

/// The deepest listing.
const MAX_DEPTH: usize = 64;

#[derive(Deserialize)]
pub(super) struct PathAsked {
    path: String,
}

#[derive(Deserialize)]
pub(super) struct ListAsked {
    path: String,
    depth: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct MoveAsked {
    source: String,
    destination: String,
}

#[derive(Serialize)]
pub(super) struct EntryAnswer {
    entry: EntryView,
}

#[derive(Serialize)]
pub(super) struct EntriesAnswer {
    entries: Vec<EntryView>,
}

/// A file or a directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryView {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    /// A text, as all numbers of 64 bits.
    size: String,
    mode: u32,
    permissions: String,
    owner: &'static str,
    group: &'static str,
    modified_time: String,
    /// Where a link leads, all links followed; to itself if that can't be.
    #[serde(skip_serializing_if = "Option::is_none")]
    symlink_target: Option<String>,
}

impl EntryView {
    /// What is at a path, which may be a link. `own` is the same path with all links before its last name followed.
    fn look(session: &Session, path: &str, own: &str) -> Result<Self, Error> {
        let status = session.stat(own)?;
        let mut view = Self::new(path, &status);
        if status.kind == EntryKind::Other && session.read_link(own)?.is_some() {
            view.symlink_target = Some(absolute(&resolve(session, own)));
        }
        Ok(view)
    }

    pub(super) fn new(path: &str, status: &FileStatus) -> Self {
        let path = absolute(path);
        let (kind, letter) = match status.kind {
            EntryKind::File => ("FILE_TYPE_FILE", '-'),
            EntryKind::Directory => ("FILE_TYPE_DIRECTORY", 'd'),
            // Pipes and sockets are among them, and this wire has no word for those.
            EntryKind::Other => ("FILE_TYPE_SYMLINK", 'l'),
        };
        let bits = (0..9).rev().zip("rwxrwxrwx".chars());
        let bits = bits.map(|(bit, name)| {
            if status.mode >> bit & 1 == 1 {
                name
            } else {
                '-'
            }
        });
        Self {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            kind,
            size: status.size.to_string(),
            mode: status.mode,
            permissions: std::iter::once(letter).chain(bits).collect(),
            owner: "user",
            group: "user",
            modified_time: moment(status.modified),
            symlink_target: None,
            path,
        }
    }
}

/// A path as clients of this wire have it: from the root, the workspace being the home.
pub(super) fn absolute(path: &str) -> String {
    if ABOVE.contains(&path) {
        return path.to_owned();
    }
    let path = path.trim_end_matches('/');
    if path == "/tmp" || path.starts_with("/tmp/") {
        return path.to_owned();
    }
    let below = |root: &str| match path.strip_prefix(root)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    };
    let rest = [HOME, "/workspace", "~"].into_iter().find_map(below);
    match rest.unwrap_or(path) {
        "" | "." => HOME.to_owned(),
        rest => format!("{HOME}/{}", rest.trim_start_matches("./")),
    }
}

pub(super) async fn stat(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(PathAsked { path }): Json<PathAsked>,
) -> Result<JsonResponse<EntryAnswer>, Problem> {
    let status = status(&entry, &path).await?;
    let entry = if ABOVE.contains(&path.as_str()) {
        EntryView::new(&path, &status)
    } else {
        with_files(&entry, move |session| {
            let path = relative(&path);
            EntryView::look(session, &path, &resolve_parent(session, &path))
        })
        .await?
    };
    Ok(JsonResponse(EntryAnswer { entry }))
}

pub(super) async fn list(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(ListAsked { path, depth }): Json<ListAsked>,
) -> Result<JsonResponse<EntriesAnswer>, Problem> {
    if status(&entry, &path).await?.kind != EntryKind::Directory {
        return Err(bad(&format!(
            "`{}` is not a directory",
            path.escape_debug()
        )));
    }
    let depth = depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let found = with_files(&entry, move |session| {
        let path = resolve(session, &relative(&path));
        let base = absolute(&path).matches('/').count();
        let listing = session.list(&relative(&path))?;
        let near = |path: &String| absolute(path).matches('/').count() <= base + depth;
        let paths = listing.entries.into_iter().map(|entry| entry.path);
        // It may be gone meanwhile.
        let views = paths.filter(near);
        let views = views.filter_map(|path| EntryView::look(session, &path, &path).ok());
        Ok((views.collect(), listing.truncated))
    });
    match found.await? {
        (_, true) => Err(Problem::new(
            Code::BadRequest,
            "the directory has more entries than a listing holds; list a directory below it",
        )),
        (entries, false) => Ok(JsonResponse(EntriesAnswer { entries })),
    }
}

pub(super) async fn make(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(PathAsked { path }): Json<PathAsked>,
) -> Result<JsonResponse<EntryAnswer>, Problem> {
    match status(&entry, &path).await {
        Ok(status) if status.kind == EntryKind::Directory => {
            let detail = format!("the directory `{}`", path.escape_debug());
            return Err(Problem::new(Code::FileExists, detail));
        }
        Ok(_) => {
            let path = path.escape_debug();
            return Err(bad(&format!(
                "`{path}` already exists, and is not a directory"
            )));
        }
        Err(problem) if problem.code == Code::FileNotFound => {}
        Err(problem) => return Err(worded(&entry, &path, problem).await),
    }
    changed(&entry, path, Session::make_directory).await
}

pub(super) async fn rename(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(MoveAsked {
        source,
        destination,
    }): Json<MoveAsked>,
) -> Result<JsonResponse<EntryAnswer>, Problem> {
    check(&source)?;
    changed(&entry, destination, move |session, path| {
        session.rename(&resolve_parent(session, &source), path)
    })
    .await
}

pub(super) async fn remove(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(PathAsked { path }): Json<PathAsked>,
) -> Result<JsonResponse<Empty>, Problem> {
    check(&path)?;
    let removed = with_files(&entry, move |session| {
        session.delete_all(&resolve_parent(session, &path))
    })
    .await;
    match removed {
        Err(problem) if problem.code != Code::FileNotFound => Err(problem),
        _ => Ok(JsonResponse(Empty {})),
    }
}

/// What is known of a file or a directory.
pub(super) async fn status(entry: &SessionEntry, path: &str) -> Result<FileStatus, Problem> {
    check(path)?;
    if ABOVE.contains(&path) {
        return Ok(FileStatus {
            kind: EntryKind::Directory,
            size: 0,
            mode: 0o755,
            modified: SystemTime::UNIX_EPOCH,
        });
    }
    let path = relative(path);
    with_files(entry, move |session| session.stat(&resolve(session, &path))).await
}

/// A path that is no regular file, or leads through one, in the words that clients look for.
pub(super) async fn worded(entry: &SessionEntry, path: &str, problem: Problem) -> Problem {
    if problem.code != Code::NotRegular {
        return problem;
    }
    if let Ok(status) = status(entry, path).await
        && status.kind == EntryKind::Directory
    {
        return bad(&format!("`{}` is a directory", path.escape_debug()));
    }
    let parent = path.trim_end_matches('/').rsplit_once('/');
    let parent = parent.map_or("", |(parent, _)| parent);
    if let Ok(status) = status(entry, parent).await
        && status.kind == EntryKind::File
    {
        return bad(&format!("`{}` is not a directory", parent.escape_debug()));
    }
    problem
}

/// The home is the workspace itself.
fn relative(path: &str) -> String {
    if absolute(path) == HOME {
        return String::new();
    }
    if ABOVE.contains(&path) {
        return path.to_owned();
    }
    path.trim_end_matches('/').to_owned()
}

/// Changes something, and shows what is at the path then.
async fn changed(
    entry: &SessionEntry,
    path: String,
    act: impl FnOnce(&Session, &str) -> Result<(), Error> + Send + 'static,
) -> Result<JsonResponse<EntryAnswer>, Problem> {
    check(&path)?;
    let done = with_files(entry, move |session| {
        let real = resolve_parent(session, &path);
        act(session, &real)?;
        let status = session.stat(&real)?;
        Ok(EntryView::new(&path, &status))
    });
    let entry = done.await?;
    Ok(JsonResponse(EntryAnswer { entry }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_from_the_root() {
        for home in ["", "/home/user", "/home/user/", "/workspace", "~", "."] {
            assert_eq!(absolute(home), HOME, "{home}");
        }
        for file in ["a/b", "/home/user/a/b", "/workspace/a/b", "~/a/b", "./a/b/"] {
            assert_eq!(absolute(file), "/home/user/a/b", "{file}");
        }
        for above in ["/", "/home"] {
            assert_eq!(absolute(above), above);
        }
        assert_eq!(absolute("/tmp/x"), "/tmp/x");
        assert_eq!(absolute("/tmp/"), "/tmp");
        assert_eq!(absolute("/home/user2"), "/home/user//home/user2");
    }

    #[test]
    fn permissions_are_as_ls_has_them() {
        let status = FileStatus {
            kind: EntryKind::Directory,
            size: 0,
            mode: 0o751,
            modified: SystemTime::UNIX_EPOCH,
        };
        let view = EntryView::new("a", &status);
        assert_eq!(view.permissions, "drwxr-x--x");
        assert_eq!(view.modified_time, "1970-01-01T00:00:00Z");
    }
}
