//! What is measured.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::latencies::Latencies;
use crate::pipe::Pipe;
use crate::service::{Requests, Said, Service};

pub(crate) const LOAD_PANDAS: &str = "import pandas as pd\ndf = pd.DataFrame({'n': range(1000)})";
pub(crate) const SMALL: &str = "x = df['n'].sum()";
/// Some 20 ms of a CPU.
pub(crate) const WORK: &str = "sum(i * i for i in range(300_000))";
pub(crate) const BETWEEN: Duration = Duration::from_secs(10);

/// One session, one request after the other, against the reference in turn.
pub(crate) async fn round_trip(service: &Service) {
    let key = service.key(0);
    let session = service.session(key).await;
    let mut pipe = Pipe::new();
    let (mut over_http, mut by_pipe) = (Latencies::default(), Latencies::default());
    for n in 0..3000 {
        let started = Instant::now();
        let said = service.cell(key, &session, "x=1").await;
        assert!(matches!(said, Said::Done(_)));
        let took = started.elapsed();
        let reference = pipe.round_trip("x=1");
        // The first ones warm up.
        if n >= 200 {
            over_http.add(took);
            by_pipe.add(reference);
        }
    }
    over_http.line("a cell over HTTP");
    by_pipe.line("the same over a pipe");
    let ratio = over_http.within(0.5) / by_pipe.within(0.5);
    println!("ratio of the medians: {ratio:.1}");
}

/// Sessions that are asked for at once.
pub(crate) async fn burst(service: &Service, sessions: u64) {
    // Templates are there before: they are a cost of the first session of a tenant.
    for n in 0..10 {
        service.session(service.key(n)).await;
    }
    sleep(Duration::from_secs(3)).await;
    let started = Instant::now();
    let ready = join_all((0..sessions).map(async |n| {
        let key = service.key(n);
        let session = service.session(key).await;
        let said = service.cell(key, &session, LOAD_PANDAS).await;
        assert!(matches!(said, Said::Done(_)));
        started.elapsed()
    }));
    let mut ready: Latencies = {
        let mut all = Latencies::default();
        all.extend(ready.await);
        all
    };
    ready.line("sessions at once, from the burst to the result of a cell with pandas");
}

/// How often which.
#[derive(Debug, Default)]
struct Errors(Mutex<BTreeMap<String, usize>>);

impl Errors {
    fn add(&self, what: &str) {
        *self.0.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }
}

/// Many live sessions, each with a cell every ten seconds.
pub(crate) async fn hold(service: &Service, sessions: u64, seconds: u64) {
    let began = Instant::now();
    let mut live = Vec::new();
    for chunk in (0..sessions).collect::<Vec<_>>().chunks(20) {
        live.extend(
            join_all(chunk.iter().map(async |n| {
                let key = service.key(*n);
                let session = service.session(key).await;
                let said = service.cell(key, &session, LOAD_PANDAS).await;
                assert!(matches!(said, Said::Done(_)), "the first cell");
                (*n, session)
            }))
            .await,
        );
    }
    println!(
        "{} sessions are live after {:.0} s; memory, files, processes: {:?}",
        live.len(),
        began.elapsed().as_secs_f64(),
        service.size()
    );
    let start = tokio::time::Instant::now() + Duration::from_secs(2);
    let errors = Errors::default();
    let rounds = seconds / BETWEEN.as_secs();
    // Of the minute that goes on.
    let recent = Mutex::new(Latencies::default());
    let watched = async {
        for minute in 1..=seconds / 60 {
            sleep(Duration::from_mins(1)).await;
            println!("memory, files, processes: {:?}", service.size());
            let mut latencies = std::mem::take(&mut *recent.lock().unwrap());
            latencies.line(&format!("cells of minute {minute}"));
        }
    };
    let held = join_all(live.iter().map(async |(n, session)| {
        let mut latencies = Latencies::default();
        let offset = BETWEEN.mul_f64(
            f64::from(u32::try_from(*n).unwrap()) / f64::from(u32::try_from(sessions).unwrap()),
        );
        for round in 0..rounds {
            let due = start + offset + BETWEEN * u32::try_from(round).unwrap();
            sleep_until(due).await;
            match service.cell(service.key(*n), session, SMALL).await {
                Said::Done(outcome) if outcome["status"] == "success" => {
                    latencies.add(due.elapsed());
                    recent.lock().unwrap().add(due.elapsed());
                }
                Said::Done(outcome) => errors.add(outcome["status"].as_str().unwrap()),
                Said::No(status) => errors.add(status.as_str()),
                Said::Failed(_) => errors.add("no answer"),
            }
        }
        latencies
    }));
    let (held, ()) = tokio::join!(held, watched);
    let mut all = Latencies::default();
    for latencies in held {
        all.extend(latencies);
    }
    all.line("a cell over HTTP, from when it was due");
    println!("errors: {errors:?}");
}

/// How the cells of some seconds went.
#[derive(Default)]
struct Went {
    done: Latencies,
    refused: Latencies,
    failed: usize,
}

/// Cells that arrive at this rate, whatever becomes of them.
async fn arrivals(
    service: &Requests,
    sessions: &Arc<Vec<(u64, String)>>,
    rate: f64,
    time: Duration,
) -> Went {
    let start = tokio::time::Instant::now();
    let next = AtomicU64::new(0);
    let mut asked = JoinSet::new();
    let mut went = Went::default();
    let take = |went: &mut Went, (said, took): (Said, Duration)| match said {
        Said::Done(_) => went.done.add(took),
        Said::No(_) => went.refused.add(took),
        Said::Failed(_) => went.failed += 1,
    };
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let due = start + Duration::from_secs_f64(n as f64 / rate);
        if due > start + time {
            break;
        }
        sleep_until(due).await;
        let (service, sessions) = (service.clone(), Arc::clone(sessions));
        asked.spawn(async move {
            let at = usize::try_from(n).unwrap() % sessions.len();
            let (tenant, session) = &sessions[at];
            // From when it is sent: under overload this program itself is late.
            let sent = Instant::now();
            let said = service.cell(service.key(*tenant), session, WORK).await;
            (said, sent.elapsed())
        });
        while let Some(Ok(done)) = asked.try_join_next() {
            take(&mut went, done);
        }
    }
    while let Some(Ok(done)) = asked.join_next().await {
        take(&mut went, done);
    }
    went
}

/// Ten times as many cells as can be run.
pub(crate) async fn overload(service: &Service, seconds: u64) {
    let time = Duration::from_secs(seconds);
    let mut sessions = Vec::new();
    for n in 0..40 {
        sessions.push((n, service.session(service.key(n)).await));
    }
    // What can be run: each session has one cell after the other.
    let started = Instant::now();
    let done = join_all(sessions.iter().map(async |(n, session)| {
        let mut done = 0_u32;
        while started.elapsed() < time / 2 {
            let said = service.cell(service.key(*n), session, WORK).await;
            done += u32::from(matches!(said, Said::Done(_)));
        }
        done
    }));
    let done: u32 = done.await.iter().sum();
    let peak = f64::from(done) / started.elapsed().as_secs_f64();
    println!("peak: {peak:.0} cells a second; {:?}", service.size());
    let shared = service.requests();
    let sessions = Arc::new(sessions);
    let started = Instant::now();
    let mut went = arrivals(&shared, &sessions, 10.0 * peak, time).await;
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let goodput = went.done.count() as f64 / started.elapsed().as_secs_f64();
    println!(
        "at ten times that: {goodput:.0} cells a second are done ({:.0} % of the peak), {} got no answer; {:?}",
        100.0 * goodput / peak,
        went.failed,
        service.size()
    );
    went.refused.line("refusals");
    went.done.line("cells that were done");
    let recovered = Instant::now();
    let mut after = arrivals(&shared, &sessions, peak / 4.0, Duration::from_secs(20)).await;
    after.done.line("afterwards, at a quarter of the peak");
    println!(
        "{} refused; {:.0} s after the overload; {:?}",
        after.refused.count(),
        recovered.elapsed().as_secs_f64(),
        service.size()
    );
}
