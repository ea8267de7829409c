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
    turns: Mutex<StartTurns<oneshot::Sender<StartPermit>>>,
}

/// Whose start is next. It does not know how they wait.
#[derive(Debug)]
pub struct StartTurns<W> {
    permits: usize,
    of_one: usize,
    taken: usize,
    taken_by: HashMap<TenantName, usize>,
    /// Who is next comes first.
    waiting: VecDeque<(TenantName, VecDeque<W>)>,
}

impl<W> StartTurns<W> {
    /// With two permits for each CPU, half of them at most for one tenant.
    pub fn new(cpus: usize) -> Self {
        Self {
            permits: 2 * cpus,
            of_one: cpus,
            taken: 0,
            taken_by: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Lets a start of this tenant wait.
    pub fn wait(&mut self, tenant: &TenantName, waiter: W) {
        match self.waiting.iter_mut().find(|(of, _)| of == tenant) {
            Some((_, queue)) => queue.push_back(waiter),
            None => self
                .waiting
                .push_back((tenant.clone(), VecDeque::from([waiter]))),
        }
    }

    /// Takes a permit for the next start, if there is one for it.
    pub fn take(&mut self) -> Option<(TenantName, W)> {
        if self.taken >= self.permits {
            return None;
        }
        let may = |tenant| {
            self.taken_by
                .get(tenant)
                .is_none_or(|taken| *taken < self.of_one)
        };
        let next = self.waiting.iter().position(|(tenant, _)| may(tenant))?;
        let (tenant, mut queue) = self.waiting.remove(next)?;
        let waiter = queue.pop_front()?;
        if !queue.is_empty() {
            self.waiting.push_back((tenant.clone(), queue));
        }
        self.taken += 1;
        *self.taken_by.entry(tenant.clone()).or_default() += 1;
        Some((tenant, waiter))
    }

    /// Gives a permit of this tenant back.
    pub fn give_back(&mut self, tenant: &TenantName) {
        self.taken -= 1;
        if let Some(taken) = self.taken_by.get_mut(tenant) {
            *taken -= 1;
            if *taken == 0 {
                self.taken_by.remove(tenant);
            }
        }
    }
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

    fn with(cpus: usize) -> Arc<Self> {
        let turns = Mutex::new(StartTurns::new(cpus));
        Arc::new(Self { turns })
    }

    /// Waits for a permit. How many wait is bounded by what they hold already: a permit for a session.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        tenant: &TenantName,
    ) -> Result<StartPermit, Problem> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.turns).wait(tenant, sender);
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
        let (tenant, sender) = lock(&self.turns).take()?;
        let queue = Arc::clone(self);
        Some((sender, StartPermit { queue, tenant }))
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        lock(&self.queue.turns).give_back(&self.tenant);
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
        let turns = lock(&queue.turns);
        assert_eq!((turns.taken, turns.taken_by.len()), (0, 0));
    }
}
