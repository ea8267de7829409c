//! The end of a service.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Ask as _, options, world, world_with};

/// Running cells end, new work is refused, streams go on.
#[tokio::test]
async fn running_cells_end_before_the_service_does() {
    let mut world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut running = client
        .stream(&session, "import time\ntime.sleep(1)\nprint('end')")
        .await;
    running.next().await.unwrap();
    world.stop.take().unwrap().send(()).unwrap();
    let create = || client.post("/v1/sessions", json!({}));
    let refused = loop {
        let response = create().send().await.unwrap();
        if response.status() == 503 {
            break response;
        }
        assert_eq!(response.status(), 201);
    };
    assert_eq!(refused.headers()["retry-after"], "5");
    create().problem(503, "draining").await;
    client.get(&session).with(200).await;
    let health = reqwest::get(format!("http://{}/healthz", world.admin))
        .await
        .unwrap();
    assert_eq!(health.status(), 503);
    let rest = running.rest().await;
    assert_eq!(rest.last().unwrap().data["stdout"]["text"], "end\n");
    let ended = tokio::time::timeout(Duration::from_secs(10), world.task).await;
    ended.unwrap().unwrap().unwrap();
}

/// A cell that does not end in time is ended, and its reader is told.
#[tokio::test]
async fn cells_that_go_on_are_ended() {
    let world = world_with(options(|options| {
        options.drain = Duration::from_millis(300);
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut running = client.stream(&session, "import time\ntime.sleep(25)").await;
    running.next().await.unwrap();
    let start = Instant::now();
    world.ends().await;
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    let rest = running.rest().await;
    assert_eq!(rest.len(), 1, "{rest:#?}");
    assert!(
        ["fault", "outcome"].contains(&rest[0].kind.as_str()),
        "{rest:#?}"
    );
}
