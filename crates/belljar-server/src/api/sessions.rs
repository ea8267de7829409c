//! `/v1/sessions`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use belljar_sandbox::{
    AllowList, Checkpoints, Engine, HostDirectory, Limits, Network, Packages, Requirement,
    SessionOptions, SessionUse,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;
use utoipa::openapi::schema::{Object, Schema, SchemaType, Type};
use utoipa::{IntoParams, ToSchema};

use super::lease::LeaseView;
use super::variables::{VariablesAsked, secrets_schema, variables_schema};
use crate::body::{Json, Named, Query};
use crate::label::{Label, LabelChange, LabelFilter, LeaseEnd, MAX_ENTRIES, MAX_KEY, MAX_VALUE};
use crate::node::hex;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::{NewSession, SessionEntry};
use crate::tenants::TenantName;

/// Default and maximum number of entries of a page.
const PAGE: usize = 50;
const MAX_PAGE: usize = 200;

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
    checkpoints: Option<CheckpointPolicy>,
    /// Network access [default: none].
    #[serde(default)]
    network: NetworkAsked,
    /// Packages of `# requires:` lines [default: what the service permits].
    packages: Option<PackagesAsked>,
    /// Names of directories of the host that the service offers: shown in `/data/NAME` [default: none].
    #[serde(default)]
    #[schema(max_items = 16)]
    mounts: Vec<String>,
    /// One of the environments that the service offers.
    environment: Option<String>,
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
    variables: VariablesAsked,
    /// Secrets.
    #[serde(default)]
    #[schema(schema_with = secrets_schema)]
    secrets: VariablesAsked,
}

/// Requested changes of a session. Omitted fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateSession {
    /// Name; empty for none.
    #[schema(max_length = 100, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    name: Option<String>,
    /// Metadata, instead of all that there is.
    #[schema(schema_with = metadata_schema)]
    metadata: Option<BTreeMap<String, String>>,
    /// Seconds from now after which the session ends; 0 for never.
    ttl_seconds: Option<u64>,
}

/// Bounds of metadata, which [`Label`] checks.
fn metadata_schema() -> Object {
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

/// When checkpoints of a session are made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckpointPolicy {
    /// Only on request.
    Off,
    /// After each cell, in the background.
    Auto,
    /// After each cell, before its outcome is returned.
    Every,
}

/// Requested network access.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkAsked {
    /// Entries of the service's allow-list, exactly as listed there.
    #[serde(default)]
    allow: Vec<String>,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    id: String,
    /// Creation time, in seconds since 1970.
    created_at: u64,
    state: SessionState,
    /// Whether a cell is running.
    busy: bool,
    /// Number of the last started cell.
    cells: u32,
    /// Environment of the session.
    environment: String,
    limits: LimitsView,
    checkpoints: CheckpointPolicy,
    /// Hosts that the session may reach.
    allow: Vec<String>,
    packages: PackagesView,
    /// Directories of the host, in `/data/NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<String>,
    /// Names of its environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<String>,
    /// Names of its secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    /// When the session ends by itself, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// Its lease, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseView>,
    /// Id of the session that this is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<String>,
    /// Why a restart of the service lost the session, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_because: Option<String>,
    /// Current resource use. Only for a single, awake session; not part of the `ETag`.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    in_use: Option<UseView>,
}

/// Package policy of a session.
#[derive(Debug, Serialize, ToSchema)]
struct PackagesView {
    policy: PackagePolicy,
    /// The permitted names, if the policy is `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
}

/// Which packages a session may install.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PackagePolicy {
    /// None.
    Deny,
    /// The listed ones.
    Allow,
    /// Any.
    Any,
}

impl PackagesView {
    fn new(packages: &Packages) -> Self {
        let (policy, allow) = match packages {
            Packages::Deny => (PackagePolicy::Deny, Vec::new()),
            Packages::Any => (PackagePolicy::Any, Vec::new()),
            Packages::Allow(names) => (PackagePolicy::Allow, names.iter().cloned().collect()),
        };
        Self { policy, allow }
    }
}

/// Resource use of a session, including its checkpoints.
#[derive(Debug, Serialize, ToSchema)]
struct UseView {
    /// Memory of the session, including its files, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// CPU time since the session started or woke, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
}

impl From<SessionUse> for UseView {
    fn from(used: SessionUse) -> Self {
        Self {
            memory_bytes: used.memory_bytes,
            cpu_ms: used.cpu_time.map(milliseconds),
            processes: used.processes,
        }
    }
}

/// State of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SessionState {
    /// Live.
    Awake,
    /// Hibernated: a snapshot that wakes at the next use.
    Hibernated,
    /// Ended: its processes are gone.
    Ended,
}

/// Limits of a session.
#[derive(Debug, Serialize, ToSchema)]
struct LimitsView {
    memory_bytes: u64,
    milli_cpus: u64,
    processes: u64,
    workspace_bytes: u64,
    wall_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time_ms: Option<u64>,
    transfer_bytes: u64,
}

impl SessionView {
    pub(super) fn from_entry(entry: &SessionEntry) -> Self {
        let limits = &entry.options.limits;
        let label = entry.label();
        Self {
            id: entry.id.clone(),
            created_at: seconds(entry.created),
            state: match entry.session() {
                _ if entry.is_hibernated() => SessionState::Hibernated,
                Ok(_) => SessionState::Awake,
                Err(_) => SessionState::Ended,
            },
            lost_because: entry.why_lost(),
            busy: entry.is_busy(),
            cells: entry.last_cell(),
            environment: entry.environment.clone(),
            limits: LimitsView {
                memory_bytes: limits.memory_bytes,
                milli_cpus: limits.milli_cpus,
                processes: limits.processes,
                workspace_bytes: limits.workspace_bytes,
                wall_time_ms: milliseconds(limits.wall_time),
                cpu_time_ms: limits.cpu_time.map(milliseconds),
                transfer_bytes: limits.transfer_bytes,
            },
            checkpoints: match entry.options.checkpoints {
                Checkpoints::Off => CheckpointPolicy::Off,
                Checkpoints::Auto => CheckpointPolicy::Auto,
                Checkpoints::Every => CheckpointPolicy::Every,
            },
            allow: entry.allow.clone(),
            packages: PackagesView::new(&entry.options.packages),
            mounts: entry.options.mounts.clone(),
            variables: entry.options.variables.as_map().keys().cloned().collect(),
            secrets: entry.options.secrets.names().map(str::to_owned).collect(),
            lease: LeaseView::from_label(&label),
            expires_at: label
                .expires
                .filter(|_| label.then == LeaseEnd::End)
                .map(seconds),
            name: label.name,
            metadata: label.metadata,
            forked_from: entry.forked_from.clone(),
            in_use: None,
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionPage {
    sessions: Vec<SessionView>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageAsked {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsAsked {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Only sessions of this name.
    name: Option<String>,
    /// Only sessions with this metadata: `KEY=VALUE`.
    metadata: Option<String>,
}

impl PageAsked {
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(PAGE);
        if (1..=MAX_PAGE).contains(&limit) {
            return Ok(limit);
        }
        let detail = format!("`limit` must be from 1 to {MAX_PAGE}");
        Err(Problem::new(Code::BadQuery, detail))
    }

    /// What was put into the cursor.
    pub(super) fn cursor(&self) -> Result<Option<Vec<u8>>, Problem> {
        let decoded = self.cursor.as_ref().map(|cursor| BASE64.decode(cursor));
        decoded.transpose().map_err(|_| no_cursor())
    }
}

pub(super) fn cursor(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn no_cursor() -> Problem {
    Problem::new(Code::BadQuery, "`cursor` is not a cursor of this service")
}

/// Lists sessions, oldest first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions", params(SessionsAsked),
    responses((status = 200, description = "A page of sessions.", body = SessionPage))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<SessionsAsked>,
) -> Result<JsonResponse<SessionPage>, Problem> {
    let filter = LabelFilter::new(asked.name, asked.metadata.as_deref())?;
    let page = PageAsked {
        limit: asked.limit,
        cursor: asked.cursor,
    };
    let limit = page.limit()?;
    let after = match page.cursor()? {
        None => 0,
        Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| no_cursor())?),
    };
    let sessions = &service.sessions;
    let mut found = sessions.list(&caller.tenant, &filter, after, limit + 1);
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found
        .last()
        .map(|entry| cursor(&entry.number.to_be_bytes()));
    Ok(JsonResponse(SessionPage {
        sessions: found
            .iter()
            .map(|entry| SessionView::from_entry(entry))
            .collect(),
        next_cursor: last.filter(|_| more),
    }))
}

/// Starts a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "create_session",
    request_body = CreateSession,
    responses((status = 201, description = "The session.", body = SessionView))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(mut asked): Json<CreateSession>,
) -> Result<Response, Problem> {
    let engine = service.engine(asked.environment.as_deref())?;
    let label = LabelChange {
        name: asked.name.take(),
        metadata: asked.metadata.take(),
        ttl_seconds: asked.ttl_seconds,
        then: LeaseEnd::End,
    };
    let label = label.within(service.options.max_lease)?;
    // Its time begins with the session; here it is only checked.
    Label::default().change(label.clone(), SystemTime::now())?;
    offered(engine, &asked.mounts)?;
    let (options, allow) = options(&service, &caller.tenant, asked)?;
    let permit = one_permit(&service, &caller, &options)?;
    let start = service.start_queue.acquire(&caller.tenant).await?;
    let started = engine.session_with(options.clone());
    let session = started.instrument(tracing::info_span!("start_session"));
    let session = session.await?;
    drop(start);
    let new = NewSession {
        tenant: caller.tenant,
        options,
        allow,
        environment: engine.environment().name().to_owned(),
        label: Label::default().change(label, SystemTime::now())?,
        forked_from: None,
        cells: 0,
    };
    let entry = service.sessions.hold(session, permit, new)?;
    Ok(created(&entry))
}

/// Shows a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(
        ("id" = String, Path, description = "The session."),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of an earlier response; 304 if nothing \
         has changed."),
    ),
    responses(
        (status = 200, description = "The session.", body = SessionView),
        (status = 304, description = "Not modified."),
    )
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let mut view = SessionView::from_entry(&entry);
    let told = serde_json::to_vec(&view);
    let told = told.map_err(|error| Problem::internal("a session", error))?;
    let tag = format!("\"{}\"", hex(&Sha256::digest(&told)[..12]));
    let known = headers.get(header::IF_NONE_MATCH);
    let same = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if same {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        view.in_use = in_use(&entry).await;
        JsonResponse(view).into_response()
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Changes name, metadata or time to live of a session.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "update_session",
    params(("id" = String, Path, description = "The session.")),
    request_body = UpdateSession,
    responses((status = 200, description = "The session.", body = SessionView))
)]
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<UpdateSession>,
) -> Result<JsonResponse<SessionView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    entry.session()?;
    let change = LabelChange {
        name: asked.name,
        metadata: asked.metadata,
        ttl_seconds: asked.ttl_seconds,
        then: LeaseEnd::End,
    };
    entry.relabel(change.within(service.options.max_lease)?)?;
    Ok(JsonResponse(SessionView::from_entry(&entry)))
}

/// Resource use of a session. The kernel counts on request, which is slow with many sessions.
async fn in_use(entry: &SessionEntry) -> Option<UseView> {
    let session = entry.session().ok()?;
    let used = tokio::task::spawn_blocking(move || session.in_use());
    used.await.ok().flatten().map(UseView::from)
}

/// Deletes a session and ends its processes.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "delete_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 204, description = "Deleted."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.remove(&caller.tenant, &id)?;
    entry.close().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a cell was interrupted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Interrupted {
    /// False if no cell was running.
    pub(super) interrupted: bool,
}

/// Interrupts the running cell, like Ctrl-C; variables are kept.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interrupt", tag = "sessions", operation_id = "interrupt_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "Whether a cell was running.", body = Interrupted))
)]
pub(super) async fn interrupt(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<JsonResponse<Interrupted>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let interrupted = entry.session()?.interrupt();
    Ok(JsonResponse(Interrupted { interrupted }))
}

/// A body without fields, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The response to the client that started a session.
pub(super) fn created(entry: &SessionEntry) -> Response {
    let location = HeaderValue::try_from(format!("/v1/sessions/{}", entry.id));
    let view = JsonResponse(SessionView::from_entry(entry));
    let mut response = (StatusCode::CREATED, view).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

pub(super) fn one_permit(
    service: &Service,
    caller: &Caller,
    options: &SessionOptions,
) -> Result<crate::admission::Permit, Problem> {
    let memory = options.limits.memory_bytes;
    let mut permits = service.admission.sessions(&caller.tenant, 1, memory)?;
    permits
        .pop()
        .ok_or_else(|| Problem::internal("no session permit", "there is none"))
}

fn options(
    service: &Service,
    tenant: &TenantName,
    asked: CreateSession,
) -> Result<(SessionOptions, Vec<String>), Problem> {
    let mut options = service.session_options(tenant);
    options.variables = asked.variables.variables()?;
    options.secrets = asked.secrets.secrets()?;
    asked.limits.take(&mut options.limits)?;
    match asked.checkpoints {
        None => {}
        Some(CheckpointPolicy::Off) => options.checkpoints = Checkpoints::Off,
        Some(CheckpointPolicy::Auto) => options.checkpoints = Checkpoints::Auto,
        Some(CheckpointPolicy::Every) => options.checkpoints = Checkpoints::Every,
    }
    let allow = asked.network.allow;
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
    if let Some(asked) = asked.packages {
        options.packages = packages(&options.packages, &asked.allow)?;
    }
    options.mounts = asked.mounts;
    Ok((options, allow))
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

pub(super) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
