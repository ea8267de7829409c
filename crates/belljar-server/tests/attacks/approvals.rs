//! What a person approves for one use: a client that goes on from a run another way gets no second use of it.

use std::time::Duration;

use belljar_agent::{Dialect, Profile, Provider};
use belljar_server::{OfferedModel, Scope, ServerOptions};
use belljar_test_model::{Recorded, Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::harness::{Case, Severity};
use crate::support::{Ask as _, Client, options};

/// To the task `Keep.` a cell that leaves a variable; to `Look.` one that tells whether it is there.
fn reply(request: &Recorded) -> Scripted {
    let talk = request.json().to_string();
    let code = |code: &str| Scripted::text(format!("```python\n{code}\n```"));
    let answer = |text: &str| Scripted::text(format!("FINAL: {text}"));
    let has = |words: &str| talk.contains(words);
    match (has("Task: Look."), has("it is there: "), has("token is 41")) {
        (true, true, _) => answer("I looked."),
        (true, false, _) => code("print('it is there:', 'token' in globals())"),
        (false, _, true) => answer("41"),
        (false, _, false) => code("token = 41\nprint('token is', token)"),
    }
}

pub(crate) fn offering(model: &ScriptedModel) -> ServerOptions {
    let mut profile = Profile::built_in("llamacpp").unwrap();
    profile.base_url = model.base_url();
    options(|options| {
        options.runs.models = vec![OfferedModel {
            name: "llamacpp/scripted".into(),
            provider: Provider::new(profile, "scripted").unwrap(),
            dialect: Dialect::FencedCode,
            max_tokens: 1024,
            temperature: Some(0.0),
            review: false,
        }];
    })
}

pub(crate) async fn until(client: &Client, run: &str, state: &str) -> Value {
    for _ in 0..1500 {
        let shown = client.get(run).json_with(200).await;
        if shown["state"] == state {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{run} never was `{state}`");
}

/// Says yes to what a run waits for; what it was.
async fn accept(client: &Client, run: &str, rest_of_run: bool) -> Value {
    let waits = until(client, run, "waits").await["waits_for"][0].clone();
    let decision = json!({"kind": "accept", "rest_of_run": rest_of_run});
    decide(client, run, &waits, &decision).with(204).await;
    waits
}

fn decide(client: &Client, run: &str, asked: &Value, decision: &Value) -> reqwest::RequestBuilder {
    let path = format!("{run}/approvals/{}", asked["id"].as_str().unwrap());
    client.post(&path, json!({"hash": asked["hash"], "decision": decision}))
}

pub(crate) fn path(run: &Value) -> String {
    format!("/v1/runs/{}", run["id"].as_str().unwrap())
}

/// A run that has ended, whose one cell a person has approved.
async fn approved_once(client: &Client) -> String {
    let asked = json!({"task": "Keep.", "approvals": "always"});
    let run = path(&client.post("/v1/runs", asked).json_with(202).await);
    accept(client, &run, false).await;
    until(client, &run, "answered").await;
    run
}

async fn goes_on(client: &Client, run: &str, way: &str) -> String {
    let body = match way {
        "branch" => json!({"step": 1, "task": "Look."}),
        _ => json!({"task": "Look."}),
    };
    path(
        &client
            .post(&format!("{run}/{way}"), body)
            .json_with(202)
            .await,
    )
}

/// Accepts the one cell of a run; what it printed, what was told of its session, and how often somebody was asked.
async fn looked(client: &Client, run: &str) -> (String, String, usize) {
    accept(client, run, false).await;
    until(client, run, "answered").await;
    let events = crate::support::Events::from_request(client.get(&format!("{run}/events"))).await;
    let events = events.rest().await;
    let of = |kind: &str| {
        let found = events.iter().filter(|told| told.kind == kind);
        found.map(|told| told.data.clone()).collect::<Vec<_>>()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    assert_eq!(of("call_started").len(), 1, "{events:#?}");
    (
        text(&of("call_ended")[0]["result"]["cell"]["output"]),
        text(&of("session_started")[0]["note"]),
        of("approval_asked").len(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn n30_a_branch_runs_no_approved_code_again() {
    let model = ScriptedModel::react(reply).unwrap();
    let case = Case::begin_with(
        offering(&model),
        "N30",
        Severity::InternalEsc,
        "a branch from after a cell that a person approved for one use",
        "the cell is not run again; the model gets a note",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = approved_once(&hostile).await;
    let branch = goes_on(&hostile, &run, "branch").await;
    let (printed, note, asked) = looked(&hostile, &branch).await;
    assert_eq!((printed.as_str(), asked), ("it is there: False\n", 1));
    assert!(note.contains("its cells were not run again"), "{note}");
    // Where nobody is asked, nothing was approved: the cells run again.
    let keep = hostile.post("/v1/runs", json!({"task": "Keep.", "approvals": "never"}));
    let free = path(&keep.json_with(202).await);
    until(&hostile, &free, "answered").await;
    let branch = goes_on(&hostile, &free, "branch").await;
    until(&hostile, &branch, "answered").await;
    let events =
        crate::support::Events::from_request(hostile.get(&format!("{branch}/events"))).await;
    let told = format!("{:?}", events.rest().await);
    assert!(told.contains("it is there: True"), "{told}");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n31_a_follow_up_runs_no_approved_code_again() {
    let model = ScriptedModel::react(reply).unwrap();
    let case = Case::begin_with(
        offering(&model),
        "N31",
        Severity::InternalEsc,
        "a follow-up of a run with an approved cell, whose session was kept, and was not",
        "the kept session is loaded; without one the cell is not run again",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = approved_once(&hostile).await;
    let kept = goes_on(&hostile, &run, "follow-up").await;
    let (printed, note, asked) = looked(&hostile, &kept).await;
    assert_eq!((printed.as_str(), asked), ("it is there: True\n", 1));
    assert!(!note.contains("again"), "{note}");
    let id = run.rsplit('/').next().unwrap();
    let data = case.world.data.path().join("runs/hostile/runs").join(id);
    std::fs::remove_file(data.join("session-1.snapshot")).unwrap();
    let lost = goes_on(&hostile, &run, "follow-up").await;
    let (printed, note, asked) = looked(&hostile, &lost).await;
    assert_eq!((printed.as_str(), asked), ("it is there: False\n", 1));
    assert!(note.contains("its cells were not run again"), "{note}");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n32_two_branches_share_no_approval() {
    let model = ScriptedModel::react(reply).unwrap();
    let case = Case::begin_with(
        offering(&model),
        "N32",
        Severity::InternalEsc,
        "two branches at once that ask for the same bytes; decisions of one sent to the other, and again",
        "each waits for a decision of its own; one that was used is refused",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = approved_once(&hostile).await;
    let (first, second) = tokio::join!(
        goes_on(&hostile, &run, "branch"),
        goes_on(&hostile, &run, "branch")
    );
    let asked = until(&hostile, &first, "waits").await["waits_for"][0].clone();
    let other = until(&hostile, &second, "waits").await["waits_for"][0].clone();
    assert_eq!(
        (&asked["id"], &asked["hash"]),
        (&other["id"], &other["hash"])
    );
    accept(&hostile, &first, false).await;
    until(&hostile, &first, "answered").await;
    let accept_once = || json!({"kind": "accept"});
    for used in [&first, &run] {
        decide(&hostile, used, &asked, &accept_once())
            .problem(404, "approval_not_found")
            .await;
    }
    let waits = until(&hostile, &second, "waits").await;
    assert_eq!(waits["waits_for"].as_array().unwrap().len(), 1);
    assert_eq!(looked(&hostile, &second).await.2, 1);
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n33_what_is_allowed_for_the_rest_of_a_run_ends_with_it() {
    let model = ScriptedModel::react(reply).unwrap();
    let case = Case::begin_with(
        offering(&model),
        "N33",
        Severity::InternalEsc,
        "a follow-up and a branch of a run in which a person said not to be asked again",
        "both ask each time, as that run did when it began",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let asked = json!({"task": "Keep.", "approvals": "always"});
    let run = path(&hostile.post("/v1/runs", asked).json_with(202).await);
    accept(&hostile, &run, true).await;
    until(&hostile, &run, "answered").await;
    for way in ["follow-up", "branch"] {
        let next = goes_on(&hostile, &run, way).await;
        let waits = until(&hostile, &next, "waits").await;
        assert_eq!(waits["approvals"], "always", "{way}");
        assert_eq!(looked(&hostile, &next).await.2, 1, "{way}");
    }
    case.end().await;
}
