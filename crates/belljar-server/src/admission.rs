//! What tenants may use, looked at before anything is done.
//!
//! All counts are changed under one lock, so that no number of requests at once gets more than one after
//! the other would.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use belljar_journal::NodeLoad;
use belljar_sandbox::{DiskAllowance, HostMemory};

use belljar_agent::Budget;
use belljar_sandbox::protocol::{Outcome, Walls};

use crate::accounts::{Accounts, DAY, DayOfTenant, exceeded, until_tomorrow};
use crate::charged::ChargedBytes;
use crate::isolation::LeastIsolation;
use crate::options::ServerOptions;
use crate::placement::room;
use crate::problem::{Code, Problem};
use crate::starting_memory::{StartingMemory, first_memory};
use crate::tenants::{Amounts, Quota, TenantName};

/// The share of a session's memory limit that is set aside for it: a hundredth, about what a session that
/// has just begun holds. Few sessions use what they may; those that do are seen in what is available. A hibernated
/// session has its share, too, so sessions of other tiers have no more than it.
const RESERVED_SHARE: u64 = 100;

/// Memory of the host that no session is started from: this, or a sixteenth of all of it. Sessions that are
/// there grow.
const KEPT_FREE: u64 = 256 << 20;
const KEPT_FREE_SHARE: u64 = 16;

/// Maximum concurrent requests of a tenant. A request continues after its client disconnects, so the
/// number of connections is no limit.
const TENANT_REQUESTS: usize = 512;

/// Maximum running commands of a tenant: as many as one session may have.
const TENANT_COMMANDS: usize = 128;

/// Files and large bodies on their way, of a tenant and of all. Each may hold as much disk as it has bytes. The first
/// ones of a tenant are never refused because of others.
const TENANT_TRANSFERS: usize = 16;
const MAX_TRANSFERS: usize = 64;
const FIRST_TRANSFERS: usize = 4;

/// How old the size of a tenant's runs may be when an upload begins: all of their files are looked at for it.
const MEASURED_AGAIN: Duration = Duration::from_secs(2);

/// How often the limits of what a tenant does in a second are counted: `w` of the header.
const WINDOW: u32 = 1;

#[derive(Debug)]
pub(crate) struct Admission {
    max_sessions: usize,
    tenant_sessions: usize,
    tenant_cells: usize,
    tenant_streams: usize,
    creates_per_second: u32,
    max_runs: usize,
    tenant_runs: usize,
    used: Mutex<Used>,
    /// Whether an operator wants this node empty.
    draining: AtomicBool,
    memory: fn() -> Option<HostMemory>,
    /// Bytes in memory.
    pub(crate) charged: Arc<ChargedBytes>,
    /// Least isolation of tenants.
    pub(crate) isolation: LeastIsolation,
}

#[derive(Debug, Default)]
struct Used {
    sessions: usize,
    reserved: u64,
    starting: StartingMemory,
    transfers: usize,
    runs: usize,
    tenants: HashMap<TenantName, TenantUse>,
    accounts: Accounts,
}

#[derive(Debug, Default)]
struct TenantUse {
    sessions: usize,
    cells: usize,
    commands: usize,
    streams: usize,
    requests: usize,
    connections: usize,
    transfers: usize,
    runs: usize,
    /// Memory limits of its sessions together.
    memory: u64,
    creates: Bucket,
    /// Where it has a quota of requests.
    request_rate: Bucket,
    /// Its uploads, downloads and hibernated sessions; its runs are counted elsewhere.
    disk: Arc<DiskAllowance>,
    runs_bytes: u64,
    runs_measured: Option<Instant>,
}

/// What is read of the host for a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// None if the kernel doesn't report it.
    pub(crate) memory: Option<HostMemory>,
}

/// What may be done so often in a second, on average, and twice as often at once.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    left: f64,
    /// None before the first time: it is full.
    refilled: Option<Instant>,
}

impl Bucket {
    /// How many times it may be done now.
    fn left(&mut self, now: Instant, rate: u32) -> f64 {
        let rate = f64::from(rate);
        let passed = self
            .refilled
            .map_or(2.0, |then| now.duration_since(then).as_secs_f64());
        self.left = (self.left + passed * rate).min(2.0 * rate);
        // Another request may have come later, and be here first.
        self.refilled = self.refilled.max(Some(now));
        self.left
    }
}

/// How many permits of one kind are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitUse {
    pub(crate) kind: &'static str,
    /// All tenants together (`service`), or the one that has most (`tenant`).
    pub(crate) of: &'static str,
    pub(crate) used: usize,
    pub(crate) limit: Option<usize>,
}

/// Memory that a session of this isolation and memory limit takes at first.
pub(crate) fn memory_at_first(isolation: Walls, limit: u64) -> u64 {
    first_memory(isolation, limit).unwrap_or(limit / RESERVED_SHARE)
}

/// What is counted of a tenant for as long as it is held.
#[derive(Clone, Copy, Debug)]
enum PermitKind {
    Session { reserved: u64, memory: u64 },
    Cell,
    Command,
    Stream,
    Request,
    Connection,
    Transfer,
    Run,
}

/// A permit that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    tenant: TenantName,
    kind: PermitKind,
}

/// Refuses what would exceed a limit of each tenant.
fn below_limit(used: usize, limit: usize, code: Code, what: &str) -> Result<(), Problem> {
    if used < limit {
        return Ok(());
    }
    let detail = format!("the limit is {limit} {what} per tenant");
    Err(Problem::new(code, detail))
}

impl Admission {
    pub(crate) fn new(options: &ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            max_sessions: options.max_sessions,
            tenant_sessions: options.tenant_sessions,
            tenant_cells: options.tenant_cells,
            tenant_streams: options.tenant_streams,
            creates_per_second: options.creates_per_second.max(1),
            max_runs: options.runs.max_runs,
            tenant_runs: options.runs.tenant_runs,
            used: Mutex::default(),
            draining: AtomicBool::new(false),
            memory: HostMemory::now,
            charged: ChargedBytes::new(HostMemory::now()),
            isolation: LeastIsolation::default(),
        })
    }

    /// Admits no more sessions and runs. Those that there are may do what they could before.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn check_open(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::draining());
        }
        Ok(())
    }

    /// Permits for sessions of this isolation that may use so much memory each: all of them, or none. Every session
    /// of a tenant needs one.
    pub(crate) fn sessions(
        self: &Arc<Self>,
        tenant: &TenantName,
        count: usize,
        memory_bytes: u64,
        isolation: Walls,
    ) -> Result<Vec<Permit>, Problem> {
        self.sessions_at(self.moment(), tenant, count, memory_bytes, isolation)
    }

    /// The same at this moment.
    pub(crate) fn sessions_at(
        self: &Arc<Self>,
        at: Moment,
        tenant: &TenantName,
        count: usize,
        memory_bytes: u64,
        isolation: Walls,
    ) -> Result<Vec<Permit>, Problem> {
        self.check_open()?;
        self.isolation.check(tenant, isolation)?;
        let mut used = self.used();
        used.accounts.check(tenant, &Quota::OF_CELLS)?;
        let sessions = used.sessions;
        let most = used.most(tenant, Quota::Sessions, self.tenant_sessions);
        let rate = self.rate(&used, tenant);
        let most_memory = used.accounts.limit(tenant, Quota::MemoryBytes);
        let of_tenant = used.tenant_mut(tenant);
        let more = of_tenant.sessions as u64 + count as u64;
        if more > most {
            return Err(exceeded(Quota::Sessions, of_tenant.sessions as u64, most));
        }
        // A float of a small count loses nothing.
        let wanted = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        if of_tenant.creates.left(at.now, rate) < wanted {
            let detail = format!("a tenant may start {rate} sessions per second");
            return Err(Problem::new(Code::TooManyCreates, detail).after(1));
        }
        let all_memory = memory_bytes.saturating_mul(count as u64);
        if let Some(most) = most_memory
            && of_tenant.memory.saturating_add(all_memory) > most
        {
            return Err(exceeded(Quota::MemoryBytes, of_tenant.memory, most));
        }
        if sessions + count > self.max_sessions {
            let detail = "the service has its maximum of sessions";
            return Err(Problem::new(Code::ServiceFull, detail).after(5));
        }
        let each = memory_bytes / RESERVED_SHARE;
        let all = each.saturating_mul(count as u64);
        let first = first_memory(isolation, memory_bytes).map(|each| each * count as u64);
        if first.unwrap_or(all) > used.free_memory(at) {
            let detail = "not enough free memory for another session";
            return Err(Problem::new(Code::MemoryShort, detail).after(5));
        }
        let of_tenant = used.tenant_mut(tenant);
        of_tenant.creates.left -= wanted;
        of_tenant.sessions += count;
        of_tenant.memory += all_memory;
        used.sessions += count;
        used.reserved += all;
        if let Some(first) = first {
            used.starting.add(at.now, first);
        }
        drop(used);
        let kind = PermitKind::Session {
            reserved: each,
            memory: memory_bytes,
        };
        Ok((0..count).map(|_| self.permit(tenant, kind)).collect())
    }

    /// What this node has, and room for how much.
    pub(crate) fn load(&self) -> NodeLoad {
        self.load_at(self.moment())
    }

    /// The same at this moment.
    pub(crate) fn load_at(&self, at: Moment) -> NodeLoad {
        let mut used = self.used();
        NodeLoad {
            sessions: used.sessions as u64,
            session_limit: self.max_sessions as u64,
            free_memory: used.free_memory(at),
        }
    }

    /// The permit of a session of an earlier service: it has been admitted before, whatever the limits are now.
    pub(crate) fn adopt(self: &Arc<Self>, tenant: &TenantName, memory: u64) -> Permit {
        let reserved = memory / RESERVED_SHARE;
        let mut used = self.used();
        let of_tenant = used.tenant_mut(tenant);
        of_tenant.sessions += 1;
        of_tenant.memory += memory;
        used.sessions += 1;
        used.reserved += reserved;
        drop(used);
        self.permit(tenant, PermitKind::Session { reserved, memory })
    }

    /// A permit for a running or waiting cell.
    pub(crate) fn cell(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        let mut used = self.used();
        used.accounts.check(tenant, &Quota::OF_CELLS)?;
        let of_tenant = used.tenant_mut(tenant);
        let what = "running and waiting cells";
        below_limit(of_tenant.cells, self.tenant_cells, Code::TooManyCells, what)?;
        of_tenant.cells += 1;
        Ok(self.permit(tenant, PermitKind::Cell))
    }

    /// A permit for a running command.
    pub(crate) fn command(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        let mut used = self.used();
        used.accounts.check(tenant, &Quota::OF_CELLS)?;
        let of_tenant = used.tenant_mut(tenant);
        let (commands, what) = (of_tenant.commands, "running commands");
        below_limit(commands, TENANT_COMMANDS, Code::TooManyCommands, what)?;
        of_tenant.commands += 1;
        Ok(self.permit(tenant, PermitKind::Command))
    }

    /// A permit for an event stream.
    pub(crate) fn stream(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        let mut used = self.used();
        let of_tenant = used.tenant_mut(tenant);
        let (streams, limit) = (of_tenant.streams, self.tenant_streams);
        below_limit(streams, limit, Code::TooManyStreams, "open streams")?;
        of_tenant.streams += 1;
        Ok(self.permit(tenant, PermitKind::Stream))
    }

    /// A permit for a request.
    pub(crate) fn request(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        let mut used = self.used();
        let rate = used.accounts.limit(tenant, Quota::RequestsPerSecond);
        let of_tenant = used.tenant_mut(tenant);
        let (requests, what) = (of_tenant.requests, "concurrent requests");
        below_limit(requests, TENANT_REQUESTS, Code::TooManyRequests, what)?;
        if let Some(rate) = rate {
            if of_tenant
                .request_rate
                .left(Instant::now(), per_second(rate))
                < 1.0
            {
                return Err(exceeded(Quota::RequestsPerSecond, rate, rate));
            }
            of_tenant.request_rate.left -= 1.0;
        }
        of_tenant.requests += 1;
        Ok(self.permit(tenant, PermitKind::Request))
    }

    /// A permit for an MCP connection. More connections than sessions are of no use.
    pub(crate) fn connection(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        self.check_open()?;
        let mut used = self.used();
        let of_tenant = used.tenant_mut(tenant);
        let (connections, limit) = (of_tenant.connections, self.tenant_sessions);
        below_limit(connections, limit, Code::TooManySessions, "MCP connections")
            .map_err(|problem| problem.after(5))?;
        of_tenant.connections += 1;
        Ok(self.permit(tenant, PermitKind::Connection))
    }

    /// A permit for the transfer of a file or a large body.
    pub(crate) fn transfer(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        let mut used = self.used();
        let full = used.transfers >= MAX_TRANSFERS;
        let of_tenant = used.tenant_mut(tenant);
        let (transfers, what) = (of_tenant.transfers, "concurrent transfers");
        below_limit(transfers, TENANT_TRANSFERS, Code::TooManyTransfers, what)?;
        if full && of_tenant.transfers >= FIRST_TRANSFERS {
            let detail = "the service has its maximum of concurrent transfers";
            return Err(Problem::new(Code::ServiceFull, detail));
        }
        of_tenant.transfers += 1;
        used.transfers += 1;
        Ok(self.permit(tenant, PermitKind::Transfer))
    }

    /// A permit for a run.
    pub(crate) fn run(self: &Arc<Self>, tenant: &TenantName) -> Result<Permit, Problem> {
        self.check_open()?;
        let mut used = self.used();
        used.accounts.check(tenant, &Quota::OF_RUNS)?;
        let runs = used.runs;
        let most = used.most(tenant, Quota::Runs, self.tenant_runs);
        let of_tenant = used.tenant_mut(tenant);
        if of_tenant.runs as u64 >= most {
            return Err(exceeded(Quota::Runs, of_tenant.runs as u64, most));
        }
        if runs >= self.max_runs {
            let detail = "the service has its maximum of concurrent runs";
            return Err(Problem::new(Code::ServiceFull, detail).after(5));
        }
        of_tenant.runs += 1;
        used.runs += 1;
        drop(used);
        Ok(self.permit(tenant, PermitKind::Run))
    }

    /// How many more runs there may be, with sessions that need so much memory at first each.
    pub(crate) fn free_runs(&self, memory: u64) -> usize {
        self.free_runs_at(self.moment(), memory)
    }

    /// The same at this moment.
    pub(crate) fn free_runs_at(&self, at: Moment, memory: u64) -> usize {
        let sessions = usize::try_from(room(self.load_at(at), memory)).unwrap_or(usize::MAX);
        let runs = self.max_runs.saturating_sub(self.used().runs);
        runs.min(sessions)
    }

    /// What a tenant may still do, as the IETF's draft on rate limit fields has it.
    pub(crate) fn tell(&self, tenant: &TenantName, headers: &mut HeaderMap) {
        let mut used = self.used();
        let rate = self.rate(&used, tenant);
        let most = used.most(tenant, Quota::Sessions, self.tenant_sessions);
        let of_tenant = used.tenant_mut(tenant);
        let mut policy = format!(
            "\"creates\";q={rate};w={WINDOW}, \"sessions\";q={most}, \"cells\";q={}",
            self.tenant_cells
        );
        let mut left = format!(
            "\"creates\";r={:.0};t={WINDOW}, \"sessions\";r={}, \"cells\";r={}",
            of_tenant.creates.left(Instant::now(), rate).floor(),
            most.saturating_sub(of_tenant.sessions as u64),
            self.tenant_cells.saturating_sub(of_tenant.cells)
        );
        for quota in Quota::OF_RUNS {
            if let Some(rest) = used.accounts.left(tenant, quota) {
                let most = used.accounts.limit(tenant, quota).unwrap_or_default();
                let until = until_tomorrow();
                let _ = write!(policy, ", \"{quota}\";q={most};w={DAY}");
                let _ = write!(left, ", \"{quota}\";r={rest};t={until}");
            }
        }
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", left)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
    }

    /// How many sessions there are, how many cells run or wait, and all that is taken.
    pub(crate) fn totals(&self) -> (usize, usize, Vec<PermitUse>) {
        type Count = fn(&TenantUse) -> usize;
        let kinds: [(&'static str, Count, Option<usize>, usize); 7] = [
            (
                "sessions",
                |tenant| tenant.sessions,
                Some(self.max_sessions),
                self.tenant_sessions,
            ),
            ("cells", |tenant| tenant.cells, None, self.tenant_cells),
            ("commands", |tenant| tenant.commands, None, TENANT_COMMANDS),
            (
                "streams",
                |tenant| tenant.streams,
                None,
                self.tenant_streams,
            ),
            ("requests", |tenant| tenant.requests, None, TENANT_REQUESTS),
            (
                "connections",
                |tenant| tenant.connections,
                None,
                self.tenant_sessions,
            ),
            (
                "transfers",
                |tenant| tenant.transfers,
                Some(MAX_TRANSFERS),
                TENANT_TRANSFERS,
            ),
        ];
        let used = self.used();
        let mut all = Vec::with_capacity(2 * kinds.len() + 2);
        for (kind, count, limit, tenant_limit) in kinds {
            let counts = used.tenants.values().map(count);
            all.push(PermitUse {
                kind,
                of: "service",
                used: counts.clone().sum(),
                limit,
            });
            all.push(PermitUse {
                kind,
                of: "tenant",
                used: counts.max().unwrap_or_default(),
                limit: Some(tenant_limit),
            });
        }
        let (charged, most) = self.charged.totals();
        for (of, used, limit) in [
            ("service", charged, self.charged.most),
            ("tenant", most, self.charged.tenant_most),
        ] {
            all.push(PermitUse {
                kind: "charged_bytes",
                of,
                used,
                limit: Some(limit),
            });
        }
        let cells = used.tenants.values().map(|tenant| tenant.cells).sum();
        (used.sessions, cells, all)
    }

    /// What tenants may use, whenever that has changed.
    pub(crate) fn set_quotas(&self, quotas: HashMap<TenantName, Amounts>) {
        let mut used = self.used();
        used.accounts.set_quotas(quotas);
        let Used {
            tenants, accounts, ..
        } = &mut *used;
        for (tenant, of_tenant) in tenants {
            let limit = accounts.limit(tenant, Quota::DiskBytes);
            of_tenant.disk.set(limit, of_tenant.runs_bytes);
        }
    }

    /// What tenants have used today, before the service was started.
    pub(crate) fn set_spent(&self, day: i64, spent: HashMap<TenantName, Amounts>) {
        self.used().accounts.set_spent(day, spent);
    }

    /// What was used on a day on other nodes.
    pub(crate) fn set_elsewhere(&self, day: i64, spent: HashMap<TenantName, Amounts>) {
        self.used().accounts.set_elsewhere(day, spent);
    }

    /// Counts what a tenant has used.
    pub(crate) fn spend(&self, tenant: &TenantName, used: &[(Quota, u64)]) {
        self.used().accounts.add(tenant, used);
    }

    /// Counts CPU time and output of a cell.
    pub(crate) fn spend_cell(&self, tenant: &TenantName, outcome: &Outcome) {
        self.used().accounts.add_cell(tenant, outcome);
    }

    /// The same, and what its session has sent since its last cell. Only for a session whose commands are not charged for
    /// that.
    pub(crate) fn spend_cell_and_egress(&self, tenant: &TenantName, outcome: &Outcome) {
        let egress = outcome.network.map_or(0, |traffic| traffic.bytes_sent);
        let mut used = self.used();
        used.accounts.add_cell(tenant, outcome);
        used.accounts.add(tenant, &[(Quota::EgressBytes, egress)]);
    }

    /// Counts what a command has used, and its session has sent, since it was last counted.
    pub(crate) fn spend_command(
        &self,
        tenant: &TenantName,
        cpu: Duration,
        output: u64,
        egress: u64,
    ) {
        let cpu = u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX);
        self.used().accounts.add_work(tenant, cpu, output, egress);
    }

    /// Refuses what would use more of what is used up for today.
    pub(crate) fn check(&self, tenant: &TenantName, quotas: &[Quota]) -> Result<(), Problem> {
        self.used().accounts.check(tenant, quotas)
    }

    /// Lowers a budget to what is left for today.
    pub(crate) fn cut(&self, tenant: &TenantName, budget: &mut Budget, priced: bool) {
        let mut used = self.used();
        if let Some(left) = used.accounts.left(tenant, Quota::Tokens) {
            budget.tokens = Some(budget.tokens.map_or(left, |tokens| tokens.min(left)));
        }
        // What has no price costs nothing that could be counted.
        if let Some(left) = used.accounts.left(tenant, Quota::MoneyMicros)
            && priced
        {
            let left = money(left);
            budget.money = Some(budget.money.map_or(left, |money| money.min(left)));
        }
    }

    /// What a tenant may use where that is its own, and what it uses: now, and today.
    pub(crate) fn account(&self, tenant: &TenantName) -> (Amounts, Amounts) {
        let mut used = self.used();
        let mut all = used.accounts.spent(tenant);
        let of_tenant = used.tenant_mut(tenant);
        all.extend([
            (Quota::Sessions, of_tenant.sessions as u64),
            (Quota::Runs, of_tenant.runs as u64),
            (Quota::MemoryBytes, of_tenant.memory),
        ]);
        (used.accounts.quotas(tenant), all)
    }

    /// How much a tenant may have on disk.
    pub(crate) fn disk_quota(&self, tenant: &TenantName) -> Option<u64> {
        self.used().accounts.limit(tenant, Quota::DiskBytes)
    }

    /// Disk account of a tenant's uploads, downloads and hibernated sessions.
    pub(crate) fn disk(&self, tenant: &TenantName) -> Arc<DiskAllowance> {
        let mut used = self.used();
        let limit = used.accounts.limit(tenant, Quota::DiskBytes);
        let of_tenant = used.tenant_mut(tenant);
        of_tenant.disk.set(limit, of_tenant.runs_bytes);
        Arc::clone(&of_tenant.disk)
    }

    /// Whether what a tenant's runs have on disk was measured just now, or need not be.
    pub(crate) fn is_disk_measured(&self, tenant: &TenantName) -> bool {
        let mut used = self.used();
        let limited = used.accounts.limit(tenant, Quota::DiskBytes).is_some();
        let measured = used.tenant_mut(tenant).runs_measured;
        !limited || measured.is_some_and(|then| then.elapsed() < MEASURED_AGAIN)
    }

    /// Notes what a tenant's runs have on disk; what it has there in all.
    pub(crate) fn set_runs_bytes(&self, tenant: &TenantName, bytes: u64) -> u64 {
        let mut used = self.used();
        let of_tenant = used.tenant_mut(tenant);
        of_tenant.runs_bytes = bytes;
        of_tenant.runs_measured = Some(Instant::now());
        drop(used);
        bytes.saturating_add(self.disk(tenant).taken())
    }

    /// What is to be written to disk of what tenants have used.
    pub(crate) fn take_changed(&self) -> Vec<DayOfTenant> {
        self.used().accounts.take_changed()
    }

    /// Takes back what could not be written.
    pub(crate) fn not_kept(&self, all: Vec<DayOfTenant>) {
        self.used().accounts.not_kept(all);
    }

    fn rate(&self, used: &Used, tenant: &TenantName) -> u32 {
        let quota = used.accounts.limit(tenant, Quota::CreatesPerSecond);
        quota.map_or(self.creates_per_second, per_second)
    }

    fn permit(self: &Arc<Self>, tenant: &TenantName, kind: PermitKind) -> Permit {
        Permit {
            admission: Arc::clone(self),
            tenant: tenant.clone(),
            kind,
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Instant::now(),
            memory: (self.memory)(),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn tenant_mut(&mut self, tenant: &TenantName) -> &mut TenantUse {
        self.tenants.entry(tenant.clone()).or_default()
    }

    /// Memory that new sessions may take, of what the host has.
    fn free_memory(&mut self, at: Moment) -> u64 {
        let Some(HostMemory { total, available }) = at.memory else {
            return u64::MAX;
        };
        let kept = KEPT_FREE.max(total / KEPT_FREE_SHARE);
        let unreserved = total.saturating_sub(self.reserved + kept);
        let starting = self.starting.bytes(at.now);
        unreserved.min(available.saturating_sub(starting + kept))
    }

    /// A limit of the service, or of the tenant where it has its own.
    fn most(&self, tenant: &TenantName, quota: Quota, usual: usize) -> u64 {
        let own = self.accounts.limit(tenant, quota);
        own.unwrap_or(usual as u64)
    }
}

fn per_second(rate: u64) -> u32 {
    u32::try_from(rate).unwrap_or(u32::MAX)
}

/// Millionths as money.
#[expect(
    clippy::cast_precision_loss,
    reason = "nobody counts so much money in millionths"
)]
fn money(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Permit {
    /// Whose it is.
    pub(crate) fn tenant(&self) -> &TenantName {
        &self.tenant
    }

    /// Refuses further use of a session of this isolation, if it is no longer strong enough.
    pub(crate) fn check_isolation(&self, isolation: Walls) -> Result<(), Problem> {
        self.admission.isolation.check(&self.tenant, isolation)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.admission.used();
        match self.kind {
            PermitKind::Session { reserved, .. } => {
                used.sessions -= 1;
                used.reserved -= reserved;
            }
            PermitKind::Transfer => used.transfers -= 1,
            PermitKind::Run => used.runs -= 1,
            _ => {}
        }
        if let Some(of_tenant) = used.tenants.get_mut(&self.tenant) {
            match self.kind {
                PermitKind::Session { memory, .. } => {
                    of_tenant.sessions -= 1;
                    of_tenant.memory -= memory;
                }
                PermitKind::Cell => of_tenant.cells -= 1,
                PermitKind::Command => of_tenant.commands -= 1,
                PermitKind::Stream => of_tenant.streams -= 1,
                PermitKind::Request => of_tenant.requests -= 1,
                PermitKind::Connection => of_tenant.connections -= 1,
                PermitKind::Transfer => of_tenant.transfers -= 1,
                PermitKind::Run => of_tenant.runs -= 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(memory: fn() -> Option<HostMemory>) -> Arc<Admission> {
        let options = ServerOptions {
            tenant_sessions: 3,
            max_sessions: 4,
            creates_per_second: 100,
            ..ServerOptions::default()
        };
        let mut admission = Admission::new(&options);
        Arc::get_mut(&mut admission).unwrap().memory = memory;
        admission
    }

    fn tenant(name: &str) -> TenantName {
        name.parse().unwrap()
    }

    fn refused(admission: &Arc<Admission>, name: &str, count: usize) -> Code {
        admission
            .sessions(&tenant(name), count, 1 << 30, Walls::Full)
            .unwrap_err()
            .code
    }

    #[test]
    fn permits_are_counted_and_given_back() {
        let admission = admission(|| None);
        let two = admission
            .sessions(&tenant("a"), 2, 1 << 30, Walls::Full)
            .unwrap();
        assert_eq!(refused(&admission, "a", 2), Code::TooManySessions);
        let _two_more = admission
            .sessions(&tenant("b"), 2, 1 << 30, Walls::Full)
            .unwrap();
        assert_eq!(refused(&admission, "a", 1), Code::ServiceFull);
        drop(two);
        let (sessions, cells, taken) = admission.totals();
        assert_eq!((sessions, cells), (2, 0));
        let taken = |of| {
            let found = taken
                .iter()
                .find(|taken| (taken.kind, taken.of) == ("sessions", of));
            let found = found.unwrap();
            (found.used, found.limit)
        };
        assert_eq!(taken("service"), (2, Some(4)));
        assert_eq!(taken("tenant"), (2, Some(3)));
        assert!(
            admission
                .sessions(&tenant("a"), 2, 1 << 30, Walls::Full)
                .is_ok()
        );
    }

    #[test]
    fn a_node_reports_what_it_would_admit() {
        let admission = admission(|| {
            Some(HostMemory {
                total: 2 * KEPT_FREE,
                available: KEPT_FREE + (100 << 20),
            })
        });
        let sessions = |memory| admission.sessions(&tenant("a"), 1, memory, Walls::Full);
        let load = admission.load();
        assert_eq!((load.sessions, load.session_limit), (0, 4));
        assert_eq!(load.free_memory, 100 << 20);
        let limit = load.free_memory * RESERVED_SHARE;
        assert_eq!(memory_at_first(Walls::Full, limit), load.free_memory);
        let too_much = sessions(limit + RESERVED_SHARE).unwrap_err();
        assert_eq!(too_much.code, Code::MemoryShort);
        let _permits = sessions(limit).unwrap();
        let load = admission.load();
        assert_eq!(load.sessions, 1);
        assert_eq!(load.free_memory, 100 << 20);
        let _more = sessions(limit).unwrap();
        assert_eq!(admission.load().free_memory, 56 << 20);
    }

    #[test]
    fn runs_are_claimed_only_with_room_for_their_sessions() {
        let admission = admission(|| {
            Some(HostMemory {
                total: 1 << 40,
                available: (1 << 36) + (30 << 20),
            })
        });
        // Three of this size, of the four sessions that there may be.
        let size = 10 << 20;
        assert_eq!(admission.free_runs(size), 3);
        assert_eq!(admission.free_runs(1), 4);
        assert_eq!(admission.free_runs(1 << 30), 0);
        let permits = admission.sessions(&tenant("a"), 3, 1 << 20, Walls::Full);
        assert_eq!(admission.free_runs(1), 1);
        let more = admission.sessions(&tenant("b"), 1, 1 << 20, Walls::Full);
        assert_eq!(admission.free_runs(1), 0);
        drop((permits, more));
        assert_eq!(admission.free_runs(1), 4);
    }

    #[test]
    fn memory_is_set_aside() {
        let short = admission(|| {
            Some(HostMemory {
                total: KEPT_FREE * KEPT_FREE_SHARE,
                available: KEPT_FREE + (10 << 20),
            })
        });
        assert_eq!(refused(&short, "a", 1), Code::MemoryShort);
        assert!(
            short
                .sessions(&tenant("a"), 1, 1000 << 20, Walls::Full)
                .is_ok()
        );
    }

    /// However many are requested at once: what they will hold is free when they are admitted.
    #[test]
    fn memory_of_sessions_that_start_is_set_aside() {
        let admitted = |isolation: Walls, memory_bytes: u64| {
            let options = ServerOptions {
                tenant_sessions: 10_000,
                max_sessions: 10_000,
                creates_per_second: 10_000,
                ..ServerOptions::default()
            };
            let mut admission = Admission::new(&options);
            // What is free does not change while they start.
            Arc::get_mut(&mut admission).unwrap().memory = || {
                Some(HostMemory {
                    total: 16 << 30,
                    available: 9 << 30,
                })
            };
            let one = || admission.sessions(&tenant("a"), 1, memory_bytes, isolation);
            let permits = std::iter::from_fn(|| one().ok());
            let count = permits.take(1000).count() as u64;
            let left = one().map(drop).map_err(|problem| problem.code);
            (count, left)
        };
        // 8 GiB, since a sixteenth of all memory is kept free.
        let free = 8 << 30;
        for (isolation, memory) in [
            (Walls::Gvisor, 1 << 30),
            (Walls::Gvisor, 64 << 20),
            (Walls::Container, 1 << 30),
            (Walls::Container, 64 << 20),
            (Walls::Container, 32 << 30),
        ] {
            let each = first_memory(isolation, memory).unwrap();
            let expected = (free / each, Err(Code::MemoryShort));
            assert_eq!(admitted(isolation, memory), expected, "{isolation:?}");
        }
        assert_eq!(admitted(Walls::Full, 1 << 30), (1000, Ok(())));
    }

    /// One tenant takes all of its own and none of another's.
    #[test]
    fn requests_and_transfers_are_bounded() {
        let admission = admission(|| None);
        let (a, b) = (tenant("a"), tenant("b"));
        let requests: Vec<_> = (0..TENANT_REQUESTS)
            .map(|_| admission.request(&a).unwrap())
            .collect();
        assert_eq!(
            admission.request(&a).unwrap_err().code,
            Code::TooManyRequests
        );
        assert!(admission.request(&b).is_ok());
        drop(requests);
        assert!(admission.request(&a).is_ok());

        let transfers: Vec<_> = (0..TENANT_TRANSFERS)
            .map(|_| admission.transfer(&a).unwrap())
            .collect();
        assert_eq!(
            admission.transfer(&a).unwrap_err().code,
            Code::TooManyTransfers
        );
        assert!(admission.transfer(&b).is_ok());
        drop(transfers);
        let others: Vec<_> = (0..MAX_TRANSFERS)
            .map(|n| admission.transfer(&tenant(&format!("t{}", n % 4))).unwrap())
            .collect();
        let first: Vec<_> = (0..FIRST_TRANSFERS)
            .map(|_| admission.transfer(&a).unwrap())
            .collect();
        assert_eq!(admission.transfer(&a).unwrap_err().code, Code::ServiceFull);
        drop(others);
        assert!(admission.transfer(&a).is_ok());
        drop(first);
    }

    #[test]
    fn runs_are_bounded_for_each_and_for_all() {
        let mut admission = admission(|| None);
        let inner = Arc::get_mut(&mut admission).unwrap();
        (inner.tenant_runs, inner.max_runs) = (2, 3);
        let (a, b) = (tenant("a"), tenant("b"));
        let of_a = [admission.run(&a).unwrap(), admission.run(&a).unwrap()];
        assert_eq!(admission.run(&a).unwrap_err().code, Code::TooManyRuns);
        let of_b = admission.run(&b).unwrap();
        assert_eq!(admission.run(&b).unwrap_err().code, Code::ServiceFull);
        drop(of_a);
        drop(of_b);
        assert!(admission.run(&a).is_ok());
    }

    #[test]
    fn a_burst_is_twice_the_rate() {
        let mut admission = admission(|| None);
        let inner = Arc::get_mut(&mut admission).unwrap();
        inner.creates_per_second = 1;
        drop(admission.sessions(&tenant("a"), 2, 0, Walls::Full).unwrap());
        assert_eq!(refused(&admission, "a", 1), Code::TooManyCreates);
        assert!(admission.sessions(&tenant("b"), 1, 0, Walls::Full).is_ok());
    }
}
