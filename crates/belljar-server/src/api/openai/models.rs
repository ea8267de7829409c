//! The models of the service: each is the agent with one of them.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde_json::{Value, json};

use crate::body::Named;
use crate::options::OfferedModel;
use crate::problem::{Code, Problem};
use crate::service::Service;

/// The agent with the first model.
const DEFAULT: &str = "belljar";

/// The name of the agent with a model.
pub(super) fn name(model: &str) -> String {
    format!("{DEFAULT}/{model}")
}

/// The model behind a name.
pub(super) fn find<'a>(service: &'a Service, name: &str) -> Result<&'a OfferedModel, Problem> {
    if name == DEFAULT {
        return service.runs.model(None);
    }
    let mut models = service.runs.options().models.iter();
    let found = models.find(|model| self::name(&model.name) == name);
    found.ok_or_else(|| {
        let detail = format!("it offers {}", names(service).join(", "));
        Problem::new(Code::ModelNotOffered, detail)
    })
}

fn names(service: &Service) -> Vec<String> {
    let models = &service.runs.options().models;
    let default = models.first().map(|_| DEFAULT.to_owned());
    let all = models.iter().map(|model| name(&model.name));
    default.into_iter().chain(all).collect()
}

fn view(name: &str) -> Value {
    // When a model was made is not known.
    json!({"id": name, "object": "model", "created": 0, "owned_by": "belljar"})
}

pub(super) async fn list(State(service): State<Arc<Service>>) -> JsonResponse<Value> {
    let all: Vec<_> = names(&service).iter().map(|name| view(name)).collect();
    JsonResponse(json!({"object": "list", "data": all}))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Named(name): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    find(&service, &name)?;
    Ok(JsonResponse(view(&name)))
}
