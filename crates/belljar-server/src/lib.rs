//! The service: sessions and runs over HTTP, for many tenants.
//!
//! A [`Server`] gives the sessions of one engine, and runs of the agent in them, to whoever has a key ([`Tenants`]). What can be asked
//! of it is in its OpenAPI document ([`openapi`]), which is made from the handlers themselves; why the
//! API has its shape is in `docs/adr/0022-the-service.md`.
//!
//! # What is promised
//!
//! - Nothing is answered without a key, to a page of another site, or under another name than the service's. What belongs to another tenant is answered as what is not there.
//! - What a request may cost is bounded before it costs anything: bodies, headers, time, sessions, cells,
//!   memory of the host. Who is refused is told when to come again.
//! - An answer never has a path or a text of the host in it: faults have a stable code and a page.
//! - What is told of a run is in its journal, on disk, before. Runs go on with the next start of the service.
//! - A request that has begun to change a session is carried out, even if its client hangs up.

mod accounts;
mod admission;
mod api;
mod body;
mod cells;
mod charged;
mod connection;
mod demo;
mod framing;
mod guard;
mod idempotency;
mod logins;
mod mcp;
mod metrics;
mod node;
mod offload;
mod openapi;
mod options;
mod pace;
mod peers;
mod problem;
mod run_stream;
mod runs;
mod server;
mod service;
mod sessions;
mod start_queue;
mod streams;
mod tenants;
mod tls;
mod web;
mod wire;
mod work;

pub use openapi::{openapi, openapi_admin};
pub use options::{OfferedModel, RunsOptions, ServerOptions};
pub use problem::{Code, ERRORS_PAGE};
pub use server::{Server, ServerError};
pub use tenants::{
    Amounts, AuditEvent, KeyInfo, NewKey, Quota, Scope, TenantName, Tenants, TenantsError,
};
pub use tls::{Tls, TlsError};
