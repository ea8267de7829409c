//! The way of a session from its client to a node.

use belljar_journal::{NodeOffer, NodePlace};
use belljar_server::simulation::Placement;

use crate::clock::{SECOND, Time};
use crate::costs;
use crate::fleet::{Create, Event, Fault, Fleet};

impl Fleet {
    /// A client wants a session at this time.
    pub(crate) fn ask(&mut self, tenant: usize, at: Time, is_herd: bool) {
        self.timeline.add(at, Event::Send(self.creates.len()));
        self.creates.push(Create {
            tenant,
            sent: at,
            is_herd,
            retries: costs::RETRIES,
            pause: costs::FIRST_PAUSE,
            refusals: 0,
            starting: None,
            is_over: false,
        });
        self.open_creates += 1;
    }

    /// The router knows the cell, and its load balancer takes any node.
    pub(crate) fn send(&mut self, create: usize) {
        let cell = &self.cells[self.cell_of[self.creates[create].tenant]];
        if cell.balancer.is_empty() {
            return self.refused(create, Some(0));
        }
        let node = cell.balancer[self.rng.usize(..cell.balancer.len())];
        self.reach(create, node, None);
    }

    pub(crate) fn reach(&mut self, create: usize, node: usize, from: Option<usize>) {
        let tenant = self.creates[create].tenant;
        let is_passed_on = from.is_some();
        let at = &mut self.nodes[node];
        let cell = &mut self.cells[at.cell];
        if !at.is_alive {
            let Some(from) = from else {
                return self.refused(create, Some(0));
            };
            self.figures.passed_on_dead += 1;
            let event = Event::Unreached { create, node, from };
            return self.timeline.add(self.now + costs::HOP, event);
        }
        if at.keys.get(&tenant).is_some_and(|until| self.now < *until) {
            return self.place(create, node, is_passed_on);
        }
        if cell.is_database_gone {
            return self.refused(create, Some(costs::FAULT_RETRY));
        }
        at.keys.insert(tenant, self.now + costs::KEY_BELIEVED);
        let known = cell.database.submit(self.now, costs::LOOK);
        let event = Event::KeyKnown {
            create,
            node,
            is_passed_on,
        };
        self.timeline.add(known, event);
    }

    /// The node that wanted to pass a request on avoids the dead one, and chooses again.
    pub(crate) fn unreached(&mut self, create: usize, node: usize, from: usize) {
        let (now, life) = (self.moment(self.now), self.nodes[node].life as i64);
        self.nodes[from].watch.note_unreached(life, now);
        self.place(create, from, false);
    }

    pub(crate) fn place(&mut self, create: usize, node: usize, is_passed_on: bool) {
        let memory = self.nodes[node].admission.first_memory();
        let here = Some(self.load(node));
        if is_passed_on || (self.plan.place)(here, &[], memory, 0) == Placement::Here {
            return self.admit(create, node, is_passed_on);
        }
        let cell = &mut self.cells[self.nodes[node].cell];
        if cell.is_database_gone {
            return self.refused(create, Some(costs::FAULT_RETRY));
        }
        let work = costs::LOOK + costs::ROW * cell.nodes.len() as Time;
        let read = cell.database.submit(self.now, work);
        self.timeline.add(read, Event::Offers { create, node });
    }

    /// The node that was asked has no room.
    pub(crate) fn place_by_offers(&mut self, create: usize, node: usize) {
        let at = &self.nodes[node];
        if !at.is_alive {
            return self.refused(create, Some(0));
        }
        let now = self.moment(self.now);
        let lives = &self.cells[at.cell].lives;
        let offers: Vec<NodeOffer> = lives
            .iter()
            .enumerate()
            .filter(|(life, row)| {
                *life != at.life && !row.is_dead && at.watch.is_available(*life as i64, now)
            })
            .filter_map(|(life, row)| {
                let place = NodePlace {
                    life: life as i64,
                    name: String::new(),
                    address: String::new(),
                };
                row.load.map(|load| NodeOffer { place, load })
            })
            .collect();
        let memory = at.admission.first_memory();
        let chance = self.rng.u64(..);
        let placement = (self.plan.place)(Some(self.load(node)), &offers, memory, chance);
        let Placement::Other(place) = placement else {
            return self.admit(create, node, false);
        };
        let chosen = lives[place.life as usize].node;
        self.figures.passed_on += 1;
        let event = Event::Reach {
            create,
            node: chosen,
            from: Some(node),
        };
        self.timeline.add(self.now + costs::HOP, event);
    }

    fn admit(&mut self, create: usize, node: usize, is_passed_on: bool) {
        let (now, memory) = (self.moment(self.now), self.memory(node));
        let tenant = &self.names[self.creates[create].tenant];
        // Its key was looked up meanwhile.
        if !self.nodes[node].is_alive {
            return self.refused(create, Some(0));
        }
        match self.nodes[node].admission.session(tenant, now, memory) {
            Ok(permits) => {
                self.creates[create].starting = Some((node, permits));
                self.nodes[node].turns.wait(tenant, create);
                self.start_next(node);
            }
            Err(refusal) => {
                self.figures.passed_on_refused += usize::from(is_passed_on);
                let count = self.figures.refusals.entry(refusal.code.as_str());
                *count.or_default() += 1;
                self.refused(create, refusal.retry_after);
            }
        }
    }

    fn start_next(&mut self, node: usize) {
        let at = &mut self.nodes[node];
        while let Some((_, create)) = at.turns.take() {
            let started = at.cpu.submit(self.now, costs::START);
            self.timeline.add(started, Event::Started { create, node });
        }
    }

    pub(crate) fn started(&mut self, create: usize, node: usize) {
        if !self.nodes[node].is_alive {
            return;
        }
        let tenant = self.creates[create].tenant;
        self.nodes[node].turns.give_back(&self.names[tenant]);
        self.nodes[node].cpu.submit(self.now, costs::FIRST_CELL);
        if let Some((node, permits)) = self.creates[create].starting.take() {
            self.hold(tenant, node, permits);
        }
        let latency = self.now - self.creates[create].sent + 2 * costs::HOP;
        self.over(create, Some(latency));
        self.start_next(node);
    }

    /// A client repeats its request, or gives up.
    pub(crate) fn refused(&mut self, create: usize, after: Option<u32>) {
        let one = &mut self.creates[create];
        one.refusals += 1;
        let (Some(after), 1..) = (after, one.retries) else {
            return self.over(create, None);
        };
        one.retries -= 1;
        let pause = one.pause.max(Time::from(after) * SECOND);
        one.pause = (2 * one.pause).min(costs::LONGEST_PAUSE);
        let wait = (pause as f64 * (1.0 + 0.5 * self.rng.f64())) as Time;
        self.timeline.add(self.now + wait, Event::Send(create));
    }

    /// It has its session after so long, or never gets one.
    fn over(&mut self, create: usize, latency: Option<Time>) {
        let one = &mut self.creates[create];
        assert!(!one.is_over, "the create {create} ends twice");
        one.is_over = true;
        self.open_creates -= 1;
        let is_hot = one.tenant == 0 && matches!(self.plan.fault, Fault::HotTenant(_));
        let part = if one.is_herd {
            &mut self.figures.herd
        } else if one.sent < self.plan.fault_at {
            &mut self.figures.before
        } else if is_hot {
            &mut self.figures.hot
        } else {
            &mut self.figures.after
        };
        match latency {
            Some(latency) => part.succeeded(latency, one.refusals),
            None => part.failed(),
        }
    }

    pub(crate) fn end(&mut self, session: usize) {
        // Nothing if it was lost.
        let Some(ended) = self.sessions[session].take() else {
            return;
        };
        let node = &mut self.nodes[ended.node];
        node.cpu.submit(self.now, costs::END);
        node.sessions -= 1;
        self.cells[node.cell].sessions -= 1;
        drop(ended.permits);
    }
}
