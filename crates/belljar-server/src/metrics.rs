//! Numbers for Prometheus, in its text format. By hand: they are counters, gauges and one kind of histogram.
//!
//! Labels have a fixed number of values: none comes from a client. A tenant's name is no label, since their
//! number has no bound; the use of tenants is exported for all together and for the one with the most.

mod page;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use belljar_agent::METRIC_TARGET;
use belljar_sandbox::protocol::{Outcome, Status};
use belljar_sandbox::{CommandEnd, HostMemory};

use crate::lock::lock;
use crate::problem::Code;
use crate::runs::InCluster;
use crate::service::Service;
use page::{Histogram, Page};

/// Unit of times in `/proc`: a hundredth of a second, on all CPU architectures that we run on.
const TICKS: f64 = 100.0;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// By route and method.
    routes: BTreeMap<String, BTreeMap<&'static str, RouteCounts>>,
    problems: BTreeMap<&'static str, u64>,
    cells: BTreeMap<&'static str, u64>,
    commands: BTreeMap<&'static str, u64>,
    cell_durations: Histogram,
    passed_on: BTreeMap<PassOn, u64>,
    /// Sessions of the service before this one: hibernated, and lost.
    taken_over: (u64, u64),
}

/// What became of a request for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PassOn {
    Answered,
    /// The node has nothing of it.
    Unreached,
    /// Nobody knows what the node has done.
    BrokeOff,
}

#[derive(Debug, Default)]
struct RouteCounts {
    by_class: BTreeMap<&'static str, u64>,
    durations: Histogram,
}

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a Method,
    /// As it is declared, with names in place of ids; none where there is no such route.
    pub(crate) route: Option<&'a str>,
    pub(crate) status: StatusCode,
    pub(crate) code: Option<Code>,
    /// Until the head of the response: a stream continues after it.
    pub(crate) duration: Duration,
}

impl Metrics {
    pub(crate) fn request(&self, answered: &Answered<'_>) {
        let route = answered.route.unwrap_or("none");
        let mut counts = lock(&self.counts);
        if !counts.routes.contains_key(route) {
            counts.routes.insert(route.to_owned(), BTreeMap::new());
        }
        if let Some(methods) = counts.routes.get_mut(route) {
            let of_route = methods.entry(method_name(answered.method)).or_default();
            let class = class(answered.status);
            *of_route.by_class.entry(class).or_default() += 1;
            of_route.durations.add(answered.duration);
        }
        if let Some(code) = answered.code {
            *counts.problems.entry(code.as_str()).or_default() += 1;
        }
    }

    pub(crate) fn cell(&self, outcome: &Outcome) {
        tracing::info!(
            name: "belljar.cells",
            target: METRIC_TARGET,
            value = 1_u64,
            belljar.outcome.status = status_name(outcome.status)
        );
        let mut counts = lock(&self.counts);
        *counts.cells.entry(status_name(outcome.status)).or_default() += 1;
        let duration = Duration::from_micros(outcome.durations.total_us);
        counts.cell_durations.add(duration);
    }

    pub(crate) fn command(&self, end: &CommandEnd) {
        let mut counts = lock(&self.counts);
        *counts.commands.entry(end_name(end)).or_default() += 1;
    }

    pub(crate) fn passed_on(&self, end: PassOn) {
        *lock(&self.counts).passed_on.entry(end).or_default() += 1;
    }

    /// Sessions of the service before this one.
    pub(crate) fn taken_over(&self, hibernated: u64, lost: u64) {
        lock(&self.counts).taken_over = (hibernated, lost);
    }

    /// Refusals and faults since the start, by their code.
    pub(crate) fn problems(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.counts).problems.clone()
    }

    /// In the text format of Prometheus, with what the service has at present.
    pub(crate) fn text(&self, service: &Service) -> String {
        let (sessions, cells, permits) = service.admission.totals();
        let (made, hibernated) = service.sessions.made_and_hibernated();
        let mut page = Page::default();
        page.family(
            "belljar_build_info",
            "gauge",
            "Version of Belljar; always 1.",
        );
        page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.one(
            "belljar_sessions",
            "gauge",
            "Sessions, including hibernated ones.",
            sessions,
        );
        page.one(
            "belljar_sessions_hibernated",
            "gauge",
            "Hibernated sessions.",
            hibernated,
        );
        page.one(
            "belljar_sessions_created_total",
            "counter",
            "Sessions started, forked or loaded.",
            made,
        );
        page.one(
            "belljar_cells_running",
            "gauge",
            "Running and waiting cells.",
            cells,
        );
        page.one(
            "belljar_runs_active",
            "gauge",
            "Runs that this service drives.",
            service.runs.active(),
        );
        if let Some(cluster) = service.runs.in_cluster() {
            self.cluster(&mut page, &cluster);
        }
        self.counted(&mut page);
        page.family(
            "belljar_permits_used",
            "gauge",
            "Used permits: of all tenants (of=service), and of the tenant with the most (of=tenant).",
        );
        for permit in &permits {
            page.sample(&[("kind", permit.kind), ("of", permit.of)], permit.used);
        }
        page.family(
            "belljar_permits_limit",
            "gauge",
            "Number of permits, if limited.",
        );
        for permit in &permits {
            if let Some(limit) = permit.limit {
                page.sample(&[("kind", permit.kind), ("of", permit.of)], limit);
            }
        }
        if let Some(memory) = HostMemory::now() {
            page.one(
                "belljar_host_memory_bytes",
                "gauge",
                "Total memory of the host.",
                memory.total,
            );
            page.one(
                "belljar_host_memory_available_bytes",
                "gauge",
                "Available memory of the host, which admits new sessions.",
                memory.available,
            );
        }
        process(&mut page);
        page.text
    }

    fn cluster(&self, page: &mut Page, cluster: &InCluster) {
        page.one(
            "belljar_cluster_nodes",
            "gauge",
            "Nodes that beat, as this one sees them, with itself.",
            cluster.nodes,
        );
        page.one(
            "belljar_cluster_fenced",
            "gauge",
            "1 while this node cannot reach the database, and may not act for its runs.",
            u8::from(!cluster.may_act),
        );
        page.one(
            "belljar_cluster_draining",
            "gauge",
            "1 while this node is drained.",
            u8::from(cluster.is_draining),
        );
        page.one(
            "belljar_cluster_rejoined_total",
            "counter",
            "How often others had declared this node dead, and it joined again.",
            cluster.rejoined,
        );
        page.one(
            "belljar_cluster_runs_taken_over_total",
            "counter",
            "Runs that this node continued for another one.",
            cluster.taken_over,
        );
        page.family(
            "belljar_cluster_requests_passed_on_total",
            "counter",
            "Requests passed on to other nodes, by what became of them.",
        );
        let counts = lock(&self.counts);
        for (end, name) in [
            (PassOn::Answered, "answered"),
            (PassOn::Unreached, "unreached"),
            (PassOn::BrokeOff, "broke_off"),
        ] {
            let count = counts.passed_on.get(&end).copied().unwrap_or_default();
            page.sample(&[("end", name)], count);
        }
    }

    /// What has been counted since the start.
    fn counted(&self, page: &mut Page) {
        let counts = lock(&self.counts);
        page.family(
            "belljar_sessions_taken_over",
            "gauge",
            "Sessions of the service before this one, by their state at the start.",
        );
        let (hibernated, lost) = counts.taken_over;
        page.sample(&[("state", "hibernated")], hibernated);
        page.sample(&[("state", "lost")], lost);
        page.family("belljar_cells_total", "counter", "Ended cells, by status.");
        // All from the start: a rate needs a first value.
        for status in [
            Status::Success,
            Status::Failure,
            Status::Timeout,
            Status::Crashed,
        ] {
            let status = status_name(status);
            let count = counts.cells.get(status).copied().unwrap_or_default();
            page.sample(&[("status", status)], count);
        }
        page.family(
            "belljar_cell_duration_seconds",
            "histogram",
            "Time from the request of a cell to its outcome.",
        );
        page.histogram(&[], &counts.cell_durations);
        page.family(
            "belljar_commands_total",
            "counter",
            "Ended commands, by their end.",
        );
        for end in COMMAND_ENDS {
            let count = counts.commands.get(end).copied().unwrap_or_default();
            page.sample(&[("end", end)], count);
        }
        let routes = || {
            counts.routes.iter().flat_map(|(route, methods)| {
                methods.iter().map(move |(method, of_route)| {
                    ([("method", *method), ("route", route)], of_route)
                })
            })
        };
        page.family(
            "belljar_http_requests_total",
            "counter",
            "HTTP responses, by method, route and status class.",
        );
        for ([method, route], of_route) in routes() {
            for (class, count) in &of_route.by_class {
                page.sample(&[method, route, ("status", class)], count);
            }
        }
        page.family(
            "belljar_http_request_duration_seconds",
            "histogram",
            "Time from the head of a request to the head of its response.",
        );
        for (labels, of_route) in routes() {
            page.histogram(&labels, &of_route.durations);
        }
        page.family(
            "belljar_http_problems_total",
            "counter",
            "Problems (refusals and faults), by code.",
        );
        for code in Code::ALL {
            let code = code.as_str();
            let count = counts.problems.get(code).copied().unwrap_or_default();
            page.sample(&[("code", code)], count);
        }
    }
}

/// What the kernel tells of this process, under the names that all exporters use. Sessions are other processes.
fn process(page: &mut Page) {
    let read = |path| std::fs::read_to_string(path).ok();
    if let Some((seconds, since_boot)) = read("/proc/self/stat").as_deref().and_then(times) {
        page.one(
            "process_cpu_seconds_total",
            "counter",
            "CPU time of the service process.",
            seconds,
        );
        let booted = read("/proc/stat").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
            line.trim().parse::<f64>().ok()
        });
        if let Some(booted) = booted {
            page.one(
                "process_start_time_seconds",
                "gauge",
                "Start time of the service, in seconds since 1970.",
                booted + since_boot,
            );
        }
    }
    let resident = read("/proc/self/status").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    });
    if let Some(resident) = resident {
        page.one(
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory of the service process.",
            resident,
        );
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        page.one(
            "process_open_fds",
            "gauge",
            "Open file descriptors.",
            open.count().saturating_sub(1),
        );
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        page.one(
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            limit,
        );
    }
}

/// CPU time and start time of a process, counted from the boot; from its line in `stat`.
fn times(stat: &str) -> Option<(f64, f64)> {
    // The name before it may have blanks and brackets.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok().map(f64::from);
    Some(((ticks(11)? + ticks(12)?) / TICKS, ticks(19)? / TICKS))
}

pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Failure => "failure",
        Status::Timeout => "timeout",
        Status::Crashed => "crashed",
    }
}

/// How commands end.
const COMMAND_ENDS: [&str; 4] = ["exit", "signal", "timeout", "lost"];

fn end_name(end: &CommandEnd) -> &'static str {
    let [exit, signal, timeout, lost] = COMMAND_ENDS;
    match end {
        CommandEnd { lost: Some(_), .. } => lost,
        CommandEnd {
            timed_out: true, ..
        } => timeout,
        CommandEnd {
            signal: Some(_), ..
        } => signal,
        _ => exit,
    }
}

/// A client may write any word as its method.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
