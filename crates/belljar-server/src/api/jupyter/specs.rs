//! What kernels there are, and who asks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::body::Named;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// The version of Jupyter's server whose routes these are.
const VERSION: &str = "2.21.1";

/// Names that clients ask for whatever the list says: those of the first environment.
const DEFAULT_NAMES: [&str; 2] = ["python3", "python"];

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": VERSION}))
}

pub(super) async fn me(caller: Caller) -> Json<Value> {
    let name = caller.tenant.as_str();
    Json(json!({
        "identity": {
            "username": name, "name": name, "display_name": name,
            "initials": null, "avatar_url": null, "color": null,
        },
        "permissions": {},
    }))
}

/// One specification for each environment.
pub(super) async fn list(State(service): State<Arc<Service>>) -> Json<Value> {
    let names = || service.engines.environments().into_iter().map(spec_name);
    let specs: Map<String, Value> = names().map(|name| (name.to_owned(), spec(name))).collect();
    Json(json!({"default": names().next(), "kernelspecs": specs}))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Named(name): Named<String>,
) -> Result<Json<Value>, Problem> {
    let found = environment(&service, Some(&name));
    let found = found.map_err(|problem| Problem::new(Code::RouteNotFound, problem.words()))?;
    let found = found.unwrap_or_else(|| service.engines.first().environment().name());
    Ok(Json(spec(spec_name(found))))
}

fn spec(name: &str) -> Value {
    json!({
        "name": name,
        "spec": {
            "argv": [],
            "display_name": format!("Belljar ({name})"),
            "language": "python",
            "interrupt_mode": "message",
            "env": {},
            "metadata": {"debugger": false},
        },
        "resources": {},
    })
}

/// The name of an environment on this wire. That of an interpreter is a path, which no client could ask for.
pub(super) fn spec_name(environment: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if environment.chars().all(is_name) {
        environment
    } else {
        DEFAULT_NAMES[0]
    }
}

/// The environment that a client calls by this name; none for the first one.
pub(super) fn environment<'a>(
    service: &Service,
    name: Option<&'a str>,
) -> Result<Option<&'a str>, Problem> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    match service.engines.choose(Some(name), None, None) {
        Ok(_) => Ok(Some(name)),
        Err(_) if DEFAULT_NAMES.contains(&name) => Ok(None),
        // Refused with the names that there are.
        Err(error) => Err(error.into()),
    }
}
