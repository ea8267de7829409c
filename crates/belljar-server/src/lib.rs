//! The service: sessions and runs over HTTP, for many tenants.
//!
//! A [`Server`] gives the sessions of one engine, and runs of the agent in them, to whoever has a key
//! ([`Tenants`]). Its OpenAPI document ([`openapi`]) is generated from the handlers; the reasons for
//! the API's shape are in `docs/adr/0022-the-service.md`.
//!
//! # Guarantees
//!
//! - Every request needs a key, the service's own host name, and no page of another site as its origin. Resources of
//!   another tenant are "not found".
//! - The cost of a request is limited in advance: bodies, headers, time, sessions, cells, memory of the host. A refusal
//!   says when to retry.
//! - A response never has a path or a message of the host in it: faults have a stable code and a page.
//! - Events of a run are in its journal, on disk, before clients see them. Runs resume at the next start of the service.
//! - A request that has begun to change a session is completed, even if its client disconnects.

mod accounts;
mod admission;
mod api;
mod body;
mod cell_record;
mod cells;
mod charged;
mod commands;
mod connection;
mod credentials;
mod demo;
mod error;
mod forward;
mod framing;
mod gather;
mod guard;
mod handover;
mod hop;
mod idempotency;
mod import;
mod isolation;
mod kept_cells;
mod kernels;
mod key_nodes;
mod label;
mod listener;
mod lock;
mod logins;
mod mcp;
mod metrics;
mod moving;
mod new_session;
mod node;
mod node_clients;
mod notebook;
mod object_snapshots;
mod offload;
mod openapi;
mod options;
mod pace;
mod pass_on;
mod peers;
mod placement;
mod port_access;
mod ports;
mod problem;
mod requests;
mod run_stream;
mod runs;
mod sandbox_tokens;
mod server;
mod service;
mod sessions;
pub mod simulation;
mod start_queue;
mod starting_memory;
mod streams;
mod tenants;
mod tls;
mod uploads;
mod web;
mod wire;
mod work;

pub use error::ServerError;
pub use import::{Imported, import};
pub use openapi::{openapi, openapi_admin};
pub use options::{ClusterOptions, OfferedModel, RunsOptions, ServerOptions};
pub use problem::{Code, ERRORS_PAGE};
pub use server::Server;
pub use tenants::{
    Amounts, AuditEvent, ISOLATION_TIERS, KeyInfo, NewKey, Quota, Scope, TenantName, Tenants,
    TenantsError, parse_isolation,
};
pub use tls::{Tls, TlsError};
