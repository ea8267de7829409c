//! Runs of the agent over HTTP, with a model that says what a test wants.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{Budget, Dialect, Profile, Provider, signer_of};
use belljar_sandbox::{Engine, EngineSet, Environment};
use belljar_server::{OfferedModel, Scope, ServerOptions};
use belljar_test_model::{Recorded, Scripted, ScriptedModel};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{
    Ask as _, Client, Events, World, bare, options, soon, world, world_in, world_of_engines,
    world_with,
};

const MODEL: &str = "llamacpp/scripted";

/// A reply that runs code.
pub(crate) fn code(code: &str) -> Scripted {
    Scripted::text(format!("```python\n{code}\n```"))
}

/// A reply that answers.
pub(crate) fn answer(text: &str) -> Scripted {
    Scripted::text(format!("FINAL: {text}"))
}

/// A cell and an answer: one that rests on nothing would be sent back.
fn at_once(text: &str) -> [Scripted; 2] {
    [code("6 * 7"), answer(text)]
}

/// What a model says to whoever asks: a cell that writes a file, and an answer once it has run.
pub(crate) fn one_run(request: &Recorded) -> Scripted {
    if request.json().to_string().contains("it is written") {
        answer("Done.")
    } else {
        code("open('one', 'w').write('1')\nprint('it', 'is', 'written')")
    }
}

pub(crate) fn offering(model: &ScriptedModel) -> ServerOptions {
    offering_in(model, Dialect::FencedCode)
}

fn offering_in(model: &ScriptedModel, dialect: Dialect) -> ServerOptions {
    let mut profile = Profile::built_in("llamacpp").unwrap();
    profile.base_url = model.base_url();
    profile.retries.attempts = 2;
    profile.retries.first_wait_ms = 10;
    options(|options| {
        options.runs.models = vec![OfferedModel {
            name: MODEL.into(),
            provider: Provider::new(profile, "scripted").unwrap(),
            dialect,
            max_tokens: 1024,
            temperature: Some(0.0),
            review: false,
        }];
    })
}

/// A service, its model, and somebody who may use runs and sessions.
pub(crate) async fn desk(
    script: impl IntoIterator<Item = Scripted>,
) -> (World, Client, ScriptedModel) {
    let model = ScriptedModel::start(script).unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    (world, client, model)
}

pub(crate) async fn client(world: &World, tenant: &str) -> Client {
    let scopes = [Scope::Sessions, Scope::Runs];
    world.client_with(tenant, &scopes).await
}

impl Client {
    /// Starts a run; its path.
    pub(crate) async fn start(&self, body: Value) -> String {
        let run = self.post("/v1/runs", body).json_with(202).await;
        format!("/v1/runs/{}", run["id"].as_str().unwrap())
    }

    pub(crate) async fn events(&self, run: &str, after: u64) -> Events {
        Events::from_request(self.events_after(run, after)).await
    }

    fn events_after(&self, run: &str, after: u64) -> RequestBuilder {
        let request = self.get(&format!("{run}/events"));
        request.header("last-event-id", after)
    }

    /// A run that waits for a person; its path.
    pub(crate) async fn waiting_run(&self) -> String {
        let run = self
            .start(json!({"task": "Write.", "approvals": "always"}))
            .await;
        self.until(&run, "waits").await;
        run
    }

    /// Waits until a run is so.
    pub(crate) async fn until(&self, run: &str, state: &str) -> Value {
        for _ in 0..500 {
            let shown = self.get(run).json_with(200).await;
            if shown["state"] == state {
                return shown;
            }
            let over = ["answered", "unverified", "ended"].map(Value::from);
            assert!(!over.contains(&shown["state"]), "{shown:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{run} never was `{state}`");
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that tests write `json!` without `&`"
    )]
    pub(crate) fn decide(
        &self,
        run: &str,
        asked: &Value,
        hash: &Value,
        decision: Value,
    ) -> RequestBuilder {
        let path = format!("{run}/approvals/{}", asked["id"].as_str().unwrap());
        self.post(&path, json!({"hash": hash, "decision": decision}))
    }
}

/// From the file to the artifact, with everything that can be asked of a run that has ended.
#[tokio::test]
async fn a_run_from_its_file_to_its_artifact() {
    let (world, client, model) = desk([
        code(
            "total = sum(int(line) for line in open('numbers.txt'))\n\
             extra = int(open('more.txt').read())\n\
             import os\nos.makedirs('out', exist_ok=True)\n\
             print('sum', total + extra, file=open('out/sum.txt', 'w'))\nprint(total + extra)",
        ),
        answer("The sum is 4217."),
    ])
    .await;
    let session = client.session().await;
    client
        .put(&format!("{session}/files/kept/more"), "17")
        .with(204)
        .await;
    let created = client
        .post(
            "/v1/runs",
            json!({
                "task": "What is the sum?",
                "files": [
                    {"name": "numbers.txt", "contents": BASE64.encode("4000\n200\n")},
                    {"name": "more.txt", "session_id": session.rsplit('/').next(), "path": "kept/more"},
                ],
                "model": MODEL,
                "language": "english",
                "budget": {"steps": 5, "calls": 9, "tokens": 50_000, "seconds": 300},
            }),
        )
        .with(202)
        .await;
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    let created: Value = created.json().await.unwrap();
    let id = created["id"].as_str().unwrap();
    assert_eq!(location, format!("/v1/runs/{id}"));
    // The same node as that of sessions.
    assert_eq!(
        id.split('-').next(),
        session.rsplit('/').next().unwrap().split('-').next()
    );
    let run = location;

    let told = client.events(&run, 0).await.rest().await;
    let ids: Vec<u64> = told.iter().map(|told| told.id).collect();
    assert_eq!(ids, (1..=told.len() as u64).collect::<Vec<_>>());
    assert_eq!(told[0].kind, "started");
    let last = told.last().unwrap();
    assert_eq!(
        (last.kind.as_str(), &last.data["kind"]),
        ("ended", &json!("ended"))
    );
    // All of it again, and what is after the last: nothing.
    assert_eq!(client.events(&run, 0).await.rest().await, told);
    assert_eq!(client.events(&run, last.id).await.rest().await, []);
    client
        .events_after(&run, last.id + 1)
        .problem(400, "bad_header")
        .await;

    let shown = client.get(&run).json_with(200).await;
    assert_eq!(shown["state"], "answered", "{shown:#}");
    assert_eq!(shown["answer"], "The sum is 4217.");
    assert_eq!(shown["evidence"][0]["seen"]["cell"], 1, "{shown:#}");
    assert_eq!(shown["budget"]["steps"], 5);
    assert_eq!(shown["spent"]["steps"], 2);
    assert_eq!(shown["artifacts"][0]["path"], "out/sum.txt", "{shown:#}");
    assert_eq!(shown["events"], last.id);

    let file = client
        .get(&format!("{run}/artifacts/out/sum.txt"))
        .with(200)
        .await;
    let disposition = file.headers()["content-disposition"].to_str().unwrap();
    assert_eq!(disposition, "attachment; filename*=UTF-8''sum.txt");
    assert_eq!(file.headers()["x-content-type-options"], "nosniff");
    let policy = file.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.ends_with("; sandbox"), "{policy}");
    assert_eq!(file.text().await.unwrap(), "sum 4217\n");
    // F1: what is not a plain path is none, and what the run does not name is not there.
    for path in [
        "../journal.sqlite3",
        "%2e%2e/journal.sqlite3",
        "out/%2e%2e/out/sum.txt",
        "/etc/passwd",
        "a%5cb",
        "%252e%252e/x",
        "a%00",
    ] {
        // As it is: a client of ours would take the dots out.
        let (host, key) = (world.address, &client.key.text);
        let request = format!(
            "GET {run}/artifacts/{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             connection: close\r\n\r\n"
        );
        let answer = world.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
        assert!(answer.contains("bad_path"), "{path}: {answer}");
    }
    for path in ["journal", "numbers.txt", "out", &"a".repeat(4000)] {
        let path = format!("{run}/artifacts/{path}");
        client.get(&path).problem(404, "file_not_found").await;
    }

    // As it was understood, with the outcome and without the host's paths.
    assert!(told.iter().all(|told| told.data["at"].as_u64() > Some(0)));
    let page = client.get(&format!("{run}/steps")).json_with(200).await;
    assert_eq!(page["more"], false);
    let cell = &page["steps"][0]["calls"][0];
    assert_eq!(cell["tool"], "python");
    assert!(
        cell["arguments"]["code"]
            .as_str()
            .unwrap()
            .starts_with("total = ")
    );
    assert_eq!(cell["outcome"]["stdout"]["text"], "4217\n", "{page:#}");
    assert_eq!(page["steps"][1]["calls"], json!([]));
    assert_eq!(page["steps"][0].get("answer"), None);
    assert_eq!(page["steps"][1]["answer"], "The sum is 4217.");
    let rest = client
        .get(&format!("{run}/steps?after=1&limit=1"))
        .json_with(200)
        .await;
    assert_eq!(rest["steps"][0]["number"], 2);
    client
        .get(&format!("{run}/steps?limit=21"))
        .problem(400, "bad_query")
        .await;

    for (format, kind, has) in [
        ("ipynb", "application/x-ipynb+json", "\"nbformat\""),
        ("py", "text/x-python", "total = sum("),
        (
            "html",
            "text/html; charset=utf-8",
            "The sum is <a href=\"#step-1\"",
        ),
    ] {
        let exported = client
            .get(&format!("{run}/export?format={format}"))
            .with(200)
            .await;
        assert_eq!(exported.headers()["content-type"], kind);
        assert_eq!(
            exported.headers()["content-disposition"],
            format!("attachment; filename*=UTF-8''{id}.{format}")
        );
        let text = exported.text().await.unwrap();
        assert!(text.contains(has), "{text}");
    }
    client
        .get(&format!("{run}/export?format=exe"))
        .problem(400, "bad_query")
        .await;

    // It is over.
    for act in ["cancel", "resume"] {
        client
            .post(&format!("{run}/{act}"), json!({}))
            .problem(409, "run_ended")
            .await;
    }
    let interrupted = client
        .post(&format!("{run}/interrupt"), json!({}))
        .json_with(200)
        .await;
    assert_eq!(interrupted["interrupted"], false);
    assert_eq!(model.requests().len(), 2);
    world.ends().await;
}

/// A reader whose connection broke goes on where it was, while the run does; parts of what is being said have
/// no number.
#[tokio::test]
async fn a_stream_goes_on_in_the_middle_of_a_run() {
    let (world, client, _model) = desk([
        code("import time\nfor n in range(5):\n    print(n, flush=True)\n    time.sleep(0.2)"),
        answer("It went to 4, and 10 is not there.").slow_first_byte(Duration::from_millis(300)),
    ])
    .await;
    let run = client.start(json!({"task": "Count."})).await;
    let mut first = client.events(&run, 0).await;
    let mut told = Vec::new();
    while told.len() < 4 {
        told.push(first.next().await.unwrap());
    }
    drop(first);
    let rest = client.events(&run, 4).await.rest().await;
    told.extend(rest);
    let ids: Vec<u64> = told.iter().map(|told| told.id).collect();
    assert_eq!(ids, (1..=told.len() as u64).collect::<Vec<_>>());
    assert_eq!(told, client.events(&run, 0).await.rest().await);
    assert_eq!(told.last().unwrap().kind, "ended");
    world.ends().await;

    let (world, client, _model) = desk([
        code("import time\ntime.sleep(0.3)\nprint('heard')")
            .slow_first_byte(Duration::from_millis(300)),
        answer("Said."),
    ])
    .await;
    let run = client.start(json!({"task": "Say it."})).await;
    let raw = client.get(&format!("{run}/events")).with(200).await;
    let raw = raw.text().await.unwrap();
    let without_id = |kind: &str| {
        let of_kind = raw
            .split("\n\n")
            .filter(|event| event.contains(&format!("event: {kind}\n")));
        of_kind
            .filter(|event| !event.contains("id: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(without_id("reply").concat().contains("hear"), "{raw}");
    assert!(without_id("cell").concat().contains("heard\\n"), "{raw}");
    assert!(!raw.contains("\"file\""), "{raw}");
    world.ends().await;
}

/// Who begins to look in the middle of a cell sees what it has printed; who goes on does not hear it again.
#[tokio::test]
async fn who_comes_late_hears_what_a_cell_has_said() {
    let slow = "import time\nprint('early', flush=True)\ntime.sleep(20)";
    let (world, client, _model) = desk([code(slow)]).await;
    let run = client.start(json!({"task": "Take your time."})).await;
    let said = async |request: RequestBuilder| {
        let mut stream = request.with(200).await;
        let mut heard = String::new();
        while !heard.contains("\"early\\n\"") {
            let chunk = stream.chunk().await.unwrap().expect("it goes on");
            heard.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        heard
    };
    let path = format!("{run}/events");
    let first = said(client.get(&path)).await;
    let late = said(client.get(&path)).await;
    assert_eq!(late.matches("\"early\\n\"").count(), 1, "{late}");
    // After the events, as it was heard the first time.
    let last = first
        .rsplit("id: ")
        .next()
        .and_then(|rest| rest.split('\n').next());
    let last: u64 = last.unwrap().parse().unwrap();
    assert!(late.contains(&format!("id: {last}\n")), "{late}");
    let again = said(client.events_after(&run, last));
    let again = tokio::time::timeout(Duration::from_secs(1), again).await;
    assert!(again.is_err(), "{again:?}");
    client
        .post(&format!("{run}/cancel"), json!({}))
        .json_with(202)
        .await;
    client.until(&run, "ended").await;
    world.ends().await;
}

/// A person decides over HTTP: for the bytes that were shown, once.
#[tokio::test]
async fn a_person_decides() {
    let (world, client, _model) = desk([
        code("print('as it was')"),
        code("print('not this')"),
        answer("Done."),
    ])
    .await;
    let run = client
        .start(json!({"task": "Print.", "approvals": "always"}))
        .await;
    let waits = client.until(&run, "waits").await;
    let asked = &waits["waits_for"][0];
    assert_eq!(asked["subject"]["code"], "print('as it was')");
    let accept = || json!({"kind": "accept"});
    let wrong = json!("0".repeat(64));
    client
        .decide(&run, asked, &wrong, accept())
        .problem(409, "approval_changed")
        .await;
    let other = json!({"id": "9.9"});
    client
        .decide(&run, &other, &asked["hash"], accept())
        .problem(404, "approval_not_found")
        .await;
    for bad in [
        json!({"kind": "accept", "forever": true}),
        json!({"kind": "reject", "why": "no"}),
        json!({"kind": "perhaps"}),
    ] {
        client
            .decide(&run, asked, &asked["hash"], bad)
            .problem(400, "bad_body")
            .await;
    }
    // Resuming is not deciding.
    let resumed = client
        .post(&format!("{run}/resume"), json!({}))
        .json_with(202)
        .await;
    assert_eq!(resumed["state"], "waits");

    let edit = json!({"kind": "edit", "code": "print('edited', 6 * 7)"});
    client
        .decide(&run, asked, &asked["hash"], edit)
        .with(204)
        .await;
    client
        .decide(&run, asked, &asked["hash"], accept())
        .problem(404, "approval_not_found")
        .await;
    let waits = loop {
        let waits = client.until(&run, "waits").await;
        if waits["waits_for"][0]["id"] != asked["id"] {
            break waits;
        }
    };
    let asked = &waits["waits_for"][0];
    let listed = client.get("/v1/runs").json_with(200).await;
    assert_eq!(listed["runs"][0]["state"], "waits");
    client
        .decide(&run, asked, &asked["hash"], json!({"kind": "reject"}))
        .with(204)
        .await;
    client.until(&run, "answered").await;
    let told = client.events(&run, 0).await.rest().await;
    let outputs: Vec<_> = told
        .iter()
        .filter(|told| told.kind == "call_ended")
        .filter_map(|told| told.data["result"]["cell"]["output"].as_str())
        .collect();
    assert_eq!(outputs, ["edited 42\n"], "{told:#?}");
    world.ends().await;
}

/// A run that waits is let go of after a while, gives its place back, and is decided later all the same.
#[tokio::test]
async fn a_run_that_waits_for_long_gives_its_place_back() {
    let model =
        ScriptedModel::start([code("x = 41"), code("print(x + 1)"), answer("It is 42.")]).unwrap();
    let mut options = offering(&model);
    options.runs.patience = Duration::from_millis(100);
    options.runs.tenant_runs = 1;
    let world = world_with(options).await;
    let client = client(&world, "a").await;
    let run = client
        .start(json!({"task": "Add.", "approvals": "always"}))
        .await;
    let another = || client.post("/v1/runs", json!({"task": "Add.", "approvals": "always"}));
    let refused = another().problem(429, "too_many_runs").await;
    assert_eq!(refused["retry"], true);
    for _ in 0..2 {
        let asked = client.until(&run, "waits").await["waits_for"][0].clone();
        // The bounds tell when it was let go.
        for _ in 0..200 {
            if world.metrics().await.contains("belljar_sessions 0\n") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(world.metrics().await.contains("belljar_sessions 0\n"));
        client
            .decide(&run, &asked, &asked["hash"], json!({"kind": "accept"}))
            .with(204)
            .await;
        while client.get(&run).json_with(200).await["waits_for"][0]["id"] == asked["id"] {}
    }
    let ended = client.until(&run, "answered").await;
    assert_eq!(ended["evidence"][0]["seen"]["cell"], 2, "{ended:#}");
    world.ends().await;
}

#[tokio::test]
async fn a_run_is_interrupted_and_cancelled() {
    let (world, client, _model) = desk([
        code("import time\ntime.sleep(25)"),
        code("import time\ntime.sleep(26)"),
    ])
    .await;
    let run = client.start(json!({"task": "Sleep."})).await;
    let mut events = client.events(&run, 0).await;
    let mut next = async |kind: &str| while events.next().await.unwrap().kind != kind {};
    next("call_started").await;
    // The cell may not have begun yet.
    let interrupting = async {
        loop {
            let path = format!("{run}/interrupt");
            client.post(&path, json!({})).json_with(200).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = next("call_ended") => {}
        () = interrupting => {}
    }
    next("call_started").await;
    let cancelled = client
        .post(&format!("{run}/cancel"), json!({}))
        .json_with(202)
        .await;
    assert_eq!(cancelled["id"], run.rsplit('/').next().unwrap());
    let ended = client.until(&run, "ended").await;
    assert_eq!(ended["reason"]["kind"], "stopped");
    assert_eq!(ended["spent"]["steps"], 2, "{ended:#}");
    world.ends().await;
}

/// A run that waits for a person is ended too.
#[tokio::test]
async fn a_run_that_waits_is_cancelled() {
    let (world, client, _model) = desk([code("1")]).await;
    let run = client
        .start(json!({"task": "Wait.", "approvals": "always"}))
        .await;
    client.until(&run, "waits").await;
    client
        .post(&format!("{run}/cancel"), json!({}))
        .with(202)
        .await;
    let ended = client.until(&run, "ended").await;
    assert_eq!(ended["reason"]["kind"], "stopped");
    world.ends().await;
}

/// Another tenant's run is one that is not there; a key without the scope gets nowhere.
#[tokio::test]
async fn runs_belong_to_their_tenant() {
    let (world, client, _model) = desk(at_once("Yes.")).await;
    let run = client.start(json!({"task": "Is it so?"})).await;
    client.until(&run, "answered").await;
    let other = self::client(&world, "b").await;
    let theirs = other.get(&run).problem(404, "run_not_found").await;
    let absent = format!("/v1/runs/00000000-{}", "0".repeat(32));
    let nobodys = other.get(&absent).problem(404, "run_not_found").await;
    assert_eq!(theirs["title"], nobodys["title"]);
    assert_eq!(
        other.get("/v1/runs").json_with(200).await["runs"],
        json!([])
    );
    // Nothing was made for a tenant who only asks.
    let directories = std::fs::read_dir(world.data.path().join("runs")).unwrap();
    let names: Vec<_> = directories
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["a"]);
    other
        .get("/v1/runs/a.b")
        .problem(404, "run_not_found")
        .await;

    let sessions_alone = world.client_with("a", &[Scope::Sessions]).await;
    sessions_alone.get(&run).problem(403, "scope_missing").await;
    let runs_alone = world.client_with("a", &[Scope::Runs]).await;
    runs_alone.get(&run).with(200).await;
    runs_alone
        .get("/v1/sessions")
        .problem(403, "scope_missing")
        .await;
    let session = client.session().await;
    let from_session = json!({"name": "x", "session_id": session.rsplit('/').next(), "path": "x"});
    let body = json!({"task": "Read.", "files": [from_session]});
    runs_alone
        .post("/v1/runs", body.clone())
        .problem(403, "scope_missing")
        .await;
    other
        .post("/v1/runs", body)
        .problem(404, "session_not_found")
        .await;
    world.ends().await;
}

/// The code of a run is run again, as its tenant's work; a stream tells how far it is, and what came of it.
#[tokio::test]
async fn a_run_is_reproduced() {
    let script = [
        code("n = 6 * 7\nprint('sum', n)\nwritten = open('sum.txt', 'w').write(str(n))"),
        code("import random\nprint('drawn', random.randrange(10**12))"),
        answer("It is 42."),
    ];
    let (world, client, _model) = desk(script).await;
    let run = client.start(json!({"task": "What is it?"})).await;
    client.until(&run, "answered").await;
    let path = format!("{run}/reproduce");
    let told = Events::from_request(client.post(&path, json!({}))).await;
    let told = told.rest().await;
    let (last, progress) = told.split_last().unwrap();
    assert!(
        progress.iter().all(|told| told.kind == "progress"),
        "{told:?}"
    );
    assert_eq!(last.kind, "reproduction", "{told:?}");
    let value = &last.data["values"][0];
    assert_eq!(
        (&value["value"], &value["verdict"]),
        (&json!("42"), &json!("identical"))
    );
    let file = json!([{"path": "sum.txt", "verdict": "identical"}]);
    assert_eq!(last.data["files"], file);
    assert_eq!(last.data["cells"][1]["verdict"], "not_deterministic");
    // Nothing is left of it, and the run is as it was.
    client.until(&run, "answered").await;

    let other = self::client(&world, "b").await;
    let problem = other.post(&path, json!({})).problem(404, "run_not_found");
    problem.await;
    world.ends().await;
}

#[tokio::test]
async fn a_run_is_reproduced_once_it_has_ended() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    let waiting = client.waiting_run().await;
    let path = format!("{waiting}/reproduce");
    let problem = client.post(&path, json!({})).problem(409, "run_not_ended");
    problem.await;
    world.ends().await;
}

/// A run has the chosen environment, also after the service was started again and in a follow-up.
#[tokio::test]
async fn runs_choose_an_environment() {
    let which = "import sys\nprint(42 if sys.prefix == '/usr' else 41)";
    let model = ScriptedModel::start([
        code(which),
        answer("It is 42."),
        code(which),
        answer("It is 42."),
        code("x = 6 * 7"),
        code("print(x)").slow_first_byte(Duration::from_secs(20)),
        code("import sys\nprint(x if sys.prefix == '/usr' else 41)"),
        answer("It is 42."),
    ])
    .unwrap();
    let other = || Environment::from_python("/usr/bin/python3".as_ref()).unwrap();
    let name = other().name().to_owned();
    let started = async |data| {
        let engine = |environment| Engine::builder(environment).build();
        let engines = || EngineSet::new(engine(bare()), [engine(other())]);
        world_of_engines(engines, data, offering(&model)).await
    };
    let world = started(tempfile::tempdir().unwrap()).await;
    let client = client(&world, "a").await;
    let none = json!({"task": "Which Python?", "environment": "none"});
    let refused = client.post("/v1/runs", none);
    refused.problem(400, "environment_not_offered").await;

    let first = client
        .start(json!({"task": "Which Python?", "environment": name}))
        .await;
    let ended = client.until(&first, "answered").await;
    assert_eq!(ended["environment"], name, "{ended:#}");
    let again = client.post(
        &format!("{first}/follow-up"),
        json!({"task": "Which Python?"}),
    );
    let again = again.json_with(202).await;
    assert_eq!(again["environment"], name, "{again:#}");
    let again = format!("/v1/runs/{}", again["id"].as_str().unwrap());
    client.until(&again, "answered").await;

    let last = client
        .start(json!({"task": "Multiply 6 by 7. Which Python?", "environment": name}))
        .await;
    soon(async || model.requests().len() == 6).await;
    let data = world.ends().await;
    let world = started(data).await;
    let client = self::client(&world, "a").await;
    let ended = client.until(&last, "answered").await;
    assert_eq!(ended["environment"], name, "{ended:#}");
    world.ends().await;
}

/// A service that is started again goes on with the run, from the variables that there were.
#[tokio::test]
async fn runs_go_on_after_the_service_was_started_again() {
    let model = ScriptedModel::start([
        code("x = 6 * 7"),
        code("print(x)").slow_first_byte(Duration::from_secs(20)),
        code("print(x)"),
        answer("It is 42."),
    ])
    .unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    let run = client.start(json!({"task": "Multiply."})).await;
    let mut events = client.events(&run, 0).await;
    let mut told = Vec::new();
    while told.iter().filter(|kind| *kind == "asked").count() < 2 {
        told.push(events.next().await.unwrap().kind);
    }
    let before = client.get(&run).json_with(200).await;
    assert_eq!(before["state"], "running");
    // While the model is being asked for the second time, which is told before it is done.
    soon(async || model.requests().len() == 2).await;
    let data = world.ends().await;
    assert!(events.next().await.is_none());

    let world = world_in(data, offering(&model)).await;
    let client = self::client(&world, "a").await;
    let ended = client.until(&run, "answered").await;
    assert_eq!(ended["evidence"][0]["seen"]["line"], "42", "{ended:#}");
    let rest = client.events(&run, told.len() as u64).await.rest().await;
    assert_eq!(rest[0].id, told.len() as u64 + 1);
    assert_eq!(model.requests().len(), 4);
    world.ends().await;
}

/// A run whose service ends while a cell runs has the cell's result, if it comes in time.
#[tokio::test]
async fn a_service_that_stops_lets_cells_of_runs_end() {
    let model = ScriptedModel::start([
        code("import time\ntime.sleep(1)\nprint('the end')"),
        answer("Done."),
    ])
    .unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    let run = client.start(json!({"task": "Wait."})).await;
    let mut events = client.events(&run, 0).await;
    while events.next().await.unwrap().kind != "call_started" {}
    let data = world.ends().await;
    let world = world_in(data, offering(&model)).await;
    let client = self::client(&world, "a").await;
    client.until(&run, "answered").await;
    let told = client.events(&run, 0).await.rest().await;
    let kinds: Vec<_> = told.iter().map(|told| told.kind.as_str()).collect();
    assert!(!kinds.contains(&"call_lost"), "{kinds:?}");
    world.ends().await;
}

/// A run that waits, waits on; it goes on by the decision alone.
#[tokio::test]
async fn a_run_that_waits_waits_on_after_a_start() {
    let model = ScriptedModel::start([code("print(6 * 7)"), answer("It is 42.")]).unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    let run = client
        .start(json!({"task": "Multiply.", "approvals": "always"}))
        .await;
    let asked = client.until(&run, "waits").await["waits_for"][0].clone();
    let data = world.ends().await;
    let world = world_in(data, offering(&model)).await;
    let client = self::client(&world, "a").await;
    assert_eq!(client.get(&run).json_with(200).await["state"], "waits");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(world.metrics().await.contains("belljar_sessions 0\n"));
    client
        .decide(&run, &asked, &asked["hash"], json!({"kind": "accept"}))
        .with(204)
        .await;
    client.until(&run, "answered").await;
    world.ends().await;
}

#[tokio::test]
async fn a_request_that_comes_twice_starts_one_run() {
    let (world, client, model) = desk([at_once("Yes."), at_once("No.")].concat()).await;
    let create = || {
        let request = client.post("/v1/runs", json!({"task": "Is it so?"}));
        request.header("idempotency-key", "one").json_with(202)
    };
    let (first, again) = tokio::join!(create(), create());
    assert_eq!(first["id"], again["id"]);
    let run = format!("/v1/runs/{}", first["id"].as_str().unwrap());
    client.until(&run, "answered").await;
    create().await;
    assert_eq!(
        client.get("/v1/runs").json_with(200).await["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(model.requests().len(), 2);
    world.ends().await;
}

/// Many who look at a run at once wait for each other, and all are answered.
#[tokio::test]
async fn many_look_at_once() {
    let (world, client, _model) = desk(at_once("Yes.")).await;
    let run = client.start(json!({"task": "Is it so?"})).await;
    client.until(&run, "answered").await;
    let looks = (0..40).map(|number| {
        let path = match number % 3 {
            0 => run.clone(),
            1 => format!("{run}/export?format=py"),
            _ => "/v1/runs".to_owned(),
        };
        client.get(&path).with(200)
    });
    let all = futures_util::future::join_all(looks);
    tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .expect("somebody waits for ever");
    world.ends().await;
}

/// The newest first, a page at a time.
#[tokio::test]
async fn runs_are_listed_in_pages() {
    let (world, client, _model) = desk((0..3).flat_map(|_| at_once("Yes."))).await;
    let mut started = Vec::new();
    for number in 0..3 {
        let run = client
            .start(json!({"task": format!("task {number}")}))
            .await;
        client.until(&run, "answered").await;
        started.push(run.rsplit('/').next().unwrap().to_owned());
    }
    started.reverse();
    let page = client.get("/v1/runs?limit=2").json_with(200).await;
    let rest = format!(
        "/v1/runs?limit=2&cursor={}",
        page["next_cursor"].as_str().unwrap()
    );
    let rest = client.get(&rest).json_with(200).await;
    assert_eq!(rest.get("next_cursor"), None);
    let both = [&page, &rest]
        .map(|page| page["runs"].as_array().unwrap().clone())
        .concat();
    let ids: Vec<_> = both.iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, started);
    assert_eq!(both[0]["task"], "task 2");
    assert_eq!(both[0]["state"], "answered");
    for query in ["limit=0", "limit=201", "cursor=!", "cursor=YWJj", "other=1"] {
        client
            .get(&format!("/v1/runs?{query}"))
            .problem(400, "bad_query")
            .await;
    }
    world.ends().await;
}

/// K11: a client names one of the operator's models, and nothing else about it; limits can only be lowered.
#[tokio::test]
async fn a_client_can_not_choose_more_than_it_is_given() {
    let model = ScriptedModel::start([]).unwrap();
    let mut options = offering(&model);
    options.runs.budget = Budget {
        tokens: Some(1000),
        ..Budget::default()
    };
    let world = world_with(options).await;
    let client = client(&world, "a").await;
    let file = |name: &str| json!({"name": name, "contents": ""});
    for (more, status, problem) in [
        (json!({"model": "openai/gpt-5"}), 400, "model_not_offered"),
        (json!({"model": "llamacpp/other"}), 400, "model_not_offered"),
        (json!({"base_url": "http://127.0.0.1:1"}), 400, "bad_body"),
        (json!({"api_base": "http://127.0.0.1:1"}), 400, "bad_body"),
        (json!({"tenant": "b"}), 400, "bad_body"),
        (json!({"budget": {"steps": 21}}), 400, "limit_too_high"),
        (json!({"budget": {"calls": 101}}), 400, "limit_too_high"),
        (json!({"budget": {"tokens": 1001}}), 400, "limit_too_high"),
        (json!({"budget": {"steps": 0}}), 400, "bad_body"),
        (json!({"budget": {"money": -1}}), 400, "bad_body"),
        (json!({"budget": {"cell_calls": 1}}), 400, "bad_body"),
        (json!({"task": " "}), 400, "bad_body"),
        (json!({"task": "x".repeat(70_000)}), 400, "bad_body"),
        (json!({"files": [file("../x")]}), 400, "bad_path"),
        (json!({"files": [file("/etc/passwd")]}), 400, "bad_path"),
        (json!({"files": [file("a\\b")]}), 400, "bad_path"),
        (json!({"files": [file("")]}), 400, "bad_path"),
        (json!({"files": [file("a"), file("a")]}), 400, "bad_body"),
        (json!({"files": [{"name": "a"}]}), 400, "bad_body"),
        (
            json!({"files": [{"name": "a", "contents": "?"}]}),
            400,
            "bad_body",
        ),
    ] {
        let mut body = json!({"task": "Do it."});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.post("/v1/runs", body).problem(status, problem).await;
    }
    let session = client.session().await;
    let large = vec![0_u8; (32 << 20) + 1];
    client
        .put(&format!("{session}/files/large"), large)
        .with(204)
        .await;
    let from_session = |path: &str| {
        let file = json!({"name": "x", "session_id": session.rsplit('/').next(), "path": path});
        client.post("/v1/runs", json!({"task": "Read.", "files": [file]}))
    };
    from_session("large").problem(413, "file_too_large").await;
    from_session("none").problem(404, "file_not_found").await;
    from_session("../none").problem(400, "bad_path").await;
    assert_eq!(
        client.get("/v1/runs").json_with(200).await["runs"],
        json!([])
    );
    assert_eq!(model.requests().len(), 0);
    world.ends().await;
}

/// What a model's server said, and where it is, is for the operator.
#[tokio::test]
async fn what_the_models_server_said_is_not_told() {
    let refusing = || Scripted::status(401, "the key sk-secret of 10.0.0.7 is wrong");
    let (world, client, _model) = desk([refusing(), refusing()]).await;
    let run = client.start(json!({"task": "Ask."})).await;
    let ended = client.until(&run, "ended").await;
    assert_eq!(ended["reason"]["kind"], "model_failed");
    let mut all = ended.to_string();
    for path in ["events", "export?format=html", "export"] {
        let part = client.get(&format!("{run}/{path}")).with(200).await;
        all.push_str(&part.text().await.unwrap());
    }
    assert!(all.contains("request to the model failed"), "{all}");
    for secret in ["sk-secret", "10.0.0.7", "127.0.0.1"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    world.ends().await;
}

#[tokio::test]
async fn without_a_model_there_are_no_runs() {
    let world = world().await;
    let client = client(&world, "a").await;
    let refused = client
        .post("/v1/runs", json!({"task": "Do it."}))
        .problem(409, "no_model")
        .await;
    assert!(refused["detail"].as_str().unwrap().contains("--model"));
    world.ends().await;
}

/// A reply of such a model has no mark that says what is an answer: the service says it.
#[tokio::test]
async fn answers_that_are_sent_back_are_told_by_their_step() {
    let native = |code: &str| Scripted::call("python", json!({ "code": code }));
    let model = ScriptedModel::start([
        Scripted::text("It is **41**."),
        native("print(6 * 7)"),
        Scripted::text("It is **42**."),
    ])
    .unwrap();
    let world = world_with(offering_in(&model, Dialect::NativeTools)).await;
    let client = client(&world, "a").await;
    let run = client
        .post("/v1/runs", json!({"task": "What is six times seven?"}))
        .json_with(202)
        .await;
    let run = format!("/v1/runs/{}", run["id"].as_str().unwrap());
    Events::from_request(client.get(&format!("{run}/events")))
        .await
        .rest()
        .await;
    let page = client.get(&format!("{run}/steps")).json_with(200).await;
    let steps: Vec<_> = page["steps"].as_array().unwrap().iter().collect();
    assert_eq!(steps[0]["answer"], "It is **41**.", "{page:#}");
    assert!(steps[0]["note"].is_string(), "{page:#}");
    assert_eq!(steps[1].get("answer"), None);
    assert_eq!(steps[2]["answer"], "It is **42**.");

    // For who reads the exported page, values lead to what printed them.
    let exported = client.get(&format!("{run}/export?format=html"));
    let html = exported.send().await.unwrap().text().await.unwrap();
    assert!(html.contains("<h2 id=\"step-2\">"), "{html}");
    assert!(html.contains("It is <strong><a href=\"#step-2\""), "{html}");
    assert!(html.contains("<code>42</code>"), "{html}");
    // It is signed with the key of the service.
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["report_key"], signer_of(&html).unwrap());
}
