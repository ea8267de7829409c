//! The start queue: tenants in turn, however often each one asks.
//!
//! Starting sessions takes CPU time of the service itself and of processes that all sessions share. The kernel can't
//! divide it among tenants as it divides that of cells. So there are two concurrent starts for each CPU, and at most
//! half of them for one tenant: no tenant waits for another one's flood.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::sessions::lock;
use crate::tenants::TenantName;

#[derive(Debug)]
pub(crate) struct Turns {
    places: usize,
    of_one: usize,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    taken: usize,
    taken_by: HashMap<TenantName, usize>,
    /// Who is next comes first.
    waiting: VecDeque<(TenantName, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn that lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    tenant: TenantName,
}

impl Turns {
    pub(crate) fn new() -> Arc<Self> {
        let processors = std::thread::available_parallelism();
        Self::with(processors.map_or(2, std::num::NonZero::get))
    }

    fn with(of_one: usize) -> Arc<Self> {
        Arc::new(Self {
            places: 2 * of_one,
            of_one,
            line: Mutex::default(),
        })
    }

    /// Waits for a turn. How many wait is bounded by what they hold already: a place for a session.
    pub(crate) async fn take(self: &Arc<Self>, tenant: &TenantName) -> Result<Turn, Problem> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut line = lock(&self.line);
            match line.waiting.iter_mut().find(|(of, _)| of == tenant) {
                Some((_, queue)) => queue.push_back(sender),
                None => line
                    .waiting
                    .push_back((tenant.clone(), VecDeque::from([sender]))),
            }
        }
        self.go_on();
        let turn = receiver.await;
        turn.map_err(|error| Problem::internal("a turn", error))
    }

    fn go_on(self: &Arc<Self>) {
        while let Some((sender, turn)) = self.next() {
            // Who no longer waits gives its turn back by this.
            drop(sender.send(turn));
        }
    }

    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<Turn>, Turn)> {
        let mut line = lock(&self.line);
        if line.taken >= self.places {
            return None;
        }
        let may = |tenant| {
            line.taken_by
                .get(tenant)
                .is_none_or(|taken| *taken < self.of_one)
        };
        let next = line.waiting.iter().position(|(tenant, _)| may(tenant))?;
        let (tenant, mut queue) = line.waiting.remove(next)?;
        let sender = queue.pop_front()?;
        if !queue.is_empty() {
            line.waiting.push_back((tenant.clone(), queue));
        }
        line.taken += 1;
        *line.taken_by.entry(tenant.clone()).or_default() += 1;
        let turns = Arc::clone(self);
        Some((sender, Turn { turns, tenant }))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut line = lock(&self.turns.line);
            line.taken -= 1;
            if let Some(taken) = line.taken_by.get_mut(&self.tenant) {
                *taken -= 1;
                if *taken == 0 {
                    line.taken_by.remove(&self.tenant);
                }
            }
        }
        self.turns.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tenant waits for itself, the others take turns.
    #[tokio::test]
    async fn tenants_take_turns() {
        let turns = Turns::with(2);
        let name = |text: &str| text.parse::<TenantName>().unwrap();
        let (order, mut done) = tokio::sync::mpsc::unbounded_channel();
        let mut held = Vec::new();
        for tenant in ["a", "a", "z", "z"] {
            held.push(turns.take(&name(tenant)).await.unwrap());
        }
        for tenant in ["a", "a", "a", "b", "b", "c"] {
            let (turns, order, tenant) = (Arc::clone(&turns), order.clone(), name(tenant));
            tokio::spawn(async move {
                let turn = turns.take(&tenant).await.unwrap();
                order.send(tenant.to_string()).unwrap();
                turn
            });
            tokio::task::yield_now().await;
        }
        // One place is free now, and not for `a`.
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
        let line = lock(&turns.line);
        assert_eq!((line.taken, line.taken_by.len()), (0, 0));
    }
}
