//! Names and limits of cgroups.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use belljar_walls::CgroupLimits;

use crate::limits::Limits;

/// The CPU cgroup shared by the sessions of a tenant and its template. A tenant's name may be
/// anything; two tenants with the same number share it.
pub(crate) fn group_of(tenant: &str) -> String {
    let mut hasher = DefaultHasher::new();
    tenant.hash(&mut hasher);
    format!("tenant-{:016x}", hasher.finish())
}

pub(crate) fn cgroup_limits(limits: &Limits) -> CgroupLimits {
    CgroupLimits {
        memory_bytes: limits.memory_bytes,
        processes: limits.processes,
        milli_cpus: limits.milli_cpus,
    }
}
