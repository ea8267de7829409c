//! What a tenant may use in a day and at once, and that it is counted through restarts.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_server::{Quota, Scope, ServerOptions, Tenants};
use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::mcp_client::Mcp;
use crate::runs::{code, offering, one_run};
use crate::spread::tenants;
use crate::support::{Ask as _, Client, World, options, soon, world_in};

/// A service whose tenant `a` has these quotas.
pub(crate) async fn world_of(quotas: &[(Quota, u64)], options: ServerOptions) -> World {
    let data = tempfile::tempdir().unwrap();
    let tenants = tenants(data.path()).await;
    set(&tenants, quotas).await;
    drop(tenants);
    world_in(data, options).await
}

async fn set(tenants: &Tenants, quotas: &[(Quota, u64)]) {
    let changes: BTreeMap<_, _> = quotas
        .iter()
        .map(|(quota, amount)| (*quota, Some(*amount)))
        .collect();
    let set = tenants.set_quotas(&"a".parse().unwrap(), &changes).await;
    set.unwrap();
}

/// The quota that a refusal names.
pub(crate) async fn refused(request: reqwest::RequestBuilder, name: &str) -> Value {
    let response = request.with(429).await;
    let after: u64 = response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["quota"]["name"], name, "{problem:#}");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    if let Some(resets) = problem["quota"]["resets_at"].as_u64() {
        assert_eq!(resets % (24 * 60 * 60), 0, "{problem:#}");
        assert!(resets.abs_diff(now + after) <= 2, "{problem:#}");
    }
    problem
}

/// K4: of 500 creations at once, with a quota of 10, exactly 10 succeed.
#[tokio::test]
async fn a_quota_of_sessions_holds_for_500_creations_at_once() {
    let quotas = [(Quota::Sessions, 10), (Quota::CreatesPerSecond, 10_000)];
    let world = world_of(&quotas, ServerOptions::default()).await;
    let client = world.client("a").await;
    let tasks: Vec<_> = (0..500)
        .map(|_| {
            let request = client.post("/v1/sessions", json!({}));
            tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
        })
        .collect();
    let mut counts = BTreeMap::new();
    for task in tasks {
        *counts.entry(task.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts, [(201, 10), (429, 490)].into());
    let response = client.get("/v1/sessions").with(200).await;
    let policy = response.headers()["ratelimit-policy"].to_str().unwrap();
    assert!(policy.contains("\"sessions\";q=10,"), "{policy}");
    let problem = refused(client.post("/v1/sessions", json!({})), "sessions").await;
    assert_eq!(problem["code"], "too_many_sessions");
    assert_eq!(
        (&problem["quota"]["used"], &problem["quota"]["limit"]),
        (&json!(10), &json!(10))
    );
    // Another process raises it.
    let tenants = tenants(world.data.path()).await;
    set(&tenants, &[(Quota::Sessions, 11)]).await;
    soon(async || {
        let request = client.post("/v1/sessions", json!({}));
        request.send().await.unwrap().status() == 201
    })
    .await;
    world.ends().await;
}

#[tokio::test]
async fn memory_of_sessions_together_is_bounded() {
    let quotas = [(Quota::MemoryBytes, 300 << 20)];
    let world = world_of(&quotas, ServerOptions::default()).await;
    let client = world.client("a").await;
    let create = || {
        client.post(
            "/v1/sessions",
            json!({"limits": {"memory_bytes": 128 << 20}}),
        )
    };
    let first = create().json_with(201).await;
    let path = format!("/v1/sessions/{}", first["id"].as_str().unwrap());
    create().with(201).await;
    let problem = refused(create(), "memory_bytes").await;
    assert_eq!(problem["code"], "quota_exceeded");
    assert_eq!(problem["quota"]["used"], 256 << 20);
    refused(
        client.post(&format!("{path}/fork"), json!({})),
        "memory_bytes",
    )
    .await;
    client.delete(&path).with(204).await;
    create().with(201).await;
    world.ends().await;
}

#[tokio::test]
async fn requests_have_a_rate() {
    let world = world_of(&[(Quota::RequestsPerSecond, 2)], ServerOptions::default()).await;
    let (client, other) = (world.client("a").await, world.client("b").await);
    let mut refusals = 0;
    for _ in 0..12 {
        let response = client.get("/v1/sessions").send().await.unwrap();
        refusals += u32::from(response.status() == 429);
        other.get("/v1/sessions").with(200).await;
    }
    assert!(refusals >= 4, "{refusals}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.get("/v1/sessions").with(200).await;
    world.ends().await;
}

/// What cells use is counted, ends when there is no more, and is not forgotten by a restart.
#[tokio::test]
async fn what_cells_use_is_counted_through_a_restart() {
    let quotas = [(Quota::OutputBytes, 1000), (Quota::CpuMs, 3_600_000)];
    let world = world_of(&quotas, ServerOptions::default()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client
        .run(
            &session,
            "sum(i * i for i in range(2_000_000))\nprint('x' * 499)",
        )
        .await;
    let response = client.get(&session).with(200).await;
    let left = response.headers()["ratelimit"].to_str().unwrap();
    assert!(left.contains("\"output_bytes\";r=500;t="), "{left}");
    let cpu = left.split("\"cpu_ms\";r=").nth(1).unwrap();
    let cpu: u64 = cpu.split(';').next().unwrap().parse().unwrap();
    assert!((3_500_000..3_599_990).contains(&cpu), "{left}");
    // What has begun may end.
    client.run(&session, "print('x' * 999)").await;
    let again = || client.post(&format!("{session}/cells"), json!({"code": "1"}));
    let problem = refused(again(), "output_bytes").await;
    assert_eq!(problem["code"], "quota_exceeded");
    assert_eq!(problem["quota"]["used"], 1500);
    refused(client.post("/v1/sessions", json!({})), "output_bytes").await;
    // Nobody else is kept from anything, and what is there can be looked at.
    let other = world.client("b").await;
    let theirs = other.session().await;
    other.run(&theirs, "print(1)").await;
    client.get(&session).with(200).await;

    let data = world.ends().await;
    let world = world_in(data, ServerOptions::default()).await;
    let client = world.client("a").await;
    let problem = refused(client.post("/v1/sessions", json!({})), "output_bytes").await;
    assert_eq!(problem["quota"]["used"], 1500);
    world.ends().await;
}

/// A service that dies has forgotten no more than the last seconds.
#[tokio::test]
async fn what_was_used_is_on_disk_soon() {
    let world = world_of(&[], ServerOptions::default()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "print('x' * 99)").await;
    let tenants = tenants(world.data.path()).await;
    let today = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / (24 * 60 * 60);
    soon(async || {
        let spent = tenants.spent(i64::try_from(today).unwrap()).await.unwrap();
        let spent = spent.get(&"a".parse().unwrap());
        spent.is_some_and(|spent| spent[&Quota::OutputBytes] == 100 && spent[&Quota::Events] == 3)
    })
    .await;
    world.ends().await;
}

async fn runner(world: &World) -> Client {
    let scopes = [Scope::Sessions, Scope::Runs];
    world.client_with("a", &scopes).await
}

/// A run gets no more tokens than the tenant has left, and says so; then there is no other.
#[tokio::test]
async fn a_run_ends_with_the_tokens_of_its_tenant() {
    let model = ScriptedModel::react(|_| code("print(6 * 7)").usage(1000, 100, 0)).unwrap();
    let world = world_of(&[(Quota::Tokens, 1100)], offering(&model)).await;
    let client = runner(&world).await;
    let run = client.start(json!({"task": "Go on."})).await;
    let ended = client.until(&run, "ended").await;
    assert_eq!(ended["budget"]["tokens"], 1100);
    assert_eq!(
        ended["reason"],
        json!({"kind": "budget", "part": "tokens"}),
        "{ended:#}"
    );
    let problem = refused(client.post("/v1/runs", json!({"task": "Again."})), "tokens").await;
    assert!(problem["quota"]["used"].as_u64().unwrap() >= 1100);
    // Sessions need no tokens.
    client.session().await;
    world.ends().await;
}

/// Runs that go on share what their tenant has left: they are ended with the best answer that they have.
#[tokio::test]
async fn a_run_is_ended_where_its_tenant_has_no_more() {
    let model = ScriptedModel::react(|_| {
        Scripted::text("```python\nimport time; time.sleep(0.2); print('x' * 400)\n```")
    })
    .unwrap();
    let world = world_of(&[(Quota::OutputBytes, 1000)], offering(&model)).await;
    let client = runner(&world).await;
    let runs = [
        client.start(json!({"task": "One."})).await,
        client.start(json!({"task": "Two."})).await,
    ];
    for run in runs {
        let ended = client.until(&run, "ended").await;
        assert_eq!(ended["reason"]["kind"], "stopped", "{ended:#}");
        assert!(ended["spent"]["steps"].as_u64().unwrap() <= 4, "{ended:#}");
    }
    refused(
        client.post("/v1/runs", json!({"task": "Three."})),
        "output_bytes",
    )
    .await;
    world.ends().await;
}

#[tokio::test]
async fn runs_on_disk_are_bounded() {
    let model = ScriptedModel::react(one_run).unwrap();
    let mut options = options(|_| {});
    options.runs = offering(&model).runs;
    let world = world_of(&[(Quota::DiskBytes, 10_000)], options).await;
    let client = runner(&world).await;
    let run = client.start(json!({"task": "Write."})).await;
    client.until(&run, "answered").await;
    let problem = refused(
        client.post("/v1/runs", json!({"task": "Again."})),
        "disk_bytes",
    )
    .await;
    assert!(problem["quota"]["used"].as_u64().unwrap() > 10_000);
    world.ends().await;
}

/// What a tenant has on disk beside its runs: sleeping sessions, uploads and downloads on their way.
#[tokio::test]
async fn hibernated_sessions_and_uploads_count_towards_disk() {
    let world = world_of(&[(Quota::DiskBytes, 3_000_000)], ServerOptions::default()).await;
    let (client, admin) = (world.client("a").await, world.admin(&Scope::ALL).await);
    let on_disk = async || {
        let shown = admin.get("/v1/admin/tenants/a").json_with(200).await;
        shown["used"]["disk_bytes"].as_u64().unwrap()
    };
    let none = json!({});
    let (one, two) = (client.session().await, client.session().await);
    client
        .run(&one, "import os\nx = os.urandom(2_000_000)")
        .await;
    client
        .run(&two, "open('data', 'wb').write(bytes(2_000_000))")
        .await;
    assert_eq!(on_disk().await, 0);
    let hibernate = client.post(&format!("{one}/hibernate"), none.clone());
    let bytes = hibernate.json_with(200).await["bytes"].as_u64().unwrap();
    assert!(bytes > 2_000_000, "{bytes}");
    assert_eq!(on_disk().await, bytes);

    // Each of these needs two million bytes more.
    refused(
        client.post(&format!("{two}/hibernate"), none.clone()),
        "disk_bytes",
    )
    .await;
    refused(client.get(&format!("{two}/snapshot")), "disk_bytes").await;
    refused(client.get(&format!("{two}/archive")), "disk_bytes").await;
    let upload = || client.put(&format!("{two}/files/up"), vec![7; 2_000_000]);
    let problem = refused(upload(), "disk_bytes").await;
    assert_eq!(problem["quota"]["used"], bytes, "{problem:#}");
    assert_eq!(problem["quota"]["limit"], 3_000_000);
    // What is refused costs nothing, and the session is as it was.
    assert_eq!(on_disk().await, bytes);
    let left = "import os; print(os.listdir())";
    assert_eq!(client.printed(&two, left).await, "['data']\n");

    // A session that wakes gives its space back.
    client
        .post(&format!("{one}/wake"), none.clone())
        .with(204)
        .await;
    assert_eq!(on_disk().await, 0);
    upload().with(204).await;
    let archive = client.get(&format!("{two}/snapshot"));
    refused(archive, "disk_bytes").await;
    client.delete(&format!("{two}/files/up")).with(204).await;
    let archive = client.get(&format!("{two}/archive")).with(200).await;
    assert!(archive.bytes().await.unwrap().len() > 2_000_000);
    soon(async || on_disk().await == 0).await;
    // One that is deleted while it sleeps, too.
    client
        .post(&format!("{two}/hibernate"), none)
        .with(200)
        .await;
    assert!(on_disk().await > 2_000_000);
    client.delete(&two).with(204).await;
    soon(async || on_disk().await == 0).await;
    world.ends().await;
}

/// Ways to a new run.
const WAYS: [&str; 4] = ["create", "follow-up", "branch", "ask_agent"];

/// A tenant with a run that has ended, and its connection of MCP.
struct Desk {
    world: World,
    client: Client,
    admin: Client,
    mcp: Mcp,
    parent: String,
    _model: ScriptedModel,
}

impl Desk {
    async fn new() -> Self {
        let model = ScriptedModel::react(|request| one_run(request).usage(100, 10, 0)).unwrap();
        let world = world_of(&[], offering(&model)).await;
        let client = runner(&world).await;
        let parent = client.start(json!({"task": "Write."})).await;
        client.until(&parent, "answered").await;
        Self {
            admin: world.admin(&Scope::ALL).await,
            mcp: Mcp::open(&client).await,
            world,
            client,
            parent,
            _model: model,
        }
    }

    async fn quotas(&self, quotas: Value) {
        let path = "/v1/admin/tenants/a/quotas";
        let set = self.admin.post(path, json!({"quotas": quotas}));
        set.with(200).await;
    }

    /// What is left of a quota for today.
    async fn left(&self, quota: &str) -> u64 {
        let response = self.client.get(&self.parent).with(200).await;
        let left = response.headers()["ratelimit"].to_str().unwrap().to_owned();
        let of_quota = left.split(&format!("\"{quota}\";r=")).nth(1);
        let of_quota = of_quota.unwrap_or_else(|| panic!("{left}"));
        of_quota.split(';').next().unwrap().parse().unwrap()
    }

    fn ask(&self, way: &str) -> reqwest::RequestBuilder {
        let parent = &self.parent;
        match way {
            "create" => self.client.post("/v1/runs", json!({"task": "Go."})),
            "follow-up" => {
                let path = format!("{parent}/follow-up");
                self.client.post(&path, json!({"task": "Go on."}))
            }
            "branch" => {
                let path = format!("{parent}/branch");
                self.client.post(&path, json!({"step": 1}))
            }
            way => panic!("{way}"),
        }
    }

    async fn ask_agent(&self) -> Value {
        let asked = json!({"task": "Do it."});
        self.mcp.call("ask_agent", asked).await
    }
}

/// However a run begins, it gets no more tokens and money than its tenant has left, and what it uses is counted.
#[tokio::test]
async fn every_way_to_a_run_gets_what_is_left() {
    let desk = Desk::new().await;
    desk.quotas(json!({"tokens": 5000, "money_micros": 2_000_000}))
        .await;
    for way in WAYS {
        let left = desk.left("tokens").await;
        let id = if way == "ask_agent" {
            desk.ask_agent().await["structuredContent"]["run"].clone()
        } else {
            desk.ask(way).json_with(202).await["id"].clone()
        };
        let run = format!("/v1/runs/{}", id.as_str().unwrap());
        // Some of them run no code.
        let has_answered = async || {
            let shown = desk.client.get(&run).json_with(200).await;
            ["answered", "unverified"].contains(&shown["state"].as_str().unwrap())
        };
        soon(has_answered).await;
        let shown = desk.client.get(&run).json_with(200).await;
        assert_eq!(shown["budget"]["tokens"], left, "{way}: {shown:#}");
        assert_eq!(shown["budget"]["money"], 2.0, "{way}: {shown:#}");
        let used = 110 * shown["spent"]["steps"].as_u64().unwrap();
        assert_eq!(desk.left("tokens").await, left - used, "{way}");
    }
    desk.world.ends().await;
}

#[tokio::test]
async fn no_way_leads_to_a_run_where_the_disk_is_full() {
    let desk = Desk::new().await;
    desk.quotas(json!({"disk_bytes": 1})).await;
    let runs = async || {
        let listed = desk.client.get("/v1/runs").json_with(200).await;
        listed["runs"].as_array().unwrap().len()
    };
    for way in WAYS {
        if way == "ask_agent" {
            let result = desk.ask_agent().await;
            assert_eq!(result["isError"], true, "{result:#}");
            assert!(result.to_string().contains("`disk_bytes`"), "{result:#}");
        } else {
            refused(desk.ask(way), "disk_bytes").await;
        }
        assert_eq!(runs().await, 1, "{way}");
    }
    desk.world.ends().await;
}

/// A run whose budget was raised is stopped all the same where its tenant has no more.
#[tokio::test]
async fn a_raised_budget_is_no_way_around_a_quota() {
    let model = ScriptedModel::react(|_| code("print(6 * 7)").usage(600, 60, 0)).unwrap();
    let world = world_of(&[(Quota::Tokens, 1500)], offering(&model)).await;
    let client = runner(&world).await;
    let asked = json!({"task": "Go on.", "approvals": "always"});
    let run = client.start(asked).await;
    client.until(&run, "waits").await;
    let raised = client.post(&format!("{run}/budget"), json!({"tokens": 1_000_000}));
    assert_eq!(raised.json_with(200).await["budget"]["tokens"], 1_000_000);
    let never = json!({"approvals": "never"});
    client.post(&format!("{run}/policy"), never).with(200).await;
    let waits = client.until(&run, "waits").await["waits_for"][0].clone();
    let accept = json!({"kind": "accept"});
    let decided = client.decide(&run, &waits, &waits["hash"], accept);
    decided.with(204).await;
    let ended = client.until(&run, "ended").await;
    assert_eq!(ended["reason"]["kind"], "stopped", "{ended:#}");
    assert!(ended["spent"]["steps"].as_u64().unwrap() <= 4, "{ended:#}");
    world.ends().await;
}

/// Cells over MCP are cells of the tenant.
#[tokio::test]
async fn what_cells_of_mcp_use_is_counted() {
    let desk = Desk::new().await;
    desk.quotas(json!({"output_bytes": 1000, "events": 1000}))
        .await;
    let (output, events) = (desk.left("output_bytes").await, desk.left("events").await);
    desk.mcp.prints("print('x' * 99)").await;
    assert_eq!(desk.left("output_bytes").await, output - 100);
    assert!(desk.left("events").await < events);
    desk.mcp.prints("print('x' * 999)").await;
    let again = desk.mcp.call("run_python", json!({"code": "1"})).await;
    assert_eq!(again["isError"], true, "{again:#}");
    assert!(again.to_string().contains("`output_bytes`"), "{again:#}");
    desk.world.ends().await;
}
