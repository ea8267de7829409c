//! Hours of use in which everything ends in every way, and what grows meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::task::JoinSet;

use crate::processes::{Process, Size, descendants};
use crate::runs::whole_run;
use crate::service::{Requests, Said, Service};

const CLIENTS: u64 = 6;
const WITH_RUNS: u64 = 2;

/// How often it is looked at.
const SAMPLE: Duration = Duration::from_secs(10);

/// Every so many samples, any process is ended.
const KILL_ANY: usize = 30;

/// The pause of a client between two sessions: the machine is not to be full.
const PAUSE: Duration = Duration::from_secs(1);

/// How the session of a turn ends, or what happens in it.
const CELLS: [&str; 6] = [
    "import pandas as pd; df = pd.DataFrame({'n': range(100_000)}); df.describe()",
    "import os; os.abort()",
    "print('x' * 1_000_000)",
    "x = bytearray(2_000_000_000)",
    "import subprocess; subprocess.Popen(['sleep', '1000'])",
    "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
];

type Part = fn(&Size) -> f64;

#[derive(Default)]
struct Count {
    sessions: AtomicU64,
    cells: AtomicU64,
    runs: AtomicU64,
    kills: AtomicU64,
    refused: AtomicU64,
}

pub(crate) async fn soak(service: &Service, seconds: u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(Count::default());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (service, stop, count) = (service.requests(), Arc::clone(&stop), Arc::clone(&count));
        clients.spawn(async move {
            let mut turn = client;
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                one_session(&service, service.key(client), turn, &count).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    for client in 0..WITH_RUNS {
        let (service, stop, count) = (service.requests(), Arc::clone(&stop), Arc::clone(&count));
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let n = count.runs.fetch_add(1, Ordering::Relaxed);
                let went = whole_run(&service, service.key(client), &format!("run-{n}")).await;
                assert_eq!(went.unwrap()["state"], "answered");
                tokio::time::sleep(PAUSE * 3).await;
            }
        });
    }
    let started = Instant::now();
    let mut samples: Vec<(f64, Size)> = Vec::new();
    while started.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(SAMPLE).await;
        samples.push((started.elapsed().as_secs_f64(), service.size()));
        if samples.len().is_multiple_of(30) {
            println!(
                "{:.0} s: {:?}",
                started.elapsed().as_secs_f64(),
                samples.last().unwrap().1
            );
        }
        // Somebody ends a process from outside: of a session, and now and then one that all sessions need.
        let mut processes = descendants(service.id());
        if !samples.len().is_multiple_of(KILL_ANY) {
            processes.retain(Process::is_in_a_session);
        }
        if let Some(one) = processes.get(samples.len() * 7 % processes.len().max(1))
            && let Some(id) = i32::try_from(one.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(id, Signal::KILL);
            count.kills.fetch_add(1, Ordering::Relaxed);
        }
    }
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
    println!(
        "{} sessions, {} cells, {} runs, {} processes killed from outside, {} requests refused or failed",
        get(&count.sessions),
        get(&count.cells),
        get(&count.runs),
        get(&count.kills),
        get(&count.refused),
    );
    // The first tenth warms up.
    let rest = &samples[samples.len() / 10..];
    let half = rest.len() / 2;
    let parts: [(&str, Part); 5] = [
        ("memory, MiB", |size| as_float(size.memory_mib)),
        ("open files", |size| as_float(size.files as u64)),
        ("mounts", |size| as_float(size.mounts as u64)),
        ("cgroups", |size| as_float(size.cgroups as u64)),
        ("processes", |size| as_float(size.processes as u64)),
    ];
    for (name, part) in parts {
        let mean = |samples: &[(f64, Size)]| {
            samples.iter().map(|(_, size)| part(size)).sum::<f64>() / as_float(samples.len() as u64)
        };
        let slope = |samples: &[(f64, Size)]| {
            3600.0 * slope(samples.iter().map(|(at, size)| (*at, part(size))))
        };
        // What is kept for a while, such as ended sessions, is full by the second half.
        println!(
            "{name}: {:.1} in the first half, {:.1} in the second; slope {:+.2} an hour, {:+.2} in the second half",
            mean(&rest[..half]),
            mean(&rest[half..]),
            slope(rest),
            slope(&rest[half..])
        );
    }
    println!("at rest: {:?}", service.size());
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn as_float(number: u64) -> f64 {
    number as f64
}

/// Of the line of least squares.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let (mut n, mut x, mut y) = (0.0, 0.0, 0.0);
    for point in points.clone() {
        n += 1.0;
        x += point.0;
        y += point.1;
    }
    let (x, y) = (x / n, y / n);
    let (mut up, mut down) = (0.0, 0.0);
    for point in points {
        up += (point.0 - x) * (point.1 - y);
        down += (point.0 - x) * (point.0 - x);
    }
    up / down
}

async fn one_session(service: &Requests, key: &str, turn: u64, count: &Count) {
    let path = match service.post(key, "/v1/sessions", &json!({})).await {
        Said::Done(made) => format!("/v1/sessions/{}", made["id"].as_str().unwrap()),
        Said::No(_) | Said::Failed(_) => {
            count.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    count.sessions.fetch_add(1, Ordering::Relaxed);
    let mut paths = vec![path.clone()];
    let at = usize::try_from(turn).unwrap();
    for code in [CELLS[0], CELLS[at % CELLS.len()], "1 + 1"] {
        match service.cell(key, &path, code).await {
            Said::Done(_) => count.cells.fetch_add(1, Ordering::Relaxed),
            Said::No(_) | Said::Failed(_) => count.refused.fetch_add(1, Ordering::Relaxed),
        };
    }
    // What is refused here is so since a process was ended from outside.
    if at % 2 == 0 {
        let file = service.request(Method::PUT, key, &format!("{path}/files/a.bin"));
        let _ = file.body(vec![0_u8; 1 << 20]).send().await;
        service
            .post(key, &format!("{path}/checkpoints"), &json!({"name": "a"}))
            .await;
        service.cell(key, &path, "df = None").await;
        service
            .post(key, &format!("{path}/restore"), &json!({"name": "a"}))
            .await;
    }
    if at % 3 == 0 {
        let forked = service
            .post(key, &format!("{path}/fork"), &json!({"count": 2}))
            .await;
        if let Said::Done(forked) = forked {
            let made = forked["sessions"].as_array().into_iter().flatten();
            paths.extend(made.map(|one| format!("/v1/sessions/{}", one["id"].as_str().unwrap())));
        }
    }
    if at % 5 == 0 {
        service
            .post(key, &format!("{path}/hibernate"), &json!({}))
            .await;
        service.cell(key, &path, "1").await;
    }
    for path in paths {
        let _ = service.request(Method::DELETE, key, &path).send().await;
    }
}
