//! A fleet: cells of nodes, each cell with a database, and a router before them.
//!
//! What nodes decide is decided by the code of the service. What is SQL there is repeated here, and takes the time that it
//! was measured to take. All clients are those of the SDKs.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use belljar_journal::leases::{Lease, Watch, beat_interval};
use belljar_journal::{NodeLoad, NodeOffer, NodeOptions};
use belljar_sandbox::HostMemory;
use belljar_server::simulation::{
    CLAIM_INTERVAL, HeldPermits, NodeAdmission, Placement, REPORT_INTERVAL, StartTurns,
};
use belljar_server::{ServerOptions, TenantName};
use fastrand::Rng;

use crate::clock::{SECOND, Servers, Time, Timeline};
use crate::costs;
use crate::figures::Figures;
use crate::router::cell_of;

/// Chooses a node for a session: `place`, or what it is compared with.
pub(crate) type Place = for<'a> fn(Option<NodeLoad>, &'a [NodeOffer], u64, u64) -> Placement<'a>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    /// So many nodes die at once.
    Deaths(usize),
    /// The database of the first cell is gone for so long.
    DatabaseGone(Time),
    /// The first tenant asks for so many sessions in a second.
    HotTenant(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) nodes_of_cell: usize,
    pub(crate) tenants: usize,
    /// Whether every second node may have half the sessions.
    pub(crate) is_mixed: bool,
    /// Sessions at the begin, as a share of what all nodes may have.
    pub(crate) load: f64,
    /// Runs of each node. Their sessions are a part of the load.
    pub(crate) runs: usize,
    /// When the fault happens: before it is `before`.
    pub(crate) fault_at: Time,
    /// When no more sessions are asked for.
    pub(crate) end: Time,
    pub(crate) fault: Fault,
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Somebody new wants a session in this cell.
    Arrive(usize),
    HotArrive,
    /// A client sends its request.
    Send(usize),
    Reach {
        create: usize,
        node: usize,
        /// The node that passed it on.
        from: Option<usize>,
    },
    /// A node could not connect to the one that it has chosen.
    Unreached {
        create: usize,
        node: usize,
        from: usize,
    },
    /// The key was looked up.
    KeyKnown {
        create: usize,
        node: usize,
        is_passed_on: bool,
    },
    /// What the other nodes offer was read.
    Offers {
        create: usize,
        node: usize,
    },
    Started {
        create: usize,
        node: usize,
    },
    End(usize),
    Report(usize),
    Beat(usize),
    Beaten {
        node: usize,
        asked: Time,
    },
    Claim(usize),
    Append {
        run: usize,
        epoch: u64,
    },
    Fault,
    DatabaseBack,
    BalancerNotices,
}

/// A session that somebody wants.
pub(crate) struct Create {
    pub(crate) tenant: usize,
    pub(crate) sent: Time,
    pub(crate) is_herd: bool,
    pub(crate) retries: u32,
    pub(crate) pause: Time,
    pub(crate) refusals: u32,
    /// Where it starts.
    pub(crate) starting: Option<(usize, HeldPermits)>,
    pub(crate) is_over: bool,
}

pub(crate) struct Session {
    pub(crate) tenant: usize,
    pub(crate) node: usize,
    pub(crate) permits: HeldPermits,
}

pub(crate) struct Run {
    pub(crate) tenant: usize,
    /// Of its claim: an owner with an earlier one writes nothing more.
    pub(crate) epoch: u64,
    /// Nothing while nobody drives it.
    pub(crate) driven: Option<(usize, HeldPermits)>,
}

/// A row of the table of lives. Its number is its place.
pub(crate) struct Life {
    pub(crate) node: usize,
    pub(crate) beat: i64,
    pub(crate) is_dead: bool,
    pub(crate) load: Option<NodeLoad>,
}

pub(crate) struct Cell {
    pub(crate) database: Servers,
    pub(crate) is_database_gone: bool,
    pub(crate) lives: Vec<Life>,
    pub(crate) nodes: Range<usize>,
    pub(crate) tenants: Vec<usize>,
    /// The nodes that its load balancer knows.
    pub(crate) balancer: Vec<usize>,
    /// Runs of dead lives, and those that are ready.
    pub(crate) claimable: VecDeque<usize>,
    pub(crate) sessions: usize,
    /// The mean time between two new sessions.
    pub(crate) arrival_interval: f64,
}

pub(crate) struct Node {
    pub(crate) cell: usize,
    pub(crate) is_alive: bool,
    pub(crate) admission: NodeAdmission,
    pub(crate) turns: StartTurns<usize>,
    pub(crate) cpu: Servers,
    pub(crate) lease: Lease,
    pub(crate) watch: Watch,
    pub(crate) life: usize,
    pub(crate) report: Option<NodeLoad>,
    pub(crate) sessions: usize,
    /// Until when the keys of tenants are believed.
    pub(crate) keys: HashMap<usize, Time>,
}

pub(crate) struct Fleet {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) timeline: Timeline<Event>,
    pub(crate) now: Time,
    /// The real code wants moments. Only their differences matter.
    origin: Instant,
    pub(crate) lease: Duration,
    pub(crate) names: Vec<TenantName>,
    pub(crate) cell_of: Vec<usize>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) creates: Vec<Create>,
    pub(crate) open_creates: usize,
    pub(crate) sessions: Vec<Option<Session>>,
    pub(crate) runs: Vec<Run>,
    pub(crate) figures: Figures,
}

impl Plan {
    fn options_of(&self, node: usize) -> ServerOptions {
        let mut options = ServerOptions::default();
        if self.is_mixed && node % 2 == 1 {
            options.max_sessions /= 2;
        }
        options
    }
}

pub(crate) fn micros(time: Duration) -> Time {
    time.as_micros() as Time
}

impl Fleet {
    /// A fleet with its sessions and runs, as if it had been there for long.
    pub(crate) fn new(plan: Plan) -> Self {
        let lease = NodeOptions::new("", "").lease;
        let origin = Instant::now();
        let count = plan.nodes.div_ceil(plan.nodes_of_cell);
        let cell_names: Vec<String> = (0..count).map(|cell| format!("cell-{cell}")).collect();
        let names = (0..plan.tenants).map(|tenant| format!("tenant-{tenant}"));
        let names: Vec<TenantName> = names.map(|name| name.parse().unwrap()).collect();
        let cell_of: Vec<usize> = names
            .iter()
            .map(|name| cell_of(name.as_str(), &cell_names))
            .collect();
        let cell = |number: usize| {
            let first = number * plan.nodes_of_cell;
            let nodes = first..plan.nodes.min(first + plan.nodes_of_cell);
            let tenants = (0..plan.tenants).filter(|tenant| cell_of[*tenant] == number);
            Cell {
                database: Servers::new(costs::DATABASE_AT_ONCE),
                is_database_gone: false,
                lives: nodes.clone().map(Life::new).collect(),
                tenants: tenants.collect(),
                balancer: nodes.clone().collect(),
                nodes,
                claimable: VecDeque::new(),
                sessions: 0,
                arrival_interval: f64::INFINITY,
            }
        };
        let node = |number: usize| Node {
            cell: number / plan.nodes_of_cell,
            is_alive: true,
            admission: NodeAdmission::new(&plan.options_of(number)),
            turns: StartTurns::new(costs::CPUS),
            cpu: Servers::new(costs::CPUS),
            lease: Lease::new(lease, origin),
            watch: Watch::new(lease),
            life: number % plan.nodes_of_cell,
            report: None,
            sessions: 0,
            keys: HashMap::new(),
        };
        let mut fleet = Self {
            rng: Rng::with_seed(plan.seed),
            timeline: Timeline::new(),
            now: 0,
            origin,
            lease,
            cells: (0..count).map(cell).collect(),
            nodes: (0..plan.nodes).map(node).collect(),
            names,
            cell_of,
            creates: Vec::new(),
            open_creates: 0,
            sessions: Vec::new(),
            runs: Vec::new(),
            figures: Figures::default(),
            plan,
        };
        fleet.fill();
        fleet
    }

    fn fill(&mut self) {
        for node in 0..self.nodes.len() {
            let cell = self.nodes[node].cell;
            for _ in 0..self.plan.runs {
                let tenant = self.tenant_of(cell);
                self.begin_run(tenant, node);
            }
            for (event, interval) in [
                (Event::Report(node), REPORT_INTERVAL),
                (Event::Beat(node), beat_interval(self.lease)),
                (Event::Claim(node), CLAIM_INTERVAL),
            ] {
                let at = self.rng.u64(..micros(interval));
                self.timeline.add(at, event);
            }
        }
        for cell in 0..self.cells.len() {
            let sessions = self.sessions_of_cell(cell);
            self.cells[cell].arrival_interval = costs::SESSION_LIFE as f64 / sessions;
            for _ in 0..sessions.round() as usize {
                let tenant = self.tenant_of(cell);
                if let Some(node) = self.node_below_limit(cell) {
                    let permits = self.nodes[node].admission.adopt(&self.names[tenant]);
                    self.hold(tenant, node, permits);
                }
            }
            self.arrive_later(cell);
        }
        if let Fault::HotTenant(_) = self.plan.fault {
            self.timeline.add(self.plan.fault_at, Event::HotArrive);
        }
        self.timeline.add(self.plan.fault_at, Event::Fault);
    }

    /// How many sessions the tenants of a cell have together, without those of runs.
    fn sessions_of_cell(&self, cell: usize) -> f64 {
        let plan = &self.plan;
        let limits: usize = (0..plan.nodes)
            .map(|node| plan.options_of(node).max_sessions)
            .sum();
        let all = limits as f64 * plan.load - (plan.runs * plan.nodes) as f64;
        let tenants = self.cells[cell].tenants.len() as f64 / plan.tenants as f64;
        all.max(0.0) * tenants
    }

    fn tenant_of(&mut self, cell: usize) -> usize {
        let tenants = &self.cells[cell].tenants;
        tenants[self.rng.usize(..tenants.len())]
    }

    fn node_below_limit(&mut self, cell: usize) -> Option<usize> {
        let nodes = self.cells[cell].nodes.clone();
        for _ in 0..10 * nodes.len() {
            let node = self.rng.usize(nodes.clone());
            let load = self.load(node);
            if load.sessions < load.session_limit {
                return Some(node);
            }
        }
        None
    }

    pub(crate) fn arrive_later(&mut self, cell: usize) {
        let interval = self.cells[cell].arrival_interval;
        let at = self.now.saturating_add(self.chance_of(interval));
        self.timeline.add(at, Event::Arrive(cell));
    }

    /// A time with this mean, of something that happens at any moment alike.
    pub(crate) fn chance_of(&mut self, mean: f64) -> Time {
        (-(1.0 - self.rng.f64()).ln() * mean) as Time
    }

    /// A session that is there from now on.
    pub(crate) fn hold(&mut self, tenant: usize, node: usize, permits: HeldPermits) {
        let end = self.now + self.chance_of(costs::SESSION_LIFE as f64);
        self.timeline.add(end, Event::End(self.sessions.len()));
        self.sessions.push(Some(Session {
            tenant,
            node,
            permits,
        }));
        self.nodes[node].sessions += 1;
        self.cells[self.nodes[node].cell].sessions += 1;
    }

    pub(crate) fn moment(&self, at: Time) -> Instant {
        self.origin + Duration::from_micros(at)
    }

    pub(crate) fn memory(&self, node: usize) -> HostMemory {
        let sessions = self.nodes[node].sessions + self.plan.runs;
        let sessions = sessions as u64 * costs::SESSION_MEMORY;
        HostMemory {
            total: costs::MEMORY,
            available: costs::MEMORY.saturating_sub(costs::MEMORY_IN_USE + sessions),
        }
    }

    pub(crate) fn load(&self, node: usize) -> NodeLoad {
        let (now, memory) = (self.moment(self.now), self.memory(node));
        self.nodes[node].admission.load(now, memory)
    }

    /// Simulates until each client has its session, or has given up.
    pub(crate) fn run(&mut self) {
        while self.now < self.plan.end || self.open_creates > 0 {
            let Some((at, event)) = self.timeline.pop() else {
                return;
            };
            self.now = at;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(cell) if self.now < self.plan.end => {
                let tenant = self.tenant_of(cell);
                self.ask(tenant, self.now, false);
                self.arrive_later(cell);
            }
            Event::HotArrive if self.now < self.plan.end => {
                self.ask(0, self.now, false);
                if let Fault::HotTenant(rate) = self.plan.fault {
                    let next = self.now + self.chance_of(SECOND as f64 / rate);
                    self.timeline.add(next, Event::HotArrive);
                }
            }
            Event::Arrive(_) | Event::HotArrive => {}
            Event::Send(create) => self.send(create),
            Event::Reach { create, node, from } => self.reach(create, node, from),
            Event::Unreached { create, node, from } => self.unreached(create, node, from),
            Event::KeyKnown {
                create,
                node,
                is_passed_on,
            } => self.place(create, node, is_passed_on),
            Event::Offers { create, node } => self.place_by_offers(create, node),
            Event::Started { create, node } => self.started(create, node),
            Event::End(session) => self.end(session),
            Event::Report(node) => self.report(node),
            Event::Beat(node) => self.beat(node),
            Event::Beaten { node, asked } => self.beaten(node, asked),
            Event::Claim(node) => self.claim(node),
            Event::Append { run, epoch } => self.append(run, epoch),
            Event::Fault => self.fault(),
            Event::DatabaseBack => self.cells[0].is_database_gone = false,
            Event::BalancerNotices => {
                for cell in &mut self.cells {
                    cell.balancer.retain(|node| self.nodes[*node].is_alive);
                }
            }
        }
    }
}

impl Life {
    pub(crate) fn new(node: usize) -> Self {
        Self {
            node,
            beat: 0,
            is_dead: false,
            load: None,
        }
    }
}
