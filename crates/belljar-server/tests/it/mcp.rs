//! The Model Context Protocol over HTTP.

use std::time::{Duration, Instant};

use belljar_sandbox::{Engine, EngineSet, Environment};
use belljar_server::{Quota, Scope, ServerOptions};
use belljar_test_model::ScriptedModel;
use reqwest::Method;
use serde_json::json;

use crate::mcp_client::{Mcp, answer, initialize, send};
use crate::quotas::world_of;
use crate::runs::{offering, one_run};
use crate::support::{
    Ask as _, bare, options, taken, until_free, world, world_of_engines, world_with,
};

#[tokio::test]
async fn cells_run_with_state_over_both_revisions() {
    let world = world().await;
    let client = world.client("a").await;
    for mcp in [Mcp::open(&client).await, Mcp::stateless(&client)] {
        let tools = mcp.tools().await;
        assert!(tools.contains(&"run_python".to_owned()), "{tools:?}");
        assert!(!tools.contains(&"ask_agent".to_owned()), "{tools:?}");
        assert_eq!(mcp.prints("x = 6 * 7; print('ok')").await, "ok\n");
        assert_eq!(mcp.prints("print(x)").await, "42\n");
    }
    assert_eq!(taken(&world, "sessions").await, 2);
    // A connection is its own: another one has other variables.
    let other = Mcp::open(&client).await;
    assert_eq!(other.prints("print('x' in globals())").await, "False\n");
    world.ends().await;
}

/// K1: what another tenant's connection or session is called is of no use; without a key there is nothing.
#[tokio::test]
async fn tenants_are_apart() {
    let world = world().await;
    let owner = world.client("a").await;
    let mcp = Mcp::open(&owner).await;
    let made = mcp.call("create_session", json!({})).await;
    let session = made["structuredContent"]["session_id"].as_str().unwrap();

    let other = world.client("b").await;
    let stolen = Mcp {
        client: other.clone(),
        connection: mcp.connection.clone(),
    };
    let absent = Mcp {
        client: other.clone(),
        connection: Some("0".repeat(36)),
    };
    let mut answers = Vec::new();
    for mcp in [&stolen, &absent] {
        let run = json!({"name": "run_python", "arguments": {"code": "1"}});
        let post = mcp.request("tools/call", run).with(404).await;
        let id = mcp.connection.as_ref().unwrap();
        let get = other.get("/mcp").header("accept", "text/event-stream");
        let get = get.header("mcp-session-id", id).with(404).await;
        let delete = other.delete("/mcp").header("mcp-session-id", id);
        let delete = delete.send().await.unwrap();
        let status = delete.status();
        let texts = [post, get, delete].map(reqwest::Response::text);
        let [post, get, delete] = texts;
        answers.push((
            post.await.unwrap(),
            get.await.unwrap(),
            status,
            delete.await.unwrap(),
        ));
    }
    assert_eq!(answers[0], answers[1]);
    // It is still there for its owner.
    assert_eq!(mcp.prints("print(1)").await, "1\n");

    for theirs in [Mcp::stateless(&other), Mcp::open(&other).await] {
        let cell = json!({"code": "1", "session_id": session});
        let refused = theirs.call("run_python", cell).await;
        assert_eq!(refused["isError"], true, "{refused:#}");
        assert!(!refused.to_string().contains(session), "{refused:#}");
    }

    for key in ["", "Bearer bj_00000000_0"] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let request = owner.request(method, "/mcp").json(&initialize());
            let request = request.header("authorization", key);
            request.problem(401, "unauthorized").await;
        }
    }
    let runs = world.client_with("a", &[Scope::Runs]).await;
    send(&runs, &initialize())
        .problem(403, "scope_missing")
        .await;
    world.ends().await;
}

/// A page of another site, and a name that leads here, get nothing.
#[tokio::test]
async fn other_sites_are_refused() {
    let world = world_with(options(|options| {
        options.hosts = vec!["belljar.example".into()];
    }))
    .await;
    let client = world.client("a").await;
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://",
        "https://evil.example@localhost",
        "http://localhost:3000",
    ] {
        let request = send(&client, &initialize()).header("origin", origin);
        request.problem(403, "wrong_origin").await;
    }
    send(&client, &initialize())
        .header("origin", "https://belljar.example")
        .with(200)
        .await;
    let request = send(&client, &initialize()).header("host", "evil.example");
    request.problem(421, "wrong_host").await;
    world.ends().await;
}

/// A session over the protocol chooses one of the service's environments, and has its package policy.
#[tokio::test]
async fn options_are_those_of_the_service() {
    let other = Environment::from_python(bare().python()).unwrap();
    let name = other.name().to_owned();
    let engine = |environment| Engine::builder(environment).build();
    let engines = || EngineSet::new(engine(bare()), [engine(other.clone())]);
    let data = tempfile::tempdir().unwrap();
    let world = world_of_engines(engines, data, ServerOptions::default()).await;
    let client = world.client("a").await;
    for mcp in [Mcp::open(&client).await, Mcp::stateless(&client)] {
        let made = mcp
            .call("create_session", json!({"environment": name}))
            .await;
        let id = &made["structuredContent"]["session_id"];
        assert!(id.is_string(), "{made:#}");
        let refused = mcp
            .call("create_session", json!({"environment": "none"}))
            .await;
        let words = refused["content"][0]["text"].as_str().unwrap();
        assert!(
            words.contains(&format!("there are: bare, {name}")),
            "{words}"
        );
        let code = json!({"code": "# requires: humanize\n1", "session_id": id});
        let refused = mcp.call("run_python", code).await;
        let words = refused["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("`humanize` is not allowed"), "{words}");
        let missing = mcp.call("run_python", json!({"code": "import yaml"})).await;
        assert!(
            missing
                .to_string()
                .contains("belljar serve --packages pyyaml"),
            "{missing:#}"
        );
    }
    world.ends().await;
}

/// Commands are there in both revisions, within the quotas of the tenant.
#[tokio::test]
async fn commands_count_as_cells_do() {
    let quotas = [(Quota::OutputBytes, 10_000)];
    let world = world_of(&quotas, ServerOptions::default()).await;
    let client = world.client("a").await;
    for mcp in [Mcp::open(&client).await, Mcp::stateless(&client)] {
        let ran = mcp
            .call("run_command", json!({"command": "echo $((6 * 7))"}))
            .await;
        assert_eq!(
            ran["structuredContent"]["stdout"]["text"], "42\n",
            "{ran:#}"
        );
    }
    let mcp = Mcp::open(&client).await;
    mcp.call("run_command", json!({"command": "head -c 20000 /dev/zero"}))
        .await;
    // It is counted once the command is known to have ended.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let refused = mcp.call("run_command", json!({"command": "true"})).await;
        if refused["isError"] == true {
            let words = refused["content"][0]["text"].as_str().unwrap();
            assert!(words.contains("quota `output_bytes`"), "{words}");
            break;
        }
        assert!(Instant::now() < deadline, "the output is not counted");
    }
    world.ends().await;
}

/// What is open over the protocol counts as what its tenant has.
#[tokio::test]
async fn places_are_those_of_the_tenant() {
    let world = world_with(options(|options| options.tenant_sessions = 2)).await;
    let client = world.client("a").await;
    let mcp = Mcp::open(&client).await;
    mcp.prints("1").await;
    client.session().await;
    let refused = mcp.call("create_session", json!({})).await;
    assert_eq!(refused["isError"], true);
    let words = refused["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("quota `sessions`"), "{words}");
    let forks = mcp.call("fork_session", json!({"count": 2})).await;
    assert_eq!(forks["isError"], true, "{forks:#}");
    let stateless = Mcp::stateless(&client)
        .call("run_python", json!({"code": "1"}))
        .await;
    assert_eq!(stateless["isError"], true, "{stateless:#}");
    client
        .post("/v1/sessions", json!({}))
        .problem(429, "too_many_sessions")
        .await;
    // Another tenant has its own.
    Mcp::open(&world.client("b").await).await.prints("1").await;

    // Connections are bounded, too.
    let second = Mcp::open(&client).await;
    send(&client, &initialize())
        .problem(429, "too_many_sessions")
        .await;
    for ended in [&mcp, &second] {
        let id = ended.connection.as_ref().unwrap();
        let request = client.delete("/mcp").header("mcp-session-id", id);
        request.with(204).await;
        ended.request("tools/list", json!({})).with(404).await;
    }
    // Its session ended with it.
    let deadline = Instant::now() + Duration::from_secs(5);
    while client
        .post("/v1/sessions", json!({}))
        .send()
        .await
        .unwrap()
        .status()
        != 201
    {
        assert!(Instant::now() < deadline, "the place is not given back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.ends().await;
}

#[tokio::test]
async fn what_is_not_used_ends() {
    let options = options(|options| {
        options.mcp_idle = Duration::from_secs(2);
        options.session.limits.wall_time = Duration::from_secs(5);
    });
    let world = world_with(options).await;
    let client = world.client("a").await;
    let mcp = Mcp::open(&client).await;
    mcp.prints("x = 1").await;
    Mcp::stateless(&client).prints("x = 1").await;
    assert_eq!(taken(&world, "sessions").await, 2);
    until_free(&world, "sessions").await;
    until_free(&world, "connections").await;
    mcp.request("tools/list", json!({})).with(404).await;
    assert_eq!(
        Mcp::stateless(&client)
            .prints("print('x' in globals())")
            .await,
        "False\n"
    );
    world.ends().await;
}

/// K9: all that was opened with a key ends with it.
#[tokio::test]
async fn a_revoked_key_ends_what_it_opened() {
    let world = world().await;
    let client = world.client("a").await;
    let mcp = Mcp::open(&client).await;
    mcp.prints("1").await;
    Mcp::stateless(&client).prints("1").await;
    let id = mcp.connection.clone().unwrap();
    let get = client.get("/mcp").header("accept", "text/event-stream");
    let stream = get.header("mcp-session-id", id).with(200).await;
    let cell = json!({"name": "run_python", "arguments": {"code": "import time; time.sleep(20)"}});
    let running = tokio::spawn(async move {
        let response = mcp.request("tools/call", cell).send().await.unwrap();
        response.text().await
    });
    while taken(&world, "cells").await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world
        .server
        .tenants()
        .revoke(&client.key.info.prefix)
        .await
        .unwrap();
    let cut = async {
        let _ = stream.bytes().await;
        let _ = running.await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(6), cut)
        .await
        .expect("the streams go on");
    for kind in ["sessions", "connections", "cells", "streams", "requests"] {
        until_free(&world, kind).await;
    }
    send(&client, &initialize())
        .problem(401, "unauthorized")
        .await;
    world.ends().await;
}

/// A cell that runs may end, nothing new begins, and a stream that waits for ever is no reason to wait.
#[tokio::test]
async fn a_service_that_stops_lets_cells_end() {
    let mut world = world().await;
    let client = world.client("a").await;
    let mcp = Mcp::open(&client).await;
    let id = mcp.connection.clone().unwrap();
    let get = client.get("/mcp").header("accept", "text/event-stream");
    let stream = get.header("mcp-session-id", &id).with(200).await;
    let cell = json!({"name": "run_python", "arguments": {"code": "import time; time.sleep(1.5); print('done')"}});
    let request = mcp.request("tools/call", cell);
    let running = tokio::spawn(async move { answer(request.send().await.unwrap()).await });
    while taken(&world, "cells").await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = world.stop.take().unwrap().send(());
    tokio::time::sleep(Duration::from_millis(200)).await;
    mcp.request("tools/list", json!({}))
        .problem(503, "draining")
        .await;
    let answer = running.await.unwrap();
    assert_eq!(
        answer["result"]["structuredContent"]["stdout"]["text"], "done\n",
        "{answer:#}"
    );
    let ended = tokio::time::timeout(Duration::from_secs(8), world.task).await;
    ended.expect("the service did not stop").unwrap().unwrap();
    let _ = stream.bytes().await;
}

/// K6: a message has as many bytes as any other body.
#[tokio::test]
async fn large_and_broken_messages_are_refused() {
    let world = world().await;
    let client = world.client("a").await;
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(9 << 20)});
    send(&client, &large).problem(413, "body_too_large").await;
    for body in ["", "{", "[]", "null", &"[".repeat(100_000)] {
        let request = client.request(Method::POST, "/mcp").body(body.to_owned());
        let request = request.header("accept", "application/json, text/event-stream");
        let response = request
            .header("content-type", "application/json")
            .send()
            .await
            .unwrap();
        assert!(
            response.status().is_client_error(),
            "{body:.20}: {}",
            response.status()
        );
    }
    let response = client.request(Method::PUT, "/mcp").send().await.unwrap();
    assert_eq!(response.status(), 405);
    assert_eq!(taken(&world, "connections").await, 0);
    world.ends().await;
}

/// An agent is there where the service has a model and the key may begin runs.
#[tokio::test]
async fn an_agent_is_offered_where_there_is_one() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let without = world.client("a").await;
    assert!(
        !Mcp::open(&without)
            .await
            .tools()
            .await
            .contains(&"ask_agent".into())
    );
    let client = world.client_with("a", &Scope::ALL).await;
    let mcp = Mcp::open(&client).await;
    assert!(mcp.tools().await.contains(&"ask_agent".into()));
    let result = mcp.call("ask_agent", json!({"task": "Do it."})).await;
    let run = result["structuredContent"]["run"].as_str();
    let run = run.unwrap_or_else(|| panic!("{result:#}"));
    // It is a run of the tenant.
    let shown = client.get(&format!("/v1/runs/{run}")).json_with(200).await;
    assert_eq!(shown["task"], "Do it.", "{shown:#}");
    world.ends().await;
}
