//! The start queue: tenants in turn, however often each one asks.
//!
//! Starting sessions takes CPU time of the service itself and of processes that all sessions share. The kernel can't
//! divide it among tenants as it divides that of cells. So there are two concurrent starts for each CPU, and at most
//! half of them for one tenant: no tenant waits for another one's flood.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::lock::lock;
use crate::problem::Problem;
use crate::tenants::TenantName;

#[derive(Debug)]
pub(crate) struct StartQueue {
    permits: usize,
    of_one: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    taken: usize,
    taken_by: HashMap<TenantName, usize>,
    /// Who is next comes first.
    waiting: VecDeque<(TenantName, VecDeque<oneshot::Sender<StartPermit>>)>,
}

/// A turn that lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct StartPermit {
    queue: Arc<StartQueue>,
    tenant: TenantName,
}

impl StartQueue {
    pub(crate) fn new() -> Arc<Self> {
        let cpus = std::thread::available_parallelism();
        Self::with(cpus.map_or(2, std::num::NonZero::get))
    }

    fn with(of_one: usize) -> Arc<Self> {
        Arc::new(Self {
            permits: 2 * of_one,
            of_one,
            state: Mutex::default(),
        })
    }

    /// Waits for a permit. How many wait is bounded by what they hold already: a permit for a session.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        tenant: &TenantName,
    ) -> Result<StartPermit, Problem> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            match state.waiting.iter_mut().find(|(of, _)| of == tenant) {
                Some((_, queue)) => queue.push_back(sender),
                None => state
                    .waiting
                    .push_back((tenant.clone(), VecDeque::from([sender]))),
            }
        }
        self.admit_waiting();
        let permit = receiver.await;
        permit.map_err(|error| Problem::internal("a start permit", error))
    }

    fn admit_waiting(self: &Arc<Self>) {
        while let Some((sender, permit)) = self.next() {
            // Who no longer waits gives its turn back by this.
            drop(sender.send(permit));
        }
    }

    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<StartPermit>, StartPermit)> {
        let mut state = lock(&self.state);
        if state.taken >= self.permits {
            return None;
        }
        let may = |tenant| {
            state
                .taken_by
                .get(tenant)
                .is_none_or(|taken| *taken < self.of_one)
        };
        let next = state.waiting.iter().position(|(tenant, _)| may(tenant))?;
        let (tenant, mut queue) = state.waiting.remove(next)?;
        let sender = queue.pop_front()?;
        if !queue.is_empty() {
            state.waiting.push_back((tenant.clone(), queue));
        }
        state.taken += 1;
        *state.taken_by.entry(tenant.clone()).or_default() += 1;
        let queue = Arc::clone(self);
        Some((sender, StartPermit { queue, tenant }))
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.queue.state);
            state.taken -= 1;
            if let Some(taken) = state.taken_by.get_mut(&self.tenant) {
                *taken -= 1;
                if *taken == 0 {
                    state.taken_by.remove(&self.tenant);
                }
            }
        }
        self.queue.admit_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tenant waits for itself, the others take turns.
    #[tokio::test]
    async fn tenants_take_turns() {
        let queue = StartQueue::with(2);
        let name = |text: &str| text.parse::<TenantName>().unwrap();
        let (order, mut done) = tokio::sync::mpsc::unbounded_channel();
        let mut held = Vec::new();
        for tenant in ["a", "a", "z", "z"] {
            held.push(queue.acquire(&name(tenant)).await.unwrap());
        }
        for tenant in ["a", "a", "a", "b", "b", "c"] {
            let (queue, order, tenant) = (Arc::clone(&queue), order.clone(), name(tenant));
            tokio::spawn(async move {
                let permit = queue.acquire(&tenant).await.unwrap();
                order.send(tenant.to_string()).unwrap();
                permit
            });
            tokio::task::yield_now().await;
        }
        // One permit is free now, and not for `a`.
        held.pop();
        let mut all = String::new();
        for _ in 0..3 {
            all.push_str(&done.recv().await.unwrap());
        }
        assert_eq!(all, "bcb");
        drop(held);
        for _ in 0..3 {
            all.push_str(&done.recv().await.unwrap());
        }
        assert_eq!(all, "bcbaaa");
        tokio::task::yield_now().await;
        let state = lock(&queue.state);
        assert_eq!((state.taken, state.taken_by.len()), (0, 0));
    }
}
