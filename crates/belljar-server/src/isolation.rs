//! The isolation of sessions: which engine a request gets, and the least that a tenant may have.

use std::collections::HashMap;
use std::sync::Mutex;

use belljar_sandbox::NotOffered;
use belljar_sandbox::protocol::Walls;

use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;

/// The least isolation of each tenant that has one.
#[derive(Debug, Default)]
pub(crate) struct LeastIsolation(Mutex<HashMap<TenantName, Walls>>);

impl LeastIsolation {
    pub(crate) fn set(&self, all: HashMap<TenantName, Walls>) {
        *lock(&self.0) = all;
    }

    pub(crate) fn get(&self, tenant: &TenantName) -> Option<Walls> {
        lock(&self.0).get(tenant).copied()
    }

    /// Refuses code of a tenant behind weaker walls than its least.
    pub(crate) fn check(&self, tenant: &TenantName, isolation: Walls) -> Result<(), Problem> {
        match self.get(tenant) {
            Some(least) if !isolation.is_at_least(least) => {
                let (isolation, least) = (isolation.as_str(), least.as_str());
                let detail = format!("it is `{isolation}`, and must be at least `{least}`");
                Err(Problem::new(Code::IsolationTooWeak, detail))
            }
            _ => Ok(()),
        }
    }
}

impl From<NotOffered> for Problem {
    fn from(error: NotOffered) -> Self {
        match error {
            NotOffered::Environment(names) => {
                let detail = format!("it offers {}", names.join(", "));
                Self::new(Code::EnvironmentNotOffered, detail)
            }
            NotOffered::Isolation {
                environment,
                offered,
            } => {
                let offered = offered.join(", ");
                let detail = format!("it offers {offered} for environment `{environment}`");
                Self::new(Code::IsolationNotOffered, detail)
            }
            NotOffered::TooWeak { .. } => Self::new(Code::IsolationTooWeak, error.to_string()),
            error => Self::internal("an unknown refusal", error),
        }
    }
}
