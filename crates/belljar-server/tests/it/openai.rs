//! OpenAI's API, as hostile and ordinary clients use it. The client itself is run by `.ci/openai`.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use belljar_agent::Policy;
use belljar_server::{Scope, ServerOptions};
use belljar_test_model::{Scripted, ScriptedModel};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::runs::{answer, client, code, offering};
use crate::support::{Ask as _, Client, World, soon, until_free, world, world_in, world_with};

/// All routes; those of a run, of a container, and of neither.
const OF_RESPONSE: [(&str, &str); 3] = [
    ("GET", "/responses/{id}"),
    ("DELETE", "/responses/{id}"),
    ("POST", "/responses/{id}/cancel"),
];
const OF_CONTAINER: [(&str, &str); 7] = [
    ("GET", "/containers/{id}"),
    ("DELETE", "/containers/{id}"),
    ("GET", "/containers/{id}/files"),
    ("POST", "/containers/{id}/files"),
    ("GET", "/containers/{id}/files/{file}"),
    ("DELETE", "/containers/{id}/files/{file}"),
    ("GET", "/containers/{id}/files/{file}/content"),
];
const WITHOUT_ID: [(&str, &str); 7] = [
    ("GET", "/models"),
    ("GET", "/models/belljar"),
    ("POST", "/chat/completions"),
    ("POST", "/responses"),
    ("GET", "/containers"),
    ("POST", "/containers"),
    ("GET", "/no-such-route"),
];

const BOUNDARY: &str = "multipart/form-data; boundary=b";

fn on(model: &ScriptedModel) -> ServerOptions {
    ServerOptions {
        openai: true,
        ..offering(model)
    }
}

/// A service, its model, and somebody who may use runs and sessions.
async fn desk(script: impl IntoIterator<Item = Scripted>) -> (World, Client, ScriptedModel) {
    let model = ScriptedModel::start(script).unwrap();
    let world = world_with(on(&model)).await;
    let client = client(&world, "a").await;
    (world, client, model)
}

pub(crate) fn ask(client: &Client, method: &str, path: &str) -> RequestBuilder {
    let method: Method = method.parse().unwrap();
    client.request(method, &format!("/openai/v1{path}"))
}

fn chat(client: &Client, more: &Value) -> RequestBuilder {
    let mut body = json!({
        "model": "belljar",
        "messages": [{"role": "user", "content": "What is six times seven?"}],
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    ask(client, "POST", "/chat/completions").json(&body)
}

pub(crate) fn respond(client: &Client, more: &Value) -> RequestBuilder {
    let mut body = json!({"model": "belljar", "input": "What is six times seven?"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    ask(client, "POST", "/responses").json(&body)
}

pub(crate) async fn container(client: &Client) -> String {
    let made = ask(client, "POST", "/containers").json(&json!({"name": "one"}));
    let made = made.json_with(200).await;
    made["id"].as_str().unwrap().to_owned()
}

pub(crate) fn form(name: &str, contents: &str) -> String {
    format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{contents}\r\n--b--\r\n"
    )
}

pub(crate) fn upload(client: &Client, container: &str, body: String) -> RequestBuilder {
    let request = ask(client, "POST", &format!("/containers/{container}/files"));
    request.header("content-type", BOUNDARY).body(body)
}

pub(crate) fn file_id(path: &str) -> String {
    format!("cfile_{}", BASE64_URL.encode(path))
}

pub(crate) async fn content(client: &Client, container: &str, file: &str) -> String {
    let path = format!("/containers/{container}/files/{file}/content");
    ask(client, "GET", &path)
        .with(200)
        .await
        .text()
        .await
        .unwrap()
}

pub(crate) async fn paths(client: &Client, container: &str) -> Vec<String> {
    let path = format!("/containers/{container}/files?order=asc");
    let listed = ask(client, "GET", &path).json_with(200).await;
    let all = listed["data"].as_array().unwrap().iter();
    all.map(|file| file["path"].as_str().unwrap().to_owned())
        .collect()
}

/// The error of a refused request: its code and its parameter.
async fn refused(request: RequestBuilder, status: u16) -> (String, Option<String>) {
    let response = request.with(status).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("x-should-retry"));
    let body: Value = response.json().await.unwrap();
    let error = &body["error"];
    assert!(error["message"].is_string() && error["type"].is_string());
    let text = |name: &str| error[name].as_str().map(str::to_owned);
    (text("code").unwrap(), text("param"))
}

/// The data of each event of a stream, and its comments.
async fn events(request: RequestBuilder) -> (Vec<Value>, Vec<String>) {
    let response = request.with(200).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let (mut data, mut comments) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(json) = line.strip_prefix("data: ") {
            data.push(serde_json::from_str(json).unwrap_or_else(|_| json.into()));
        } else if line.starts_with(':') {
            comments.push(line.to_owned());
        }
    }
    (data, comments)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap();
            kind.strip_prefix("response.").unwrap_or(kind)
        })
        .collect()
}

/// K1: without a key nothing is done, and what another tenant has is as what is not there, to the byte.
#[tokio::test]
async fn k1_no_tenant_reaches_what_another_has() {
    let (world, owner, _model) = desk([code("print(6 * 7)"), answer("It is 42.")]).await;
    let other = client(&world, "b").await;
    let mine = container(&owner).await;
    upload(&owner, &mine, form("a", "1")).with(200).await;
    let response = respond(&owner, &json!({})).json_with(200).await;
    let response = response["id"].as_str().unwrap();
    let of_run = response.replace("resp_", "cntr_");
    let absent = |id: &str| format!("{}{}", &id[..id.len() - 32], "0".repeat(32));
    let fill = |path: &str, id: &str| path.replace("{id}", id).replace("{file}", &file_id("a"));
    let send = |client: &Client, method: &str, path: &str| {
        let request = ask(client, method, path);
        match (method, path.ends_with("/files")) {
            ("POST", true) => request
                .header("content-type", BOUNDARY)
                .body(form("a", "2")),
            _ => request.json(&json!({})),
        }
    };
    let all = OF_RESPONSE.iter().chain(&OF_CONTAINER).chain(&WITHOUT_ID);
    for (method, path) in all {
        let path = fill(path, &mine);
        for key in ["bj_wrong_key", ""] {
            let request = send(&owner.with_key(key), method, &path);
            let (code, _) = refused(request, 401).await;
            assert_eq!(code, "invalid_api_key", "{method} {path}");
        }
    }
    let containers = OF_CONTAINER.iter();
    let cases = OF_RESPONSE.iter().map(|route| (route, response));
    let cases = cases.chain(containers.clone().map(|route| (route, mine.as_str())));
    for ((method, path), id) in cases.chain(containers.map(|route| (route, of_run.as_str()))) {
        let mut told = Vec::new();
        for id in [id.to_owned(), absent(id)] {
            let answer = send(&other, method, &fill(path, &id)).json_with(404).await;
            told.push(answer.to_string().replace(&id[5..], "ID"));
        }
        assert_eq!(told[0], told[1], "{method} {path}");
    }
    let their = json!({"tools": [{"type": "code_interpreter", "container": mine}]});
    assert_eq!(
        refused(respond(&other, &their), 404).await.0,
        "container_not_found"
    );
    let their = json!({"previous_response_id": response});
    assert_eq!(
        refused(respond(&other, &their), 404).await.0,
        "response_not_found"
    );
    // A session of `/v1` is no container.
    let session = owner.session().await;
    let id = session.replace("/v1/sessions/", "cntr_");
    ask(&owner, "GET", &format!("/containers/{id}"))
        .with(404)
        .await;
    for (client, count) in [(&owner, 1), (&other, 0)] {
        let listed = ask(client, "GET", "/containers").json_with(200).await;
        assert_eq!(listed["data"].as_array().unwrap().len(), count);
    }
    // Nothing of all this has changed anything.
    assert_eq!(content(&owner, &mine, &file_id("a")).await, "1");
    ask(&owner, "GET", &format!("/responses/{response}"))
        .with(200)
        .await;
    world.ends().await;
}

/// Off unless the operator wants it, and only for keys with the scopes.
#[tokio::test]
async fn off_by_default_and_within_scopes() {
    let bare = world().await;
    let client = bare.client_with("a", &Scope::ALL).await;
    for path in ["/openai/v1/models", "/openai/v1/containers"] {
        client.get(path).problem(404, "route_not_found").await;
    }
    bare.ends().await;
    let model = ScriptedModel::start([]).unwrap();
    let world = world_with(on(&model)).await;
    let sessions = world.client_with("a", &[Scope::Sessions]).await;
    let runs = world.client_with("a", &[Scope::Runs]).await;
    let (code, _) = refused(ask(&sessions, "GET", "/models"), 403).await;
    assert_eq!(code, "scope_missing");
    ask(&runs, "GET", "/models").with(200).await;
    let create = ask(&runs, "POST", "/containers").json(&json!({"name": "x"}));
    assert_eq!(refused(create, 403).await.0, "scope_missing");
    ask(&runs, "GET", "/containers").with(403).await;
    world.ends().await;
}

/// A chat whole and as a stream, from the names of the models to the use of tokens.
#[tokio::test]
async fn a_chat_is_a_run() {
    let replies = || {
        [
            code("import os\nprint(open('a.csv').read() if os.path.exists('a.csv') else 0, 6 * 7)")
                .usage(10, 3, 0),
            answer("It is 42.").usage(20, 4, 0),
        ]
    };
    let (world, client, model) = desk([replies(), replies()].into_iter().flatten()).await;
    let models = ask(&client, "GET", "/models").json_with(200).await;
    let names: Vec<_> = models["data"].as_array().unwrap().iter().collect();
    assert_eq!(names[0]["id"], "belljar");
    assert_eq!(names[1]["id"], "belljar/llamacpp/scripted");
    ask(&client, "GET", "/models/belljar/llamacpp/scripted")
        .with(200)
        .await;
    let (code, _) = refused(ask(&client, "GET", "/models/gpt-4"), 404).await;
    assert_eq!(code, "model_not_found");

    let data = BASE64.encode("4217");
    let whole = chat(
        &client,
        &json!({"model": "belljar/llamacpp/scripted", "user": "ignored", "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": [
                {"type": "text", "text": "What is six times seven?"},
                {"type": "file", "file": {"filename": "a.csv", "file_data": data}},
            ]},
        ]}),
    );
    let whole = whole.json_with(200).await;
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["content"], "It is 42.");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        whole["usage"],
        json!({"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37})
    );
    let asked = model.requests()[0].json().to_string();
    for part in [
        "Be brief.",
        "user: Hello",
        "assistant: Hi",
        "a.csv (4 bytes)",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    // It is a run as any other.
    let id = whole["id"].as_str().unwrap().replace("chatcmpl-", "");
    let run = client.get(&format!("/v1/runs/{id}")).json_with(200).await;
    assert_eq!(run["state"], "answered");

    let streamed = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (events, comments) = events(chat(&client, &streamed)).await;
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(events[1]["choices"][0]["delta"]["content"], "It is 42.");
    assert_eq!(events[2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[3]["choices"], json!([]));
    assert_eq!(events[3]["usage"]["total_tokens"], 37);
    assert_eq!((events.len(), &events[4]), (5, &json!("[DONE]")));
    assert_eq!(
        comments,
        [": step 1, model", ": step 1, python", ": step 2, model"]
    );
    world.ends().await;
}

/// What would change the answer and cannot be kept is refused by name; the rest is ignored.
#[tokio::test]
async fn parameters_that_cannot_be_kept_are_refused() {
    let (world, client, model) = desk([]).await;
    for (name, value) in [
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f"}}]),
        ),
        ("functions", json!([{"name": "f"}])),
        ("tool_choice", json!("required")),
        ("n", json!(2)),
        ("logprobs", json!(true)),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {}}),
        ),
        ("stop", json!(["x"])),
        ("audio", json!({"voice": "x"})),
    ] {
        let told = refused(chat(&client, &json!({name: value})), 400).await;
        assert_eq!(told, ("unsupported_parameter".into(), Some(name.into())));
    }
    let tool = |container: Value| json!([{"type": "code_interpreter", "container": container}]);
    for (name, value, parameter) in [
        ("tools", json!([{"type": "web_search"}]), "tools"),
        (
            "tools",
            tool(json!({"type": "auto", "file_ids": ["file-1"]})),
            "file_ids",
        ),
        (
            "tools",
            tool(json!({"type": "auto", "memory_limit": "64g"})),
            "memory_limit",
        ),
        (
            "tools",
            tool(
                json!({"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["x.org"]}}),
            ),
            "tools.container.network_policy",
        ),
        ("include", json!(["reasoning.encrypted_content"]), "include"),
        ("store", json!(false), "store"),
        ("conversation", json!("conv_1"), "conversation"),
        ("text", json!({"format": {"type": "json_schema"}}), "text"),
        ("input", json!([{"type": "function_call_output"}]), "input"),
    ] {
        let told = refused(respond(&client, &json!({name: value})), 400).await;
        assert_eq!(
            told,
            ("unsupported_parameter".into(), Some(parameter.into()))
        );
    }
    for wrong in [
        json!({"messages": []}),
        json!({"messages": [{"role": "assistant", "content": "x"}]}),
        json!({"messages": [{"role": "user", "content": " "}]}),
        json!({"messages": [{"role": "user", "content": "x".repeat(70_000)}]}),
        json!({"messages": "x"}),
        json!({"temperature": 3}),
        json!({"max_tokens": 0}),
        json!({"model": 1}),
    ] {
        refused(chat(&client, &wrong), 400).await;
    }
    refused(chat(&client, &json!({"model": "gpt-4"})), 404).await;
    assert_eq!(model.requests().len(), 0);
    let listed = client.get("/v1/runs").json_with(200).await;
    assert_eq!(listed["runs"], json!([]));
    world.ends().await;
}

/// Nobody could decide: where a person is to be asked, nothing is begun.
#[tokio::test]
async fn approvals_have_no_form_here() {
    let model = ScriptedModel::start([]).unwrap();
    let mut options = on(&model);
    options.runs.approvals.policy = Policy::Risky;
    let world = world_with(options).await;
    let client = client(&world, "a").await;
    for request in [
        chat(&client, &json!({})),
        respond(&client, &json!({"background": true})),
    ] {
        let response = request.with(400).await;
        let body: Value = response.json().await.unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("/v1/runs"), "{message}");
    }
    assert_eq!(model.requests().len(), 0);
    world.ends().await;
}

/// Who hangs up cancels the run; one in the background continues.
#[tokio::test]
async fn who_hangs_up_cancels_the_run() {
    let model = ScriptedModel::react(|_| code("import time\ntime.sleep(60)")).unwrap();
    let world = world_with(on(&model)).await;
    let client = client(&world, "a").await;
    let short = Duration::from_millis(500);
    for request in [
        chat(&client, &json!({})),
        chat(&client, &json!({"stream": true})),
        respond(&client, &json!({})),
        respond(&client, &json!({"stream": true})),
    ] {
        let sent = async { request.send().await?.bytes().await };
        assert!(tokio::time::timeout(short, sent).await.is_err());
    }
    soon(async || {
        let listed = client.get("/v1/runs").json_with(200).await;
        let runs = listed["runs"].as_array().unwrap().clone();
        runs.len() == 4 && runs.iter().all(|run| run["state"] == "ended")
    })
    .await;
    until_free(&world, "sessions").await;

    let begun = respond(&client, &json!({"background": true}));
    let begun = begun.json_with(200).await;
    assert_eq!(begun["status"], "in_progress", "{begun:#}");
    let path = format!("/responses/{}", begun["id"].as_str().unwrap());
    let early = refused(ask(&client, "DELETE", &path), 409).await;
    assert_eq!(early.0, "run_not_ended");
    let cancel = ask(&client, "POST", &format!("{path}/cancel"));
    let cancelled = cancel.json_with(200).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
    // Once more changes nothing.
    let cancel = ask(&client, "POST", &format!("{path}/cancel"));
    assert_eq!(cancel.json_with(200).await["status"], "cancelled");
    world.ends().await;
}

/// Runs without an answer: cut by the budget, doubted, or failed.
#[tokio::test]
async fn ends_without_a_proven_answer_are_told() {
    let (world, client, _model) = desk([
        answer("It is 43."),
        answer("It is 43."),
        answer("It is 43."),
    ])
    .await;
    let doubted = chat(&client, &json!({})).json_with(200).await;
    let text = doubted["choices"][0]["message"]["content"].as_str();
    assert!(text.unwrap().contains("[unverified: "), "{doubted:#}");
    world.ends().await;

    let model = ScriptedModel::react(|_| code("print(1)")).unwrap();
    let mut options = on(&model);
    options.runs.budget.steps = 1;
    let world = world_with(options).await;
    let owner = crate::runs::client(&world, "a").await;
    let cut = chat(&owner, &json!({})).json_with(200).await;
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    let cut = respond(&owner, &json!({})).json_with(200).await;
    assert_eq!(cut["status"], "incomplete");
    assert_eq!(cut["incomplete_details"]["reason"], "max_output_tokens");
    world.ends().await;

    let model = ScriptedModel::react(|_| Scripted::status(401, "the key sk-1 is wrong")).unwrap();
    let world = world_with(on(&model)).await;
    let owner = crate::runs::client(&world, "a").await;
    let failed = chat(&owner, &json!({})).with(500).await;
    assert_eq!(failed.headers()["x-should-retry"], "false");
    assert!(!failed.text().await.unwrap().contains("sk-1"));
    let (events, _) = events(chat(&owner, &json!({"stream": true}))).await;
    assert_eq!(events.last().unwrap()["error"]["code"], "run_failed");
    let failed = respond(&owner, &json!({})).json_with(200).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"]["code"], "server_error");
    assert!(!failed.to_string().contains("sk-1"));
    world.ends().await;
}

/// Containers and their files, from the upload to the end.
#[tokio::test]
async fn containers_hold_files() {
    let model = ScriptedModel::start([]).unwrap();
    let world = world_with(on(&model)).await;
    let client = client(&world, "a").await;
    let made = ask(&client, "POST", "/containers").json(&json!({
        "name": "one",
        "expires_after": {"anchor": "last_active_at", "minutes": 5},
        "network_policy": {"type": "disabled"},
    }));
    let made = made.json_with(200).await;
    assert_eq!(made["expires_after"]["minutes"], 5);
    assert_eq!(
        (made["status"].as_str(), made["name"].as_str()),
        (Some("running"), Some("one"))
    );
    let id = made["id"].as_str().unwrap();
    let session = id.replace("cntr_", "/v1/sessions/");
    let shown = client.get(&session).json_with(200).await;
    assert!(
        shown["lease"]["ends_at"].as_u64().unwrap() <= shown["created_at"].as_u64().unwrap() + 301
    );

    let file = upload(&client, id, form("a b.csv", "1,2"))
        .json_with(200)
        .await;
    assert_eq!(file["path"], "/mnt/data/a b.csv");
    assert_eq!(
        (&file["bytes"], &file["source"]),
        (&json!(3), &json!("user"))
    );
    assert_eq!(file["id"], file_id("a b.csv"));
    assert_eq!(
        content(&client, id, file["id"].as_str().unwrap()).await,
        "1,2"
    );
    // Code sees it there, too.
    let printed = client.printed(&session, "print(open('/mnt/data/a b.csv').read())");
    assert_eq!(printed.await, "1,2\n");
    client
        .run(&session, "import os\nos.makedirs('d')\nopen('/mnt/data/d/c', 'w').write('x')\nos.symlink('/etc/passwd', 'link')")
        .await;
    assert_eq!(
        paths(&client, id).await,
        ["/mnt/data/a b.csv", "/mnt/data/d/c"]
    );
    let page = format!("/containers/{id}/files?limit=1");
    let first = ask(&client, "GET", &page).json_with(200).await;
    assert_eq!(
        (&first["has_more"], &first["last_id"]),
        (&json!(true), &json!(file_id("d/c")))
    );
    let next = format!("{page}&after={}", file_id("d/c"));
    let next = ask(&client, "GET", &next).json_with(200).await;
    assert_eq!(
        (&next["has_more"], &next["first_id"]),
        (&json!(false), &file["id"])
    );

    let path = |name: &str| format!("/containers/{id}/files/{}", file_id(name));
    for name in [
        "link",
        "d",
        "no",
        "../a",
        "/etc/passwd",
        "/tmp/x",
        "~/a b.csv",
        "d/../d/c",
        "",
    ] {
        for (method, tail) in [("GET", ""), ("GET", "/content"), ("DELETE", "")] {
            let request = ask(&client, method, &format!("{}{tail}", path(name)));
            refused(request, 404).await;
        }
    }
    let deleted = ask(&client, "DELETE", &path("a b.csv"))
        .json_with(200)
        .await;
    assert_eq!(deleted["deleted"], true);
    refused(ask(&client, "GET", &path("a b.csv")), 404).await;

    let second = container(&client).await;
    for (query, expected) in [
        ("?limit=1", vec![second.as_str()]),
        ("?order=asc", vec![id, &second]),
        ("?name=none", vec![]),
    ] {
        let listed = ask(&client, "GET", &format!("/containers{query}"));
        let listed = listed.json_with(200).await;
        let ids: Vec<_> = listed["data"].as_array().unwrap().iter().collect();
        let ids: Vec<_> = ids.iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected);
    }
    for query in [
        "?limit=0",
        "?limit=101",
        "?limit=x",
        "?order=up",
        "?after=cntr_1",
    ] {
        refused(ask(&client, "GET", &format!("/containers{query}")), 400).await;
    }
    let one = format!("/containers/{id}");
    assert_eq!(
        ask(&client, "DELETE", &one).json_with(200).await["deleted"],
        true
    );
    refused(ask(&client, "GET", &one), 404).await;
    client
        .delete(&second.replace("cntr_", "/v1/sessions/"))
        .with(204)
        .await;
    refused(ask(&client, "GET", &format!("/containers/{second}")), 404).await;
    world.ends().await;
}

/// Forms, names and options that no client of good will sends.
#[tokio::test]
async fn hostile_uploads_are_refused() {
    let model = ScriptedModel::start([]).unwrap();
    let mut options = on(&model);
    options.session.limits.transfer_bytes = 1 << 20;
    let world = world_with(options).await;
    let client = client(&world, "a").await;
    let id = container(&client).await;
    for name in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "a\u{1}b",
        &"x".repeat(300),
    ] {
        refused(upload(&client, &id, form(name, "x")), 400).await;
    }
    let two = format!(
        "{}{}",
        form("a", "1").trim_end_matches("--\r\n"),
        &form("b", "2")[3..]
    );
    for body in [
        "",
        "--b",
        "no form",
        "--b\r\n\r\n",
        "--b--",
        &two,
        &form("a", "1").replace("\"file\"", "\"x\""),
    ] {
        refused(upload(&client, &id, body.to_owned()), 400).await;
    }
    let files = format!("/containers/{id}/files");
    let by_id = ask(&client, "POST", &files).json(&json!({"file_id": "file-1"}));
    let told = refused(by_id, 400).await;
    assert_eq!(
        told,
        ("unsupported_parameter".into(), Some("file_id".into()))
    );
    refused(upload(&client, &id, form("big", &"x".repeat(2 << 20))), 413).await;
    assert_eq!(paths(&client, &id).await, Vec::<String>::new());
    for wrong in [
        json!({}),
        json!({"name": "a\nb"}),
        json!({"name": "x".repeat(101)}),
        json!({"name": "x", "file_ids": ["file-1"]}),
        json!({"name": "x", "memory_limit": "2g"}),
        json!({"name": "x", "memory_limit": "64g"}),
        json!({"name": "x", "expires_after": {"anchor": "created_at", "minutes": 5}}),
        json!({"name": "x", "expires_after": {"anchor": "last_active_at", "minutes": 0}}),
        json!({"name": "x", "expires_after": {"anchor": "last_active_at", "minutes": u64::MAX}}),
        json!({"name": "x", "network_policy": {"type": "allowlist", "allowed_domains": ["x.org"]}}),
        json!({"name": "x", "network_policy": {"type": "open"}}),
    ] {
        refused(ask(&client, "POST", "/containers").json(&wrong), 400).await;
    }
    for id in [
        "cntr_",
        "cntr_..",
        "x",
        "cntr_%00",
        "resp_1",
        &"x".repeat(9000),
    ] {
        refused(ask(&client, "GET", &format!("/containers/{id}")), 404).await;
        refused(ask(&client, "GET", &format!("/responses/{id}")), 404).await;
    }
    world.ends().await;
}

/// A response in a container: its files go in, the files of the run come out, at both places; and a follow-up continues
/// with the variables, and with a file that was uploaded meanwhile.
#[tokio::test]
async fn a_response_works_in_a_container() {
    let (world, client, model) = desk([
        code("total = sum(int(n) for n in open('/mnt/data/n.txt'))\nopen('sum.txt', 'w').write(str(total))\nprint(total)"),
        answer("The sum is 4217, see sum.txt."),
        code("print(total + int(open('more.txt').read()))"),
        answer("It is 4219."),
    ])
    .await;
    let id = container(&client).await;
    upload(&client, &id, form("n.txt", "4000\n217"))
        .with(200)
        .await;
    let tools = json!([{"type": "code_interpreter", "container": id}]);
    let include = json!(["code_interpreter_call.outputs"]);
    let asked =
        json!({"input": "Sum?", "instructions": "Be brief.", "tools": tools, "include": include});
    let response = respond(&client, &asked).json_with(200).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    let output = response["output"].as_array().unwrap();
    let cell = output
        .iter()
        .find(|item| item["type"] == "code_interpreter_call");
    let cell = cell.unwrap();
    assert_eq!(cell["outputs"], json!([{"type": "logs", "logs": "4217\n"}]));
    assert!(cell["code"].as_str().unwrap().starts_with("total = "));
    let message = output.last().unwrap();
    assert_eq!(
        message["content"][0]["text"],
        "The sum is 4217, see sum.txt."
    );
    let cited = &message["content"][0]["annotations"][0];
    assert_eq!(
        (&cited["start_index"], &cited["end_index"]),
        (&json!(21), &json!(28))
    );
    assert_eq!(cited["filename"], "sum.txt");
    let (of_run, file) = (
        cited["container_id"].as_str().unwrap(),
        cited["file_id"].as_str().unwrap(),
    );
    assert_eq!(content(&client, of_run, file).await, "4217");
    assert_eq!(
        paths(&client, of_run).await,
        ["/mnt/data/n.txt", "/mnt/data/sum.txt"]
    );
    assert_eq!(
        content(&client, of_run, &file_id("n.txt")).await,
        "4000\n217"
    );
    // The container of the response cannot be changed.
    for request in [
        upload(&client, of_run, form("x", "1")),
        ask(&client, "DELETE", &format!("/containers/{of_run}")),
        ask(
            &client,
            "DELETE",
            &format!("/containers/{of_run}/files/{file}"),
        ),
    ] {
        refused(request, 400).await;
    }
    // The one that was given has the file, too.
    assert_eq!(
        paths(&client, &id).await,
        ["/mnt/data/n.txt", "/mnt/data/sum.txt"]
    );
    let shown = ask(&client, "GET", &format!("/containers/{id}/files/{file}"));
    assert_eq!(shown.json_with(200).await["source"], "assistant");

    upload(&client, &id, form("more.txt", "2")).with(200).await;
    let asked =
        json!({"input": "And more?", "previous_response_id": response["id"], "tools": tools});
    let next = respond(&client, &asked).json_with(200).await;
    assert_eq!(next["status"], "completed", "{next:#}");
    assert_eq!(next["previous_response_id"], response["id"]);
    assert!(!next.to_string().contains("\"logs\":\"42"), "{next:#}");
    let asked = model.requests()[2].json().to_string();
    assert!(asked.contains("more.txt (1 bytes)"), "{asked}");

    let path = format!("/responses/{}", response["id"].as_str().unwrap());
    let with = format!("{path}?include[]=code_interpreter_call.outputs");
    assert_eq!(
        ask(&client, "GET", &with).json_with(200).await["output"],
        response["output"]
    );
    assert_eq!(
        ask(&client, "DELETE", &path).json_with(200).await["deleted"],
        true
    );
    refused(ask(&client, "GET", &path), 404).await;
    refused(ask(&client, "GET", &format!("/containers/{of_run}")), 404).await;
    world.ends().await;
}

/// The events of a response, in their order; the same again from the journal, from the first or a later one.
#[tokio::test]
async fn a_response_streams_its_events() {
    let (world, client, _model) = desk([
        Scripted::text("I multiply.\n```python\nopen('x', 'w').write('1')\nprint(6 * 7)\n```"),
        answer("It is 42."),
    ])
    .await;
    let (told, _) = events(respond(&client, &json!({"stream": true}))).await;
    let cell = [
        "output_item.added",
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "output_item.done",
    ];
    let message = [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    let thought = [
        "created",
        "in_progress",
        "output_item.added",
        "output_item.done",
    ];
    let all: Vec<&str> = thought
        .iter()
        .chain(&cell)
        .chain(&message)
        .copied()
        .collect();
    assert_eq!(kinds(&told), all);
    assert_eq!(told[2]["item"]["type"], "reasoning");
    assert_eq!(told[2]["item"]["summary"][0]["text"], "I multiply.");
    for (number, event) in told.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let last = &told.last().unwrap()["response"];
    assert_eq!(last["output"].as_array().unwrap().len(), 3);
    assert_eq!(last["output"][1]["outputs"], Value::Null);
    let path = format!("/responses/{}", last["id"].as_str().unwrap());
    let (again, _) = events(ask(&client, "GET", &format!("{path}?stream=true"))).await;
    let created = |events: &[Value]| {
        let mut events = events.to_vec();
        for event in &mut events {
            event["response"]["created_at"] = 0.into();
        }
        events
    };
    assert_eq!(created(&again), created(&told));
    let rest = format!("{path}?stream=true&starting_after=4");
    let (rest, _) = events(ask(&client, "GET", &rest)).await;
    assert_eq!(created(&rest), created(&told)[5..]);
    refused(
        ask(&client, "GET", &format!("{path}?starting_after=x")),
        400,
    )
    .await;
    world.ends().await;
}

/// Outputs of cells: what was printed, why one failed, images; and the end of the session in a cell.
#[tokio::test]
async fn outputs_tell_what_cells_have_shown() {
    let (world, client, _model) = desk([
        code("1 / 0"),
        code("class Picture:\n    def _repr_png_(self):\n        return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(8)\nPicture()"),
        code("import os\nos._exit(3)"),
        code("print(6 * 7)"),
        answer("It is 42."),
    ])
    .await;
    let include = json!(["code_interpreter_call.outputs"]);
    let response = respond(&client, &json!({"include": include}))
        .json_with(200)
        .await;
    let items = response["output"].as_array().unwrap().iter();
    let cells: Vec<&Value> = items
        .filter(|item| item["type"] == "code_interpreter_call")
        .collect();
    assert_eq!(cells.len(), 4, "{response:#}");
    let logs = |cell: &Value| cell["outputs"][0]["logs"].as_str().unwrap().to_owned();
    assert!(logs(cells[0]).contains("ZeroDivisionError"));
    assert_eq!(cells[0]["status"], "completed");
    let outputs = cells[1]["outputs"].as_array().unwrap().iter();
    let urls: Vec<&Value> = outputs.filter(|one| one["type"] == "image").collect();
    let url = urls[0]["url"].as_str().unwrap();
    assert!(
        url.starts_with("data:image/png;base64,iVBORw0KGgo"),
        "{url}"
    );
    // The log says that a crash cost one cell only.
    assert!(
        logs(cells[2]).contains("Variables are back"),
        "{response:#}"
    );
    assert_eq!(logs(cells[3]), "42\n");
    world.ends().await;
}

/// A container and what is about to come back to it survive a restart of the service.
#[tokio::test]
async fn a_container_survives_a_restart() {
    let script = [
        code("open('made', 'w').write('1')\nprint(42)"),
        answer("It is 42."),
    ];
    let (world, client, model) = desk(script).await;
    let id = container(&client).await;
    let tools = json!([{"type": "code_interpreter", "container": id}]);
    respond(&client, &json!({"tools": tools})).with(200).await;
    let key = client.key.clone();
    let world = world_in(world.ends().await, on(&model)).await;
    let client = world.client_by(key);
    assert_eq!(paths(&client, &id).await, ["/mnt/data/made"]);
    world.ends().await;
}
