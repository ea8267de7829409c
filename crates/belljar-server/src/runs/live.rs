//! The runs that this service drives, for admins.

use belljar_journal::RunId;

use super::Runs;
use crate::lock::lock;
use crate::tenants::TenantName;

impl Runs {
    /// The runs of all tenants that are being driven, by their ids.
    pub(crate) fn live(&self) -> Vec<(RunId, TenantName)> {
        let driven = lock(&self.driven);
        let mut live: Vec<_> = driven
            .iter()
            .map(|(id, driven)| (id.clone(), driven.tenant.clone()))
            .collect();
        live.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        live
    }
}
