//! What a person changes of a run over HTTP: its budget, its policy, its way.

use std::time::{Duration, Instant};

use belljar_agent::Policy;
use belljar_test_model::ScriptedModel;
use serde_json::{Value, json};

use crate::runs::{answer, client, code, desk, offering};
use crate::support::{Ask as _, Client, world_with};

/// Accepts what a run waits for.
async fn accept(client: &Client, run: &str) {
    let waits = client.until(run, "waits").await["waits_for"][0].clone();
    let accept = json!({"kind": "accept"});
    let decided = client.decide(run, &waits, &waits["hash"], accept);
    decided.with(204).await;
}

async fn kinds(client: &Client, run: &str) -> Vec<String> {
    let events = client.events(run, 0).await.rest().await;
    events.into_iter().map(|told| told.kind).collect()
}

#[tokio::test]
async fn a_budget_is_raised_within_what_the_service_gives() {
    let (_world, client, _model) = desk([code("1"), code("2"), code("42"), answer("42")]).await;
    let asked = json!({"task": "Count.", "approvals": "always", "budget": {"steps": 2}});
    let run = client.start(asked).await;
    client.until(&run, "waits").await;
    let raise = |body: Value| client.post(&format!("{run}/budget"), body);
    raise(json!({})).problem(400, "bad_body").await;
    raise(json!({"steps": 21}))
        .problem(400, "limit_too_high")
        .await;
    raise(json!({"repeats": 9})).problem(400, "bad_body").await;
    let raised = raise(json!({"steps": 6})).json_with(200).await;
    assert_eq!(
        (&raised["budget"]["steps"], &raised["state"]),
        (&json!(6), &json!("waits"))
    );
    let lower = raise(json!({"steps": 3})).json_with(200).await;
    assert_eq!(lower["budget"]["steps"], 6);
    for _ in 0..3 {
        accept(&client, &run).await;
    }
    let kinds = kinds(&client, &run).await;
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "budget_raised").count(),
        2
    );
    let ended = client.until(&run, "answered").await;
    assert_eq!(
        (&ended["answer"], &ended["spent"]["steps"]),
        (&json!("42"), &json!(4))
    );
    raise(json!({"steps": 7})).problem(409, "run_ended").await;
}

#[tokio::test]
async fn a_policy_holds_for_the_rest_of_a_run() {
    let (_world, client, _model) = desk([
        code("1"),
        code("2").slow_first_byte(Duration::from_secs(3)),
        code("3"),
        code("42"),
        answer("42"),
    ])
    .await;
    let run = client
        .start(json!({"task": "Count.", "approvals": "always"}))
        .await;
    let set = |policy: &str| client.post(&format!("{run}/policy"), json!({"approvals": policy}));
    client.until(&run, "waits").await;
    set("often").problem(400, "bad_body").await;
    let shown = set("never").json_with(200).await;
    // What was asked is for the person still.
    assert_eq!(
        (&shown["state"], &shown["approvals"]),
        (&json!("waits"), &json!("never"))
    );
    accept(&client, &run).await;
    // While the model is being asked, nobody waits for it.
    client.until(&run, "running").await;
    let before = Instant::now();
    let shown = set("always").json_with(200).await;
    assert_eq!(
        (&shown["state"], &shown["approvals"]),
        (&json!("running"), &json!("always"))
    );
    assert!(before.elapsed() < Duration::from_secs(2));
    accept(&client, &run).await;
    client.until(&run, "waits").await;
    set("risky").json_with(200).await;
    accept(&client, &run).await;
    let kinds = kinds(&client, &run).await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("policy_set"), count("approval_asked")), (3, 3));
    client.until(&run, "answered").await;
    set("never").problem(409, "run_ended").await;
}

/// A tenant may have a person asked more often than the operator says, and never less.
#[tokio::test]
async fn a_policy_is_not_weaker_than_that_of_the_service() {
    let model = ScriptedModel::start([code("1")]).unwrap();
    let mut options = offering(&model);
    options.runs.approvals.policy = Policy::Risky;
    let world = world_with(options).await;
    let client = client(&world, "a").await;
    let create = |policy: &str| client.post("/v1/runs", json!({"task": "x", "approvals": policy}));
    create("never").problem(400, "policy_too_weak").await;
    let run = client
        .start(json!({"task": "x", "approvals": "always"}))
        .await;
    let set = |policy: &str| client.post(&format!("{run}/policy"), json!({"approvals": policy}));
    client.until(&run, "waits").await;
    set("never").problem(400, "policy_too_weak").await;
    assert_eq!(set("risky").json_with(200).await["approvals"], "risky");
}
