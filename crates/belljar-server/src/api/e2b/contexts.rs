//! Contexts of code: the namespaces of a session. `main` is called `default` here.

use std::sync::Arc;

use axum::{Extension, Json as JsonResponse};
use belljar_sandbox::Namespace;
use serde::{Deserialize, Serialize};

use super::errors::not_supported;
use super::filesystem::absolute;
use crate::body::{Json, Named};
use crate::node::random_hex;
use crate::problem::Problem;
use crate::sessions::SessionEntry;

/// The context that every sandbox has, and the namespace that it is.
const DEFAULT: &str = "default";
const MAIN: &str = "main";

#[derive(Serialize)]
pub(super) struct ContextView {
    id: String,
    language: &'static str,
    cwd: String,
}

impl From<Namespace> for ContextView {
    fn from(namespace: Namespace) -> Self {
        let id = match namespace.name.as_str() {
            MAIN => DEFAULT.to_owned(),
            _ => namespace.name,
        };
        Self {
            id,
            language: "python",
            cwd: absolute(&namespace.directory.to_string_lossy()),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct NewContext {
    cwd: Option<String>,
    language: Option<String>,
}

/// The namespace of a context.
pub(super) fn namespace(context: &str) -> &str {
    match context {
        DEFAULT => MAIN,
        // Not an id of a context, so that there are no two for one namespace.
        MAIN => "",
        other => other,
    }
}

/// The source of a cell, in a language.
pub(super) fn source(code: String, language: Option<&str>) -> Result<String, Problem> {
    match language {
        None | Some("python") => Ok(code),
        Some("bash") => Ok(format!("%%bash\n{code}")),
        Some(other) => Err(no_language(other)),
    }
}

fn no_language(language: &str) -> Problem {
    let language: String = language.chars().take(50).collect();
    let language = language.escape_debug();
    not_supported(format!(
        "`{language}` is not here; the languages are `python` and `bash`"
    ))
}

pub(super) async fn list(
    Extension(entry): Extension<Arc<SessionEntry>>,
) -> Result<JsonResponse<Vec<ContextView>>, Problem> {
    let list = entry.session()?.namespaces().await;
    let list = list.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(
        list.into_iter().map(ContextView::from).collect(),
    ))
}

pub(super) async fn create(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<NewContext>,
) -> Result<JsonResponse<ContextView>, Problem> {
    if let Some(other) = asked.language.filter(|language| language != "python") {
        return Err(no_language(&other));
    }
    let id = random_hex(8).map_err(|error| Problem::internal("cannot read random bytes", error))?;
    let directory = asked.cwd.as_deref().map(absolute);
    let session = entry.session()?;
    let made = session.create_namespace(&id, directory.as_deref()).await;
    let made = made.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(ContextView::from(made)))
}

pub(super) async fn restart(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Named(context): Named<String>,
) -> Result<(), Problem> {
    let session = entry.session()?;
    let restarted = session.namespace(namespace(&context)).restart().await;
    restarted.map_err(|error| entry.explain(error))
}

pub(super) async fn remove(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Named(context): Named<String>,
) -> Result<(), Problem> {
    let session = entry.session()?;
    let removed = session.namespace(namespace(&context)).remove().await;
    removed.map_err(|error| entry.explain(error))
}
