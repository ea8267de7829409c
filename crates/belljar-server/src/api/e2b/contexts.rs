//! Contexts of code: the namespace of the session is the only one. All that this wire does with others is here.

use axum::Json as JsonResponse;
use serde::{Deserialize, Serialize};

use super::errors::not_supported;
use super::filesystem::HOME;
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};

/// The id of the namespace of the session.
const DEFAULT: &str = "default";

#[derive(Serialize)]
pub(super) struct ContextView {
    id: &'static str,
    language: &'static str,
    cwd: &'static str,
}

#[derive(Deserialize)]
pub(super) struct NewContext {
    language: Option<String>,
}

/// The source of a cell: what runs in a context, or in the shell of the session.
pub(super) fn source(
    code: String,
    context: Option<&str>,
    language: Option<&str>,
) -> Result<String, Problem> {
    if let Some(context) = context {
        check(context)?;
    }
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

fn check(context: &str) -> Result<(), Problem> {
    if context == DEFAULT {
        return Ok(());
    }
    let detail = "there is no such context; the only one is `default`";
    Err(Problem::new(Code::SessionNotFound, detail))
}

pub(super) async fn list() -> JsonResponse<Vec<ContextView>> {
    JsonResponse(vec![ContextView {
        id: DEFAULT,
        language: "python",
        cwd: HOME,
    }])
}

pub(super) async fn create(Json(asked): Json<NewContext>) -> Problem {
    match asked.language.as_deref() {
        None | Some("python") => not_supported(
            "a sandbox has one context, `default`; create a sandbox for each namespace, or fork this one",
        ),
        Some(other) => no_language(other),
    }
}

pub(super) async fn restart(Named(context): Named<String>) -> Result<(), Problem> {
    check(&context)?;
    let detail = "the context `default` cannot be restarted; create another sandbox";
    Err(not_supported(detail))
}

pub(super) async fn remove(Named(context): Named<String>) -> Result<(), Problem> {
    check(&context)?;
    let detail = "the context `default` cannot be removed";
    Err(Problem::new(Code::BadRequest, detail))
}
