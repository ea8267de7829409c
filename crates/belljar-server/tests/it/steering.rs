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
        code("2").slow_first_byte(Duration::from_secs(10)),
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
    assert!(before.elapsed() < Duration::from_secs(8));
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

/// What the cells of a run printed, and what is told of its session.
async fn told(client: &Client, run: &str) -> (Vec<String>, String) {
    let events = client.events(run, 0).await.rest().await;
    let output = |data: &Value| data["result"]["cell"]["output"].as_str().map(str::to_owned);
    let outputs = events.iter().filter(|told| told.kind == "call_ended");
    let outputs = outputs.filter_map(|told| output(&told.data)).collect();
    let started = events.iter().find(|told| told.kind == "session_started");
    let note = started.map(|told| told.data["note"].as_str().unwrap_or_default());
    (outputs, note.unwrap_or_default().to_owned())
}

async fn goes_on(client: &Client, run: &str, way: &str, body: Value) -> String {
    let new = client
        .post(&format!("{run}/{way}"), body)
        .json_with(202)
        .await;
    assert_eq!(new["parent"]["id"], run.rsplit('/').next().unwrap());
    format!("/v1/runs/{}", new["id"].as_str().unwrap())
}

/// A follow-up has the variables and files of the run before it, kept or made again, and knows what was done.
#[tokio::test]
async fn a_follow_up_goes_on_in_the_session() {
    let (world, client, model) = desk([
        code("x = 41\nopen('note', 'w').write('hi')\nprint(x)"),
        answer("41"),
        code("x = x + 1\nprint(x, open('note').read())"),
        answer("42"),
        code("print(x + 1)"),
        answer("43"),
        code("print(x + 2)"),
        answer("44"),
    ])
    .await;
    let run = client
        .start(json!({"task": "Take 41.", "budget": {"steps": 7}}))
        .await;
    client.until(&run, "answered").await;
    let follow_up = |task: &str| client.post(&format!("{run}/follow-up"), json!({"task": task}));
    follow_up(" ").problem(400, "bad_body").await;
    let second = goes_on(&client, &run, "follow-up", json!({"task": "Add one."})).await;
    let shown = client.until(&second, "answered").await;
    assert_eq!(
        (&shown["task"], &shown["budget"]["steps"]),
        (&json!("Add one."), &json!(7))
    );
    assert_eq!(shown["parent"]["step"], 2);
    assert_eq!(
        told(&client, &second).await,
        (vec!["42 hi\n".to_owned()], String::new())
    );
    let asked = model.requests()[2].json().to_string();
    for part in [
        "Task: Add one.",
        "Its task was: Take 41.",
        "Its answer was: 41",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    // Of a follow-up, another one.
    let third = goes_on(&client, &second, "follow-up", json!({"task": "Again."})).await;
    client.until(&third, "answered").await;
    assert_eq!(told(&client, &third).await.0, ["43\n"]);

    // Where nothing was kept, all cells run again: those of both runs.
    let id = second.rsplit('/').next().unwrap();
    let kept = world
        .data
        .path()
        .join("runs/a/runs")
        .join(id)
        .join("session-2.snapshot");
    std::fs::remove_file(kept).unwrap();
    let fourth = goes_on(&client, &second, "follow-up", json!({"task": "Again."})).await;
    client.until(&fourth, "answered").await;
    let (outputs, note) = told(&client, &fourth).await;
    assert_eq!(outputs, ["44\n"]);
    assert!(note.contains("running its 2 cells again"), "{note}");
}

/// A branch has the state of its step; what crashed has left none.
#[tokio::test]
async fn a_branch_begins_after_a_step() {
    let (_world, client, _model) = desk([
        code("x = 1\nprint(x)"),
        code("import os\nos.abort()"),
        code("x = x + 100\nprint(x)"),
        answer("101"),
        code("print(x + 1)"),
        answer("2"),
        code("print(x + 2)"),
        answer("103"),
        code("1"),
    ])
    .await;
    let run = client.start(json!({"task": "Count."})).await;
    client.until(&run, "answered").await;
    let first = goes_on(&client, &run, "branch", json!({"step": 1})).await;
    let shown = client.until(&first, "answered").await;
    assert_eq!(
        (&shown["task"], &shown["parent"]["step"]),
        (&json!("Count."), &json!(1))
    );
    let (outputs, note) = told(&client, &first).await;
    assert_eq!(outputs, ["2\n"]);
    assert!(note.contains("running its 1 cells again"), "{note}");
    let other = json!({"step": 3, "task": "Add two."});
    let third = goes_on(&client, &run, "branch", other).await;
    let shown = client.until(&third, "answered").await;
    assert_eq!(shown["task"], "Add two.");
    assert_eq!(told(&client, &third).await.0, ["103\n"]);
    let branch = |run: &str, body: Value| client.post(&format!("{run}/branch"), body);
    for step in [0, 5, 99] {
        branch(&run, json!({"step": step}))
            .problem(404, "step_not_found")
            .await;
    }
    branch(&run, json!({})).problem(400, "bad_body").await;
    // A run that waits has no end to follow, and no step that has ended.
    let waits = client
        .start(json!({"task": "Wait.", "approvals": "always"}))
        .await;
    client.until(&waits, "waits").await;
    let follow_up = client.post(&format!("{waits}/follow-up"), json!({"task": "x"}));
    follow_up.problem(409, "run_not_ended").await;
    branch(&waits, json!({"step": 1}))
        .problem(404, "step_not_found")
        .await;
}
