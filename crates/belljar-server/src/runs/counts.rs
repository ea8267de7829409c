//! What a node of a cluster counts, for operators.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the start.
#[derive(Debug, Default)]
pub(super) struct ClusterCounts {
    taken_over: AtomicU64,
    rejoined: AtomicU64,
}

/// This node in its cluster.
#[derive(Debug)]
pub(crate) struct InCluster {
    /// Nodes that beat, with this one.
    pub(crate) nodes: usize,
    pub(crate) may_act: bool,
    pub(crate) is_draining: bool,
    pub(crate) taken_over: u64,
    pub(crate) rejoined: u64,
}

impl ClusterCounts {
    pub(super) fn note_taken_over(&self) {
        self.taken_over.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_rejoined(&self) {
        self.rejoined.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    pub(super) fn rejoined(&self) -> u64 {
        self.rejoined.load(Ordering::Relaxed)
    }
}
