//! The decisions of a node, for simulations of many nodes.
//!
//! It is the code that a service runs: which node takes a session, what a tenant may have, whose start is next. Only the
//! clock and the memory of the host are passed in. `examples/fleet` is the simulator, and `docs/scale.md` has its
//! figures. A service needs nothing of this.

use std::sync::Arc;
use std::time::Instant;

use belljar_journal::NodeLoad;
use belljar_sandbox::HostMemory;
use belljar_sandbox::protocol::Walls;

use crate::admission::{Admission, Moment, Permit, memory_at_first};
pub use crate::moving::LOOK as REPORT_INTERVAL;
use crate::options::ServerOptions;
pub use crate::placement::{Placement, place};
use crate::problem::{Code, Problem};
pub use crate::runs::{AGAIN as CLAIM_INTERVAL, CLAIM as MOST_CLAIMED};
pub use crate::start_queue::StartTurns;
use crate::tenants::TenantName;

/// What one node admits.
#[derive(Debug)]
pub struct NodeAdmission {
    admission: Arc<Admission>,
    session_memory: u64,
}

/// Permits, held until this is dropped.
#[derive(Debug)]
pub struct HeldPermits {
    permits: Vec<Permit>,
}

/// Why something was not admitted.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The code that a client sees.
    pub code: Code,
    /// `Retry-After`, in seconds. Nothing if the same request would fail again.
    pub retry_after: Option<u32>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            code: problem.code,
            retry_after: problem.retry_after(),
        }
    }
}

impl NodeAdmission {
    /// Of a node with these options, and nothing on it.
    pub fn new(options: &ServerOptions) -> Self {
        Self {
            admission: Admission::new(options),
            session_memory: options.session.limits.memory_bytes,
        }
    }

    /// Memory that placement counts with for a session.
    pub fn first_memory(&self) -> u64 {
        memory_at_first(Walls::Full, self.session_memory)
    }

    /// What the node reports.
    pub fn load(&self, now: Instant, memory: HostMemory) -> NodeLoad {
        let memory = Some(memory);
        self.admission.load_at(Moment { now, memory })
    }

    /// Admits a session, or refuses it.
    pub fn session(
        &self,
        tenant: &TenantName,
        now: Instant,
        memory: HostMemory,
    ) -> Result<HeldPermits, Refusal> {
        let memory = Some(memory);
        let at = Moment { now, memory };
        let permits =
            self.admission
                .sessions_at(at, tenant, 1, self.session_memory, Walls::Full)?;
        Ok(HeldPermits { permits })
    }

    /// Admits a run with its session, or refuses both.
    pub fn run(
        &self,
        tenant: &TenantName,
        now: Instant,
        memory: HostMemory,
    ) -> Result<HeldPermits, Refusal> {
        let run = self.admission.run(tenant)?;
        let mut held = self.session(tenant, now, memory)?;
        held.permits.push(run);
        Ok(held)
    }

    /// Holds a session that was admitted before.
    pub fn adopt(&self, tenant: &TenantName) -> HeldPermits {
        let permit = self.admission.adopt(tenant, self.session_memory);
        HeldPermits {
            permits: vec![permit],
        }
    }

    /// How many more runs the node takes.
    pub fn free_runs(&self, now: Instant, memory: HostMemory) -> usize {
        let memory = Some(memory);
        let at = Moment { now, memory };
        self.admission.free_runs_at(at, self.first_memory())
    }
}
