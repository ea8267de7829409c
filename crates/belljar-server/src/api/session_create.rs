//! Options of a new session: what a client asks for, within what the service permits.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_sandbox::{
    AllowList, Checkpoints, Engine, HostDirectory, Limits, MAX_MOUNTS, Network, Packages,
    Requirement, SessionOptions,
};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, ArrayBuilder, Object, Schema, SchemaType, Type};

use super::isolation::asked_schema;
use super::session_views::{CheckpointPolicy, milliseconds};
use super::variables::{VariablesAsked, secrets_schema, variables_schema};
use crate::label::{LabelChange, MAX_ENTRIES, MAX_KEY, MAX_VALUE};
use crate::problem::{Code, Problem};
use crate::service::Service;
use crate::tenants::TenantName;

/// Maximum number of packages that a session lists.
const MAX_PACKAGES: usize = 100;

/// Options of a new session. Omitted fields have the service's defaults.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSession {
    /// Resource limits, at most the service's maximum.
    #[serde(default)]
    limits: LimitsAsked,
    /// When checkpoints are made.
    pub(super) checkpoints: Option<CheckpointPolicy>,
    /// Network access [default: none].
    #[serde(default)]
    pub(super) network: NetworkAsked,
    /// Packages of `# requires:` lines [default: what the service permits].
    packages: Option<PackagesAsked>,
    /// Names of directories of the host that the service offers: shown in `/data/NAME` [default: none].
    #[serde(default)]
    #[schema(schema_with = mounts_schema)]
    mounts: Vec<String>,
    /// One of the environments that the service offers.
    pub(super) environment: Option<String>,
    /// One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
    #[schema(schema_with = asked_schema)]
    pub(super) isolation: Option<String>,
    /// Name: a label, at most 100 characters.
    #[schema(max_length = 100, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    name: Option<String>,
    /// Metadata: at most 16 strings of at most 256 characters, under keys of at most 64.
    #[schema(schema_with = metadata_schema)]
    metadata: Option<BTreeMap<String, String>>,
    /// Seconds after which the session ends, used or not: its first lease [default: 0, never].
    ttl_seconds: Option<u64>,
    /// Environment variables.
    #[serde(default)]
    #[schema(schema_with = variables_schema)]
    pub(super) variables: VariablesAsked,
    /// Secrets.
    #[serde(default)]
    #[schema(schema_with = secrets_schema)]
    secrets: VariablesAsked,
}

fn mounts_schema() -> Array {
    ArrayBuilder::new()
        .description(Some(
            "Names of directories of the host that the service offers: shown in `/data/NAME` [default: none].",
        ))
        .items(Object::with_type(Type::String))
        .max_items(Some(MAX_MOUNTS))
        .build()
}

/// Bounds of metadata, which [`Label`] checks.
pub(super) fn metadata_schema() -> Object {
    let text = |least: usize, most: usize, pattern: &str| {
        let text = Object::builder().schema_type(Type::String);
        let text = text.min_length(Some(least)).max_length(Some(most));
        text.pattern(Some(pattern.to_owned())).build()
    };
    let value = text(0, MAX_VALUE, "^[^\\u0000-\\u001f\\u007f-\\u009f]*$");
    let key = text(1, MAX_KEY, "^[^=\\u0000-\\u001f\\u007f-\\u009f]+$");
    Object::builder()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .description(Some(
            "Metadata: at most 16 strings. A change replaces all of it.",
        ))
        .property_names(Some(key))
        .additional_properties(Some(Schema::from(value)))
        .max_properties(Some(MAX_ENTRIES))
        .build()
}

/// Packages that a session may install.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PackagesAsked {
    /// Names, each permitted by the service; none for no packages. Dependencies are included.
    #[serde(default)]
    #[schema(max_items = 100)]
    allow: Vec<String>,
}

/// Requested limits.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsAsked {
    /// Memory of the session, including its files, in bytes.
    #[schema(minimum = 67_108_864)]
    memory_bytes: Option<u64>,
    /// CPU limit, in thousandths of a CPU.
    #[schema(minimum = 10)]
    milli_cpus: Option<u64>,
    /// Number of processes and threads.
    #[schema(minimum = 8)]
    processes: Option<u64>,
    /// Size of the workspace, in bytes.
    #[schema(minimum = 65_536)]
    workspace_bytes: Option<u64>,
    /// Time limit of a cell, in milliseconds.
    #[schema(minimum = 1)]
    wall_time_ms: Option<u64>,
    /// CPU time limit of a cell, in milliseconds.
    #[schema(minimum = 1)]
    cpu_time_ms: Option<u64>,
}

/// Requested network access.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkAsked {
    /// Entries of the service's allow-list, exactly as listed there.
    #[serde(default)]
    pub(super) allow: Vec<String>,
}

impl CreateSession {
    /// Takes name, metadata and time to live.
    pub(super) fn label(&mut self) -> LabelChange {
        LabelChange {
            name: self.name.take(),
            metadata: self.metadata.take(),
            ttl_seconds: self.ttl_seconds,
            ..LabelChange::default()
        }
    }

    /// The options of the session, and the hosts that it may reach.
    pub(super) fn options(
        self,
        service: &Service,
        engine: &Engine,
        tenant: &TenantName,
    ) -> Result<(SessionOptions, Vec<String>), Problem> {
        offered(engine, &self.mounts)?;
        let mut options = service.session_options(tenant);
        options.variables = self.variables.variables()?;
        options.secrets = self.secrets.secrets()?;
        self.limits.take(&mut options.limits)?;
        match self.checkpoints {
            None => {}
            Some(CheckpointPolicy::Off) => options.checkpoints = Checkpoints::Off,
            Some(CheckpointPolicy::Auto) => options.checkpoints = Checkpoints::Auto,
            Some(CheckpointPolicy::Every) => options.checkpoints = Checkpoints::Every,
        }
        let allow = self.network.allow;
        options.network = Network::None;
        if !allow.is_empty() {
            let known = &service.options.allow;
            if let Some(other) = allow.iter().find(|entry| !known.contains(entry)) {
                let other: String = other.chars().take(100).collect();
                let detail = format!(
                    "`{}` is not on the service's allow-list",
                    other.escape_debug()
                );
                return Err(Problem::new(Code::NetworkNotAllowed, detail));
            }
            let list = AllowList::parse(&allow);
            let list = list.map_err(|error| Problem::internal("an allow-list", error))?;
            options.network = Network::Allow(list);
        }
        if let Some(asked) = self.packages {
            options.packages = packages(&options.packages, &asked.allow)?;
        }
        options.mounts = self.mounts;
        Ok((options, allow))
    }
}

/// Refuses a directory of the host that the service does not offer.
fn offered(engine: &Engine, mounts: &[String]) -> Result<(), Problem> {
    let names: Vec<&str> = engine
        .directories()
        .iter()
        .map(HostDirectory::name)
        .collect();
    if mounts.iter().all(|mount| names.contains(&mount.as_str())) {
        return Ok(());
    }
    let detail = match names.as_slice() {
        [] => "it offers none".to_owned(),
        names => format!("it offers {}", names.join(", ")),
    };
    Err(Problem::new(Code::MountNotOffered, detail))
}

/// The requested packages, if the service permits each of them.
fn packages(permitted: &Packages, asked: &[String]) -> Result<Packages, Problem> {
    if asked.len() > MAX_PACKAGES {
        let detail = format!("`packages.allow` must have at most {MAX_PACKAGES} names");
        return Err(Problem::new(Code::BadBody, detail));
    }
    if asked.is_empty() {
        return Ok(Packages::Deny);
    }
    for name in asked {
        if !permitted.allows(name) {
            let detail = match permitted {
                Packages::Allow(names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    format!("the service permits {}", names.join(", "))
                }
                _ => "the service permits no packages".to_owned(),
            };
            return Err(Problem::new(Code::PackageNotAllowed, detail));
        }
        let requirement: Result<Requirement, _> = name.parse();
        let is_name =
            requirement.is_ok_and(|requirement| requirement.to_string() == requirement.name());
        if !is_name {
            let detail =
                "each entry of `packages.allow` must be the name of a package, without versions";
            return Err(Problem::new(Code::BadBody, detail));
        }
    }
    Ok(Packages::allow(asked))
}

impl LimitsAsked {
    /// Lowers limits to the requested ones.
    fn take(&self, limits: &mut Limits) -> Result<(), Problem> {
        within(
            "memory_bytes",
            self.memory_bytes,
            64 << 20,
            &mut limits.memory_bytes,
        )?;
        within("milli_cpus", self.milli_cpus, 10, &mut limits.milli_cpus)?;
        within("processes", self.processes, 8, &mut limits.processes)?;
        within(
            "workspace_bytes",
            self.workspace_bytes,
            64 << 10,
            &mut limits.workspace_bytes,
        )?;
        let mut wall = milliseconds(limits.wall_time);
        within("wall_time_ms", self.wall_time_ms, 1, &mut wall)?;
        limits.wall_time = Duration::from_millis(wall);
        if self.cpu_time_ms.is_some() {
            let mut cpu = limits
                .cpu_time
                .map_or(i64::MAX.unsigned_abs(), milliseconds);
            within("cpu_time_ms", self.cpu_time_ms, 1, &mut cpu)?;
            limits.cpu_time = Some(Duration::from_millis(cpu));
        }
        Ok(())
    }
}

/// Lowers a limit to the requested one.
pub(super) fn within(
    name: &str,
    asked: Option<u64>,
    least: u64,
    limit: &mut u64,
) -> Result<(), Problem> {
    let Some(asked) = asked else {
        return Ok(());
    };
    if asked > *limit {
        let detail = format!("`{name}` must be at most {limit}");
        return Err(Problem::new(Code::LimitTooHigh, detail));
    }
    if asked < least {
        let detail = format!("`{name}` must be at least {least}");
        return Err(Problem::new(Code::BadBody, detail));
    }
    *limit = asked;
    Ok(())
}
