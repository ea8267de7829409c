//! Isolation of sessions, as clients ask for it and see it.

use belljar_sandbox::protocol::Walls;
use belljar_sandbox::{Capabilities, Capability, Engine};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, SchemaType, Type};

use crate::service::Service;
use crate::tenants::{ISOLATION_TIERS, TenantName};

/// The isolation that a client asks for.
pub(super) fn asked_schema() -> Object {
    let names = ISOLATION_TIERS.map(Walls::as_str);
    Object::builder()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .description(Some(
            "One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].",
        ))
        .enum_values(Some(names.map(Some).into_iter().chain([None])))
        .build()
}

/// The isolation that a session has.
pub(super) fn isolation_schema() -> Object {
    let names = Walls::BY_STRENGTH.map(Walls::as_str);
    Object::builder()
        .schema_type(Type::String)
        .description(Some("Isolation of the session."))
        .enum_values(Some(names))
        .build()
}

/// An isolation tier that a session may choose.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct IsolationView {
    /// Its name.
    #[schema(schema_with = isolation_schema)]
    name: &'static str,
    /// Environments that have it.
    environments: Vec<String>,
    /// What its sessions can do, by name; the rest is refused.
    capabilities: Vec<&'static str>,
}

impl IsolationView {
    /// The tiers of a tenant, the default first.
    pub(super) fn list(service: &Service, tenant: &TenantName) -> Vec<Self> {
        let default = service.engine(tenant, None, None).map(Engine::walls).ok();
        let least = service.admission.isolation.get(tenant);
        let mut tiers = service.engines.isolation();
        tiers.retain(|tier| least.is_none_or(|least| tier.is_at_least(least)));
        tiers.sort_by_key(|tier| Some(*tier) != default);
        tiers
            .into_iter()
            .map(|tier| Self::new(service, tier))
            .collect()
    }

    fn new(service: &Service, tier: Walls) -> Self {
        let engines = || {
            let engines = service.engines.iter();
            engines.filter(move |engine| engine.walls() == tier)
        };
        let capabilities = engines().next().map(Engine::capabilities);
        let capabilities = capabilities.into_iter().flat_map(Capabilities::iter);
        Self {
            name: tier.as_str(),
            environments: engines()
                .map(|engine| engine.environment().name().to_owned())
                .collect(),
            capabilities: capabilities.map(Capability::as_str).collect(),
        }
    }
}
