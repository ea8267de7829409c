//! One tenant's flood is not another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Ask as _, Client, options, world_with};

/// Rounds with and without the flood, one after the other, so that whatever else the machine does meets both.
const ROUNDS: usize = 4;
const SAMPLES: usize = 15;

/// What a tenant who waits for answers sees: a cell that computes for some milliseconds, and a session from its
/// start to its end.
async fn sample(client: &Client, session: &str) -> [Duration; 2] {
    let start = Instant::now();
    client
        .run(session, "sum(i * i for i in range(100_000))")
        .await;
    let cell = start.elapsed();
    let start = Instant::now();
    let new = client.session().await;
    let create = start.elapsed();
    client.delete(&new).with(204).await;
    [cell, create]
}

/// Uses all that a tenant may use at once, again and again: cells that compute, sessions that are started.
async fn flood(client: Client, sessions: Arc<Vec<String>>, stop: Arc<AtomicBool>) -> usize {
    let (mut tasks, done) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for session in sessions.iter() {
        let cells = format!("{session}/cells");
        let (client, stop, done) = (client.clone(), Arc::clone(&stop), Arc::clone(&done));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let body = json!({"code": "sum(i * i for i in range(300_000))"});
                let request = client.post(&cells, body);
                request.send().await.unwrap().bytes().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for _ in 0..8 {
        let (client, stop) = (client.clone(), Arc::clone(&stop));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let made = client.post("/v1/sessions", json!({})).send().await.unwrap();
                if made.status() == 201 {
                    let made: serde_json::Value = made.json().await.unwrap();
                    let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
                    client.delete(&path).with(204).await;
                } else {
                    // As it is told to.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    done.load(Ordering::Relaxed)
}

fn median(mut samples: Vec<Duration>) -> f64 {
    samples.sort_unstable();
    samples[samples.len() / 2].as_secs_f64()
}

/// K10: what another tenant waits for does not depend on how many cells one keeps busy, nor on how many sessions it
/// starts. Medians, since whatever else runs on this machine is in the tails (those are in docs/performance.md); without
/// cgroups, another tenant waits up to thirty times as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_tenant_is_not_felt_by_another() {
    let world = world_with(options(|options| options.creates_per_second = 20)).await;
    let (a, b) = (world.client("a").await, world.client("b").await);
    let session = b.session().await;
    let mut sessions = Vec::new();
    for _ in 0..32 {
        sessions.push(a.session().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sessions = Arc::new(sessions);
    let mut seen: [[Vec<Duration>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for flooded in [false, true] {
            let stop = Arc::new(AtomicBool::new(false));
            let flooding = flooded
                .then(|| tokio::spawn(flood(a.clone(), Arc::clone(&sessions), Arc::clone(&stop))));
            tokio::time::sleep(Duration::from_millis(300)).await;
            for _ in 0..SAMPLES {
                let samples = sample(&b, &session).await;
                for (kind, sample) in samples.into_iter().enumerate() {
                    seen[kind][usize::from(flooded)].push(sample);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.store(true, Ordering::Relaxed);
            if let Some(flooding) = flooding {
                let cells = flooding.await.unwrap();
                assert!(cells >= sessions.len(), "there was no flood: {cells}");
            }
        }
    }
    let [cell, create] = seen.map(|[alone, flooded]| {
        let (alone, flooded) = (median(alone), median(flooded));
        eprintln!("alone {alone:.4} s, flooded {flooded:.4} s");
        flooded / alone
    });
    assert!(cell < 2.0, "cells take {cell:.2} times as long");
    assert!(
        create < 4.0,
        "sessions take {create:.2} times as long to start"
    );
}
