//! The isolation of sessions: what a request may choose, and that no way in leads below a tenant's least.
//!
//! Sessions without walls are the weaker tier here: they need nothing of the host. Those of gVisor and containers are at the end.

use std::path::Path;
use std::time::Duration;

use belljar_sandbox::{ContainerSpec, Engine, EngineSet, Environment, EnvironmentStore};
use belljar_server::{Scope, ServerOptions};
use belljar_test_model::{Recorded, ScriptedModel};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::jupyter_client::{ask as jupyter, kernel};
use crate::mcp_client::Mcp;
use crate::runs::{answer, client, code, offering, one_run};
use crate::support::{Ask as _, Client, World, bare, options, soon, world_of_engines};

fn full() -> Engine {
    Engine::builder(bare()).build()
}

fn open() -> Engine {
    Engine::builder(bare()).without_walls().build()
}

/// The default is without walls; `full` can be chosen.
async fn tiers_in(data: TempDir, options: ServerOptions) -> World {
    world_of_engines(|| EngineSet::new(open(), [full()]), data, options).await
}

async fn tiers(options: ServerOptions) -> World {
    tiers_in(tempfile::tempdir().unwrap(), options).await
}

/// Everything that a service can answer, with a model.
fn all(model: &ScriptedModel) -> ServerOptions {
    ServerOptions {
        e2b: true,
        jupyter: true,
        openai: true,
        ..offering(model)
    }
}

async fn set_least(world: &World, least: Value) {
    let admin = world.admin(&[Scope::Admin]).await;
    let path = "/v1/admin/tenants/a/isolation";
    let shown = admin.post(path, json!({"least": least}));
    let shown = shown.json_with(200).await;
    assert_eq!(shown["least_isolation"], least, "{shown:#}");
}

/// Code that prints whether it sees the host.
fn sees_host(data: &Path) -> String {
    let data = data.join("tenants.sqlite");
    let data = data.display();
    format!("import os\nprint('sees', os.path.exists('{data}'))")
}

async fn session(client: &Client, asked: Value) -> (String, Value) {
    let view = client.post("/v1/sessions", asked).json_with(201).await;
    let path = format!("/v1/sessions/{}", view["id"].as_str().unwrap());
    (path, view["isolation"].clone())
}

fn e2b(client: &Client, method: Method, path: &str) -> RequestBuilder {
    let request = client.without_key(method, &format!("/e2b{path}"));
    request.header("x-api-key", &client.key.text)
}

fn openai(client: &Client, method: Method, path: &str) -> RequestBuilder {
    client.request(method, &format!("/openai/v1{path}"))
}

/// The isolation of each session of the tenant.
async fn isolation_of_all(client: &Client) -> Vec<String> {
    let list = client.get("/v1/sessions").json_with(200).await;
    let sessions = list["sessions"].as_array().unwrap().iter();
    let isolation = sessions.map(|session| session["isolation"].as_str().unwrap().to_owned());
    isolation.collect()
}

/// What it is to the client of a run: its isolation, and all that its events say.
async fn of_run(client: &Client, run: &str) -> (Value, String) {
    let ended = client.until(run, "answered").await;
    let events = client.events(run, 0).await.rest().await;
    let events = events.iter().map(|event| event.data.to_string());
    (ended["isolation"].clone(), events.collect())
}

#[tokio::test]
async fn a_session_chooses_its_isolation() {
    let world = tiers(ServerOptions::default()).await;
    let client = world.client("a").await;
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["environments"], json!(["bare"]));
    let tiers = me["isolation"].as_array().unwrap();
    let names: Vec<_> = tiers.iter().map(|tier| &tier["name"]).collect();
    assert_eq!(names, ["none", "full"]);
    assert_eq!(tiers[0]["capabilities"], json!(["packages", "watches"]));
    assert_eq!(tiers[1]["environments"], json!(["bare"]));
    let can = tiers[1]["capabilities"].as_array().unwrap();
    for ability in ["checkpoints", "forks", "allow_lists", "exact_peak"] {
        assert!(can.contains(&ability.into()), "{can:?}");
    }

    let look = sees_host(world.data.path());
    let (weak, isolation) = session(&client, json!({})).await;
    assert_eq!(isolation, "none");
    assert_eq!(client.run(&weak, "1").await["walls"], "none");
    assert_eq!(client.printed(&weak, &look).await, "sees True\n");
    let (strong, isolation) = session(&client, json!({"isolation": "full"})).await;
    assert_eq!(isolation, "full");
    assert_eq!(client.run(&strong, "x = 42").await["walls"], Value::Null);
    assert_eq!(client.printed(&strong, &look).await, "sees False\n");
    let forks = client.post(&format!("{strong}/fork"), json!({}));
    let forks = forks.json_with(201).await;
    assert_eq!(forks["sessions"][0]["isolation"], "full");
    for name in ["gvisor", "container", "unfiltered", "Full", "", "x"] {
        let asked = json!({"isolation": name});
        let refused = client.post("/v1/sessions", asked);
        let refused = refused.problem(400, "isolation_not_offered").await;
        let detail = "it offers none, full for environment `bare`";
        assert_eq!(refused["detail"], detail, "{name}");
    }
    for wrong in [json!(7), json!(["full"]), json!({"name": "full"})] {
        let asked = json!({"isolation": wrong});
        let refused = client.post("/v1/sessions", asked);
        refused.problem(400, "bad_body").await;
    }

    // A snapshot is not bound to where it was made.
    let snapshot = client.get(&format!("{strong}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    let load = |query: &str| {
        let path = format!("/v1/sessions/from-snapshot{query}");
        let request = client.request(Method::POST, &path);
        let kind = "application/vnd.belljar.snapshot";
        request.header("content-type", kind).body(snapshot.clone())
    };
    for (query, isolation) in [("", "none"), ("?isolation=full", "full")] {
        let view = load(query).json_with(201).await;
        assert_eq!(view["isolation"], isolation);
        let path = format!("/v1/sessions/{}", view["id"].as_str().unwrap());
        assert_eq!(client.printed(&path, "print(x)").await, "42\n");
    }
    let refused = load("?isolation=gvisor");
    refused.problem(400, "isolation_not_offered").await;
    world.ends().await;
}

/// With a least isolation no way in leads below it, whether it names one or not.
#[tokio::test]
async fn no_way_in_leads_below_the_least() {
    let data = tempfile::tempdir().unwrap();
    let look = sees_host(data.path());
    let of_runs = look.clone();
    let model = ScriptedModel::react(move |request: &Recorded| {
        // What the code has printed, and not the code.
        if request.json().to_string().contains("sees False") {
            answer("Looked.")
        } else {
            code(&of_runs)
        }
    });
    let model = model.unwrap();
    let world = tiers_in(data, all(&model)).await;
    let client = client(&world, "a").await;
    set_least(&world, json!("full")).await;
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["isolation"].as_array().unwrap().len(), 1);
    assert_eq!(me["isolation"][0]["name"], "full");

    let weak = || json!({"isolation": "none"});
    let refused = client.post("/v1/sessions", weak());
    let refused = refused.problem(403, "isolation_too_weak").await;
    let detail = "the least isolation is `full`; environment `bare` has: none, full";
    assert_eq!(refused["detail"], detail);
    let (path, _) = session(&client, json!({})).await;
    assert_eq!(client.printed(&path, &look).await, "sees False\n");
    let snapshot = client.get(&format!("{path}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    for (query, status) in [("?isolation=none", 403), ("", 201)] {
        let load = format!("/v1/sessions/from-snapshot{query}");
        let load = client.request(Method::POST, &load).body(snapshot.clone());
        let load = load.header("content-type", "application/vnd.belljar.snapshot");
        load.with(status).await;
    }

    let task = |isolation: Value| json!({"task": "Look.", "isolation": isolation});
    let refused = client.post("/v1/runs", task(json!("none")));
    refused.problem(403, "isolation_too_weak").await;
    let run = client.start(task(Value::Null)).await;
    let (isolation, told) = of_run(&client, &run).await;
    assert_eq!(isolation, "full");
    assert!(told.contains("sees False"), "{told}");

    // These name none.
    let sandbox = json!({"templateID": "base"});
    let sandbox = e2b(&client, Method::POST, "/v2/sandboxes").json(&sandbox);
    sandbox.with(201).await;
    kernel(&client).await;
    let container = json!({"name": "one"});
    let container = openai(&client, Method::POST, "/containers").json(&container);
    container.with(200).await;
    let isolation = isolation_of_all(&client).await;
    assert_eq!(isolation, ["full"; 5], "{isolation:?}");
    let messages = json!([{"role": "user", "content": "Look."}]);
    let chat = json!({"model": "belljar", "messages": messages});
    let chat = openai(&client, Method::POST, "/chat/completions").json(&chat);
    chat.with(200).await;
    let runs = client.get("/v1/runs").json_with(200).await;
    let newest = format!("/v1/runs/{}", runs["runs"][0]["id"].as_str().unwrap());
    assert_ne!(newest, run);
    let (isolation, told) = of_run(&client, &newest).await;
    assert_eq!(isolation, "full");
    assert!(told.contains("sees False"), "{told}");

    for mcp in [Mcp::open(&client).await, Mcp::stateless(&client)] {
        assert_eq!(mcp.prints(&look).await, "sees False\n");
        for (tool, mut arguments) in [
            ("create_session", json!({})),
            ("ask_agent", json!({"task": "Look."})),
        ] {
            arguments["isolation"] = "none".into();
            let refused = mcp.call(tool, arguments.clone()).await;
            assert_eq!(refused["isError"], true, "{refused:#}");
            let text = refused["content"][0]["text"].as_str().unwrap();
            let words = "The least isolation is `full`; environment `bare` has: none, full.";
            assert_eq!(text, words);
            arguments["isolation"] = "full".into();
            let done = mcp.call(tool, arguments).await;
            assert_ne!(done["isError"], true, "{done:#}");
        }
    }
    let answered = client.get("/v1/runs").json_with(200).await;
    for run in answered["runs"].as_array().unwrap() {
        let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
        let (isolation, told) = of_run(&client, &path).await;
        assert_eq!(isolation, "full");
        assert!(told.contains("sees False"), "{told}");
    }
    // It is that of one tenant.
    let other = world.client("b").await;
    assert_eq!(session(&other, json!({})).await.1, "none");
    world.ends().await;
}

/// A session that was there before its tenant got a least isolation is of no use below it, however it is reached; it
/// can be looked at and ended. Without the least isolation it continues.
#[tokio::test]
async fn what_was_there_before_is_held_too() {
    let model = ScriptedModel::react(one_run).unwrap();
    let options = all(&model);
    let data = tempfile::tempdir().unwrap();
    let world = world_of_engines(full, data, options).await;
    let client = client(&world, "a").await;
    let (path, _) = session(&client, json!({"checkpoints": "every"})).await;
    client.run(&path, "x = 42").await;
    let (asleep, _) = session(&client, json!({})).await;
    client.run(&asleep, "y = 43").await;
    let hibernate = client.post(&format!("{asleep}/hibernate"), json!({}));
    hibernate.with(200).await;
    let run = client.start(json!({"task": "Write."})).await;
    client.until(&run, "answered").await;
    let waiting = client.waiting_run().await;
    let sandbox = json!({"templateID": "base"});
    let sandbox = e2b(&client, Method::POST, "/v2/sandboxes").json(&sandbox);
    let sandbox = sandbox.json_with(201).await;
    let kernel = kernel(&client).await;
    let mcp = Mcp::open(&client).await;
    let made = mcp.call("create_session", json!({})).await;
    let made = made["structuredContent"]["session_id"].clone();

    // No engine here is as strong.
    set_least(&world, json!("gvisor")).await;
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["isolation"], json!([]));
    let code = || json!({"code": "print(1)"});
    for path in [&path, &asleep] {
        for request in [
            client.post(&format!("{path}/cells"), code()),
            client.post(&format!("{path}/commands"), json!({"argv": ["true"]})),
            client.post(&format!("{path}/wake"), json!({})),
            client.post(&format!("{path}/fork"), json!({})),
            client.post(&format!("{path}/restore"), json!({"cell": 1})),
            client.post(&format!("{path}/checkpoints"), json!({"name": "a"})),
            client.get(&format!("{path}/snapshot")),
            client.put(&format!("{path}/files/a"), "a"),
            client.get(&format!("{path}/files")),
        ] {
            let refused = request.problem(403, "isolation_too_weak").await;
            let detail = "it is `full`, and must be at least `gvisor`";
            assert_eq!(refused["detail"], detail, "{path}");
        }
        client.get(path).with(200).await;
        client
            .post(&format!("{path}/interrupt"), json!({}))
            .with(200)
            .await;
    }
    for request in [
        client.post("/v1/sessions", json!({})),
        client.post("/v1/runs", json!({"task": "Write."})),
        client.post(&format!("{run}/follow-up"), json!({"task": "Write."})),
        client.post(&format!("{run}/branch"), json!({"step": 1})),
    ] {
        request.problem(403, "isolation_too_weak").await;
    }
    let id = sandbox["sandboxID"].as_str().unwrap();
    let token = sandbox["envdAccessToken"].as_str().unwrap();
    let execute = client.without_key(Method::POST, "/e2b/execute");
    let execute = execute.header("e2b-sandbox-id", id);
    let execute = execute.header("x-access-token", token).json(&code());
    execute.with(403).await;
    let connect = e2b(&client, Method::POST, &format!("/sandboxes/{id}/connect"));
    connect.json(&json!({"timeout": 60})).with(403).await;
    let restart = jupyter(&client, "POST", &format!("/api/kernels/{kernel}/restart"));
    restart.with(403).await;
    let call_tool = async |tool: &str, arguments: Value| {
        let result = mcp.call(tool, arguments).await;
        (result["isError"] == true, result.to_string())
    };
    let of_session = json!({"code": "1", "session_id": made});
    let (refused, text) = call_tool("run_python", of_session).await;
    assert!(
        refused && text.contains("gvisor is the least now"),
        "{text}"
    );
    let (refused, text) = call_tool("run_python", json!({"code": "1"})).await;
    assert!(refused && text.contains("The least isolation is"), "{text}");
    let (refused, text) = call_tool("ask_agent", json!({"task": "Write."})).await;
    assert!(refused && text.contains("The least isolation is"), "{text}");
    let (refused, text) = call_tool("close_session", json!({"session_id": made})).await;
    assert!(!refused, "{text}");
    client.delete(&path).with(204).await;
    e2b(&client, Method::DELETE, &format!("/sandboxes/{id}"))
        .with(204)
        .await;
    // What a person approves is not run.
    let asked = &client.get(&waiting).json_with(200).await["waits_for"][0];
    let accept = json!({"kind": "accept", "rest_of_run": false});
    let decided = client.decide(&waiting, asked, &asked["hash"], accept);
    decided.with(204).await;
    soon(async || client.get(&waiting).json_with(200).await["state"] == "ended").await;
    let events = client.events(&waiting, 0).await.rest().await;
    let told: String = events.iter().map(|event| event.data.to_string()).collect();
    assert!(!told.contains("it is written"), "{told}");

    // Over a restart as well.
    let data = world.ends().await;
    let world = world_of_engines(full, data, all(&model)).await;
    let client = world.client_by(client.key.clone());
    let view = client.get(&asleep).json_with(200).await;
    assert_eq!(
        (&view["state"], &view["isolation"]),
        (&json!("hibernated"), &json!("full"))
    );
    let cell = client.post(&format!("{asleep}/cells"), code());
    cell.problem(403, "isolation_too_weak").await;
    set_least(&world, Value::Null).await;
    assert_eq!(client.printed(&asleep, "print(y)").await, "43\n");
    world.ends().await;
}

/// A run that is running when its tenant gets a least isolation above it runs no more code.
#[tokio::test]
async fn a_run_ends_below_the_least() {
    let model = ScriptedModel::start([
        code("print('fir' + 'st')"),
        code("print('sec' + 'ond')").slow_first_byte(Duration::from_secs(3)),
        answer("Done."),
    ]);
    let model = model.unwrap();
    let data = tempfile::tempdir().unwrap();
    let world = world_of_engines(full, data, offering(&model)).await;
    let client = client(&world, "a").await;
    let run = client.start(json!({"task": "Print."})).await;
    soon(async || model.requests().len() == 2).await;
    set_least(&world, json!("gvisor")).await;
    soon(async || client.get(&run).json_with(200).await["state"] == "ended").await;
    let events = client.events(&run, 0).await.rest().await;
    let told: String = events.iter().map(|event| event.data.to_string()).collect();
    assert!(
        told.contains("first\\n") && !told.contains("second\\n"),
        "{told}"
    );
    world.ends().await;
}

/// A session keeps its isolation over a restart, whatever the default is then; and is lost where it is not offered.
#[tokio::test]
async fn a_restart_keeps_the_isolation() {
    let world = tiers(ServerOptions::default()).await;
    let client = world.client("a").await;
    let (path, _) = session(&client, json!({"isolation": "full"})).await;
    client.run(&path, "x = 42").await;
    let data = world.ends().await;
    let world = tiers_in(data, ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    assert_eq!(client.get(&path).json_with(200).await["isolation"], "full");
    assert_eq!(client.printed(&path, "print(x)").await, "42\n");
    let look = sees_host(world.data.path());
    assert_eq!(client.printed(&path, &look).await, "sees False\n");
    let data = world.ends().await;
    let world = world_of_engines(open, data, ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    let view = client.get(&path).json_with(200).await;
    assert_eq!(view["state"], "ended");
    let why = "the service no longer offers its environment `bare` with isolation `full`";
    assert_eq!(view["lost_because"], why);
    world.ends().await;
}

#[tokio::test]
async fn admins_set_the_least_isolation() {
    let world = tiers(ServerOptions::default()).await;
    let admin = world.admin(&[Scope::Admin]).await;
    let path = "/v1/admin/tenants/a/isolation";
    for wrong in ["none", "unfiltered", "vm", ""] {
        let refused = admin.post(path, json!({"least": wrong}));
        refused.problem(400, "bad_body").await;
    }
    admin
        .post("/v1/admin/tenants/-/isolation", json!({"least": "full"}))
        .problem(400, "bad_request")
        .await;
    let not_admin = world.client_with("a", &[Scope::Sessions]).await;
    not_admin
        .post(path, json!({"least": null}))
        .problem(404, "route_not_found")
        .await;
    set_least(&world, json!("full")).await;
    let shown = admin.get("/v1/admin/tenants/a").json_with(200).await;
    assert_eq!(shown["least_isolation"], "full");
    set_least(&world, Value::Null).await;
    let audit = admin.get("/v1/admin/audit").json_with(200).await;
    let set = audit["events"].as_array().unwrap().iter();
    let set = set.filter(|event| event["act"] == "isolation_set");
    let set: Vec<_> = set.map(|event| &event["detail"]).collect();
    assert_eq!(set, ["none", "full"]);
    // By another program: within two seconds.
    let tenants = world.server.tenants();
    let a = "a".parse().unwrap();
    let least = belljar_sandbox::protocol::Walls::Full;
    tenants.set_least_isolation(&a, Some(least)).await.unwrap();
    let client = world.client("a").await;
    soon(async || session(&client, json!({})).await.1 == "full").await;
    world.ends().await;
}

/// With gVisor beside full walls, as a service offers it. `.ci/containers gvisor` runs it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_is_chosen_and_required() {
    let model = ScriptedModel::start([
        code("import os\nprint(os.uname().release)"),
        answer("Looked."),
    ]);
    let model = model.unwrap();
    let gvisor = || Engine::builder(bare()).gvisor().build();
    let started = async |data| {
        let engines = || EngineSet::new(full(), [gvisor()]);
        let with = options(|options| options.runs = offering(&model).runs);
        world_of_engines(engines, data, with).await
    };
    let world = started(tempfile::tempdir().unwrap()).await;
    let client = client(&world, "a").await;
    let me = client.get("/v1/me").json_with(200).await;
    let can = json!(["checkpoints", "resource_limits", "exact_peak"]);
    assert_eq!(me["isolation"][1]["name"], "gvisor");
    assert_eq!(me["isolation"][1]["capabilities"], can);
    let (plain, isolation) = session(&client, json!({})).await;
    assert_eq!(isolation, "full");
    let release = "import os\nprint(os.uname().release)";
    let host = client.printed(&plain, release).await;
    let (path, isolation) = session(&client, json!({"isolation": "gvisor"})).await;
    assert_eq!(isolation, "gvisor");
    assert_eq!(client.run(&path, "x = 42").await["walls"], "gvisor");
    let kernel = client.printed(&path, release).await;
    assert_ne!(kernel, host);
    client
        .post(&format!("{path}/fork"), json!({}))
        .problem(409, "not_forked")
        .await;
    set_least(&world, json!("gvisor")).await;
    let cell = client.post(&format!("{plain}/cells"), json!({"code": "1"}));
    cell.problem(403, "isolation_too_weak").await;
    let run = client.start(json!({"task": "Look."})).await;
    let (isolation, told) = of_run(&client, &run).await;
    assert_eq!(isolation, "gvisor");
    assert!(told.contains(kernel.trim()), "{told}");
    let data = world.ends().await;
    let world = started(data).await;
    let client = world.client_by(client.key.clone());
    let woken = client.run(&path, "print(x)").await;
    assert_eq!(woken["stdout"]["text"], "42\n", "{woken:#}");
    assert_eq!(woken["walls"], "gvisor");
    world.ends().await;
}

/// With an image beside full walls, as a service offers it: a tenant that needs more can't choose it. `.ci/containers`
/// runs it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_is_chosen_and_refused() {
    let model = ScriptedModel::start([code("print('sum', 40 + 2)"), answer("It is 42.")]);
    let model = model.unwrap();
    let spec = ContainerSpec {
        address: Some(std::env::var("BELLJAR_TEST_ENGINE").unwrap()),
        certificates: std::env::var_os("BELLJAR_TEST_CERTIFICATES").map(Into::into),
        runtime: std::env::var("BELLJAR_TEST_RUNTIME").ok(),
    };
    let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
    let image = Environment::from_image(&spec, &image, None).await.unwrap();
    let kept = tempfile::tempdir().unwrap();
    let store = EnvironmentStore::open(kept.path());
    store.keep_image("analysis", image).unwrap();
    let started = async |data| {
        let image = || Engine::builder(store.load("analysis").unwrap()).build();
        let engines = || EngineSet::new(full(), [image()]);
        let with = options(|options| options.runs = offering(&model).runs);
        world_of_engines(engines, data, with).await
    };
    let world = started(tempfile::tempdir().unwrap()).await;
    let client = client(&world, "a").await;
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["environments"], json!(["bare", "analysis"]));
    let tier = &me["isolation"][1];
    assert_eq!(tier["name"], "container", "{me:#}");
    assert_eq!(tier["environments"], json!(["analysis"]));
    assert_eq!(session(&client, json!({})).await.1, "full");
    let asked = json!({"isolation": "container"});
    let refused = client.post("/v1/sessions", asked);
    let refused = refused.problem(400, "isolation_not_offered").await;
    assert_eq!(refused["detail"], "it offers full for environment `bare`");
    let (path, isolation) = session(&client, json!({"environment": "analysis"})).await;
    assert_eq!(isolation, "container");
    assert_eq!(client.run(&path, "x = 42").await["walls"], "container");
    let fork = client.post(&format!("{path}/fork"), json!({}));
    fork.problem(409, "not_forked").await;
    let run = json!({"task": "Sum.", "environment": "analysis"});
    let (isolation, told) = of_run(&client, &client.start(run).await).await;
    assert_eq!(isolation, "container");
    assert!(told.contains("sum 42"), "{told}");

    // A snapshot is loaded into a container again.
    let snapshot = client.get(&format!("{path}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    let kind = "application/vnd.belljar.snapshot";
    let load = client.request(
        Method::POST,
        "/v1/sessions/from-snapshot?environment=analysis",
    );
    let load = load.header("content-type", kind).body(snapshot);
    let loaded = load.json_with(201).await;
    assert_eq!(loaded["isolation"], "container");
    let loaded = format!("/v1/sessions/{}", loaded["id"].as_str().unwrap());
    assert_eq!(client.printed(&loaded, "print(x)").await, "42\n");
    let hibernate = client.post(&format!("{loaded}/hibernate"), json!({}));
    hibernate.with(200).await;
    let woken = client.run(&loaded, "print(x + 1)").await;
    assert_eq!(woken["stdout"]["text"], "43\n", "{woken:#}");
    assert_eq!(woken["walls"], "container");

    set_least(&world, json!("full")).await;
    let me = client.get("/v1/me").json_with(200).await;
    assert_eq!(me["isolation"].as_array().unwrap().len(), 1, "{me:#}");
    for request in [
        client.post("/v1/sessions", json!({"environment": "analysis"})),
        client.post(
            "/v1/runs",
            json!({"task": "Sum.", "environment": "analysis"}),
        ),
        client.post(&format!("{path}/cells"), json!({"code": "1"})),
    ] {
        request.problem(403, "isolation_too_weak").await;
    }
    set_least(&world, Value::Null).await;

    let data = world.ends().await;
    let world = started(data).await;
    let client = world.client_by(client.key.clone());
    let woken = client.run(&path, "print(x)").await;
    assert_eq!(woken["stdout"]["text"], "42\n", "{woken:#}");
    assert_eq!(woken["walls"], "container");
    world.ends().await;
}
