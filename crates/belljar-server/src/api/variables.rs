//! Environment variables and secrets in bodies of requests.

use std::collections::BTreeMap;
use std::fmt;

use belljar_sandbox::{SecretGrant, Secrets, Variables};
use serde::Deserialize;
use utoipa::openapi::schema::{Object, Schema, SchemaType, Type};

use crate::problem::Problem;

/// Names and values. The values are not printed.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct VariablesAsked(pub(super) BTreeMap<String, String>);

impl VariablesAsked {
    pub(super) fn variables(self) -> Result<Variables, Problem> {
        Ok(Variables::new(self.0).map_err(belljar_sandbox::Error::from)?)
    }

    pub(super) fn secrets(self) -> Result<Secrets, Problem> {
        Ok(Secrets::new(self.0).map_err(belljar_sandbox::Error::from)?)
    }
}

impl fmt::Debug for VariablesAsked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// What the engine checks of variables.
pub(super) fn variables_schema() -> Object {
    schema(0, "Environment variables by name; some names are reserved.")
}

/// What the engine checks of secrets.
pub(super) fn secrets_schema() -> Object {
    schema(
        8,
        "Secrets by name: environment variables that are stored nowhere, and replaced by `[secret NAME]` in output. \
         Values of at least 8 bytes.",
    )
}

fn schema(least: usize, description: &str) -> Object {
    let value = Object::builder().schema_type(Type::String);
    let value = value.min_length(Some(least)).pattern(Some("^[^\\u0000]*$"));
    let name = Object::builder().schema_type(Type::String);
    let name = name
        .max_length(Some(128))
        .pattern(Some("^[A-Za-z_][A-Za-z0-9_]*$"));
    Object::builder()
        .schema_type(SchemaType::from_iter([Type::Object]))
        .description(Some(description))
        .property_names(Some(name.build()))
        .additional_properties(Some(Schema::from(value.build())))
        .max_properties(Some(64))
        .build()
}

/// Which secrets forks get, by name; `*` for all.
pub(super) fn grant(names: Vec<String>) -> SecretGrant {
    match names.as_slice() {
        [] => SecretGrant::None,
        [all] if all == "*" => SecretGrant::All,
        _ => SecretGrant::Only(names),
    }
}
