//! The OpenAPI document: paths from the handlers, types of the protocol from their JSON Schema.

use belljar_agent::{
    Approval, Budget, Evidence, ExitReason, Policy, Reproduction, RunEvent, Spent,
};
use belljar_sandbox::protocol::{
    Artifact, ColumnStatistics, Event, Language, NameInfo, Outcome, TableFilter, TableRows,
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::api;
use crate::api::watch::FileEventView;
use crate::commands::CommandEvent;
use crate::problem::ProblemBody;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Belljar",
        description = "Live, isolated Python sessions and agent runs over HTTP.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "http://127.0.0.1:7878")),
    security(("key" = [])),
    components(schemas(ProblemBody)),
    tags(
        (name = "sessions", description = "Live Python interpreters, each with a workspace."),
        (name = "cells", description = "Code that runs in a session, one cell after another."),
        (name = "namespaces", description = "Global names of cells; a session has one or several."),
        (name = "variables", description = "Tables that names of a session are bound to, read by parts."),
        (name = "commands", description = "Programs that run in a session beside its cells."),
        (name = "checkpoints", description = "Checkpoints and forks of a live session."),
        (name = "snapshots", description = "Snapshots of sessions; hibernating and waking."),
        (name = "ports", description = "Programs of a session that listen, on host names of their own."),
        (name = "files", description = "Files of a session's workspace."),
        (name = "runs", description = "Agents that work on a task, each in its own session."),
        (name = "shared", description = "Read-only views of runs, for whoever has a share link."),
        (name = "keys", description = "The key of the client; login of browsers.")
    )
)]
struct Document;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Belljar admin API",
        description = "Tenants, keys, quotas and audit log of a service, on its admin address.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "http://127.0.0.1:7879")),
    security(("key" = [])),
    components(schemas(ProblemBody)),
    tags(
        (name = "service", description = "State of the service."),
        (name = "tenants", description = "Tenants, their quotas and their use."),
        (name = "keys", description = "API keys of tenants."),
        (name = "sessions", description = "The live sessions of all tenants."),
        (name = "runs", description = "The live runs of all tenants."),
        (name = "audit", description = "The audit log.")
    )
)]
struct AdminDocument;

/// The OpenAPI 3.1 document of the admin API, as in `docs/openapi-admin.json`.
pub fn openapi_admin() -> Value {
    let mut document = AdminDocument::openapi();
    document.merge(api::admin::document());
    let mut document = with_keys(document);
    say_what_holds_for_all(&mut document);
    document
}

/// The document, with what a key is.
fn with_keys(mut document: utoipa::openapi::OpenApi) -> Value {
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let bearer = bearer.description(Some("API key: `bj_PREFIX_SECRET`."));
    components.add_security_scheme("key", SecurityScheme::Http(bearer.build()));
    // There is nothing in it that can't be written.
    serde_json::to_value(document).unwrap_or_default()
}

/// The OpenAPI 3.1 document of the service, as in `docs/openapi.json`.
pub fn openapi() -> Value {
    let mut document = Document::openapi();
    document.merge(api::document());
    let mut document = with_keys(document);
    document["components"]["securitySchemes"]["share"] = json!({
        "type": "http", "scheme": "bearer", "description": "Token of a share link: `bjs_ID_SECRET`."
    });

    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    generator.subschema_for::<Outcome>();
    generator.subschema_for::<Event>();
    generator.subschema_for::<CommandEvent>();
    generator.subschema_for::<FileEventView>();
    generator.subschema_for::<NameInfo>();
    generator.subschema_for::<TableRows>();
    generator.subschema_for::<TableFilter>();
    generator.subschema_for::<ColumnStatistics>();
    generator.subschema_for::<RunEvent>();
    generator.subschema_for::<Approval>();
    generator.subschema_for::<Artifact>();
    generator.subschema_for::<Budget>();
    generator.subschema_for::<Evidence>();
    generator.subschema_for::<ExitReason>();
    generator.subschema_for::<Language>();
    generator.subschema_for::<Policy>();
    generator.subschema_for::<Reproduction>();
    generator.subschema_for::<Spent>();
    let types = generator.take_definitions(true);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.extend(types);
        schemas.sort_keys();
        // Variants refuse unknown fields too, which the derived schema says of structures alone.
        let variants = schemas["DecisionAsked"]["oneOf"].as_array_mut();
        for variant in variants.into_iter().flatten() {
            variant["additionalProperties"] = false.into();
        }
    }
    say_what_holds_for_all(&mut document);
    document
}

/// What is so for every operation, and is not said again at each handler.
fn say_what_holds_for_all(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let Some(paths) = document["paths"].as_object_mut() else {
        return;
    };
    // A path of several parts is the router's way to say it.
    *paths = std::mem::take(paths)
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    for (method, operation) in paths
        .values_mut()
        .filter_map(Value::as_object_mut)
        .flatten()
    {
        operation["responses"]["default"] = json!({
            "description": "A problem.",
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
        });
        let stream = "/responses/200/content/text~1event-stream";
        if let Some(stream) = operation.pointer_mut(stream) {
            let schema = stream["schema"]["$ref"].as_str().unwrap_or_default();
            stream["schema"] = match schema.rsplit('/').next() {
                Some("CommandEvent") => {
                    one_of(schema, "Position after the event, in bytes of the output.")
                }
                Some("FileEvent") => one_of(schema, "Number of the event, from 1."),
                _ => one_of_a_stream(),
            };
        }
        if method == "get" {
            continue;
        }
        if operation.get("security").is_some() {
            // What needs no key is nobody's, and its answer is kept for nobody.
            continue;
        }
        let key = json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Repeating a request with the same key returns the first response again.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255}
        });
        match operation["parameters"].as_array_mut() {
            Some(parameters) => parameters.push(key),
            None => operation["parameters"] = json!([key]),
        }
        let body = &mut operation["requestBody"];
        let contents = body.get_mut("content").and_then(Value::as_object_mut);
        for (kind, content) in contents.into_iter().flatten() {
            if kind != "application/json" {
                // Raw bytes, which `Vec<u8>` would show as an array of numbers.
                content["schema"] = json!({"type": "string", "format": "binary"});
            }
        }
        if !body["content"]["application/octet-stream"].is_null() {
            // No body is an empty file.
            body["required"] = false.into();
        }
        if let Some(name) = body["content"]["application/json"]["schema"]["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap_or(name);
            // Without a body, every field is left out.
            body["required"] = schemas[name].get("required").is_some().into();
        } else if body.is_null() {
            operation
                .as_object_mut()
                .map(|fields| fields.remove("requestBody"));
        }
    }
}

/// An event as it stands in a stream: what it says is JSON within a line.
fn one_of_a_stream() -> Value {
    json!({
        "type": "object",
        "description": "An event; `fault` replaces the outcome if the service failed.",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "Number of the event, from 1."},
            "event": {"type": "string", "description": "`type` of the event, or `fault`."},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/Event"},
                        {"$ref": "#/components/schemas/Problem"}
                    ]
                }
            }
        }
    })
}

/// The same of a stream that has events of one type alone.
fn one_of(schema: &str, id: &str) -> Value {
    json!({
        "type": "object",
        "description": "An event.",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": id},
            "event": {"type": "string", "description": "`type` of the event."},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": schema}
            }
        }
    })
}
