//! What one tenant sees while another uses all that it may.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::task::JoinSet;

use crate::latencies::Latencies;
use crate::scenarios::WORK;
use crate::service::{Requests, Said, Service};

/// Turns without and with the flood, so that whatever else the machine does meets both.
const TURNS: usize = 8;

/// Sessions of the flood that compute, and clients of it that start sessions, all the time.
const BUSY: usize = 32;
const STARTING: usize = 8;

/// A cell that computes for some milliseconds.
const CELL: &str = "sum(i * i for i in range(100_000))";

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) cells: Latencies,
    pub(crate) starts: Latencies,
}

pub(crate) async fn fairness(service: &Service, seconds: u64) {
    let (one, other) = (service.key(0), service.key(1));
    let mine = service.session(one).await;
    let mut busy = Vec::new();
    for _ in 0..BUSY {
        busy.push(service.session(other).await);
    }
    let time = Duration::from_secs(seconds) / u32::try_from(2 * TURNS).unwrap();
    let (mut alone, mut flooded) = (Seen::default(), Seen::default());
    for _ in 0..TURNS {
        look(service, one, &mine, time, &mut alone).await;
        let flood = Flood::begin(service, other, &busy);
        tokio::time::sleep(Duration::from_millis(300)).await;
        look(service, one, &mine, time, &mut flooded).await;
        drop(flood);
        // What it had begun ends.
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    compare("cells", &mut alone.cells, &mut flooded.cells);
    compare("sessions", &mut alone.starts, &mut flooded.starts);
}

/// A cell, and a session from its start to its end, again and again.
pub(crate) async fn look(
    service: &Requests,
    key: &str,
    session: &str,
    time: Duration,
    seen: &mut Seen,
) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        let started = Instant::now();
        assert!(matches!(
            service.cell(key, session, CELL).await,
            Said::Done(_)
        ));
        seen.cells.add(started.elapsed());
        if seen.cells.count().is_multiple_of(8) {
            let started = Instant::now();
            let new = service.session(key).await;
            seen.starts.add(started.elapsed());
            let ended = service.request(Method::DELETE, key, &new).send().await;
            assert!(ended.unwrap().status().is_success());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Goes on until it is dropped. It is a process of its own, which gives way to all others: who floods a service does it
/// from elsewhere, so that what its clients do is to cost the one that is looked at nothing.
struct Flood(Child);

impl Flood {
    fn begin(service: &Requests, key: &str, busy: &[String]) -> Self {
        let flood = Command::new("nice")
            .args(["-n", "19"])
            .arg(std::env::current_exe().unwrap())
            .args([service.url(), "flood", key])
            .args(busy)
            .spawn();
        Self(flood.unwrap())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The flood itself, until it is killed.
pub(crate) async fn flood(service: &Requests, key: &str, busy: &[String]) {
    let mut tasks = JoinSet::new();
    for session in busy {
        let (service, key, session) = (service.clone(), key.to_owned(), session.clone());
        tasks.spawn(async move {
            loop {
                service.cell(&key, &session, WORK).await;
            }
        });
    }
    for _ in 0..STARTING {
        let (service, key) = (service.clone(), key.to_owned());
        tasks.spawn(async move {
            loop {
                let new = service.session(&key).await;
                let _ = service.request(Method::DELETE, &key, &new).send().await;
            }
        });
    }
    tasks.join_all().await;
}

/// Prints both; how many times longer the 99th percentile is.
pub(crate) fn compare(what: &str, alone: &mut Latencies, flooded: &mut Latencies) -> f64 {
    alone.line(&format!("{what}, alone"));
    flooded.line(&format!("{what}, beside a flood"));
    let median = flooded.within(0.5) / alone.within(0.5);
    let ratio = flooded.within(0.99) / alone.within(0.99);
    println!("{what}: {median:.2} times at the median, {ratio:.2} times at p99");
    ratio
}
