//! A service that is killed under load, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::runs::whole_run;
use crate::service::{Requests, Said, Service};

/// Clients that have runs, and that have sessions.
const WITH_RUNS: u64 = 4;
const WITH_SESSIONS: u64 = 8;

pub(crate) async fn kills(service: &mut Service, kills: u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let cells = Arc::new(AtomicU64::new(0));
    let mut with_runs = JoinSet::new();
    for client in 0..WITH_RUNS {
        let (service, stop) = (service.requests(), Arc::clone(&stop));
        with_runs.spawn(async move {
            let mut went = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let name = format!("run-{client}-{}", went.len());
                went.push(whole_run(&service, service.key(client), &name).await);
            }
            went
        });
    }
    let mut with_sessions = JoinSet::new();
    for client in 0..WITH_SESSIONS {
        with_sessions.spawn(use_sessions(
            service.requests(),
            client,
            Arc::clone(&stop),
            Arc::clone(&cells),
        ));
    }
    let mut orphans = 0;
    for kill in 0..kills {
        // At any moment once it is at work again.
        let before = cells.load(Ordering::Relaxed);
        while cells.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let after = Duration::from_millis(kill * 1_103_515_245 % 2000);
        tokio::time::sleep(after).await;
        orphans += u64::from(!service.kill());
        service.start_again();
    }
    stop.store(true, Ordering::Relaxed);
    let (mut answered, mut wrong) = (0_u64, 0_u64);
    for went in with_runs.join_all().await.into_iter().flatten() {
        match went {
            Ok(view) if view["state"] == "answered" => answered += 1,
            Ok(view) => {
                wrong += 1;
                println!("a run: {view}");
            }
            Err(error) => {
                wrong += 1;
                println!("{error}");
            }
        }
    }
    with_sessions.join_all().await;
    let mut listed = 0;
    for client in 0..WITH_RUNS {
        listed += count_runs(service, service.key(client)).await;
    }
    println!(
        "{kills} kills: {answered} runs were read to their answer without gap or repeat, {wrong} were not; \
         {listed} runs are kept; {} cells were run in sessions; {orphans} times something was left after 5 s; {:?}",
        cells.load(Ordering::Relaxed),
        service.size()
    );
    assert!(wrong == 0 && orphans == 0 && listed == answered);
}

async fn use_sessions(
    service: Requests,
    client: u64,
    stop: Arc<AtomicBool>,
    cells: Arc<AtomicU64>,
) {
    let key = service.key(client);
    while !stop.load(Ordering::Relaxed) {
        let Said::Done(made) = service
            .post(key, "/v1/sessions", &serde_json::json!({}))
            .await
        else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
        while !stop.load(Ordering::Relaxed)
            && matches!(
                service.cell(key, &path, "sum(range(100_000))").await,
                Said::Done(_)
            )
        {
            cells.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn count_runs(service: &Requests, key: &str) -> u64 {
    let mut count = 0;
    let mut path = "/v1/runs?limit=100".to_owned();
    loop {
        let request = service.request(reqwest::Method::GET, key, &path);
        let Said::Done(page) = Requests::send(request).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        count += page["runs"].as_array().unwrap().len() as u64;
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("/v1/runs?limit=100&cursor={next}"),
            None => return count,
        }
    }
}
