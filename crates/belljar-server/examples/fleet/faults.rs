//! What happens to a fleet, and what must hold whatever happens.

use fastrand::Rng;

use crate::costs;
use crate::fleet::{Event, Fault, Fleet, Session};

impl Fleet {
    pub(crate) fn fault(&mut self) {
        match self.plan.fault {
            Fault::None | Fault::HotTenant(_) => {}
            Fault::Deaths(count) => {
                let mut nodes: Vec<usize> = (0..self.nodes.len()).collect();
                // The same ones, however sessions were placed before.
                Rng::with_seed(self.plan.seed).shuffle(&mut nodes);
                nodes.truncate(count);
                self.die(&nodes);
                self.timeline
                    .add(self.now + costs::BALANCER, Event::BalancerNotices);
            }
            Fault::DatabaseGone(time) => {
                self.cells[0].is_database_gone = true;
                self.timeline.add(self.now + time, Event::DatabaseBack);
            }
        }
    }

    /// Nodes lose what they have, and their clients notice.
    fn die(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.nodes[*node].is_alive = false;
        }
        for number in 0..self.sessions.len() {
            let lost = self.sessions[number].take_if(|session| !self.nodes[session.node].is_alive);
            if let Some(Session { tenant, node, .. }) = lost {
                self.nodes[node].sessions -= 1;
                self.cells[self.nodes[node].cell].sessions -= 1;
                self.figures.sessions_lost += 1;
                let at = self.now + self.rng.u64(..costs::HERD);
                self.ask(tenant, at, true);
            }
        }
        for create in 0..self.creates.len() {
            let create_of = &mut self.creates[create];
            let broken = create_of
                .starting
                .take_if(|(node, _)| !self.nodes[*node].is_alive);
            if broken.is_some() {
                self.figures.creates_broken += 1;
                self.refused(create, Some(0));
            }
        }
        for run in &self.runs {
            let dead = run
                .driven
                .as_ref()
                .map(|(node, _)| !self.nodes[*node].is_alive);
            self.figures.runs_lost += usize::from(dead == Some(true));
        }
    }

    /// Panics if a node has other sessions than those that it has admitted, or more than it may have.
    pub(crate) fn check(&self) {
        let mut counts = vec![0; self.nodes.len()];
        let sessions = self.sessions.iter().flatten().map(|session| session.node);
        let runs = self.runs.iter().filter_map(|run| run.driven.as_ref());
        let starting = self.creates.iter().filter_map(|one| one.starting.as_ref());
        let held = runs.chain(starting).map(|(node, _)| *node);
        for node in sessions.chain(held) {
            counts[node] += 1;
        }
        for (node, count) in counts.into_iter().enumerate() {
            let load = self.load(node);
            assert_eq!(load.sessions, count, "sessions of node {node}");
            assert!(load.sessions <= load.session_limit, "limit of node {node}");
        }
        let all = [
            &self.figures.before,
            &self.figures.after,
            &self.figures.herd,
            &self.figures.hot,
        ];
        let ended: usize = all.iter().map(|creates| creates.count()).sum();
        assert_eq!(ended, self.creates.len(), "creates");
        assert!(self.creates.iter().all(|create| create.is_over));
    }
}
